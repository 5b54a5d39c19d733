//! `parallel-snapshot` keyspaces: Walter, in local sites on replicated logs.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `inspector` | what sites know of each other, beside what histories show |
//! | `copies` | what clients are told of milestones is so |
//! | `forks` | transactions that have seen others in different orders |
//! | `work` | what messages make processors do |

mod copies;
mod forks;
pub mod hostile;
mod inspector;
mod settings;
mod work;

use std::time::Duration;

use quorate_checker::Level;
use quorate_core::changes::Position;
use quorate_core::command::{AtSite, Command};
use quorate_core::hosted::{Held, Shards};
use quorate_core::invariant::Violation;
use quorate_core::topology::Isolation;
use quorate_core::{ClientId, Machine, Random, ReplicaIndex, Timestamp, TransactionId};
use quorate_log::member::MessageOf;
use quorate_log::{Guest, Member, Part};
use quorate_walter::message::Period;
use quorate_walter::{Coordinator, CoordinatorConfig, Replica};

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_log};
use crate::clients::Told;
use crate::cluster::Cluster;
use crate::invariants::Broken;
use crate::world::Sight;
use crate::world::costs::Work;
use hostile::Hostile;
use inspector::Inspector;
use settings::Settings;

/// The machines of a `parallel-snapshot` keyspace.
#[derive(Clone, Copy, Debug)]
pub struct ParallelSnapshot;

type Server = Member<Replica>;
type Client = Guest<Coordinator, Replica>;
type Message = MessageOf<Replica>;

impl Messages for ParallelSnapshot {
    type Message = Message;
    type Server = Server;
    type Client = Client;
    type Witness = on_log::Logs<Replica>;

    fn assert_invariants(server: &Server) {
        server.replica().assert_invariants();
        server.machine().assert_invariants();
    }

    fn show(logs: &mut on_log::Logs<Replica>, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        logs.show(sight, |_, _| {}, found);
    }

    fn name(message: &Message) -> String {
        on_log::name(message)
    }

    fn coordinates(message: &Message) -> bool {
        use quorate_walter::Message;
        matches!(
            message,
            Part::Own(
                Message::Commit { .. }
                    | Message::Prepare { .. }
                    | Message::Release { .. }
                    | Message::AskOutcome { .. }
            )
        )
    }

    fn work(_: Option<&Server>, message: &Message) -> Work {
        work::of_message(message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }
}

/// Scenarios with a greater lag are those that collect nothing.
const FLOOR_LAG_MAX: Duration = Duration::from_secs(60);

impl System for ParallelSnapshot {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_walter::Plant;
    type Hostile = Hostile;
    type Inspector = Inspector;

    const FACTS: Facts = Facts::Vectors;
    /// Versions are named by sites and numbers, and those of several sites are in no order.
    const TIMESTAMPS_ORDER_WRITES: bool = false;
    const READS_THE_PAST: bool = false;
    const CHANGES_GROUPS: bool = true;
    const TELLS_MILESTONES: bool = true;
    const HANDS_ON_TOKENS: bool = true;
    const PIPELINES: bool = true;
    const STANDS_ON_LOG: bool = true;
    const PLACES_CONTAINERS: bool = true;
    const LOSES_SITES: bool = true;
    const ISOLATION: Isolation = Isolation::ParallelSnapshot;
    const TELLS_CHANGES: bool = true;
    const FEED_PLANTS: &'static [&'static str] = &["W37", "W38", "W39"];
    const BACKED_UP: bool = true;

    fn causes(server: &Server, name: Timestamp) -> Option<Position> {
        let commit = server.machine().told(name)?;
        Some(Position::of_sites(commit.snapshot.numbers().to_vec()))
    }

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

    fn copies_min(settings: &Settings) -> Option<usize> {
        Some(settings.replica.machine.sites_lost_max + 1)
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::Keyspace(Isolation::ParallelSnapshot)
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(quorate_workloads::level(Isolation::ParallelSnapshot))
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        let replica = &settings.replica.machine;
        let own = [replica.resend_timeout, replica.vote_timeout / 2, settings.coordinator.resend_timeout];
        [on_log::timeouts(&settings.replica), own.to_vec()].concat()
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.machine.recovery_timeout
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    fn collects(settings: &Settings) -> bool {
        settings.replica.machine.floor_lag < FLOOR_LAG_MAX
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Client {
        Guest::restore(CoordinatorConfig { client: id, ..settings.coordinator.clone() }, [])
    }

    fn hands_over_within(settings: &Settings) -> Option<Duration> {
        Some(on_log::hands_over_within(&settings.replica))
    }

    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        on_log::log_bytes_max(&settings.replica, server)
    }

    /// The site that coordinates it is asked, as if it had been sent just now.
    fn ask_to_settle(held: &Held) -> Option<Message> {
        let period = Period(u64::MAX);
        Some(Part::Own(quorate_walter::Message::AskOutcome {
            transaction: held.id,
            period,
            committed: u64::MAX,
        }))
    }

    fn inspect(inspector: &mut Inspector, cluster: &Cluster<Self>) -> Vec<Broken> {
        inspector.look(cluster)
    }

    fn contradict(inspector: &mut Inspector, cluster: &Cluster<Self>, told: &Told) -> Option<String> {
        inspector.contradict(told, cluster)
    }

    fn place_of(inspector: &Inspector, transaction: TransactionId) -> Option<AtSite> {
        inspector.place_of(transaction)
    }

    fn happened(inspector: &Inspector) -> Vec<(&'static str, u64)> {
        inspector.happened()
    }

    fn hint_view(server: &Server, from: ReplicaIndex, far: Far) -> Option<Message> {
        on_log::hint_view(server, from, far)
    }
}
