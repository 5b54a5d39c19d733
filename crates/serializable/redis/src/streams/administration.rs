//! `XGROUP`, `XACK`, `XPENDING`: groups, and what is pending in them.

use quorate_procedure::Direction;

use super::ids::interval;
use super::{Id, Opened, Work, count_argument, named};
use crate::database::Database;
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::scan::MORE;

/// The subcommands of `XGROUP`, each with the number of its words; if negative, at least so many.
pub(crate) const GROUP_SUBCOMMANDS: &[(&str, i32)] =
    &[("CREATE", -5), ("SETID", -5), ("DESTROY", 4), ("CREATECONSUMER", 5), ("DELCONSUMER", 5), ("HELP", 2)];

/// The reply to a subcommand whose words make no sense.
pub(super) fn no_subcommand(command: &str, subcommand: &[u8]) -> Reply {
    let subcommand = crate::shown(subcommand);
    Reply::error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try {command} HELP."
    ))
}

/// The options of `XGROUP CREATE` and `XGROUP SETID`.
#[derive(Debug, Default)]
struct Options {
    makes_stream: bool,
    read: Option<u64>,
}

impl Options {
    /// Reads the options; none if they make no sense.
    fn parse(words: &[&[u8]], is_create: bool) -> Result<Option<Self>, Fail> {
        let (mut options, mut rest) = (Options::default(), words);
        while let [word, behind @ ..] = rest {
            rest = match behind {
                _ if is_create && is_word(word, "MKSTREAM") => {
                    options.makes_stream = true;
                    behind
                }
                [number, behind @ ..] if is_word(word, "ENTRIESREAD") => {
                    options.read = match integer_argument(number)? {
                        -1 => None,
                        number => match u64::try_from(number) {
                            Ok(number) => Some(number),
                            Err(_) => return fail("ERR value for ENTRIESREAD must be positive or -1"),
                        },
                    };
                    behind
                }
                _ => return Ok(None),
            };
        }
        Ok(Some(options))
    }
}

pub(crate) fn xgroup(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let is = |name: &str| is_word(arguments[1], name);
    if is("HELP") {
        return Ok(Reply::help(
            "XGROUP",
            &[
                (
                    "CREATE <key> <group> <id|$> [MKSTREAM] [ENTRIESREAD <count>]",
                    "Creates a group, and with MKSTREAM its stream.",
                ),
                ("CREATECONSUMER <key> <group> <consumer>", "Creates a consumer in a group."),
                ("DELCONSUMER <key> <group> <consumer>", "Removes a consumer, with what is pending for it."),
                ("DESTROY <key> <group>", "Removes a group."),
                (
                    "SETID <key> <group> <id|$> [ENTRIESREAD <count>]",
                    "Says which entry a group has read last.",
                ),
            ],
        ));
    }
    let (key, name) = (arguments[2], arguments[3]);
    let takes_options = is("CREATE") || is("SETID");
    let options = if takes_options { Options::parse(&arguments[5..], is("CREATE"))? } else { None };
    let nonsense = || Ok(no_subcommand("XGROUP", arguments[1]));
    // More words than these repeat something.
    let is_too_long = arguments.len() > if is("CREATE") { 8 } else { 7 };
    if takes_options && options.is_none() {
        return nonsense();
    }
    let Options { makes_stream, read } = options.unwrap_or_default();
    crate::hashes::check_field(name, b"")?;
    let found = Opened::find_to_write(database, key)?;
    let Some(stream) = found else {
        if !makes_stream {
            return fail(
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
            );
        }
        if is_too_long {
            return nonsense();
        }
        // A fault of the id comes before the stream is made.
        let last = group_id(arguments[4], None, true)?;
        let stream = Opened::create(database, key)?;
        return create(database, stream, (name, last, read));
    };
    let group = stream.group(database, name)?;
    if is("CREATE") {
        if is_too_long {
            return nonsense();
        }
        let last = group_id(arguments[4], Some(&stream), true)?;
        return match group {
            Some(_) => fail("BUSYGROUP Consumer Group name already exists"),
            None => create(database, stream, (name, last, read)),
        };
    }
    if is("DESTROY") {
        let Some(group) = group else { return Ok(Reply::Integer(0)) };
        let mut stream = stream;
        let is_all = stream.remove_group(database, name, group)?;
        stream.save(database)?;
        return Ok(if is_all { Reply::Integer(1) } else { MORE });
    }
    let Some(group) = group else {
        let (key, name) = (named(key), named(name));
        return fail(format!("NOGROUP No such consumer group '{name}' for key name '{key}'"));
    };
    let mut work = Work::of(&stream, name, group);
    let reply = if is("SETID") {
        if is_too_long {
            return nonsense();
        }
        (work.group.last, work.group.read) = (group_id(arguments[4], Some(&stream), false)?, read);
        Reply::OK
    } else if is("CREATECONSUMER") {
        let now = database.now();
        match work.consumer(database, arguments[4])? {
            Some(_) => return Ok(Reply::Integer(0)),
            None => Reply::flag(work.see(database, arguments[4], now)?),
        }
    } else {
        match work.remove_consumer(database, arguments[4])? {
            Some(pending) => Reply::Integer(pending as i64),
            None => return Ok(Reply::Integer(0)),
        }
    };
    work.save(database)?;
    stream.save(database)?;
    Ok(reply)
}

