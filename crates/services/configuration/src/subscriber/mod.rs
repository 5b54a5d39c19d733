//! The subscriber: keeps copies of ranges, holds leases, writes. For servers, which have to know when something changes, and
//! for holders of what only one may hold.
//!
//! ```text
//!   Watch ─► read the range, page by page ─► watch from there ─► Loaded, Changed, Changed, …
//!                  ▲                               │
//!                  └── what was missed is forgotten ◄
//!
//!   Hold ─► granted ─► renewed, renewed, … ─► Held until, until later, …
//!                          └── not in time ─► Lost
//! ```
//!
//! | file | role |
//! |---|---|
//! | `watched` | a copy of a range |
//! | `holding` | a lease |
//! | `asking` | questions to the leader, until they are answered |

mod asking;
mod holding;
#[cfg(test)]
mod tests;
mod watched;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::machine::OutboxOf;
use quorate_core::{
    Address, Context, Epoch, Input, Instant, KeyRange, Machine, Members, ReplicaId, ReplicaIndex,
    TransactionId,
};

use crate::config::SubscriberConfig;
use crate::entry::{Change, LeaseId, Revision};
use crate::message::{ConditionalWrite, Message, Refusal, WriteResult};
use asking::Writing;
pub use holding::Holding;
pub use watched::Watched;

type Out = OutboxOf<Subscriber>;

/// A timer of a subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SubscriberTimer {
    /// Something wants attention.
    Attention,
}

/// A command of the host.
#[derive(Clone, Debug)]
pub enum SubscriberCommand {
    /// Keep a copy of a range. Answered by [`SubscriberEvent::Loaded`] and [`SubscriberEvent::Changed`] until it is ended.
    Watch {
        /// Its name.
        watch: u64,
        /// The range.
        range: KeyRange,
    },
    /// The group goes on with these replicas.
    Route(Members),
    /// End a watch.
    Unwatch {
        /// Its name.
        watch: u64,
    },
    /// Hold a lease. Answered by [`SubscriberEvent::Held`], and once by [`SubscriberEvent::Lost`].
    Hold {
        /// Its number, which must never have been used.
        number: u64,
        /// How long it lasts without being renewed.
        duration: Duration,
    },
    /// Give a lease up: from now on it is not held. Not answered.
    Release {
        /// Its number.
        number: u64,
    },
    /// Write something. Answered by [`SubscriberEvent::Written`].
    Write {
        /// The name of the write, which must never have been used.
        transaction: TransactionId,
        /// The write itself.
        write: Arc<ConditionalWrite>,
        /// How long the host waits for an answer.
        patience: Duration,
    },
}

/// An event that the subscriber tells its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubscriberEvent {
    /// The copy of a range is whole. Again if too much was missed: then changes in between are not told of.
    Loaded {
        /// The name of the watch.
        watch: u64,
        /// The revision that the copy is of.
        revision: Revision,
    },
    /// The range has changed. Told in order and once, for each change after [`SubscriberEvent::Loaded`].
    Changed {
        /// The name of the watch.
        watch: u64,
        /// How.
        change: Arc<Change>,
    },
    /// A lease is held.
    Held {
        /// Its number.
        number: u64,
        /// Until when, unless it is renewed.
        until: Instant,
    },
    /// A lease is not held, and will not be.
    Lost {
        /// Its number.
        number: u64,
        /// Why it was not granted, if it was refused.
        refusal: Option<Refusal>,
    },
    /// The result of a write.
    Written {
        /// Its name.
        transaction: TransactionId,
        /// The result; an error if the write was refused, or if nobody knows, which is no refusal.
        result: Result<WriteResult, Option<Refusal>>,
    },
}

/// The subject of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Load(u64),
    Lease(u64),
    Write(TransactionId),
}

/// Keeps copies of ranges and holds leases.
#[derive(Debug)]
pub struct Subscriber {
    config: SubscriberConfig,
    members: Members,
    /// Questions are counted.
    last_request: u64,
    questions: BTreeMap<u64, About>,
    leader: ReplicaIndex,
    /// How far the log is known.
    position: Position,
    watched: BTreeMap<u64, Watched>,
    holdings: BTreeMap<u64, Holding>,
    writing: BTreeMap<TransactionId, Writing>,
    timer: Option<Instant>,
}

impl Machine for Subscriber {
    type Message = Message;
    type Timer = SubscriberTimer;
    type Record = Infallible;
    type Command = SubscriberCommand;
    type Event = SubscriberEvent;
    type Config = SubscriberConfig;

    fn restore(config: SubscriberConfig, _: impl IntoIterator<Item = Infallible>) -> Self {
        Subscriber {
            last_request: config.requests_from,
            leader: config.group.1.at(0),
            members: config.group.1,
            config,
            questions: BTreeMap::new(),
            position: Position::START,
            watched: BTreeMap::new(),
            holdings: BTreeMap::new(),
            writing: BTreeMap::new(),
            timer: None,
        }
    }

