//! The transactions that committed, those that only committed locally, and what final commits flow-depend on (SPSI-4).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use foldhash::fast::FixedState;

use crate::dependencies::{Fate, WriteIndex, decide_fates_by_values};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, Op, Outcome, Seen, Session, Txn, TxnId, Value};
use crate::levels::speculative::possibilities::Possibilities;
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// The parts that transactions play.
pub(super) struct Cast {
    pub(super) writes: WriteIndex,
    pub(super) fates: Vec<Fate>,
    /// Of unknown outcome, and it can only have been seen in counts: whether it committed does not matter
    /// otherwise.
    pub(super) counted_only: Vec<bool>,
}

impl Cast {
    /// The parts as far as they are certain.
    pub(super) fn certain(history: &History) -> Self {
        let writes = WriteIndex::new(history);
        let fates = decide_fates_by_values(history, &writes);
        Cast { writes, fates, counted_only: vec![false; history.txn_count()] }
    }

    /// The parts in one combination of possibilities.
    pub(super) fn decide(
        history: &History,
        possibilities: &mut Possibilities,
        anomalies: &mut Anomalies,
    ) -> Self {
        let mut cast = Cast::certain(history);
        let observed = (0..).map(TxnId).zip(&cast.fates).filter(|(_, fate)| **fate == Fate::Observed);
        let observed: Vec<TxnId> = observed.map(|(id, _)| id).collect();
        observed.into_iter().for_each(|id| cast.commit_sources(history, id));
        let passed = cast.commit_what_views_need(history);
        cast.guess(history, &passed, possibilities);
        cast.flows(history, possibilities, anomalies);
        cast.speculated_reads(history, anomalies);
        cast
    }

    /// Whether another part than these fates was given to somebody.
    pub(super) fn departs_from(&self, fates: &[Fate]) -> bool {
        self.fates != fates
    }

    pub(super) fn is_effective(&self, txn: TxnId) -> bool {
        self.fates[txn.index()].is_effective()
    }

    /// Whether more reads are known than those of acknowledged transactions.
    pub(super) fn has_views(&self, history: &History) -> bool {
        let mut others = history.txns().iter().zip(&self.fates).filter(|(_, fate)| **fate != Fate::Committed);
        others.any(|(txn, _)| view_ops(history, txn).next().is_some())
    }

    /// Whether a transaction that did not commit finally may be in the snapshot of another one: it committed
    /// locally at the same site, before that one ended, and that site had not heard of an abort before that one began.
    pub(super) fn may_be_seen(&self, history: &History, reader: TxnId, member: TxnId) -> bool {
        let (reader_txn, txn) = (history.txn(reader), history.txn(member));
        let has_lc = history.facts(txn).is_some_and(|facts| facts.lc.is_some());
        let was_lost = txn.outcome == Outcome::Committed;
        let had_aborted = txn.outcome == Outcome::Aborted
            && !txn.elsewhere
            && txn.completion < Some(reader_txn.invoke)
            && !mutants::is_planted(Mutant::SeesAborted);
        reader != member
            && !self.is_effective(member)
            && (reader_txn.site == txn.site || mutants::is_planted(Mutant::SeesOtherNodes))
            && (txn.speculation.is_some() || has_lc || was_lost || mutants::is_planted(Mutant::SeesRunning))
            && !began_later(history, reader, member)
            && !had_aborted
    }

    /// Whether a final commit may have had a local commit in its snapshot that then aborted: it read nothing
    /// that the other one had changed.
    pub(super) fn may_survive(&self, history: &History, txn: TxnId, local: TxnId) -> bool {
        self.is_effective(txn)
            && self.may_be_seen(history, txn, local)
            && !reads_what_it_changed(history, txn, local)
    }

