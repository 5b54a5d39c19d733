//! Writes where the user is, in a `parallel-snapshot` keyspace, and lets another session read it: it is handed a token of what the first one
//! has seen, and waits at its own site until all of that is there.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example timeline

mod support;

use quorate::{Error, Isolation, Keyspace, Result};

/// Posts something. The set of posts can be changed at any site, and so can the counter; neither waits for another site.
async fn post(timeline: &Keyspace, user: &str, number: &str, text: &str) -> Result<()> {
    timeline
        .transact(async |txn| {
            txn.put(format!("{{{user}}}/post/{number}"), text)?;
            txn.set_add(format!("{{{user}}}/posts"), number)?;
            txn.counter_add(format!("{{{user}}}/count"), 1)
        })
        .await?;
    Ok(())
}

/// How many posts a user has, and the text of one.
async fn read(timeline: &Keyspace, user: &str, number: &str) -> Result<(i64, String)> {
    let txn = timeline.begin().await?;
    let count = txn.counter_get(format!("{{{user}}}/count")).await?;
    let text = txn.get(format!("{{{user}}}/post/{number}")).await?.unwrap_or_default();
    Ok((count, String::from_utf8_lossy(&text).into_owned()))
}

/// How many posts more a second client sees that was handed a token, and the text that it reads.
pub(crate) async fn run(address: &str) -> Result<(i64, String)> {
    let (writer, reader) = (quorate::connect(address).await?, quorate::connect(address).await?);
    let here = support::open(&writer, "timeline", Isolation::ParallelSnapshot).await?;
    let there = reader.keyspace("timeline").await?;
    let (before, _) = read(&here, "alice", "1").await?;
    post(&here, "alice", "1", "It is snowing.").await?;
    // A cookie, a header, a message: text of digits, dots and tildes.
    let token = writer.seen().to_string();
    reader.observe(&token.parse().map_err(Error::application)?).await?;
    let (count, text) = read(&there, "alice", "1").await?;
    writer.close().await;
    reader.close().await;
    Ok((count - before, text))
}

#[tokio::main]
async fn main() -> Result<()> {
    let (more, text) = run(&support::address()).await?;
    println!("the second client sees {more} post more: {text}");
    Ok(())
}