/// The id behind which a group reads.
fn group_id(word: &[u8], stream: Option<&Opened<'_>>, is_strict: bool) -> Result<Id, Fail> {
    match crate::c_string(word) {
        b"$" => Ok(stream.map_or(Id::LEAST, |stream| stream.facts.last)),
        _ if is_strict => Id::argument(word),
        _ => Id::argument_or_end(word, 0),
    }
}

fn create(
    database: &mut Database<'_>,
    mut stream: Opened<'_>,
    (name, last, read): (&[u8], Id, Option<u64>),
) -> Replied {
    stream.create_group(name, last, read)?.save(database)?;
    stream.save(database)?;
    Ok(Reply::OK)
}

pub(crate) fn xack(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let name = arguments[2];
    let Some(stream) = Opened::find_to_write(database, arguments[1])? else { return Ok(Reply::Integer(0)) };
    let Some(group) = stream.group(database, name)? else { return Ok(Reply::Integer(0)) };
    let ids = arguments[3..].iter().map(|word| Id::argument(word)).collect::<Result<Vec<_>, _>>()?;
    let mut work = Work::of(&stream, name, group);
    let mut acknowledged = 0;
    for id in ids {
        if let Some(pending) = work.pending(database, id)? {
            work.release(database, id, &pending)?;
            acknowledged += 1;
        }
    }
    if acknowledged > 0 {
        work.save(database)?;
        stream.save(database)?;
    }
    Ok(Reply::Integer(acknowledged))
}

/// The words of `XPENDING` behind the group.
#[derive(Debug)]
struct Asked<'a> {
    /// Delivered at least so long ago, in milliseconds.
    idle: i64,
    ids: (Id, Id),
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> Asked<'a> {
    fn parse(words: &[&'a [u8]]) -> Result<Self, Fail> {
        let (idle, words) = match words {
            [word, idle, rest @ ..] if is_word(word, "IDLE") => (integer_argument(idle)?, rest),
            words => (0, words),
        };
        let [start, end, count, rest @ ..] = words else { return fail(text::SYNTAX) };
        let count = count_argument(count)?;
        Ok(Asked { idle, ids: interval(start, end)?, count, consumer: rest.first().copied() })
    }
}

pub(crate) fn xpending(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    const WORDS_MIN: usize = 6;
    const WORDS_MAX: usize = 9;
    let asked = match arguments.len() {
        3 => None,
        WORDS_MIN..=WORDS_MAX => Some(Asked::parse(&arguments[3..])?),
        _ => return fail(text::SYNTAX),
    };
    let stream = Opened::find(database, arguments[1])?;
    let mut work = Work::find(database, stream.as_ref(), (arguments[1], arguments[2]), "")?;
    match asked {
        None => summary(database, &work),
        Some(asked) => details(database, &mut work, &asked),
    }
}

/// How much is pending, between which ids, and for whom.
fn summary(database: &mut Database<'_>, work: &Work) -> Replied {
    let all = (Id::LEAST, Id::GREATEST);
    let first = work.all_pending(database, all, 1, Direction::Ascending)?;
    let last = work.all_pending(database, all, 1, Direction::Descending)?;
    let count = Reply::Integer(work.group.pending as i64);
    let (Some((first, _)), Some((last, _))) = (first.first(), last.first()) else {
        return Ok(Reply::Array(vec![count, Reply::Null, Reply::Null, Reply::NullArray]));
    };
    let of = work.all_consumers(database)?.into_iter().filter(|(_, consumer)| consumer.pending > 0);
    let show = |(name, consumer): (Vec<u8>, super::Consumer)| {
        Reply::Array(vec![Reply::Bulk(name), Reply::bulk(consumer.pending.to_string())])
    };
    Ok(Reply::Array(vec![count, first.reply(), last.reply(), Reply::Array(of.map(show).collect())]))
}

/// Pending entries, each with its consumer, how long ago it was delivered, and how often.
fn details(database: &mut Database<'_>, work: &mut Work, asked: &Asked<'_>) -> Replied {
    /// So many are looked at together.
    const PAGE: usize = 64;
    let consumer = match asked.consumer {
        None => None,
        Some(name) => match work.consumer(database, name)? {
            Some(consumer) => Some(consumer),
            None => return Ok(Reply::Array(Vec::new())),
        },
    };
    let now = database.told_micros() / 1_000;
    let (mut told, mut from) = (Vec::new(), Some(asked.ids.0));
    while let Some(first) = from
        && told.len() < asked.count
    {
        let ids = (first, asked.ids.1);
        let found = match consumer {
            None => work.all_pending(database, ids, PAGE, Direction::Ascending)?,
            Some(consumer) => {
                let mut found = Vec::new();
                for id in work.ids_of(database, consumer, ids, PAGE)? {
                    found.push((id, work.pending(database, id)?.ok_or(crate::Malformed)?));
                }
                found
            }
        };
        from = found.last().filter(|_| found.len() == PAGE).and_then(|(id, _)| id.next());
        for (id, pending) in found {
            let idle = pending.idle(now);
            if told.len() < asked.count && (asked.idle == 0 || idle >= asked.idle) {
                told.push(Reply::Array(vec![
                    id.reply(),
                    Reply::Bulk(pending.consumer),
                    Reply::Integer(idle.max(0)),
                    Reply::Integer(pending.deliveries as i64),
                ]));
            }
        }
    }
    Ok(Reply::Array(told))
}
