//! `quorate backup` and `quorate restore`: keyspaces in files, and back.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use quorate::Database;
use quorate_backup::cipher::Cipher;
use quorate_backup::create::{self, CreateOptions, Progress};
use quorate_backup::directory::{self, Found, choose, folder_of};
use quorate_backup::manifest::Manifest;
use quorate_backup::restore::{self, RestoreOptions};
use quorate_backup::{Error, rfc3339, verify};
use serde_json::{Value, json};

use super::Common;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, thousands};
use crate::parse;
use crate::runtime::{block_on, listen_for_stop};

/// Take, list and verify backups of keyspaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate backup create --to /backups
  quorate backup create --to /backups --keyspace accounts --keyspace orders --key-file backup.key
  quorate backup create --to file:///backups --keyspace accounts --megabytes-per-second 20 --json
  quorate backup list /backups
  quorate backup verify /backups
  quorate backup verify /backups/accounts-20261129T101500Z-3fa9c2 --key-file backup.key

A backup holds everything of a keyspace at one instant, after the command has begun; docs/backup.md says what that means for each isolation.
`openssl rand -hex 32 > backup.key` makes a key. Without it an encrypted backup is lost.")]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one in the life of a process")]
enum Action {
    /// Take a backup of each keyspace, into a folder of its own.
    Create {
        /// The folder that holds backups; it is made if it does not exist.
        #[arg(long, value_name = "FOLDER")]
        to: String,
        /// The keyspace; may be given several times. By default all.
        #[arg(long, value_name = "NAME")]
        keyspace: Vec<String>,
        /// Encrypt it with the key in this file: 64 hexadecimal digits, or 32 bytes.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Read so many megabytes a second at most.
        #[arg(long, value_name = "NUMBER", value_parser = parse::positive)]
        megabytes_per_second: Option<u64>,
        /// How many seconds to wait for shards to come to one instant.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        patience: u64,
        #[command(flatten)]
        common: Common,
    },
    /// List the backups in a folder.
    List {
        /// The folder.
        folder: String,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Read backups, and compare them with what was written: as a restoration does, into nothing.
    Verify {
        /// A backup, or a folder of them.
        folder: String,
        /// The file with the key, of backups that are encrypted.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

/// Restore a backup into a new keyspace.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate restore --from /backups --keyspace accounts
  quorate restore --from /backups/accounts-20261129T101500Z-3fa9c2 --as accounts-of-sunday
  quorate restore --from /backups --keyspace accounts --at 1764410400000000 --key-file backup.key

Of several backups the newest is restored, or with --at the newest whose instant is not later. The keyspace has its name once everything
is loaded and was compared with the backup. It is a new one: tokens and cursors of the keyspace that was backed up mean nothing in it.")]
pub(crate) struct RestoreArguments {
    /// A backup, or a folder of them.
    #[arg(long, value_name = "FOLDER")]
    from: String,
    /// The keyspace that was backed up, if the folder has backups of several.
    #[arg(long, value_name = "NAME")]
    keyspace: Option<String>,
    /// The name of the new keyspace; by default that of the one that was backed up.
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// The latest instant, in microseconds since 1970, as `quorate backup list --json` tells them.
    #[arg(long, value_name = "MICROSECONDS")]
    at: Option<u64>,
    /// The file with the key, of a backup that is encrypted.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Do not read the new keyspace again to compare it with the backup.
    #[arg(long)]
    unchecked: bool,
    /// How many seconds to wait for the new keyspace to serve, and to be read again.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    common: Common,
}

/// A mistake of the call has another exit code.
pub(super) fn failure(error: Error) -> Failure {
    match error {
        Error::Cluster(error) => error.into(),
        Error::Location { .. } | Error::NoSuchBackup(_) | Error::KeyNeeded | Error::InvalidKey { .. } => {
            Failure::usage(error.to_string())
        }
        error => Failure::failed(error.to_string()),
    }
}

fn cipher(key_file: Option<&PathBuf>) -> Result<Option<Cipher>, Failure> {
    key_file.map(|path| Cipher::from_file(path)).transpose().map_err(failure)
}

/// Says on standard error how far something is, once that takes long.
pub(super) fn telling(what: String) -> impl FnMut(Progress) {
    const SILENCE: Duration = Duration::from_secs(2);
    let (began, mut last) = (Instant::now(), Instant::now());
    move |Progress { entries, bytes }| {
        if last.elapsed() >= SILENCE {
            let rate = bytes as f64 / 1e6 / began.elapsed().as_secs_f64();
            eprintln!("{what}: {} entries, {:.1} MB, {rate:.1} MB/s", thousands(entries), bytes as f64 / 1e6);
            last = Instant::now();
        }
    }
}

impl BackupArguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::Create { to, keyspace, key_file, megabytes_per_second, patience, common } => {
                // A wrong call is refused before a password is asked for.
                let folder = folder_of(&to).map_err(failure)?;
                let options = CreateOptions {
                    cipher: cipher(key_file.as_ref())?,
                    patience: Duration::from_secs(patience),
                    bytes_per_second: megabytes_per_second
                        .map(|megabytes| megabytes.saturating_mul(1_000_000)),
                };
                let json = common.json;
                block_on(common.connected(async |db| take(db, &folder, &keyspace, &options, json).await))
            }
            Action::List { folder, json } => list(&folder_of(&folder).map_err(failure)?, json),
            Action::Verify { folder, key_file, json } => {
                let (folder, cipher) = (folder_of(&folder).map_err(failure)?, cipher(key_file.as_ref())?);
                check(&folder, cipher.as_ref(), json)
            }
        }
    }
}

