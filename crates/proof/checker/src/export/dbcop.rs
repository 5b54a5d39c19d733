//! Histories for dbcop: the JSON of its command line. Sessions are arrays of transactions, these have `events`,
//! reads and writes of numbered versions of numbered variables, and say whether they `committed`.
//!
//! A list is written as a register that holds the last element: an append is a write, and a read sees the last
//! element. Versions are numbered over the whole history, as dbcop demands.
//!
//! dbcop takes every event for one between transactions: reads of a transaction's own writes, reads that only
//! repeat an earlier one, and versions that their own transaction replaces make it report cycles that are
//! none. So these are left out as long as they agree with the rest of their transaction, and so are aborted
//! transactions from which nobody read. Those that disagree are written, and rightly complained about.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value as Json, json};

use super::{ExportError, LeftOut, Source};
use crate::dependencies::Fate;
use crate::history::{Action, KeyId, KeyType, Op, Seen, Session, Txn, TxnId, Value};

pub(super) const LIMITS: &[&str] = &[
    "There is no real time: compare with serializable, si and causal, never with strict-serializable or strong-si.",
    "All of dbcop's levels have session order: compare with session-serializable and session-si. Transactions of one \
     session that overlap are written as separate sessions.",
    "A list becomes a register that holds its last element: a wrong order of earlier elements is not seen.",
    "Operations on counting sets, sites, spec lines, observed reads of aborted transactions and facts that servers \
     told are left out.",
    "Transactions that aborted or whose outcome is unknown are left out, unless a committed one read what they wrote.",
];

/// A session as dbcop knows it: each transaction ends before the next one begins.
#[derive(Default)]
struct Lane {
    txns: Vec<Json>,
    /// The index of the line that ended the last transaction; none if it may end at any time.
    free_from: Option<u32>,
}

pub(super) fn write(
    source: &Source<'_>,
    out: &mut impl Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let history = source.history;
    source.main_type()?;
    let mut lanes: Vec<Lane> = Vec::new();
    let mut lanes_of: BTreeMap<Session, Vec<usize>> = BTreeMap::new();
    let mut versions = Versions::new(source);
    for (txn, fate) in source.txns() {
        if fate == Fate::Dropped || fate == Fate::Aborted && !versions.is_read(txn) {
            left_out.txns += 1;
            continue;
        }
        let events = versions.events(txn, fate, left_out);
        let of_session = lanes_of.entry(txn.session).or_default();
        let is_free = |&&lane: &&usize| lanes[lane].free_from.is_some_and(|from| from < txn.invoke);
        let lane = of_session.iter().find(is_free).copied().unwrap_or_else(|| {
            of_session.push(lanes.len());
            lanes.push(Lane::default());
            lanes.len() - 1
        });
        lanes[lane].txns.push(json!({ "events": events, "committed": fate.is_effective() }));
        lanes[lane].free_from = txn.known_completion();
    }
    let longest = lanes.iter().map(|lane| lane.txns.len()).max().unwrap_or(0);
    let file = json!({
        "params": {
            "id": 0,
            "n_node": lanes.len(),
            "n_variable": history.key_count(),
            "n_transaction": longest,
            "n_event": history.txns().iter().map(|txn| history.ops(txn).len()).max().unwrap_or(0),
        },
        "info": "quorate",
        "start": "1970-01-01T00:00:00Z",
        "end": "1970-01-01T00:00:00Z",
        "data": lanes.into_iter().map(|lane| lane.txns).collect::<Vec<_>>(),
    });
    writeln!(out, "{file}")?;
    Ok(())
}

/// The numbers of the values.
struct Versions<'a> {
    source: &'a Source<'a>,
    /// Per write, whether another committed transaction read it.
    is_read: Vec<bool>,
    /// Values that were read and that nobody wrote.
    unwritten: BTreeMap<(KeyId, Value), usize>,
}

impl<'a> Versions<'a> {
    fn new(source: &'a Source<'a>) -> Self {
        let mut is_read = vec![false; source.writes.len()];
        for (at, (txn, fate)) in (0..).zip(source.txns()) {
            let reads = source.history.ops(txn).iter().filter(|_| fate == Fate::Committed);
            for (key, value) in reads.filter_map(|op| Some((op.key, last_seen(source, op)??))) {
                if let Some(write) = source.writes.find(key, value) {
                    is_read[write.index()] |= source.writes.write(write).txn != TxnId(at);
                }
            }
        }
        Versions { source, is_read, unwritten: BTreeMap::new() }
    }

    /// Whether another transaction read anything of this one.
    fn is_read(&self, txn: &Txn) -> bool {
        let mut written =
            self.source.history.ops(txn).iter().filter_map(|op| Some((op.key, op.action.written()?)));
        written.any(|(key, value)| self.write_is_read(key, value))
    }

    fn write_is_read(&self, key: KeyId, value: Value) -> bool {
        self.source.writes.find(key, value).is_some_and(|write| self.is_read[write.index()])
    }

    /// The reads of a transaction from others, and its writes that others can read.
    fn events(&mut self, txn: &Txn, fate: Fate, left_out: &mut LeftOut) -> Vec<Json> {
        let history = self.source.history;
        let mut events = Vec::new();
        // Per key the version that the transaction knows of: its own, or the one that it read.
        let mut known: BTreeMap<KeyId, Option<usize>> = BTreeMap::new();
        let mut final_writes: BTreeMap<KeyId, Value> = BTreeMap::new();
        for op in history.ops(txn) {
            final_writes.extend(op.action.written().map(|value| (op.key, value)));
        }
        for op in history.ops(txn) {
            if history.key_type(op.key) == Some(KeyType::CountingSet) {
                left_out.ops += 1;
            } else if let Some(value) = op.action.written() {
                let version = self.number(op.key, value);
                known.insert(op.key, Some(version));
                if final_writes.get(&op.key) == Some(&value) || self.write_is_read(op.key, value) {
                    events.push(json!({ "Write": { "variable": op.key.0, "version": version } }));
                }
            } else if fate == Fate::Committed
                && let Some(seen) = last_seen(self.source, op)
            {
                if let Action::Read(Seen::List(list)) = op.action {
                    left_out.list_elements += history.list(op.key, list).len().saturating_sub(1);
                }
                let version = seen.map(|value| self.number(op.key, value));
                if known.insert(op.key, version) != Some(version) {
                    events.push(json!({ "Read": { "variable": op.key.0, "version": version } }));
                }
            }
        }
        events
    }

    fn number(&mut self, key: KeyId, value: Value) -> usize {
        if let Some(write) = self.source.writes.find(key, value) {
            return write.index() + 1;
        }
        let next = self.source.writes.len() + self.unwritten.len() + 1;
        *self.unwritten.entry((key, value)).or_insert(next)
    }
}

/// The value that a read saw, a list as its last element, and no value for the initial one; none if the operation is no read
/// of a list or register, or its result is not known.
fn last_seen(source: &Source<'_>, op: &Op) -> Option<Option<Value>> {
    match op.action {
        Action::Read(Seen::Initial) => Some(None),
        Action::Read(Seen::Register(value)) => Some(Some(value)),
        Action::Read(Seen::List(list)) => Some(source.history.list(op.key, list).last().copied()),
        _ => None,
    }
}
