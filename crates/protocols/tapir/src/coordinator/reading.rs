//! Quorum reads and reads of validated versions, as the coordinator sees them. Why they are right stands with the replica,
//! in `snapshots`.
//!
//! The nearest replicas that make a quorum are asked first, the others only if those do not agree, have writes pending, or
//! are slow. Nothing is held anywhere, so nothing need be told afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::scan::{self, Entries};
use quorate_core::command::{Committed, Event, Failure, Invalid, Routes};
use quorate_core::hash::FixedSet;
use quorate_core::{
    Context, GroupSize, Instant, Key, KeyRange, Members, ReadVersion, ReplicaId, ReplicaIndex, ShardId,
    Timestamp, TransactionId, View,
};

use super::agreement::{self, Progress};
use super::notices::Notices;
use super::read_only::Wanted;
use super::{Coordinator, Execution, Ir, Out, Phase, Report, finish, replicas};
use crate::message::{
    FoundPage, FoundVersion, Message, Otherwise, SnapshotVersion, ValidatedVersion, Validation,
};
use crate::rules::{Plant, Rules};

/// Writes that are in the way of a snapshot are asked after again so soon at first.
const OBSTRUCTED_PAUSE: Duration = Duration::from_millis(10);

/// Which snapshot is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Snapshot {
    /// The newest versions; none lies above this timestamp, or a greater one is tried.
    Newest(Timestamp),
    /// The versions at this timestamp.
    At(Timestamp),
    /// The same, at what the clock showed when it was asked for; strict once that has passed on all clocks.
    Now(Timestamp),
    /// The versions at some timestamp, no less than `oldest`, at which one replica of each shard has validated them all; if one has not,
    /// those at the timestamp `otherwise`.
    Validated { oldest: Timestamp, otherwise: Timestamp },
}

/// A range that is read, and how many live keys of it at most.
#[derive(Clone, Debug)]
pub(super) struct Scan {
    pub(super) range: KeyRange,
    pub(super) limit: u32,
}

/// A read-only transaction that is being read.
#[derive(Debug)]
pub(super) struct Reading {
    routes: Arc<Routes>,
    snapshot: Snapshot,
    /// The range, if not keys are read that are known beforehand.
    scan: Option<Scan>,
    parts: Vec<Part>,
    /// Counts the rounds, from one.
    round: u32,
    /// Nothing is sent before this instant.
    starts_at: Option<Instant>,
    sent_at: Instant,
    resend_after: Duration,
    /// How long to wait if everybody has answered and a write is in the way.
    pause: Duration,
    /// True if some replica has answered that a write is in the way.
    obstructed: bool,
    /// True if replicas answer when it is its turn among the prepares.
    in_turn: bool,
    /// True if the nearest replicas were asked what they have validated.
    is_stale: bool,
}

/// One shard's share.
#[derive(Debug)]
struct Part {
    shard: ShardId,
    group: Members,
    /// The keys; of a range those that have been found in it.
    keys: Vec<Key>,
    /// The first key of the range that has not been read.
    next: Option<Key>,
    /// The replicas, the nearest first.
    nearest: Vec<ReplicaIndex>,
    asked: Vec<ReplicaIndex>,
    replies: BTreeMap<ReplicaIndex, (View, Reply)>,
    /// The replicas that find the timestamp too far ahead of their clocks.
    behind: Vec<ReplicaIndex>,
    /// The replicas that have said that the read waits for its turn.
    waiting: Vec<ReplicaIndex>,
    validated: Option<Vec<ValidatedVersion>>,
    read: Option<Vec<FoundVersion>>,
}

/// The answer of a replica.
#[derive(Debug)]
pub(super) enum Reply {
    /// Of each key, in order.
    Versions(Vec<SnapshotVersion>),
    /// Of the first part of the range.
    Page(FoundPage),
}

