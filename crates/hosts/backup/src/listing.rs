//! The backups of an archive: each is a folder with segments and a manifest.
//!
//! | object | it says |
//! |---|---|
//! | `FOLDER/manifest.json` | the folder holds a whole backup; it is written last and deleted first |
//! | `unfinished/FOLDER.json` | a backup is being taken into the folder, or that was interrupted; it names what that leans on |
//! | `deleting/FOLDER.json` | the folder is being deleted, or that was interrupted |

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::archive::{Archive, Opened, name_in};
use crate::error::{Error, Result};
use crate::manifest::{Leaned, Manifest, is_folder_name};

/// The name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// The folder with the marks of backups that are not finished.
pub(crate) const UNFINISHED: &str = "unfinished";

/// The folder with the marks of backups that are being deleted.
pub(crate) const DELETING: &str = "deleting";

/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The longest mark that is read.
const MARK_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Folders that are looked at at a time.
const FOLDERS_AT_ONCE: usize = 16;

/// A folder of a backup.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its name.
    pub folder: String,
    /// The state of the backup.
    pub state: State,
    /// True if its deletion has begun.
    pub is_being_deleted: bool,
}

/// The state of a backup.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there are few, and nearly all are whole")]
pub enum State {
    /// It is whole, as far as its manifest says.
    Whole(Manifest),
    /// Its manifest is not as it was written, or is of a later version.
    Damaged(String),
    /// It has no manifest.
    Unfinished {
        /// How many segments are there.
        files: u64,
        /// How many bytes they have.
        bytes: u64,
    },
}

/// A mark of a backup that is not finished.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// The format of its segments.
    pub(crate) quorate_backup: u32,
    /// Its random number, as hexadecimal digits.
    pub(crate) id: String,
    /// The name of its keyspace.
    pub(crate) keyspace: String,
    /// Tells its key from others; none if it is not encrypted.
    pub(crate) key_check: Option<String>,
    /// The folders that it may lean on.
    pub(crate) leans_on: Vec<Leaned>,
}

/// The name of the mark of a folder.
pub(crate) fn mark_name(kind: &str, folder: &str) -> String {
    format!("{kind}/{folder}.json")
}

/// True if a folder has a manifest.
pub(crate) async fn is_backup(archive: &dyn Archive, folder: &str) -> Result<bool> {
    Ok(archive.read(&name_in(folder, MANIFEST), 0, 1).await?.is_some())
}

/// The folders that have a mark of this kind.
pub(crate) async fn marked(archive: &dyn Archive, kind: &str) -> Result<BTreeSet<String>> {
    let marks = archive.list(kind).await?;
    let folder =
        |name: &str| name.strip_suffix(".json").filter(|folder| is_folder_name(folder)).map(str::to_owned);
    Ok(marks.iter().filter_map(|mark| folder(&mark.name)).collect())
}

/// The mark of a backup that is not finished; none if it is gone.
pub(crate) async fn unfinished_mark(archive: &dyn Archive, folder: &str) -> Result<Option<Mark>> {
    let name = mark_name(UNFINISHED, folder);
    let Some(bytes) = archive.read(&name, 0, MARK_BYTES_MAX).await? else { return Ok(None) };
    let mark = serde_json::from_slice(&bytes);
    mark.map(Some).map_err(|error| Error::damaged(&name, format!("it is no mark of a backup ({error})")))
}

/// The backups of an archive, by name, which for those of one keyspace is by age.
///
/// # Errors
/// The archive cannot be read.
pub async fn list(archive: &Arc<dyn Archive>) -> Result<Vec<Found>> {
    let (unfinished, deleting) = (marked(&**archive, UNFINISHED).await?, marked(&**archive, DELETING).await?);
    let mut folders: BTreeSet<String> = archive.folders().await?.into_iter().collect();
    folders.remove(UNFINISHED);
    folders.remove(DELETING);
    // An interrupted one need not have come to its first segment.
    folders.extend(unfinished.iter().cloned());
    folders.extend(deleting.iter().cloned());
    let (permits, mut looks) = (Arc::new(Semaphore::new(FOLDERS_AT_ONCE)), JoinSet::new());
    for folder in folders {
        let (archive, permits) = (Arc::clone(archive), Arc::clone(&permits));
        let is_marked = unfinished.contains(&folder) || deleting.contains(&folder);
        let is_being_deleted = deleting.contains(&folder);
        looks.spawn(async move {
            let _permit = permits.acquire_owned().await;
            let state = state_of(&*archive, &folder, is_marked).await?;
            Ok::<_, Error>(state.map(|state| Found { folder, state, is_being_deleted }))
        });
    }
    let mut found = Vec::new();
    while let Some(look) = looks.join_next().await {
        let look =
            look.map_err(|error| Error::Unsuitable(format!("a folder is not looked at any more: {error}")))?;
        found.extend(look?);
    }
    found.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(found)
}

