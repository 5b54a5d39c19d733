//! The same workload on real server processes and in the simulator, with the costs that were measured.

use std::sync::Arc;
use std::time::Duration;

use quorate::{Durability, Isolation, KeyspaceOptions, Options};
use quorate_experiments::deployment::Deployment;
use quorate_experiments::load::{Window, run};
use quorate_simulator::world::costs::{Costs, Operation};
use quorate_workloads::{Parameters, WorkloadKind};
use serde::Serialize;

use crate::cluster::Embedded;
use crate::exit::Failure;
use crate::load::{Load, Reading};

/// So many transactions are in flight.
pub(super) const IN_FLIGHT: [u64; 3] = [1, 16, 256];

/// So many commands make a transaction that reads a key and writes it: begin, get, put, commit.
const COMMANDS: f64 = 4.0;

/// For so long real servers are measured.
const REAL: Duration = Duration::from_secs(4);

/// How a workload went.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Went {
    pub(super) throughput_tps: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) server_cpu_us_per_txn: f64,
    pub(super) client_cpu_us_per_txn: f64,
    /// How much of the cores the processes had, as a share.
    pub(super) cores_used: f64,
}

/// The same twice.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Compared {
    pub(super) in_flight: u64,
    pub(super) real: Went,
    pub(super) simulated: Went,
}

fn workload() -> Parameters {
    Parameters::new(WorkloadKind::Rmw)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs it on server processes.
pub(super) async fn really(in_flight: u64) -> Result<Went, Failure> {
    let mut embedded = Embedded::start(3, Durability::Memory)?;
    let db = embedded.connect(Options::default()).await?;
    let options = KeyspaceOptions {
        durability: Durability::Memory,
        replicas: Some(3),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    let keyspace = db.create_keyspace("calibration", options).await?;
    let load = Load {
        keyspace,
        parameters: workload().for_clients(in_flight),
        clients: in_flight,
        first_client: 0,
        site: String::new(),
        round_trip: None,
        history: None,
        reads_at_once: true,
        seed: 1,
        generations: 0,
        commits: None,
    };
    let running = load.start();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = Reading::take(&db).await?;
    running.take_tally();
    tokio::time::sleep(REAL).await;
    let tally = running.take_tally();
    let costs = Reading::take(&db).await?.since(&before);
    running.stop().await;
    db.close().await;
    if let Some(trouble) = embedded.processes.stop().first() {
        return Err(Failure::failed(trouble));
    }
    let committed = tally.committed.max(1) as f64;
    let cpu = costs.server_cpu_us + costs.client_cpu_us;
    Ok(Went {
        throughput_tps: tally.committed as f64 / costs.seconds,
        p50_us: tally.latency_us(0.5) as f64,
        p99_us: tally.latency_us(0.99) as f64,
        server_cpu_us_per_txn: costs.server_cpu_us / committed,
        client_cpu_us_per_txn: costs.client_cpu_us / committed,
        cores_used: cpu / 1e6 / costs.seconds / cores() as f64,
    })
}

/// Runs it in the simulator.
pub(super) fn simulated(in_flight: u64, costs: &Costs, hop: Duration) -> Went {
    let deployment = Deployment {
        costs: Some(Arc::new(costs.clone())),
        ..Deployment::on_one_machine(workload(), in_flight as usize, hop, cores())
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
        cores_used: (servers + measured.clients_worked).as_secs_f64() / measured.seconds / cores() as f64,
    }
}

/// What the client library does beside its coordinator (its tasks, its channels, and the workload) is not an operation of
/// a machine: whatever the processor time of a real client has more than that of a simulated one is spread over the
/// commands.
pub(super) fn with_library(costs: &Costs, real: &Went, simulated: &Went) -> Costs {
    let more_us = (real.client_cpu_us_per_txn - simulated.client_cpu_us_per_txn).max(0.0);
    let mut costs = costs.clone();
    costs.operations[Operation::Command as usize].base_ns += more_us * 1e3 / COMMANDS;
    costs
}
