//! `quorate backup` and `quorate restore`: keyspaces in archives, and back.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use quorate::Database;
use quorate_backup::archive::{Archive, Opened, archive_at, open};
use quorate_backup::cipher::Cipher;
use quorate_backup::create::{self, CreateOptions, Progress, Taken};
use quorate_backup::delete::{Deleted, delete};
use quorate_backup::listing::{self, Found, State, choose, location_of};
use quorate_backup::manifest::Manifest;
use quorate_backup::restore::{self, RestoreOptions};
use quorate_backup::{Error, rfc3339, verify};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::Common;
use crate::exit::{Failure, Outcome, Verdict};
use crate::output::{Align, Table, print_json, thousands};
use crate::parse;
use crate::runtime::{block_on, listen_for_stop};

/// Take, list, verify and delete backups of keyspaces.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  quorate backup create --to /backups
  quorate backup create --to s3://bucket/backups --keyspace accounts --incremental
  quorate backup create --to /backups --keyspace accounts --keyspace orders --key-file backup.key
  quorate backup create --to file:///backups --keyspace accounts --megabytes-per-second 20 --json
  quorate backup list s3://bucket/backups
  quorate backup verify /backups
  quorate backup verify /backups/accounts-20261129T101500Z-3fa9c2 --key-file backup.key
  quorate backup delete /backups/accounts-20261129T101500Z-3fa9c2

A backup holds everything of a keyspace at one instant, after the command has begun; docs/backup.md says what that means for each isolation.
It lies in a folder, or in an object store: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, with the credentials that the environment
has for the tools of these stores (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_NAME, ...).
`openssl rand -hex 32 > backup.key` makes a key. Without it an encrypted backup is lost.")]
pub(crate) struct BackupArguments {
    #[command(subcommand)]
    action: Action,
}

