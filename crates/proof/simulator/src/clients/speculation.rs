//! Results that clients are shown before they are final: sessions go on with the next transaction, and owe apologies if one aborts after
//! all. The observations of transactions that aborted are recorded, too.

use std::collections::BTreeMap;

use quorate_checker::history::RecordedFacts;
use quorate_checker::{MicroOp, RecordedTxn};
use quorate_core::command::{Begun, Command, Committed, Failure, Outcome, Shown};
use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, ClockTime, Random, ReplicaId, Timestamp, TransactionId};

use super::attempt::Attempt;
use super::{Clients, in_history};
use crate::cluster::Cluster;
use crate::system::{Facts, Journal, System};

/// A commit may be shown with this probability.
const SHOWS: f64 = 0.7;

/// No chain of results is longer.
const CHAIN_MAX: u8 = quorate_str::Variant::CHAIN_MAX;

/// The greatest number of a client in a history.
const CLIENT_MAX: i64 = (1 << 53) - 1;

/// The transactions that nodes speculate with.
#[derive(Debug)]
pub(super) struct Speculation {
    random: Random,
    recorded: FixedMap<TransactionId, RecordedTxn>,
    /// The nodes that transactions have begun at, as far as their clients were told.
    begun: BTreeMap<TransactionId, Begun>,
}

impl Speculation {
    pub(super) fn new(seed: u64) -> Self {
        let (recorded, begun) = (FixedMap::default(), BTreeMap::new());
        Speculation { random: Random::stream(seed, "speculation"), recorded, begun }
    }

    /// The command with which a transaction is asked to commit.
    pub(super) fn draw_commit<S: System>(&mut self, transaction: TransactionId) -> Command {
        match S::FACTS == Facts::Snapshots && self.random.chance(SHOWS) {
            true => Command::CommitSpeculatively { transaction },
            false => Command::Commit { transaction },
        }
    }
}

/// A snapshot, as histories say it: it holds whatever has its very time.
pub(super) fn snapshot_in_history(snapshot: ClockTime) -> quorate_checker::Timestamp {
    quorate_checker::Timestamp { time: snapshot.as_micros() as i64, client: CLIENT_MAX }
}

/// A local commit, as histories say it.
fn local_in_history<S: System>(id: TransactionId, local: ClockTime) -> quorate_checker::Timestamp {
    in_history::<S>(id, Timestamp { micros: local.as_micros(), client: id.client })
}

/// A node, as histories name it: what has committed locally is over with the life of its machine.
fn node_in_history(home: ReplicaId, life: u64) -> String {
    format!("{home}/{life:x}")
}

impl Clients {
    /// An attempt has begun, as one of its session, which may have others that are not settled.
    pub(super) fn note_attempt<S: System>(
        &mut self,
        session: usize,
        id: TransactionId,
        recorded: RecordedTxn,
    ) {
        if S::FACTS == Facts::Snapshots {
            self.speculation.recorded.insert(id, recorded);
            let name = self.sessions[session].name;
            self.recorder.session(recorded, format!("session {name}"));
        }
    }

    /// A transaction of a session that has others which were shown, and are not settled, comes after the last of them.
    pub(super) fn follow_what_was_shown<S: System>(&mut self, session: usize, cluster: &mut Cluster<S>) {
        let Some(later) = self.sessions[session].attempt.as_ref().map(|attempt| attempt.id) else { return };
        let Some(earlier) = self.sessions[session].shown.last().map(|attempt| attempt.id) else { return };
        let client = self.slots[self.sessions[session].slot].client;
        cluster.world.command(client, Command::After { transaction: later, earlier });
    }

    /// A transaction has taken its snapshot.
    pub(super) fn on_begun(&mut self, id: TransactionId, begun: Begun) {
        let Some(recorded) = self.speculation.recorded.get(&id).copied() else { return };
        self.recorder.site(recorded, node_in_history(begun.home, begun.life));
        let rs = Some(snapshot_in_history(begun.snapshot));
        self.recorder.facts(recorded, RecordedFacts { rs, ..RecordedFacts::default() });
        self.speculation.begun.insert(id, begun);
    }

    /// A server tells what has become of a transaction.
    pub fn note_journal<S: System>(&mut self, replica: ReplicaId, word: Journal) {
        let (Journal::CommittedLocally { transaction, .. } | Journal::Finalized { transaction, .. }) = word;
        let Some(recorded) = self.speculation.recorded.get(&transaction).copied() else { return };
        let facts = match word {
            Journal::CommittedLocally { life, snapshot, local, .. } => {
                self.recorder.site(recorded, node_in_history(replica, life));
                let (rs, lc) = (snapshot_in_history(snapshot), local_in_history::<S>(transaction, local));
                RecordedFacts { rs: Some(rs), lc: Some(lc), ..RecordedFacts::default() }
            }
            Journal::Finalized { timestamp, .. } => {
                let fc = Some(in_history::<S>(transaction, timestamp));
                RecordedFacts { fc, ..RecordedFacts::default() }
            }
        };
        self.recorder.facts(recorded, facts);
    }

