//! `walter-fig23`: ReTwis on Walter at one site and at two, beside Redis (Walter paper, section 8.7).
//!
//! Redis is a model: one processor, a request after the other, each of which costs what a request to Walter costs, and a commit nothing. Its
//! throughput follows from how many requests an operation makes.

use quorate_core::topology::Durability;
use quorate_simulator::system::parallel_snapshot::ParallelSnapshot;
use quorate_workloads::retwis_psi::FIRST_FOLLOWERS;
use quorate_workloads::social::{Homes, Place};
use quorate_workloads::{Parameters, WorkloadKind};

use super::throughput::{THOUSANDS, long_window, thousands};
use super::{COMMIT, REMOTE_APPLY, REQUEST, SESSIONS, costs, deployment};
use crate::catalogue::{Experiment, Settings};
use crate::deployment::Deployment;
use crate::interactive::Transactions;
use crate::load::run;
use crate::report::{Bound, Found, Headline, Row, defined};

/// In the catalogue.
pub const EXPERIMENT: Experiment = Experiment {
    name: "walter-fig23",
    what: "Throughput of ReTwis on Walter at one site and at two, beside a model of Redis",
    x: None,
    run: experiment,
};

/// How many users there are: each has ten followers, and as many posts on the timeline.
const USERS: u64 = 2_000;

/// A timeline shows so many posts.
const SHOWN: f64 = 10.0;

/// An operation, or the mix.
struct Operations {
    mix: &'static str,
    /// Reads: of a set, and of each post that it names.
    reads: f64,
    /// The share of transactions that write.
    writing: f64,
    /// Updates of one that does, on average.
    updates: f64,
    /// Requests to Redis.
    of_redis: f64,
    /// Thousands a second in the paper, on Redis, on Walter at one site, and at two.
    paper: Option<[f64; 3]>,
}

/// The newest posts, and then each of them by itself.
const STATUS: f64 = 1.0 + SHOWN;
/// The name of the post, the post, the own list, who follows, and the timeline of each.
const POST_OF_REDIS: f64 = 4.0 + FOLLOWERS;
const FOLLOWERS: f64 = FIRST_FOLLOWERS as f64;

const OPERATIONS: [Operations; 4] = [
    Operations { mix: "status", reads: STATUS, writing: 0.0, updates: 1.0, of_redis: STATUS, paper: None },
    Operations {
        mix: "post",
        reads: 1.0,
        writing: 1.0,
        updates: 2.0 + FOLLOWERS,
        of_redis: POST_OF_REDIS,
        paper: Some([5.740, 4.713, 9.527]),
    },
    Operations { mix: "follow", reads: 0.0, writing: 1.0, updates: 2.0, of_redis: 2.0, paper: None },
    Operations {
        mix: "mixed",
        reads: 0.85 * STATUS + 0.075,
        writing: 0.15,
        updates: (4.0 + FOLLOWERS) / 2.0,
        of_redis: 0.85 * STATUS + 0.075 * (POST_OF_REDIS + 2.0),
        paper: None,
    },
];

impl Operations {
    /// Thousands a second that so many sites can do, by arithmetic.
    fn expected(&self, sites: usize) -> f64 {
        let remote = REMOTE_APPLY * (sites - 1) as f64;
        sites as f64 * 1_000.0 / (REQUEST * self.reads + self.writing * (REQUEST + COMMIT + remote))
    }

    /// Thousands a second that the model of Redis does.
    fn expected_of_redis(&self) -> f64 {
        1_000.0 / (REQUEST * self.of_redis)
    }

    fn deployment(&self, sites: usize) -> Deployment<ParallelSnapshot> {
        let workload = Parameters {
            keys: USERS,
            value_bytes_min: 0,
            shares: self.mix,
            ..Parameters::new(WorkloadKind::RetwisPsi)
        };
        let homes = Homes::Hashed(sites);
        let work = Transactions {
            reads_at_once: false,
            reads_apart: true,
            places: (0..sites).map(|site| Place { homes, here: vec![site], away: 0.0 }).collect(),
            is_populated: true,
            sessions_per_client: SESSIONS,
            ..Transactions::new(workload)
        };
        // Both systems commit to memory in the paper.
        let durability = Durability::Memory;
        Deployment { durability, ..deployment(sites, work, costs(1.0, self.updates)) }
    }
}

