//! The coordinators of one client: one row for each protocol, everything else goes through the port [`HostedCoordinator`].
//!
//! A command finds its coordinator by the keyspace, replica or transaction that it names, a message by the shard that it comes
//! from. A command that names nothing that is known is refused here: no protocol takes over for another. The systems that the
//! protocols are compared with have coordinators with the feature `rivals` alone.

use std::convert::Infallible;

#[cfg(feature = "rivals")]
use quorate_core::GroupSize;
use quorate_core::command::{Command, Event, Invalid, Routes};
#[cfg(feature = "rivals")]
use quorate_core::comparison::{Rival, System};
use quorate_core::hash::FixedMap;
use quorate_core::hosted::HostedCoordinator;
use quorate_core::seen::Seen;
use quorate_core::topology::{Isolation, Keyspace};
use quorate_core::{
    Address, ClientId, Epoch, Input, Instant, KeyspaceId, Machine, Random, ShardId, TransactionId,
};
use quorate_log::Guest;
use quorate_runtime::clock::Time;
use quorate_runtime::{Carrier, Driver, Kept, log_ignored};
use quorate_serializable_coordinator::Interactive;
use quorate_tapir::Coordinator as Tapir;
use quorate_wire::ProtocolMessage;
use quorate_wire::Serializable;
use quorate_wire::catalogue::{SYSTEM_KEYSPACE_ID, SYSTEM_SHARD};

/// The world around coordinators: the network and the client.
pub(crate) trait World {
    /// Sends a message, as well as the network does.
    fn send(&mut self, to: Address, epoch: Epoch, message: ProtocolMessage);

    /// Tells the client something.
    fn tell(&mut self, event: Event);
}

/// The protocol that runs a keyspace, as far as coordinators of one client differ by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Strict,
    Serializable,
    ParallelSnapshot,
    Snapshot,
    Configuration,
    /// One coordinator for each keyspace: each has a service of its own.
    #[cfg(feature = "rivals")]
    OnLog(System, Option<(ShardId, GroupSize)>),
    #[cfg(feature = "rivals")]
    QwStore,
}

impl Protocol {
    /// Those of which a client has one coordinator for all keyspaces.
    const SHARED: &[Protocol] = &[
        Protocol::Strict,
        Protocol::Serializable,
        Protocol::ParallelSnapshot,
        Protocol::Snapshot,
        Protocol::Configuration,
        #[cfg(feature = "rivals")]
        Protocol::QwStore,
    ];

    /// The protocol of a keyspace; none if a system runs it that this client has no coordinator of.
    fn of(keyspace: &Keyspace) -> Option<Protocol> {
        Some(match (&keyspace.comparison, keyspace.isolation) {
            (None, _) if keyspace.id == SYSTEM_KEYSPACE_ID => Protocol::Configuration,
            (None, Isolation::Strict) => Protocol::Strict,
            (None, Isolation::Serializable) => Protocol::Serializable,
            (None, Isolation::ParallelSnapshot) => Protocol::ParallelSnapshot,
            (None, Isolation::Snapshot) => Protocol::Snapshot,
            #[cfg(feature = "rivals")]
            (Some(comparison), _) => match comparison.rival {
                Rival::QwStore => Protocol::QwStore,
                Rival::OnLog(system) => {
                    let service = comparison.service.as_ref();
                    Protocol::OnLog(system, service.map(|group| (group.id, group.group_size())))
                }
            },
            #[cfg(not(feature = "rivals"))]
            (Some(_), _) => return None,
        })
    }

