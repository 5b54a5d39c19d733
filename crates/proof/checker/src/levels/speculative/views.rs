//! The views of transactions that did not commit: final commits, and local ones of their site.

use std::collections::{BTreeMap, BTreeSet};

use crate::dependencies::{SetRead, external_set_reads};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, Op, ReshapedOp, Seen, TxnId, Value};
use crate::levels::speculative::cast::{Cast, view_ops};
use crate::report::{Anomalies, AnomalyKind};

/// The final versions of a key that a snapshot holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Base {
    List(Vec<Value>),
    Register(Option<Value>),
}

impl Base {
    pub(super) fn as_read(&self, key: KeyId) -> ReshapedOp {
        let seen = match self {
            Base::List(values) => return ReshapedOp::List(key, values.clone()),
            Base::Register(None) => Seen::Initial,
            Base::Register(Some(value)) => Seen::Register(*value),
        };
        ReshapedOp::Same(Op { key, action: Action::Read(seen) })
    }
}

/// The transactions that one transaction saw of others.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// The final versions of keys, as far as they are known.
    pub(super) bases: BTreeMap<KeyId, Base>,
    /// Of each key that was read the local commits that show: of a list all that appended to it, in order; of
    /// a register the last one that wrote it.
    pub(super) shown: BTreeMap<KeyId, Vec<TxnId>>,
    /// Counts of counting sets.
    pub(super) sets: Vec<SetRead>,
    /// Local commits that did not become final and of which the transaction read a value.
    pub(super) sources: BTreeSet<TxnId>,
    /// All local commits that the snapshot holds, as far as is known, and that did not become final.
    pub(super) members: BTreeSet<TxnId>,
}

/// The views of a history.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// By transaction. Every transaction that did not commit has one, maybe without reads.
    pub(super) of: BTreeMap<TxnId, View>,
    /// Final commits that had a local commit in their snapshot that then aborted: the final one first. It did
    /// not read from the other one but wrote a key after it.
    pub(super) survivors: BTreeSet<(TxnId, TxnId)>,
    /// The final versions of a key that a local commit had below it in a list that somebody read.
    pub(super) below: Vec<(TxnId, KeyId, Base)>,
    /// Somebody may have survived whom he saw, and it may matter.
    pub(super) is_doubtful: bool,
}

impl Views {
    /// Where a survivor may matter, nothing that was found is certain: takes it back, and returns the reason.
    pub(super) fn settle_doubt(&self, anomalies: &mut Anomalies) -> Option<String> {
        if !self.is_doubtful || anomalies.is_empty() {
            return None;
        }
        *anomalies = Anomalies::default();
        Some(
            "A final commit may have survived a local commit that it had in its snapshot, which this check does not \
             follow further."
                .to_string(),
        )
    }
}

/// Takes the reads of all transactions that did not commit apart.
pub(super) fn collect(history: &History, cast: &Cast, anomalies: &mut Anomalies) -> Views {
    let mut views = Views::default();
    for (id, txn) in (0..).map(TxnId).zip(history.txns()) {
        if cast.is_effective(id) {
            continue;
        }
        let mut reader = Reader {
            history,
            cast,
            txn: id,
            view: View::default(),
            views: &mut views,
            anomalies: &mut *anomalies,
        };
        for ops in view_ops(history, txn) {
            reader.reads(ops);
            reader.sets(ops);
        }
        let view = reader.view;
        views.of.insert(id, view);
    }
    views
}

struct Reader<'a> {
    history: &'a History,
    cast: &'a Cast,
    txn: TxnId,
    view: View,
    views: &'a mut Views,
    anomalies: &'a mut Anomalies,
}

