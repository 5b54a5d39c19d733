//! Executing one case: the script with its crashes, then what every simulation ends with.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_core::Instant;

use super::case::{Aftermath, Case, CrashPoint};
use super::configuration::Configuration;
use super::watch::Watch;
use crate::cluster::Cluster;
use crate::invariants::{self, Broken, Invariant};
use crate::report::SeedReport;
use crate::run::{Simulation, empty_report, note, panic_message};
use crate::system::{ForSystem, System};
use crate::world::disk::Crash;
use crate::world::steps::{Party, Step, Steps};
use crate::world::trace::TraceText;

/// The result of a case.
#[derive(Debug)]
pub struct Executed {
    /// The judgement, as of a seed.
    pub report: SeedReport,
    /// The steps until everything that the script begins had ended, if they were asked for.
    pub steps: Vec<Step>,
    /// The longest that a server held a key after the last crash.
    pub held_max: std::time::Duration,
}

impl Executed {
    /// The invariants that do not hold. That so small a history shows too little to mean anything by itself is no such thing.
    pub fn broken(&self) -> impl Iterator<Item = &Broken> {
        self.report.broken.iter()
    }
}

/// The crashes of a case that are still to come, and what is watched meanwhile.
#[derive(Debug)]
pub(crate) struct Ordeal {
    configuration: Configuration,
    crashes: std::vec::IntoIter<CrashPoint>,
    pub(crate) watch: Watch,
}

/// Executes a case; `notes` asks for its steps.
pub fn execute(case: &Case, notes: bool, trace: Option<TraceText>) -> Executed {
    struct Execute<'a>(&'a Case, bool, Option<TraceText>);
    impl ForSystem for Execute<'_> {
        type Output = Executed;

        fn run<S: System>(self) -> Executed {
            let Execute(case, notes, trace) = self;
            Simulation::<S>::of_case(case, notes, trace).run_case(case)
        }
    }
    let execute = Execute(case, notes, trace);
    match catch_unwind(AssertUnwindSafe(|| case.configuration.system.visit(execute))) {
        Ok(executed) => executed,
        Err(panic) => {
            let mut report = empty_report(0);
            let finding = invariants::machine_panicked(&panic_message(panic.as_ref()));
            note(&mut report, Invariant::Sanity, finding);
            Executed { report, steps: Vec::new(), held_max: Default::default() }
        }
    }
}

impl Ordeal {
    /// Looks at what servers hold.
    pub(crate) fn look<S: System>(&mut self, cluster: &Cluster<S>) {
        self.watch.look(cluster, &self.configuration);
    }
}

impl<S: System> Simulation<S> {
    fn of_case(case: &Case, notes: bool, trace: Option<TraceText>) -> Self {
        let crashes = case.crashes.iter().map(|point| (point.step, point.aftermath.crash()));
        let steps = Steps::new(crashes, notes);
        let configuration = case.configuration;
        let scenario = configuration.scenario(case.plant.as_ref());
        let mut simulation = Simulation::new(scenario, trace, Some(steps));
        let crashes = case.crashes.clone().into_iter();
        simulation.ordeal = Some(Ordeal { configuration, crashes, watch: Watch::default() });
        let fast = simulation.cluster.client_node(0);
        simulation.cluster.world.clock(fast).jump(Configuration::FAST_CLOCK_MICROS);
        for node in 0..configuration.nodes_lacking() {
            simulation.cluster.crash_node(node, Crash::Process);
        }
        simulation
    }

    fn run_case(mut self, case: &Case) -> Executed {
        let limit = Instant::START + self.cluster.scenario.safety_phase;
        self.until(limit, |simulation| {
            let Simulation { cluster, clients, .. } = simulation;
            simulation.ordeal.as_ref().is_some_and(|ordeal| {
                ordeal.watch.is_over(cluster.world.now())
                    && clients.are_done(cluster)
                    && cluster.is_quiet_on(|node| node >= ordeal.configuration.nodes_lacking())
            })
        });
        let steps = self.cluster.world.count_steps(None).unwrap_or_default();
        self.heal();
        self.await_end("after a crash");
        let held_max = self.ordeal.as_ref().map(|ordeal| ordeal.watch.held_max).unwrap_or_default();
        if let Some(ordeal) = self.ordeal.take() {
            note(&mut self.report, Invariant::Liveness, ordeal.watch.finding());
        }
        assert_eq!(steps.crashes_left(), 0, "{case}: an execution has the same steps up to its first crash");
        let executed = self.conclude();
        Executed { report: executed.report, steps: steps.into_noted(), held_max }
    }

    /// A machine has met the crash of this case that was next.
    pub(crate) fn on_crashed(&mut self, party: Party, crash: Crash) {
        let now = self.cluster.world.now();
        let point = self.ordeal.as_mut().and_then(|ordeal| {
            ordeal.watch.on_crashed(now);
            ordeal.crashes.next()
        });
        let aftermath = point.expect("a machine crashes at the steps of a case").aftermath;
        match (party, aftermath) {
            (Party::Client(client), Aftermath::Stays | Aftermath::Returns) => {
                self.clients.on_crashed(client, aftermath.back_after(), &mut self.cluster);
            }
            (Party::Server(server), Aftermath::Restarts | Aftermath::LosesPower) => {
                let after = aftermath.back_after().expect("servers come back");
                self.cluster.on_crashed(server, crash, after);
            }
            (party, aftermath) => {
                panic!("{party:?} {}: that is for the other kind of machine", aftermath.name())
            }
        }
    }
}
