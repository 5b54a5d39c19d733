//! The coordinator (the paper's client proxy): sends a client's transactions to their participants and gathers the answers
//! (section 4.2).
//!
//! ```text
//!   Execute ─► REQUEST to the leader of each participant ── all have answered ──► committed
//!                  ▲                                    └── one refuses ─┐
//!                  └──────────── under another name, after a while ◄─────┘
//! ```
//!
//! It remembers the greatest timestamp that any answer has had and tells it with each request. So whatever this client has seen
//! comes before whatever it does next: a session's transactions are ordered as it has run them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_coordinator::{Coordinates, Leaders, Transactions, soon};
use quorate_core::command::Routes;
use quorate_core::{
    ClockTime, Context, Epoch, Instant, KeyspaceId, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value,
};

use crate::application::Answer;
use crate::config::CoordinatorConfig;
use crate::entry::{Outcome, Refusal};
use crate::message::{Begin, Message, Reply, Request};
use crate::reasons;
use crate::rules::Plant;
use quorate_core::command::Class;

type Out = quorate_coordinator::Out<Coordinator>;

/// So often a request follows from one replica to the one that it names, before it waits for its time-out: while leaders
/// change, replicas may name each other.
const REDIRECTS_MAX: u32 = 4;

/// A request that is refused because of what its client has seen is sent again after this part of the usual time, and then after twice as
/// long each time; so often, before that counts.
const SOONER: u32 = 4;
const REFUSALS_MAX: u32 = 4;

/// A request of a client.
#[derive(Clone, Debug)]
pub enum Command {
    /// Learn of a keyspace, or of a change of it.
    Route(Arc<Routes>),
    /// The connection to a replica came up or broke. Never needed for safety; spares waiting.
    Reachable {
        /// The replica.
        replica: ReplicaId,
        /// True if messages to it are likely to arrive.
        reachable: bool,
    },
    /// Execute a transaction. Answered by [`Event::Finished`].
    Execute {
        /// Its name, as its first attempt.
        transaction: TransactionId,
        /// Its operation at each shard that takes part in it. All of them are of one keyspace.
        parts: BTreeMap<ShardId, Value>,
        /// Its class: what its participants have to agree on. A read-only one that would change something is refused by the application.
        class: Class,
        /// True if it is tried again under other names as long as nobody executes it. Else that is a [`Failure::Conflict`].
        persists: bool,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Find out what has become of a transaction, be it another client's. If its participants have not heard of it by then,
    /// it is executed nowhere. Answered by [`Event::Finished`].
    Inquire {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that takes part in it.
        participants: Vec<ShardId>,
        /// It was not sent earlier than this.
        not_before: ClockTime,
        /// False if it is enough to know whether it was executed, which one participant can tell. True if the answers of all of them
        /// are wanted; those that cannot be had any more, or not in time, are missing in [`Executed::answers`] then.
        wants_answers: bool,
        /// By when the client wants an answer.
        patience: Duration,
    },
    /// Another client has seen this timestamp, and has said so in some other way: whatever this one executes from here on comes
    /// after what that one has seen (section 4.6).
    Observe {
        /// The timestamp.
        timestamp: ClockTime,
    },
}

/// An event that a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The membership of a keyspace has changed: the client should learn of it anew. Answers no command.
    Outdated {
        /// The keyspace.
        keyspace: KeyspaceId,
    },
    /// A transaction is over, as far as the client is concerned.
    Finished {
        /// The attempt of it that was the last.
        transaction: TransactionId,
        /// How it ended.
        result: Result<Executed, Failure>,
    },
}

/// A transaction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Its timestamp: where it stands in the serial order.
    pub timestamp: ClockTime,
    /// The answer of each shard: either all have done their parts, or all have refused them. Complete, unless it was only
    /// inquired about.
    pub answers: BTreeMap<ShardId, Answer>,
}

