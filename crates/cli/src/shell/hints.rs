//! Hints while a line is typed: the rest of an earlier line, or the arguments that a statement still wants.

use std::sync::Arc;

use reedline::{Color, DefaultHinter, Hinter, History};

use super::grammar::{Grammar, long, option};
use super::words::{Unfinished, unfinished};

/// Hints for one line.
pub(crate) struct Hints {
    earlier: DefaultHinter,
    grammar: Arc<Grammar>,
    /// The lines before, if a quote is open.
    before: String,
}

impl Hints {
    pub(crate) fn new(grammar: Arc<Grammar>, before: String) -> Self {
        Hints { earlier: DefaultHinter::default(), grammar, before }
    }
}

impl Hinter for Hints {
    fn handle(
        &mut self,
        line: &str,
        position: usize,
        history: &dyn History,
        is_colourful: bool,
        directory: &str,
    ) -> String {
        let earlier = self.earlier.handle(line, position, history, is_colourful, directory);
        // Without colours it could not be told from what is typed, and elsewhere than at the end of the line it would be about something else.
        if !earlier.is_empty() || !is_colourful || position != line.len() {
            return earlier;
        }
        let wanted = syntax(&self.grammar, &format!("{}{line}", self.before));
        if wanted.is_empty() { wanted } else { Color::LightGray.dimmed().paint(wanted).to_string() }
    }

    // The keys that accept a hint insert what was typed once; the names of arguments are nothing to insert.

    fn complete_hint(&self) -> String {
        self.earlier.complete_hint()
    }

    fn next_hint_token(&self) -> String {
        self.earlier.next_hint_token()
    }
}

/// The arguments that the statement at the end of a text still wants; nothing if no statement begins so, within quotes, and within comments.
fn syntax(grammar: &Grammar, text: &str) -> String {
    let Ok(Unfinished { mut words, open, is_comment: false }) = unfinished(text) else {
        return String::new();
    };
    if let Some(rest) = open.as_ref().and_then(|(_, typed)| rest_of_option(grammar, &words, typed)) {
        return rest;
    }
    let between = if open.is_some() { " " } else { "" };
    words.extend(open.map(|(_, word)| word));
    let wanted = match grammar.behind(&words) {
        Some(place) if !words.is_empty() => place.wanted(),
        _ => String::new(),
    };
    if wanted.is_empty() { wanted } else { format!("{between}{wanted}") }
}

/// The rest of the only option that begins with the typed word.
fn rest_of_option(grammar: &Grammar, words: &[Vec<u8>], typed: &[u8]) -> Option<String> {
    let typed = str::from_utf8(typed).ok().filter(|typed| typed.starts_with("--"))?;
    let place = grammar.behind(words).filter(|place| !place.is_in_option())?;
    let mut fitting =
        place.options().filter(|option| long(option).is_some_and(|name| name.starts_with(typed)));
    let only = fitting.next().filter(|option| long(option).is_some_and(|name| name != typed))?;
    fitting.next().is_none().then(|| option(only)[typed.len()..].to_owned())
}

#[cfg(test)]
mod tests {
    use reedline::{FileBackedHistory, HistoryItem};

    use super::*;

