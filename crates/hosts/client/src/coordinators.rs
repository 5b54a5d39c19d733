//! The coordinators of one client: one of TAPIR and one of Granola for all keyspaces that these run, one of the configuration
//! service, which holds the catalogue, and one for each keyspace that a comparison system runs.
//!
//! A command finds its coordinator by the keyspace, replica or transaction that it names, a message by its protocol and the
//! shard that it comes from.

use std::convert::Infallible;

use quorate_baselines::{Coordinator as Baseline, CoordinatorConfig, Replica};
use quorate_core::command::{Command as Common, Event as Told, Routes};
use quorate_core::comparison::Rival;
use quorate_core::hash::FixedMap;
use quorate_core::machine::InputOf;
use quorate_core::topology::Isolation;
use quorate_core::{
    Address, ClientId, ClockTime, Epoch, Input, Instant, KeyspaceId, Machine, Random, ShardId, TransactionId,
};
use quorate_log::Guest;
use quorate_runtime::clock::Time;
use quorate_runtime::{Carrier, Driver, Kept, log_ignored};
use quorate_serializable_coordinator::{Command, Event, Interactive};
use quorate_tapir::Coordinator;
use quorate_wire::ProtocolMessage;
use quorate_wire::catalogue::{SYSTEM_KEYSPACE_ID, SYSTEM_SHARD};
use quorate_wire::packet::Serializable;

/// What coordinators speak to.
pub(crate) trait World {
    /// Sends a message, as well as the network does.
    fn send(&mut self, to: Address, epoch: Epoch, message: ProtocolMessage);

    /// Tells the client something.
    fn tell(&mut self, event: Event);
}

/// The coordinator of the configuration, and one of a comparison system, speaking as members of a log do.
type Configuration = Guest<quorate_configuration::Coordinator, quorate_configuration::Replica>;
type Comparison = Guest<Baseline, Replica>;

/// The coordinator of serializable keyspaces.
type Granola = Guest<Interactive, Serializable>;

/// One of the coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Tapir,
    Granola,
    Configuration,
    QwStore,
    /// The one of a comparison system on replicated logs, by its place.
    Comparison(usize),
}

/// All coordinators of one client.
pub(crate) struct Coordinators {
    client: ClientId,
    tapir: Driver<Coordinator>,
    granola: Driver<Granola>,
    configuration: Driver<Configuration>,
    qwstore: Driver<quorate_qwstore::Coordinator>,
    comparisons: Vec<Driver<Comparison>>,
    // Whose something is; what is not here is TAPIR's.
    keyspaces: FixedMap<KeyspaceId, Whose>,
    shards: FixedMap<ShardId, Whose>,
    open: FixedMap<TransactionId, Whose>,
}

impl Coordinators {
    /// The coordinators of a client that knows no keyspace yet.
    pub(crate) fn new(client: ClientId, tapir: quorate_tapir::CoordinatorConfig) -> Self {
        let configuration = quorate_configuration::CoordinatorConfig {
            read_timeout: tapir.read_timeout,
            resend_timeout: tapir.resend_timeout,
            ..quorate_configuration::CoordinatorConfig::new(client)
        };
        let granola = quorate_granola::CoordinatorConfig {
            resend_timeout: tapir.resend_timeout,
            ..quorate_granola::CoordinatorConfig::new(client)
        };
        let qwstore = quorate_qwstore::CoordinatorConfig::new(client);
        let random = || Random::new(client.0);
        Coordinators {
            client,
            tapir: Driver::new(Coordinator::restore(tapir, []), random()),
            granola: Driver::new(Guest::restore(granola, []), random()),
            configuration: Driver::new(Guest::restore(configuration, []), random()),
            qwstore: Driver::new(quorate_qwstore::Coordinator::restore(qwstore, []), random()),
            comparisons: Vec::new(),
            keyspaces: FixedMap::from_iter([(SYSTEM_KEYSPACE_ID, Whose::Configuration)]),
            shards: FixedMap::from_iter([(SYSTEM_SHARD, Whose::Configuration)]),
            open: FixedMap::default(),
        }
    }