/// Why a transaction was not, or perhaps was not, executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Time ran out: it may have been executed, or may still be, at all of its participants or at none. If it only reads, that
    /// makes no difference.
    Unknown {
        /// The participants that have not answered.
        missing: Vec<ShardId>,
    },
    /// The clock of this client is too far ahead of a replica's for its requests to be accepted. It may be executed as long
    /// as copies of the request are on their way.
    ClockAhead {
        /// How far ahead, in microseconds.
        ahead_micros: u64,
    },
    /// The timestamp that this client has seen is too far ahead of a replica's clock for its requests to be accepted, and no shard has come
    /// so far: the timestamp is of somewhere else. It may be executed as long as copies of the request are on their way.
    SeenAhead {
        /// How far ahead, in microseconds.
        ahead_micros: u64,
    },
    /// It is executed nowhere, and may be tried again under another name.
    Conflict,
    /// It was sent so long ago that nobody knows any more what has become of it.
    Forgotten,
    /// The application has refused it at one of its shards, so it is executed nowhere.
    Aborted(Refusal),
    /// A shard that would take part in it is lost for good: it is executed nowhere.
    Lost {
        /// The shard.
        shard: ShardId,
    },
    /// Participants differ in what they have executed: in its timestamp, because a shard has lost what it had made durable; or some
    /// have refused it and others not, so that it was not independent. That wants an operator.
    Disagreement {
        /// The timestamp and answer at which each has executed it.
        answers: BTreeMap<ShardId, (ClockTime, Answer)>,
    },
    /// There is no such shard, or none at all.
    NoSuchShard(Option<ShardId>),
    /// The name is in use.
    InUse,
}

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    leaders: Leaders,
    /// By the client and the number of the transaction, whichever attempt it is.
    open: Transactions<Open>,
    /// The greatest timestamp that was seen in an answer.
    high: ClockTime,
    /// How far this client's clock is behind, as far as leaders have complained.
    behind: Duration,
}

/// A transaction that the coordinator has not forgotten yet.
#[derive(Debug)]
pub struct Open {
    attempt: u32,
    parts: BTreeMap<ShardId, Value>,
    class: Class,
    /// True if it is tried again.
    persists: bool,
    /// True if only what has become of it is asked.
    is_inquiry: bool,
    /// True if an inquiry is for the answers of all participants.
    wants_answers: bool,
    /// When this attempt was sent first, by this client's clock.
    first: ClockTime,
    /// The greatest timestamp that had been seen by then.
    high: ClockTime,
    /// The answers of each participant, by timestamp: only a read-only transaction may be executed more than once.
    answers: BTreeMap<ShardId, BTreeMap<ClockTime, Answer>>,
    /// Which replica of each shard was asked last.
    asked: BTreeMap<ShardId, ReplicaIndex>,
    redirects: u32,
    /// How often this attempt was refused because of what its client has seen.
    refusals: u32,
    /// True if it was since it was last sent, or a leader is not ready: then silence says nothing about any leader.
    is_refused: bool,
    deadline: Instant,
    next: Next,
}

/// The next step of a transaction if nobody says anything.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// The participants that have not answered are asked again.
    Resend(Instant),
    /// It is tried again under another name.
    Again(Instant),
}

impl Next {
    fn at(self) -> Instant {
        match self {
            Next::Resend(at) | Next::Again(at) => at,
        }
    }
}

/// The name of a transaction, whichever attempt it is.
fn name(id: TransactionId) -> TransactionId {
    TransactionId { attempt: 0, ..id }
}

impl Coordinates for Coordinator {
    type Message = Message;
    type Command = Command;
    type Event = Event;
    type Config = CoordinatorConfig;
    type Open = Open;

    fn new(config: CoordinatorConfig) -> Self {
        Coordinator {
            config,
            leaders: Leaders::default(),
            open: Transactions::default(),
            high: ClockTime::default(),
            behind: Duration::ZERO,
        }
    }

    fn epoch_of(&self, shard: ShardId) -> Epoch {
        self.leaders.group(shard).map_or(Epoch::FIRST, |group| group.epoch)
    }

    fn transactions(&self) -> &Transactions<Open> {
        &self.open
    }

    fn transactions_mut(&mut self) -> &mut Transactions<Open> {
        &mut self.open
    }