    /// The transaction, at or below the last one of a register, that may have had a local commit in its snapshot which
    /// then aborted. The later ones read from one another, and so may have had it there too, out of sight.
    pub(super) fn survivor(&self, history: &History, last: TxnId, key: KeyId, local: TxnId) -> Option<TxnId> {
        let mut txn = last;
        let mut passed = BTreeSet::new();
        while passed.insert(txn) {
            if self.may_survive(history, txn, local) {
                return Some(txn);
            }
            let is_out_of_sight = self.is_effective(txn)
                && self.may_be_seen(history, txn, local)
                && changed_keys_read(history, txn, local) == BTreeSet::from([key]);
            let mut reads = view_ops(history, history.txn(txn)).flatten();
            let value = reads.find_map(|op| match op.action {
                Action::Read(Seen::Register(value)) if op.key == key => Some(value),
                _ => None,
            });
            let below = value.filter(|_| is_out_of_sight).and_then(|value| self.writes.find(key, value))?;
            txn = self.writes.write(below).txn;
        }
        None
    }

    /// A transaction of unknown outcome did commit; then so did those that it read from.
    fn commit(&mut self, history: &History, txn: TxnId) {
        if self.fates[txn.index()] == Fate::Dropped {
            self.fates[txn.index()] = Fate::Observed;
            self.commit_sources(history, txn);
        }
    }

    fn commit_sources(&mut self, history: &History, txn: TxnId) {
        let Some(speculation) = history.txn(txn).speculation else { return };
        for (_, writer) in self.sources(history, history.speculated_ops(&speculation)) {
            self.commit(history, writer);
        }
    }

    /// The writers of the values that were read.
    fn sources(&self, history: &History, ops: &[Op]) -> Vec<(KeyId, TxnId)> {
        let mut sources = Vec::new();
        let mut add = |key, value: Value| {
            sources.extend(self.writes.find(key, value).map(|write| (key, self.writes.write(write).txn)));
        };
        for op in ops {
            match op.action {
                Action::Read(Seen::Register(value)) => add(op.key, value),
                Action::Read(Seen::List(list)) => {
                    history.list(op.key, list).iter().for_each(|&value| add(op.key, value));
                }
                _ => {}
            }
        }
        sources
    }

