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

use quorate_simulator::world::costs::{Batching, Cost, Costs, Operation, SyncTime};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::runtime::block_on;
use compare::Compared;

/// What was measured, and what it is worth.
#[derive(Serialize)]
struct Report {
    command: &'static str,
    cores: usize,
    costs: Costs,
    /// What a sync takes.
    sync: SyncTime,
    /// From one process to another, in microseconds, beside what they do.
    hop_us: f64,
    /// By how much the fits are off, as a share, by what was fitted.
    fit_errors: Vec<FitError>,
    /// How much of the cost of a command is the client library around the coordinator, which only a real client shows.
    library_ns_per_command: f64,
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
    let progress = Progress::bar(3 + compare::IN_FLIGHT.len() as u64);
    progress.now("operations");
    let operations = machines::measure();
    progress.step_to(1);
    progress.now("packets, messages and bytes");
    let transport = transport::measure()?;
    progress.step_to(2);
    progress.now("records and syncs");
    let disk = disk::measure()?;
    progress.step_to(3);
    let mut fit_errors: Vec<FitError> = operations
        .iter()
        .filter(|measured| measured.samples > 0)
        .map(|measured| FitError { what: name(measured.operation), error: measured.error })
        .collect();
    fit_errors.push(FitError { what: "transport".to_owned(), error: transport.error });
    fit_errors.push(FitError { what: "append".to_owned(), error: disk.appended_error });
    fit_errors.push(FitError { what: "sync".to_owned(), error: disk.sync_error });
    let mut costs = Costs {
        batching: Batching::Turns,
        read_ns: transport.read_ns,
        write_ns: transport.write_ns,
        received: transport.received,
        sent: transport.sent,
        appended: disk.appended,
        operations: Operation::ALL.map(|operation| {
            let found = operations.iter().find(|measured| measured.operation == operation);
            found.map_or(Cost::default(), |measured| measured.cost)
        }),
    };
    let hop = Duration::from_nanos(transport.hop_ns as u64);
    let mut library_ns_per_command = 0.0;
    let mut compared = Vec::new();
    block_on(async {
        let mut real = Vec::new();
        for (done, in_flight) in compare::IN_FLIGHT.into_iter().enumerate() {
            progress.now(format!("{in_flight} in flight"));
            real.push((in_flight, compare::really(in_flight).await?));
            progress.step_to(4 + done as u64);
        }
        if let Some((most, went)) = real.last() {
            let before = costs.operations[Operation::Command as usize].base_ns;
            costs = compare::with_library(&costs, went, &compare::simulated(*most, &costs, hop));
            library_ns_per_command = costs.operations[Operation::Command as usize].base_ns - before;
        }
        compared = real
            .into_iter()
            .map(|(in_flight, real)| Compared {
                in_flight,
                real,
                simulated: compare::simulated(in_flight, &costs, hop),
            })
            .collect();
        Ok::<_, Failure>(Verdict::Good)
    })?;
    drop(progress);
    let report = Report {
        command: "quorate sim --calibrate",
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        costs,
        sync: disk.sync,
        hop_us: transport.hop_ns / 1e3,
        fit_errors,
        library_ns_per_command,
        compared,
    };
    if json {
        print_json(&report)?;
    } else {
        println!("{}", summary(&report));
    }
    Ok(Verdict::good_if(report.compared.iter().all(|compared| compared.real.throughput_tps > 0.0)))
}

fn name(operation: Operation) -> String {
    format!("{operation:?}").to_lowercase()
}

/// A report for people.
fn summary(report: &Report) -> String {
    format!("{}\n\n{}", costs_table(report), comparison_table(report))
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
    row("read of a socket", costs.read_ns, "", 0.0, "transport");
    row("write to a socket", costs.write_ns, "", 0.0, "transport");
    row("message received", costs.received.base_ns, "byte", costs.received.each_ns, "transport");
    row("message sent", costs.sent.base_ns, "byte", costs.sent.each_ns, "transport");
    for operation in Operation::ALL {
        let cost = costs.operations[operation as usize];
        row(&name(operation), cost.base_ns, "key", cost.each_ns, &name(operation));
    }
    row("record appended", costs.appended.base_ns, "byte", costs.appended.each_ns, "append");
    let middle = (sync.low + sync.high) / 2;
    row("sync", middle.as_nanos() as f64, "byte", sync.byte_ns, "sync");
    row("hop between processes", report.hop_us * 1e3, "", 0.0, "");
    row("client library (in command)", report.library_ns_per_command, "", 0.0, "");
    table
}

fn comparison_table(report: &Report) -> Table {
    let mut table = Table::new(&[
        ("rmw, memory", Align::Left),
        ("in flight", Align::Right),
        ("real", Align::Right),
        ("simulated", Align::Right),
        ("off by", Align::Right),
    ]);
    for Compared { in_flight, real, simulated } in &report.compared {
        let mut row = |what: &str, real: f64, simulated: f64| {
            let off = if real == 0.0 {
                String::new()
            } else {
                format!("{:+.0} %", (simulated / real - 1.0) * 100.0)
            };
            table.row([
                what.to_owned(),
                in_flight.to_string(),
                format!("{real:.1}"),
                format!("{simulated:.1}"),
                off,
            ]);
        };
        row("transactions/s", real.throughput_tps, simulated.throughput_tps);
        let per_cpu = |went: &compare::Went| 1e6 / (went.server_cpu_us_per_txn + went.client_cpu_us_per_txn);
        row("transactions per CPU second", per_cpu(real), per_cpu(simulated));
        row("latency p50, µs", real.p50_us, simulated.p50_us);
        row("latency p99, µs", real.p99_us, simulated.p99_us);
        row("CPU of servers, µs/txn", real.server_cpu_us_per_txn, simulated.server_cpu_us_per_txn);
        row("CPU of the client, µs/txn", real.client_cpu_us_per_txn, simulated.client_cpu_us_per_txn);
        row("of the cores, %", real.cores_used * 100.0, simulated.cores_used * 100.0);
    }
    table
}
