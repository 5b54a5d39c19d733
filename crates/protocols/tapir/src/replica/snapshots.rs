//! Quorum reads and validated versions: reading at a timestamp (TAPIR paper, section 6.1).
//!
//! # A quorum read
//! The coordinator names keys and a timestamp t. A replica that answers promises to vote OK no more on writes of these keys
//! that are not above t, and tells the newest version that is not, and which writes are pending. From
//! [`snapshot_quorum`](quorate_core::GroupSize::snapshot_quorum) replicas of one view without a pending write at or below
//! t, the newest version of each key is what it holds at t, for ever:
//!
//! *A transaction that commits a write of such a key at or below t has OK from a majority, which shares a replica with
//! the readers'. That replica voted before it answered the reader, or the vote would have been RETRY. So the write was
//! pending there, or executed and found.* Timestamps are a valid serial order (I2), so what was read is the state of that
//! order at t: serializable, over any number of shards. It is strict for no t, because timestamps do not follow real
//! time (T17).
//!
//! The promise must survive what may happen to replicas. *View changes* carry the greatest timestamp that was promised as
//! a floor for the next view. The leader settles some prepares before that: it must not let in a write at or below t that
//! has not succeeded, and must not refuse one that has. The quorum tells them apart: whatever was voted OK at or below t
//! without the readers' replicas is recorded at fewer replicas than [`GroupSize::fast_witnesses`], so no view change
//! takes it for decided. (With f = 2 that needs four replicas, where the paper's f + 1 would leave it open.) *A restart*
//! takes everything to have been read up to a timestamp that was persisted ahead ([`Record::ReadsPromised`]), so that
//! reads cost no write to the disk of their own.
//!
//! # A scan
//! A range is read as keys are: a replica that answers promises *every* key of the part that its page covers, also those that do
//! not exist, or a key could appear below t afterwards (T40). It lists the keys that have a version or a pending write. To
//! the coordinator a key that one replica lists and another covers without it is absent there. The part that the pages of a
//! quorum cover in common is read; where that ends another transaction can go on at t.
//!
//! # A strict read of one shard
//! The same quorum read is strict, within one shard, if no write at all is pending at its replicas, nothing newer than t
//! is known there, and they *agree on the version of every key*. *Let i be the instant of the first answer. A
//! transaction that all shards held before i was voted for at a shared replica before that one's answer (had it been
//! later, it would have come after i), so it was executed there, and its version or a later one was found. One that
//! all shards held after i had not been executed at i by anybody, hence not at the replica that answered then; and all
//! agree with that one. So what was found is the state at i.*
//!
//! Agreement is not in the published text, and without it the read is not strict: one replica answers before U is
//! prepared; U commits above t; T begins on a slow clock, writes another key below t and commits; then another replica
//! answers. The newest of each key is T without U, although U had completed before T began. Nobody holds anything
//! meanwhile, so several shards cannot be read this way at all (T27): see `holds`.
//!
//! A strict read that meets a write halfway learns nothing. In shards that are far away it is therefore answered *in turn*:
//! its timestamp is a deadline like that of a prepare, and it waits with them in the `agenda`, until what is about to be
//! written below has ended, and before what is to be written above begins. So it holds nobody up for longer than what it waits
//! for does, and replicas agree. That only chooses when a replica answers, which is right at any time.
//!
//! # Validated versions
//! A replica that knows that a version was the newest up to t needs no quorum. It learns it from the COMMIT of a transaction
//! that read the version, and from coordinators after a quorum read. A read timestamp without the version that was read
//! proves nothing, because this replica may lack that version (T16). One replica that has validated every key at a common
//! timestamp serves a snapshot at it, serializable as above. One that has not answers as to a quorum read, so that its answer is the first
//! of a quorum.
//!
//! Below its floor a replica has collected versions and serves no snapshots. Deletions that may have been collected
//! elsewhere count as absence where replicas must agree. And absence is told with the floor: a replica that is complete
//! below it and has no version of a key has collected its deletion, if there ever was a version, and one that missed the
//! deletion may still have that version. A version below a floor at which the key is absent was overwritten.
//!
//! Answers wait for the disk only if the promise does. The other facts that they reveal, executed commits and their holds being
//! gone, are such that a crash of this replica takes them from nobody.

