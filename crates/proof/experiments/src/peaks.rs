//! `tapir-fig7`, `tapir-fig8`, `tapir-fig9`: how much TAPIR and its rivals get out of their servers within one data centre
//! (TAPIR paper, sections 7.3 and 7.4.1).
//!
//! More and more transactions are in flight, until throughput rises no more.

use crate::catalogue::Settings;
use crate::contender::{Batches, Contender};
use crate::datacentre::{Bench, CLIENTS};
use crate::deployment::Deployment;
use crate::load::Measured;
use crate::report::{Headline, Report, Row};

/// Figure 7.
pub const MICRO: &str = "tapir-fig7";
/// What it shows.
pub const MICRO_WHAT: &str =
    "Throughput of read-modify-write within a data centre, by transactions in flight";

/// Figure 8.
pub const LATENCY: &str = "tapir-fig8";
/// What it shows.
pub const LATENCY_WHAT: &str =
    "Latency of FollowUser at peak throughput within a data centre (Retwis, Zipf 0.6)";

/// Figure 9.
pub const RETWIS: &str = "tapir-fig9";
/// What it shows.
pub const RETWIS_WHAT: &str = "Peak throughput of Retwis within a data centre (Zipf 0.6)";

impl Bench {
    /// Measures a contender with more and more transactions in flight.
    fn climb(&self, contender: Contender, batches: Batches, settings: &mut Settings<'_>) -> Climb {
        let mut points = Vec::new();
        for sessions in &self.sessions {
            let in_flight = CLIENTS * sessions;
            let costs = Some(batches.costs());
            settings.say(&format!("{}, {in_flight} in flight", named(contender, batches)));
            let deployment = Deployment { sessions_per_client: *sessions, costs, ..self.deployment.clone() };
            let one = |seed| contender.run(&deployment, batches, seed, self.window);
            points.push((in_flight, settings.seeds().map(one).collect()));
        }
        Climb { contender, batches, points }
    }

    /// Measures everybody.
    fn climbs(&self, settings: &mut Settings<'_>) -> Vec<Climb> {
        let mut climbs = Vec::new();
        for batches in [Batches::Nothing, Batches::Everything] {
            climbs.extend(Contender::all().map(|contender| self.climb(contender, batches, settings)));
        }
        climbs
    }
}

fn named(contender: Contender, batches: Batches) -> String {
    match batches {
        Batches::Nothing => contender.to_string(),
        Batches::Everything => format!("{contender}, batched"),
    }
}

/// A contender with more and more transactions in flight.
struct Climb {
    contender: Contender,
    batches: Batches,
    points: Vec<(usize, Vec<Measured>)>,
}

