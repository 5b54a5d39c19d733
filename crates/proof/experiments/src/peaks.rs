//! `tapir-fig7`, `tapir-fig8`, `tapir-fig9`: how much TAPIR and its rivals get out of their servers within one data centre
//! (TAPIR paper, sections 7.3 and 7.4.1).
//!
//! More and more transactions are in flight, until throughput rises no more.

use crate::catalogue::{Experiment, Settings};
use crate::contender::{Batches, Contender, ratio};
use crate::datacentre::{Bench, CLIENTS};
use crate::deployment::Deployment;
use crate::load::Measured;
use crate::report::{Found, Headline, Row, Runs, Shown, defined};

/// Figure 7.
pub const MICRO: Experiment = Experiment {
    name: "tapir-fig7",
    what: "Throughput of read-modify-write within a data centre, by transactions in flight",
    x: Some("transactions in flight"),
    run: micro,
};

/// Figure 8.
pub const LATENCY: Experiment = Experiment {
    name: "tapir-fig8",
    what: "Latency of FollowUser at peak throughput within a data centre (Retwis, Zipf 0.6)",
    x: None,
    run: latency,
};

/// Figure 9.
pub const RETWIS: Experiment = Experiment {
    name: "tapir-fig9",
    what: "Peak throughput of Retwis within a data centre (Zipf 0.6)",
    x: Some("transactions in flight"),
    run: retwis,
};

