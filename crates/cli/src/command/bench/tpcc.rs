//! `quorate bench tpcc`: the mix of TPC-C as procedures, and what must hold of the data afterwards.
//!
//! ```text
//!   populate ──► clients: one call each, at the shards that hold its warehouses ──► read everything, judge it
//! ```
//!
//! Keys of a warehouse share a tag, so each shard holds whole warehouses. There are no think times, and a tenth of the customers and items
//! of the specification unless all are asked for: so these are not figures that could be compared with published ones.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use quorate::{Batch, Call, Database, Error, Keyspace, Refusal, ShardId};
use quorate_core::Random;
use quorate_load::{Costs, Tally};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::procedures::INVALID_ITEM;
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Class, Generator, Scale, Transaction, key};
use serde::Serialize;
use tokio::task::JoinSet;

use super::round;
use crate::exit::Failure;
use crate::output::{Align, Progress, Table, micros, thousands};

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// The name under which the compiled module is deployed; those that are linked with servers are called `tpcc/…`.
const DEPLOYED: &str = "tpcc";

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Tpcc {
    pub(super) scale: Scale,
    pub(super) clients: u64,
    pub(super) seconds: u64,
    /// The compiled module; none calls what is linked with the servers.
    pub(super) module: Option<Vec<u8>>,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    workload: &'static str,
    isolation: &'static str,
    /// `linked` with the servers, or `deployed`.
    procedures: &'static str,
    warehouses: u32,
    customers_per_district: u32,
    items: u32,
    clients: u64,
    seconds: f64,
    /// Transactions that were carried out, and new orders that were rolled back as specified.
    pub(super) committed: u64,
    rolled_back: u64,
    aborted: u64,
    abort_rate: f64,
    unknown: u64,
    refused: u64,
    /// The share of transactions that more than one shard took part in.
    distributed_rate: f64,
    /// The share of transactions that touched more than one warehouse.
    remote_rate: f64,
    throughput_tps: f64,
    new_orders_per_minute: f64,
    latency_us: super::Latency,
    by_transaction: BTreeMap<&'static str, OfKind>,
    /// What is violated of the specification's consistency conditions; nothing if all is well.
    pub(super) violations: Vec<String>,
    keys: usize,
    server_cpu_us_per_txn: f64,
    client_cpu_us_per_txn: f64,
    messages_per_txn: f64,
    bytes_per_txn: f64,
    shards: usize,
    cores: usize,
}

/// What came of one of the five transactions.
#[derive(Debug, Serialize)]
struct OfKind {
    committed: u64,
    p50_us: u64,
    p99_us: u64,
}

impl Tpcc {
    /// Populates a new keyspace, runs the mix, and judges what it has left.
    pub(super) async fn run(
        &self,
        db: &Database,
        keyspace: &Keyspace,
        progress: &Progress,
    ) -> Result<Report, Failure> {
        let mut random = Random::new(1);
        let mut bits = || random.next_u64();
        let constants = Constants::of_population(&mut bits);
        let items = Items::draw(&self.scale, &mut bits);
        for number in 1..=self.scale.warehouses {
            progress.now(format!("populating warehouse {number} of {}", self.scale.warehouses));
            let mut pairs = Vec::new();
            population::warehouse(&self.scale, number, &items, &constants, now(), &mut bits, &mut |pair| {
                pairs.push(pair);
            });
            put_all(keyspace, pairs).await?;
        }
        let version = match &self.module {
            None => None,
            Some(code) => Some(keyspace.deploy(DEPLOYED, None, code).await?.version),
        };
        let generator = Generator::new(self.scale, Constants::of_run(&mut bits, &constants), Mix::default());
        let shared = Arc::new(Shared {
            keyspace: keyspace.clone(),
            version,
            generator,
            stop: AtomicBool::new(false),
            counts: Mutex::default(),
        });
        let mut clients = JoinSet::new();
        for client in 0..self.clients {
            let home = 1 + (client % u64::from(self.scale.warehouses)) as u32;
            clients.spawn(run_client(Arc::clone(&shared), home, Random::new(2 + client).fork()));
        }
        let look = |_| Ok(shared.with_counts(|counts| (counts.all.committed, counts.all.trouble.clone())));
        let measured = super::measure(db, self.seconds, progress, || shared.take_counts(), look).await;
        shared.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = clients.join_next().await {
            ended.map_err(|panicked| Failure::failed(format!("a client has ended: {panicked}")))?;
        }
        let (counts, costs) = measured?;
        super::say_trouble(&counts.all, progress);
        progress.now("reading everything, to judge it");
        let mut pairs = Vec::new();
        for number in 1..=self.scale.warehouses {
            read_all(keyspace, number, &mut pairs).await?;
        }
        let keys = pairs.len();
        let violations = quorate_tpcc::violations(&self.scale, pairs);
        Ok(self.report(keyspace, &counts, costs, (keys, violations)))
    }