    /// Each message of a replica counts, under any membership: its shard answers for itself. The client learns of a newer one.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out) -> bool {
        if let Some(keyspace) = self.leaders.note_epoch(from, epoch) {
            outbox.emit(Event::Outdated { keyspace });
        }
        true
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, context: &mut Context<'_>, outbox: &mut Out) {
        match message {
            Message::Reply { transaction, reply } => {
                self.leaders.note_leading(from);
                self.on_reply(from.shard, transaction, reply, context, outbox);
            }
            Message::NotLeading { transaction, leader } => {
                self.on_not_leading(from, transaction, leader, context, outbox);
            }
            Message::Gathered { transaction, timestamp, answers } => {
                self.leaders.note_leading(from);
                self.on_gathered(from.shard, transaction, timestamp, answers, context, outbox);
            }
            Message::Request(_)
            | Message::Begin(_)
            | Message::Prepared { .. }
            | Message::Inquire { .. }
            | Message::Vote { .. }
            | Message::Resolved { .. }
            | Message::Abandoned { .. }
            | Message::AskFloor
            | Message::AskFloorReply { .. } => outbox.ignored(reasons::REPLICAS_ONLY),
        }
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => self.learn(&routes),
            Command::Reachable { replica, reachable } => {
                if self.leaders.set_reachable(replica, reachable) && !reachable {
                    self.ask_others(replica, context, outbox);
                }
            }
            Command::Observe { timestamp } => {
                if !self.config.rules.has(Plant::ObservedIgnored) {
                    self.high = self.high.max(timestamp);
                }
            }
            Command::Inquire { transaction, participants, not_before, wants_answers, patience } => {
                let parts = participants.into_iter().map(|shard| (shard, Value::new())).collect();
                let open = Open::new(transaction, parts, context.now + patience);
                let open = Open { is_inquiry: true, wants_answers, ..open };
                self.start(transaction, open, not_before, context, outbox);
            }
            Command::Execute { transaction, parts, class, persists, patience } => {
                let open = Open::new(transaction, parts, context.now + patience);
                let first = self.clock(context.clock);
                self.start(transaction, Open { class, persists, ..open }, first, context, outbox);
            }
        }
    }

    fn attend(
        &mut self,
        name: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) -> Option<Instant> {
        let open = self.open.get_mut(&name)?;
        let id = TransactionId { attempt: open.attempt, ..name };
        if context.now >= open.deadline {
            let unknown = |open: Open| {
                let unknown = open.unknown();
                open.known_at_least(unknown)
            };
            self.finish(id, unknown, outbox);
            return None;
        }
        match open.next {
            Next::Again(at) if context.now >= at => {
                let first = self.clock(context.clock);
                self.begin_attempt(TransactionId { attempt: id.attempt + 1, ..id }, first, context, outbox);
            }
            Next::Resend(at) if context.now >= at => {
                let next = context.now + self.config.resend_timeout;
                (open.next, open.redirects) = (Next::Resend(next), 0);
                let is_refused = std::mem::take(&mut open.is_refused);
                let missing = open.missing();
                for shard in self.config.hub.filter(|_| open.parts.len() > 1).map_or(missing, |hub| vec![hub])
                {
                    if !self.leaders.is_reachable(self.leaders.leader(shard)) {
                        self.leaders.suspect(shard);
                    } else if let Some(index) = open.asked.get(&shard).filter(|_| !is_refused) {
                        self.leaders.suspect_asked(ReplicaId { shard, index: *index });
                    }
                }
                self.wake_at(name, next);
                self.send(id, None, outbox);
            }
            next => self.wake_at(name, next.at()),
        }
        None
    }
}

quorate_coordinator::coordinator!(inner Coordinator);

impl Coordinator {
    /// The greatest timestamp that this client has seen.
    pub fn seen(&self) -> ClockTime {
        self.high
    }

    /// The leader of a shard, as far as this coordinator knows.
    pub fn leader(&self, shard: ShardId) -> ReplicaId {
        self.leaders.leader(shard)
    }

