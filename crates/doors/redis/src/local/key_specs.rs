//! Where the keys of commands stand, in the finer language of Redis 7: how their beginning is found, and how each of them from there.
//!
//! Clients that know it find the keys of commands that did not exist when they were written.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use quorate_redis_commands::Reply;

use super::is_word;

/// The key specifications of Redis, a line for each command: of each specification the flags, where keys begin, how they are found, and perhaps a note.
const TABLE: &str = include_str!("key_specs.tsv");

/// By the name of a command, with that of its subcommand.
static BY_NAME: LazyLock<BTreeMap<&'static str, &'static str>> =
    LazyLock::new(|| TABLE.lines().filter_map(|line| line.split_once('\t')).collect());

/// The specifications of a command.
pub(super) fn of(name: &str) -> Vec<Reply> {
    BY_NAME.get(name).map_or(Vec::new(), |specifications| specifications.split(';').map(describe).collect())
}

/// The effects of a command with these words on the key at this position, as Redis names them.
pub(super) fn flags_of(name: &str, words: &[Bytes], at: usize) -> Vec<&'static str> {
    let is_there = |word: &str| words.iter().skip(2).any(|given| is_word(given, word));
    // The effects of these commands depend on their options.
    match name {
        "set" if !is_there("GET") => return vec!["OW", "update"],
        "bitfield" if only_gets(words) => return vec!["RO", "access"],
        "sort" if at > 1 => return vec!["OW", "update"],
        _ => {}
    }
    let subcommand = words.get(1).map(|word| String::from_utf8_lossy(word).to_lowercase());
    let of_subcommand = BY_NAME.get(format!("{name}|{}", subcommand.unwrap_or_default()).as_str());
    let of_command = of_subcommand.or_else(|| BY_NAME.get(name));
    let specifications = of_command.into_iter().flat_map(|specifications| specifications.split(';'));
    let found = specifications.into_iter().find(|specification| {
        let mut parts = specification.split('|').skip(1);
        let (begin, find) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        first(begin, words).is_some_and(|first| positions(find, first, words).contains(&at))
    });
    let flags = found.and_then(|specification| specification.split('|').next()).unwrap_or_default();
    flags.split(' ').filter(|flag| !["", "variable_flags", "incomplete"].contains(flag)).collect()
}

/// The positions of keys among these words, as far as the specifications of a command tell, whether or not the command is well-formed.
pub(super) fn positions_of(name: &str, words: &[Bytes]) -> Vec<usize> {
    let specifications = BY_NAME.get(name).into_iter().flat_map(|specifications| specifications.split(';'));
    let of_one = |specification: &str| {
        let mut parts = specification.split('|').skip(1);
        let (begin, find) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        first(begin, words).map_or(Vec::new(), |first| positions(find, first, words))
    };
    specifications.flat_map(of_one).collect()
}

/// True if all operations of a `BITFIELD` read. One that is malformed may as well write.
fn only_gets(words: &[Bytes]) -> bool {
    let mut rest = words.get(2..).unwrap_or_default();
    while let Some((word, arguments)) = rest.split_first() {
        let taken = match () {
            () if is_word(word, "GET") => 2,
            () if is_word(word, "OVERFLOW") => 1,
            () => return false,
        };
        let Some(following) = arguments.get(taken..) else { return false };
        rest = following;
    }
    true
}

/// Where the keys of a specification begin among these words, if they are there.
fn first(begin: &str, words: &[Bytes]) -> Option<usize> {
    let mut parts = begin.split(' ');
    match (parts.next()?, parts.next()?) {
        ("index", at) => at.parse().ok(),
        ("keyword", keyword) => {
            let from: i64 = parts.next()?.parse().ok()?;
            let is_it = |at: &usize| words.get(*at).is_some_and(|word| is_word(word, keyword));
            let found = match usize::try_from(from) {
                Ok(from) => (from..words.len()).find(is_it),
                // From the end.
                Err(_) => (1..=words.len().saturating_sub(from.unsigned_abs() as usize)).rev().find(is_it),
            };
            found.map(|at| at + 1)
        }
        _ => None,
    }
}

/// The positions of the keys of a specification, the first of which is here.
fn positions(find: &str, first: usize, words: &[Bytes]) -> Vec<usize> {
    let mut parts = find.split(' ');
    let kind = parts.next().unwrap_or_default();
    let numbers: Vec<i64> = parts.filter_map(|number| number.parse().ok()).collect();
    match (kind, numbers.as_slice()) {
        ("range", [last, step, limit]) => {
            let (first, count) = (first as i64, words.len() as i64);
            // A negative last one counts from the end, or from the end of a part of the rest.
            let last = match (*last, *limit) {
                (0.., _) => first + last,
                (_, 2..) => first + (count - first) / limit + last,
                _ => count + last,
            };
            let at = (first..=last.min(count - 1)).step_by(usize::try_from(*step).unwrap_or(1).max(1));
            at.filter_map(|at| usize::try_from(at).ok()).collect()
        }
        ("keynum", [number, from, step]) => {
            let place = |offset: i64| usize::try_from(offset).ok().map(|offset| first + offset);
            let counted =
                place(*number).and_then(|at| words.get(at)).and_then(|word| super::integer(word).ok());
            let (Some(count), Some(from)) =
                (counted.and_then(|count| usize::try_from(count).ok()), place(*from))
            else {
                return Vec::new();
            };
            let step = usize::try_from(*step).unwrap_or(1).max(1);
            (from..words.len()).step_by(step).take(count).collect()
        }
        _ => Vec::new(),
    }
}

fn describe(specification: &'static str) -> Reply {
    let mut parts = specification.split('|');
    let mut next = || parts.next().unwrap_or_default();
    let (flags, begin, find) = (next(), next(), next());
    let mut described = Vec::new();
    if let Some(note) = parts.next() {
        described.push((Reply::bulk("notes"), Reply::bulk(note)));
    }
    let flags = flags.split(' ').map(|flag| Reply::Simple(flag.into())).collect();
    described.push((Reply::bulk("flags"), Reply::Set(flags)));
    described.push((Reply::bulk("begin_search"), search(begin)));
    described.push((Reply::bulk("find_keys"), search(find)));
    Reply::Map(described)
}

/// A kind of search with what it has to know.
fn search(text: &'static str) -> Reply {
    let mut words = text.split(' ');
    let kind = words.next().unwrap_or_default();
    let names: &[&str] = match kind {
        "index" => &["index"],
        "keyword" => &["keyword", "startfrom"],
        "range" => &["lastkey", "keystep", "limit"],
        "keynum" => &["keynumidx", "firstkey", "keystep"],
        _ => &[],
    };
    let told = names.iter().zip(words).map(|(name, value)| {
        let value = value.parse().map_or_else(|_| Reply::bulk(value), Reply::Integer);
        (Reply::bulk(name), value)
    });
    Reply::Map(vec![
        (Reply::bulk("type"), Reply::bulk(kind)),
        (Reply::bulk("spec"), Reply::Map(told.collect())),
    ])
}
