//! The systems that the TAPIR paper compares itself with, on replicated logs.
//!
//! | file | role |
//! |---|---|
//! | [`settings`] | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |

pub mod hostile;
pub mod settings;
mod work;

use std::time::Duration;

use bytes::BytesMut;
use quorate_baselines::message::Age;
use quorate_baselines::{Coordinator, CoordinatorConfig, Plant, Replica, ReplicaCommand, ReplicaConfig};
use quorate_checker::Level;
use quorate_core::command::{Command, Outcome};
use quorate_core::comparison::Rival;
use quorate_core::verify::{Answer, Request};
use quorate_core::{
    ClientId, Epoch, GroupSize, Groups, Machine, Random, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_log::member::{Config, MessageOf};
use quorate_log::{Guest, LogCommand, Member, Part};

use super::{Far, Held, News, Planted, Seat, Shards, Sketch, System, SystemKind, frames, named, on_log};
use crate::fault::Fault;
use crate::invariants::StoredVersion;
use crate::options::Faults;
use crate::world::costs::Work;
use crate::world::disk::Disk;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, first_word};
use hostile::Hostile;
use settings::Settings;

/// The machines of a comparison system.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

type Server = Member<Replica>;
type Client = Guest<Coordinator, Replica>;
type Message = MessageOf<Replica>;

impl Protocol for Baseline {
    type Message = Message;
    type Server = Server;
    type Client = Client;

    fn name(message: &Message) -> String {
        match message {
            Part::Log(message) => first_word(message),
            Part::Own(message) => first_word(message),
        }
    }

    fn coordinates(message: &Message) -> bool {
        use quorate_baselines::Message;
        matches!(
            message,
            Part::Own(
                Message::Coordinate { .. }
                    | Message::Prepare { .. }
                    | Message::Decide { .. }
                    | Message::Inquire { .. }
            )
        )
    }

    fn digest(message: &Message, hash: &mut TraceHash) {
        frames::digest(message, hash);
    }

    fn carry(envelope: Envelope<Message>) -> Envelope<Message> {
        frames::carry(envelope)
    }

    fn damage(envelope: &Envelope<Message>, random: &mut Random) {
        frames::damage(envelope, random);
    }

    fn size(envelope: &Envelope<Message>) -> usize {
        frames::size(envelope)
    }

