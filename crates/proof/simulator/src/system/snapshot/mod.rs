//! `snapshot` keyspaces: STR, in homes and shards on replicated logs.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how they are set up |
//! | [`hostile`] | a client that lies |
//! | `inspector` | how much was speculated |
//! | `work` | what messages make processors do |

pub mod hostile;
mod inspector;
mod settings;
mod work;

use std::time::Duration;

use quorate_checker::Level;
use quorate_core::command::Command;
use quorate_core::hosted::{Held, Shards};
use quorate_core::invariant::Violation;
use quorate_core::topology::Isolation;
use quorate_core::{ClientId, ClockTime, Machine, Random, ReplicaIndex, TransactionId};
use quorate_log::member::MessageOf;
use quorate_log::{Guest, Member, Part};
use quorate_str::{Coordinator, CoordinatorConfig, Replica, ReplicaEvent};

use super::{Facts, Far, Journal, Messages, Sketch, System, SystemKind, on_log};
use crate::cluster::Cluster;
use crate::invariants::Broken;
use crate::world::Sight;
use crate::world::costs::Work;
use hostile::Hostile;
use inspector::Inspector;
use settings::Settings;

/// The machines of a `snapshot` keyspace.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot;

type Server = Member<Replica>;
type Client = Guest<Coordinator, Replica>;
type Message = MessageOf<Replica>;

impl Messages for Snapshot {
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
        use quorate_str::Message;
        matches!(
            message,
            Part::Own(
                Message::Commit { .. }
                    | Message::Prepare { .. }
                    | Message::Decide { .. }
                    | Message::Record { .. }
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

impl System for Snapshot {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_str::Plant;
    type Hostile = Hostile;
    type Inspector = Inspector;

    const FACTS: Facts = Facts::Snapshots;
    const READS_THE_PAST: bool = false;
    const STANDS_ON_LOG: bool = true;
    const SNAPSHOTS_MAY_BE_OLD: bool = true;
    const BACKED_UP: bool = true;
    const BACKUP_PLANTS: &'static [&'static str] = &["S24", "S25"];
    const KEEPS_INDEXES: bool = true;
    const INDEX_PLANTS: &'static [&'static str] = &["S26", "S27", "S28"];
    const EXPIRES: bool = true;
    const EXPIRY_PLANTS: &'static [&'static str] = &["S29", "S30", "S31"];
    const ISOLATION: Isolation = Isolation::Snapshot;
    const CHANGES_GROUPS: bool = true;
    const TELLS_CHANGES: bool = true;
    const FEED_PLANTS: &'static [&'static str] = &["S22", "S23"];

    fn settings_for_crashes(sketch: &Sketch<'_>, collects: bool) -> Settings {
        settings::for_crashes(sketch, collects)
    }

    const REFUSES_CLOCKS_AHEAD: bool = true;
    const HAS_USERS: bool = true;

    fn draw_settings(sketch: &Sketch<'_>, random: &mut Random) -> Settings {
        settings::draw(sketch, random)
    }

    fn shrink(settings: &mut Settings, round_trip: Duration, shrinks: &mut dyn FnMut() -> bool) {
        settings::shrink(settings, round_trip, shrinks);
    }

    fn kind(_: &Settings) -> SystemKind {
        SystemKind::SNAPSHOT
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(quorate_workloads::level(Isolation::Snapshot))
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        let replica = &settings.replica.machine;
        let own = [replica.resend_timeout, replica.vote_timeout, replica.recovery_timeout];
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

    /// Its home is asked, as a shard or a client asks that has waited for long.
    fn ask_to_settle(held: &Held) -> Option<Message> {
        let (transaction, snapshot) = (held.id, ClockTime::from_micros(held.timestamp.micros));
        Some(Part::Own(quorate_str::Message::Inquire { transaction, snapshot }))
    }

    fn inspect(inspector: &mut Inspector, cluster: &Cluster<Self>) -> Vec<Broken> {
        inspector.look(cluster);
        Vec::new()
    }

    fn happened(inspector: &Inspector) -> Vec<(&'static str, u64)> {
        inspector.happened()
    }

    fn journal(event: &<Server as Machine>::Event) -> Option<Journal> {
        let Part::Own(event) = event else { return None };
        match *event {
            ReplicaEvent::CommittedLocally { transaction, life, snapshot, local } => {
                Some(Journal::CommittedLocally { transaction, life: life.0, snapshot, local })
            }
            ReplicaEvent::Finalized { transaction, timestamp } => {
                Some(Journal::Finalized { transaction, timestamp })
            }
            ReplicaEvent::Leading { .. } | ReplicaEvent::Deposed => None,
        }
    }

    fn shows(server: &Server, transaction: TransactionId) -> bool {
        server.machine().is_committing(transaction)
    }

    fn hint_view(server: &Server, from: ReplicaIndex, far: Far) -> Option<Message> {
        on_log::hint_view(server, from, far)
    }
}
