//! `tapir-fig10`: how long a transaction takes over three regions, by where its client is (TAPIR paper, section 7.4.2).
//!
//! Retwis' FollowUser, two reads and two writes, over five shards with a replica in each region. The systems with leaders have
//! all of them in the United States; the clients are in one region at a time. Processors and disks take no time here: over such
//! distances only round trips count.

use std::time::Duration;

use quorate_workloads::{Parameters, WorkloadKind};

use crate::catalogue::Settings;
use crate::contender::{Batches, Contender};
use crate::deployment::Deployment;
use crate::load::{Measured, Window};
use crate::report::{Headline, Report, Row};

/// Its name.
pub const NAME: &str = "tapir-fig10";

/// What it shows.
pub const WHAT: &str =
    "Latency of FollowUser over three regions with all leaders in the US, by the region of the client";

const REGIONS: [&str; 3] = ["US", "Europe", "Asia"];
const SHARDS: usize = 5;
const CLIENTS: usize = 30;

/// What was measured of one system in one region.
struct Point {
    contender: Contender,
    region: usize,
    runs: Vec<Measured>,
}

impl Point {
    fn samples(&self, of: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.runs.iter().map(of).collect()
    }

    fn commit_ms(&self) -> f64 {
        let samples = self.samples(|run| run.commit_latency_ms(0.5));
        samples.iter().sum::<f64>() / samples.len() as f64
    }

    fn rows(&self) -> [Row; 3] {
        let row = |what: &str, samples: Vec<f64>| {
            Row::new(format!("{}, {what}", self.contender), self.region as f64, "ms", &samples)
        };
        [
            row("transaction", self.samples(|run| run.latency_ms(0.5))),
            row("commit", self.samples(|run| run.commit_latency_ms(0.5))),
            row("99th percentile", self.samples(|run| run.latency_ms(0.99))),
        ]
    }
}

/// Runs it.
pub fn experiment(settings: &mut Settings<'_>) -> Report {
    let mut points = Vec::new();
    for (region, name) in REGIONS.into_iter().enumerate() {
        for contender in Contender::all() {
            settings.say(&format!("{contender}, clients in {name}"));
            let runs = measure(contender, region, settings);
            points.push(Point { contender, region, runs });
        }
    }
    let ratio = |region: usize| {
        let here = || points.iter().filter(|point| point.region == region);
        let tapir =
            here().filter(|point| point.contender == Contender::Tapir).map(Point::commit_ms).sum::<f64>();
        let rivals = here().filter(|point| point.contender.has_leaders()).map(Point::commit_ms);
        tapir / rivals.fold(f64::INFINITY, f64::min)
    };
    let ratios: Vec<f64> = (0..REGIONS.len()).map(ratio).collect();
    let headline = Headline {
        what: "commit latency, client in Asia, TAPIR ÷ the best system with leaders".to_owned(),
        paper: None,
        ours: ratios[2],
        unit: "×",
    };
    let deviations = deviations(&ratios);
    let rows = points.iter().flat_map(Point::rows).collect();
    Report { name: NAME, what: WHAT, headline, rows, deviations, seed: settings.first_seed() }
}

fn workload() -> Parameters {
    Parameters { value_bytes_min: 0, ..Parameters::new(WorkloadKind::Retwis) }
}

fn measure(contender: Contender, region: usize, settings: &Settings<'_>) -> Vec<Measured> {
    let seconds = if settings.quick { 10 } else { 60 };
    let window = Window { warm_up: Duration::from_secs(5), measured: Duration::from_secs(seconds) };
    let (region, kind) = (Some(region), Some("follow"));
    let deployment =
        Deployment { shards: SHARDS, clients: CLIENTS, region, kind, ..Deployment::new(workload()) };
    settings.seeds().map(|seed| contender.run(&deployment, Batches::Everything, seed, window)).collect()
}

fn deviations(ratios: &[f64]) -> Vec<String> {
    let ratios: Vec<String> =
        REGIONS.iter().zip(ratios).map(|(region, ratio)| format!("{ratio:.2} ({region})")).collect();
    vec![
        "The paper prints a chart without numbers.".to_owned(),
        "The x axis counts regions: 0 is the United States, 1 Europe, 2 Asia.".to_owned(),
        format!(
            "Commit latency of TAPIR ÷ that of the best system with leaders: {}. The rivals tell the client as soon as all \
             participants have prepared durably, because the outcome follows from that: one round trip to the leaders, and \
             one from them to the nearest backup.",
            ratios.join(", ")
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_baselines::System;

    const WINDOW: Window = Window { warm_up: Duration::from_secs(3), measured: Duration::from_secs(3) };

    fn commit_ms(contender: Contender, region: usize) -> f64 {
        let (region, kind) = (Some(region), Some("follow"));
        let deployment = Deployment { shards: 2, clients: 9, region, kind, ..Deployment::new(workload()) };
        contender.run(&deployment, Batches::Everything, 1, WINDOW).commit_latency_ms(0.5)
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
