//! `quorate bench`: keeps transactions in flight and measures what comes of it.

mod hotspot;
mod overload;
mod populated;
mod prepared;
mod procedural;
mod redis;
mod rubis;
mod samples;
mod social;
mod spent;
mod tls_cost;
mod tpcc;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use quorate::wan::Matrix;
use quorate::{Database, DropOptions, Durability, Isolation, Keyspace, KeyspaceOptions, Options, Rival};
use quorate_cluster::{Embedded, EmbeddedOptions};
use quorate_core::GroupSize;
use quorate_load::{Costs, HistoryLog, Load, Reading, Running, Tally};
use quorate_server::EventLoops;
use quorate_workloads::{Parameters, Popularity, WorkloadKind};
use serde::Serialize;

use super::keyspace::{SpeculationArguments, TimestampingArguments};
use super::{LoginArguments, TlsArguments};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, WithCommand, micros, print_json, thousands};
use crate::parse::{exponent, positive};
use crate::runtime::{block_on, program, stop_signal};
use prepared::Prepared;
use samples::Samples;
use social::Site;
use spent::Spent;

/// Measure a workload on a cluster.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate bench --list
  quorate bench rmw --embedded --clients 256 --durability memory
  quorate bench retwis --embedded --seconds 30 --zipf 0.6 --json
  quorate bench rmw --embedded --isolation snapshot --variant clock-si
  quorate bench rmw --embedded --isolation snapshot --speculative --chain 8 --wan uniform-100ms --durability memory
  quorate bench counters --embedded --isolation serializable --clients 256 --two 10
  quorate bench rmw --embedded --clients 256 --seconds 600 --samples m.jsonl --plot m.svg
  quorate bench rmw --embedded --clients 256 --baseline txn-occ
  quorate bench rmw --embedded --isolation serializable --keys 20 --shards 2 --overload 10
  quorate bench retwis --connect 10.0.0.1:7400 --shards 5
  quorate bench tpcc --embedded --warehouses 4 --shards 2 --durability memory
  quorate bench tpcc --embedded --isolation strict --mix A --warehouses 4 --durability memory
  quorate bench rubis --embedded --markets 4 --shards 2 --think 10 --clients 1000 --durability memory
  quorate bench retwis --clients 256 --tls-cost 5       the processor time of TLS: plain text and TLS in turns
  quorate bench rmw --connect 10.0.0.1:7400 --zipf 0.99 --no-deadline-ordering
  quorate bench waltsocial --embedded --users 10000 --mix mix1 --sites 2 --replicas 1
  quorate bench hotspot --embedded --shards 4 --mix high --durability memory
  quorate bench retwis-psi --embedded --mix post --replicas 1 --durability memory
  quorate bench retwis-psi --redis 127.0.0.1:6379 --mix post
  quorate bench retwis --embedded --seconds 5 --history h.jsonl && quorate check h.jsonl --level strict-serializable

