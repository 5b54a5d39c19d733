//! `quorate export` and `quorate import`: keyspaces as rows of text.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorate::Database;
use quorate_backup::rows::Rows;
use quorate_backup::transfer::{self, Imported};
use serde_json::json;

use super::Common;
use super::backup::{failure, telling};
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Piped, print_json, thousands};
use crate::runtime::block_on;

/// A kind of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object a line.
    Json,
    /// Comma-separated values, with names in the first line.
    Csv,
}

impl Format {
    /// The format that was named, or else that of the name of the file.
    fn of(said: Option<Format>, file: Option<&Path>) -> Rows {
        let is_csv = || file.and_then(Path::extension).is_some_and(|extension| extension == "csv");
        match said {
            Some(Format::Csv) => Rows::Csv,
            None if is_csv() => Rows::Csv,
            Some(Format::Json) | None => Rows::Json,
        }
    }
}

/// Write everything that a keyspace holds at one instant as lines of JSON, or CSV.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate export accounts > accounts.jsonl
  quorate export accounts accounts.csv
  quorate export accounts --prefix user/ --format csv | sort
  quorate export accounts accounts.jsonl --json

Bytes that are no UTF-8 stand in base64 in a field of their own. Rows come in no order. docs/backup.md has the format.")]
pub(crate) struct ExportArguments {
    /// The keyspace.
    keyspace: String,
    /// The file, which is replaced once everything is in it; by default standard output.
    file: Option<PathBuf>,
    /// How rows look; by default CSV if the file's name ends in `.csv`, and else JSON.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Only keys that begin so.
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// How many seconds to wait for shards to come to one instant.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    common: Common,
}

/// Write lines of JSON, or CSV, into a keyspace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate import accounts accounts.jsonl
  quorate import accounts accounts.csv
  quorate import accounts accounts.jsonl --skip-lines 120000
  psql -c \"copy (select id as key, name as value from users) to stdout with csv header\" | quorate import users --format csv

Rows are written in transactions of up to 1,000. If it stops, it says up to which line everything is committed; begin again behind that with --skip-lines.
To write keys with values again does no harm; counting sets and counters count again.")]
pub(crate) struct ImportArguments {
    /// The keyspace, which must exist.
    keyspace: String,
    /// The file; by default standard input.
    file: Option<PathBuf>,
    /// How rows look; by default CSV if the file's name ends in `.csv`, and else JSON.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Begin behind so many lines.
    #[arg(long, value_name = "LINES", default_value_t = 0)]
    skip_lines: u64,
    #[command(flatten)]
    common: Common,
}

impl ExportArguments {
    pub(crate) fn run(self) -> Outcome {
        let common = self.common.clone();
        block_on(common.connected(async |db| self.export(db).await))
    }

    async fn export(&self, db: &Database) -> Outcome {
        if self.common.json && self.file.is_none() {
            return Err(Failure::usage(
                "--json prints an object on standard output, where the rows go: name a file for them"
                    .to_owned(),
            ));
        }
        let rows = Format::of(self.format, self.file.as_deref());
        let tell = telling(format!("exporting {}", self.keyspace));
        let prefix = self.prefix.as_bytes();
        let cut = db.cut(&self.keyspace, Duration::from_secs(self.patience)).await?;
        let Some(path) = &self.file else {
            let mut to = BufWriter::new(Piped::new());
            let exported = transfer::export(&cut, rows, prefix, &mut to, tell).await;
            // `quorate export … | head` is no mistake.
            let is_left = to.get_ref().is_left();
            // Nothing is left to write to a reader that has gone, nor to be told when this is dropped.
            drop(to.into_parts());
            return match exported {
                Err(_) if is_left => Ok(Verdict::Good),
                exported => exported.map(|_| Verdict::Good).map_err(failure),
            };
        };
        // An earlier file is whole until the new one is.
        let cannot = |doing: &str, error: std::io::Error| {
            Failure::failed(format!("cannot {doing} {}: {error}", path.display()))
        };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let part = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))
            .map_err(|error| cannot("write a file beside", error))?;
        let mut to = BufWriter::new(part.as_file());
        let exported = transfer::export(&cut, rows, prefix, &mut to, tell).await.map_err(failure)?;
        to.flush().map_err(|error| cannot("write", error))?;
        drop(to);
        part.as_file().sync_all().map_err(|error| cannot("make durable", error))?;
        part.persist(path).map_err(|error| cannot("replace", error.error))?;
        if self.common.json {
            print_json(&json!({
                "keyspace": self.keyspace,
                "file": path.display().to_string(),
                "instant_us": cut.instant_micros(),
                "entries": exported.entries,
                "bytes": exported.bytes,
            }))?;
        } else {
            errln!("{} rows are in {}", thousands(exported.entries), path.display());
        }
        Ok(Verdict::Good)
    }
}

impl ImportArguments {
    pub(crate) fn run(self) -> Outcome {
        let rows = Format::of(self.format, self.file.as_deref());
        // A file that cannot be read is found before anybody is asked for anything.
        let from: Box<dyn BufRead + Send> = match &self.file {
            None => Box::new(BufReader::new(std::io::stdin())),
            Some(path) => Box::new(BufReader::with_capacity(
                256 * 1024,
                File::open(path)
                    .map_err(|error| Failure::failed(format!("cannot open {}: {error}", path.display())))?,
            )),
        };
        let common = self.common.clone();
        block_on(common.connected(async |db| self.import(db, rows, from).await))
    }

    async fn import(&self, db: &Database, rows: Rows, mut from: Box<dyn BufRead + Send>) -> Outcome {
        let keyspace = db.keyspace(&self.keyspace).await?;
        let tell = telling(format!("importing into {}", self.keyspace));
        let Imported { written, lines, stopped } =
            transfer::import(&keyspace, rows, &mut from, self.skip_lines, tell).await;
        if self.common.json {
            print_json(&json!({
                "keyspace": self.keyspace,
                "entries": written.entries,
                "bytes": written.bytes,
                "lines": lines,
                "error": stopped.as_ref().map(ToString::to_string),
            }))?;
        } else {
            errln!(
                "{} entries are committed, and everything up to line {}",
                thousands(written.entries),
                thousands(lines)
            );
        }
        match stopped {
            None => Ok(Verdict::Good),
            Some(error) => Err(Failure::failed(format!(
                "{error}; everything up to line {lines} is committed: go on with --skip-lines {lines}"
            ))),
        }
    }
}
