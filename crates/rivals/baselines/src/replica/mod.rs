//! A replica of a shard: a machine on a replicated log. The leader of the log is the participant in two-phase commit.
//!
//! ```text
//!   PREPARE ─► known already? ─► answer again
//!      │       older than the floor? ─► refused without a word in the log: the floor stands there
//!      ▼
//!   validate ── conflict ─► append REFUSED ──┐
//!      └─────── append PREPARED ─────────────┤ stable
//!                                            ▼
//!                                  PREPARE-REPLY to the coordinator
//! ```
//!
//! | file | role |
//! |---|---|
//! | `state` | what the entries of the log have led to |
//! | `leader` | what only the leader knows, and loses with its leadership |
//! | `validation` | may a transaction commit as it has read? |
//! | `locking` | strict two-phase locking, and why there are no deadlocks |
//! | `reads` | reads anywhere, and strict ones at the leader |
//! | `snapshots` | reads at a timestamp |
//! | `prepare` | votes and outcomes |
//! | `coordinate` | a dedicated coordinator: transactions of other shards |
//! | `recovery` | how a transaction ends whose coordinator is silent |
//! | `floor` | what may be forgotten |
//! | `timestamps` | timestamps that are given away: by the timestamp server, and to snapshots |

mod coordinate;
mod floor;
mod leader;
mod locking;
mod prepare;
mod reads;
mod recovery;
mod snapshots;
mod state;
mod timestamps;
mod validation;

use quorate_core::command::Outcome;
use quorate_core::log::{Log, LogMachine, LogOutbox, Position};
use quorate_core::verify::{Digester, Item};
use quorate_core::{Address, ClientId, Context, Groups, Input, Timestamp, TransactionId, View};
use quorate_store::{PreparedSet, Versions};

use crate::config::ReplicaConfig;
use crate::entry::{self, Entry, Page};
use crate::message::Message;
use crate::rules::Plant;
use leader::Leader;
use prepare::Prepare;
pub use state::Frozen;
use state::{Proposal, State};

type Out = LogOutbox<Replica>;

/// Pages that are only digested are small, so that no turn takes long.
const DIGESTED_PAGE_BYTES: usize = 16 * 1024;

/// A timer of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReplicaTimer {
    /// The leader looks after what has been prepared for long, and for a new floor.
    Attention,
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
}

/// A replica of one shard.
#[derive(Debug)]
pub struct Replica {
    config: ReplicaConfig,
    state: State,
    leader: Option<Leader>,
}

/// The counts of entries that a replica keeps although they have ended and nothing may ask for them any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Outcomes that may be forgotten.
    pub outcomes: usize,
    /// Versions that are below the floor and not the newest there, and deletions below it.
    pub versions: usize,
    /// Transactions whose fate it inquires about.
    pub inquiries: usize,
    /// Transactions that hold read locks.
    pub locks: usize,
}

impl Remains {
    /// Each kind of thing that is left, with its number.
    pub fn left(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [("outcomes", self.outcomes), ("versions", self.versions), ("inquiries", self.inquiries)];
        all.into_iter().filter(|(_, number)| *number > 0)
    }
}

impl Replica {
    /// The versions that it holds.
    pub fn versions(&self) -> &Versions {
        &self.state.versions
    }

    /// The transactions that are durably prepared here.
    pub fn prepared(&self) -> &PreparedSet {
        &self.state.prepared
    }

    /// How many transactions are prepared here, durably or not yet, or coordinated; those of one client only, if one is named.
    pub fn load(&self, client: Option<ClientId>) -> usize {
        let len = |set: &PreparedSet| client.map_or_else(|| set.len(), |client| set.len_of(client));
        let leading = self.leader.as_ref().map_or(0, |leader| {
            len(&leader.in_flight) + len(&leader.committing) + leader.coordinations.load(client)
        });
        len(&self.state.prepared) + leading
    }

    /// How many transactions have been committed and aborted by the entries that this machine has applied.
    pub fn decided(&self) -> (u64, u64) {
        (self.state.committed, self.state.aborted)
    }

