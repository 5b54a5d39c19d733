//! `quorate bench --tls-cost`: what TLS costs, by the same benchmark in plain text and with TLS, in turns.
//!
//! Each run is a process of its own, with servers of its own, so that nothing is warm for one of them only; and the machine, which others may use, is the same
//! for both within a minute.

use std::ffi::OsString;
use std::process::Command;

use serde::Serialize;
use serde_json::Value;

use super::round;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json};
use crate::runtime::program;

/// The cost of one run for each transaction.
#[derive(Clone, Copy, Debug, Serialize)]
struct Cost {
    server_cpu_us_per_txn: f64,
    client_cpu_us_per_txn: f64,
    committed_tps: f64,
}

#[derive(Debug, Serialize)]
struct Comparison {
    plain: Vec<Cost>,
    tls: Vec<Cost>,
    /// The median of both sides together with TLS over that in plain text, less one, in percent.
    extra_cpu_percent: f64,
}

/// Runs the benchmark of this command line so many times each way.
pub(super) fn run(rounds: u64, json: bool) -> Outcome {
    let words = words(std::env::args_os().skip(1));
    let (mut plain, mut tls) = (Vec::new(), Vec::new());
    for number in 0..rounds {
        // The one that comes first changes, too.
        for is_secured in [number % 2 == 1, number % 2 == 0] {
            let cost = measure(&words, is_secured)?;
            errln!(
                "{}: {:.2} µs/txn of servers, {:.2} of the client, {:.0} txn/s",
                if is_secured { "tls  " } else { "plain" },
                cost.server_cpu_us_per_txn,
                cost.client_cpu_us_per_txn,
                cost.committed_tps
            );
            if is_secured { &mut tls } else { &mut plain }.push(cost);
        }
    }
    let both = |cost: &Cost| cost.server_cpu_us_per_txn + cost.client_cpu_us_per_txn;
    let extra_cpu_percent = round((median(&tls, both) / median(&plain, both) - 1.0) * 100.0, 1);
    if json {
        print_json(&Comparison { plain, tls, extra_cpu_percent })?;
        return Ok(Verdict::Good);
    }
    let mut table = Table::new(&[("median", Align::Left), ("plain", Align::Right), ("tls", Align::Right)]);
    let mut row = |name: &str, take: fn(&Cost) -> f64| {
        table.row([
            name.to_owned(),
            format!("{:.2}", median(&plain, take)),
            format!("{:.2}", median(&tls, take)),
        ]);
    };
    row("CPU of servers, µs/txn", |cost| cost.server_cpu_us_per_txn);
    row("CPU of the client, µs/txn", |cost| cost.client_cpu_us_per_txn);
    row("committed, txn/s", |cost| cost.committed_tps);
    outln!(
        "{table}\n\n  TLS takes {extra_cpu_percent:+.1} % of the processor for a transaction, servers and client together"
    );
    Ok(Verdict::Good)
}

/// The command line without what makes it this comparison.
fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut kept = Vec::new();
    let mut is_value = false;
    for word in given {
        let text = word.to_string_lossy();
        let is_dropped = is_value || text == "--json" || text.starts_with("--tls-cost");
        is_value = !is_value && text == "--tls-cost";
        if !is_dropped {
            kept.push(word);
        }
    }
    kept
}

fn measure(words: &[OsString], is_secured: bool) -> Result<Cost, Failure> {
    let mut command = Command::new(program()?);
    command.args(words).arg("--json").args(is_secured.then_some("--tls"));
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().map_err(Failure::failed)?;
    let failed = || Failure::failed("a run of the benchmark has failed");
    if !output.status.success() {
        return Err(failed());
    }
    let report: Value = serde_json::from_slice(&output.stdout).map_err(Failure::failed)?;
    let number = |name: &str| {
        let missing =
            || Failure::usage(format!("the report of this workload has no {name}: compare another one"));
        report.get(name).and_then(Value::as_f64).ok_or_else(missing)
    };
    Ok(Cost {
        server_cpu_us_per_txn: number("server_cpu_us_per_txn")?,
        client_cpu_us_per_txn: number("client_cpu_us_per_txn")?,
        committed_tps: number("throughput_tps")?,
    })
}

fn median(costs: &[Cost], take: impl Fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(take).collect();
    values.sort_unstable_by(f64::total_cmp);
    let (lower, upper) = (values.get(values.len().saturating_sub(1) / 2), values.get(values.len() / 2));
    (lower.copied().unwrap_or_default() + upper.copied().unwrap_or_default()) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_have_the_command_line_without_what_compares_them() {
        for given in [
            &["bench", "rmw", "--tls-cost", "5", "--clients", "256", "--json"][..],
            &["bench", "--tls-cost=5", "rmw", "--json", "--clients", "256"],
        ] {
            let kept = words(given.iter().map(OsString::from));
            assert_eq!(kept, ["bench", "rmw", "--clients", "256"]);
        }
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_the_middle_ones() {
        let cost = |server_cpu_us_per_txn| Cost {
            server_cpu_us_per_txn,
            client_cpu_us_per_txn: 0.0,
            committed_tps: 0.0,
        };
        let of = |values: &[f64]| {
            let costs: Vec<Cost> = values.iter().copied().map(cost).collect();
            median(&costs, |cost| cost.server_cpu_us_per_txn)
        };
        assert_eq!(of(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
