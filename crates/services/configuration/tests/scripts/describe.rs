//! Messages, entries and events in a few words.

use quorate_configuration::message::{Compare, ConditionalWrite, Consistency};
use quorate_configuration::{Change, Entry, KeyState, Message, Page, Stored, SubscriberEvent, WriteResult};
use quorate_core::command::{Event, Outcome};
use quorate_core::{Key, Timestamp, TransactionId};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn transaction(id: TransactionId) -> String {
    let attempt = if id.attempt == 0 { String::new() } else { format!("/{}", id.attempt) };
    format!("c{}.{}{attempt}", id.client.0, id.sequence)
}

pub(super) fn holds(key: &[u8], stored: Option<&Stored>) -> String {
    match stored {
        Some(stored) => {
            let bound = stored.lease.map_or(String::new(), |lease| format!(" under {lease}"));
            format!("{} = {} {}{bound}", text(key), text(&stored.value), stored.changed)
        }
        None => format!("{} is absent", text(key)),
    }
}

fn state(known: &KeyState) -> String {
    holds(&known.key, known.stored.as_ref())
}

fn list<T>(all: &[T], one: impl FnMut(&T) -> String) -> String {
    all.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn freshness(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Linearizable => "",
        Consistency::Stale => " (stale)",
    }
}

fn write(write: &ConditionalWrite) -> String {
    let mut words: Vec<String> = write
        .puts
        .iter()
        .map(|put| {
            format!(
                "{}={}{}",
                text(&put.key),
                put.value.as_ref().map_or("nothing".to_owned(), |value| text(value)),
                put.lease.map_or(String::new(), |lease| format!(" under {lease}"))
            )
        })
        .collect();
    words.extend(write.compares.iter().map(condition));
    words.join(" ")
}

fn condition(compare: &Compare) -> String {
    match compare {
        Compare::Key { key, changed: Some(changed) } => format!("if {} {changed}", text(key)),
        Compare::Key { key, changed: None } => format!("if {} is absent", text(key)),
        Compare::Range { range, after, keys } if after.0 == u64::MAX => format!("if {range:?} has {keys}"),
        Compare::Range { range, after, keys } => format!("if {range:?} has {keys} up to {after}"),
    }
}

fn result(result: WriteResult) -> String {
    match result {
        WriteResult::Written { revision } => format!("written {revision}"),
        WriteResult::NotHeld { revision, compare } => {
            format!("condition {compare} does not hold at {revision}")
        }
        other => format!("{other:?}"),
    }
}

fn change(change: &Change) -> String {
    format!("{}, {}", change.revision, list(&change.keys, state))
}

pub(super) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Write { transaction: id, write: what, .. } => {
            format!("WRITE {} {}", transaction(*id), write(what))
        }
        Entry::Settle { transaction: id, .. } => format!("SETTLE {}", transaction(*id)),
        Entry::Grant { lease, duration } => format!("GRANT {lease} for {duration:?}"),
        Entry::End { lease } => format!("END {lease}"),
    }
}

pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Get { keys, consistency, .. } => {
            format!("GET {}{}", list(keys, |key| text(key)), freshness(*consistency))
        }
        Message::GetReply { revision, found, .. } => format!("{revision}: {}", list(found, state)),
        Message::Scan { range, consistency, .. } => format!("SCAN {range:?}{}", freshness(*consistency)),
        Message::ScanReply { revision, found, .. } => {
            format!("{revision}: [{}]", list(found, |(key, stored)| holds(key, Some(stored))))
        }
        Message::Check { .. } => "CHECK".to_owned(),
        Message::CheckReply { revision, holds, .. } => format!("{holds} at {revision}"),
        Message::Write { transaction: id, write: what, .. } => {
            format!("WRITE {} {}", transaction(*id), write(what))
        }
        Message::Settle { transaction: id, .. } => format!("SETTLE {}", transaction(*id)),
        Message::WriteReply { result: what, .. } => result(*what),
        Message::Grant { lease, duration, .. } => format!("GRANT {lease} for {duration:?}"),
        Message::Renew { lease, .. } => format!("RENEW {lease}"),
        Message::Renewed { lease, .. } => format!("{lease} is renewed"),
        Message::Release { lease, .. } => format!("RELEASE {lease}"),
        Message::NoSuchLease { lease, .. } => format!("there is no {lease}"),
        Message::Watch { range, after, .. } => format!("WATCH {range:?} after {after}"),
        Message::Unwatch { .. } => "UNWATCH".to_owned(),
        Message::Changes { after, until, changes, .. } => {
            let changes: Vec<String> = changes.iter().map(|known| format!(": {}", change(known))).collect();
            format!("changes after {after} up to {until}{}", changes.concat())
        }
        Message::Forgotten { forgotten, .. } => format!("changes up to {forgotten} are forgotten"),
        Message::NotLeading { leader, .. } => format!("{leader} leads"),
        Message::Refused { refusal, .. } => format!("refused: {refusal:?}"),
    }
}

