//! May this part of a transaction be prepared? Pure decisions over what the replica keeps (TAPIR paper, section 5.1.2).
//!
//! # Why exclusive preparation is strict without clocks
//! A replica that holds a transaction prepared keeps every conflicting one out. A transaction commits only once f + 1
//! replicas of each shard hold it at one time, and any two majorities share a replica. So conflicting transactions are
//! never both held by majorities, every committed transaction has an instant, between its commit call and its outcome,
//! at which all its shards hold it, and conflicting transactions are ordered as these instants are. Timestamps only name
//! versions; no clock can break the order.
//!
//! # Index lists
//! A transaction that writes at a shard with an index list has to have read the list ([`quorate_core::reserved`]). That is asked when a replica votes for
//! the first time, and not in a view change of what may have committed: it was let in before there was a list. A list that is only read keeps no writer of
//! it off, so the order of a transaction and a change of the list is not that of timestamps; of all other keys it is. So in a view change nothing that has read a list
//! speaks against a change of it, nor a change against what has read it: both may have committed, whichever came first. Changes of a list keep each other off, as
//! ever.
//!
//! # Why the serializable variant is serializable
//! Its serial order is that of timestamps. Say T read version v of a key at timestamp t, and W wrote the key at w, between v
//! and t, and both committed. Some replica held both, one after the other. If W came first its effect was there when T
//! was validated, and T had read what was not the newest below t: ABORT. If T came first it had left its read timestamp,
//! t, and W was below that: RETRY. So there is no such W. A view change raises read timestamps and never lowers them, and
//! below the floor, where versions are gone, nothing is let in.

use quorate_core::reserved::{index_lists, is_index_list};
use quorate_core::{ReadVersion, Timestamp, Transaction, TransactionId};
use quorate_store::{Holder, PreparedSet, ReadTimestamps, VersionRef, Versions};

use crate::message::Vote;
use crate::rules::{Plant, Rules, Validation};

/// The state of a replica, as far as validation looks at it.
pub(crate) struct Shelf<'a> {
    pub(crate) versions: &'a Versions,
    pub(crate) reads: &'a ReadTimestamps,
    /// The promises to readers, if they are to bind.
    pub(crate) promised_reads: Option<&'a ReadTimestamps>,
    pub(crate) prepared: &'a PreparedSet,
    /// Deletions below this may have been collected elsewhere, so that readers find the key absent: both are the same.
    pub(crate) deletions: Timestamp,
    /// Below this nothing is missing here, and what was deleted may have been collected.
    pub(crate) floor: Timestamp,
    /// True if index lists bind: not what may have committed before there were any.
    pub(crate) index_lists_bind: bool,
}

impl Shelf<'_> {
    /// True if a committed transaction has overwritten what was read as `read`.
    fn is_overwritten(&self, read: Timestamp, newest: VersionRef<'_>) -> bool {
        let says_absent = newest.is_deletion() && newest.timestamp < self.deletions;
        read < newest.timestamp && !(says_absent && read == Timestamp::ZERO)
    }

    /// True if a key is an index list that does not bind.
    fn passes_over(&self, key: &[u8], rules: Rules) -> bool {
        !self.index_lists_bind && is_index_list(key) && !rules.has(Plant::IndexListRevalidated)
    }

    /// The reads that speak against a transaction if the key has changed since, or is about to be changed.
    fn binding_reads<'a>(
        &'a self,
        transaction: &'a Transaction,
        rules: Rules,
    ) -> impl Iterator<Item = &'a ReadVersion> {
        let is_beside = move |key: &[u8]| self.passes_over(key, rules) && !transaction.writes_key(key);
        transaction.reads.iter().filter(move |read| !is_beside(&read.key))
    }
}

