//! `granola-fig12`, `granola-fig13`: TPC-C (Granola paper, section 6.2).

use std::time::Duration;

use super::deployment::{Coordination, Deployment};
use super::load::{Measured, run};
use super::tpcc::{Kinds, LOCK_CHECKS, LOCK_OVERHEAD, Trade, Warehouses};
use crate::catalogue::Settings;
use crate::load::Window;
use crate::report::{Headline, Report, Row};

/// Figure 12.
pub const SCALABILITY: &str = "granola-fig12";
/// What it shows.
pub const SCALABILITY_WHAT: &str =
    "Throughput of TPC-C over repositories, against Granola that locks and Sinfonia's coordination";

/// Figure 13.
pub const NEW_ORDERS: &str = "granola-fig13";
/// What it shows.
pub const NEW_ORDERS_WHAT: &str =
    "Throughput of new orders at two repositories by how many of them are distributed";

/// Everybody is measured with more and more transactions of each warehouse in flight, and counts with the best.
const IN_FLIGHT: [usize; 3] = [8, 32, 96];

const COMPARED: [Coordination; 3] = [Coordination::Timestamps, Coordination::Locking, Coordination::Sinfonia];

/// What locks cost.
#[derive(Clone, Copy, Debug)]
struct Locks {
    what: &'static str,
    /// Of what is prepared, held and committed, as a share of running it.
    overhead: f64,
    /// Of what runs while something else is locked.
    checks: f64,
}

/// What they cost here.
const MEASURED: Locks = Locks { what: "", overhead: LOCK_OVERHEAD, checks: LOCK_CHECKS };

/// "Approximately equal to the cost of executing each operation" (section 6.2).
const AS_IN_THE_PAPER: Locks = Locks { what: ", locks as dear as in the paper", overhead: 1.0, checks: 1.0 };

fn window(settings: &Settings<'_>) -> Window {
    let measured = Duration::from_millis(if settings.quick { 250 } else { 1_000 });
    Window { warm_up: Duration::from_millis(100), measured }
}