/// The number of a question, and everything that goes along with it.
pub(super) fn in_full(said: &Message) -> String {
    let more = match said {
        Message::Scan { limit, .. } => format!(", {limit} at most"),
        Message::Check { compares, .. } => {
            compares.iter().map(|one| format!(" {}", condition(one))).collect()
        }
        Message::Write { since, .. } | Message::Settle { since, .. } => format!(", since {since}"),
        Message::GetReply { position, .. }
        | Message::CheckReply { position, .. }
        | Message::WriteReply { position, .. } => format!(", at {position}"),
        Message::ScanReply { position, next, .. } => format!(", at {position}{}", goes_on(next.as_ref())),
        Message::Changes { has_more: true, .. } => ", and more".to_owned(),
        _ => String::new(),
    };
    format!("#{} {}{more}", said.request(), message(said))
}

fn goes_on(next: Option<&Key>) -> String {
    next.map_or(String::new(), |next| format!(", goes on from {}", text(next)))
}

/// A part of a state.
pub(super) fn page(page: &Page) -> String {
    match page {
        Page::Revisions { revision, forgotten } => format!("{revision}, forgotten up to {forgotten}"),
        Page::Keys(keys) => list(keys, |(key, stored)| holds(key, Some(stored))),
        Page::Changes(changes) => list(changes, |one| change(one)),
        Page::Leases(leases) => list(leases, |(lease, lasts)| format!("{lease} lasts {lasts:?}")),
        Page::Clients(page) => {
            let clients = list(&page.clients, |client| {
                let results = client.results.iter();
                let results = results
                    .map(|(sequence, done)| format!(" {sequence}/{}: {}", done.attempt, result(done.result)));
                format!(
                    "c{} used {} since {}{}",
                    client.client.0,
                    client.used,
                    client.since,
                    results.collect::<String>()
                )
            });
            format!("clients, forgotten until {}: {clients}", page.forgotten_until)
        }
    }
}

pub(super) fn coordinator_event(event: &Event) -> String {
    match event {
        Event::Got { transaction: id, key, value } => {
            let value = value.as_ref().map_or("nothing".to_owned(), |value| text(value));
            format!("{} got {} = {value}", transaction(*id), text(key))
        }
        Event::Finished { transaction: id, result: Ok(committed) } => {
            let Timestamp { micros, client } = committed.timestamp;
            // A read-only transaction comes after the write whose revision this is.
            let reader = if client == id.client { String::new() } else { format!(" as {:x}", client.0) };
            format!("{} COMMITTED @{micros}{reader}", transaction(*id))
        }
        Event::Finished { transaction: id, result: Err(failure) } => {
            format!("{} {failure:?}", transaction(*id))
        }
        Event::Scanned { transaction: id, entries, next } => {
            let entries = list(entries, |(key, value)| format!("{} = {}", text(key), text(value)));
            format!("{} scanned [{entries}]{}", transaction(*id), goes_on(next.as_ref()))
        }
        Event::Resolved { transaction: id, outcome } => {
            let outcome = match outcome {
                Some(Outcome::Committed(at)) => format!("committed @{}", at.micros),
                Some(Outcome::Aborted) => "aborted".to_owned(),
                None => "not known".to_owned(),
            };
            format!("{} is resolved: {outcome}", transaction(*id))
        }
        Event::Outdated { keyspace } => format!("{keyspace} is outdated"),
        other => format!("{other:?}"),
    }
}

pub(super) fn subscriber_event(event: &SubscriberEvent) -> String {
    match event {
        SubscriberEvent::Loaded { watch, revision } => format!("watch {watch}: loaded {revision}"),
        SubscriberEvent::Changed { watch, change: what } => format!("watch {watch}: {}", change(what)),
        SubscriberEvent::Held { number, until } => format!("lease {number} is held until {until:?}"),
        SubscriberEvent::Lost { number, refusal } => {
            format!("lease {number} is lost{}", refusal.map_or(String::new(), |why| format!(": {why:?}")))
        }
        SubscriberEvent::Written { transaction: id, result: Ok(what) } => {
            format!("{} {}", transaction(*id), result(*what))
        }
        SubscriberEvent::Written { transaction: id, result: Err(why) } => {
            format!("{} is not known to be written: {why:?}", transaction(*id))
        }
    }
}
