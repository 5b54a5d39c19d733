//! Backups in a folder: each is a folder of its own, with segments and a manifest.
//!
//! A file has the ending `.part` until it is whole and durable. The manifest is written last, so a backup is there with all of its files or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::manifest::Manifest;

/// The name of the manifest.
pub const MANIFEST: &str = "manifest.json";

/// The longest manifest that is read.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The folder that a place stands for: a path, or `file://` and an absolute one.
///
/// # Errors
/// It stands for something else.
pub fn folder_of(location: &str) -> Result<PathBuf> {
    let refused = |reason: &str| Error::Location { location: location.to_owned(), reason: reason.to_owned() };
    match location.split_once("://") {
        None if location.is_empty() => Err(refused("name a folder")),
        None => Ok(PathBuf::from(location)),
        Some(("file", path)) if path.starts_with('/') => Ok(PathBuf::from(path)),
        Some(("file", _)) => Err(refused("a URL of a file has an absolute path, as file:///backups")),
        Some(("s3" | "gs" | "az", _)) => Err(refused(
            "object stores are not written to yet: take the backup into a folder, and copy that with the tool of the store",
        )),
        Some((scheme, _)) => {
            Err(refused(&format!("{scheme} is not known; name a folder, or file:/// and its path")))
        }
    }
}

/// A folder of a backup, by its name.
#[derive(Clone, Debug)]
pub struct Found {
    /// The folder.
    pub folder: PathBuf,
    /// Its manifest, or what is wrong with it; none if it has none: the backup was not finished.
    pub manifest: Option<Result<Manifest, String>>,
}

/// The backups in a folder, by name, which for those of one keyspace is by age.
///
/// # Errors
/// The folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let folder = entry.map_err(Error::file("read", folder))?.path();
        if !folder.is_dir() {
            continue;
        }
        if folder.join(MANIFEST).exists() {
            let manifest = manifest_of(&folder).map_err(|error| error.to_string());
            found.push(Found { folder, manifest: Some(manifest) });
        } else if is_unfinished(&folder)? {
            found.push(Found { folder, manifest: None });
        }
    }
    found.sort_by(|one, other| one.folder.cmp(&other.folder));
    Ok(found)
}

/// True if a folder without a manifest holds segments.
fn is_unfinished(folder: &Path) -> Result<bool> {
    for entry in fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let name = entry.map_err(Error::file("read", folder))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("shard-") && name.contains(".segment") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The manifest of the backup in a folder.
///
/// # Errors
/// There is none, or it is not as it was written.
pub fn manifest_of(folder: &Path) -> Result<Manifest> {
    let path = folder.join(MANIFEST);
    let no_backup = |reason: String| Error::NotABackup { path: folder.to_owned(), reason };
    let length = match fs::metadata(&path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let reason = match folder.is_dir() && is_unfinished(folder)? {
                true => {
                    "it has segments and no manifest, so the backup was interrupted: take it again, and delete this folder"
                }
                false => "it has no manifest.json; `quorate backup list` shows which backups there are",
            };
            return Err(no_backup(reason.to_owned()));
        }
        Err(error) => return Err(Error::file("read", &path)(error)),
    };
    if length > MANIFEST_BYTES_MAX {
        return Err(no_backup(format!("its manifest has {length} bytes")));
    }
    let bytes = fs::read(&path).map_err(Error::file("read", &path))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::ManifestDamaged { reason: "it is no text".to_owned() })?;
    Manifest::from_json(&text)
}

/// The backup that a place means: a backup itself, or a folder of them. Of several the newest is meant whose instant is not after `at`, of the
/// keyspace that is named.
///
/// # Errors
/// There is none, or several keyspaces have one and none is named.
pub fn choose(folder: &Path, keyspace: Option<&str>, at: Option<u64>) -> Result<(PathBuf, Manifest)> {
    if folder.join(MANIFEST).exists() {
        let manifest = manifest_of(folder)?;
        let is_wanted = keyspace.is_none_or(|name| name == manifest.keyspace.name)
            && at.is_none_or(|at| manifest.instant_us <= at);
        return match is_wanted {
            true => Ok((folder.to_owned(), manifest)),
            false => Err(Error::NoSuchBackup(format!(
                "{} is a backup of {:?} at {}, and another one is asked for",
                folder.display(),
                manifest.keyspace.name,
                manifest.instant
            ))),
        };
    }
    let mut names = std::collections::BTreeSet::new();
    let mut newest: Option<(PathBuf, Manifest)> = None;
    for found in list(folder)? {
        // A damaged one is no reason not to restore another; `list` and `verify` say so.
        let Some(Ok(manifest)) = found.manifest else { continue };
        let is_wanted = keyspace.is_none_or(|name| name == manifest.keyspace.name)
            && at.is_none_or(|at| manifest.instant_us <= at);
        if !is_wanted {
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
            folder.display(),
            names.join(", ")
        )));
    }
    newest.ok_or_else(|| {
        Error::NoSuchBackup(format!(
            "{} has no backup that is whole{}{}; `quorate backup list` shows which there are",
            folder.display(),
            keyspace.map_or(String::new(), |name| format!(" of {name:?}")),
            at.map_or(String::new(), |at| format!(" of {} or before", crate::rfc3339(at)))
        ))
    })
}

