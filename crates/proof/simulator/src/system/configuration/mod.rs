//! The configuration service, as a keyspace of one group that is spread over the sites, one replica in each.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how it is set up |
//! | [`session`] | a client: transactions, a watch with a copy of the map, leases |
//! | [`inspector`] | what must hold beside what histories show |
//! | [`hostile`] | a client that lies |

pub mod hostile;
pub mod inspector;
pub mod session;
mod settings;

use std::time::Duration;

use quorate_checker::Level;
use quorate_configuration::{CoordinatorConfig, Entry, Message, Replica, SubscriberConfig};
use quorate_core::command::Command;
use quorate_core::hosted::{Held, Shards};
use quorate_core::invariant::Violation;
use quorate_core::{ClientId, Machine, Random, ReplicaIndex};
use quorate_log::member::{Item, MessageOf};
use quorate_log::{Guest, Member, Part};

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_log};
use crate::fault::Fault;

use crate::invariants::Broken;
use crate::world::Sight;
use crate::world::costs::{Operation, Work};
use hostile::Hostile;
use inspector::Inspector;
use session::{Session, SessionConfig};
use settings::Settings;

/// The machines of the configuration service.
#[derive(Clone, Copy, Debug)]
pub struct ConfigurationService;

type Server = Member<Replica>;
type Client = Guest<Session, Replica>;
type MessageOfService = MessageOf<Replica>;
type Cluster = crate::cluster::Cluster<ConfigurationService>;

impl Messages for ConfigurationService {
    type Message = MessageOfService;
    type Server = Server;
    type Client = Client;
    type Witness = on_log::Logs<Replica>;

    fn assert_invariants(server: &Server) {
        server.replica().assert_invariants();
        server.machine().assert_invariants();
    }

    fn assert_whole(server: &Server) {
        server.machine().assert_whole();
    }

    fn show(logs: &mut on_log::Logs<Replica>, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        logs.show(sight, |_, _| {}, found);
    }

    fn name(message: &MessageOfService) -> String {
        on_log::name(message)
    }

    fn coordinates(message: &MessageOfService) -> bool {
        matches!(message, Part::Own(Message::Write { .. } | Message::Settle { .. }))
    }

    fn work(_: Option<&Server>, message: &MessageOfService) -> Work {
        match message {
            Part::Own(Message::Get { keys, .. }) => Work::new(Operation::Read, keys.len()),
            Part::Own(Message::Scan { .. }) => Work::new(Operation::Read, 1),
            Part::Own(Message::Write { write, .. }) => Work::new(Operation::Prepare, write.puts.len()),
            Part::Log(quorate_log::Message::Prepare { entries, .. }) => {
                let puts = entries.iter().map(|entry| match &entry.payload {
                    Item::Own(Entry::Write { write, .. }) => write.puts.len(),
                    Item::Own(_) | Item::NextGroup(_) => 1,
                });
                Work::new(Operation::Commit, puts.sum())
            }
            _ => Work::new(Operation::Control, 0),
        }
    }

    fn command_work(command: &Command) -> Work {
        match command {
            Command::Route(_) | Command::Reachable { .. } => Work::new(Operation::Control, 0),
            _ => Work::new(Operation::Command, 1),
        }
    }
}

impl System for ConfigurationService {
    type Coordinator = SessionConfig;
    type Plant = quorate_configuration::Plant;
    type Hostile = Hostile;
    type Inspector = Inspector;

    const FACTS: Facts = Facts::Timestamps;
    const IS_SPREAD: bool = true;
    const CANNOT_STRIKE: &'static [Fault] = &[Fault::RecoveryCrashes, Fault::RecoveryDuels];
    const CHANGES_GROUPS: bool = true;
    const NUMBERS_APART: u64 = 2;

    const STANDS_ON_LOG: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::Configuration
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(Level::StrictSerializable)
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        let own = [
            settings.coordinator.lease / 3,
            settings.coordinator.coordinator.resend_timeout,
            settings.coordinator.coordinator.read_timeout,
        ];
        [on_log::timeouts(&settings.replica), own.to_vec()].concat()
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.coordinator.lease
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    /// Nothing is kept but what is bounded by number.
    fn collects(_: &Settings) -> bool {
        true
    }

    fn client(settings: &Settings, id: ClientId, shards: Shards) -> Client {
        let session = settings.coordinator.clone();
        let config = SessionConfig {
            coordinator: CoordinatorConfig { client: id, ..session.coordinator },
            subscriber: SubscriberConfig {
                client: id,
                group: (shards.first, session.subscriber.group.1),
                ..session.subscriber
            },
            ..session
        };
        Guest::restore(config, [])
    }

    fn hands_over_within(settings: &Settings) -> Option<Duration> {
        Some(on_log::hands_over_within(&settings.replica))
    }

    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        on_log::log_bytes_max(&settings.replica, server)
    }

    fn ask_to_settle(_: &Held) -> Option<MessageOfService> {
        None
    }

    fn hint_view(server: &Server, from: ReplicaIndex, far: Far) -> Option<MessageOfService> {
        on_log::hint_view(server, from, far)
    }

    fn inspect(inspector: &mut Inspector, cluster: &Cluster) -> Vec<Broken> {
        inspector.inspect(cluster)
    }
}
