//! Completes statements, options and their values, keyspaces, indexes and keys while a line is typed.

use std::sync::Arc;
use std::time::Duration;

use clap::{Arg, Command};
use quorate::{Database, Error, Keyspace, end_of_prefix};
use reedline::{Completer, CompletionResult, Span, Suggestion};
use tokio::runtime::Handle;

use super::grammar::{Grammar, Place, choices, long, value_name};
use super::words::{Unfinished, Word, quoted, unfinished};

/// How many keys are suggested at most.
const KEYS_MAX: u32 = 20;

/// How long an answer may take: nobody waits longer for a suggestion.
const PATIENCE: Duration = Duration::from_millis(500);

/// The names that a cluster knows.
pub(crate) struct Vocabulary {
    db: Database,
    keyspace: Option<Keyspace>,
}

impl Vocabulary {
    pub(crate) fn new(db: Database, keyspace: Option<Keyspace>) -> Self {
        Vocabulary { db, keyspace }
    }

    /// The names of a kind that begin so.
    async fn names(&self, named: &Named, prefix: &[u8]) -> Result<Vec<Word>, Error> {
        let mut names: Vec<Word> = match named {
            Named::Keyspace => {
                self.db.list().await?.into_iter().map(|keyspace| keyspace.name.into_bytes()).collect()
            }
            Named::Dropped => self
                .db
                .dropped_keyspaces()
                .await?
                .into_iter()
                .map(|dropped| dropped.name.into_bytes())
                .collect(),
            Named::Index { keyspace } => {
                let keyspace = match keyspace {
                    Some(name) => Some(self.db.keyspace(&String::from_utf8_lossy(name)).await?),
                    None => self.in_use().await?,
                };
                let Some(keyspace) = keyspace else { return Ok(Vec::new()) };
                keyspace.indexes().await?.into_iter().map(|index| index.name.into_bytes()).collect()
            }
            Named::Key => {
                let Some(keyspace) = self.in_use().await? else { return Ok(Vec::new()) };
                let page = keyspace.scan(prefix, end_of_prefix(prefix), KEYS_MAX).await?;
                page.entries.into_iter().map(|(key, _)| key.to_vec()).collect()
            }
        };
        names.retain(|name| name.starts_with(prefix));
        names.dedup();
        Ok(names)
    }

    /// The keyspace in use, or the only one there is.
    async fn in_use(&self) -> Result<Option<Keyspace>, Error> {
        if self.keyspace.is_some() {
            return Ok(self.keyspace.clone());
        }
        match self.db.list().await?.as_slice() {
            [only] => self.db.keyspace(&only.name).await.map(Some),
            _ => Ok(None),
        }
    }
}

/// The kinds of names that the cluster knows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    Keyspace,
    /// A keyspace that was dropped.
    Dropped,
    Key,
    /// An index of a keyspace that is named, or else of the one in use.
    Index {
        keyspace: Option<Word>,
    },
}

impl Named {
    /// The kind of the values of an argument, which the name of its value tells.
    fn of(argument: &Arg, place: &Place<'_>) -> Option<Named> {
        match value_name(argument) {
            "KEYSPACE" if place.name() == "undrop" => Some(Named::Dropped),
            "KEYSPACE" => Some(Named::Keyspace),
            "INDEX" => Some(Named::Index { keyspace: place.value_of("KEYSPACE").map(<[u8]>::to_vec) }),
            "KEY" | "KEYS" => Some(Named::Key),
            // The options of these names are values of an index.
            "FROM" | "TO" if argument.is_positional() => Some(Named::Key),
            _ => None,
        }
    }
}

/// The words that may stand at the end of a text.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wanted {
    /// The byte at which the word begins that is being typed.
    begin: usize,
    typed: Word,
    /// The words of the language that begin with it.
    words: Vec<String>,
    /// The kind of names that fit as well.
    named: Option<Named>,
}

