//! `quorate sim`: simulates whole clusters under faults, from seeds.

mod calibrate;
mod crash_points;
mod panics;
mod pins;
mod plants;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use clap::Args;
use quorate::Isolation;
use quorate::topology::{SerialOrder, SpeculationVariant};
use quorate_simulator::crash_points::Case;
use quorate_simulator::{
    Fault, Faults, Happened, Invariant, Listed, Options, Planted, Report, SeedReport, SystemKind, TraceText,
    baseline_named, list_faults, list_plants, list_systems, plant_named, run_seed,
};
use quorate_workloads::WorkloadKind;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, WithCommand, print_json, thousands};
use crate::parse::{Share, inclusive_range};
use pins::Pins;

/// Simulate whole clusters under faults, from seeds, and judge what happened.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate sim --seeds 1..2000 --faults all
  quorate sim --seeds 1..2000 --faults swarm       few features in each seed, and those frequent
  quorate sim --seed 42 --trace trace.txt --history history.jsonl
  quorate sim --seeds 1..200 --plant T21           the planted bug must be found: exit code 1
  quorate sim --baseline txn-occ --seeds 1..200      a comparison system, under the same faults
  quorate sim --isolation strict --order timestamps --seeds 1..100
  quorate sim --configuration --seeds 1..200         the configuration service
  quorate sim --seeds 1..50 --faults loss,clock-skew --workload lists --json
  quorate sim --seed 5 --length 100 --workload rmw  a hundred times as long: what has ended must be forgotten
  quorate sim --list-plants --json
  quorate sim --list-systems                       what can be simulated, and the option that chooses it
  quorate sim --plants --seeds 1..200              every known bug must be found
  quorate sim --crash-points                       small clusters, with a crash at every step in turn
  quorate sim --calibrate                          what work costs here, and how far off a simulation is

The same seed gives the same execution and the same hash. Exit code 1 if an invariant is violated; the command that
repeats the seed is printed.")]
pub(crate) struct SimArguments {
    /// The guarantee to simulate.
    #[arg(long, default_value_t = Isolation::Strict)]
    isolation: Isolation,
    /// A comparison system to simulate instead.
    #[arg(long, value_name = "B", conflicts_with = "isolation", value_parser = baseline_named)]
    baseline: Option<SystemKind>,
    /// Simulate the configuration service.
    #[arg(long, conflicts_with_all = ["isolation", "baseline"])]
    configuration: bool,
    /// One seed.
    #[arg(long, conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Seeds A..B, both ends included.
    #[arg(long, value_name = "A..B", value_parser = inclusive_range, default_value = "1..20")]
    seeds: RangeInclusive<u64>,
    /// Stop at the first seed that leaves no cell of the table of faults and invariants empty.
    #[arg(long, conflicts_with_all = ["seed", "plants"])]
    until_covered: bool,
    /// Which faults: `none`, `all`, `swarm`, or names with commas between them. By default all; with --plants, those under which
    /// each bug shows soonest.
    #[arg(long)]
    faults: Option<Faults>,
    /// A bug to plant, by its id.
    #[arg(long, value_name = "BUG", value_parser = plant_named)]
    plant: Option<Planted>,
    /// Plant every known bug in turn, each until a seed finds it; exit code 1 if one is not found.
    #[arg(long, conflicts_with_all = ["plant", "seed", "trace", "history"])]
    plants: bool,
    /// With --plants: the seeds that have caught each bug before. A bug is hunted only if its seed does not catch it any more.
    #[arg(long, value_name = "FILE", requires = "plants")]
    pins: Option<PathBuf>,
    /// With --plants: hunt every bug, and write the seeds that catch them to this file.
    #[arg(long, value_name = "FILE", requires = "plants", conflicts_with_all = ["pins", "faults"])]
    write_pins: Option<PathBuf>,
    /// Crash small clusters at every step of theirs, one after the other, instead of running seeds.
    #[arg(long, conflicts_with_all = ["plants", "seed", "seeds", "faults", "workload", "trace", "history"])]
    crash_points: bool,
    /// With --crash-points or --plants: only so many of them, such as 2/4 for the second of four shares.
    #[arg(long, value_name = "K/N", conflicts_with = "write_pins")]
    share: Option<Share>,
    /// One of these crashes, as --crash-points names it, such as two-shards:17-stays-away.
    #[arg(long, value_name = "CASE", conflicts_with_all = ["crash_points", "plants", "seed", "seeds", "faults", "workload", "history"])]
    crash_case: Option<Case>,
    /// The workload; by default each seed draws one.
    #[arg(long)]
    workload: Option<WorkloadKind>,
    /// How much transactions of `snapshot` keyspaces speculate: clock-si, planet, str-internal or str-external; by default each seed draws one.
    #[arg(long, value_name = "VARIANT")]
    variant: Option<SpeculationVariant>,
    /// The serial order of `strict` keyspaces: real-time, judged as strictly serializable, or timestamps, judged as serializable; by default a tenth of the seeds run
    /// the latter.
    #[arg(long, value_name = "ORDER")]
    order: Option<SerialOrder>,
    /// Run TPC-C beside the workload, and judge its conditions; by default some seeds of `serializable` do.
    #[arg(long)]
    tpcc: bool,
    /// How many times as long as usual each seed runs, with as many times the transactions.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    length: u64,
    /// Write the trace of the seed to this file.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the history of the seed to this file.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// List the faults.
    #[arg(long, conflicts_with_all = ["list_plants", "list_systems"])]
    list_faults: bool,
    /// List the systems that can be simulated.
    #[arg(long, conflicts_with = "list_plants")]
    list_systems: bool,
    /// List the bugs that can be planted.
    #[arg(long)]
    list_plants: bool,
    /// Measure what work costs on this machine, and compare a simulation with these costs with real servers.
    #[arg(long, conflicts_with_all = ["seed", "seeds", "faults", "plant", "plants", "trace", "history"])]
    calibrate: bool,
    /// Print one JSON object; with a list, a JSON array.
    #[arg(long)]
    json: bool,
}

