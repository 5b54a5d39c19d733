//! `quorate torture`: real server processes under faults, judged.

mod attacks;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use quorate::{Durability, Isolation, System};
use quorate_core::GroupSize;
use quorate_server::EventLoops;
use quorate_torture::attacks::Attacks;
use quorate_torture::{Door, Fault, Faults, Fill, IN_FLIGHT, Moment, Options, Spread, Tortured};
use quorate_workloads::WorkloadKind;
use serde_json::{Map, Value, json};

use super::cluster::verify::how_far;
use super::keyspace::{SpeculationArguments, TimestampingArguments};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json, thousands};
use crate::parse::positive;
use crate::runtime::{block_on, program, stop_signal};

/// Kill, pause, cut off and rob real server processes while judged clients work, and judge what comes of it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate torture                                  a minute of all faults on three processes
  quorate torture --seconds 600 --seed 7 --nodes 5
  quorate torture --faults node-crashes,partitions --workload retwis --json
  quorate torture --faults node-crashes --in-flight 64 --shards 1    how long a restart under load is without commits
  quorate torture --faults power-loss --fill 5000000 --shards 1      how long a restart of all nodes takes that hold five million keys
  quorate torture --rolling 5 --in-flight 16       rolling restarts, of which no client may notice anything
  quorate torture --upgrade-from old/quorate       rolling upgrades and a downgrade, between two programs
  quorate torture --namespaces                     real packet loss, in network namespaces; needs root
  quorate torture --namespaces --tls               the same with certificates
  quorate torture --isolation serializable --seconds 30
  quorate torture --isolation snapshot --sites 1   three processes of one site, which share a home
  quorate torture --isolation parallel-snapshot    two sites of three processes, which run transactions by themselves
  quorate torture --isolation serializable --door redis    clients of Redis: MULTI, WATCH, scripts, increments
  quorate torture --baseline txn-occ --seconds 30
  quorate torture --attack lost-replica,early-error
  quorate torture --attack all                     every scripted attack, several at once
  quorate torture --list-faults
  quorate torture --list-attacks

