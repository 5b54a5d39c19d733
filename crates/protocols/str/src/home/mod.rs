//! The machine of a node: it runs the transactions of the clients that are near, and speculates (section 6, algorithm 1).
//!
//! | file | role |
//! |---|---|
//! | `transaction` | a transaction of the node |
//! | `cache` | what transactions of the node have written |
//! | `reads` | snapshots are read, from the cache and from replicas |
//! | `certification` | transactions commit locally, and ask the shards |
//! | `committing` | how many commits are under way |
//! | `ending` | transactions become final or abort, and what depends on them |
//! | `decisions` | decisions are recorded in the home's log, told to the shards, and found again |
//! | `leaders` | which replica leads each shard, and what is asked again when that changes |
//! | `tuning` | how much the node speculates |
//! | `time` | the clock of the node is compared with those of leaders |
//! | `state` | what the log has led to |
//! | `invariants` | what holds between any two steps |
//!
//! A *home* is a group of such machines in one site. Each runs transactions of its own; they share a log, in which decisions stand. All
//! else is in memory: a machine that restarts has aborted what it had not decided (ADR 0050).

mod cache;
mod certification;
mod committing;
mod decisions;
mod ending;
mod invariants;
mod leaders;
mod reads;
mod state;
mod time;
mod transaction;
mod tuning;

use std::collections::{BTreeMap, BTreeSet};

use quorate_coordinator::Leaders;
use quorate_core::hash::FixedMap;
use quorate_core::log::Log;
use quorate_core::topology::Grants;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Groups, Instant, ReplicaId, ShardId, TransactionId,
};

use crate::config::ReplicaConfig;
use crate::entry::{Entry, Frozen, Page};
use crate::machine::{Out, ReplicaEvent, ReplicaTimer};
use crate::message::{Ending, Life, Message, Period, Refusal, Session, after};
use crate::reasons;
use crate::rules::Plant;
use crate::tuner::Tuner;
use cache::Cache;
use committing::Committing;
use decisions::Delivery;
use reads::Sub;
use state::State;
use transaction::{Asked, LetIn, Phase, Transaction};

/// A replica of a shard on the same node.
#[derive(Clone, Copy, Debug)]
struct Neighbour {
    replica: ReplicaId,
    life: Option<Life>,
    /// It serves snapshots up to here.
    bound: ClockTime,
}

/// The machine of a node.
#[derive(Debug)]
pub struct Home {
    config: ReplicaConfig,
    state: State,
    period: Period,
    period_since: Instant,
    neighbours: BTreeMap<ShardId, Neighbour>,
    /// The latest readings of the clocks of the leaders of shards, and when they came.
    references: BTreeMap<ShardId, (ClockTime, Instant)>,
    /// The leaders that were asked for them last.
    asked_time: BTreeMap<ShardId, Asked>,
    /// True while replicas that are about to lead have a moment.
    asks_soon: bool,
    /// All machines of the keyspace on this node, those that are no members included.
    met: Vec<ReplicaId>,
    /// Sessions that are ahead of clocks, by the transactions that they want to begin, and since when they wait.
    waiting: BTreeMap<TransactionId, Instant>,
    /// The leader of each shard, as far as is known.
    leaders: Leaders,
    /// The replica of each shard that has answered as leaders do, last.
    led_by: BTreeMap<ShardId, ReplicaId>,
    /// Boxed, because they are many bytes each, and neighbours in the map are moved often.
    transactions: BTreeMap<TransactionId, Box<Transaction>>,
    committing: Committing,
    /// The numbers of those that still read.
    open: BTreeSet<u64>,
    began: u64,
    cache: Cache,
    /// The greatest final timestamp that this node has heard of; that of a read-only transaction is its snapshot.
    greatest: ClockTime,
    /// The local commits that are neither final nor aborted, by their timestamps.
    locals: BTreeSet<(ClockTime, TransactionId)>,
    subs: BTreeMap<u64, Sub>,
    requests: u64,
    /// Reads that wait for something else than replicas.
    parked: BTreeSet<(TransactionId, u32)>,
    /// How transactions ended, and in which period their commit was sent.
    endings: FixedMap<TransactionId, (Ending, u64)>,
    deliveries: BTreeMap<TransactionId, Delivery>,
    settled: Vec<TransactionId>,
    leader: Option<decisions::Leading>,
    tuner: Option<Box<Tuner>>,
    counts: Counts,
}

