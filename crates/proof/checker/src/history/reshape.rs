//! A history with other contents: the same transactions, in the same order and with the same names, but with
//! chosen outcomes and operations. Speculative levels judge what uncommitted transactions saw by turning each
//! of them into one that committed and wrote nothing.

use std::collections::BTreeMap;

use super::lists::ListRead;
use super::{Action, History, KeyId, ListRef, Op, Outcome, Seen, SetRef, Txn, TxnId, Value};

/// A transaction of the new history.
#[derive(Debug, Clone)]
pub(crate) struct Reshaped {
    /// The transaction that it takes its name, times, session and site from.
    pub(crate) txn: TxnId,
    pub(crate) outcome: Outcome,
    pub(crate) ops: Vec<ReshapedOp>,
}

/// An operation of the new history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReshapedOp {
    /// As it was.
    Same(Op),
    /// A read of a list that returned these elements.
    List(KeyId, Vec<Value>),
    /// A read of a counting set that returned these counts, none of them zero.
    Set(KeyId, BTreeMap<Value, i64>),
}

impl History {
    /// The history of these transactions.
    pub(crate) fn reshape(&self, txns: impl IntoIterator<Item = Reshaped>) -> History {
        let mut history = History {
            keys: self.keys.clone(),
            lists: self.lists.clone(),
            sets: self.sets.clone(),
            facts: self.facts.clone(),
            sessions: self.sessions.clone(),
            sites: self.sites.clone(),
            elements: self.elements.clone(),
            events: self.events,
            txns: Vec::new(),
            ops: Vec::new(),
        };
        for Reshaped { txn, outcome, ops } in txns {
            let ops_start = history.ops.len() as u32;
            for op in ops {
                let op = match op {
                    // It may have stood apart only because the transaction was not acknowledged.
                    ReshapedOp::Same(Op { key, action: Action::Read(Seen::List(list)) }) => {
                        let seen = history.seen_list(key, self.list(key, list));
                        Op { key, action: Action::Read(seen) }
                    }
                    ReshapedOp::Same(op) => op,
                    ReshapedOp::List(key, values) => {
                        let seen = history.seen_list(key, &values);
                        Op { key, action: Action::Read(seen) }
                    }
                    ReshapedOp::Set(key, counts) => {
                        let seen = history.seen_set(&counts);
                        Op { key, action: Action::Read(seen) }
                    }
                };
                history.ops.push(op);
            }
            let ops_end = history.ops.len() as u32;
            let like = self.txn(txn).clone();
            let shape =
                Txn { outcome, observed: false, lost: false, speculation: None, ops_start, ops_end, ..like };
            history.txns.push(shape);
        }
        history
    }

    fn seen_set(&mut self, counts: &BTreeMap<Value, i64>) -> Seen {
        if counts.is_empty() {
            return Seen::Initial;
        }
        let start = self.sets.len() as u32;
        self.sets.extend(counts.iter().map(|(&element, &count)| (element, count)));
        Seen::Set(SetRef { start, len: counts.len() as u32 })
    }

    fn seen_list(&mut self, key: KeyId, values: &[Value]) -> Seen {
        if values.is_empty() {
            return Seen::Initial;
        }
        let read: ListRead = self.lists.add(key, values, true);
        Seen::List(ListRef(read))
    }
}
