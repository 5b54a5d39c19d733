//! Keys whatever they hold: `DEL`, `EXISTS`, `RENAME`, `COPY`, `OBJECT` and their kin.

use crate::database::Database;
use crate::layout::{Body, Collection, Header, Kind, Stream, behind, elements_prefix};
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::strings;

/// A copy reads and writes so many records at most in one go.
const COPIED_AT_ONCE: usize = 8;

pub(crate) fn del(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let mut count = 0;
    for key in &arguments[1..] {
        if let Some(header) = database.find_to_write(key)? {
            database.remove(key, &header)?;
            count += 1;
        }
    }
    Ok(Reply::Integer(count))
}

pub(crate) fn exists(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let mut count = 0;
    for key in &arguments[1..] {
        count += i64::from(database.find(key)?.is_some());
    }
    Ok(Reply::Integer(count))
}

pub(crate) fn type_of(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let found = database.find(arguments[1])?;
    Ok(Reply::Simple(found.map_or("none", |header| header.kind().name()).into()))
}

/// Moves or copies what a key holds. The destination is overwritten.
fn transfer(
    database: &mut Database<'_>,
    (from, to): (&[u8], &[u8]),
    header: &Header,
    keeps_source: bool,
) -> Result<(), Fail> {
    let before = database.find_to_write(to)?;
    if let Some(before) = &before {
        database.remove(to, before)?;
    }
    let mut moved = header.clone();
    let same_slot = crate::slot_of(from) == crate::slot_of(to);
    match header.generation() {
        // The elements stay where they are, and belong to the other key from now on.
        Some(_) if same_slot && !keeps_source => {}
        Some(generation) => {
            let fresh = database.next_generation(to)?;
            let (source, target) = (elements_prefix(from, generation), elements_prefix(to, fresh));
            let (mut at, end) = (source.clone(), behind(&source));
            loop {
                let records = database.records(&at, &end, COPIED_AT_ONCE)?;
                for (record, value) in &records {
                    database.store.put(&[&target, &record[source.len()..]].concat(), value)?;
                }
                match records.last() {
                    Some((last, _)) if records.len() == COPIED_AT_ONCE => {
                        at = [last.as_slice(), b"\0"].concat()
                    }
                    _ => break,
                }
            }
            match &mut moved.body {
                Body::Inline(_) => {}
                Body::Chunked { generation, .. }
                | Body::Collection(Collection { generation, .. })
                | Body::Stream(Stream { generation, .. }) => *generation = fresh,
            }
        }
        None => {}
    }
    if !keeps_source {
        if same_slot {
            database.store.delete(&crate::layout::header_record(from))?;
        } else {
            database.remove(from, header)?;
        }
    }
    moved.stamp = moved.stamp.max(before.map_or(0, |before| before.stamp));
    database.save(to, &mut moved)
}

fn rename_to(database: &mut Database<'_>, arguments: &[&[u8]], overwrites: bool) -> Replied {
    let (from, to) = (arguments[1], arguments[2]);
    let Some(header) = database.find_to_write(from)? else { return fail(text::NO_SUCH_KEY) };
    let done = if overwrites { Reply::OK } else { Reply::Integer(1) };
    if from == to {
        return Ok(if overwrites { Reply::OK } else { Reply::Integer(0) });
    }
    if !overwrites && database.find_to_write(to)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    transfer(database, (from, to), &header, false)?;
    Ok(done)
}

pub(crate) fn rename(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    rename_to(database, arguments, true)
}

pub(crate) fn renamenx(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    rename_to(database, arguments, false)
}

pub(crate) fn copy(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let (mut replaces, mut rest) = (false, arguments[3..].iter());
    while let Some(word) = rest.next() {
        if is_word(word, "REPLACE") {
            replaces = true;
        } else if is_word(word, "DB")
            && let Some(number) = rest.next()
        {
            if integer_argument(number)? != 0 {
                return fail("ERR unsupported: COPY to another database");
            }
        } else {
            return fail(text::SYNTAX);
        }
    }
    let (from, to) = (arguments[1], arguments[2]);
    if from == to {
        return fail("ERR source and destination objects are the same");
    }
    let Some(header) = database.find(from)? else { return Ok(Reply::Integer(0)) };
    if !replaces && database.find_to_write(to)?.is_some() {
        return Ok(Reply::Integer(0));
    }
    transfer(database, (from, to), &header, true)?;
    Ok(Reply::Integer(1))
}

/// The subcommands of `OBJECT`, each with the number of its words.
pub(crate) const OBJECT_SUBCOMMANDS: &[(&str, i32)] =
    &[("HELP", 2), ("ENCODING", 3), ("FREQ", 3), ("IDLETIME", 3), ("REFCOUNT", 3)];

pub(crate) fn object(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    if is_word(arguments[1], "HELP") {
        return Ok(Reply::help(
            "OBJECT",
            &[
                ("ENCODING <key>", "How Redis would keep what a key holds."),
                ("FREQ <key>", "How often a key is read, which nobody counts here."),
                ("IDLETIME <key>", "How many seconds ago a key was written."),
                ("REFCOUNT <key>", "How many keys share a value: one."),
            ],
        ));
    }
    let Some(header) = database.find(arguments[2])? else { return Ok(Reply::Null) };
    if is_word(arguments[1], "ENCODING") {
        return Ok(Reply::bulk(encoding_of(&header)));
    }
    if is_word(arguments[1], "REFCOUNT") {
        return Ok(Reply::Integer(1));
    }
    if is_word(arguments[1], "IDLETIME") {
        // Since it was written: reads leave no trace.
        let idle = database.told_micros().saturating_sub(header.stamp) / 1_000_000;
        return Ok(Reply::Integer(idle as i64));
    }
    fail(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU \
         and LFU data will take some time to adjust.",
    )
}

/// A plausible answer: what Redis would keep this in.
fn encoding_of(header: &Header) -> &'static str {
    /// Collections of more elements are no list packs, of sorted sets those of more than the second number.
    const PACKED_MAX: u64 = 512;
    const SORTED_MAX: u64 = 128;
    let is_packed = |max| header.encoding == 0 && strings::length_of(header) as u64 <= max;
    match header.kind() {
        Kind::String => strings::encoding_of(header),
        Kind::List => "quicklist",
        Kind::Set if is_packed(PACKED_MAX) => "intset",
        Kind::Set => "hashtable",
        Kind::Hash if is_packed(PACKED_MAX) => "listpack",
        Kind::Hash => "hashtable",
        Kind::SortedSet if is_packed(SORTED_MAX) => "listpack",
        Kind::SortedSet => "skiplist",
        Kind::Stream => "stream",
    }
}

/// Tells what a key holds: for `WATCH`, under a name that no client can send.
pub(crate) fn mark(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let marks = arguments[1..].iter().map(|key| Ok(Reply::Integer(database.mark(key)? as i64)));
    Ok(Reply::Array(marks.collect::<Result<_, Fail>>()?))
}