/// The counts of events, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Transactions that became final.
    pub finals: u64,
    /// Those that aborted.
    pub aborts: u64,
    /// Those that aborted although their result had been shown.
    pub apologies: u64,
    /// Results that were shown.
    pub shown: u64,
    /// Reads from transactions that were not final.
    pub speculative_reads: u64,
    /// Transactions that aborted because of one that they depended on.
    pub cascades: u64,
    /// Reads that waited because of an unsafe local commit in their snapshot (section 6.2).
    pub mixed: u64,
    /// Commits that passed above the bound of a replica that did not vote.
    pub passed: u64,
}

impl Home {
    pub(crate) fn new(config: ReplicaConfig) -> Self {
        let mut home = Home {
            config,
            state: State::default(),
            period: Period::default(),
            period_since: Instant::START,
            neighbours: BTreeMap::new(),
            references: BTreeMap::new(),
            asked_time: BTreeMap::new(),
            asks_soon: false,
            met: Vec::new(),
            waiting: BTreeMap::new(),
            leaders: Leaders::default(),
            led_by: BTreeMap::new(),
            transactions: BTreeMap::new(),
            committing: Committing::default(),
            open: BTreeSet::new(),
            began: 0,
            cache: Cache::default(),
            greatest: ClockTime::default(),
            locals: BTreeSet::new(),
            subs: BTreeMap::new(),
            requests: 0,
            parked: BTreeSet::new(),
            endings: FixedMap::default(),
            deliveries: BTreeMap::new(),
            settled: Vec::new(),
            leader: None,
            tuner: None,
            counts: Counts::default(),
        };
        home.learn_groups();
        home
    }

    fn learn_groups(&mut self) {
        for shard in self.config.shards.ids() {
            let groups = &self.config.groups;
            self.leaders.learn(shard, groups.members(shard), None, groups.epoch);
        }
    }

    pub(crate) fn start(&mut self, life: Life, now: Instant, outbox: &mut Out) {
        (self.period, self.period_since) = (Period { life, number: 1 }, now);
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        self.start_tuning(now, outbox);
        self.greet(outbox);
        for shard in self.config.shards.ids() {
            self.ask_time(shard, now, outbox);
        }
    }

    fn life(&self) -> Life {
        self.period.life
    }

    fn greet(&self, outbox: &mut Out) {
        for neighbour in self.neighbours.values() {
            let hello = Message::Hello { life: self.life(), wants: neighbour.life.is_none() };
            outbox.send_unordered(neighbour.replica, hello);
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
        self.met = neighbours.to_vec();
        self.meet_members(context, log, outbox);
    }

    /// Turns to those machines on this node that are replicas of shards, as far as this one has heard. Nothing is announced to one that is no member any
    /// more: it protects nobody.
    fn meet_members(&mut self, context: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        let (shards, groups) = (self.config.shards, &self.config.groups);
        let is_member = |replica: &ReplicaId| {
            shards.contains(replica.shard) && groups.members(replica.shard).contains(replica.index)
        };
        let replicas: Vec<ReplicaId> = self.met.iter().copied().filter(is_member).collect();
        let gone: Vec<ShardId> = self
            .neighbours
            .values()
            .map(|known| known.replica)
            .filter(|replica| !replicas.contains(replica))
            .map(|replica| replica.shard)
            .collect();
        for shard in gone {
            self.neighbours.remove(&shard);
            self.lose_neighbour(shard, None, context, log, outbox);
        }
        for replica in replicas {
            let unknown = Neighbour { replica, life: None, bound: ClockTime::default() };
            self.neighbours.entry(replica.shard).or_insert(unknown);
        }
        self.greet(outbox);
    }

    /// HELLO of a replica on this node.
    fn on_hello(
        &mut self,
        from: ReplicaId,
        life: Life,
        wants: bool,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let known = self.neighbours.get_mut(&from.shard).filter(|known| known.replica == from);
        let Some(neighbour) = known else { return outbox.ignored(reasons::OTHER_NODE) };
        if neighbour.life != Some(life) {
            (neighbour.life, neighbour.bound) = (Some(life), ClockTime::default());
            self.lose_neighbour(from.shard, Some(life), context, log, outbox);
        }
        if wants {
            outbox.send_unordered(from, Message::Hello { life: self.life(), wants: false });
        }
    }

    /// The replica of a shard on this node is gone, or has forgotten what was noted there: what has committed locally under its eyes is
    /// protected by nobody.
    fn lose_neighbour(
        &mut self,
        shard: ShardId,
        life: Option<Life>,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let is_lost = |transaction: &Transaction| {
            let part = transaction.parts.get(&shard);
            part.and_then(|part| part.local).is_some_and(|(_, noted)| Some(noted) != life)
        };
        let lost: Vec<TransactionId> = self
            .transactions
            .iter()
            .filter(|(_, one)| is_lost(one) && matches!(one.phase, Phase::Certifying | Phase::Local(_)))
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            self.abort(id, Refusal::Conflict, context, log, outbox);
        }
        self.ask_elsewhere(shard, context, outbox);
    }