Without --connect real server processes are started on loopback, in a temporary directory, and stopped at the end.")]
pub(crate) struct BenchArguments {
    /// The workload to measure; see --list.
    #[arg(required_unless_present = "list")]
    workload: Option<Measured>,
    /// List the workloads and the comparison systems.
    #[arg(long)]
    list: bool,
    /// Use the cluster that any of these nodes belongs to.
    #[arg(long, value_name = "ADDR", conflicts_with = "embedded")]
    connect: Option<String>,
    #[command(flatten)]
    certificates: TlsArguments,
    #[command(flatten)]
    login: LoginArguments,
    /// Secure the connections of the servers that are started by TLS, with certificates that are made for the run.
    #[arg(long, conflicts_with = "connect")]
    tls: bool,
    /// Run the benchmark so many times in plain text and so many times with TLS, in turns, and compare the processor time of a transaction.
    #[arg(long, value_name = "ROUNDS", value_parser = positive, conflicts_with_all = ["connect", "tls", "history", "samples", "overload"])]
    tls_cost: Option<u64>,
    /// Start server processes on loopback, one per replica.
    #[arg(long)]
    embedded: bool,
    /// Over how many event loops each of the servers that are started spreads its replicas: `auto`, or a number.
    #[arg(long, value_name = "N", default_value_t, conflicts_with = "connect")]
    threads: EventLoops,
    /// The promise to transactions: strict unless said otherwise, serializable for tpcc and rubis, and parallel-snapshot for what changes sets.
    #[arg(long)]
    isolation: Option<Isolation>,
    /// Measure this comparison system; see --list.
    #[arg(long, value_name = "SYSTEM", conflicts_with_all = ["isolation", "no_deadline_ordering"])]
    baseline: Option<Rival>,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    timestamping: TimestampingArguments,
    /// Set an option of the section [log] of the servers, to tune a comparison system; see `quorate server --print-config`.
    #[arg(long, value_name = "OPTION=NUMBER", value_parser = log_option, requires = "baseline", conflicts_with = "connect")]
    log: Vec<(String, u64)>,
    /// How many transactions are in flight.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "64")]
    clients: u64,
    /// How long to measure, after a second of warming up.
    #[arg(long, value_name = "S", value_parser = positive, default_value = "10")]
    seconds: u64,
    /// How many keys the workload uses; by default as the workload defines it.
    #[arg(long, value_name = "N", value_parser = positive)]
    keys: Option<u64>,
    /// How large written values are, in bytes.
    #[arg(long, value_name = "B")]
    value_size: Option<usize>,
    /// Write every key before the measurement begins, so that reads find values: `rmw`, `writes`, `retwis` and `ycsb-t`.
    #[arg(long, conflicts_with_all = ["history", "redis"])]
    populate: bool,
    /// The exponent of the Zipf distribution of keys; 0 is uniform.
    #[arg(long, value_name = "C", value_parser = exponent)]
    zipf: Option<f64>,
    /// `counters` only: so many of a hundred transactions are about two counters.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100), default_value = "0")]
    two: u64,
    /// The failures that acknowledged writes survive: `sync`, the loss of power everywhere; `memory`, that of a minority.
    #[arg(long, default_value_t = Durability::Sync)]
    durability: Durability,
    /// Into how many shards the keys are divided.
    #[arg(long, default_value_t = 1)]
    shards: usize,
    /// How many replicas each shard has, an odd number, or any for `snapshot`.
    #[arg(long, default_value_t = 3)]
    replicas: usize,
    /// Emulate the delays of a matrix between the sites of the servers: `tapir`, `walter`, `uniform-100ms` or a file. Clients stand at the first one.
    #[arg(long, value_name = "MATRIX", conflicts_with = "connect")]
    wan: Option<String>,
    /// `snapshot` only: each client goes on with its next transaction once the last one was shown, before it is final.
    #[arg(long, conflicts_with = "history")]
    speculative: bool,
    /// Run transactions that only read, and know their keys beforehand, like any other: key by key, and then a prepare.
    #[arg(long)]
    no_read_only: bool,
    /// Let transactions that only read, and know their keys beforehand, read what there was no longer ago than that.
    #[arg(long, value_name = "MS", conflicts_with_all = ["no_read_only", "history"])]
    stale: Option<u64>,
    /// Take timestamps from the clock, and do not let reads of contended keys take turns: plain TAPIR, for comparison.
    #[arg(long)]
    no_deadline_ordering: bool,
    /// Record what happens, for `quorate check`.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Write what the servers take of memory and disk to a file, one JSON object for each second.
    #[arg(long, value_name = "FILE", conflicts_with = "connect")]
    samples: Option<PathBuf>,
    /// Draw the samples to a file, as SVG.
    #[arg(long, value_name = "FILE", requires = "samples")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    overload: overload::OverloadArguments,
    #[command(flatten)]
    social: social::SocialArguments,
    #[command(flatten)]
    hotspot: hotspot::HotspotArguments,
    #[command(flatten)]
    rubis: rubis::RubisArguments,
    /// How many warehouses tpcc has.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000), default_value = "2")]
    warehouses: u32,
    /// `tpcc` and `rubis` only: spend so much of the times to key in and to think that the benchmark specifies, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=1_000), default_value = "0")]
    think: u32,
    /// Give each warehouse of tpcc as many customers and items as the specification does: ten times as many.
    #[arg(long)]
    full_size: bool,
    /// Deploy this module and call it, in place of the procedures of tpcc that are linked with the servers.
    #[arg(long, value_name = "FILE")]
    procedures: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// The workload or benchmark that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    /// Transactions that read before they write.
    Workload(WorkloadKind),
    /// The procedures of TPC-C.
    Tpcc,
    /// The procedures of RUBiS.
    Rubis,
}

impl Measured {
    /// The name that users write.
    const fn name(self) -> &'static str {
        match self {
            Measured::Workload(workload) => workload.name(),
            Measured::Tpcc => TPCC.0,
            Measured::Rubis => RUBIS.0,
        }
    }
}

/// The name of TPC-C, and its description.
const TPCC: (&str, &str) = (
    "tpcc",
    "TPC-C, as procedures or interactive transactions, with its consistency conditions: --mix standard, A, B, C or shares",
);

/// The name of RUBiS, and its description.
const RUBIS: (&str, &str) = (
    "rubis",
    "RUBiS, an auction site, as procedures or interactive transactions, with what must hold: --updates, --markets",
);

