//! The systems that are measured side by side.

use std::fmt;
use std::sync::Arc;

use quorate_baselines::System;
use quorate_core::hosted::Boot;
use quorate_core::{ClientId, GroupSize};
use quorate_log::member::Config;
use quorate_log::{Limits, Rules, Timing};
use quorate_simulator::calibrated;
use quorate_simulator::system::baselines::Baseline;
use quorate_simulator::system::qwstore::QwStore;
use quorate_simulator::system::strict::Strict;
use quorate_simulator::system::{Settings, SettingsOf};
use quorate_simulator::world::costs::{Batching, Costs};

use crate::deployment::Deployment;
use crate::load::{Measured, Window, run};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// TAPIR.
    Tapir,
    /// Two-phase commit over replicated logs.
    OnLog(System),
    /// A store without transactions: puts go to all replicas.
    QuorumStore,
}

impl Contender {
    /// Every contender, TAPIR first.
    pub fn all() -> impl Iterator<Item = Contender> {
        let rivals = System::OF_TAPIR.map(Contender::OnLog);
        [Contender::Tapir].into_iter().chain(rivals).chain([Contender::QuorumStore])
    }

    /// True if each shard has a leader.
    pub fn has_leaders(self) -> bool {
        matches!(self, Contender::OnLog(_))
    }

    /// Measures it where TAPIR would be deployed like this.
    pub fn run(
        self,
        deployment: &Deployment<Strict>,
        batches: Batches,
        seed: u64,
        window: Window,
    ) -> Measured {
        match self {
            Contender::Tapir => run(deployment, seed, window),
            Contender::OnLog(system) => run_on_log(system, batches.limits(), deployment, seed, window),
            Contender::QuorumStore => run(&deployment.of::<QwStore>(quorum_store()), seed, window),
        }
    }
}

/// TAPIR's number ÷ that of the best system with leaders: the least of theirs, or the greatest. No number if one of the two is missing or nothing.
pub fn ratio(numbers: impl IntoIterator<Item = (Contender, f64)>, best: fn(f64, f64) -> f64) -> f64 {
    let (mut tapir, mut rival) = (f64::NAN, None);
    for (contender, number) in numbers {
        match contender {
            Contender::Tapir => tapir = number,
            Contender::OnLog(_) => rival = Some(rival.map_or(number, |rival| best(rival, number))),
            Contender::QuorumStore => {}
        }
    }
    tapir / rival.unwrap_or(f64::NAN)
}

/// Measures a system on replicated logs with these limits of its logs.
pub fn run_on_log(
    system: System,
    limits: Limits,
    deployment: &Deployment<Strict>,
    seed: u64,
    window: Window,
) -> Measured {
    run(&deployment.of::<Baseline>(on_log(system, limits)), seed, window)
}

/// TAPIR as servers and clients set it up. A replica is told its group when it is seated.
pub fn tapir() -> SettingsOf<Strict> {
    Settings {
        coordinator: quorate_tapir::CoordinatorConfig::new(ClientId::default()),
        replica: quorate_tapir::ReplicaConfig::new(Default::default(), GroupSize::ONE, Boot::Initialise),
    }
}

/// A system on replicated logs as servers and clients set it up.
fn on_log(system: System, limits: Limits) -> SettingsOf<Baseline> {
    let (id, shards) = (Default::default(), Default::default());
    let replica = quorate_baselines::ReplicaConfig::new(id, GroupSize::ONE, shards, system);
    Settings {
        coordinator: quorate_baselines::CoordinatorConfig::new(ClientId::default(), system),
        replica: Config::unseated(Timing::DEFAULT, limits, u64::MAX, Rules::SOUND, replica),
    }
}

/// The quorum store as the paper's clients use it: a put has been answered before the next is asked for.
fn quorum_store() -> SettingsOf<QwStore> {
    let coordinator = quorate_qwstore::CoordinatorConfig::new(ClientId::default());
    Settings {
        coordinator: quorate_qwstore::CoordinatorConfig { puts_in_turn: true, ..coordinator },
        replica: quorate_qwstore::ReplicaConfig::new(Default::default(), GroupSize::ONE, Boot::Initialise),
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Contender::Tapir => formatter.pad("TAPIR"),
            Contender::OnLog(system) => formatter.pad(system.name()),
            Contender::QuorumStore => formatter.pad("qwstore"),
        }
    }
}

/// So many messages of a log on their way to a backup are the best setting in the model, where being woken costs nothing
/// (`tapir-rivals`). On real servers fewer are.
const IN_FLIGHT_TUNED: usize = 1_024;

/// The messages and entries that go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batches {
    /// Nothing, on either side: each message is sent by itself, and each entry of a log in a message of its own. That is what
    /// the paper has measured.
    Nothing,
    /// As servers do it, on either side: all that is ready together is sent together, and logs send entries together.
    Everything,
}

impl Batches {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Batches::Nothing => "without batches",
            Batches::Everything => "with batches",
        }
    }

    /// How much goes into one message of a log, and how many of them may be on their way to a backup.
    pub fn limits(self) -> Limits {
        match self {
            Batches::Nothing => Limits {
                message_bytes: 1,
                in_flight: usize::MAX,
                in_flight_bytes: usize::MAX,
                ..Limits::DEFAULT
            },
            Batches::Everything => Limits { in_flight: IN_FLIGHT_TUNED, ..Limits::DEFAULT },
        }
    }

    /// The costs of work: as on a real server.
    pub fn costs(self) -> Arc<Costs> {
        let batching = match self {
            Batches::Nothing => Batching::None,
            Batches::Everything => Batching::Turns,
        };
        // A processor that is always busy is never woken.
        Arc::new(Costs { batching, wake_ns: 0.0, ..calibrated::costs() })
    }
}