    /// A view holds final commits and local ones of its own site: a transaction that is in it and was not the latter was the
    /// former. So was a transaction that stands in a list before one that was, and that one did not survive it. Returns the
    /// transactions that may have been survived.
    fn commit_what_views_need(&mut self, history: &History) -> BTreeSet<TxnId> {
        let mut passed = BTreeSet::new();
        for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
            if self.is_effective(id) {
                continue;
            }
            for ops in view_ops(history, txn) {
                for (_, writer) in self.sources(history, ops) {
                    let is_local = self.may_be_seen(history, id, writer);
                    if !is_local && writer != id {
                        self.commit(history, writer);
                    }
                }
                for op in ops {
                    if let Action::Read(Seen::List(list)) = op.action {
                        self.commit_below(history, op.key, history.list(op.key, list), &mut passed);
                    }
                }
            }
        }
        passed
    }

    fn commit_below(&mut self, history: &History, key: KeyId, list: &[Value], passed: &mut BTreeSet<TxnId>) {
        let writers: Vec<TxnId> = list
            .iter()
            .filter_map(|&value| self.writes.find(key, value))
            .map(|write| self.writes.write(write).txn)
            .collect();
        for (at, &writer) in writers.iter().enumerate().rev() {
            if self.fates[writer.index()] != Fate::Dropped {
                continue;
            }
            let mut later = writers[at + 1..].iter().filter(|&&later| self.is_effective(later));
            let has_later = later.clone().next().is_some();
            if later.any(|&later| !self.may_survive(history, later, writer)) {
                self.commit(history, writer);
            } else if has_later {
                passed.insert(writer);
            }
        }
    }

    /// A transaction that showed a speculative commit, or may have been survived, and of which nobody knows
    /// more, committed finally or not. One that can only have been seen in counts may have, and nothing else
    /// depends on it.
    fn guess(&mut self, history: &History, passed: &BTreeSet<TxnId>, possibilities: &mut Possibilities) {
        for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
            if self.fates[id.index()] != Fate::Dropped {
                continue;
            }
            if txn.speculation.is_some() || passed.contains(&id) {
                if possibilities.ask() {
                    self.commit(history, id);
                }
            } else if history
                .ops(txn)
                .iter()
                .any(|op| matches!(op.action, Action::Add(_) | Action::Remove(_)))
            {
                self.fates[id.index()] = Fate::Observed;
                self.counted_only[id.index()] = true;
            }
        }
    }

    /// SPSI-4: a transaction that was invoked after a speculative commit of its session, and before the
    /// outcome of that one, commits only if that one does.
    fn flows(&mut self, history: &History, possibilities: &mut Possibilities, anomalies: &mut Anomalies) {
        if mutants::is_planted(Mutant::ForgetsFlows) {
            return;
        }
        let dependences = flow_dependences(history);
        let mut is_settled = false;
        while !is_settled {
            is_settled = true;
            for &(txn, on) in &dependences {
                if !self.is_effective(txn) || self.is_effective(on) {
                    continue;
                }
                let may_commit = self.fates[on.index()] == Fate::Dropped;
                if self.counted_only[txn.index()] && !(may_commit && possibilities.ask()) {
                    // It need not have committed itself.
                    self.counted_only[txn.index()] = false;
                    self.fates[txn.index()] = Fate::Dropped;
                    is_settled = false;
                } else if may_commit {
                    self.commit(history, on);
                    is_settled = false;
                }
            }
        }
        for (txn, on) in dependences {
            if self.is_effective(txn) && self.fates[on.index()] == Fate::Aborted {
                anomalies.add(history, AnomalyKind::SpeculativeDependency, &[txn, on], || {
                    let words = Words::new(history);
                    let session = history.session_name(history.txn(on).session);
                    format!(
                        "{} committed; session {session} began it after it had seen the speculative commit of {}, which \
                         aborted.",
                        words.txn(txn),
                        words.txn(on)
                    )
                });
            }
        }
    }

    /// A final commit has one snapshot, so its `spec` line shows the final reads.
    fn speculated_reads(&self, history: &History, anomalies: &mut Anomalies) {
        if mutants::is_planted(Mutant::BelievesSpeculation) {
            return;
        }
        let words = Words::new(history);
        for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
            let (Some(speculation), Fate::Committed) = (txn.speculation, self.fates[id.index()]) else {
                continue;
            };
            let speculated = history.speculated_ops(&speculation);
            let differs = |(one, other): &(&Op, &Op)| !is_same(history, one, other);
            let Some((shown, _)) = speculated.iter().zip(history.ops(txn)).find(differs) else { continue };
            let aborted = self.sources(history, std::slice::from_ref(shown));
            let aborted = aborted.into_iter().find(|(_, writer)| self.fates[writer.index()] == Fate::Aborted);
            let key = history.key(shown.key);
            match aborted {
                Some((_, writer)) => {
                    anomalies.add(history, AnomalyKind::SpeculativeDependency, &[id, writer], || {
                        let (txn, writer) = (words.txn(id), words.txn(writer));
                        format!("{txn} committed; its speculative commit had read {key} from {writer}, which aborted.")
                    });
                }
                None => anomalies.add(history, AnomalyKind::SpeculativeSnapshot, &[id], || {
                    let txn = words.txn(id);
                    format!("The speculative and the final commit of {txn} read different values of {key}.")
                }),
            }
        }
    }
}

/// Whether a transaction was invoked after another one had ended: with its `spec` line, if it has one.
pub(super) fn began_later(history: &History, ended: TxnId, txn: TxnId) -> bool {
    end_of(history.txn(ended)).is_some_and(|end| history.txn(txn).invoke > end)
}

