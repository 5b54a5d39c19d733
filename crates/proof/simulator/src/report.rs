//! The findings of simulations, in the form in which `quorate sim` prints them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::fault::{Fault, FaultCounts};
use crate::invariants::{Broken, Invariant};
use crate::options::Options;
use crate::world::trace::TraceHash;

/// An invariant that does not hold for a seed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// The invariant, such as `I1`.
    pub invariant: String,
    /// The level that was judged, if one was.
    pub level: String,
    /// The kind of the violation.
    pub anomaly: String,
    /// The violation, in sentences.
    pub explain: String,
    /// The arguments of `quorate` that repeat the seed.
    pub repeat: String,
}

/// A seed that is good as far as it goes: too few of its transactions have met for that to mean anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Vacuous {
    /// The seed.
    pub seed: u64,
    /// The evidence of which there is too little.
    pub explain: String,
    /// The arguments of `quorate` that repeat the seed.
    pub repeat: String,
}

/// One seed in so many may show too little; of fewer seeds, one. (A workload is drawn with a cluster for which it may be too calm,
/// however often it is extended.) If more do, it is not the seeds that are at fault.
const VACUOUS_ONE_IN: u64 = 100;

/// The size of the largest replica at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Transactions that had committed.
    pub committed: u64,
    /// Transactions in a record.
    pub recorded: usize,
    /// Versions of all keys.
    pub versions: usize,
    /// Bytes in a log; zero in memory.
    pub log_bytes: u64,
}

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Its configuration, in one line, where that is told of each seed.
    pub configuration: Option<String>,
    /// The invariants that do not hold.
    pub broken: Vec<Broken>,
    /// Why its history shows too little, if it does.
    pub vacuous: Option<String>,
    /// Which invariants could be evaluated.
    pub evaluated: Vec<Invariant>,
    /// How much time passed in the simulation.
    pub simulated_seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Attempts of any outcome.
    pub attempted: u64,
    /// Commits on the fast path in every shard.
    pub fast: u64,
    /// Commits that were prepared more than once.
    pub retried: u64,
    /// Attempts whose client never learnt their fate.
    pub unknown: u64,
    /// Messages that were delivered.
    pub messages: u64,
    /// How often each fault was injected.
    pub faults: FaultCounts,
    /// Which faults overlapped an open transaction.
    pub overlapped: [bool; Fault::ALL.len()],
    /// Of a system that promises histories nothing: for each level what kinds of anomalies it finds.
    pub permitted: BTreeMap<&'static str, BTreeSet<&'static str>>,
    /// Events while faults struck and sessions ran that show how much the system was put to, and how often.
    pub happened: Vec<(&'static str, u64)>,
    /// The sizes of replicas, second by second, of a seed that runs longer than usual.
    pub samples: Vec<Sample>,
    /// Names the execution.
    pub trace_hash: TraceHash,
}

/// The result of all seeds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// How many seeds were run.
    pub seeds: u64,
    /// The invariants that do not hold.
    pub violations: Vec<Violation>,
    /// The seeds that show too little.
    pub vacuous: Vec<Vacuous>,
    /// How much time passed in the simulations.
    pub simulated_seconds: f64,
    /// Transactions that committed.
    pub committed: u64,
    /// Attempts that did not.
    pub aborted: u64,
    /// Attempts of any outcome.
    pub attempted: u64,
    /// Commits on the fast path in every shard.
    pub fast: u64,
    /// Commits that were prepared more than once.
    pub retried: u64,
    /// Attempts whose client never learnt their fate.
    pub unknown: u64,
    /// Messages that were delivered.
    pub messages: u64,
    /// How often each fault was injected.
    pub faults: BTreeMap<String, u64>,
    /// For each fault that may be injected and each invariant that must hold under it: in how many seeds the fault
    /// overlapped an open transaction and the invariant was evaluated.
    pub coverage: BTreeMap<String, u64>,
    /// Of a system that promises histories nothing: for each level and each kind of anomaly that it knows in how many seeds one
    /// was found; under `valid` in how many there was none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub permitted: BTreeMap<String, BTreeMap<String, u64>>,
    /// The configuration of each seed, where that is told.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<Configured>,
    /// Events while faults struck and sessions ran that show how much the system was put to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub happened: BTreeMap<String, Happened>,
    /// The hashes of all seeds, folded in their order.
    pub trace_hash: String,
    #[serde(skip)]
    hash: TraceHash,
}