impl SimArguments {
    pub(crate) fn run(self) -> Outcome {
        if self.list_faults {
            return list(self.json, "fault", &list_faults());
        }
        if self.list_systems {
            return list_of_systems(self.json);
        }
        if self.list_plants {
            return list(self.json, "plant", &list_plants());
        }
        if self.share.is_some() && !self.crash_points && !self.plants {
            return Err(Failure::usage("--share is about --crash-points or --plants: add one of them"));
        }
        if self.crash_points {
            return crash_points::run(self.plant.as_ref(), self.share.unwrap_or_default(), self.json);
        }
        if let Some(case) = self.crash_case {
            return crash_points::run_case(case, self.plant.as_ref(), self.trace.as_deref(), self.json);
        }
        if self.calibrate {
            return calibrate::run(self.json);
        }
        if self.seed.is_none() && (self.trace.is_some() || self.history.is_some()) {
            return Err(Failure::usage("--trace and --history are about one seed: choose it with --seed"));
        }
        let has_sets = self.isolation == Isolation::ParallelSnapshot && !self.configuration;
        if let Some(workload) = self.workload.filter(|workload| workload.needs_sets() && !has_sets) {
            return Err(Failure::usage(format!(
                "{workload} changes counting sets: simulate it with --isolation parallel-snapshot"
            )));
        }
        let speculates =
            self.isolation == Isolation::Snapshot && self.baseline.is_none() && !self.configuration;
        if let Some(variant) = self.variant.filter(|_| !speculates) {
            return Err(Failure::usage(format!(
                "{variant} is a variant of snapshot keyspaces: simulate it with --isolation snapshot"
            )));
        }
        let is_strict = self.isolation == Isolation::Strict && self.baseline.is_none() && !self.configuration;
        if let Some(order) = self.order.filter(|_| !is_strict) {
            return Err(Failure::usage(format!(
                "{order} is an order of strict keyspaces: simulate it with --isolation strict"
            )));
        }
        if self.order == Some(SerialOrder::Timestamps) && (self.plants || self.plant.is_some()) {
            return Err(Failure::usage("bugs are planted into the rules of real time: leave --order out"));
        }
        let seeds = self.seed.map_or(self.seeds.clone(), |seed| seed..=seed);
        let mut options = Options::new(seeds);
        options.system = match self.baseline {
            _ if self.configuration => SystemKind::Configuration,
            Some(baseline) => baseline,
            None => SystemKind::Keyspace(self.isolation),
        };
        options.faults = self.faults.clone().unwrap_or(Faults::All);
        options.plant = self.plant.map(|plant| of_system(&plant, options.system)).transpose()?;
        options.workload = self.workload;
        options.speculation = self.variant;
        options.order = self.order;
        options.tpcc = self.tpcc;
        options.length = self.length;
        if let Some(path) = &self.write_pins {
            return plants::pin(&options, path, self.json);
        }
        if self.plants {
            let pins = self.pins.as_deref().map(Pins::read).transpose()?.unwrap_or_default();
            let share = self.share.unwrap_or_default();
            return plants::run(&options, self.faults.as_ref(), &pins, share, self.json);
        }
        let report = match self.seed {
            Some(seed) => run_one(seed, &options, self.trace.as_deref(), self.history.as_deref())?,
            None => run_many(&options, self.until_covered),
        };
        if self.json {
            print_json(&WithCommand::new(&report))?;
        } else {
            outln!("{}", summary(&report));
        }
        Ok(Verdict::good_if(report.is_ok()))
    }
}

