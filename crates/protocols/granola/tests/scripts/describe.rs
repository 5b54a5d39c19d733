//! Messages, entries and events in a few words.

use quorate_core::{ClockTime, ShardId, TransactionId, Value};
use quorate_granola::{
    Body, Ended, Entry, Event, Failure, Final, Message, Outcome, Pending, ReplicaEvent, Reply, Request, Vote,
};

pub(super) fn transaction(id: TransactionId) -> String {
    let attempt = if id.attempt > 0 { format!("/{}", id.attempt) } else { String::new() };
    format!("c{}.{}{attempt}", id.client.0, id.sequence)
}

pub(super) fn text(value: &Value) -> String {
    String::from_utf8_lossy(value).into_owned()
}

fn at(timestamp: ClockTime) -> u64 {
    timestamp.as_micros()
}

fn shards(participants: &[ShardId]) -> String {
    participants.iter().map(|shard| shard.0.to_string()).collect::<Vec<_>>().join(",")
}

fn vote(vote: Vote) -> &'static str {
    match vote {
        Vote::Commit => "COMMIT",
        Vote::Conflict => "CONFLICT",
    }
}

pub(super) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Committed { timestamp, answer } => {
            format!("committed at {}: {}", at(*timestamp), text(answer))
        }
        Outcome::Conflict => "conflict".to_owned(),
    }
}

pub(super) fn entry(entry: &Entry) -> String {
    let mut words = Vec::new();
    for Final { transaction: id, timestamp } in &entry.finals {
        let fate = timestamp.map_or("dropped".to_owned(), |timestamp| format!("final at {}", at(timestamp)));
        words.push(format!("{} {fate}", transaction(*id)));
    }
    match &entry.body {
        Body::Voted(voted) => words.push(format!(
            "VOTED {} {}{} at {}",
            transaction(voted.transaction),
            vote(voted.vote),
            voted.operation.as_ref().map_or(String::new(), |operation| format!(" {}", text(operation))),
            at(voted.proposed)
        )),
        Body::Floor { floor, forgotten } => {
            words.push(format!("FLOOR {}, forgotten below {}", at(*floor), at(*forgotten)));
        }
        Body::Nothing => {}
    }
    words.push(format!("ceiling {}", at(entry.ceiling)));
    words.join(", ")
}

pub(super) fn message(message: &Message) -> String {
    match message {
        Message::Request(Request { transaction: id, participants, operation, reads_only, high, .. }) => {
            format!(
                "{} {} of {}: {}{}",
                if *reads_only { "REQUEST-READ" } else { "REQUEST" },
                transaction(*id),
                shards(participants),
                text(operation),
                if at(*high) > 0 { format!(", above {}", at(*high)) } else { String::new() }
            )
        }
        Message::Reply { transaction: id, reply } => {
            let what = match reply {
                Reply::Ended(ended) => outcome(ended),
                Reply::Forgotten { clock } => format!("forgotten, the clock says {}", at(*clock)),
                Reply::TooOld { clock } => format!("too old, the clock says {}", at(*clock)),
                Reply::ClockAhead { clock } => format!("too far ahead, the clock says {}", at(*clock)),
            };
            format!("REPLY {} {what}", transaction(*id))
        }
        Message::Vote { transaction: id, vote: what, proposed, wants, .. } => format!(
            "VOTE {} {} at {}{}",
            transaction(*id),
            vote(*what),
            at(*proposed),
            if *wants { ", and yours?" } else { "" }
        ),
        Message::Resolved { transaction: id, timestamp } => {
            let fate =
                timestamp.map_or("dropped".to_owned(), |timestamp| format!("final at {}", at(timestamp)));
            format!("RESOLVED {} {fate}", transaction(*id))
        }
        Message::NotLeading { transaction: id, leader } => {
            format!("NOT-LEADING {}, {leader} does", transaction(*id))
        }
        Message::AskFloor => "ASK-FLOOR".to_owned(),
        Message::AskFloorReply { floor } => format!("ASK-FLOOR-REPLY {}", at(*floor)),
    }
}

pub(super) fn replica_event(event: &ReplicaEvent) -> String {
    match event {
        ReplicaEvent::Leading { view } => format!("leads {view}"),
        ReplicaEvent::Deposed => "is deposed".to_owned(),
    }
}

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Outdated { keyspace } => format!("{keyspace} has changed"),
        Event::Finished { transaction: id, result: Ok(executed) } => {
            let answers =
                executed.answers.iter().map(|(shard, answer)| format!("{} {}", shard.0, text(answer)));
            let answers = answers.collect::<Vec<_>>().join(", ");
            format!("{} COMMITTED at {}: {answers}", transaction(*id), at(executed.timestamp))
        }
        Event::Finished { transaction: id, result: Err(failure) } => {
            let why = match failure {
                Failure::Unknown { missing } => format!("UNKNOWN, {} is silent", shards(missing)),
                Failure::ClockAhead { ahead_micros } => format!("{ahead_micros} µs AHEAD"),
                Failure::Disagreement { timestamps } => format!("DISAGREEMENT {timestamps:?}"),
                Failure::NoSuchShard(shard) => format!("NO SUCH SHARD {shard:?}"),
                Failure::InUse => "IN USE".to_owned(),
            };
            format!("{} {why}", transaction(*id))
        }
    }
}

pub(super) fn pending(pending: &Pending) -> String {
    let is_final = if pending.is_final { "final" } else { "proposed" };
    format!(
        "pending {} {is_final} at {}",
        transaction(pending.voted.transaction),
        at(pending.place.timestamp)
    )
}

pub(super) fn ended(id: TransactionId, ended: &Ended) -> String {
    format!("{} {}", transaction(id), outcome(&ended.outcome))
}
