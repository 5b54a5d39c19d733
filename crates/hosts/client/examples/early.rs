//! Shows the result of an order before it is final, in a `snapshot` keyspace, and hears afterwards whether it has become final.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example early

mod support;

use quorate::{Error, Isolation, Result, Speculated};
use tokio::sync::oneshot;

/// The end of an order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is final, and the customer was told before if the word is true.
    Final { was_shown: bool },
    /// It was shown and taken back: the customer is owed an apology.
    TakenBack,
}

pub(crate) async fn run(address: &str) -> Result<End> {
    let db = quorate::connect(address).await?;
    let shop = support::open(&db, "orders", Isolation::Snapshot).await?;
    let mut txn = shop.begin().await?;
    txn.set_kind("order")?;
    txn.put("order/1", "one book")?;
    let (told, end) = oneshot::channel();
    let order = txn
        .commit_speculatively(
            |info| info.commit_probability > 0.5,
            |order| println!("Thank you! Your order is {}.", order.token()),
            // A program that does not wait any more needs no end.
            move |end| drop(told.send(end)),
        )
        .await?;
    let was_shown = matches!(order, Speculated::Shown(_));
    let end = match end.await.map_err(Error::application)? {
        Ok(_) => End::Final { was_shown },
        Err(Error::ApologyOwed { .. }) => End::TakenBack,
        Err(error) => return Err(error),
    };
    db.close().await;
    Ok(end)
}

#[tokio::main]
async fn main() -> Result<()> {
    match run(&support::address()).await? {
        End::Final { .. } => println!("Your order is confirmed."),
        End::TakenBack => println!("We are sorry: your order was not taken."),
    }
    Ok(())
}