/// A system at its best.
struct Best {
    rates: Vec<f64>,
    runs: Vec<Measured>,
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

/// Measures a system, and looks afterwards whether what must hold does.
fn best(
    coordination: Coordination,
    locks: Locks,
    repositories: usize,
    kinds: Kinds,
    settings: &Settings<'_>,
) -> Best {
    let mut best: Option<Best> = None;
    for in_flight in IN_FLIGHT {
        let plain = Deployment::new(coordination, repositories);
        let sessions_per_client = (in_flight * repositories).div_ceil(plain.clients);
        let (lock_overhead, single_overhead) = (locks.overhead, locks.checks);
        let deployment = Deployment { sessions_per_client, lock_overhead, single_overhead, ..plain };
        let one = |seed| {
            let mut trade = Trade::new(repositories, kinds, seed);
            let mut measured = run::<Warehouses>(&deployment, &mut trade, seed, window(settings), true);
            let violations = trade.violations(std::mem::take(&mut measured.left));
            assert!(violations.is_empty(), "{}, seed {seed}: {violations:?}", coordination.name());
            measured
        };
        let runs: Vec<Measured> = settings.seeds().map(one).collect();
        let rates: Vec<f64> = runs.iter().map(Measured::throughput).collect();
        if best.as_ref().is_none_or(|best| mean(&best.rates) < mean(&rates)) {
            best = Some(Best { rates, runs });
        }
    }
    best.unwrap_or_else(|| unreachable!("each is measured at several points"))
}

fn deviations() -> Vec<String> {
    vec![
        "The paper prints charts; the ratio and the latencies stand in its text.".to_owned(),
        "A warehouse has 60 customers for each district and 500 items, not 3,000 and 100,000, so that it is written quickly. What \
         each transaction costs was measured with as many."
            .to_owned(),
        "Where transactions meet is what costs: each payment writes its warehouse, and each new order reads it.".to_owned(),
        "Each system counts with the number of transactions in flight that suits it best. After each run the specification's \
         consistency conditions were checked."
            .to_owned(),
    ]
}

/// Who is compared, and what locks cost them.
const SCALED: [(Coordination, Locks); 5] = [
    (Coordination::Timestamps, MEASURED),
    (Coordination::Locking, MEASURED),
    (Coordination::Sinfonia, MEASURED),
    (Coordination::Locking, AS_IN_THE_PAPER),
    (Coordination::Sinfonia, AS_IN_THE_PAPER),
];

/// Figure 12.
pub fn scalability(settings: &mut Settings<'_>) -> Report {
    let counts: &[usize] = if settings.quick { &[1, 3] } else { &[1, 2, 4, 6, 8] };
    let mut rows = Vec::new();
    let mut last = [0.0_f64; SCALED.len()];
    for &repositories in counts {
        for (place, (coordination, locks)) in SCALED.into_iter().enumerate() {
            let name = format!("{}{}", coordination.name(), locks.what);
            settings.say(&format!("{name}, {repositories} repositories"));
            let best = best(coordination, locks, repositories, Kinds::All, settings);
            last[place] = mean(&best.rates);
            let latencies: Vec<f64> = best.runs.iter().map(|run| run.latency_ms(true)).collect();
            rows.push(Row::new(name.clone(), repositories as f64, "1/s", &best.rates));
            if repositories > 1 {
                let unit = "ms (distributed)";
                rows.push(Row::new(name, repositories as f64, unit, &latencies));
            }
        }
    }
    let [timestamps, locking, sinfonia, dear_locking, dear_sinfonia] = last;
    let headline = Headline {
        what: "throughput of TPC-C over most repositories, by timestamps ÷ the best that locks, where locks cost what they cost in the \
               paper"
            .to_owned(),
        paper: Some(3.0),
        ours: timestamps / dear_locking.max(dear_sinfonia),
        unit: "×",
    };
    let mut deviations = deviations();
    deviations.push(format!(
        "To prepare, hold and commit takes {:.0} % longer here than to run, and to run beside locks no longer. The paper says that locks \
         cost about as much as the rest. Both are measured: with locks as cheap as here it is {:.2}× Granola that locks, and {:.2}× Sinfonia.",
        LOCK_OVERHEAD * 100.0,
        timestamps / locking,
        timestamps / sinfonia,
    ));
    let (name, what, seed) = (SCALABILITY, SCALABILITY_WHAT, settings.first_seed());
    Report { name, what, headline, rows, deviations, seed }
}

/// Figure 13.
pub fn new_orders(settings: &mut Settings<'_>) -> Report {
    let percents: &[u32] = if settings.quick { &[0, 10, 100] } else { &[0, 5, 10, 25, 50, 75, 100] };
    let mut rows = Vec::new();
    let mut by_timestamps = Vec::new();
    for &percent in percents {
        for coordination in COMPARED {
            settings.say(&format!("{}, {percent} % distributed", coordination.name()));
            let kinds = Kinds::NewOrders { distributed: f64::from(percent) / 100.0 };
            let best = best(coordination, MEASURED, 2, kinds, settings);
            if coordination == Coordination::Timestamps {
                by_timestamps.push(mean(&best.rates));
            }
            rows.push(Row::new(coordination.name(), f64::from(percent), "1/s", &best.rates));
        }
    }
    let headline = Headline {
        what: "throughput by timestamps with all new orders distributed ÷ with none".to_owned(),
        paper: Some(0.5),
        ours: by_timestamps.last().copied().unwrap_or_default() / by_timestamps[0],
        unit: "×",
    };
    let (name, what, seed) = (NEW_ORDERS, NEW_ORDERS_WHAT, settings.first_seed());
    Report { name, what, headline, rows, deviations: deviations(), seed }
}
