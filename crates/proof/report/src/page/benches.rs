//! Benches on server processes: those that differ in the system alone stand side by side.

use maud::{Markup, html};

use super::{command, number};
use crate::read::{Bench, Found, Results};

/// The options of `quorate bench` that name the system; all others are the measurement.
const OPTIONS_OF_SYSTEMS: [&str; 4] = ["--isolation", "--baseline", "--variant", "--log"];

/// Benches of one measurement on several systems.
struct Comparison<'a> {
    measurement: String,
    benches: Vec<&'a Found<Bench>>,
}

/// All benches.
pub(super) fn section(results: &Results) -> Markup {
    html! {
        section id="benches" {
            h2 { "Benches" }
            @if results.benches.is_empty() {
                p class="missing" { "None among these results. To measure one:" }
                (command("quorate bench rmw --embedded --json > results/rmw-strict.json"))
            } @else {
                p {
                    "Server processes on one machine, and the client beside them. Systems of one table were measured by the same command but for the system. The ratio is to the \
                     fastest comparison system of the table."
                }
                @for comparison in comparisons(&results.benches) { (table(&comparison)) }
            }
        }
    }
}

/// Benches by their measurement, in the order in which the first of each was found; in each the fastest system first.
fn comparisons(benches: &[Found<Bench>]) -> Vec<Comparison<'_>> {
    let mut comparisons: Vec<Comparison<'_>> = Vec::new();
    for bench in benches {
        let measurement = measurement(&bench.result);
        match comparisons.iter_mut().find(|known| known.measurement == measurement) {
            Some(known) => known.benches.push(bench),
            None => comparisons.push(Comparison { measurement, benches: vec![bench] }),
        }
    }
    for comparison in &mut comparisons {
        let by_speed = |one: &&Found<Bench>, other: &&Found<Bench>| {
            other.result.throughput_tps.total_cmp(&one.result.throughput_tps)
        };
        comparison.benches.sort_by(by_speed);
    }
    comparisons
}

/// The measurement, whatever the system: the command without the options that name one, or the fields that stand for it in results of an earlier version.
fn measurement(bench: &Bench) -> String {
    let Some(command) = &bench.command else {
        let Bench { workload, clients, shards, replicas, durability, .. } = bench;
        return format!("{workload}, {clients} in flight, {shards} × {replicas} replicas, {durability}");
    };
    let mut kept = Vec::new();
    let mut words = command.split(' ');
    while let Some(word) = words.next() {
        let name = word.split('=').next().unwrap_or_default();
        match OPTIONS_OF_SYSTEMS.contains(&name) {
            // Its value is the next word, or stands behind the sign.
            true if word == name => drop(words.next()),
            true => {}
            false if word == "--json" => {}
            false => kept.push(word),
        }
    }
    kept.join(" ")
}

fn table(comparison: &Comparison<'_>) -> Markup {
    let rival = comparison.benches.iter().filter(|bench| bench.result.baseline.is_some());
    let rival = rival.map(|bench| bench.result.throughput_tps).fold(0.0, f64::max);
    let fastest = comparison.benches.iter().map(|bench| bench.result.throughput_tps).fold(0.0, f64::max);
    html! {
        article {
            h3 { (comparison.measurement) }
            div class="wide" { table {
                thead { tr {
                    th { "System" } th { "Commits a second" } th class="number" { "Ratio" }
                    th class="number" { "p50" } th class="number" { "p99" } th class="number" { "Aborted" }
                    th class="number" { "Servers, CPU" } th class="number" { "Client, CPU" } th class="number" { "Messages" }
                } }
                tbody { @for bench in &comparison.benches { (row(&bench.result, rival, fastest)) } }
            } }
            details {
                summary { "Commands" }
                @for bench in &comparison.benches {
                    @if let Some(text) = &bench.result.command { (command(text)) }
                    p class="quiet" { code { (bench.path.display()) } }
                }
            }
        }
    }
}

fn row(bench: &Bench, rival: f64, fastest: f64) -> Markup {
    let micros = |micros: Option<f64>| match micros {
        None => "–".to_owned(),
        Some(micros) if micros >= 1_000.0 => format!("{} ms", number(micros / 1_000.0)),
        Some(micros) => format!("{} µs", number(micros)),
    };
    let width = 100.0 * bench.throughput_tps / fastest.max(f64::MIN_POSITIVE);
    html! {
        tr {
            td class=(if bench.baseline.is_some() { "rival" } else { "ours" }) {
                (bench.system())
                @if bench.breaches > 0 { " " span class="unmet" { (bench.breaches) " breaches" } }
            }
            td class="bar" {
                span class="amount" style=(format!("--width:{width:.1}%")) { (number(bench.throughput_tps)) }
            }
            td class="number" {
                @if rival > 0.0 { (number(bench.throughput_tps / rival)) "×" } @else { "–" }
            }
            td class="number" { (micros(bench.latency_us.p50)) }
            td class="number" { (micros(bench.latency_us.p99)) }
            td class="number" { (number(bench.abort_rate * 100.0)) " %" }
            td class="number" { (micros(bench.server_cpu_us_per_txn)) }
            td class="number" { (micros(bench.client_cpu_us_per_txn)) }
            td class="number" { (bench.messages_per_txn.map_or("–".to_owned(), number)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(command: &str) -> Bench {
        let json = serde_json::json!({
            "workload": "rmw", "clients": 64, "seconds": 1.0, "committed": 1, "abort_rate": 0.0, "throughput_tps": 1.0,
            "latency_us": {"p50": 1.0, "p99": 1.0, "p999": null}, "durability": "sync", "shards": 1, "replicas": 3,
            "command": command,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn the_system_is_no_part_of_the_measurement() {
        let plain = measurement(&bench("quorate bench rmw --embedded --clients 64"));
        for of_system in
            ["--isolation strict", "--baseline=qwstore", "--baseline oced --log in_flight_max=2", "--json"]
        {
            let command = format!("quorate bench rmw {of_system} --embedded --clients 64");
            assert_eq!(measurement(&bench(&command)), plain);
        }
        assert_ne!(measurement(&bench("quorate bench rmw --embedded --clients 65")), plain);
        let earlier = Bench { command: None, ..bench("") };
        assert_eq!(measurement(&earlier), "rmw, 64 in flight, 1 × 3 replicas, sync");
    }
}
