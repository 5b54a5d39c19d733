//! Procedures as interactive transactions, in keyspaces of any isolation, and the keys and values that they work on.
//!
//! ```text
//!   fetch what the arguments name ──► call ──► done: put its writes, commit
//!                  ▲                   │
//!                  └── fetch that ◄────┘ missed something: see `quorate_procedure::fetched`
//! ```

use quorate::{Batch, Error, Isolation, Key, Keyspace, Receipt, Transaction};
use quorate_procedure::fetched::{Attempt, Called, NeededRange};
use quorate_procedure::{Direction, Needs, Pair, Procedure, Stop};
use tokio::task::JoinSet;

/// So many keys are asked for in one page of a scan.
const PAGE: usize = 1_000;

/// How a transaction has ended that is a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The procedure has done its work, and answers this.
    Done(Vec<u8>),
    /// It refuses, for this reason; nothing was written.
    Refused(Vec<u8>),
}

/// A transaction that is a procedure, and has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transacted {
    /// How the procedure has ended.
    pub ended: Ended,
    /// How often the last attempt has fetched what was missing.
    pub fetches: u32,
    /// The commit. Where nothing was written, it has confirmed what was read.
    pub receipt: Receipt,
}

/// Runs a procedure as a transaction: fetches what it reads, puts what it writes, and commits.
///
/// A refusal is committed like any other transaction that only reads: it is worth no more than what the procedure has read.
///
/// # Errors
/// As [`Keyspace::transact`]; [`Error::Application`] if the procedure fails on what it has read, after a commit has confirmed that.
pub async fn transact(
    keyspace: &Keyspace,
    procedure: &(dyn Procedure + Sync),
    arguments: &[u8],
) -> quorate::Result<Transacted> {
    let body = async |txn: Transaction| {
        let (mut attempt, mut fetches) = (Attempt::default(), 0);
        loop {
            match attempt.next(procedure, arguments) {
                Called::Misses(needs) => {
                    fetches += 1;
                    fetch(&txn, needs, &mut attempt).await?;
                }
                Called::Done { answer, writes } => {
                    for (key, value) in writes {
                        match value {
                            Some(value) => txn.put(key, value)?,
                            None => txn.delete(key)?,
                        }
                    }
                    return Ok((Ok(Ended::Done(answer)), fetches));
                }
                Called::Refused(reason) => return Ok((Ok(Ended::Refused(reason)), fetches)),
                Called::Stopped(stop) => return Ok((Err(stop), fetches)),
            }
        }
    };
    let ((ended, fetches), receipt) = keyspace.transact_with_receipt(body).await?;
    let ended = ended.map_err(|stop| Error::application(Failed { stop }))?;
    Ok(Transacted { ended, fetches, receipt })
}

/// A procedure has failed on what it has read.
#[derive(Debug, thiserror::Error)]
#[error("the procedure fails on what it has read, which is so: {stop:?}")]
struct Failed {
    stop: Stop,
}

/// Reads what is missing.
async fn fetch(txn: &Transaction, needs: Needs, attempt: &mut Attempt) -> quorate::Result<()> {
    let values = txn.get_many(&needs.keys).await?;
    for (key, value) in needs.keys.into_iter().zip(values) {
        attempt.found(key, value.map(|value| value.to_vec()));
    }
    for range in needs.ranges {
        fetch_range(txn, range, attempt).await?;
    }
    Ok(())
}

/// Reads a range, or as much of it as is enough. Scans begin at the least key, so what needs the greatest reads all.
async fn fetch_range(txn: &Transaction, range: NeededRange, attempt: &mut Attempt) -> quorate::Result<()> {
    let NeededRange { mut from, to, limit, direction } = range;
    let mut enough = if direction == Direction::Ascending { limit } else { usize::MAX };
    loop {
        let page = txn.scan(&from, &to, enough.min(PAGE) as u32).await?;
        enough = enough.saturating_sub(page.entries.len());
        let pairs = page.entries.into_iter().map(|(key, value)| (key.to_vec(), value.to_vec()));
        let end = page.next.as_ref().map_or_else(|| to.clone(), |next| next.to_vec());
        attempt.found_range(from, end.clone(), pairs);
        if page.next.is_none() || enough == 0 {
            return Ok(());
        }
        from = end;
    }
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