    /// Begins with a transaction, unless that cannot be.
    fn start(
        &mut self,
        transaction: TransactionId,
        open: Open,
        first: ClockTime,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let unknown = open.parts.keys().find(|shard| self.leaders.group(**shard).is_none()).copied();
        let refused = match () {
            () if open.parts.is_empty() || unknown.is_some() => Some(Failure::NoSuchShard(unknown)),
            () if self.open.contains_key(&name(transaction)) => Some(Failure::InUse),
            () => None,
        };
        if let Some(failure) = refused {
            return outbox.emit(Event::Finished { transaction, result: Err(failure) });
        }
        self.open.insert(name(transaction), open);
        self.begin_attempt(transaction, first, context, outbox);
    }

    fn learn(&mut self, routes: &Routes) {
        let keyspace = &routes.keyspace;
        for (position, shard) in keyspace.shards.iter().enumerate() {
            self.leaders.learn(shard.id, routes.members(position), Some(keyspace.id), keyspace.epoch);
        }
    }

    /// Sends a transaction under a name that it has not had.
    fn begin_attempt(
        &mut self,
        id: TransactionId,
        first: ClockTime,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.open.get_mut(&name(id)) else { return };
        // A name that was refused is never used again: a copy of its request may come at any time.
        assert!(id.attempt >= open.attempt, "{id} comes after attempt {}", open.attempt);
        open.attempt = id.attempt;
        open.first = first;
        open.high = self.high;
        open.answers.clear();
        (open.redirects, open.refusals, open.is_refused) = (0, 0, false);
        let at = context.now + self.config.resend_timeout;
        open.next = Next::Resend(at);
        self.wake_at(name(id), at);
        self.send(id, None, outbox);
    }

    /// The connection to a replica has broken: others are asked at once for what it has not answered.
    fn ask_others(&mut self, replica: ReplicaId, context: &mut Context<'_>, outbox: &mut Out) {
        if self.leaders.leader(replica.shard) == replica {
            self.leaders.suspect(replica.shard);
        }
        let next = context.now + self.config.resend_timeout;
        for name in self.open.ids() {
            let Some(open) = self.open.get_mut(&name) else { continue };
            let is_asked = open.asked.get(&replica.shard) == Some(&replica.index);
            let waits = matches!(open.next, Next::Resend(_)) && !open.is_refused;
            if !is_asked || !waits || open.answers.contains_key(&replica.shard) {
                continue;
            }
            let id = TransactionId { attempt: open.attempt, ..name };
            if open.class == Class::ReadOnly && !open.is_inquiry && !open.answers.is_empty() {
                // Another leader would wait in vain for the votes of those that have answered: they have forgotten it (section 5.2).
                self.read_again(id, context, outbox);
            } else {
                open.next = Next::Resend(next);
                self.wake_at(name, next);
                self.send(id, Some(replica.shard), outbox);
            }
        }
    }

    /// Reads everything anew, at once: nobody is in its way.
    fn read_again(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(open) = self.open.get(&name(id)) else { return };
        assert!(open.class == Class::ReadOnly, "{id} writes, and what it has written stays");
        if !open.persists {
            return self.finish(id, |_| Err(Failure::Conflict), outbox);
        }
        let first = self.clock(context.clock);
        self.begin_attempt(TransactionId { attempt: id.attempt + 1, ..id }, first, context, outbox);
    }

    /// The time by which this client goes.
    fn clock(&self, clock: ClockTime) -> ClockTime {
        clock.saturating_add(self.behind)
    }

