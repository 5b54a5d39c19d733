//! The reads of each transaction, as visibility needs them: every writer in a list, not only the last one.

use crate::dependencies::{
    ABSENT, Edge, EdgeKind, Fate, OpenCounts, RegisterVersion, WriteIndex, check_register_reads,
    collect_reads, count_edges, decide_fates,
};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, ListRef, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind};

/// A list as a transaction first read it, without its own appends: its writers stand in
/// [`Facts::elements`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ListSeen {
    pub(super) txn: TxnId,
    pub(super) key: KeyId,
    start: u32,
    end: u32,
}

/// The facts of a history that are known before visibility.
pub(super) struct Facts<'a> {
    pub(super) history: &'a History,
    pub(super) writes: WriteIndex,
    pub(super) fates: Vec<Fate>,
    /// Sound reads of lists, by reader.
    pub(super) lists: Vec<ListSeen>,
    /// Sound reads of registers, by reader.
    pub(super) registers: Vec<RegisterVersion>,
    /// The edges that counts give for sure: WR and RW.
    pub(super) count_edges: Vec<Edge>,
    /// The edges that counts leave open.
    pub(super) counts: OpenCounts,
    /// Writers of list elements, in list order.
    elements: Vec<TxnId>,
    /// Where the writers of each key's longest shared list stand in `elements`.
    spines: Vec<(u32, u32)>,
    /// Where the writers of lists that stand apart stand.
    apart: Vec<(KeyId, u32, u32)>,
}

impl<'a> Facts<'a> {
    /// Derives the facts, and reports the anomalies that need no visibility.
    pub(super) fn derive(history: &'a History, anomalies: &mut Anomalies) -> Self {
        let writes = WriteIndex::new(history);
        let fates = decide_fates(history, &writes);
        let reads = collect_reads(history, &writes, &fates, anomalies);
        let registers = check_register_reads(history, &writes, &fates, &reads.registers, anomalies);
        let mut count_edges_known = Vec::new();
        let counts = count_edges(history, &fates, &mut count_edges_known, anomalies);
        let mut facts = Facts {
            history,
            writes,
            fates,
            lists: Vec::new(),
            registers,
            count_edges: count_edges_known,
            counts,
            elements: Vec::new(),
            spines: vec![(0, 0); history.key_count()],
            apart: Vec::new(),
        };
        let mut longest: Vec<Option<(u32, TxnId)>> = vec![None; history.key_count()];
        for read in &reads.lists {
            let longest = &mut longest[read.key.index()];
            if longest.is_none_or(|(len, _)| len < read.len) {
                *longest = Some((read.len, read.txn));
            }
        }
        let mut sound_until = vec![u32::MAX; history.key_count()];
        for (key, longest) in (0..).map(KeyId).zip(&longest) {
            if let &Some((len, reader)) = longest {
                let list = history.list(key, ListRef::shared(len));
                let start = facts.elements.len() as u32;
                if let Some(position) = facts.add_elements(reader, key, list, anomalies) {
                    sound_until[key.index()] = position;
                }
                facts.spines[key.index()] = (start, facts.elements.len() as u32);
            }
        }
        for read in &reads.lists {
            let (start, _) = facts.spines[read.key.index()];
            let list = history.list(read.key, ListRef::shared(read.len));
            if read.len <= sound_until[read.key.index()]
                && facts.is_sound_end(read.txn, read.key, list, anomalies)
                && facts.misses_own(read.txn, read.key, start, start + read.len, anomalies)
            {
                facts.lists.push(ListSeen { txn: read.txn, key: read.key, start, end: start + read.len });
            }
        }
        for read in reads.apart.iter().filter(|read| read.is_first) {
            let list = &history.list(read.key, read.list)[..read.others as usize];
            let start = facts.elements.len() as u32;
            let unsound = facts.add_elements(read.txn, read.key, list, anomalies);
            let end = facts.elements.len() as u32;
            if unsound.is_none()
                && facts.is_sound_end(read.txn, read.key, list, anomalies)
                && facts.misses_own(read.txn, read.key, start, end, anomalies)
            {
                facts.apart.push((read.key, start, end));
                facts.lists.push(ListSeen { txn: read.txn, key: read.key, start, end });
            }
        }
        facts.lists.sort_by_key(|seen| seen.txn);
        facts
    }

    /// The writers of a list, in its order.
    pub(super) fn writers(&self, seen: &ListSeen) -> &[TxnId] {
        &self.elements[seen.start as usize..seen.end as usize]
    }

    /// The writers of every list that must stand in arbitration order.
    pub(super) fn ordered(&self) -> impl Iterator<Item = (KeyId, &[TxnId])> {
        let spines = (0..).map(KeyId).zip(&self.spines).map(|(key, &(start, end))| (key, start, end));
        spines
            .chain(self.apart.iter().copied())
            .map(|(key, start, end)| (key, &self.elements[start as usize..end as usize]))
    }

