//! Takes orders from a stock that many want, in a `serializable` keyspace: each order is one batch, which the shard carries out in one round
//! and which never meets a conflict.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example stock

mod support;

use quorate::{Applied, Batch, Error, Isolation, Keyspace, Result};

/// Takes an order, and gives how many pens are left; none if there were too few. An order that is taken twice counts once.
async fn order(shop: &Keyspace, number: u32, pens: i64) -> Result<Option<i64>> {
    let batch = Batch::new()
        .expect_at_least("{shop}/pens", pens)
        .expect_absent(format!("{{shop}}/order/{number}"))
        .increment("{shop}/pens", -pens)
        .put(format!("{{shop}}/order/{number}"), format!("{pens} pens"));
    match shop.apply(batch).await? {
        Applied::Done { answers, .. } => Ok(answers[0].number()),
        Applied::Unmet { condition: 0, .. } => Ok(None),
        Applied::Unmet { .. } => Err(Error::application(format!("order {number} was taken before"))),
    }
}

/// The numbers of pens that were left after each of twenty orders that were taken, ascending.
pub(crate) async fn run(address: &str) -> Result<Vec<i64>> {
    let db = quorate::connect(address).await?;
    let shop = support::open(&db, "shop", Isolation::Serializable).await?;
    let old = shop.scan("{shop}", "{shop~", 1_000).await?;
    let clear = old.entries.iter().fold(Batch::new(), |batch, (key, _)| batch.delete(key));
    shop.apply(clear.put("{shop}/pens", "25")).await?;
    let orders: Vec<_> = (0..20)
        .map(|number| {
            let shop = shop.clone();
            tokio::spawn(async move { order(&shop, number, 2).await })
        })
        .collect();
    let mut left = Vec::new();
    for order in orders {
        left.extend(order.await.map_err(Error::application)??);
    }
    left.sort_unstable();
    db.close().await;
    Ok(left)
}

#[tokio::main]
async fn main() -> Result<()> {
    let left = run(&support::address()).await?;
    println!("{} orders were taken, and {} pens are left", left.len(), left.first().copied().unwrap_or(25));
    Ok(())
}
