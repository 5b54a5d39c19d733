//! Finds out what became of a transaction whose client has not heard: its token is noted before the commit, and any process can ask with it.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example outcome

mod support;

use quorate::{Error, Isolation, Outcome, Result, Token};

/// The outcomes of a transaction that was committed, and of one that was left open.
pub(crate) async fn run(address: &str) -> Result<(Outcome, Outcome)> {
    let db = quorate::connect(address).await?;
    let payments = support::open(&db, "payments", Isolation::Strict).await?;

    let mut txn = payments.begin().await?;
    txn.put("payment/1007", "40")?;
    // After the last read and write, and before the commit: a crash from here on leaves no doubt.
    let noted = txn.token().to_string();
    let receipt = txn.commit().await?;

    let open = payments.begin().await?;
    open.put("payment/1008", "2")?;
    let forgotten = open.token();

    // Another process, later.
    let other = quorate::connect(address).await?;
    let token: Token = noted.parse().map_err(Error::application)?;
    let committed = other.outcome(&token).await?;
    if committed != Outcome::Committed(receipt.timestamp) {
        return Err(Error::application("an outcome differs from what its client was told"));
    }
    // To ask settles it: what has not committed by then never will.
    let aborted = other.outcome(&forgotten).await?;
    drop(open);
    other.close().await;
    db.close().await;
    Ok((committed, aborted))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (committed, aborted) = run(&support::address()).await?;
    println!("the first: {committed:?}, the second: {aborted:?}");
    Ok(())
}
