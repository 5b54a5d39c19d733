//! The machines of `strict` keyspaces: TAPIR over inconsistent replication.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |
//! | `digest` | what of a message an execution's hash depends on |

mod digest;
pub mod hostile;
mod settings;
mod work;

use std::time::Duration;

use quorate_checker::Level;
use quorate_core::command::Command;
use quorate_core::hosted::{Held, Shards};
use quorate_core::invariant::Violation;
use quorate_core::topology::{SerialOrder, Timestamping};
use quorate_core::{ClientId, Machine, Random, ReplicaIndex};
use quorate_tapir::{Coordinator, CoordinatorConfig, Message, Plant, Replica, Rules};

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_ir};

use crate::world::Sight;
use crate::world::costs::Work;
use crate::world::first_word;
use crate::world::trace::TraceHash;
use hostile::Hostile;
use settings::Settings;

/// The machines of a strict keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Strict;

impl Messages for Strict {
    type Message = Message;
    type Server = Replica;
    type Client = Coordinator;
    type Witness = quorate_tapir::Witness;

    fn assert_invariants(replica: &Replica) {
        replica.assert_invariants();
    }

    fn assert_whole(replica: &Replica) {
        replica.assert_whole();
    }

    fn show(witness: &mut quorate_tapir::Witness, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        match sight {
            Sight::Stepped { machine, .. } => witness.see(machine),
            Sight::Says { replica, message } => witness.hear(*replica, message, found),
            Sight::Keeps { replica, record } => witness.keep(*replica, record, found),
            Sight::LossAccepted { replica, void } => witness.begin_anew(*replica, void),
            Sight::Lost { .. } => {}
        }
    }

    fn name(message: &Message) -> String {
        match message {
            Message::Ir(message) => first_word(message),
            message => first_word(message),
        }
    }

    /// Nothing breaks if it is lost, and replicas knew it later than all else.
    fn is_new(message: &Message) -> bool {
        matches!(message, Message::Validated { .. })
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

    fn work(receiver: Option<&Replica>, message: &Message) -> Work {
        work::of_message(receiver, message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }
}

impl System for Strict {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_tapir::Plant;
    type Hostile = Hostile;
    type Inspector = ();

    const FACTS: Facts = Facts::Timestamps;
    const CHANGES_GROUPS: bool = true;
    const BACKED_UP: bool = true;
    const BACKUP_PLANTS: &'static [&'static str] = &["T52", "T53"];
    const TELLS_CHANGES: bool = true;
    const FEED_PLANTS: &'static [&'static str] = &["T50", "T51"];
    const KEEPS_INDEXES: bool = true;
    const INDEX_PLANTS: &'static [&'static str] = &["T54", "T59"];
    const EXPIRES: bool = true;
    const EXPIRY_PLANTS: &'static [&'static str] = &["T55", "T56", "T57", "T58"];
    const ACCEPTS_LOSSES: bool = true;

    fn settings_for_crashes(sketch: &Sketch<'_>, collects: bool) -> Settings {
        settings::for_crashes(sketch, collects)
    }

    const HAS_USERS: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::STRICT
    }

    fn level(settings: &Settings) -> Option<Level> {
        Some(if settings.replica.rules == Rules::SERIALIZABLE {
            Level::Serializable
        } else {
            Level::StrictSerializable
        })
    }

    fn timestamping(Settings { coordinator, replica }: &Settings) -> Option<Timestamping> {
        let order = match replica.rules == Rules::SERIALIZABLE {
            true => SerialOrder::Timestamps,
            false => SerialOrder::RealTime,
        };
        Some(Timestamping { order, retry_ahead: coordinator.retry_ahead })
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
        settings::collects(&settings.replica)
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Coordinator {
        let config = CoordinatorConfig { client: id, ..settings.coordinator.clone() };
        Coordinator::restore(config, [])
    }

    fn defines_epochs_early(settings: &Settings) -> bool {
        settings.replica.rules.has(Plant::EpochDefinedEarly)
    }

    fn log_bytes_max(settings: &Settings, replica: &Replica) -> Option<u64> {
        on_ir::log_bytes_max(settings.replica.snapshot_records_min, replica)
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