impl FromStr for Measured {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            name if name == TPCC.0 => Ok(Measured::Tpcc),
            name if name == RUBIS.0 => Ok(Measured::Rubis),
            name => name
                .parse()
                .map(Measured::Workload)
                .map_err(|error| format!("{error}, {}, {}", TPCC.0, RUBIS.0)),
        }
    }
}

/// The result of a measurement.
#[derive(Serialize)]
#[serde(untagged)]
enum Outcomes {
    Workload(Report),
    Tpcc(tpcc::Report),
    Rubis(rubis::Report),
}

#[derive(Serialize)]
struct Report {
    workload: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    baseline: Option<&'static str>,
    clients: u64,
    seconds: f64,
    committed: u64,
    aborted: u64,
    abort_rate: f64,
    /// Transactions whose outcome was not found out.
    unknown: u64,
    /// Transactions that the cluster refused.
    refused: u64,
    /// The share of commits that were decided within one round trip.
    fast_rate: f64,
    throughput_tps: f64,
    latency_us: Latency,
    #[serde(flatten)]
    spent: Spent,
    durability: &'static str,
    shards: usize,
    replicas: usize,
    cores: usize,
    #[serde(flatten)]
    network: Option<Network>,
    #[serde(flatten)]
    contention: Option<hotspot::Contention>,
    #[serde(flatten)]
    perception: Option<Perception>,
    #[serde(skip_serializing_if = "Option::is_none")]
    overload: Option<overload::Overload>,
}

/// The part of the report that only loads have whose clients go on before results are final.
#[derive(Serialize)]
struct Perception {
    shown: u64,
    /// Those of them that were taken back.
    apologies: u64,
    /// From the beginning of a transaction until its result was shown.
    perceived_us: Latency,
}

/// The part of the report that only social networks have.
#[derive(Serialize)]
struct Network {
    mix: &'static str,
    users: u64,
    sites: usize,
    loaded_sites: usize,
    /// How often a transaction has read what must not be: a one-sided friendship, or the id of an object that is not there.
    breaches: u64,
}

#[derive(Debug, Serialize)]
struct Latency {
    p50: u64,
    p99: u64,
    p999: u64,
}

impl Latency {
    fn of(tally: &Tally) -> Self {
        Latency::with(|quantile| tally.latency_us(quantile))
    }

    fn with(at: impl Fn(f64) -> u64) -> Self {
        Latency { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
    }
}

/// A cluster, and how it was connected to.
struct Connected<'a> {
    db: &'a Database,
    addresses: &'a str,
    options: &'a Options,
}

impl BenchArguments {
    pub(crate) fn run(self) -> Outcome {
        if self.list {
            return list(self.json);
        }
        let Some(workload) = self.workload else { return Err(Failure::usage("name a workload; see --list")) };
        self.validate(workload)?;
        if let Some(rounds) = self.tls_cost {
            return tls_cost::run(rounds, self.json);
        }
        let prepared = self.prepare(workload)?;
        block_on(async {
            // If it is stopped, everything that it has started ends as it is dropped.
            tokio::select! {
                signal = stop_signal() => signal.and(Err(Failure::failed(match &self.connect {
                    Some(_) => "stopped; its keyspace is left: `quorate keyspace list` names it",
                    None => "stopped",
                }))),
                outcome = self.bench(workload, &prepared) => outcome,
            }
        })
    }