/// The configuration that a seed has drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Configured {
    /// The seed.
    pub seed: u64,
    /// The configuration, in one line.
    pub configuration: String,
}

/// How often something has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Happened {
    /// In all seeds together.
    pub times: u64,
    /// In how many seeds it did.
    pub seeds: u64,
}

impl Report {
    /// A report about no seed yet.
    pub fn new(options: &Options) -> Self {
        let possible = options.possible_faults();
        let cells = possible
            .iter()
            .flat_map(|fault| fault.must_hold().iter().map(|invariant| (*fault, *invariant)))
            .filter(|(_, invariant)| options.system.judges(*invariant))
            .map(|(fault, invariant)| (cell(fault, invariant), 0));
        Report {
            trace_hash: TraceHash::default().to_string(),
            coverage: cells.collect(),
            ..Report::default()
        }
    }

    /// In how many seeds this fault was seen with this invariant; none if the invariant need not hold under it.
    pub fn covered(&self, fault: Fault, invariant: Invariant) -> Option<u64> {
        self.coverage.get(&cell(fault, invariant)).copied()
    }

    /// The cells that no seed has covered.
    pub fn uncovered(&self) -> Vec<&str> {
        let bare = self.coverage.iter().filter(|(_, seeds)| **seeds == 0);
        bare.map(|(cell, _)| cell.as_str()).collect()
    }

    /// Adds the next seed; `repeat` are the arguments that repeat it. Seeds are added in their order.
    pub fn add(&mut self, seed: &SeedReport, repeat: &str) {
        self.seeds += 1;
        self.configurations.extend(
            seed.configuration
                .iter()
                .map(|configuration| Configured { seed: seed.seed, configuration: configuration.clone() }),
        );
        self.violations.extend(seed.broken.iter().map(|broken| Violation {
            seed: seed.seed,
            invariant: broken.invariant.id().to_owned(),
            level: broken.level.to_owned(),
            anomaly: broken.anomaly.clone(),
            explain: broken.explain.clone(),
            repeat: repeat.to_owned(),
        }));
        self.vacuous.extend(seed.vacuous.iter().map(|explain| Vacuous {
            seed: seed.seed,
            explain: explain.clone(),
            repeat: repeat.to_owned(),
        }));
        self.simulated_seconds += seed.simulated_seconds;
        self.committed += seed.committed;
        self.aborted += seed.aborted;
        self.attempted += seed.attempted;
        self.fast += seed.fast;
        self.retried += seed.retried;
        self.unknown += seed.unknown;
        self.messages += seed.messages;
        for fault in Fault::ALL {
            let count = seed.faults.of(fault);
            if count == 0 {
                continue;
            }
            *self.faults.entry(fault.name().to_owned()).or_default() += count;
            if seed.overlapped[fault.index()] {
                for invariant in &seed.evaluated {
                    if let Some(seeds) = self.coverage.get_mut(&cell(fault, *invariant)) {
                        *seeds += 1;
                    }
                }
            }
        }
        for (level, kinds) in &seed.permitted {
            let counts = self.permitted.entry((*level).to_owned()).or_default();
            let valid = kinds.is_empty().then_some("valid");
            for kind in kinds.iter().copied().chain(valid) {
                *counts.entry(kind.to_owned()).or_default() += 1;
            }
        }
        for (what, times) in &seed.happened {
            let happened = self.happened.entry((*what).to_owned()).or_default();
            happened.times += times;
            happened.seeds += u64::from(*times > 0);
        }
        self.hash.fold(seed.trace_hash.value());
        self.trace_hash = self.hash.to_string();
    }

    /// The configuration that a seed has drawn, where that is told.
    pub fn configuration(&self, seed: u64) -> Option<&str> {
        let configured = self.configurations.iter().find(|configured| configured.seed == seed);
        configured.map(|configured| configured.configuration.as_str())
    }

    /// True if every invariant holds for every seed, and enough of them show that.
    pub fn is_ok(&self) -> bool {
        self.violations.is_empty() && !self.shows_too_little()
    }