    /// BOUND of a replica on this node.
    fn on_bound(
        &mut self,
        from: ReplicaId,
        until: ClockTime,
        clock: ClockTime,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        let known = self.neighbours.get_mut(&from.shard).filter(|known| known.replica == from);
        let Some(neighbour) = known else { return outbox.ignored(reasons::OTHER_NODE) };
        neighbour.bound = neighbour.bound.max(until);
        if self.config.grants == Grants::Leader {
            self.note_leading(from, context.now, outbox);
        }
        self.references.insert(from.shard, (clock, context.now));
        // A snapshot that is safe up to a bound is so up to a greater one now.
        self.look_at_parked(context, log, outbox);
    }

    /// The replica of a shard on this node, if it serves snapshots.
    fn local(&self, shard: ShardId) -> Option<(ReplicaId, Life)> {
        let known = self.neighbours.get(&shard)?;
        let is_ready = known.bound > ClockTime::default() && self.may_serve(known.replica);
        known.life.filter(|_| is_ready).map(|life| (known.replica, life))
    }

    /// True if a replica is granted snapshots, as far as this node knows: any is that is read from, or the leader alone, as the keyspace says.
    fn may_serve(&self, replica: ReplicaId) -> bool {
        match self.config.grants {
            Grants::All => true,
            Grants::Leader => self.leaders.leader(replica.shard) == replica,
        }
    }

    /// The latest local or final commit that snapshots of this node have to include. A local commit that has aborted does not count any more: a
    /// clock that was wrong may have led it far ahead.
    fn latest(&self) -> ClockTime {
        self.locals.last().map_or(self.greatest, |(local, _)| self.greatest.max(*local))
    }

    /// Tells a client that this node lives, and does not begin its transaction yet.
    fn tell_early(&self, id: TransactionId, why: &'static str, outbox: &mut Out) {
        self.tell(id.client, Message::UnderWay { transaction: id }, outbox);
        outbox.ignored(why);
    }

    /// The snapshot of a transaction that begins now: it includes whatever has committed on this node, locally or for good, and what its
    /// session has seen.
    fn snapshot(&self, seen: ClockTime, context: &Context<'_>) -> ClockTime {
        let time = self.time(context);
        match self.has(Plant::SessionIgnored) {
            true => time,
            false => after(time.max(self.latest()).max(seen)),
        }
    }

    fn has(&self, plant: Plant) -> bool {
        self.config.rules.has(plant)
    }

    pub(crate) fn change_groups(
        &mut self,
        groups: Groups,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if groups.epoch <= self.config.groups.epoch {
            return outbox.ignored(reasons::EPOCH_KNOWN);
        }
        self.config.groups = groups;
        self.learn_groups();
        self.meet_members(context, log, outbox);
    }