Half of the time one fault strikes after the other, each at least once, and how long there is no service is measured; then
they strike together. In the end everything must serve, everybody must commit, and the history is judged. The seed decides what
strikes, in which order. Exit code 1 if anything is wrong; logs, data and history are kept then. An attack is
a story instead: what operators do wrong, what nodes have to say to that, and the remedy, after which everything that was
acknowledged must be there.")]
pub(crate) struct TortureArguments {
    /// How long faults strike.
    #[arg(long, value_name = "N", value_parser = positive, default_value = "60")]
    seconds: u64,
    /// Which faults: `none`, `all`, or names with commas between them.
    #[arg(long, default_value = "all")]
    faults: Faults,
    /// So many rolling restarts instead of faults: one node after the other is stopped and started again, and no transaction may be refused.
    #[arg(long, value_name = "ROUNDS", value_parser = positive, conflicts_with_all = ["faults", "seconds"])]
    rolling: Option<u64>,
    /// Start the cluster with this program, an earlier `quorate`: upgrade one node after the other to this one, go back, upgrade again, and finish the upgrade.
    /// No transaction may be refused.
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["faults", "seconds", "rolling"])]
    upgrade_from: Option<PathBuf>,
    /// The seed that decides which faults strike, where and for how long.
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// The workload of the clients; its transactions are recorded and judged.
    #[arg(long, value_name = "W", default_value_t = WorkloadKind::Lists)]
    workload: WorkloadKind,
    /// How many transactions the clients of each site have in flight; all of them are recorded and judged.
    #[arg(long, value_name = "N", value_parser = positive, default_value_t = IN_FLIGHT)]
    in_flight: u64,
    /// Write so many keys before anything strikes, which clients do not use: replays and joins take as long as there is something to replay and to
    /// tell.
    #[arg(long, value_name = "KEYS", value_parser = positive)]
    fill: Option<u64>,
    /// How large the values of these keys are, in bytes.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u64).range(..=1 << 20), default_value_t = 100, requires = "fill")]
    fill_size: u64,
    /// How many server processes, each with a replica of every shard; two more if replicas are to move. With `parallel-snapshot` so many in each
    /// of two sites, a replica of its local site each.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: usize,
    /// In how many sites the nodes stand: each in one of its own unless said otherwise. With `snapshot` three nodes of a site share a home.
    #[arg(long, value_name = "N", value_parser = positive)]
    sites: Option<u64>,
    /// Into how many shards the keys are divided: 2 unless said otherwise. With `parallel-snapshot` there is one local site in each site.
    #[arg(long, value_name = "N", value_parser = positive)]
    shards: Option<u64>,
    /// The failures that acknowledged writes survive: `sync`, the loss of power everywhere; `memory`, that of a minority.
    #[arg(long, default_value_t = Durability::Sync)]
    durability: Durability,
    /// The isolation that the keyspace promises.
    #[arg(long, value_name = "I", default_value_t = Isolation::Strict)]
    isolation: Isolation,
    /// Torture this comparison system; see `quorate bench --list`.
    #[arg(long, value_name = "SYSTEM", conflicts_with = "isolation")]
    baseline: Option<System>,
    #[command(flatten)]
    speculation: SpeculationArguments,
    #[command(flatten)]
    timestamping: TimestampingArguments,
    /// Through which door of the nodes clients come in: `redis`. Without it, they are native clients.
    #[arg(long, value_name = "DOOR")]
    door: Option<Door>,
    /// Give each node a network namespace instead of a proxy.
    #[arg(long)]
    namespaces: bool,
    /// Secure every connection by TLS, with certificates that are made for the run.
    #[arg(long, requires = "namespaces", conflicts_with = "door")]
    tls: bool,
    /// Over how many event loops each node spreads its replicas: `auto`, or a number.
    #[arg(long, value_name = "N", default_value_t)]
    threads: EventLoops,
    /// Write the history to this file.
    #[arg(long, value_name = "FILE")]
    history: Option<PathBuf>,
    /// Play these scripted attacks instead: `all`, or names with commas between them.
    #[arg(long, value_name = "ATTACKS", conflicts_with_all = ["faults", "rolling", "upgrade_from", "seconds", "workload", "in_flight", "fill", "nodes", "sites", "shards", "durability", "isolation",
        "baseline", "door", "namespaces", "tls", "history"])]
    attack: Option<Attacks>,
    /// Keep logs and data of attacks also if nothing is wrong.
    #[arg(long, requires = "attack")]
    keep: bool,
    /// List the faults.
    #[arg(long)]
    list_faults: bool,
    /// List the attacks.
    #[arg(long)]
    list_attacks: bool,
    /// Print one JSON object; with a list, a JSON array.
    #[arg(long)]
    json: bool,
}

