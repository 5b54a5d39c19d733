//! `XINFO`: what is known of a stream, of its groups and of their consumers.

use quorate_procedure::Direction;

use super::administration::no_subcommand;
use super::reading::{has_gap_behind, read_up_to};
use super::{Consumer, Group, Id, Opened, Work, count_argument, named, show, show_all};
use crate::database::Database;
use crate::layout::Stream;
use crate::parse::is_word;
use crate::reply::{Fail, Replied, Reply, fail, text};

/// The subcommands of `XINFO`, each with the number of its words; if negative, at least so many.
pub(crate) const INFO_SUBCOMMANDS: &[(&str, i32)] =
    &[("STREAM", -3), ("GROUPS", 3), ("CONSUMERS", 4), ("HELP", 2)];

/// Redis divides a stream into nodes of a tree, of about so many entries; here it is none, and a plausible number is told.
const NODE_ENTRIES: u64 = 100;

fn map(pairs: Vec<(&str, Reply)>) -> Reply {
    Reply::Map(pairs.into_iter().map(|(name, value)| (Reply::bulk(name), value)).collect())
}

fn number(number: u64) -> Reply {
    Reply::Integer(number as i64)
}

pub(crate) fn xinfo(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let is = |name: &str| is_word(arguments[1], name);
    if is("HELP") {
        return Ok(Reply::help(
            "XINFO",
            &[
                ("CONSUMERS <key> <group>", "The consumers of a group."),
                ("GROUPS <key>", "The groups of a stream."),
                (
                    "STREAM <key> [FULL [COUNT <count>]]",
                    "A stream; with FULL its first entries, its groups and consumers.",
                ),
            ],
        ));
    }
    let Some(stream) = Opened::find(database, arguments[2])? else { return fail(text::NO_SUCH_KEY) };
    if is("STREAM") {
        return stream_info(database, &stream, arguments);
    }
    let first = stream.first(database)?.unwrap_or(Id::LEAST);
    if is("GROUPS") {
        let groups = stream.groups(database)?.into_iter();
        let shown = groups.map(|(name, group)| {
            map(vec![
                ("name", Reply::Bulk(name)),
                ("consumers", number(group.consumers)),
                ("pending", number(group.pending)),
                ("last-delivered-id", group.last.reply()),
                ("entries-read", group.read.map_or(Reply::Null, number)),
                ("lag", lag(&stream.facts, first, &group)),
            ])
        });
        return Ok(Reply::Array(shown.collect()));
    }
    let Some(group) = stream.group(database, arguments[3])? else {
        let (key, name) = (named(arguments[2]), named(arguments[3]));
        return fail(format!("NOGROUP No such consumer group '{name}' for key name '{key}'"));
    };
    let now = database.told_micros() / 1_000;
    let consumers = Work::of(&stream, arguments[3], group).all_consumers(database)?.into_iter();
    let shown = consumers.map(|(name, consumer)| {
        map(vec![
            ("name", Reply::Bulk(name)),
            ("pending", number(consumer.pending)),
            ("idle", number(now.saturating_sub(consumer.seen))),
        ])
    });
    Ok(Reply::Array(shown.collect()))
}

/// How many entries a group has not read; nothing if that cannot be told.
fn lag(stream: &Stream, first: Id, group: &Group) -> Reply {
    if stream.added == 0 {
        return Reply::Integer(0);
    }
    let known = group.read.filter(|_| !has_gap_behind(stream, first, group.last));
    let read = known.or_else(|| read_up_to(stream, first, group.last));
    read.map_or(Reply::Null, |read| number(stream.added.wrapping_sub(read)))
}

/// How many entries, and how much of what is pending, `XINFO STREAM … FULL` tells; none if it does not ask for that.
fn full_count(options: &[&[u8]]) -> Result<Option<usize>, Option<Fail>> {
    const COUNT: usize = 10;
    match options {
        [word] if is_word(word, "FULL") => Ok(Some(COUNT)),
        [word, name, count] if is_word(word, "FULL") && is_word(name, "COUNT") => {
            let is_negative = crate::parse::integer(count).is_some_and(|count| count < 0);
            let count = if is_negative { COUNT } else { count_argument(count).map_err(Some)? };
            Ok(Some(if count == 0 { usize::MAX } else { count }))
        }
        [] => Ok(None),
        _ => Err(None),
    }
}

