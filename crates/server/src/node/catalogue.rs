//! How a node learns of keyspaces: it reads the catalogue, with a coordinator of its own.
//!
//! A reading is one transaction that scans the keys of all keyspaces. What it finds is true, because only committed
//! keyspaces are found; but a replica may have missed some, so only a reading that has *committed*, which validates the
//! scan at a quorum, tells that a keyspace is not there. A committed transaction stays in the records of the catalogue,
//! and holds the range while it is under way, so a reading commits only if there is something to be learned from it: if
//! it misses a keyspace that this node hosts, and once after this node was replaced, which must know which keyspaces are
//! older than it. All others are dropped once they have scanned.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, Committed, Event, Failure, Routes as KeyspaceRoutes};
use quorate_core::machine::InputOf;
use quorate_core::topology::Keyspace;
use quorate_core::{
    Address, ClientId, Epoch, Input, Instant, Key, KeyRange, KeyspaceId, Machine, NodeId, Random,
    ReplicaIndex, TransactionId, Value,
};
use quorate_runtime::driver::{Carrier, Kept};
use quorate_runtime::{Driver, Time};
use quorate_tapir::{Coordinator, CoordinatorConfig, Message};
use quorate_wire::catalogue::keyspace_range;

use super::routes::Outgoing;

/// How long one reading may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many readings there are for one reason: the replica that the first one asks may not have heard of the change.
const READINGS_WANTED: u32 = 2;

/// The pause between two readings.
const PAUSE: Duration = Duration::from_millis(50);

/// The pause after a reading that failed.
const PAUSE_FAILED: Duration = Duration::from_millis(250);

/// How many keyspaces one scan asks for.
const PAGE: u32 = 500;

/// What a reading has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// The keyspaces that are there.
    pub(crate) keyspaces: Vec<Keyspace>,
    /// True if there are surely no others.
    pub(crate) complete: bool,
}

/// A reading that is under way.
struct Open {
    transaction: TransactionId,
    keyspaces: Vec<Keyspace>,
    /// True if everything that was found could be understood.
    legible: bool,
    /// True once it was to be committed.
    confirming: bool,
}

/// Reads the catalogue now and then.
pub(crate) struct CatalogueReader {
    driver: Driver<Coordinator>,
    client: ClientId,
    system: Keyspace,
    /// The replicas of the catalogue, the nearest first.
    nearest: Vec<ReplicaIndex>,
    interval: Duration,
    sequence: u64,
    reading: Option<Open>,
    /// The keyspaces that this node hosts and that may not be missing unnoticed.
    expected: BTreeSet<KeyspaceId>,
    /// A reading has to commit, whatever it finds.
    must_confirm: bool,
    /// How many readings there is a reason for.
    wanted: u32,
    /// When the next reading is due without a reason, and before when none begins even with one.
    due: Instant,
    not_before: Instant,
    /// What the coordinator said in this step.
    events: VecDeque<Event>,
    /// Readings that were finished and not yet taken.
    finished: Vec<Reading>,
}

impl CatalogueReader {
    pub(crate) fn new(
        client: ClientId,
        system: Keyspace,
        nearest: Vec<ReplicaIndex>,
        interval: Duration,
        is_replacement: bool,
        seed: u64,
    ) -> Self {
        let config = CoordinatorConfig::new(client);
        CatalogueReader {
            driver: Driver::new(Coordinator::restore(config, []), Random::new(seed).next_u64()),
            client,
            system,
            nearest,
            interval,
            sequence: 0,
            reading: None,
            expected: BTreeSet::new(),
            must_confirm: is_replacement,
            wanted: READINGS_WANTED,
            due: Instant::START,
            not_before: Instant::START,
            events: VecDeque::new(),
            finished: Vec::new(),
        }
    }

    /// Starts the coordinator.
    pub(crate) fn start(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        self.step(time, Input::Start, outgoing);
    }

    /// The connection to a node is up, or down.
    pub(crate) fn set_reachable(
        &mut self,
        node: NodeId,
        reachable: bool,
        time: Time,
        outgoing: &mut Outgoing<'_, '_>,
    ) {
        let shard = &self.system.shards[0];
        let replicas = shard.replica_ids().zip(&shard.replicas).filter(|(_, host)| **host == node);
        let replicas: Vec<_> = replicas.map(|(replica, _)| replica).collect();
        for replica in replicas {
            self.command(time, Command::Reachable { replica, reachable }, outgoing);
        }
        if reachable {
            self.want();
        }
    }

    /// This node hosts the keyspace from here on.
    pub(crate) fn expect(&mut self, keyspace: KeyspaceId) {
        if keyspace != self.system.id {
            self.expected.insert(keyspace);
        }
    }

    /// This node does not host the keyspace any more.
    pub(crate) fn forget(&mut self, keyspace: KeyspaceId) {
        self.expected.remove(&keyspace);
    }

    /// There may be something new to read.
    pub(crate) fn want(&mut self) {
        self.wanted = READINGS_WANTED;
    }