/// Takes a backup of each keyspace.
async fn take(
    db: &Database,
    folder: &Path,
    keyspaces: &[String],
    options: &CreateOptions,
    json: bool,
) -> Outcome {
    let known = db.list().await?;
    if let Some(name) = keyspaces.iter().find(|name| known.iter().all(|known| known.name != **name)) {
        let known: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "there is no keyspace {name:?}; there are: {}",
            known.join(", ")
        )));
    }
    let wanted = known.iter().filter(|known| match keyspaces.is_empty() {
        // A keyspace of a comparison system holds nothing of value.
        true => known.comparison.is_none(),
        false => keyspaces.contains(&known.name),
    });
    let stop = listen_for_stop()?;
    let mut stop = std::pin::pin!(stop);
    let mut taken = Vec::new();
    for definition in wanted {
        let began = Instant::now();
        let tell = telling(format!("backing up {}", definition.name));
        let (folder, manifest) = tokio::select! {
            taken = create::create(db, &definition.name, folder, options, tell) => taken.map_err(failure)?,
            () = &mut stop => return Err(Failure::failed(format!(
                "interrupted: the backup of {:?} was not taken, and nothing is left of it", definition.name
            ))),
        };
        if !json {
            outln!("{}", line(&folder, &manifest, began.elapsed()));
        }
        taken.push(to_json(&folder, &manifest));
    }
    if json {
        print_json(&json!({ "backups": taken }))?;
    } else if taken.is_empty() {
        outln!("there is no keyspace, so no backup was taken");
    }
    Ok(Verdict::Good)
}

fn line(folder: &Path, manifest: &Manifest, took: Duration) -> String {
    let Manifest { keyspace, instant, entries, bytes, files, .. } = manifest;
    let megabytes = *bytes as f64 / 1e6;
    format!(
        "{} at {instant}: {} entries, {megabytes:.1} MB ({:.1} MB in {} files), {:.1} s: {}",
        keyspace.name,
        thousands(*entries),
        files.iter().map(|file| file.bytes).sum::<u64>() as f64 / 1e6,
        files.len(),
        took.as_secs_f64(),
        folder.display()
    )
}

fn to_json(folder: &Path, manifest: &Manifest) -> Value {
    json!({
        "folder": folder.display().to_string(),
        "keyspace": manifest.keyspace.name,
        "isolation": manifest.keyspace.isolation,
        "instant_us": manifest.instant_us,
        "instant": manifest.instant,
        "entries": manifest.entries,
        "bytes": manifest.bytes,
        "stored_bytes": manifest.files.iter().map(|file| file.bytes).sum::<u64>(),
        "encrypted": manifest.encryption.is_some(),
    })
}

