//! The coordinator of a client's transactions, as it hosts that of one-round transactions.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Class, Command, Committed, Decided, Event, Failure, Invalid, Routes};
use quorate_core::hash::FixedMap;
use quorate_core::hosted::HostedCoordinator;
use quorate_core::machine::{Effect, InputOf, OutboxOf};
use quorate_core::seen::Seen;
use quorate_core::verify::Checksum;
use quorate_core::{
    Address, ClientId, ClockTime, Context, Epoch, Input, Instant, KeyspaceId, Machine, ReplicaId, ShardId,
    Timestamp, TransactionId, Value,
};
use quorate_granola::coordinator::{Command as Order, Event as Told};
use quorate_granola::{
    Answer, Coordinator, CoordinatorConfig, CoordinatorTimer, Executed, Failure as Refused,
};

use crate::execution::{Execution, KeysOfShards, Scanning};
use crate::read_only::{Reading, Wanted};
use crate::resolve::on_resolved;

pub(crate) type Out = OutboxOf<Interactive>;

/// The names of what this machine reads by itself begin here: those of clients' transactions lie below.
const OWN_NAMES: u64 = 1 << 63;

/// The coordinator of all transactions of one client.
#[derive(Debug)]
pub struct Interactive {
    client: ClientId,
    one_round: Coordinator,
    /// The effects of that machine in one step.
    done: OutboxOf<Coordinator>,
    pub(crate) keyspaces: BTreeMap<KeyspaceId, Arc<Routes>>,
    pub(crate) executing: FixedMap<TransactionId, Execution>,
    /// The purpose of each one-round transaction, by its name.
    asked: FixedMap<TransactionId, Asked>,
    /// How many names it has used for what it reads.
    names: u64,
    disagreements: u64,
}

/// The purpose of a one-round transaction. All but the first kinds bear the name of the transaction.
#[derive(Debug)]
pub(crate) enum Asked {
    /// To read keys, for a transaction.
    Get(TransactionId, KeysOfShards),
    /// To read a range, for a transaction.
    Scan(TransactionId, Box<Scanning>),
    /// To commit a transaction that writes.
    Write(Vec<ShardId>),
    /// To commit a transaction that has only read.
    Validate(Vec<ShardId>),
    /// To read everything at once.
    ReadOnly(Box<Reading>, Vec<ShardId>),
    /// To execute it as the client has named it.
    Execute(Vec<ShardId>, Class),
    /// To learn what became of it.
    Resolve,
    /// To learn what became of it, and what it has answered.
    Recall(Vec<ShardId>),
}

impl Machine for Interactive {
    type Message = quorate_granola::Message;
    type Timer = CoordinatorTimer;
    type Record = Infallible;
    type Command = Command;
    type Event = Event;
    type Config = CoordinatorConfig;

    fn restore(config: CoordinatorConfig, records: impl IntoIterator<Item = Infallible>) -> Self {
        Interactive {
            client: config.client,
            one_round: Coordinator::restore(config, records),
            done: OutboxOf::<Coordinator>::new(),
            keyspaces: BTreeMap::new(),
            executing: FixedMap::default(),
            asked: FixedMap::default(),
            names: 0,
            disagreements: 0,
        }
    }

    fn epoch(&self, to: Address) -> Epoch {
        self.one_round.epoch(to)
    }

    fn step(&mut self, context: &mut Context<'_>, input: InputOf<Self>, outbox: &mut Out) {
        match input {
            Input::Start => self.order(Input::Start, context, outbox),
            Input::Persisted(token) => self.order(Input::Persisted(token), context, outbox),
            Input::Timer(timer) => self.order(Input::Timer(timer), context, outbox),
            Input::Message { from, epoch, message } => {
                self.order(Input::Message { from, epoch, message }, context, outbox);
            }
            Input::Command(command) => self.on_command(command, context, outbox),
        }
    }
}

impl HostedCoordinator for Interactive {
    fn is_idle(&self) -> bool {
        self.executing.is_empty() && self.asked.is_empty()
    }

    fn seen(&self) -> Seen {
        Seen::at(self.one_round.seen())
    }
}

impl Interactive {
    /// How often participants differed in what they have executed: something that was durable is lost, or a client has vouched for a
    /// transaction that was not independent.
    pub fn disagreements(&self) -> u64 {
        self.disagreements
    }