    fn report(
        &self,
        keyspace: &Keyspace,
        counts: &Counts,
        costs: Costs,
        (keys, violations): (usize, Vec<String>),
    ) -> Report {
        let all = &counts.all;
        let transactions = all.committed.max(1) as f64;
        let new_orders = counts.by_kind.get("new-order").map_or(0, |latencies| latencies.len());
        let of_kind = |latencies: &Histogram<u64>| OfKind {
            committed: latencies.len(),
            p50_us: latencies.value_at_quantile(0.5),
            p99_us: latencies.value_at_quantile(0.99),
        };
        Report {
            workload: "tpcc",
            isolation: keyspace.isolation().name(),
            procedures: if self.module.is_some() { "deployed" } else { "linked" },
            warehouses: self.scale.warehouses,
            customers_per_district: self.scale.customers,
            items: self.scale.items,
            clients: self.clients,
            seconds: round(costs.seconds, 3),
            committed: all.committed,
            rolled_back: counts.rolled_back,
            aborted: all.aborted,
            abort_rate: round(all.abort_rate(), 5),
            unknown: all.unknown,
            refused: all.refused,
            distributed_rate: round(counts.distributed as f64 / transactions, 4),
            remote_rate: round(counts.remote as f64 / transactions, 4),
            throughput_tps: round(all.committed as f64 / costs.seconds, 1),
            new_orders_per_minute: round(new_orders as f64 * 60.0 / costs.seconds, 0),
            latency_us: super::Latency::of(all),
            by_transaction: counts.by_kind.iter().map(|(kind, of)| (*kind, of_kind(of))).collect(),
            violations,
            keys,
            server_cpu_us_per_txn: round(costs.server_cpu_us / transactions, 2),
            client_cpu_us_per_txn: round(costs.client_cpu_us / transactions, 2),
            messages_per_txn: round(costs.messages as f64 / transactions, 2),
            bytes_per_txn: round(costs.bytes as f64 / transactions, 1),
            shards: keyspace.definition().shards.len(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Reads the compiled module.
pub(super) fn read_module(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read {} ({error}); it is made, in a clone, with `rustup target add wasm32-unknown-unknown` and `cargo build \
             --release --target wasm32-unknown-unknown -p quorate-tpcc --example tpcc`, in target/wasm32-unknown-unknown/release/examples",
            path.display()
        ))
    })
}

/// The time in microseconds; not zero.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Writes keys of one warehouse, in whatever order.
async fn put_all(keyspace: &Keyspace, pairs: Vec<Pair>) -> Result<(), Failure> {
    /// Keys in a batch, and batches under way.
    const KEYS: usize = 500;
    const BATCHES: usize = 16;
    let mut under_way = JoinSet::new();
    for pairs in pairs.chunks(KEYS) {
        if under_way.len() >= BATCHES
            && let Some(written) = under_way.join_next().await
        {
            written.map_err(Failure::failed)??;
        }
        let batch = pairs.iter().fold(Batch::new(), |batch, (key, value)| batch.put(key, value));
        let keyspace = keyspace.clone();
        under_way.spawn(async move { keyspace.apply(batch).await.map(drop) });
    }
    while let Some(written) = under_way.join_next().await {
        written.map_err(Failure::failed)??;
    }
    Ok(())
}