/// How long an object store is asked again.
#[derive(Clone, Copy, Debug, Args)]
struct Patience {
    /// How many seconds an object store is asked again that does not answer, or says that it is busy.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

impl Patience {
    fn duration(self) -> Duration {
        Duration::from_secs(self.patience)
    }
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one in the life of a process")]
enum Action {
    /// Take a backup of each keyspace, into a folder of its own.
    Create {
        /// The folder or object store that holds backups; a folder is made if it does not exist.
        #[arg(long, value_name = "LOCATION")]
        to: String,
        /// The keyspace; may be given several times. By default all.
        #[arg(long, value_name = "NAME")]
        keyspace: Vec<String>,
        /// Write what the newest backup of the keyspace there does not hold, and lean on that for the rest.
        #[arg(long)]
        incremental: bool,
        /// Encrypt it with the key in this file: 64 hexadecimal digits, or 32 bytes.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        /// Read so many megabytes a second at most.
        #[arg(long, value_name = "NUMBER", value_parser = parse::positive)]
        megabytes_per_second: Option<u64>,
        /// How many seconds to wait for shards to come to one instant, and for an object store that does not answer.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        patience: u64,
        #[command(flatten)]
        common: Common,
    },
    /// List the backups in a folder or object store.
    List {
        /// The folder or object store.
        location: String,
        #[command(flatten)]
        patience: Patience,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Read backups, with what they lean on, and compare them with what was written: as a restoration does, into nothing.
    Verify {
        /// A backup, or the folder or object store with several.
        location: String,
        /// The file with the key, of backups that are encrypted.
        #[arg(long, value_name = "FILE")]
        key_file: Option<PathBuf>,
        #[command(flatten)]
        patience: Patience,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Delete backups that no other leans on, or what interrupted ones have left.
    Delete {
        /// The backups. All of them lie in one folder or object store.
        #[arg(value_name = "LOCATION", required = true)]
        backups: Vec<String>,
        #[command(flatten)]
        patience: Patience,
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
  quorate restore --from s3://bucket/backups --keyspace accounts
  quorate restore --from /backups/accounts-20261129T101500Z-3fa9c2 --as accounts-of-sunday
  quorate restore --from /backups --keyspace accounts --at 1764410400000000 --key-file backup.key

Of several backups the newest is restored, or with --at the newest whose instant is not later. The keyspace has its name once everything
is loaded and was compared with the backup. It is a new one: tokens and cursors of the keyspace that was backed up mean nothing in it.")]
pub(crate) struct RestoreArguments {
    /// A backup, or the folder or object store with several.
    #[arg(long, value_name = "LOCATION")]
    from: String,
    /// The keyspace that was backed up, if there are backups of several.
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
    /// How many seconds to wait for the new keyspace to serve, and to be read again; and for an object store that does not answer.
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
            errln!("{what}: {} entries, {:.1} MB, {rate:.1} MB/s", thousands(entries), bytes as f64 / 1e6);
            last = Instant::now();
        }
    }
}

impl BackupArguments {
    pub(crate) fn run(self) -> Outcome {
        match self.action {
            Action::Create {
                to,
                keyspace,
                incremental,
                key_file,
                megabytes_per_second,
                patience,
                common,
            } => {
                let patience = Duration::from_secs(patience);
                // A wrong call is refused before a password is asked for.
                let archive = archive_at(&to, patience).map_err(failure)?;
                let options = CreateOptions {
                    cipher: cipher(key_file.as_ref())?,
                    patience,
                    bytes_per_second: megabytes_per_second
                        .map(|megabytes| megabytes.saturating_mul(1_000_000)),
                    incremental,
                    stop: None,
                };
                let json = common.json;
                block_on(common.connected(async |db| take(db, &archive, &keyspace, options, json).await))
            }
            Action::List { location, patience, json } => block_on(list(&location, patience.duration(), json)),
            Action::Verify { location, key_file, patience, json } => {
                let cipher = cipher(key_file.as_ref())?;
                block_on(check(&location, cipher.as_ref(), patience.duration(), json))
            }
            Action::Delete { backups, patience, json } => {
                block_on(remove(&backups, patience.duration(), json))
            }
        }
    }
}

/// Takes a backup of each keyspace.
async fn take(
    db: &Database,
    archive: &Arc<dyn Archive>,
    keyspaces: &[String],
    options: CreateOptions,
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
    let (stopper, stop) = watch::channel(false);
    let signal = listen_for_stop()?;
    let mut signal = std::pin::pin!(async move {
        signal.await;
        errln!("stopping: what is written is kept for the next backup; again stops at once");
        stopper.send_replace(true);
        match listen_for_stop() {
            Ok(again) => again.await,
            Err(_) => std::future::pending().await,
        }
    });
    let options = CreateOptions { stop: Some(stop), ..options };
    let mut taken = Vec::new();
    for definition in wanted {
        let began = Instant::now();
        let tell = telling(format!("backing up {}", definition.name));
        let one = tokio::select! {
            taken = create::create(db, &definition.name, archive, &options, tell) => taken.map_err(failure)?,
            () = &mut signal => return Err(Failure::failed("interrupted")),
        };
        one.notes.iter().for_each(|note| errln!("{note}"));
        if !json {
            outln!("{}", line(archive, &one, began.elapsed()));
        }
        taken.push(to_json(&**archive, &one.folder, &one.manifest));
    }
    if json {
        print_json(&json!({ "backups": taken }))?;
    } else if taken.is_empty() {
        outln!("there is no keyspace, so no backup was taken");
    }
    Ok(Verdict::Good)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

fn line(archive: &Arc<dyn Archive>, taken: &Taken, took: Duration) -> String {
    let Manifest { keyspace, instant, entries, bytes, files, leans_on, .. } = &taken.manifest;
    let own = files.iter().filter(|file| file.from.is_none()).count();
    let reused: Vec<String> = leans_on
        .iter()
        .map(|leaned| {
            format!(", {} of {}", megabytes(taken.manifest.bytes_of(&leaned.folder)), leaned.folder)
        })
        .collect();
    format!(
        "{} at {instant}: {} entries, {} ({} in {own} files{}), {:.1} s: {}",
        keyspace.name,
        thousands(*entries),
        megabytes(*bytes),
        megabytes(taken.manifest.own_bytes()),
        reused.concat(),
        took.as_secs_f64(),
        location_of(&**archive, &taken.folder)
    )
}

fn to_json(archive: &dyn Archive, folder: &str, manifest: &Manifest) -> Value {
    let leaned = |leaned: &quorate_backup::manifest::Leaned| json!({ "folder": location_of(archive, &leaned.folder), "bytes": manifest.bytes_of(&leaned.folder) });
    json!({
        "folder": location_of(archive, folder),
        "keyspace": manifest.keyspace.name,
        "isolation": manifest.keyspace.isolation,
        "instant_us": manifest.instant_us,
        "instant": manifest.instant,
        "entries": manifest.entries,
        "bytes": manifest.bytes,
        "stored_bytes": manifest.own_bytes(),
        "leans_on": manifest.leans_on.iter().map(leaned).collect::<Vec<_>>(),
        "encrypted": manifest.encryption.is_some(),
    })
}

/// The archive at a location, and what it holds; of one backup that alone.
async fn found_at(location: &str, patience: Duration) -> Result<(Opened, Vec<Found>), Error> {
    let opened = open(location, patience).await?;
    let found = match &opened.folder {
        None => listing::list(&opened.archive).await?,
        Some(folder) => {
            let state = match listing::manifest_of(&*opened.archive, folder).await {
                Ok(manifest) => State::Whole(manifest),
                Err(error @ (Error::ManifestDamaged { .. } | Error::NewerFormat { .. })) => {
                    State::Damaged(error.to_string())
                }
                Err(error) => return Err(error),
            };
            vec![Found { folder: folder.clone(), state, is_being_deleted: false }]
        }
    };
    Ok((opened, found))
}

/// The state of a backup that is not whole, for people.
fn unfinished(files: u64, bytes: u64) -> String {
    format!(
        "not finished ({files} files, {}): the next backup of the keyspace uses them, or delete it",
        megabytes(bytes)
    )
}

/// Lists the backups of an archive: bad if one is damaged or was not finished.
async fn list(location: &str, patience: Duration, json: bool) -> Outcome {
    let (Opened { archive, .. }, found) = found_at(location, patience).await.map_err(failure)?;
    match json {
        true => {
            let backups: Vec<Value> = found.iter().map(|found| found_to_json(&*archive, found)).collect();
            print_json(&json!({ "backups": backups }))?;
        }
        false => outln!("{}", table_of(&found)),
    }
    let is_whole = |found: &Found| matches!(found.state, State::Whole(_)) && !found.is_being_deleted;
    Ok(Verdict::good_if(found.iter().all(is_whole)))
}

fn found_to_json(archive: &dyn Archive, found: &Found) -> Value {
    let folder = location_of(archive, &found.folder);
    let mut object = match &found.state {
        State::Whole(manifest) => to_json(archive, &found.folder, manifest),
        State::Damaged(reason) => json!({ "folder": folder, "damaged": reason }),
        State::Unfinished { bytes, .. } => {
            json!({ "folder": folder, "unfinished": true, "stored_bytes": bytes })
        }
    };
    if found.is_being_deleted {
        object["deleting"] = true.into();
    }
    object
}

fn table_of(found: &[Found]) -> Table {
    let mut table = Table::new(&[
        ("backup", Align::Left),
        ("keyspace", Align::Left),
        ("isolation", Align::Left),
        ("instant", Align::Left),
        ("entries", Align::Right),
        ("bytes", Align::Right),
        ("own", Align::Right),
        ("leans on", Align::Left),
        ("state", Align::Left),
    ]);
    for Found { folder, state, is_being_deleted } in found {
        let deleted = if *is_being_deleted { "its deletion was begun: delete it again; " } else { "" };
        let [mut keyspace, mut isolation, mut instant, mut entries, mut bytes, mut own, mut leans_on] =
            [const { String::new() }; 7];
        let state = match state {
            State::Whole(manifest) => {
                let leaned = manifest.leans_on.iter().map(|leaned| {
                    format!("{} ({})", leaned.folder, megabytes(manifest.bytes_of(&leaned.folder)))
                });
                leans_on = leaned.collect::<Vec<_>>().join(", ");
                keyspace.clone_from(&manifest.keyspace.name);
                isolation.clone_from(&manifest.keyspace.isolation);
                instant.clone_from(&manifest.instant);
                (entries, bytes) = (thousands(manifest.entries), thousands(manifest.bytes));
                own = megabytes(manifest.own_bytes());
                if manifest.encryption.is_some() { "encrypted".to_owned() } else { "whole".to_owned() }
            }
            State::Damaged(reason) => reason.clone(),
            State::Unfinished { files, bytes } => unfinished(*files, *bytes),
        };
        let state = format!("{deleted}{state}");
        table.row([folder.clone(), keyspace, isolation, instant, entries, bytes, own, leans_on, state]);
    }
    table
}

/// Reads backups, and says which are as they were written: bad if one is not.
async fn check(location: &str, cipher: Option<&Cipher>, patience: Duration, json: bool) -> Outcome {
    let (opened, found) = found_at(location, patience).await.map_err(failure)?;
    let archive = &opened.archive;
    if found.is_empty() {
        // Says what is missing.
        choose(&opened, None, None).await.map_err(failure)?;
    }
    let mut all = Vec::new();
    let mut is_good = true;
    for Found { folder, state, .. } in found {
        let location = location_of(&**archive, &folder);
        let problem = match state {
            State::Unfinished { files, bytes } => Some(unfinished(files, bytes)),
            State::Damaged(reason) => Some(reason),
            State::Whole(manifest) => {
                let tell = telling(format!("verifying {location}"));
                match verify::verify(archive, &folder, &manifest, cipher, tell).await {
                    Ok(()) => None,
                    Err(error @ (Error::KeyNeeded | Error::WrongKey | Error::Archive { .. })) => {
                        return Err(failure(error));
                    }
                    Err(error) => Some(error.to_string()),
                }
            }
        };
        is_good &= problem.is_none();
        if !json {
            outln!("{location}: {}", problem.as_deref().unwrap_or("as it was written"));
        }
        all.push(json!({ "folder": location, "ok": problem.is_none(), "problem": problem }));
    }
    if json {
        print_json(&json!({ "ok": is_good, "backups": all }))?;
    }
    Ok(Verdict::good_if(is_good))
}

/// Deletes backups of one archive.
async fn remove(locations: &[String], patience: Duration, json: bool) -> Outcome {
    let (mut archive, mut folders): (Option<Arc<dyn Archive>>, _) = (None, BTreeSet::new());
    for location in locations {
        let (parent, folder) = quorate_backup::archive::folder_at(location).map_err(failure)?;
        let one = archive_at(&parent, patience).map_err(failure)?;
        if let Some(known) = &archive
            && known.location() != one.location()
        {
            return Err(Failure::usage(format!(
                "{location} lies elsewhere than {}: delete backups of one folder at a time",
                known.location()
            )));
        }
        archive = Some(one);
        folders.insert(folder);
    }
    let Some(archive) = archive else { return Err(Failure::usage("name a backup")) };
    let deleted = delete(&archive, &folders).await.map_err(failure)?;
    if json {
        let one = |deleted: &Deleted| {
            let Deleted { folder, bytes, was_unneeded } = deleted;
            json!({ "folder": location_of(&*archive, folder), "bytes": bytes, "was_unneeded": was_unneeded })
        };
        print_json(&json!({ "deleted": deleted.iter().map(one).collect::<Vec<_>>() }))?;
        return Ok(Verdict::Good);
    }
    for Deleted { folder, bytes, was_unneeded } in &deleted {
        let why = if *was_unneeded { ", which nothing needed any more" } else { "" };
        outln!("deleted {} ({}){why}", location_of(&*archive, folder), megabytes(*bytes));
    }
    Ok(Verdict::Good)
}

impl RestoreArguments {
    pub(crate) fn run(self) -> Outcome {
        let patience = Duration::from_secs(self.patience);
        let options = RestoreOptions {
            name: self.name,
            cipher: cipher(self.key_file.as_ref())?,
            patience,
            unchecked: self.unchecked,
        };
        let (from, keyspace, at) = (self.from, self.keyspace, self.at);
        let json = self.common.json;
        block_on(async {
            // A wrong call is refused before a password is asked for.
            let opened = open(&from, patience).await.map_err(failure)?;
            let (folder, manifest) = choose(&opened, keyspace.as_deref(), at).await.map_err(failure)?;
            let archive = &opened.archive;
            self.common
                .connected(async |db| restore(db, archive, &folder, &manifest, &options, json).await)
                .await
        })
    }
}

async fn restore(
    db: &Database,
    archive: &Arc<dyn Archive>,
    folder: &str,
    manifest: &Manifest,
    options: &RestoreOptions,
    json: bool,
) -> Outcome {
    let began = Instant::now();
    let stop = listen_for_stop()?;
    let tell = telling(format!("restoring {}", location_of(&**archive, folder)));
    let keyspace = tokio::select! {
        restored = restore::restore(db, archive, folder, manifest, options, tell) => restored.map_err(failure)?,
        () = stop => {
            restore::abandon(db, manifest, options).await.map_err(failure)?;
            return Err(Failure::failed("interrupted: the backup was not restored, and nothing is left of it"));
        }
    };
    let took = began.elapsed();
    if json {
        let mut object = to_json(&**archive, folder, manifest);
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