/// Decides a prepare against everything else that this replica knows.
pub(crate) fn validate_prepare(
    shelf: &Shelf<'_>,
    id: TransactionId,
    transaction: &Transaction,
    timestamp: Timestamp,
    rules: Rules,
) -> Vote {
    assert!(
        shelf.index_lists_bind || shelf.promised_reads.is_none(),
        "{id} may have committed, so that no index list binds it, and promises to readers do"
    );
    if has_stale_read(shelf, transaction, timestamp, rules)
        || has_phantom(shelf, transaction, rules)
        || overlooks_index_list(shelf, transaction, rules)
    {
        return Vote::Abort;
    }
    if overlooks_pending_index_list(shelf, id, transaction, rules) {
        return Vote::Abstain;
    }
    let pending = match rules.validation() {
        Validation::Exclusive | Validation::Serializable => {
            has_pending_conflict(shelf, id, transaction, timestamp, rules)
        }
        Validation::Published => has_pending_conflict_by_timestamp(shelf, id, transaction, timestamp),
    };
    if pending {
        return Vote::Abstain;
    }
    let promised = promised_to_readers(shelf, transaction);
    let floor = write_floor(shelf, transaction, rules).max(read_floor(shelf, transaction));
    let spares_equal = rules.has(Plant::WriteAtPromise);
    // A reader at a timestamp has found what lies at it too, and may choose one that is somebody's already.
    let own = Some(timestamp);
    let is_too_low = own < floor || own < promised || own == promised && !spares_equal;
    match promised.max(floor) {
        Some(above) if is_too_low => {
            assert!(above >= timestamp, "{id} is to be prepared above {above}, and was at {timestamp}");
            Vote::Retry(above)
        }
        _ => Vote::Ok,
    }
}

/// A committed transaction has overwritten what was read. (A version above the newest one here is no conflict: this
/// replica missed its commit. Below the floor it has missed none: that version was deleted, and the deletion collected. If that
/// version was a deletion itself, the key is as absent as it was, and the transaction may have succeeded long before.)
/// A key that is read only now cannot be stale. In the serializable variant only versions below the timestamp of the transaction
/// count: what it has read was the newest there.
fn has_stale_read(shelf: &Shelf<'_>, transaction: &Transaction, timestamp: Timestamp, rules: Rules) -> bool {
    let newest = |key: &[u8]| match rules.validation() {
        Validation::Serializable => shelf.versions.at(key, timestamp),
        Validation::Exclusive | Validation::Published => shelf.versions.newest(key),
    };
    let is_stale = |read: &ReadVersion| match newest(&read.key) {
        Some(newest) if newest.timestamp >= read.version => shelf.is_overwritten(read.version, newest),
        older => {
            let is_below = Timestamp::ZERO < read.version && read.version < shelf.floor;
            let is_absent_still = read.deleted && older.is_none_or(|version| version.is_deletion());
            is_below && !is_absent_still && !rules.has(Plant::CollectedDeletionUnseen)
        }
    };
    !transaction.reads_when_prepared && shelf.binding_reads(transaction, rules).any(is_stale)
}

/// A committed transaction has written a key into a range that was scanned without it (T19).
fn has_phantom(shelf: &Shelf<'_>, transaction: &Transaction, rules: Rules) -> bool {
    if rules.has(Plant::UnvalidatedAbsence) {
        return false;
    }
    let seen = |key: &[u8]| transaction.version_read(key).unwrap_or(Timestamp::ZERO);
    let overtaken = |range| {
        let versions = shelf.versions.range(range).filter(|(key, _)| !shelf.passes_over(key, rules));
        versions.into_iter().any(|(key, newest)| shelf.is_overwritten(seen(key), newest))
    };
    transaction.ranges.iter().any(overtaken)
}

/// The shard has an index list that this transaction, which writes here, has not read.
fn overlooks_index_list(shelf: &Shelf<'_>, transaction: &Transaction, rules: Rules) -> bool {
    shelf.index_lists_bind
        && !rules.has(Plant::IndexListOverlooked)
        && transaction.overlooks_index_list()
        && shelf.versions.range(&index_lists()).any(|(_, newest)| !newest.is_deletion())
}

/// The same of an index list that is about to be written.
fn overlooks_pending_index_list(
    shelf: &Shelf<'_>,
    id: TransactionId,
    transaction: &Transaction,
    rules: Rules,
) -> bool {
    shelf.index_lists_bind
        && !rules.has(Plant::IndexListOverlooked)
        && transaction.overlooks_index_list()
        && shelf.prepared.other_writers_in(&index_lists(), id).next().is_some()
}

