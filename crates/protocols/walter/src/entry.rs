//! The entries of the log of a local site, and the pages of the state that they lead to.
//!
//! Every fact that another site or a client may rely on is an entry: that a transaction has committed here, that one of another site was received
//! or has committed here, a lock, a refusal.

use std::sync::Arc;

use quorate_core::transaction::Value;
use quorate_core::{ClockTime, Key, ShardId, TransactionId};

use crate::histories::{Count, Placed, Read, Update};
use crate::message::{Ending, Period};
use crate::removal::{End, Frozen, Removal};
use crate::vector::{LocalSite, Vector, VersionNumber};

/// A transaction that has committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The name that its client has given it.
    pub transaction: TransactionId,
    /// Its name from here on.
    pub version: VersionNumber,
    /// Its snapshot.
    pub snapshot: Vector,
    /// Its updates.
    pub updates: Vec<Update>,
    /// True if other sites have locked the registers that it writes (*slow commit*).
    pub is_slow: bool,
}

impl Commit {
    /// The registers that it writes.
    pub(crate) fn registers(&self) -> impl Iterator<Item = &Key> {
        registers(&self.updates)
    }

    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        const FIXED: usize = 96;
        /// The bytes around a key.
        const FRAMING: usize = 24;
        let update = |update: &Update| {
            FRAMING
                + match update {
                    Update::Write { key, value } => key.len() + value.as_ref().map_or(0, Value::len),
                    Update::Add { set, element, .. } => set.len() + element.len(),
                    Update::Place { name, container } => {
                        name.len()
                            + 8 * container.as_ref().map_or(0, |container| container.replicas.sites.len())
                    }
                    Update::Noted { object, .. } => object.len(),
                }
        };
        FIXED + 8 * self.snapshot.numbers().len() + self.updates.iter().map(update).sum::<usize>()
    }
}

/// The registers that updates write.
pub(crate) fn registers(updates: &[Update]) -> impl Iterator<Item = &Key> {
    updates.iter().filter_map(|update| match update {
        Update::Write { key, .. } | Update::Noted { object: key, writes: true } => Some(key),
        Update::Add { .. } | Update::Place { .. } | Update::Noted { .. } => None,
    })
}

/// An entry of the log of a local site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A transaction commits at this site.
    Commit(Arc<Commit>),
    /// A transaction of this site's client does not commit and never will.
    Refused(TransactionId),
    /// Transactions of another site have come, in the order of their numbers and causes before effects. They take effect, and no snapshot
    /// includes them yet.
    Received(Vec<Arc<Commit>>),
    /// This site goes on without others that were taken out: from here on it takes nothing from them. The ends of those that are new
    /// here are open.
    Freeze(Vec<Removal>),
    /// The end of a site that was taken out is settled: what it has done beyond that is abandoned.
    Removed {
        /// The site.
        site: LocalSite,
        /// Its end.
        end: End,
    },
    /// Sites have joined, in this order: what the last of them may lack is kept here from now on, and it is told what is new.
    Join(Vec<ShardId>),
    /// A page of the state of another site, which a site adopts that joins.
    Adopt {
        /// Its number, from zero. The first one begins the state anew.
        number: u32,
        /// True if it is the last: this site has all that the other one had.
        is_last: bool,
        /// The page.
        page: Page,
    },
    /// A site that joins has what the others have agreed to abandon: it is not ready, and gives its state up for that of another one.
    Anew {},
    /// Of the other sites so many transactions have committed here: snapshots include them from here on.
    Advance(Vector),
    /// Registers whose preferred site this is are locked for a transaction that another site coordinates.
    Locked {
        /// The transaction.
        transaction: TransactionId,
        /// The site that coordinates it.
        origin: LocalSite,
        /// The registers, ascending.
        keys: Vec<Key>,
    },
    /// The transaction was aborted: its locks go.
    Released(TransactionId),
    /// A period ends, and a floor rises.
    Floor {
        /// Every snapshot that may still be read includes this, at every site.
        floor: Vector,
        /// Messages that name this period, or an earlier one, are refused from here on, and what has ended by then is forgotten.
        forgotten: Period,
    },
}