impl Reading {
    /// Reads keys of these shards; or what lies in a range there, and then the keys are not known yet.
    pub(super) fn new(
        routes: &Arc<Routes>,
        shards: BTreeMap<ShardId, Vec<Key>>,
        scan: Option<Scan>,
        snapshot: Snapshot,
    ) -> Self {
        let part = |(id, keys)| {
            let shards = &routes.keyspace.shards;
            let position = shards.iter().position(|shard| shard.id == id).expect("keys belong to shards");
            let (group, nearest) = (routes.members(position), routes.nearest[position].clone());
            Part {
                shard: id,
                group,
                keys,
                next: None,
                nearest,
                asked: Vec::new(),
                replies: BTreeMap::new(),
                behind: Vec::new(),
                waiting: Vec::new(),
                validated: None,
                read: None,
            }
        };
        Reading {
            routes: routes.clone(),
            snapshot,
            scan,
            parts: shards.into_iter().map(part).collect(),
            round: 0,
            starts_at: None,
            sent_at: Instant::START,
            resend_after: Duration::ZERO,
            pause: OBSTRUCTED_PAUSE,
            obstructed: false,
            in_turn: false,
            is_stale: matches!(snapshot, Snapshot::Validated { .. }),
        }
    }

    /// Nothing is to be sent before so long from now.
    pub(super) fn after(self, wait: Duration, now: Instant) -> Self {
        Reading { starts_at: Some(now + wait), ..self }
    }

    /// Whether replicas are to answer when it is its turn among the prepares.
    pub(super) fn in_turn(self, in_turn: bool) -> Self {
        Reading { in_turn, ..self }
    }

    /// Why time ran out.
    pub(super) fn failure(&self) -> Failure {
        if self.obstructed {
            return Failure::Conflict;
        }
        let mut missing = self.unanswered();
        missing.sort_unstable();
        Failure::Unavailable { missing }
    }

    /// The timestamp of the quorum read.
    fn timestamp(&self) -> Timestamp {
        match self.snapshot {
            Snapshot::Newest(timestamp) | Snapshot::At(timestamp) | Snapshot::Now(timestamp) => timestamp,
            Snapshot::Validated { oldest, .. } => oldest,
        }
    }

    /// The replicas that were asked in this round and have said nothing.
    fn unanswered(&self) -> Vec<ReplicaId> {
        let unanswered = |part: &Part| {
            let shard = part.shard;
            let has_spoken = |index| part.replies.contains_key(index) || part.waiting.contains(index);
            let silent = part.asked.iter().filter(|index| !has_spoken(index));
            silent.map(move |index| ReplicaId { shard, index: *index }).collect::<Vec<_>>()
        };
        let open = self.parts.iter().filter(|part| part.read.is_none() && part.validated.is_none());
        open.flat_map(unanswered).collect()
    }

    fn message(&self, id: TransactionId, part: &Part) -> Message {
        let (round, timestamp) = (self.round, self.timestamp());
        if let Some(Scan { range, limit }) = self.scan.clone() {
            return Message::QuorumScan { transaction: id, round, timestamp, range, limit };
        }
        let keys = part.keys.clone();
        match self.snapshot {
            Snapshot::Newest(_) | Snapshot::At(_) | Snapshot::Now(_) => {
                let in_turn = self.in_turn;
                Message::QuorumRead { transaction: id, round, timestamp, keys, in_turn }
            }
            Snapshot::Validated { oldest, otherwise } => {
                let otherwise = Some(Otherwise { oldest, round, timestamp: otherwise });
                Message::ReadValidated { transaction: id, keys, otherwise, validated: Vec::new() }
            }
        }
    }

    /// True if this answers what was asked.
    fn is_answered_by(&self, part: &Part, reply: &Reply) -> bool {
        match reply {
            Reply::Versions(found) => self.scan.is_none() && found.len() == part.keys.len(),
            Reply::Page(_) => self.scan.is_some(),
        }
    }

    /// The greatest timestamp at which every replica that was asked has validated all versions, if it is not too old.
    fn validated_at(&self, oldest: Timestamp) -> Option<Timestamp> {
        let validated = || self.parts.iter().flat_map(|part| part.validated.iter().flatten());
        let until = validated().map(|version| version.until).min()?;
        let newest = validated().map(|version| version.found.version).max()?;
        assert!(
            self.parts.iter().all(|part| part.validated.is_some()),
            "all versions are valid up to {until}, of those shards that have answered"
        );
        (until >= newest && until >= oldest).then_some(until)
    }
}