/// The line with which a transaction ended, as far as it is known.
pub(super) fn end_of(txn: &Txn) -> Option<u32> {
    txn.speculation.map(|speculation| speculation.index).or(txn.known_completion())
}

/// Whether a transaction is known to have read a key of others, to which another one had made a change.
fn reads_what_it_changed(history: &History, txn: TxnId, other: TxnId) -> bool {
    !changed_keys_read(history, txn, other).is_empty()
}

/// The keys that a transaction is known to have read of others, and to which another one had made a change.
fn changed_keys_read(history: &History, txn: TxnId, other: TxnId) -> BTreeSet<KeyId> {
    let other = history.ops(history.txn(other));
    let changes = |key: KeyId| {
        let mut net: BTreeMap<Value, i64> = BTreeMap::new();
        let mut writes = false;
        for op in other.iter().filter(|op| op.key == key) {
            match op.action {
                Action::Add(element) => *net.entry(element).or_default() += 1,
                Action::Remove(element) => *net.entry(element).or_default() -= 1,
                Action::Append(_) | Action::Write(_) => writes = true,
                Action::Read(_) => {}
            }
        }
        writes || net.values().any(|&change| change != 0)
    };
    view_ops(history, history.txn(txn)).flat_map(external_reads).filter(|&key| changes(key)).collect()
}

/// The keys of which operations show what others wrote: those that were read, but for registers that the transaction
/// had written itself before.
pub(super) fn external_reads(ops: &[Op]) -> impl Iterator<Item = KeyId> {
    ops.iter().enumerate().filter_map(|(at, op)| {
        let is_known = matches!(op.action, Action::Read(seen) if seen != Seen::Nothing);
        let is_own = |earlier: &Op| earlier.key == op.key && matches!(earlier.action, Action::Write(_));
        (is_known && !ops[..at].iter().any(is_own)).then_some(op.key)
    })
}

fn is_same(history: &History, one: &Op, other: &Op) -> bool {
    match (one.action, other.action) {
        (Action::Read(Seen::List(one_list)), Action::Read(Seen::List(other_list))) => {
            history.list(one.key, one_list) == history.list(other.key, other_list)
        }
        (Action::Read(Seen::Set(one)), Action::Read(Seen::Set(other))) => {
            history.set(one) == history.set(other)
        }
        (one, other) => one == other,
    }
}

/// The known reads of a transaction that did not commit: once for its `spec` line, and once for its outcome.
pub(super) fn view_ops<'a>(history: &'a History, txn: &'a Txn) -> impl Iterator<Item = &'a [Op]> {
    let shown = txn.speculation.iter().map(|speculation| history.speculated_ops(speculation));
    let is_known = txn.observed || txn.outcome == Outcome::Committed;
    shown.chain(is_known.then(|| history.ops(txn)))
}

/// Pairs of a transaction and one that had shown a speculative commit, and no outcome, to the same session
/// before the first one was invoked.
fn flow_dependences(history: &History) -> Vec<(TxnId, TxnId)> {
    let mut events: Vec<(u32, TxnId)> = Vec::new();
    for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
        events.push((txn.invoke, id));
        if let Some(speculation) = txn.speculation {
            events.push((speculation.index, id));
            events.extend(txn.known_completion().map(|completion| (completion, id)));
        }
    }
    events.sort_unstable();
    let mut unsettled: HashMap<Session, Vec<TxnId>, FixedState> = HashMap::default();
    let mut pairs = Vec::new();
    for (at, id) in events {
        let txn = history.txn(id);
        let of_session = unsettled.entry(txn.session).or_default();
        if at == txn.invoke {
            pairs.extend(of_session.iter().map(|&on| (id, on)));
        } else if txn.speculation.is_some_and(|speculation| speculation.index == at) {
            of_session.push(id);
        } else {
            of_session.retain(|&other| other != id);
        }
    }
    pairs
}