/// The state of a folder; none if it has nothing of a backup.
async fn state_of(archive: &dyn Archive, folder: &str, is_marked: bool) -> Result<Option<State>> {
    match manifest_if_any(archive, folder).await {
        Ok(Some(manifest)) => return Ok(Some(State::Whole(manifest))),
        Ok(None) => {}
        Err(error @ (Error::ManifestDamaged { .. } | Error::NewerFormat { .. })) => {
            return Ok(Some(State::Damaged(error.to_string())));
        }
        Err(error) => return Err(error),
    }
    let (mut files, mut bytes, mut is_begun) = (0, 0, is_marked);
    for object in archive.list(folder).await? {
        if object.name.starts_with("shard-") && object.name.contains(".segment") {
            (files, bytes, is_begun) = (files + 1, bytes + object.bytes, true);
        }
    }
    Ok(is_begun.then_some(State::Unfinished { files, bytes }))
}

async fn manifest_if_any(archive: &dyn Archive, folder: &str) -> Result<Option<Manifest>> {
    let Some(bytes) = archive.read(&name_in(folder, MANIFEST), 0, MANIFEST_BYTES_MAX + 1).await? else {
        return Ok(None);
    };
    let damaged = |reason: String| Error::ManifestDamaged { reason };
    if bytes.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(damaged(format!("it has more than {MANIFEST_BYTES_MAX} bytes")));
    }
    let text = str::from_utf8(&bytes).map_err(|_| damaged("it is no text".to_owned()))?;
    Manifest::from_json(text).map(Some)
}

/// The manifest of the backup in a folder.
///
/// # Errors
/// There is none, or it is not as it was written.
pub async fn manifest_of(archive: &dyn Archive, folder: &str) -> Result<Manifest> {
    if let Some(manifest) = manifest_if_any(archive, folder).await? {
        return Ok(manifest);
    }
    let reason = match state_of(archive, folder, false).await? {
        Some(_) => {
            "it has segments and no manifest, so the backup was interrupted: take it again, which uses them, or delete it with `quorate backup delete`"
        }
        None => "it has no manifest.json; `quorate backup list` shows which backups there are",
    };
    Err(Error::NotABackup { location: location_of(archive, folder), reason: reason.to_owned() })
}

/// The location of a folder, for people.
pub fn location_of(archive: &dyn Archive, folder: &str) -> String {
    match folder.is_empty() {
        true => archive.location(),
        false => format!("{}/{folder}", archive.location().trim_end_matches('/')),
    }
}

