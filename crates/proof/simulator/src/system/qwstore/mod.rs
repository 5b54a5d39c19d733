//! The quorum store without transactions that the TAPIR paper compares itself with.
//!
//! Histories are promised nothing. The promises that there are get judged directly: acknowledged puts survive, reads return what somebody has
//! put, replicas converge. Anomalies that the checker finds in the histories all the same are reported, as evidence of what is not promised.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how it is set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |

pub mod hostile;
mod settings;
mod work;

use std::time::Duration;

use quorate_checker::Level;
use quorate_core::command::Command;
use quorate_core::comparison::Rival;
use quorate_core::hosted::{Held, Shards};
use quorate_core::{ClientId, Machine, Random, ReplicaIndex};
use quorate_qwstore::{Coordinator, CoordinatorConfig, Message, Plant, Replica};

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_ir};
use crate::fault::Fault;
use crate::invariants::Invariant;

use crate::world::costs::Work;
use crate::world::first_word;
use hostile::Hostile;
use settings::Settings;

/// The machines of the quorum store.
#[derive(Clone, Copy, Debug)]
pub struct QwStore;

impl Messages for QwStore {
    type Message = Message;
    type Server = Replica;
    type Client = Coordinator;
    type Witness = ();

    fn name(message: &Message) -> String {
        match message {
            Message::Ir(message) => first_word(message),
            message => first_word(message),
        }
    }

    fn coordinates(message: &Message) -> bool {
        matches!(message, Message::Ir(quorate_ir::Message::ProposeInconsistent { .. }))
    }

    fn work(_: Option<&Replica>, message: &Message) -> Work {
        work::of_message(message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }
}

impl System for QwStore {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_qwstore::Plant;
    type Hostile = Hostile;
    type Inspector = ();

    const FACTS: Facts = Facts::Nothing;
    const CANNOT_STRIKE: &'static [Fault] = &[Fault::RecoveryCrashes, Fault::RecoveryDuels];
    const NOT_JUDGED: &'static [Invariant] = &[Invariant::Timestamps];

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::Rival(Rival::QwStore)
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

    /// A put that a client has left behind spreads with the next floor.
    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.floor_interval + settings.replica.floor_lag
    }

    fn reuses_client_ids(settings: &Settings) -> bool {
        settings.coordinator.rules.has(Plant::ReusedClientIds)
    }

    fn collects(_: &Settings) -> bool {
        true
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Coordinator {
        let config = CoordinatorConfig { client: id, ..settings.coordinator.clone() };
        Coordinator::restore(config, [])
    }

    fn log_bytes_max(settings: &Settings, replica: &Replica) -> Option<u64> {
        on_ir::log_bytes_max(settings.replica.snapshot_records_min, replica)
    }

    fn ask_to_settle(_: &Held) -> Option<Message> {
        None
    }

    fn hint_view(replica: &Replica, _: ReplicaIndex, far: Far) -> Option<Message> {
        let view = far.from(replica.view())?;
        Some(Message::Ir(quorate_ir::Message::HigherView { view }))
    }
}
