//! The machines of `strict` keyspaces: TAPIR over inconsistent replication.
//!
//! | file | role |
//! |---|---|
//! | [`settings`] | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |
//! | `digest` | what of a message an execution's hash depends on |

mod digest;
pub mod hostile;
pub mod settings;
mod work;

use std::time::Duration;

use bytes::BytesMut;
use quorate_checker::Level;
use quorate_core::command::{Command, Outcome};
use quorate_core::verify::{Answer, Request};
use quorate_core::{
    ClientId, Epoch, Groups, Machine, Random, ReplicaIndex, ShardId, Timestamp, TransactionId,
};
use quorate_ir::Status;
use quorate_tapir::{
    Boot, Coordinator, CoordinatorConfig, KeyspaceShards, Message, Plant, Record, Replica, ReplicaCommand,
    ReplicaConfig, ReplicaEvent, Rules,
};

use super::frames;
use super::{Far, Held, News, Planted, Seat, Shards, Sketch, System, SystemKind, named};
use crate::fault::Fault;
use crate::invariants::StoredVersion;
use crate::options::Faults;
use crate::world::costs::Work;
use crate::world::disk::Disk;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, first_word};
use hostile::Hostile;
use settings::Settings;

/// The machines of a strict keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Strict;

impl Protocol for Strict {
    type Message = Message;
    type Server = Replica;
    type Client = Coordinator;

    fn name(message: &Message) -> String {
        match message {
            Message::Ir(message) => first_word(message),
            message => first_word(message),
        }
    }

    fn coordinates(message: &Message) -> bool {
        use quorate_ir::Message as Ir;
        matches!(
            message,
            Message::CoordinatorChange { .. }
                | Message::RecordOutcome { .. }
                | Message::RecoverReply { .. }
                | Message::Recover { .. }
                | Message::CommitPrepared { .. }
                | Message::Ir(
                    Ir::FinalizeConsensus { .. }
                        | Ir::ProposeConsensus { .. }
                        | Ir::ProposeInconsistent { .. }
                        | Ir::FinalizeInconsistent { .. }
                )
        )
    }

