//! Walks over keys and over elements: `SCAN`, `KEYS`, `RANDOMKEY`, `DBSIZE`, `HSCAN`, and what they have in common.
//!
//! A cursor is the place to go on from: of keys the slot and the hash that order headers, of elements their hash. A walk only goes forward,
//! even while clients write. So it ends, and meets each key that is there from its beginning to its end.

use quorate_procedure::Direction;

use crate::bytes::Pair;
use crate::database::Database;
use crate::glob;
pub(crate) use crate::layout::Position;
use crate::layout::{
    Collection, HASH_BITS, Header, Kind, SLOTS, behind, elements_prefix, hash_of, key_of_header, kind,
};
use crate::parse::{integer_argument, is_word};
use crate::reply::{Fail, Replied, Reply, fail, text};

/// The elements that are looked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filter<'a> {
    pattern: Option<&'a [u8]>,
    of: Option<Option<Kind>>,
}

impl Filter<'_> {
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.pattern.is_none_or(|pattern| pattern == b"*" || glob::matches(pattern, name))
    }

    fn takes(&self, header: &Header) -> bool {
        self.of.is_none_or(|of| of == Some(header.kind()))
    }
}

/// The options of `SCAN` and its kin.
#[derive(Clone, Copy, Debug)]
struct Options<'a> {
    filter: Filter<'a>,
    count: usize,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a [u8]], has_type: bool) -> Result<Self, Fail> {
        const COUNT: usize = 10;
        let mut options = Options { filter: Filter::default(), count: COUNT };
        let mut rest = arguments;
        while let [word, behind @ ..] = rest {
            let [value, behind @ ..] = behind else { return fail(text::SYNTAX) };
            rest = behind;
            if is_word(word, "COUNT") {
                let count = integer_argument(value)?;
                if count < 1 {
                    return fail(text::SYNTAX);
                }
                options.count = count as usize;
            } else if is_word(word, "MATCH") {
                options.filter.pattern = Some(value);
            } else if is_word(word, "TYPE") && has_type {
                options.filter.of = Some(Kind::named(value));
            } else {
                return fail(text::SYNTAX);
            }
        }
        Ok(options)
    }
}

/// Reads a cursor as Redis does, which takes it for a number of C; none if it is none.
pub fn cursor(argument: &[u8]) -> Option<u64> {
    let text = argument.split(|byte| *byte == 0).next().unwrap_or_default();
    match text {
        [] => Some(0),
        [b'-', digits @ ..] => std::str::from_utf8(digits).ok()?.parse().ok().map(u64::wrapping_neg),
        digits => std::str::from_utf8(digits).ok()?.parse().ok(),
    }
}

fn cursor_argument(argument: &[u8]) -> Result<u64, Fail> {
    cursor(argument).map_or_else(|| fail("ERR invalid cursor"), Ok)
}

impl Position {
    pub(crate) fn of_cursor(cursor: u64) -> Self {
        Position { slot: (cursor >> HASH_BITS) as u16 % SLOTS, hash: cursor & ((1 << HASH_BITS) - 1) }
    }

    pub(crate) fn cursor(self) -> u64 {
        u64::from(self.slot) << HASH_BITS | self.hash
    }

    /// The next position; none behind the last one.
    pub(crate) fn next(self) -> Option<Self> {
        let next = self.cursor() + 1;
        (next >> HASH_BITS < u64::from(SLOTS)).then(|| Position::of_cursor(next))
    }
}

/// So many records are read in one go: headers are short, and a command asks for several pages if it needs more.
pub(crate) const PAGE: usize = 256;