    /// A coordinator of this protocol, with time-outs as the client wants them.
    fn coordinator(self, wanted: &quorate_tapir::CoordinatorConfig, random: Random) -> Box<dyn Runs> {
        let (client, read_timeout, resend_timeout) =
            (wanted.client, wanted.read_timeout, wanted.resend_timeout);
        match self {
            Protocol::Strict => Running::<Tapir>::boxed(wanted.clone(), random),
            Protocol::Serializable => {
                let initial = quorate_granola::CoordinatorConfig::new(client);
                let config = quorate_granola::CoordinatorConfig { resend_timeout, ..initial };
                Running::<Guest<Interactive, Serializable>>::boxed(config, random)
            }
            Protocol::ParallelSnapshot => {
                let initial = quorate_walter::CoordinatorConfig::new(client);
                let config = quorate_walter::CoordinatorConfig { resend_timeout, ..initial };
                Running::<Guest<quorate_walter::Coordinator, quorate_walter::Replica>>::boxed(config, random)
            }
            Protocol::Snapshot => {
                let initial = quorate_str::CoordinatorConfig::new(client);
                let config = quorate_str::CoordinatorConfig { resend_timeout, ..initial };
                Running::<Guest<quorate_str::Coordinator, quorate_str::Replica>>::boxed(config, random)
            }
            Protocol::Configuration => {
                let initial = quorate_configuration::CoordinatorConfig::new(client);
                let config =
                    quorate_configuration::CoordinatorConfig { read_timeout, resend_timeout, ..initial };
                Running::<Guest<quorate_configuration::Coordinator, quorate_configuration::Replica>>::boxed(
                    config, random,
                )
            }
            #[cfg(feature = "rivals")]
            Protocol::OnLog(system, service) => {
                let initial = quorate_baselines::CoordinatorConfig::new(client, system);
                let config = quorate_baselines::CoordinatorConfig { service, ..initial };
                Running::<Guest<quorate_baselines::Coordinator, quorate_baselines::Replica>>::boxed(
                    config, random,
                )
            }
            #[cfg(feature = "rivals")]
            Protocol::QwStore => {
                let config = quorate_qwstore::CoordinatorConfig::new(client);
                Running::<quorate_qwstore::Coordinator>::boxed(config, random)
            }
        }
    }
}

/// A coordinator that runs, whatever its protocol.
trait Runs: Send {
    fn start(&mut self, time: Time, world: &mut dyn World);
    fn command(&mut self, time: Time, command: Command, world: &mut dyn World);
    /// Gives it a message. One of another protocol is lost.
    fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        world: &mut dyn World,
    );
    fn fire_timers(&mut self, time: Time, world: &mut dyn World);
    fn next_deadline(&mut self) -> Option<Instant>;
    fn is_idle(&self) -> bool;
    fn seen(&self) -> Seen;
    fn home_of(&self, transaction: TransactionId) -> Option<ShardId>;
}

/// A coordinator that runs.
struct Running<C: Machine> {
    driver: Driver<C>,
}

impl<C> Running<C>
where
    C: HostedCoordinator<Message: Into<ProtocolMessage> + TryFrom<ProtocolMessage>, Record = Infallible>,
    Running<C>: Send + 'static,
{
    fn boxed(config: C::Config, random: Random) -> Box<dyn Runs> {
        Box::new(Running { driver: Driver::new(C::restore(config, []), random) })
    }
}

impl<C> Runs for Running<C>
where
    C: HostedCoordinator<Message: Into<ProtocolMessage> + TryFrom<ProtocolMessage>, Record = Infallible>,
    Running<C>: Send,
{
    fn start(&mut self, time: Time, world: &mut dyn World) {
        self.driver.step(time, Input::Start, &mut Carries { world });
    }

    fn command(&mut self, time: Time, command: Command, world: &mut dyn World) {
        self.driver.step(time, Input::Command(command), &mut Carries { world });
    }

    fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        world: &mut dyn World,
    ) {
        let Ok(message) = message.try_into() else {
            return log_ignored("a message of another protocol than its shard's");
        };
        self.driver.step(time, Input::Message { from, epoch, message }, &mut Carries { world });
    }

    fn fire_timers(&mut self, time: Time, world: &mut dyn World) {
        self.driver.fire_timers(time, &mut Carries { world });
    }

    fn next_deadline(&mut self) -> Option<Instant> {
        self.driver.next_deadline()
    }

    fn is_idle(&self) -> bool {
        self.driver.machine().is_idle()
    }

    fn seen(&self) -> Seen {
        self.driver.machine().seen()
    }

    fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        self.driver.machine().home_of(transaction)
    }
}

/// A coordinator, by its place.
type Slot = usize;

/// All coordinators of one client.
pub(crate) struct Coordinators {
    wanted: quorate_tapir::CoordinatorConfig,
    running: Vec<(Protocol, Box<dyn Runs>)>,
    keyspaces: FixedMap<KeyspaceId, Slot>,
    shards: FixedMap<ShardId, Slot>,
    open: FixedMap<TransactionId, Slot>,
}