    fn on_command(&mut self, command: Command, context: &mut Context<'_>, outbox: &mut Out) {
        match command {
            Command::Route(routes) => {
                self.keyspaces.insert(routes.keyspace.id, Arc::clone(&routes));
                self.order(Input::Command(Order::Route(routes)), context, outbox);
            }
            Command::Reachable { replica, reachable } => {
                let order = Order::Reachable { replica, reachable };
                self.order(Input::Command(order), context, outbox);
            }
            Command::Begin { transaction, keyspace, patience } => {
                self.on_begin(transaction, keyspace, patience, context, outbox);
            }
            Command::Get { transaction, key } => self.on_get(transaction, vec![key], context, outbox),
            Command::GetMany { transaction, keys } => self.on_get(transaction, keys, context, outbox),
            Command::Scan { transaction, range, limit } => {
                self.on_scan(transaction, range, limit, context, outbox);
            }
            Command::Put { transaction, key, value } => self.on_put(transaction, key, value, outbox),
            Command::Commit { transaction } => self.on_commit(transaction, context, outbox),
            Command::ReadOnly { transaction, keyspace, keys, freshness, patience } => {
                let wanted = Wanted::Keys(keys);
                self.on_read_only(transaction, keyspace, wanted, (freshness, patience), context, outbox);
            }
            Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience } => {
                let wanted = Wanted::Range(range, limit);
                self.on_read_only(transaction, keyspace, wanted, (freshness, patience), context, outbox);
            }
            Command::Abort { transaction } => self.end_open(transaction, Failure::Aborted, outbox),
            Command::Set { transaction, .. } => {
                self.end_open(transaction, Failure::Invalid(Invalid::Unsupported), outbox);
            }
            Command::Resolve { transaction, participants, timestamp, patience } => {
                self.on_resolve(transaction, participants, timestamp, patience, context, outbox);
            }
            Command::Execute { transaction, keyspace, parts, class, not_before, patience } => {
                let (what, when) = ((parts, class), (not_before, patience));
                self.on_execute(transaction, keyspace, what, when, context, outbox);
            }
            Command::Recall { transaction, participants, not_before, patience } => {
                self.on_recall(transaction, participants, not_before, patience, context, outbox);
            }
            command @ (Command::Container { .. }
            | Command::GetMarked { .. }
            | Command::CatchUp { .. }
            | Command::After { .. }
            | Command::Confine { .. }
            | Command::CommitSpeculatively { .. }
            | Command::Await { .. }) => {
                command.refused(Invalid::Unsupported).into_iter().for_each(|event| outbox.emit(event));
            }
            Command::Observe { timestamp } => {
                self.order(Input::Command(Order::Observe { timestamp }), context, outbox);
            }
        }
    }

    fn on_begin(
        &mut self,
        id: TransactionId,
        keyspace: KeyspaceId,
        patience: Duration,
        context: &Context<'_>,
        outbox: &mut Out,
    ) {
        let Some(routes) = self.keyspaces.get(&keyspace) else {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::UnknownKeyspace(keyspace))));
        };
        if self.is_open(id) {
            return finish(outbox, id, Err(Failure::Invalid(Invalid::NotOpen(id))));
        }
        let execution = Execution::new(Arc::clone(routes), context.now + patience, context.clock);
        self.executing.insert(id, execution);
    }

    /// True if the name of a transaction is in use.
    pub(crate) fn is_open(&self, id: TransactionId) -> bool {
        self.executing.contains_key(&id) || self.asked.contains_key(&id)
    }

    /// A name for something that this machine reads by itself.
    pub(crate) fn own_name(&mut self) -> TransactionId {
        self.names += 1;
        TransactionId { client: self.client, sequence: OWN_NAMES + self.names, attempt: 0 }
    }

    /// Has a one-round transaction executed.
    pub(crate) fn execute(
        &mut self,
        name: TransactionId,
        asked: Asked,
        order: OneRound,
        context: &mut Context<'_>,
        outbox: &mut Out,
    ) {
        let OneRound { parts, class, patience } = order;
        // A transaction that only reads leaves nothing behind, so its name means nothing. Else a name stands for one attempt.
        let persists = class == Class::ReadOnly && name.sequence >= OWN_NAMES;
        self.ask(name, asked);
        let order = Order::Execute { transaction: name, parts, class, persists, patience };
        self.order(Input::Command(order), context, outbox);
    }

    /// Notes what an answer under this name will be about.
    pub(crate) fn ask(&mut self, name: TransactionId, asked: Asked) {
        self.asked.insert(name, asked);
    }

    /// Gives something to the coordinator of one-round transactions, and carries out what comes of it.
    pub(crate) fn order(&mut self, input: InputOf<Coordinator>, context: &mut Context<'_>, outbox: &mut Out) {
        let mut done = std::mem::take(&mut self.done);
        self.one_round.step(context, input, &mut done);
        for reason in done.take_ignored() {
            outbox.ignored(reason);
        }
        let mut told = Vec::new();
        for effect in done.drain() {
            match effect {
                Effect::Send { to, message } => outbox.send(to, message),
                Effect::SendUnordered { to, message } => outbox.send_unordered(to, message),
                Effect::SetTimer { timer, after } => outbox.set_timer(timer, after),
                Effect::CancelTimer(timer) => outbox.cancel_timer(timer),
                Effect::Emit(event) => told.push(event),
                Effect::Persist { record, .. } => match record {},
                // A machine without records has none to give up.
                Effect::Anchor => outbox.anchor(),
                Effect::Truncate => outbox.truncate(),
            }
        }
        self.done = done;
        for event in told {
            self.on_told(event, outbox);
        }
    }

    fn on_told(&mut self, event: Told, outbox: &mut Out) {
        let (transaction, result) = match event {
            Told::Outdated { keyspace } => return outbox.emit(Event::Outdated { keyspace }),
            Told::Finished { transaction, result } => (transaction, result),
        };
        if let Err(Refused::Disagreement { answers }) = &result {
            self.disagreements += 1;
            let decided =
                answers.iter().map(|(shard, (timestamp, answer))| decided(*shard, *timestamp, answer));
            outbox.emit(Event::Disagreement { transaction, decided: decided.collect() });
        }
        // A transaction that the coordinator has named for its own reads is known by its first attempt.
        let is_own = transaction.sequence >= OWN_NAMES;
        let name = if is_own { TransactionId { attempt: 0, ..transaction } } else { transaction };
        match self.asked.remove(&name) {
            Some(Asked::Get(id, keys)) => self.on_got(id, keys, result, outbox),
            Some(Asked::Scan(id, scanning)) => self.on_scanned(id, *scanning, result, outbox),
            Some(Asked::Write(participants)) => self.on_written(name, participants, result, outbox),
            Some(Asked::Validate(shards)) => self.on_validated(name, &shards, result, outbox),
            Some(Asked::ReadOnly(reading, shards)) => {
                self.on_read_at_once(name, *reading, &shards, result, outbox);
            }
            Some(Asked::Execute(shards, class)) => self.on_executed(name, shards, class, result, outbox),
            Some(Asked::Recall(shards)) => self.on_recalled(name, shards, result, outbox),
            Some(Asked::Resolve) => on_resolved(name, result, outbox),
            // Its client has asked under a name of those that this machine keeps for itself.
            None => outbox.ignored("nothing was ordered under this name"),
        }
    }

    /// Ends a transaction that was not asked to commit, for this reason.
    fn end_open(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        let is_open = self.executing.remove(&id).is_some();
        let not_open = || Failure::Invalid(Invalid::NotOpen(id));
        finish(outbox, id, Err(if is_open { failure } else { not_open() }));
    }

    /// Ends a transaction that has not asked anybody to write.
    pub(crate) fn fail(&mut self, id: TransactionId, failure: Failure, outbox: &mut Out) {
        if self.executing.remove(&id).is_some() {
            finish(outbox, id, Err(failure));
        }
    }

    /// Why what only reads was not executed, as users are told.
    pub(crate) fn failure_of_read(&self, refused: Refused, shards: &[ShardId]) -> Failure {
        let leaders = |shards: &[ShardId]| -> Vec<ReplicaId> {
            shards.iter().map(|shard| self.one_round.leader(*shard)).collect()
        };
        match refused {
            Refused::Unknown { missing } => Failure::Unavailable { missing: leaders(&missing) },
            Refused::Lost { shard } => Failure::Invalid(Invalid::ShardLost(shard)),
            Refused::ClockAhead { ahead_micros } => ahead(ahead_micros),
            Refused::SeenAhead { ahead_micros } => Failure::Invalid(Invalid::SeenAhead { ahead_micros }),
            Refused::NoSuchShard(_) | Refused::InUse => Failure::Unavailable { missing: leaders(shards) },
            Refused::Conflict | Refused::Forgotten | Refused::Aborted(_) | Refused::Disagreement { .. } => {
                Failure::Conflict
            }
        }
    }
}