    /// Sends a transaction to the leaders of those that have not answered; to one of them only, if one is named.
    fn send(&mut self, id: TransactionId, only: Option<ShardId>, outbox: &mut Out) {
        let Some(open) = self.open.get_mut(&name(id)) else { return };
        let leaders = &self.leaders;
        let leader = |asked: &mut BTreeMap<ShardId, ReplicaIndex>, shard| {
            let leader = leaders.leader(shard);
            asked.insert(shard, leader.index);
            leader
        };
        if let Some(hub) = self.config.hub.filter(|_| open.needs_hub()) {
            let (parts, high, first) = (open.parts.clone(), open.high, open.first);
            let begin = Begin { transaction: id, parts, high, first };
            return outbox.send(leader(&mut open.asked, hub), Message::Begin(begin));
        }
        let participants: Vec<ShardId> = open.parts.keys().copied().collect();
        for (shard, operation) in &open.parts {
            if open.answers.contains_key(shard) || only.is_some_and(|only| only != *shard) {
                continue;
            }
            if open.is_inquiry {
                let (participants, not_before) = (participants.clone(), open.first);
                let inquiry = Message::Inquire { transaction: id, participants, not_before };
                outbox.send(leader(&mut open.asked, *shard), inquiry);
                continue;
            }
            let request = Request {
                transaction: id,
                participants: participants.clone(),
                operation: operation.clone(),
                class: open.class,
                high: open.high,
                first: open.first,
            };
            outbox.send(leader(&mut open.asked, *shard), Message::Request(request));
        }
    }

    /// A replica has done nothing about a request, and names the leader. Others may have heard that before: then those that it was
    /// asked to are sent on as well.
    fn on_not_leading(
        &mut self,
        from: ReplicaId,
        id: TransactionId,
        leader: ReplicaIndex,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let is_news = self.leaders.redirect(from, leader);
        let Some(open) = self.open.get_mut(&name(id)) else { return outbox.ignored(reasons::NOT_OPEN) };
        let named = self.leaders.leader(from.shard);
        let is_asked = open.asked.get(&from.shard) == Some(&from.index);
        let is_soon = is_asked && self.leaders.is_soon(from);
        if !is_news && !is_soon && (named == from || !is_asked) {
            return outbox.ignored(reasons::NO_NEWS);
        }
        if open.attempt != id.attempt {
            return outbox.ignored(reasons::OTHER_ATTEMPT);
        }
        if open.redirects == REDIRECTS_MAX {
            return outbox.ignored(reasons::REDIRECTED_OFTEN);
        }
        open.redirects += 1;
        if is_soon {
            let at = context.now + soon(self.config.resend_timeout);
            (open.next, open.is_refused) = (Next::Resend(at), true);
            return self.wake_at(name(id), at);
        }
        self.send(id, Some(from.shard), outbox);
    }

    /// The group that coordinates for the participants tells what they have answered.
    fn on_gathered(
        &mut self,
        hub: ShardId,
        id: TransactionId,
        timestamp: ClockTime,
        answers: BTreeMap<ShardId, Answer>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.open.get_mut(&name(id)) else { return outbox.ignored(reasons::NOT_OPEN) };
        if self.config.hub != Some(hub) || !answers.keys().eq(open.parts.keys()) {
            return outbox.ignored(reasons::PARTICIPANTS);
        }
        if let Err(reason) = open.awaits(id) {
            return outbox.ignored(reason);
        }
        open.answers = answers
            .into_iter()
            .map(|(shard, answer)| (shard, BTreeMap::from([(timestamp, answer)])))
            .collect();
        self.high = self.high.max(timestamp);
        self.on_answer(id, context, outbox);
    }

