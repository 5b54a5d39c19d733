//! Messages, entries and events in a few words.

use quorate_core::command::{Event, Failure, Outcome};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Key, TransactionId, Value, Write};
use quorate_str::message::{Ending, Found, Holder, Refusal, Unreadable, Wanted};
use quorate_str::{Entry, Message, ReplicaEvent};

pub(crate) fn transaction(id: TransactionId) -> String {
    let attempt = if id.attempt == 0 { String::new() } else { format!("/{}", id.attempt) };
    format!("c{}.{}{attempt}", id.client.0, id.sequence)
}

fn transactions(ids: &[TransactionId]) -> String {
    ids.iter().map(|id| transaction(*id)).collect::<Vec<_>>().join(" ")
}

/// A key without the tag that takes it to its shard.
pub(crate) fn text(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(key).into_owned();
    text.split_once('}').map_or(text.clone(), |(_, word)| word.to_owned())
}

pub(crate) fn value(value: Option<&Value>) -> String {
    value.map_or("nothing".to_owned(), |value| String::from_utf8_lossy(value).into_owned())
}

fn at(time: ClockTime) -> String {
    format!("@{}", time.as_micros())
}

fn version(version: &KeyVersion) -> String {
    let value = value(version.value.as_ref());
    match version.version.micros {
        0 => format!("{}={value}", text(&version.key)),
        micros => format!("{}={value}@{micros}", text(&version.key)),
    }
}

fn wanted(wanted: &[Wanted]) -> String {
    let wanted = wanted.iter().map(|wanted| match wanted {
        Wanted::Key(key) => text(key),
        Wanted::Range { range, limit } => {
            let to = range.to.as_ref().map_or(String::new(), |to| text(to));
            format!("{limit} of {}..{to}", text(&range.from))
        }
    });
    wanted.collect::<Vec<_>>().join(" ")
}

fn found(found: &[Found]) -> String {
    let found = found.iter().map(|found| match found {
        Found::Key(one) => version(one),
        Found::Range { keys, next } => {
            let next = next.as_ref().map_or(String::new(), |next| format!(" … {}", text(next)));
            format!("[{}{next}]", keys.iter().map(version).collect::<Vec<_>>().join(" "))
        }
    });
    found.collect::<Vec<_>>().join(" ")
}

fn writes(writes: &[Write]) -> String {
    let write = |write: &Write| format!("{}={}", text(&write.key), value(write.value.as_ref()));
    writes.iter().map(write).collect::<Vec<_>>().join(" ")
}

fn keys<'a>(keys: impl IntoIterator<Item = &'a Key>) -> String {
    keys.into_iter().map(|key| text(key)).collect::<Vec<_>>().join(" ")
}

fn readers(readers: &[(Key, ClockTime)]) -> String {
    let readers = readers.iter().map(|(key, time)| format!(", {} read {}", text(key), at(*time)));
    readers.collect()
}

fn holders(holders: &[Holder]) -> String {
    if holders.is_empty() {
        return ", nobody else votes".to_owned();
    }
    let holders = holders.iter().map(|holder| format!("{} up to {}", holder.replica, at(holder.until)));
    format!(", granted {}", holders.collect::<Vec<_>>().join(", "))
}

pub(crate) fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Committed(timestamp) => format!("committed @{}", timestamp.micros),
        Outcome::Aborted => "aborted".to_owned(),
    }
}

fn refusal(refusal: Refusal) -> String {
    match refusal {
        Refusal::Conflict => "a conflict".to_owned(),
        Refusal::Overwritten(time) => format!("overwritten {}", at(time)),
        Refusal::Misspeculated => "what it depends on has failed it".to_owned(),
        Refusal::TooOld(floor) => format!("older than {}", at(floor)),
        Refusal::Ahead(clock) => format!("ahead of {}", at(clock)),
        Refusal::Unavailable(shard) => format!("shard {} is silent", shard.0),
        Refusal::Lost => "it was lost".to_owned(),
        Refusal::Overloaded => "too much to do".to_owned(),
        Refusal::ClientAhead { ahead_micros, .. } => format!("the client's clock is ahead by {ahead_micros}"),
    }
}

