//! Messages and events in a few words.

use quorate_core::command::{Event, Failure, Outcome};
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClientId, ReadVersion, Timestamp, Transaction, TransactionId};
use quorate_ir::{Cursor, Message as Ir, OperationEntries, Outline, Part, PartRange, Stretch};
use quorate_tapir::Message;
use quorate_tapir::message::{
    Decision, FoundKey, FoundVersion, Otherwise, Prepare, SnapshotVersion, Tapir, ValidatedVersion,
    Validation, Vote,
};

pub(super) fn client(id: ClientId) -> String {
    format!("c{}", id.0)
}

pub(super) fn transaction(id: TransactionId) -> String {
    format!("{}.{}", client(id.client), id.sequence)
}

pub(super) fn at(timestamp: Timestamp) -> String {
    if timestamp == Timestamp::ZERO {
        "0".to_owned()
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
    let read = |read: &ReadVersion| match transaction.reads_when_prepared {
        true => format!("h({})", text(&read.key)),
        false => format!("r({}@{})", text(&read.key), at(read.version)),
    };
    words.extend(transaction.reads.iter().map(read));
    words.extend(transaction.ranges.iter().map(|range| format!("s{range:?}")));
    words.extend(
        transaction.writes.iter().map(|w| format!("w({}={})", text(&w.key), value(w.value.as_ref()))),
    );
    words.join(" ")
}

pub(super) fn vote(vote: Vote) -> String {
    match vote {
        Vote::Ok => "OK".to_owned(),
        Vote::Abstain => "ABSTAIN".to_owned(),
        Vote::Abort => "ABORT".to_owned(),
        Vote::Retry(timestamp) => format!("RETRY above {}", at(timestamp)),
    }
}

fn prepare(operation: &Prepare) -> String {
    format!("{} at {}", contents(&operation.transaction), at(operation.timestamp))
}

fn outcome(outcome: Outcome) -> String {
    match outcome {
        Outcome::Committed(timestamp) => format!("committed at {}", at(timestamp)),
        Outcome::Aborted => "aborted".to_owned(),
    }
}

fn entries(id: &TransactionId, entries: &OperationEntries<Tapir>) -> String {
    let mut words = Vec::new();
    if let Some(entry) = &entries.inconsistent {
        words.push(match &entry.operation {
            Decision::Commit { timestamp, .. } => format!("COMMIT at {}", at(*timestamp)),
            Decision::Abort { .. } => "ABORT".to_owned(),
        });
    }
    for entry in &entries.consensus {
        let state = if entry.state.is_finalized() { "final" } else { "tentative" };
        words.push(format!("#{} {state} {}", entry.number, vote(entry.verdict)));
    }
    format!("{}: {}", transaction(*id), words.join(", "))
}

fn version(found: &KeyVersion) -> String {
    format!("{}={}@{}", text(&found.key), value(found.value.as_ref()), at(found.version))
}

fn cursors(cursors: &[Cursor]) -> String {
    let cursors: Vec<String> =
        cursors.iter().map(|(timestamp, id)| format!("{}@{}", transaction(*id), at(*timestamp))).collect();
    format!("[{}]", cursors.join(" "))
}

fn ir(message: &Ir<Tapir>) -> String {
    match message {
        Ir::ProposeInconsistent { id, operation } => match operation {
            Decision::Commit { transaction: c, timestamp, .. } => {
                format!("COMMIT {} {} at {}", transaction(id.transaction), contents(c), at(*timestamp))
            }
            Decision::Abort { .. } => format!("ABORT {}", transaction(id.transaction)),
        },
        Ir::ProposeConsensus { id, operation } => {
            format!("PREPARE {}#{} {}", transaction(id.transaction), id.number, prepare(operation))
        }
        Ir::InconsistentReply { id, view } => format!("recorded {} in {view}", transaction(id.transaction)),
        Ir::ConsensusReply { id, view, verdict, finalized } => {
            let state = if *finalized { " (final)" } else { "" };
            format!("{}#{} {} in {view}{state}", transaction(id.transaction), id.number, vote(*verdict))
        }
        Ir::FinalizeInconsistent { id } => format!("FINALIZE {}", transaction(id.transaction)),
        Ir::FinalizeConsensus { id, verdict, view, ballot } => {
            let (id, number) = (transaction(id.transaction), id.number);
            format!("FINALIZE {id}#{number} {} in {view} under {ballot}", vote(*verdict))
        }
        Ir::Confirm { id, view, verdict, finalized } => {
            let state = if *finalized || verdict.is_none() { "" } else { " (not final)" };
            let verdict = verdict.map_or("nothing".to_owned(), vote);
            format!("CONFIRM {}#{} {verdict} in {view}{state}", transaction(id.transaction), id.number)
        }
        Ir::HigherView { view } => format!("higher view {view}"),
        Ir::StartViewChange { view } => format!("start view change to {view}"),
        Ir::DoViewChange { view, last_normal, page, part, outline, .. } => {
            let last =
                last_normal.map_or("lost everything".to_owned(), |view| format!("last normal in {view}"));
            let page: Vec<String> = page.entries.iter().map(|(id, known)| entries(id, known)).collect();
            let outlined = outlined(outline);
            format!("DO-VIEW-CHANGE {view}{}, {last} [{}]{outlined}", which(*part), page.join("; "))
        }
        Ir::StartView { view, since, page, floor, state, state_to, part, outline, .. } => {
            let since = since.map_or("the beginning".to_owned(), |view| view.to_string());
            let page: Vec<String> = page.entries.iter().map(|(id, known)| entries(id, known)).collect();
            let floor = floor.map_or(String::new(), |floor| format!(", state below {}", at(floor)));
            let state = state.iter().flat_map(|state| &state.versions).map(version).collect::<Vec<_>>();
            let more = if state_to.is_some() { ", and there is more" } else { "" };
            let state =
                if state.is_empty() { String::new() } else { format!(" {{{}}}{more}", state.join(" ")) };
            let outlined = outlined(outline);
            format!(
                "START-VIEW {view}{} since {since}{floor} [{}]{outlined}{state}",
                which(*part),
                page.join("; ")
            )
        }
        Ir::PartsMissing { view, missing, .. } => {
            let range = |range: &PartRange| match range.last - range.first {
                0 => format!("{}", range.first + 1),
                _ => format!("{} to {}", range.first + 1, range.last + 1),
            };
            format!("parts missing of {view}: {}", missing.iter().map(range).collect::<Vec<_>>().join(", "))
        }
        Ir::StateWanted { view, after, .. } => format!("state of {view} wanted after {}", text(after)),
        Ir::StatePage { view, after, state, to, .. } => {
            let versions = state.versions.iter().map(version).collect::<Vec<_>>().join(" ");
            let more = if to.is_some() { ", and there is more" } else { "" };
            format!("state of {view} after {} {{{versions}}}{more}", text(after))
        }
        Ir::Arrived => "arrived".to_owned(),
        Ir::ViewQuery { life: 0, .. } => "which life is this?".to_owned(),
        Ir::ViewQuery { life, .. } => format!("life {life}; which view?"),
        Ir::ViewQueryReply { view, lost, life, .. } => {
            format!("{view}, your life {life}{}", if *lost { ", lost too" } else { "" })
        }
    }
}

/// Which part of a message it is, of one that has several.
fn which(part: Part) -> String {
    if part == Part::WHOLE { String::new() } else { format!(" ({} of {})", part.index + 1, part.count) }
}

fn found(version: &FoundVersion) -> String {
    let found = format!("{}@{}", value(version.value.as_ref()), at(version.version));
    version.absent_below.map_or(found.clone(), |floor| format!("{found} since {}", at(floor)))
}

fn snapshot(version: &SnapshotVersion) -> String {
    let newer = if version.newest > version.found.version { " newer" } else { "" };
    let pending = version.pending.map_or(String::new(), |pending| format!(" pending {}", at(pending)));
    format!("{}{newer}{pending}", found(&version.found))
}

fn validation(reads: &[ReadVersion], timestamp: Timestamp) -> String {
    let reads: Vec<String> =
        reads.iter().map(|read| format!("{}@{}", text(&read.key), at(read.version))).collect();
    format!("VALIDATED {} at {}", reads.join(" "), at(timestamp))
}

pub(super) fn message(message: &Message) -> String {
    match message {
        Message::ReadInTurn { transaction: id, key } => {
            format!("READ IN TURN {} {}", transaction(*id), text(key))
        }
        Message::ReadWaits { transaction: id, key } => {
            format!("{} of {} waits for its turn", text(key), transaction(*id))
        }
        Message::Read { transaction: id, key } => format!("READ {} {}", transaction(*id), text(key)),
        Message::ReadReply { transaction: id, key, version, value: v } => {
            format!("{} {} is {} @{}", transaction(*id), text(key), value(v.as_ref()), at(*version))
        }
        Message::ReadMany { transaction: id, request, keys, in_turn } => {
            let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
            let read = if *in_turn { "READ IN TURN" } else { "READ" };
            format!("{read} {}~{request} {}", transaction(*id), keys.join(" "))
        }
        Message::ReadManyReply { transaction: id, request, found, waiting } => {
            let found: Vec<String> = found.iter().map(version).collect();
            let waiting: Vec<String> = waiting.iter().map(|key| text(key)).collect();
            let wait = if waiting.is_empty() { "" } else { " wait for their turn: " };
            format!("{}~{request} [{}]{wait}{}", transaction(*id), found.join(" "), waiting.join(" "))
        }
        Message::Scan { transaction: id, range, limit, .. } => {
            format!("SCAN {} {range:?} ≤{limit}", transaction(*id))
        }
        Message::ScanReply { transaction: id, keys, next, .. } => {
            let found: Vec<String> = keys.iter().map(version).collect();
            let next = next.as_ref().map_or(String::new(), |next| format!(" next {}", text(next)));
            format!("{} [{}]{next}", transaction(*id), found.join(" "))
        }
        Message::Ir(message) => ir(message),
        Message::Outdated => "OUTDATED".to_owned(),
        Message::CommitPrepared { id, timestamp, .. } => {
            format!("COMMIT {}#{} at {}", transaction(id.transaction), id.number, at(*timestamp))
        }
        Message::Recorded { view, transactions } => {
            let transactions: Vec<String> = transactions.iter().map(|id| transaction(*id)).collect();
            format!("recorded {} in {view}", transactions.join(" "))
        }
        Message::Recover { transaction: id, .. } => format!("RECOVER {}", transaction(*id)),
        Message::CoordinatorChange { transaction: id, ballot, .. } => {
            format!("COORDINATOR-CHANGE {} to {ballot}", transaction(*id))
        }
        Message::CoordinatorChangeReply {
            transaction: id,
            ballot,
            view,
            outcome: known,
            votes,
            accepted,
            settled,
            ..
        } => {
            let mut words = Vec::new();
            words.extend(settled.then(|| "settled".to_owned()));
            words.extend(known.map(outcome));
            words
                .extend(accepted.map(|(ballot, known)| format!("accepted {} from {ballot}", outcome(known))));
            words.extend(votes.iter().map(|recorded| {
                let held = if recorded.held { " held" } else { "" };
                let state = if recorded.finalized.is_some() { " final" } else { "" };
                format!("#{}{state} {}{held}", recorded.number, vote(recorded.vote))
            }));
            let words = if words.is_empty() { "no vote".to_owned() } else { words.join(", ") };
            format!("promised {ballot} for {} in {view}: {words}", transaction(*id))
        }
        Message::RecordOutcome { transaction: id, ballot, outcome: known } => {
            format!("RECORD {} {} under {ballot}", transaction(*id), outcome(*known))
        }
        Message::RecordOutcomeReply { transaction: id, ballot, view } => {
            format!("accepted {} under {ballot} in {view}", transaction(*id))
        }
        Message::Superseded { transaction: id, promised } => {
            format!("{} is led by {promised}", transaction(*id))
        }
        Message::RecoverReply { transaction: id, outcome: known } => {
            format!("{} {}", transaction(*id), outcome(*known))
        }
        Message::Gather { below, from, .. } => format!("GATHER below {} from {}", at(*below), at(from.0)),
        Message::GatherReply { below, executed, open, next, .. } => {
            let next = next.map_or(String::new(), |next| format!(", next {}", at(next.0)));
            let (executed, open) = (cursors(executed), cursors(open));
            format!("refuse below {}: committed {executed}, open {open}{next}", at(*below))
        }
        Message::FetchDecisions { transactions } => {
            let transactions: Vec<String> = transactions.iter().map(|id| transaction(*id)).collect();
            format!("what was decided of {}?", transactions.join(" "))
        }
        Message::Decisions { decisions } => {
            let decisions: Vec<String> = decisions
                .iter()
                .map(|(id, decision)| match decision {
                    Decision::Commit { timestamp, .. } => {
                        format!("{} COMMIT at {}", transaction(*id), at(*timestamp))
                    }
                    Decision::Abort { .. } => format!("{} ABORT", transaction(*id)),
                })
                .collect();
            format!("decided: {}", decisions.join("; "))
        }
        Message::AreDecided { transactions, .. } => format!("are these decided? {}", cursors(transactions)),
        Message::AreDecidedReply { missing, .. } => {
            let missing: Vec<String> = missing.iter().map(|id| transaction(*id)).collect();
            format!("all but [{}]", missing.join(" "))
        }
        Message::Complete { below, .. } => format!("COMPLETE below {}?", at(*below)),
        Message::CompleteReply { below, .. } => format!("complete below {}", at(*below)),
        Message::RaiseFloor { floor } => format!("RAISE-FLOOR to {}", at(*floor)),
        Message::Forgotten { transaction: id } => format!("{} is forgotten", transaction(*id)),
        Message::ClockProbe { sent, deadlines: false } => format!("PROBE at {}", sent.as_micros()),
        Message::ClockProbe { sent, deadlines: true } => {
            format!("PROBE at {}, of one with deadlines", sent.as_micros())
        }
        Message::ClockProbeReply { sent, arrived } => {
            format!("the probe of {} arrived at {}", sent.as_micros(), arrived.as_micros())
        }
        Message::ClockAhead { transaction: id, ahead_micros, .. } => {
            format!("{} is {ahead_micros} µs ahead", transaction(*id))
        }
        Message::HeldReads { id, view, vote: given, finalized, found: reads } => {
            let state = if *finalized { " (final)" } else { "" };
            let (number, vote) = (id.number, vote(*given));
            let found: Vec<String> = reads.iter().map(found).collect();
            let found = if found.is_empty() { String::new() } else { format!(" [{}]", found.join(" ")) };
            format!("{}#{number} {vote} in {view}{state}{found}", transaction(id.transaction))
        }
        Message::QuorumRead { transaction: id, round, timestamp, keys, in_turn } => {
            let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
            let read = if *in_turn { "QUORUM-READ IN TURN" } else { "QUORUM-READ" };
            format!("{read} {}~{round} {} at {}", transaction(*id), keys.join(" "), at(*timestamp))
        }
        Message::QuorumReadReply { transaction: id, round, view, found: versions } => {
            let versions: Vec<String> = versions.iter().map(snapshot).collect();
            format!("{}~{round} [{}] in {view}", transaction(*id), versions.join(" "))
        }
        Message::QuorumScan { transaction: id, round, timestamp, range, limit } => {
            format!("QUORUM-SCAN {}~{round} {range:?} ≤{limit} at {}", transaction(*id), at(*timestamp))
        }
        Message::QuorumScanReply { transaction: id, round, view, page } => {
            let key = |found: &FoundKey| format!("{}: {}", text(&found.key), snapshot(&found.version));
            let keys: Vec<String> = page.keys.iter().map(key).collect();
            let next = page.next.as_ref().map_or(String::new(), |next| format!(" next {}", text(next)));
            let since = page.absent_below.map_or(String::new(), |floor| format!(" since {}", at(floor)));
            format!("{}~{round} [{}]{next}{since} in {view}", transaction(*id), keys.join(", "))
        }
        Message::SnapshotTooOld { transaction: id, oldest } => {
            format!("{} reads below {}", transaction(*id), at(*oldest))
        }
        Message::ReadValidated { transaction: id, keys, otherwise, validated } => {
            let keys: Vec<String> = keys.iter().map(|key| text(key)).collect();
            let otherwise = otherwise.map_or(String::new(), |otherwise| {
                let Otherwise { oldest, round, timestamp } = otherwise;
                format!(" since {}, else QUORUM-READ ~{round} at {}", at(oldest), at(timestamp))
            });
            let told = |told: &Validation| format!("; {}", validation(&told.reads, told.timestamp));
            let told: String = validated.iter().map(told).collect();
            format!("READ {} {}, if validated{otherwise}{told}", transaction(*id), keys.join(" "))
        }
        Message::ReadValidatedReply { transaction: id, found: versions } => {
            let version =
                |version: &ValidatedVersion| format!("{} until {}", found(&version.found), at(version.until));
            let versions: Vec<String> = versions.iter().map(version).collect();
            format!("{} [{}]", transaction(*id), versions.join(" "))
        }
        Message::Validated { timestamp, reads } => validation(reads, *timestamp),
    }
}

pub(super) fn event(event: &Event) -> String {
    match event {
        Event::Got { transaction: id, key, value: v } => {
            format!("{} got {} = {}", transaction(*id), text(key), value(v.as_ref()))
        }
        Event::Scanned { transaction: id, entries, next } => {
            let found: Vec<String> =
                entries.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
            let next = next.as_ref().map_or(String::new(), |next| format!(", next {}", text(next)));
            format!("{} scanned [{}]{next}", transaction(*id), found.join(" "))
        }
        Event::Finished { transaction: id, result } => {
            let result = match result {
                Ok(committed) => {
                    let path = if committed.fast { "fast path" } else { "slow path" };
                    format!("COMMITTED at {}, {path}, {} retries", at(committed.timestamp), committed.retries)
                }
                Err(Failure::Conflict) => "CONFLICT".to_owned(),
                Err(Failure::Aborted) => "ABORTED".to_owned(),
                Err(Failure::BelowZero) => "BELOW ZERO".to_owned(),
                Err(Failure::HistoryAbandoned { shard }) => format!("{shard} ABANDONED"),
                Err(Failure::TooOld { oldest }) => format!("TOO OLD, oldest {}", at(*oldest)),
                Err(Failure::Unavailable { missing }) => format!("UNAVAILABLE, missing {missing:?}"),
                Err(Failure::Unknown { participants }) => format!("UNKNOWN, participants {participants:?}"),
                Err(Failure::Invalid(invalid)) => format!("INVALID, {invalid}"),
            };
            format!("{} {result}", transaction(*id))
        }
        Event::Executed { transaction: id, .. } => format!("{} has no one round", transaction(*id)),
        Event::Milestone { transaction: id, .. } => format!("{} has no milestones", transaction(*id)),
        Event::Begun { transaction: id, .. } | Event::Shown { transaction: id, .. } => {
            format!("{} is not speculated with", transaction(*id))
        }
        Event::Marked { transaction: id, .. } => format!("{} has no versions in flight", transaction(*id)),
        Event::Outdated { keyspace } => format!("the membership of {keyspace} has changed"),
        Event::Set { transaction: id, .. } | Event::Located { transaction: id, .. } => {
            format!("{} has neither sets nor containers", transaction(*id))
        }
        Event::Forgotten { transaction: id } => format!("{} resolved: forgotten", transaction(*id)),
        Event::Resolved { transaction: id, outcome: known } => {
            format!("{} resolved: {}", transaction(*id), known.map_or("unknown".to_owned(), outcome))
        }
        Event::Disagreement { transaction: id, .. } => {
            format!("{} has no shards that agree", transaction(*id))
        }
    }
}

/// The stretches of an outline.
fn outlined(outline: &Outline) -> String {
    let stretch = |stretch: &Stretch| {
        let (first, last) = (at(stretch.range.first.0), at(stretch.range.last.0));
        if first == last { first } else { format!("{first} to {last}") }
    };
    match outline.stretches.as_slice() {
        [] => String::new(),
        stretches => format!(", outlined: {}", stretches.iter().map(stretch).collect::<Vec<_>>().join(", ")),
    }
}
