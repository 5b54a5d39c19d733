//! Finds keys by a part of their values: people by the city that they live in, through an index of a `strict` keyspace.
//!
//!     quorate dev                      # in another terminal
//!     cargo run --example cities

mod support;

use quorate::{Error, IndexFault, IndexOptions, Invalid, Isolation, Result};

pub(crate) async fn run(address: &str) -> Result<Vec<String>> {
    let db = quorate::connect(address).await?;
    let people = support::open(&db, "people", Isolation::Strict).await?;
    people.put("ada", r#"{"city":"London","languages":["English","French"]}"#).await?;
    people.put("grace", r#"{"city":"New York","languages":["English"]}"#).await?;
    for (name, on) in [("by-city", "json:/city"), ("by-language", "json:/languages")] {
        let options =
            IndexOptions::new(on.parse().map_err(|error| Invalid::Index(IndexFault::Source(error)))?);
        match people.create_index(name, &options, |_| {}).await {
            // An earlier run has created it.
            Err(Error::Invalid(Invalid::Index(IndexFault::Definition(_)))) => {}
            created => created?,
        }
    }
    // From here on the index is kept in the transaction that writes, whichever client that is of.
    people.put("alan", r#"{"city":"London","languages":["English"]}"#).await?;
    let londoners = people.find("by-city", "London", 10).await?;
    let names = |found: &quorate::Indexed| String::from_utf8_lossy(&found.key).into_owned();
    let mut found: Vec<String> = londoners.entries.iter().map(names).collect();
    found.extend(people.find("by-language", "French", 10).await?.entries.iter().map(names));
    if let Err(refused) = people.put("eve", "no JSON").await {
        println!("refused: {refused}");
    }
    db.close().await;
    Ok(found)
}

#[tokio::main]
async fn main() -> Result<()> {
    println!("in London, and then with French: {}", run(&support::address()).await?.join(", "));
    Ok(())
}
