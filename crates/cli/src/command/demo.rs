//! `quorate demo`: a cluster of three sites in one process, real transactions, and a verdict on what they saw.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use clap::Args;
use quorate::wan::Matrix;
use quorate::{Database, Durability, Isolation, KeyspaceOptions, Options};
use quorate_checker::{Report, check};
use quorate_cluster::{Layout, Threads};
use quorate_core::GroupSize;
use quorate_load::{HistoryLog, Load, Running, Tally};
use quorate_server::EventLoops;
use quorate_workloads::{Parameters, WorkloadKind};
use serde::Serialize;

use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, micros, print_json, thousands};
use crate::parse::positive;
use crate::runtime::{block_on, stop_signal};

/// The emulated delays: every site is 100 ms from every other, there and back.
const MATRIX: &str = "uniform-100ms";

/// How many transactions of the social network each site keeps in flight.
const SOCIAL_CLIENTS: u64 = 16;

/// How many transactions that are made to conflict each site keeps in flight.
const CONFLICT_CLIENTS: u64 = 4;

/// How many keys the social network has: few enough for its transactions to meet.
const SOCIAL_KEYS: u64 = 100_000;

/// See a geo-distributed cluster at work: three sites, real transactions, and a verdict on what they saw.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate demo
  quorate demo --seconds 5
  quorate demo --json

Three servers and their clients run in this process, with 100 ms between sites emulated and temporary data. Each
isolation gets a keyspace and the social-network workload; what its transactions saw is recorded and judged.
Exit code 0 if every history is valid and has enough conflicts for that to mean something.")]
pub(crate) struct DemoArguments {
    /// How long the workloads run, over all isolations.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "18")]
    seconds: u64,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Demo {
    ok: bool,
    sites: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    isolation: &'static str,
    protocol: &'static str,
    level: &'static str,
    verdict: &'static str,
    /// True if the history has too few conflicts for the verdict to mean much.
    vacuous: bool,
    committed: u64,
    aborted: u64,
    unknown: u64,
    p50_us: u64,
    p99_us: u64,
    rtts_per_commit: f64,
    #[serde(skip)]
    report: Report,
}

impl DemoArguments {
    pub(crate) fn run(self) -> Outcome {
        let directory = tempfile::tempdir().map_err(Failure::failed)?;
        let matrix = Matrix::load(MATRIX).map_err(Failure::failed)?;
        let sites = matrix.sites().to_vec();
        let mut layout = Layout {
            cluster: 1,
            nodes: sites.iter().map(|site| (site.clone(), String::new())).collect(),
            listen: Vec::new(),
            http: Vec::new(),
            sites: sites.clone(),
            directory: directory.path().to_owned(),
            wan: Some(MATRIX.to_owned()),
            durability: Durability::Sync,
            log: BTreeMap::new(),
            limits: BTreeMap::new(),
            redis: None,
            tls: None,
            protocol_version: None,
            threads: EventLoops::default(),
        };
        let threads = Threads::start_anywhere(&mut layout)?;
        let progress = Progress::spinner();
        progress.say(format!("three sites ({}), 100 ms from each to each, temporary data", sites.join(", ")));
        let outcome = block_on(async {
            tokio::select! {
                signal = stop_signal() => signal.and(Err(Failure::failed("stopped"))),
                () = threads.failed() => Err(Failure::failed("a node has failed")),
                outcome = self.show(&layout, &matrix, &progress) => outcome,
            }
        });
        drop(progress);
        threads.shutdown()?;
        outcome
    }

