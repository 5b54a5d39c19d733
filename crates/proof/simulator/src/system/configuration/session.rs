//! A client of the configuration service: its coordinator, which everything else in this crate drives, and a subscriber with a
//! life of its own.
//!
//! The subscriber watches the whole map, and some of what the coordinator reads is answered from that copy, however old it is:
//! acting on it must be refused. Now and then it takes a container: it has a lease granted, and binds the container's
//! key to it. Its beliefs meanwhile are written down here, and judged by the inspector.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    Change, Compare, ConditionalWrite, Consistency, Coordinator, CoordinatorConfig, CoordinatorTimer,
    KeyState, Message, Put, Revision, Subscriber, SubscriberCommand, SubscriberConfig, SubscriberEvent,
    SubscriberTimer, Watched, WriteResult,
};
use quorate_core::command::{Command, Event};
use quorate_core::hosted::HostedCoordinator;
use quorate_core::log::Position;
use quorate_core::machine::{Effect, OutboxOf};
use quorate_core::{
    Address, ClientId, Context, Epoch, Input, Instant, Key, KeyRange, Machine, Outbox, ReplicaId,
    TransactionId, Value,
};

use crate::system::HOSTILE_KEYS;

/// The subscriber's questions are numbered from here on, and the coordinator's from the start.
pub(super) const REQUESTS_FROM: u64 = 1 << 62;

/// The one watch.
const WATCH: u64 = 1;

/// The parts that a session is built from.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The coordinator.
    pub coordinator: CoordinatorConfig,
    /// The subscriber.
    pub subscriber: SubscriberConfig,
    /// How many containers there are.
    pub containers: u64,
    /// How long a lease lasts without being renewed.
    pub lease: Duration,
    /// How often the session takes a container or gives one up, at the most.
    pub act_interval: Duration,
    /// After this it gives up what it holds, and rests.
    pub acts_until: Instant,
    /// How much of what it reads comes from its copy.
    pub reads_copied: f64,
}

/// The timers of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SessionTimer {
    /// The coordinator's.
    Coordinator(CoordinatorTimer),
    /// The subscriber's.
    Subscriber(SubscriberTimer),
    /// To take a container, or to give one up.
    Act,
}

/// The news that the watch has told.
#[derive(Clone, Debug)]
pub(super) enum Seen {
    Loaded(Revision),
    Changed(Arc<Change>),
}

/// A session's belief that it holds a container, by the time of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) container: u64,
    pub(super) from: Instant,
    pub(super) until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// It has asked for a lease.
    Leasing,
    /// It has the lease, and has asked for a container.
    Taking(TransactionId, u64),
    /// It holds the container.
    Holding,
}

/// A client.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    coordinator: Coordinator,
    subscriber: Subscriber,
    stage: Stage,
    lease: u64,
    /// The greatest number of a transaction or a write of this client. Those that the coordinator is told of have even numbers.
    number: u64,
    pub(super) seen: Vec<Seen>,
    pub(super) claims: Vec<Claim>,
}

type Out = OutboxOf<Session>;

impl Session {
    /// The copy of the map.
    pub(super) fn copy(&self) -> Option<&Watched> {
        self.subscriber.watched(WATCH)
    }

    fn drive_subscriber(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, SubscriberTimer, SubscriberCommand>,
        outbox: &mut Out,
    ) {
        let mut said = Outbox::new();
        self.subscriber.step(context, input, &mut said);
        let effects: Vec<_> = said.drain().collect();
        for effect in effects {
            match effect {
                Effect::Send { to, message } => outbox.send(to, message),
                Effect::SendUnordered { to, message } => outbox.send_unordered(to, message),
                Effect::SetTimer { timer, after } => outbox.set_timer(SessionTimer::Subscriber(timer), after),
                Effect::CancelTimer(timer) => outbox.cancel_timer(SessionTimer::Subscriber(timer)),
                Effect::Emit(event) => self.on_told(event, context, outbox),
                Effect::Persist { record, .. } => match record {},
                Effect::Anchor | Effect::Truncate => unreachable!("a subscriber keeps no records"),
            }
        }
    }