use std::iter::Peekable;
use std::sync::Arc;

use quorate_core::machine::{OutboxOf, PersistToken};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Key, KeyRange, ReadVersion, Timestamp, Transaction, TransactionId,
};
use quorate_ir::{OperationId, Status};
use quorate_store::{Holder, PageLimits, VersionRef};

use super::Replica;
use super::agenda::{Request, Wants};
use super::participant::Participant;
use crate::config::READ_PROMISE_AHEAD;
use crate::message::{
    FoundKey, FoundPage, FoundVersion, Message, Otherwise, Prepare, SnapshotVersion, ValidatedVersion,
};
use crate::record::Record;
use crate::rules::Plant;

/// So many keys, and boundaries of ranges, are promised for, each at a timestamp of its own.
const PROMISED_MAX: usize = 1 << 20;

/// The tokens of promises have this bit set.
const TOKENS: u64 = 1 << 62;

/// Up to which timestamp readers may have been promised something.
#[derive(Debug, Default)]
pub(super) struct ReadPromise {
    /// Persisted, perhaps not yet durable.
    until: Timestamp,
    durable: Timestamp,
    /// Which record each token stands for; ascending.
    persisting: Vec<(PersistToken, Timestamp)>,
    persisted: u64,
}

impl ReadPromise {
    /// Up to which timestamp readers may be promised something without a further record.
    pub(super) fn until(&self) -> Timestamp {
        self.until
    }

    /// Makes sure that a promise at this timestamp, and those that are about to follow, survive a crash once what was
    /// persisted so far is durable.
    fn extend_to(&mut self, timestamp: Timestamp, outbox: &mut OutboxOf<Replica>) {
        let ahead = READ_PROMISE_AHEAD.as_micros() as u64;
        if self.until.micros >= timestamp.micros.saturating_add(ahead / 2) {
            return;
        }
        let micros = timestamp.micros.saturating_add(ahead);
        let until = Timestamp { micros, client: ClientId(u64::MAX) };
        assert!(until >= self.until, "readers were promised {}, and are {until} from now on", self.until);
        self.until = until;
        self.persisted += 1;
        let token = PersistToken(TOKENS | self.persisted);
        self.persisting.push((token, self.until));
        outbox.persist_and_notify(Record::ReadsPromised { until: self.until }, token);
    }

    fn is_durable(&self, timestamp: Timestamp) -> bool {
        timestamp <= self.durable
    }

    pub(super) fn on_persisted(&mut self, token: PersistToken) {
        if let Some(at) = self.persisting.iter().position(|(known, _)| *known == token) {
            let (_, until) = self.persisting[at];
            self.durable = self.durable.max(until);
            self.persisting.drain(..=at);
            assert!(
                self.durable <= self.until,
                "promises up to {} are durable, and were given up to {}",
                self.durable,
                self.until
            );
        }
    }
}

impl Participant {
    /// Promises to let no write of a key in that is not above `timestamp`, and tells what it holds there.
    fn read_at(&mut self, key: &Key, timestamp: Timestamp) -> SnapshotVersion {
        self.promised_reads.read_key(key, timestamp);
        self.bound_promises();
        let promised = self.promised_reads.of(key);
        assert!(promised >= timestamp, "{key:?} is read at {timestamp}, and writers kept above {promised}");
        self.version_at(key, timestamp)
    }

    /// The same for the first part of a range, which the page covers, whether or not its keys exist.
    fn scan_at(&mut self, range: &KeyRange, limits: PageLimits, timestamp: Timestamp) -> FoundPage {
        let page = self.page_at(range, limits, timestamp);
        if self.rules.has(Plant::RangeNotPromised) {
            for found in &page.keys {
                self.promised_reads.read_key(&found.key, timestamp);
            }
            return page;
        }
        let to = page.next.clone().or_else(|| range.to.clone());
        self.promised_reads.read_range(&KeyRange { from: range.from.clone(), to }, timestamp);
        self.bound_promises();
        page
    }

