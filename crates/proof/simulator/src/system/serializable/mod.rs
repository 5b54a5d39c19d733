//! `serializable` keyspaces: Granola, on replicated logs.
//!
//! Clients run transactions that read before they know what they write, so what is simulated is all of it: transactions that only
//! read, those of one shard, independent ones (which write and have read nothing) and coordinated ones.
//!
//! | file | role |
//! |---|---|
//! | [`settings`] | how they are set up |
//! | [`hostile`] | a client that lies |
//! | [`modes`] | how often shards change between timestamps and locks |
//! | `work` | what messages make processors do |

pub mod hostile;
pub mod modes;
pub mod settings;
mod work;

use std::time::Duration;

use bytes::BytesMut;
use quorate_checker::Level;
use quorate_core::command::Outcome;
use quorate_core::topology::Isolation;
use quorate_core::verify::{Answer as Verified, Request};
use quorate_core::{
    ClientId, ClockTime, Epoch, Groups, Key, Machine, Random, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_granola::{Answer, Application, Ended, Plant, Replica, ReplicaCommand, ReplicaConfig};
use quorate_log::member::{Config, MessageOf};
use quorate_log::{Guest, LogCommand, Member, Part};
use quorate_serializable_coordinator::{Command, Interactive};
use quorate_serializable_library::Hosted;
use quorate_serializable_shard::{Page, ShardWith, Version};

use super::{Far, Held, News, Planted, Seat, Shards, Sketch, System, SystemKind, frames, named, on_log};
use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::invariants::{self, Broken, Finding, StoredVersion};
use crate::options::Faults;
use crate::world::costs::Work;
use crate::world::disk::Disk;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, first_word};
use hostile::Hostile;
use modes::Modes;
use settings::Settings;

/// The machines of a serializable keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Serializable;

type Shard = ShardWith<Hosted>;
type Own = Replica<Shard>;
type Server = Member<Own>;
type Client = Guest<Interactive, Own>;
type Message = MessageOf<Own>;

impl Protocol for Serializable {
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
        matches!(message, Part::Own(quorate_granola::Message::Request(_)))
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

