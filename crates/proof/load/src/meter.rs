//! The costs of transactions: processor time, messages, bytes, syncs, over all processes.

use std::time::{Duration, Instant};

use quorate::{Database, NodeId};
use rustix::time::{ClockId, clock_gettime};
use serde::Deserialize;

/// All counters of a cluster and its client, read at one time.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    client_cpu_us: f64,
    client: Carried,
    /// None for a server that does not answer: what it does is not counted then.
    servers: Vec<Option<Status>>,
}

/// The status of a server, as far as it matters here.
#[derive(Clone, Debug, Deserialize)]
struct Status {
    cpu_seconds: f64,
    transport: Carried,
    log: LogStatus,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Carried {
    messages_sent: u64,
    bytes_sent: u64,
    socket_writes: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct LogStatus {
    syncs: u64,
}

/// A status that a node has told, and that is none.
#[derive(Debug, thiserror::Error)]
#[error("the status of {node} cannot be read: {source}")]
pub struct UnreadableStatus {
    node: NodeId,
    source: serde_json::Error,
}

/// The costs between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// How long it was.
    pub seconds: f64,
    /// Processor time of all servers.
    pub server_cpu_us: f64,
    /// Processor time of the busiest server.
    pub busiest_server_cpu_us: f64,
    /// Processor time of this process.
    pub client_cpu_us: f64,
    /// Protocol messages, before batching.
    pub messages: u64,
    /// Bytes on sockets.
    pub bytes: u64,
    /// Syncs of logs.
    pub syncs: u64,
    /// Messages per write to a socket.
    pub mean_batch: f64,
}

impl Reading {
    /// Reads all counters.
    ///
    /// # Errors
    /// If the status of a node cannot be read.
    pub async fn take(db: &Database) -> Result<Reading, UnreadableStatus> {
        Reading::take_of(db, &[]).await
    }

    /// Reads all counters of a cluster that this process has other connections to as well.
    ///
    /// # Errors
    /// If the status of a node cannot be read.
    pub async fn take_of(db: &Database, others: &[&Database]) -> Result<Reading, UnreadableStatus> {
        let mut servers = Vec::with_capacity(db.topology().nodes.len());
        for node in db.topology().live_nodes() {
            let Ok(json) = db.status(node.id).await else {
                servers.push(None);
                continue;
            };
            let status =
                serde_json::from_slice(&json).map_err(|source| UnreadableStatus { node: node.id, source })?;
            servers.push(Some(status));
        }
        let mut client = Carried::default();
        for counters in std::iter::once(&db).chain(others).map(|db| db.counters()) {
            client.messages_sent += counters.messages_sent;
            client.bytes_sent += counters.bytes_sent;
            client.socket_writes += counters.socket_writes;
        }
        let client_cpu_us = cpu_time().as_secs_f64() * 1e6;
        Ok(Reading { at: Instant::now(), client_cpu_us, client, servers })
    }

    /// The costs since an earlier reading of the same cluster.
    pub fn since(&self, earlier: &Reading) -> Costs {
        // A server that was restarted in between counts anew from zero.
        let pairs = || {
            let both = self.servers.iter().zip(&earlier.servers);
            both.filter_map(|(now, then)| Some((now.as_ref()?, then.as_ref()?)))
        };
        let cpu = |(now, then): (&Status, &Status)| (now.cpu_seconds - then.cpu_seconds).max(0.0) * 1e6;
        let sum = |count: fn(&Carried) -> u64| {
            let servers: u64 =
                pairs().map(|(now, then)| count(&now.transport).saturating_sub(count(&then.transport))).sum();
            servers + count(&self.client).saturating_sub(count(&earlier.client))
        };
        let (messages, writes) = (sum(|carried| carried.messages_sent), sum(|carried| carried.socket_writes));
        Costs {
            seconds: (self.at - earlier.at).as_secs_f64(),
            server_cpu_us: pairs().map(cpu).sum(),
            busiest_server_cpu_us: pairs().map(cpu).fold(0.0, f64::max),
            client_cpu_us: self.client_cpu_us - earlier.client_cpu_us,
            messages,
            bytes: sum(|carried| carried.bytes_sent),
            syncs: pairs().map(|(now, then)| now.log.syncs.saturating_sub(then.log.syncs)).sum(),
            mean_batch: if writes == 0 { 0.0 } else { messages as f64 / writes as f64 },
        }
    }
}

/// The processor time that this process has used, over all its threads.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(at: Instant, factor: u64) -> Reading {
        let carried =
            |count| Carried { messages_sent: 10 * count, bytes_sent: 1_000 * count, socket_writes: count };
        let status = |count: u64| Status {
            cpu_seconds: count as f64,
            transport: carried(count),
            log: LogStatus { syncs: count },
        };
        Reading {
            at,
            client_cpu_us: factor as f64,
            client: carried(factor),
            servers: vec![Some(status(factor)), None, Some(status(2 * factor))],
        }
    }

    #[test]
    fn costs_are_differences_over_all_processes() {
        let begin = Instant::now();
        let costs = reading(begin + Duration::from_secs(2), 3).since(&reading(begin, 1));
        let expected = Costs {
            seconds: 2.0,
            server_cpu_us: 6e6,
            busiest_server_cpu_us: 4e6,
            client_cpu_us: 2.0,
            messages: 80,
            bytes: 8_000,
            syncs: 6,
            mean_batch: 10.0,
        };
        assert_eq!(costs, expected);
    }
}
