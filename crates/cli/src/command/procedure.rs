//! `quorate procedure`: deploys, lists, calls and removes the procedures of a serializable keyspace.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use quorate::{Call, Database, Error, Keyspace, ProcedureVersion};
use serde_json::json;

use super::Common;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, thousands};
use crate::parse::{self, Bytes};
use crate::runtime::block_on;

/// Deploy, list, call and remove procedures: code that runs at the shards of a serializable keyspace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate procedure deploy accounts transfer target/wasm32-unknown-unknown/release/transfer.wasm
  quorate procedure deploy accounts transfer transfer.wasm --version 3
  quorate procedure list accounts --json
  quorate procedure call accounts transfer --arguments-hex 0361646103626f620100000000000000
  quorate procedure call accounts transfer --key ada --key bob --arguments-hex 0361646103626f620100000000000000
  quorate procedure call accounts count --read-only --range 'a..b'
  quorate procedure remove accounts transfer 3 --connect 10.0.0.1:7400

docs/procedures.md says how to write one. A call that is refused changes nothing, and exits with 1.")]
pub(crate) struct ProcedureArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Deploy a WebAssembly module. To deploy the same again does no harm.
    Deploy {
        /// The keyspace.
        keyspace: String,
        /// The name of the procedure.
        name: String,
        /// The module.
        file: PathBuf,
        /// Its version; by default the next one, or the latest if that has the same code.
        #[arg(long, value_parser = parse::version)]
        version: Option<u32>,
        #[command(flatten)]
        common: Common,
    },
    /// List the versions that the keyspace has or had.
    List {
        /// The keyspace.
        keyspace: String,
        #[command(flatten)]
        common: Common,
    },
    /// Call a procedure, and print what each shard answers.
    Call {
        /// The keyspace.
        keyspace: String,
        /// The name of the procedure.
        name: String,
        #[command(flatten)]
        call: CallArguments,
        #[command(flatten)]
        common: Common,
    },
    /// Remove a version. Its number is not used again.
    Remove {
        /// The keyspace.
        keyspace: String,
        /// The name of the procedure.
        name: String,
        /// The version.
        #[arg(value_parser = parse::version)]
        version: u32,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Args, Clone, Debug)]
struct CallArguments {
    /// Call this version; by default the greatest.
    #[arg(long, value_parser = parse::version)]
    version: Option<u32>,
    /// Call it with these arguments, as text.
    #[arg(long, value_name = "TEXT", group = "passed")]
    arguments: Option<String>,
    /// Call it with these arguments, as hexadecimal digits.
    #[arg(long, value_name = "HEX", value_parser = parse::hex, group = "passed")]
    arguments_hex: Option<Bytes>,
    /// Call it with the bytes of this file as arguments.
    #[arg(long, value_name = "FILE", group = "passed")]
    arguments_file: Option<PathBuf>,
    /// A key that it touches; may be given several times. It is called at the shards that hold them, and may touch no others. Without
    /// keys, ranges and `--at`, the procedure is asked what it touches.
    #[arg(long, value_name = "KEY")]
    key: Vec<String>,
    /// A range that it touches; may be given several times.
    #[arg(long, value_name = "FROM..TO", value_parser = parse::key_range)]
    range: Vec<(String, String)>,
    /// Call it at the shard that holds this key, whatever it touches there; may be given several times.
    #[arg(long, value_name = "KEY")]
    at: Vec<String>,
    /// Vouch for it that all shards carry it out, or all refuse: nothing is locked.
    #[arg(long, conflicts_with = "read_only")]
    independent: bool,
    /// Only read, from a snapshot.
    #[arg(long)]
    read_only: bool,
}

impl ProcedureArguments {
    pub(crate) fn run(self) -> Outcome {
        block_on(async {
            let common = match &self.action {
                Action::Deploy { common, .. }
                | Action::List { common, .. }
                | Action::Call { common, .. }
                | Action::Remove { common, .. } => common.clone(),
            };
            // A file that cannot be read is found before anybody is asked for anything.
            let prepared = Prepared::new(self.action)?;
            common.connected(async |db| prepared.act(db, common.json).await).await
        })
    }
}

/// A command, with the contents of all its files.
enum Prepared {
    Deploy { keyspace: String, name: String, version: Option<u32>, code: Vec<u8> },
    List { keyspace: String },
    Call { keyspace: String, call: Call },
    Remove { keyspace: String, name: String, version: u32 },
}