/// The words that may stand at the end of a text; none within quotes and comments, and where no statement begins so.
fn wanted(grammar: &Grammar, text: &str) -> Option<Wanted> {
    let Unfinished { words, open, is_comment: false } = unfinished(text).ok()? else { return None };
    let (begin, typed) = open.unwrap_or((text.len(), Word::new()));
    let place = grammar.behind(&words)?;
    let (hidden, name) = match typed.strip_prefix(b"\\") {
        Some(name) if words.is_empty() => ("\\", name),
        _ => ("", typed.as_slice()),
    };
    let names = place.actions().flat_map(names_of).map(|name| (hidden, name));
    let next = place.next();
    let values = next.into_iter().flat_map(choices).map(|value| ("", value));
    let is_option = !place.is_in_option() && (typed.starts_with(b"-") || next.is_none());
    let options = is_option.then(|| place.options().filter_map(long)).into_iter().flatten();
    let words = names.chain(values).chain(options.map(|option| ("", option)));
    let words = words.filter(|(_, word)| word.as_bytes().starts_with(name));
    Some(Wanted {
        words: words.map(|(hidden, word)| format!("{hidden}{word}")).collect(),
        named: next.and_then(|argument| Named::of(argument, &place)),
        begin,
        typed: typed.clone(),
    })
}

/// The names of a statement or an action.
fn names_of(command: &Command) -> impl Iterator<Item = String> + use<'_> {
    std::iter::once(command.get_name()).chain(command.get_all_aliases()).map(str::to_owned)
}

/// Suggestions for one line.
pub(crate) struct Completion {
    vocabulary: Vocabulary,
    grammar: Arc<Grammar>,
    /// The lines before, if a quote is open.
    before: String,
    runtime: Handle,
}

impl Completion {
    pub(crate) fn new(
        vocabulary: Vocabulary,
        grammar: Arc<Grammar>,
        before: String,
        runtime: Handle,
    ) -> Self {
        Completion { vocabulary, grammar, before, runtime }
    }

    fn suggest(&self, line: &str) -> Vec<Suggestion> {
        let Some(wanted) = wanted(&self.grammar, &format!("{}{line}", self.before)) else {
            return Vec::new();
        };
        // A word that began in a line before cannot be replaced.
        let Some(begin) = wanted.begin.checked_sub(self.before.len()) else { return Vec::new() };
        let named = wanted.named.map(|named| self.ask(&named, &wanted.typed)).unwrap_or_default();
        let suggestion = |value| Suggestion {
            value,
            span: Span::new(begin, line.len()),
            append_whitespace: true,
            ..Suggestion::default()
        };
        let named = named.iter().map(|name| quoted(name));
        wanted.words.into_iter().chain(named).map(suggestion).collect()
    }

    fn ask(&self, named: &Named, typed: &[u8]) -> Vec<Word> {
        let names = self.vocabulary.names(named, typed);
        // A suggestion that cannot be had is none.
        self.runtime
            .block_on(tokio::time::timeout(PATIENCE, names))
            .map(Result::unwrap_or_default)
            .unwrap_or_default()
    }
}

