//! Version order of registers, as far as reads, writes and timestamps tell it.
//!
//! With a commit timestamp on every writer of a key, that order is the version order. Without, a transaction
//! that reads a version and writes the key installs the next one: at these levels nothing can come between.
//! Versions linked so form *chains*. The chain of the initial value comes first; the order of the others is
//! left to the search.

use crate::dependencies::edges::{Edge, EdgeKind};
use crate::dependencies::fate::Fate;
use crate::dependencies::reads::RegisterVersion;
use crate::dependencies::tails::{Tail, report_lost_update};
use crate::dependencies::writes::{ABSENT, WriteId, WriteIndex};
use crate::explain::Words;
use crate::history::{History, KeyId, KeyType, TxnId};
use crate::report::{Anomalies, AnomalyKind};

/// A run of versions of which each follows the one before immediately.
#[derive(Debug, Clone)]
pub(crate) struct Chain {
    /// The writer of its first version; none for the chain of the initial value.
    pub(crate) first: Option<TxnId>,
    /// The writer of its last version, if it has one.
    pub(crate) last: Option<TxnId>,
    /// The readers of its last version, sorted.
    pub(crate) readers: Vec<TxnId>,
    /// Where the chain stands in real time: the later of the last invocation and the first completion among
    /// its writers and readers. Where all operations on a register take effect within their intervals, its
    /// chains are in this order.
    pub(crate) zone: u32,
}

impl Chain {
    /// A version that nobody read, as a chain of its own.
    pub(crate) fn of_one(history: &History, writer: TxnId) -> Self {
        let txn = history.txn(writer);
        let zone = txn.invoke.max(txn.known_completion().unwrap_or(u32::MAX));
        Chain { first: Some(writer), last: Some(writer), readers: Vec::new(), zone }
    }
}

/// Chains of one key whose order is open. Each of them has a first writer.
#[derive(Debug, Clone)]
pub(crate) struct OpenOrder {
    pub(crate) key: KeyId,
    pub(crate) chains: Vec<Chain>,
}

/// The orders that the registers leave open.
#[derive(Debug, Default)]
pub(crate) struct Registers {
    pub(crate) tails: Vec<Tail>,
    pub(crate) open: Vec<OpenOrder>,
}

struct Judge<'a> {
    history: &'a History,
    writes: &'a WriteIndex,
    fates: &'a [Fate],
    edges: &'a mut Vec<Edge>,
    anomalies: &'a mut Anomalies,
    result: Registers,
}

/// Adds the edges that registers give and reports reads of aborted and intermediate versions.
pub(crate) fn add_edges(
    history: &History,
    writes: &WriteIndex,
    fates: &[Fate],
    reads: &[RegisterVersion],
    edges: &mut Vec<Edge>,
    anomalies: &mut Anomalies,
) -> Registers {
    let mut sound = check_reads(history, writes, fates, reads, anomalies);
    sound.sort_unstable();
    let mut judge = Judge { history, writes, fates, edges, anomalies, result: Registers::default() };
    let mut rest = &sound[..];
    for key in (0..history.key_count() as u32).map(KeyId) {
        let (of_key, others) = rest.split_at(rest.partition_point(|read| read.key <= key));
        rest = others;
        if history.key_type(key) == Some(KeyType::Register) {
            judge.key(key, of_key);
        }
    }
    judge.result
}

/// Reports reads of aborted and intermediate versions, and returns the others.
pub(crate) fn check_reads(
    history: &History,
    writes: &WriteIndex,
    fates: &[Fate],
    reads: &[RegisterVersion],
    anomalies: &mut Anomalies,
) -> Vec<RegisterVersion> {
    let words = Words::new(history);
    let is_sound = |read: &&RegisterVersion| {
        let Some(id) = read.write else { return true };
        let write = writes.write(id);
        let txns = [read.txn, write.txn];
        if !fates[write.txn.index()].is_effective() {
            let why = || words.aborted_read(read.txn, write.txn, read.key, write.value);
            anomalies.add(history, AnomalyKind::AbortedRead, &txns, why);
            return false;
        }
        if !write.is_last {
            let why = || words.intermediate_read(read.txn, write.txn, read.key, write.value);
            anomalies.add(history, AnomalyKind::IntermediateRead, &txns, why);
            return false;
        }
        true
    };
    reads.iter().filter(is_sound).copied().collect()
}

