//! `tapir-rivals`: whether the systems that TAPIR is compared with are set up as well as they can be.
//!
//! The messages of their logs could be set otherwise: how many are on their way to a backup before
//! entries are held back, to go together, and how much goes into one. Each is varied, and the throughput at which servers are
//! busy is compared with that of the settings that all other experiments use.

use quorate_baselines::System;
use quorate_log::Limits;

use crate::catalogue::{Experiment, Settings};
use crate::contender::{Batches, run_on_log};
use crate::datacentre::Bench;
use crate::deployment::Deployment;
use crate::load::Measured;
use crate::report::{Found, Headline, Shown, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "tapir-rivals",
    what: "Throughput of the systems with leaders, by how many messages of a log are on their way to a backup",
    x: Some("messages of a log on their way to a backup"),
    run: experiment,
};

/// So many messages on their way.
const IN_FLIGHT: [usize; 5] = [1, 4, 16, 64, 1_024];

/// So much in one message, in bytes.
const MESSAGE_BYTES: [usize; 2] = [2 * 1024, Limits::DEFAULT.message_bytes];

/// So many transactions of each client: servers are busy.
const SESSIONS: usize = 24;

/// One system, one workload: what it does with each setting.
struct Swept {
    /// On average with the settings that are used.
    used: f64,
    /// With the best.
    best: f64,
}

/// Runs it.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let (mut rows, mut swept) = (Vec::new(), Vec::new());
    let used = Batches::Everything.limits();
    for (workload, bench) in [("rmw", Bench::micro(settings)), ("retwis", Bench::retwis(settings))] {
        for system in System::OF_TAPIR {
            let mut found = Swept { used: 0.0, best: 0.0 };
            for message_bytes in MESSAGE_BYTES {
                for in_flight in IN_FLIGHT {
                    let limits = Limits { message_bytes, in_flight, ..Limits::DEFAULT };
                    settings
                        .say(&format!("{system}, {workload}, {in_flight} messages of {message_bytes} bytes"));
                    let deployment = Deployment {
                        sessions_per_client: SESSIONS,
                        costs: Some(Batches::Everything.costs()),
                        ..bench.deployment.clone()
                    };
                    let one = |seed| run_on_log(system, limits, &deployment, seed, bench.window);
                    let runs = settings.measure(one);
                    let panel = format!("{workload}, messages of {} KiB", message_bytes / 1024);
                    let row = runs.row(system.name(), in_flight as f64, "1/s", Measured::throughput);
                    let row = row.in_panel(panel);
                    found.best = found.best.max(row.ours);
                    if limits == used {
                        found.used = row.ours;
                    }
                    rows.push(row);
                }
            }
            swept.push((format!("{system}, {workload}"), found));
        }
    }
    let share = |found: &Swept| found.used / found.best;
    let headline = Headline {
        what: "throughput with the settings that are used ÷ with the best of the sweep, of the system for which that is least"
            .to_owned(),
        paper: None, paper_range: None,
        ours: defined(swept.iter().map(|(_, found)| share(found)).fold(f64::INFINITY, f64::min)),
        unit: "×".into(),
    };
    let shares: Vec<String> =
        swept.iter().map(|(name, found)| format!("{:.2} ({name})", Shown(share(found)))).collect();
    let deviations = vec![
        "No paper has this figure: it says that the rivals are not detuned.".to_owned(),
        format!(
            "All other experiments use {} messages of {} KiB. Of the best: {}.",
            used.in_flight,
            used.message_bytes / 1024,
            shares.join(", ")
        ),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}
