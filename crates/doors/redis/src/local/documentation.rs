//! `COMMAND`: which commands there are, and what they are like. Those that are not there are not told of.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use bytes::Bytes;
use quorate_redis_commands::{Reply, find, matches};

use super::{is_word, key_specs, names};
use crate::blocking;

/// The subcommands of `COMMAND`.
pub(super) const SUBCOMMANDS: &[(&str, i32)] = &[
    ("COUNT", 2),
    ("LIST", -2),
    ("INFO", -2),
    ("DOCS", -2),
    ("GETKEYS", -4),
    ("GETKEYSANDFLAGS", -4),
    ("HELP", 2),
];

/// The documentation of Redis, a line for each command.
const TABLE: &str = include_str!("commands.tsv");

/// The same for subcommands, each with the name of its command before it.
const SUBCOMMAND_TABLE: &str = include_str!("subcommands.tsv");

/// The documentation of a command.
#[derive(Debug, Default)]
struct Documentation {
    arity: i64,
    flags: Vec<&'static str>,
    keys: [i64; 3],
    categories: Vec<&'static str>,
    since: &'static str,
    group: &'static str,
    complexity: &'static str,
    summary: &'static str,
    tips: Vec<&'static str>,
}

/// By name.
type ByName = BTreeMap<&'static str, Documentation>;

/// Of the commands that there are.
static DOCUMENTATION: LazyLock<ByName> = LazyLock::new(|| {
    let is_there: Vec<&str> = names().collect();
    TABLE.lines().map(of_line).filter(|(name, _)| is_there.contains(name)).collect()
});

/// Of the subcommands that there are.
static SUBCOMMAND_DOCUMENTATION: LazyLock<ByName> = LazyLock::new(|| {
    let is_there = |name: &str| {
        name.split_once('|').is_some_and(|(name, subcommand)| {
            DOCUMENTATION.contains_key(name) && super::has_subcommand(name, subcommand)
        })
    };
    SUBCOMMAND_TABLE.lines().map(of_line).filter(|(name, _)| is_there(name)).collect()
});

fn of_line(line: &'static str) -> (&'static str, Documentation) {
    let mut columns = line.split('\t');
    let mut next = || columns.next().unwrap_or_default();
    let number = |text: &str| text.parse().unwrap_or(0);
    let words = |text: &'static str| text.split(' ').filter(|word| !word.is_empty()).collect();
    let name = next();
    let documentation = Documentation {
        arity: number(next()),
        flags: words(next()),
        keys: [number(next()), number(next()), number(next())],
        categories: words(next()),
        since: next(),
        group: next(),
        complexity: next(),
        summary: next(),
        tips: words(next()),
    };
    (name, documentation)
}

/// The subcommands of a command.
fn subcommands(name: &str) -> impl Iterator<Item = (&'static str, &'static Documentation)> {
    let prefix = format!("{name}|");
    let all = SUBCOMMAND_DOCUMENTATION.iter();
    all.filter(move |(name, _)| name.starts_with(&prefix)).map(|(name, of)| (*name, of))
}