fn ending(ending: Ending) -> String {
    match ending {
        Ending::Committed { timestamp, snapshot } => {
            format!("committed @{}, snapshot {}", timestamp.micros, at(snapshot))
        }
        Ending::Aborted(why) => format!("aborted: {}", refusal(why)),
    }
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Read { transaction: id, session, snapshot, wanted: all, .. } => {
            let after = session.after.map_or(String::new(), |id| format!(" after {}", transaction(id)));
            let when = match snapshot {
                Some(snapshot) => format!(" {}", at(*snapshot)),
                None => format!(" above {}{after}", at(session.seen)),
            };
            format!("READ {} {}{when}", transaction(*id), wanted(all))
        }
        Message::ReadReply { transaction: id, snapshot, found: all, .. } => {
            format!("{} reads {} in {}", transaction(*id), found(all), at(*snapshot))
        }
        Message::Commit { transaction: id, session, writes: all, shows, .. } => {
            let after = session.after.map_or(String::new(), |id| format!(" after {}", transaction(id)));
            let shows = if *shows { ", to be shown" } else { "" };
            format!("COMMIT {} {}{after}{shows}", transaction(*id), writes(all))
        }
        Message::Shown { transaction: id, local, chain, .. } => {
            format!("{} SHOWN {}, {chain} in its chain", transaction(*id), at(*local))
        }
        Message::UnderWay { transaction: id } => format!("{} UNDER-WAY", transaction(*id)),
        Message::CommitReply { transaction: id, ending: how } => {
            format!("{} {}", transaction(*id), ending(*how))
        }
        Message::Doomed { transaction: id, refusal: why } => {
            format!("{} DOOMED: {}", transaction(*id), refusal(*why))
        }
        Message::OtherPeriod { transaction: id, .. } => format!("{} OTHER-PERIOD", transaction(*id)),
        Message::Abort { transaction: id } => format!("ABORT {}", transaction(*id)),
        Message::Inquire { transaction: id, snapshot } => {
            format!("INQUIRE {} of {}", transaction(*id), at(*snapshot))
        }
        Message::InquireReply { transaction: id, outcome: how } => {
            format!("{} {}", transaction(*id), how.map_or("is forgotten".to_owned(), outcome))
        }
        Message::ReadAt { request, snapshot, wanted: all, .. } => {
            format!("READ-AT {} {}, number {request}", at(*snapshot), wanted(all))
        }
        Message::ReadAtReply { request, found: all, .. } => {
            format!("holds {}, number {request}", found(all))
        }
        Message::CannotRead { request, why, .. } => {
            let why = match why {
                Unreadable::TooOld(floor) => format!("older than {}", at(*floor)),
                Unreadable::Ahead(clock) => format!("ahead of {}", at(*clock)),
                Unreadable::NotLeading(leader) => format!("r{} leads", leader.0),
            };
            format!("CANNOT-READ: {why}, number {request}")
        }
        Message::Prepare { transaction: id, snapshot, writes: all, after, is_local, .. } => {
            let local = if *is_local { " here" } else { "" };
            let above = match after.is_empty() {
                true => String::new(),
                false => format!(" on top of {}", transactions(after)),
            };
            format!("PREPARE{local} {} {} in {}{above}", transaction(*id), writes(all), at(*snapshot))
        }
        Message::LocalVote { transaction: id, proposal, leads, .. } => {
            let leads = if *leads { ", and appends it" } else { "" };
            format!("LOCAL-VOTE {} {}{leads}", transaction(*id), at(*proposal))
        }
        Message::Replicate { transaction: id, snapshot, keys: all, holder, .. } => {
            let (id, snapshot, until) = (transaction(*id), at(*snapshot), at(holder.until));
            format!("REPLICATE {id} {} in {snapshot}, granted up to {until}", keys(all))
        }
        Message::Vote { transaction: id, view, proposal, .. } => {
            format!("VOTE {} {} under {view}", transaction(*id), at(*proposal))
        }
        Message::Prepared { transaction: id, view, proposal, holders: all } => {
            format!("PREPARED {} {} under {view}{}", transaction(*id), at(*proposal), holders(all))
        }
        Message::Refused { transaction: id, refusal: why } => {
            format!("REFUSED {}: {}", transaction(*id), refusal(*why))
        }
        Message::Decide { transaction: id, outcome: how, readers: all, .. } => {
            format!("DECIDE {} {}{}", transaction(*id), outcome(*how), readers(all))
        }
        Message::Applied { transaction: id } => format!("APPLIED {}", transaction(*id)),
        Message::GiveWay { transaction: id } => format!("GIVE-WAY {}", transaction(*id)),
        Message::AskGrant { wanted, .. } => match wanted.as_micros() {
            0 => "ASK-GRANT".to_owned(),
            _ => format!("ASK-GRANT for {}", at(*wanted)),
        },
        Message::AskTime { .. } => "ASK-TIME".to_owned(),
        Message::Time { clock, .. } => format!("TIME {}", at(*clock)),
        Message::Bound { until, .. } => format!("BOUND {}", at(*until)),
        Message::Hello { wants, .. } => if *wants { "HELLO, and who are you?" } else { "HELLO" }.to_owned(),
        Message::Record { decision, .. } => {
            format!("RECORD {} {}", transaction(decision.transaction), outcome(decision.outcome))
        }
        Message::Recorded { transaction: id, outcome: how } => {
            format!("RECORDED {} {}", transaction(*id), outcome(*how))
        }
        Message::Settled { transactions: all } => format!("SETTLED {}", transactions(all)),
        Message::NotLeading { transaction: id, leader } => {
            let id = id.map_or(String::new(), |id| format!("{} ", transaction(id)));
            format!("{id}NOT-LEADING, {leader} does")
        }
    }
}