    fn on_reply(
        &mut self,
        shard: ShardId,
        id: TransactionId,
        reply: Reply,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.open.get_mut(&name(id)) else { return outbox.ignored(reasons::NOT_OPEN) };
        // The group that coordinates executes nothing itself.
        let is_of_hub =
            self.config.hub == Some(shard) && !matches!(reply, Reply::Ended(Outcome::Committed { .. }));
        if !open.parts.contains_key(&shard) && !is_of_hub {
            return outbox.ignored(reasons::PARTICIPANTS);
        }
        if let Err(reason) = open.awaits(id) {
            return outbox.ignored(reason);
        }
        match reply {
            Reply::Ended(Outcome::Committed { timestamp, answer }) => {
                open.answers.entry(shard).or_default().insert(timestamp, answer);
                if !self.config.rules.has(Plant::SessionForgotten) {
                    self.high = self.high.max(timestamp);
                }
                self.on_answer(id, context, outbox);
            }
            Reply::Ended(Outcome::Aborted(refusal)) => {
                self.finish(id, |_| Err(Failure::Aborted(refusal)), outbox);
            }
            Reply::Ended(Outcome::Conflict) => self.plan_attempt(id, context, outbox),
            Reply::Lost { shard } => self.finish(id, |_| Err(Failure::Lost { shard }), outbox),
            // It may have been sent later, and then copies that are on their way are not too old yet.
            Reply::TooOld { .. } if open.is_inquiry => {
                self.finish(id, |open| open.known_at_least(Failure::Forgotten), outbox);
            }
            Reply::TooOld { clock } => {
                self.catch_up(clock, context.clock);
                self.plan_attempt(id, context, outbox);
            }
            Reply::Forgotten { clock } => {
                self.catch_up(clock, context.clock);
                self.finish(id, |open| open.known_at_least(Failure::Forgotten), outbox);
            }
            // It has seen what is ahead, of which its clock knows nothing. The shard asks the others whether they have come so far.
            Reply::ClockAhead { clock } if open.high > open.first => {
                if open.refusals == REFUSALS_MAX {
                    let ahead_micros = open.high.as_micros().saturating_sub(clock.as_micros());
                    return self.finish(id, |_| Err(Failure::SeenAhead { ahead_micros }), outbox);
                }
                let at = context.now + self.config.resend_timeout * 2_u32.pow(open.refusals) / SOONER;
                (open.refusals, open.is_refused) = (open.refusals + 1, true);
                open.next = Next::Resend(at);
                self.wake_at(name(id), at);
            }
            Reply::ClockAhead { clock } => {
                let ahead_micros = open.first.as_micros().saturating_sub(clock.as_micros());
                self.finish(id, |_| Err(Failure::ClockAhead { ahead_micros }), outbox);
            }
        }
    }

    /// The clock of this client is behind: its next transactions are sent by the leader's.
    fn catch_up(&mut self, clock: ClockTime, own: ClockTime) {
        let behind = clock.as_micros().saturating_sub(own.as_micros());
        self.behind = self.behind.max(Duration::from_micros(behind));
    }

    /// A participant has executed its part.
    fn on_answer(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        let Some(open) = self.open.get(&name(id)) else { return };
        if open.is_inquiry && !open.wants_answers {
            return self.finish(id, |open| open.known_at_least(Failure::Forgotten), outbox);
        }
        if open.answers.len() < open.parts.len() {
            return;
        }
        let reads_only = open.class == Class::ReadOnly;
        let is_any_taken = self.config.rules.has(Plant::UnequalReadsTaken) && reads_only;
        let timestamp = open.common().or_else(|| open.latest().filter(|_| is_any_taken));
        let do_decide_alike = reads_only || open.are_of_one_mind();
        assert!(open.answers.keys().eq(open.parts.keys()), "{id} has other answers than its participants'");
        match timestamp {
            Some(timestamp) if do_decide_alike || self.config.rules.has(Plant::DecisionsNotCompared) => {
                // I1, sessions: the next transaction of this client comes after this.
                let is_seen = self.high >= timestamp || self.config.rules.has(Plant::SessionForgotten);
                assert!(is_seen, "{id} has {timestamp:?}, and its client has not seen that");
                self.finish(id, |open| Ok(open.executed(timestamp)), outbox);
            }
            // A participant has changed its leader in between, and no vote on what only reads outlives that (section 5.2).
            _ if reads_only => self.plan_attempt(id, context, outbox),
            _ => self.finish(id, |open| Err(open.disagreement()), outbox),
        }
    }

    /// Tries a transaction again after a while that doubles, or less, if that is wanted.
    fn plan_attempt(&mut self, id: TransactionId, context: &mut Context<'_>, outbox: &mut Out) {
        const DOUBLINGS_MAX: u32 = 6;
        let Some(open) = self.open.get_mut(&name(id)) else { return };
        if !open.persists {
            return self.finish(id, |_| Err(Failure::Conflict), outbox);
        }
        let longest = self.config.back_off * 2_u32.pow(open.attempt.min(DOUBLINGS_MAX));
        let at = context.now + longest.mul_f64(context.random.unit());
        open.next = Next::Again(at);
        self.wake_at(name(id), at);
    }

