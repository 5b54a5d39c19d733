//! `quorate keyspace index`: creates, lists and drops secondary indexes.

use clap::{Args, Subcommand};
use quorate::index::{Definition, Source, Unparsable};
use quorate::{Database, Error, IndexOptions, IndexProgress};
use serde_json::{Value, json};

use crate::exit::Failure;
use crate::output::{Align, Progress, Table, print_json};
use crate::parse;

/// The commands about indexes; each is also a statement of the shell.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum IndexAction {
    /// Create an index, and wait until it has every key. Transactions that write keep it from the beginning on. A creation that was interrupted goes on if it
    /// is repeated.
    Create(CreateIndexArguments),
    /// List the indexes of a keyspace.
    List {
        /// The keyspace.
        keyspace: String,
    },
    /// Drop an index, and wait until its entries are deleted. A drop that was interrupted goes on if it is repeated.
    Drop {
        /// The keyspace.
        keyspace: String,
        /// The index.
        #[arg(value_name = "INDEX")]
        name: String,
    },
}

/// The properties of a new index.
#[derive(Args, Clone, Debug)]
pub(crate) struct CreateIndexArguments {
    /// The keyspace.
    keyspace: String,
    /// The name of the index: letters, digits, `-`, `_` and `.`, beginning with a letter.
    name: String,
    /// The part of a value by which its key is found: `json:/POINTER`, a scalar or an array of scalars in a value that is JSON; or `bytes:FROM..TO`, these
    /// bytes of the value.
    #[arg(long, value_name = "SOURCE")]
    on: Source,
    /// Refuse transactions that would give the same value to a second key.
    #[arg(long)]
    unique: bool,
    /// The fate of a value that does not parse: `refuse` refuses the transaction that writes it, `leave-out` writes it without an entry.
    #[arg(long, value_name = "CHOICE", default_value_t = Unparsable::default(), hide_possible_values = true,
        value_parser = parse::one_of::<Unparsable>(Unparsable::ALL.map(Unparsable::name)))]
    unparsable: Unparsable,
}

/// The result of a command.
pub(crate) enum Acted {
    /// It is done.
    Done {
        /// In words.
        text: String,
        /// For programs.
        json: Value,
    },
    /// The indexes of a keyspace.
    Listed(Vec<Definition>),
}

impl IndexAction {
    /// The keyspace whose indexes it changes.
    pub(crate) fn changes(&self) -> Option<&str> {
        match self {
            IndexAction::Create(CreateIndexArguments { keyspace, .. })
            | IndexAction::Drop { keyspace, .. } => Some(keyspace),
            IndexAction::List { .. } => None,
        }
    }

    /// Does it, and shows how far it is.
    pub(crate) async fn run(&self, db: &Database, progress: &Progress) -> Result<Acted, Error> {
        match self {
            IndexAction::Create(CreateIndexArguments { keyspace, name, on, unique, unparsable }) => {
                let options = IndexOptions { on: on.clone(), unique: *unique, unparsable: *unparsable };
                let mut last = IndexProgress::default();
                let tell = |now: IndexProgress| {
                    last = now;
                    progress.now(format!("{} keys are read, {} entries are added", now.keys, now.entries));
                };
                db.keyspace(keyspace).await?.create_index(name, &options, tell).await?;
                let IndexProgress { keys, entries } = last;
                let text = format!(
                    "the index {name} of {keyspace} on {on} is ready: {entries} entries were added for {keys} keys that were there"
                );
                let json = json!({ "keyspace": keyspace, "index": name, "on": on.to_string(), "keys": keys, "entries": entries });
                Ok(Acted::Done { text, json })
            }
            IndexAction::List { keyspace } => {
                Ok(Acted::Listed(db.keyspace(keyspace).await?.indexes().await?))
            }
            IndexAction::Drop { keyspace, name } => {
                let mut deleted = 0;
                let tell = |now: IndexProgress| {
                    deleted = now.entries;
                    progress.now(format!("{deleted} entries are deleted"));
                };
                db.keyspace(keyspace).await?.drop_index(name, tell).await?;
                let text =
                    format!("the index {name} of {keyspace} is dropped: {deleted} entries were deleted");
                Ok(Acted::Done {
                    text,
                    json: json!({ "keyspace": keyspace, "index": name, "deleted": deleted }),
                })
            }
        }
    }

    /// Does it as a command.
    pub(crate) async fn command(&self, db: &Database, json: bool) -> Result<(), Failure> {
        let progress = Progress::spinner();
        let acted = self.run(db, &progress).await?;
        drop(progress);
        match acted {
            Acted::Done { json: object, .. } if json => print_json(&object),
            Acted::Done { text, .. } => {
                outln!("{text}");
                Ok(())
            }
            Acted::Listed(indexes) if json => print_json(&to_json(&indexes)),
            Acted::Listed(indexes) => {
                outln!("{}", lines(&indexes));
                Ok(())
            }
        }
    }
}

/// The indexes of a keyspace, for programs.
pub(crate) fn to_json(indexes: &[Definition]) -> Value {
    let one = |index: &Definition| {
        json!({
            "name": index.name,
            "on": index.on.to_string(),
            "unique": index.unique,
            "unparsable": index.unparsable.name(),
            "stage": index.stage.name(),
        })
    };
    json!({ "indexes": indexes.iter().map(one).collect::<Vec<_>>() })
}

/// The same for people.
pub(crate) fn lines(indexes: &[Definition]) -> String {
    if indexes.is_empty() {
        return "there is no index".to_owned();
    }
    let mut table = Table::new(&[
        ("index", Align::Left),
        ("on", Align::Left),
        ("unique", Align::Left),
        ("unparsable", Align::Left),
        ("stage", Align::Left),
    ]);
    for index in indexes {
        table.row([
            index.name.clone(),
            index.on.to_string(),
            if index.unique { "yes" } else { "no" }.to_owned(),
            index.unparsable.to_string(),
            index.stage.to_string(),
        ]);
    }
    table.to_string()
}
