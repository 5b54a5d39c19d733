//! What can be said in the shell.

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use quorate::{ClientId, Timestamp, Token};

use crate::command::{CreateArguments, DropArguments, UndropArguments};

/// One statement. Outside `begin` and `commit` each access is a transaction of its own.
#[derive(Debug, Parser)]
#[command(
    name = "",
    multicall = true,
    disable_help_flag = true,
    after_help = "Quote keys and values with ' or \" where they hold spaces or semicolons."
)]
pub(crate) enum Statement {
    /// Read a key, or several at once.
    #[command(allow_hyphen_values = true)]
    Get {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Read keys at once, in a read-only transaction of its own: strict, in one round trip.
    #[command(allow_hyphen_values = true)]
    Read {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Read keys as they were at the timestamp of a commit, or at a moment.
    ReadAt {
        /// As `commit` shows it, or microseconds since 1970.
        #[arg(value_parser = parse_timestamp)]
        timestamp: Timestamp,
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Read keys as they were no longer ago than that, at the nearest replicas if they know enough.
    ReadStale {
        /// How long ago.
        milliseconds: u64,
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Read keys as they are by the clock of this machine. The keyspace must state a bound of clocks.
    ReadNow {
        /// The keys.
        #[arg(required = true)]
        keys: Vec<String>,
    },
    /// Write a key.
    #[command(allow_hyphen_values = true)]
    Put {
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// Delete a key.
    #[command(allow_hyphen_values = true)]
    Delete {
        /// The key.
        key: String,
    },
    /// Add to the number that a key holds in decimal digits, in a batch of its own; an absent key counts as zero.
    #[command(allow_hyphen_values = true)]
    Increment {
        /// The key.
        key: String,
        /// What is added.
        #[arg(default_value_t = 1)]
        by: i64,
    },
    /// Add text at the end of the value of a key, in a batch of its own; an absent key counts as empty.
    #[command(allow_hyphen_values = true)]
    Append {
        /// The key.
        key: String,
        /// What is added.
        value: String,
    },
    /// Read the keys from FROM (included) to TO (excluded, '' for the end).
    Scan {
        /// What to read.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they were at the timestamp of a commit, or at a moment.
    ScanAt {
        /// As `commit` shows it, or microseconds since 1970.
        #[arg(value_parser = parse_timestamp)]
        timestamp: Timestamp,
        /// What to read.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they were so long ago.
    ScanStale {
        /// How long ago.
        milliseconds: u64,
        /// What to read.
        #[command(flatten)]
        range: Range,
    },
    /// Read the keys from FROM to TO as they are by the clock of this machine. The keyspace must state a bound of clocks.
    ScanNow {
        /// What to read.
        #[command(flatten)]
        range: Range,
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
        name: String,
    },
    /// Create, list, show and drop keyspaces, and bring them back.
    Keyspace {
        #[command(subcommand)]
        action: KeyspaceAction,
    },
    /// Leave the shell.
    #[command(alias = "quit")]
    Exit,
}

/// A range of keys, from FROM (included) to TO (excluded, '' for the end).
#[derive(Debug, clap::Args)]
pub(crate) struct Range {
    /// The first key.
    pub(crate) from: String,
    /// The first key that is not wanted.
    #[arg(default_value = "")]
    pub(crate) to: String,
    /// At most so many keys.
    #[arg(long, default_value_t = 100)]
    pub(crate) limit: u32,
}

/// What can be done with keyspaces.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyspaceAction {
    /// Create a keyspace, and use it.
    Create(CreateArguments),
    /// List the keyspaces.
    List,
    /// Show where the shards of a keyspace are.
    Show {
        /// Its name.
        name: String,
    },
    /// Drop a keyspace and everything in it.
    Drop(DropArguments),
    /// Bring back a keyspace that was dropped.
    Undrop(UndropArguments),
}

/// What the words of a statement come to.
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
    /// Reads the words of a statement.
    pub(crate) fn parse(words: &[String]) -> Parsed {
        match Statement::try_parse_from(words) {
            Ok(statement) => Parsed::Statement(statement),
            Err(error) if error.kind() == ErrorKind::InvalidSubcommand && words.len() == 1 => {
                Parsed::Mistake(format!("there is no statement \"{}\": `help` lists them", words[0]))
            }
            Err(error) => {
                let text = error.render().to_string();
                let text = text.trim().trim_start_matches("error: ").to_owned();
                if error.use_stderr() { Parsed::Mistake(text) } else { Parsed::Help(text) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Parsed {
        Statement::parse(&crate::shell::split(text).unwrap()[0])
    }

    #[test]
    fn statements_are_read() {
        assert!(matches!(parse("get a"), Parsed::Statement(Statement::Get { keys }) if keys == ["a"]));
        assert!(
            matches!(parse("get a -b"), Parsed::Statement(Statement::Get { keys }) if keys == ["a", "-b"])
        );
        let negative = parse("put balance -5");
        assert!(matches!(negative, Parsed::Statement(Statement::Put { value, .. }) if value == "-5"));
        let down = parse("increment stock -3");
        assert!(matches!(down, Parsed::Statement(Statement::Increment { by: -3, .. })), "{down:?}");
        assert!(matches!(parse("increment stock"), Parsed::Statement(Statement::Increment { by: 1, .. })));
        let append = parse("append log 'one; two'");
        assert!(matches!(append, Parsed::Statement(Statement::Append { value, .. }) if value == "one; two"));
        let Parsed::Statement(Statement::Scan { range }) = parse("scan a z --limit 7") else { panic!() };
        assert_eq!((range.from.as_str(), range.to.as_str(), range.limit), ("a", "z", 7));
        let Parsed::Statement(Statement::ScanNow { range }) = parse("scan-now '' ''") else { panic!() };
        assert_eq!((range.to.as_str(), range.limit), ("", 100));
        let Parsed::Statement(Statement::ScanAt { timestamp, range }) = parse("scan-at 7@a b") else {
            panic!()
        };
        assert_eq!((timestamp.to_string().as_str(), range.from.as_str()), ("7@a", "b"));
        let Parsed::Statement(Statement::ScanStale { milliseconds, .. }) = parse("scan-stale 50 a b") else {
            panic!()
        };
        assert_eq!(milliseconds, 50);
        let create = parse("keyspace create accounts --isolation strict --shards 2 --sites a,b,c");
        let Parsed::Statement(Statement::Keyspace { action: KeyspaceAction::Create(create) }) = create else {
            panic!()
        };
        assert_eq!(create.options().sites, ["a", "b", "c"]);
        assert_eq!(create.options().clock_bound, None);
        assert!(
            matches!(parse("read a -b"), Parsed::Statement(Statement::Read { keys }) if keys == ["a", "-b"])
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
    fn mistakes_and_help_are_texts() {
        assert!(matches!(parse("gte a"), Parsed::Mistake(text) if text.contains("gte")));
        assert!(matches!(parse("put a"), Parsed::Mistake(text) if text.contains("<VALUE>")));
        assert!(matches!(parse("outcome x"), Parsed::Mistake(text) if text.contains("token")));
        let create = parse("keyspace create a --isolation loose");
        assert!(matches!(create, Parsed::Mistake(text) if text.contains("strict")));
        assert!(matches!(parse("help"), Parsed::Help(text) if text.contains("commit")));
    }
}