impl TortureArguments {
    pub(crate) fn run(self) -> Outcome {
        if self.list_faults {
            return list(self.json);
        }
        if self.list_attacks {
            return attacks::list(self.json);
        }
        if let Some(attacks) = &self.attack {
            return attacks::run(attacks, self.seed, self.keep, self.json);
        }
        if self.nodes < 3 {
            return Err(Failure::usage("at least 3 nodes are needed to survive anything"));
        }
        let has_sets = self.isolation == Isolation::ParallelSnapshot && self.baseline.is_none();
        if self.workload.needs_sets() && !has_sets {
            return Err(Failure::usage(format!(
                "{} changes counting sets, which only parallel-snapshot keyspaces have",
                self.workload
            )));
        }
        if self.door.is_some() && self.workload != WorkloadKind::Lists {
            return Err(Failure::usage(
                "clients of a door draw the transactions of lists: leave --workload out",
            ));
        }
        if self.door.is_some() && (self.isolation == Isolation::ParallelSnapshot || self.baseline.is_some()) {
            return Err(Failure::usage(
                "clients of a door are judged in strict, serializable and snapshot keyspaces",
            ));
        }
        let shards = match (self.shards, has_sets) {
            (Some(2..), true) => {
                return Err(Failure::usage(
                    "histories tell local sites apart by the sites that they stand in, so --shards is 1 for parallel-snapshot",
                ));
            }
            (shards, has_sets) => shards.unwrap_or(if has_sets { 1 } else { 2 }),
        };
        if self.sites.is_some_and(|sites| has_sets || sites > self.nodes as u64) {
            return Err(Failure::usage(
                "--sites is for nodes that stand in at most as many sites, and not for parallel-snapshot",
            ));
        }
        let nodes =
            GroupSize::new(self.nodes).map_err(|error| Failure::usage(format!("--nodes: {error}")))?;
        let options = Options {
            program: program()?,
            seed: self.seed,
            in_flight: self.in_flight,
            fill: self.fill.map(|keys| Fill { keys, value_bytes: self.fill_size }),
            time: Duration::from_secs(self.seconds),
            faults: self.faults.clone(),
            rolling: self.rolling,
            upgrade_from: self.upgrade_from.clone(),
            workload: self.workload,
            nodes,
            shards: shards as usize,
            durability: self.durability,
            isolation: self.isolation,
            sites: self.sites.map(|sites| sites as usize),
            baseline: self.baseline,
            speculation: self.speculation.options(),
            timestamping: self.timestamping.options(),
            door: self.door,
            namespaces: self.namespaces,
            tls: self.tls,
            threads: self.threads,
            history: self.history.clone(),
        };
        if let Some(fault) = options.impossible().first() {
            return Err(Failure::usage(match fault {
                Fault::Membership => {
                    format!("{fault} cannot be injected: {} keyspaces keep their replicas", self.isolation)
                }
                Fault::EmptyDisks => {
                    format!(
                        "{fault} cannot be injected: a node that shares its home with nobody has its decisions alone; try --sites 1"
                    )
                }
                _ => format!("{fault} cannot be injected with --namespaces"),
            }));
        }
        let progress = Progress::spinner();
        block_on(async {
            let tell = |moment: Moment<'_>| say(moment, &progress);
            // If it is stopped, everything that it has started ends as it is dropped.
            let tortured = tokio::select! {
                signal = stop_signal() => return signal.and(Err(Failure::failed("stopped"))),
                tortured = quorate_torture::run(&options, &tell) => tortured?,
            };
            drop(progress);
            if self.json {
                print_json(&self.report(&tortured, shards))?;
            } else {
                outln!("{}", self.text(&tortured));
            }
            Ok(Verdict::good_if(tortured.is_ok()))
        })
    }

    fn report(&self, tortured: &Tortured, shards: u64) -> Value {
        let Tortured { strikes, recoveries, tally, report, troubles, evidence, upgraded, consumed } =
            tortured;
        let of_fault = |fault: Fault, strikes: u64| json!({ "strikes": strikes, "gap": recoveries.gap(fault), "restart": recoveries.restart(fault) });
        let faults: Map<String, Value> = strikes
            .iter()
            .map(|(fault, strikes)| (fault.name().to_owned(), of_fault(*fault, *strikes)))
            .collect();
        json!({
            "ok": tortured.is_ok(),
            "seed": self.seed,
            "seconds": (self.rolling.is_none() && self.upgrade_from.is_none()).then_some(self.seconds),
            "rolling": self.rolling,
            "upgraded": upgraded.map(|upgraded| json!({
                "from": self.upgrade_from,
                "protocol_version_before": upgraded.before.0,
                "protocol_version": upgraded.after.0,
                "earlier_program_refused": upgraded.is_refused,
            })),
            "nodes": self.nodes,
            "sites": self.sites,
            "shards": shards,
            "durability": self.durability.name(),
            "isolation": self.isolation.name(),
            "baseline": self.baseline.map(System::name),
            "workload": self.workload.name(),
            "filled": self.fill.map(|keys| json!({ "keys": keys, "value_bytes": self.fill_size })),
            "door": self.door.map(Door::name),
            "network": if self.namespaces { "namespaces" } else { "proxies" },
            "faults": faults,
            "committed": tally.committed,
            "aborted": tally.aborted,
            "unknown": tally.unknown,
            "refused": tally.refused,
            "level": report.level,
            "verdict": report.verdict.name(),
            "vacuous": report.vacuous,
            "changes": consumed.as_ref().map(|consumed| json!({
                "told": consumed.changes,
                "cursors": consumed.lives,
                "gap_ms": u64::try_from(consumed.gap.as_millis()).unwrap_or(u64::MAX),
            })),
            "troubles": troubles,
            "evidence": evidence,
        })
    }

