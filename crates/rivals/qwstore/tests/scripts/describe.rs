//! Messages and events in a few words.

use quorate_core::command::{Event, Failure};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClientId, Timestamp, TransactionId, Value};
use quorate_ir::{Cursor, Message as Ir, RecordPage};
use quorate_qwstore::message::{Put, StatePage};
use quorate_qwstore::{Message, QwStore};

pub(crate) fn client(id: ClientId) -> String {
    format!("c{}", id.0)
}

fn transaction(id: TransactionId) -> String {
    format!("{}.{}", client(id.client), id.sequence)
}

/// The name of a put.
fn put_id(id: TransactionId) -> String {
    format!("{}#{}", client(id.client), id.sequence)
}

pub(crate) fn at(timestamp: Timestamp) -> String {
    if timestamp.client == ClientId(0) {
        timestamp.micros.to_string()
    } else {
        format!("{}{}", timestamp.micros, client(timestamp.client))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn value(value: Option<&Value>) -> String {
    value.map_or("nothing".to_owned(), |value| text(value))
}

fn put(id: TransactionId, put: &Put) -> String {
    format!("{} {}={} at {}", put_id(id), text(&put.key), value(put.value.as_ref()), at(put.timestamp))
}

fn version(found: &KeyVersion) -> String {
    format!("{}={}@{}", text(&found.key), value(found.value.as_ref()), at(found.version))
}

fn versions(found: &[KeyVersion]) -> String {
    let found: Vec<String> = found.iter().map(version).collect();
    format!("[{}]", found.join(" "))
}

fn cursors(cursors: &[Cursor]) -> String {
    let cursors: Vec<String> = cursors.iter().map(|(_, id)| put_id(*id)).collect();
    format!("[{}]", cursors.join(" "))
}

fn page(page: &RecordPage<QwStore>) -> String {
    let entry = |(id, entries): &(TransactionId, quorate_ir::OperationEntries<QwStore>)| {
        entries.inconsistent.as_ref().map_or("nothing".to_owned(), |entry| put(*id, &entry.operation))
    };
    let entries: Vec<String> = page.entries.iter().map(entry).collect();
    format!("[{}]", entries.join(", "))
}

fn state(state: Option<&StatePage>) -> String {
    state.map_or(String::new(), |state| format!(" with state {}", versions(&state.versions)))
}

fn ir(message: &Ir<QwStore>) -> String {
    match message {
        Ir::ProposeInconsistent { id, operation } => format!("PUT {}", put(id.transaction, operation)),
        Ir::InconsistentReply { id, view } => format!("recorded {} in {view}", put_id(id.transaction)),
        Ir::ProposeConsensus { operation, .. } => match *operation {},
        Ir::ConsensusReply { verdict, .. } | Ir::FinalizeConsensus { verdict, .. } => match *verdict {},
        Ir::FinalizeInconsistent { id } | Ir::Confirm { id, .. } => {
            unreachable!("{id}: puts need no FINALIZE")
        }
        Ir::HigherView { view } => format!("higher view {view}"),
        Ir::StartViewChange { view } => format!("START-VIEW-CHANGE {view}"),
        Ir::DoViewChange { view, last_normal, page: tail, .. } => {
            let last = last_normal.map_or("nothing".to_owned(), |view| view.to_string());
            format!("DO-VIEW-CHANGE {view}, last normal {last}: {}", page(tail))
        }
        Ir::StartView { view, page: base, state: known, .. } => {
            format!("START-VIEW {view}: {}{}", page(base), state(known.as_ref()))
        }
        Ir::PartsMissing { view, missing, .. } => format!("parts missing of {view}: {missing:?}"),
        Ir::StateWanted { view, after, .. } => format!("state wanted of {view} after {after:?}"),
        Ir::StatePage { view, state: page, to, .. } => {
            format!("state of {view}{}, to {to:?}", state(Some(page)))
        }
        Ir::Arrived => unreachable!("its groups never change"),
        Ir::ViewQuery { life: 0, .. } => "which life is this?".to_owned(),
        Ir::ViewQuery { life, .. } => format!("life {life}; which view?"),
        Ir::ViewQueryReply { view, lost, life, .. } => {
            format!("{view}, your life {life}{}", if *lost { ", my records are lost" } else { "" })
        }
    }
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Read { transaction: id, key } => format!("READ {} {}", transaction(*id), text(key)),
        Message::ReadReply { transaction: id, key, version, value: found } => {
            format!("{} {} is {} @{}", transaction(*id), text(key), value(found.as_ref()), at(*version))
        }
        Message::Scan { transaction: id, range, limit, .. } => {
            format!("SCAN {} {range:?} limit {limit}", transaction(*id))
        }
        Message::ScanReply { transaction: id, keys, next, .. } => {
            let next = next.as_ref().map_or(String::new(), |next| format!(", next {}", text(next)));
            format!("{} found {}{next}", transaction(*id), versions(keys))
        }
        Message::Ir(message) => ir(message),
        Message::Late { put, refusal, clock } => {
            format!("late {}: below {}, and it is {}", put_id(*put), at(*refusal), clock.as_micros())
        }
        Message::ClockAhead { put, ahead_micros, .. } => {
            format!("{} is {ahead_micros} µs ahead", put_id(*put))
        }
        Message::Gather { floor, below, .. } => format!("GATHER from {} to {}", at(*floor), at(*below)),
        Message::GatherReply { below, held, next, .. } => {
            let more = if next.is_some() { " and more" } else { "" };
            format!("below {} I hold {}{more}", at(*below), cursors(held))
        }
        Message::FetchPuts { puts } => {
            format!("FETCH {}", puts.iter().map(|id| put_id(*id)).collect::<Vec<_>>().join(" "))
        }
        Message::Puts { puts } => {
            format!("TAKE {}", puts.iter().map(|(id, known)| put(*id, known)).collect::<Vec<_>>().join(", "))
        }
        Message::Complete { below, .. } => format!("COMPLETE below {}", at(*below)),
        Message::CompleteReply { below, .. } => format!("complete below {}", at(*below)),
        Message::RaiseFloor { floor } => format!("RAISE-FLOOR {}", at(*floor)),
        Message::Outdated => "outdated".to_owned(),
    }
}

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Executed { transaction: id, .. } => format!("{} has no one round", transaction(*id)),
        Event::Milestone { transaction: id, .. } => format!("{} has no milestones", transaction(*id)),
        Event::Begun { transaction: id, .. } | Event::Shown { transaction: id, .. } => {
            format!("{} is not speculated with", transaction(*id))
        }
        Event::Marked { transaction: id, .. } => format!("{} has no versions in flight", transaction(*id)),
        Event::Outdated { keyspace } => format!("{keyspace} has changed"),
        Event::Got { transaction: id, key, value: found } => {
            format!("{} got {} = {}", transaction(*id), text(key), value(found.as_ref()))
        }
        Event::Scanned { transaction: id, entries, next } => {
            let entry = |(key, found): &(quorate_core::Key, Value)| format!("{}={}", text(key), text(found));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            let next = next.as_ref().map_or(String::new(), |next| format!(", next {}", text(next)));
            format!("{} scanned [{}]{next}", transaction(*id), entries.join(" "))
        }
        Event::Finished { transaction: id, result } => match result {
            Ok(committed) => {
                let slow = if committed.fast { "" } else { ", without some replicas" };
                let anew = if committed.retries == 0 {
                    String::new()
                } else {
                    format!(", {} put anew", committed.retries)
                };
                format!("{} COMMITTED, not before {}{slow}{anew}", transaction(*id), at(committed.timestamp))
            }
            Err(failure) => format!("{} {}", transaction(*id), failed(failure)),
        },
        Event::Set { transaction: id, .. } | Event::Located { transaction: id, .. } => {
            format!("{} has neither sets nor containers", transaction(*id))
        }
        Event::Forgotten { transaction: id } => format!("{} is not known", transaction(*id)),
        Event::Resolved { transaction: id, outcome } => format!("{} is {outcome:?}", transaction(*id)),
        Event::Disagreement { transaction: id, .. } => {
            format!("{} has no shards that agree", transaction(*id))
        }
    }
}

fn failed(failure: &Failure) -> String {
    match failure {
        Failure::Conflict => "CONFLICT".to_owned(),
        Failure::Aborted => "ABORTED".to_owned(),
        Failure::BelowZero => "BELOW ZERO".to_owned(),
        Failure::HistoryAbandoned { shard } => format!("{shard} ABANDONED"),
        Failure::TooOld { .. } => "TOO OLD".to_owned(),
        Failure::Unavailable { missing } => format!("UNAVAILABLE: {missing:?}"),
        Failure::Unknown { participants } => format!("UNKNOWN: {participants:?}"),
        Failure::Invalid(invalid) => format!("INVALID: {invalid}"),
    }
}
