//! Results in directories: the JSON files of experiments, benches and simulations.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use quorate_experiments::Report;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The largest file that is read, in bytes: results are some kilobytes.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Everything that was found.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// Of `quorate experiment`, one of each name, by name.
    pub experiments: BTreeMap<String, Found<Report>>,
    /// Of `quorate bench`, in the order of the directories and of the names of their files.
    pub benches: Vec<Found<Bench>>,
    /// Of `quorate sim`, likewise.
    pub simulations: Vec<Found<Simulation>>,
    /// The files that hold no result, or one that another file takes the place of, each with the reason.
    pub left_out: Vec<(PathBuf, String)>,
}

/// A result, and where it stands.
#[derive(Clone, Debug)]
pub struct Found<T> {
    /// Its file.
    pub path: PathBuf,
    /// Its content.
    pub result: T,
}

/// A measurement of `quorate bench`, as far as it is shown. A number that an earlier version did not print is missing.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Bench {
    /// The name of the transactions.
    pub workload: String,
    /// The isolation of the keyspace, if it is no comparison system.
    pub isolation: Option<String>,
    /// The comparison system.
    pub baseline: Option<String>,
    /// The command that has measured it.
    pub command: Option<String>,
    /// Transactions in flight.
    pub clients: u64,
    /// How long it was measured.
    pub seconds: f64,
    /// Transactions that have committed.
    pub committed: u64,
    /// Attempts that have aborted, of all attempts; from 0 to 1.
    pub abort_rate: f64,
    /// Commits a second.
    pub throughput_tps: f64,
    /// Of commits.
    pub latency_us: Latency,
    /// Processor time of all servers for a commit, in microseconds.
    pub server_cpu_us_per_txn: Option<f64>,
    /// Processor time of the client for a commit, in microseconds.
    pub client_cpu_us_per_txn: Option<f64>,
    /// Messages of the protocol for a commit.
    pub messages_per_txn: Option<f64>,
    /// The durability of acknowledged writes.
    pub durability: String,
    /// The parts of the keyspace.
    pub shards: u64,
    /// The replicas of each shard.
    pub replicas: u64,
    /// The processors of the machine.
    pub cores: Option<u64>,
    /// How often a client has read a state that must not be, of workloads that look for one.
    #[serde(default)]
    pub breaches: u64,
}

impl Bench {
    /// The system that was measured: an isolation or a comparison system.
    pub fn system(&self) -> &str {
        self.isolation.as_deref().or(self.baseline.as_deref()).unwrap_or("of no name")
    }
}

/// Quantiles, in microseconds; none where nothing has committed.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Latency {
    /// The median.
    pub p50: Option<f64>,
    /// The 99th percentile.
    pub p99: Option<f64>,
    /// The 99.9th percentile.
    pub p999: Option<f64>,
}

/// The findings of `quorate sim`, as far as they are shown.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Simulation {
    /// The command that has simulated it.
    pub command: Option<String>,
    /// How many seeds.
    pub seeds: u64,
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// Of all seeds together.
    pub simulated_seconds: f64,
    /// Transactions that have committed.
    pub committed: u64,
    /// Attempts that have aborted.
    pub aborted: u64,
    /// How often there was which fault.
    #[serde(default)]
    pub faults: BTreeMap<String, u64>,
    /// The hash of all traces.
    pub trace_hash: String,
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Violation {
    /// The seed that repeats it.
    pub seed: u64,
    /// The name of the invariant.
    pub invariant: String,
}

/// Why results cannot be read.
#[derive(Debug)]
pub enum Error {
    /// A directory or a file cannot be read.
    Unreadable(PathBuf, io::Error),
    /// A file that ends in `.json` is no JSON, or a result without what each result has.
    Malformed(PathBuf, serde_json::Error),
    /// A file is larger than any result.
    TooLarge(PathBuf, u64),
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable(path, error) => write!(formatter, "cannot read {}: {error}", path.display()),
            Error::Malformed(path, error) => write!(
                formatter,
                "{} is not what `quorate experiment`, `bench` or `sim` print with --json: {error}; measure it again, or move it elsewhere",
                path.display()
            ),
            Error::TooLarge(path, bytes) => {
                write!(
                    formatter,
                    "{} has {bytes} bytes, and no result has more than {FILE_BYTES_MAX}",
                    path.display()
                )
            }
        }
    }
}

impl std::error::Error for Error {}

impl Results {
    /// Reads what stands in these directories: files whose names end in `.json`, of each directory in the order of their names. Of an experiment that
    /// stands in two, the later one counts.
    ///
    /// # Errors
    /// A directory or a file cannot be read, or a file is malformed.
    pub fn read(directories: &[PathBuf]) -> Result<Results, Error> {
        let mut results = Results::default();
        for directory in directories {
            for path in json_files(directory)? {
                results.take(path)?;
            }
        }
        Ok(results)
    }

    fn take(&mut self, path: PathBuf) -> Result<(), Error> {
        let unreadable = |error| Error::Unreadable(path.clone(), error);
        let bytes = fs::metadata(&path).map_err(unreadable)?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(Error::TooLarge(path, bytes));
        }
        let text = fs::read_to_string(&path).map_err(unreadable)?;
        let malformed = |error| Error::Malformed(path.clone(), error);
        let value: Value = serde_json::from_str(&text).map_err(malformed)?;
        match kind(&value) {
            Some(Kind::Experiment) => {
                let result: Report = parse(value).map_err(malformed)?;
                let name = result.name.to_string();
                if let Some(earlier) = self.experiments.insert(name, Found { path: path.clone(), result }) {
                    self.left_out.push((earlier.path, format!("{} has it, too", path.display())));
                }
            }
            Some(Kind::Bench) => {
                let result = parse(value).map_err(malformed)?;
                self.benches.push(Found { path, result });
            }
            Some(Kind::Simulation) => {
                let result = parse(value).map_err(malformed)?;
                self.simulations.push(Found { path, result });
            }
            None => self
                .left_out
                .push((path, "is no result of an experiment, a bench or a simulation".to_owned())),
        }
        Ok(())
    }

    /// True if there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.experiments.is_empty() && self.benches.is_empty() && self.simulations.is_empty()
    }
}

/// The files of a directory that hold JSON, in the order of their names.
fn json_files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |error| Error::Unreadable(directory.to_owned(), error);
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "json") && !path.is_dir() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

enum Kind {
    Experiment,
    Bench,
    Simulation,
}

/// The kind of result, by the fields that no other kind has.
fn kind(value: &Value) -> Option<Kind> {
    let fields: &Map<String, Value> = value.as_object()?;
    let has = |names: [&str; 2]| names.iter().all(|name| fields.contains_key(*name));
    if has(["headline", "rows"]) {
        Some(Kind::Experiment)
    } else if has(["workload", "throughput_tps"]) {
        Some(Kind::Bench)
    } else if has(["seeds", "violations"]) {
        Some(Kind::Simulation)
    } else {
        None
    }
}

fn parse<T: DeserializeOwned>(value: Value) -> serde_json::Result<T> {
    serde_json::from_value(value)
}

#[cfg(test)]
mod tests;
