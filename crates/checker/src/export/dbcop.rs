//! Histories for dbcop: the JSON of its command line. Sessions are arrays of transactions, these have `events`,
//! reads and writes of numbered versions of numbered variables, and say whether they `committed`.
//!
//! A list is written as a register that holds the last element: an append is a write, and a read sees the last
//! element. Versions are numbered over the whole history, as dbcop demands.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::{Value as Json, json};

use super::{ExportError, LeftOut, Source};
use crate::dependencies::Fate;
use crate::history::{Action, KeyId, KeyType, Op, Outcome, Seen, Session, Txn, Value};

pub(super) const LIMITS: &[&str] = &[
    "There is no real time: compare with serializable, si and causal, never with strict-serializable or strong-si.",
    "All of dbcop's levels have session order: compare with session-serializable and session-si. Transactions of one \
     session that overlap are written as separate sessions.",
    "A list becomes a register that holds its last element: a wrong order of earlier elements is not seen.",
    "Operations on counting sets, sites, spec lines, observed reads of aborted transactions and facts that servers \
     told are left out.",
    "Transactions of unknown outcome are left out, unless a committed one read what they wrote.",
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
    let mut versions = Versions { source, unwritten: BTreeMap::new() };
    for (txn, fate) in source.txns() {
        if fate == Fate::Dropped {
            left_out.txns += 1;
            continue;
        }
        let events: Vec<Json> =
            history.ops(txn).iter().filter_map(|op| versions.event(op, txn, fate, left_out)).collect();
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
    /// Values that were read and that nobody wrote.
    unwritten: BTreeMap<(KeyId, Value), usize>,
}

impl Versions<'_> {
    /// An operation as an event; none for what the format has no place for.
    fn event(&mut self, op: &Op, txn: &Txn, fate: Fate, left_out: &mut LeftOut) -> Option<Json> {
        if self.source.history.key_type(op.key) == Some(KeyType::CountingSet) {
            left_out.ops += 1;
            return None;
        }
        let variable = op.key.0;
        let version = match op.action {
            Action::Append(value) | Action::Write(value) => {
                return Some(
                    json!({ "Write": { "variable": variable, "version": self.number(op.key, value) } }),
                );
            }
            _ if txn.outcome != Outcome::Committed || fate != Fate::Committed => return None,
            Action::Read(Seen::Initial) => None,
            Action::Read(Seen::Register(value)) => Some(self.number(op.key, value)),
            Action::Read(Seen::List(list)) => {
                let values = self.source.history.list(op.key, list);
                left_out.list_elements += values.len().saturating_sub(1);
                values.last().map(|&value| self.number(op.key, value))
            }
            _ => return None,
        };
        Some(json!({ "Read": { "variable": variable, "version": version } }))
    }

    fn number(&mut self, key: KeyId, value: Value) -> usize {
        if let Some(write) = self.source.writes.find(key, value) {
            return write.index() + 1;
        }
        let next = self.source.writes.len() + self.unwritten.len() + 1;
        *self.unwritten.entry((key, value)).or_insert(next)
    }
}
