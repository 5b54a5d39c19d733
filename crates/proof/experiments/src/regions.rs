//! `tapir-fig10`: how long a transaction takes over three regions, by where its client is (TAPIR paper, section 7.4.2).
//!
//! Retwis' FollowUser, two reads and two writes, over five shards with a replica in each region. The systems with leaders have
//! all of them in the United States; the clients are in one region at a time. Processors and disks take no time here: over such
//! distances only round trips count.

use quorate_simulator::system::strict::Strict;
use quorate_workloads::{Parameters, WorkloadKind};

use crate::catalogue::{Experiment, Settings};
use crate::contender::{Batches, Contender, ratio};
use crate::deployment::Deployment;
use crate::load::{Measured, Window};
use crate::report::{Found, Headline, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-fig10",
    what: "Latency of FollowUser over three regions with all leaders in the US, by the region of the client",
    x: None,
    run: experiment,
};

const REGIONS: [&str; 3] = ["US", "Europe", "Asia"];
const SHARDS: usize = 5;
const CLIENTS: usize = 30;

/// Measures it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let window = Window::millis(5_000, if settings.quick { 10_000 } else { 60_000 });
    let (mut rows, mut ratios) = (Vec::new(), Vec::new());
    for (region, name) in REGIONS.into_iter().enumerate() {
        let deployment = deployment(SHARDS, CLIENTS, region);
        let mut commits = Vec::new();
        for contender in Contender::all() {
            settings.say(&format!("{contender}, clients in {name}"));
            let one = |seed| contender.run(&deployment, Batches::Everything, seed, window);
            let runs = settings.measure(one);
            let mut row = |panel: &'static str, of: fn(&Measured, f64) -> f64, share: f64| {
                let row = runs.row(contender.to_string(), region as f64, "ms", |run| of(run, share));
                rows.push(row.in_panel(panel).at(name));
            };
            row("transaction", Measured::latency_ms, 0.5);
            row("commit", Measured::commit_latency_ms, 0.5);
            row("transaction, 99th percentile", Measured::latency_ms, 0.99);
            commits.push((contender, runs.mean(|run| run.commit_latency_ms(0.5))));
        }
        ratios.push(ratio(commits, f64::min));
    }
    let headline = Headline {
        what: "commit latency, client in Asia, TAPIR ÷ the best system with leaders".to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(ratios[2]),
        unit: "×".into(),
    };
    let ratios: Vec<String> = REGIONS
        .iter()
        .zip(&ratios)
        .map(|(region, ratio)| format!("{:.2} ({region})", Shown(*ratio)))
        .collect();
    let deviations = vec![
        "The paper prints a chart without numbers.".to_owned(),
        format!(
            "Commit latency of TAPIR ÷ that of the best system with leaders: {}. The rivals tell the client as soon as all \
             participants have prepared durably, because the outcome follows from that: one round trip to the leaders, and \
             one from them to the nearest backup.",
            ratios.join(", ")
        ),
        arithmetic(),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Round trips in milliseconds, as far as a commit takes them: from each region to the leaders in the US, and to the farther of the other two.
const TO_LEADER: [f64; 3] = [0.0, 111.0, 166.5];
const TO_FARTHEST: [f64; 3] = [166.5, 262.0, 262.0];
/// From the leaders to the nearest backup.
const TO_BACKUP: f64 = 111.0;

/// Why commit latencies are what they are, in a sentence.
fn arithmetic() -> String {
    // To the nearest other region twice, where that is sooner than to the farthest once: the slow path.
    let to_nearest = [111.0, 111.0, 166.5];
    let ratios = REGIONS.iter().enumerate().map(|(region, name)| {
        let tapir = f64::min(TO_FARTHEST[region], 2.0 * to_nearest[region]);
        let rival = TO_LEADER[region] + TO_BACKUP;
        format!("{tapir} ÷ {rival} = {:.2} ({name})", tapir / rival)
    });
    format!(
        "By round trips alone, in milliseconds, TAPIR's to the farthest replica, or two to the nearest majority if these are sooner, ÷ a rival's to the leader and from there to the nearest \
         backup: {}.",
        ratios.collect::<Vec<_>>().join(", ")
    )
}

fn deployment(shards: usize, clients: usize, region: usize) -> Deployment<Strict> {
    let workload = Parameters { value_bytes_min: 0, ..Parameters::new(WorkloadKind::Retwis) };
    let mut deployment = Deployment { shards, clients, region: Some(region), ..Deployment::new(workload) };
    deployment.work.kind = Some("follow");
    deployment
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_baselines::System;

    const WINDOW: Window = Window::millis(3_000, 3_000);

    fn commit_ms(contender: Contender, region: usize) -> f64 {
        contender.run(&deployment(2, 9, region), Batches::Everything, 1, WINDOW).commit_latency_ms(0.5)
    }

    /// Nothing but distances counts, so what it must take can be told beforehand.
    #[test]
    fn a_commit_takes_the_round_trips_that_a_system_needs() {
        let about = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 0.06;
        for (region, tapir, leaders) in [(0, 166.5, 111.0), (1, 222.0, 222.0), (2, 262.0, 277.5)] {
            let measured = commit_ms(Contender::Tapir, region);
            assert!(about(measured, tapir), "TAPIR from {region}: {measured} ms");
            let measured = commit_ms(Contender::OnLog(System::SpanOcc), region);
            assert!(about(measured, leaders), "span-occ from {region}: {measured} ms");
            // The timestamp server is led in the US as well.
            let more = [1.2, 111.0, 166.5][region];
            let measured = commit_ms(Contender::OnLog(System::TxnOcc), region);
            assert!(about(measured, leaders + more), "txn-occ from {region}: {measured} ms");
        }
    }
}
