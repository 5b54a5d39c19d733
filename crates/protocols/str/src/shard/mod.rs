//! A replica of a shard: versions, transactions that are prepared, and the latest reader of each key (section 6, algorithm 2).
//!
//! | file | role |
//! |---|---|
//! | `state` | what the log has led to |
//! | `pending` | the transactions that hold keys |
//! | `certification` | transactions are let in, announced, and voted on |
//! | `reads` | snapshots are read, and wait for what they may have to include |
//! | `grants` | snapshots are granted to replicas |
//! | `changes` | what has committed is told to consumers |
//! | `ending` | outcomes are taken over, and asked for |
//! | `invariants` | what holds between any two steps |
//!
//! The log says what is prepared, committed and granted. Readers and notes are in memory: a replica that restarts lives another life, and
//! votes as if everything that it was ever granted had been read (ADR 0050).

mod certification;
mod changes;
mod ending;
mod grants;
mod invariants;
mod pending;
mod reads;
mod state;

use std::collections::BTreeMap;

use quorate_core::log::Log;
use quorate_core::{
    Address, ClockTime, Context, Groups, Instant, ReplicaId, ReplicaIndex, ShardId, TransactionId, View,
};
use quorate_store::ReadTimestamps;

use crate::config::ReplicaConfig;
use crate::entry::{Entry, Frozen, Page};
use crate::machine::{Out, ReplicaEvent, ReplicaTimer};
use crate::message::{Holder, Life, Message};
use crate::reasons;
use crate::rules::Plant;
use certification::Candidate;
use pending::{Pending, Pendings};
use reads::Read;
use state::State;

/// A replica of a shard.
#[derive(Debug)]
pub struct Shard {
    config: ReplicaConfig,
    state: State,
    life: Life,
    /// The home that has a machine on this node, and the life of that.
    home: Option<(ReplicaId, Option<Life>)>,
    /// The latest readers of keys in this life.
    readers: ReadTimestamps,
    pendings: Pendings,
    /// The requests that wait for the outcome of a transaction.
    waiting: BTreeMap<TransactionId, Vec<Waiter>>,
    /// The reads that wait for a grant.
    ungranted: Vec<Read>,
    waiters: usize,
    /// Up to where this life may serve snapshots.
    bound: ClockTime,
    /// Up to here this life has promised consumers of changes that nothing else commits, but for what is pending.
    promised: ClockTime,
    /// When the leader was asked for a grant last, and whether anybody has read since it was granted.
    asked_at: Option<Instant>,
    is_read: bool,
    leader: Option<Leading>,
    /// The clock of the leader that has granted it.
    bound_clock: ClockTime,
    /// True if the state was replaced since what waits was looked at.
    is_replaced: bool,
    /// How many votes wait for notes that have to give way.
    held_votes: usize,
    /// How many transactions had to give way here.
    gave_way: u64,
}

/// A request that waits.
#[derive(Debug)]
enum Waiter {
    Read(Read),
    Candidate(Candidate),
}

/// The state that only a leader has.
#[derive(Debug)]
struct Leading {
    view: View,
    /// The greatest bounds that were granted, appended ones included.
    granted: BTreeMap<ReplicaIndex, Holder>,
    /// Aborts that have overtaken their prepares, by when they came.
    aborted: BTreeMap<TransactionId, Instant>,
    /// Outcomes that were appended.
    deciding: BTreeMap<TransactionId, Option<ReplicaId>>,
    /// The floor that was appended last.
    floor: ClockTime,
}

impl Shard {
    pub(crate) fn new(config: ReplicaConfig) -> Self {
        Shard {
            config,
            state: State::default(),
            life: Life::default(),
            home: None,
            readers: ReadTimestamps::new(),
            pendings: Pendings::default(),
            waiting: BTreeMap::new(),
            ungranted: Vec::new(),
            waiters: 0,
            bound: ClockTime::default(),
            promised: ClockTime::default(),
            asked_at: None,
            is_read: false,
            leader: None,
            bound_clock: ClockTime::default(),
            is_replaced: false,
            held_votes: 0,
            gave_way: 0,
        }
    }