/// Another prepared transaction reads what this one writes, or writes what this one reads or writes: whichever of them
/// commits first must be known before the other is prepared.
fn has_pending_conflict(
    shelf: &Shelf<'_>,
    id: TransactionId,
    transaction: &Transaction,
    timestamp: Timestamp,
    rules: Rules,
) -> bool {
    let reads = || {
        if rules.has(Plant::SmallestPendingWrite) {
            return transaction.reads.iter().any(|read| {
                let smallest =
                    shelf.prepared.other_writers(&read.key, id).map(|writer| writer.timestamp).min();
                smallest.is_some_and(|writer| read.version < writer && writer < timestamp)
            });
        }
        let mut reads = shelf.binding_reads(transaction, rules);
        reads.any(|read| shelf.prepared.other_writers(&read.key, id).next().is_some())
    };
    let written = |range| {
        let mut keys = shelf.prepared.keys_written_in(range).filter(|key| !shelf.passes_over(key, rules));
        keys.any(|key| shelf.prepared.other_writers(key, id).next().is_some())
    };
    let ranges = || !rules.has(Plant::UnvalidatedAbsence) && transaction.ranges.iter().any(written);
    let writes = || {
        transaction.writes.iter().any(|write| {
            shelf.prepared.other_writers(&write.key, id).next().is_some()
                || readers_kept_off(shelf.prepared, &write.key, id).next().is_some()
        })
    };
    reads() || ranges() || writes()
}

/// The other transactions of a set that this one must not be prepared beside; one may come up more than once.
pub(super) fn conflicting_holders<'a>(
    set: &'a PreparedSet,
    id: TransactionId,
    transaction: &'a Transaction,
) -> impl Iterator<Item = Holder> + 'a {
    let reads = transaction.reads.iter().flat_map(move |read| set.other_writers(&read.key, id));
    let ranges = transaction.ranges.iter().flat_map(move |range| set.other_writers_in(range, id));
    let writes = transaction.writes.iter().flat_map(move |write| {
        set.other_writers(&write.key, id).chain(readers_kept_off(set, &write.key, id))
    });
    reads.chain(ranges).chain(writes)
}

/// The other transactions that read a key and keep off its writers: of an index list there are none.
fn readers_kept_off<'a>(
    set: &'a PreparedSet,
    key: &'a [u8],
    id: TransactionId,
) -> impl Iterator<Item = Holder> + 'a {
    let readers = || set.other_readers(key, id);
    (!is_index_list(key)).then(readers).into_iter().flatten()
}

/// The published rule: a prepared transaction is in the way only if the timestamps say so. Kept to show that the checker
/// notices (T1).
fn has_pending_conflict_by_timestamp(
    shelf: &Shelf<'_>,
    id: TransactionId,
    transaction: &Transaction,
    timestamp: Timestamp,
) -> bool {
    let between = |version: Timestamp, writer: Timestamp| version < writer && writer < timestamp;
    let reads = || {
        transaction.reads.iter().any(|read| {
            shelf.prepared.other_writers(&read.key, id).any(|writer| between(read.version, writer.timestamp))
        })
    };
    let ranges = || {
        let pending = |range| {
            shelf
                .prepared
                .other_writers_in(range, id)
                .any(|writer| between(Timestamp::ZERO, writer.timestamp))
        };
        transaction.ranges.iter().any(pending)
    };
    let writes = || {
        transaction.writes.iter().any(|write| {
            shelf.prepared.other_readers(&write.key, id).any(|reader| timestamp < reader.timestamp)
        })
    };
    reads() || ranges() || writes()
}

/// The timestamp that the writes of a transaction must not lie below: that of the newest version, and of the latest
/// read, of each key (T2). In the serializable variant only of the latest read: a write that lies between the latest read
/// of a key and its newest version is one that nobody has missed (Thomas' write rule).
fn write_floor(shelf: &Shelf<'_>, transaction: &Transaction, rules: Rules) -> Option<Timestamp> {
    let floor = |key: &[u8]| {
        let read = if shelf.passes_over(key, rules) { shelf.reads.floor() } else { shelf.reads.of(key) };
        match rules.validation() {
            Validation::Serializable => read,
            Validation::Exclusive | Validation::Published => read.max(shelf.versions.newest_timestamp(key)),
        }
    };
    transaction.writes.iter().map(|write| floor(&write.key)).max()
}

/// The timestamp that the writes of a transaction must lie above, because readers were promised so.
fn promised_to_readers(shelf: &Shelf<'_>, transaction: &Transaction) -> Option<Timestamp> {
    let promised = shelf.promised_reads?;
    transaction.writes.iter().map(|write| promised.of(&write.key)).max().filter(|at| *at > Timestamp::ZERO)
}