    async fn bench(&self, workload: Measured, prepared: &Prepared) -> Outcome {
        let progress = Progress::bar(self.seconds);
        if let Some(address) = &self.social.redis {
            let report = self.measure_redis(address, &progress).await.map(Outcomes::Workload)?;
            drop(progress);
            return self.print(&report);
        }
        let mut embedded = match &self.connect {
            None => Some(self.start(workload)?),
            Some(_) => None,
        };
        let mut options = self.options(workload)?;
        if let Some(embedded) = embedded.as_ref().filter(|_| self.tls) {
            options.certificates = embedded.layout.client()?.certificates;
        }
        let db = match (&self.connect, &mut embedded) {
            (Some(address), _) => quorate::connect_with(address, options.clone()).await?,
            (None, Some(embedded)) => embedded.connect(options.clone()).await?,
            (None, None) => return Err(Failure::usage("choose --connect or --embedded")),
        };
        let samples = match (&self.samples, &embedded) {
            (Some(path), Some(Embedded { processes, layout, .. })) => {
                Some(Samples::create(path, processes.ids(), &layout.directory)?)
            }
            _ => None,
        };
        let sites = match (&self.connect, &embedded) {
            _ if !self.has_sites(workload) => Vec::new(),
            (Some(address), _) => social::connect(address, &db, &options).await?,
            (None, Some(embedded)) => {
                social::connect(&embedded.layout.addresses().join(","), &db, &options).await?
            }
            (None, None) => Vec::new(),
        };
        let report = match prepared {
            Prepared::Workload(workload) => {
                let addresses = match (&self.connect, &embedded) {
                    (Some(address), _) => address.clone(),
                    (None, Some(embedded)) => embedded.layout.addresses().join(","),
                    (None, None) => String::new(),
                };
                let connected = Connected { db: &db, addresses: &addresses, options: &options };
                self.measure(*workload, connected, &sites, samples, &progress).await.map(Outcomes::Workload)
            }
            Prepared::Tpcc(tpcc) => {
                let run = async |keyspace| tpcc.run(&db, &keyspace, &sites, &progress).await;
                self.in_keyspace(workload, &db, &progress, run).await.map(Outcomes::Tpcc)
            }
            Prepared::Rubis(rubis) => {
                let run = async |keyspace| rubis.run(&db, &keyspace, &sites, &progress).await;
                self.in_keyspace(workload, &db, &progress, run).await.map(Outcomes::Rubis)
            }
        };
        for site in sites {
            site.close().await;
        }
        db.close().await;
        // Nobody needs what they hold: they are ended at once, and not in good order.
        if let Some(trouble) = embedded.as_mut().and_then(|embedded| embedded.processes.trouble()) {
            progress.say(trouble);
        }
        drop((embedded, progress));
        self.print(&report?)
    }

    /// Drops a keyspace, unless the servers end with the measurement.
    async fn clear(&self, db: &Database, keyspace: &str) -> Result<(), Failure> {
        if !self.embedded {
            db.drop_keyspace_with(keyspace, DropOptions::at_once()).await?;
        }
        Ok(())
    }

    fn print(&self, report: &Outcomes) -> Outcome {
        if self.json {
            print_json(&WithCommand::new(report))?;
        } else {
            outln!("{}", report.table());
        }
        Ok(Verdict::good_if(report.is_good()))
    }

    /// The isolation of the keyspace that a workload runs in.
    fn isolation(&self, workload: Measured) -> Isolation {
        let default = match workload {
            Measured::Workload(workload) if workload.needs_sets() => Isolation::ParallelSnapshot,
            Measured::Workload(_) => Isolation::Strict,
            Measured::Tpcc | Measured::Rubis => Isolation::Serializable,
        };
        self.isolation.unwrap_or(default)
    }

    /// True if the shards of the keyspace stand in one site each.
    fn stands_in_sites(&self, workload: Measured) -> bool {
        self.baseline.is_none() && self.isolation(workload).stands_in_sites()
    }

    /// True if transactions run at nodes, each with a machine for them.
    fn runs_at_nodes(&self, workload: Measured) -> bool {
        self.baseline.is_none() && self.isolation(workload).has_homes()
    }

    /// True if each site that is loaded has clients with a connection of their own.
    fn has_sites(&self, workload: Measured) -> bool {
        self.stands_in_sites(workload) || self.runs_at_nodes(workload) && self.social.loaded.is_some()
    }

    /// The sites that servers are started in, and how many in each.
    ///
    /// # Errors
    /// The matrix cannot be read, or has fewer sites.
    fn places(&self, workload: Measured) -> Result<(Vec<String>, usize), Failure> {
        let (count, nodes) = match self.stands_in_sites(workload) {
            true => (self.social.sites as usize, self.replicas),
            false => (self.replicas, 1),
        };
        match self.matrix()? {
            None => Ok(((1..=count).map(|number| format!("site{number}")).collect(), nodes)),
            Some(matrix) if matrix.sites().len() < count => Err(Failure::usage(format!(
                "the matrix \"{}\" has {} sites, and {count} are needed",
                matrix.name(),
                matrix.sites().len()
            ))),
            Some(matrix) => Ok((matrix.sites()[..count].to_vec(), nodes)),
        }
    }

    /// The delays that are emulated.
    fn matrix(&self) -> Result<Option<Matrix>, Failure> {
        self.wan.as_deref().map(Matrix::load).transpose().map_err(Failure::usage)
    }

    /// Starts the servers.
    fn start(&self, workload: Measured) -> Result<Embedded, Failure> {
        if !self.runs_at_nodes(workload) {
            GroupSize::new(self.replicas).map_err(Failure::usage)?;
        }
        let (sites, nodes) = self.places(workload)?;
        let (durability, log, wan) = (self.durability, self.log(), self.wan.clone());
        let options = EmbeddedOptions { durability, log, wan, tls: self.tls, threads: self.threads };
        Embedded::start_at(&program()?, sites, nodes, options)
    }

