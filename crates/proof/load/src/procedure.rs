//! Procedures as interactive transactions, in keyspaces of any isolation, and the keys and values that they work on.

use quorate::{Batch, Error, Isolation, Key, Keyspace, Transaction};
pub use quorate::{Concluded as Ended, Transacted};
use quorate_procedure::{Pair, Procedure};
use tokio::task::JoinSet;

/// Runs a procedure as a transaction: fetches what it reads, puts what it writes, and commits.
///
/// # Errors
/// As [`Keyspace::transact_procedure`].
pub async fn transact(
    keyspace: &Keyspace,
    procedure: &(dyn Procedure + Sync),
    arguments: &[u8],
) -> quorate::Result<Transacted> {
    keyspace.transact_procedure(procedure, arguments).await
}

/// Writes pairs, many at a time, in any order: the population of a keyspace that nobody uses yet.
///
/// # Errors
/// The first transaction that fails.
pub async fn write_pairs(keyspace: &Keyspace, pairs: Vec<Pair>) -> quorate::Result<()> {
    /// Keys in a transaction, and transactions under way.
    const KEYS: usize = 500;
    const UNDER_WAY: usize = 16;
    let mut under_way = JoinSet::new();
    let mut pairs = pairs.into_iter().peekable();
    while pairs.peek().is_some() {
        if under_way.len() >= UNDER_WAY
            && let Some(written) = under_way.join_next().await
        {
            written.map_err(Error::application)??;
        }
        let (keyspace, pairs) = (keyspace.clone(), pairs.by_ref().take(KEYS).collect::<Vec<_>>());
        under_way.spawn(async move { write_at_once(&keyspace, &pairs).await });
    }
    while let Some(written) = under_way.join_next().await {
        written.map_err(Error::application)??;
    }
    Ok(())
}

/// Writes pairs in one transaction, and waits until they are visible at every site.
async fn write_at_once(keyspace: &Keyspace, pairs: &[Pair]) -> quorate::Result<()> {
    if keyspace.isolation() == Isolation::Serializable {
        let batch = pairs.iter().fold(Batch::new(), |batch, (key, value)| batch.put(key, value));
        return keyspace.apply(batch).await.map(drop);
    }
    let put = async |txn: Transaction| pairs.iter().try_for_each(|(key, value)| txn.put(key, value));
    let ((), receipt) = keyspace.transact_with_receipt(put).await?;
    receipt.visible().await
}

/// Reads all keys of a range that nobody writes any more.
///
/// # Errors
/// A read fails.
pub async fn read_pairs(keyspace: &Keyspace, (from, to): (Vec<u8>, Vec<u8>)) -> quorate::Result<Vec<Pair>> {
    const KEYS: u32 = 5_000;
    let mut pairs = Vec::new();
    let mut from = Some(Key::from(from));
    while let Some(start) = from {
        let page = keyspace.scan(&start, &to, KEYS).await?;
        pairs.extend(page.entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        from = page.next;
    }
    Ok(pairs)
}
