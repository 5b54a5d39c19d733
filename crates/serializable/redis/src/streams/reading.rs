//! `XREAD` and `XREADGROUP`. Neither waits here: a door tries again when something has come.

use quorate_procedure::Direction;

use super::{Entry, Id, Opened, Pending, Work, count_argument, show, show_all};
use crate::database::Database;
use crate::layout::Stream;
use crate::parse::{integer, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};

/// At most so many entries of a stream are read where no `COUNT` says otherwise: a reader goes on behind the last one.
const ENTRIES_MAX: usize = 10_000;

/// The words of one of the two commands.
#[derive(Debug)]
struct Reading<'a, 'b> {
    is_of_group: bool,
    /// The group and the consumer.
    group: Option<(&'a [u8], &'a [u8])>,
    /// At most so many entries of each stream.
    limit: usize,
    is_acknowledged: bool,
    keys: &'b [&'a [u8]],
    ids: &'b [&'a [u8]],
}

/// The positions of the options up to `STREAMS`: of the time-out, and of the first key.
fn positions(words: &[impl AsRef<[u8]>]) -> (Option<usize>, Option<usize>) {
    let (mut at, mut timeout) = (1, None);
    while let Some(word) = words.get(at) {
        let is = |name: &str| is_word(word.as_ref(), name);
        if is("BLOCK") {
            timeout = Some(at + 1).filter(|at| *at < words.len());
            at += 1;
        } else if is("COUNT") {
            at += 1;
        } else if is("GROUP") {
            at += 2;
        } else if is("STREAMS") {
            return (timeout, Some(at + 1));
        } else if !is("NOACK") {
            break;
        }
        at += 1;
    }
    (timeout, None)
}

/// The positions of the keys of `XREAD` or `XREADGROUP`.
pub(crate) fn key_positions(words: &[impl AsRef<[u8]>]) -> std::ops::Range<usize> {
    let first = positions(words).1.unwrap_or(words.len()).min(words.len());
    let count = words.len() - first;
    if count.is_multiple_of(2) { first..first + count / 2 } else { 0..0 }
}

/// The position of the time-out of `XREAD` or `XREADGROUP`, if it is to wait.
pub fn timeout_position(words: &[impl AsRef<[u8]>]) -> Option<usize> {
    let is_reading = words
        .first()
        .is_some_and(|name| is_word(name.as_ref(), "XREAD") || is_word(name.as_ref(), "XREADGROUP"));
    if is_reading { positions(words).0 } else { None }
}

impl<'a, 'b> Reading<'a, 'b> {
    fn parse(words: &'b [&'a [u8]]) -> Result<Self, Fail> {
        let is_of_group = !is_word(words[0], "XREAD");
        let (mut group, mut limit, mut is_acknowledged) = (None, ENTRIES_MAX, false);
        let mut rest = &words[1..];
        let streams = loop {
            let [word, behind @ ..] = rest else { return fail(text::SYNTAX) };
            let is = |name: &str, more: usize| is_word(word, name) && behind.len() >= more;
            let taken = if is("BLOCK", 1) {
                check_timeout(behind[0])?;
                1
            } else if is("COUNT", 1) {
                limit = Some(count_argument(behind[0])?).filter(|count| *count > 0).unwrap_or(ENTRIES_MAX);
                1
            } else if is("STREAMS", 1) {
                break behind;
            } else if is("GROUP", 2) || is("NOACK", 0) {
                let name = if is("GROUP", 2) { "GROUP" } else { "NOACK" };
                if !is_of_group {
                    return fail(format!(
                        "ERR The {name} option is only supported by XREADGROUP. You called XREAD instead."
                    ));
                }
                if name == "GROUP" {
                    group = Some((behind[0], behind[1]));
                    2
                } else {
                    is_acknowledged = true;
                    0
                }
            } else {
                return fail(text::SYNTAX);
            };
            rest = &behind[taken..];
        };
        if !streams.len().is_multiple_of(2) {
            return fail(
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified.",
            );
        }
        if is_of_group && group.is_none() {
            return fail("ERR Missing GROUP option for XREADGROUP");
        }
        let (keys, ids) = streams.split_at(streams.len() / 2);
        Ok(Reading { is_of_group, group, limit, is_acknowledged, keys, ids })
    }
}

/// Refuses what is no time to wait, in milliseconds.
fn check_timeout(word: &[u8]) -> Result<(), Fail> {
    match integer(word) {
        Some(0..) => Ok(()),
        Some(_) => fail("ERR timeout is negative"),
        None => fail("ERR timeout is not an integer or out of range"),
    }
}

