//! Version order of lists: the longest list that a committed transaction read, and every other read a prefix
//! of it.
//!
//! Appends that no read shows come after it, in an order among themselves that nobody can tell: they form a
//! [`Tail`].

use crate::dependencies::edges::{Edge, EdgeKind};
use crate::dependencies::fate::Fate;
use crate::dependencies::reads::{ExternalReads, ListObservation, ListVersion};
use crate::dependencies::tails::Tail;
use crate::dependencies::writes::{ABSENT, WriteId, WriteIndex};
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, ListRef, TxnId, Value};
use crate::mutants::{self, Mutant};
use crate::report::{Anomalies, AnomalyKind};

/// The order of transactions, as far as the lists tell it.
pub(crate) struct Lists<'a> {
    history: &'a History,
    writes: &'a WriteIndex,
    fates: &'a [Fate],
    reads: &'a ExternalReads,
    words: Words<'a>,
    /// Per key where its elements start in `order`.
    starts: Vec<u32>,
    /// Per key the writes in version order; [`ABSENT`] for an element that must not be there.
    order: Vec<u32>,
    /// Per write its position in the order of its key, or [`ABSENT`].
    positions: Vec<u32>,
}

impl<'a> Lists<'a> {
    /// Places every element of the longest lists; elements that must not be there are anomalies.
    pub(crate) fn place(
        history: &'a History,
        writes: &'a WriteIndex,
        fates: &'a [Fate],
        reads: &'a ExternalReads,
        anomalies: &mut Anomalies,
    ) -> Self {
        let mut lists = Lists {
            history,
            writes,
            fates,
            reads,
            words: Words::new(history),
            starts: vec![0],
            order: Vec::new(),
            positions: vec![ABSENT; writes.len()],
        };
        let mut misplaced = Vec::new();
        for longest in &reads.longest {
            if let Some(longest) = longest {
                lists.place_key(longest, &mut misplaced);
            }
            lists.starts.push(lists.order.len() as u32);
        }
        lists.report_misplaced(&misplaced, anomalies);
        lists
    }

    fn place_key(&mut self, longest: &ListObservation, misplaced: &mut Vec<(KeyId, u32)>) {
        for (position, &value) in self.history.list(longest.key, longest.list).iter().enumerate() {
            let write = self.writes.find(longest.key, value).filter(|&write| {
                let writer = self.writes.write(write).txn;
                self.positions[write.index()] == ABSENT && self.fates[writer.index()].is_effective()
            });
            match write {
                Some(write) => {
                    self.positions[write.index()] = position as u32;
                    self.order.push(write.0);
                }
                None => {
                    misplaced.push((longest.key, position as u32));
                    self.order.push(ABSENT);
                }
            }
        }
    }

    /// The writes of a key in version order.
    fn order_of(&self, key: KeyId) -> &[u32] {
        &self.order[self.starts[key.index()] as usize..self.starts[key.index() + 1] as usize]
    }

    fn writer(&self, element: u32) -> Option<TxnId> {
        (element != ABSENT).then(|| self.writes.write(WriteId(element)).txn)
    }

    /// Names for each misplaced element the first transaction that read it.
    fn report_misplaced(&self, misplaced: &[(KeyId, u32)], anomalies: &mut Anomalies) {
        if misplaced.is_empty() {
            return;
        }
        let is_shared =
            |key: KeyId| self.reads.longest[key.index()].is_some_and(|longest| longest.list.is_shared());
        let mut first_reader = vec![None; misplaced.len()];
        for read in self.reads.lists.iter().filter(|read| is_shared(read.key)) {
            let from = misplaced.partition_point(|&(key, _)| key < read.key);
            let of_key = misplaced[from..].iter().take_while(|&&(key, _)| key == read.key);
            for (at, _) in of_key.enumerate().filter(|(_, (_, position))| *position < read.len) {
                first_reader[from + at].get_or_insert(read.txn);
            }
        }
        for (&(key, position), reader) in misplaced.iter().zip(first_reader) {
            if let Some(longest) = &self.reads.longest[key.index()] {
                let list = self.history.list(key, longest.list);
                let reader = reader.unwrap_or(longest.txn);
                if !self.report_element(reader, key, list, position as usize, anomalies) {
                    self.report_duplicate(reader, key, list, anomalies);
                }
            }
        }
    }