impl Part {
    /// The meaning of the replies. Only those of the greatest view count together. Of a range it notes what it covers.
    fn progress(&mut self, snapshot: Snapshot, in_turn: bool, rules: Rules) -> Progress {
        let view = self.replies.values().map(|(view, _)| *view).max();
        let current = self.replies.values().filter(|(known, _)| Some(*known) == view);
        let quorum = self.group.snapshot_quorum();
        let (mut versions, mut pages) = (Vec::new(), Vec::new());
        for (_, reply) in current {
            match reply {
                Reply::Versions(found) => versions.push(found.as_slice()),
                Reply::Page(page) => pages.push(page),
            }
        }
        if pages.is_empty() {
            return match snapshot {
                Snapshot::Newest(timestamp) if in_turn => {
                    agreement::of_versions_in_turn(&versions, quorum, timestamp, rules)
                }
                _ => agreement::of_versions(&versions, quorum, snapshot, rules),
            };
        }
        let (progress, covered) = agreement::of_pages(&pages, quorum, snapshot, rules);
        (self.keys, self.next) = (covered.keys, covered.next);
        progress
    }

    /// The next replicas to ask, so that `wanted` have been: the nearest first, those that may not answer last.
    fn next_to_ask(&self, wanted: usize, is_expected: impl Fn(ReplicaId) -> bool) -> Vec<ReplicaIndex> {
        let expected = |index: &ReplicaIndex| is_expected(ReplicaId { shard: self.shard, index: *index });
        let order = self
            .nearest
            .iter()
            .filter(|index| expected(index))
            .chain(self.nearest.iter().filter(|index| !expected(index)));
        let missing = wanted.saturating_sub(self.asked.len());
        order.filter(|index| !self.asked.contains(index)).take(missing).copied().collect()
    }

    fn reset(&mut self) {
        self.asked.clear();
        self.replies.clear();
        self.behind.clear();
        self.waiting.clear();
        self.validated = None;
        self.read = None;
    }
}

impl Coordinator {
    fn reading(&mut self, id: TransactionId) -> Option<&mut Reading> {
        match &mut self.transactions.get_mut(&id)?.phase {
            Phase::Reading(reading) => Some(reading),
            _ => None,
        }
    }

    pub(super) fn start_reading(
        &mut self,
        id: TransactionId,
        reading: Reading,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let starts_at = reading.starts_at;
        if let Some(open) = self.transactions.get_mut(&id) {
            open.phase = Phase::Reading(Box::new(reading));
        }
        match starts_at {
            Some(starts_at) if starts_at > context.now => {
                if !self.lacks_quorum(id, context, outbox) {
                    self.transactions.wake_at(id, starts_at);
                }
            }
            _ => self.begin_round(id, context, outbox),
        }
    }

    /// True if so many replicas of a shard are known to be down that no quorum read can succeed: then it has gone another
    /// way, or has failed.
    fn lacks_quorum(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) -> bool {
        if self.unreachable.is_empty() {
            return false;
        }
        let Some(Phase::Reading(reading)) = self.transactions.get(&id).map(|open| &open.phase) else {
            return true;
        };
        let strict = match reading.snapshot {
            Snapshot::Validated { .. } => return false,
            Snapshot::Newest(_) => true,
            Snapshot::At(_) | Snapshot::Now(_) => false,
        };
        let open = reading.parts.iter().filter(|part| part.read.is_none());
        let missing = self.missing_quorum(open.map(|part| part.shard), GroupSize::snapshot_quorum);
        if missing.is_empty() {
            return false;
        }
        if strict {
            self.read_otherwise(id, context, outbox);
        } else {
            self.fail(id, Failure::Unavailable { missing }, outbox);
        }
        true
    }

