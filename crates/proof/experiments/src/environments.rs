//! `tapir-fig6`: how long a read-modify-write takes in a cluster, in a data centre and over three regions (TAPIR paper,
//! section 7.3).
//!
//! One shard and one client, whose nearest replica does not lead. The cost of work was measured on a real server.

use std::time::Duration;

use quorate_simulator::system::strict::Strict;
use quorate_workloads::{Parameters, WorkloadKind};

use crate::catalogue::{Experiment, Settings};
use crate::contender::{Batches, Contender, ratio};
use crate::deployment::{Clocks, Deployment, zones};
use crate::load::{Measured, Window};
use crate::report::{Found, Headline, Row, Runs, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-fig6",
    what: "Latency of a read-modify-write in a cluster, a data centre and over three regions",
    x: None,
    run: experiment,
};

const KEYS: u64 = 1_000_000;
/// Where the client is: the leader is in the first region.
const ASIA: usize = 2;

/// Where everything stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    Cluster,
    Datacentre,
    Wide,
}

impl Environment {
    const ALL: [Environment; 3] = [Environment::Cluster, Environment::Datacentre, Environment::Wide];

    fn name(self) -> &'static str {
        match self {
            Environment::Cluster => "cluster",
            Environment::Datacentre => "data centre",
            Environment::Wide => "three regions",
        }
    }

    /// The distances and clocks of the paper, and a client in Asia.
    fn deployment(self) -> Deployment<Strict> {
        let workload = Parameters { keys: KEYS, value_bytes_min: 0, ..Parameters::new(WorkloadKind::Rmw) };
        let costs = Some(Batches::Nothing.costs());
        let wide = Deployment { clients: 3, region: Some(ASIA), costs, ..Deployment::new(workload) };
        let near = |round_trip: u64, apart_micros: f64| Deployment {
            round_trips: zones(Duration::from_micros(round_trip)),
            clocks: Clocks::apart(apart_micros),
            ..wide.clone()
        };
        match self {
            Environment::Cluster => near(150, 6.0),
            Environment::Datacentre => near(1_000, 300.0),
            Environment::Wide => wide,
        }
    }

    fn window(self, quick: bool) -> Window {
        let (warm_up, measured) = match self {
            Environment::Wide => (5_000, if quick { 10_000 } else { 60_000 }),
            // Logs have their first leaders after a second and more.
            _ => (2_000, if quick { 500 } else { 2_000 }),
        };
        Window::millis(warm_up, measured)
    }
}

/// The parts of a transaction. The quorum store writes where the others commit.
fn rows(contender: Contender, environment: Environment, place: usize, runs: &Runs) -> [Row; 3] {
    let row = |part: &str, of: fn(&Measured, f64) -> f64| {
        let row = runs.row(part, place as f64, "ms", |run| of(run, 0.5));
        row.in_panel(environment.name()).at(contender.to_string())
    };
    [
        row("read", Measured::read_latency_ms),
        row("commit or write", Measured::commit_latency_ms),
        row("all", Measured::latency_ms),
    ]
}

/// Why the ratio over three regions is what it is, in a sentence.
fn arithmetic() -> String {
    let [read, leader, backup, farthest] = [10.8, 166.5, 111.0, 262.0];
    format!(
        "From Asia the best rival reads next door ({read} ms), asks the leader ({leader} ms), and that its nearest backup ({backup} ms); TAPIR reads next door and asks all ({farthest} ms): \
         ({read} + {farthest}) ÷ ({read} + {leader} + {backup}) = {:.2}.",
        (read + farthest) / (read + leader + backup)
    )
}

/// Runs it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let (mut found, mut ratios) = (Vec::new(), Vec::new());
    for environment in Environment::ALL {
        let mut totals = Vec::new();
        for (place, contender) in Contender::all().enumerate() {
            settings.say(&format!("{contender}, {}", environment.name()));
            let (deployment, window) = (environment.deployment(), environment.window(settings.quick));
            let runs = settings.measure(|seed| contender.run(&deployment, Batches::Nothing, seed, window));
            found.extend(rows(contender, environment, place, &runs));
            totals.push((contender, runs.mean(|run| run.latency_ms(0.5))));
        }
        let store = totals.iter().find(|(contender, _)| *contender == Contender::QuorumStore);
        let tapir = totals.iter().find(|(contender, _)| *contender == Contender::Tapir);
        if let (Some((_, tapir)), Some((_, store))) = (tapir, store) {
            // "At the same cost" in a cluster, and "matches" it elsewhere.
            let row = Row::exact("TAPIR ÷ qwstore, all", environment as usize as f64, "×", tapir / store);
            found.push(Row { paper: Some(1.0), ..row.at(environment.name()) });
        }
        ratios.push(ratio(totals, f64::min));
    }
    let headline = Headline {
        what: "latency over three regions, client in Asia, TAPIR ÷ the best system with leaders".to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(ratios[Environment::Wide as usize]),
        unit: "×".into(),
    };
    let ratios = Environment::ALL.iter().zip(&ratios);
    let ratios: Vec<String> =
        ratios.map(|(environment, ratio)| format!("{:.2} ({})", Shown(*ratio), environment.name())).collect();
    let deviations = vec![
        "The paper prints a chart without numbers; it says that TAPIR takes as long as the store without transactions (the ratio, by environment).".to_owned(),
        arithmetic(),
        format!("Writes are buffered and take no time, but in {}, which has no commit instead.", Contender::QuorumStore),
        format!("TAPIR ÷ the best system with leaders: {}.", ratios.join(", ")),
        "The rivals tell the client as soon as all participants have prepared durably: one round trip to the leader, and one \
         from it to the nearest backup."
            .to_owned(),
    ];
    Found { headline, rows: found, deviations, bounds: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_baselines::System;

    /// Logs need a leader before they commit anything.
    #[test]
    fn a_quick_run_measures_every_system() {
        for environment in [Environment::Cluster, Environment::Datacentre] {
            for contender in Contender::all() {
                let (deployment, window) = (environment.deployment(), environment.window(true));
                let run = contender.run(&deployment, Batches::Nothing, 1, window);
                assert!(run.latency_ms(0.5).is_finite(), "{contender}, {environment:?}");
            }
        }
    }

    /// In a cluster the work counts as well; it is what all of them have to do for one transaction at a time.
    #[test]
    fn each_system_takes_its_round_trips() {
        let window = Window::millis(2_000, 4_000);
        let measured = |contender: Contender, environment: Environment| {
            let run = contender.run(&environment.deployment(), Batches::Nothing, 1, window);
            (run.read_latency_ms(0.5), run.commit_latency_ms(0.5))
        };
        let about = |measured: f64, expected: f64| (measured / expected - 1.0).abs() < 0.08;
        let tapir = measured(Contender::Tapir, Environment::Wide);
        assert!(about(tapir.0, 10.8) && about(tapir.1, 262.0), "{tapir:?}");
        let locks = measured(Contender::OnLog(System::TxnLock), Environment::Wide);
        assert!(about(locks.0, 166.5) && about(locks.1, 277.5), "{locks:?}");
        let store = measured(Contender::QuorumStore, Environment::Wide);
        assert!(about(store.0, 10.8) && about(store.1, 262.0), "{store:?}");
        let near = measured(Contender::Tapir, Environment::Cluster);
        let far = measured(Contender::OnLog(System::TxnOcc), Environment::Cluster);
        assert!(near.1 < 0.5 * far.1, "one round trip, and three: {near:?} {far:?}");
    }
}
