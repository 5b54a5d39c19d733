//! Where the keys of commands stand, in the finer language of Redis 7: how their beginning is found, and how each of them from there.
//!
//! Clients that know it find the keys of commands that did not exist when they were written.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use quorate_redis_commands::Reply;

/// The key specifications of Redis, a line for each command: of each specification the flags, where keys begin, how they are found, and perhaps a note.
const TABLE: &str = include_str!("key_specs.tsv");

/// By the name of a command, with that of its subcommand.
static BY_NAME: LazyLock<BTreeMap<&'static str, &'static str>> =
    LazyLock::new(|| TABLE.lines().filter_map(|line| line.split_once('\t')).collect());

/// The specifications of a command.
pub(super) fn of(name: &str) -> Vec<Reply> {
    BY_NAME.get(name).map_or(Vec::new(), |specifications| specifications.split(';').map(describe).collect())
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
