//! `serializable` keyspaces: Granola, on replicated logs.
//!
//! Clients run transactions that read before they know what they write, so what is simulated is all of it: transactions that only
//! read, those of one shard, independent ones (which write and have read nothing) and coordinated ones.
//!
//! | file | role |
//! |---|---|
//! | `settings` | how they are set up |
//! | [`hostile`] | a client that lies |
//! | [`modes`] | how often shards change between timestamps and locks |
//! | `work` | what messages make processors do |

pub mod hostile;
pub mod modes;
mod settings;
mod work;

use std::time::Duration;

use quorate_checker::Level;
use quorate_core::command::Command;
use quorate_core::hosted::{Held, Shards};
use quorate_core::invariant::Violation;
use quorate_core::topology::Isolation;
use quorate_core::{ClientId, ClockTime, Machine, Random, ReplicaIndex, ShardId};
use quorate_granola::{CoordinatorConfig, Replica};
use quorate_log::member::MessageOf;
use quorate_log::{Guest, Member, Part};
use quorate_serializable_coordinator::Interactive;
use quorate_serializable_library::Hosted;
use quorate_serializable_shard::ShardWith;

use super::{Facts, Far, Messages, Sketch, System, SystemKind, on_log};

use crate::cluster::Cluster;
use crate::invariants::{self, Broken, Finding};
use crate::world::Sight;
use crate::world::costs::Work;
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

impl Messages for Serializable {
    type Message = Message;
    type Server = Server;
    type Client = Client;
    type Witness = Witness;

    fn assert_invariants(server: &Server) {
        server.replica().assert_invariants();
        server.machine().assert_invariants();
    }

    fn show(witness: &mut Witness, sight: &Sight<'_, Self>, found: &mut Vec<Violation>) {
        let Witness { logs, votes } = witness;
        if let Sight::LossAccepted { replica, .. } = sight {
            votes.begin_anew(replica.shard);
        }
        let shard = match sight {
            Sight::Stepped { replica, .. } => replica.shard,
            _ => ShardId::default(),
        };
        logs.show(sight, |entry, found| votes.see(shard, entry, found), found);
    }

    fn name(message: &Message) -> String {
        on_log::name(message)
    }

    fn coordinates(message: &Message) -> bool {
        matches!(message, Part::Own(quorate_granola::Message::Request(_)))
    }

    fn work(_: Option<&Server>, message: &Message) -> Work {
        work::of_message(message)
    }

    fn command_work(command: &Command) -> Work {
        work::of_command(command)
    }
}

/// The observations of the shards of the keyspace.
#[derive(Debug, Default)]
pub struct Witness {
    logs: on_log::Logs<Own>,
    votes: quorate_granola::Witness,
}

/// Scenarios with longer intervals are those that collect nothing.
const FLOOR_INTERVAL_MAX: Duration = Duration::from_secs(60);

impl System for Serializable {
    type Coordinator = CoordinatorConfig;
    type Plant = quorate_granola::Plant;
    type Hostile = Hostile;
    type Inspector = Modes;

    const FACTS: Facts = Facts::Nothing;
    const CHANGES_GROUPS: bool = true;
    const ORDERS_BY_NAME: bool = true;
    const RUNS_ONE_ROUND: bool = true;
    const LOSES_SHARDS: bool = true;
    const ACCEPTS_LOSSES: bool = true;
    const TELLS_CHANGES: bool = true;
    const FEED_PLANTS: &'static [&'static str] = &["G26", "G27"];
    const BACKED_UP: bool = true;
    const ISOLATION: Isolation = Isolation::Serializable;

    const STANDS_ON_LOG: bool = true;

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
        SystemKind::SERIALIZABLE
    }

    fn level(_: &Settings) -> Option<Level> {
        Some(quorate_workloads::level(Self::ISOLATION))
    }

    fn timeouts(settings: &Settings) -> Vec<Duration> {
        let own = [
            settings.replica.machine.vote_timeout,
            settings.replica.machine.request_timeout,
            settings.replica.machine.wait_timeout,
            settings.coordinator.resend_timeout,
        ];
        [on_log::timeouts(&settings.replica), own.to_vec()].concat()
    }

    fn recovery_timeout(settings: &Settings) -> Duration {
        settings.replica.machine.vote_timeout + settings.replica.machine.request_timeout
    }

    fn reuses_client_ids(_: &Settings) -> bool {
        false
    }

    fn collects(settings: &Settings) -> bool {
        settings.replica.machine.floor_interval < FLOOR_INTERVAL_MAX
    }

    fn client(settings: &Settings, id: ClientId, _: Shards) -> Client {
        Guest::restore(quorate_granola::CoordinatorConfig { client: id, ..settings.coordinator.clone() }, [])
    }

    fn alarms(client: &Client) -> u64 {
        client.machine().disagreements()
    }

    fn hands_over_within(settings: &Settings) -> Option<Duration> {
        Some(on_log::hands_over_within(&settings.replica))
    }

    fn log_bytes_max(settings: &Settings, server: &Server) -> Option<u64> {
        on_log::log_bytes_max(&settings.replica, server)
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
