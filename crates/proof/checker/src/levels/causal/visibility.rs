//! The transactions that each one sees: the transitive closure of session order and reads, as vector clocks over chains.
//!
//! Each transaction extends a chain of transactions that see one another, if one of those that it sees
//! directly is the end of a chain, and else begins one. Its clock says, chain by chain, up to which member it
//! sees.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::dependencies::{Edge, EdgeKind, Fate};
use crate::graph::{self, BY_SEVERITY, Graph, find_cycle};
use crate::history::{KeyId, Session, TxnId};
use crate::levels::causal::facts::Facts;
use crate::mutants::{self, Mutant};

/// The clocks of a history may have so many entries together.
const ENTRIES_MAX: usize = 400_000_000;

/// Why there are no clocks.
pub(super) enum Cyclic {
    /// Transactions that see themselves.
    Cycle(Vec<Edge>),
    /// Too many chains.
    TooWide(String),
}

/// A read that missed a write of a visible transaction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Missed {
    reader: TxnId,
    writer: TxnId,
    key: KeyId,
}

/// Where a transaction stands: its chain, and its number there, counted from 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    chain: u32,
    number: u32,
}

/// The visibility between effective transactions.
pub(super) struct Visibility<'a, 'h> {
    facts: &'a Facts<'h>,
    further: &'a [Edge],
    /// Direct predecessors in session order, and where those of each transaction start.
    sessions: Vec<TxnId>,
    session_starts: Vec<u32>,
    list_starts: Vec<u32>,
    register_starts: Vec<u32>,
    /// The updaters that a reader saw, as counts say, by reader.
    counted: Vec<Edge>,
    places: Vec<Place>,
    /// The clocks one after another, and where each of them starts and ends.
    clocks: Vec<u32>,
    rows: Vec<(u64, u32)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Open,
    Done,
}

impl<'a, 'h> Visibility<'a, 'h> {
    /// Computes the clocks. `further` are edges of counting sets beyond those that are known.
    pub(super) fn derive(facts: &'a Facts<'h>, further: &'a [Edge]) -> Result<Self, Cyclic> {
        let txn_count = facts.history.txn_count();
        let (sessions, session_starts) = session_predecessors(facts);
        let is_seen = |edge: &&Edge| edge.kind == EdgeKind::ReadsFrom;
        let mut counted: Vec<Edge> =
            facts.count_edges.iter().chain(further).filter(is_seen).copied().collect();
        counted.sort_by_key(|edge| edge.to);
        let mut visibility = Visibility {
            facts,
            further,
            sessions,
            session_starts,
            list_starts: starts(txn_count, facts.lists.iter().map(|seen| seen.txn)),
            register_starts: starts(txn_count, facts.registers.iter().map(|read| read.txn)),
            counted,
            places: vec![Place::default(); txn_count],
            clocks: Vec::new(),
            rows: vec![(0, 0); txn_count],
        };
        visibility.compute()?;
        Ok(visibility)
    }

    /// The edges by which a transaction sees others directly.
    fn for_each_edge_to(&self, txn: TxnId, mut visit: impl FnMut(Edge)) {
        let range = |starts: &[u32]| starts[txn.index()] as usize..starts[txn.index() + 1] as usize;
        let edge = |from: TxnId, key, kind| Edge { from: from.0, to: txn.0, key, kind };
        let sessions = range(&self.session_starts);
        for &before in self.sessions[sessions].iter().filter(|_| !mutants::drops(EdgeKind::SessionOrder)) {
            visit(edge(before, KeyId(0), EdgeKind::SessionOrder));
        }
        for seen in &self.facts.lists[range(&self.list_starts)] {
            let mut before = txn;
            for &writer in self.facts.writers(seen).iter().rev() {
                if writer != before {
                    visit(edge(writer, seen.key, EdgeKind::ReadsFrom));
                }
                before = writer;
            }
        }
        for read in &self.facts.registers[range(&self.register_starts)] {
            if let Some(write) = read.write {
                visit(edge(self.facts.writes.write(write).txn, read.key, EdgeKind::ReadsFrom));
            }
        }
        let first = self.counted.partition_point(|edge| edge.to < txn.0);
        self.counted[first..].iter().take_while(|edge| edge.to == txn.0).for_each(|&edge| visit(edge));
    }

    /// Computes clocks after those of all that is seen, depth first.
    fn compute(&mut self) -> Result<(), Cyclic> {
        let txn_count = self.facts.history.txn_count();
        let mut states = vec![State::New; txn_count];
        let mut chain_lens: Vec<u32> = Vec::new();
        let mut stack: Vec<TxnId> = Vec::new();
        let mut edges: Vec<Edge> = Vec::new();
        for root in (0..txn_count as u32).map(TxnId) {
            if !self.facts.fates[root.index()].is_effective() {
                continue;
            }
            stack.push(root);
            while let Some(&txn) = stack.last() {
                match states[txn.index()] {
                    State::Done => {
                        stack.pop();
                        continue;
                    }
                    State::New => states[txn.index()] = State::Open,
                    State::Open => {}
                }
                edges.clear();
                self.for_each_edge_to(txn, |edge| edges.push(edge));
                let open = stack.len();
                for edge in &edges {
                    match states[edge.from as usize] {
                        State::Done => {}
                        State::New => stack.push(TxnId(edge.from)),
                        State::Open => {
                            let is_open = |txn: &&TxnId| states[txn.index()] == State::Open;
                            let path: Vec<TxnId> = stack[..open].iter().filter(is_open).copied().collect();
                            return Err(Cyclic::Cycle(self.cycle_among(path)));
                        }
                    }
                }
                if stack.len() == open {
                    self.add_clock(txn, &edges, &mut chain_lens)?;
                    states[txn.index()] = State::Done;
                    stack.pop();
                }
            }
        }
        Ok(())
    }

