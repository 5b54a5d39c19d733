//! A replica of a shard: a machine on a replicated log. The leader of the log proposes timestamps, and executes.
//!
//! ```text
//!   REQUEST ─► propose a timestamp, take a place in the queue, append VOTED
//!                 │                      │ stable: VOTE to the other participants
//!                 │                      │ all their votes: the greatest proposal is the timestamp
//!                 ▼                      ▼
//!   the head of the queue, once that is certain: execute, REPLY
//!                                        │
//!                                        └─► the timestamp rides along with the next entry: the others execute as well
//! ```
//!
//! | file | role |
//! |---|---|
//! | `state` | what the entries of the log have led to |
//! | `leader` | what only the leader knows, and loses with its leadership |
//! | `delays` | how late the votes of other shards are |
//! | `requests` | what a client asks for gets a timestamp |
//! | `inquiry` | what has become of a transaction |
//! | `votes` | the participants agree on it |
//! | `locking` | what they have to agree on is prepared, and holds locks |
//! | `execution` | the leader executes, ahead of its log |
//! | `reads` | what only reads waits until it can see everything |
//! | `changes` | what it tells consumers of changes |
//! | `debts` | turns of clients whose operations are long |
//! | `attention` | votes that do not come, and clients that have died |
//! | `lost` | shards that never vote any more |
//! | `hub` | a group that coordinates for the others, as in Sinfonia |
//! | `floor` | what may be forgotten |
//! | `invariants` | what holds between any two steps |

mod attention;
mod changes;
mod debts;
mod delays;
mod execution;
mod floor;
mod hub;
mod inquiry;
pub(crate) mod invariants;
mod leader;
mod locking;
mod lost;
mod reads;
mod requests;
mod state;
mod votes;

use quorate_core::log::{Log, LogMachine, LogOutbox, Position};
use quorate_core::verify::Digester;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Groups, Input, Instant, ShardId, TransactionId, View,
};

use crate::application::Application;
use crate::config::{Locking, ReplicaConfig};
use crate::entry::{Body, Ended, Entry, Page, Pending, Vote};
use crate::message::Message;
use crate::place::Place;
use crate::reasons;
use crate::rules::Plant;
use leader::{Leader, Open};
pub use state::Frozen;
use state::State;
use votes::Ballot;

/// Pages that are only digested are small, so that no turn takes long.
const DIGESTED_PAGE_BYTES: usize = 16 * 1024;

type Out<A> = LogOutbox<Replica<A>>;

/// A timer of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// The leader looks after what is old, and for a new floor.
    Attention,
    /// The leader lets the others know the timestamps of what it has executed.
    Finals,
}

/// An event that a replica tells its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaEvent {
    /// It leads, and serves.
    Leading {
        /// In this view.
        view: View,
    },
    /// It leads no longer.
    Deposed,
}

/// A command of a host to a replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaCommand {
    /// The keyspace is in this epoch. Groups of an earlier one are passed over.
    ChangeGroups(Groups),
    /// A shard is lost for good, says an operator (section 5.4): all its replicas are, or what they had made durable. The leader
    /// makes that durable; the others pass it over.
    DeclareLost(ShardId),
    /// A consumer asks for changes.
    Follow,
}

/// A replica of one shard (the paper's repository is the group of them).
#[derive(Debug)]
pub struct Replica<A> {
    config: ReplicaConfig,
    state: State<A>,
    leader: Option<Leader>,
    /// How often it has begun to lock, and gone back to timestamps.
    mode_changes: (u64, u64),
}

impl<A: Application> Replica<A> {
    /// The application that it runs. A leader's has run ahead of the log.
    pub fn application(&self) -> &A {
        &self.state.application
    }