/// The backup that is meant: the one that was opened, or one of its archive. Of several the newest is meant whose instant is not after `at`, of the
/// keyspace that is named.
///
/// # Errors
/// There is none, or several keyspaces have one and none is named.
pub async fn choose(opened: &Opened, keyspace: Option<&str>, at: Option<u64>) -> Result<(String, Manifest)> {
    let is_wanted = |manifest: &Manifest| {
        keyspace.is_none_or(|name| name == manifest.keyspace.name)
            && at.is_none_or(|at| manifest.instant_us <= at)
    };
    let archive = &opened.archive;
    if let Some(folder) = &opened.folder {
        let manifest = manifest_of(&**archive, folder).await?;
        return match is_wanted(&manifest) {
            true => Ok((folder.clone(), manifest)),
            false => Err(Error::NoSuchBackup(format!(
                "{} is a backup of {:?} at {}, and another one is asked for",
                location_of(&**archive, folder),
                manifest.keyspace.name,
                manifest.instant
            ))),
        };
    }
    let mut names = BTreeSet::new();
    let mut newest: Option<(String, Manifest)> = None;
    for found in list(archive).await? {
        // A damaged one is no reason not to restore another; `list` and `verify` say so.
        let State::Whole(manifest) = found.state else { continue };
        if !is_wanted(&manifest) {
            continue;
        }
        names.insert(manifest.keyspace.name.clone());
        if newest.as_ref().is_none_or(|(_, known)| known.instant_us < manifest.instant_us) {
            newest = Some((found.folder, manifest));
        }
    }
    if names.len() > 1 {
        let names: Vec<String> = names.into_iter().collect();
        return Err(Error::NoSuchBackup(format!(
            "{} has backups of several keyspaces: name one of {}",
            archive.location(),
            names.join(", ")
        )));
    }
    newest.ok_or_else(|| {
        Error::NoSuchBackup(format!(
            "{} has no backup that is whole{}{}; `quorate backup list` shows which there are",
            archive.location(),
            keyspace.map_or(String::new(), |name| format!(" of {name:?}")),
            at.map_or(String::new(), |at| format!(" of {} or before", crate::rfc3339(at)))
        ))
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::archive::{Directory, put};
    use crate::manifest::tests::manifest;

    async fn place(archive: &Arc<dyn Archive>, folder: &str, keyspace: &str, instant_us: u64) {
        let mut manifest = manifest();
        keyspace.clone_into(&mut manifest.keyspace.name);
        manifest.instant_us = instant_us;
        let text = manifest.to_json(None).unwrap();
        put(&**archive, &name_in(folder, MANIFEST), Bytes::from(text)).await.unwrap();
    }

    #[tokio::test]
    async fn the_newest_backup_of_the_keyspace_is_chosen_that_is_not_too_new() {
        let folder = tempfile::tempdir().unwrap();
        let archive: Arc<dyn Archive> = Arc::new(Directory::new(folder.path().to_owned()));
        place(&archive, "a-1", "a", 10).await;
        place(&archive, "a-2", "a", 20).await;
        let opened = Opened { archive: Arc::clone(&archive), folder: None };
        let chosen = async |keyspace, at| choose(&opened, keyspace, at).await.map(|(folder, _)| folder);
        assert_eq!(chosen(None, None).await.unwrap(), "a-2");
        assert_eq!(chosen(None, Some(19)).await.unwrap(), "a-1");
        assert!(
            chosen(None, Some(9)).await.unwrap_err().to_string().contains("no backup that is whole of 1970")
        );
        place(&archive, "b-1", "b", 30).await;
        assert!(chosen(None, None).await.unwrap_err().to_string().contains("name one of a, b"));
        assert_eq!(chosen(Some("a"), None).await.unwrap(), "a-2");
        let location = folder.path().join("a-1");
        let one = crate::archive::open(location.to_str().unwrap(), std::time::Duration::ZERO).await.unwrap();
        assert_eq!(choose(&one, None, None).await.unwrap().0, "a-1");
        let other = choose(&one, Some("b"), None).await.unwrap_err().to_string();
        assert!(other.contains("another one is asked for"), "{other}");
    }

    #[tokio::test]
    async fn a_backup_that_was_interrupted_or_damaged_is_listed_as_such_and_not_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let archive: Arc<dyn Archive> = Arc::new(Directory::new(folder.path().to_owned()));
        put(&*archive, "a-1/shard-1-00000.segment", Bytes::from_static(b"xyz")).await.unwrap();
        put(&*archive, "something else/notes", Bytes::from_static(b"xyz")).await.unwrap();
        put(&*archive, "a-2/manifest.json", Bytes::from_static(b"{")).await.unwrap();
        put(&*archive, "unfinished/a-3.json", Bytes::from_static(b"{}")).await.unwrap();
        let found = list(&archive).await.unwrap();
        let folders: Vec<&str> = found.iter().map(|found| found.folder.as_str()).collect();
        assert_eq!(folders, ["a-1", "a-2", "a-3"]);
        assert!(matches!(found[0].state, State::Unfinished { files: 1, bytes: 3 }), "{found:?}");
        assert!(
            matches!(&found[1].state, State::Damaged(reason) if reason.contains("ends early")),
            "{found:?}"
        );
        assert!(matches!(found[2].state, State::Unfinished { files: 0, bytes: 0 }), "{found:?}");
        let opened = Opened { archive: Arc::clone(&archive), folder: None };
        assert!(choose(&opened, None, None).await.is_err());
        let reason = async |folder| manifest_of(&*archive, folder).await.unwrap_err().to_string();
        assert!(reason("a-1").await.contains("was interrupted"));
        assert!(reason("something else").await.contains("no manifest.json"));
    }
}