    pub(crate) fn start(&mut self, life: Life, outbox: &mut Out) {
        self.life = life;
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        self.greet(outbox);
    }

    /// Tells the home of this node in which life this replica is.
    fn greet(&self, outbox: &mut Out) {
        if let Some((home, known)) = self.home {
            outbox.send_unordered(home, Message::Hello { life: self.life, wants: known.is_none() });
        }
    }

    /// The machines of this keyspace on the same node have changed.
    pub(crate) fn meet(
        &mut self,
        neighbours: &[ReplicaId],
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        // One that is no member any more may still run beside the one that has come in its place.
        let is_member = |home: &ReplicaId| self.config.groups.members(home.shard).contains(home.index);
        let homes = neighbours.iter().copied().filter(|replica| !self.config.shards.contains(replica.shard));
        let home = homes.max_by_key(|home| (is_member(home), *home));
        if home != self.home.map(|(home, _)| home) {
            self.drop_notes(context, log, outbox);
            self.home = home.map(|home| (home, None));
        }
        self.greet(outbox);
    }

    pub(crate) fn change_groups(&mut self, groups: Groups, outbox: &mut Out) {
        if groups.epoch <= self.config.groups.epoch {
            return outbox.ignored(reasons::EPOCH_KNOWN);
        }
        self.config.groups = groups;
    }

    /// True if an address is the machine of the home on this node, in the life that is known.
    fn is_own_home(&self, from: Address, life: Life) -> bool {
        self.home.is_some_and(|(home, known)| Address::Replica(home) == from && known == Some(life))
    }