    fn work(receiver: Option<&Server>, message: &Message) -> Work {
        work::of_message(receiver.map(|server| server.machine()), message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
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

/// Scenarios with longer intervals are those that collect nothing.
const FLOOR_INTERVAL_MAX: Duration = Duration::from_secs(60);

impl System for Baseline {
    type Settings = Settings;
    type Hostile = Hostile;
    type Inspector = ();

    const TIMESTAMPS_EXPLAIN_READS: bool = false;
    const CHANGES_GROUPS: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(settings: &Settings) -> SystemKind {
        SystemKind::Baseline(settings.coordinator.system)
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(Level::StrictSerializable)
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        vec![
            settings.timing.silence,
            settings.timing.beat,
            settings.timing.lease,
            settings.replica.recovery_timeout / 4,
            settings.coordinator.resend_timeout,
            settings.coordinator.read_timeout,
        ]
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.recovery_timeout
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    fn collects(settings: &Settings) -> bool {
        settings.replica.floor_interval < FLOOR_INTERVAL_MAX
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
            machine: ReplicaConfig {
                replica: seat.replica,
                shards: (seat.shards.first, seat.shards.count),
                groups: seat.groups,
                ..settings.replica.clone()
            },
        };
        Member::restore(config, records)
    }

    fn client(settings: &Settings, id: ClientId, shards: Shards) -> Client {
        let group = (ShardId(shards.first.0 + shards.count), settings.replica.groups.size);
        let service: Option<(ShardId, GroupSize)> =
            settings.coordinator.system.has_service().then_some(group);
        let config = CoordinatorConfig { client: id, service, ..settings.coordinator.clone() };
        Guest::restore(config, [])
    }

    fn rival(settings: &Settings) -> Option<Rival> {
        Some(Rival::OnLog(settings.coordinator.system))
    }

    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<<Server as Machine>::Command> {
        let own = Part::Own(ReplicaCommand::ChangeGroups(groups.clone()));
        on_log::change_group(groups, shard).into_iter().chain([own]).collect()
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

    fn held(server: &Server) -> Vec<Held> {
        let prepared = server.machine().prepared();
        let held = |id| {
            let entry = prepared.entry(id)?;
            let participants = entry.transaction.participants.clone();
            let timestamp = entry.timestamp;
            Some(Held { id, participants, timestamp, not_before: timestamp })
        };
        prepared.ids().into_iter().filter_map(held).collect()
    }

    fn waiting(server: &Server) -> usize {
        server.machine().waiting()
    }

    fn settles(server: &Server) -> bool {
        server.machine().remains().inquiries > 0
    }

    fn outcome(server: &Server, transaction: TransactionId) -> Option<Outcome> {
        let outcomes = server.machine().outcomes();
        outcomes.into_iter().find_map(|(id, outcome)| (id == transaction).then_some(outcome))
    }

    fn outcomes(server: &Server) -> Vec<(TransactionId, Outcome)> {
        server.machine().outcomes()
    }

    fn floor(server: &Server) -> Timestamp {
        server.machine().floor()
    }

    fn versions(server: &Server) -> Vec<StoredVersion> {
        let versions = server.machine().versions().iter();
        versions.map(|(key, version)| (key.clone(), version.timestamp, version.value.clone())).collect()
    }

    fn version_count(server: &Server) -> usize {
        server.machine().versions().count()
    }

    fn left(server: &Server) -> Vec<(&'static str, usize)> {
        server.machine().remains().left().collect()
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
        let versions = server.machine().versions().iter();
        let state: u64 =
            versions.map(|(key, v)| 128 + (key.len() + v.value.as_ref().map_or(0, |v| v.len())) as u64).sum();
        Some(4 * settings.snapshot_bytes + 4 * state + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
    }

    fn ask_to_settle(held: &Held) -> Option<Message> {
        let (transaction, participants) = (held.id, held.participants.clone());
        let age = Age::NotBefore(held.not_before);
        Some(Part::Own(quorate_baselines::Message::Inquire { transaction, participants, age }))
    }

    fn hint_view(server: &Server, from: ReplicaIndex, far: Far) -> Option<Message> {
        on_log::hint_view(server, from, far)
    }
}

/// Every bug that can be planted in a comparison system: its own, and those of the log that it stands on.
pub(super) fn plants_of(system: quorate_baselines::System) -> Vec<Planted> {
    let own = Plant::ALL
        .map(|plant| planted(system, plant.id(), plant.what(), section_of(plant), hunted_in(plant)));
    let of_log = quorate_log::Plant::ALL.map(|plant| {
        let hunted_in = is_log_hunted(plant).then_some(quorate_baselines::System::TxnLock);
        planted(system, plant.id(), plant.what(), plant.section(), hunted_in)
    });
    own.into_iter().chain(of_log).collect()
}

fn planted(
    system: quorate_baselines::System,
    id: &'static str,
    what: &'static str,
    section: &'static str,
    hunted_in: Option<quorate_baselines::System>,
) -> Planted {
    let is_hunted = hunted_in == Some(system);
    let suited_faults = if id == Plant::GroupsForgotten.id() {
        named(&[Fault::ClientCrashes, Fault::Membership])
    } else {
        Faults::All
    };
    Planted { system: SystemKind::Baseline(system), id, what, section, is_hunted, suited_faults }
}

/// Where the paper speaks of the systems that can have a bug: TAPIR's, and of Sinfonia Granola's.
fn section_of(plant: Plant) -> &'static str {
    match plant {
        Plant::HoldsOverlooked | Plant::UnstableOverlooked | Plant::SilenceRefuses => "6",
        _ => "7.1",
    }
}

/// The system whose seeds are hunted for a bug; none if it takes a golden script.
fn hunted_in(plant: Plant) -> Option<quorate_baselines::System> {
    use quorate_baselines::System;
    match plant {
        Plant::LeaseNotChecked | Plant::SnapshotNotPromised | Plant::CeilingNotDurable => None,
        Plant::LostLocksCount | Plant::ReadLocksOverlooked => Some(System::TxnLock),
        Plant::CommitReportedAtOnce | Plant::SnapshotOverlooksPrepared => Some(System::SpanOcc),
        Plant::HoldsOverlooked
        | Plant::UnstableOverlooked
        | Plant::SilenceRefuses
        | Plant::GroupsForgotten => Some(System::Sinfonia),
        _ => Some(System::TxnOcc),
    }
}

/// True if few seeds reach a bug of the log. Random schedules of the log alone, and stories, find the others.
fn is_log_hunted(plant: quorate_log::Plant) -> bool {
    use quorate_log::Plant;
    matches!(
        plant,
        Plant::OwnLogBegins | Plant::SnapshotWithoutEnd | Plant::UnstableTruncated | Plant::NewMemberVotes
    )
}