impl Bench {
    /// Measures a contender with more and more transactions in flight.
    fn climb(&self, contender: Contender, batches: Batches, settings: &mut Settings<'_>) -> Climb {
        let mut points = Vec::new();
        for sessions in &self.sessions {
            let in_flight = CLIENTS * sessions;
            let costs = Some(batches.costs());
            settings.say(&format!("{contender}, {}, {in_flight} in flight", batches.name()));
            let deployment = Deployment { sessions_per_client: *sessions, costs, ..self.deployment.clone() };
            let one = |seed| contender.run(&deployment, batches, seed, self.window);
            points.push((in_flight, settings.measure(one)));
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

/// A contender with more and more transactions in flight.
struct Climb {
    contender: Contender,
    batches: Batches,
    points: Vec<(usize, Runs)>,
}

/// How long the busiest server works for each transaction, in microseconds.
fn busiest_micros(run: &Measured) -> f64 {
    run.busiest_server() * 1e6 / run.throughput()
}

impl Climb {
    /// Where throughput was greatest.
    fn peak(&self) -> &(usize, Runs) {
        let throughput = |point: &&(usize, Runs)| point.1.mean(Measured::throughput);
        let greatest = self.points.iter().max_by(|one, other| throughput(one).total_cmp(&throughput(other)));
        greatest.unwrap_or_else(|| unreachable!("each is measured at several points"))
    }

    /// Its rows. It stands so far to the right among the contenders.
    fn rows(&self, place: usize) -> Vec<Row> {
        let row = |(in_flight, runs): &(usize, Runs), unit, of: &dyn Fn(&Measured) -> f64| {
            runs.row(self.contender.to_string(), *in_flight as f64, unit, of).in_panel(self.batches.name())
        };
        let throughputs = self.points.iter().map(|point| row(point, "1/s", &Measured::throughput));
        let latencies = self.points.iter().map(|point| row(point, "ms, median", &|run| run.latency_ms(0.5)));
        let unit = "µs of the busiest server per transaction, at the peak";
        let busiest = self.peak().1.row(self.batches.name(), place as f64, unit, busiest_micros);
        throughputs.chain(latencies).chain([busiest.at(self.contender.to_string())]).collect()
    }
}

/// TAPIR's peak ÷ that of the best system with leaders.
fn lead(climbs: &[Climb], batches: Batches) -> f64 {
    let side = climbs.iter().filter(|climb| climb.batches == batches);
    ratio(side.map(|climb| (climb.contender, climb.peak().1.mean(Measured::throughput))), f64::max)
}

fn deviations(climbs: &[Climb], shards: usize) -> Vec<String> {
    let with = |batches| Shown(lead(climbs, batches));
    vec![
        "The paper prints a chart without numbers, and ratios in its text.".to_owned(),
        format!("{shards} shards of three replicas, each with a processor of its own, whose work costs what it costs on a real server."),
        "As in the paper, each message is read and written by itself, on either side, and each entry of a log in a message of \
         its own."
            .to_owned(),
        format!(
            "With batches is what servers do: what is ready together goes together. TAPIR ÷ the best system with leaders is \
             {:.2} without batches and {:.2} with them.",
            with(Batches::Nothing),
            with(Batches::Everything)
        ),
    ]
}

/// The peak of the store without transactions ÷ that of TAPIR, without batches: "roughly" in the paper.
fn store_row(climbs: &[Climb]) -> Option<Row> {
    let peak = |wanted: Contender| {
        let side = climbs.iter().find(|climb| climb.contender == wanted && climb.batches == Batches::Nothing);
        side.map(|climb| &climb.peak().1)
    };
    let (store, tapir) = (peak(Contender::QuorumStore)?, peak(Contender::Tapir)?);
    let ratios = store.pairs(tapir, Measured::throughput);
    let row = Row::new("qwstore ÷ TAPIR", 0.0, "×", &ratios).at("peak throughput, without batches");
    Some(Row { paper: Some(2.0), ..row })
}

/// Why the ratio without batches is what it is: the busiest server of each side works for so long.
fn arithmetic(climbs: &[Climb]) -> Option<String> {
    let side = || climbs.iter().filter(|climb| climb.batches == Batches::Nothing);
    let micros = |climb: &Climb| climb.peak().1.mean(busiest_micros);
    let tapir = side().find(|climb| climb.contender == Contender::Tapir).map(micros)?;
    let rate = |climb: &&Climb| climb.peak().1.mean(Measured::throughput);
    let best = side()
        .filter(|climb| climb.contender.has_leaders())
        .max_by(|one, other| rate(one).total_cmp(&rate(other)))?;
    let rival = micros(best);
    Some(format!(
        "Without batches the ratio is that of what the busiest server does for a transaction, since all of them are busy: {rival:.1} µs where {} leads and {tapir:.1} µs at a \
         replica of TAPIR, {rival:.1} ÷ {tapir:.1} = {:.2}. Messages alone would give more, what is done to the keys is the same on both sides, and gives 1.",
        best.contender,
        Shown(rival / tapir),
    ))
}

/// The peaks of all contenders, and a headline about those without batches.
fn peaks(bench: &Bench, of: &str, paper: f64, settings: &mut Settings<'_>) -> Found {
    let climbs = bench.climbs(settings);
    let headline = Headline {
        what: format!("peak throughput of {of}, TAPIR ÷ the best system with leaders"),
        paper: Some(paper),
        paper_range: None,
        ours: defined(lead(&climbs, Batches::Nothing)),
        unit: "×".into(),
    };
    let contenders = Contender::all().count();
    let of_each = |(at, climb): (usize, &Climb)| climb.rows(at % contenders);
    let mut rows: Vec<Row> = climbs.iter().enumerate().flat_map(of_each).collect();
    rows.extend(store_row(&climbs));
    let mut deviations = deviations(&climbs, bench.deployment.shards);
    deviations.extend(arithmetic(&climbs));
    Found { headline, rows, deviations, bounds: Vec::new() }
}

fn micro(settings: &mut Settings<'_>) -> Found {
    peaks(&Bench::micro(settings), "read-modify-write", 2.6, settings)
}

fn retwis(settings: &mut Settings<'_>) -> Found {
    peaks(&Bench::retwis(settings), "Retwis", 2.0, settings)
}

fn latency(settings: &mut Settings<'_>) -> Found {
    let bench = Bench::retwis(settings);
    let climbs: Vec<Climb> =
        Contender::all().map(|contender| bench.climb(contender, Batches::Nothing, settings)).collect();
    let at_peak = |climb: &Climb| (climb.contender, climb.peak().1.mean(Measured::mean_latency_ms));
    let headline = Headline {
        what: "average latency of FollowUser at each system's peak, TAPIR ÷ the quickest system with leaders"
            .to_owned(),
        paper: Some(1.0),
        paper_range: None,
        ours: defined(ratio(climbs.iter().map(at_peak), f64::min)),
        unit: "×".into(),
    };
    let rows = climbs.iter().enumerate().map(|(place, climb)| {
        let (in_flight, runs) = climb.peak();
        let row = runs.row("average", place as f64, "ms", Measured::mean_latency_ms);
        row.at(format!("{}, {in_flight} in flight", climb.contender))
    });
    let deviations = vec![
        "The paper prints a chart without numbers; it says that SPAN-OCC is as quick as TAPIR, at half the throughput.".to_owned(),
        "Each system is measured with as many transactions in flight as give its greatest throughput, among those of \
         tapir-fig9: a closed loop beyond the peak only makes transactions wait."
            .to_owned(),
    ];
    Found { headline, rows: rows.collect(), deviations, bounds: Vec::new() }
}
