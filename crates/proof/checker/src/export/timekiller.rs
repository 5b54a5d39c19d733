//! Histories for TimeKiller, which judges snapshot isolation from the timestamps of servers: a JSON array of
//! committed transactions with the identifiers `tid` and `sid`, a start (`sts`) and a commit timestamp (`cts`)
//! of a physical and a logical part each, and operations.
//!
//! The start timestamp is the fact `rs`, or failing that `ts`; the commit timestamp is `fc`, or failing that
//! `ts`. The two parts of our timestamps become the two parts of theirs.

use std::io::Write;

use serde_json::{Value as Json, json};

use super::{ExportError, LeftOut, Source};
use crate::dependencies::Fate;
use crate::history::{Action, History, KeyType, Op, Seen, Timestamp, Txn};

pub(super) const LIMITS: &[&str] = &[
    "Every transaction needs timestamps of the servers, rs and fc or ts: a history without them cannot be written.",
    "A file holds lists or registers: of a history with both, the type with more keys is written.",
    "Aborted transactions are left out, and so are those of unknown outcome unless a committed one read from them; a \
     read of a left-out write looks like a read of what nobody wrote.",
    "Of a list that was read, TimeKiller looks at the last element only.",
    "Counting sets, sites, spec lines, observed reads of aborted transactions and real time are left out.",
];

pub(super) fn write(
    source: &Source<'_>,
    out: &mut impl Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let history = source.history;
    let key_type = source.main_type()?;
    let mut lines = Vec::new();
    for (txn, fate) in source.txns() {
        if !fate.is_effective() {
            left_out.txns += 1;
            continue;
        }
        let (Some(start), Some(commit)) = stamps(history, txn) else {
            return Err(ExportError::Inexpressible(format!(
                "The transaction of line {} has no timestamps (rs and fc, or ts), and TimeKiller judges by nothing else.",
                txn.invoke + 1
            )));
        };
        left_out.ops += history.ops(txn).iter().filter(|op| !source.fits(op, key_type)).count();
        let ops = history.ops(txn).iter().filter(|op| source.fits(op, key_type));
        let ops: Vec<Json> = ops.filter_map(|op| operation(history, op, fate, key_type)).collect();
        lines.push(json!({
            "tid": txn.invoke,
            "sid": history.session_name(txn.session),
            "sts": stamp(start),
            "cts": stamp(commit),
            "ops": ops,
        }));
    }
    writeln!(out, "[")?;
    for (at, line) in lines.iter().enumerate() {
        writeln!(out, "{line}{}", if at + 1 < lines.len() { "," } else { "" })?;
    }
    writeln!(out, "]")?;
    Ok(())
}

fn stamps(history: &History, txn: &Txn) -> (Option<Timestamp>, Option<Timestamp>) {
    let facts = history.facts(txn);
    let start = facts.and_then(|facts| facts.rs).or(txn.ts);
    let commit = facts.and_then(|facts| facts.fc).or(txn.ts);
    // A transaction that wrote nothing may have no commit timestamp of its own.
    (start.or(commit), commit.or(start))
}

fn stamp(ts: Timestamp) -> Json {
    json!({ "p": ts.time, "l": ts.client })
}

fn operation(history: &History, op: &Op, fate: Fate, key_type: KeyType) -> Option<Json> {
    let key = op.key.0;
    Some(match op.action {
        Action::Append(value) => json!({ "t": "a", "k": key, "v": value }),
        Action::Write(value) => json!({ "t": "w", "k": key, "v": value }),
        Action::Read(_) if fate != Fate::Committed => return None,
        Action::Read(Seen::Register(value)) => json!({ "t": "r", "k": key, "v": value }),
        Action::Read(Seen::List(list)) => json!({ "t": "r", "k": key, "v": history.list(op.key, list) }),
        Action::Read(Seen::Initial) if key_type == KeyType::List => json!({ "t": "r", "k": key, "v": [] }),
        Action::Read(Seen::Initial) => json!({ "t": "r", "k": key, "v": null }),
        Action::Read(Seen::Nothing | Seen::Set(_)) | Action::Add(_) | Action::Remove(_) => return None,
    })
}