    pub(crate) fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match from {
            Address::Client(client) => self.on_client_message(client, message, context, log, outbox),
            Address::Replica(replica) if self.config.shards.contains(replica.shard) => {
                self.on_shard_message(replica, message, context, log, outbox);
            }
            Address::Replica(replica) if replica.shard == self.config.replica.shard => {
                self.on_home_message(replica, message, context, log, outbox);
            }
            Address::Replica(_) => outbox.ignored(reasons::NOT_ITS_PLACE),
        }
    }

    fn on_client_message(
        &mut self,
        client: ClientId,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        if let Message::Inquire { transaction, snapshot } = message {
            return self.on_inquire(client.into(), transaction, snapshot, context, log, outbox);
        }
        let (transaction, session) = match &message {
            Message::Read { transaction, session, .. } | Message::Commit { transaction, session, .. } => {
                (*transaction, *session)
            }
            Message::Abort { transaction } => (*transaction, Session::default()),
            _ => return outbox.ignored(reasons::REPLICAS_ONLY),
        };
        if transaction.client != client {
            return outbox.ignored(reasons::FOREIGN);
        }
        // A transaction that follows another one begins once that has a local timestamp.
        if !self.transactions.contains_key(&transaction)
            && let Some(earlier) = session.after.and_then(|earlier| self.transactions.get_mut(&earlier))
            && matches!(earlier.phase, Phase::Executing | Phase::Certifying)
        {
            if earlier.queued.len() < self.config.waiting_max {
                earlier.queued.push((client.into(), message));
            } else {
                outbox.ignored(reasons::TOO_MANY);
            }
            return;
        }
        match message {
            Message::Read { transaction, session, snapshot, request, wanted } => {
                self.on_read(transaction, session, snapshot, request, wanted, context, log, outbox);
            }
            Message::Commit {
                transaction,
                session,
                snapshot,
                period,
                begun,
                writes,
                shows,
                knows_indexes,
            } => {
                let wanted = transaction::CommitWanted { writes, shows, knows_indexes, period, begun };
                self.on_commit(transaction, session, snapshot, wanted, context, log, outbox);
            }
            Message::Abort { transaction } => self.on_abort(transaction, context, log, outbox),
            _ => unreachable!("others have been told apart above"),
        }
    }

    fn on_shard_message(
        &mut self,
        from: ReplicaId,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match message {
            Message::ReadAtReply { life, request, found, floor } if life == self.life() => {
                self.on_read_at_reply(from, request, found, floor, context, log, outbox);
            }
            Message::CannotRead { life, request, why } if life == self.life() => {
                self.on_cannot_read(from, request, why, context, log, outbox);
            }
            Message::ReadAtReply { .. } | Message::CannotRead { .. } => outbox.ignored(reasons::OTHER_LIFE),
            Message::LocalVote { transaction, life, proposal, leads } => {
                self.on_local_vote(from, transaction, life, proposal, leads, context, log, outbox);
            }
            Message::Vote { transaction, life, view, proposal } => {
                self.on_vote(from, transaction, life, view, proposal, context, log, outbox);
            }
            Message::Prepared { transaction, view, proposal, holders } => {
                let prepared = LetIn { view, proposal, holders };
                self.leaders.note_leading(from);
                self.on_prepared(from.shard, transaction, prepared, context, log, outbox);
                self.note_leading(from, context.now, outbox);
            }
            Message::Refused { transaction, refusal } => {
                self.on_refused(from, transaction, refusal, context, log, outbox);
            }
            Message::Applied { transaction } => {
                self.on_applied(from.shard, transaction, outbox);
                self.note_leading(from, context.now, outbox);
            }
            Message::GiveWay { transaction } => self.on_give_way(from, transaction, context, log, outbox),
            Message::Bound { until, clock } => self.on_bound(from, until, clock, context, log, outbox),
            Message::Hello { life, wants } => self.on_hello(from, life, wants, context, log, outbox),
            Message::Inquire { transaction, snapshot } => {
                self.on_inquire(from.into(), transaction, snapshot, context, log, outbox);
            }
            Message::Time { life, clock } if life == self.life() => {
                self.on_time(from, clock, context, outbox);
            }
            Message::Time { .. } => outbox.ignored(reasons::OTHER_LIFE),
            Message::NotLeading { transaction: Some(transaction), leader } => {
                self.on_not_leading(from, transaction, leader, context, outbox);
            }
            Message::NotLeading { transaction: None, leader } => {
                self.on_time_not_leading(from, leader, context, outbox);
            }
            _ => outbox.ignored(reasons::NOT_ITS_PLACE),
        }
    }

    fn on_home_message(
        &mut self,
        from: ReplicaId,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match message {
            Message::Record { decision, forgotten } => {
                self.on_record(from, decision, forgotten, context, log, outbox);
            }
            Message::Recorded { transaction, outcome } => {
                let snapshot = self.state.get(transaction).map(|known| known.decision.snapshot);
                self.on_recorded(transaction, outcome, snapshot.unwrap_or_default(), context, log, outbox);
            }
            Message::Settled { transactions } => self.on_settled(transactions, log, outbox),
            _ => outbox.ignored(reasons::NOT_ITS_PLACE),
        }
    }

    pub(crate) fn apply(
        &mut self,
        entry: &Entry,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match entry {
            Entry::Recorded(decision) => self.apply_recorded(decision, context, log, outbox),
            Entry::Settled(transactions) => self.state.settle(transactions),
            Entry::Forgotten(below) => self.state.forget(*below),
            Entry::Prepared(_) | Entry::Decided(_) | Entry::Granted(_) | Entry::Floor(_) => {
                unreachable!("the log of a home has no entries of a shard")
            }
        }
    }

    pub(crate) fn on_leading(
        &mut self,
        view: quorate_core::View,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        assert!(self.leader.is_none(), "it leads {view}, and has led without being deposed");
        self.leader = Some(decisions::Leading::new(self.state.forgotten));
        outbox.emit(ReplicaEvent::Leading { view });
        self.take_over(context);
        self.record_again(log, outbox);
    }

    pub(crate) fn on_deposed(&mut self, outbox: &mut Out) {
        self.leader = None;
        outbox.emit(ReplicaEvent::Deposed);
    }

    pub(crate) fn on_attention(
        &mut self,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        self.attend_period(context);
        self.attend_time(context, outbox);
        self.attend_reads(context, outbox);
        self.attend_transactions(context, log, outbox);
        self.attend_decisions(context, log, outbox);
        self.waiting.retain(|_, since| context.now - *since < 4 * self.config.grant_length);
        let lag = self.config.floor_lag.as_micros() as u64;
        let floor = ClockTime::from_micros(self.time(context).as_micros().saturating_sub(lag));
        // All keys count as read up to the floor, and commits go above: a clock that was compared with none yet must not lead them.
        self.cache.readers.collect(crate::message::newest_of(floor.min(self.greatest)));
    }

    /// Periods count how long endings are remembered.
    fn attend_period(&mut self, context: &Context<'_>) {
        if context.now - self.period_since < self.config.floor_lag {
            return;
        }
        self.period_since = context.now;
        self.period.number += 1;
        let oldest = self.period.number - 1;
        // Any order: each goes or stays by itself.
        self.endings.retain(|_, (_, period)| *period >= oldest);
    }

    pub(crate) fn freeze(&self) -> Frozen {
        self.state.freeze(self.config.page_bytes_max)
    }

    pub(crate) fn replace_state(&mut self, pages: Vec<Page>) {
        assert!(self.leader.is_none(), "a leader has applied everything that may be stable");
        self.state = State::from_pages(pages);
    }

    /// Sends a message to the client of a transaction. Nothing that it reveals has to outlive this machine, unless the log has it.
    fn tell(&self, client: ClientId, message: Message, outbox: &mut Out) {
        outbox.send_unordered(client, message);
    }
}