/// Runs one seed and writes what was asked for.
fn run_one(
    seed: u64,
    options: &Options,
    trace: Option<&Path>,
    history: Option<&Path>,
) -> Result<Report, Failure> {
    let text = trace.map(|_| TraceText::default());
    let run = run_seed(seed, options, text.clone());
    let written = |path: &Path, error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", path.display()))
    };
    if let (Some(path), Some(text)) = (trace, text) {
        let write = || File::create(path)?.write_all(text.borrow().as_bytes());
        write().map_err(|error| written(path, error))?;
    }
    if let Some(path) = history {
        let write = || run.history.write_json(File::create(path)?);
        write().map_err(|error| written(path, error))?;
    }
    let mut report = Report::new(options);
    report.add(&run.report, &options.repeat_arguments(seed));
    Ok(report)
}

/// Runs seeds on all processors. Each is an execution of its own; they are reported in their order, all of them or until every cell is covered.
fn run_many(options: &Options, until_covered: bool) -> Report {
    let count = options.seeds.end() - options.seeds.start() + 1;
    let progress = Progress::bar(count);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(count as usize);
    let next = AtomicU64::new(0);
    let (sender, reports) = mpsc::channel::<SeedReport>();
    let mut report = Report::new(options);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let offset = next.fetch_add(1, Ordering::Relaxed);
                    if offset >= count {
                        return;
                    }
                    // The receiver lives as long as this scope.
                    let _ = sender.send(run_seed(options.seeds.start() + offset, options, None).report);
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut expected = *options.seeds.start();
        for seed_report in reports {
            waiting.insert(seed_report.seed, seed_report);
            // Seeds that have run meanwhile are not told of, so that a report depends on seeds alone.
            while let Some(in_turn) =
                waiting.remove(&expected).filter(|_| !(until_covered && report.uncovered().is_empty()))
            {
                report.add(&in_turn, &options.repeat_arguments(expected));
                expected += 1;
                progress.step_to(report.seeds);
                progress.now(format!("{} violations", report.violations.len()));
                if until_covered && report.uncovered().is_empty() {
                    next.store(count, Ordering::Relaxed);
                }
                if !in_turn.broken.is_empty() {
                    progress.say(format!("seed {} violates an invariant", in_turn.seed));
                }
            }
        }
    });
    report
}

