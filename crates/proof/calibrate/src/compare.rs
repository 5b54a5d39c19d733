//! The same workload on real server processes and in the simulator, with the costs that were measured.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate::{Database, Durability, Isolation, KeyspaceOptions, Options};
use quorate_cluster::{Embedded, Failure};
use quorate_experiments::deployment::Deployment;
use quorate_experiments::load::{Window, run};
use quorate_load::{Load, Reading};
use quorate_simulator::world::costs::{Costs, Operation, SyncTime};
use quorate_workloads::{Parameters, WorkloadKind};
use serde::Serialize;

use crate::processors::machine_cpu_time;

/// The cases that are run: so many transactions in flight, and a durability. The first of them fits the costs that nothing else
/// tells.
pub(super) const CASES: [Case; 6] = [
    Case { durability: Durability::Memory, in_flight: 256 },
    Case { durability: Durability::Memory, in_flight: 16 },
    Case { durability: Durability::Memory, in_flight: 1 },
    Case { durability: Durability::Sync, in_flight: 256 },
    Case { durability: Durability::Sync, in_flight: 16 },
    Case { durability: Durability::Sync, in_flight: 1 },
];

/// So many commands make a transaction that reads a key and writes it: begin, get, put, commit.
const COMMANDS: f64 = 4.0;

/// And so many operations of servers: one reads, and three prepare and commit.
const OPERATIONS: f64 = 7.0;

/// Which operations are those of servers.
const OF_SERVERS: [Operation; 4] = [Operation::Read, Operation::Prepare, Operation::Commit, Operation::Abort];

/// So often real servers are measured, and for so long each time.
const WINDOWS: usize = 4;
const WINDOW: Duration = Duration::from_secs(1);

/// Before that, they have so long to get going.
const WARM_UP: Duration = Duration::from_secs(1);

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) durability: Durability,
    pub(super) in_flight: u64,
}

/// How a workload went.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Went {
    /// Committed transactions per second.
    pub throughput_tps: f64,
    /// The median of latencies.
    pub p50_us: f64,
    /// The latency that one transaction of a hundred exceeds.
    pub p99_us: f64,
    /// The processor time of all servers for each transaction.
    pub server_cpu_us_per_txn: f64,
    /// The processor time of the client for each transaction.
    pub client_cpu_us_per_txn: f64,
    /// How many messages one write to a socket carried.
    pub messages_per_write: f64,
    /// The share of the cores that the processes had.
    pub cores_used: f64,
    /// The share of the cores that other processes had.
    pub cores_of_others: f64,
}

/// The same workload on real servers and in the simulator.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Compared {
    /// The name of the durability of the keyspace.
    pub durability: &'static str,
    /// How many transactions are in flight.
    pub in_flight: u64,
    /// True if a cost was fitted to this comparison, so that it says less.
    pub fitted: bool,
    /// The run on real servers.
    pub real: Went,
    /// The run in the simulator.
    pub simulated: Went,
}

fn workload() -> Parameters {
    Parameters::new(WorkloadKind::Rmw)
}

pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs it on server processes of this program, and takes the time in which others have used the machine the least.
pub(super) async fn really(program: &Path, case: Case) -> Result<Went, Failure> {
    let read = async |db: &Database| Reading::take(db).await.map_err(Failure::failed);
    let mut embedded = Embedded::start(program, 3, case.durability, Default::default())?;
    let db = embedded.connect(Options::default()).await?;
    let options = KeyspaceOptions {
        durability: case.durability,
        replicas: Some(3),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    let keyspace = db.create_keyspace("calibration", options).await?;
    let load = Load {
        keyspace,
        parameters: workload().for_clients(case.in_flight),
        clients: case.in_flight,
        first_client: 0,
        site: String::new(),
        round_trip: None,
        history: None,
        reads_at_once: true,
        stale: None,
        speculates: false,
        seed: 1,
        drawn: 0,
        generations: 0,
        commits: None,
    };
    let running = load.start();
    tokio::time::sleep(WARM_UP).await;
    let mut windows = Vec::new();
    let mut before = (read(&db).await?, machine_cpu_time()?);
    running.take_tally();
    for _ in 0..WINDOWS {
        tokio::time::sleep(WINDOW).await;
        let tally = running.take_tally();
        let now = (read(&db).await?, machine_cpu_time()?);
        let costs = now.0.since(&before.0);
        let committed = tally.committed.max(1) as f64;
        let cpu_us = costs.server_cpu_us + costs.client_cpu_us;
        let of_cores = |cpu_us: f64| cpu_us / 1e6 / costs.seconds / cores() as f64;
        windows.push(Went {
            throughput_tps: tally.committed as f64 / costs.seconds,
            p50_us: tally.latency_us(0.5) as f64,
            p99_us: tally.latency_us(0.99) as f64,
            server_cpu_us_per_txn: costs.server_cpu_us / committed,
            client_cpu_us_per_txn: costs.client_cpu_us / committed,
            messages_per_write: costs.mean_batch,
            cores_used: of_cores(cpu_us),
            cores_of_others: of_cores(((now.1 - before.1).as_secs_f64() * 1e6 - cpu_us).max(0.0)),
        });
        before = now;
    }
    running.stop().await;
    db.close().await;
    if let Some(trouble) = embedded.processes.stop().first() {
        return Err(Failure::failed(trouble));
    }
    let quietest =
        windows.into_iter().min_by(|one, other| one.cores_of_others.total_cmp(&other.cores_of_others));
    quietest.ok_or_else(|| Failure::failed("nothing was measured"))
}

/// Runs it in the simulator.
pub(super) fn simulated(case: Case, costs: &Costs, sync_time: SyncTime, hop: Duration) -> Went {
    let deployment = Deployment {
        costs: Some(Arc::new(costs.clone())),
        durability: case.durability,
        sync_time,
        ..Deployment::on_one_machine(workload(), case.in_flight as usize, hop, cores())
    };
    let window = Window { warm_up: Duration::from_millis(700), measured: Duration::from_secs(1) };
    let measured = run(&deployment, 1, window);
    let committed = measured.committed.max(1) as f64;
    let servers: Duration = measured.servers_worked.iter().sum();
    Went {
        throughput_tps: measured.throughput(),
        p50_us: measured.latency_ms(0.5) * 1e3,
        p99_us: measured.latency_ms(0.99) * 1e3,
        server_cpu_us_per_txn: servers.as_secs_f64() * 1e6 / committed,
        client_cpu_us_per_txn: measured.clients_worked.as_secs_f64() * 1e6 / committed,
        messages_per_write: measured.messages_per_packet,
        cores_used: (servers + measured.clients_worked).as_secs_f64() / measured.seconds / cores() as f64,
        cores_of_others: 0.0,
    }
}

/// The costs that no measurement of a part shows, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Remainder {
    /// For each command: the tasks and channels of the client library, and the workload.
    pub library_ns: f64,
    /// For each operation of a server: the host of its machines, and caches that others use as well.
    pub hosting_ns: f64,
}

impl Remainder {
    /// The costs of a transaction that real processes have beyond simulated ones.
    pub(super) fn between(real: &Went, simulated: &Went) -> Self {
        let more_ns = |real: f64, simulated: f64| (real - simulated).max(0.0) * 1e3;
        Remainder {
            library_ns: more_ns(real.client_cpu_us_per_txn, simulated.client_cpu_us_per_txn) / COMMANDS,
            hosting_ns: more_ns(real.server_cpu_us_per_txn, simulated.server_cpu_us_per_txn) / OPERATIONS,
        }
    }

    /// Costs with this.
    pub(super) fn added_to(self, costs: &Costs) -> Costs {
        let mut costs = costs.clone();
        costs.operations[Operation::Command as usize].base_ns += self.library_ns;
        for operation in OF_SERVERS {
            costs.operations[operation as usize].base_ns += self.hosting_ns;
        }
        costs
    }
}