/// Reads all keys of a warehouse, that nobody writes any more.
async fn read_all(keyspace: &Keyspace, warehouse: u32, pairs: &mut Vec<Pair>) -> Result<(), Failure> {
    const PAGE: u32 = 5_000;
    let (from, to) = key::of_warehouse(warehouse);
    let mut from = Some(quorate::Key::from(from));
    while let Some(start) = from {
        let page = keyspace.scan(&start, &to, PAGE).await?;
        pairs.extend(page.entries.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
        from = page.next;
    }
    Ok(())
}

/// What the clients share.
struct Shared {
    keyspace: Keyspace,
    /// The version of the module that is called; none if what is linked is.
    version: Option<u32>,
    generator: Generator,
    stop: AtomicBool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: Tally,
    rolled_back: u64,
    distributed: u64,
    remote: u64,
    /// Latencies in microseconds.
    by_kind: BTreeMap<&'static str, Histogram<u64>>,
}

impl Shared {
    fn take_counts(&self) -> Counts {
        self.with_counts(std::mem::take)
    }

    fn with_counts<R>(&self, look: impl FnOnce(&mut Counts) -> R) -> R {
        look(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The call that does a transaction, and how many shards take part.
    fn call(&self, transaction: &Transaction) -> (Call, usize) {
        let definition = self.keyspace.definition();
        let mut local: BTreeMap<ShardId, Vec<u32>> = BTreeMap::new();
        for warehouse in transaction.warehouses() {
            let shard = definition.shard_of(&key::warehouse(warehouse)).id;
            local.entry(shard).or_default().push(warehouse);
        }
        let call = match self.version {
            Some(version) => Call::new(DEPLOYED).version(version),
            None => Call::new(format!("tpcc/{}", transaction.name())),
        };
        let call = local.values().fold(call, |call, warehouses| {
            call.at_with(key::warehouse(warehouses[0]), transaction.arguments(warehouses))
        });
        let call = match transaction.class() {
            Class::ReadOnly => call.read_only(),
            Class::Independent => call.independent(),
        };
        (call, local.len())
    }

    fn count(
        &self,
        transaction: &Transaction,
        shards: usize,
        took: Duration,
        result: Result<u32, Error>,
    ) -> Option<Duration> {
        /// How long to wait before a cluster that refused is asked again.
        const PAUSE: Duration = Duration::from_millis(50);
        const LATENCY_US_MAX: u64 = 60_000_000;
        self.with_counts(|counts| {
            let is_rolled_back = matches!(&result, Err(Error::Refused { refusal, .. })
                if matches!(&**refusal, Refusal::Procedure { reason } if reason == INVALID_ITEM));
            match result {
                Ok(attempts) => counts.all.aborted += u64::from(attempts.saturating_sub(1)),
                Err(_) if is_rolled_back => counts.rolled_back += 1,
                Err(Error::Conflict) => {
                    counts.all.aborted += 1;
                    return None;
                }
                Err(Error::Unknown { .. }) => {
                    counts.all.unknown += 1;
                    return None;
                }
                Err(error) => {
                    counts.all.refused += 1;
                    let pause = match &error {
                        Error::Overloaded { retry_after } => *retry_after,
                        _ => PAUSE,
                    };
                    counts.all.trouble = Some(error.to_string());
                    return Some(pause);
                }
            }
            counts.all.on_commit(took, took, None, true);
            counts.distributed += u64::from(shards > 1);
            counts.remote += u64::from(transaction.warehouses().len() > 1);
            let latencies = counts.by_kind.entry(transaction.name()).or_insert_with(|| {
                Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid")
            });
            latencies.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
            None
        })
    }
}

/// Runs one transaction after the other until it is told to stop.
async fn run_client(shared: Arc<Shared>, home: u32, mut random: Random) {
    while !shared.stop.load(Ordering::Relaxed) {
        let transaction = shared.generator.next_at(&mut || random.next_u64(), home, now());
        let (call, shards) = shared.call(&transaction);
        let began = Instant::now();
        let result = shared.keyspace.call(call).await.map(|answers| answers.receipt.attempts);
        if let Some(pause) = shared.count(&transaction, shards, began.elapsed(), result) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// The report for people.
pub(super) fn table(report: &Report) -> Table {
    let mut table = Table::new(&[(report.workload, Align::Left), ("", Align::Right)]);
    let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
    let Report { warehouses, customers_per_district, items, .. } = report;
    row("warehouses", format!("{warehouses} on {} shards", report.shards));
    row(
        "customers, items",
        format!(
            "{} a district, {}",
            thousands(u64::from(*customers_per_district)),
            thousands(u64::from(*items))
        ),
    );
    row("procedures", report.procedures.to_owned());
    row("in flight", thousands(report.clients));
    row("executed", thousands(report.committed));
    row("executed/s", thousands(report.throughput_tps as u64));
    row("new orders/minute", thousands(report.new_orders_per_minute as u64));
    row("rolled back", thousands(report.rolled_back));
    row("aborted attempts", format!("{} ({:.2} %)", thousands(report.aborted), report.abort_rate * 100.0));
    row("of several warehouses", format!("{:.1} %", report.remote_rate * 100.0));
    row("of several shards", format!("{:.1} %", report.distributed_rate * 100.0));
    if report.unknown + report.refused > 0 {
        row("unknown, refused", format!("{}, {}", thousands(report.unknown), thousands(report.refused)));
    }
    for (kind, of) in &report.by_transaction {
        row(
            kind,
            format!("{}, p50 {}, p99 {}", thousands(of.committed), micros(of.p50_us), micros(of.p99_us)),
        );
    }
    row("CPU of servers", format!("{:.1} µs/txn", report.server_cpu_us_per_txn));
    row("CPU of the client", format!("{:.1} µs/txn", report.client_cpu_us_per_txn));
    row("messages", format!("{:.1} /txn", report.messages_per_txn));
    let verdict = match report.violations.len() {
        0 => format!("hold, of {} keys", thousands(report.keys as u64)),
        count => format!("{count} violated"),
    };
    row("consistency conditions", verdict);
    table
}