fn samples(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> Vec<f64> {
    runs.iter().map(of).collect()
}

fn mean(runs: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    samples(runs, of).iter().sum::<f64>() / runs.len() as f64
}

/// How long the busiest server works for each transaction, in microseconds.
fn busiest_micros(run: &Measured) -> f64 {
    run.busiest_server() * 1e6 / run.throughput().max(f64::MIN_POSITIVE)
}

impl Climb {
    fn name(&self) -> String {
        named(self.contender, self.batches)
    }

    /// Where throughput was greatest.
    fn peak(&self) -> &(usize, Vec<Measured>) {
        let throughput = |point: &&(usize, Vec<Measured>)| mean(&point.1, Measured::throughput);
        let greatest = self.points.iter().max_by(|one, other| throughput(one).total_cmp(&throughput(other)));
        greatest.unwrap_or_else(|| unreachable!("each is measured at several points"))
    }

    fn peak_throughput(&self) -> f64 {
        mean(&self.peak().1, Measured::throughput)
    }

    fn rows(&self) -> Vec<Row> {
        let name = self.name();
        let throughput = |(in_flight, runs): &(usize, Vec<Measured>)| {
            Row::new(name.clone(), *in_flight as f64, "1/s", &samples(runs, Measured::throughput))
        };
        let latency = |(in_flight, runs): &(usize, Vec<Measured>)| {
            Row::new(
                name.clone(),
                *in_flight as f64,
                "ms (median)",
                &samples(runs, |run| run.latency_ms(0.5)),
            )
        };
        let (in_flight, at_peak) = self.peak();
        let busiest = samples(at_peak, busiest_micros);
        let mut rows: Vec<Row> = self.points.iter().map(throughput).collect();
        rows.extend(self.points.iter().map(latency));
        rows.push(Row::new(
            name.clone(),
            *in_flight as f64,
            "µs of the busiest server per transaction",
            &busiest,
        ));
        rows
    }
}

/// TAPIR's peak ÷ that of the best system with leaders.
fn lead(climbs: &[Climb], batches: Batches) -> f64 {
    let peak = |counts: fn(Contender) -> bool| {
        let side = climbs.iter().filter(|climb| climb.batches == batches && counts(climb.contender));
        side.map(Climb::peak_throughput).fold(0.0, f64::max)
    };
    peak(|contender| contender == Contender::Tapir) / peak(Contender::has_leaders)
}

fn deviations(climbs: &[Climb], shards: usize) -> Vec<String> {
    let with = |batches| lead(climbs, batches);
    vec![
        "The paper prints a chart without numbers, and ratios in its text.".to_owned(),
        format!("{shards} shards of three replicas, each with a processor of its own, whose work costs what it costs on a real server."),
        "As in the paper, each message is read and written by itself, on either side, and each entry of a log in a message of \
         its own."
            .to_owned(),
        format!(
            "\"Batched\" is what servers do: what is ready together goes together. TAPIR ÷ the best system with leaders is \
             {:.2} without batches and {:.2} with them.",
            with(Batches::Nothing),
            with(Batches::Everything)
        ),
    ]
}

/// Figure 7.
pub fn micro(settings: &mut Settings<'_>) -> Report {
    let climbs = Bench::micro(settings).climbs(settings);
    let headline = Headline {
        what: "peak throughput of read-modify-write, TAPIR ÷ the best system with leaders".to_owned(),
        paper: Some(2.6),
        ours: lead(&climbs, Batches::Nothing),
        unit: "×",
    };
    report(MICRO, MICRO_WHAT, headline, &climbs, 1, settings)
}

/// Figure 9.
pub fn retwis(settings: &mut Settings<'_>) -> Report {
    let bench = Bench::retwis(settings);
    let climbs = bench.climbs(settings);
    let headline = Headline {
        what: "peak throughput of Retwis, TAPIR ÷ the best system with leaders".to_owned(),
        paper: Some(2.0),
        ours: lead(&climbs, Batches::Nothing),
        unit: "×",
    };
    report(RETWIS, RETWIS_WHAT, headline, &climbs, bench.deployment.shards, settings)
}

fn report(
    name: &'static str,
    what: &'static str,
    headline: Headline,
    climbs: &[Climb],
    shards: usize,
    settings: &Settings<'_>,
) -> Report {
    let rows = climbs.iter().flat_map(Climb::rows).collect();
    Report { name, what, headline, rows, deviations: deviations(climbs, shards), seed: settings.first_seed() }
}

/// Figure 8.
pub fn latency(settings: &mut Settings<'_>) -> Report {
    let bench = Bench::retwis(settings);
    let climbs: Vec<Climb> =
        Contender::all().map(|contender| bench.climb(contender, Batches::Nothing, settings)).collect();
    let at_peak = |climb: &Climb| mean(&climb.peak().1, Measured::mean_latency_ms);
    let tapir = climbs.iter().filter(|climb| climb.contender == Contender::Tapir).map(at_peak).sum::<f64>();
    let rivals = climbs.iter().filter(|climb| climb.contender.has_leaders()).map(at_peak);
    let headline = Headline {
        what: "average latency of FollowUser at each system's peak, TAPIR ÷ the quickest system with leaders"
            .to_owned(),
        paper: Some(1.0),
        ours: tapir / rivals.fold(f64::INFINITY, f64::min),
        unit: "×",
    };
    let rows = climbs.iter().enumerate().map(|(place, climb)| {
        let (in_flight, runs) = climb.peak();
        let name = format!("{}, {in_flight} in flight", climb.name());
        Row::new(name, place as f64, "ms", &samples(runs, Measured::mean_latency_ms))
    });
    let deviations = vec![
        "The paper prints a chart without numbers; it says that SPAN-OCC is as quick as TAPIR, at half the throughput.".to_owned(),
        "Each system is measured with as many transactions in flight as give its greatest throughput, among those of \
         tapir-fig9: a closed loop beyond the peak only makes transactions wait."
            .to_owned(),
        "The x axis counts systems.".to_owned(),
    ];
    Report {
        name: LATENCY,
        what: LATENCY_WHAT,
        headline,
        rows: rows.collect(),
        deviations,
        seed: settings.first_seed(),
    }
}