    /// The versions in the first part of a range, for a reader at `timestamp`.
    fn page_at(&self, range: &KeyRange, limits: PageLimits, timestamp: Timestamp) -> FoundPage {
        let absent_below = FoundVersion::new(None, self.bounds.floor).absent_below;
        let mut page = FoundPage { keys: Vec::new(), next: None, absent_below };
        let mut filling = limits.begin();
        let mut stored = self.versions.range(range).map(|(key, _)| key).peekable();
        let mut written = self.prepared.keys_written_in(range).peekable();
        while let Some(key) = next_of_both(&mut stored, &mut written) {
            if filling.is_full() {
                page.next = Some(key.clone());
                break;
            }
            let version = self.version_at(key, timestamp);
            filling.add(key, version.found.value.as_ref());
            page.keys.push(FoundKey { key: key.clone(), version });
        }
        page
    }

    fn bound_promises(&mut self) {
        if self.promised_reads.remembered() > PROMISED_MAX {
            // One promise for all keys instead. It drives writers higher than need be, and binds as the others do.
            self.promised_reads.raise_floor(self.promised_reads.greatest());
        }
    }

    /// The version of a key, for a reader at `timestamp`.
    fn version_at(&self, key: &Key, timestamp: Timestamp) -> SnapshotVersion {
        let (at, newest) = (self.versions.at(key, timestamp), self.versions.newest(key));
        let found = FoundVersion::new(at, self.deleted_below());
        let newest = newest.filter(|version| !self.is_collectable(*version));
        let newest = newest.map_or(Timestamp::ZERO, |version| version.timestamp);
        assert!(
            found.version <= timestamp,
            "{key:?} is read at {timestamp}, and its version is of {}",
            found.version
        );
        SnapshotVersion { found, newest, pending: self.pending_write(key) }
    }

    /// The smallest timestamp at which a transaction that is prepared here may yet write the key. If it has been prepared
    /// again, it may still have succeeded where it was prepared first.
    fn pending_write(&self, key: &Key) -> Option<Timestamp> {
        let first = |holder: Holder| self.first_hold(holder.transaction).unwrap_or(holder.timestamp);
        self.prepared.other_writers(key, TransactionId::default()).map(first).min()
    }

    /// True if it is a deletion that others may have collected already, so that they find the key absent: that is the same.
    fn is_collectable(&self, version: VersionRef<'_>) -> bool {
        version.is_deletion() && version.timestamp < self.bounds.refusal
    }

    /// The version of a key that is known without asking others. It is the newest at its own timestamp, if nothing more is
    /// known.
    fn read_validated(&self, key: &Key) -> Option<ValidatedVersion> {
        if self.rules.has(Plant::ReadTimestampTrusted) {
            let newest = self.versions.newest(key)?;
            let until = self.reads.of(key).max(self.promised_reads.of(key)).max(newest.timestamp);
            let found = FoundVersion::new(Some(newest), self.bounds.floor);
            return Some(ValidatedVersion { found, until });
        }
        let newest = self.versions.newest_timestamp(key);
        let (version, until) = match self.validated.of(key) {
            Some(validity) if validity.until >= newest => (validity.version, validity.until),
            _ => (newest, newest),
        };
        let value = if version == Timestamp::ZERO {
            None
        } else {
            // A version that this replica has missed cannot be served, only another not be taken for it.
            let known = self.versions.at(key, version).filter(|known| known.timestamp == version)?;
            known.value()
        };
        assert!(until >= version, "{key:?} is of {version}, and validated up to {until}");
        Some(ValidatedVersion { found: FoundVersion { version, value, absent_below: None }, until })
    }
}

