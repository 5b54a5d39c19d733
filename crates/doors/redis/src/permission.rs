//! The rights that a command needs, judged before it is carried out: when it is told, and once more when it is.
//!
//! A command that reads needs `read` on each of its keys, one that may write needs `write` on each of them, also on those that it only reads: what it replies tells of
//! them. A command that names no keys, or may touch others than it names, needs the right for the whole keyspace; unless it has a pattern, and all that the pattern
//! matches begins as the grant says.

use quorate_gateway::{Denied, Permit, Scope};
use quorate_redis_commands::Command;

use crate::failure::Failure;
use crate::local::is_word;

/// Refuses a command that its client has no right to.
///
/// # Errors
/// It has not, or who may do what is not known.
pub(crate) fn check(permit: &Permit, command: &Command, words: &[impl AsRef<[u8]>]) -> Result<(), Failure> {
    let writes = command.writes();
    let name = command.name;
    let require = |scope: Scope<'_>| {
        permit.require(writes, scope).map_err(|denied| {
            let may_some = permit.allows(writes, Scope::Part);
            Failure::denied(&denied, if may_some { Wanted::Key } else { Wanted::Command(name) })
        })
    };
    let positions = command.key_positions(words);
    if positions.is_empty() || has_patterns(name, words) {
        return match pattern_of(name, words) {
            Some(pattern) => require(Scope::Prefix(literal_head(pattern))),
            None => require(Scope::Whole),
        };
    }
    positions.into_iter().filter_map(|at| words.get(at)).try_for_each(|key| require(Scope::Key(key.as_ref())))
}

/// Refuses keys that a script names.
///
/// # Errors
/// As [`check`].
pub(crate) fn check_keys(permit: &Permit, writes: bool, keys: &[Vec<u8>]) -> Result<(), Failure> {
    let refused = |denied: Denied| Failure::denied(&denied, Wanted::Key);
    permit
        .require(writes, Scope::Part)
        .map_err(|denied| Failure::denied(&denied, Wanted::Command("eval")))?;
    keys.iter().try_for_each(|key| permit.require(writes, Scope::Key(key))).map_err(refused)
}

/// The thing that a client has no right to, as Redis tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// A command, by its name.
    Command(&'a str),
    /// A key.
    Key,
    /// A channel.
    Channel,
}

/// True if `SORT` reads keys that it makes of a pattern.
fn has_patterns(name: &str, words: &[impl AsRef<[u8]>]) -> bool {
    let is_option = |word: &[u8]| is_word(word, "BY") || is_word(word, "GET");
    name.starts_with("sort") && words.iter().skip(2).any(|word| is_option(word.as_ref()))
}

/// The pattern of a command that walks over keys.
fn pattern_of<'a>(name: &str, words: &'a [impl AsRef<[u8]>]) -> Option<&'a [u8]> {
    match name {
        "keys" => words.get(1).map(AsRef::as_ref),
        "scan" => {
            // The last one counts.
            let at = words.iter().rposition(|word| is_word(word.as_ref(), "MATCH"))?;
            (at >= 2 && at.is_multiple_of(2)).then(|| words.get(at + 1).map(AsRef::as_ref))?
        }
        _ => None,
    }
}

/// The bytes that all begin with which match a pattern.
pub(crate) fn literal_head(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| b"*?[\\".contains(byte)).unwrap_or(pattern.len());
    &pattern[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<u8>> {
        text.split(' ').map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn a_pattern_limits_a_walk_by_its_head() {
        for (text, head) in [
            ("keys app/*", Some("app/")),
            ("keys app", Some("app")),
            ("keys *", Some("")),
            ("keys a[bc]", Some("a")),
            (r"keys a\*b", Some("a")),
            ("scan 0 match app/?", Some("app/")),
            ("scan 0 COUNT 5 MATCH app/*", Some("app/")),
            ("scan 0 MATCH app/* MATCH *", Some("")),
            ("scan 0", None),
            ("scan 0 TYPE match", None),
            ("dbsize", None),
        ] {
            let words = words(text);
            let name = String::from_utf8(words[0].clone()).unwrap();
            assert_eq!(pattern_of(&name, &words).map(literal_head), head.map(str::as_bytes), "{text}");
        }
    }

    #[test]
    fn a_sort_with_patterns_may_read_anything() {
        for (text, may) in [
            ("sort a", false),
            ("sort a by b*", true),
            ("sort_ro a GET #", true),
            ("sort a limit 0 1 store d", false),
            ("get a", false),
        ] {
            let words = words(text);
            assert_eq!(has_patterns(text.split(' ').next().unwrap(), &words), may, "{text}");
        }
    }
}