/// Measures figure 23.
fn experiment(settings: &mut Settings<'_>) -> Found {
    let window = long_window(settings);
    let (mut rows, mut bounds, mut arithmetic) = (Vec::new(), Vec::new(), Vec::new());
    let mut mixed = 0.0;
    for (x, operations) in OPERATIONS.iter().enumerate() {
        let (mix, x, unit) = (operations.mix, x as f64, THOUSANDS);
        let paper = |at: usize| operations.paper.map(|paper| paper[at]);
        let of_redis = Row::exact("Redis (model)", x, unit, operations.expected_of_redis()).at(mix);
        rows.push(Row { paper: paper(0), ..of_redis });
        let mut throughputs = Vec::new();
        for sites in 1..=2 {
            settings.say(&format!("{mix}, {sites} sites"));
            let deployment = operations.deployment(sites);
            let runs = settings.measure(|seed| run(&deployment, seed, window));
            let series = if sites == 1 { "Walter, one site" } else { "Walter, two sites" };
            let row = runs.row(series, x, unit, thousands);
            throughputs.push(row.ours);
            rows.push(Row { paper: paper(sites), ..row.at(mix) });
        }
        let ratio = throughputs[1] / throughputs[0];
        let by_arithmetic = operations.expected(2) / operations.expected(1);
        arithmetic.push(format!(
            "{mix} {:.1} and {:.1}, which is {by_arithmetic:.2} ×",
            operations.expected(1),
            operations.expected(2)
        ));
        if let Some([_, one, two]) = operations.paper {
            let row = Row::exact("Walter, two sites ÷ one", x, "×", ratio).at(mix);
            rows.push(Row { paper: Some(two / one), ..row });
        }
        bounds.push(Bound::at_least(format!("{mix}, two sites ÷ one"), 1.9, ratio, "×"));
        mixed = ratio;
    }
    let headline = Headline {
        what: "ReTwis, mixed, two sites ÷ one".to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(mixed),
        unit: "×".into(),
    };
    let deviations = vec![
        format!(
            "By arithmetic, in thousands a second at one site and at two: {}. Where the second site is worth less than 1.9, that is what 8 µs for each \
             transaction of the other site leave of it, and no protocol that applies at one site what commits at the other does better at these costs: a post \
             costs its own site 79 µs here, and 212 µs in the paper, of which 8 are less.",
            arithmetic.join("; ")
        ),
        format!(
            "A status reads the timeline, and then its {SHOWN} posts, each by a request of its own, but all at once. A post reads who follows, and commits with \
             all timelines in one request; the paper's asks for each update by itself."
        ),
        "The model of Redis: 25 µs a request as Walter's, since both are bound by their RPC, and nothing for a commit. A status makes 11 requests, a post 14 \
         (its name, itself, the own list, who follows, ten timelines), a follow 2. The paper's 5.74 thousand posts a second are seven such requests."
            .to_owned(),
        format!("{USERS} users with ten followers and ten posts each; the paper has 500,000 users and does not say how many follow."),
        "The paper's front ends, which share the machines of clients, are not modelled. Of its chart only the numbers of posts are in the text.".to_owned(),
        "Links carry whatever there is at once: processors are to apply all that commits at the other site. Commits are in memory, as in the paper.".to_owned(),
    ];
    Found { headline, rows, bounds, deviations }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Window;

    #[test]
    fn servers_do_what_their_costs_allow() {
        for operations in &OPERATIONS {
            for sites in 1..=2 {
                let measured = run(&operations.deployment(sites), 1, Window::millis(600, 60));
                let (ours, expected) = (measured.throughput() / 1_000.0, operations.expected(sites));
                assert!(
                    (ours / expected - 1.0).abs() < 0.12,
                    "{}, {sites} sites: {ours}, and {expected} by arithmetic",
                    operations.mix
                );
            }
        }
    }
}
