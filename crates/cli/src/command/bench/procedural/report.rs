//! The report of a workload of procedures: the part that is the same for all of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use quorate::Keyspace;
use quorate_load::Costs;
use serde::Serialize;

use super::{Counts, Seating};
use crate::command::bench::spent::Spent;
use crate::command::bench::{Latency, round};
use crate::output::{Progress, Table, micros, thousands};

/// The part of the report that all such workloads have.
#[derive(Debug, Serialize)]
pub(in crate::command::bench) struct Common {
    pub(in crate::command::bench) workload: &'static str,
    isolation: &'static str,
    /// `linked` with the servers, `deployed`, or `interactive`: run by the client over what it reads.
    procedures: &'static str,
    pub(in crate::command::bench) clients: u64,
    /// Of the times to key in and to think that the benchmark specifies, so much was spent.
    think_percent: u32,
    seconds: f64,
    /// Transactions that were carried out, and those that were rolled back as specified.
    pub(in crate::command::bench) committed: u64,
    rolled_back: u64,
    aborted: u64,
    abort_rate: f64,
    unknown: u64,
    refused: u64,
    /// The share of transactions that more than one shard took part in.
    distributed_rate: f64,
    /// The share of transactions that touched more than their home.
    remote_rate: f64,
    /// How often an interactive transaction has fetched what its procedure missed.
    fetches_per_txn: f64,
    throughput_tps: f64,
    latency_us: Latency,
    by_transaction: BTreeMap<&'static str, OfKind>,
    /// The conditions of the benchmark that are violated; none if all is well.
    pub(in crate::command::bench) violations: Vec<String>,
    /// False where the isolation permits that they are violated.
    pub(in crate::command::bench) conditions_promised: bool,
    keys: usize,
    #[serde(flatten)]
    spent: Spent,
    durability: &'static str,
    shards: usize,
    sites: usize,
    replicas: usize,
    cores: usize,
}

/// The results of one kind of transaction.
#[derive(Debug, Serialize)]
struct OfKind {
    committed: u64,
    p50_us: u64,
    p99_us: u64,
}

/// The way in which the transactions of a report were run.
pub(in crate::command::bench) struct Setting<'a> {
    pub(in crate::command::bench) workload: &'static str,
    pub(in crate::command::bench) procedures: &'static str,
    pub(in crate::command::bench) seating: &'a Seating,
    pub(in crate::command::bench) sites: usize,
}

impl Counts {
    /// How many of this kind were carried out.
    pub(in crate::command::bench) fn of_kind(&self, kind: &str) -> u64 {
        self.by_kind.get(kind).map_or(0, Histogram::len)
    }

    /// The report, after everything was read and judged.
    pub(in crate::command::bench) fn report(
        &self,
        setting: &Setting<'_>,
        keyspace: &Keyspace,
        costs: Costs,
        (keys, violations): (usize, Vec<String>),
    ) -> Common {
        let all = &self.all;
        let transactions = all.committed.max(1) as f64;
        let of_kind = |latencies: &Histogram<u64>| OfKind {
            committed: latencies.len(),
            p50_us: latencies.value_at_quantile(0.5),
            p99_us: latencies.value_at_quantile(0.99),
        };
        Common {
            workload: setting.workload,
            isolation: keyspace.isolation().name(),
            procedures: setting.procedures,
            clients: setting.seating.clients,
            think_percent: setting.seating.think_percent,
            seconds: round(costs.seconds, 3),
            committed: all.committed,
            rolled_back: self.rolled_back,
            aborted: all.aborted,
            abort_rate: round(all.abort_rate(), 5),
            unknown: all.unknown,
            refused: all.refused,
            distributed_rate: round(self.distributed as f64 / transactions, 4),
            remote_rate: round(self.remote as f64 / transactions, 4),
            fetches_per_txn: round(self.fetches as f64 / transactions, 3),
            throughput_tps: round(all.committed as f64 / costs.seconds, 1),
            latency_us: Latency::of(all),
            by_transaction: self.by_kind.iter().map(|(kind, of)| (*kind, of_kind(of))).collect(),
            violations,
            conditions_promised: !keyspace.isolation().stands_in_sites(),
            keys,
            spent: Spent::of(&costs, all.committed),
            durability: keyspace.durability().name(),
            shards: keyspace.definition().founders().len(),
            sites: setting.sites,
            replicas: setting.seating.replicas,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl Common {
    /// True if something was carried out, and no condition is violated that the isolation promises to keep.
    pub(in crate::command::bench) fn is_good(&self) -> bool {
        self.committed > 0 && (self.violations.is_empty() || !self.conditions_promised)
    }

    /// The rows for people.
    pub(in crate::command::bench) fn rows(&self, table: &mut Table) {
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        let Common { isolation, durability, shards, sites, replicas, .. } = self;
        let sites = if *sites > 1 { format!(" in {sites} sites") } else { String::new() };
        row("keyspace", format!("{isolation}, {durability}, {shards} × {replicas} replicas{sites}"));
        row("procedures", self.procedures.to_owned());
        row("in flight", thousands(self.clients));
        if self.think_percent > 0 {
            row("key and think times", format!("{} %", self.think_percent));
        }
        row("executed", thousands(self.committed));
        row("executed/s", thousands(self.throughput_tps as u64));
        row("rolled back", thousands(self.rolled_back));
        row("aborted attempts", format!("{} ({:.2} %)", thousands(self.aborted), self.abort_rate * 100.0));
        row("beyond the home", format!("{:.1} %", self.remote_rate * 100.0));
        row("of several shards", format!("{:.1} %", self.distributed_rate * 100.0));
        if self.fetches_per_txn > 0.0 {
            row("fetches", format!("{:.2} /txn", self.fetches_per_txn));
        }
        if self.unknown + self.refused > 0 {
            row("unknown, refused", format!("{}, {}", thousands(self.unknown), thousands(self.refused)));
        }
        for (kind, of) in &self.by_transaction {
            row(
                kind,
                format!("{}, p50 {}, p99 {}", thousands(of.committed), micros(of.p50_us), micros(of.p99_us)),
            );
        }
        self.spent.rows(table);
        let keys = thousands(self.keys as u64);
        let verdict = match (self.violations.len(), self.conditions_promised) {
            (0, true) => format!("hold, of {keys} keys"),
            (0, false) => format!("hold, of {keys} keys, without a promise"),
            (count, true) => format!("{count} violated"),
            (count, false) => format!("{count} violated, which this isolation permits"),
        };
        table.row(["consistency conditions".to_owned(), verdict]);
    }

    /// Says the first violations on standard error.
    pub(in crate::command::bench) fn say_violations(&self, progress: &Progress) {
        const SHOWN: usize = 10;
        self.violations.iter().take(SHOWN).for_each(|violation| progress.say(violation));
    }
}
