//! Deleting backups: never one that others lean on, and with the last one also what only it needed.
//!
//! A deletion marks its folders, looks what leans on them, deletes the manifests, then the segments, and the marks last. One that was interrupted is done again. Why a backup that is
//! begun meanwhile does not lean on what goes stands at [`crate::create`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::archive::{Archive, name_in, put};
use crate::error::{Error, Result};
use crate::listing::{
    DELETING, Found, MANIFEST, State, UNFINISHED, is_backup, list, mark_name, marked, unfinished_mark,
};
use crate::manifest::is_folder_name;

/// A folder without a manifest that was written to in this time may be that of a backup which is being taken.
const QUIET: Duration = Duration::from_secs(3_600);

/// A folder that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its name.
    pub folder: String,
    /// How many bytes its objects had.
    pub bytes: u64,
    /// True if it was not named, and nothing needed it any more.
    pub was_unneeded: bool,
}

/// Deletes these folders, and those of interrupted backups that they alone have leaned on.
///
/// # Errors
/// One is no backup, or others lean on it: then nothing is deleted. Or the archive fails: then the command can be repeated.
pub async fn delete(archive: &Arc<dyn Archive>, folders: &BTreeSet<String>) -> Result<Vec<Deleted>> {
    let found = list(archive).await?;
    for folder in folders {
        let is_there = is_folder_name(folder) && found.iter().any(|found| found.folder == *folder);
        if !is_there {
            let location = archive.location();
            return Err(Error::NoSuchBackup(format!(
                "there is no backup {folder:?} in {location}; `quorate backup list {location}` shows which there are"
            )));
        }
    }
    let leaned = leaned_by(archive, &found, folders).await?;
    refuse_if_needed(archive, &found, folders).await?;
    for folder in folders {
        put(&**archive, &mark_name(DELETING, folder), Bytes::from_static(b"{}")).await?;
    }
    // A backup that has begun before the marks were there is seen now; one that begins from now on sees them.
    let found = list(archive).await?;
    if let Err(error) = refuse_if_needed(archive, &found, folders).await {
        for folder in folders {
            archive.delete(&mark_name(DELETING, folder)).await?;
        }
        return Err(error);
    }
    let mut deleted = Vec::new();
    for folder in folders {
        deleted.push(remove(&**archive, folder, false).await?);
    }
    for folder in leaned.difference(folders) {
        if is_unneeded(archive, folder).await? {
            put(&**archive, &mark_name(DELETING, folder), Bytes::from_static(b"{}")).await?;
            // As above.
            match is_unneeded(archive, folder).await? {
                true => deleted.push(remove(&**archive, folder, true).await?),
                false => archive.delete(&mark_name(DELETING, folder)).await?,
            }
        }
    }
    Ok(deleted)
}

/// The folders that these lean on.
async fn leaned_by(
    archive: &Arc<dyn Archive>,
    found: &[Found],
    folders: &BTreeSet<String>,
) -> Result<BTreeSet<String>> {
    let mut leaned = BTreeSet::new();
    for found in found.iter().filter(|found| folders.contains(&found.folder)) {
        leaned.extend(leans_on(archive, found).await?.unwrap_or_default());
    }
    Ok(leaned)
}

/// The folders that a backup leans on, or that an unfinished one may; none if its manifest does not tell.
async fn leans_on(archive: &Arc<dyn Archive>, found: &Found) -> Result<Option<BTreeSet<String>>> {
    let leaned = match &found.state {
        State::Whole(manifest) => manifest.leans_on.clone(),
        State::Damaged(_) => return Ok(None),
        State::Unfinished { .. } => match unfinished_mark(&**archive, &found.folder).await {
            Ok(mark) => mark.map(|mark| mark.leans_on).unwrap_or_default(),
            Err(Error::Damaged { .. }) => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    Ok(Some(leaned.into_iter().map(|leaned| leaned.folder).collect()))
}

/// The backups that lean on some of these folders, or may, and are not among them.
async fn leaning_on(
    archive: &Arc<dyn Archive>,
    found: &[Found],
    folders: &BTreeSet<String>,
) -> Result<Vec<String>> {
    let mut leaning = Vec::new();
    for found in found.iter().filter(|found| !folders.contains(&found.folder)) {
        match leans_on(archive, found).await? {
            Some(leaned) if leaned.is_disjoint(folders) => {}
            Some(_) if matches!(found.state, State::Unfinished { .. }) => {
                leaning.push(format!("{} (not finished)", found.folder));
            }
            Some(_) => leaning.push(found.folder.clone()),
            // Backups lean on those of their own keyspace alone.
            None if folders.iter().all(|folder| keyspace_of(folder) != keyspace_of(&found.folder)) => {}
            None => leaning.push(format!("{} (damaged, so that it does not tell)", found.folder)),
        }
    }
    Ok(leaning)
}

/// The name of the keyspace in the name of a folder.
fn keyspace_of(folder: &str) -> &str {
    folder.rsplitn(3, '-').nth(2).unwrap_or(folder)
}

async fn refuse_if_needed(
    archive: &Arc<dyn Archive>,
    found: &[Found],
    folders: &BTreeSet<String>,
) -> Result<()> {
    let leaning = leaning_on(archive, found, folders).await?;
    match leaning.is_empty() {
        true => Ok(()),
        false => Err(Error::StillNeeded { leaning }),
    }
}

/// True if a folder holds what an interrupted backup has left, and nothing leans on it any more.
async fn is_unneeded(archive: &Arc<dyn Archive>, folder: &str) -> Result<bool> {
    if is_backup(&**archive, folder).await? {
        return Ok(false);
    }
    let objects = archive.list(folder).await?;
    let is_quiet = !objects.is_empty() && objects.iter().all(|object| object.age >= QUIET);
    let only = BTreeSet::from([folder.to_owned()]);
    Ok(is_quiet && leaning_on(archive, &list(archive).await?, &only).await?.is_empty())
}

/// Deletes a folder, its manifest first, so that at no time a manifest names what is gone.
async fn remove(archive: &dyn Archive, folder: &str, was_unneeded: bool) -> Result<Deleted> {
    archive.delete(&name_in(folder, MANIFEST)).await?;
    let mut bytes = 0;
    for object in archive.list(folder).await? {
        archive.delete(&name_in(folder, &object.name)).await?;
        bytes += object.bytes;
    }
    if marked(archive, UNFINISHED).await?.contains(folder) {
        archive.delete(&mark_name(UNFINISHED, folder)).await?;
    }
    archive.delete(&mark_name(DELETING, folder)).await?;
    Ok(Deleted { folder: folder.to_owned(), bytes, was_unneeded })
}

#[cfg(test)]
mod tests;