    async fn show(&self, layout: &Layout, matrix: &Matrix, progress: &Progress) -> Outcome {
        let mut clients = Vec::new();
        for site in &layout.sites {
            let options =
                Options { site: Some(site.clone()), delays: Some(matrix.clone()), ..Options::default() };
            clients.push((site.clone(), quorate::connect_with(layout.addresses(), options).await?));
        }
        let share = Duration::from_secs(self.seconds) / Isolation::ALL.len() as u32;
        let mut rows = Vec::new();
        for isolation in Isolation::ALL {
            rows.push(run(isolation, &clients, matrix, share, progress).await?);
        }
        for (_, db) in clients {
            db.close().await;
        }
        let ok = rows.iter().all(|row| row.report.is_valid() && !row.vacuous);
        let demo = Demo { ok, sites: layout.sites.clone(), rows };
        if self.json {
            print_json(&demo)?;
        } else {
            outln!("{}", text(&demo));
        }
        Ok(Verdict::good_if(ok))
    }
}

/// Runs the workloads at one isolation and judges what they saw.
async fn run(
    isolation: Isolation,
    clients: &[(String, Database)],
    matrix: &Matrix,
    share: Duration,
    progress: &Progress,
) -> Result<Row, Failure> {
    let name = format!("demo-{isolation}");
    let Some((_, first)) = clients.first() else { return Err(Failure::failed("there is no client")) };
    progress.now(format!("{isolation}: creating a keyspace"));
    first.create_keyspace(&name, KeyspaceOptions::new(isolation)).await?;
    let history = HistoryLog::new();
    let mut running = Vec::new();
    for (position, (site, db)) in clients.iter().enumerate() {
        let keyspace = db.keyspace(&name).await?;
        let round_trip = fast_quorum_round_trip(db, &keyspace.definition(), matrix, site);
        let first_client = position as u64 * (SOCIAL_CLIENTS + CONFLICT_CLIENTS);
        let conflicting = CONFLICT_CLIENTS * clients.len() as u64;
        let social = Parameters { keys: SOCIAL_KEYS, judged: true, ..Parameters::new(WorkloadKind::Retwis) };
        let conflicts = Parameters::new(WorkloadKind::Lists).for_clients(conflicting);
        for (parameters, clients, offset) in
            [(social, SOCIAL_CLIENTS, 0), (conflicts, CONFLICT_CLIENTS, SOCIAL_CLIENTS)]
        {
            let load = Load {
                keyspace: keyspace.clone(),
                parameters,
                clients,
                first_client: first_client + offset,
                site: site.clone(),
                round_trip: Some(round_trip),
                history: Some(history.clone()),
                seed: 1,
                drawn: 0,
                generations: 0,
                commits: None,
                reads_at_once: false,
                stale: None,
                speculates: false,
            };
            running.push(load.start());
        }
    }
    watch(isolation, &running, share, progress).await;
    running.iter().for_each(Running::begin_to_stop);
    let mut tally = Tally::default();
    for load in running {
        tally.add(&load.stop().await);
    }
    if let Some(trouble) = &tally.trouble {
        progress.say(format!("{isolation}: some transactions were refused: {trouble}"));
    }
    progress.now(format!("{isolation}: judging what {} transactions saw", thousands(tally.committed)));
    let report = check(&history.to_history().map_err(Failure::failed)?, quorate_workloads::level(isolation));
    Ok(Row {
        isolation: isolation.name(),
        protocol: isolation.protocol(),
        level: report.level,
        verdict: report.verdict.name(),
        vacuous: report.vacuous,
        committed: tally.committed,
        aborted: tally.aborted,
        unknown: tally.unknown,
        p50_us: tally.latency_us(0.5),
        p99_us: tally.latency_us(0.99),
        rtts_per_commit: (tally.rtts_per_commit() * 1_000.0).round() / 1_000.0,
        report,
    })
}

/// Shows what happens while the workloads run.
async fn watch(isolation: Isolation, running: &[Running], share: Duration, progress: &Progress) {
    let end = Instant::now() + share;
    while Instant::now() < end {
        let step = Duration::from_millis(250).min(end - Instant::now());
        tokio::time::sleep(step).await;
        let mut tally = Tally::default();
        for load in running {
            load.with_tally(|one| tally.add(one));
        }
        progress.now(format!(
            "{isolation}: {} committed, {} aborted, p50 {}, {} s left",
            thousands(tally.committed),
            thousands(tally.aborted),
            micros(tally.latency_us(0.5)),
            end.saturating_duration_since(Instant::now()).as_secs()
        ));
    }
}

/// The round trip from a site to the farthest replica that a fast quorum needs.
fn fast_quorum_round_trip(
    db: &Database,
    keyspace: &quorate::topology::Keyspace,
    matrix: &Matrix,
    site: &str,
) -> Duration {
    let topology = db.topology();
    let of_shard = |shard: &quorate::topology::Shard| {
        let mut round_trips: Vec<Duration> = shard
            .replicas
            .iter()
            .filter_map(|node| topology.nodes.get(usize::from(node.0)))
            .filter_map(|node| topology.sites.get(usize::from(node.site.0)))
            .filter_map(|remote| matrix.round_trip(site, remote))
            .collect();
        round_trips.sort_unstable();
        let needed = GroupSize::new(shard.replicas.len()).map_or(1, GroupSize::fast_quorum);
        round_trips.get(needed - 1).copied().unwrap_or_default()
    };
    keyspace.shards.iter().map(of_shard).max().unwrap_or_default()
}

/// The result for people.
fn text(demo: &Demo) -> String {
    let mut table = Table::new(&[
        ("isolation", Align::Left),
        ("protocol", Align::Left),
        ("the checker says", Align::Left),
        ("committed", Align::Right),
        ("aborted", Align::Right),
        ("p50", Align::Right),
        ("p99", Align::Right),
        ("round trips/commit", Align::Right),
    ]);
    for row in &demo.rows {
        let says = format!("{} {}{}", row.level, row.verdict, if row.vacuous { ", but vacuous" } else { "" });
        table.row([
            row.isolation.to_owned(),
            row.protocol.to_owned(),
            says,
            thousands(row.committed),
            thousands(row.aborted),
            micros(row.p50_us),
            micros(row.p99_us),
            format!("{:.2}", row.rtts_per_commit),
        ]);
    }
    let mut text = format!("\n{table}\n");
    for row in &demo.rows {
        let evidence = &row.report.evidence;
        text.push_str(&format!(
            "\n  {}: judged {} commits with {} conflicts, {} of them between transactions that overlapped in time",
            row.isolation,
            thousands(evidence.commits),
            thousands(evidence.conflict_edges),
            thousands(evidence.overlapping_pairs)
        ));
        if !row.report.is_valid() {
            text.push_str(&format!("\n{}", row.report));
        }
    }
    text
}