    fn work(_: Option<&Server>, message: &Message) -> Work {
        work::of_message(message)
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

impl System for Serializable {
    type Settings = Settings;
    type Hostile = Hostile;
    type Inspector = Modes;

    const TIMESTAMPS_EXPLAIN_READS: bool = false;
    const CHANGES_GROUPS: bool = true;
    const ORDERS_BY_NAME: bool = true;
    const RUNS_ONE_ROUND: bool = true;
    const ISOLATION: Isolation = Isolation::Serializable;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::Serializable
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(Level::SessionSerializable)
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        vec![
            settings.timing.silence,
            settings.timing.beat,
            settings.timing.lease,
            settings.replica.vote_timeout,
            settings.replica.request_timeout,
            settings.replica.wait_timeout,
            settings.coordinator.resend_timeout,
        ]
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.vote_timeout + settings.replica.request_timeout
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

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Client {
        Guest::restore(quorate_granola::CoordinatorConfig { client: id, ..settings.coordinator.clone() }, [])
    }

    fn one_round(command: Command) -> Option<Command> {
        Some(command)
    }

    fn alarms(client: &Client) -> u64 {
        client.machine().disagreements()
    }

    fn change_groups(groups: &Groups, shard: ShardId) -> Vec<<Server as Machine>::Command> {
        let own = Part::Own(ReplicaCommand::ChangeGroups(groups.clone()));
        on_log::change_group(groups, shard).into_iter().chain([own]).collect()
    }

    fn verify(request: Request) -> Option<<Server as Machine>::Command> {
        Some(Part::Log(LogCommand::Verify(request)))
    }

    fn verified(server: &Server, request: &Request) -> Verified {
        server.verified(request)
    }

    fn news(event: &<Server as Machine>::Event) -> News {
        match event {
            Part::Log(event) => on_log::news(*event),
            Part::Own(_) => News::Other,
        }
    }

    fn reached(server: &Server) -> Option<ClockTime> {
        Some(server.machine().ceiling())
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
        let held = |pending: &quorate_granola::Pending| {
            let (id, participants) = (pending.voted.transaction, pending.voted.participants.clone());
            let at = |clock: ClockTime| Timestamp { micros: clock.as_micros(), client: id.client };
            let (timestamp, not_before) = (at(pending.place.timestamp), at(pending.voted.first));
            Held { id, participants, timestamp, not_before }
        };
        server.machine().pending().map(held).collect()
    }

    fn waiting(server: &Server) -> usize {
        server.machine().waiting()
    }

    fn settles(server: &Server) -> bool {
        server.machine().lacking() > 0
    }

    fn outcome(server: &Server, transaction: TransactionId) -> Option<Outcome> {
        let mut ended = server.machine().ended();
        ended.find_map(|(id, ended)| (id == transaction).then(|| outcome_of(id, ended)))
    }

    fn outcomes(server: &Server) -> Vec<(TransactionId, Outcome)> {
        server.machine().ended().map(|(id, ended)| (id, outcome_of(id, ended))).collect()
    }

    fn floor(server: &Server) -> Timestamp {
        Timestamp { micros: server.machine().floor().as_micros(), client: ClientId(0) }
    }

    fn versions(server: &Server) -> Vec<StoredVersion> {
        let stored = keys_of(server).into_iter().map(|(key, Version { place, value })| {
            let timestamp =
                Timestamp { micros: place.timestamp.as_micros(), client: place.transaction.client };
            (key, timestamp, Some(value))
        });
        stored.collect()
    }

    fn version_count(server: &Server) -> usize {
        server.machine().application().len()
    }

    fn left(server: &Server) -> Vec<(&'static str, usize)> {
        let overdue = server.machine().overdue();
        (overdue > 0).then_some(("outcomes", overdue)).into_iter().collect()
    }

    fn recorded(server: &Server) -> usize {
        server.machine().ended().count()
    }

    /// The entries that make a snapshot worth it, twice, because they may have been appended while the last one was written;
    /// the snapshot; and the segments at both ends.
    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        if settings.snapshot_bytes > 1024 * 1024 {
            return None;
        }
        let keys = keys_of(server).into_iter();
        let state: u64 = keys.map(|(key, version)| 128 + (key.len() + version.value.len()) as u64).sum();
        let ended = 256 * server.machine().ended().count() as u64;
        Some(4 * settings.snapshot_bytes + 4 * (state + ended) + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
    }

    fn inspect(modes: &mut Modes, cluster: &Cluster<Self>) -> Vec<Broken> {
        modes.look(cluster);
        Vec::new()
    }

    fn conclude(modes: &Modes) -> Finding {
        invariants::everything_is_in_order(modes.disordered)
    }

    fn happened(modes: &Modes) -> Vec<(&'static str, u64)> {
        vec![("shard began to lock", modes.to_locks), ("shard went back to timestamps", modes.to_timestamps)]
    }

    /// Its participants find out by themselves.
    /// Shards that nobody has asked for it yet refuse it, while its client asks them.
    fn ask_to_settle(held: &Held) -> Option<Message> {
        let (transaction, participants) = (held.id, held.participants.clone());
        let not_before = ClockTime::from_micros(held.not_before.micros);
        Some(Part::Own(quorate_granola::Message::Inquire { transaction, participants, not_before }))
    }

    fn hint_view(server: &Server, from: ReplicaIndex, far: Far) -> Option<Message> {
        on_log::hint_view(server, from, far)
    }
}

/// What a server holds now.
fn keys_of(server: &Server) -> Vec<(Key, Version)> {
    let mut frozen = server.machine().application().freeze(None);
    let mut keys = Vec::new();
    while let Some(page) = Shard::next_page(&mut frozen, usize::MAX) {
        match page {
            Page::Keys(page) | Page::Procedures(page) => keys.extend(page),
        }
    }
    keys
}

/// What became of a transaction, as its client is told: what a shard has refused is not committed, although it has a place.
fn outcome_of(id: TransactionId, ended: &Ended) -> Outcome {
    match &ended.outcome {
        quorate_granola::Outcome::Committed { timestamp, answer: Answer::Done(_) } => {
            Outcome::Committed(Timestamp { micros: timestamp.as_micros(), client: id.client })
        }
        quorate_granola::Outcome::Committed { answer: Answer::Refused(_), .. }
        | quorate_granola::Outcome::Aborted(_)
        | quorate_granola::Outcome::Conflict => Outcome::Aborted,
    }
}

/// Every bug that can be planted: Granola's own, and those of the log that it stands on.
pub(super) fn plants() -> Vec<Planted> {
    let own = Plant::ALL.map(|plant| planted(plant.id(), plant.what(), section_of(plant), is_hunted(plant)));
    // The comparison systems are hunted for those of the log that do not show in timestamps.
    let is_about_clocks =
        |plant| matches!(plant, quorate_log::Plant::OwnClockCounts | quorate_log::Plant::OffClockLeads);
    let of_log = quorate_log::Plant::ALL
        .map(|plant| planted(plant.id(), plant.what(), plant.section(), is_about_clocks(plant)));
    own.into_iter().chain(of_log).collect()
}

fn planted(id: &'static str, what: &'static str, section: &'static str, is_hunted: bool) -> Planted {
    let suited_faults = match id {
        // Only a leader that is gone forgets.
        "G1" | "G6" | "G20" => {
            named(&[Fault::NodeCrashes, Fault::Pauses, Fault::ClockSkew, Fault::Partitions])
        }
        // Leaders that change while clients read at several shards.
        "G17" => {
            named(&[Fault::NodeCrashes, Fault::ViewChanges, Fault::Pauses, Fault::Loss, Fault::ClockSkew])
        }
        // Leaders that fall while votes are missing, and timestamps far above what the next one proposes.
        "G22" => named(&[Fault::ClockSkew, Fault::NodeCrashes, Fault::RecoveryCrashes, Fault::ViewChanges]),
        // Clients that claim to have seen what nobody has executed.
        "G24" => named(&[Fault::HostileClients]),
        // A clock that is far off, and nothing that takes the eye off it.
        "L17" | "L18" => named(&[Fault::ClockLeaps]),
        // Shards that tell the time differently.
        "G3" => named(&[Fault::Reordering, Fault::ClockSkew]),
        "G12" => named(&[Fault::ClockSkew]),
        _ => Faults::All,
    };
    Planted { system: SystemKind::Serializable, id, what, section, is_hunted, suited_faults }
}

/// Where the paper speaks of the rule.
fn section_of(plant: Plant) -> &'static str {
    match plant {
        Plant::CeilingForgotten | Plant::NotRewound => "5.2",
        Plant::NoTombstones | Plant::VotesDiscarded => "5.1",
        Plant::LatestOnly => "5.3",
        Plant::UnequalReadsTaken | Plant::SessionForgotten => "4.2",
        _ => "4.4",
    }
}

/// True if few seeds reach it: all but what takes a shard that is lost for good, which no simulated one is. A golden script has that.
fn is_hunted(plant: Plant) -> bool {
    plant != Plant::LostVotesCount
}