    /// A strict read that cannot have a quorum is run as any other transaction, which needs no more than a majority.
    fn read_otherwise(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(reading) = self.reading(id) else { return };
        let execution = Execution::read_only(reading.routes.clone(), id.attempt);
        let wanted = match reading.scan.take() {
            Some(scan) => Wanted::Range(scan),
            None => Wanted::Keys(reading.parts.iter().flat_map(|part| part.keys.iter().cloned()).collect()),
        };
        if let Some(open) = self.transactions.get_mut(&id) {
            open.phase = Phase::Executing(Box::new(execution));
        }
        self.read_as_any_other(id, wanted, context, outbox);
    }

    /// Others hold what is to be read: they are asked for the same snapshot. Keys that have been read already are part of it still:
    /// a replica that has answered has handed over what it had promised.
    pub(super) fn read_elsewhere(
        &mut self,
        id: TransactionId,
        routes: &Arc<Routes>,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(reading) = self.reading(id) else { return };
        if reading.routes.keyspace.id != routes.keyspace.id {
            return;
        }
        reading.routes = routes.clone();
        for part in &mut reading.parts {
            let position = routes.keyspace.shards.iter().position(|shard| shard.id == part.shard);
            let position = position.expect("no change takes a shard away");
            (part.group, part.nearest) = (routes.members(position), routes.nearest[position].clone());
        }
        // A read that has not begun yet begins when it was to.
        if reading.starts_at.is_none() {
            self.begin_round(id, context, outbox);
        }
    }

    /// Asks for the snapshot, in every shard.
    fn begin_round(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        if self.lacks_quorum(id, context, outbox) {
            return;
        }
        let read_timeout = self.config.read_timeout;
        let reads_apart = self.config.rules.has(Plant::ShardsReadApart);
        let Some(reading) = self.reading(id) else { return };
        reading.round += 1;
        reading.starts_at = None;
        reading.sent_at = context.now;
        reading.resend_after = read_timeout;
        for part in reading.parts.iter_mut().filter(|part| part.read.is_none() || !reads_apart) {
            part.reset();
        }
        self.ask(id, false, outbox);
        self.transactions.wake_at(id, context.now + read_timeout);
        // The timestamps of these reads are deadlines.
        let Some(reading) = self.reading(id).filter(|reading| reading.in_turn) else { return };
        for replica in reading.unanswered() {
            self.probe(replica, context, outbox);
        }
    }

    /// Asks a quorum of every shard that is not read yet, or everybody there.
    fn ask(&mut self, id: TransactionId, everybody: bool, outbox: &mut Out) {
        let unexpected = (std::mem::take(&mut self.unreachable), std::mem::take(&mut self.silent));
        let mut notices = std::mem::take(&mut self.notices);
        self.ask_expected(id, everybody, &unexpected, &mut notices, outbox);
        (self.unreachable, self.silent) = unexpected;
        self.notices = notices;
    }