    /// The transactions that are accepted and not executed, as far as its log says.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Pending> {
        self.state.pending()
    }

    /// How transactions have ended that it remembers, the oldest first.
    pub fn ended(&self) -> impl Iterator<Item = (TransactionId, &Ended)> + '_ {
        self.state.all_ended()
    }

    /// Of how many transactions it remembers how they have ended.
    pub fn ended_len(&self) -> usize {
        self.state.ended_len()
    }

    /// How many have ended that may be forgotten.
    pub fn overdue(&self) -> usize {
        self.state.overdue()
    }

    /// How many transactions were executed, and refused, by the entries that this machine has applied.
    pub fn decided(&self) -> (u64, u64) {
        (self.state.committed, self.state.refused)
    }

    /// How many requests wait at this leader: for their entry, for votes, for those before them, for the log to follow.
    pub fn waiting(&self) -> usize {
        self.leader.as_ref().map_or(0, Leader::waiting)
    }

    /// How many requests of a client this leader has taken in and not executed: they wait for votes, for those before them, or for locks.
    pub fn waiting_of(&self, client: ClientId) -> usize {
        self.leader.as_ref().map_or(0, |leader| leader.waiting_of(client))
    }

    /// True if other participants have voted on a transaction whose request this leader has not taken in.
    pub fn awaits(&self, transaction: TransactionId) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.strangers.contains_key(&transaction))
    }

    /// For how many transactions this leader has asked after votes that did not come.
    pub fn lacking(&self) -> usize {
        let open = self.leader.iter().flat_map(|leader| leader.open.values());
        open.filter(|open| open.asks > 0).count()
    }

    /// True if it leads, and locks.
    pub fn is_locking(&self) -> bool {
        self.leader.as_ref().is_some_and(|leader| leader.is_locking)
    }

    /// How often it has begun to lock while it led, and how often it has gone back to timestamps.
    pub fn mode_changes(&self) -> (u64, u64) {
        self.mode_changes
    }

    /// The shards that are lost for good, as far as its log says.
    pub fn lost(&self) -> impl Iterator<Item = ShardId> + '_ {
        self.state.lost.iter().copied()
    }

    /// The view that it leads, if it does.
    pub fn leads(&self) -> Option<View> {
        self.leader.as_ref().map(|leader| leader.view)
    }

    /// It has executed and read nothing above, and neither has any leader of its shard by what its log says.
    pub fn ceiling(&self) -> ClockTime {
        self.state.ceiling
    }

    /// Transactions that were first sent below are not accepted.
    pub fn floor(&self) -> ClockTime {
        self.state.floor
    }

    fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        if self.config.is_hub() {
            return self.coordinate(from, message, context, log, outbox);
        }
        match message {
            Message::Request(request) => self.on_request(from, request, context, log, outbox),
            Message::Inquire { transaction, participants, not_before } => {
                let inquiry = (transaction, participants, not_before);
                self.on_inquire(from, inquiry, context, log, outbox);
            }
            Message::Vote { transaction, participants, first, vote, proposed, class, wants } => {
                let ballot = Ballot { transaction, participants, first, vote, proposed, class, wants };
                self.on_vote(from, ballot, context, log, outbox);
            }
            Message::Resolved { transaction, ending } => {
                self.on_resolved(from, transaction, ending, context, log, outbox);
            }
            Message::Abandoned { transaction, lost } => {
                self.on_abandoned(from, transaction, lost, outbox);
            }
            Message::NotLeading { transaction, leader } => {
                self.on_not_leading(from, transaction, leader, outbox);
            }
            Message::AskFloor => self.tell_floor(from, context, outbox),
            Message::AskFloorReply { floor, ceiling } => {
                self.on_ask_floor_reply(from, floor, ceiling, outbox);
            }
            Message::Reply { .. } | Message::Gathered { .. } => outbox.ignored(reasons::CLIENTS_ONLY),
            Message::Begin(_) | Message::Prepared { .. } => outbox.ignored(reasons::COORDINATING_ONLY),
        }
        self.execute(context, log, outbox);
    }

    /// Appends an entry, with what rides along; false if this replica does not lead. The next leader begins above `below`, and
    /// some way further.
    fn append(&mut self, body: Body, below: ClockTime, log: &mut impl Log<Entry>) -> bool {
        let Some(leader) = &mut self.leader else { return false };
        let ceiling = leader.ceiling.max(below.saturating_add(self.config.ceiling_ahead));
        // Timestamps at which this leader or one before has executed stay beneath the ceiling of each entry to come (section 5.2).
        let covers_all = ceiling >= leader.executed && ceiling >= self.state.ceiling;
        assert!(covers_all || !self.config.is_sound(), "the ceiling falls to {ceiling:?}");
        let is_appended = log.append(Entry { ceiling, finals: leader.finals.clone(), body }).is_some();
        if is_appended {
            leader.finals.clear();
            leader.ceiling = ceiling;
        }
        is_appended
    }

    /// A vote of this shard is stable. If it leads, this replica has given it: all that others have appended and that may be stable
    /// was applied before it began to lead.
    fn on_voted(&mut self, entry: &Entry, now: Instant, outbox: &mut Out<A>) {
        let (Body::Voted(voted), Some(leader)) = (&entry.body, &mut self.leader) else { return };
        let id = voted.transaction;
        match &voted.vote {
            Vote::Commit => {
                let place = Place { timestamp: voted.proposed, transaction: id };
                assert!(
                    leader.voted.remove(&place),
                    "{place} is stable, and this leader has not voted for it"
                );
                if leader.unlogged.remove(&place) {
                    return self.reply_ahead(id, outbox);
                }
                // Another participant may have refused it before this was stable.
                let Some(open) = leader.open.get_mut(&id) else { return };
                assert!(open.stable_since.is_none(), "the vote on {id} becomes stable twice");
                assert!(
                    open.proposed == voted.proposed,
                    "what is told of {id} is what is stable (section 4.4)"
                );
                open.stable_since = Some(now);
                if self.config.rules.has(Plant::QueuedOnceStable) {
                    leader.queue.insert(open.place(id));
                }
                self.send_votes(id, outbox);
                self.count_votes(id);
            }
            Vote::Abort(_) | Vote::Conflict => {
                leader.refusing.remove(&id);
                self.send_refusal(voted, outbox);
                if self.config.hub.is_none() || voted.participants.len() == 1 {
                    self.reply_ended(id, outbox);
                }
            }
        }
    }

    /// Learns the present replicas of groups, which it asks and tells. The members of its own group are decided by its log.
    fn change_groups(&mut self, groups: Groups, outbox: &mut Out<A>) {
        if groups.epoch <= self.config.groups.epoch {
            return outbox.ignored(reasons::EPOCH_KNOWN);
        }
        self.config.groups = groups;
    }
}

