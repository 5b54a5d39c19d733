//! `walter-fig21` and `walter-fig22`: Walter's social network over four sites (Walter paper, section 8.6).
//!
//! By arithmetic, `R` reads one after the other and a commit take `25 R + 25 + 29` µs of a server, and `8` µs of each of the three others.

use std::sync::Arc;
use std::time::Duration;

use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;
use quorate_simulator::world::costs::Costs;
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::{Parameters, WorkloadKind};

use super::throughput::{THOUSANDS, thousands, window};
use super::{COMMIT, REMOTE_APPLY, REQUEST, SESSIONS, SITES};
use crate::catalogue::{Experiment, Settings};
use crate::deployment::{Deployment, MOMENT};
use crate::interactive::Transactions;
use crate::load::run;
use crate::report::{Found, Headline, Row, Runs, defined};

/// In the catalogue.
pub const THROUGHPUT: Experiment = Experiment {
    name: "walter-fig21",
    what: "Throughput of the operations of a social network at four sites, with their mixes",
    x: None,
    run: throughput,
};

/// In the catalogue.
pub const LATENCY: Experiment = Experiment {
    name: "walter-fig22",
    what: "Latency of the operations of a social network at four sites, at 70% of their throughput",
    x: None,
    run: latency,
};

/// An operation or a mix, and what the paper says of it.
struct Operations {
    mix: &'static str,
    /// Reads one after the other, on average.
    reads: f64,
    /// The share of transactions that write.
    writing: f64,
    /// Updates of one that does, on average.
    updates: f64,
    /// Thousands a second in the paper.
    paper: f64,
}

/// Figure 21.
const OPERATIONS: [Operations; 6] = [
    Operations { mix: "read-info", reads: 3.0, writing: 0.0, updates: 1.0, paper: 40.0 },
    Operations { mix: "befriend", reads: 2.0, writing: 1.0, updates: 2.0, paper: 20.0 },
    Operations { mix: "status-update", reads: 1.0, writing: 1.0, updates: 4.0, paper: 18.0 },
    Operations { mix: "post-message", reads: 2.0, writing: 1.0, updates: 4.0, paper: 16.5 },
    Operations { mix: "mix1", reads: 2.0 + 13.0 / 15.0, writing: 0.1, updates: 10.0 / 3.0, paper: 34.0 },
    Operations { mix: "mix2", reads: 2.0 + 11.0 / 15.0, writing: 0.2, updates: 10.0 / 3.0, paper: 32.0 },
];

const USERS: u64 = 400_000;

impl Operations {
    /// The time that one operation takes of all servers together, by arithmetic, in microseconds.
    fn work_micros(&self) -> f64 {
        let remote = REMOTE_APPLY * (SITES - 1) as f64;
        REQUEST * self.reads + self.writing * (REQUEST + COMMIT + remote)
    }

    /// Thousands a second that four servers can do, by arithmetic.
    fn expected(&self) -> f64 {
        SITES as f64 * 1_000.0 / self.work_micros()
    }

    /// The same if each update is a request of its own, and the commit goes along with the last.
    fn expected_of_the_paper(&self) -> f64 {
        let requests = self.writing * (self.updates - 1.0);
        SITES as f64 * 1_000.0 / (self.work_micros() + REQUEST * requests)
    }

    fn costs(&self) -> Arc<Costs> {
        super::costs(1.0, self.updates)
    }

    fn deployment(&self, sessions: usize, think: Duration) -> Deployment<ParallelSnapshot> {
        let workload = Parameters {
            keys: USERS,
            value_bytes_min: 0,
            shares: self.mix,
            ..Parameters::new(WorkloadKind::WaltSocial)
        };
        let homes = Homes::Hashed(SITES);
        let place = |site| Place { homes, here: vec![site], away: 0.0 };
        let work = Transactions {
            reads_at_once: false,
            reads_apart: true,
            places: (0..SITES).map(place).collect(),
            sessions_per_client: sessions,
            ..Transactions::new(workload)
        };
        Deployment { think, ..super::deployment(SITES, work, self.costs()) }
    }
}

fn peak(operations: &Operations, settings: &mut Settings<'_>) -> Runs {
    settings.say(&format!("{}, as fast as possible", operations.mix));
    let (deployment, window) = (operations.deployment(SESSIONS, MOMENT), window(settings));
    settings.measure(|seed| run(&deployment, seed, window))
}

