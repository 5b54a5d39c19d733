//! The statements of the shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{Parser, Subcommand, ValueEnum};
use quorate::{ClientId, Timestamp, Token};

use super::words::Word;
use crate::command::{CreateArguments, DropArguments, IndexAction, UndropArguments};
use crate::output::harmless;
use crate::parse;

/// One statement. Outside `begin` and `commit` each access is a transaction of its own.
#[derive(Debug, Parser)]
#[command(
    name = "",
    multicall = true,
    disable_help_flag = true,
    after_help = "\
Quote keys and values with ' or \" where they hold spaces or semicolons; \"\\xff\" is a byte. Everything that is shown can be
pasted back. Durations have a unit, such as 500ms or 2s. Tab completes what can be completed; Ctrl-C stops a statement."
)]
pub(crate) enum Statement {
    /// Read a key, or several at once.
    #[command(allow_hyphen_values = true, alias = "mget")]
    Get {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<Text>,
    },
    /// Read keys at once, in a read-only transaction of its own: strict, in one round trip.
    #[command(allow_hyphen_values = true)]
    Read {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<Text>,
    },
    /// Read keys as they were at the timestamp of a commit, or at a moment.
    ReadAt {
        /// As `commit` shows it, or microseconds since 1970.
        #[arg(value_parser = parse_timestamp)]
        timestamp: Timestamp,
        /// The keys.
        #[arg(required = true)]
        keys: Vec<Text>,
    },
    /// Read keys as they were no longer ago than that, at the nearest replicas if they know enough.
    ReadStale {
        /// How long ago, such as 500ms.
        #[arg(value_parser = ago)]
        staleness: Duration,
        /// The keys.
        #[arg(required = true)]
        keys: Vec<Text>,
    },
    /// Read keys as they are by the clock of this machine. The keyspace must state a bound of clocks.
    ReadNow {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<Text>,
    },
    /// Write a key.
    #[command(allow_hyphen_values = true, alias = "set")]
    Put {
        /// The key.
        key: Text,
        /// The value.
        value: Text,
        /// How long the key is to hold it, such as 30m or 10s, in a keyspace that was created with `--expiring`.
        #[arg(long, value_name = "DURATION", value_parser = parse::duration)]
        ttl: Option<Duration>,
    },
    /// Tell for how long a key will hold its value.
    #[command(allow_hyphen_values = true)]
    Ttl {
        /// The key.
        key: Text,
    },
    /// Delete a key.
    #[command(allow_hyphen_values = true, aliases = ["del", "rm"])]
    Delete {
        /// The key.
        key: Text,
    },
    /// Add to the number that a key holds in decimal digits; an absent key counts as zero.
    #[command(allow_hyphen_values = true, aliases = ["incr", "incrby"])]
    Increment {
        /// The key.
        key: Text,
        /// The addend.
        #[arg(default_value_t = 1)]
        by: i64,
        /// Add only if the key holds this number or a greater one before.
        #[arg(long, value_name = "NUMBER")]
        at_least: Option<i64>,
    },
    /// Subtract from the number that a key holds in decimal digits; an absent key counts as zero.
    #[command(allow_hyphen_values = true, aliases = ["decr", "decrby"])]
    Decrement {
        /// The key.
        key: Text,
        /// The subtrahend.
        #[arg(default_value_t = 1)]
        by: i64,
        /// Subtract only if the key holds this number or a greater one before.
        #[arg(long, value_name = "NUMBER")]
        at_least: Option<i64>,
    },
    /// Add text at the end of the value of a key; an absent key counts as empty.
    #[command(allow_hyphen_values = true)]
    Append {
        /// The key.
        key: Text,
        /// The text.
        value: Text,
    },
    /// Read the keys from FROM (included, '' for the first) to TO (excluded, '' for the end); all without bounds.
    #[command(allow_hyphen_values = true)]
    Scan {
        /// The range.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they were at the timestamp of a commit, or at a moment.
    ScanAt {
        /// As `commit` shows it, or microseconds since 1970.
        #[arg(value_parser = parse_timestamp)]
        timestamp: Timestamp,
        /// The range.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they were so long ago.
    ScanStale {
        /// How long ago, such as 500ms.
        #[arg(value_parser = ago)]
        staleness: Duration,
        /// The range.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they are by the clock of this machine. The keyspace must state a bound of clocks.
    ScanNow {
        /// The range.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys that an index finds by a value, a scalar in JSON or a text; or by values from one (included) to another one (excluded).
    #[command(allow_hyphen_values = true)]
    Find {
        /// The index.
        index: String,
        /// The value.
        #[arg(required_unless_present_any = ["from", "to"], conflicts_with_all = ["from", "to"])]
        value: Option<String>,
        /// The first value.
        #[arg(long)]
        from: Option<String>,
        /// The first value that is not wanted.
        #[arg(long)]
        to: Option<String>,
        /// At most so many keys.
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
    /// Begin a transaction.
    Begin,
    /// Commit the transaction.
    Commit,
    /// Drop the transaction.
    Abort,
    /// Show the token of the open transaction, or of the last one.
    Token,
    /// Ask what became of a transaction.
    Outcome {
        /// Its token.
        token: Token,
    },
    /// Choose the keyspace of the statements that follow.
    Use {
        /// Its name.
        #[arg(value_name = "KEYSPACE")]
        name: String,
    },
    /// Create, list, show and drop keyspaces, and bring them back.
    Keyspace {
        #[command(subcommand)]
        action: KeyspaceAction,
    },
    /// Show how long each statement takes, or no more.
    Timing {
        /// The other than now if it is not said.
        setting: Option<Setting>,
    },
    /// Answer with one JSON object a statement, or no more.
    Json {
        /// The other than now if it is not said.
        setting: Option<Setting>,
    },
    /// Repeat the statements of the line before, until Ctrl-C.
    Watch {
        /// The pause between them, such as 1s.
        #[arg(default_value = "2s", value_name = "DURATION", value_parser = pause)]
        every: Duration,
    },
    /// Leave the shell.
    #[command(alias = "quit")]
    Exit,
}

/// Bytes of a key or a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(crate) Vec<u8>);

impl From<OsString> for Text {
    fn from(word: OsString) -> Self {
        Text(word.into_vec())
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Setting {
    /// From now on.
    On,
    /// No more.
    Off,
}

/// Reads how long ago: a duration, or so many milliseconds.
fn ago(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(milliseconds) => Ok(Duration::from_millis(milliseconds)),
        Err(_) => parse::duration(text),
    }
}

/// Reads how long to wait: a duration, or so many seconds.
fn pause(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => parse::duration(text),
    }
}

/// A range of keys, from FROM (included) to TO (excluded, '' for the end).
#[derive(Debug, clap::Args)]
pub(crate) struct Range {
    /// The first key.
    #[arg(default_value = "")]
    pub(crate) from: Text,
    /// The first key that is not wanted.
    #[arg(default_value = "")]
    pub(crate) to: Text,
    /// At most so many keys.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
}

/// The actions on keyspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyspaceAction {
    /// Create a keyspace, and use it unless a transaction is open.
    Create(CreateArguments),
    /// List the keyspaces.
    List,
    /// Show where the shards of a keyspace are.
    Show {
        /// Its name.
        #[arg(value_name = "KEYSPACE")]
        name: String,
    },
    /// Drop a keyspace and everything in it.
    Drop(DropArguments),
    /// Bring back a keyspace that was dropped.
    Undrop(UndropArguments),
    /// Create, list and drop indexes.
    Index {
        /// The action.
        #[command(subcommand)]
        action: IndexAction,
    },
}

/// The meaning of the words of a statement.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Something to do.
    Statement(Statement),
    /// A text to show: help that was asked for.
    Help(String),
    /// A mistake, and how to write it.
    Mistake(String),
}

/// `MICROSECONDS@CLIENT`, as timestamps are shown, or `MICROSECONDS`: after everything of that moment.
fn parse_timestamp(text: &str) -> Result<Timestamp, String> {
    let (micros, client) = match text.split_once('@') {
        Some((micros, client)) => (micros, u64::from_str_radix(client, 16)),
        None => (text, Ok(u64::MAX)),
    };
    match (micros.parse(), client) {
        (Ok(micros), Ok(client)) => Ok(Timestamp { micros, client: ClientId(client) }),
        _ => Err("write microseconds since 1970, or a timestamp as `commit` shows it".to_owned()),
    }
}

impl Statement {
    /// Its name, as it is written.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Statement::Get { .. } => "get",
            Statement::Read { .. } => "read",
            Statement::ReadAt { .. } => "read-at",
            Statement::ReadStale { .. } => "read-stale",
            Statement::ReadNow { .. } => "read-now",
            Statement::Put { .. } => "put",
            Statement::Ttl { .. } => "ttl",
            Statement::Delete { .. } => "delete",
            Statement::Increment { .. } => "increment",
            Statement::Decrement { .. } => "decrement",
            Statement::Append { .. } => "append",
            Statement::Scan { .. } => "scan",
            Statement::ScanAt { .. } => "scan-at",
            Statement::ScanStale { .. } => "scan-stale",
            Statement::ScanNow { .. } => "scan-now",
            Statement::Find { .. } => "find",
            Statement::Begin => "begin",
            Statement::Commit => "commit",
            Statement::Abort => "abort",
            Statement::Token => "token",
            Statement::Outcome { .. } => "outcome",
            Statement::Use { .. } => "use",
            Statement::Keyspace { .. } => "keyspace",
            Statement::Timing { .. } => "timing",
            Statement::Json { .. } => "json",
            Statement::Watch { .. } => "watch",
            Statement::Exit => "exit",
        }
    }

    /// Reads the words of a statement. The first may begin with a backslash, as commands of other shells do.
    pub(crate) fn parse(words: &[Word]) -> Parsed {
        let mut words: Vec<OsString> = words.iter().cloned().map(OsString::from_vec).collect();
        if let Some(first) = words.first_mut() {
            let name = std::mem::take(first).into_vec();
            *first = OsString::from_vec(name.strip_prefix(b"\\").map(<[u8]>::to_vec).unwrap_or(name));
        }
        match Statement::try_parse_from(&words) {
            Ok(statement) => Parsed::Statement(statement),
            Err(error) => {
                let is_mistake = error.use_stderr();
                let error = harmless(error);
                if let Some(mistake) = words.first().and_then(|name| unknown(&error, &name.to_string_lossy()))
                {
                    return Parsed::Mistake(mistake);
                }
                let text = error.render().to_string();
                let text = text.trim().trim_start_matches("error: ").to_owned();
                if is_mistake { Parsed::Mistake(text) } else { Parsed::Help(text) }
            }
        }
    }
}

/// The words for an error that says that there is no statement of this name; none if it says something else.
fn unknown(error: &clap::Error, name: &str) -> Option<String> {
    let is_of = |unknown: &ContextValue| matches!(unknown, ContextValue::String(unknown) if unknown == name);
    error.get(ContextKind::InvalidSubcommand).filter(|unknown| is_of(unknown))?;
    let tips = match error.get(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(tips)) => tips.as_slice(),
        _ => &[],
    };
    let tips: Vec<String> = tips.iter().map(|tip| format!("'{tip}'")).collect();
    let tips = if tips.is_empty() { String::new() } else { format!(" (tip: {})", tips.join(", ")) };
    Some(format!("there is no statement \"{name}\": `help` lists them{tips}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parsed {
        Statement::parse(&crate::shell::split(text).unwrap()[0])
    }

    fn texts(keys: &[&str]) -> Vec<Text> {
        keys.iter().map(|key| Text(key.as_bytes().to_vec())).collect()
    }

    #[test]
    fn statements_have_their_names() {
        let root = <Statement as clap::CommandFactory>::command();
        for statement in ["begin", "exit", "timing", "scan", "put a b"] {
            let Parsed::Statement(parsed) = parse(statement) else { panic!("{statement}") };
            assert!(statement.starts_with(parsed.name()));
            assert!(root.find_subcommand(parsed.name()).is_some(), "{statement}");
        }
    }

    #[test]
    fn statements_are_read() {
        assert!(
            matches!(parse("get a"), Parsed::Statement(Statement::Get { keys }) if keys == texts(&["a"]))
        );
        assert!(
            matches!(parse("get a -b"), Parsed::Statement(Statement::Get { keys }) if keys == texts(&["a", "-b"]))
        );
        let negative = parse("put balance -5");
        assert!(matches!(negative, Parsed::Statement(Statement::Put { value, .. }) if value.0 == b"-5"));
        let bytes = parse("set hi \"\\xff\"");
        assert!(matches!(bytes, Parsed::Statement(Statement::Put { value, .. }) if value.0 == b"\xff"));
        assert!(matches!(parse("del a"), Parsed::Statement(Statement::Delete { .. })));
        assert!(matches!(parse("incr a"), Parsed::Statement(Statement::Increment { .. })));
        let down = parse("increment stock -3");
        assert!(matches!(down, Parsed::Statement(Statement::Increment { by: -3, .. })), "{down:?}");
        assert!(matches!(parse("increment stock"), Parsed::Statement(Statement::Increment { by: 1, .. })));
        let bounded = parse("increment stock -3 --at-least -2");
        let is_bounded =
            matches!(bounded, Parsed::Statement(Statement::Increment { by: -3, at_least: Some(-2), .. }));
        assert!(is_bounded, "{bounded:?}");
        assert!(matches!(parse("decr a"), Parsed::Statement(Statement::Decrement { by: 1, .. })));
        let down = parse("decrement stock 3 --at-least 3");
        let is_down =
            matches!(down, Parsed::Statement(Statement::Decrement { by: 3, at_least: Some(3), .. }));
        assert!(is_down, "{down:?}");
        let append = parse("append log 'one; two'");
        assert!(
            matches!(append, Parsed::Statement(Statement::Append { value, .. }) if value.0 == b"one; two")
        );
        let Parsed::Statement(Statement::Scan { range }) = parse("scan a z --limit 7") else { panic!() };
        assert_eq!((range.from.0.as_slice(), range.to.0.as_slice(), range.limit), (&b"a"[..], &b"z"[..], 7));
        let Parsed::Statement(Statement::Scan { range }) = parse("scan") else { panic!() };
        assert!(range.from.0.is_empty() && range.to.0.is_empty());
        let Parsed::Statement(Statement::ScanNow { range }) = parse("scan-now '' ''") else { panic!() };
        assert_eq!((range.to.0.as_slice(), range.limit), (&b""[..], 100));
        let Parsed::Statement(Statement::ScanAt { timestamp, range }) = parse("scan-at 7@a b") else {
            panic!()
        };
        assert_eq!((timestamp.to_string().as_str(), range.from.0.as_slice()), ("7@a", &b"b"[..]));
        let Parsed::Statement(Statement::ScanStale { staleness, .. }) = parse("scan-stale 50 a b") else {
            panic!()
        };
        assert_eq!(staleness, Duration::from_millis(50));
        let Parsed::Statement(Statement::ReadStale { staleness, .. }) = parse("read-stale 2s a") else {
            panic!()
        };
        assert_eq!(staleness, Duration::from_secs(2));
        let Parsed::Statement(Statement::Watch { every }) = parse("\\watch 1") else { panic!() };
        assert_eq!(every, Duration::from_secs(1));
        let on = parse("\\timing on");
        assert!(matches!(on, Parsed::Statement(Statement::Timing { setting: Some(Setting::On) })));
        assert!(matches!(parse("timing"), Parsed::Statement(Statement::Timing { setting: None })));
        let find = parse("find by-age 30 --limit 7");
        let is_find = matches!(&find, Parsed::Statement(Statement::Find { index, value: Some(value), limit: 7, .. })
            if index == "by-age" && value == "30");
        assert!(is_find, "{find:?}");
        let find = parse("find by-age --from -5");
        assert!(
            matches!(&find, Parsed::Statement(Statement::Find { value: None, from: Some(from), .. }) if from == "-5"),
            "{find:?}"
        );
        for wrong in [
            "scan --limit 0",
            "scan-now a b --limit 0",
            "find by-age 30 --limit 0",
            "find by-age",
            "find by-age 30 --to 5",
            "keyspace index create a b",
            "keyspace index create a b --on x",
        ] {
            assert!(matches!(parse(wrong), Parsed::Mistake(_)), "{wrong}");
        }
        let create = parse("keyspace create accounts --isolation strict --shards 2 --sites a,b,c");
        let Parsed::Statement(Statement::Keyspace { action: KeyspaceAction::Create(create) }) = create else {
            panic!()
        };
        assert_eq!(create.options().sites, ["a", "b", "c"]);
        assert_eq!(create.options().clock_bound, None);
        assert!(
            matches!(parse("read a -b"), Parsed::Statement(Statement::Read { keys }) if keys == texts(&["a", "-b"]))
        );
        let Parsed::Statement(Statement::ReadAt { timestamp, keys }) =
            parse("read-at 1800000010743317@d18908 a")
        else {
            panic!()
        };
        assert_eq!((timestamp.to_string().as_str(), keys.len()), ("1800000010743317@d18908", 1));
        let Parsed::Statement(Statement::ReadAt { timestamp, .. }) = parse("read-at 7 a") else { panic!() };
        assert_eq!(timestamp, Timestamp { micros: 7, client: ClientId(u64::MAX) });
        assert!(
            matches!(parse("read-stale 50 a b"), Parsed::Statement(Statement::ReadStale { keys, .. }) if keys.len() == 2)
        );
        assert!(matches!(parse("read-at soon a"), Parsed::Mistake(text) if text.contains("microseconds")));
        assert!(matches!(parse("read-now"), Parsed::Mistake(_)));
        assert!(matches!(parse("quit"), Parsed::Statement(Statement::Exit)));
    }

    #[test]
    fn a_statement_that_deletes_is_no_tip_for_a_word_that_resembles_it() {
        let table = [
            ("dele a", Some("'delete'")),
            ("deletee a", Some("'delete'")),
            ("gett a", Some("'get'")),
            ("lete a", None),
            ("deltee a", None),
            ("rem a", Some("'read'")),
            ("keyspace dorp a", None),
            ("keyspace dro a", Some("'drop'")),
            ("keyspace creat a", Some("'create'")),
            ("keyspace index drp a b", None),
        ];
        for (statement, tip) in table {
            let Parsed::Mistake(told) = parse(statement) else { panic!("{statement}") };
            assert_eq!(told.contains("tip:"), tip.is_some(), "{statement}: {told}");
            assert!(told.contains(tip.unwrap_or_default()), "{statement}: {told}");
            assert!(!told.contains("'rm'"), "{statement}: {told}");
        }
    }

    #[test]
    fn mistakes_and_help_are_texts() {
        let unknown = parse("comit a");
        let told = "there is no statement \"comit\": `help` lists them (tip: 'commit')";
        assert!(matches!(&unknown, Parsed::Mistake(text) if text == told), "{unknown:?}");
        let unknown = parse("lete a");
        let told = "there is no statement \"lete\": `help` lists them";
        assert!(matches!(&unknown, Parsed::Mistake(text) if text == told), "{unknown:?}");
        assert!(matches!(parse("put a"), Parsed::Mistake(text) if text.contains("<VALUE>")));
        assert!(matches!(parse("outcome x"), Parsed::Mistake(text) if text.contains("token")));
        let create = parse("keyspace create a --isolation loose");
        assert!(matches!(create, Parsed::Mistake(text) if text.contains("strict")));
        assert!(matches!(parse("help"), Parsed::Help(text) if text.contains("commit")));
    }
}
