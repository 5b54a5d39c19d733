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
//! # Validated versions
//! Who knows that a version was the newest up to t needs no quorum. A replica learns it from the COMMIT of a transaction
//! that read the version, and from coordinators after a quorum read. A read timestamp without the version that was read
//! proves nothing, because this replica may lack that version (T16). One replica that has validated every key at a common
//! timestamp serves a snapshot at it, serializable as above.
//!
//! Below its floor a replica has collected versions and serves no snapshots. Deletions that may have been collected
//! elsewhere count as absence where replicas must agree. And absence is told with the floor: a replica that is complete
//! below it and has no version of a key has collected its deletion, if there ever was a version, and one that missed the
//! deletion may still have that version. Whatever lies below a floor at which the key is absent, it was overwritten.
//!
//! Answers wait for the disk only if the promise does. What else they reveal, executed commits and their holds being
//! gone, are facts that a crash of this replica takes from nobody.

use quorate_core::machine::{OutboxOf, PersistToken};
use quorate_core::{Address, ClientId, ClockTime, Context, Key, ReadVersion, Timestamp, TransactionId};
use quorate_ir::Status;
use quorate_store::Version;

use super::Replica;
use super::participant::Participant;
use crate::config::READ_PROMISE_AHEAD;
use crate::message::{FoundVersion, Message, SnapshotVersion, ValidatedVersion};
use crate::record::Record;
use crate::rules::Plant;

/// So many keys are promised for, each at a timestamp of its own.
const PROMISED_KEYS_MAX: usize = 1 << 20;

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
        self.until = Timestamp { micros, client: ClientId(u64::MAX) };
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
        }
    }
}

impl Participant {
    /// Promises to let no write of a key in that is not above `timestamp`, and tells what it holds there.
    fn read_at(&mut self, key: &Key, timestamp: Timestamp) -> SnapshotVersion {
        self.promised_reads.read_key(key, timestamp);
        if self.promised_reads.len() > PROMISED_KEYS_MAX {
            // One promise for all keys instead. It drives writers higher than need be, and binds as the others do.
            self.promised_reads.raise_floor(self.promised_reads.greatest());
        }
        let (at, newest) = (self.versions.at(key, timestamp), self.versions.newest(key));
        let found = FoundVersion::new(at, self.floor);
        let newest = newest.filter(|version| !self.is_collectable(version));
        let newest = newest.map_or(Timestamp::ZERO, |version| version.timestamp);
        let pending = self.prepared.first_write(key);
        SnapshotVersion { found, newest, pending }
    }

    /// True if it is a deletion that others may have collected already, so that they find the key absent: that is the same.
    fn is_collectable(&self, version: &Version) -> bool {
        version.value.is_none() && version.timestamp < self.refusal
    }

    /// What is known of a key without asking others. A version is the newest at its own timestamp, if nothing more is
    /// known.
    fn read_validated(&self, key: &Key) -> Option<ValidatedVersion> {
        if self.rules.has(Plant::ReadTimestampTrusted) {
            let newest = self.versions.newest(key)?;
            let until = self.reads.of(key).max(self.promised_reads.of(key)).max(newest.timestamp);
            let found = FoundVersion::new(Some(newest), self.floor);
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
            known.value.clone()
        };
        Some(ValidatedVersion { found: FoundVersion { version, value, absent_below: None }, until })
    }
}

impl Replica {
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
        // What is promised to a reader drives writers above it, and they must not be refused there.
        let ahead_max = self.config.timestamp_ahead_max / 2;
        if self.ir.status() != Status::Normal
            || !self.are_own_keys(keys.iter())
            || self.refuses_further_ahead(ahead_max, from, transaction, timestamp, context, outbox)
        {
            return;
        }
        if timestamp < self.participant.floor {
            let oldest = self.participant.floor;
            outbox.send_unordered(from, Message::SnapshotTooOld { transaction, oldest });
            return;
        }
        let found = keys.iter().map(|key| self.participant.read_at(key, timestamp)).collect();
        self.promise.extend_to(timestamp, outbox);
        let reply = Message::QuorumReadReply { transaction, round, view: self.ir.view(), found };
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
        keys: &[Key],
        outbox: &mut OutboxOf<Self>,
    ) {
        if self.ir.status() != Status::Normal || !self.are_own_keys(keys.iter()) {
            return;
        }
        let found = keys.iter().map(|key| self.participant.read_validated(key)).collect::<Option<Vec<_>>>();
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