fn stream_info(database: &mut Database<'_>, stream: &Opened<'_>, arguments: &[&[u8]]) -> Replied {
    let full = match full_count(&arguments[3..]) {
        Ok(full) => full,
        Err(None) => return Ok(no_subcommand("XINFO", arguments[1])),
        Err(Some(fault)) => return Err(fault),
    };
    let facts = &stream.facts;
    let first = stream.first(database)?.unwrap_or(Id::LEAST);
    let nodes = facts.length.div_ceil(NODE_ENTRIES);
    let mut told = vec![
        ("length", number(facts.length)),
        ("radix-tree-keys", number(nodes)),
        ("radix-tree-nodes", number(nodes + 1)),
        ("last-generated-id", facts.last.reply()),
        ("max-deleted-entry-id", facts.deleted.reply()),
        ("entries-added", number(facts.added)),
        ("recorded-first-entry-id", first.reply()),
    ];
    let all = (Id::LEAST, Id::GREATEST);
    let Some(count) = full else {
        told.push(("groups", number(facts.groups)));
        for (name, direction) in
            [("first-entry", Direction::Ascending), ("last-entry", Direction::Descending)]
        {
            let entries = stream.entries(database, all, 1, direction)?;
            told.push((name, entries.first().map(show).transpose()?.unwrap_or(Reply::Null)));
        }
        return Ok(map(told));
    };
    let entries = stream.entries(database, all, count, Direction::Ascending)?;
    told.push(("entries", show_all(&entries)?));
    let mut groups = Vec::new();
    for (name, group) in stream.groups(database)? {
        groups.push(full_group(database, stream, (&name, group), (first, count))?);
    }
    told.push(("groups", Reply::Array(groups)));
    Ok(map(told))
}

/// A group with its consumers and what is pending.
fn full_group(
    database: &mut Database<'_>,
    stream: &Opened<'_>,
    (name, group): (&[u8], Group),
    (first, count): (Id, usize),
) -> Replied {
    let work = Work::of(stream, name, group);
    let all = (Id::LEAST, Id::GREATEST);
    let pending = work.all_pending(database, all, count, Direction::Ascending)?.into_iter();
    let shown = pending.map(|(id, pending)| {
        let times = [number(pending.since), number(pending.deliveries)];
        Reply::Array([id.reply(), Reply::Bulk(pending.consumer)].into_iter().chain(times).collect())
    });
    let pending = Reply::Array(shown.collect());
    let mut consumers = Vec::new();
    for (name, consumer) in work.all_consumers(database)? {
        consumers.push(full_consumer(database, &work, (name, consumer), count)?);
    }
    Ok(map(vec![
        ("name", Reply::bulk(name)),
        ("last-delivered-id", group.last.reply()),
        ("entries-read", group.read.map_or(Reply::Null, number)),
        ("lag", lag(&stream.facts, first, &group)),
        ("pel-count", number(group.pending)),
        ("pending", pending),
        ("consumers", Reply::Array(consumers)),
    ]))
}

fn full_consumer(
    database: &mut Database<'_>,
    work: &Work,
    (name, consumer): (Vec<u8>, Consumer),
    count: usize,
) -> Replied {
    let mut shown = Vec::new();
    for id in work.ids_of(database, consumer, (Id::LEAST, Id::GREATEST), count)? {
        let pending = work.pending(database, id)?.ok_or(crate::Malformed)?;
        shown.push(Reply::Array(vec![id.reply(), number(pending.since), number(pending.deliveries)]));
    }
    Ok(map(vec![
        ("name", Reply::Bulk(name)),
        ("seen-time", number(consumer.seen)),
        ("pel-count", number(consumer.pending)),
        ("pending", Reply::Array(shown)),
    ]))
}