impl Reader<'_> {
    fn reads(&mut self, ops: &[Op]) {
        let mut own: BTreeMap<KeyId, Vec<Value>> = BTreeMap::new();
        for op in ops {
            if let Some(value) = op.action.written() {
                own.entry(op.key).or_default().push(value);
            }
            let Action::Read(seen) = op.action else { continue };
            let own = own.get(&op.key).map_or(&[][..], Vec::as_slice);
            match (self.history.key_type(op.key), seen) {
                (Some(KeyType::List), Seen::List(list)) => {
                    let list = self.history.list(op.key, list).to_vec();
                    self.list(op.key, &list, own);
                }
                (Some(KeyType::List), Seen::Initial) => self.list(op.key, &[], own),
                (Some(KeyType::Register), Seen::Register(value)) => self.register(op.key, Some(value), own),
                (Some(KeyType::Register), Seen::Initial) => self.register(op.key, None, own),
                _ => {}
            }
        }
    }

    fn sets(&mut self, ops: &[Op]) {
        match external_set_reads(self.history, ops) {
            Ok(reads) => self.view.sets.extend(reads),
            Err(broken) => {
                let (history, txn) = (self.history, self.txn);
                self.anomalies.add(history, AnomalyKind::Internal, &[txn], || broken.describe(history, txn));
            }
        }
    }

    fn local_writer(&self, key: KeyId, value: Value) -> Option<TxnId> {
        let writer = self.cast.writes.write(self.cast.writes.find(key, value)?).txn;
        self.cast.may_be_seen(self.history, self.txn, writer).then_some(writer)
    }

    fn list(&mut self, key: KeyId, list: &[Value], own: &[Value]) {
        let Some(others) = list.strip_suffix(own) else {
            let (history, txn) = (self.history, self.txn);
            return self.anomalies.add(history, AnomalyKind::Internal, &[txn], || {
                Words::new(history).own_appends_missing(txn, key, list)
            });
        };
        let (mut finals, mut locals, mut writers) = (Vec::new(), Vec::new(), Vec::new());
        for &value in others {
            match self.local_writer(key, value) {
                Some(writer) => {
                    if writers.last() != Some(&writer) {
                        writers.push(writer);
                        self.views.below.push((writer, key, Base::List(finals.clone())));
                    }
                    locals.push(value);
                }
                None => {
                    finals.push(value);
                    self.behind(key, value, others, &writers);
                }
            }
        }
        let whole: Vec<Value> = writers.iter().flat_map(|&writer| self.appends(writer, key)).collect();
        if whole != locals {
            let (history, txn) = (self.history, self.txn);
            return self.anomalies.add(history, AnomalyKind::IntermediateRead, &[txn, writers[0]], || {
                let (txn, key) = (Words::new(history).txn(txn), history.key(key));
                let list = Words::list(list);
                format!(
                    "{txn} read {list} of {key}, which holds only a part of what a local commit appended."
                )
            });
        }
        self.saw(key, Base::List(finals), writers);
    }

    /// A value of a final commit that stands behind local commits: these had it in their way, so it had them in
    /// its snapshot, and survived that they aborted.
    fn behind(&mut self, key: KeyId, value: Value, list: &[Value], locals: &[TxnId]) {
        let (history, txn) = (self.history, self.txn);
        let Some(write) = self.cast.writes.find(key, value) else { return };
        let writer = self.cast.writes.write(write).txn;
        if !self.cast.is_effective(writer) {
            return;
        }
        for &local in locals {
            if self.cast.may_survive(history, writer, local) {
                self.views.survivors.insert((writer, local));
                continue;
            }
            self.anomalies.add(history, AnomalyKind::SpeculativeConflict, &[txn, local, writer], || {
                let words = Words::new(history);
                let (list, key) = (Words::list(list), history.key(key));
                let (txn, writer, local) = (words.txn(txn), words.txn(writer), words.txn(local));
                format!("{txn} read {list} of {key}; {writer} and {local} both wrote it and cannot have seen one another.")
            });
        }
    }

    fn appends(&self, writer: TxnId, key: KeyId) -> Vec<Value> {
        let ops = self.history.ops(self.history.txn(writer)).iter().filter(|op| op.key == key);
        ops.filter_map(|op| op.action.written()).collect()
    }

    fn register(&mut self, key: KeyId, value: Option<Value>, own: &[Value]) {
        let (history, txn) = (self.history, self.txn);
        if let Some(&last) = own.last() {
            if value != Some(last) {
                self.anomalies.add(history, AnomalyKind::Internal, &[txn], || {
                    Words::new(history).register_changed(txn, key, Some(last), value, true)
                });
            }
            return;
        }
        let Some((value, writer)) = value.and_then(|value| Some((value, self.local_writer(key, value)?)))
        else {
            return self.saw(key, Base::Register(value), Vec::new());
        };
        if self.appends(writer, key).last() != Some(&value) {
            self.anomalies.add(history, AnomalyKind::IntermediateRead, &[txn, writer], || {
                Words::new(history).intermediate_read(txn, writer, key, value)
            });
        }
        // Versions below the local commit are for that one to know.
        let before = self.view.shown.insert(key, vec![writer]);
        self.agree(
            key,
            before.is_none_or(|before| before == [writer]) && !self.view.bases.contains_key(&key),
        );
        self.view.sources.insert(writer);
    }

    fn saw(&mut self, key: KeyId, base: Base, writers: Vec<TxnId>) {
        let is_register = matches!(base, Base::Register(_));
        let known_base = self.view.bases.insert(key, base.clone());
        let known_writers = self.view.shown.insert(key, writers.clone());
        let agrees = known_base.is_none_or(|known| known == base)
            && known_writers.is_none_or(|known| known == writers || is_register && known.is_empty());
        self.agree(key, agrees);
        self.view.sources.extend(writers);
    }

    /// Two reads of a key must return the same.
    fn agree(&mut self, key: KeyId, agrees: bool) {
        if !agrees {
            let (history, txn) = (self.history, self.txn);
            self.anomalies.add(history, AnomalyKind::Internal, &[txn], || {
                let (txn, key) = (Words::new(history).txn(txn), history.key(key));
                format!("{txn} read {key} twice with different results, which its own writes do not explain.")
            });
        }
    }
}