impl Judge<'_> {
    /// `reads` are the reads of this key, sorted by version.
    fn key(&mut self, key: KeyId, reads: &[RegisterVersion]) {
        for read in reads {
            if let Some(write) = read.write {
                self.edge(key, self.writes.write(write).txn, read.txn, EdgeKind::ReadsFrom);
            }
        }
        let installed: Vec<WriteId> = self
            .writes
            .ids_of_key(key)
            .filter(|&id| {
                let write = self.writes.write(id);
                write.is_last && self.fates[write.txn.index()].is_effective()
            })
            .collect();
        match self.by_timestamp(&installed) {
            Some(order) => self.ordered(key, &order, reads),
            None => self.chained(key, &installed, reads),
        }
    }

    fn edge(&mut self, key: KeyId, from: TxnId, to: TxnId, kind: EdgeKind) {
        if from != to {
            self.edges.push(Edge { from: from.0, to: to.0, key, kind });
        }
    }

    /// The versions by commit timestamp, if every writer has one and no two are equal.
    fn by_timestamp(&self, installed: &[WriteId]) -> Option<Vec<WriteId>> {
        let stamped = |&id: &WriteId| Some((self.history.txn(self.writes.write(id).txn).ts?, id));
        let mut stamped: Vec<_> = installed.iter().map(stamped).collect::<Option<_>>()?;
        stamped.sort_unstable();
        let distinct = stamped.windows(2).all(|pair| pair[0].0 != pair[1].0);
        distinct.then(|| stamped.into_iter().map(|(_, id)| id).collect())
    }

    /// Adds the edges of a total version order.
    fn ordered(&mut self, key: KeyId, order: &[WriteId], reads: &[RegisterVersion]) {
        let versions = std::iter::once(None).chain(order.iter().copied().map(Some));
        for (version, &next) in versions.zip(order) {
            self.follow(key, version, next, reads);
        }
    }

    /// `next` immediately follows `version`: adds the write order, and the anti-dependencies of all readers.
    fn follow(&mut self, key: KeyId, version: Option<WriteId>, next: WriteId, reads: &[RegisterVersion]) {
        let next = self.writes.write(next).txn;
        if let Some(version) = version {
            self.edge(key, self.writes.write(version).txn, next, EdgeKind::WriteOrder);
        }
        for read in readers_of(reads, version) {
            self.edge(key, read.txn, next, EdgeKind::AntiDependency);
        }
    }

    /// Links versions by read-modify-writes, and leaves the order of the resulting chains open.
    fn chained(&mut self, key: KeyId, installed: &[WriteId], reads: &[RegisterVersion]) {
        let (successors, is_head) = self.successors(key, installed, reads);
        let mut initial = self.chain(key, None, installed, &successors, reads);
        let mut open = Vec::new();
        for (at, _) in is_head.iter().enumerate().filter(|(_, is_head)| **is_head) {
            open.push(self.chain(key, Some(at), installed, &successors, reads));
        }
        if !open.is_empty() {
            let mut targets: Vec<TxnId> = open.iter().filter_map(|chain| chain.first).collect();
            targets.sort_unstable();
            let readers = std::mem::take(&mut initial.readers);
            self.result.tails.push(Tail { key, last: initial.last, readers, targets });
        }
        if open.len() > 1 {
            self.result.open.push(OpenOrder { key, chains: open });
        }
    }

    /// Per version (the initial one first) the position of its immediate successor in `installed`, or
    /// [`ABSENT`]; and which versions are nobody's successor. Two successors of one version are a lost
    /// update.
    fn successors(
        &mut self,
        key: KeyId,
        installed: &[WriteId],
        reads: &[RegisterVersion],
    ) -> (Vec<u32>, Vec<bool>) {
        let mut writers: Vec<(TxnId, u32)> =
            installed.iter().zip(0..).map(|(&id, at)| (self.writes.write(id).txn, at)).collect();
        writers.sort_unstable();
        let mut successors = vec![ABSENT; installed.len() + 1];
        let mut is_head = vec![true; installed.len()];
        for read in reads {
            let Ok(found) = writers.binary_search_by_key(&read.txn, |&(txn, _)| txn) else { continue };
            let at = writers[found].1;
            is_head[at as usize] = false;
            let version = read.write.map_or(Ok(0), |write| installed.binary_search(&write).map(|at| at + 1));
            let Ok(version) = version else { continue };
            if successors[version] == ABSENT {
                successors[version] = at;
            } else {
                let first = self.writes.write(installed[successors[version] as usize]).txn;
                report_lost_update(self.history, key, first, read.txn, self.anomalies);
            }
        }
        (successors, is_head)
    }

    /// Walks a chain from its first version, adding its edges.
    fn chain(
        &mut self,
        key: KeyId,
        head: Option<usize>,
        installed: &[WriteId],
        successors: &[u32],
        reads: &[RegisterVersion],
    ) -> Chain {
        let mut at = head;
        let mut version = head.map(|head| installed[head]);
        let first = version.map(|version| self.writes.write(version).txn);
        let (mut last_invocation, mut first_completion) = (0, u32::MAX);
        loop {
            let writer = version.map(|version| self.writes.write(version).txn);
            for txn in readers_of(reads, version).iter().map(|read| read.txn).chain(writer) {
                let txn = self.history.txn(txn);
                last_invocation = last_invocation.max(txn.invoke);
                first_completion = first_completion.min(txn.known_completion().unwrap_or(u32::MAX));
            }
            let successor = successors[at.map_or(0, |at| at + 1)];
            if successor == ABSENT {
                break;
            }
            let next = installed[successor as usize];
            self.follow(key, version, next, reads);
            (at, version) = (Some(successor as usize), Some(next));
        }
        let last = version.map(|version| self.writes.write(version).txn);
        let readers = readers_of(reads, version).iter().map(|read| read.txn).collect();
        let zone = last_invocation.max(first_completion);
        Chain { first, last, readers, zone }
    }
}

/// The reads of one version among those of a key, sorted by transaction.
fn readers_of(reads: &[RegisterVersion], version: Option<WriteId>) -> &[RegisterVersion] {
    let start = reads.partition_point(|read| read.write < version);
    let end = reads.partition_point(|read| read.write <= version);
    &reads[start..end]
}