    fn ask_expected(
        &mut self,
        id: TransactionId,
        everybody: bool,
        (unreachable, silent): &(FixedSet<ReplicaId>, FixedSet<ReplicaId>),
        notices: &mut Notices,
        outbox: &mut Out,
    ) {
        let Some(reading) = self.reading(id) else { return };
        let is_expected = |replica| !unreachable.contains(&replica) && !silent.contains(&replica);
        for at in 0..reading.parts.len() {
            let part = &reading.parts[at];
            let wanted = match reading.snapshot {
                _ if part.read.is_some() => 0,
                _ if everybody => part.group.replicas(),
                Snapshot::Newest(_) | Snapshot::At(_) | Snapshot::Now(_) => part.group.snapshot_quorum(),
                Snapshot::Validated { .. } => 1,
            };
            let next = part.next_to_ask(wanted, is_expected);
            for index in &next {
                let replica = ReplicaId { shard: part.shard, index: *index };
                let mut message = reading.message(id, part);
                if let Message::ReadValidated { validated, .. } = &mut message {
                    *validated = notices.take(replica);
                }
                outbox.send(replica, message);
            }
            let part = &mut reading.parts[at];
            part.asked.extend(next);
            assert!(
                part.asked.len() <= part.group.replicas(),
                "{:?} are asked in a group of {}",
                part.asked,
                part.group.replicas()
            );
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    pub(super) fn on_quorum_read_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        round: u32,
        view: View,
        reply: Reply,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let rules = self.config.rules;
        let Some(group) = self.groups.get(&from.shard).map(|group| group.members) else { return };
        let down: Vec<ReplicaId> =
            replicas(from.shard, group).filter(|replica| self.unreachable.contains(replica)).collect();
        if !self.read_otherwise_than_validated(id, round, context, outbox) {
            return;
        }
        let Some(reading) = self.reading(id) else { return };
        let snapshot = reading.snapshot;
        let Some(at) = reading.parts.iter().position(|part| part.shard == from.shard) else { return };
        if reading.parts[at].read.is_some() || !reading.is_answered_by(&reading.parts[at], &reply) {
            return;
        }
        let part = &mut reading.parts[at];
        part.replies.insert(from.index, (view, reply));
        let greatest = part.replies.values().map(|(view, _)| *view).max().unwrap_or(view);
        for (index, (view, _)) in &part.replies {
            if *view < greatest {
                let message = Message::Ir(Ir::HigherView { view: greatest });
                outbox.send(ReplicaId { shard: part.shard, index: *index }, message);
            }
        }
        match part.progress(snapshot, reading.in_turn, rules) {
            Progress::Read(found) => {
                part.read = Some(found);
                if reading.parts.iter().all(|part| part.read.is_some()) {
                    self.finish_reading(id, context, outbox);
                }
            }
            Progress::Above(newest) => self.read_above(id, newest, context, outbox),
            Progress::Wait { obstructed } => {
                // A replica that is down will not answer, and a new attempt may find the write gone.
                let heard =
                    |replica: ReplicaId| part.replies.contains_key(&replica.index) || down.contains(&replica);
                let nobody_left = replicas(part.shard, part.group).all(heard);
                reading.obstructed |= obstructed;
                if obstructed && nobody_left && matches!(snapshot, Snapshot::Newest(_)) {
                    self.fail(id, Failure::Conflict, outbox);
                } else if obstructed {
                    self.ask(id, true, outbox);
                }
            }
        }
        self.pause_if_obstructed(id, context.now);
    }

    /// A replica lets the read wait for its turn. It is there, and a write is in the way.
    pub(super) fn on_quorum_read_waits(&mut self, from: ReplicaId, id: TransactionId, now: Instant) {
        let Some(reading) = self.reading(id) else { return };
        let Some(part) = reading.parts.iter_mut().find(|part| part.shard == from.shard) else { return };
        if !part.waiting.contains(&from.index) {
            part.waiting.push(from.index);
            reading.obstructed = true;
            reading.sent_at = now;
        }
    }

    /// Once all have answered, and writes are in the way, there is nothing to wait for but those writes: they are asked after
    /// again soon.
    fn pause_if_obstructed(&mut self, id: TransactionId, now: Instant) {
        let read_timeout = self.config.read_timeout;
        let Some(Phase::Reading(reading)) = self.transactions.get(&id).map(|open| &open.phase) else {
            return;
        };
        let heard = |part: &Part| {
            replicas(part.shard, part.group).all(|replica| {
                part.replies.contains_key(&replica.index) || self.unreachable.contains(&replica)
            })
        };
        if !reading.parts.iter().filter(|part| part.read.is_none()).all(heard) {
            return;
        }
        let Some(reading) = self.reading(id) else { return };
        let pause = reading.pause;
        reading.pause = (pause * 2).min(read_timeout);
        reading.resend_after = (now - reading.sent_at) + pause;
        self.transactions.wake_at(id, now + pause);
    }

    /// The newest version lies above the timestamp that was tried.
    fn read_above(&mut self, id: TransactionId, newest: Timestamp, context: &Context<'_>, outbox: &mut Out) {
        let retries_max = self.config.retries_max;
        let Some(reading) = self.reading(id) else { return };
        if reading.round > retries_max {
            return self.fail(id, Failure::Conflict, outbox);
        }
        let in_turn = reading.in_turn;
        let shards: Vec<ShardId> = reading.parts.iter().map(|part| part.shard).collect();
        let timestamp = self.next_read_timestamp(in_turn, shards.into_iter(), newest, context.clock);
        let Some(reading) = self.reading(id) else { return };
        assert!(
            timestamp > newest || timestamp.micros == u64::MAX,
            "{id} reads at {timestamp}, and a version of {newest} is known"
        );
        reading.snapshot = Snapshot::Newest(timestamp);
        self.begin_round(id, context, outbox);
    }

    pub(super) fn on_read_validated_reply(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        found: Vec<ValidatedVersion>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(reading) = self.reading(id) else { return };
        let is_of_quorum = matches!(reading.snapshot, Snapshot::At(_)) && reading.is_stale;
        let Some(at) = reading.parts.iter().position(|part| part.shard == from.shard) else { return };
        let part = &mut reading.parts[at];
        if is_of_quorum && part.read.is_none() && !part.replies.contains_key(&from.index) {
            // Another shard had not validated its keys, so that this one is asked for a quorum, too.
            part.asked.retain(|index| *index != from.index);
            return self.ask(id, false, outbox);
        }
        let Snapshot::Validated { oldest, .. } = reading.snapshot else { return };
        if found.len() == part.keys.len() {
            part.validated = Some(found);
        } else {
            return self.read_at_clock(id, context, outbox);
        }
        if reading.parts.iter().any(|part| part.validated.is_none()) {
            return;
        }
        let Some(timestamp) = reading.validated_at(oldest) else {
            return self.read_at_clock(id, context, outbox);
        };
        for part in &mut reading.parts {
            let validated = part.validated.take().unwrap_or_default();
            part.read = Some(validated.into_iter().map(|version| version.found).collect());
        }
        reading.snapshot = Snapshot::Validated { oldest: timestamp, otherwise: timestamp };
        self.finish_reading(id, context, outbox);
    }

    /// The validated versions of the nearest replicas do not suffice: a quorum is asked, which is as fresh as can be.
    fn read_at_clock(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let timestamp = self.next_timestamp(context.clock, Timestamp::ZERO);
        let Some(reading) = self.reading(id) else { return };
        reading.snapshot = Snapshot::At(timestamp);
        self.begin_round(id, context, outbox);
    }

    /// A replica has answered to the round of a read. If it was asked what it has validated, and that did not do, its answer is the first
    /// of a quorum, which the others of its shard and those of other shards are asked for now. False if the answer counts no more.
    fn read_otherwise_than_validated(
        &mut self,
        id: TransactionId,
        round: u32,
        context: &Context<'_>,
        outbox: &mut Out,
    ) -> bool {
        let Some(reading) = self.reading(id).filter(|reading| reading.round == round) else { return false };
        let Snapshot::Validated { otherwise, .. } = reading.snapshot else { return true };
        reading.snapshot = Snapshot::At(otherwise);
        reading.sent_at = context.now;
        for part in reading.parts.iter_mut().filter(|part| part.validated.is_some()) {
            part.reset();
        }
        if self.lacks_quorum(id, context, outbox) {
            return false;
        }
        self.ask(id, false, outbox);
        true
    }

    /// A replica finds the timestamp too far ahead of its clock. As long as the others make a quorum, it is asked too much.
    pub(super) fn on_reading_clock_ahead(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        invalid: Invalid,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(reading) = self.reading(id) else { return };
        if matches!(reading.snapshot, Snapshot::Validated { .. }) {
            return self.read_at_clock(id, context, outbox);
        }
        let Some(part) = reading.parts.iter_mut().find(|part| part.shard == from.shard) else { return };
        if !part.behind.contains(&from.index) {
            part.behind.push(from.index);
        }
        let (behind, allowed) = (part.behind.len(), part.group.replicas() - part.group.snapshot_quorum());
        if behind > allowed && matches!(reading.snapshot, Snapshot::Newest(_)) {
            // Prepares may lie further ahead, so later attempts are run as any other transaction. (This one must not be: what
            // others still say of it is of the read.)
            self.fail(id, Failure::Conflict, outbox);
        } else if behind > allowed {
            self.fail(id, Failure::Invalid(invalid), outbox);
        } else {
            self.ask(id, true, outbox);
        }
    }

    /// A replica has collected what was there at the timestamp. A reader of the newest versions has a slow clock.
    pub(super) fn on_snapshot_too_old(
        &mut self,
        id: TransactionId,
        oldest: Timestamp,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(reading) = self.reading(id) else { return };
        match reading.snapshot {
            Snapshot::Newest(timestamp) if timestamp < oldest => self.read_above(id, oldest, context, outbox),
            Snapshot::At(timestamp) | Snapshot::Now(timestamp) if timestamp < oldest => {
                self.fail(id, Failure::TooOld { oldest }, outbox);
            }
            Snapshot::Validated { .. } => self.read_at_clock(id, context, outbox),
            // It is late, and was said of an earlier round.
            _ => {}
        }
    }

    /// Tells the client, and after a quorum read the nearest replicas what they now may serve by themselves.
    fn finish_reading(&mut self, id: TransactionId, context: &Context<'_>, outbox: &mut Out) {
        let Some(open) = self.transactions.remove(&id) else { return };
        let Phase::Reading(reading) = open.phase else { return };
        let timestamp = reading.timestamp();
        assert!(
            reading.parts.iter().all(|part| part.read.is_some()),
            "{id} is taken for read, and {:?} have not answered",
            reading.unanswered()
        );
        let participants = reading.parts.iter().map(|part| part.shard).collect();
        let is_stale = reading.is_stale;
        match reading.scan {
            Some(scan) => outbox.emit(scanned(id, &scan, reading.parts)),
            None => {
                for (replica, validation) in tell_keys(id, reading.snapshot, timestamp, reading.parts, outbox)
                {
                    let Validation { timestamp, reads } = validation;
                    match is_stale {
                        true => self.notices.note(replica, Validation { timestamp, reads }),
                        false => outbox.send(replica, Message::Validated { timestamp, reads }),
                    }
                }
            }
        }
        let retries = reading.round.saturating_sub(1);
        let committed = Committed { retries, ..Committed::at(timestamp) };
        match reading.snapshot {
            Snapshot::Newest(_) | Snapshot::Now(_) => {
                self.report(id, Report::new(committed, participants, open.deadline), context, outbox);
            }
            // In the past, and of no moment.
            Snapshot::At(_) | Snapshot::Validated { .. } => finish(outbox, id, Ok(committed)),
        }
    }

    /// Begins what was to begin later, and asks others, or once more, for what has not been answered or was obstructed.
    pub(super) fn attend_reading(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let deadline = self.transactions.get(&id)?.deadline;
        let read_timeout = self.config.read_timeout;
        if self.lacks_quorum(id, context, outbox) {
            return Some(context.now + read_timeout);
        }
        let reading = self.reading(id)?;
        if let Some(starts_at) = reading.starts_at {
            if starts_at > context.now {
                return Some(starts_at.min(deadline));
            }
            self.begin_round(id, context, outbox);
            return Some(deadline);
        }
        if context.now - reading.sent_at < reading.resend_after {
            return Some((reading.sent_at + reading.resend_after).min(deadline));
        }
        let (snapshot, obstructed, silent) = (reading.snapshot, reading.obstructed, reading.unanswered());
        self.silent.extend(silent);
        if matches!(snapshot, Snapshot::Validated { .. }) {
            self.read_at_clock(id, context, outbox);
            return Some(deadline);
        }
        if matches!(snapshot, Snapshot::Newest(_)) && !obstructed {
            // Those that are not silent may be enough for a prepare.
            self.read_otherwise(id, context, outbox);
            return Some(deadline);
        }
        let reading = self.reading(id)?;
        // An obstructed part is read anew; to replicas that were silent it may be news.
        reading.sent_at = context.now;
        let longer = (reading.resend_after * 2).min(read_timeout * 8);
        reading.resend_after = if reading.obstructed { read_timeout } else { longer };
        reading.round += 1;
        for part in reading.parts.iter_mut().filter(|part| part.read.is_none()) {
            part.reset();
        }
        let resend_after = reading.resend_after;
        self.ask(id, true, outbox);
        Some((context.now + resend_after).min(deadline))
    }
}

/// Tells the client what the keys hold; gives what the nearest replicas may be told after a quorum read.
fn tell_keys(
    id: TransactionId,
    snapshot: Snapshot,
    timestamp: Timestamp,
    parts: Vec<Part>,
    outbox: &mut Out,
) -> Vec<(ReplicaId, Validation)> {
    let mut validated = Vec::new();
    for Part { shard, keys, nearest, read, .. } in parts {
        let mut reads = Vec::new();
        for (key, FoundVersion { version, value, .. }) in keys.into_iter().zip(read.unwrap_or_default()) {
            if matches!(snapshot, Snapshot::At(_) | Snapshot::Now(_)) {
                reads.push(ReadVersion { key: key.clone(), version, deleted: false });
            }
            outbox.emit(Event::Got { transaction: id, key, value });
        }
        if let Some(index) = nearest.first().filter(|_| !reads.is_empty()) {
            validated.push((ReplicaId { shard, index: *index }, Validation { timestamp, reads }));
        }
    }
    validated
}

/// The content of the range, of all its shards. No replica is told: that would cost as much as the scan.
fn scanned(id: TransactionId, scan: &Scan, parts: Vec<Part>) -> Event {
    let next = scan::common_end(parts.iter().map(|part| &part.next));
    let is_covered = |key: &Key| next.as_ref().is_none_or(|next| key < next);
    let found = parts.into_iter().flat_map(|part| part.keys.into_iter().zip(part.read.unwrap_or_default()));
    let live = |(key, found): (Key, FoundVersion)| Some((key, found.value?));
    let mut entries: Entries = found.filter_map(live).filter(|(key, _)| is_covered(key)).collect();
    entries.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    let next = scan::cut(&mut entries, scan.limit).or(next);
    Event::Scanned { transaction: id, entries, next }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Value};

