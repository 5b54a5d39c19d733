//! Histories for Elle: operation maps in EDN, as Jepsen writes them (`:type`, `:process`, `:f`, `:time`,
//! `:index` and `:value`, a vector of micro-operations). Elle's `list-append` judges lists, its `rw-register`
//! registers.

use std::io::{self, Write};

use super::{ExportError, LeftOut, Source};
use crate::dependencies::Fate;
use crate::history::{Action, History, Key, KeyType, Op, Outcome, Seen};

pub(super) const LIMITS: &[&str] = &[
    "Lists and registers are judged by different parts of Elle: of a history with both, the type with more keys is \
     written, and operations on other keys are left out.",
    "Counting sets, sites, spec lines, observed reads of aborted transactions and facts that servers told are left out.",
    "Sessions other than the process are left out: Elle takes the process for the session.",
    "A transaction that was lost, and what read from it at its site, is written as failed.",
    "Elle orders a process by its events, so session levels agree only where sessions are processes.",
];

/// One line of the history.
struct Event {
    index: u32,
    txn: usize,
    kind: &'static str,
    time: i64,
}

pub(super) fn write(
    source: &Source<'_>,
    out: &mut impl Write,
    left_out: &mut LeftOut,
) -> Result<(), ExportError> {
    let history = source.history;
    let key_type = source.main_type()?;
    let mut events = Vec::new();
    for (at, (txn, fate)) in source.txns().enumerate() {
        left_out.ops += history.ops(txn).iter().filter(|op| !source.fits(op, key_type)).count();
        events.push(Event { index: txn.invoke, txn: at, kind: "invoke", time: txn.invoked_at });
        let kind = match (txn.outcome, fate) {
            (Outcome::Committed, Fate::Aborted) | (Outcome::Aborted, _) => "fail",
            (Outcome::Committed, _) => "ok",
            (Outcome::Unknown, _) => "info",
        };
        events.extend(txn.completion.map(|index| Event { index, txn: at, kind, time: txn.completed_at }));
    }
    events.sort_unstable_by_key(|event| event.index);
    for (index, event) in events.iter().enumerate() {
        let txn = &history.txns()[event.txn];
        write!(
            out,
            "{{:index {index}, :type :{}, :process {}, :f :txn, :time {}, :value [",
            event.kind, txn.process, event.time
        )?;
        let ops = history.ops(txn).iter().filter(|op| source.fits(op, key_type));
        for (at, op) in ops.enumerate() {
            write!(out, "{}", if at > 0 { " " } else { "" })?;
            write_op(out, history, op, event.kind == "ok", key_type)?;
        }
        writeln!(out, "]}}")?;
    }
    Ok(())
}

fn write_op(
    out: &mut impl Write,
    history: &History,
    op: &Op,
    is_ok: bool,
    key_type: KeyType,
) -> io::Result<()> {
    let (name, value) = match op.action {
        Action::Append(value) => ("append", value.to_string()),
        Action::Write(value) => ("w", value.to_string()),
        Action::Read(seen) if is_ok => ("r", seen_text(history, op, seen, key_type)),
        Action::Read(_) | Action::Add(_) | Action::Remove(_) => ("r", "nil".to_string()),
    };
    write!(out, "[:{name} {} {value}]", key(history.key(op.key)))
}

fn seen_text(history: &History, op: &Op, seen: Seen, key_type: KeyType) -> String {
    match seen {
        Seen::Register(value) => value.to_string(),
        Seen::List(list) => {
            let values: Vec<String> = history.list(op.key, list).iter().map(i64::to_string).collect();
            format!("[{}]", values.join(" "))
        }
        Seen::Initial if key_type == KeyType::List => "[]".to_string(),
        Seen::Initial | Seen::Nothing | Seen::Set(_) => "nil".to_string(),
    }
}

/// A key in EDN, whose strings escape as Java's do.
fn key(key: &Key) -> String {
    let text = match key {
        Key::Int(key) => return key.to_string(),
        Key::Text(text) => text,
    };
    let mut escaped = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\t' => escaped.push_str("\\t"),
            '\r' => escaped.push_str("\\r"),
            character if character.is_control() => escaped.push_str(&format!("\\u{:04x}", character as u32)),
            character => escaped.push(character),
        }
    }
    escaped + "\""
}