impl Coordinators {
    /// The coordinators of a client that knows no keyspace yet but the built-in one.
    pub(crate) fn new(wanted: quorate_tapir::CoordinatorConfig) -> Self {
        let mut coordinators = Coordinators {
            wanted,
            running: Vec::new(),
            keyspaces: FixedMap::default(),
            shards: FixedMap::default(),
            open: FixedMap::default(),
        };
        for protocol in Protocol::SHARED {
            let slot = coordinators.add(*protocol);
            if *protocol == Protocol::Configuration {
                coordinators.keyspaces.insert(SYSTEM_KEYSPACE_ID, slot);
                coordinators.shards.insert(SYSTEM_SHARD, slot);
            }
        }
        coordinators
    }

    fn add(&mut self, protocol: Protocol) -> Slot {
        let slot = self.running.len();
        let ClientId(client) = self.wanted.client;
        let running = protocol.coordinator(&self.wanted, Random::new(client ^ slot as u64));
        self.running.push((protocol, running));
        slot
    }

    /// Starts them.
    pub(crate) fn start(&mut self, time: Time, world: &mut impl World) {
        for (_, coordinator) in &mut self.running {
            coordinator.start(time, world);
        }
    }

    /// How far the client has seen.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = Seen::default();
        self.running.iter().for_each(|(_, coordinator)| seen.join(&coordinator.seen()));
        seen
    }

    /// The home that decides an open transaction, where transactions run at nodes.
    pub(crate) fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        self.running[*self.open.get(&transaction)?].1.home_of(transaction)
    }

    /// True if they have nothing to do and nothing to tell.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.iter().all(|(_, coordinator)| coordinator.is_idle())
    }

    /// Gives a command to the coordinator that it is for.
    pub(crate) fn command(&mut self, time: Time, command: Command, world: &mut impl World) {
        match self.slot_of(time, &command, world) {
            Ok(slot) => {
                self.running[slot].1.command(time, command, &mut Watches { world, open: &mut self.open })
            }
            Err(None) => {
                for (_, coordinator) in &mut self.running {
                    coordinator.command(time, command.clone(), &mut Watches { world, open: &mut self.open });
                }
            }
            Err(Some(reason)) => command.refused(reason).into_iter().for_each(|event| world.tell(event)),
        }
    }

    /// Gives a message to the coordinator that it is for. One of a shard that is not known is lost, as any message may be.
    pub(crate) fn on_message(
        &mut self,
        time: Time,
        from: Address,
        epoch: Epoch,
        message: ProtocolMessage,
        world: &mut impl World,
    ) {
        let Address::Replica(replica) = from else { return log_ignored("a message that no replica says") };
        let Some(slot) = self.shards.get(&replica.shard).copied() else {
            return log_ignored("a message of a shard that is not known");
        };
        let world = &mut Watches { world, open: &mut self.open };
        self.running[slot].1.on_message(time, from, epoch, message, world);
    }

    /// Fires the timers that are due.
    pub(crate) fn fire_timers(&mut self, time: Time, world: &mut impl World) {
        for (_, coordinator) in &mut self.running {
            coordinator.fire_timers(time, &mut Watches { world, open: &mut self.open });
        }
    }

    /// When the next timer is due.
    pub(crate) fn next_deadline(&mut self) -> Option<Instant> {
        self.running.iter_mut().filter_map(|(_, coordinator)| coordinator.next_deadline()).min()
    }

    /// The coordinator that a command is for, and notes a transaction that begins.
    ///
    /// # Errors
    /// The command is for none, for this reason; or, without a reason, for all.
    fn slot_of(
        &mut self,
        time: Time,
        command: &Command,
        world: &mut impl World,
    ) -> Result<Slot, Option<Invalid>> {
        match command {
            Command::Route(routes) => {
                let unknown = Invalid::UnknownKeyspace(routes.keyspace.id);
                self.learn(time, routes, world).ok_or(Some(unknown))
            }
            Command::Observe { .. } => Err(None),
            Command::Reachable { replica, .. } => {
                self.shards.get(&replica.shard).copied().ok_or(Some(Invalid::Unsupported))
            }
            Command::Begin { transaction, keyspace, .. } => {
                let slot = self.slot_of_keyspace(*keyspace)?;
                self.open.insert(*transaction, slot);
                Ok(slot)
            }
            Command::Container { keyspace, .. }
            | Command::CatchUp { keyspace, .. }
            | Command::ReadOnly { keyspace, .. }
            | Command::ReadOnlyScan { keyspace, .. }
            | Command::Execute { keyspace, .. } => self.slot_of_keyspace(*keyspace),
            Command::Get { transaction, .. }
            | Command::GetMany { transaction, .. }
            | Command::GetMarked { transaction, .. }
            | Command::Scan { transaction, .. }
            | Command::Put { transaction, .. }
            | Command::Set { transaction, .. }
            | Command::After { transaction, .. }
            | Command::Confine { transaction, .. }
            | Command::CommitSpeculatively { transaction }
            | Command::Commit { transaction }
            | Command::Abort { transaction } => {
                self.open.get(transaction).copied().ok_or(Some(Invalid::NotOpen(*transaction)))
            }
            Command::Resolve { transaction, participants, .. }
            | Command::Recall { transaction, participants, .. }
            | Command::Await { transaction, participants, .. } => {
                let slot = participants.first().and_then(|shard| self.shards.get(shard)).copied();
                slot.ok_or(Some(Invalid::NotOpen(*transaction)))
            }
        }
    }

    fn slot_of_keyspace(&self, keyspace: KeyspaceId) -> Result<Slot, Option<Invalid>> {
        self.keyspaces.get(&keyspace).copied().ok_or(Some(Invalid::UnknownKeyspace(keyspace)))
    }

    /// The coordinator of a keyspace; none if this client has none of its protocol. A protocol whose keyspaces each have one gets it when the
    /// keyspace is first heard of.
    fn learn(&mut self, time: Time, routes: &Routes, world: &mut impl World) -> Option<Slot> {
        let keyspace = &routes.keyspace;
        let slot = match self.keyspaces.get(&keyspace.id) {
            Some(slot) => *slot,
            None => self.slot_for(time, Protocol::of(keyspace)?, world),
        };
        self.keyspaces.insert(keyspace.id, slot);
        self.shards.extend(keyspace.groups().map(|group| (group.id, slot)));
        Some(slot)
    }

    /// The coordinator of a keyspace that was not heard of.
    fn slot_for(&mut self, time: Time, protocol: Protocol, world: &mut impl World) -> Slot {
        let shared = self.running.iter().position(|(known, _)| *known == protocol);
        shared.filter(|_| Protocol::SHARED.contains(&protocol)).unwrap_or_else(|| {
            let slot = self.add(protocol);
            self.running[slot].1.start(time, world);
            slot
        })
    }
}

