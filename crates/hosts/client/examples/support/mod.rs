//! The beginning of every example: an address, and a keyspace.

use quorate::{Database, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Result};

/// The address of a node: the first argument of the program, or where `quorate dev` listens.
pub(crate) fn address() -> String {
    std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7400".to_owned())
}

/// The keyspace of this name. The first program that asks for it creates it.
pub(crate) async fn open(db: &Database, name: &str, isolation: Isolation) -> Result<Keyspace> {
    match db.keyspace(name).await {
        Err(Error::Invalid(Invalid::NoSuchKeyspace { .. })) => {
            db.create_keyspace(name, KeyspaceOptions::new(isolation)).await
        }
        opened => opened,
    }
}