    fn drive_coordinator(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, CoordinatorTimer, Command>,
        outbox: &mut Out,
    ) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut said = Outbox::new();
            self.coordinator.step(context, input, &mut said);
            for effect in said.drain() {
                match effect {
                    Effect::Send { to, message } => outbox.send(to, message),
                    Effect::SendUnordered { to: Address::Replica(to), message } => {
                        match self.answer_from_copy(&message, context) {
                            Some(reply) => inputs.push(self.reply_of(to, reply)),
                            None => outbox.send_unordered(to, message),
                        }
                    }
                    Effect::SendUnordered { to, message } => outbox.send_unordered(to, message),
                    Effect::SetTimer { timer, after } => {
                        outbox.set_timer(SessionTimer::Coordinator(timer), after);
                    }
                    Effect::CancelTimer(timer) => outbox.cancel_timer(SessionTimer::Coordinator(timer)),
                    Effect::Emit(event) => outbox.emit(event),
                    Effect::Persist { record, .. } => match record {},
                    Effect::Anchor | Effect::Truncate => unreachable!("a coordinator keeps no records"),
                }
            }
        }
    }

    fn reply_of(&self, from: ReplicaId, message: Message) -> Input<Message, CoordinatorTimer, Command> {
        let epoch = self.coordinator.epoch(from.into());
        Input::Message { from: from.into(), epoch, message }
    }

    /// The answer of the copy to a question that may be answered by anybody; none if the question goes to a replica.
    fn answer_from_copy(&self, message: &Message, context: &mut Context<'_>) -> Option<Message> {
        if !context.random.chance(self.config.reads_copied) {
            return None;
        }
        let copy = self.copy()?;
        let (keys, revision, position) = (copy.keys()?, copy.revision(), Position::START);
        match message {
            Message::Get { request, keys: wanted, consistency: Consistency::Stale } => {
                let state = |key: &Key| KeyState { key: key.clone(), stored: keys.get(key).cloned() };
                let found = wanted.iter().map(state).collect();
                Some(Message::GetReply { request: *request, revision, position, found })
            }
            Message::Scan { request, range, limit, consistency: Consistency::Stale } => {
                let mut inside = keys.iter().filter(|(key, _)| range.contains(key));
                let found = inside.by_ref().take(*limit as usize);
                let found = found.map(|(key, stored)| (key.clone(), stored.clone())).collect();
                let next = inside.next().map(|(key, _)| key.clone());
                Some(Message::ScanReply { request: *request, revision, position, found, next })
            }
            _ => None,
        }
    }

    fn command(&mut self, command: SubscriberCommand, context: &mut Context<'_>, outbox: &mut Out) {
        self.drive_subscriber(context, Input::Command(command), outbox);
    }

    fn on_told(&mut self, event: SubscriberEvent, context: &mut Context<'_>, outbox: &mut Out) {
        match event {
            SubscriberEvent::Loaded { revision, .. } => self.seen.push(Seen::Loaded(revision)),
            SubscriberEvent::Changed { change, .. } => self.seen.push(Seen::Changed(change)),
            SubscriberEvent::Held { number, until } if number == self.lease => match self.stage {
                Stage::Leasing => self.take(context, outbox),
                Stage::Holding => {
                    if let Some(claim) = self.claims.last_mut() {
                        claim.until = until;
                    }
                }
                Stage::Idle | Stage::Taking(..) => {}
            },
            SubscriberEvent::Lost { number, .. } if number == self.lease => self.end_claim(context.now),
            SubscriberEvent::Written { transaction, result } => {
                self.on_written(transaction, result.ok(), context, outbox);
            }
            SubscriberEvent::Held { .. } | SubscriberEvent::Lost { .. } => {}
        }
    }

    /// Asks for a container, if nobody holds it.
    fn take(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        let container = context.random.below(self.config.containers);
        let key = container_key(container);
        let lease = quorate_configuration::LeaseId { client: self.id(), number: self.lease };
        let put = Put { key: key.clone(), value: Some(Value::from_static(b"held")), lease: Some(lease) };
        let compares = vec![Compare::Key { key, changed: None }];
        self.number = (self.number + 1) | 1;
        let transaction = TransactionId { client: self.id(), sequence: self.number, attempt: 0 };
        self.stage = Stage::Taking(transaction, container);
        let write = Arc::new(ConditionalWrite { compares, puts: vec![put] });
        let patience = self.config.lease;
        self.command(SubscriberCommand::Write { transaction, write, patience }, context, outbox);
    }

    fn on_written(
        &mut self,
        id: TransactionId,
        result: Option<WriteResult>,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let Stage::Taking(taking, container) = self.stage else { return };
        if taking != id {
            return;
        }
        let until = self.subscriber.holding(self.lease).and_then(|holding| holding.until());
        match (result, until.filter(|until| context.now < *until)) {
            (Some(WriteResult::Written { .. }), Some(until)) => {
                self.stage = Stage::Holding;
                self.claims.push(Claim { container, from: context.now, until });
            }
            _ => self.give_up(context, outbox),
        }
    }

    fn end_claim(&mut self, now: Instant) {
        if self.stage == Stage::Holding
            && let Some(claim) = self.claims.last_mut()
        {
            claim.until = claim.until.min(now);
        }
        self.stage = Stage::Idle;
    }

    fn give_up(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        self.end_claim(context.now);
        self.command(SubscriberCommand::Release { number: self.lease }, context, outbox);
    }

    fn on_act_timeout(&mut self, context: &mut Context<'_>, outbox: &mut Out) {
        let rests = context.now >= self.config.acts_until;
        match self.stage {
            Stage::Idle if rests => return,
            Stage::Idle => {
                self.lease += 1;
                self.stage = Stage::Leasing;
                let (number, duration) = (self.lease, self.config.lease);
                self.command(SubscriberCommand::Hold { number, duration }, context, outbox);
            }
            Stage::Holding if rests || context.random.chance(0.3) => self.give_up(context, outbox),
            Stage::Leasing | Stage::Taking(..) | Stage::Holding => {}
        }
        self.set_act_timer(context, outbox);
    }

    fn set_act_timer(&self, context: &mut Context<'_>, outbox: &mut Out) {
        outbox.set_timer(
            SessionTimer::Act,
            self.config.act_interval.mul_f64(0.1 + 0.9 * context.random.unit()),
        );
    }

    fn id(&self) -> ClientId {
        self.config.coordinator.client
    }
}

