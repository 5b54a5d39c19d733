//! Messages, entries and events in a few words.

use quorate_baselines::message::{Age, Standing, Wanted};
use quorate_baselines::{Entry, Message};
use quorate_core::command::{Event, Failure, Outcome};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClientId, ReadVersion, ShardId, Timestamp, Transaction, TransactionId, View};

pub(super) fn client(id: ClientId) -> String {
    if id.0 == u64::MAX { "∞".to_owned() } else { format!("c{}", id.0) }
}

pub(super) fn transaction(id: TransactionId) -> String {
    format!("{}.{}", client(id.client), id.sequence)
}

pub(super) fn at(timestamp: Timestamp) -> String {
    if timestamp.client == ClientId(0) {
        timestamp.micros.to_string()
    } else {
        format!("{}{}", timestamp.micros, client(timestamp.client))
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn value(value: Option<&bytes::Bytes>) -> String {
    value.map_or("nothing".to_owned(), |value| text(value))
}

fn contents(transaction: &Transaction) -> String {
    let mut words = Vec::new();
    let read = |read: &ReadVersion| format!("r({}@{})", text(&read.key), at(read.version));
    words.extend(transaction.reads.iter().map(read));
    words.extend(transaction.ranges.iter().map(|range| format!("s{range:?}")));
    words.extend(
        transaction.writes.iter().map(|w| format!("w({}={})", text(&w.key), value(w.value.as_ref()))),
    );
    words.join(" ")
}

pub(super) fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Committed(timestamp) => format!("committed at {}", at(timestamp)),
        Outcome::Aborted => "aborted".to_owned(),
    }
}

fn standing(standing: Standing) -> String {
    match standing {
        Standing::Prepared(timestamp) => format!("prepared at {}", at(timestamp)),
        Standing::Ended(ended) => outcome(ended),
        Standing::TooOld { clock } => format!("too old, the clock says {}", clock.as_micros()),
        Standing::Forgotten { clock } => format!("forgotten, the clock says {}", clock.as_micros()),
    }
}

fn found(keys: &[KeyVersion]) -> String {
    let one = |found: &KeyVersion| {
        format!("{} is {} @{}", text(&found.key), value(found.value.as_ref()), at(found.version))
    };
    keys.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn locks(lock: Option<Timestamp>) -> String {
    lock.map_or(String::new(), |age| format!(", locking since {}", at(age)))
}

fn locked(locked_in: Option<View>) -> String {
    locked_in.map_or(String::new(), |view| format!(", locked in {view}"))
}

fn shards(participants: &[ShardId]) -> String {
    participants.iter().map(|shard| shard.0.to_string()).collect::<Vec<_>>().join(",")
}

pub(super) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Prepared(prepared) => format!(
            "PREPARED {} {} at {}",
            transaction(prepared.transaction),
            contents(&prepared.part),
            at(prepared.timestamp)
        ),
        Entry::Refused { transaction: id, until, .. } => {
            format!("REFUSED {} up to {}", transaction(*id), at(*until))
        }
        Entry::Decided { transaction: id, outcome: fate } => {
            format!("DECIDED {} {}", transaction(*id), outcome(*fate))
        }
        Entry::Floor { floor, forgotten } => {
            format!("FLOOR {}, forgotten below {}", at(*floor), at(*forgotten))
        }
        Entry::Ceiling(ceiling) => format!("CEILING {}", at(*ceiling)),
    }
}