    fn epoch(&self, _: Address) -> Epoch {
        Epoch::FIRST
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, SubscriberTimer, SubscriberCommand>,
        outbox: &mut Out,
    ) {
        match input {
            Input::Start | Input::Persisted(_) => {}
            Input::Message { from: Address::Replica(from), message, .. } => {
                if from.shard == self.config.group.0 {
                    self.on_message(from.index, message, context, outbox);
                } else {
                    outbox.ignored("another group than that of the configuration");
                }
            }
            Input::Message { from: Address::Client(_), .. } => {
                outbox.ignored("a client has nothing to say here");
            }
            Input::Timer(SubscriberTimer::Attention) => {
                self.timer = None;
                self.attend(context, outbox);
            }
            Input::Command(command) => self.on_command(command, context, outbox),
        }
        self.set_timer(context.now, outbox);
    }
}

impl Subscriber {
    /// A copy of a range.
    pub fn watched(&self, watch: u64) -> Option<&Watched> {
        self.watched.get(&watch)
    }

    /// A lease.
    pub fn holding(&self, number: u64) -> Option<&Holding> {
        self.holdings.get(&number)
    }

    /// True if a lease is held now.
    pub fn holds(&self, number: u64, now: Instant) -> bool {
        self.holding(number).is_some_and(|holding| holding.is_held(now))
    }

    fn on_command(&mut self, command: SubscriberCommand, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            SubscriberCommand::Watch { watch, range } => self.begin_watch(watch, range, context, outbox),
            SubscriberCommand::Route(members) => self.members = members,
            SubscriberCommand::Unwatch { watch } => {
                if let Some(watched) = self.watched.remove(&watch) {
                    outbox.send(
                        self.replica(watched.replica()),
                        Message::Unwatch { request: watched.request() },
                    );
                }
            }
            SubscriberCommand::Hold { number, duration } => {
                self.begin_hold(number, duration, context, outbox)
            }
            SubscriberCommand::Release { number } => self.release(number, context, outbox),
            SubscriberCommand::Write { transaction, write, patience } => {
                self.begin_write(transaction, write, patience, context, outbox);
            }
        }
    }

    fn on_message(
        &mut self,
        from: ReplicaIndex,
        message: Message,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        match message {
            Message::ScanReply { request, revision, position, found, next } => {
                self.position = self.position.max(position);
                self.on_scan_reply(request, revision, found, next, context, outbox);
            }
            Message::Changes { request, after, until, changes, has_more } => {
                self.on_changes(request, after, until, &changes, has_more, context, outbox);
            }
            Message::Forgotten { request, forgotten } => {
                self.on_forgotten(request, forgotten, context, outbox);
            }
            Message::Renewed { request, lease } => self.on_renewed(request, lease, context, outbox),
            Message::NoSuchLease { lease, .. } => self.on_no_such_lease(lease, outbox),
            Message::WriteReply { request, position, result } => {
                self.position = self.position.max(position);
                self.on_write_reply(request, result, outbox);
            }
            Message::NotLeading { request, leader } => {
                self.on_not_leading(from, request, leader, context, outbox);
            }
            Message::Refused { request, refusal } => self.on_refused(request, refusal, outbox),
            Message::Get { .. }
            | Message::GetReply { .. }
            | Message::Scan { .. }
            | Message::Check { .. }
            | Message::CheckReply { .. }
            | Message::Write { .. }
            | Message::Settle { .. }
            | Message::Grant { .. }
            | Message::Renew { .. }
            | Message::Release { .. }
            | Message::Watch { .. }
            | Message::Unwatch { .. } => outbox.ignored("nobody asks for that here"),
        }
    }

    fn replica(&self, index: ReplicaIndex) -> ReplicaId {
        ReplicaId { shard: self.config.group.0, index }
    }

    fn lease(&self, number: u64) -> LeaseId {
        LeaseId { client: self.config.client, number }
    }

    fn next_request(&mut self, about: Option<About>) -> u64 {
        self.last_request += 1;
        if let Some(about) = about {
            // Of questions about one thing only the last few can still be answered to any use.
            let before = self.questions.insert(self.last_request, about);
            assert!(before.is_none(), "{before:?} was asked by the number {}", self.last_request);
        }
        self.last_request
    }

    fn set_timer(&mut self, now: Instant, outbox: &mut Out) {
        let watched = self.watched.values().map(Watched::wakes_at);
        let holdings = self.holdings.values().map(Holding::wakes_at);
        let writing = self.writing.values().map(Writing::wakes_at);
        let Some(next) = watched.chain(holdings).chain(writing).min() else { return };
        if self.timer.is_none_or(|planned| next < planned) {
            self.timer = Some(next);
            // Never at once: a wake-up that finds nothing to do must not spin.
            outbox.set_timer(SubscriberTimer::Attention, (next - now).max(Duration::from_millis(1)));
        }
        assert!(
            self.timer.is_some_and(|planned| planned <= next),
            "something is due at {next:?}, and looked at {:?}",
            self.timer
        );
    }

    fn attend(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        self.attend_watched(context, outbox);
        self.attend_holdings(context, outbox);
        self.attend_writing(context, outbox);
    }
}
