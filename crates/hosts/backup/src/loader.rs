//! Writes entries into a keyspace: in transactions of bounded size, several at a time.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use quorate::{CutEntry, Isolation, Keyspace, Transaction};
use quorate_core::{Key, Value};
use tokio::task::JoinHandle;

use crate::create::{Progress, bytes_of};
use crate::error::{Error, Result};

/// Entries and bytes of one transaction.
const BATCH_ENTRIES: usize = 1_000;
const BATCH_BYTES: u64 = 1024 * 1024;

/// No longer is waited for the clock: one that is so far behind is wrong.
const AHEAD_MAX: Duration = Duration::from_secs(10);

/// Transactions under way at a time, of one loader.
const BATCHES_UNDER_WAY: usize = 4;

/// One change of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Put(CutEntry),
    /// A value with its envelope.
    PutAsHeld(Key, Value),
    Add(Key, Key, i32),
    Counter(Key, i32),
}

impl Change {
    fn apply(&self, txn: &Transaction) -> quorate::Result<()> {
        match self {
            Change::Put(CutEntry::Value { key, value }) => txn.put(key, value),
            Change::Put(_) => Ok(()),
            Change::PutAsHeld(key, held) => txn.put_as_held(key, held),
            Change::Add(set, element, by) => txn.set_change(set, element, *by),
            Change::Counter(counter, by) => txn.counter_add(counter, *by),
        }
    }

    fn added(&self) -> i64 {
        match self {
            Change::Put(_) | Change::PutAsHeld(..) => 0,
            Change::Add(_, _, by) | Change::Counter(_, by) => i64::from(*by).abs(),
        }
    }
}

/// A number as the numbers that transactions can add.
fn pieces(mut count: i64) -> impl Iterator<Item = i32> {
    std::iter::from_fn(move || {
        let piece = count.clamp(i64::from(-i32::MAX), i64::from(i32::MAX));
        count -= piece;
        i32::try_from(piece).ok().filter(|piece| *piece != 0)
    })
}

#[derive(Debug)]
struct UnderWay {
    mark: u64,
    progress: Progress,
    keys: BTreeSet<Key>,
    task: JoinHandle<quorate::Result<()>>,
}

/// Writes entries, and says up to which of them everything is committed.
#[derive(Debug)]
pub(crate) struct Loader {
    keyspace: Keyspace,
    /// True if values come with their envelopes.
    as_held: bool,
    open: Vec<Change>,
    keys: BTreeSet<Key>,
    progress: Progress,
    added: i64,
    mark: u64,
    under_way: VecDeque<UnderWay>,
    committed: Progress,
    committed_mark: u64,
}

impl Loader {
    /// Loads what a cut has told.
    pub(crate) fn of_cut(keyspace: Keyspace) -> Self {
        let as_held = keyspace.definition().expiring;
        Loader { as_held, ..Loader::new(keyspace) }
    }

    pub(crate) fn new(keyspace: Keyspace) -> Self {
        Loader {
            keyspace,
            as_held: false,
            open: Vec::new(),
            keys: BTreeSet::new(),
            progress: Progress::default(),
            added: 0,
            mark: 0,
            under_way: VecDeque::new(),
            committed: Progress::default(),
            committed_mark: 0,
        }
    }

    /// Everything up to this mark is committed, in the order in which it was added.
    pub(crate) fn committed_mark(&self) -> u64 {
        self.committed_mark
    }

    /// How much is committed.
    pub(crate) fn committed(&self) -> Progress {
        self.committed
    }

    /// Adds an entry, whose mark is greater than that of those before it.
    pub(crate) async fn add(&mut self, entry: CutEntry, mark: u64) -> Result<()> {
        let bytes = bytes_of(&entry);
        match entry {
            CutEntry::Procedure { name, version, code } => {
                self.keyspace.deploy(&name, Some(version), &code).await?;
                self.push(Vec::new(), None, bytes, mark).await
            }
            CutEntry::Value { key, value } if self.as_held => {
                self.push(vec![Change::PutAsHeld(key.clone(), value)], Some(key), bytes, mark).await
            }
            CutEntry::Value { ref key, .. } => {
                let key = key.clone();
                self.push(vec![Change::Put(entry)], Some(key), bytes, mark).await
            }
            CutEntry::Count { set, element, count } => {
                let changes = pieces(count).map(|by| Change::Add(set.clone(), element.clone(), by));
                self.push(changes.collect(), None, bytes, mark).await
            }
            CutEntry::Counter { counter, value } => {
                let changes = pieces(value).map(|by| Change::Counter(counter.clone(), by));
                self.push(changes.collect(), None, bytes, mark).await
            }
        }
    }

