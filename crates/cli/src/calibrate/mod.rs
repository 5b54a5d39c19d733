//! `quorate sim --calibrate`: what work costs on this machine, and whether a simulation with these costs behaves as real
//! servers do.
//!
//! | file | what is measured |
//! |---|---|
//! | [`machines`] | operations, by their keys |
//! | [`transport`] | packets, messages and bytes, over loopback |
//! | [`disk`] | records and syncs |
//! | [`compare`] | the same workload on real servers and in the simulator |
//! | [`fit`] | costs from measurements |

mod compare;
mod disk;
mod fit;
mod machines;
mod transport;

use std::time::Duration;

use quorate::Durability;
use quorate_simulator::world::costs::{Batching, Cost, Costs, Operation, SyncTime};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::runtime::block_on;
use compare::{Compared, Remainder};
use disk::{Disk, Synced};

/// So often the disk is looked at before and after it is used.
const DISK_WINDOWS: usize = 3;

/// What was measured, and what it is worth.
#[derive(Serialize)]
struct Report {
    command: &'static str,
    processor: String,
    cores: usize,
    costs: Costs,
    /// What a sync takes.
    sync: SyncTime,
    /// From one process to another, in microseconds, beside what they do.
    hop_us: f64,
    /// By how much the fits are off, as a share, by what was fitted.
    fit_errors: Vec<FitError>,
    /// How much of the costs only real processes show.
    remainder: Remainder,
    compared: Vec<Compared>,
}

#[derive(Serialize)]
struct FitError {
    what: String,
    /// The median.
    error: f64,
}

/// Measures, compares and prints.
pub(crate) fn run(json: bool) -> Outcome {
    let progress = Progress::bar(3 + compare::CASES.len() as u64);
    progress.now("operations");
    let operations = machines::measure()?;
    progress.step_to(1);
    progress.now("packets, messages and bytes");
    let transport = transport::measure()?;
    progress.step_to(2);
    progress.now("records and syncs");
    let mut disk = Disk::new()?;
    let appended = disk.append()?;
    let mut syncs = Vec::new();
    progress.step_to(3);
    let mut really = Vec::new();
    block_on(async {
        for (done, case) in compare::CASES.into_iter().enumerate() {
            progress.now(format!("{} in flight, {}", case.in_flight, case.durability.name()));
            let is_synced = case.durability == Durability::Sync;
            // The disk before and after, because a disk that others use as well changes from one minute to the next.
            let mut around = Vec::new();
            let mut look = |disk: &mut Disk| {
                for _ in 0..if is_synced { DISK_WINDOWS } else { 0 } {
                    around.push(disk.sync()?);
                }
                Ok::<_, Failure>(())
            };
            look(&mut disk)?;
            let went = compare::really(case).await?;
            look(&mut disk)?;
            really.push((case, Synced::quietest(&around), went));
            syncs.extend(around);
            progress.step_to(4 + done as u64);
        }
        Ok::<_, Failure>(Verdict::Good)
    })?;
    drop((progress, disk));
    let Some(sync) = Synced::quietest(&syncs) else { return Err(Failure::failed("no disk was measured")) };
    let mut costs = Costs {
        batching: Batching::Turns,
        wake_ns: transport.wake_ns,
        read_ns: transport.read_ns,
        write_ns: transport.write_ns,
        received: transport.received,
        sent: transport.sent,
        appended: appended.cost,
        sync_ns: sync.cpu_ns,
        operations: costs_of(&operations),
    };
    let hop = Duration::from_nanos(transport.hop_ns as u64);
    let simulated = |case, synced: Option<Synced>, costs: &Costs| {
        let synced = synced.unwrap_or(sync);
        let costs = Costs { sync_ns: synced.cpu_ns, ..costs.clone() };
        compare::simulated(case, &costs, synced.time, hop)
    };
    let mut remainder = Remainder::default();
    if let Some((case, synced, real)) = really.first() {
        remainder = Remainder::between(real, &simulated(*case, *synced, &costs));
        costs = remainder.added_to(&costs);
    }
    let compared = really.into_iter().enumerate().map(|(place, (case, synced, real))| Compared {
        durability: case.durability.name(),
        in_flight: case.in_flight,
        fitted: place == 0,
        real,
        simulated: simulated(case, synced, &costs),
    });
    let report = Report {
        command: "quorate sim --calibrate",
        processor: processor(),
        cores: compare::cores(),
        compared: compared.collect(),
        costs,
        sync: sync.time,
        hop_us: transport.hop_ns / 1e3,
        fit_errors: fit_errors(&operations, transport.error, appended.error),
        remainder,
    };
    if json {
        print_json(&report)?;
    } else {
        println!("{}", summary(&report));
    }
    Ok(Verdict::good_if(report.compared.iter().all(|compared| compared.real.throughput_tps > 0.0)))
}

/// What each operation costs, in their order; one that was not met costs as much as the cheapest that was.
fn costs_of(operations: &[machines::Measured]) -> [Cost; Operation::ALL.len()] {
    let met = || operations.iter().filter(|measured| measured.samples > 0);
    let cheapest = met().map(|measured| measured.cost.base_ns).fold(f64::INFINITY, f64::min);
    Operation::ALL.map(|operation| {
        let found = met().find(|measured| measured.operation == operation);
        found.map_or(Cost::new(cheapest, 0.0), |measured| measured.cost)
    })
}