/// A report for people.
fn summary(report: &Report) -> String {
    let mut text = format!(
        "{} seeds, {:.1} simulated hours, {} transactions committed, {} attempts aborted, trace hash {}",
        thousands(report.seeds),
        report.simulated_seconds / 3600.0,
        thousands(report.committed),
        thousands(report.aborted),
        report.trace_hash
    );
    if !report.faults.is_empty() {
        let faults: Vec<String> =
            report.faults.iter().map(|(name, count)| format!("{name} {}", thousands(*count))).collect();
        text.push_str(&format!("\nfaults injected: {}", faults.join(", ")));
    }
    if let ([configured], 1) = (&report.configurations[..], report.seeds) {
        text.push_str(&format!("\nconfiguration: {}", configured.configuration));
    }
    if !report.happened.is_empty() {
        let happened = |(what, happened): (&String, &Happened)| {
            format!("{what} {} times in {} seeds", thousands(happened.times), thousands(happened.seeds))
        };
        let happened: Vec<String> = report.happened.iter().map(happened).collect();
        text.push_str(&format!("\nunder load: {}", happened.join(", ")));
    }
    if report.seeds > 1 && !report.coverage.is_empty() {
        text.push_str(&format!("\n\n{}", coverage(report)));
    }
    for (level, kinds) in &report.permitted {
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, seeds)| format!("{kind} in {}", thousands(*seeds))).collect();
        text.push_str(&format!("\nnot promised: {level}; of the seeds: {}", kinds.join(", ")));
    }
    for violation in &report.violations {
        text.push_str(&format!(
            "\n\nseed {} violates {}: {}\n  {}{}\n  repeat: quorate {}",
            violation.seed,
            violation.invariant,
            violation.anomaly,
            violation.explain.replace('\n', "\n  "),
            configuration(report, violation.seed),
            violation.repeat
        ));
    }
    for vacuous in &report.vacuous {
        text.push_str(&format!(
            "\n\nseed {} shows too little: {}{}\n  repeat: quorate {}",
            vacuous.seed,
            vacuous.explain,
            configuration(report, vacuous.seed),
            vacuous.repeat
        ));
    }
    if report.shows_too_little() {
        text.push_str("\n\ntoo many seeds show too little");
    }
    if report.violations.is_empty() {
        text.push_str("\nno invariant is violated");
    }
    text
}

/// A line about what a seed of several has drawn, where that is told.
fn configuration(report: &Report, seed: u64) -> String {
    let configuration = report.configuration(seed).filter(|_| report.seeds > 1);
    configuration.map_or(String::new(), |configuration| format!("\n  configuration: {configuration}"))
}

/// In how many seeds each fault met each invariant that must hold under it.
fn coverage(report: &Report) -> String {
    let columns = Invariant::ALL;
    let mut header = vec![("seeds in which", Align::Left)];
    header.extend(columns.iter().map(|invariant| (invariant.id(), Align::Right)));
    let mut table = Table::new(&header);
    for fault in Fault::ALL {
        let cells: Vec<Option<u64>> =
            columns.iter().map(|invariant| report.covered(fault, *invariant)).collect();
        if cells.iter().any(Option::is_some) {
            let seeds = cells.into_iter().map(|seeds| seeds.map_or(String::new(), thousands));
            table.row(std::iter::once(fault.name().to_owned()).chain(seeds));
        }
    }
    let uncovered = report.uncovered();
    let verdict = if uncovered.is_empty() {
        format!("all {} cells are covered", report.coverage.len())
    } else {
        format!("not covered: {}", uncovered.join(", "))
    };
    format!("{table}\n{verdict}")
}

/// The same bug in the system that is simulated.
fn of_system(plant: &Planted, system: SystemKind) -> Result<Planted, Failure> {
    system.plants().into_iter().find(|own| own.id == plant.id).ok_or_else(|| {
        let choice = plant.system.option();
        Failure::usage(format!("{} is no bug of {system}: choose the system with {choice}", plant.id))
    })
}

/// Lists what can be chosen.
fn list_of_systems(json: bool) -> Outcome {
    let systems = list_systems();
    if json {
        print_json(&systems)?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new(&[("system", Align::Left), ("option", Align::Left), ("what", Align::Left)]);
    for system in systems {
        table.row([system.id.to_owned(), system.option, system.what.to_owned()]);
    }
    outln!("{table}");
    Ok(Verdict::Good)
}

fn list(json: bool, title: &str, listed: &[Listed]) -> Outcome {
    if json {
        print_json(&listed)?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new(&[(title, Align::Left), ("section", Align::Left), ("what", Align::Left)]);
    for Listed { id, what, section, .. } in listed {
        table.row([*id, *section, *what].map(str::to_owned));
    }
    outln!("{table}");
    Ok(Verdict::Good)
}