    async fn push(&mut self, changes: Vec<Change>, key: Option<Key>, bytes: u64, mark: u64) -> Result<()> {
        if let Some(key) = key {
            // Transactions that are under way at one time end in any order, and the later value of a key is to be the last.
            if self.under_way.iter().any(|batch| batch.keys.contains(&key)) {
                self.await_all().await?;
            }
            self.keys.insert(key);
        }
        for change in changes {
            if self.added + change.added() > i64::from(i32::MAX) {
                // The entry goes on in the next transaction, so it is not committed with this one.
                self.send().await?;
            }
            self.added += change.added();
            self.open.push(change);
        }
        self.progress.entries += 1;
        self.progress.bytes += bytes;
        self.mark = mark;
        if self.open.len() >= BATCH_ENTRIES || self.progress.bytes >= BATCH_BYTES {
            self.send().await?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<()> {
        if self.under_way.len() >= BATCHES_UNDER_WAY {
            self.await_first().await?;
        }
        let (keyspace, changes) = (self.keyspace.clone(), Arc::new(std::mem::take(&mut self.open)));
        self.added = 0;
        let task = tokio::spawn(async move {
            let body = |txn: Transaction| {
                let changes = Arc::clone(&changes);
                async move { changes.iter().try_for_each(|change| change.apply(&txn)) }
            };
            keyspace.transact(body).await
        });
        self.under_way.push_back(UnderWay {
            mark: self.mark,
            progress: std::mem::take(&mut self.progress),
            keys: std::mem::take(&mut self.keys),
            task,
        });
        Ok(())
    }

    async fn await_first(&mut self) -> Result<()> {
        let Some(UnderWay { mark, progress, task, .. }) = self.under_way.pop_front() else { return Ok(()) };
        let ended = task.await;
        ended.map_err(|error| Error::Unsuitable(format!("a transaction has stopped: {error}")))??;
        self.committed.entries += progress.entries;
        self.committed.bytes += progress.bytes;
        self.committed_mark = mark;
        Ok(())
    }

    async fn await_all(&mut self) -> Result<()> {
        while !self.under_way.is_empty() {
            self.await_first().await?;
        }
        Ok(())
    }

    /// Commits all that was added, and waits until clients that begin then read it.
    pub(crate) async fn finish(&mut self) -> Result<()> {
        if self.progress.entries > 0 {
            self.send().await?;
        }
        self.await_all().await?;
        if self.keyspace.definition().isolation == Isolation::Snapshot {
            self.await_clocks().await?;
        }
        Ok(())
    }

    /// Waits until the clock has passed what was committed. Commits of a `snapshot` keyspace that had to pass a silent replica, as those of a keyspace that was just created, lie ahead of
    /// clocks by as much as a grant lasts, and another client would not see them yet.
    async fn await_clocks(&self) -> Result<()> {
        let seen = self.keyspace.scan_with_snapshot(b"", b"", 1).await?.timestamp;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_micros(seen.micros).saturating_sub(now);
        tokio::time::sleep(ahead.min(AHEAD_MAX)).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_divided_into_what_a_transaction_may_add() {
        let divided = |count| pieces(count).collect::<Vec<i32>>();
        assert_eq!(divided(0), Vec::<i32>::new());
        assert_eq!(divided(-7), [-7]);
        let max = i64::from(i32::MAX);
        assert_eq!(divided(2 * max + 5), [i32::MAX, i32::MAX, 5]);
        assert_eq!(divided(-max - 1), [-i32::MAX, -1]);
    }
}