    /// Options that mean nothing together are more likely a mistake than a wish.
    fn validate(&self, workload: Measured) -> Result<(), Failure> {
        self.validate_procedures(workload)?;
        let kind = match workload {
            Measured::Workload(workload) => Some(workload),
            Measured::Tpcc | Measured::Rubis => None,
        };
        let runs_at_nodes = self.runs_at_nodes(workload);
        self.social.validate(kind, self.stands_in_sites(workload), runs_at_nodes.then_some(self.replicas))?;
        let can_speculate = runs_at_nodes && kind.is_some_and(|kind| kind != WorkloadKind::Counters);
        if self.speculative && !(can_speculate && self.speculation.options().unwrap_or_default().shows()) {
            return Err(Failure::usage(
                "--speculative is for --isolation snapshot, of a variant that shows results, and workloads of interactive transactions",
            ));
        }
        let is_divided = self.shards > 1 || self.stands_in_sites(workload);
        self.hotspot.validate(kind, is_divided)?;
        let is_plain = kind.is_some_and(|kind| !kind.needs_sets()) && !self.has_sites(workload);
        self.overload.validate(is_plain)?;
        if self.populate {
            populated::validate(workload, self.has_sites(workload))?;
        }
        if self.two > 0 && workload != Measured::Workload(WorkloadKind::Counters) {
            return Err(Failure::usage("--two is an option of counters"));
        }
        match self.baseline {
            Some(rival) if rival.on_log().is_none() && !self.log.is_empty() => {
                Err(Failure::usage(format!("--log tunes replicated logs, and {rival} stands on none")))
            }
            _ => Ok(()),
        }
    }

    /// How the client connects.
    fn options(&self, workload: Measured) -> Result<Options, Failure> {
        let delays = self.matrix()?;
        let site = match &delays {
            Some(_) => self.places(workload)?.0.into_iter().next(),
            None => None,
        };
        let deadline_ordering = !self.no_deadline_ordering;
        let (certificates, credential) = (self.certificates.certificates()?, self.login.credential()?);
        Ok(Options { deadline_ordering, site, delays, certificates, credential, ..Options::default() })
    }

    /// How the replicated logs of servers that are started here go by. Where a round trip takes no time, fewer messages
    /// under way at once are more in each, and that is the best that these systems can do. Between sites entries would wait for it.
    fn log(&self) -> BTreeMap<String, u64> {
        const IN_FLIGHT_MAX: u64 = 2;
        let stands_on_logs = self.baseline.and_then(Rival::on_log).filter(|_| self.wan.is_none());
        let tuned = stands_on_logs.map(|_| ("in_flight_max".to_owned(), IN_FLIGHT_MAX));
        tuned.into_iter().chain(self.log.iter().cloned()).collect()
    }

    /// Runs the load in a keyspace of its own, and drops that afterwards.
    async fn measure(
        &self,
        workload: WorkloadKind,
        Connected { db, addresses, options: connecting }: Connected<'_>,
        sites: &[Site],
        samples: Option<Samples>,
        progress: &Progress,
    ) -> Result<Report, Failure> {
        let name = format!("bench-{workload}-{:x}", db.client().0);
        let options = KeyspaceOptions {
            durability: self.durability,
            shards: self.shards,
            replicas: Some(self.replicas),
            comparison: self.baseline,
            speculation: self.speculation.options(),
            timestamping: self.timestamping.options(),
            ..KeyspaceOptions::new(self.isolation(Measured::Workload(workload)))
        };
        progress.say(format!("creating keyspace {name}"));
        let keyspace = db.create_keyspace(&name, options).await?;
        let history = self.history.as_ref().map(|_| HistoryLog::new());
        let mut load = self.load(workload, keyspace, history.clone())?;
        // Histories say where their clients stand, if that is known.
        load.site = connecting.site.clone().unwrap_or_default();
        let contention = hotspot::Contention::of(&load.parameters);
        // A judge has to know of every write.
        if workload.needs_sets() && history.is_none() {
            load.drawn = social::populate_network(sites, &name, &load, progress).await?;
        }
        if self.populate {
            load.drawn = populated::populate_keys(&load, progress).await?;
        }
        let loaded = self.social.loaded.map_or(sites.len(), |loaded| loaded as usize).min(sites.len());
        let mut running = Vec::new();
        if sites.is_empty() {
            running.push(load.clone().start());
        } else {
            for (at, site) in sites[..loaded].iter().enumerate() {
                let share = |at: usize| self.clients * at as u64 / loaded as u64;
                let (first_client, clients) = (share(at), share(at + 1) - share(at));
                let load = Load { first_client, clients, ..load.clone() };
                let keyspace = site.keyspace(&name).await?;
                let load = match self.stands_in_sites(Measured::Workload(workload)) {
                    true => site.load(keyspace, &load, self.social.away),
                    false => site.load_anywhere(keyspace, &load),
                };
                running.push(load.start());
            }
        }
        let connections: Vec<&Database> = sites.iter().map(Site::db).collect();
        let measured = self.watch(db, &connections, &running, samples, progress).await;
        // Those of all sites end before the last look at what they have left, so that nobody changes it any more.
        for running in &mut running {
            running.end().await;
        }
        for running in running {
            running.stop().await;
        }
        if let (Some(path), Some(history)) = (&self.history, &history) {
            write_history(path, history)?;
        }
        let overload = match (self.overload.overload, &measured) {
            (Some(times), Ok((tally, costs))) => {
                let (seconds, peak_tps) = (self.seconds, tally.committed as f64 / costs.seconds);
                let target =
                    overload::Target { addresses, options: connecting, keyspace: &name, seconds, peak_tps };
                Some(target.overload(times, &load, progress).await?)
            }
            _ => None,
        };
        self.clear(db, &name).await?;
        let (tally, costs) = measured?;
        let network = match workload.needs_sets() {
            true => Some(Network {
                mix: self.social.mix(workload)?,
                users: self.parameters(workload, false)?.keys,
                sites: sites.len(),
                loaded_sites: loaded,
                breaches: tally.breaches,
            }),
            false => None,
        };
        Ok(Report { contention, overload, ..self.report(workload, &tally, costs, network) })
    }