fn simple(words: &[&'static str]) -> Vec<Reply> {
    words.iter().map(|word| Reply::Simple((*word).into())).collect()
}

fn describe(name: &str, documentation: &Documentation) -> Reply {
    let mut described = vec![
        Reply::bulk(name),
        Reply::Integer(documentation.arity),
        Reply::Set(simple(&documentation.flags)),
    ];
    described.extend(documentation.keys.map(Reply::Integer));
    described.push(Reply::Set(simple(&documentation.categories)));
    described.push(Reply::Set(documentation.tips.iter().map(Reply::bulk).collect()));
    described.push(Reply::Set(key_specs::of(name)));
    described.push(Reply::Array(subcommands(name).map(|(name, of)| describe(name, of)).collect()));
    Reply::Array(described)
}

fn document(name: &str, documentation: &Documentation) -> Reply {
    let Documentation { since, group, complexity, summary, .. } = documentation;
    let told = [("summary", summary), ("since", since), ("group", group), ("complexity", complexity)];
    let told = told.into_iter().filter(|(_, text)| !text.is_empty());
    let mut told: Vec<_> = told.map(|(name, text)| (Reply::bulk(name), Reply::bulk(text))).collect();
    let of_subcommands: Vec<_> =
        subcommands(name).map(|(name, of)| (Reply::bulk(name), document(name, of))).collect();
    if !of_subcommands.is_empty() {
        told.push((Reply::bulk("subcommands"), Reply::Map(of_subcommands)));
    }
    Reply::Map(told)
}

fn known(name: &[u8]) -> Option<(&'static str, &'static Documentation)> {
    let name = String::from_utf8_lossy(name).to_lowercase();
    let found = DOCUMENTATION.get_key_value(name.as_str());
    found
        .or_else(|| SUBCOMMAND_DOCUMENTATION.get_key_value(name.as_str()))
        .map(|(name, documentation)| (*name, documentation))
}

pub(super) fn run(words: &[Bytes]) -> Reply {
    let (subcommand, named) = match words {
        [_] => ("INFO", words[1..].as_ref()),
        [_, subcommand, named @ ..] => {
            let found = SUBCOMMANDS.iter().find(|(name, _)| is_word(subcommand, name));
            (found.map_or("", |(name, _)| *name), named)
        }
        [] => return Reply::Null,
    };
    match subcommand {
        "COUNT" => Reply::count(DOCUMENTATION.len()),
        "INFO" if named.is_empty() => {
            Reply::Array(DOCUMENTATION.iter().map(|(name, of)| describe(name, of)).collect())
        }
        "INFO" => Reply::Array(
            named
                .iter()
                .map(|name| known(name).map_or(Reply::Null, |(name, of)| describe(name, of)))
                .collect(),
        ),
        "DOCS" => {
            let told: Vec<_> = match named {
                [] => DOCUMENTATION.iter().map(|(name, of)| (*name, of)).collect(),
                named => named.iter().filter_map(|name| known(name)).collect(),
            };
            Reply::Map(told.into_iter().map(|(name, of)| (Reply::bulk(name), document(name, of))).collect())
        }
        "LIST" => list(named),
        "GETKEYS" => keys_of(named, false),
        "GETKEYSANDFLAGS" => keys_of(named, true),
        _ => Reply::error("ERR syntax error"),
    }
}

/// The names of commands, each with those of its subcommands behind it.
fn list(named: &[Bytes]) -> Reply {
    let listed = |is_wanted: &dyn Fn(&str, &Documentation) -> bool| {
        let all = DOCUMENTATION
            .iter()
            .flat_map(|(name, of)| std::iter::once((*name, of)).chain(subcommands(name)))
            .filter(|(name, of)| is_wanted(name, of));
        Reply::Array(all.map(|(name, _)| Reply::bulk(name)).collect())
    };
    match named {
        [] => listed(&|_, _| true),
        [by, how, what] if is_word(by, "FILTERBY") && is_word(how, "PATTERN") => {
            listed(&|name, _| matches(what, name.as_bytes()))
        }
        [by, how, what] if is_word(by, "FILTERBY") && is_word(how, "ACLCAT") => {
            let category = format!("@{}", String::from_utf8_lossy(what));
            listed(&|_, of| of.categories.contains(&category.as_str()))
        }
        [by, how, _] if is_word(by, "FILTERBY") && is_word(how, "MODULE") => listed(&|_, _| false),
        _ => Reply::error("ERR syntax error"),
    }
}

/// The keys among the words of a command; with what is done to each if that is wanted.
fn keys_of(words: &[Bytes], with_flags: bool) -> Reply {
    let positions = match positions_of(words) {
        Ok(positions) => positions,
        Err(reply) => return reply,
    };
    let name = words.first().map_or_else(String::new, |name| String::from_utf8_lossy(name).to_lowercase());
    let key = |at: usize| {
        let key = Reply::bulk(words.get(at)?);
        if !with_flags {
            return Some(key);
        }
        let flags = key_specs::flags_of(&name, words, at).into_iter().map(|flag| Reply::Simple(flag.into()));
        Some(Reply::Array(vec![key, Reply::Set(flags.collect())]))
    };
    Reply::Array(positions.into_iter().filter_map(key).collect())
}

const NO_NUMBER: &str = "ERR Invalid number of arguments specified for command";
const NO_KEYS: &str = "ERR The command has no key arguments";

/// Looks whether a command that has subcommands is called with one that has keys, and as many words as that takes.
fn check_subcommand(name: &str, words: &[Bytes]) -> Result<(), Reply> {
    if subcommands(name).next().is_none() {
        return Ok(());
    }
    let Some(subcommand) = words.get(1) else { return Err(Reply::error(NO_KEYS)) };
    let full_name = format!("{name}|{}", String::from_utf8_lossy(subcommand).to_lowercase());
    match SUBCOMMAND_DOCUMENTATION.get(full_name.as_str()) {
        None => Err(Reply::error("ERR Invalid command specified")),
        Some(documentation) if documentation.keys == [0; 3] => Err(Reply::error(NO_KEYS)),
        Some(Documentation { arity, .. }) => {
            let count = words.len() as i64;
            let fits = if *arity < 0 { count >= -arity } else { count == *arity };
            if fits { Ok(()) } else { Err(Reply::error(NO_NUMBER)) }
        }
    }
}

/// The positions of the keys among the words of a command.
fn positions_of(words: &[Bytes]) -> Result<Vec<usize>, Reply> {
    let name = words.first().ok_or_else(|| Reply::error("ERR syntax error"))?;
    if known(name).is_none() {
        return Err(Reply::error("ERR Invalid command specified"));
    }
    check_subcommand(&String::from_utf8_lossy(name).to_lowercase(), words)?;
    if let Some(waits) = blocking::find(name) {
        return match waits.check(words) {
            Ok(()) => Ok(waits.keys.positions(words)),
            Err(_) => Err(Reply::error(NO_NUMBER)),
        };
    }
    if super::find(name).is_some_and(|local| local.is_script() && local.name != "function") {
        return positions_of_script(words).ok_or_else(|| Reply::error(NO_NUMBER));
    }
    if is_word(name, "WATCH") && words.len() > 1 {
        return Ok((1..words.len()).collect());
    }
    let Some(command) = find(name).filter(|command| command.keys != quorate_redis_commands::Keys::No) else {
        return Err(Reply::error(NO_KEYS));
    };
    if !command.takes(words.len()) {
        return Err(Reply::error(NO_NUMBER));
    }
    let positions = match command.keys {
        quorate_redis_commands::Keys::Streams => key_specs::positions_of(command.name, words),
        _ => command.key_positions(words),
    };
    let counts = match command.keys {
        quorate_redis_commands::Keys::Counted { number, .. } => {
            let told = words.get(number).and_then(|told| super::integer(told).ok());
            told.and_then(|told| usize::try_from(told).ok()).is_some_and(|told| number + told < words.len())
        }
        _ => true,
    };
    if positions.is_empty() || !counts {
        return Err(Reply::error("ERR Invalid arguments specified for command"));
    }
    Ok(positions)
}

/// Those that a script is called with; it may touch others. None if there are too few words to tell.
fn positions_of_script(words: &[Bytes]) -> Option<Vec<usize>> {
    let rest = words.get(3..)?;
    let count = words.get(2).and_then(|count| super::integer(count).ok());
    let count = count.and_then(|count| usize::try_from(count).ok()).filter(|count| *count <= rest.len());
    Some(count.map_or(Vec::new(), |count| (3..3 + count).collect()))
}

/// `HELP` of a command with subcommands: those that are there, each with its summary.
pub(crate) fn help(name: &str) -> Reply {
    let mut lines =
        vec![format!("{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name.to_uppercase())];
    for (full_name, documentation) in subcommands(name) {
        lines.extend(full_name.split('|').nth(1).map(str::to_uppercase));
        lines.push(format!("    {}.", documentation.summary));
    }
    Reply::Array(lines.into_iter().map(|line| Reply::Simple(line.into())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_documented_as_it_is() {
        for name in names() {
            let (_, documentation) =
                known(name.as_bytes()).unwrap_or_else(|| panic!("{name} is not documented"));
            if let Some(command) = find(name.as_bytes()) {
                assert_eq!(i64::from(command.arity), documentation.arity, "{name}");
                // Of one that is a container Redis tells flags with its subcommands.
                let may_write = documentation.flags.contains(&"write");
                assert!(documentation.flags.is_empty() || command.writes() == may_write, "{name}");
                if let quorate_redis_commands::Keys::At { first, last, step } = command.keys {
                    let keys = [first as i64, i64::from(last), step as i64];
                    // Of one that is a container Redis tells the keys with its subcommands.
                    let is_container = documentation.keys == [0, 0, 0];
                    assert!(is_container || keys == documentation.keys, "{name}: {keys:?}");
                }
            }
        }
    }

    #[test]
    fn every_command_with_subcommands_has_help() {
        for local in super::super::LOCALS.iter().filter(|local| !local.subcommands.is_empty()) {
            let Reply::Array(lines) = help(local.name) else { panic!("{}", local.name) };
            let has = |line: &str| lines.contains(&Reply::Simple(line.to_owned().into()));
            for (subcommand, _) in local.subcommands {
                let is_documented = SUBCOMMAND_DOCUMENTATION
                    .contains_key(format!("{}|{}", local.name, subcommand.to_lowercase()).as_str());
                assert_eq!(has(subcommand), is_documented, "{} {subcommand}", local.name);
            }
            assert!(has("HELP"), "{}", local.name);
        }
    }

    #[test]
    fn keys_are_told_with_what_is_done_to_them() {
        let flags = |line: &str| {
            let words: Vec<Bytes> =
                line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
            let Reply::Array(keys) = keys_of(&words, true) else { panic!("{line}") };
            let text = |reply: &Reply| match reply {
                Reply::Bulk(text) => String::from_utf8_lossy(text).into_owned(),
                Reply::Simple(text) => text.to_string(),
                other => panic!("{other:?}"),
            };
            let key = |key: &Reply| match key {
                Reply::Array(parts) => match &parts[..] {
                    [key, Reply::Set(flags)] => {
                        format!("{} {}", text(key), flags.iter().map(text).collect::<Vec<_>>().join(" "))
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            keys.iter().map(key).collect::<Vec<_>>()
        };
        assert_eq!(flags("lmove a b left right"), ["a RW access delete", "b RW insert"]);
        assert_eq!(flags("set a v"), ["a OW update"]);
        assert_eq!(flags("set a v get"), ["a RW access update"]);
        assert_eq!(flags("zunionstore d 2 a b weights 1 2"), ["d OW update", "a RO access", "b RO access"]);
        assert_eq!(flags("sort a by w* store d"), ["a RO access", "d OW update"]);
        assert_eq!(flags("mset a 1 b 2"), ["a OW update", "b OW update"]);
        assert_eq!(flags("eval return 2 a b c"), ["a RW access update", "b RW access update"]);
        assert_eq!(flags("xread count 2 streams a b 0 0"), ["a RO access", "b RO access"]);
        assert_eq!(flags("xread streams a b 0"), ["a RO access"], "it is malformed");
        assert_eq!(flags("object encoding a"), ["a RO"]);
        assert_eq!(flags("xgroup create a g 0"), ["a RW insert"]);
        assert_eq!(flags("bitfield a overflow sat get u8 0"), ["a RO access"]);
        assert_eq!(flags("bitfield a get u8 0 incrby u8 0 1"), ["a RW access update"]);
        assert_eq!(flags("bitfield a get u8 0 u8"), ["a RW access update"], "it is malformed");
    }
}
