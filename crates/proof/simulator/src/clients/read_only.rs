//! Read-only transactions: plans that name all keys beforehand, or are one scan, are read in each of the ways there are.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::command::{Command, Committed, Failure, Freshness};
use quorate_core::hosted::Holdings;
use quorate_core::{Key, Timestamp, TransactionId, Value};
use quorate_workloads::{Execution, Step};

use super::{Clients, Work};
use crate::cluster::{Cluster, KEYSPACE};
use crate::system::System;

/// So often a plan that could be read at once is.
const READ_ONLY_PROBABILITY: f64 = 0.8;

/// How far back a read in the past may lie.
const PAST_MICROS_MAX: u64 = 4_000_000;

/// So often a plan that is one scan is read without holding anything.
const READ_ONLY_SCAN_PROBABILITY: f64 = 0.6;

/// How a transaction reads all its keys at once, or a range, and what it got.
#[derive(Clone, Debug)]
pub(super) struct ReadOnly {
    pub(super) freshness: Freshness,
    /// True if what it reads must be strict.
    pub(super) is_strict: bool,
    /// True if further pages of a range are read at the timestamp of the first.
    goes_on: bool,
    pub(super) got: BTreeMap<Key, Option<Value>>,
    /// A page of the range.
    pub(super) scanned: Option<Scanned>,
}

/// A page of a range: keys and values, and the first key that it does not cover.
type Scanned = (Vec<(Key, Value)>, Option<Key>);

impl ReadOnly {
    fn new(freshness: Freshness, is_strict: bool, goes_on: bool) -> Self {
        ReadOnly { freshness, is_strict, goes_on, got: BTreeMap::new(), scanned: None }
    }

    /// How the client asks for what an attempt wants next.
    pub(super) fn command(
        &self,
        id: TransactionId,
        execution: &mut Execution,
        patience: Duration,
    ) -> Command {
        let (transaction, keyspace, freshness) = (id, KEYSPACE, self.freshness);
        match execution.plan().keys_read() {
            Some(keys) => Command::ReadOnly { transaction, keyspace, keys, freshness, patience },
            None => {
                let Step::Scan { range, limit } = execution.next_step() else {
                    panic!("a plan that is read at once reads keys or is one scan")
                };
                Command::ReadOnlyScan { transaction, keyspace, range, limit, freshness, patience }
            }
        }
    }
}

impl Clients {
    /// How an attempt at a plan reads, if it is to read all at once.
    pub(super) fn draw_read_only<S: System>(
        &mut self,
        session: usize,
        execution: &Execution,
        cluster: &mut Cluster<S>,
    ) -> Option<ReadOnly> {
        // The auditor reads like any other transaction: the last word should not rest on what it judges.
        let audits = self.sessions[session].audits();
        let reads_keys = execution.plan().keys_read().is_some();
        let is_read_only = reads_keys || execution.plan().scan_read().is_some();
        if matches!(self.sessions[session].work, Work::Script(_)) {
            return is_read_only.then(|| ReadOnly::new(Freshness::Strict, true, false));
        }
        let inclination = if reads_keys { READ_ONLY_PROBABILITY } else { READ_ONLY_SCAN_PROBABILITY };
        let swarm = cluster.scenario.swarm.as_ref().and_then(|swarm| swarm.read_only);
        let is_inclined = self.random.chance(swarm.unwrap_or(inclination));
        if audits || !is_inclined || !is_read_only {
            return None;
        }
        if !S::READS_THE_PAST {
            return Some(ReadOnly::new(Freshness::Strict, true, false));
        }
        let slot = &self.slots[self.sessions[session].slot];
        let (client, now) = (slot.id, cluster.world.now());
        let node = cluster.world.node_of_client(slot.client);
        let clock = cluster.world.clock(node).reading(now).as_micros();
        let back = self.random.below(PAST_MICROS_MAX);
        let freshness = match self.random.below(20) {
            // Where it may, half of what is strict relies on clocks.
            0..6 if cluster.scenario.clock_bound.is_some() => Freshness::ClockBound,
            0..12 => Freshness::Strict,
            12..14 => {
                let past = Timestamp { micros: clock.saturating_sub(back), client };
                Freshness::At(self.timestamp_in_use(cluster).unwrap_or(past))
            }
            14..18 => Freshness::Stale(Duration::from_micros(back)),
            // Where clocks are not bounded it would be refused.
            _ if cluster.scenario.clock_bound.is_none() => Freshness::Strict,
            _ => Freshness::ClockBound,
        };
        // A strict page is strict by itself. A snapshot of several at its timestamp is not, unless clocks are bounded.
        let goes_on = !reads_keys && (freshness != Freshness::Strict || self.random.chance(0.5));
        let is_strict = match freshness {
            Freshness::Strict => !goes_on,
            Freshness::ClockBound => true,
            Freshness::At(_) | Freshness::Stale(_) => false,
        };
        Some(ReadOnly::new(freshness, is_strict, goes_on))
    }

    /// The timestamp of a transaction that is prepared somewhere: a transaction that reads at just that must find it, or keep it out.
    /// None as often as there is one.
    fn timestamp_in_use<S: System>(&mut self, cluster: &Cluster<S>) -> Option<Timestamp> {
        if self.random.chance(0.5) {
            return None;
        }
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let in_use: Vec<Timestamp> = servers.flat_map(Holdings::held).map(|held| held.timestamp).collect();
        let at = self.random.index(in_use.len().max(1));
        in_use.get(at).copied()
    }

    /// A read-only transaction is over. Its results count only if it has committed; if not, nothing has happened,
    /// whatever its fate at the replicas.
    pub(super) fn on_read_only_finished<S: System>(
        &mut self,
        session: usize,
        result: Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) {
        let committed = match result {
            Ok(committed) => committed,
            Err(_) => return self.end_aborted(session, cluster),
        };
        self.tally.fast += u64::from(committed.fast);
        self.record_place(session, committed.at_site.as_ref(), cluster);
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let Some(read_only) = &mut attempt.read_only else { return };
        if attempt.execution.plan().keys_read().is_some() {
            if let Err(unread) = attempt.execution.got_all(&read_only.got) {
                self.nonsense.push(format!("{} committed, but {unread}", attempt.id));
            }
            return self.end_committed(session, committed.timestamp, cluster);
        }
        match read_only.scanned.take() {
            Some((entries, next)) => attempt.execution.scanned(entries, next),
            None => self.nonsense.push(format!("{} committed without a page", attempt.id)),
        }
        if read_only.goes_on && attempt.execution.next_step() != Step::Commit {
            read_only.freshness = Freshness::At(committed.timestamp);
            return self.read_on(session, cluster);
        }
        self.end_committed(session, committed.timestamp, cluster);
    }

    /// Asks for the next page of a range, in a transaction of its own.
    fn read_on<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let slot = &mut self.slots[self.sessions[session].slot];
        slot.sequence += S::NUMBERS_APART;
        let id = TransactionId { client: slot.id, sequence: slot.sequence, attempt: 0 };
        let client = slot.client;
        let Some(attempt) = &self.sessions[session].attempt else { return };
        let operations = attempt.execution.plan().operations.len() as u32;
        let patience = self.draw_patience(operations, cluster);
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let Some(read_only) = &attempt.read_only else { return };
        self.by_transaction.remove(&attempt.id);
        self.by_transaction.insert(id, session);
        attempt.id = id;
        cluster.note_transaction(id);
        cluster.world.command(client, read_only.command(id, &mut attempt.execution, patience));
    }
}
