//! The coordinators of one client: one of TAPIR for all keyspaces that it runs, and one for each keyspace that a comparison
//! system runs.
//!
//! A command finds its coordinator by the keyspace, replica or transaction that it names, a message by its protocol and the
//! shard that it comes from.

use std::convert::Infallible;

use quorate_baselines::{Coordinator as Baseline, CoordinatorConfig, Replica};
use quorate_core::command::{Command, Event, Routes};
use quorate_core::comparison::Comparison;
use quorate_core::hash::FixedMap;
use quorate_core::{Address, ClientId, Epoch, Input, Instant, KeyspaceId, Machine, ShardId, TransactionId};
use quorate_log::Guest;
use quorate_runtime::clock::Time;
use quorate_runtime::driver::{Carrier, Driver, Kept};
use quorate_tapir::Coordinator;
use quorate_wire::ProtocolMessage;

/// What coordinators speak to.
pub(crate) trait World {
    /// Sends a message, as well as the network does.
    fn send(&mut self, to: Address, epoch: Epoch, message: ProtocolMessage);

    /// Tells the client something.
    fn tell(&mut self, event: Event);
}

/// All coordinators of one client.
pub(crate) struct Coordinators {
    client: ClientId,
    tapir: Driver<Coordinator>,
    comparisons: Vec<Driver<Guest<Baseline, Replica>>>,
    // Which of the comparison systems something belongs to; what is not here belongs to TAPIR.
    keyspaces: FixedMap<KeyspaceId, usize>,
    shards: FixedMap<ShardId, usize>,
    open: FixedMap<TransactionId, usize>,
}

impl Coordinators {
    /// The coordinators of a client that knows no keyspace yet.
    pub(crate) fn new(client: ClientId, tapir: quorate_tapir::CoordinatorConfig) -> Self {
        Coordinators {
            client,
            tapir: Driver::new(Coordinator::restore(tapir, []), client.0),
            comparisons: Vec::new(),
            keyspaces: FixedMap::default(),
            shards: FixedMap::default(),
            open: FixedMap::default(),
        }
    }

    /// Starts them.
    pub(crate) fn start(&mut self, time: Time, world: &mut impl World) {
        self.tapir.step(time, Input::Start, &mut Carries { world, open: None });
    }

    /// True if they have nothing to do and nothing to tell.
    pub(crate) fn is_idle(&self) -> bool {
        self.tapir.machine().is_empty()
            && self.comparisons.iter().all(|coordinator| coordinator.machine().machine().is_empty())
    }

    /// Gives a command to the coordinator that it is for.
    pub(crate) fn command(&mut self, time: Time, command: Command, world: &mut impl World) {
        match self.slot_for(time, &command, world) {
            None => self.tapir.step(time, Input::Command(command), &mut Carries { world, open: None }),
            Some(slot) => self.step_comparison(time, slot, Input::Command(command), world),
        }
    }

    /// Gives a message to the coordinator that it is for.
    pub(crate) fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        world: &mut impl World,
    ) {
        match message {
            ProtocolMessage::Tapir(message) => {
                let input = Input::Message { from, epoch, message };
                self.tapir.step(time, input, &mut Carries { world, open: None });
            }
            ProtocolMessage::Baseline(message) => {
                let Address::Replica(replica) = from else { return };
                if let Some(slot) = self.shards.get(&replica.shard).copied() {
                    self.step_comparison(time, slot, Input::Message { from, epoch, message }, world);
                }
            }
            // No coordinator here speaks with these.
            ProtocolMessage::Configuration(_) | ProtocolMessage::QwStore(_) => {}
        }
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&mut self, time: Time, world: &mut impl World) {
        self.tapir.fire_timers(time, &mut Carries { world, open: None });
        for coordinator in &mut self.comparisons {
            coordinator.fire_timers(time, &mut Carries { world, open: Some(&mut self.open) });
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let comparisons = self.comparisons.iter_mut().filter_map(Driver::next_deadline);
        comparisons.chain(self.tapir.next_deadline()).min()
    }

    /// Which comparison system a command is for, if it is for one. A transaction that begins there is noted.
    fn slot_for(&mut self, time: Time, command: &Command, world: &mut impl World) -> Option<usize> {
        if let Command::Route(routes) = command {
            return self.learn(time, routes, world);
        }
        if self.comparisons.is_empty() {
            return None;
        }
        match command {
            Command::Route(_) => None,
            Command::Reachable { replica, .. } => self.shards.get(&replica.shard).copied(),
            Command::Begin { transaction, keyspace, .. } => {
                let slot = *self.keyspaces.get(keyspace)?;
                self.open.insert(*transaction, slot);
                Some(slot)
            }
            Command::ReadOnly { keyspace, .. } | Command::ReadOnlyScan { keyspace, .. } => {
                self.keyspaces.get(keyspace).copied()
            }
            Command::Get { transaction, .. }
            | Command::Scan { transaction, .. }
            | Command::Put { transaction, .. }
            | Command::Commit { transaction }
            | Command::Abort { transaction } => self.open.get(transaction).copied(),
            Command::Resolve { participants, .. } => self.shards.get(participants.first()?).copied(),
        }
    }

    /// The comparison system that runs a keyspace, if one does; it gets a coordinator when it is first heard of.
    fn learn(&mut self, time: Time, routes: &Routes, world: &mut impl World) -> Option<usize> {
        let keyspace = &routes.keyspace;
        let Comparison { system, service } = keyspace.comparison.as_ref()?;
        let slot = match self.keyspaces.get(&keyspace.id) {
            Some(slot) => *slot,
            None => {
                let service = service.as_ref().map(|group| (group.id, group.group_size()));
                let config = CoordinatorConfig { service, ..CoordinatorConfig::new(self.client, *system) };
                let slot = self.comparisons.len();
                self.comparisons.push(Driver::new(Guest::restore(config, []), self.client.0 ^ slot as u64));
                self.keyspaces.insert(keyspace.id, slot);
                self.step_comparison(time, slot, Input::Start, world);
                slot
            }
        };
        self.shards.extend(keyspace.groups().map(|group| (group.id, slot)));
        Some(slot)
    }

    fn step_comparison(
        &mut self,
        time: Time,
        slot: usize,
        input: quorate_core::machine::InputOf<Guest<Baseline, Replica>>,
        world: &mut impl World,
    ) {
        self.comparisons[slot].step(time, input, &mut Carries { world, open: Some(&mut self.open) });
    }
}

/// Carries out what a coordinator wants, and forgets which one a transaction belongs to when that ends.
struct Carries<'a, W> {
    world: &'a mut W,
    open: Option<&'a mut FixedMap<TransactionId, usize>>,
}

impl<W, C> Carrier<C> for Carries<'_, W>
where
    W: World,
    C: Machine<Message: Into<ProtocolMessage>, Record = Infallible, Event = Event>,
{
    fn send(&mut self, to: Address, epoch: Epoch, message: C::Message) {
        self.world.send(to, epoch, message.into());
    }

    fn emit(&mut self, event: Event) {
        if let (Some(open), Event::Finished { transaction, .. }) = (&mut self.open, &event) {
            open.remove(transaction);
        }
        self.world.tell(event);
    }

    fn persist(&mut self, record: Infallible) -> Kept {
        match record {}
    }
}