    fn digest(message: &Message, hash: &mut TraceHash) {
        digest::message(message, hash);
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

    fn work(receiver: Option<&Replica>, message: &Message) -> Work {
        work::of_message(receiver, message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }

    fn encode_record(epoch: Epoch, record: &Record, out: &mut BytesMut) {
        quorate_wire::encode_record(epoch, record, out);
    }

    fn decode_record(bytes: &[u8]) -> Record {
        match quorate_wire::decode_record(bytes) {
            Ok((_, record)) => record,
            Err(error) => unreachable!("what a replica has written can be read: {error}"),
        }
    }
}

/// Scenarios with longer intervals are those without checkpoints.
const CHECKPOINT_INTERVAL_MAX: Duration = Duration::from_secs(60);

impl System for Strict {
    type Settings = Settings;
    type Hostile = Hostile;
    type Inspector = ();

    const TIMESTAMPS_EXPLAIN_READS: bool = true;
    const CHANGES_GROUPS: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::Strict
    }

    fn level(settings: &Settings) -> Option<Level> {
        Some(if settings.replica.rules == Rules::SERIALIZABLE {
            Level::Serializable
        } else {
            Level::StrictSerializable
        })
    }

    fn timeouts(Settings { coordinator, replica }: &Settings) -> Vec<Duration> {
        vec![
            replica.view_change_timeout,
            replica.view_change_timeout / 4,
            replica.recovery_timeout / 4,
            coordinator.resend_timeout,
            coordinator.fast_path_timeout,
            coordinator.read_timeout,
        ]
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.recovery_timeout
    }

    fn reuses_client_ids(settings: &Settings) -> bool {
        settings.coordinator.rules.has(Plant::ReusedClientIds)
    }

    fn collects(settings: &Settings) -> bool {
        settings.replica.checkpoint_interval < CHECKPOINT_INTERVAL_MAX
    }

    fn server(settings: &Settings, seat: Seat, records: Vec<Record>) -> Replica {
        let boot = if seat.is_new { Boot::Initialise } else { Boot::Rejoin };
        let Shards { first, count } = seat.shards;
        let shards = Some(KeyspaceShards { first, count });
        let Seat { replica, groups, .. } = seat;
        let config = ReplicaConfig { replica, boot, shards, groups, ..settings.replica.clone() };
        Replica::restore(config, records)
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Coordinator {
        let config = CoordinatorConfig { client: id, ..settings.coordinator.clone() };
        Coordinator::restore(config, [])
    }

    fn change_groups(groups: &Groups, _: ShardId) -> Vec<ReplicaCommand> {
        vec![ReplicaCommand::ChangeGroups(groups.clone())]
    }

    fn defines_epochs_early(settings: &Settings) -> bool {
        settings.replica.rules.has(Plant::EpochDefinedEarly)
    }

    fn verify(request: Request) -> Option<ReplicaCommand> {
        Some(ReplicaCommand::Verify(request))
    }

    fn verified(server: &Replica, request: &Request) -> Answer {
        server.verified(request)
    }

    fn news(event: &ReplicaEvent) -> News {
        match event {
            ReplicaEvent::Normal { view } => News::Serves(view.epoch()),
            ReplicaEvent::Lost { lost } => News::Lost(*lost),
            ReplicaEvent::Outdated { .. } => News::Outdated,
            ReplicaEvent::Retired => News::Retired,
            ReplicaEvent::ViewChanging { .. } => News::Other,
        }
    }

    fn ailment(replica: &Replica) -> Option<String> {
        let (status, view) = (replica.status(), replica.view());
        (status != Status::Normal).then(|| format!("{status:?} in {view}"))
    }

    fn held(replica: &Replica) -> Vec<Held> {
        let held = |id| {
            let entry = replica.prepared().entry(id)?;
            let participants = entry.transaction.participants.clone();
            let timestamp = entry.timestamp;
            Some(Held { id, participants, timestamp, not_before: timestamp })
        };
        replica.prepared().ids().into_iter().filter_map(held).collect()
    }

    fn waiting(replica: &Replica) -> usize {
        replica.waiting()
    }

    fn settles(replica: &Replica) -> bool {
        replica.recoveries() > 0
    }

    fn outcome(replica: &Replica, transaction: TransactionId) -> Option<Outcome> {
        replica.outcome(transaction)
    }

    fn outcomes(replica: &Replica) -> Vec<(TransactionId, Outcome)> {
        replica.outcomes()
    }

    fn floor(replica: &Replica) -> Timestamp {
        replica.floor()
    }

    fn versions(replica: &Replica) -> Vec<StoredVersion> {
        let versions = replica.versions().iter();
        versions.map(|(key, version)| (key.clone(), version.timestamp, version.value.clone())).collect()
    }

    fn version_count(replica: &Replica) -> usize {
        replica.versions().count()
    }

    fn left(replica: &Replica) -> Vec<(&'static str, usize)> {
        replica.remains().left().collect()
    }

    fn recorded(replica: &Replica) -> usize {
        replica.record_len()
    }

    /// As many records as make a snapshot worth it, twice, because they may have been written while the last one was; the
    /// snapshot; and the segments at both ends.
    fn log_bytes_max(settings: &Settings, replica: &Replica) -> Option<u64> {
        const RECORD_BYTES: u64 = 2_048;
        let records_min = settings.replica.snapshot_records_min;
        if records_min > 10_000 {
            return None;
        }
        let records = records_min.max(4 * replica.versions().len() as u64);
        let versions = replica.versions().iter();
        let state: u64 =
            versions.map(|(key, v)| 64 + (key.len() + v.value.as_ref().map_or(0, |v| v.len())) as u64).sum();
        Some(2 * records * RECORD_BYTES + 2 * state + 4 * u64::from(Disk::SEGMENT_BYTES_MAX))
    }

    fn ask_to_settle(held: &Held) -> Option<Message> {
        let (participants, timestamp) = (held.participants.clone(), held.timestamp);
        Some(Message::Recover { transaction: held.id, participants, timestamp })
    }

    fn hint_view(replica: &Replica, _: ReplicaIndex, far: Far) -> Option<Message> {
        let view = far.from(replica.view())?;
        Some(Message::Ir(quorate_ir::Message::HigherView { view }))
    }
}

/// Every bug that can be planted.
pub(super) fn plants() -> Vec<Planted> {
    Plant::ALL.map(planted).to_vec()
}

/// What hunts have to know of a plant.
pub fn planted(plant: Plant) -> Planted {
    Planted {
        system: SystemKind::Strict,
        id: plant.id(),
        what: plant.what(),
        section: plant.section(),
        is_hunted: !SCRIPTED.contains(&plant),
        suited_faults: suited_faults(plant),
    }
}

/// Plants whose interleavings take so many coincidences that no few seeds reach them. Golden scripts play them, or tests of the
/// rule itself.
const SCRIPTED: [Plant; 10] = [
    Plant::LaggardsUntold,
    Plant::CommitOnArrival,
    Plant::LaterPrepareSupersedes,
    Plant::CollectedDeletionUnseen,
    Plant::FloorBelowAnother,
    Plant::DisplacedForgotten,
    Plant::HandsOverFromTooFew,
    Plant::PromisesStayBehind,
    Plant::EpochDefinedEarly,
    Plant::EarlierLivesCount,
];

/// The faults under which a plant shows soonest. All faults find most plants soon enough.
fn suited_faults(plant: Plant) -> Faults {
    let faults: &[Fault] = match plant {
        Plant::DoubtsFastCommits | Plant::LateFinalizeOverwrites | Plant::MixedViews => {
            &[Fault::LateMessages, Fault::ClientCrashes, Fault::ViewChanges]
        }
        Plant::CountsLostReplicas => &[Fault::Loss, Fault::Partitions, Fault::EmptyDisks],
        Plant::OlderPrepareDisplaces => &[Fault::Reordering, Fault::ClockSkew, Fault::ClientCrashes],
        Plant::ForgottenPromises => {
            &[Fault::LateMessages, Fault::RecoveryCrashes, Fault::RecoveryDuels, Fault::ViewChanges]
        }
        Plant::AnyViewBelieved => &[Fault::ForgedViews, Fault::NodeCrashes],
        Plant::EpochForgotten | Plant::ServesEmpty => {
            &[Fault::Partitions, Fault::NodeCrashes, Fault::Membership]
        }
        Plant::WriteAtPromise => &[Fault::Reordering, Fault::ClockSkew],
        Plant::VoteBeforeSync => &[Fault::PowerLoss, Fault::ClientCrashes, Fault::SlowDisks],
        Plant::GatherBeforeRefusing => {
            &[Fault::LateMessages, Fault::Partitions, Fault::ClockSkew, Fault::Buggify]
        }
        // Only where clocks keep within the bound is anything promised by it.
        Plant::CommitReportedAtOnce => return Faults::None,
        _ => return Faults::All,
    };
    named(faults)
}
