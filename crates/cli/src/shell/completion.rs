//! Completes statements, keyspaces and keys while a line is typed.

use std::time::Duration;

use quorate::{Database, Keyspace, end_of_prefix};
use reedline::{Completer, CompletionResult, Span, Suggestion};
use tokio::runtime::Handle;

use super::statement::Statement;
use super::words::{quoted, split};

/// How many keys are suggested at most.
const KEYS_MAX: u32 = 20;

/// How long an answer may take: nobody waits longer for a suggestion.
const PATIENCE: Duration = Duration::from_millis(500);

/// The statements whose second and further words are keys.
const ABOUT_KEYS: [&str; 17] = [
    "get",
    "mget",
    "read",
    "read-now",
    "put",
    "set",
    "delete",
    "del",
    "rm",
    "increment",
    "incr",
    "incrby",
    "decrement",
    "decr",
    "decrby",
    "append",
    "scan",
];

/// The names that a cluster knows.
pub(crate) struct Vocabulary {
    db: Database,
    keyspace: Option<Keyspace>,
}

impl Vocabulary {
    pub(crate) fn new(db: Database, keyspace: Option<Keyspace>) -> Self {
        Vocabulary { db, keyspace }
    }

    /// The keyspaces whose names begin so.
    async fn keyspaces(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let keyspaces = self.db.list().await.unwrap_or_default().into_iter();
        let names = keyspaces.map(|definition| definition.name.clone().into_bytes());
        names.filter(|name| name.starts_with(prefix)).collect()
    }

    /// The first keys that begin so.
    async fn keys(&self, prefix: &[u8]) -> Vec<Vec<u8>> {
        let Some(keyspace) = &self.keyspace else { return Vec::new() };
        // A suggestion that cannot be had is none.
        let page = keyspace.scan(prefix, end_of_prefix(prefix), KEYS_MAX).await.unwrap_or_default();
        page.entries.into_iter().map(|(key, _)| key.to_vec()).collect()
    }
}

/// The kinds of word that can stand where the cursor is.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Statement,
    Keyspace,
    Key,
    Nothing,
}

/// The kind of word that is wanted at the end of a line, where the word begins that is being typed, and its bytes.
fn wanted(line: &str) -> (Wanted, usize, Vec<u8>) {
    let start = word_start(line);
    let nothing = (Wanted::Nothing, start, Vec::new());
    let Ok(statements) = split(&line[..start]) else { return nothing };
    let Ok(typed) = split(&line[start..]) else { return nothing };
    let typed = typed.into_iter().flatten().next().unwrap_or_default();
    let is_new = line[..start].trim_end().ends_with([';', '\n']);
    let words = match statements.last() {
        Some(words) if !is_new => words.as_slice(),
        _ => &[],
    };
    let text = |word: &Vec<u8>| String::from_utf8_lossy(word).trim_start_matches('\\').to_owned();
    let wanted = match words {
        [] => Wanted::Statement,
        [first] if text(first) == "use" => Wanted::Keyspace,
        [first, action]
            if text(first) == "keyspace" && matches!(text(action).as_str(), "show" | "drop" | "undrop") =>
        {
            Wanted::Keyspace
        }
        [first, ..] if ABOUT_KEYS.contains(&text(first).as_str()) => Wanted::Key,
        _ => Wanted::Nothing,
    };
    (wanted, start, typed)
}

/// Where the last word begins, quoted or not.
fn word_start(line: &str) -> usize {
    let (mut start, mut quote, mut is_escaped) = (None, None, false);
    for (at, character) in line.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if character == '\\' => is_escaped = true,
            Some(open) if character == open => quote = None,
            Some(_) => {}
            None if character.is_whitespace() || character == ';' => start = None,
            None => {
                start.get_or_insert(at);
                quote = (character == '"' || character == '\'').then_some(character);
            }
        }
    }
    start.unwrap_or(line.len())
}

/// Suggestions for one line.
pub(crate) struct Completion {
    vocabulary: Vocabulary,
    statements: Vec<String>,
    runtime: Handle,
}

impl Completion {
    pub(crate) fn new(vocabulary: Vocabulary, runtime: Handle) -> Self {
        Completion { vocabulary, statements: Statement::names(), runtime }
    }

    fn suggest(&self, line: &str) -> Vec<Suggestion> {
        let (wanted, start, typed) = wanted(line);
        let words = match wanted {
            Wanted::Nothing => Vec::new(),
            Wanted::Statement => {
                let (hidden, typed) = match typed.strip_prefix(b"\\") {
                    Some(typed) => ("\\", typed),
                    None => ("", typed.as_slice()),
                };
                let fits = |name: &&String| name.as_bytes().starts_with(typed);
                self.statements.iter().filter(fits).map(|name| format!("{hidden}{name}")).collect()
            }
            Wanted::Keyspace => quote_all(self.ask(self.vocabulary.keyspaces(&typed))),
            Wanted::Key => quote_all(self.ask(self.vocabulary.keys(&typed))),
        };
        let suggestion = |value| Suggestion {
            value,
            span: Span::new(start, line.len()),
            append_whitespace: true,
            ..Suggestion::default()
        };
        words.into_iter().map(suggestion).collect()
    }

    fn ask(&self, names: impl Future<Output = Vec<Vec<u8>>>) -> Vec<Vec<u8>> {
        self.runtime.block_on(async { tokio::time::timeout(PATIENCE, names).await.unwrap_or_default() })
    }
}

fn quote_all(words: Vec<Vec<u8>>) -> Vec<String> {
    words.iter().map(|word| quoted(word)).collect()
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

    #[test]
    fn a_line_tells_which_word_is_wanted() {
        let table = [
            ("", Wanted::Statement, 0, ""),
            ("pu", Wanted::Statement, 0, "pu"),
            ("put a 1; ge", Wanted::Statement, 9, "ge"),
            ("get ", Wanted::Key, 4, ""),
            ("get al", Wanted::Key, 4, "al"),
            ("set 'two wo", Wanted::Nothing, 4, ""),
            ("get 'two words' al", Wanted::Key, 16, "al"),
            ("begin; get ü", Wanted::Key, 11, "ü"),
            ("use acc", Wanted::Keyspace, 4, "acc"),
            ("keyspace show acc", Wanted::Keyspace, 14, "acc"),
            ("keyspace cr", Wanted::Nothing, 9, "cr"),
            ("\\tim", Wanted::Statement, 0, "\\tim"),
        ];
        for (line, expected, start, typed) in table {
            assert_eq!(wanted(line), (expected, start, typed.as_bytes().to_vec()), "{line:?}");
        }
    }
}