    pub(crate) fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let Address::Replica(sender) = from else { return outbox.ignored(reasons::HOMES_ONLY) };
        let is_home = !self.config.shards.contains(sender.shard);
        match message {
            Message::ReadAt { life, request, snapshot, wanted } if is_home => {
                let since = context.now;
                self.on_read_at(
                    Read { home: sender, life, request, snapshot, wanted, since, has_waited: false },
                    context,
                    log,
                    outbox,
                );
            }
            Message::Prepare { transaction, life, snapshot, writes, after, is_local, knows_indexes }
                if is_home =>
            {
                let home = sender;
                let candidate =
                    Candidate { transaction, home, life, snapshot, writes, after, is_local, knows_indexes };
                self.on_prepare(candidate, context, log, outbox);
            }
            Message::Decide { transaction, is_forgotten: true, .. } if self.has_committed(transaction) => {
                outbox.ignored(reasons::ENDED);
            }
            Message::Decide { transaction, outcome, readers, .. } if is_home => {
                self.on_decide(sender, transaction, outcome, readers, context, log, outbox);
            }
            Message::Hello { life, wants } if is_home => {
                self.on_hello(sender, life, wants, context, log, outbox)
            }
            Message::NotLeading { transaction: Some(transaction), leader } if is_home => {
                self.on_home_not_leading(sender, transaction, leader, context, outbox);
            }
            Message::Replicate { transaction, home, life, snapshot, keys, holder, view }
                if sender.shard == self.config.replica.shard =>
            {
                let pending = Pending::new(home, life, snapshot, keys, context.now);
                self.on_replicate(transaction, pending, holder, view, context, outbox);
            }
            Message::AskGrant { life, wanted } if sender.shard == self.config.replica.shard => {
                self.on_ask_grant(sender.index, life, wanted, context, log, outbox);
            }
            Message::AskTime { life } if is_home => self.on_ask_time(sender, life, context, log, outbox),
            Message::NotLeading { transaction: None, .. } if sender.shard == self.config.replica.shard => {
                outbox.ignored(reasons::KNOWN);
            }
            Message::ReadAt { .. }
            | Message::Prepare { .. }
            | Message::Decide { .. }
            | Message::Hello { .. }
            | Message::Replicate { .. }
            | Message::AskGrant { .. }
            | Message::AskTime { .. }
            | Message::NotLeading { .. } => outbox.ignored(reasons::NOT_ITS_PLACE),
            Message::Read { .. }
            | Message::Commit { .. }
            | Message::Abort { .. }
            | Message::Inquire { .. }
            | Message::ReadAtReply { .. }
            | Message::CannotRead { .. }
            | Message::LocalVote { .. }
            | Message::Vote { .. }
            | Message::Prepared { .. }
            | Message::Refused { .. }
            | Message::Applied { .. }
            | Message::GiveWay { .. }
            | Message::Bound { .. }
            | Message::Time { .. }
            | Message::Record { .. }
            | Message::Recorded { .. }
            | Message::Settled { .. } => outbox.ignored(reasons::HOMES_ONLY),
            Message::ReadReply { .. }
            | Message::Shown { .. }
            | Message::UnderWay { .. }
            | Message::CommitReply { .. }
            | Message::Doomed { .. }
            | Message::OtherPeriod { .. }
            | Message::InquireReply { .. } => outbox.ignored(reasons::CLIENTS_ONLY),
        }
    }

    pub(crate) fn apply(
        &mut self,
        entry: &Entry,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.look_again(context, log, outbox);
        match entry {
            Entry::Prepared(prepared) => self.on_prepared(prepared, context, log, outbox),
            Entry::Decided(decided) => self.on_decided(decided, context, log, outbox),
            Entry::Granted(granted) => self.on_granted(granted, context, log, outbox),
            Entry::Floor(floor) => self.state.raise_floor(*floor, self.config.retention),
            Entry::Recorded(_) | Entry::Settled(_) | Entry::Forgotten(_) => {
                unreachable!("the log of a shard has no entries of a home")
            }
        }
    }

    pub(crate) fn on_leading(
        &mut self,
        view: View,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        assert!(self.leader.is_none(), "it leads {view}, and has led without being deposed");
        self.leader = Some(Leading {
            view,
            granted: self.state.grants.clone(),
            aborted: BTreeMap::new(),
            deciding: BTreeMap::new(),
            floor: self.state.floor,
        });
        outbox.emit(ReplicaEvent::Leading { view });
        if !self.ungranted.is_empty() || self.is_read {
            self.ask_grant(context, log, outbox);
        }
        // Outcomes that were heard of and are not in the log: the leader before may not have appended them.
        let known: Vec<TransactionId> = self.pendings.iter().map(|(id, _)| id).collect();
        for id in known {
            assert!(
                self.pendings.get(id).is_none_or(|pending| !pending.is_appended),
                "{id} was appended before {view} was led"
            );
            self.append_outcome(id, None, log, outbox);
        }
    }

    pub(crate) fn on_deposed(&mut self, outbox: &mut Out) {
        let Some(Leading { view, .. }) = self.leader.take() else {
            return outbox.ignored(reasons::NOT_LEADING);
        };
        // An entry that was appended and is not stable may never be: the log will say.
        let appended = self
            .pendings
            .iter_mut()
            .filter_map(|(id, pending)| std::mem::take(&mut pending.is_appended).then_some(id));
        let appended: Vec<TransactionId> = appended.collect();
        for id in appended {
            self.hold_appended(id, view);
        }
        outbox.emit(ReplicaEvent::Deposed);
    }

    pub(crate) fn on_attention(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        self.look_again(context, log, outbox);
        self.attend_grants(context, log, outbox);
        self.attend_endings(context, log, outbox);
        self.attend_waiting(context);
        self.attend_floor(context, log, outbox);
    }

    /// Raises the floor, if there is something to forget.
    fn attend_floor(&mut self, context: &Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let lag = self.config.floor_lag.as_micros() as u64;
        let floor = ClockTime::from_micros(context.clock.as_micros().saturating_sub(lag));
        self.readers.collect(crate::message::newest_of(floor.min(self.state.floor)));
        let Some(leader) = &mut self.leader else { return };
        assert!(
            leader.floor >= self.state.floor,
            "{} has raised the floor to {:?}, and it is at {:?}",
            leader.view,
            leader.floor,
            self.state.floor
        );
        let step = ClockTime::from_micros(leader.floor.as_micros().saturating_add(lag / 4));
        if floor <= step {
            return;
        }
        match log.append(Entry::Floor(floor)) {
            Some(_) => leader.floor = floor,
            None => outbox.ignored(reasons::LOG_CLOSED),
        }
    }

    pub(crate) fn freeze(&self, data_only: bool) -> Frozen {
        const DIGESTED_PAGE_BYTES: usize = 16 * 1024;
        let bytes = if data_only { DIGESTED_PAGE_BYTES } else { self.config.page_bytes_max };
        self.state.freeze(bytes, data_only)
    }

    pub(crate) fn replace_state(&mut self, pages: Vec<Page>) {
        assert!(self.leader.is_none(), "a leader has applied everything that may be stable");
        self.state = State::from_pages(pages);
        self.rebuild();
        self.is_replaced = true;
    }

    /// Looks at all that waits after the state was replaced.
    fn look_again(&mut self, context: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        if std::mem::take(&mut self.is_replaced) {
            let waited_for: Vec<TransactionId> = self.waiting.keys().copied().collect();
            for id in waited_for {
                self.wake(id, context, log, outbox);
            }
            self.wake_ungranted(context, log, outbox);
        }
    }

    /// The state was replaced by a later one: what the log had said before is said by that, or is over.
    fn rebuild(&mut self) {
        let known: Vec<TransactionId> = self.pendings.iter().map(|(id, _)| id).collect();
        for id in known {
            let has_ended = self.state.outcome(id).is_some();
            let Some(pending) = self.pendings.get_mut(id) else { continue };
            pending.prepared = None;
            if has_ended || (pending.note.is_none() && pending.announced.is_none()) {
                self.forget(id);
            }
        }
        for prepared in self.state.prepared.values() {
            let pending = self
                .pendings
                .enter(prepared.transaction, || certification::pending_of(prepared, Instant::START));
            pending.prepared = Some(std::sync::Arc::clone(prepared));
        }
        let Some(own) = self.state.grants.get(&self.config.replica.index).copied() else { return };
        if own.life != self.life || own.until > self.bound {
            // Its bound may be that of an earlier life, which the state does not tell from what this life was granted.
            self.forget_readers(own.until);
        }
        if own.life == self.life {
            self.bound = own.until;
        }
    }

    /// The shard of this replica.
    fn shard(&self) -> ShardId {
        self.config.replica.shard
    }

    fn has(&self, plant: Plant) -> bool {
        self.config.rules.has(plant)
    }
}