    /// True if more seeds are vacuous than may be.
    pub fn shows_too_little(&self) -> bool {
        self.vacuous.len() as u64 > self.seeds.div_ceil(VACUOUS_ONE_IN)
    }
}

/// The name of a cell of the coverage table.
fn cell(fault: Fault, invariant: Invariant) -> String {
    format!("{fault}×{invariant}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seed_report(seed: u64) -> SeedReport {
        let mut faults = FaultCounts::default();
        faults.add(Fault::Loss);
        faults.add(Fault::Loss);
        faults.add(Fault::Pauses);
        let mut overlapped = [false; Fault::ALL.len()];
        overlapped[Fault::Loss.index()] = true;
        let mut trace_hash = TraceHash::default();
        trace_hash.fold(seed);
        SeedReport {
            seed,
            configuration: None,
            broken: Vec::new(),
            vacuous: None,
            evaluated: vec![Invariant::Isolation, Invariant::Liveness],
            simulated_seconds: 20.5,
            committed: 150,
            aborted: 50,
            attempted: 200,
            fast: 100,
            retried: 5,
            unknown: 0,
            messages: 1_000,
            faults,
            overlapped,
            permitted: BTreeMap::new(),
            happened: vec![("view changed", seed - 1)],
            samples: Vec::new(),
            trace_hash,
        }
    }

    #[test]
    fn reports_add_up_and_have_the_shape_of_the_contract() {
        let options = Options { faults: "loss,pauses".parse().unwrap(), ..Options::new(1..=2) };
        let mut report = Report::new(&options);
        report.add(&seed_report(1), "sim --seed 1");
        let mut second = seed_report(2);
        second.broken.push(Broken {
            invariant: Invariant::Isolation,
            level: "strict-serializable",
            anomaly: "stale-read".to_owned(),
            explain: "It was stale.".to_owned(),
        });
        report.add(&second, "sim --seed 2");
        assert!(!report.is_ok());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["seeds"], 2);
        assert_eq!(json["simulated_seconds"], 41.0);
        assert_eq!(json["faults"], serde_json::json!({"loss": 4, "pauses": 2}));
        let cells = serde_json::json!({
            "loss×I1": 2, "loss×I2": 0, "loss×I3": 0, "loss×I4": 0, "loss×I6": 2, "loss×I7": 0, "loss×I8": 0,
            "pauses×I1": 0, "pauses×I6": 0,
        });
        assert_eq!(json["coverage"], cells);
        assert_eq!(report.uncovered().len(), 7);
        assert_eq!(report.covered(Fault::Loss, Invariant::Liveness), Some(2));
        assert_eq!(report.covered(Fault::Pauses, Invariant::Agreement), None);
        assert_eq!(json["happened"], serde_json::json!({"view changed": {"times": 1, "seeds": 1}}));
        assert_eq!(json["violations"][0]["seed"], 2);
        assert_eq!(json["violations"][0]["anomaly"], "stale-read");
        assert_eq!(json["trace_hash"].as_str().unwrap().len(), 16);
    }

    #[test]
    fn a_few_seeds_may_show_too_little() {
        let run = |seeds: u64, vacuous: u64| {
            let mut report = Report::new(&Options::new(1..=seeds));
            for seed in 1..=seeds {
                let vacuous = (seed <= vacuous).then(|| "3 commits".to_owned());
                report.add(&SeedReport { vacuous, ..seed_report(seed) }, "");
            }
            assert!(report.violations.is_empty(), "that transactions have not met violates nothing");
            assert_eq!(report.vacuous.len() as u64, vacuous);
            report.is_ok()
        };
        let table = [
            (1, 0, true),
            (1, 1, true),
            (100, 1, true),
            (100, 2, false),
            (1_250, 13, true),
            (1_250, 14, false),
        ];
        for (seeds, vacuous, is_ok) in table {
            assert_eq!(run(seeds, vacuous), is_ok, "{vacuous} of {seeds}");
        }
    }

    #[test]
    fn the_hash_depends_on_the_order_of_seeds() {
        let hash = |seeds: [u64; 2]| {
            let mut report = Report::new(&Options::new(1..=2));
            seeds.iter().for_each(|seed| report.add(&seed_report(*seed), ""));
            report.trace_hash
        };
        assert_ne!(hash([1, 2]), hash([2, 1]));
    }
}
