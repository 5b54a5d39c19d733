//! `granola-base`, `granola-fig8`, `granola-fig9`, `granola-fig10`, `granola-fig11`: what coordination costs (Granola paper, section 6.1).

use std::time::Duration;

use super::counters::{Additions, Counters};
use super::deployment::{Coordination, Deployment};
use super::load::{Measured, run};
use crate::catalogue::Settings;
use crate::load::Window;
use crate::report::{Headline, Report, Row};

/// Section 6.1.1.
pub const BASE: &str = "granola-base";
/// What it shows.
pub const BASE_WHAT: &str =
    "Throughput and latency of single-repository transactions, by transactions in flight";

/// Figure 8.
pub const SCALABILITY: &str = "granola-fig8";
/// What it shows.
pub const SCALABILITY_WHAT: &str =
    "Throughput over repositories, with up to a tenth of transactions at two of them";

/// Figure 9.
pub const DISTRIBUTED: &str = "granola-fig9";
/// What it shows.
pub const DISTRIBUTED_WHAT: &str =
    "Operations a second with more and more distributed transactions, and what waiting for timestamps costs";

/// Figure 10.
pub const OVERHEAD: &str = "granola-fig10";
/// What it shows.
pub const OVERHEAD_WHAT: &str =
    "Throughput of distributed transactions by what locks cost, where nothing conflicts";

/// Figure 11.
pub const CONFLICTS: &str = "granola-fig11";
/// What it shows.
pub const CONFLICTS_WHAT: &str = "Throughput of distributed transactions by how many of them conflict";

/// Beyond the paper.
pub const BENEATH: &str = "granola-beneath";
/// What it shows.
pub const BENEATH_WHAT: &str =
    "Latency by how far apart repositories are, where transactions of one pass beneath those that lack votes";

/// Processors are so many times as slow as they are, and results are given as if they were not: so a figure takes less time.
const SLOWNESS: f64 = 10.0;

/// What is measured for so long, where transactions take so many times as long as an increment.
fn window(settings: &Settings<'_>, factor: u32) -> Window {
    let measured = Duration::from_millis(if settings.quick { 200 } else { 600 });
    Window { warm_up: factor * Duration::from_millis(100), measured: factor * measured }
}

/// Everything that takes time takes ten times as long, so that what is counted is the same.
fn deployment(coordination: Coordination, repositories: usize) -> Deployment {
    let plain = Deployment::new(coordination, repositories);
    Deployment {
        delay: plain.delay.mul_f64(SLOWNESS),
        delay_of_replicas: plain.delay_of_replicas.mul_f64(SLOWNESS),
        clock_error: plain.clock_error.mul_f64(SLOWNESS),
        slowness: SLOWNESS,
        ..plain
    }
}

fn measure(deployment: &Deployment, additions: &Additions, settings: &Settings<'_>) -> Vec<Measured> {
    let window = window(settings, deployment.operation_scale.sqrt().ceil() as u32);
    let one = |seed| run::<Counters>(deployment, &mut additions.clone(), seed, window, false);
    settings.seeds().map(one).collect()
}

