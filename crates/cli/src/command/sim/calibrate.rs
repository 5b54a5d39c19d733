//! `quorate sim --calibrate`: what work costs on this machine, and how far off a simulation is.

use quorate_calibrate::{Compared, Report, STEPS, measure, name};
use quorate_simulator::world::costs::Operation;

use crate::exit::{Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::runtime::program;

/// Measures, compares and prints.
pub(super) fn run(json: bool) -> Outcome {
    let progress = Progress::bar(STEPS);
    let tell = |done, what: &str| {
        progress.step_to(done);
        progress.now(what);
    };
    let measurements = measure(&program()?, &tell)?;
    drop(progress);
    let report = measurements.compare();
    if json {
        print_json(&report)?;
    } else {
        outln!("{}", summary(&report));
    }
    Ok(Verdict::good_if(report.compared.iter().all(|compared| compared.real.throughput_tps > 0.0)))
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