/// The timestamp that a transaction must not lie below because it reads just now: that of the newest version of each key.
/// The others know what they have read, and lie above it.
fn read_floor(shelf: &Shelf<'_>, transaction: &Transaction) -> Option<Timestamp> {
    let reads = if transaction.reads_when_prepared { transaction.reads.as_slice() } else { &[] };
    reads.iter().map(|read| shelf.versions.newest_timestamp(&read.key)).max()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{ClientId, Instant, Key, KeyRange, Write};
    use quorate_store::Prepared;

    use super::*;

    const SELF: TransactionId = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
    const OTHER: TransactionId = TransactionId { client: ClientId(2), sequence: 1, attempt: 0 };

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    /// "rK@V" reads K at version V, "rK@V-" the same if that is a deletion, "hK" reads K when it is prepared, "wK" writes K, "sA-B" scans [A, B).
    fn transaction(text: &str) -> Transaction {
        let mut transaction = Transaction::default();
        for word in text.split_whitespace() {
            let (kind, rest) = word.split_at(1);
            match kind {
                "r" => {
                    let (key, version) = rest.split_once('@').unwrap();
                    let (version, deleted) = (version.trim_end_matches('-'), version.ends_with('-'));
                    let version = match version.parse().unwrap() {
                        0 => Timestamp::ZERO,
                        micros => at(micros),
                    };
                    let key = Key::from(key.to_owned());
                    transaction.reads.push(ReadVersion { key, version, deleted });
                }
                "h" => {
                    let key = Key::from(rest.to_owned());
                    transaction.reads.push(ReadVersion { key, version: Timestamp::ZERO, deleted: false });
                    transaction.reads_when_prepared = true;
                }
                "w" => transaction.writes.push(Write { key: Key::from(rest.to_owned()), value: None }),
                "s" => {
                    let (from, to) = rest.split_once('-').unwrap();
                    let (from, to) = (Key::from(from), Some(Key::from(to)));
                    transaction.ranges.push(KeyRange { from, to });
                }
                _ => panic!("no such operation: {word}"),
            }
        }
        transaction
    }

    struct Replica {
        versions: Versions,
        reads: ReadTimestamps,
        promised_reads: ReadTimestamps,
        prepared: PreparedSet,
    }

    /// A replica where a@10 and c@10 are committed, b was read at 20, p was promised to a reader at 20, and `pending` is prepared at 15; what
    /// stands behind a bar is another transaction, which is prepared at 40.
    fn replica(pending: &str) -> Replica {
        let mut versions = Versions::new();
        versions.install(&Key::from("a"), at(10), None);
        versions.install(&Key::from("c"), at(10), None);
        versions.install(&Key::from("d"), at(3), None);
        versions.install(&Key::from("e"), at(1), Some(quorate_core::Value::from_static(b"x")));
        versions.install(&Key::from("f"), at(1), None);
        let mut reads = ReadTimestamps::new();
        reads.read_key(&Key::from("b"), at(20));
        let mut promised_reads = ReadTimestamps::new();
        promised_reads.read_key(&Key::from("p"), at(20));
        let mut prepared = PreparedSet::new();
        for ((text, micros), sequence) in pending.split('|').zip([15, 40]).zip(1..) {
            let (transaction, since) = (Arc::new(transaction(text)), Instant::START);
            let id = TransactionId { sequence, ..OTHER };
            prepared.insert(id, Prepared { transaction, timestamp: at(micros), since });
        }
        Replica { versions, reads, promised_reads, prepared }
    }

    impl Replica {
        /// Without promises to readers.
        fn shelf(&self, index_lists_bind: bool) -> Shelf<'_> {
            Shelf {
                versions: &self.versions,
                reads: &self.reads,
                promised_reads: None,
                prepared: &self.prepared,
                deletions: at(4),
                floor: at(3),
                index_lists_bind,
            }
        }
    }

    fn vote(pending: &str, text: &str, timestamp: u64, rules: Rules) -> Vote {
        let replica = replica(pending);
        let shelf = Shelf {
            versions: &replica.versions,
            reads: &replica.reads,
            promised_reads: Some(&replica.promised_reads),
            prepared: &replica.prepared,
            deletions: at(4),
            floor: at(3),
            index_lists_bind: true,
        };
        validate_prepare(&shelf, SELF, &transaction(text), at(timestamp), rules)
    }

    #[test]
    fn the_serializable_variant_votes_as_a_table() {
        let table = [
            // pending  prepare   at  vote
            ("", "ra@0", 9, Vote::Ok),
            ("", "ra@0", 11, Vote::Abort),
            ("", "ra@0 wx", 9, Vote::Ok),
            ("", "ra@10", 30, Vote::Ok),
            ("", "ra@12", 30, Vote::Ok),
            ("", "wa", 5, Vote::Ok),
            ("", "wb", 19, Vote::Retry(at(20))),
            ("", "wb", 21, Vote::Ok),
            ("", "wp", 19, Vote::Retry(at(20))),
            ("", "sa-b", 9, Vote::Abort),
            ("wa", "ra@10", 12, Vote::Abstain),
            ("wa", "wa", 12, Vote::Abstain),
            ("ra@10", "wa", 30, Vote::Abstain),
        ];
        for (pending, text, timestamp, expected) in table {
            let voted = vote(pending, text, timestamp, Rules::SERIALIZABLE);
            assert_eq!(voted, expected, "{text} at {timestamp} beside {pending}");
        }
    }

    #[test]
    fn exclusive_votes_as_a_table() {
        let table = [
            // pending     prepare      at   vote
            ("", "ra@10 wa", 30, Vote::Ok),
            ("", "ra@0", 30, Vote::Abort),
            ("", "ra@12", 30, Vote::Ok),
            ("", "rc@0", 30, Vote::Abort),
            ("", "rd@0", 30, Vote::Ok),
            ("", "rd@2", 30, Vote::Abort),
            ("", "sd-e", 30, Vote::Ok),
            ("", "rx@0", 30, Vote::Ok),
            ("", "rx@2", 30, Vote::Abort),
            ("", "rx@2-", 30, Vote::Ok),
            ("", "rd@2-", 30, Vote::Abort),
            ("", "re@2-", 30, Vote::Abort),
            ("", "rf@2-", 30, Vote::Ok),
            ("", "re@0", 30, Vote::Abort),
            ("", "rf@0", 30, Vote::Ok),
            ("", "se-f", 30, Vote::Abort),
            ("", "sf-g", 30, Vote::Ok),
            ("", "se-f re@1", 30, Vote::Ok),
            ("", "rf@2", 30, Vote::Abort),
            ("", "rx@3", 30, Vote::Ok),
            ("", "sa-d ra@10 rc@10", 30, Vote::Ok),
            ("", "sa-d ra@10", 30, Vote::Abort),
            ("", "wa", 5, Vote::Retry(at(10))),
            ("", "wb", 15, Vote::Retry(at(20))),
            ("", "wb", 25, Vote::Ok),
            ("", "wb", 20, Vote::Ok),
            ("", "wp", 15, Vote::Retry(at(20))),
            ("", "wp", 20, Vote::Retry(at(20))),
            ("", "wp", 25, Vote::Ok),
            ("", "wp wx", 15, Vote::Retry(at(20))),
            ("", "wx wp", 20, Vote::Retry(at(20))),
            ("", "wp wb wa", 5, Vote::Retry(at(20))),
            ("", "wx wa", 5, Vote::Retry(at(10))),
            ("", "wx", 1, Vote::Ok),
            ("", "", 1, Vote::Ok),
            ("wx|wx", "rx@20", 30, Vote::Abstain),
            ("wx|wy", "ry@0", 30, Vote::Abstain),
            ("wx|ry@0", "wy", 30, Vote::Abstain),
            ("wx|ry@0", "ry@0", 30, Vote::Ok),
            ("wx", "rx@0", 30, Vote::Abstain),
            ("wx", "rx@0", 12, Vote::Abstain),
            ("wx", "wx", 30, Vote::Abstain),
            ("rx@0", "wx", 30, Vote::Abstain),
            ("rx@0", "rx@0", 30, Vote::Ok),
            ("sw-z", "wx", 30, Vote::Abstain),
            ("wx", "sw-z", 30, Vote::Abstain),
            ("wx", "sy-z", 30, Vote::Ok),
            ("wx", "ra@0 rx@0", 30, Vote::Abort),
            ("wx", "wx wb", 5, Vote::Abstain),
            ("", "ha hb", 30, Vote::Ok),
            ("", "ha", 5, Vote::Retry(at(10))),
            ("", "hb", 5, Vote::Ok),
            ("wx", "ha hx", 30, Vote::Abstain),
            ("wx", "ha hx", 5, Vote::Abstain),
            ("hx", "wx", 30, Vote::Abstain),
            ("hx", "hx", 30, Vote::Ok),
        ];
        for (pending, text, timestamp, expected) in table {
            assert_eq!(
                vote(pending, text, timestamp, Rules::EXCLUSIVE),
                expected,
                "{text} at {timestamp} while {pending}"
            );
        }
    }

    #[test]
    fn published_votes_let_timestamps_order_what_is_pending() {
        let table = [
            // pending     prepare  at   vote; the pending transaction is at 15
            ("wx", "rx@0", 30, Vote::Abstain),
            ("wx", "rx@0", 12, Vote::Ok),
            ("wx", "wx", 30, Vote::Ok),
            ("rx@0", "wx", 30, Vote::Ok),
            ("rx@0", "wx", 12, Vote::Abstain),
            ("wx", "sw-z", 30, Vote::Abstain),
            ("wx", "sw-z", 12, Vote::Ok),
            // another that is at 40
            ("wx|wx", "rx@0", 30, Vote::Abstain),
            ("wx|wx", "rx@20", 30, Vote::Ok),
            ("wx|wx", "rx@20", 50, Vote::Abstain),
            ("wx|wy", "sw-z", 30, Vote::Abstain),
            ("wx|wy", "sw-z su-v", 12, Vote::Ok),
            ("wx|wy", "su-v sw-z", 30, Vote::Abstain),
            ("rx@0|rx@0", "wx", 30, Vote::Abstain),
            ("rx@0|rx@0", "wx", 50, Vote::Ok),
        ];
        for (pending, text, timestamp, expected) in table {
            assert_eq!(
                vote(pending, text, timestamp, Rules::PUBLISHED),
                expected,
                "{text} at {timestamp} while {pending}"
            );
        }
    }

    #[test]
    fn planted_rules_overlook_what_they_should_see() {
        let smallest = Rules::planted(Plant::SmallestPendingWrite);
        assert_eq!(vote("wx", "rx@0", 12, smallest), Vote::Ok);
        assert_eq!(vote("wx", "rx@0", 30, smallest), Vote::Abstain);
        assert_eq!(vote("wx|wx", "rx@20", 50, smallest), Vote::Ok, "the later one is overlooked");
        assert_eq!(vote("wx|wx", "rx@0", 15, smallest), Vote::Ok);
        assert_eq!(vote("wx|wx", "ra@10 rx@0", 16, smallest), Vote::Abstain);
        let unvalidated = Rules::planted(Plant::UnvalidatedAbsence);
        assert_eq!(vote("", "sa-d ra@10", 30, unvalidated), Vote::Ok);
    }

    /// Votes on a blind write of `x` and of a write that has read the index list, and on a change of the list.
    fn votes_beside_a_list(shelf: &Shelf<'_>, list: &Key, rules: Rules) -> [Vote; 3] {
        let blind = transaction("wx");
        let read = ReadVersion { key: list.clone(), version: at(12), deleted: false };
        let aware = Transaction { reads: vec![read], ..transaction("wx") };
        let write = Write { key: list.clone(), value: None };
        let change = Transaction { writes: vec![write], ..aware.clone() };
        [blind, aware, change].map(|one| validate_prepare(shelf, SELF, &one, at(30), rules))
    }

    #[test]
    fn a_shard_with_an_index_list_takes_writes_of_those_that_have_read_it() {
        let list = quorate_core::reserved::index_list_keys(1).remove(0);
        let mut replica = replica("");
        let shelf = |replica: &Replica, index_lists_bind| {
            let shelf = replica.shelf(index_lists_bind);
            let rules = [Rules::EXCLUSIVE, Rules::planted(Plant::IndexListOverlooked)];
            rules.map(|rules| votes_beside_a_list(&shelf, &list, rules))
        };
        let [votes, _] = shelf(&replica, true);
        assert_eq!(votes[0], Vote::Ok, "there is no list");
        // A change of the list is prepared, and a transaction that has read it.
        let prepare = |replica: &mut Replica, id, transaction: Transaction| {
            let transaction = Arc::new(transaction);
            replica.prepared.insert(id, Prepared { transaction, timestamp: at(15), since: Instant::START });
        };
        let write = Write { key: list.clone(), value: None };
        prepare(&mut replica, OTHER, Transaction { writes: vec![write], ..Transaction::default() });
        let [votes, planted] = shelf(&replica, true);
        assert_eq!(votes, [Vote::Abstain, Vote::Abstain, Vote::Abstain]);
        assert_eq!(planted[0], Vote::Ok);
        let beside = replica.shelf(true);
        let reader = validate_prepare(&beside, SELF, &transaction("rx@0"), at(30), Rules::EXCLUSIVE);
        assert_eq!(reader, Vote::Ok, "who writes nothing need not have read it");
        let [votes, _] = shelf(&replica, false);
        assert_eq!(votes[0], Vote::Ok, "what may have committed was let in before");
        replica.prepared.remove(OTHER);
        replica.versions.install(&list, at(12), Some(quorate_core::Value::from_static(b"[]")));
        let reader = ReadVersion { key: list.clone(), version: at(12), deleted: false };
        prepare(&mut replica, OTHER, Transaction { reads: vec![reader], ..transaction("wy") });
        let [votes, planted] = shelf(&replica, true);
        assert_eq!(votes, [Vote::Abort, Vote::Ok, Vote::Ok], "those who have read a list keep nobody off");
        assert_eq!(planted[0], Vote::Ok);
        let [votes, _] = shelf(&replica, false);
        assert_eq!(votes[0], Vote::Ok);
        replica.versions.install(&list, at(14), Some(quorate_core::Value::from_static(b"[1]")));
        let [votes, _] = shelf(&replica, true);
        assert_eq!(votes[1], Vote::Abort, "the list has changed since");
    }

    /// A transaction that has read a list and a change of the list may both have committed, whichever was let in first and whichever timestamp is lower.
    #[test]
    fn what_may_have_committed_stands_beside_a_change_of_the_index_list() {
        let list = quorate_core::reserved::index_list_keys(1).remove(0);
        let read = || ReadVersion { key: list.clone(), version: at(12), deleted: false };
        let write = || Write { key: list.clone(), value: None };
        let aware = Transaction { reads: vec![read()], ..transaction("wx") };
        let scanning =
            Transaction { ranges: vec![KeyRange { from: Key::from("zz"), to: None }], ..aware.clone() };
        let change = Transaction { reads: vec![read()], writes: vec![write()], ..Transaction::default() };
        let votes = |replica: &Replica, one: &Transaction| {
            let vote = |index_lists_bind, rules| {
                let shelf = replica.shelf(index_lists_bind);
                validate_prepare(&shelf, SELF, one, at(30), rules)
            };
            let planted = Rules::planted(Plant::IndexListRevalidated);
            [vote(true, Rules::EXCLUSIVE), vote(false, Rules::EXCLUSIVE), vote(false, planted)]
        };
        let prepared = |replica: &mut Replica, transaction: Transaction| {
            let transaction = Arc::new(transaction);
            replica
                .prepared
                .insert(OTHER, Prepared { transaction, timestamp: at(25), since: Instant::START });
        };
        let new = || {
            let mut replica = replica("");
            replica.versions.install(&list, at(12), Some(quorate_core::Value::from_static(b"[]")));
            replica
        };
        let (ok, abort, abstain) = (Vote::Ok, Vote::Abort, Vote::Abstain);
        // The change was let in, and has not ended.
        let mut replica = new();
        prepared(&mut replica, change.clone());
        for one in [&aware, &scanning] {
            assert_eq!(votes(&replica, one), [abstain, ok, abstain], "{one:?}");
        }
        assert_eq!(votes(&replica, &change), [abstain; 3], "changes keep each other off");
        // It has committed.
        let mut replica = new();
        replica.versions.install(&list, at(25), Some(quorate_core::Value::from_static(b"[1]")));
        for one in [&aware, &scanning] {
            assert_eq!(votes(&replica, one), [abort, ok, abort], "{one:?}");
        }
        assert_eq!(votes(&replica, &change), [abort; 3]);
        // A transaction that has read the list has committed above.
        let mut replica = new();
        replica.reads.read_key(&list, at(40));
        assert_eq!(votes(&replica, &change), [Vote::Retry(at(40)), ok, Vote::Retry(at(40))]);
        // Other keys count as ever.
        let mut replica = new();
        prepared(&mut replica, transaction("rx@0"));
        assert_eq!(votes(&replica, &aware), [abstain; 3]);
        assert_eq!(votes(&replica, &scanning), [abstain; 3]);
    }

    #[test]
    fn promises_to_readers_do_not_speak_against_what_may_have_succeeded() {
        let replica = replica("");
        let shelf = replica.shelf(true);
        assert_eq!(validate_prepare(&shelf, SELF, &transaction("wp"), at(15), Rules::EXCLUSIVE), Vote::Ok);
    }
}