    /// Reports an element that nobody wrote or whose writer aborted; false if it is neither.
    fn report_element(
        &self,
        reader: TxnId,
        key: KeyId,
        list: &[Value],
        position: usize,
        anomalies: &mut Anomalies,
    ) -> bool {
        let value = list[position];
        let Some(write) = self.writes.find(key, value) else {
            let why = || self.words.unwritten(reader, key, value);
            anomalies.add(self.history, AnomalyKind::UnwrittenRead, &[reader], why);
            return true;
        };
        let writer = self.writes.write(write).txn;
        let is_aborted = self.fates[writer.index()] == Fate::Aborted;
        if is_aborted {
            let why = || self.words.aborted_read(reader, writer, key, value);
            anomalies.add(self.history, AnomalyKind::AbortedRead, &[reader, writer], why);
        }
        is_aborted
    }

    fn report_duplicate(&self, reader: TxnId, key: KeyId, list: &[Value], anomalies: &mut Anomalies) {
        let mut sorted = list.to_vec();
        sorted.sort_unstable();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let why = || self.words.duplicate(reader, key, pair[0], list);
            anomalies.add(self.history, AnomalyKind::DuplicateValue, &[reader], why);
        }
    }

    /// Checks that each transaction's appends stand in the order in which it made them, none left out before
    /// another.
    pub(crate) fn check_program_order(&self, anomalies: &mut Anomalies) {
        for longest in self.reads.longest.iter().flatten() {
            for (position, &element) in self.order_of(longest.key).iter().enumerate() {
                if element == ABSENT || self.writes.write(WriteId(element)).previous == ABSENT {
                    continue;
                }
                let write = self.writes.write(WriteId(element));
                let previous = self.history.ops(self.history.txn(write.txn))[write.previous as usize];
                let first = previous.action.written().unwrap_or(write.value);
                let placed = self.writes.find(longest.key, first).map(|id| self.positions[id.index()]);
                if placed.is_none_or(|placed| placed as usize >= position) {
                    let (reader, writer) = (longest.txn, write.txn);
                    anomalies.add(self.history, AnomalyKind::Internal, &[writer, reader], || {
                        self.words.appends_reordered(reader, writer, longest.key, first, write.value)
                    });
                }
            }
        }
    }

    /// Compares the lists that are not prefixes of their spine with the longest one; returns those that fit
    /// after all.
    pub(crate) fn check_apart(&self, anomalies: &mut Anomalies) -> Vec<ListVersion> {
        let mut fitting = Vec::new();
        for read in &self.reads.apart {
            let Some(longest) = &self.reads.longest[read.key.index()] else { continue };
            let list = self.history.list(read.key, read.list);
            let longest_list = self.history.list(read.key, longest.list);
            if is_prefix(list, longest_list) {
                if read.is_first {
                    fitting.push(ListVersion { txn: read.txn, key: read.key, len: read.others });
                }
                continue;
            }
            let agreeing = list.iter().zip(longest_list).take_while(|(one, other)| one == other).count();
            for position in agreeing..list.len() {
                self.report_element(read.txn, read.key, list, position, anomalies);
            }
            self.report_duplicate(read.txn, read.key, list, anomalies);
            anomalies.add(self.history, AnomalyKind::IncompatibleOrder, &[longest.txn, read.txn], || {
                self.words.incompatible(read.key, (longest.txn, longest_list), (read.txn, list))
            });
        }
        fitting
    }

    /// Whether a prefix of the spine fits the longest list. It does, unless the longest list itself stands
    /// apart.
    fn check_shared(&self, read: &ListVersion, anomalies: &mut Anomalies) -> bool {
        let Some(longest) = self.reads.longest[read.key.index()].filter(|longest| !longest.list.is_shared())
        else {
            return true;
        };
        let list = self.history.list(read.key, ListRef::shared(read.len));
        let longest_list = self.history.list(read.key, longest.list);
        let fits = is_prefix(list, longest_list);
        if !fits {
            anomalies.add(self.history, AnomalyKind::IncompatibleOrder, &[longest.txn, read.txn], || {
                self.words.incompatible(read.key, (longest.txn, longest_list), (read.txn, list))
            });
        }
        fits
    }

    /// Adds the edges that lists give, reports reads of intermediate and of own future versions, and returns
    /// the tails.
    pub(crate) fn add_edges(&self, edges: &mut Vec<Edge>, anomalies: &mut Anomalies) -> Vec<Tail> {
        self.add_write_order(edges);
        self.check_own_futures(&self.reads.lists, anomalies);
        let fitting = self.check_apart(anomalies);
        self.check_own_futures(&fitting, anomalies);
        let mut tails = self.tails();
        for read in &self.reads.lists {
            if self.check_shared(read, anomalies) {
                self.add_read(read, edges, &mut tails, anomalies);
            }
        }
        for read in &fitting {
            self.add_read(read, edges, &mut tails, anomalies);
        }
        tails.iter_mut().for_each(|tail| tail.readers.sort_unstable());
        tails
    }

    fn add_write_order(&self, edges: &mut Vec<Edge>) {
        for key in (0..self.history.key_count() as u32).map(KeyId) {
            let mut before: Option<TxnId> = None;
            for writer in self.order_of(key).iter().filter_map(|&element| self.writer(element)) {
                if let Some(before) = before.filter(|&before| before != writer) {
                    edges.push(Edge { from: before.0, to: writer.0, key, kind: EdgeKind::WriteOrder });
                }
                before = Some(writer);
            }
        }
    }

    fn add_read(
        &self,
        read: &ListVersion,
        edges: &mut Vec<Edge>,
        tails: &mut [Tail],
        anomalies: &mut Anomalies,
    ) {
        let &ListVersion { txn, key, mut len } = read;
        let order = self.order_of(key);
        if mutants::is_planted(Mutant::MiscountsPrefixes) {
            len = (len + 1).min(order.len() as u32);
        }
        let (seen, unseen) = order.split_at(len as usize);
        let last = seen.last().copied().filter(|&element| element != ABSENT);
        let writer = last.and_then(|element| self.writer(element)).filter(|&writer| writer != txn);
        if let (Some(element), Some(writer)) = (last, writer) {
            edges.push(Edge { from: writer.0, to: txn.0, key, kind: EdgeKind::ReadsFrom });
            let write = self.writes.write(WriteId(element));
            if !write.is_last {
                let why = || self.words.intermediate_read(txn, writer, key, write.value);
                anomalies.add(self.history, AnomalyKind::IntermediateRead, &[txn, writer], why);
            }
        }
        let next =
            unseen.iter().filter_map(|&element| self.writer(element)).find(|&next| Some(next) != writer);
        match next {
            // The next element is the reader's own append, whose place in the write order says the rest.
            Some(next) if next == txn => {}
            Some(next) => {
                edges.push(Edge { from: txn.0, to: next.0, key, kind: EdgeKind::AntiDependency });
            }
            None => {
                if let Ok(tail) = tails.binary_search_by_key(&key, |tail| tail.key) {
                    tails[tail].readers.push(txn);
                }
            }
        }
    }

    /// A transaction must not find its own append in a list before it made it.
    fn check_own_futures(&self, reads: &[ListVersion], anomalies: &mut Anomalies) {
        if reads.is_empty() {
            return;
        }
        let mut seen = vec![(TxnId(ABSENT), 0); self.history.key_count()];
        for reads in reads.chunk_by(|one, next| one.txn == next.txn) {
            let txn = reads[0].txn;
            for read in reads {
                seen[read.key.index()] = (txn, read.len);
            }
            for op in self.history.ops(self.history.txn(txn)) {
                let (Action::Append(value), (reader, len)) = (op.action, seen[op.key.index()]) else {
                    continue;
                };
                let place =
                    || self.writes.find(op.key, value).map_or(ABSENT, |id| self.positions[id.index()]);
                if reader == txn && place() < len {
                    let why = || self.words.own_future_write(txn, op.key, value);
                    anomalies.add(self.history, AnomalyKind::Internal, &[txn], why);
                }
            }
        }
    }

    /// Per key the effective appends that no read shows. Readers are added later.
    fn tails(&self) -> Vec<Tail> {
        let mut tails = Vec::new();
        if mutants::is_planted(Mutant::ForgetsTails) {
            return tails;
        }
        for key in (0..self.history.key_count() as u32).map(KeyId) {
            if self.history.key_type(key) != Some(KeyType::List) {
                continue;
            }
            let last = self.order_of(key).iter().rev().find_map(|&element| self.writer(element));
            let unplaced = self.writes.ids_of_key(key).filter(|id| self.positions[id.index()] == ABSENT);
            let mut targets: Vec<TxnId> = unplaced
                .map(|id| self.writes.write(id).txn)
                .filter(|&txn| Some(txn) != last && self.fates[txn.index()].is_effective())
                .collect();
            targets.sort_unstable();
            targets.dedup();
            if !targets.is_empty() {
                tails.push(Tail { key, last, readers: Vec::new(), targets });
            }
        }
        tails
    }
}

fn is_prefix(list: &[Value], longest: &[Value]) -> bool {
    let compared = match list.split_last() {
        Some((_, front)) if mutants::is_planted(Mutant::ComparesAllButTheLast) => front,
        _ => list,
    };
    longest.starts_with(compared)
}