/// Roughly how many bytes an entry takes, rather more than less: what goes into one message is chosen by it.
pub(crate) fn bytes(entry: &Entry) -> usize {
    const FIXED: usize = 64;
    match entry {
        Entry::Commit(commit) => FIXED + commit.bytes(),
        Entry::Received(commits) => FIXED + commits.iter().map(|commit| commit.bytes()).sum::<usize>(),
        Entry::Locked { keys, .. } => FIXED + keys.iter().map(|key| 8 + key.len()).sum::<usize>(),
        Entry::Advance(vector) | Entry::Floor { floor: vector, .. } => FIXED + 8 * vector.numbers().len(),
        Entry::Removed { end, .. } => FIXED + 8 * end.barrier.numbers().len(),
        Entry::Freeze(removals) => FIXED + removals.len() * 2 * FIXED,
        Entry::Join(joined) => FIXED + 4 * joined.len(),
        Entry::Adopt { page, .. } => FIXED + page.bytes(),
        Entry::Refused(_) | Entry::Released(_) | Entry::Anew {} => FIXED,
    }
}

/// Roughly how many bytes stand around what users have written.
const FRAMING: usize = 64;

impl Read {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        FRAMING + self.key.len() + self.value.len()
    }
}

impl Count {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        FRAMING + self.set.len() + self.element.len()
    }
}

impl Placed {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        FRAMING + self.name.len() + 8 * self.container.replicas.sites.len()
    }
}

impl Lock {
    /// Roughly how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        FRAMING + self.keys.iter().map(|key| 8 + key.len()).sum::<usize>()
    }
}

impl Ended {
    /// Roughly how many bytes it takes.
    pub(crate) const BYTES: usize = 2 * FRAMING;
}

impl Page {
    /// A page of transactions that the floor does not include.
    pub fn journal(commits: Vec<Arc<Commit>>) -> Self {
        Page::Journal { commits, retained: Vec::new(), horizon: None, stretches: Vec::new() }
    }

    /// A page of transactions that are retained for consumers of changes.
    pub(crate) fn retained(retained: Vec<Arc<Commit>>) -> Self {
        Page::Journal { commits: Vec::new(), retained, horizon: None, stretches: Vec::new() }
    }

    /// Roughly how many bytes it takes.
    fn bytes(&self) -> usize {
        match self {
            Page::Bounds { floor, committed, .. } => {
                FRAMING + 8 * (floor.numbers().len() + committed.numbers().len())
            }
            Page::Registers(registers) => registers.iter().map(Read::bytes).sum(),
            Page::Counts(counts) => counts.iter().map(Count::bytes).sum(),
            Page::Containers(containers) => containers.iter().map(Placed::bytes).sum(),
            Page::Journal { commits, retained, horizon, stretches } => {
                let transactions = commits.iter().chain(retained).map(|commit| commit.bytes());
                let vectors = horizon.iter().chain(stretches.iter().map(|stretch| &stretch.floor));
                transactions.sum::<usize>()
                    + vectors.map(|vector| FRAMING + 8 * vector.numbers().len()).sum::<usize>()
            }
            Page::Removals { removals, .. } => FRAMING + 2 * FRAMING * removals.len(),
            Page::Joined(joined) => FRAMING + 4 * joined.len(),
            Page::Locks(locks) => locks.iter().map(Lock::bytes).sum(),
            Page::Ended(ended) => Ended::BYTES * ended.len(),
            Page::Partial {} => FRAMING,
        }
    }
}

/// A lock on registers whose preferred site this is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The transaction that has it.
    pub transaction: TransactionId,
    /// The site that coordinates it.
    pub origin: LocalSite,
    /// The registers, ascending.
    pub keys: Vec<Key>,
}

/// A part of the transactions that are retained for consumers of changes: those that the floor came to include in a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// When it has risen first, by the clock of the replica that retains it.
    pub since: ClockTime,
    /// When it has risen last.
    pub until: ClockTime,
    /// How far.
    pub floor: Vector,
}

/// How a transaction of this site has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The transaction.
    pub transaction: TransactionId,
    /// How.
    pub ending: Ending,
    /// In which period.
    pub period: Period,
}