    /// A message for the coordinator has arrived.
    pub(crate) fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: Message,
        outgoing: &mut Outgoing<'_, '_>,
    ) {
        self.step(time, Input::Message { from, epoch, message }, outgoing);
    }

    /// Fires timers, and begins a reading if one is due.
    pub(crate) fn on_turn_end(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        let CatalogueReader { driver, client, events, .. } = self;
        driver.fire_timers(time, &mut ToWorld { client: *client, events, outgoing });
        self.on_events(time, outgoing);
        if self.reading.is_none() && self.not_before <= time.now && (self.wanted > 0 || self.due <= time.now)
        {
            self.begin(time, outgoing);
        }
    }

    /// When the reader wants a turn.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let next_reading = match (&self.reading, self.wanted > 0) {
            (Some(_), _) => None,
            (None, true) => Some(self.not_before),
            (None, false) => Some(self.due),
        };
        [self.driver.next_deadline(), next_reading].into_iter().flatten().min()
    }

    /// The readings that were finished since this was asked last.
    pub(crate) fn take_finished(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.finished)
    }

    fn begin(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        self.wanted = self.wanted.saturating_sub(1);
        self.sequence += 1;
        let transaction = TransactionId { client: self.client, sequence: self.sequence, attempt: 0 };
        self.reading = Some(Open { transaction, keyspaces: Vec::new(), legible: true, confirming: false });
        // Each reading asks another replica first, so that one which has missed something does not hide it for ever.
        let mut nearest = self.nearest.clone();
        let replicas = nearest.len();
        nearest.rotate_left((self.sequence - 1) as usize % replicas);
        let routes = KeyspaceRoutes { keyspace: self.system.clone(), nearest: vec![nearest] };
        self.command(time, Command::Route(Arc::new(routes)), outgoing);
        let keyspace = self.system.id;
        self.command(time, Command::Begin { transaction, keyspace, patience: PATIENCE }, outgoing);
        self.command(time, Command::Scan { transaction, range: keyspace_range(), limit: PAGE }, outgoing);
    }

    fn command(&mut self, time: Time, command: Command, outgoing: &mut Outgoing<'_, '_>) {
        self.step(time, Input::Command(command), outgoing);
    }

    fn step(&mut self, time: Time, input: InputOf<Coordinator>, outgoing: &mut Outgoing<'_, '_>) {
        let CatalogueReader { driver, client, events, .. } = self;
        driver.step(time, input, &mut ToWorld { client: *client, events, outgoing });
        self.on_events(time, outgoing);
    }

    fn on_events(&mut self, time: Time, outgoing: &mut Outgoing<'_, '_>) {
        while let Some(event) = self.events.pop_front() {
            match event {
                Event::Scanned { transaction, entries, next } => {
                    self.on_scanned(time, transaction, entries, next, outgoing);
                }
                Event::Finished { transaction, result } => self.on_finished(time.now, transaction, result),
                Event::Outdated { .. } => self.want(),
                Event::Got { .. } | Event::Resolved { .. } | Event::Forgotten { .. } => {}
            }
        }
    }

    fn on_scanned(
        &mut self,
        time: Time,
        transaction: TransactionId,
        entries: Vec<(Key, Value)>,
        next: Option<Key>,
        outgoing: &mut Outgoing<'_, '_>,
    ) {
        let Some(open) = self.reading.as_mut().filter(|open| open.transaction == transaction) else { return };
        for (key, value) in entries {
            match quorate_wire::decode::<Keyspace>(&value) {
                Ok(keyspace) => open.keyspaces.push(keyspace),
                Err(error) => {
                    tracing::error!(?key, %error, "a keyspace in the catalogue cannot be read");
                    open.legible = false;
                }
            }
        }
        let found: BTreeSet<_> = open.keyspaces.iter().map(|keyspace| keyspace.id).collect();
        let command = match next {
            Some(from) => {
                let range = KeyRange { from, ..keyspace_range() };
                Command::Scan { transaction, range, limit: PAGE }
            }
            None if self.must_confirm || !self.expected.is_subset(&found) => {
                open.confirming = true;
                Command::Commit { transaction }
            }
            None => Command::Abort { transaction },
        };
        self.command(time, command, outgoing);
    }

    fn on_finished(&mut self, now: Instant, transaction: TransactionId, result: Result<Committed, Failure>) {
        let Some(open) = self.reading.take_if(|open| open.transaction == transaction) else { return };
        let committed = result.is_ok();
        let failed = !committed && (open.confirming || result != Err(Failure::Aborted));
        self.must_confirm &= !committed;
        if failed {
            self.want();
        }
        self.not_before = now + if failed { PAUSE_FAILED } else { PAUSE };
        self.due = now + self.interval;
        self.finished.push(Reading { keyspaces: open.keyspaces, complete: committed && open.legible });
    }
}

/// Carries out what the coordinator wants.
struct ToWorld<'a, 'b, 't> {
    client: ClientId,
    events: &'a mut VecDeque<Event>,
    outgoing: &'a mut Outgoing<'b, 't>,
}

impl Carrier<Coordinator> for ToWorld<'_, '_, '_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.outgoing.send(self.client.into(), to, epoch, message.into());
    }

    fn emit(&mut self, event: Event) {
        self.events.push_back(event);
    }

    fn persist(&mut self, record: std::convert::Infallible) -> Kept {
        match record {}
    }
}