    fn parameters(&self, workload: WorkloadKind, judged: bool) -> Result<Parameters, Failure> {
        let mut parameters = Parameters::new(workload).for_clients(self.clients);
        parameters.keys = self.keys.or(self.social.users).unwrap_or(parameters.keys);
        parameters.shares = self.social.mix(workload)?;
        parameters.value_bytes_min = self.value_size.unwrap_or(parameters.value_bytes_min);
        parameters.popularity = match self.zipf {
            None => parameters.popularity,
            Some(0.0) => Popularity::Uniform,
            Some(exponent) => Popularity::Zipf(exponent),
        };
        parameters.judged = judged;
        parameters.two_percent = self.two;
        Ok(parameters)
    }

    fn load(
        &self,
        workload: WorkloadKind,
        keyspace: Keyspace,
        history: Option<HistoryLog>,
    ) -> Result<Load, Failure> {
        let mut parameters = self.parameters(workload, history.is_some())?;
        self.hotspot.shape(&mut parameters, keyspace.definition().founders().len());
        Ok(Load {
            keyspace,
            parameters,
            clients: self.clients,
            first_client: 0,
            site: String::new(),
            round_trip: None,
            history,
            seed: 1,
            drawn: 0,
            generations: 0,
            commits: None,
            reads_at_once: !self.no_read_only,
            stale: self.stale.map(Duration::from_millis),
            speculates: self.speculative,
        })
    }

    /// Measures, with samples.
    async fn watch(
        &self,
        db: &Database,
        connections: &[&Database],
        running: &[Running],
        mut samples: Option<Samples>,
        progress: &Progress,
    ) -> Result<(Tally, Costs), Failure> {
        let look = |second| {
            let (mut committed, mut trouble) = (0, None);
            for running in running {
                running.with_tally(|tally| {
                    committed += tally.committed;
                    trouble = trouble.take().or_else(|| tally.trouble.clone());
                });
            }
            if let Some(samples) = &mut samples {
                samples.take(second, committed)?;
            }
            Ok((committed, trouble))
        };
        let take = || {
            let mut sum = Tally::default();
            running.iter().for_each(|running| sum.add(&running.take_tally()));
            sum
        };
        let (tally, costs) = measure_with(db, connections, self.seconds, progress, take, look).await?;
        if let (Some(samples), Some(path)) = (&samples, &self.plot) {
            samples.plot(path)?;
        }
        say_trouble(&tally, progress);
        Ok((tally, costs))
    }

    fn report(
        &self,
        workload: WorkloadKind,
        tally: &Tally,
        costs: Costs,
        network: Option<Network>,
    ) -> Report {
        let transactions = tally.committed.max(1) as f64;
        Report {
            workload: workload.name(),
            isolation: self.baseline.is_none().then_some(self.isolation(Measured::Workload(workload)).name()),
            baseline: self.baseline.map(Rival::name),
            clients: self.clients,
            seconds: round(costs.seconds, 3),
            committed: tally.committed,
            aborted: tally.aborted,
            abort_rate: round(tally.abort_rate(), 5),
            unknown: tally.unknown,
            refused: tally.refused,
            fast_rate: round(tally.fast as f64 / transactions, 5),
            throughput_tps: round(tally.committed as f64 / costs.seconds, 1),
            latency_us: Latency::of(tally),
            spent: Spent::of(&costs, tally.committed),
            durability: self.durability.name(),
            shards: self.shards,
            replicas: self.replicas,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            network,
            contention: None,
            perception: self.speculative.then(|| Perception {
                shown: tally.shown,
                apologies: tally.apologies,
                perceived_us: Latency::with(|quantile| tally.perceived_us(quantile)),
            }),
            overload: None,
        }
    }
}

