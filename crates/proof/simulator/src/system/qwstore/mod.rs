//! The quorum store without transactions that the TAPIR paper compares itself with.
//!
//! Histories are promised nothing. What is promised is judged directly: acknowledged puts survive, reads return what somebody has
//! put, replicas converge. What the checker finds in the histories all the same is reported, as evidence of what is not promised.
//!
//! | file | role |
//! |---|---|
//! | [`settings`] | how it is set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |

pub mod hostile;
pub mod settings;
mod work;

use std::time::Duration;

use bytes::BytesMut;
use quorate_checker::Level;
use quorate_core::command::{Command, Outcome};
use quorate_core::{ClientId, Epoch, Machine, Random, ReplicaIndex, Timestamp, TransactionId};
use quorate_ir::Status;
use quorate_qwstore::{
    Boot, Coordinator, CoordinatorConfig, Message, Plant, Record, Replica, ReplicaConfig, ReplicaEvent,
};

use super::{Far, Held, News, Planted, Seat, Shards, Sketch, System, SystemKind, frames, named};
use crate::fault::Fault;
use crate::invariants::StoredVersion;
use crate::options::Faults;
use crate::world::costs::Work;
use crate::world::disk::Disk;
use crate::world::trace::TraceHash;
use crate::world::{Envelope, Protocol, first_word};
use hostile::Hostile;
use settings::Settings;

/// The machines of the quorum store.
#[derive(Clone, Copy, Debug)]
pub struct QwStore;

impl Protocol for QwStore {
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
        matches!(message, Message::Ir(quorate_ir::Message::ProposeInconsistent { .. }))
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

    fn work(_: Option<&Replica>, message: &Message) -> Work {
        work::of_message(message)
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

impl System for QwStore {
    type Settings = Settings;
    type Hostile = Hostile;
    type Inspector = ();

    const TIMESTAMPS_EXPLAIN_READS: bool = false;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::QwStore
    }

    fn level(_: &Settings) -> Option<Level> {
        None
    }

    fn timeouts(Settings { coordinator, replica }: &Settings) -> Vec<Duration> {
        vec![
            replica.view_change_timeout,
            replica.view_change_timeout / 4,
            replica.sweep_interval,
            coordinator.resend_timeout,
            coordinator.read_timeout,
        ]
    }

    /// Whatever a client has left behind spreads with the next floor.
    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.floor_interval + settings.replica.floor_lag
    }

    fn reuses_client_ids(settings: &Settings) -> bool {
        settings.coordinator.rules.has(Plant::ReusedClientIds)
    }

    fn collects(_: &Settings) -> bool {
        true
    }

    fn server(settings: &Settings, seat: Seat, records: Vec<Record>) -> Replica {
        let boot = if seat.is_new { Boot::Initialise } else { Boot::Rejoin };
        let config = ReplicaConfig { replica: seat.replica, boot, ..settings.replica.clone() };
        Replica::restore(config, records)
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Coordinator {
        let config = CoordinatorConfig { client: id, ..settings.coordinator.clone() };
        Coordinator::restore(config, [])
    }

    fn news(event: &ReplicaEvent) -> News {
        match event {
            ReplicaEvent::Normal { view } => News::Serves(view.epoch()),
            ReplicaEvent::Lost { lost } => News::Lost(*lost),
            ReplicaEvent::Outdated { .. } => News::Outdated,
            ReplicaEvent::ViewChanging { .. } => News::Other,
        }
    }

    fn ailment(replica: &Replica) -> Option<String> {
        let (status, view) = (replica.status(), replica.view());
        (status != Status::Normal).then(|| format!("{status:?} in {view}"))
    }

    /// Nobody holds anything for anybody.
    fn held(_: &Replica) -> Vec<Held> {
        Vec::new()
    }

    fn waiting(_: &Replica) -> usize {
        0
    }

    fn settles(_: &Replica) -> bool {
        false
    }

    /// Replicas know puts, and not which transaction they belong to.
    fn outcome(_: &Replica, _: TransactionId) -> Option<Outcome> {
        None
    }

    fn outcomes(_: &Replica) -> Vec<(TransactionId, Outcome)> {
        Vec::new()
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

    fn ask_to_settle(_: &Held) -> Option<Message> {
        None
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

fn planted(plant: Plant) -> Planted {
    let faults: &[Fault] = match plant {
        Plant::ReplyBeforeSync => &[Fault::PowerLoss, Fault::SlowDisks],
        Plant::CountsLostReplicas => &[Fault::Loss, Fault::Partitions, Fault::EmptyDisks],
        _ => &[],
    };
    Planted {
        system: SystemKind::QwStore,
        id: plant.id(),
        what: plant.what(),
        section: "7.1",
        // A put has to arrive between two answers to one question; a golden script plays it.
        is_hunted: plant != Plant::ComparesOnce,
        suited_faults: if faults.is_empty() { Faults::All } else { named(faults) },
    }
}