/// A one-round transaction that is to be executed.
#[derive(Debug)]
pub(crate) struct OneRound {
    pub(crate) parts: BTreeMap<ShardId, Value>,
    pub(crate) class: Class,
    pub(crate) patience: Duration,
}

/// The decision of a shard, as an operator is told.
fn decided(shard: ShardId, timestamp: ClockTime, answer: &Answer) -> Decided {
    let (is_refused, content) = match answer {
        Answer::Done(content) => (false, content),
        Answer::Refused(reason) => (true, reason),
    };
    Decided { shard, timestamp, is_refused, digest: Checksum::of(&[&content[..]]).low }
}

/// The result of a one-round transaction.
pub(crate) type OneRoundResult = Result<Executed, Refused>;

/// The clock of this client is ahead.
pub(crate) fn ahead(ahead_micros: u64) -> Failure {
    // Servers go by their default.
    const AHEAD_MAX: Duration = Duration::from_secs(60);
    let ahead_max_micros = AHEAD_MAX.as_micros() as u64;
    Failure::Invalid(Invalid::ClockAhead { ahead_micros, ahead_max_micros })
}

pub(crate) fn finish(outbox: &mut Out, transaction: TransactionId, result: Result<Committed, Failure>) {
    outbox.emit(Event::Finished { transaction, result });
}

/// How a client is told when a transaction has committed.
pub(crate) fn committed(id: TransactionId, timestamp: ClockTime) -> Committed {
    let timestamp = Timestamp { micros: timestamp.as_micros(), client: id.client };
    Committed { fast: false, ..Committed::at(timestamp) }
}

/// So long a client waits from now on.
pub(crate) fn patience(deadline: Instant, now: Instant) -> Duration {
    if deadline > now { deadline - now } else { Duration::ZERO }
}