impl Prepared {
    fn new(action: Action) -> Result<Self, Failure> {
        Ok(match action {
            Action::Deploy { keyspace, name, file, version, .. } => {
                Prepared::Deploy { keyspace, name, version, code: read_file(&file)? }
            }
            Action::List { keyspace, .. } => Prepared::List { keyspace },
            Action::Call { keyspace, name, call, .. } => Prepared::Call { keyspace, call: call.read(name)? },
            Action::Remove { keyspace, name, version, .. } => Prepared::Remove { keyspace, name, version },
        })
    }

    async fn act(self, db: &Database, json: bool) -> Outcome {
        match self {
            Prepared::Deploy { keyspace, name, version, code } => {
                let deployed = db.keyspace(&keyspace).await?.deploy(&name, version, &code).await?;
                if json {
                    print_json(&to_json(&deployed))?;
                } else {
                    outln!("deployed {name}, version {}", deployed.version);
                }
            }
            Prepared::List { keyspace } => {
                let versions = db.keyspace(&keyspace).await?.procedures().await?;
                if json {
                    let all: Vec<_> = versions.iter().map(to_json).collect();
                    print_json(&json!({ "procedures": all }))?;
                } else {
                    outln!("{}", table(&versions));
                }
            }
            Prepared::Call { keyspace, call } => {
                return run_call(&db.keyspace(&keyspace).await?, call, json).await;
            }
            Prepared::Remove { keyspace, name, version } => {
                db.keyspace(&keyspace).await?.remove(&name, version).await?;
                if json {
                    print_json(&json!({ "removed": name, "version": version }))?;
                } else {
                    outln!("removed {name}, version {version}");
                }
            }
        }
        Ok(Verdict::Good)
    }
}

impl CallArguments {
    fn read(self, name: String) -> Result<Call, Failure> {
        let passed = match (self.arguments, self.arguments_hex, self.arguments_file) {
            (Some(text), _, _) => text.into_bytes(),
            (_, Some(Bytes(bytes)), _) => bytes,
            (_, _, Some(file)) => read_file(&file)?,
            (None, None, None) => Vec::new(),
        };
        let call = Call::new(name)
            .version(self.version.unwrap_or(0))
            .arguments(passed)
            .keys(self.key)
            .ranges(self.range)
            .at(self.at);
        Ok(match (self.independent, self.read_only) {
            (_, true) => call.read_only(),
            (true, _) => call.independent(),
            _ => call,
        })
    }
}

async fn run_call(keyspace: &Keyspace, call: Call, json: bool) -> Outcome {
    match keyspace.call(call).await {
        Ok(called) if json => {
            let answers: Vec<_> = called.answers.iter().map(|answer| parse::to_hex(answer)).collect();
            let receipt = &called.receipt;
            print_json(&json!({
                "answers_hex": answers,
                "token": receipt.token.to_string(),
                "attempts": receipt.attempts,
            }))?;
        }
        Ok(called) => called.answers.iter().for_each(|answer| outln!("{}", answer.escape_ascii())),
        Err(Error::Refused { shard, refusal }) if json => {
            print_json(&json!({ "refused": refusal.to_string(), "shard": shard.0 }))?;
            return Ok(Verdict::Bad);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(Verdict::Good)
}

/// Reads a file that may be too large, as far as it takes to find that out.
fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    let cannot = |error| Failure::usage(format!("cannot read {}: {error}", path.display()));
    let file = std::fs::File::open(path).map_err(cannot)?;
    let mut bytes = Vec::new();
    let enough = quorate_core::transaction::TRANSACTION_BYTES_MAX as u64 + 1;
    file.take(enough).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// The versions, one per row.
fn table(versions: &[ProcedureVersion]) -> Table {
    let mut table = Table::new(&[
        ("procedure", Align::Left),
        ("version", Align::Right),
        ("stage", Align::Left),
        ("bytes", Align::Right),
        ("crc32", Align::Left),
    ]);
    for known in versions {
        table.row([
            known.name.clone(),
            known.version.to_string(),
            known.stage.to_string(),
            thousands(known.bytes),
            format!("{:08x}", known.crc32),
        ]);
    }
    table
}

fn to_json(known: &ProcedureVersion) -> serde_json::Value {
    json!({
        "name": known.name,
        "version": known.version,
        "stage": known.stage.name(),
        "bytes": known.bytes,
        "crc32": format!("{:08x}", known.crc32),
        "deployed_at_us": known.deployed_at.as_micros(),
    })
}
