//! The costs of a run for each transaction that it has committed.

use quorate_load::Costs;
use serde::Serialize;

use super::round;
use crate::output::{Table, thousands};

/// In the report of every workload.
#[derive(Debug, Serialize)]
pub(super) struct Spent {
    /// Of all servers together.
    server_cpu_us_per_txn: f64,
    busiest_server_cpu_us_per_txn: f64,
    client_cpu_us_per_txn: f64,
    /// Of the protocol, before what is ready together goes together.
    messages_per_txn: f64,
    bytes_per_txn: f64,
    /// How often servers have waited for a disk.
    syncs: u64,
    /// Messages in a write to a socket.
    mean_batch: f64,
}

impl Spent {
    pub(super) fn of(costs: &Costs, committed: u64) -> Self {
        let transactions = committed.max(1) as f64;
        Spent {
            server_cpu_us_per_txn: round(costs.server_cpu_us / transactions, 2),
            busiest_server_cpu_us_per_txn: round(costs.busiest_server_cpu_us / transactions, 2),
            client_cpu_us_per_txn: round(costs.client_cpu_us / transactions, 2),
            messages_per_txn: round(costs.messages as f64 / transactions, 2),
            bytes_per_txn: round(costs.bytes as f64 / transactions, 1),
            syncs: costs.syncs,
            mean_batch: round(costs.mean_batch, 2),
        }
    }

    /// The rows for people.
    pub(super) fn rows(&self, table: &mut Table) {
        let mut row = |name: &str, value: String| table.row([name.to_owned(), value]);
        row("CPU of servers", format!("{:.1} µs/txn", self.server_cpu_us_per_txn));
        row("CPU of the busiest", format!("{:.1} µs/txn", self.busiest_server_cpu_us_per_txn));
        row("CPU of the client", format!("{:.1} µs/txn", self.client_cpu_us_per_txn));
        row("messages", format!("{:.1} /txn", self.messages_per_txn));
        row("bytes", format!("{:.0} /txn", self.bytes_per_txn));
        row("messages per write", format!("{:.1}", self.mean_batch));
        row("syncs", thousands(self.syncs));
    }
}
