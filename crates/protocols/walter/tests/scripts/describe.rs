//! Messages, entries and events in a few words.

use quorate_core::TransactionId;
use quorate_core::command::{Event, Failure, Invalid, NotReached, Outcome, SetAnswer};
use quorate_core::counter::name_of;
use quorate_core::topology::Settlement;
use quorate_walter::message::{Ending, Found, Snapshot, Wanted};
use quorate_walter::{Entry, LocalSite, Message, Page, Update};

pub(crate) fn transaction(id: TransactionId) -> String {
    let attempt = if id.attempt == 0 { String::new() } else { format!("/{}", id.attempt) };
    format!("c{}.{}{attempt}", id.client.0, id.sequence)
}

/// Keys, elements and values; the name of a counter after a mark.
fn text(bytes: &[u8]) -> String {
    match name_of(bytes) {
        Some(counter) => format!("#{}", text(counter)),
        None => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn value(value: Option<&bytes::Bytes>) -> String {
    value.map_or("nothing".to_owned(), |value| text(value))
}

/// The local site, and the replicas if they are not all.
fn container(container: &quorate_walter::Container) -> String {
    let all: Vec<LocalSite> = container.replicas.among((0..16).map(LocalSite));
    match container.replicas.is_all() {
        true => container.preferred.to_string(),
        false => format!("{}, copies at {}", container.preferred, sites(&all)),
    }
}

fn sites(sites: &[LocalSite]) -> String {
    if sites.is_empty() {
        return "no site".to_owned();
    }
    sites.iter().map(LocalSite::to_string).collect::<Vec<_>>().join(" ")
}

fn wanted(wanted: &[Wanted]) -> String {
    let wanted = wanted.iter().map(|wanted| match wanted {
        Wanted::Register(key) => text(key),
        Wanted::Range(range, limit) => format!("{limit} of {range:?}"),
        Wanted::InFlight(key) => format!("{} in flight?", text(key)),
        Wanted::Container(name) => format!("the container {}", text(name)),
        Wanted::Count { set, element } => format!("{}[{}]", text(set), text(element)),
        Wanted::Members { set, range, from, limit } => {
            format!("{limit} of {}[{range:?}] and their registers from the {from:?}", text(set))
        }
        Wanted::Elements { set, range, from, limit } => {
            format!("{limit} of {}[{range:?}] from the {from:?}", text(set))
        }
    });
    wanted.collect::<Vec<_>>().join(" ")
}

fn found(found: &[Found]) -> String {
    let found = found.iter().map(|found| match found {
        Found::Register { version, value: found } => {
            let version = version.map_or(String::new(), |version| format!("@{version}"));
            format!("{}{version}", value(found.as_ref()))
        }
        Found::Range { entries, next, elsewhere } => {
            let entries = entries
                .iter()
                .map(|read| format!("{}={}@{}", text(&read.key), text(&read.value), read.version));
            let entries: Vec<String> = entries.collect();
            let next = next.as_ref().map_or(String::new(), |next| format!(" … {}", text(next)));
            let others = elsewhere.iter().map(|replicas| sites(&replicas.among((0..16).map(LocalSite))));
            let others: Vec<String> = others.map(|others| format!(", others at {others}")).collect();
            format!("[{}{next}]{}", entries.join(" "), others.concat())
        }
        Found::Members { members, is_cut } => {
            let all = members.iter().map(|member| {
                let version = member.version.map_or(String::new(), |version| format!("@{version}"));
                let held = match member.is_elsewhere {
                    true => "elsewhere".to_owned(),
                    false => value(member.value.as_ref()),
                };
                format!("{}{:+}={held}{version}", text(&member.element), member.count)
            });
            let all: Vec<String> = all.collect();
            format!("[{}{}]", all.join(" "), if *is_cut { " …" } else { "" })
        }
        Found::InFlight(is_in_flight) => if *is_in_flight { "in flight" } else { "everywhere" }.to_owned(),
        Found::Container { container: placed, .. } => format!("it at {}", container(placed)),
        Found::Elsewhere { sites: at, own } => {
            let own = own
                .iter()
                .map(|change| format!(", {:+} {} by {}", change.by, text(&change.element), change.seqno));
            format!("it elsewhere: {}{}", sites(at), own.collect::<String>())
        }
        Found::Count(count) => format!("{count:+}"),
        Found::Elements { counts, is_cut } => {
            let counts = counts.iter().map(|count| (count.element.clone(), count.count));
            format!("[{}{}]", elements(counts), if *is_cut { " …" } else { "" })
        }
    });
    found.collect::<Vec<_>>().join(" ")
}

fn updates(updates: &[Update]) -> String {
    let update = |update: &Update| match update {
        Update::Write { key, value: written } => format!("{}={}", text(key), value(written.as_ref())),
        Update::Place { name, container: Some(placed) } => format!("{} to {}", text(name), container(placed)),
        Update::Noted { object, writes: true } => format!("{}=elsewhere", text(object)),
        Update::Noted { object, writes: false } => format!("{}[…] elsewhere", text(object)),
        Update::Place { name, container: None } => format!("{} to where it was", text(name)),
        Update::Add { set, element, by } => format!("{}[{}]{by:+}", text(set), text(element)),
    };
    updates.iter().map(update).collect::<Vec<_>>().join(" ")
}

fn snapshot(snapshot: &Snapshot) -> String {
    match snapshot {
        Snapshot::Taken(vector) => format!("at {vector}"),
        Snapshot::New(vector) => format!("after {vector}"),
        Snapshot::After { seen, earlier, .. } => format!("after {seen} and {}", transaction(*earlier)),
    }
}

fn commit(commit: &quorate_walter::entry::Commit) -> String {
    let quorate_walter::entry::Commit { transaction: id, version, snapshot, updates: all, is_slow } = commit;
    let slow = if *is_slow { "slow " } else { "" };
    format!("{version} {slow}{} at {snapshot} {}", transaction(*id), updates(all))
}

fn commits<'a>(all: impl IntoIterator<Item = &'a std::sync::Arc<quorate_walter::entry::Commit>>) -> String {
    let all: Vec<String> = all.into_iter().map(|one| commit(one)).collect();
    all.join(", ")
}

pub(crate) fn ending(ending: &Ending) -> String {
    match ending {
        Ending::Committed { version, snapshot, is_slow } => {
            let slow = if *is_slow { ", slow" } else { "" };
            format!("committed as {version} at {snapshot}{slow}")
        }
        Ending::Aborted => "aborted".to_owned(),
    }
}

fn elements(counts: impl Iterator<Item = (quorate_core::Key, i64)>) -> String {
    counts.map(|(element, count)| format!("{}{count:+}", text(&element))).collect::<Vec<_>>().join(" ")
}

fn keys(keys: &[quorate_core::Key]) -> String {
    keys.iter().map(|key| text(key)).collect::<Vec<_>>().join(" ")
}

pub(crate) fn message(message: &Message) -> String {
    match message {
        Message::Read { transaction: id, snapshot: at, wanted: all, .. } => {
            format!("READ {} {} {}", transaction(*id), wanted(all), snapshot(at))
        }
        Message::ReadReply { transaction: id, snapshot, found: all, period, .. } => {
            format!("{} reads {} at {snapshot}, period {}", transaction(*id), found(all), period.0)
        }
        Message::ReadCopy { transaction: id, snapshot, home, wanted: all, .. } => {
            format!("READ-COPY {} {} at {snapshot} for {home}", transaction(*id), wanted(all))
        }
        Message::CopyReply { transaction: id, included, found: all, .. } => {
            format!("{} reads the copy {}, with {included}", transaction(*id), found(all))
        }
        Message::Commit { transaction: id, snapshot: at, period, updates: all } => {
            format!("COMMIT {} {} {}, period {}", transaction(*id), updates(all), snapshot(at), period.0)
        }
        Message::CommitReply { transaction: id, ending: how, silent, is_short } => {
            let silent: Vec<String> = silent.iter().map(|shard| format!(", {} is silent", shard.0)).collect();
            let short = if *is_short { ", below zero" } else { "" };
            format!("{} {}{}{short}", transaction(*id), ending(how), silent.concat())
        }
        Message::TooOld { transaction: id, committed, period, .. } => {
            format!("{} TOO-OLD, {committed} has committed, period {}", transaction(*id), period.0)
        }
        Message::NotLeading { transaction: id, leader } => {
            let id = id.map_or(String::new(), |id| format!("{} ", transaction(id)));
            format!("{id}NOT-LEADING, {leader} does")
        }
        Message::Prepare { transaction: id, keys: all, snapshot } => {
            format!("PREPARE {} {} at {snapshot}", transaction(*id), keys(all))
        }
        Message::Vote { transaction: id, agrees, .. } => {
            format!("VOTE {} {}", transaction(*id), if *agrees { "yes" } else { "no" })
        }
        Message::Release { transaction: id } => format!("RELEASE {}", transaction(*id)),
        Message::AskOutcome { transaction: id, period, committed } => {
            format!("ASK-OUTCOME {}, period {}, {committed} committed", transaction(*id), period.0)
        }
        Message::Abandoned { transaction: id, last } => {
            format!("{} ABANDONED, all after {last}", transaction(*id))
        }
        Message::NeverCommitted { transaction: id, last } => {
            format!("{} NEVER-COMMITTED, nothing after {last}", transaction(*id))
        }
        Message::AskShare { counter, wanted } => format!("ASK-SHARE {wanted} of {}", text(counter)),
        Message::AskLast { .. } => "ASK-LAST".to_owned(),
        Message::Last { seqno, .. } => format!("LAST {seqno}"),
        Message::Frozen { frozen, received } => format!(
            "FROZEN without {}, had received {} and committed {}, has received {received}",
            frozen.removals, frozen.received, frozen.seqno
        ),
        Message::Relay { commits: all } => format!("RELAY {}", commits(all)),
        Message::Forgotten { transaction: id } => format!("{} FORGOTTEN", transaction(*id)),
        Message::AskMilestone { transaction: id, version, milestone } => {
            format!("ASK-MILESTONE {} {version} {milestone}", transaction(*id))
        }
        Message::MilestoneReply { transaction: id, milestone, missing } if missing.is_empty() => {
            format!("{} is {milestone}", transaction(*id))
        }
        Message::MilestoneReply { transaction: id, milestone, missing } => {
            let missing: Vec<String> = missing.iter().map(|site| site.to_string()).collect();
            format!("{} is not {milestone}, missing {}", transaction(*id), missing.join(" "))
        }
        Message::Join {} => "JOIN".to_owned(),
        Message::Expected { floor } => format!("EXPECTED, floor {floor}"),
        Message::Fetch { number, .. } => format!("FETCH page {number}"),
        Message::State { number, is_last, page: sent, .. } => {
            format!("STATE page {number}{}: {}", if *is_last { ", the last" } else { "" }, page(sent))
        }
        Message::Propagate { commits: all, durable } => {
            let all = commits(all);
            let all = if all.is_empty() { all } else { format!("{all}, ") };
            format!("PROPAGATE {all}durable to {durable}")
        }
        Message::Progress { received, committed, oldest } => {
            format!("PROGRESS received {received}, {committed} committed, {oldest} oldest")
        }
    }
}

fn page(page: &Page) -> String {
    match page {
        Page::Bounds { floor, committed, .. } => format!("{committed} has committed, floor {floor}"),
        Page::Registers(registers) => {
            let read = |read: &quorate_walter::Read| {
                format!("{}={}@{}", text(&read.key), text(&read.value), read.version)
            };
            registers.iter().map(read).collect::<Vec<_>>().join(" ")
        }
        Page::Counts(counts) => elements(counts.iter().map(|count| (count.element.clone(), count.count))),
        Page::Containers(containers) => {
            let placed = |placed: &quorate_walter::Placed| {
                format!("{} at {}", text(&placed.name), placed.container.preferred)
            };
            containers.iter().map(placed).collect::<Vec<_>>().join(" ")
        }
        Page::Journal { commits: all, .. } => commits(all),
        Page::Removals { removals, .. } => {
            let removed = removals.iter().map(|removal| format!("{} was removed", removal.site));
            removed.collect::<Vec<_>>().join(", ")
        }
        Page::Joined(joined) => format!("{joined:?} have joined"),
        Page::Locks(_) | Page::Ended(_) | Page::Partial {} => format!("{page:?}"),
    }
}

pub(crate) fn settlement(settlement: &Settlement) -> String {
    let end = |(shard, settled): &(quorate_core::ShardId, quorate_core::topology::Settled)| {
        format!("that {shard} ends at {}, with the barrier {:?}", settled.last, settled.barrier)
    };
    let ready = settlement.ready.map(|shard| format!("that {shard} is ready"));
    settlement.ends.iter().map(end).chain(ready).collect::<Vec<_>>().join(", ")
}

pub(crate) fn entry(entry: &Entry) -> String {
    match entry {
        Entry::Commit(one) => format!("COMMIT {}", commit(one)),
        Entry::Refused(id) => format!("REFUSED {}", transaction(*id)),
        Entry::Received(all) => format!("RECEIVED {}", commits(all)),
        Entry::Advance(vector) => format!("ADVANCE {vector}"),
        Entry::Locked { transaction: id, origin, keys: all } => {
            format!("LOCKED {} for {} of {origin}", keys(all), transaction(*id))
        }
        Entry::Freeze(removals) => {
            let removed = removals.iter().map(|removal| format!("{} to {}", removal.site, removal.successor));
            format!("FREEZE without {}", removed.collect::<Vec<_>>().join(", "))
        }
        Entry::Join(joined) => format!("JOIN {joined:?}"),
        Entry::Anew {} => "ANEW".to_owned(),
        Entry::Adopt { number, is_last, page: adopted } => {
            format!("ADOPT page {number}{}: {}", if *is_last { ", the last" } else { "" }, page(adopted))
        }
        Entry::Removed { site, end } => format!("REMOVED {site} after {}", end.last),
        Entry::Released(id) => format!("RELEASED {}", transaction(*id)),
        Entry::Floor { floor, forgotten } => format!("FLOOR {floor}, period {} forgotten", forgotten.0),
    }
}

pub(crate) fn event(event: &Event) -> String {
    let of = |id: &TransactionId| transaction(*id);
    match event {
        Event::Got { transaction, key, value: found } => {
            format!("{} got {} = {}", of(transaction), text(key), value(found.as_ref()))
        }
        Event::Begun { transaction, .. } | Event::Shown { transaction, .. } => {
            format!("{} is not speculated with", of(transaction))
        }
        Event::Marked { transaction, key, value: found, is_in_flight } => {
            let mark = if *is_in_flight { ", in flight" } else { ", everywhere" };
            format!("{} got {} = {}{mark}", of(transaction), text(key), value(found.as_ref()))
        }
        Event::Scanned { transaction, entries, next } => {
            let entries = entries.iter().map(|(key, value)| format!("{}={}", text(key), text(value)));
            let entries: Vec<String> = entries.collect();
            let next = next.as_ref().map_or(String::new(), |next| format!(" … {}", text(next)));
            format!("{} scanned {}{next}", of(transaction), entries.join(" "))
        }
        Event::Located { transaction, name, preferred, .. } => {
            format!("{} finds {} at {preferred}", of(transaction), text(name))
        }
        Event::Set { transaction, answer: SetAnswer::Count { set, element, count } } => {
            format!("{} counts {}[{}] = {count}", of(transaction), text(set), text(element))
        }
        Event::Set { transaction, answer: SetAnswer::Elements { set, counts, rest } } => {
            let rest = rest.as_ref().map_or(String::new(), |rest| format!(" … {rest:?}"));
            format!("{} finds {}: {}{rest}", of(transaction), text(set), elements(counts.iter().cloned()))
        }
        Event::Set { transaction, answer: SetAnswer::Members { set, members, rest } } => {
            let all = members.iter().map(|member| {
                format!("{}{:+}={}", text(&member.element), member.count, value(member.value.as_ref()))
            });
            let all: Vec<String> = all.collect();
            let rest = rest.as_ref().map_or(String::new(), |rest| format!(" … {rest:?}"));
            format!("{} finds {} with: {}{rest}", of(transaction), text(set), all.join(" "))
        }
        Event::Finished { transaction, result: Ok(committed) } => {
            format!("{} COMMITTED as {}", of(transaction), committed.timestamp)
        }
        Event::Finished { transaction, result: Err(failure) } => {
            let why = match failure {
                Failure::Conflict => "CONFLICT".to_owned(),
                Failure::Aborted => "ABORTED".to_owned(),
                Failure::Unknown { .. } => "UNKNOWN".to_owned(),
                Failure::BelowZero => "BELOW ZERO".to_owned(),
                Failure::HistoryAbandoned { .. } => "HISTORY ABANDONED".to_owned(),
                Failure::TooOld { .. } => "TOO OLD".to_owned(),
                Failure::Invalid(Invalid::NeverCommitted { position }) => {
                    format!("has SEEN what s{position} never had")
                }
                other => format!("{other:?}"),
            };
            format!("{} {why}", of(transaction))
        }
        Event::Resolved { transaction, outcome } => {
            let outcome = match outcome {
                Some(Outcome::Committed(timestamp)) => format!("committed as {timestamp}"),
                Some(Outcome::Aborted) => "aborted".to_owned(),
                None => "unknown".to_owned(),
            };
            format!("{} resolved: {outcome}", of(transaction))
        }
        Event::Forgotten { transaction } => format!("{} is forgotten", of(transaction)),
        Event::Milestone { transaction, milestone, result } => {
            let id = of(transaction);
            match result {
                Ok(()) => format!("{id} is {milestone}"),
                Err(NotReached::Missing(missing)) => {
                    let missing: Vec<String> = missing.iter().map(|shard| shard.to_string()).collect();
                    format!("{id} is NOT {milestone} IN TIME, missing {}", missing.join(" "))
                }
                Err(NotReached::Invalid(mistake)) => format!("{id}: {mistake}"),
            }
        }
        other => format!("{other:?}"),
    }
}