    use super::*;

    /// A shard that has found these keys, the lower-case ones with a value, and covers the range up to `next`.
    fn part(keys: &[&str], next: Option<&str>) -> Part {
        let key = |name: &str| Key::copy_from_slice(name.as_bytes());
        let found = |name: &&str| FoundVersion {
            version: Timestamp { micros: 1, client: ClientId(1) },
            value: name.starts_with(char::is_lowercase).then(Value::new),
            absent_below: None,
        };
        Part {
            shard: ShardId(1),
            group: GroupSize::new(3).unwrap().into(),
            keys: keys.iter().map(|name| key(name)).collect(),
            next: next.map(key),
            nearest: Vec::new(),
            asked: Vec::new(),
            replies: BTreeMap::new(),
            behind: Vec::new(),
            waiting: Vec::new(),
            validated: None,
            read: Some(keys.iter().map(found).collect()),
        }
    }

    #[test]
    fn what_all_shards_cover_of_a_range_is_told_in_order() {
        let scan = |limit, parts| {
            let range = KeyRange { from: Key::default(), to: None };
            let event = scanned(TransactionId::default(), &Scan { range, limit }, parts);
            let Event::Scanned { entries, next, .. } = event else { panic!("{event:?}") };
            let name = |key: &Key| String::from_utf8_lossy(key).into_owned();
            let mut words: Vec<String> = entries.iter().map(|(key, _)| name(key)).collect();
            words.extend(next.as_ref().map(|next| format!("…{}", name(next))));
            words.join(" ")
        };
        assert_eq!(scan(9, vec![part(&["b", "d"], None), part(&["a", "c"], None)]), "a b c d");
        assert_eq!(scan(2, vec![part(&["b", "d"], None), part(&["a", "c"], None)]), "a b …c");
        assert_eq!(scan(9, vec![part(&["b", "e"], Some("f")), part(&["a", "c"], Some("d"))]), "a b c …d");
        let shorter = vec![part(&["b", "d"], None), part(&["a"], Some("d"))];
        assert_eq!(scan(9, shorter), "a b …d", "where the next page begins, all shards begin");
        assert_eq!(
            scan(9, vec![part(&["X", "b"], None), part(&[], Some("c"))]),
            "b …c",
            "what is absent is not told"
        );
    }
}