/// Forgets which coordinator a transaction belongs to when that has ended.
struct Watches<'a, W> {
    world: &'a mut W,
    open: &'a mut FixedMap<TransactionId, Slot>,
}

impl<W: World> World for Watches<'_, W> {
    fn send(&mut self, to: Address, epoch: Epoch, message: ProtocolMessage) {
        self.world.send(to, epoch, message);
    }

    fn tell(&mut self, event: Event) {
        if let Event::Finished { transaction, .. } = &event {
            self.open.remove(transaction);
        }
        self.world.tell(event);
    }
}

/// Carries out what a coordinator wants.
struct Carries<'a> {
    world: &'a mut dyn World,
}

impl<C> Carrier<C> for Carries<'_>
where
    C: Machine<Message: Into<ProtocolMessage>, Record = Infallible, Event = Event>,
{
    fn send(&mut self, to: Address, epoch: Epoch, message: C::Message) {
        self.world.send(to, epoch, message.into());
    }

    fn emit(&mut self, event: Event) {
        self.world.tell(event);
    }

    fn persist(&mut self, _: &C, record: Infallible) -> Kept {
        match record {}
    }

    fn ignored(&mut self, reason: &'static str) {
        log_ignored(reason);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::command::Failure;
    use quorate_core::comparison::{Comparison, System};
    use quorate_core::topology::{Durability, Shard};
    use quorate_core::{ClockTime, Key, NodeId};

    use super::*;

    #[derive(Default)]
    struct Heard(Vec<(Address, ProtocolMessage)>, Vec<Event>);

    impl World for Heard {
        fn send(&mut self, to: Address, _: Epoch, message: ProtocolMessage) {
            self.0.push((to, message));
        }

        fn tell(&mut self, event: Event) {
            self.1.push(event);
        }
    }

    fn time() -> Time {
        Time { now: Instant::START, clock: ClockTime::from_micros(1) }
    }

    fn keyspace(id: u32, isolation: Isolation, rival: Option<Rival>) -> Keyspace {
        let comparison = rival.map(|rival| Comparison { rival, service: None });
        Keyspace {
            comparison,
            ..Keyspace::new(
                KeyspaceId(id),
                format!("k{id}"),
                isolation,
                Durability::Sync,
                vec![Shard::new(ShardId(10 * id), vec![NodeId(0)])],
            )
        }
    }

    fn coordinators(keyspaces: impl IntoIterator<Item = Keyspace>) -> (Coordinators, Heard) {
        let mut coordinators = Coordinators::new(quorate_tapir::CoordinatorConfig::new(ClientId(7)));
        let mut heard = Heard::default();
        coordinators.start(time(), &mut heard);
        for keyspace in keyspaces {
            let nearest = vec![vec![quorate_core::ReplicaIndex(0)]];
            let routes = Command::Route(Arc::new(Routes::new(keyspace, nearest)));
            coordinators.command(time(), routes, &mut heard);
        }
        assert!(heard.1.is_empty(), "{:?}", heard.1);
        heard.0.clear();
        (coordinators, heard)
    }

    const ID: TransactionId = TransactionId { client: ClientId(7), sequence: 1, attempt: 0 };

    fn begin(keyspace: u32) -> [Command; 2] {
        let (transaction, keyspace) = (ID, KeyspaceId(keyspace));
        let patience = std::time::Duration::from_secs(1);
        [
            Command::Begin { transaction, keyspace, patience },
            Command::Get { transaction, key: Key::from("k") },
        ]
    }

    #[test]
    fn each_protocol_is_asked_for_its_own_keyspaces() {
        let on_log = Some(Rival::OnLog(System::TxnLock));
        let all = [
            keyspace(1, Isolation::Strict, None),
            keyspace(2, Isolation::Serializable, None),
            keyspace(3, Isolation::Strict, on_log),
            keyspace(4, Isolation::Strict, Some(Rival::QwStore)),
        ];
        for (id, is_right) in [
            (1, (|message| matches!(message, ProtocolMessage::Tapir(_))) as fn(&ProtocolMessage) -> bool),
            (2, |message| matches!(message, ProtocolMessage::Granola(_))),
            (3, |message| matches!(message, ProtocolMessage::Baseline(_))),
            (4, |message| matches!(message, ProtocolMessage::QwStore(_))),
        ] {
            let (mut coordinators, mut heard) = coordinators(all.clone());
            begin(id).into_iter().for_each(|command| coordinators.command(time(), command, &mut heard));
            assert!(!heard.0.is_empty() && heard.0.iter().all(|(_, message)| is_right(message)), "{id}");
            assert!(!coordinators.is_idle());
        }
    }

    #[test]
    fn commands_that_name_nothing_known_are_refused_and_reach_no_protocol() {
        let (mut coordinators, mut heard) = coordinators([keyspace(1, Isolation::Strict, None)]);
        let commands = begin(2).into_iter().chain([
            Command::Put { transaction: ID, key: Key::from("k"), value: None },
            Command::Commit { transaction: ID },
            Command::Resolve {
                transaction: ID,
                participants: vec![ShardId(99)],
                timestamp: Default::default(),
                patience: std::time::Duration::from_secs(1),
            },
        ]);
        commands.for_each(|command| coordinators.command(time(), command, &mut heard));
        let finished = |reason| Event::Finished { transaction: ID, result: Err(Failure::Invalid(reason)) };
        let not_open = || finished(Invalid::NotOpen(ID));
        let expected = [
            finished(Invalid::UnknownKeyspace(KeyspaceId(2))),
            not_open(),
            not_open(),
            not_open(),
            Event::Resolved { transaction: ID, outcome: None },
        ];
        assert_eq!(heard.1, expected);
        assert!(heard.0.is_empty() && coordinators.is_idle());
    }

    #[test]
    fn a_protocol_that_lacks_one_round_transactions_says_so() {
        let (mut coordinators, mut heard) = coordinators([keyspace(1, Isolation::Strict, None)]);
        let command = Command::Execute {
            transaction: ID,
            keyspace: KeyspaceId(1),
            parts: Default::default(),
            class: quorate_core::command::Class::Independent,
            not_before: ClockTime::default(),
            patience: std::time::Duration::from_secs(1),
        };
        coordinators.command(time(), command, &mut heard);
        let failed = Failure::Invalid(Invalid::Unsupported).into();
        assert_eq!(heard.1, [Event::Executed { transaction: ID, result: Err(failed) }]);
    }
}