/// Views for hosts and judges.
impl Home {
    pub(crate) fn outcomes(&self) -> Vec<(TransactionId, quorate_core::command::Outcome)> {
        self.state.iter().map(|known| (known.decision.transaction, known.decision.outcome)).collect()
    }

    pub(crate) fn outcome(&self, id: TransactionId) -> Option<quorate_core::command::Outcome> {
        self.state.outcome(id)
    }

    pub(crate) fn decisions_len(&self) -> usize {
        self.state.len()
    }

    pub(crate) fn decided(&self) -> (u64, u64) {
        (self.state.committed, self.state.aborted)
    }

    pub(crate) fn forgotten(&self) -> ClockTime {
        self.state.forgotten
    }

    /// Those that are not final and may still be.
    pub(crate) fn unsettled(&self) -> Vec<(TransactionId, ClockTime, Vec<ShardId>)> {
        let certifies = |one: &Transaction| !matches!(one.phase, Phase::Executing | Phase::ReadOnly);
        let transactions = self.transactions.iter().filter(|(_, one)| certifies(one));
        transactions.map(|(id, one)| (*id, one.snapshot, one.parts.keys().copied().collect())).collect()
    }

    pub(crate) fn open_len(&self) -> usize {
        self.transactions.len()
    }

    pub(crate) fn is_open(&self, transaction: TransactionId) -> bool {
        self.transactions.contains_key(&transaction)
    }

    pub(crate) fn load(&self, client: Option<ClientId>) -> usize {
        self.committing.len(client)
    }

    pub(crate) fn is_committing(&self, transaction: TransactionId) -> bool {
        let phase = self.transactions.get(&transaction).map(|known| known.phase);
        matches!(phase, Some(Phase::Certifying | Phase::Local(_) | Phase::Deciding(..)))
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}