    fn add_clock(&mut self, txn: TxnId, edges: &[Edge], chain_lens: &mut Vec<u32>) -> Result<(), Cyclic> {
        let end = edges.iter().map(|edge| self.places[edge.from as usize]);
        let place = match end.clone().find(|place| chain_lens[place.chain as usize] == place.number) {
            Some(place) => Place { number: place.number + 1, ..place },
            None => {
                chain_lens.push(0);
                Place { chain: chain_lens.len() as u32 - 1, number: 1 }
            }
        };
        chain_lens[place.chain as usize] = place.number;
        self.places[txn.index()] = place;
        let start = self.clocks.len();
        if start + chain_lens.len() > ENTRIES_MAX {
            return Err(Cyclic::TooWide(
                "Too many sessions are independent of one another for the vector clocks of this check."
                    .to_string(),
            ));
        }
        self.clocks.resize(start + chain_lens.len(), 0);
        let (before, row) = self.clocks.split_at_mut(start);
        for edge in edges {
            let seen = self.places[edge.from as usize];
            if mutants::is_planted(Mutant::SeesOnlyDirectly) {
                let last = &mut row[seen.chain as usize];
                *last = seen.number.max(*last);
            } else if row[seen.chain as usize] < seen.number {
                let (from, len) = self.rows[edge.from as usize];
                let seen = &before[from as usize..from as usize + len as usize];
                row.iter_mut().zip(seen).for_each(|(one, &other)| *one = (*one).max(other));
            }
        }
        row[place.chain as usize] = place.number;
        self.rows[txn.index()] = (start as u64, chain_lens.len() as u32);
        Ok(())
    }

    /// Up to which member of a chain a transaction sees, itself included.
    fn sees_up_to(&self, txn: TxnId, chain: u32) -> u32 {
        let (start, len) = self.rows[txn.index()];
        if chain < len { self.clocks[start as usize + chain as usize] } else { 0 }
    }

    /// Whether `reader` sees `writer`, which is another transaction.
    fn sees(&self, reader: TxnId, writer: TxnId) -> bool {
        let place = self.places[writer.index()];
        reader != writer && self.sees_up_to(reader, place.chain) >= place.number
    }

    /// The shortest cycle among transactions of which each sees the next directly and the last the first.
    fn cycle_among(&self, mut txns: Vec<TxnId>) -> Vec<Edge> {
        txns.sort_unstable();
        let mut edges = Vec::new();
        for &txn in &txns {
            self.for_each_edge_to(txn, |edge| {
                if txns.binary_search(&TxnId(edge.from)).is_ok() {
                    edges.push(edge);
                }
            });
        }
        let txn_count = self.facts.history.txn_count();
        let graph = Graph::gather(txn_count, 1, txn_count, |emit| edges.iter().for_each(|&edge| emit(edge)));
        let components = graph.cyclic_components(graph::ALL);
        let first = components.first();
        first.map(|first| find_cycle(&graph.restrict(first), &BY_SEVERITY)).unwrap_or_default()
    }

    /// Writes of visible transactions that reads missed. Where a register read leaves it open which of two
    /// visible writes is the later one, that goes to `arbitration`.
    pub(super) fn missed_writes(&self, arbitration: &mut Vec<Edge>) -> Vec<Missed> {
        let mut missed = Vec::new();
        if mutants::is_planted(Mutant::MissesNothing) {
            return missed;
        }
        let writers = self.writers_by_place();
        for seen in &self.facts.lists {
            let found = self.facts.writers(seen);
            let distinct = found.chunk_by(|one, other| one == other).count();
            let visible = |chunk: &[(Place, TxnId)]| self.visible(seen.txn, chunk).len();
            let of_key = &writers[seen.key.index()];
            if of_key.chunk_by(|one, other| one.0.chain == other.0.chain).map(visible).sum::<usize>()
                != distinct
            {
                let chunks = of_key.chunk_by(|one, other| one.0.chain == other.0.chain);
                let visible = chunks.flat_map(|chunk| self.visible(seen.txn, chunk));
                let lost = visible.map(|&(_, writer)| writer).find(|writer| !found.contains(writer));
                missed.extend(lost.map(|writer| Missed { reader: seen.txn, writer, key: seen.key }));
            }
        }
        for read in &self.facts.registers {
            let returned = read.write.map(|write| self.facts.writes.write(write).txn);
            for chunk in writers[read.key.index()].chunk_by(|one, other| one.0.chain == other.0.chain) {
                let Some(&(_, last)) = self.visible(read.txn, chunk).last() else { continue };
                match returned {
                    Some(returned) if returned == last || self.sees(returned, last) => {}
                    Some(returned) if !self.sees(last, returned) => {
                        let kind = EdgeKind::WriteOrder;
                        arbitration.push(Edge { from: last.0, to: returned.0, key: read.key, kind });
                    }
                    _ => missed.push(Missed { reader: read.txn, writer: last, key: read.key }),
                }
            }
        }
        let unseen = self.facts.count_edges.iter().chain(self.further);
        for edge in unseen.filter(|edge| edge.kind == EdgeKind::AntiDependency) {
            let (reader, writer) = (TxnId(edge.from), TxnId(edge.to));
            if self.sees(reader, writer) {
                missed.push(Missed { reader, writer, key: edge.key });
            }
        }
        missed
    }