pub(super) fn message(message: &Message) -> String {
    let name = |id: &TransactionId| transaction(*id);
    match message {
        Message::Read { transaction: id, key, lock } => {
            format!("READ {} {}{}", name(id), text(key), locks(*lock))
        }
        Message::ReadReply { transaction: id, key, version, value: held, locked_in } => {
            let (held, locked) = (value(held.as_ref()), locked(*locked_in));
            format!("{} {} is {held} @{}{locked}", name(id), text(key), at(*version))
        }
        Message::Scan { transaction: id, range, limit, lock, .. } => {
            format!("SCAN {} {range:?} limit {limit}{}", name(id), locks(*lock))
        }
        Message::ScanReply { transaction: id, keys, next, locked_in, .. } => {
            let next = next.as_ref().map_or("the end".to_owned(), |next| text(next));
            format!("{} [{}] up to {next}{}", name(id), found(keys), locked(*locked_in))
        }
        Message::Release { transaction: id } => format!("RELEASE {}", name(id)),
        Message::Wounded { transaction: id } => format!("WOUNDED {}", name(id)),
        Message::NextTimestamp { transaction: id, above } => {
            format!("NEXT-TIMESTAMP {} above {}", name(id), at(*above))
        }
        Message::NextTimestampReply { transaction: id, timestamp } => {
            format!("{} is given {}", name(id), at(*timestamp))
        }
        Message::Coordinate { transaction: id, parts, proposed } => {
            let parts: Vec<String> = parts.iter().map(|part| contents(part)).collect();
            format!("COORDINATE {} {} at {}", name(id), parts.join(" | "), at(*proposed))
        }
        Message::CoordinateReply { transaction: id, standing: how } => {
            format!("{} {}", name(id), standing(*how))
        }
        Message::Prepare { transaction: id, part, proposed, locked_in, .. } => {
            let locked = locked(*locked_in);
            format!("PREPARE {} {} at {}{locked}", name(id), contents(part), at(*proposed))
        }
        Message::PrepareReply { transaction: id, standing: how } => {
            format!("{} {}", name(id), standing(*how))
        }
        Message::Validate { transaction: id, part, locked_in, at: timestamp } => {
            let timestamp = timestamp.map_or(String::new(), |timestamp| format!(" at {}", at(timestamp)));
            format!("VALIDATE {} {}{timestamp}{}", name(id), contents(part), locked(*locked_in))
        }
        Message::ReadAt { transaction: id, wanted, at: timestamp } => {
            let wanted = match wanted {
                Wanted::Keys(keys) => keys.iter().map(|key| text(key)).collect::<Vec<_>>().join(" "),
                Wanted::Range(range, limit) => format!("{range:?} limit {limit}"),
            };
            format!("READ-AT {} {wanted} at {}", name(id), at(*timestamp))
        }
        Message::ReadAtReply { transaction: id, found: keys, next } => {
            let next = next.as_ref().map_or(String::new(), |next| format!(" up to {}", text(next)));
            format!("{} [{}]{next}", name(id), found(keys))
        }
        Message::SnapshotTooOld { transaction: id, oldest } => {
            format!("{} is too old, {} can be read", name(id), at(*oldest))
        }
        Message::ValidateReply { transaction: id, is_valid } => {
            format!("{} is {}", name(id), if *is_valid { "valid" } else { "stale" })
        }
        Message::ReadCurrent { transaction: id, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
            format!("READ-CURRENT {} {}", name(id), keys.join(" "))
        }
        Message::ReadCurrentReply { transaction: id, found: keys, timestamp } => {
            format!("{} [{}] at {}", name(id), found(keys), at(*timestamp))
        }
        Message::Decide { transaction: id, outcome: fate } => {
            format!("DECIDE {} {}", name(id), outcome(*fate))
        }
        Message::Inquire { transaction: id, participants, age } => {
            let age = match age {
                Age::Proposed(timestamp) => format!("proposed at {}", at(*timestamp)),
                Age::NotBefore(timestamp) => format!("not before {}", at(*timestamp)),
            };
            format!("INQUIRE {} of {}, {age}", name(id), shards(participants))
        }
        Message::InquireReply { transaction: id, standing: how } => {
            format!("{} {}", name(id), standing(*how))
        }
        Message::NotLeading { transaction: id, leader } => format!("{}: {leader} leads", name(id)),
        Message::AskFloor => "ASK-FLOOR".to_owned(),
        Message::AskFloorReply { floor } => format!("floor is {}", at(*floor)),
    }
}

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Got { transaction: id, key, value: got } => {
            format!("{} got {} = {}", transaction(*id), text(key), value(got.as_ref()))
        }
        Event::Scanned { transaction: id, entries, next } => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
            let next = next.as_ref().map_or("the end".to_owned(), |next| text(next));
            format!("{} scanned [{}] up to {next}", transaction(*id), entries.join(" "))
        }
        Event::Finished { transaction: id, result } => {
            let result = match result {
                Ok(committed) => format!("COMMITTED at {}", at(committed.timestamp)),
                Err(Failure::Conflict) => "CONFLICT".to_owned(),
                Err(Failure::Aborted) => "ABORTED".to_owned(),
                Err(Failure::BelowZero) => "BELOW ZERO".to_owned(),
                Err(Failure::HistoryAbandoned { shard }) => format!("{shard} ABANDONED"),
                Err(Failure::TooOld { .. }) => "TOO OLD".to_owned(),
                Err(Failure::Unavailable { missing }) => format!("UNAVAILABLE, missing {missing:?}"),
                Err(Failure::Unknown { participants }) => format!("UNKNOWN, participants {participants:?}"),
                Err(Failure::Invalid(invalid)) => format!("INVALID: {invalid}"),
            };
            format!("{} {result}", transaction(*id))
        }
        Event::Set { transaction: id, .. } | Event::Located { transaction: id, .. } => {
            format!("{} has neither sets nor containers", transaction(*id))
        }
        Event::Forgotten { transaction: id } => format!("{} is forgotten", transaction(*id)),
        Event::Resolved { transaction: id, outcome: fate } => {
            let fate = fate.map_or("unknown".to_owned(), outcome);
            format!("{} resolved: {fate}", transaction(*id))
        }
        Event::Begun { transaction: id, .. } | Event::Shown { transaction: id, .. } => {
            format!("{} is not speculated with", transaction(*id))
        }
        Event::Marked { transaction: id, .. } => format!("{} has no versions in flight", transaction(*id)),
        Event::Executed { transaction: id, .. } => format!("{} has no one round", transaction(*id)),
        Event::Milestone { transaction: id, .. } => format!("{} has no milestones", transaction(*id)),
        Event::Outdated { keyspace } => format!("{keyspace} is outdated"),
        Event::Disagreement { transaction: id, .. } => {
            format!("{} has no shards that agree", transaction(*id))
        }
    }
}