/// The id behind which a word asks for entries.
fn after(word: &[u8], stream: Option<&Opened<'_>>, is_of_group: bool) -> Result<Id, Fail> {
    match (crate::c_string(word), is_of_group) {
        (b"$", true) => fail(
            "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
        ),
        (b"$", false) => Ok(stream.map_or(Id::LEAST, |stream| stream.facts.last)),
        // New entries are what is behind the greatest id, for Redis as well.
        (b">", true) => Ok(Id::GREATEST),
        (b">", false) => fail(
            "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option.",
        ),
        _ => Id::argument(word),
    }
}

fn table(told: Vec<(&[u8], Reply)>) -> Reply {
    if told.is_empty() {
        return Reply::NullArray;
    }
    Reply::Table(told.into_iter().map(|(key, entries)| (Reply::bulk(key), entries)).collect())
}

pub(crate) fn xread(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let reading = Reading::parse(arguments)?;
    let mut streams = Vec::with_capacity(reading.keys.len());
    for (key, word) in reading.keys.iter().zip(reading.ids) {
        let stream = Opened::find(database, key)?;
        let id = after(word, stream.as_ref(), reading.is_of_group)?;
        streams.push((stream, id));
    }
    let mut told = Vec::new();
    for (stream, id) in streams {
        let (Some(stream), Some(from)) = (stream, id.next()) else { continue };
        let ids = (from, Id::GREATEST);
        let entries = stream.entries(database, ids, reading.limit, Direction::Ascending)?;
        if !entries.is_empty() {
            told.push((stream.key, show_all(&entries)?));
        }
    }
    Ok(table(told))
}

pub(crate) fn xreadgroup(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let reading = Reading::parse(arguments)?;
    let Some((group, consumer)) = reading.group else { return fail(text::SYNTAX) };
    let mut all = Vec::with_capacity(reading.keys.len());
    for (key, word) in reading.keys.iter().zip(reading.ids) {
        let stream = Opened::find_to_write(database, key)?;
        let names = (*key, group);
        Work::find(database, stream.as_ref(), names, " in XREADGROUP with GROUP option")?;
        all.push((*key, after(word, stream.as_ref(), true)?));
    }
    crate::hashes::check_field(consumer, b"")?;
    let mut told = Vec::new();
    for (key, id) in all {
        // One stream may be named twice: so it is read again.
        let Some(stream) = Opened::find_to_write(database, key)? else { continue };
        let Some(of) = stream.group(database, group)? else { continue };
        let mut work = Work::of(&stream, group, of);
        let entries = if id == Id::GREATEST {
            match new_entries(database, &stream, &mut work, consumer, &reading)? {
                Some(entries) => show_all(&entries)?,
                None => continue,
            }
        } else {
            history(database, &stream, &mut work, consumer, (id, reading.limit))?
        };
        work.save(database)?;
        stream.save(database)?;
        told.push((key, entries));
    }
    Ok(table(told))
}

/// Delivers entries that the group has not read, if there are some.
fn new_entries(
    database: &mut Database<'_>,
    stream: &Opened<'_>,
    work: &mut Work,
    consumer: &[u8],
    reading: &Reading<'_, '_>,
) -> Result<Option<Vec<Entry>>, Fail> {
    let Some(from) = work.group.last.next() else { return Ok(None) };
    let ids = (from, Id::GREATEST);
    let entries = stream.entries(database, ids, reading.limit, Direction::Ascending)?;
    if entries.is_empty() {
        return Ok(None);
    }
    let (now, first) = (database.now(), stream.first(database)?.unwrap_or(Id::LEAST));
    work.see(database, consumer, now)?;
    // The group may have been set back, so that entries are pending already.
    let all = (Id::LEAST, Id::GREATEST);
    let pending = work.all_pending(database, all, 1, Direction::Descending)?;
    let last_pending = pending.first().map(|(id, _)| *id);
    for (id, _) in &entries {
        work.group.read = match work.group.read {
            Some(read) if !has_gap_behind(&stream.facts, first, *id) => Some(read + 1),
            read if stream.facts.added == 0 => read,
            _ => read_up_to(&stream.facts, first, *id),
        };
        work.group.last = *id;
        if reading.is_acknowledged {
            continue;
        }
        let before = if last_pending >= Some(*id) { work.pending(database, *id)? } else { None };
        let pending = Pending { consumer: consumer.to_vec(), since: now, deliveries: 1 };
        work.assign(database, *id, before.as_ref(), &pending)?;
    }
    Ok(Some(entries))
}