    /// A client is shown a result: its session goes on.
    pub(super) fn on_shown<S: System>(&mut self, id: TransactionId, shown: Shown, cluster: &mut Cluster<S>) {
        let Some(session) = self.session_of(id) else { return };
        let is_current = |attempt: &Attempt| attempt.id == id && !attempt.resolving;
        if !self.sessions[session].attempt.as_ref().is_some_and(is_current) {
            return self.nonsense.push(format!("{id} was shown twice, or after its end"));
        }
        if shown.local < shown.snapshot || !(1..=CHAIN_MAX).contains(&shown.chain) {
            self.nonsense.push(format!("{id} was shown as {shown:?}"));
        }
        let Some(attempt) = self.sessions[session].attempt.take() else { return };
        self.judge_right(&attempt, "was shown", cluster);
        match attempt.execution.observed() {
            Ok(ops) => {
                let (rs, lc) = (snapshot_in_history(shown.snapshot), local_in_history::<S>(id, shown.local));
                let writes = ops.iter().any(|op| !matches!(op, MicroOp::Read(..)));
                let facts =
                    RecordedFacts { rs: Some(rs), lc: writes.then_some(lc), ..RecordedFacts::default() };
                self.recorder.facts(attempt.recorded, facts);
                let time = self.time(cluster.world.now());
                self.recorder.speculate(attempt.recorded, time, ops);
            }
            Err(error) => self.nonsense.push(format!("{id} read what nobody wrote: {error}")),
        }
        *self.happened.entry("clients were shown results").or_default() += 1;
        let longest = self.happened.entry("longest chain of results").or_default();
        *longest = (*longest).max(u64::from(shown.chain));
        self.sessions[session].current = None;
        self.sessions[session].shown.push(attempt);
        // One process has one open transaction.
        self.sessions[session].process = self.next_process();
        self.wake_for_next(session, cluster);
    }

    /// A transaction that was shown is over. False if it was not.
    pub(super) fn on_shown_finished<S: System>(
        &mut self,
        session: usize,
        id: TransactionId,
        result: &Result<Committed, Failure>,
        cluster: &mut Cluster<S>,
    ) -> bool {
        let Some(at) = self.sessions[session].shown.iter().position(|attempt| attempt.id == id) else {
            return false;
        };
        let attempt = self.sessions[session].shown.remove(at);
        self.by_transaction.remove(&id);
        match result {
            Ok(committed) => {
                self.sessions[session].seen = self.sessions[session].seen.max(committed.timestamp);
                let slot = self.sessions[session].slot;
                self.record_committed(&attempt, committed.timestamp, false, cluster);
                self.meet_doom(slot, false, cluster);
            }
            Err(Failure::Unknown { participants }) => {
                self.give_up(session, attempt, Some(participants.clone()), cluster);
            }
            Err(_) => {
                *self.happened.entry("clients owed apologies").or_default() += 1;
                self.told.push((id, Outcome::Aborted));
                self.record_aborted(&attempt, cluster);
            }
        }
        true
    }

    /// True if the node of an attempt may still show others what the attempt has written.
    fn is_still_shown<S: System>(&self, attempt: &Attempt, cluster: &Cluster<S>) -> bool {
        let Some(Begun { home, .. }) = self.speculation.begun.get(&attempt.id) else { return false };
        let mut there = (0..cluster.world.servers()).filter(|server| cluster.replica(*server) == *home);
        there.any(|server| cluster.world.server(server).is_some_and(|server| S::shows(server, attempt.id)))
    }

    /// An attempt has surely aborted. Its observations count where it is known from which node.
    pub(super) fn record_aborted<S: System>(&mut self, attempt: &Attempt, cluster: &Cluster<S>) {
        if self.is_still_shown(attempt, cluster) {
            *self.happened.entry("aborts of which nodes had not heard").or_default() += 1;
            self.recorder.elsewhere(attempt.recorded);
        }
        let is_known = self.speculation.begun.contains_key(&attempt.id) && attempt.read_only.is_none();
        let ops = is_known.then(|| attempt.execution.observed_so_far());
        self.tally.aborted += 1;
        let time = self.time(cluster.world.now());
        match ops {
            Some(Ok(ops)) => self.recorder.fail_observed(attempt.recorded, time, ops),
            Some(Err(error)) => {
                self.nonsense.push(format!("{} read what nobody wrote: {error}", attempt.id));
                self.recorder.fail(attempt.recorded, time);
            }
            None => self.recorder.fail(attempt.recorded, time),
        }
    }

    /// An attempt has surely aborted, and what it saw is not recorded.
    pub(super) fn record_failed<S: System>(&mut self, recorded: RecordedTxn, cluster: &Cluster<S>) {
        self.tally.aborted += 1;
        let time = self.time(cluster.world.now());
        self.recorder.fail(recorded, time);
    }

    /// Servers have told of transactions whose clients do not know their fate: facts need a line after that which invoked them.
    pub fn record_late_facts<S: System>(&mut self, cluster: &Cluster<S>) {
        if S::FACTS != Facts::Snapshots {
            return;
        }
        let time = self.time(cluster.world.now());
        for undecided in self.undecided.iter_mut().filter(|undecided| !undecided.is_in_history) {
            undecided.is_in_history = true;
            self.recorder.info(undecided.attempt.recorded, time);
        }
    }

    /// The transactions of a session that were shown and are left to others, with their client.
    pub(super) fn take_shown(&mut self, session: usize) -> Vec<Attempt> {
        let left = std::mem::take(&mut self.sessions[session].shown);
        for attempt in &left {
            self.by_transaction.remove(&attempt.id);
        }
        left
    }

    /// The client is no more.
    pub(super) fn forget_begun(&mut self, client: ClientId) {
        self.speculation.begun.retain(|id, _| id.client != client);
    }
}