/// A file that is written under another name until it is whole.
#[derive(Debug)]
pub(crate) struct PartFile {
    file: fs::File,
    part: PathBuf,
    path: PathBuf,
    bytes: u64,
}

impl PartFile {
    /// Begins a file, which must not exist.
    pub(crate) fn create(folder: &Path, name: &str) -> Result<Self> {
        let (part, path) = (folder.join(format!("{name}.part")), folder.join(name));
        let file = fs::File::create_new(&part).map_err(Error::file("create", &part))?;
        Ok(PartFile { file, part, path, bytes: 0 })
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::file("write", &self.part))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes it durable, and gives it its name. Tells its length.
    pub(crate) fn finish(self) -> Result<u64> {
        self.file.sync_all().map_err(Error::file("make durable", &self.part))?;
        fs::rename(&self.part, &self.path).map_err(Error::file("rename", &self.part))?;
        Ok(self.bytes)
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync(folder: &Path) -> Result<()> {
    let opened = fs::File::open(folder).map_err(Error::file("open", folder))?;
    opened.sync_all().map_err(Error::file("make durable", folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::manifest;

    fn place(folder: &Path, name: &str, keyspace: &str, instant_us: u64) -> PathBuf {
        let mut manifest = manifest();
        keyspace.clone_into(&mut manifest.keyspace.name);
        manifest.instant_us = instant_us;
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        let mut file = PartFile::create(&folder, MANIFEST).unwrap();
        file.write(manifest.to_json().unwrap().as_bytes()).unwrap();
        file.finish().unwrap();
        folder
    }

    #[test]
    fn places_as_a_table() {
        assert_eq!(folder_of("backups").unwrap(), Path::new("backups"));
        assert_eq!(folder_of("file:///a/b").unwrap(), Path::new("/a/b"));
        for (location, reason) in [
            ("", "name a folder"),
            ("file://a", "absolute path"),
            ("s3://bucket/x", "not written to yet"),
            ("ftp://x", "ftp is not known"),
        ] {
            let error = folder_of(location).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn the_newest_backup_of_the_keyspace_is_chosen_that_is_not_too_new() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let old = place(folder, "a-1", "a", 10);
        let new = place(folder, "a-2", "a", 20);
        let chosen = |keyspace, at| choose(folder, keyspace, at).map(|(folder, _)| folder);
        assert_eq!(chosen(None, None).unwrap(), new);
        assert_eq!(chosen(None, Some(19)).unwrap(), old);
        assert!(chosen(None, Some(9)).unwrap_err().to_string().contains("no backup that is whole of 1970"));
        place(folder, "b-1", "b", 30);
        assert!(chosen(None, None).unwrap_err().to_string().contains("name one of a, b"));
        assert_eq!(chosen(Some("a"), None).unwrap(), new);
        assert_eq!(choose(&old, None, None).unwrap().0, old);
        assert!(choose(&old, Some("b"), None).unwrap_err().to_string().contains("another one is asked for"));
    }

    #[test]
    fn a_backup_that_was_interrupted_or_damaged_is_listed_as_such_and_not_chosen() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let part = folder.join("a-1");
        fs::create_dir(&part).unwrap();
        fs::create_dir(folder.join("something else")).unwrap();
        PartFile::create(&part, "shard-1-00000.segment").unwrap();
        let damaged = place(folder, "a-2", "a", 20);
        fs::write(damaged.join(MANIFEST), "{").unwrap();
        let found = list(folder).unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[0].manifest.is_none());
        assert!(found[1].manifest.as_ref().unwrap().as_ref().unwrap_err().contains("ends early"));
        assert!(choose(folder, None, None).is_err());
        assert!(manifest_of(&part).unwrap_err().to_string().contains("was interrupted"));
        assert!(manifest_of(folder).unwrap_err().to_string().contains("no manifest.json"));
    }

    #[test]
    fn a_file_has_its_name_only_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let mut file = PartFile::create(folder.path(), "f").unwrap();
        file.write(b"some").unwrap();
        assert!(!folder.path().join("f").exists());
        assert!(PartFile::create(folder.path(), "f").is_err(), "another one is under way");
        assert_eq!(file.finish().unwrap(), 4);
        assert_eq!(fs::read(folder.path().join("f")).unwrap(), b"some");
    }
}