/// Views for hosts and judges.
impl Shard {
    pub(crate) fn prepared(&self) -> &BTreeMap<TransactionId, std::sync::Arc<crate::entry::Prepared>> {
        &self.state.prepared
    }

    pub(crate) fn outcomes(&self) -> Vec<(TransactionId, quorate_core::command::Outcome)> {
        self.state.outcomes()
    }

    pub(crate) fn outcome(&self, id: TransactionId) -> Option<quorate_core::command::Outcome> {
        self.state.outcome(id)
    }

    pub(crate) fn ended_len(&self) -> usize {
        self.state.ended_len()
    }

    pub(crate) fn floor(&self) -> ClockTime {
        self.state.floor
    }

    pub(crate) fn versions(&self) -> &quorate_store::Versions {
        &self.state.versions
    }

    pub(crate) fn superfluous(&self) -> usize {
        let collected = self.state.floor_timestamp().min(self.state.history.horizon());
        self.state.versions.superfluous(collected)
    }

    pub(crate) fn waiters(&self) -> usize {
        self.waiters
    }

    pub(crate) fn decided(&self) -> (u64, u64) {
        (self.state.committed, self.state.aborted)
    }

    /// How many transactions hold keys here, notes included.
    pub(crate) fn pendings(&self) -> usize {
        self.pendings.len()
    }

    pub(crate) fn inquiries(&self) -> usize {
        self.pendings.iter().filter(|(_, pending)| pending.inquiries > 0).count()
    }

    pub(crate) fn gave_way(&self) -> u64 {
        self.gave_way
    }
}