    /// Starts them.
    pub(crate) fn start(&mut self, time: Time, world: &mut impl World) {
        self.tapir.step(time, Input::Start, &mut Carries { world, open: None });
        self.step_granola(time, Input::Start, world);
        self.step_configuration(time, Input::Start, world);
        self.step_qwstore(time, Input::Start, world);
    }

    /// The greatest timestamp that was seen of serializable keyspaces.
    pub(crate) fn seen(&self) -> ClockTime {
        self.granola.machine().machine().seen()
    }

    /// True if they have nothing to do and nothing to tell.
    pub(crate) fn is_idle(&self) -> bool {
        self.tapir.machine().is_empty()
            && self.granola.machine().machine().is_empty()
            && self.configuration.machine().machine().is_empty()
            && self.qwstore.machine().is_empty()
            && self.comparisons.iter().all(|coordinator| coordinator.machine().machine().is_empty())
    }

    /// Gives a command to the coordinator that it is for.
    pub(crate) fn command(&mut self, time: Time, command: Command, world: &mut impl World) {
        let command = match command {
            Command::Common(command) => command,
            // No other protocol runs a transaction in one round.
            command => return self.step_granola(time, Input::Command(command), world),
        };
        match self.whose(time, &command, world) {
            Whose::Tapir => {
                self.tapir.step(time, Input::Command(command), &mut Carries { world, open: None })
            }
            Whose::Granola => self.step_granola(time, Input::Command(command.into()), world),
            Whose::Configuration => self.step_configuration(time, Input::Command(command), world),
            Whose::QwStore => self.step_qwstore(time, Input::Command(command), world),
            Whose::Comparison(slot) => self.step_comparison(time, slot, Input::Command(command), world),
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
                if let Some(Whose::Comparison(slot)) = self.shards.get(&replica.shard).copied() {
                    self.step_comparison(time, slot, Input::Message { from, epoch, message }, world);
                }
            }
            ProtocolMessage::Granola(message) => {
                self.step_granola(time, Input::Message { from, epoch, message }, world);
            }
            ProtocolMessage::Configuration(message) => {
                self.step_configuration(time, Input::Message { from, epoch, message }, world);
            }
            ProtocolMessage::QwStore(message) => {
                self.step_qwstore(time, Input::Message { from, epoch, message }, world);
            }
        }
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&mut self, time: Time, world: &mut impl World) {
        self.tapir.fire_timers(time, &mut Carries { world, open: None });
        self.granola.fire_timers(time, &mut Carries { world, open: Some(&mut self.open) });
        self.configuration.fire_timers(time, &mut Carries { world, open: Some(&mut self.open) });
        self.qwstore.fire_timers(time, &mut Carries { world, open: Some(&mut self.open) });
        for coordinator in &mut self.comparisons {
            coordinator.fire_timers(time, &mut Carries { world, open: Some(&mut self.open) });
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        let comparisons = self.comparisons.iter_mut().filter_map(Driver::next_deadline);
        let configuration = self.configuration.next_deadline();
        comparisons
            .chain(self.tapir.next_deadline())
            .chain(self.granola.next_deadline())
            .chain(configuration)
            .chain(self.qwstore.next_deadline())
            .min()
    }

    /// Whose a command is. A transaction that does not begin with TAPIR is noted.
    fn whose(&mut self, time: Time, command: &Common, world: &mut impl World) -> Whose {
        let known = match command {
            Common::Route(routes) => Some(self.learn(time, routes, world)),
            Common::Reachable { replica, .. } => self.shards.get(&replica.shard).copied(),
            Common::Begin { transaction, keyspace, .. } => {
                let whose = self.keyspaces.get(keyspace).copied();
                self.open.extend(whose.map(|whose| (*transaction, whose)));
                whose
            }
            Common::ReadOnly { keyspace, .. } | Common::ReadOnlyScan { keyspace, .. } => {
                self.keyspaces.get(keyspace).copied()
            }
            Common::Get { transaction, .. }
            | Common::Scan { transaction, .. }
            | Common::Put { transaction, .. }
            | Common::Commit { transaction }
            | Common::Abort { transaction } => self.open.get(transaction).copied(),
            Common::Resolve { participants, .. } => {
                participants.first().and_then(|shard| self.shards.get(shard)).copied()
            }
        };
        known.unwrap_or(Whose::Tapir)
    }

    /// Who runs a keyspace. A comparison system on replicated logs gets a coordinator when it is first heard of.
    fn learn(&mut self, time: Time, routes: &Routes, world: &mut impl World) -> Whose {
        let keyspace = &routes.keyspace;
        let known = self.keyspaces.get(&keyspace.id).copied();
        let whose = match (known, &keyspace.comparison) {
            (Some(whose), _) => whose,
            (None, None) => match keyspace.isolation {
                Isolation::Strict => return Whose::Tapir,
                Isolation::Serializable => {
                    self.keyspaces.insert(keyspace.id, Whose::Granola);
                    Whose::Granola
                }
            },
            (None, Some(comparison)) => {
                let Rival::OnLog(system) = comparison.rival else {
                    self.keyspaces.insert(keyspace.id, Whose::QwStore);
                    return self.learn(time, routes, world);
                };
                let service = comparison.service.as_ref().map(|group| (group.id, group.group_size()));
                let config = CoordinatorConfig { service, ..CoordinatorConfig::new(self.client, system) };
                let slot = self.comparisons.len();
                let random = Random::new(self.client.0 ^ slot as u64);
                self.comparisons.push(Driver::new(Guest::restore(config, []), random));
                self.keyspaces.insert(keyspace.id, Whose::Comparison(slot));
                self.step_comparison(time, slot, Input::Start, world);
                Whose::Comparison(slot)
            }
        };
        self.shards.extend(keyspace.groups().map(|group| (group.id, whose)));
        whose
    }

    fn step_granola(&mut self, time: Time, input: InputOf<Granola>, world: &mut impl World) {
        self.granola.step(time, input, &mut Carries { world, open: Some(&mut self.open) });
    }

    fn step_configuration(&mut self, time: Time, input: InputOf<Configuration>, world: &mut impl World) {
        self.configuration.step(time, input, &mut Carries { world, open: Some(&mut self.open) });
    }

    fn step_qwstore(
        &mut self,
        time: Time,
        input: InputOf<quorate_qwstore::Coordinator>,
        world: &mut impl World,
    ) {
        self.qwstore.step(time, input, &mut Carries { world, open: Some(&mut self.open) });
    }

    fn step_comparison(
        &mut self,
        time: Time,
        slot: usize,
        input: InputOf<Comparison>,
        world: &mut impl World,
    ) {
        self.comparisons[slot].step(time, input, &mut Carries { world, open: Some(&mut self.open) });
    }
}

/// Carries out what a coordinator wants, and forgets which one a transaction belongs to when that ends.
struct Carries<'a, W> {
    world: &'a mut W,
    open: Option<&'a mut FixedMap<TransactionId, Whose>>,
}

impl<W, C> Carrier<C> for Carries<'_, W>
where
    W: World,
    C: Machine<Message: Into<ProtocolMessage>, Record = Infallible, Event: Into<Event>>,
{
    fn send(&mut self, to: Address, epoch: Epoch, message: C::Message) {
        self.world.send(to, epoch, message.into());
    }

    fn emit(&mut self, event: C::Event) {
        let event = event.into();
        if let (Some(open), Event::Common(Told::Finished { transaction, .. })) = (&mut self.open, &event) {
            open.remove(transaction);
        }
        self.world.tell(event);
    }

    fn persist(&mut self, _: &C, record: Infallible) -> Kept {
        match record {}
    }

    fn ignored(&mut self, reason: &'static str) {
        log_ignored(reason);
    }
}
