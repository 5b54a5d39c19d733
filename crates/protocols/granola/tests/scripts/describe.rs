//! Messages, entries and events in a few words.

use quorate_core::{ClockTime, ShardId, TransactionId, Value};
use quorate_granola::{
    Answer, Body, Class, Ended, Ending, Entry, Event, Failure, Final, Message, Outcome, Pending, Refusal,
    ReplicaEvent, Reply, Request, Vote,
};

pub(crate) fn transaction(id: TransactionId) -> String {
    let attempt = if id.attempt > 0 { format!("/{}", id.attempt) } else { String::new() };
    format!("c{}.{}{attempt}", id.client.0, id.sequence)
}

pub(crate) fn text(value: &Value) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn at(timestamp: ClockTime) -> u64 {
    timestamp.as_micros()
}

fn shards(participants: &[ShardId]) -> String {
    participants.iter().map(|shard| shard.0.to_string()).collect::<Vec<_>>().join(",")
}

fn vote(vote: &Vote) -> String {
    match vote {
        Vote::Commit => "COMMIT".to_owned(),
        Vote::Abort(reason) => format!("ABORT ({})", text(reason)),
        Vote::Conflict => "CONFLICT".to_owned(),
    }
}

fn answer(answer: &Answer) -> String {
    match answer {
        Answer::Done(answer) => text(answer),
        Answer::Refused(reason) => format!("refused ({})", text(reason)),
    }
}

fn refusal(refusal: &Refusal) -> String {
    format!("aborted by {} ({})", refusal.shard.0, text(&refusal.reason))
}

fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Commit(timestamp) => format!("final at {}", at(*timestamp)),
        Ending::Abort(why) => refusal(why),
        Ending::Conflict => "dropped".to_owned(),
    }
}

pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { timestamp, answer: told } => {
            format!("committed at {}: {}", at(*timestamp), answer(told))
        }
        Outcome::Aborted(why) => refusal(why),
        Outcome::Conflict => "conflict".to_owned(),
    }
}

pub(crate) fn entry(entry: &Entry) -> String {
    let mut words = Vec::new();
    for Final { transaction: id, ending: fate } in &entry.finals {
        words.push(format!("{} {}", transaction(*id), ending(fate)));
    }
    match &entry.body {
        Body::Voted(voted) => words.push(format!(
            "VOTED {} {}{} at {}",
            transaction(voted.transaction),
            vote(&voted.vote),
            voted.operation.as_ref().map_or(String::new(), |operation| format!(" {}", text(operation))),
            at(voted.proposed)
        )),
        Body::Floor { floor, forgotten } => {
            words.push(format!("FLOOR {}, forgotten below {}", at(*floor), at(*forgotten)));
        }
        Body::Lost(shard) => words.push(format!("{} is lost", shard.0)),
        Body::Nothing => {}
    }
    words.push(format!("ceiling {}", at(entry.ceiling)));
    words.join(", ")
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Request(Request { transaction: id, participants, operation, class, high, .. }) => {
            let verb = match class {
                Class::ReadOnly => "REQUEST-READ",
                Class::Independent => "REQUEST",
                Class::Coordinated => "REQUEST-AGREE",
            };
            format!(
                "{verb} {} of {}: {}{}",
                transaction(*id),
                shards(participants),
                text(operation),
                if at(*high) > 0 { format!(", above {}", at(*high)) } else { String::new() }
            )
        }
        Message::Inquire { transaction: id, participants, not_before } => {
            let (id, not_before) = (transaction(*id), not_before.as_micros());
            format!("INQUIRE {id} of {}, not before {not_before}", shards(participants))
        }
        Message::Reply { transaction: id, reply } => {
            let what = match reply {
                Reply::Ended(ended) => outcome(ended),
                Reply::Forgotten { clock } => format!("forgotten, the clock says {}", at(*clock)),
                Reply::TooOld { clock } => format!("too old, the clock says {}", at(*clock)),
                Reply::Lost { shard } => format!("{} is lost", shard.0),
                Reply::ClockAhead { clock } => format!("too far ahead, the clock says {}", at(*clock)),
            };
            format!("REPLY {} {what}", transaction(*id))
        }
        Message::Vote { transaction: id, vote: what, proposed, wants, .. } => format!(
            "VOTE {} {} at {}{}",
            transaction(*id),
            vote(what),
            at(*proposed),
            if *wants { ", and yours?" } else { "" }
        ),
        Message::Resolved { transaction: id, ending: fate } => {
            format!("RESOLVED {} {}", transaction(*id), ending(fate))
        }
        Message::Abandoned { transaction: id, lost } => {
            format!("ABANDONED {}, {} is lost", transaction(*id), lost.0)
        }
        Message::NotLeading { transaction: id, leader } => {
            format!("NOT-LEADING {}, {leader} does", transaction(*id))
        }
        Message::Begin(begin) => {
            let parts = begin.parts.iter().map(|(shard, part)| format!("{} {}", shard.0, text(part)));
            let parts = parts.collect::<Vec<_>>().join(", ");
            format!("BEGIN {} {parts}", transaction(begin.transaction))
        }
        Message::Prepared { transaction: id, vote: what, proposed, answer: told } => {
            let told = told.as_ref().map_or(String::new(), |told| format!(", would answer {}", answer(told)));
            format!("PREPARED {} {} at {}{told}", transaction(*id), vote(what), at(*proposed))
        }
        Message::Gathered { transaction: id, timestamp, answers } => {
            let told = answers.iter().map(|(shard, told)| format!("{} {}", shard.0, answer(told)));
            let told = told.collect::<Vec<_>>().join(", ");
            format!("GATHERED {} at {}: {told}", transaction(*id), at(*timestamp))
        }
        Message::AskFloor => "ASK-FLOOR".to_owned(),
        Message::AskFloorReply { floor, .. } => format!("ASK-FLOOR-REPLY {}", at(*floor)),
    }
}