    /// Per key its writers, by place.
    fn writers_by_place(&self) -> Vec<Vec<(Place, TxnId)>> {
        let keys = (0..self.facts.history.key_count() as u32).map(KeyId);
        keys.map(|key| {
            if !self.facts.is_value(key) {
                return Vec::new();
            }
            let writers = self.facts.writers_of_key(key).map(|txn| (self.places[txn.index()], txn));
            let mut writers: Vec<_> = writers.collect();
            writers.sort_unstable();
            writers
        })
        .collect()
    }

    /// Those of some writers of one chain, sorted, that a reader sees.
    fn visible<'c>(&self, reader: TxnId, chunk: &'c [(Place, TxnId)]) -> &'c [(Place, TxnId)] {
        let own = self.places[reader.index()];
        let chain = chunk[0].0.chain;
        let own_part = u32::from(own.chain == chain);
        let up_to = self.sees_up_to(reader, chain) - own_part;
        &chunk[..chunk.partition_point(|(place, _)| place.number <= up_to)]
    }

    /// The missed write, and the shortest path by which the reader sees its writer all the same.
    pub(super) fn cycle_of(&self, missed: &Missed) -> Vec<Edge> {
        let &Missed { reader, writer, key } = missed;
        let mut onward: HashMap<u32, Edge, FixedState> = HashMap::default();
        let mut queue = std::collections::VecDeque::from([reader]);
        while let Some(txn) = queue.pop_front().filter(|_| !onward.contains_key(&writer.0)) {
            self.for_each_edge_to(txn, |edge| {
                let from = TxnId(edge.from);
                if (from == writer || self.sees(from, writer)) && !onward.contains_key(&edge.from) {
                    onward.insert(edge.from, edge);
                    queue.push_back(from);
                }
            });
        }
        let mut cycle = vec![Edge { from: reader.0, to: writer.0, key, kind: EdgeKind::AntiDependency }];
        let mut at = writer.0;
        while let Some(edge) = onward.get(&at).filter(|_| at != reader.0) {
            cycle.push(*edge);
            at = edge.to;
        }
        cycle
    }
}

/// Where the entries of each transaction start in a list that is sorted by transaction.
fn starts(txn_count: usize, txns: impl Iterator<Item = TxnId>) -> Vec<u32> {
    let mut starts = vec![0; txn_count + 1];
    txns.for_each(|txn| starts[txn.index() + 1] += 1);
    for txn in 0..txn_count {
        starts[txn + 1] += starts[txn];
    }
    starts
}

/// Per transaction those that its session completed before it was invoked, without those that another one of
/// these comes after.
fn session_predecessors(facts: &Facts<'_>) -> (Vec<TxnId>, Vec<u32>) {
    #[derive(Default)]
    struct Completed {
        /// In the order of completion.
        txns: Vec<(u32, TxnId)>,
        /// The latest invocation among them.
        invoke_max: u32,
    }
    let history = facts.history;
    let mut ends: Vec<(u32, TxnId)> = Vec::new();
    for (id, (txn, fate)) in (0..).map(TxnId).zip(history.txns().iter().zip(&facts.fates)) {
        if let (Fate::Committed, Some(completion)) = (fate, txn.completion) {
            ends.push((completion, id));
        }
    }
    ends.sort_unstable();
    let mut sessions: HashMap<Session, Completed, FixedState> = HashMap::default();
    let (mut predecessors, mut starts) = (Vec::new(), vec![0]);
    let mut next_end = 0;
    for (txn, fate) in history.txns().iter().zip(&facts.fates) {
        while let Some(&(completion, id)) = ends.get(next_end).filter(|end| end.0 < txn.invoke) {
            let ended = history.txn(id);
            let completed = sessions.entry(ended.session).or_default();
            completed.txns.push((completion, id));
            completed.invoke_max = completed.invoke_max.max(ended.invoke);
            next_end += 1;
        }
        if let Some(completed) = sessions.get(&txn.session).filter(|_| fate.is_effective()) {
            let latest = completed.txns.iter().rev().take_while(|end| end.0 > completed.invoke_max);
            predecessors.extend(latest.map(|&(_, id)| id));
        }
        starts.push(predecessors.len() as u32);
    }
    (predecessors, starts)
}