    fn wake_at(&mut self, name: TransactionId, at: Instant) {
        let Some(open) = self.open.get(&name) else { return };
        let at = at.min(open.deadline);
        self.open.wake_at(name, at);
    }

    fn finish(
        &mut self,
        id: TransactionId,
        result: impl FnOnce(Open) -> Result<Executed, Failure>,
        outbox: &mut Out,
    ) {
        let Some(open) = self.open.remove(&name(id)) else { return };
        let transaction = TransactionId { attempt: open.attempt, ..id };
        outbox.emit(Event::Finished { transaction, result: result(open) });
    }
}

impl Open {
    /// True if a group coordinates it, where there is one for that.
    fn needs_hub(&self) -> bool {
        self.parts.len() > 1 && !self.is_inquiry
    }

    /// An independent transaction that nothing is known of, and that is not tried again.
    fn new(id: TransactionId, parts: BTreeMap<ShardId, Value>, deadline: Instant) -> Self {
        Open {
            attempt: id.attempt,
            parts,
            class: Class::Independent,
            persists: false,
            is_inquiry: false,
            wants_answers: false,
            first: ClockTime::default(),
            high: ClockTime::default(),
            answers: BTreeMap::new(),
            asked: BTreeMap::new(),
            redirects: 0,
            refusals: 0,
            is_refused: false,
            deadline,
            next: Next::Again(deadline),
        }
    }

    /// An error, and why, if what is said of this attempt is not waited for.
    fn awaits(&self, id: TransactionId) -> Result<(), &'static str> {
        match self.next {
            _ if self.attempt != id.attempt => Err(reasons::OTHER_ATTEMPT),
            Next::Again(_) => Err(reasons::ATTEMPT_OVER),
            Next::Resend(_) => Ok(()),
        }
    }

    fn missing(&self) -> Vec<ShardId> {
        self.parts.keys().copied().filter(|shard| !self.answers.contains_key(shard)).collect()
    }

    fn unknown(&self) -> Failure {
        Failure::Unknown { missing: self.missing() }
    }

    /// A timestamp at which all participants have answered. All have read one state of the keyspace there, whatever else they have
    /// answered: a request that comes twice is executed twice if it only reads.
    fn common(&self) -> Option<ClockTime> {
        let mut timestamps = self.answers.values().next()?.keys().rev().copied();
        timestamps.find(|timestamp| self.answers.values().all(|answers| answers.contains_key(timestamp)))
    }

    /// The last timestamp at which the first participant has answered.
    fn latest(&self) -> Option<ClockTime> {
        Some(*self.answers.values().next()?.last_key_value()?.0)
    }

    /// True if all participants have done their parts, or all have refused them.
    fn are_of_one_mind(&self) -> bool {
        let last = self.answers.values().filter_map(|answers| answers.values().next_back());
        let mut refused = last.map(|answer| matches!(answer, Answer::Refused(_)));
        let first = refused.next();
        refused.all(|refused| Some(refused) == first)
    }

    /// Of an inquiry that learns no more: a transaction that one participant has executed is executed by all.
    fn known_at_least(self, failure: Failure) -> Result<Executed, Failure> {
        match self.latest() {
            Some(timestamp) if self.is_inquiry => Ok(self.executed(timestamp)),
            _ => Err(failure),
        }
    }

    fn disagreement(self) -> Failure {
        let last = |(shard, mut answers): (ShardId, BTreeMap<_, _>)| Some((shard, answers.pop_last()?));
        Failure::Disagreement { answers: self.answers.into_iter().filter_map(last).collect() }
    }

    /// With what was answered at this timestamp, or last.
    fn executed(self, timestamp: ClockTime) -> Executed {
        let answer = |(shard, mut answers): (ShardId, BTreeMap<ClockTime, Answer>)| {
            let answer = answers.remove(&timestamp).or_else(|| Some(answers.pop_last()?.1));
            Some((shard, answer?))
        };
        Executed { timestamp, answers: self.answers.into_iter().filter_map(answer).collect() }
    }
}