/// The key of a container. Nobody else writes it.
fn container_key(container: u64) -> Key {
    Key::from(format!("{}container/{container}", char::from(HOSTILE_KEYS)))
}

impl HostedCoordinator for Session {
    fn is_idle(&self) -> bool {
        self.coordinator.is_idle()
    }
}

impl Machine for Session {
    type Message = Message;
    type Timer = SessionTimer;
    type Record = Infallible;
    type Command = Command;
    type Event = Event;
    type Config = SessionConfig;

    fn restore(config: SessionConfig, _: impl IntoIterator<Item = Infallible>) -> Self {
        Session {
            coordinator: Coordinator::restore(config.coordinator.clone(), []),
            subscriber: Subscriber::restore(config.subscriber.clone(), []),
            config,
            stage: Stage::Idle,
            lease: 0,
            number: 0,
            seen: Vec::new(),
            claims: Vec::new(),
        }
    }

    fn epoch(&self, to: Address) -> Epoch {
        self.coordinator.epoch(to)
    }

    fn step(
        &mut self,
        context: &mut Context<'_>,
        input: Input<Message, SessionTimer, Command>,
        outbox: &mut Out,
    ) {
        match input {
            Input::Start => {
                self.drive_coordinator(context, Input::Start, outbox);
                self.drive_subscriber(context, Input::Start, outbox);
                let range = KeyRange { from: Key::default(), to: None };
                self.command(SubscriberCommand::Watch { watch: WATCH, range }, context, outbox);
                self.set_act_timer(context, outbox);
            }
            Input::Message { from, epoch, message } => {
                if message.request() >= REQUESTS_FROM {
                    self.drive_subscriber(context, Input::Message { from, epoch, message }, outbox);
                } else {
                    self.drive_coordinator(context, Input::Message { from, epoch, message }, outbox);
                }
            }
            Input::Timer(SessionTimer::Coordinator(timer)) => {
                self.drive_coordinator(context, Input::Timer(timer), outbox);
            }
            Input::Timer(SessionTimer::Subscriber(timer)) => {
                self.drive_subscriber(context, Input::Timer(timer), outbox);
            }
            Input::Timer(SessionTimer::Act) => self.on_act_timeout(context, outbox),
            Input::Persisted(_) => {}
            Input::Command(command) => {
                if let Command::Begin { transaction, .. }
                | Command::ReadOnly { transaction, .. }
                | Command::ReadOnlyScan { transaction, .. } = &command
                {
                    self.number = self.number.max(transaction.sequence);
                }
                if let Command::Route(routes) = &command {
                    self.command(SubscriberCommand::Route(routes.members(0)), context, outbox);
                }
                self.drive_coordinator(context, Input::Command(command), outbox);
            }
        }
    }
}
