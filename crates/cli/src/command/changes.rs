//! `quorate changes`: what a keyspace commits, line by line.

use std::io::{ErrorKind, Write};
use std::time::UNIX_EPOCH;

use clap::Args;
use quorate::{
    Addition, Change, ChangePage, Changes, Cursor, Database, Error, Keyspace, Position, Timestamp,
};
use quorate_backup::rows::put_bytes;
use serde_json::{Map, Value as Json, json};

use super::ConnectArguments;
use crate::exit::{Failure, Outcome, Verdict};
use crate::runtime::{block_on, stop_signal};
use crate::shell::quoted;

/// Follow what a keyspace commits: every write once, those of each shard in commit order.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate changes accounts                                  from now on, until it is stopped
  quorate changes accounts --from 1.7.12-0006… --json       from where an earlier one has stopped
  quorate changes accounts --from \"$(cat cursor)\" --once --json | tee -a changes.jsonl | jq -r 'select(.cursor).cursor' | tail -1 > cursor
  quorate changes accounts --prefix user/
  quorate changes accounts --key stock

With --json there is a line for each transaction at a shard, `{\"timestamp\":…,\"shard\":…,\"writes\":[…]}`, and from time to time one that says how far everything was told,
`{\"resolved\":…,\"cursor\":…}`: keep the cursor, and go on from it. Writes with the same timestamp at several shards are one transaction. Without --json the cursor is
told on standard error at the end. A `parallel-snapshot` keyspace has no shards, and its lines have `\"additions\":[…]` where sets and counters were changed: the sum of all that were told is the
count. Exit code 1 if the cursor is too old: take a fresh snapshot with `quorate export`.")]
pub(crate) struct ChangesArguments {
    /// The keyspace.
    keyspace: String,
    /// Go on from here; without it, what commits from now on, and perhaps some that has committed shortly before.
    #[arg(long, value_name = "CURSOR")]
    from: Option<String>,
    /// Only this key.
    #[arg(long, value_name = "KEY", conflicts_with = "prefix")]
    key: Option<String>,
    /// Only keys that begin so.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Stop once everything was told that had committed when this command began.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    connect: ConnectArguments,
    /// Print lines of JSON.
    #[arg(long)]
    json: bool,
}

impl ChangesArguments {
    pub(crate) fn run(self) -> Outcome {
        let from = self.from.as_deref().map(str::parse::<Cursor>).transpose().map_err(Failure::usage)?;
        block_on(async {
            let db = self.connect.open().await?;
            let outcome = self.tell(&db, from.as_ref()).await;
            db.close().await;
            outcome
        })
    }

    async fn tell(&self, db: &Database, from: Option<&Cursor>) -> Outcome {
        let keyspace = db.keyspace(&self.keyspace).await?;
        let until = if self.once { Some(db.latest_position(&keyspace).await?) } else { None };
        let mut changes = self.follow(&keyspace, from).await?;
        let outcome = tokio::select! {
            outcome = self.tell_until(&mut changes, until) => outcome,
            stopped = stop_signal() => stopped.map(|()| Verdict::Good),
        };
        if !self.json {
            errln!("go on with --from {}", changes.cursor());
        }
        outcome
    }

    async fn follow(&self, keyspace: &Keyspace, from: Option<&Cursor>) -> Result<Changes, Failure> {
        let changes = match (&self.key, &self.prefix) {
            (Some(key), _) => keyspace.watch(key, from).await,
            (None, Some(prefix)) => keyspace.watch_prefix(prefix, from).await,
            (None, None) => keyspace.changes(from).await,
        };
        changes.map_err(Failure::from)
    }