    #[test]
    fn a_statement_tells_what_it_still_wants() {
        let grammar = Grammar::new();
        let table = [
            ("", ""),
            ("pu", ""),
            ("frobnicate ", ""),
            ("put", " KEY VALUE [--ttl DURATION]"),
            ("put ", "KEY VALUE [--ttl DURATION]"),
            ("put a", " VALUE [--ttl DURATION]"),
            ("put a ", "VALUE [--ttl DURATION]"),
            ("put a 1 ", "[--ttl DURATION]"),
            ("put a 1 --t", "tl DURATION"),
            ("put a 1 --ttl", " DURATION"),
            ("put a 1 --ttl ", "DURATION"),
            ("put --ttl 1s ", "KEY VALUE"),
            ("put a 1 --ttl 1s ", ""),
            ("put a 1 --ttl=1s ", ""),
            ("put a 1 2 ", ""),
            ("put 'a", ""),
            ("put 'a b' \"", ""),
            ("put 'a b' ", "VALUE [--ttl DURATION]"),
            ("put a # it is", ""),
            ("put balance -5 ", "[--ttl DURATION]"),
            ("set ", "KEY VALUE [--ttl DURATION]"),
            ("\\set a ", "VALUE [--ttl DURATION]"),
            ("get ", "KEYS…"),
            ("get a b ", "[KEYS…]"),
            ("scan ", "[FROM] [TO] [--limit LIMIT]"),
            ("scan a --limit 3 ", "[TO]"),
            ("increment ", "KEY [BY] [--at-least NUMBER]"),
            ("read-at ", "TIMESTAMP KEYS…"),
            ("find by-city ", "[VALUE] [--from FROM] [--to TO] [--limit LIMIT]"),
            ("find by-city Berlin ", "[--limit LIMIT]"),
            ("find by-age --from 18 ", "[--to TO] [--limit LIMIT]"),
            ("use ", "KEYSPACE"),
            ("timing ", "[on|off]"),
            ("watch ", "[DURATION]"),
            ("begin", ""),
            ("begin; ", ""),
            ("begin; put a 1; incr ", "KEY [BY] [--at-least NUMBER]"),
            ("keyspace", " create|list|show|drop|undrop|index"),
            ("keyspace index ", "create|list|drop"),
            ("keyspace create ", "NAME [--isolation ISOLATION] [--shards SHARDS] …"),
            ("keyspace create a --isolation ", "strict|serializable|snapshot|parallel-snapshot"),
            ("keyspace create a --iso", "lation ISOLATION"),
            ("keyspace create a --s", ""),
            ("keyspace create a --strange ", ""),
            ("keyspace drop ", "KEYSPACE [--delete-after DURATION]"),
            ("keyspace index create users by-city ", "--on SOURCE [--unique] [--unparsable CHOICE]"),
            ("keyspace index drop ", "KEYSPACE INDEX"),
            ("help ", ""),
            ("put a 1\nget ", "KEYS…"),
        ];
        for (line, expected) in table {
            assert_eq!(syntax(&grammar, line), expected, "{line:?}");
        }
    }

    #[test]
    fn an_earlier_line_goes_first_and_is_all_that_keys_accept() {
        let mut history = FileBackedHistory::new(4).unwrap();
        history.save(HistoryItem::from_command_line("put alice 100")).unwrap();
        let mut hints = Hints::new(Arc::new(Grammar::new()), String::new());
        let mut shown = |line: &str, position| {
            let shown = hints.handle(line, position, &history, true, "");
            (shown, hints.complete_hint(), hints.next_hint_token())
        };
        let (earlier, whole, word) = shown("put al", 6);
        assert!(earlier.contains("ice 100") && !earlier.contains("VALUE"), "{earlier:?}");
        assert_eq!((whole.as_str(), word.as_str()), ("ice 100", "ice"));
        for line in ["put bob", "put alice 100", "scan "] {
            let (syntax, whole, word) = shown(line, line.len());
            assert!(syntax.starts_with('\u{1b}') && syntax.contains('['), "{line}: {syntax:?}");
            assert_eq!((whole.as_str(), word.as_str()), ("", ""), "{line}");
        }
        assert_eq!(shown("put bob", 3).0, "", "the cursor is not at the end");
        assert_eq!(hints.handle("put bob", 7, &history, false, ""), "", "no colours");
    }

    #[test]
    fn a_quote_that_an_earlier_line_opened_is_known() {
        let history = FileBackedHistory::new(4).unwrap();
        let mut hints = Hints::new(Arc::new(Grammar::new()), "put 'a\n".to_owned());
        assert_eq!(hints.handle("put ", 4, &history, true, ""), "");
        assert!(hints.handle("b' ", 3, &history, true, "").contains("VALUE"));
    }
}