    fn text(&self, tortured: &Tortured) -> String {
        let Tortured { strikes, recoveries, tally, report, troubles, evidence, upgraded, consumed } =
            tortured;
        let mut table = Table::new(&[
            ("fault", Align::Left),
            ("strikes", Align::Right),
            ("no commit for", Align::Right),
            ("at most", Align::Right),
            ("restart to service", Align::Right),
            ("at most", Align::Right),
        ]);
        let pair = |spread: Option<Spread>| {
            spread.map_or([String::new(), String::new()], |spread| {
                [spread.median_ms, spread.max_ms].map(|millis| format!("{} ms", thousands(millis)))
            })
        };
        for (fault, strikes) in strikes {
            let [gap, gap_max] = pair(recoveries.gap(*fault));
            let [restart, restart_max] = pair(recoveries.restart(*fault));
            table.row([fault.name().to_owned(), thousands(*strikes), gap, gap_max, restart, restart_max]);
        }
        let mut text = format!(
            "{table}\n\n{} committed, {} attempts aborted, {} unknown, {} refused\nthe history of {} commits with {} \
             conflicts is {} at {}",
            thousands(tally.committed),
            thousands(tally.aborted),
            thousands(tally.unknown),
            thousands(tally.refused),
            thousands(report.evidence.commits),
            thousands(report.evidence.conflict_edges),
            report.verdict.name(),
            report.level,
        );
        if !report.is_valid() {
            text.push_str(&format!("\n{report}"));
        }
        if let Some(upgraded) = upgraded {
            let refused = if upgraded.is_refused {
                ", and the earlier program has refused a data directory"
            } else {
                ""
            };
            text.push_str(&format!(
                "\nupgraded, downgraded and upgraded again; protocol version {} was in force, and {} is now{refused}",
                upgraded.before, upgraded.after
            ));
        }
        if let Some(consumed) = consumed {
            text.push_str(&format!(
                "\na consumer was told of {} changes, from {} cursors, with {} ms between two pages at most",
                thousands(consumed.changes),
                thousands(consumed.lives),
                thousands(u64::try_from(consumed.gap.as_millis()).unwrap_or(u64::MAX)),
            ));
        }
        for trouble in troubles {
            text.push_str(&format!("\ntrouble: {trouble}"));
        }
        if let Some(evidence) = evidence {
            text.push_str(&format!("\nlogs, data and history are kept in {}", evidence.display()));
        }
        text
    }
}

/// Says how far a run is: where its evidence lies stays, everything else is replaced by what comes next.
fn say(moment: Moment<'_>, progress: &Progress) {
    match moment {
        Moment::Begins { processes, directory } => {
            progress.say(format!("{processes} server processes, data and logs in {}", directory.display()));
        }
        Moment::Fills { done, of } => {
            progress.now(format!("{} of {} keys written", thousands(done), thousands(of)));
        }
        Moment::Strikes { fault, lasts, left: None } => progress.now(format!("{fault} for {lasts:?}")),
        Moment::Strikes { fault, lasts, left: Some(left) } => {
            progress.now(format!("{fault} for {lasts:?}, {} s left", left.as_secs()));
        }
        Moment::Rolls { node, round, rounds } => {
            progress.now(format!("round {round} of {rounds}: node {node} restarts"));
        }
        Moment::Finishes { version } => {
            progress.now(format!("the upgrade is finished: protocol version {version} is put in force"));
        }
        Moment::Heals => progress.now("every fault ends"),
        Moment::Compares => progress.now("comparing what replicas hold"),
        Moment::Compared(far) => progress.now(how_far(far)),
        Moment::Judges { committed } => {
            progress.now(format!("judging what {} transactions saw", thousands(committed)));
        }
    }
}

/// Lists the faults.
fn list(json: bool) -> Outcome {
    if json {
        let faults = Fault::ALL.map(|fault| json!({ "id": fault.name(), "what": fault.what() }));
        print_json(&faults)?;
    } else {
        let mut table = Table::new(&[("fault", Align::Left), ("what", Align::Left)]);
        for fault in Fault::ALL {
            table.row([fault.name(), fault.what()].map(str::to_owned));
        }
        outln!("{table}");
    }
    Ok(Verdict::Good)
}