impl<A: Application> LogMachine for Replica<A> {
    type Entry = Entry;
    type Message = Message;
    type Timer = ReplicaTimer;
    type Command = ReplicaCommand;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;
    type Page = Page<A::Page>;
    type Frozen = Frozen<A::Canonical>;
    type Canonical = Replica<A::Canonical>;

    fn new(config: ReplicaConfig) -> Self {
        let state = State::new(config.replica.shard, A::from_pages(Vec::new()), config.rules);
        let state = state.linked(&config);
        Replica { config, state, leader: None, mode_changes: (0, 0) }
    }

    fn bytes(entry: &Entry) -> usize {
        entry.bytes()
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        match input {
            Input::Start | Input::Persisted(_) => {}
            Input::Message { from, message, .. } => self.on_message(from, message, context, log, outbox),
            Input::Timer(ReplicaTimer::Attention) => self.on_attention_timeout(context, log, outbox),
            Input::Timer(ReplicaTimer::Finals) => self.on_finals_timeout(log),
            Input::Command(ReplicaCommand::ChangeGroups(groups)) => self.change_groups(groups, outbox),
            Input::Command(ReplicaCommand::DeclareLost(shard)) => self.declare_lost(shard, log, outbox),
            Input::Command(ReplicaCommand::Follow) => self.on_follow(context, log),
        }
    }

