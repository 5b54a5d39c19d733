//! `granola-base`, `granola-fig8`, `granola-fig9`, `granola-fig10`, `granola-fig11`: what coordination costs (Granola paper, section 6.1).

use std::time::Duration;

use super::counters::Additions;
use super::deployment::{BACK_OFF, VOTES_AHEAD};
use super::deployment::{Coordination, LAN_DELAY, Labour};
use super::world::OneRound;
use crate::catalogue::{Experiment, Settings};
use crate::deployment::{Clocks, Deployment};
use crate::load::{Measured, Window, run};
use crate::report::{Found, Headline, Row, Runs, Shown, defined};

/// Section 6.1.1.
pub const BASE: Experiment = Experiment {
    name: "granola-base",
    what: "Throughput and latency of single-repository transactions, by transactions in flight",
    x: Some("transactions in flight"),
    run: base,
};

/// Figure 8.
pub const SCALABILITY: Experiment = Experiment {
    name: "granola-fig8",
    what: "Throughput over repositories, with up to a tenth of transactions at two of them",
    x: Some("repositories"),
    run: scalability,
};

/// Figure 9.
pub const DISTRIBUTED: Experiment = Experiment {
    name: "granola-fig9",
    what: "Operations a second with more and more distributed transactions, and what waiting for timestamps costs",
    x: Some("distributed transactions, %"),
    run: distributed,
};

/// Figure 10.
pub const OVERHEAD: Experiment = Experiment {
    name: "granola-fig10",
    what: "Throughput of distributed transactions by what locks cost, where nothing conflicts",
    x: Some("share of the work that locks take, %"),
    run: overhead,
};

/// Figure 11.
pub const CONFLICTS: Experiment = Experiment {
    name: "granola-fig11",
    what: "Throughput of distributed transactions by how many of them conflict",
    x: Some("transactions that conflict, %"),
    run: conflicts,
};

/// Beyond the paper.
pub const BENEATH: Experiment = Experiment {
    name: "granola-beneath",
    what: "Latency by how far apart repositories are, where transactions of one pass beneath those that lack votes",
    x: Some("one way between repositories, ms"),
    run: beneath,
};

/// Enough transactions of each client in flight to keep processors busy although transactions wait.
const BUSY: usize = 128;

/// Enough where few of them wait.
const MANY: usize = 48;

/// Processors are so many times as slow as they are, and results are given as if they were not: so a figure takes less time.
const SLOWNESS: f64 = 10.0;

/// Servers that take so many times as long for everything.
const SLOW: Labour = Labour { slowness: SLOWNESS, ..Labour::PLAIN };

/// So does the network.
const SLOW_DELAY: Duration = Duration::from_micros(LAN_DELAY.as_micros() as u64 * SLOWNESS as u64);

/// Everything that takes time takes ten times as long, so that what is counted is the same.
fn deployment(coordination: Coordination, work: Additions) -> Deployment<OneRound<Additions>> {
    Deployment {
        costs: SLOW.costs(),
        clocks: Clocks::Ahead(SLOW_DELAY),
        ..Deployment::of_repositories(coordination, work.repositories, work)
    }
    .delayed(SLOW_DELAY, SLOW_DELAY)
}

/// Measures it for so long, where transactions take so many times as long as an increment.
fn measure(deployment: &Deployment<OneRound<Additions>>, factor: u64, settings: &Settings<'_>) -> Runs {
    let window = Window::millis(factor * 100, factor * if settings.quick { 200 } else { 600 });
    settings.measure(|seed| run(deployment, seed, window))
}

/// As if processors and networks were as quick as they are.
fn throughput(run: &Measured) -> f64 {
    run.throughput() * SLOWNESS
}

fn operations(run: &Measured) -> f64 {
    run.parts_per_second() * SLOWNESS
}

/// The deviations of each of these figures.
fn deviations() -> Vec<String> {
    vec![
        "The paper prints charts; the numbers that it prints stand in its text.".to_owned(),
        "Each replica has a processor of its own, whose work costs what messages and increments cost on a real server; \
         what is ready together is sent together. The paper's machines took 15 µs for a transaction."
            .to_owned(),
        "Messages take 0.1 ms one way, and repositories are replicated by a log in memory, which the paper emulates.".to_owned(),
        "Everything that takes time takes ten times as long while it is measured, and counts as if it did not.".to_owned(),
        VOTES_AHEAD.to_owned(),
        BACK_OFF.to_owned(),
    ]
}