fn samples(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// As if processors and networks were as quick as they are.
fn throughput(run: &Measured) -> f64 {
    run.throughput() * SLOWNESS
}

fn operations(run: &Measured) -> f64 {
    run.operations_per_second() * SLOWNESS
}

/// What holds for each of these figures.
fn deviations() -> Vec<String> {
    vec![
        "The paper prints charts; the numbers that it prints stand in its text.".to_owned(),
        "Each replica has a processor of its own, whose work costs what messages and increments cost on a real server; \
         what is ready together is sent together. The paper's machines took 15 µs for a transaction."
            .to_owned(),
        "Messages take 0.1 ms one way, and repositories are replicated by a log in memory, which the paper emulates.".to_owned(),
        "Everything that takes time takes ten times as long while it is measured, and counts as if it did not.".to_owned(),
    ]
}

/// Section 6.1.1.
pub fn base(settings: &mut Settings<'_>) -> Report {
    let mut rows = Vec::new();
    let mut peak: f64 = 0.0;
    for (series, extra) in [("local area", 0), ("replicas 10 ms apart", 10)] {
        for in_flight in [8, 64, 256, 1_024] {
            settings.say(&format!("{series}, {in_flight} in flight"));
            let plain = deployment(Coordination::Timestamps, 1);
            let far = Duration::from_millis(extra).mul_f64(SLOWNESS);
            let deployment = Deployment {
                sessions_per_client: in_flight / plain.clients,
                delay_of_replicas: plain.delay_of_replicas + far,
                ..plain
            };
            let additions = Additions { repositories: 1, distributed: 0.0, conflicting: 0.0 };
            let runs = measure(&deployment, &additions, settings);
            let (rates, latencies) =
                (samples(&runs, throughput), samples(&runs, |run| run.latency_ms(false) / SLOWNESS));
            peak = peak.max(mean(&rates));
            rows.push(Row::new(series, in_flight as f64, "1/s", &rates));
            rows.push(Row::new(series, in_flight as f64, "ms", &latencies));
        }
    }
    let headline = Headline {
        what: "greatest throughput of single-repository transactions on one core".to_owned(),
        paper: Some(65_000.0),
        ours: peak,
        unit: "1/s",
    };
    Report {
        name: BASE,
        what: BASE_WHAT,
        headline,
        rows,
        deviations: deviations(),
        seed: settings.first_seed(),
    }
}

/// Figure 8.
pub fn scalability(settings: &mut Settings<'_>) -> Report {
    let counts: &[usize] = if settings.quick { &[1, 2, 4] } else { &[1, 2, 4, 6, 8, 10] };
    let mut rows = Vec::new();
    let mut of_each = Vec::new();
    for distributed in [0.0, 0.05, 0.1] {
        for &repositories in counts {
            let series = format!("{:.0} % distributed", distributed * 100.0);
            settings.say(&format!("{series}, {repositories} repositories"));
            let additions = Additions { repositories, distributed, conflicting: 0.0 };
            let runs = measure(&deployment(Coordination::Timestamps, repositories), &additions, settings);
            let rates = samples(&runs, throughput);
            if distributed == 0.1 {
                of_each.push(mean(&rates) / repositories as f64);
            }
            rows.push(Row::new(series, repositories as f64, "1/s", &rates));
        }
    }
    let last = of_each.last().copied().unwrap_or_default();
    let headline = Headline {
        what: "throughput of each repository with 10 % distributed, of most repositories ÷ of two".to_owned(),
        paper: None,
        ours: last / of_each.get(1).copied().unwrap_or(last),
        unit: "×",
    };
    let mut deviations = deviations();
    deviations.push(
        "The paper says that it falls slightly from one repository to several and stays there.".to_owned(),
    );
    Report {
        name: SCALABILITY,
        what: SCALABILITY_WHAT,
        headline,
        rows,
        deviations,
        seed: settings.first_seed(),
    }
}

/// Figure 9.
pub fn distributed(settings: &mut Settings<'_>) -> Report {
    const REPOSITORIES: usize = 2;
    let mut rows = Vec::new();
    let mut costs: Vec<f64> = Vec::new();
    for percent in [0, 10, 25, 50, 75, 100] {
        let mut rates = Vec::new();
        for coordination in [Coordination::Timestamps, Coordination::Unordered] {
            settings.say(&format!("{}, {percent} % distributed", coordination.name()));
            let distributed = f64::from(percent) / 100.0;
            let additions = Additions { repositories: REPOSITORIES, distributed, conflicting: 0.0 };
            // Enough in flight to keep processors busy although transactions wait.
            let deployment =
                Deployment { sessions_per_client: 128, ..deployment(coordination, REPOSITORIES) };
            let runs = measure(&deployment, &additions, settings);
            let samples = samples(&runs, operations);
            rates.push(mean(&samples));
            rows.push(Row::new(coordination.name(), f64::from(percent), "operations/s", &samples));
        }
        costs.push(1.0 - rates[0] / rates[1]);
    }
    let headline = Headline {
        what: "what waiting for timestamps costs at most, of the throughput without any order".to_owned(),
        paper: Some(15.0),
        ours: costs.iter().copied().fold(0.0, f64::max) * 100.0,
        unit: "%",
    };
    let mut deviations = deviations();
    deviations.push("The paper says 10 to 20 %.".to_owned());
    Report {
        name: DISTRIBUTED,
        what: DISTRIBUTED_WHAT,
        headline,
        rows,
        deviations,
        seed: settings.first_seed(),
    }
}

/// The systems that lock, and the one that does not.
const COMPARED: [Coordination; 3] = [Coordination::Timestamps, Coordination::Locking, Coordination::Sinfonia];

/// Figure 10.
pub fn overhead(settings: &mut Settings<'_>) -> Report {
    /// An operation takes as long as a new order of TPC-C in the paper's application: far longer than an increment.
    const EXECUTIONS: f64 = 20.0;
    /// Locks are a third of what a processor does, says the paper, in usual systems: half as much again as running.
    const USUAL: f64 = 0.35;
    let mut rows = Vec::new();
    let mut usual = [0.0_f64; 3];
    for share in [0.0, 0.2, USUAL, 0.5] {
        for (place, coordination) in COMPARED.into_iter().enumerate() {
            settings.say(&format!("{}, locks cost {:.0} %", coordination.name(), share * 100.0));
            let plain = deployment(coordination, 2);
            let deployment =
                Deployment { lock_overhead: share / (1.0 - share), operation_scale: EXECUTIONS, ..plain };
            let additions = Additions { repositories: 2, distributed: 1.0, conflicting: 0.0 };
            let rates = samples(&measure(&deployment, &additions, settings), throughput);
            if share == USUAL {
                usual[place] = mean(&rates);
            }
            rows.push(Row::new(coordination.name(), share * 100.0, "1/s", &rates));
        }
    }
    let headline = Headline {
        what: "throughput without locks ÷ that of the best that locks, where locks take 35 % of the work"
            .to_owned(),
        paper: Some(1.375),
        ours: usual[0] / usual[1].max(usual[2]),
        unit: "×",
    };
    let mut deviations = deviations();
    deviations.push("The paper says 25 to 50 % more at 30 to 40 %. The x axis is the share of an operation's work that locks take.".to_owned());
    Report { name: OVERHEAD, what: OVERHEAD_WHAT, headline, rows, deviations, seed: settings.first_seed() }
}

/// Figure 11.
pub fn conflicts(settings: &mut Settings<'_>) -> Report {
    let mut rows = Vec::new();
    let mut without = Vec::new();
    let mut with = 0.0_f64;
    for percent in [0.1, 1.0, 10.0, 100.0] {
        for coordination in COMPARED {
            settings.say(&format!("{}, {percent} % conflict", coordination.name()));
            let additions = Additions { repositories: 2, distributed: 1.0, conflicting: percent / 100.0 };
            let deployment = Deployment { lock_overhead: 0.05, ..deployment(coordination, 2) };
            let rates = samples(&measure(&deployment, &additions, settings), throughput);
            match coordination {
                Coordination::Timestamps => without.push(mean(&rates)),
                _ if percent == 100.0 => with = with.max(mean(&rates)),
                _ => {}
            }
            rows.push(Row::new(coordination.name(), percent, "1/s", &rates));
        }
    }
    let (least, greatest) =
        (without.iter().copied().fold(f64::MAX, f64::min), without.iter().copied().fold(0.0, f64::max));
    let headline = Headline {
        what: "throughput by timestamps where everything conflicts least well ÷ where it does best"
            .to_owned(),
        paper: Some(1.0),
        ours: least / greatest,
        unit: "×",
    };
    let mut deviations = deviations();
    deviations.push(format!(
        "The paper says that about 1000 transactions a second are left with locks where all conflict; here it is {with:.0}, of \
         which each takes as long as its votes."
    ));
    Report { name: CONFLICTS, what: CONFLICTS_WHAT, headline, rows, deviations, seed: settings.first_seed() }
}

/// What proposing ahead of the clock changes, as far as votes are late.
pub fn beneath(settings: &mut Settings<'_>) -> Report {
    const REPOSITORIES: usize = 4;
    const DISTRIBUTED: f64 = 0.1;
    const NAMES: [&str; 2] = ["at the clock, as in the paper", "ahead by the vote delay"];
    let mut rows = Vec::new();
    // Single-repository and distributed, by series.
    let mut farthest = [[0.0; 2]; 2];
    for apart_ms in [0.1, 1.0, 5.0, 25.0] {
        for (place, name) in NAMES.into_iter().enumerate() {
            settings.say(&format!("{name}, {apart_ms} ms apart"));
            let plain = deployment(Coordination::Timestamps, REPOSITORIES);
            let delay = Duration::from_secs_f64(apart_ms / 1_000.0).mul_f64(SLOWNESS);
            let vote_delay_max = if place == 0 { Duration::ZERO } else { plain.vote_delay_max };
            let deployment = Deployment { delay, vote_delay_max, ..plain };
            let additions =
                Additions { repositories: REPOSITORIES, distributed: DISTRIBUTED, conflicting: 0.0 };
            let factor = 1 + apart_ms as u32;
            let window = window(settings, factor);
            let one = |seed| run::<Counters>(&deployment, &mut additions.clone(), seed, window, false);
            let runs: Vec<Measured> = settings.seeds().map(one).collect();
            for (at, what) in ["ms, one repository", "ms, two repositories"].into_iter().enumerate() {
                let latencies = samples(&runs, |run| run.latency_ms(at == 1) / SLOWNESS);
                farthest[place][at] = mean(&latencies);
                rows.push(Row::new(name, apart_ms, what, &latencies));
            }
            rows.push(Row::new(name, apart_ms, "1/s", &samples(&runs, throughput)));
        }
    }
    let [paper, ahead] = farthest;
    let headline = Headline {
        what: "latency at one repository, proposed at the clock ÷ ahead of it, where repositories are 25 ms apart"
            .to_owned(),
        paper: None,
        ours: paper[0] / ahead[0],
        unit: "×",
    };
    let mut deviations = deviations();
    deviations.push(format!(
        "The paper proposes at the clock. Clients are as far from repositories as those are from each other, and replicas 0.1 ms from \
         each other; a tenth of the transactions is distributed, and those take {:.2} of the time.",
        ahead[1] / paper[1]
    ));
    Report { name: BENEATH, what: BENEATH_WHAT, headline, rows, deviations, seed: settings.first_seed() }
}