/// Keys from a position on, about so many of them looked at, with the position to go on from.
fn page(
    database: &mut Database<'_>,
    from: Position,
    count: usize,
    filter: Filter<'_>,
) -> Result<(Vec<Vec<u8>>, Option<Position>), Fail> {
    let end = behind(&[kind::HEADER, b'{']);
    let (mut found, mut seen, mut at) = (Vec::new(), 0, from.record());
    // All keys of one position are told together, however many were asked for.
    let mut last: Option<Position> = None;
    loop {
        let limit = PAGE.min(count.saturating_sub(seen) + 1);
        let records = database.records(&at, &end, limit)?;
        for (record, value) in &records {
            let (position, key) = key_of_header(record)?;
            if seen >= count && last.is_some_and(|last| last < position) {
                return Ok((found, Some(position)));
            }
            (seen, last) = (seen + 1, Some(position));
            let header = Header::decode(value)?;
            if !database.is_expired(&header) && filter.takes(&header) && filter.matches(key) {
                found.push(key.to_vec());
            }
        }
        match records.last() {
            Some((record, _)) if records.len() == limit => at = [record.as_slice(), b"\0"].concat(),
            _ => return Ok((found, None)),
        }
    }
}

const FIRST: Position = Position { slot: 0, hash: 0 };

pub(crate) fn scan(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let from = Position::of_cursor(cursor_argument(arguments[1])?);
    let Options { filter, count } = Options::parse(&arguments[2..], true)?;
    let (found, next) = page(database, from, count, filter)?;
    let next = next.map_or(0, Position::cursor).to_string();
    Ok(Reply::Array(vec![Reply::bulk(next), Reply::bulks(found)]))
}

pub(crate) fn keys(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let filter = Filter { pattern: Some(arguments[1]), of: None };
    let (found, _) = page(database, FIRST, usize::MAX - 1, filter)?;
    Ok(Reply::bulks(found))
}

pub(crate) fn dbsize(database: &mut Database<'_>, _: &[&[u8]]) -> Replied {
    let (found, _) = page(database, FIRST, usize::MAX - 1, Filter::default())?;
    Ok(Reply::count(found.len()))
}

pub(crate) fn randomkey(database: &mut Database<'_>, _: &[&[u8]]) -> Replied {
    let mut from = Some(Position::of_cursor(database.draw() >> 13));
    let mut has_wrapped = false;
    loop {
        let (found, next) = page(database, from.unwrap_or(FIRST), 1, Filter::default())?;
        if let Some(key) = found.into_iter().next() {
            return Ok(Reply::Bulk(key));
        }
        if next.is_none() && std::mem::replace(&mut has_wrapped, true) {
            return Ok(Reply::Null);
        }
        from = next;
    }
}

/// Removes all keys, or as many as fit into one transaction beside what it reads: then it replies `MORE`, and is to be called again.
pub(crate) fn flush(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    const KEYS_MAX: usize = 10_000;
    match arguments {
        [_] => {}
        [_, how] if is_word(how, "ASYNC") || is_word(how, "SYNC") => {}
        _ => return fail(text::SYNTAX),
    }
    let (mut at, end, mut count) = (FIRST.record(), behind(&[kind::HEADER, b'{']), 0);
    loop {
        let records = database.records(&at, &end, PAGE)?;
        for (record, value) in &records {
            let (_, key) = key_of_header(record)?;
            database.remove(key, &Header::decode(value)?)?;
        }
        count += records.len();
        match records.last() {
            Some(_) if count >= KEYS_MAX => return Ok(MORE),
            Some((record, _)) if records.len() == PAGE => at = [record.as_slice(), b"\0"].concat(),
            _ => return Ok(Reply::OK),
        }
    }
}

/// The reply of a command that is to be called again until it replies something else.
pub const MORE: Reply = Reply::Simple(std::borrow::Cow::Borrowed("MORE"));

/// Elements of a collection that is ordered by hashes.
pub(crate) mod elements {
    use super::*;

    /// The bytes behind the generation in the record of an element.
    pub(crate) fn suffix(name: &[u8]) -> Vec<u8> {
        [hash_of(name).to_be_bytes().as_slice(), name].concat()
    }

    /// The first bytes of the records of elements. A sorted set has others beside, in the order of scores.
    fn prefix_of(key: &[u8], collection: Collection) -> Vec<u8> {
        let mut prefix = elements_prefix(key, collection.generation);
        if collection.kind == Kind::SortedSet {
            prefix.push(MEMBER);
        }
        prefix
    }

    /// The records of the members of a sorted set begin with this behind the generation.
    pub(crate) const MEMBER: u8 = b'm';