fn fit_errors(operations: &[machines::Measured], transport: f64, append: f64) -> Vec<FitError> {
    let measured = operations.iter().filter(|measured| measured.samples > 0);
    let operations = measured.map(|measured| (name(measured.operation), measured.error));
    let others = [("transport", transport), ("append", append)].map(|(what, error)| (what.to_owned(), error));
    operations.chain(others).map(|(what, error)| FitError { what, error }).collect()
}

/// What the processors of this machine call themselves.
fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = known.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or("unknown", |(_, name)| name.trim()).to_owned()
}

fn name(operation: Operation) -> String {
    format!("{operation:?}").to_lowercase()
}

/// A report for people.
fn summary(report: &Report) -> String {
    let Report { command, processor, cores, compared, .. } = report;
    let head = format!("{command}, on {cores} cores of {processor}");
    let others = compared.iter().map(|compared| compared.real.cores_of_others).fold(0.0, f64::max) * 100.0;
    let foot = format!("Others had up to {others:.0} % of the cores meanwhile.");
    format!("{head}\n\n{}\n\n{}\n\n{foot}", costs_table(report), comparison_table(report))
}

fn costs_table(report: &Report) -> Table {
    let Report { costs, sync, .. } = report;
    let mut table = Table::new(&[
        ("cost", Align::Left),
        ("each, ns", Align::Right),
        ("for each", Align::Left),
        ("ns", Align::Right),
        ("fit off by", Align::Right),
    ]);
    let error = |what: &str| {
        let known = report.fit_errors.iter().find(|known| known.what == what);
        known.map_or(String::new(), |known| format!("{:.1} %", known.error * 100.0))
    };
    let mut row = |what: &str, base: f64, each: &str, each_ns: f64, fitted: &str| {
        let each_ns = if each.is_empty() { String::new() } else { format!("{each_ns:.2}") };
        table.row([what.to_owned(), thousands(base.round() as u64), each.to_owned(), each_ns, error(fitted)]);
    };
    row("wake-up", costs.wake_ns, "", 0.0, "transport");
    row("read of a socket", costs.read_ns, "", 0.0, "transport");
    row("write to a socket", costs.write_ns, "", 0.0, "transport");
    row("message received", costs.received.base_ns, "byte", costs.received.each_ns, "transport");
    row("message sent", costs.sent.base_ns, "byte", costs.sent.each_ns, "transport");
    for operation in Operation::ALL {
        let cost = costs.operations[operation as usize];
        row(&name(operation), cost.base_ns, "key", cost.each_ns, &name(operation));
    }
    row("record appended", costs.appended.base_ns, "byte", costs.appended.each_ns, "append");
    row("sync, of processors", costs.sync_ns, "", 0.0, "");
    row("sync, of the disk (median)", sync.median().as_nanos() as f64, "byte", sync.byte_ns, "");
    row("hop between processes", report.hop_us * 1e3, "", 0.0, "");
    row("of command: client library", report.remainder.library_ns, "", 0.0, "");
    row("of what servers do: hosting", report.remainder.hosting_ns, "", 0.0, "");
    table
}

fn comparison_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("rmw", Align::Left),
        ("in flight", Align::Right),
        ("", Align::Left),
        ("measured", Align::Right),
        ("predicted", Align::Right),
        ("off by", Align::Right),
        ("", Align::Left),
    ]);
    for Compared { durability, in_flight, fitted, real, simulated } in &report.compared {
        let mut row = |what: &str, fitted: bool, real: f64, simulated: f64| {
            let off = if real == 0.0 { 0.0 } else { (simulated / real - 1.0) * 100.0 };
            table.row([
                (*durability).to_owned(),
                in_flight.to_string(),
                what.to_owned(),
                format!("{real:.1}"),
                format!("{simulated:.1}"),
                format!("{off:+.0} %"),
                if fitted { "fitted" } else { "" }.to_owned(),
            ]);
        };
        row("transactions/s", false, real.throughput_tps, simulated.throughput_tps);
        row("latency p50, µs", false, real.p50_us, simulated.p50_us);
        row("latency p99, µs", false, real.p99_us, simulated.p99_us);
        row("CPU of servers, µs/txn", *fitted, real.server_cpu_us_per_txn, simulated.server_cpu_us_per_txn);
        row(
            "CPU of the client, µs/txn",
            *fitted,
            real.client_cpu_us_per_txn,
            simulated.client_cpu_us_per_txn,
        );
        row("messages per write", false, real.messages_per_write, simulated.messages_per_write);
        row("of the cores, %", false, real.cores_used * 100.0, simulated.cores_used * 100.0);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_was_not_met_costs_as_much_as_the_cheapest_that_was() {
        let measured = |operation, base_ns, samples| machines::Measured {
            operation,
            cost: Cost::new(base_ns, 1.0),
            error: 0.0,
            samples,
        };
        let costs = costs_of(&[
            measured(Operation::Control, 0.0, 0),
            measured(Operation::Prepare, 900.0, 64),
            measured(Operation::Reply, 500.0, 64),
        ]);
        assert_eq!(costs[Operation::Prepare as usize], Cost::new(900.0, 1.0));
        for unmet in [Operation::Control, Operation::Commit] {
            assert_eq!(costs[unmet as usize], Cost::new(500.0, 0.0));
        }
    }
}