    fn apply(
        &mut self,
        context: &mut Context<'_>,
        _: Position,
        entry: &Entry,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        self.state.apply(entry);
        self.on_voted(entry, context.now, outbox);
        self.on_finals(entry, outbox);
        if let Some(leader) = &mut self.leader {
            leader.has_moved = true;
        }
        match entry.body {
            Body::Floor { .. } => self.on_floor(),
            Body::Lost(_) => self.attend_lost(outbox),
            Body::Voted(_) | Body::Nothing => {}
        }
        self.execute(context, log, outbox);
        self.follow_log();
    }

    fn on_leading(
        &mut self,
        context: &mut Context<'_>,
        view: View,
        log: &mut impl Log<Entry>,
        outbox: &mut Out<A>,
    ) {
        let ceiling = match self.config.rules.has(Plant::CeilingForgotten) {
            true => ClockTime::default(),
            false => self.state.ceiling,
        };
        assert!(self.leader.is_none(), "it leads {view}, and has led without being deposed");
        let mut leader = Leader::new(view, ceiling);
        for pending in self.state.pending() {
            // So nothing that this leader proposes comes before what an earlier one has answered (section 5.2).
            let is_below = pending.voted.proposed <= ceiling || !self.config.is_sound();
            assert!(is_below, "{} was proposed above the ceiling {ceiling:?}", pending.place);
            leader.begin(pending.voted.transaction, Open::of(pending, context.now));
            leader.queue.insert(pending.place);
            leader.note_neighbours(&pending.voted.participants);
        }
        for (_, ended) in self.state.all_ended() {
            leader.note_neighbours(&ended.participants);
        }
        assert!(leader.queue.len() == self.state.pending().len(), "each that waits has a place of its own");
        let is_any_coordinated = leader.coordinated > 0;
        self.leader = Some(leader);
        if self.config.locking == Locking::Always
            || is_any_coordinated && !self.config.rules.has(Plant::NothingLocked)
        {
            self.enter_locking(outbox);
        }
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        outbox.emit(ReplicaEvent::Leading { view });
        // An earlier leader may have been told the votes that are missing, and may have told the others none (section 5.2).
        let pending: Vec<TransactionId> =
            self.state.pending().map(|pending| pending.voted.transaction).collect();
        for id in pending {
            self.ask_for_votes(id, outbox);
        }
        self.execute(context, log, outbox);
    }

    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut Out<A>) {
        self.unlock_all();
        let horizon = self.horizon();
        let Some(leader) = self.leader.take() else { return };
        if !leader.ahead.is_empty()
            && !self.config.rules.has(Plant::NotRewound)
            && let Some(horizon) = horizon
        {
            // The log does not say yet that any of it was executed, and where: the next leader will.
            self.state.application.rewind(horizon);
        }
        outbox.cancel_timer(ReplicaTimer::Attention);
        outbox.cancel_timer(ReplicaTimer::Finals);
        outbox.emit(ReplicaEvent::Deposed);
    }

    fn on_progress(&mut self, context: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out<A>) {
        self.send_confirmed(log, outbox);
        self.believe_confirmed(log, outbox);
        self.execute(context, log, outbox);
    }

    fn freeze(&self) -> Frozen<A::Canonical> {
        self.state.freeze(self.horizon(), self.config.page_bytes_max)
    }

    fn freeze_data(&self) -> Frozen<A::Canonical> {
        self.state.freeze_data(self.horizon(), DIGESTED_PAGE_BYTES)
    }

    fn digest(page: &Page<A::Page>, digester: &mut Digester) {
        match page {
            Page::Application(page) => A::digest(page, digester),
            Page::Pending(_) | Page::Ended(_) | Page::Bounds { .. } => {}
        }
    }

    fn next_page(frozen: &mut Frozen<A::Canonical>) -> Option<Page<A::Page>> {
        frozen.next_page()
    }

    fn replace_state(&mut self, _: Position, pages: Vec<Page<A::Page>>) {
        assert!(self.leader.is_none(), "a leader has applied everything that may be stable");
        let state = State::from_pages(self.config.replica.shard, pages, self.config.rules);
        self.state = state.linked(&self.config);
    }
}
