//! `quorate keyspace drop`, `undrop` and `forget`, and what was dropped.

use std::time::Duration;

use clap::Args;
use quorate::{Database, DropOptions, Dropped, Error, UndropOptions};
use serde_json::{Value, json};

use super::keyspace::{definition_lines, to_json};
use crate::exit::Failure;
use crate::output::{Align, Table, print_json};
use crate::parse;

/// Which keyspace is dropped, and when its data is deleted; also a statement of the shell.
#[derive(Args, Clone, Debug)]
pub(crate) struct DropArguments {
    /// Its name.
    #[arg(value_name = "KEYSPACE")]
    pub(crate) name: String,
    #[command(flatten)]
    delay: Delay,
}

/// When the data of a dropped keyspace is deleted.
#[derive(Args, Clone, Debug)]
struct Delay {
    /// How long `undrop` can bring it back before its data is deleted, like 7d, 24h or 90m; with 0s it is deleted at once.
    #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse::duration)]
    delete_after: Duration,
}

/// Which keyspace is brought back; also a statement of the shell.
#[derive(Args, Clone, Debug)]
pub(crate) struct UndropArguments {
    /// The name that it had when it was dropped.
    #[arg(value_name = "KEYSPACE")]
    pub(crate) name: String,
    /// Its number, if several of that name were dropped; by default the one that was dropped last.
    #[arg(long)]
    id: Option<u32>,
    /// The name that it is given, if its own is not free any more.
    #[arg(long = "as", value_name = "OTHER")]
    rename: Option<String>,
}

/// Of which keyspace nodes hold replicas that the catalogue does not know.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForgetArguments {
    /// Its name, as the nodes tell it.
    name: String,
    /// Its number, as the nodes tell it.
    #[arg(long)]
    id: u32,
    #[command(flatten)]
    delay: Delay,
}

impl DropArguments {
    /// Drops it, and says so.
    pub(crate) async fn run(&self, db: &Database) -> Result<String, Error> {
        let DropArguments { name, delay: Delay { delete_after } } = self;
        db.drop_keyspace_with(name, DropOptions { delete_after: *delete_after }).await?;
        Ok(match delete_after.is_zero() {
            true => format!("dropped {name}, with its data"),
            false => format!(
                "dropped {name}: `quorate keyspace undrop {name}` brings it back for {}, then its data is deleted",
                parse::to_duration(*delete_after)
            ),
        })
    }

    /// The same, for programs.
    pub(crate) fn to_json(&self) -> Value {
        json!({ "dropped": self.name, "delete_after_us": micros(self.delay.delete_after) })
    }
}

impl UndropArguments {
    /// Brings it back, and says how it is defined.
    pub(crate) async fn run(&self, db: &Database) -> Result<String, Error> {
        let restored = db.undrop_keyspace(&self.name, &self.options()).await?;
        Ok(match restored {
            Some(definition) => format!("brought back {}", definition_lines(db, &definition)),
            None => format!("the catalogue does not forget {} any more", self.name),
        })
    }

    /// The same, for programs.
    pub(crate) async fn run_json(&self, db: &Database) -> Result<(), Failure> {
        let restored = db.undrop_keyspace(&self.name, &self.options()).await?;
        print_json(&json!({ "undropped": restored.map(|definition| to_json(db, &definition)) }))
    }

    fn options(&self) -> UndropOptions {
        UndropOptions { id: self.id, rename: self.rename.clone() }
    }
}

impl ForgetArguments {
    /// Records that it was dropped.
    pub(crate) async fn run(&self, db: &Database, json: bool) -> Result<(), Failure> {
        let ForgetArguments { name, id, delay: Delay { delete_after } } = self;
        db.forget_keyspace(name, *id, DropOptions { delete_after: *delete_after }).await?;
        if json {
            return print_json(
                &json!({ "forgotten": name, "id": id, "delete_after_us": micros(*delete_after) }),
            );
        }
        outln!(
            "forgotten {name} ({id}): what nodes hold of it is deleted after {}; until then `quorate keyspace undrop {name} --id {id}` \
             takes that back",
            parse::to_duration(*delete_after)
        );
        Ok(())
    }
}

/// Lists what was dropped and can be brought back.
pub(crate) async fn list(db: &Database, json: bool) -> Result<(), Failure> {
    let dropped = db.dropped_keyspaces().await?;
    if json {
        let all: Vec<_> = dropped.iter().map(|dropped| record_to_json(db, dropped)).collect();
        return print_json(&json!({ "dropped": all }));
    }
    if dropped.is_empty() {
        outln!("no keyspace can be brought back");
        return Ok(());
    }
    outln!("{}", table(&dropped, now_micros()));
    Ok(())
}

fn table(dropped: &[Dropped], now_micros: u64) -> Table {
    let mut table = Table::new(&[
        ("keyspace", Align::Left),
        ("id", Align::Right),
        ("shards", Align::Right),
        ("dropped", Align::Left),
        ("deleted", Align::Left),
    ]);
    for dropped in dropped {
        let ago = Duration::from_micros(now_micros.saturating_sub(dropped.dropped_at.as_micros()));
        let shards = dropped.definition.as_ref().map(|definition| definition.shards.len().to_string());
        table.row([
            dropped.name.clone(),
            dropped.id.0.to_string(),
            shards.unwrap_or_else(|| "?".to_owned()),
            format!("{} ago", roughly(ago)),
            format!("in {} at the earliest", roughly(dropped.remaining().unwrap_or_default())),
        ]);
    }
    table
}

fn record_to_json(db: &Database, dropped: &Dropped) -> Value {
    json!({
        "name": dropped.name,
        "id": dropped.id.0,
        "dropped_at_us": dropped.dropped_at.as_micros(),
        "delete_after_us": micros(dropped.delete_after),
        "waited_us": micros(dropped.waited),
        "former_names": dropped.former_names,
        "keyspace": dropped.definition.as_ref().map(|definition| to_json(db, definition)),
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A span of time in its two greatest units.
fn roughly(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

fn now_micros() -> u64 {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    micros(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_two_units() {
        let table = [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3_700, "1 h 1 min"), (90_000, "1 d 1 h")];
        for (seconds, expected) in table {
            assert_eq!(roughly(Duration::from_secs(seconds)), expected);
        }
    }
}
