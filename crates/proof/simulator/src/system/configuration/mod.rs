//! The configuration service, as a keyspace of one group that is spread over the sites, one replica in each.
//!
//! | file | role |
//! |---|---|
//! | [`settings`] | how it is set up |
//! | [`session`] | a client: transactions, a watch with a copy of the map, leases |
//! | [`inspector`] | what must hold beside what histories show |
//! | [`hostile`] | a client that lies |

pub mod hostile;
pub mod inspector;
pub mod session;
pub mod settings;

use std::time::Duration;

use bytes::BytesMut;
use quorate_checker::Level;
use quorate_configuration::{
    CoordinatorConfig, Entry, Message, Plant, Replica, ReplicaConfig, SubscriberConfig,
};
use quorate_core::command::{Command, Outcome};
use quorate_core::verify::{Answer, Request};
use quorate_core::{
    ClientId, Epoch, Groups, Machine, Random, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_log::member::{Config, Item, MessageOf};
use quorate_log::{Guest, LogCommand, Member, Part};

use super::{Far, Held, News, Planted, Seat, Shards, Sketch, System, SystemKind, frames, on_log};
use crate::invariants::{Broken, StoredVersion};
use crate::options::Faults;
use crate::world::costs::{Operation, Work};
use crate::world::disk::Disk;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, first_word};
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

impl Protocol for ConfigurationService {
    type Message = MessageOfService;
    type Server = Server;
    type Client = Client;

    fn name(message: &MessageOfService) -> String {
        match message {
            Part::Log(message) => first_word(message),
            Part::Own(message) => first_word(message),
        }
    }

    fn coordinates(message: &MessageOfService) -> bool {
        matches!(message, Part::Own(Message::Write { .. } | Message::Settle { .. }))
    }

    fn digest(message: &MessageOfService, hash: &mut TraceHash) {
        frames::digest(message, hash);
    }

    fn carry(envelope: Envelope<MessageOfService>) -> Envelope<MessageOfService> {
        frames::carry(envelope)
    }

    fn damage(envelope: &Envelope<MessageOfService>, random: &mut Random) {
        frames::damage(envelope, random);
    }

    fn size(envelope: &Envelope<MessageOfService>) -> usize {
        frames::size(envelope)
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

    fn encode_record(epoch: Epoch, record: &<Server as Machine>::Record, out: &mut BytesMut) {
        quorate_wire::encode_record(epoch, record, out);
    }

    fn decode_record(bytes: &[u8]) -> <Server as Machine>::Record {
        match quorate_wire::decode_record(bytes) {
            Ok((_, record)) => record,
            Err(error) => unreachable!("what a replica has written can be read: {error}"),
        }
    }
}

impl System for ConfigurationService {
    type Settings = Settings;
    type Hostile = Hostile;
    type Inspector = Inspector;

    const TIMESTAMPS_EXPLAIN_READS: bool = true;
    const IS_SPREAD: bool = true;
    const CHANGES_GROUPS: bool = true;
    const NUMBERS_APART: u64 = 2;

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
        vec![
            settings.timing.silence,
            settings.timing.beat,
            settings.timing.lease,
            settings.session.lease / 3,
            settings.session.coordinator.resend_timeout,
            settings.session.coordinator.read_timeout,
        ]
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.session.lease
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    /// Nothing is kept but what is bounded by number.
    fn collects(_: &Settings) -> bool {
        true
    }

    fn server(settings: &Settings, seat: Seat, records: Vec<<Server as Machine>::Record>) -> Server {
        let config = Config {
            me: seat.replica,
            membership: on_log::membership(&seat.groups, seat.replica.shard),
            boot: on_log::boot(&seat),
            timing: settings.timing,
            limits: settings.limits,
            snapshot_bytes: settings.snapshot_bytes,
            rules: settings.log_rules,
            machine: ReplicaConfig { replica: seat.replica, ..settings.replica.clone() },
        };
        Member::restore(config, records)
    }

    fn client(settings: &Settings, id: ClientId, shards: Shards) -> Client {
        let session = settings.session.clone();
        let config = SessionConfig {
            coordinator: CoordinatorConfig { client: id, ..session.coordinator },
            subscriber: SubscriberConfig {
                client: id,
                group: (shards.first, settings.group.into()),
                ..session.subscriber
            },
            ..session
        };
        Guest::restore(config, [])
    }

    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<<Server as Machine>::Command> {
        on_log::change_group(groups, shard).into_iter().collect()
    }