/// Warms up, then measures for so many seconds: what was counted, and what it has cost. `take` gives what was counted since it was
/// last asked; `look` says after each second how many were committed so far, and what is in the way. The load may have other connections
/// than this one.
async fn measure_with<T>(
    db: &Database,
    connections: &[&Database],
    seconds: u64,
    progress: &Progress,
    take: impl Fn() -> T,
    mut look: impl FnMut(u64) -> Result<(u64, Option<String>), Failure>,
) -> Result<(T, Costs), Failure> {
    const WARM_UP: Duration = Duration::from_secs(1);
    progress.now("warming up");
    tokio::time::sleep(WARM_UP).await;
    let before = Reading::take_of(db, connections).await.map_err(Failure::failed)?;
    drop(take());
    for second in 1..=seconds {
        tokio::time::sleep(Duration::from_secs(1)).await;
        progress.step_to(second);
        let (committed, trouble) = look(second)?;
        let trouble = trouble.map(|trouble| format!("; {trouble}")).unwrap_or_default();
        progress.now(format!("s, {} transactions/s{trouble}", thousands(committed / second)));
    }
    let counted = take();
    let after = Reading::take_of(db, connections).await.map_err(Failure::failed)?;
    Ok((counted, after.since(&before)))
}

fn say_trouble(tally: &Tally, progress: &Progress) {
    if let Some(trouble) = &tally.trouble {
        progress.say(format!("some transactions were refused: {trouble}"));
    }
    if let Some(breach) = &tally.breach {
        progress.say(format!("what was read must not be: {breach}"));
    }
}

fn log_option(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("write OPTION=NUMBER")?;
    let number = number.parse().map_err(|error| format!("{number}: {error}"))?;
    Ok((name.to_owned(), number))
}

