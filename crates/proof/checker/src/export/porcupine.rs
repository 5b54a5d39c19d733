//! Histories for Porcupine, a linearizability checker that is a Go library: one JSON object per transaction
//! with what its `Operation` wants to know, `client`, `call`, `return`, `input` and `output`.
//!
//! The model is the whole database: a transaction is one operation on it. `call` and `return` are the indices
//! of the lines, which are all different, so that no two events tie; the times in nanoseconds stand beside
//! them. A `return` of null means that the transaction may take effect at any later time, and never: give it
//! the largest time there is, and let the model accept any output. Aborted transactions are not written.

use std::io::Write;

use serde_json::{Value, json};

use super::{ExportError, LeftOut, Source};
use crate::dependencies::Fate;
use crate::history::{Action, History, Key, Op, Outcome, Seen, Spelled};

pub(super) const LIMITS: &[&str] = &[
    "Linearizability of transactions is strict serializability: no weaker level can be judged.",
    "Aborted transactions are left out, so a read of what they wrote looks like a read of what nobody wrote.",
    "Sites, sessions, spec lines, observed reads of aborted transactions and facts that servers told are left out.",
    "A transaction that was lost, and what read from it at its site, counts as aborted.",
    "The search is exponential in the number of transactions that overlap.",
];

pub(super) fn write(
    source: &Source<'_>,
    out: &mut impl Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let history = source.history;
    for (txn, fate) in source.txns() {
        if fate == Fate::Aborted {
            left_out.txns += 1;
            continue;
        }
        let is_known = txn.outcome == Outcome::Committed;
        let ops = history.ops(txn);
        let input: Vec<Value> = ops.iter().map(|op| operation(history, op, false)).collect();
        let output: Option<Vec<Value>> =
            is_known.then(|| ops.iter().map(|op| operation(history, op, true)).collect());
        let line = json!({
            "client": txn.process,
            "call": txn.invoke,
            "return": txn.completion.filter(|_| is_known),
            "call_time": txn.invoked_at,
            "return_time": is_known.then_some(txn.completed_at),
            "input": input,
            "output": output,
        });
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// A micro-operation as in our own format; a read carries its result only in outputs.
fn operation(history: &History, op: &Op, is_output: bool) -> Value {
    let key = match history.key(op.key) {
        Key::Int(key) => json!(key),
        Key::Text(key) => json!(key),
    };
    match op.action {
        Action::Append(value) => json!(["append", key, value]),
        Action::Write(value) => json!(["w", key, value]),
        Action::Add(value) => json!(["add", key, element(history, value)]),
        Action::Remove(value) => json!(["rem", key, element(history, value)]),
        Action::Read(seen) if is_output => json!(["r", key, result(history, op, seen)]),
        Action::Read(_) => json!(["r", key, null]),
    }
}

/// An element of a counting set as the history spells it.
fn element(history: &History, element: crate::history::Value) -> Value {
    match history.element(element) {
        Spelled::Number(number) => json!(number),
        Spelled::Text(text) => json!(text),
    }
}

fn result(history: &History, op: &Op, seen: Seen) -> Value {
    match seen {
        Seen::Nothing | Seen::Initial => Value::Null,
        Seen::Register(value) => json!(value),
        Seen::List(list) => json!(history.list(op.key, list)),
        Seen::Set(set) => {
            let counts = history
                .set(set)
                .iter()
                .map(|&(element, count)| (history.element(element).to_string(), json!(count)));
            Value::Object(counts.collect())
        }
    }
}