    /// The committed writers of a key: each transaction once.
    pub(super) fn writers_of_key(&self, key: KeyId) -> impl Iterator<Item = TxnId> + '_ {
        let last = self.writes.of_key(key).iter().filter(|write| write.is_last);
        last.map(|write| write.txn).filter(|txn| self.fates[txn.index()].is_effective())
    }

    /// Whether reads of a key are checked against its writers.
    pub(super) fn is_value(&self, key: KeyId) -> bool {
        matches!(self.history.key_type(key), Some(KeyType::List | KeyType::Register))
    }

    /// Adds the writers of a list up to the first element that must not be there, which is reported, and
    /// returns how many elements are sound if not all are.
    fn add_elements(
        &mut self,
        reader: TxnId,
        key: KeyId,
        list: &[Value],
        anomalies: &mut Anomalies,
    ) -> Option<u32> {
        let words = Words::new(self.history);
        let mut before: Option<(TxnId, Value)> = None;
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let why = || words.duplicate(reader, key, pair[0], list);
            anomalies.add(self.history, AnomalyKind::DuplicateValue, &[reader], why);
            return Some(0);
        }
        for (position, &value) in (0..).zip(list) {
            let Some(write) = self.writes.find(key, value).map(|write| *self.writes.write(write)) else {
                let why = || words.unwritten(reader, key, value);
                anomalies.add(self.history, AnomalyKind::UnwrittenRead, &[reader], why);
                return Some(position);
            };
            if !self.fates[write.txn.index()].is_effective() {
                let why = || words.aborted_read(reader, write.txn, key, value);
                anomalies.add(self.history, AnomalyKind::AbortedRead, &[reader, write.txn], why);
                return Some(position);
            }
            let own_before = self.value_before(write.txn, write.previous);
            let same_writer = before.filter(|&(writer, _)| writer == write.txn);
            if own_before != same_writer.map(|(_, value)| value) {
                let first = own_before.unwrap_or(value);
                let txns = [write.txn, reader];
                anomalies.add(self.history, AnomalyKind::Internal, &txns, || {
                    words.appends_reordered(reader, write.txn, key, first, value)
                });
                return Some(position);
            }
            let of_other = before.filter(|&(writer, _)| writer != write.txn);
            if let Some((writer, value)) = of_other.filter(|&(_, value)| !self.is_last(key, value)) {
                let why = || words.intermediate_read(reader, writer, key, value);
                anomalies.add(self.history, AnomalyKind::IntermediateRead, &[reader, writer], why);
                return Some(position);
            }
            before = Some((write.txn, value));
            self.elements.push(write.txn);
        }
        None
    }

    /// The value that a transaction wrote at a position of its operations.
    fn value_before(&self, txn: TxnId, position: u32) -> Option<Value> {
        (position != ABSENT)
            .then(|| self.history.ops(self.history.txn(txn))[position as usize].action.written())
            .flatten()
    }

    fn is_last(&self, key: KeyId, value: Value) -> bool {
        self.writes.find(key, value).is_none_or(|write| self.writes.write(write).is_last)
    }

    /// Whether a list does not end amid the appends of one transaction; if it does that is reported.
    fn is_sound_end(&self, reader: TxnId, key: KeyId, list: &[Value], anomalies: &mut Anomalies) -> bool {
        let Some(write) = list.last().and_then(|&value| self.writes.find(key, value)) else { return true };
        let write = self.writes.write(write);
        if !write.is_last && write.txn != reader {
            let why = || Words::new(self.history).intermediate_read(reader, write.txn, key, write.value);
            anomalies.add(self.history, AnomalyKind::IntermediateRead, &[reader, write.txn], why);
        }
        write.is_last || write.txn == reader
    }

    /// Whether a reader does not find its own later appends in a list; if it does that is reported.
    fn misses_own(&self, reader: TxnId, key: KeyId, start: u32, end: u32, anomalies: &mut Anomalies) -> bool {
        let finds_own = self
            .history
            .ops(self.history.txn(reader))
            .iter()
            .any(|op| op.key == key && matches!(op.action, Action::Append(_)))
            && self.elements[start as usize..end as usize].contains(&reader);
        if finds_own {
            let ops = self.history.ops(self.history.txn(reader)).iter().filter(|op| op.key == key);
            let value = ops.filter_map(|op| op.action.written()).next().unwrap_or_default();
            let why = || Words::new(self.history).own_future_write(reader, key, value);
            anomalies.add(self.history, AnomalyKind::Internal, &[reader], why);
        }
        !finds_own
    }

    /// The edges of reads, as far as arbitration needs them: of a list only its last writer, since the others
    /// come before that one.
    pub(super) fn for_each_read_edge(&self, mut visit: impl FnMut(Edge)) {
        let edge =
            |from: TxnId, to: TxnId, key| Edge { from: from.0, to: to.0, key, kind: EdgeKind::ReadsFrom };
        for seen in &self.lists {
            if let Some(&last) = self.writers(seen).last() {
                visit(edge(last, seen.txn, seen.key));
            }
        }
        for read in &self.registers {
            if let Some(write) = read.write {
                visit(edge(self.writes.write(write).txn, read.txn, read.key));
            }
        }
    }
}