pub(crate) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Prepared(one) => {
            let (id, proposal) = (transaction(one.transaction), at(one.proposal));
            format!("PREPARED {id} {} in {}, {proposal}", writes(&one.writes), at(one.snapshot))
        }
        Entry::Decided(one) => format!("DECIDED {} {}", transaction(one.transaction), outcome(one.outcome)),
        Entry::Granted(granted) => {
            let all = granted.holders.iter().map(|one| format!("{} up to {}", one.replica, at(one.until)));
            format!("GRANTED {}", all.collect::<Vec<_>>().join(", "))
        }
        Entry::Floor(floor) => format!("FLOOR {}", at(*floor)),
        Entry::Recorded(one) => {
            format!("RECORDED {} {}", transaction(one.transaction), outcome(one.outcome))
        }
        Entry::Settled(all) => format!("SETTLED {}", transactions(all)),
        Entry::Forgotten(below) => format!("FORGOTTEN {}", at(*below)),
    }
}

pub(crate) fn replica_event(event: &ReplicaEvent) -> String {
    match event {
        ReplicaEvent::Leading { view } => format!("leads {view}"),
        ReplicaEvent::Deposed => "is deposed".to_owned(),
        ReplicaEvent::CommittedLocally { transaction: id, local, .. } => {
            format!("has committed {} locally {}", transaction(*id), at(*local))
        }
        ReplicaEvent::Finalized { transaction: id, timestamp } => {
            format!("has {} final @{}", transaction(*id), timestamp.micros)
        }
    }
}

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Got { transaction: id, key, value: found } => {
            format!("{} got {} = {}", transaction(*id), text(key), value(found.as_ref()))
        }
        Event::Begun { transaction: id, begun } => {
            format!("{} begins {}", transaction(*id), at(begun.snapshot))
        }
        Event::Shown { transaction: id, shown } => {
            format!("{} SHOWN {}, {} in its chain", transaction(*id), at(shown.local), shown.chain)
        }
        Event::Scanned { transaction: id, entries, next } => {
            let entries = entries.iter().map(|(key, one)| format!(" {}={}", text(key), value(Some(one))));
            let next = next.as_ref().map_or(String::new(), |next| format!(" … {}", text(next)));
            format!("{} scanned{}{next}", transaction(*id), entries.collect::<String>())
        }
        Event::Finished { transaction: id, result: Ok(committed) } => {
            format!("{} COMMITTED @{}", transaction(*id), committed.timestamp.micros)
        }
        Event::Finished { transaction: id, result: Err(failure) } => {
            let why = match failure {
                Failure::Conflict => "CONFLICT".to_owned(),
                Failure::Aborted => "ABORTED".to_owned(),
                Failure::Unknown { .. } => "UNKNOWN".to_owned(),
                Failure::TooOld { .. } => "TOO OLD".to_owned(),
                Failure::Unavailable { .. } => "UNAVAILABLE".to_owned(),
                other => format!("{other:?}"),
            };
            format!("{} {why}", transaction(*id))
        }
        Event::Resolved { transaction: id, outcome: how } => {
            format!("{} resolved: {}", transaction(*id), how.map_or("unknown".to_owned(), outcome))
        }
        Event::Forgotten { transaction: id } => format!("{} is forgotten", transaction(*id)),
        other => format!("{other:?}"),
    }
}