    /// Tells page after page until everything below a timestamp was told, or nobody reads any more.
    async fn tell_until(&self, changes: &mut Changes, until: Option<Position>) -> Outcome {
        let mut resolved = changes.resolved();
        loop {
            if until.as_ref().is_some_and(|until| resolved.includes(until)) {
                return Ok(Verdict::Good);
            }
            let page = match changes.next().await {
                Ok(page) => page,
                Err(error @ Error::ChangesUnavailable { .. }) => {
                    errln!("{error}");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let before = std::mem::replace(&mut resolved, changes.resolved());
            let mut lines = self.lines(&page);
            if self.json && resolved != before {
                let cursor = changes.cursor().to_string();
                let resolved = position(&resolved);
                lines.push_str(&format!("{}\n", json!({ "resolved": resolved, "cursor": cursor })));
            }
            match write(&lines) {
                Ok(()) => {}
                // `quorate changes … | head` is no mistake.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(Verdict::Good),
                Err(error) => {
                    return Err(Failure::failed(format!("cannot write to standard output: {error}")));
                }
            }
        }
    }

    fn lines(&self, page: &ChangePage) -> String {
        let line = |change: &Change| match self.json {
            true => json_of(page, change) + "\n",
            false => text_of(page, change),
        };
        page.changes.iter().map(line).collect()
    }
}

fn write(lines: &str) -> std::io::Result<()> {
    let mut to = std::io::stdout().lock();
    to.write_all(lines.as_bytes())?;
    to.flush()
}

/// A position as it is written.
fn position(position: &Position) -> String {
    match position {
        Position::Timestamp(timestamp) => name(*timestamp),
        Position::Sites(_) => position.to_string(),
    }
}

/// The name of a transaction as it is written: microseconds after 1970, and a client that tells positions of one microsecond apart.
fn name(timestamp: Timestamp) -> String {
    format!("{}@{:x}", timestamp.micros, timestamp.client.0)
}

fn json_of(page: &ChangePage, change: &Change) -> String {
    let writes: Vec<Json> = change
        .writes
        .iter()
        .map(|write| {
            let mut row = Map::new();
            put_bytes(&mut row, "key", &write.key);
            match &write.value {
                Some(value) => {
                    put_bytes(&mut row, "value", value);
                    let at = page.expiries.get(&(change.timestamp, write.key.clone()));
                    let micros =
                        at.and_then(|at| at.duration_since(UNIX_EPOCH).ok()).map(|at| at.as_micros());
                    row.extend(micros.map(|micros| ("expires_us".to_owned(), (micros as u64).into())));
                }
                None => drop(row.insert("deleted".to_owned(), true.into())),
            }
            Json::Object(row)
        })
        .collect();
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), name(change.timestamp).into());
    if let Some(shard) = page.shard {
        line.insert("shard".to_owned(), shard.0.into());
    }
    line.insert("writes".to_owned(), writes.into());
    if !change.additions.is_empty() {
        let additions: Vec<Json> = change.additions.iter().map(json_of_addition).collect();
        line.insert("additions".to_owned(), additions.into());
    }
    Json::Object(line).to_string()
}

fn json_of_addition(added: &Addition) -> Json {
    let mut row = Map::new();
    match &added.element {
        Some(element) => {
            put_bytes(&mut row, "set", &added.object);
            put_bytes(&mut row, "element", element);
        }
        None => put_bytes(&mut row, "counter", &added.object),
    }
    row.insert("by".to_owned(), added.by.into());
    Json::Object(row)
}

fn text_of(page: &ChangePage, change: &Change) -> String {
    let shard = page.shard.map_or_else(String::new, |shard| format!(" shard {}", shard.0));
    let head = format!("{}{shard}", name(change.timestamp));
    let line = |write: &quorate::Write| match &write.value {
        Some(value) => format!("{head} put {} {}\n", quoted(&write.key), quoted(value)),
        None => format!("{head} delete {}\n", quoted(&write.key)),
    };
    let addition = |added: &Addition| match &added.element {
        Some(element) => {
            format!("{head} add {} {} {:+}\n", quoted(&added.object), quoted(element), added.by)
        }
        None => format!("{head} count {} {:+}\n", quoted(&added.object), added.by),
    };
    change.writes.iter().map(line).chain(change.additions.iter().map(addition)).collect()
}