    /// How many transactions it remembers, prepared or ended.
    pub fn record_len(&self) -> usize {
        self.state.prepared.len() + self.state.ended_len()
    }

    /// How many transactions of silent coordinators it asks the other participants about.
    pub fn inquiries(&self) -> usize {
        self.leader.as_ref().map_or(0, |leader| leader.inquiries.len())
    }

    /// How many requests wait at this leader for something to become stable, or for others to answer.
    pub fn waiting(&self) -> usize {
        self.leader.as_ref().map_or(0, Leader::waiting)
    }

    /// The view that it leads, if it does.
    pub fn leads(&self) -> Option<View> {
        self.leader.as_ref().map(|leader| leader.view)
    }

    /// Prepares that were proposed below are refused, and versions below that are not the newest there are collected.
    pub fn floor(&self) -> Timestamp {
        self.state.floor
    }

    /// The outcomes that it knows, ascending by transaction.
    pub fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        let mut outcomes: Vec<_> = self.state.all_ended().map(|(id, ended)| (id, ended.outcome)).collect();
        outcomes.sort_unstable();
        outcomes
    }

    /// The counts of what it keeps after the end. Looks at everything that it keeps.
    pub fn remains(&self) -> Remains {
        Remains {
            outcomes: self.state.overdue(),
            versions: self.state.versions.superfluous(self.state.floor),
            inquiries: self.leader.as_ref().map_or(0, |leader| leader.inquiries.len()),
            locks: self.leader.as_ref().map_or(0, |leader| leader.locks.len()),
        }
    }

    fn on_message(
        &mut self,
        from: Address,
        message: Message,
        context: &mut Context<'_>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match message {
            Message::Read { transaction, key, lock } => {
                self.on_read(from, transaction, key, lock, context, log, outbox);
            }
            Message::Scan { transaction, request, range, limit, lock } => {
                self.on_scan(from, transaction, request, range, limit, lock, context, log, outbox);
            }
            Message::Release { transaction } => self.on_release(from, transaction),
            Message::Prepare { transaction: id, part, proposed, age, locked_in } => {
                let proposal = Proposal { proposed, age };
                let prepare = Prepare { id, part, proposal, locked_in };
                self.on_prepare(from, prepare, context, log, outbox);
            }
            Message::Coordinate { transaction, parts, proposed } => {
                self.on_coordinate(from, transaction, parts, proposed, context, log, outbox);
            }
            Message::PrepareReply { transaction, standing } => {
                self.on_prepare_reply(from, transaction, standing, outbox);
            }
            Message::NotLeading { transaction, leader } => {
                self.on_not_leading(from, transaction, leader, outbox);
            }
            Message::Validate { transaction, part, locked_in, at } => {
                self.on_validate(from, transaction, &part, locked_in, at, context, log, outbox);
            }
            Message::ReadAt { transaction, wanted, at } => {
                self.on_read_at(from, transaction, wanted, at, context, log, outbox);
            }
            Message::ReadCurrent { transaction, keys } => {
                self.on_read_current(from, transaction, keys, context, log, outbox);
            }
            Message::NextTimestamp { transaction, above } => {
                self.on_next_timestamp(from, transaction, above, context, log, outbox);
            }
            Message::Decide { transaction, outcome } => {
                self.on_decide(from, transaction, outcome, context, log, outbox)
            }
            Message::Inquire { transaction, participants, age } => {
                self.on_inquire(from, transaction, participants, age, context, log, outbox);
            }
            Message::InquireReply { transaction, standing } => {
                self.on_inquire_reply(from, transaction, standing, log, outbox);
            }
            Message::AskFloor => outbox.send(from, Message::AskFloorReply { floor: self.state.floor }),
            Message::AskFloorReply { floor } => self.on_ask_floor_reply(from, floor),
            // Messages that only coordinators are told.
            Message::ReadReply { .. }
            | Message::ScanReply { .. }
            | Message::Wounded { .. }
            | Message::ReadAtReply { .. }
            | Message::SnapshotTooOld { .. }
            | Message::NextTimestampReply { .. }
            | Message::CoordinateReply { .. }
            | Message::ValidateReply { .. }
            | Message::ReadCurrentReply { .. } => {}
        }
    }

    /// Learns the present replicas of groups, which it asks and tells. The members of its own group are decided by its log.
    fn change_groups(&mut self, groups: Groups) {
        if groups.epoch > self.config.groups.epoch && !self.config.rules.has(Plant::GroupsForgotten) {
            if let Some(leader) = &mut self.leader {
                leader.coordinations.change_groups(&groups);
            }
            self.config.groups = groups;
        }
    }

    /// Does nothing about a message but say who may.
    fn send_not_leading(to: Address, id: TransactionId, log: &impl Log<Entry>, outbox: &mut Out) {
        outbox.send(to, Message::NotLeading { transaction: id, leader: log.leader() });
    }
}