/// Section 6.1.1.
fn base(settings: &mut Settings<'_>) -> Found {
    /// The latency that transactions keep below with so many a second in the paper, in milliseconds.
    const BELOW: [(f64, f64); 2] = [(1.0, 50_000.0), (10.0, 65_000.0)];
    /// The paper's latency with replicas 10 ms apart, in milliseconds: "approximately".
    const WIDE_MS: f64 = 22.0;
    let mut rows = Vec::new();
    let mut peak: f64 = 0.0;
    let mut within = [const { Vec::new() }; BELOW.len()];
    for (series, extra) in [("local area", 0), ("replicas 10 ms apart", 10)] {
        for in_flight in [8, 64, 256, 1_024] {
            settings.say(&format!("{series}, {in_flight} in flight"));
            let additions = Additions { repositories: 1, distributed: 0.0, conflicting: 0.0 };
            let plain = deployment(Coordination::Timestamps, additions);
            let far = Duration::from_millis(extra).mul_f64(SLOWNESS);
            let sessions_per_client = in_flight / plain.clients;
            let deployment =
                Deployment { sessions_per_client, ..plain.delayed(SLOW_DELAY, SLOW_DELAY + far) };
            let runs = measure(&deployment, 1, settings);
            peak = peak.max(runs.mean(throughput));
            rows.push(runs.row(series, in_flight as f64, "1/s", throughput));
            let latency = |run: &Measured| run.mean_latency_ms() / SLOWNESS;
            let row = runs.row(series, in_flight as f64, "ms", latency);
            for ((below, _), within) in BELOW.iter().zip(&mut within) {
                if extra == 0 && row.ours < *below {
                    within.push((in_flight, runs.iter().map(throughput).collect::<Vec<f64>>()));
                }
            }
            let is_base = extra > 0 && in_flight == 8;
            rows.push(Row { paper: is_base.then_some(WIDE_MS), ..row });
        }
    }
    for ((below, paper), within) in BELOW.into_iter().zip(within) {
        let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len() as f64;
        let Some((in_flight, best)) =
            within.into_iter().max_by(|one, other| mean(&one.1).total_cmp(&mean(&other.1)))
        else {
            continue;
        };
        let row = Row::new("local area", below, "1/s, the most within a latency", &best);
        let row = row.at(format!("below {below} ms, {in_flight} in flight"));
        rows.push(Row { paper: Some(paper), ..row });
    }
    let headline = Headline {
        what: "greatest throughput of single-repository transactions on one core".to_owned(),
        paper: Some(65_000.0),
        paper_range: None,
        ours: defined(peak),
        unit: "1/s".into(),
    };
    let mut deviations = deviations();
    deviations.push(
        "With replicas 10 ms apart a transaction takes two delays more, whatever is in flight, so 1,024 in flight are 1,024 ÷ 21 ms = 49 thousand a second at most; the paper, whose \
         throughput is about the same there, needs more clients for that, too."
            .to_owned(),
    );
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Figure 8.
fn scalability(settings: &mut Settings<'_>) -> Found {
    let counts: &[usize] = if settings.quick { &[1, 2, 4] } else { &[1, 2, 4, 6, 8, 10] };
    let mut rows = Vec::new();
    let mut of_each = Vec::new();
    for distributed in [0.0, 0.05, 0.1] {
        for &repositories in counts {
            let series = format!("{:.0} % distributed", distributed * 100.0);
            settings.say(&format!("{series}, {repositories} repositories"));
            let additions = Additions { repositories, distributed, conflicting: 0.0 };
            let plain = deployment(Coordination::Timestamps, additions);
            let runs = measure(&Deployment { sessions_per_client: MANY, ..plain }, 1, settings);
            if distributed == 0.1 {
                of_each.push(runs.mean(throughput) / repositories as f64);
            }
            rows.push(runs.row(&series, repositories as f64, "1/s", throughput));
            let busiest = |run: &Measured| 100.0 * run.busiest_server();
            let unit = "% of the time, busiest processor";
            rows.push(runs.row(&series, repositories as f64, unit, busiest));
            if distributed > 0.0 && repositories > 1 {
                let latency = |run: &Measured, is_shared: bool| {
                    run.mean_latency_of_ms(|took| (took.parts > 1) == is_shared)
                };
                let ratio = |run: &Measured| latency(run, true) / latency(run, false);
                let unit = "× the latency at one repository, at two";
                let row = runs.row(&series, repositories as f64, unit, ratio);
                rows.push(Row { paper: Some(2.0), ..row });
            }
        }
    }
    let last = of_each.last().copied().unwrap_or_default();
    let headline = Headline {
        what: "throughput of each repository with 10 % distributed, of most repositories ÷ of two".to_owned(),
        paper: None,
        paper_range: None,
        ours: defined(last / of_each.get(1).copied().unwrap_or(last)),
        unit: "×".into(),
    };
    let mut deviations = deviations();
    deviations.push(
        "The paper says that it falls slightly from one repository to several and stays there, and that a distributed transaction takes consistently twice as long as \
         another. Each client has 48 transactions in flight, so that processors are busy with any number of repositories."
            .to_owned(),
    );
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Figure 9.
fn distributed(settings: &mut Settings<'_>) -> Found {
    const REPOSITORIES: usize = 2;
    let mut rows = Vec::new();
    let mut costs: Vec<f64> = Vec::new();
    for percent in [0, 10, 25, 50, 75, 100] {
        let mut rates = Vec::new();
        for coordination in [Coordination::Timestamps, Coordination::Unordered] {
            settings.say(&format!("{}, {percent} % distributed", coordination.name()));
            let distributed = f64::from(percent) / 100.0;
            let additions = Additions { repositories: REPOSITORIES, distributed, conflicting: 0.0 };
            let deployment = Deployment { sessions_per_client: BUSY, ..deployment(coordination, additions) };
            let runs = measure(&deployment, 1, settings);
            rates.push(runs.mean(operations));
            rows.push(runs.row(coordination.name(), f64::from(percent), "operations/s", operations));
        }
        costs.push(1.0 - rates[0] / rates[1]);
    }
    let headline = Headline {
        what: "what waiting for timestamps costs at most, of the throughput without any order".to_owned(),
        paper: None,
        paper_range: Some([10.0, 20.0]),
        ours: defined(costs.iter().copied().fold(0.0, f64::max) * 100.0),
        unit: "%".into(),
    };
    let deviations = deviations();
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Figure 10.
fn overhead(settings: &mut Settings<'_>) -> Found {
    /// An operation takes as long as a new order of TPC-C in the paper's application: far longer than an increment.
    const EXECUTIONS: f64 = 20.0;
    /// Locks are a third of what a processor does, says the paper, in usual systems: half as much again as running.
    const USUAL: f64 = 0.35;
    let mut rows = Vec::new();
    let mut usual = [0.0_f64; 3];
    for share in [0.0, 0.2, USUAL, 0.5] {
        for (place, coordination) in Coordination::COMPARED.into_iter().enumerate() {
            settings.say(&format!("{}, locks cost {:.0} %", coordination.name(), share * 100.0));
            let additions = Additions { repositories: 2, distributed: 1.0, conflicting: 0.0 };
            let labour = Labour { lock_overhead: share / (1.0 - share), operation_scale: EXECUTIONS, ..SLOW };
            let deployment = Deployment { costs: labour.costs(), ..deployment(coordination, additions) };
            let factor = EXECUTIONS.sqrt().ceil() as u64;
            let runs = measure(&deployment, factor, settings);
            if share == USUAL {
                usual[place] = runs.mean(throughput);
            }
            rows.push(runs.row(coordination.name(), share * 100.0, "1/s", throughput));
        }
    }
    let headline = Headline {
        what: "throughput without locks ÷ that of the best that locks, where locks take 35 % of the work"
            .to_owned(),
        paper: None,
        paper_range: Some([1.25, 1.5]),
        ours: defined(usual[0] / usual[1].max(usual[2])),
        unit: "×".into(),
    };
    let mut deviations = deviations();
    deviations.push(
        "The paper says 25 to 50 % more where locks take 30 to 40 %. The x axis is the share of an operation's work that locks take: that is set, and not what they take here. \
         Arithmetic allows 1 ÷ (1 - 0.35) = 1.54 at 35 %, if nothing else took time."
            .to_owned(),
    );
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Figure 11.
fn conflicts(settings: &mut Settings<'_>) -> Found {
    /// So many transactions a second the paper's locks leave where all conflict: "approximately".
    const ALL_CONFLICT: f64 = 1_000.0;
    let mut rows = Vec::new();
    let mut without = Vec::new();
    let mut with = 0.0_f64;
    for percent in [0.1, 1.0, 10.0, 100.0] {
        for coordination in Coordination::COMPARED {
            settings.say(&format!("{}, {percent} % conflict", coordination.name()));
            let additions = Additions { repositories: 2, distributed: 1.0, conflicting: percent / 100.0 };
            let costs = Labour { lock_overhead: 0.05, ..SLOW }.costs();
            let deployment = Deployment { costs, ..deployment(coordination, additions) };
            let runs = measure(&deployment, 1, settings);
            let rate = runs.mean(throughput);
            match coordination {
                Coordination::Timestamps => without.push(rate),
                _ if percent == 100.0 => with = with.max(rate),
                _ => {}
            }
            let is_locked = coordination != Coordination::Timestamps && percent == 100.0;
            let row = runs.row(coordination.name(), percent, "1/s", throughput);
            rows.push(Row { paper: is_locked.then_some(ALL_CONFLICT), ..row });
        }
    }
    let (least, greatest) =
        (without.iter().copied().fold(f64::MAX, f64::min), without.iter().copied().fold(0.0, f64::max));
    let headline = Headline {
        what: "throughput by timestamps where everything conflicts least well ÷ where it does best"
            .to_owned(),
        paper: Some(1.0),
        paper_range: None,
        ours: defined(least / greatest),
        unit: "×".into(),
    };
    let mut deviations = deviations();
    deviations.push(format!(
        "The paper says that about 1000 transactions a second are left with locks where all conflict, one after the other in 1 ms each; here it is {with:.0}, in \
         {:.1} ms each, the time of votes and of the pause until the next one comes. Locks cost 5 % of what they protect here, next to nothing as in the paper.",
        Shown(1_000.0 / with)
    ));
    Found { headline, rows, deviations, bounds: Vec::new() }
}

/// Beyond the paper: proposals ahead of the clock, as far as votes are late.
fn beneath(settings: &mut Settings<'_>) -> Found {
    const REPOSITORIES: usize = 4;
    const DISTRIBUTED: f64 = 0.1;
    const NAMES: [&str; 2] = ["at the clock, as in the paper", "ahead by the vote delay"];
    let mut rows = Vec::new();
    // Single-repository and distributed, by series.
    let mut farthest = [[0.0; 2]; 2];
    for apart_ms in [0.1, 1.0, 5.0, 25.0] {
        for (place, name) in NAMES.into_iter().enumerate() {
            settings.say(&format!("{name}, {apart_ms} ms apart"));
            let additions =
                Additions { repositories: REPOSITORIES, distributed: DISTRIBUTED, conflicting: 0.0 };
            let delay = Duration::from_secs_f64(apart_ms / 1_000.0).mul_f64(SLOWNESS);
            let plain = deployment(Coordination::Timestamps, additions);
            let mut deployment = plain.delayed(delay, SLOW_DELAY);
            if place == 0 {
                deployment.settings.replica.machine.vote_delay_max = Duration::ZERO;
            }
            let runs = measure(&deployment, 1 + apart_ms as u64, settings);
            for (at, what) in ["ms, one repository", "ms, two repositories"].into_iter().enumerate() {
                let latency = |run: &Measured| {
                    run.mean_latency_of_ms(|took| usize::from(took.parts > 1) == at) / SLOWNESS
                };
                farthest[place][at] = runs.mean(latency);
                rows.push(runs.row(name, apart_ms, what, latency));
            }
            rows.push(runs.row(name, apart_ms, "1/s", throughput));
        }
    }
    let [paper, ahead] = farthest;
    let headline = Headline {
        what: "latency at one repository, proposed at the clock ÷ ahead of it, where repositories are 25 ms apart"
            .to_owned(),
        paper: None, paper_range: None,
        ours: defined(paper[0] / ahead[0]),
        unit: "×".into(),
    };
    let mut deviations = deviations();
    deviations.push(format!(
        "The paper proposes at the clock. Clients are as far from repositories as those are from each other, and replicas 0.1 ms from \
         each other; a tenth of the transactions is distributed, and those take {:.2} of the time.",
        Shown(ahead[1] / paper[1])
    ));
    Found { headline, rows, deviations, bounds: Vec::new() }
}
