//! Moves money between accounts of a `strict` keyspace, with a closure that is run again while other transactions are in its way.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example transfer

mod support;

use quorate::{Error, Isolation, Keyspace, Result, Value};

fn balance(value: Option<Value>) -> Result<i64> {
    let Some(value) = value else { return Ok(0) };
    let digits = std::str::from_utf8(&value).map_err(Error::application)?;
    digits.parse().map_err(Error::application)
}

/// Moves an amount, and gives what both accounts hold then. Without enough money nothing is written.
async fn transfer(accounts: &Keyspace, from: &str, to: &str, amount: i64) -> Result<(i64, i64)> {
    accounts
        .transact(async |txn| {
            let (left, right) = (balance(txn.get(from).await?)?, balance(txn.get(to).await?)?);
            if left < amount {
                return Err(Error::application(format!("{from} has {left}, which is less than {amount}")));
            }
            txn.put(from, (left - amount).to_string())?;
            txn.put(to, (right + amount).to_string())?;
            Ok((left - amount, right + amount))
        })
        .await
}

pub(crate) async fn run(address: &str) -> Result<(i64, i64)> {
    let db = quorate::connect(address).await?;
    let accounts = support::open(&db, "accounts", Isolation::Strict).await?;
    accounts
        .transact(async |txn| {
            txn.put("alice", "100")?;
            txn.put("bob", "0")
        })
        .await?;
    // Ten at once: each attempt that another one was in the way of begins again, and none is lost.
    let transfers: Vec<_> = (0..10)
        .map(|_| {
            let accounts = accounts.clone();
            tokio::spawn(async move { transfer(&accounts, "alice", "bob", 9).await })
        })
        .collect();
    for transfer in transfers {
        transfer.await.map_err(Error::application)??;
    }
    if let Err(Error::Application(reason)) = transfer(&accounts, "alice", "bob", 20).await {
        println!("refused: {reason}");
    }
    let both = accounts.read_only(["alice", "bob"]).await?;
    let [alice, bob] = <[_; 2]>::try_from(both).map_err(|_| Error::application("two keys were asked for"))?;
    db.close().await;
    Ok((balance(alice)?, balance(bob)?))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (alice, bob) = run(&support::address()).await?;
    println!("alice has {alice}, and bob has {bob}");
    Ok(())
}