    fn verify(request: Request) -> Option<<Server as Machine>::Command> {
        Some(Part::Log(LogCommand::Verify(request)))
    }

    fn verified(server: &Server, request: &Request) -> Answer {
        server.verified(request)
    }

    fn news(event: &<Server as Machine>::Event) -> News {
        match event {
            Part::Log(event) => on_log::news(*event),
            Part::Own(_) => News::Other,
        }
    }

    fn leads(server: &Server) -> bool {
        server.leading().is_some()
    }

    fn hands_over_within(settings: &Settings) -> Option<Duration> {
        Some(on_log::hands_over_within(&settings.timing))
    }

    fn ailment(server: &Server) -> Option<String> {
        on_log::ailment(server)
    }

    /// Nobody holds keys for a transaction.
    fn held(_: &Server) -> Vec<Held> {
        Vec::new()
    }

    fn waiting(server: &Server) -> usize {
        server.machine().waiting()
    }

    fn settles(_: &Server) -> bool {
        false
    }

    fn outcome(server: &Server, transaction: TransactionId) -> Option<Outcome> {
        let outcomes = server.machine().outcomes();
        outcomes.into_iter().find_map(|(id, outcome)| (id == transaction).then_some(outcome))
    }

    fn outcomes(server: &Server) -> Vec<(TransactionId, Outcome)> {
        server.machine().outcomes()
    }

    /// Of each key there is the newest version only.
    fn floor(_: &Server) -> Timestamp {
        Timestamp { micros: u64::MAX, client: ClientId(u64::MAX) }
    }

    fn versions(server: &Server) -> Vec<StoredVersion> {
        let version = |changed: u64| Timestamp { micros: changed, client: ClientId(0) };
        let keys = server.machine().keys();
        keys.map(|(key, stored)| (key.clone(), version(stored.changed.0), Some(stored.value.clone())))
            .collect()
    }

    fn version_count(server: &Server) -> usize {
        server.machine().len()
    }

    fn left(_: &Server) -> Vec<(&'static str, usize)> {
        Vec::new()
    }

    fn recorded(server: &Server) -> usize {
        server.machine().outcomes().len()
    }

    /// The entries that make a snapshot worth it, twice, because they may have been appended while the last one was written;
    /// the snapshot; and the segments at both ends.
    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        if settings.snapshot_bytes > 1024 * 1024 {
            return None;
        }
        let machine = server.machine();
        let keys: usize = machine.keys().map(|(key, stored)| 128 + key.len() + stored.value.len()).sum();
        let changes: usize = machine.changes().map(|change| 128 + 2 * change.bytes()).sum();
        let state = (keys + changes + 64 * machine.outcomes().len() + 64 * machine.leases().count()) as u64;
        Some(4 * settings.snapshot_bytes + 4 * state + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
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

/// Every bug that can be planted: its own, and those of the log that it stands on.
pub(super) fn plants() -> Vec<Planted> {
    let own = Plant::ALL.map(|plant| planted(plant.id(), plant.what(), "", is_hunted(plant)));
    let of_log =
        quorate_log::Plant::ALL.map(|plant| planted(plant.id(), plant.what(), plant.section(), false));
    own.into_iter().chain(of_log).collect()
}

fn planted(id: &'static str, what: &'static str, section: &'static str, is_hunted: bool) -> Planted {
    let (system, suited_faults) = (SystemKind::Configuration, Faults::All);
    Planted { system, id, what, section, is_hunted, suited_faults }
}

/// True if few seeds reach a bug. Tests of the machines themselves notice the others: a lease that is counted from the wrong end
/// is wrong by less than clocks are allowed to be, and leaders that are deposed without noticing are rare.
fn is_hunted(plant: Plant) -> bool {
    matches!(
        plant,
        Plant::AbsenceNotCompared
            | Plant::RepeatedAfterFailOver
            | Plant::WatchGap
            | Plant::SnapshotWithoutClients
            | Plant::RevisionFromKeys
    )
}