impl LogMachine for Replica {
    type Entry = Entry;
    type Message = Message;
    type Timer = ReplicaTimer;
    type Command = ReplicaCommand;
    type Event = ReplicaEvent;
    type Config = ReplicaConfig;
    type Page = Page;
    type Frozen = Frozen;
    type Canonical = Self;

    fn new(config: ReplicaConfig) -> Self {
        let state = State::new(config.system, config.rules);
        Replica { config, state, leader: None }
    }

    fn bytes(entry: &Entry) -> usize {
        entry::bytes(entry)
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, ReplicaTimer, ReplicaCommand>,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        match input {
            Input::Start | Input::Persisted(_) => {}
            Input::Message { from, message, .. } => self.on_message(from, message, context, log, outbox),
            Input::Timer(ReplicaTimer::Attention) => self.on_attention_timeout(context, log, outbox),
            Input::Command(ReplicaCommand::ChangeGroups(groups)) => self.change_groups(groups),
        }
    }

    fn apply(
        &mut self,
        context: &mut Context<'_>,
        _: Position,
        entry: &Entry,
        log: &mut impl Log<Entry>,
        outbox: &mut Out,
    ) {
        self.state.apply(entry, context.now);
        match entry {
            Entry::Prepared(prepared) => self.on_prepared(prepared, outbox),
            Entry::Refused { transaction, .. } => {
                self.on_refused(*transaction, outbox);
            }
            Entry::Decided { transaction, .. } => self.on_decided(*transaction, context, log, outbox),
            Entry::Floor { .. } => self.on_floor(),
            Entry::Ceiling(ceiling) => self.on_ceiling(*ceiling, context, log, outbox),
        }
    }

    fn on_leading(&mut self, _: &mut Context<'_>, view: View, _: &mut impl Log<Entry>, outbox: &mut Out) {
        self.leader = Some(Leader::new(view, &self.state));
        outbox.set_timer(ReplicaTimer::Attention, self.config.attention_interval);
        outbox.emit(ReplicaEvent::Leading { view });
    }

    fn on_deposed(&mut self, _: &mut Context<'_>, outbox: &mut Out) {
        if self.leader.take().is_some() {
            outbox.cancel_timer(ReplicaTimer::Attention);
            outbox.emit(ReplicaEvent::Deposed);
        }
    }

    fn on_progress(&mut self, _: &mut Context<'_>, log: &mut impl Log<Entry>, outbox: &mut Out) {
        self.send_confirmed(log, outbox);
    }

    fn freeze(&self) -> Frozen {
        self.state.freeze(self.config.page_bytes_max)
    }

    fn freeze_data(&self) -> Frozen {
        self.state.freeze_data(DIGESTED_PAGE_BYTES)
    }

    fn digest(page: &Page, digester: &mut Digester) {
        let Page::Versions(versions) = page else { return };
        for (key, version) in versions {
            let stamps = [version.timestamp.micros, version.timestamp.client.0];
            digester.add(Item { space: Item::DATA, key, stamps: &stamps, value: version.value.as_deref() });
        }
    }

    fn next_page(frozen: &mut Frozen) -> Option<Page> {
        frozen.next_page()
    }

    fn replace_state(&mut self, _: Position, pages: Vec<Page>) {
        self.state = State::from_pages(pages, self.config.system, self.config.rules);
    }
}