/// A part of the state that the entries up to some position have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page {
    /// The bounds of everything.
    Bounds {
        /// The oldest snapshot that can be read: the pages of registers and sets hold what it reads.
        floor: Vector,
        /// The transactions that have committed here.
        committed: Vector,
        /// The present period.
        period: Period,
        /// The last period that is refused.
        forgotten: Period,
    },
    /// Registers that were written, as the floor reads them.
    Registers(Vec<Read>),
    /// Counts of sets, as the floor reads them.
    Counts(Vec<Count>),
    /// Containers that were created, as the floor reads them.
    Containers(Vec<Placed>),
    /// Transactions, of each site in the order of their numbers.
    Journal {
        /// Those that the floor does not include; none in a page of what is retained.
        commits: Vec<Arc<Commit>>,
        /// Those that it includes and that are retained for consumers of changes. An earlier program takes such a page for one without transactions.
        retained: Vec<Arc<Commit>>,
        /// In the first page of what is retained: it is what this does not include.
        horizon: Option<Vector>,
        /// In the same page: the stretches of what is retained, oldest first.
        stretches: Vec<Stretch>,
    },
    /// Sites that were taken out.
    Removals {
        /// All of them.
        removals: Vec<Removal>,
        /// How far this site had come when it went on without the last one.
        frozen: Option<Frozen>,
    },
    /// Sites that have joined, in this order.
    Joined(Vec<ShardId>),
    /// The pages behind this one are those of another site, and not all of them: this site joins, and adopts them.
    Partial {},
    /// The locks.
    Locks(Vec<Lock>),
    /// The endings of transactions.
    Ended(Vec<Ended>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Container, Replicas};

    /// Batches and pages are bounded by it, so whatever makes a transaction longer counts.
    #[test]
    fn a_transaction_takes_more_bytes_the_more_it_says() {
        let commit = |snapshot: &[u64], updates: Vec<Update>| {
            let version = VersionNumber { site: LocalSite(0), seqno: 1 };
            let (transaction, snapshot) = (Default::default(), Vector::new(snapshot.to_vec()));
            Commit { transaction, version, snapshot, updates, is_slow: false }.bytes()
        };
        let key = |length: usize| Key::from("k".repeat(length));
        let write = |key_length, value: Option<usize>| Update::Write {
            key: key(key_length),
            value: value.map(|length| Value::from(vec![0; length])),
        };
        let add = |set, element| Update::Add { set: key(set), element: key(element), by: 1 };
        let place = |name, sites: &[u16]| {
            let replicas = Replicas::of(sites.iter().copied().map(LocalSite));
            let container = Some(Container { preferred: LocalSite(0), replicas, stays: true });
            Update::Place { name: key(name), container }
        };
        let noted = |length| Update::Noted { object: key(length), writes: true };
        let none = commit(&[], vec![]);
        assert_eq!(commit(&[1, 2, 3], vec![]), none + 24, "eight bytes a number");
        let framing = commit(&[], vec![noted(1)]) - none - 1;
        for (updates, bytes) in [
            (vec![write(5, None)], 5),
            (vec![write(5, Some(70))], 75),
            (vec![add(5, 6)], 11),
            (vec![place(5, &[])], 5),
            (vec![place(5, &[0, 2])], 21),
            (vec![noted(9)], 9),
        ] {
            assert_eq!(commit(&[], updates.clone()), none + framing + bytes, "{updates:?}");
            let twice = [updates.clone(), updates].concat();
            assert_eq!(commit(&[4], twice), none + 8 + 2 * (framing + bytes));
        }
    }

    fn key(length: usize) -> Key {
        Key::from("k".repeat(length))
    }

    fn commit(updates: usize) -> Arc<Commit> {
        let version = VersionNumber { site: LocalSite(0), seqno: 1 };
        let noted = Update::Noted { object: key(5), writes: true };
        let (transaction, snapshot) = Default::default();
        Arc::new(Commit { transaction, version, snapshot, updates: vec![noted; updates], is_slow: false })
    }

    fn removal() -> Removal {
        Removal { site: LocalSite(2), successor: LocalSite(0), end: None }
    }

    /// The log bounds by it what it sends at a time, so an entry says how long it is as well.
    #[test]
    fn an_entry_takes_more_bytes_the_more_it_says() {
        let id = TransactionId::default();
        let vector = |length: usize| Vector::new(vec![1; length]);
        let locked = |keys: Vec<Key>| Entry::Locked { transaction: id, origin: LocalSite(1), keys };
        let removed =
            |length| Entry::Removed { site: LocalSite(1), end: End { last: 1, barrier: vector(length) } };
        let floor = |length| Entry::Floor { floor: vector(length), forgotten: Period(1) };
        let adopt = |page: Page| Entry::Adopt { number: 0, is_last: true, page };
        let commits = commit(1).bytes() + commit(3).bytes();
        assert!(commit(3).bytes() > commit(1).bytes());
        for (entry, bytes_beside) in [
            (Entry::Refused(id), 0),
            (Entry::Released(id), 0),
            (Entry::Anew {}, 0),
            (Entry::Commit(commit(3)), commit(3).bytes()),
            (Entry::Received(vec![commit(1), commit(3)]), commits),
            (locked(vec![key(3)]), 11),
            (locked(vec![key(3), key(4)]), 23),
            (Entry::Advance(vector(3)), 24),
            (floor(2), 16),
            (removed(4), 32),
            (Entry::Freeze(vec![removal(), removal()]), 256),
            (Entry::Join(vec![ShardId(7), ShardId(8), ShardId(9)]), 12),
            (adopt(Page::Partial {}), 64),
            (adopt(Page::Joined(vec![ShardId(7)])), 68),
        ] {
            assert_eq!(bytes(&entry), 64 + bytes_beside, "{entry:?}");
        }
    }

    #[test]
    fn a_page_takes_more_bytes_the_more_it_says() {
        let version = VersionNumber { site: LocalSite(0), seqno: 1 };
        let read = |key_length, length: usize| Read {
            key: key(key_length),
            version,
            value: Value::from(vec![0; length]),
        };
        let count = |set, element| Count { set: key(set), element: key(element), count: 1 };
        let placed = |name, sites: &[u16]| {
            let replicas = Replicas::of(sites.iter().copied().map(LocalSite));
            Placed {
                name: key(name),
                version,
                container: Container { preferred: LocalSite(0), replicas, stays: true },
            }
        };
        let transaction = TransactionId::default();
        let lock = |keys: Vec<Key>| Lock { transaction, origin: LocalSite(1), keys };
        let ended = || Ended { transaction, ending: Ending::Aborted, period: Period(1) };
        let bounds = |floor: &[u64], committed: &[u64]| Page::Bounds {
            floor: Vector::new(floor.to_vec()),
            committed: Vector::new(committed.to_vec()),
            period: Period(1),
            forgotten: Period(0),
        };
        let removals = |count| Page::Removals { removals: vec![removal(); count], frozen: None };
        let horizon = |horizon: &[u64], stretches: &[&[u64]]| {
            let vector = |numbers: &[u64]| Vector::new(numbers.to_vec());
            let (since, until) = Default::default();
            let stretches = stretches.iter().map(|floor| Stretch { since, until, floor: vector(floor) });
            let (horizon, stretches) = (Some(vector(horizon)), stretches.collect());
            Page::Journal { commits: vec![], retained: vec![], horizon, stretches }
        };
        for (page, expected) in [
            (bounds(&[], &[]), 64),
            (bounds(&[1, 2], &[1]), 64 + 24),
            (Page::Registers(vec![read(3, 10), read(4, 0)]), 64 + 13 + 64 + 4),
            (Page::Counts(vec![count(3, 4), count(1, 1)]), 64 + 7 + 64 + 2),
            (Page::Containers(vec![placed(3, &[]), placed(1, &[0, 2])]), 64 + 3 + 64 + 1 + 16),
            (Page::journal(vec![commit(1), commit(3)]), commit(1).bytes() + commit(3).bytes()),
            (Page::retained(vec![commit(3)]), commit(3).bytes()),
            (horizon(&[1, 2], &[&[3], &[4, 5]]), 3 * 64 + 8 * (2 + 1 + 2)),
            (removals(0), 64),
            (removals(3), 64 + 3 * 128),
            (Page::Joined(vec![ShardId(7), ShardId(8)]), 64 + 8),
            (Page::Locks(vec![lock(vec![key(3)]), lock(vec![key(1), key(2)])]), 64 + 11 + 64 + 19),
            (Page::Ended(vec![ended(), ended()]), 256),
            (Page::Partial {}, 64),
        ] {
            assert_eq!(page.bytes(), expected, "{page:?}");
        }
    }
}
