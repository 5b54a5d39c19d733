//! `quorate sim --crash-points`: crashes at every step of small clusters.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use quorate_simulator::crash_points::{
    self, Case, Configuration, ConfigurationReport, CrashPointReport, Task, TaskReport, run_task,
};
use quorate_simulator::{Planted, TraceText};

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::parse::Share;

/// So many violations are printed; a rule that is broken breaks many cases.
const PRINTED_MAX: usize = 20;

/// Executes a share of the cases of every configuration. Good if nothing is violated.
pub(super) fn run(plant: Option<&Planted>, share: Share, json: bool) -> Outcome {
    let runs = |plant: &&Planted| Configuration::ALL.iter().any(|of| of.system == plant.system);
    if let Some(plant) = plant.filter(|plant| !runs(plant)) {
        return Err(no_cluster(plant));
    }
    let is_meant = |of: &Configuration| plant.is_none_or(|plant| plant.system == of.system);
    let configurations = Configuration::ALL.into_iter().filter(is_meant);
    let tasks = configurations.flat_map(|of| crash_points::tasks(of, plant));
    let tasks: Vec<Task> = share.of(tasks).collect();
    tell(&run_all(&tasks), json)
}

/// Executes one case, and writes its trace if that is wanted.
pub(super) fn run_case(mut case: Case, plant: Option<&Planted>, trace: Option<&Path>, json: bool) -> Outcome {
    if let Some(plant) = plant.filter(|plant| plant.system != case.configuration.system) {
        return Err(no_cluster(plant));
    }
    case.plant = plant.cloned();
    if let Some(reason) = crash_points::misplaced(&case) {
        return Err(Failure::usage(reason));
    }
    let text = trace.map(|_| TraceText::default());
    let report = crash_points::run_case(&case, text.clone());
    if let (Some(path), Some(text)) = (trace, text) {
        let written = File::create(path).and_then(|mut file| file.write_all(text.borrow().as_bytes()));
        written.map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))?;
    }
    tell(&report, json)
}

/// A bug is planted where its system does not run.
fn no_cluster(plant: &Planted) -> Failure {
    let systems: BTreeSet<&str> = Configuration::ALL.iter().map(|of| of.system.name()).collect();
    let systems: Vec<&str> = systems.into_iter().collect();
    Failure::usage(format!(
        "{} is a bug of {}, which runs in no small cluster that is meant; they run {}",
        plant.id,
        plant.system,
        systems.join(", ")
    ))
}

/// Executes tasks on all processors, and reports on them in their order.
fn run_all(tasks: &[Task]) -> CrashPointReport {
    let progress = Progress::bar(tasks.len() as u64);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(tasks.len().max(1));
    let next = AtomicUsize::new(0);
    let (sender, reports) = mpsc::channel::<(usize, TaskReport)>();
    let mut report = CrashPointReport::default();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    // The receiver lives as long as this scope.
                    let _ = sender.send((at, run_task(task)));
                }
            });
        }
        drop(sender);
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for (at, task) in reports {
            waiting.insert(at, task);
            while let Some(in_turn) = waiting.remove(&expected) {
                report.add(tasks[expected].case.configuration, in_turn);
                expected += 1;
                progress.step_to(expected as u64);
                progress.now(format!("{} violations", report.violations.len()));
            }
        }
    });
    report
}

fn tell(report: &CrashPointReport, json: bool) -> Outcome {
    if json {
        print_json(report)?;
    } else {
        outln!("{}", summary(report));
    }
    Ok(Verdict::good_if(report.is_ok()))
}

/// A report for people.
fn summary(report: &CrashPointReport) -> String {
    let mut text = format!(
        "{}\n{} cases, {:.1} simulated hours, trace hash {}; held ms: the longest that a server held a key after the last \
         crash, and the most that is allowed, at a recovery time-out of {} ms",
        table(&report.configurations),
        thousands(report.cases),
        report.simulated_seconds / 3600.0,
        report.trace_hash,
        report.recovery_timeout_ms,
    );
    for violation in report.violations.iter().take(PRINTED_MAX) {
        text.push_str(&format!(
            "\n\n{} violates {}: {}\n  {}\n  {}\n  repeat: quorate {}",
            violation.case,
            violation.invariant,
            violation.anomaly,
            violation.crashes,
            violation.explain.replace('\n', "\n  "),
            violation.repeat
        ));
    }
    let left = report.violations.len().saturating_sub(PRINTED_MAX);
    if left > 0 {
        text.push_str(&format!("\n\nand {} violations more", thousands(left as u64)));
    }
    if report.is_ok() {
        text.push_str("\nno invariant is violated");
    }
    text
}

/// How many cases there were, and how long keys were held at most in each kind.
fn table(configurations: &[ConfigurationReport]) -> Table {
    let mut table = Table::new(&[
        ("configuration", Align::Left),
        ("client crashes", Align::Right),
        ("held ms", Align::Right),
        ("server crashes", Align::Right),
        ("held ms", Align::Right),
        ("client, then backup", Align::Right),
        ("held ms", Align::Right),
        ("what", Align::Left),
    ]);
    let held = |longest: f64, allowed: f64| format!("{longest:.0} of {allowed:.0}");
    for of in configurations {
        table.row([
            of.name.to_owned(),
            thousands(of.client_cases),
            held(of.client_held_max_ms, of.free_within_ms),
            thousands(of.server_cases),
            held(of.server_held_max_ms, of.free_within_ms),
            thousands(of.pair_cases),
            held(of.pair_held_max_ms, of.pair_free_within_ms),
            of.what.to_owned(),
        ]);
    }
    table
}
