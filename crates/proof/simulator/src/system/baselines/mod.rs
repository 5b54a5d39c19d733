//! The systems that the TAPIR paper compares itself with, on replicated logs.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `work` | what messages make processors do |

pub mod hostile;
mod settings;
mod work;

use std::time::Duration;

use quorate_baselines::message::Age;
use quorate_baselines::{Coordinator, CoordinatorConfig, Replica};
use quorate_checker::Level;
use quorate_core::command::Command;
use quorate_core::comparison::Rival;
use quorate_core::hosted::{Held, Shards};
use quorate_core::{ClientId, GroupSize, Machine, Random, ReplicaIndex, ShardId};
use quorate_log::member::MessageOf;
use quorate_log::{Guest, Member, Part};

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_log};

use crate::world::costs::Work;
use hostile::Hostile;
use settings::Settings;

/// The machines of a comparison system.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

type Server = Member<Replica>;
type Client = Guest<Coordinator, Replica>;
type Message = MessageOf<Replica>;

impl Messages for Baseline {
    type Message = Message;
    type Server = Server;
    type Client = Client;
    type Witness = ();

    fn name(message: &Message) -> String {
        on_log::name(message)
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

    fn work(receiver: Option<&Server>, message: &Message) -> Work {
        work::of_message(receiver.map(|server| server.machine()), message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }
}

/// Scenarios with longer intervals are those that collect nothing.
const FLOOR_INTERVAL_MAX: Duration = Duration::from_secs(60);

impl System for Baseline {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_baselines::Plant;
    type Hostile = Hostile;
    type Inspector = ();

    const FACTS: Facts = Facts::Nothing;
    const CHANGES_GROUPS: bool = true;

    const STANDS_ON_LOG: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(settings: &Settings) -> SystemKind {
        SystemKind::Rival(Rival::OnLog(settings.coordinator.system))
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(Level::StrictSerializable)
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        let own = [
            settings.replica.machine.recovery_timeout / 4,
            settings.coordinator.resend_timeout,
            settings.coordinator.read_timeout,
        ];
        [on_log::timeouts(&settings.replica), own.to_vec()].concat()
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.machine.recovery_timeout
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    fn collects(settings: &Settings) -> bool {
        settings.replica.machine.floor_interval < FLOOR_INTERVAL_MAX
    }

    fn client(settings: &Settings, id: ClientId, shards: Shards) -> Client {
        let group = (ShardId(shards.first.0 + shards.count), settings.replica.machine.groups.size);
        let service: Option<(ShardId, GroupSize)> =
            settings.coordinator.system.has_service().then_some(group);
        let config = CoordinatorConfig { client: id, service, ..settings.coordinator.clone() };
        Guest::restore(config, [])
    }

    fn rival(settings: &Settings) -> Option<Rival> {
        Some(Rival::OnLog(settings.coordinator.system))
    }

    fn hands_over_within(settings: &Settings) -> Option<Duration> {
        Some(on_log::hands_over_within(&settings.replica))
    }

    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        on_log::log_bytes_max(&settings.replica, server)
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