    /// The key of the record of an element.
    pub(crate) fn record(key: &[u8], generation: u64, name: &[u8]) -> Vec<u8> {
        [elements_prefix(key, generation), suffix(name)].concat()
    }

    /// The names of all elements, with what their records hold.
    pub(crate) fn all(
        database: &mut Database<'_>,
        key: &[u8],
        collection: Collection,
    ) -> Result<Vec<Pair>, Fail> {
        let prefix = prefix_of(key, collection);
        let (mut at, end, mut found) = (prefix.clone(), behind(&prefix), Vec::new());
        loop {
            // Elements may be large, and a page is read at once.
            let limit = 64;
            let records = database.records(&at, &end, limit)?;
            let (count, last) = (records.len(), records.last().map(|(record, _)| record.clone()));
            for (record, value) in records {
                let name = record.get(prefix.len() + 8..).ok_or(crate::Malformed)?;
                found.push((name.to_vec(), value));
            }
            match last {
                Some(last) if count == limit => at = [last.as_slice(), b"\0"].concat(),
                _ => return Ok(found),
            }
        }
    }

    /// The first element at a hash or above, or else the first of all.
    pub(crate) fn near(
        database: &mut Database<'_>,
        key: &[u8],
        generation: u64,
        hash: u64,
    ) -> Result<Option<Pair>, Fail> {
        let prefix = elements_prefix(key, generation);
        let from = [prefix.as_slice(), &hash.to_be_bytes()].concat();
        let mut found = database.store.scan(&from, &behind(&prefix), 1, Direction::Ascending)?;
        if found.is_empty() {
            found = database.store.scan(&prefix, &from, 1, Direction::Ascending)?;
        }
        let found = found.pop();
        let name = |(record, value): (Vec<u8>, Vec<u8>)| {
            Ok((record.get(prefix.len() + 8..).ok_or(crate::Malformed)?.to_vec(), value))
        };
        found.map(name).transpose()
    }

    /// A page of a walk over the elements of a collection, and the cursor to go on from. A small one is one page.
    pub(super) fn page(
        database: &mut Database<'_>,
        key: &[u8],
        collection: Collection,
        (cursor, count): (u64, usize),
    ) -> Result<(Vec<Pair>, u64), Fail> {
        const SMALL: u64 = 128;
        if collection.count <= SMALL && cursor == 0 {
            return Ok((all(database, key, collection)?, 0));
        }
        // A cursor has a bit less than a hash, so that clients take it for a number with a sign.
        let prefix = prefix_of(key, collection);
        let from = [prefix.as_slice(), &(cursor << 1).to_be_bytes()].concat();
        let (mut at, mut found, mut last) = (from, Vec::new(), None);
        loop {
            let limit = 64.min(count.saturating_sub(found.len()) + 1);
            let records = database.records(&at, &behind(&prefix), limit)?;
            let is_end = records.len() < limit;
            for (record, value) in records {
                let name = record.get(prefix.len() + 8..).ok_or(crate::Malformed)?;
                let hash = hash_of(name) >> 1;
                if found.len() >= count && last.is_some_and(|last| last < hash) {
                    return Ok((found, hash));
                }
                last = Some(hash);
                at = [record.as_slice(), b"\0"].concat();
                found.push((name.to_vec(), value));
            }
            if is_end {
                return Ok((found, 0));
            }
        }
    }
}

/// `HSCAN` and its kin: `show` makes replies of an element.
pub(crate) fn scan_elements(
    database: &mut Database<'_>,
    arguments: &[&[u8]],
    of: Kind,
    show: impl Fn(Vec<u8>, Vec<u8>) -> Result<Vec<Reply>, Fail>,
) -> Replied {
    let from = cursor_argument(arguments[2])?;
    let found = database.collection(arguments[1], of)?;
    let empty = || Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]));
    let Some((_, collection)) = found else { return empty() };
    let Options { filter, count } = Options::parse(&arguments[3..], false)?;
    let (elements, next) = elements::page(database, arguments[1], collection, (from, count))?;
    let mut shown = Vec::new();
    for (name, value) in elements {
        if filter.matches(&name) {
            shown.extend(show(name, value)?);
        }
    }
    Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(shown)]))
}