impl Replica {
    /// True if a quorum read is answered later: when it is its turn among the prepares.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn reader_waits(
        &mut self,
        from: Address,
        transaction: TransactionId,
        round: u32,
        timestamp: Timestamp,
        keys: &[Key],
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        if self.ir.status() != Status::Normal
            || from != Address::Client(transaction.client)
            || !self.are_own_keys(keys.iter())
        {
            return false;
        }
        let reads = keys
            .iter()
            .map(|key| ReadVersion { key: key.clone(), version: Timestamp::ZERO, deleted: false })
            .collect();
        let contents = Transaction { reads, reads_when_prepared: true, ..Transaction::default() };
        let prepare = Prepare { transaction: Arc::new(contents), timestamp, first: None };
        let id = OperationId { transaction, number: round };
        let request = Request { from, id, prepare, wants: Wants::Versions };
        if self.agenda.admit(request, &self.participant.prepared, context).is_some() {
            return false;
        }
        // A read that waits for its time alone is answered soon.
        if let Some(key) = keys.first().cloned()
            && self.agenda.waits_for_another(transaction, &self.participant.prepared)
        {
            outbox.send_unordered(from, Message::ReadWaits { transaction, key });
        }
        true
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_quorum_read(
        &mut self,
        from: Address,
        transaction: TransactionId,
        round: u32,
        timestamp: Timestamp,
        keys: Vec<Key>,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if !self.are_own_keys(keys.iter()) || !self.can_read_at(from, transaction, timestamp, context, outbox)
        {
            return;
        }
        let found = keys.iter().map(|key| self.participant.read_at(key, timestamp)).collect();
        let reply = Message::QuorumReadReply { transaction, round, view: self.ir.view(), found };
        self.answer_reader(from, timestamp, reply, outbox);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_quorum_scan(
        &mut self,
        from: Address,
        transaction: TransactionId,
        round: u32,
        timestamp: Timestamp,
        range: &KeyRange,
        limit: u32,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if !self.can_read_at(from, transaction, timestamp, context, outbox) {
            return;
        }
        let limits = self.page_limits(limit);
        let page = self.participant.scan_at(range, limits, timestamp);
        let reply = Message::QuorumScanReply { transaction, round, view: self.ir.view(), page };
        self.answer_reader(from, timestamp, reply, outbox);
    }

    /// True if something can be promised at a timestamp. If that will never be, the reader is told why.
    fn can_read_at(
        &self,
        from: Address,
        transaction: TransactionId,
        timestamp: Timestamp,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) -> bool {
        // A promise to a reader drives writers above it, and they must not be refused there.
        let ahead_max = self.config.timestamp_ahead_max / 2;
        if self.ir.status() != Status::Normal
            || self.refuses_further_ahead(ahead_max, from, transaction, timestamp, context, outbox)
        {
            return false;
        }
        let oldest = self.participant.bounds.floor;
        if timestamp < oldest {
            outbox.send_unordered(from, Message::SnapshotTooOld { transaction, oldest });
        }
        timestamp >= oldest
    }

    /// Sends what was found together with a promise, once that survives a crash.
    fn answer_reader(
        &mut self,
        from: Address,
        timestamp: Timestamp,
        reply: Message,
        outbox: &mut OutboxOf<Self>,
    ) {
        self.promise.extend_to(timestamp, outbox);
        let until = self.promise.until();
        assert!(until >= timestamp, "a reader at {timestamp} is answered, and {until} is promised");
        if self.promise.is_durable(timestamp) {
            outbox.send_unordered(from, reply);
        } else {
            outbox.send(from, reply);
        }
    }

    pub(super) fn on_read_validated(
        &mut self,
        from: Address,
        transaction: TransactionId,
        keys: Vec<Key>,
        otherwise: Option<Otherwise>,
        context: &Context<'_>,
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal || !self.are_own_keys(keys.iter()) {
            return;
        }
        let found = keys.iter().map(|key| self.participant.read_validated(key)).collect::<Option<Vec<_>>>();
        let is_recent = |oldest| found.iter().flatten().all(|version| version.until >= oldest);
        if let Some(Otherwise { oldest, round, timestamp }) = otherwise
            && (found.is_none() || !is_recent(oldest))
        {
            return self.on_quorum_read(from, transaction, round, timestamp, keys, context, outbox);
        }
        let found = found.unwrap_or_default();
        outbox.send_unordered(from, Message::ReadValidatedReply { transaction, found });
    }

    pub(super) fn on_validated(&mut self, timestamp: Timestamp, reads: &[ReadVersion], clock: ClockTime) {
        if timestamp.micros > self.timestamp_max(clock)
            || !self.are_own_keys(reads.iter().map(|read| &read.key))
        {
            return;
        }
        for read in reads {
            self.participant.validated.validate(&read.key, read.version, timestamp);
        }
    }
}

/// The next key of two ascending sequences; one that both have is given once.
fn next_of_both<'a>(
    one: &mut Peekable<impl Iterator<Item = &'a Key>>,
    other: &mut Peekable<impl Iterator<Item = &'a Key>>,
) -> Option<&'a Key> {
    let next = one.peek().into_iter().chain(other.peek()).min().copied()?;
    one.next_if_eq(&next);
    other.next_if_eq(&next);
    Some(next)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use quorate_core::{Transaction, Write};

    use super::*;
    use crate::message::Prepare;
    use crate::rules::Rules;

    const WRITER: TransactionId = TransactionId { client: ClientId(2), sequence: 1, attempt: 0 };

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn key(name: &str) -> Key {
        Key::copy_from_slice(name.as_bytes())
    }

    fn write(name: &str, micros: u64) -> Prepare {
        let writes = vec![Write { key: key(name), value: None }];
        let transaction = Arc::new(Transaction { writes, ..Transaction::default() });
        Prepare { transaction, timestamp: at(micros), first: None }
    }

    /// A participant that has committed b@10, c@10 and its deletion at 20, and where d is about to be written at 30.
    fn participant() -> Participant {
        let mut participant = Participant::new(Rules::EXCLUSIVE, None);
        participant.versions.install(&key("b"), at(10), Some(Bytes::from("1")));
        participant.versions.install(&key("c"), at(10), Some(Bytes::from("1")));
        participant.versions.install(&key("c"), at(20), None);
        participant.hold(WRITER, &write("d", 30));
        participant
    }

    /// The page of a scan of everything but what begins with `z`: "key@version", with `!` where a write is pending, and
    /// `…` before the first key that it does not cover.
    fn scan(participant: &mut Participant, live: u32, keys: usize, bytes: usize, micros: u64) -> String {
        let range = KeyRange { from: key("a"), to: Some(key("z")) };
        let page = participant.scan_at(&range, PageLimits { live, keys, bytes }, at(micros));
        let name = |key: &Key| String::from_utf8_lossy(key).into_owned();
        let word = |found: &FoundKey| {
            let pending = if found.version.pending.is_some() { "!" } else { "" };
            format!("{}@{}{pending}", name(&found.key), found.version.found.version.micros)
        };
        let mut words: Vec<String> = page.keys.iter().map(word).collect();
        words.extend(page.next.as_ref().map(|next| format!("…{}", name(next))));
        words.join(" ")
    }

    #[test]
    fn a_page_lists_what_is_stored_and_what_is_about_to_be_written() {
        let all = usize::MAX;
        assert_eq!(scan(&mut participant(), 9, all, all, 40), "b@10 c@20 d@0!");
        assert_eq!(scan(&mut participant(), 9, all, all, 15), "b@10 c@10 d@0!");
        let mut writes_what_is_there = participant();
        writes_what_is_there.hold(WRITER, &write("b", 30));
        assert_eq!(scan(&mut writes_what_is_there, 9, all, all, 40), "b@10! c@20", "each key once");
    }

    #[test]
    fn a_page_ends_where_a_limit_is_reached() {
        let all = usize::MAX;
        assert_eq!(scan(&mut participant(), 1, all, all, 15), "b@10 …c");
        assert_eq!(scan(&mut participant(), 1, all, all, 40), "b@10 …c");
        assert_eq!(
            scan(&mut participant(), 2, all, all, 40),
            "b@10 c@20 d@0!",
            "a deleted key is not wanted"
        );
        assert_eq!(scan(&mut participant(), 9, 2, all, 40), "b@10 c@20 …d", "but counts against the page");
        assert_eq!(scan(&mut participant(), 9, all, 2, 40), "b@10 …c");
        assert_eq!(scan(&mut participant(), 0, all, all, 40), "…b");
    }

    #[test]
    fn what_a_page_covers_is_promised_and_no_more() {
        let mut participant = participant();
        scan(&mut participant, 9, 2, usize::MAX, 40);
        let promised = |name: &str| participant.promised_reads.of(name.as_bytes());
        assert_eq!(["a", "b", "b0", "c9"].map(promised), [at(40); 4], "whether or not the key exists");
        assert_eq!(["Z", "d", "e"].map(promised), [Timestamp::ZERO; 3]);
        scan(&mut participant, 9, usize::MAX, usize::MAX, 50);
        let promised = |name: &str| participant.promised_reads.of(name.as_bytes());
        assert_eq!(["e", "y"].map(promised), [at(50); 2]);
        assert_eq!(promised("z"), Timestamp::ZERO);
    }

    #[test]
    fn an_empty_page_tells_the_floor() {
        let mut participant = Participant::new(Rules::EXCLUSIVE, None);
        let range = KeyRange { from: key("a"), to: None };
        let limits = PageLimits { live: 1, keys: 1, bytes: 1 };
        assert_eq!(participant.scan_at(&range, limits, at(5)), FoundPage::default());
        participant.bounds.raise_floor(at(4));
        assert_eq!(participant.scan_at(&range, limits, at(5)).absent_below, Some(at(4)));
    }

    /// It may have succeeded where it was prepared first, so a reader between the two must not pass it by.
    #[test]
    fn a_write_that_is_prepared_again_is_pending_from_where_it_was_prepared_first() {
        let mut participant = participant();
        participant.hold(WRITER, &write("d", 60));
        assert_eq!(participant.read_at(&key("d"), at(40)).pending, Some(at(30)));
        participant.hold(WRITER, &write("d", 70));
        assert_eq!(participant.version_at(&key("d"), at(40)).pending, Some(at(30)));
    }

    #[test]
    fn promises_are_remembered_in_bounded_memory() {
        let mut participant = Participant::new(Rules::EXCLUSIVE, None);
        let mut boundary = 0_u64;
        while participant.promised_reads.floor() == Timestamp::ZERO {
            let range = KeyRange {
                from: Key::copy_from_slice(&boundary.to_be_bytes()),
                to: Some(Key::copy_from_slice(&(boundary + 1).to_be_bytes())),
            };
            // Neighbours at different timestamps are not one step.
            let timestamp = at(1 + boundary % 2);
            if boundary.is_multiple_of(3) {
                participant.read_at(&range.from, timestamp);
            } else {
                participant.scan_at(&range, PageLimits { live: 1, keys: 1, bytes: 1 }, timestamp);
            }
            boundary += 1;
            assert!(boundary <= 2 * PROMISED_MAX as u64, "more is remembered than there is room for");
        }
        assert_eq!(participant.promised_reads.remembered(), 0);
        assert_eq!(participant.promised_reads.of(b"never read"), at(2), "one promise for all keys instead");
    }

    /// Others may have collected it, and find the key absent: that is the same.
    #[test]
    fn a_deletion_below_what_is_refused_is_no_newest_version() {
        for (deleted, refusal, newest) in
            [(true, 6, 0), (true, 5, 5), (true, 4, 5), (false, 6, 5), (false, 4, 5)]
        {
            let mut participant = Participant::new(Rules::EXCLUSIVE, None);
            let value = (!deleted).then(|| Bytes::from("1"));
            participant.versions.install(&key("a"), at(5), value);
            participant.bounds.refuse_below(at(refusal));
            let found = participant.read_at(&key("a"), at(9));
            assert_eq!(found.newest.micros, newest, "deleted: {deleted}, refused below {refusal}");
            assert_eq!(found.found.version, at(5), "a reader in the past may find it all the same");
        }
    }

    #[test]
    fn so_many_promises_to_readers_are_remembered_one_by_one() {
        let mut participant = Participant::new(Rules::EXCLUSIVE, None);
        for number in 0..PROMISED_MAX {
            participant.read_at(&Key::from(format!("k{number}")), at(5));
        }
        assert_eq!(participant.promised_reads.remembered(), PROMISED_MAX);
        assert_eq!(participant.promised_reads.of(b"another"), Timestamp::ZERO);
        participant.read_at(&key("one more"), at(5));
        assert_eq!(
            (participant.promised_reads.remembered(), participant.promised_reads.of(b"another")),
            (0, at(5))
        );
    }

    #[test]
    fn promises_of_ranges_are_bounded_by_themselves() {
        let mut participant = Participant::new(Rules::EXCLUSIVE, None);
        for number in 0..2 * PROMISED_MAX as u64 {
            let bound = |number: u64| Key::copy_from_slice(&number.to_be_bytes());
            let range = KeyRange { from: bound(2 * number), to: Some(bound(2 * number + 1)) };
            participant.scan_at(&range, PageLimits { live: 1, keys: 1, bytes: 1 }, at(5));
            assert!(participant.promised_reads.remembered() <= PROMISED_MAX);
        }
    }
}