/// Delivers what is pending for a consumer again. An entry that was deleted meanwhile has no fields.
fn history(
    database: &mut Database<'_>,
    stream: &Opened<'_>,
    work: &mut Work,
    name: &[u8],
    (id, limit): (Id, usize),
) -> Replied {
    let now = database.now();
    work.see(database, name, now)?;
    let (Some(consumer), Some(from)) = (work.consumer(database, name)?, id.next()) else {
        return Ok(Reply::Array(Vec::new()));
    };
    let mut told = Vec::new();
    for id in work.ids_of(database, consumer, (from, Id::GREATEST), limit)? {
        let Some(entry) = stream.entry(database, id)? else {
            told.push(Reply::Array(vec![id.reply(), Reply::NullArray]));
            continue;
        };
        let before = work.pending(database, id)?.ok_or(crate::Malformed)?;
        let deliveries = before.deliveries.wrapping_add(1);
        let pending = Pending { since: now, deliveries, ..before.clone() };
        work.assign(database, id, Some(&before), &pending)?;
        told.push(show(&entry)?);
    }
    Ok(Reply::Array(told))
}

/// True if an entry behind an id was deleted by name, so that those that are there tell no count.
pub(super) fn has_gap_behind(stream: &Stream, first: Id, id: Id) -> bool {
    stream.length > 0 && stream.deleted > Id::LEAST && first <= stream.deleted && id <= stream.deleted
}

/// How many entries were ever added up to an id, if that can be told.
pub(super) fn read_up_to(stream: &Stream, first: Id, id: Id) -> Option<u64> {
    if stream.added == 0 {
        return Some(0);
    }
    if id == stream.last || stream.length == 0 && id < stream.last {
        return Some(stream.added);
    }
    let is_whole = stream.deleted == Id::LEAST || stream.deleted < first;
    if id > stream.last || !is_whole || id > first {
        return None;
    }
    Some(stream.added.wrapping_sub(stream.length).wrapping_add(u64::from(id == first)))
}

/// Tells whether `XREADGROUP` with these words would reply something about its first key, be it an error; under a name that no client can send.
pub(crate) fn unread(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let reading = Reading::parse(arguments)?;
    let (Some((name, _)), Some(key)) = (reading.group, reading.keys.first()) else {
        return fail(text::SYNTAX);
    };
    let group = match Opened::find(database, key) {
        Ok(Some(stream)) => stream.group(database, name)?.map(|group| (stream, group)),
        Ok(None) | Err(Fail::Error(_)) => None,
        Err(stop) => return Err(stop),
    };
    let Some((stream, group)) = group else { return Ok(Reply::flag(true)) };
    let Some(from) = group.last.next() else { return Ok(Reply::flag(false)) };
    let found = stream.entries(database, (from, Id::GREATEST), 1, Direction::Ascending)?;
    Ok(Reply::flag(!found.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(time: u64) -> Id {
        Id { time, number: 0 }
    }

    #[test]
    fn keys_and_time_out_are_found_among_options() {
        let of = |text: &str| {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            (timeout_position(&words), key_positions(&words))
        };
        assert_eq!(of("XREAD COUNT 2 BLOCK 5 STREAMS a b 1 2"), (Some(4), 6..8));
        assert_eq!(of("xreadgroup GROUP BLOCK g NOACK streams a >"), (None, 6..7));
        assert_eq!(of("xread block"), (None, 2..2));
        assert_eq!(of("xread streams a"), (None, 0..0));
        assert_eq!(of("xread nothing block 1 streams a 1"), (None, 7..7));
        assert_eq!(of("get block 1"), (None, 3..3));
    }

    #[test]
    fn a_group_counts_its_reads_where_no_entry_is_missing() {
        let whole = Stream {
            generation: 1,
            length: 3,
            last: id(5),
            deleted: Id::LEAST,
            added: 5,
            groups: 1,
            last_group: 1,
        };
        for (asked, expected) in [(1, Some(2)), (3, Some(3)), (4, None), (5, Some(5)), (6, None)] {
            assert_eq!(read_up_to(&whole, id(3), id(asked)), expected, "{asked}");
        }
        let gap = Stream { deleted: id(4), ..whole };
        assert_eq!(read_up_to(&gap, id(3), id(1)), None);
        assert_eq!(read_up_to(&gap, id(3), id(5)), Some(5));
        assert!(has_gap_behind(&gap, id(3), id(4)) && !has_gap_behind(&gap, id(3), id(5)));
        assert!(!has_gap_behind(&gap, id(5), id(1)), "the gap lies before all entries");
        let empty = Stream { length: 0, ..whole };
        assert_eq!(read_up_to(&empty, Id::LEAST, id(1)), Some(5));
        assert_eq!(read_up_to(&Stream { added: 0, ..empty }, Id::LEAST, id(9)), Some(0));
    }
}