fn write_history(path: &Path, history: &HistoryLog) -> Result<(), Failure> {
    let write = || history.write_json(File::create(path)?);
    write().map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn round(number: f64, digits: i32) -> f64 {
    let factor = 10f64.powi(digits);
    (number * factor).round() / factor
}

fn table(report: &Report) -> Table {
    let mut table = Table::new(&[(report.workload, Align::Left), ("", Align::Right)]);
    let Report { clients, shards, replicas, durability, isolation, baseline, .. } = report;
    let system = isolation.or(*baseline).unwrap_or_default();
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("keyspace", format!("{system}, {durability}, {shards} × {replicas} replicas"));
    if let Some(Network { mix, users, sites, loaded_sites, breaches }) = &report.network {
        row("mix, users", format!("{mix}, {}", thousands(*users)));
        row("sites", format!("{sites}, clients at {loaded_sites}"));
        row("what must not be", thousands(*breaches));
    }
    if let Some(contention) = &report.contention {
        contention.rows(&mut table);
    }
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    row("in flight", thousands(*clients));
    row("committed", thousands(report.committed));
    row("committed/s", thousands(report.throughput_tps as u64));
    row("aborted attempts", format!("{} ({:.2} %)", thousands(report.aborted), report.abort_rate * 100.0));
    row("in one round trip", format!("{:.2} %", report.fast_rate * 100.0));
    if report.unknown + report.refused > 0 {
        row("unknown, refused", format!("{}, {}", thousands(report.unknown), thousands(report.refused)));
    }
    row("latency p50", micros(report.latency_us.p50));
    row("latency p99", micros(report.latency_us.p99));
    row("latency p99.9", micros(report.latency_us.p999));
    if let Some(Perception { shown, apologies, perceived_us }) = &report.perception {
        row("shown, apologies", format!("{}, {}", thousands(*shown), thousands(*apologies)));
        row("perceived p50", micros(perceived_us.p50));
        row("perceived p99", micros(perceived_us.p99));
    }
    report.spent.rows(&mut table);
    if let Some(overload) = &report.overload {
        overload.rows(&mut table);
    }
    table
}

impl Outcomes {
    fn table(&self) -> Table {
        match self {
            Outcomes::Workload(report) => table(report),
            Outcomes::Tpcc(report) => tpcc::table(report),
            Outcomes::Rubis(report) => rubis::table(report),
        }
    }

    fn is_good(&self) -> bool {
        match self {
            Outcomes::Workload(report) => {
                let breaches = report.network.as_ref().map_or(0, |network| network.breaches);
                report.committed > 0 && breaches == 0
            }
            Outcomes::Tpcc(report) => report.common.is_good(),
            Outcomes::Rubis(report) => report.common.is_good(),
        }
    }
}

/// Lists the workloads; for people also the comparison systems.
fn list(json: bool) -> Outcome {
    if json {
        let array: Vec<_> = WorkloadKind::ALL
            .iter()
            .map(|kind| (kind.name(), kind.what()))
            .chain([TPCC, RUBIS])
            .map(|(id, what)| serde_json::json!({ "id": id, "what": what }))
            .collect();
        print_json(&array)?;
    } else {
        let mut table = Table::new(&[("workload", Align::Left), ("what", Align::Left)]);
        for (name, what) in
            WorkloadKind::ALL.iter().map(|kind| (kind.name(), kind.what())).chain([TPCC, RUBIS])
        {
            table.row([name.to_owned(), what.to_owned()]);
        }
        outln!("{table}");
        let mut table = Table::new(&[("baseline", Align::Left), ("what", Align::Left)]);
        for rival in Rival::ALL {
            table.row([rival.name().to_owned(), rival.what().to_owned()]);
        }
        outln!("{table}");
    }
    Ok(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Bench {
        #[command(flatten)]
        arguments: BenchArguments,
    }

    #[test]
    fn comparison_systems_are_tuned_to_loopback_unless_they_are_told_otherwise() {
        let bench = |flags: &[&str]| {
            Bench::try_parse_from(["bench", "rmw"].iter().chain(flags)).map(|bench| bench.arguments)
        };
        let parse = |flags: &[&str]| bench(flags).map(|arguments| arguments.log());
        let options = |pairs: &[(&str, u64)]| {
            pairs.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect::<BTreeMap<_, _>>()
        };
        let tuned = ["--embedded", "--baseline", "txn-occ"];
        assert_eq!(parse(&["--embedded"]).unwrap(), options(&[]));
        assert_eq!(parse(&tuned).unwrap(), options(&[("in_flight_max", 2)]));
        assert_eq!(parse(&[&tuned[..], &["--wan", "uniform-100ms"]].concat()).unwrap(), options(&[]));
        let without_log = Rival::ALL.into_iter().find(|rival| rival.on_log().is_none()).unwrap().name();
        assert_eq!(parse(&["--embedded", "--baseline", without_log]).unwrap(), options(&[]));
        let is_refused = |bench: BenchArguments| bench.validate(bench.workload.unwrap()).is_err();
        let pointless = bench(&["--embedded", "--baseline", without_log, "--log", "beat_ms=7"]).unwrap();
        assert!(is_refused(pointless) && !is_refused(bench(&tuned).unwrap()));
        let told = [&tuned[..], &["--log", "in_flight_max=9", "--log", "beat_ms=7"]].concat();
        assert_eq!(parse(&told).unwrap(), options(&[("beat_ms", 7), ("in_flight_max", 9)]));
        for wrong in ["in_flight_max", "in_flight_max=x"] {
            assert!(parse(&[&tuned[..], &["--log", wrong]].concat()).is_err(), "{wrong}");
        }
        assert!(parse(&["--embedded", "--log", "beat_ms=7"]).is_err(), "strict keyspaces have no such log");
        assert!(parse(&["--embedded", "--baseline", "txn-occ", "--isolation", "strict"]).is_err());
        assert!(parse(&["--embedded", "--baseline", "txn-ock"]).is_err());
    }

    #[test]
    fn shares_of_two_counters_are_for_counters() {
        let bench = |words: &[&str]| Bench::try_parse_from(["bench"].iter().chain(words));
        let is_valid = |words: &[&str]| {
            let arguments = bench(words).unwrap().arguments;
            arguments.validate(arguments.workload.unwrap()).is_ok()
        };
        assert!(is_valid(&["counters", "--two", "10"]) && is_valid(&["rmw"]));
        assert!(!is_valid(&["rmw", "--two", "10"]));
        assert!(bench(&["counters", "--two", "101"]).is_err());
    }

    #[test]
    fn deadlines_are_ordered_unless_plain_tapir_is_asked_for() {
        let orders = |flags: &[&str]| {
            let command = ["bench", "rmw", "--embedded"].iter().chain(flags);
            let arguments = Bench::parse_from(command).arguments;
            arguments.options(arguments.workload.unwrap()).unwrap().deadline_ordering
        };
        assert!(orders(&[]));
        assert!(!orders(&["--no-deadline-ordering"]));
    }
}