/// Lists the backups in a folder: bad if one is damaged or was not finished.
fn list(folder: &Path, json: bool) -> Outcome {
    let found = directory::list(folder).map_err(failure)?;
    let is_whole = |found: &Found| matches!(found.manifest, Some(Ok(_)));
    let verdict = Verdict::good_if(found.iter().all(is_whole));
    if json {
        let one = |found: &Found| match &found.manifest {
            Some(Ok(manifest)) => to_json(&found.folder, manifest),
            Some(Err(reason)) => json!({ "folder": found.folder.display().to_string(), "damaged": reason }),
            None => json!({ "folder": found.folder.display().to_string(), "unfinished": true }),
        };
        print_json(&json!({ "backups": found.iter().map(one).collect::<Vec<_>>() }))?;
        return Ok(verdict);
    }
    let mut table = Table::new(&[
        ("backup", Align::Left),
        ("keyspace", Align::Left),
        ("isolation", Align::Left),
        ("instant", Align::Left),
        ("entries", Align::Right),
        ("bytes", Align::Right),
        ("state", Align::Left),
    ]);
    for Found { folder, manifest } in &found {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let empty = String::new;
        match manifest {
            Some(Ok(manifest)) => table.row([
                name,
                manifest.keyspace.name.clone(),
                manifest.keyspace.isolation.clone(),
                manifest.instant.clone(),
                thousands(manifest.entries),
                thousands(manifest.bytes),
                if manifest.encryption.is_some() { "encrypted" } else { "whole" }.to_owned(),
            ]),
            Some(Err(reason)) => {
                table.row([name, empty(), empty(), empty(), empty(), empty(), reason.clone()]);
            }
            None => {
                let state = "interrupted: take it again, and delete this folder".to_owned();
                table.row([name, empty(), empty(), empty(), empty(), empty(), state]);
            }
        }
    }
    outln!("{table}");
    Ok(verdict)
}

/// Reads backups, and says which are as they were written: bad if one is not.
fn check(folder: &Path, cipher: Option<&Cipher>, json: bool) -> Outcome {
    let is_one = folder.join(directory::MANIFEST).exists();
    let found = match is_one {
        true => {
            let manifest = directory::manifest_of(folder).map_err(|error| error.to_string());
            vec![Found { folder: folder.to_owned(), manifest: Some(manifest) }]
        }
        false => directory::list(folder).map_err(failure)?,
    };
    if found.is_empty() {
        // Says what is missing.
        choose(folder, None, None).map_err(failure)?;
    }
    let mut all = Vec::new();
    let mut is_good = true;
    for Found { folder, manifest } in found {
        let problem = match manifest {
            None => Some("it was interrupted: take it again, and delete this folder".to_owned()),
            Some(Err(reason)) => Some(reason),
            Some(Ok(manifest)) => {
                let tell = telling(format!("verifying {}", folder.display()));
                match verify::verify(&folder, &manifest, cipher, tell) {
                    Ok(()) => None,
                    Err(error @ (Error::KeyNeeded | Error::WrongKey)) => return Err(failure(error)),
                    Err(error) => Some(error.to_string()),
                }
            }
        };
        is_good &= problem.is_none();
        if !json {
            outln!("{}: {}", folder.display(), problem.as_deref().unwrap_or("as it was written"));
        }
        all.push(
            json!({ "folder": folder.display().to_string(), "ok": problem.is_none(), "problem": problem }),
        );
    }
    if json {
        print_json(&json!({ "ok": is_good, "backups": all }))?;
    }
    Ok(Verdict::good_if(is_good))
}

impl RestoreArguments {
    pub(crate) fn run(self) -> Outcome {
        let folder = folder_of(&self.from).map_err(failure)?;
        let (folder, manifest) = choose(&folder, self.keyspace.as_deref(), self.at).map_err(failure)?;
        let options = RestoreOptions {
            name: self.name,
            cipher: cipher(self.key_file.as_ref())?,
            patience: Duration::from_secs(self.patience),
            unchecked: self.unchecked,
        };
        let json = self.common.json;
        block_on(self.common.connected(async |db| restore(db, &folder, &manifest, &options, json).await))
    }
}

async fn restore(
    db: &Database,
    folder: &Path,
    manifest: &Manifest,
    options: &RestoreOptions,
    json: bool,
) -> Outcome {
    let began = Instant::now();
    let stop = listen_for_stop()?;
    let tell = telling(format!("restoring {}", folder.display()));
    let keyspace = tokio::select! {
        restored = restore::restore(db, folder, manifest, options, tell) => restored.map_err(failure)?,
        () = stop => {
            restore::abandon(db, manifest, options).await.map_err(failure)?;
            return Err(Failure::failed("interrupted: the backup was not restored, and nothing is left of it"));
        }
    };
    let took = began.elapsed();
    if json {
        let mut object = to_json(folder, manifest);
        object["restored_as"] = keyspace.name().into();
        object["id"] = keyspace.definition().id.0.into();
        object["seconds"] = took.as_secs_f64().into();
        print_json(&object)?;
    } else {
        outln!(
            "{:?} holds what {:?} held at {}: {} entries, {:.1} MB, {:.1} s{}",
            keyspace.name(),
            manifest.keyspace.name,
            rfc3339(manifest.instant_us),
            thousands(manifest.entries),
            manifest.bytes as f64 / 1e6,
            took.as_secs_f64(),
            if options.unchecked { "" } else { ", compared with the backup" }
        );
    }
    Ok(Verdict::Good)
}
