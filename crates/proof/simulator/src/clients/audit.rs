//! Auditing: what a client with a good clock finds when everything is over, and what becomes of attempts that were given up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::command::{Command, End, Outcome};
use quorate_core::hosted::Holdings;
use quorate_core::{ClockTime, Key, ShardId, TransactionId};
use quorate_workloads::{Elements, Operation, Plan};

use super::attempt::{Attempt, Undecided};
use super::one_round::recall;
use super::{Clients, Work, in_history};
use crate::cluster::Cluster;
use crate::system::{Facts, System};

impl Clients {
    /// Starts the auditor and returns its session.
    pub fn start_auditor<S: System>(&mut self, cluster: &mut Cluster<S>) -> usize {
        let slot = self.add_slot(cluster);
        self.add_session(slot, Work::Audit(VecDeque::new()))
    }

    /// Lets the auditor read every key of the workload in transactions of modest size.
    pub fn audit<S: System>(&mut self, auditor: usize, cluster: &mut Cluster<S>) {
        /// So many keys are read in one transaction.
        const KEYS_AT_ONCE: usize = 24;

        let generations = self.slots.iter().map(|slot| slot.workload.generations()).max().unwrap_or(1);
        let workload = &self.slots[0].workload;
        let keys = (0..generations).flat_map(|generation| workload.universe(generation));
        let lost = cluster.shard_losses.lost().map(|lost| lost.shard);
        let is_left = |key: &Key| Some(cluster.shard_of(key)) != lost;
        let keys: Vec<_> = keys.chain(self.promises.keys().iter().cloned()).filter(is_left).collect();
        let plans = keys.chunks(KEYS_AT_ONCE).map(|keys| {
            let operations = keys.iter().cloned().map(Operation::Get).collect();
            Arc::new(Plan { kind: "audit", operations })
        });
        let sets: Vec<_> = (0..generations).flat_map(|generation| workload.sets(generation)).collect();
        let objects = workload.objects_max();
        let of_sets = sets.chunks(KEYS_AT_ONCE).map(|sets| {
            let elements = |set: &Key| Elements { objects, ..Elements::all(set.clone(), End::Least, 1_000) };
            let operations = sets.iter().map(elements).map(Operation::Elements).collect();
            Arc::new(Plan { kind: "audit", operations })
        });
        let plans = plans.chain(of_sets);
        if let Work::Audit(queue) = &mut self.sessions[auditor].work {
            queue.extend(plans);
        }
        if S::SNAPSHOTS_MAY_BE_OLD {
            let of_sessions = self.sessions.iter().map(|session| session.seen.micros);
            let seen = of_sessions.fold(self.latest.micros, u64::max);
            let client = self.slots[self.sessions[auditor].slot].client;
            cluster.world.command(client, Command::Observe { timestamp: ClockTime::from_micros(seen) });
        }
        self.wake(auditor, cluster);
    }

    /// The client will never learn the fate of an attempt. The history says so at once, or leaves the transaction open
    /// until its fate is found out at the end: both is true.
    pub(super) fn give_up<S: System>(
        &mut self,
        session: usize,
        attempt: Attempt,
        participants: Option<Vec<ShardId>>,
        cluster: &Cluster<S>,
    ) {
        let is_reported = self.random.chance(0.3);
        self.give_up_for_good(session, attempt, participants, (is_reported, false), cluster);
    }

    /// The same. One that was denied is not said to be unknown: often no node has taken anything of it, and then it has not committed.
    pub(super) fn give_up_for_good<S: System>(
        &mut self,
        session: usize,
        attempt: Attempt,
        participants: Option<Vec<ShardId>>,
        (reported, is_denied): (bool, bool),
        cluster: &Cluster<S>,
    ) {
        self.tally.unknown += 1;
        let participants = participants.filter(|participants| !participants.is_empty());
        if reported {
            let time = self.time(cluster.world.now());
            self.recorder.info(attempt.recorded, time);
        }
        self.renew(session);
        self.note_unplaced::<S>(attempt.id, attempt.recorded);
        // The fate of a broken promise has no answer.
        if !attempt.manner.breaks_promise {
            let (is_in_history, resolved) = (reported, false);
            let undecided = Undecided { attempt, participants, is_denied, reported, is_in_history, resolved };
            self.undecided.push(undecided);
        }
    }

