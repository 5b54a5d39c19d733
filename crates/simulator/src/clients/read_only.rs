//! Read-only transactions: plans that name all keys beforehand are read at once, in each of the ways there are.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{Key, Timestamp, Value};
use quorate_tapir::{Committed, Failure, Freshness};
use quorate_workloads::Execution;

use super::{Clients, Work};
use crate::cluster::Cluster;

/// So often a plan that could be read at once is.
const READ_ONLY_PROBABILITY: f64 = 0.8;

/// How far back a read in the past may lie.
const PAST_MICROS_MAX: u64 = 4_000_000;

/// How a transaction reads all its keys at once, and what it got.
#[derive(Clone, Debug)]
pub(super) struct ReadOnly {
    pub(super) freshness: Freshness,
    /// True if what it reads must be strict.
    pub(super) is_strict: bool,
    pub(super) got: BTreeMap<Key, Option<Value>>,
}

impl Clients {
    /// How an attempt at a plan reads, if it is to read all at once.
    pub(super) fn draw_read_only(
        &mut self,
        session: usize,
        execution: &Execution,
        cluster: &mut Cluster,
    ) -> Option<ReadOnly> {
        // The auditor reads like any other transaction: the last word should not rest on what it judges.
        let audits = self.sessions[session].audits();
        if matches!(self.sessions[session].work, Work::Script(_)) {
            let (freshness, is_strict, got) = (Freshness::Strict, true, BTreeMap::new());
            return execution.plan().keys_read().map(|_| ReadOnly { freshness, is_strict, got });
        }
        let is_inclined = self.random.chance(READ_ONLY_PROBABILITY);
        if audits || !is_inclined || execution.plan().keys_read().is_none() {
            return None;
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
            12..14 => Freshness::At(Timestamp { micros: clock.saturating_sub(back), client }),
            14..18 => Freshness::Stale(Duration::from_micros(back)),
            // Where clocks are not bounded it would be refused.
            _ if cluster.scenario.clock_bound.is_none() => Freshness::Strict,
            _ => Freshness::ClockBound,
        };
        let is_strict = match freshness {
            Freshness::Strict | Freshness::ClockBound => true,
            Freshness::At(_) | Freshness::Stale(_) => false,
        };
        Some(ReadOnly { freshness, is_strict, got: BTreeMap::new() })
    }

    /// A read-only transaction is over. What it got counts only if it has committed; if not, nothing has happened,
    /// whatever its fate at the replicas.
    pub(super) fn on_read_only_finished(
        &mut self,
        session: usize,
        result: Result<Committed, Failure>,
        cluster: &mut Cluster,
    ) {
        let Some(attempt) = &mut self.sessions[session].attempt else { return };
        let Some(read_only) = attempt.read_only.clone() else { return };
        let committed = match result {
            Ok(committed) => committed,
            Err(_) => return self.end_aborted(session, cluster),
        };
        if let Err(unread) = attempt.execution.got_all(&read_only.got) {
            self.nonsense.push(format!("{} committed, but {unread}", attempt.id));
        }
        self.tally.fast += u64::from(committed.fast);
        self.end_committed(session, committed.timestamp, cluster);
    }
}