impl Completer for Completion {
    fn complete(&mut self, line: &str, position: usize) -> CompletionResult {
        let line = line.get(..position).unwrap_or(line);
        CompletionResult::fresh(self.suggest(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Option<Wanted> {
        wanted(&Grammar::new(), line)
    }

    #[test]
    fn a_line_tells_which_names_are_wanted() {
        let index = |keyspace: Option<&str>| {
            Some(Named::Index { keyspace: keyspace.map(|name| name.as_bytes().to_vec()) })
        };
        let table = [
            ("get ", Some(Named::Key), 4, ""),
            ("get al", Some(Named::Key), 4, "al"),
            ("set 'two wo'", Some(Named::Key), 4, "two wo"),
            ("get 'two words' al", Some(Named::Key), 16, "al"),
            ("begin; get ü", Some(Named::Key), 11, "ü"),
            ("ttl a", Some(Named::Key), 4, "a"),
            ("read-at 5 a", Some(Named::Key), 10, "a"),
            ("read-at 5", None, 8, "5"),
            ("scan a b", Some(Named::Key), 7, "b"),
            ("scan-stale 50ms a", Some(Named::Key), 16, "a"),
            ("put a ", None, 6, ""),
            ("put a b --ttl ", None, 14, ""),
            ("increment a ", None, 12, ""),
            ("use acc", Some(Named::Keyspace), 4, "acc"),
            ("keyspace show acc", Some(Named::Keyspace), 14, "acc"),
            ("keyspace drop acc", Some(Named::Keyspace), 14, "acc"),
            ("keyspace undrop acc", Some(Named::Dropped), 16, "acc"),
            ("keyspace create acc", None, 16, "acc"),
            ("keyspace index list acc", Some(Named::Keyspace), 20, "acc"),
            ("keyspace index create users by", None, 28, "by"),
            ("keyspace index drop users by", index(Some("users")), 26, "by"),
            ("find by", index(None), 5, "by"),
            ("find by-age --from 1", None, 19, "1"),
        ];
        for (line, named, begin, typed) in table {
            let wanted = of(line).unwrap();
            assert_eq!((wanted.named, wanted.begin), (named, begin), "{line:?}");
            assert_eq!(wanted.typed, typed.as_bytes(), "{line:?}");
        }
        for nothing in ["set 'two wo", "frobnicate ", "put a b c ", "put a # b", "put \"\\q\" "] {
            assert_eq!(of(nothing), None, "{nothing:?}");
        }
    }

    #[test]
    fn words_of_the_language_are_those_of_its_grammar() {
        let table: [(&str, &[&str]); 19] = [
            ("pu", &["put"]),
            ("put a 1; ge", &["get"]),
            ("\\tim", &["timing"]),
            ("m", &["mget"]),
            ("help sca", &["scan", "scan-at", "scan-stale", "scan-now"]),
            ("keyspace ", &["create", "list", "show", "drop", "undrop", "index", "help"]),
            ("keyspace cr", &["create"]),
            ("keyspace index d", &["drop"]),
            ("keyspace create a --iso", &["--isolation"]),
            ("keyspace create a --isolation ", &["strict", "serializable", "snapshot", "parallel-snapshot"]),
            ("keyspace create a --isolation s", &["strict", "serializable", "snapshot"]),
            ("keyspace create a --isolation snapshot --iso", &[]),
            ("keyspace create a --durability m", &["memory"]),
            ("keyspace index create users by --on json:/a --unparsable ", &["refuse", "leave-out"]),
            ("put a 1 ", &["--ttl"]),
            ("put a -", &["--ttl"]),
            ("find by --from 1 ", &["--to", "--limit"]),
            ("timing o", &["on", "off"]),
            ("timing on ", &[]),
        ];
        for (line, expected) in table {
            let hidden = if line.starts_with('\\') { "\\" } else { "" };
            let expected: Vec<String> = expected.iter().map(|word| format!("{hidden}{word}")).collect();
            assert_eq!(of(line).unwrap().words, expected, "{line:?}");
        }
        let statements = of("").unwrap().words;
        for name in ["get", "set", "del", "incr", "keyspace", "quit", "help"] {
            assert!(statements.iter().any(|statement| statement == name), "{name}: {statements:?}");
        }
    }

    #[test]
    fn every_argument_that_takes_a_key_has_a_name_that_tells_so() {
        use crate::shell::statement::Text;
        use std::any::TypeId;

        let root = <crate::shell::Statement as clap::CommandFactory>::command();
        for statement in root.get_subcommands() {
            let grammar = Grammar::new();
            let words = [statement.get_name().as_bytes().to_vec()];
            let place = grammar.behind(&words).unwrap();
            for argument in statement.get_arguments() {
                let is_bytes = argument.get_value_parser().type_id() == TypeId::of::<Text>();
                let is_value = value_name(argument) == "VALUE";
                let is_key = Named::of(argument, &place) == Some(Named::Key);
                assert_eq!(is_key, is_bytes && !is_value, "{}: {argument}", statement.get_name());
            }
        }
    }
}