    /// Asks what became of the transactions that were given up: the cluster where the client was told whom to ask, the
    /// replicas' own knowledge where it died before, as far as that `counts` in their shard. One of which no node has taken anything has not committed.
    pub fn resolve_undecided<S: System>(
        &mut self,
        auditor: usize,
        counts: impl Fn(TransactionId, ShardId) -> bool,
        cluster: &mut Cluster<S>,
    ) {
        let client = self.slots[self.sessions[auditor].slot].client;
        for at in 0..self.undecided.len() {
            let transaction = self.undecided[at].attempt.id;
            if self.undecided[at].attempt.touches_lost(cluster) {
                // That shard will never answer.
                self.undecided[at].participants = None;
            }
            if self.undecided[at].is_denied && !cluster.world.has_heard_of(transaction) {
                // Nobody can be asked for it. Its coordinator goes on for a while, and may get the right back: see `settle_denied`.
                self.undecided[at].resolved = true;
                continue;
            }
            match self.undecided[at].participants.clone() {
                Some(participants) if self.undecided[at].attempt.one_round.is_some() => {
                    let patience = Duration::from_secs(20);
                    let order = recall(&self.undecided[at].attempt, participants, patience);
                    cluster.world.command(client, order);
                }
                Some(participants) => {
                    let patience = Duration::from_secs(20);
                    let timestamp = self.undecided[at].attempt.began;
                    let resolve = Command::Resolve { transaction, participants, timestamp, patience };
                    cluster.world.command(client, resolve);
                }
                None => {
                    let known = (0..cluster.world.servers())
                        .filter(|server| counts(transaction, cluster.replica(*server).shard))
                        .filter_map(|server| cluster.world.server(server))
                        .find_map(|replica| replica.outcome(transaction));
                    self.on_undecided_resolved(transaction, known, cluster);
                }
            }
        }
    }

    /// Nothing runs any more: a transaction that was denied, and of which no node has ever taken anything, has not committed. Of others the history leaves it open.
    pub fn settle_denied<S: System>(&mut self, cluster: &mut Cluster<S>) {
        let is_denied = |known: &&Undecided| known.is_denied && !known.is_in_history;
        let denied: Vec<TransactionId> =
            self.undecided.iter().filter(is_denied).map(|known| known.attempt.id).collect();
        for transaction in denied {
            if !cluster.world.has_heard_of(transaction) {
                self.on_undecided_resolved(transaction, Some(Outcome::Aborted), cluster);
            }
        }
    }

    /// True if the fate of every transaction is known as far as it can be.
    pub fn is_everything_resolved(&self) -> bool {
        self.undecided.iter().all(|undecided| undecided.resolved)
    }

    /// The transactions whose fate could not be found out although it should have been, in words.
    pub fn unresolved<S: System>(&self, cluster: &mut Cluster<S>) -> Vec<String> {
        const AHEAD: Duration = Duration::from_secs(3_600);
        let farthest = cluster.slowest_clock().saturating_add(AHEAD).as_micros();
        let can_be_known =
            |undecided: &&Undecided| !S::REFUSES_CLOCKS_AHEAD || undecided.attempt.began.micros <= farthest;
        let left = self.undecided.iter().filter(|undecided| !undecided.resolved).filter(can_be_known);
        left.map(|undecided| format!("the fate of {} could not be found out", undecided.attempt.id)).collect()
    }

    /// Nobody knows any more: the history leaves it open.
    pub(super) fn on_undecided_forgotten(&mut self, transaction: TransactionId) {
        match self.undecided.iter_mut().find(|undecided| undecided.attempt.id == transaction) {
            Some(undecided) => undecided.resolved = true,
            None => self.nonsense.push(format!("{transaction} was forgotten, and nobody had asked")),
        }
    }

    pub(super) fn on_undecided_resolved<S: System>(
        &mut self,
        transaction: TransactionId,
        outcome: Option<Outcome>,
        cluster: &mut Cluster<S>,
    ) {
        let Some(at) = self.undecided.iter().position(|undecided| undecided.attempt.id == transaction) else {
            self.nonsense.push(format!("{transaction} was resolved, and nobody had asked"));
            return;
        };
        let undecided = &mut self.undecided[at];
        undecided.resolved = undecided.participants.is_none() || outcome.is_some();
        if S::FACTS == Facts::Snapshots && !undecided.attempt.has_written() {
            // No replica decides on a transaction that writes nothing: that none knows of it says nothing of the result that was shown.
            return;
        }
        undecided.is_in_history |= outcome.is_some();
        let (recorded, reported) = (undecided.attempt.recorded, undecided.reported);
        match outcome {
            Some(Outcome::Committed(timestamp)) if reported => {
                self.record_timestamp::<S>(recorded, in_history::<S>(transaction, timestamp));
            }
            // Nobody is left who could tell what it has read.
            Some(Outcome::Committed(timestamp)) if undecided.attempt.one_round.is_some() => {
                let attempt = undecided.attempt.clone();
                self.record_unseen(&attempt, timestamp, reported, cluster);
            }
            Some(Outcome::Committed(timestamp)) => {
                let attempt = undecided.attempt.clone();
                self.record_committed(&attempt, timestamp, false, cluster);
            }
            Some(Outcome::Aborted) if !reported => self.record_failed(recorded, cluster),
            Some(Outcome::Aborted) | None => {}
        }
    }
}
