//! The findings of enumerated crashes, in the form in which `quorate sim --crash-points` prints them.

use std::time::Duration;

use serde::Serialize;

use super::case::Case;
use super::configuration::Configuration;
use super::enumeration::Task;
use super::execution::Executed;
use crate::world::steps::{Party, Step};
use crate::world::trace::TraceHash;

/// An invariant that does not hold in a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CrashPointViolation {
    /// The case.
    pub case: String,
    /// At which steps who crashes, in words.
    pub crashes: String,
    /// The invariant, such as `I1`.
    pub invariant: String,
    /// The level that was judged, if one was.
    pub level: String,
    /// The kind of the violation.
    pub anomaly: String,
    /// The violation, in sentences.
    pub explain: String,
    /// The arguments of `quorate` that repeat the case.
    pub repeat: String,
}

/// The result of the cases of one task.
#[derive(Clone, Debug, Default)]
pub struct TaskReport {
    /// True if the first to crash is a client.
    is_client: bool,
    /// How many cases were executed.
    cases: u64,
    /// The longest that a server held a key after the one crash.
    held_max: Duration,
    /// The same after the second of two crashes.
    held_max_of_pairs: Duration,
    simulated_seconds: f64,
    /// The invariants that do not hold.
    pub violations: Vec<CrashPointViolation>,
    hash: TraceHash,
}

impl TaskReport {
    /// A report about no case yet.
    pub fn new(task: &Task) -> Self {
        TaskReport { is_client: matches!(task.step.party, Party::Client(_)), ..TaskReport::default() }
    }

    /// Adds a case with crashes at these steps.
    pub fn add(&mut self, case: &Case, steps: &[&Step], executed: &Executed) {
        self.cases += 1;
        let is_pair = case.crashes.len() > 1;
        let held_max = if is_pair { &mut self.held_max_of_pairs } else { &mut self.held_max };
        *held_max = executed.held_max.max(*held_max);
        self.simulated_seconds += executed.report.simulated_seconds;
        self.hash.fold(executed.report.trace_hash.value());
        let crashes: Vec<String> = steps.iter().map(|step| words(step)).collect();
        self.violations.extend(executed.broken().map(|broken| CrashPointViolation {
            case: case.to_string(),
            crashes: crashes.join(", then "),
            invariant: broken.invariant.id().to_owned(),
            level: broken.level.to_owned(),
            anomaly: broken.anomaly.clone(),
            explain: broken.explain.clone(),
            repeat: case.repeat_arguments(),
        }));
    }
}

/// A step in words.
fn words(step: &Step) -> String {
    let who = match step.party {
        Party::Client(client) => format!("client {client}"),
        Party::Server(server) => format!("server {server}"),
    };
    format!("{who} {} {}", step.moment.words(), step.what).trim_end().to_owned()
}

/// The result of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ConfigurationReport {
    /// Its name.
    pub name: &'static str,
    /// Its distinguishing feature, in a few words.
    pub what: &'static str,
    /// Cases in which a client crashes, once for each step and aftermath.
    pub client_cases: u64,
    /// Cases in which a server crashes.
    pub server_cases: u64,
    /// Cases in which a client crashes, and then a backup coordinator.
    pub pair_cases: u64,
    /// Within this time after a crash everything had to be free again, in milliseconds.
    pub free_within_ms: f64,
    /// The same where a backup coordinator crashed as well.
    pub pair_free_within_ms: f64,
    /// The longest that a server held a key after the crash of a client, in milliseconds.
    pub client_held_max_ms: f64,
    /// The same after the crash of a server.
    pub server_held_max_ms: f64,
    /// The same after the crash of a backup coordinator.
    pub pair_held_max_ms: f64,
}

/// The result of all configurations.
#[derive(Clone, Debug, Serialize)]
pub struct CrashPointReport {
    /// Each configuration.
    pub configurations: Vec<ConfigurationReport>,
    /// How many cases were executed.
    pub cases: u64,
    /// How much time passed in them.
    pub simulated_seconds: f64,
    /// The recovery time-out, in milliseconds.
    pub recovery_timeout_ms: f64,
    /// The invariants that do not hold.
    pub violations: Vec<CrashPointViolation>,
    /// The hashes of all cases, folded in their order.
    pub trace_hash: String,
    #[serde(skip)]
    hash: TraceHash,
}

impl Default for CrashPointReport {
    fn default() -> Self {
        CrashPointReport {
            configurations: Vec::new(),
            cases: 0,
            simulated_seconds: 0.0,
            recovery_timeout_ms: millis(Configuration::RECOVERY_TIMEOUT),
            violations: Vec::new(),
            trace_hash: TraceHash::default().to_string(),
            hash: TraceHash::default(),
        }
    }
}

impl CrashPointReport {
    /// Adds the next task of a configuration. Tasks are added in their order.
    pub fn add(&mut self, configuration: Configuration, task: TaskReport) {
        if self.configurations.last().is_none_or(|last| last.name != configuration.name) {
            let lacking = configuration.nodes_lacking();
            self.configurations.push(ConfigurationReport {
                name: configuration.name,
                what: configuration.what,
                client_cases: 0,
                server_cases: 0,
                pair_cases: 0,
                free_within_ms: millis(configuration.free_within(lacking)),
                pair_free_within_ms: millis(configuration.free_within(lacking + 1)),
                client_held_max_ms: 0.0,
                server_held_max_ms: 0.0,
                pair_held_max_ms: 0.0,
            });
        }
        if let Some(of) = self.configurations.last_mut() {
            let (cases, held_max_ms) = if task.is_client {
                (&mut of.client_cases, &mut of.client_held_max_ms)
            } else {
                (&mut of.server_cases, &mut of.server_held_max_ms)
            };
            *cases += 1;
            *held_max_ms = held_max_ms.max(millis(task.held_max));
            of.pair_cases += task.cases - 1;
            of.pair_held_max_ms = of.pair_held_max_ms.max(millis(task.held_max_of_pairs));
        }
        self.cases += task.cases;
        self.simulated_seconds += task.simulated_seconds;
        self.violations.extend(task.violations);
        self.hash.fold(task.hash.value());
        self.trace_hash = self.hash.to_string();
    }

    /// True if every invariant holds in every case.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty()
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}