/// Measures figure 21.
fn throughput(settings: &mut Settings<'_>) -> Found {
    let (mut rows, mut posts) = (Vec::new(), 0.0);
    let (mut arithmetic, mut of_the_paper) = (Vec::new(), Vec::new());
    for (x, operations) in OPERATIONS.iter().enumerate() {
        let runs = peak(operations, settings);
        let row = runs.row("four sites", x as f64, THOUSANDS, thousands).at(operations.mix);
        if operations.mix == "post-message" {
            posts = row.ours;
        }
        arithmetic.push(format!("{} {:.1}", operations.mix, operations.expected()));
        of_the_paper.push(format!("{} {:.1}", operations.mix, operations.expected_of_the_paper()));
        rows.push(Row { paper: Some(operations.paper), ..row });
    }
    let headline = Headline {
        what: "post-message at four sites".to_owned(),
        paper: Some(16.5),
        paper_range: None,
        ours: defined(posts),
        unit: "thousands a second".into(),
    };
    let deviations = vec![
        format!(
            "By the costs that fit the paper's single accesses, four servers do, in thousands a second: {}. A read is a request, and so is \
             a commit with all that is written; the paper's clients ask for each update by a request of its own, which allows: {}.",
            arithmetic.join(", "),
            of_the_paper.join(", ")
        ),
        "Users have nothing at first: what a request costs does not depend on what it finds.".to_owned(),
        "The figure's mixes write 0.5 and 0.7 registers on average, and these 0.13 and 0.27: a third of the updates is each of the three."
            .to_owned(),
        "Disks cache what is written, and take 10 to 50 µs for a sync; links carry whatever there is at once.".to_owned(),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Measures figure 22.
fn latency(settings: &mut Settings<'_>) -> Found {
    const LOAD: f64 = 0.7;
    let (mut rows, mut slowest) = (Vec::new(), 0.0_f64);
    for (x, operations) in OPERATIONS.iter().take(4).enumerate() {
        settings.say(&format!("{}, at 70%", operations.mix));
        // By Little: so many sessions think for so long that they ask for so much.
        let each = operations.expected() * 1_000.0 * LOAD / (SITES * SESSIONS) as f64;
        let (deployment, window) =
            (operations.deployment(SESSIONS, Duration::from_secs_f64(1.0 / each)), window(settings));
        let runs = settings.measure(|seed| run(&deployment, seed, window));
        for (share, name) in [(0.5, "median"), (0.99, "99th percentile"), (0.999, "99.9th percentile")] {
            let row = runs.row(name, x as f64, "ms", |run| run.latency_ms(share)).at(operations.mix);
            if share == 0.999 {
                slowest = slowest.max(row.ours);
            }
            rows.push(row);
        }
    }
    let headline = Headline {
        what: "the longest 99.9th percentile of an operation".to_owned(),
        paper: None,
        paper_range: Some([0.0, 50.0]),
        ours: defined(slowest),
        unit: "ms".into(),
    };
    let deviations = vec![
        "The paper prints curves, and says that each 99.9th percentile is below 50 ms.".to_owned(),
        "The load is 70% of what the servers can do by arithmetic; the paper calls its own moderate.".to_owned(),
        "Disks take 10 to 50 µs for a sync, evenly, as those do that cache what is written. Nothing else waits.".to_owned(),
    ];
    Found { headline, rows, deviations, bounds: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Window;

    const WINDOW: Window = Window::millis(600, 60);

    /// Nothing but the costs counts, so how much there can be is told beforehand.
    #[test]
    fn servers_do_what_their_costs_allow() {
        for operations in [&OPERATIONS[0], &OPERATIONS[3], &OPERATIONS[4]] {
            let measured = run(&operations.deployment(SESSIONS, MOMENT), 1, WINDOW);
            let (ours, expected) = (measured.throughput() / 1_000.0, operations.expected());
            assert!(
                (ours / expected - 1.0).abs() < 0.1,
                "{}: {ours}, and {expected} by arithmetic",
                operations.mix
            );
            // Few meet who say what is new at one time.
            assert!(measured.abort_rate() < 0.01, "{}: each user is served at home", operations.mix);
        }
    }

    #[test]
    fn no_operation_waits_for_another_site() {
        for operations in &OPERATIONS[..4] {
            let measured = run(&operations.deployment(1, Duration::from_millis(5)), 1, WINDOW);
            assert!(measured.took.len() > 20 && measured.latency_ms(1.0) < 10.0, "{}", operations.mix);
        }
    }
}