pub(crate) fn replica_event(event: &ReplicaEvent) -> String {
    match event {
        ReplicaEvent::Leading { view } => format!("leads {view}"),
        ReplicaEvent::Deposed => "is deposed".to_owned(),
    }
}

pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Outdated { keyspace } => format!("{keyspace} has changed"),
        Event::Finished { transaction: id, result: Ok(executed) } => {
            let answers =
                executed.answers.iter().map(|(shard, told)| format!("{} {}", shard.0, answer(told)));
            let answers = answers.collect::<Vec<_>>().join(", ");
            format!("{} COMMITTED at {}: {answers}", transaction(*id), at(executed.timestamp))
        }
        Event::Finished { transaction: id, result: Err(failure) } => {
            let why = match failure {
                Failure::Unknown { missing } => format!("UNKNOWN, {} is silent", shards(missing)),
                Failure::ClockAhead { ahead_micros } => format!("{ahead_micros} µs AHEAD"),
                Failure::SeenAhead { ahead_micros } => format!("has SEEN what is {ahead_micros} µs ahead"),
                Failure::Conflict => "CONFLICT".to_owned(),
                Failure::Forgotten => "FORGOTTEN".to_owned(),
                Failure::Aborted(Refusal { shard, reason }) => {
                    format!("ABORTED by {} ({})", shard.0, text(reason))
                }
                Failure::Lost { shard } => format!("LOST is {}", shard.0),
                Failure::Disagreement { answers } => {
                    let told = |(shard, (timestamp, told)): (&ShardId, &(ClockTime, Answer))| {
                        format!("{} {} at {}", shard.0, answer(told), at(*timestamp))
                    };
                    format!("DISAGREEMENT: {}", answers.iter().map(told).collect::<Vec<_>>().join(", "))
                }
                Failure::NoSuchShard(shard) => format!("NO SUCH SHARD {shard:?}"),
                Failure::InUse => "IN USE".to_owned(),
            };
            format!("{} {why}", transaction(*id))
        }
    }
}

pub(crate) fn pending(pending: &Pending) -> String {
    let is_final = if pending.is_final { "final" } else { "proposed" };
    format!(
        "pending {} {is_final} at {}",
        transaction(pending.voted.transaction),
        at(pending.place.timestamp)
    )
}

pub(crate) fn ended(id: TransactionId, ended: &Ended) -> String {
    format!("{} {}", transaction(id), outcome(&ended.outcome))
}
