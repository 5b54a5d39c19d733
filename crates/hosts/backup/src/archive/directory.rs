//! An archive in a folder: each of its folders is one, and each object a file.
//!
//! A file has the ending `.part` until it is whole and durable.

use std::fs;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::{Archive, Object, Pending, Writing};
use crate::error::{Error, Result};

/// The ending of a file that is not whole.
const PART: &str = ".part";

/// How often a folder is created that others remove.
const CREATE_TRIES: u32 = 100;

/// An archive in a folder.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
}

impl Directory {
    /// The archive in this folder, which need not be there before it is prepared.
    pub fn new(root: PathBuf) -> Self {
        Directory { root }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn folder_names(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root).map_err(Error::file("read", &self.root))? {
            let entry = entry.map_err(Error::file("read", &self.root))?;
            // A name that is no text is that of no backup.
            if let Some(name) = entry.file_name().to_str()
                && entry.path().is_dir()
            {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn objects(&self, folder: &str) -> Result<Vec<Object>> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(Error::file("read", &path)(error)),
        };
        let mut objects = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::file("read", &path))?;
            let metadata = match entry.metadata() {
                Ok(metadata) => metadata,
                // It was deleted a moment ago.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(Error::file("read", &entry.path())(error)),
            };
            if let Some(name) = entry.file_name().to_str()
                && metadata.is_file()
            {
                let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let age = SystemTime::now().duration_since(written).unwrap_or(Duration::ZERO);
                objects.push(Object { name: name.to_owned(), bytes: metadata.len(), age });
            }
        }
        objects.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(objects)
    }

    fn read_part(&self, name: &str, from: u64, bytes: u64) -> Result<Option<Bytes>> {
        let path = self.path(name);
        let failed = |error| Error::file("read", &path)(error);
        let mut file = match fs::File::open(&path) {
            Ok(file) => file,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        file.seek(SeekFrom::Start(from)).map_err(failed)?;
        let mut part = Vec::new();
        file.take(bytes).read_to_end(&mut part).map_err(failed)?;
        Ok(Some(part.into()))
    }

    fn begin(&self, name: &str) -> Result<PartFile> {
        let path = self.path(name);
        let mut tries = 1;
        loop {
            if let Some(folder) = path.parent() {
                create_durably(folder)?;
            }
            match PartFile::create(path.clone()) {
                // Another writer has given up its file a moment ago, and the folder with that.
                Err(Error::File { source, .. })
                    if source.kind() == ErrorKind::NotFound && tries < CREATE_TRIES =>
                {
                    tries += 1;
                }
                begun => return begun,
            }
        }
    }

    fn remove(&self, name: &str) -> Result<()> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
            Err(error) => return Err(Error::file("delete", &path)(error)),
        }
        // The folder goes with the last of its files; while others are in it, it cannot be removed.
        match path.parent() {
            Some(folder) if folder != self.root => {
                let _ = fs::remove_dir(folder);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Archive for Directory {
    fn location(&self) -> String {
        self.root.display().to_string()
    }

    fn prepare(&self) -> Pending<'_, ()> {
        Box::pin(async { create_durably(&self.root) })
    }

    fn folders(&self) -> Pending<'_, Vec<String>> {
        Box::pin(async { self.folder_names() })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Pending<'a, Vec<Object>> {
        Box::pin(async move { self.objects(folder) })
    }

    fn read<'a>(&'a self, name: &'a str, from: u64, bytes: u64) -> Pending<'a, Option<Bytes>> {
        Box::pin(async move { self.read_part(name, from, bytes) })
    }

    fn write<'a>(&'a self, name: &'a str) -> Pending<'a, Box<dyn Writing>> {
        Box::pin(async move {
            let file: Box<dyn Writing> = Box::new(self.begin(name)?);
            Ok(file)
        })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Pending<'a, ()> {
        Box::pin(async move { self.remove(name) })
    }
}

/// A file that is written under another name until it is whole. If it is dropped before, nothing of it is left.
#[derive(Debug)]
struct PartFile {
    file: fs::File,
    part: PathBuf,
    path: PathBuf,
    bytes: u64,
    is_finished: bool,
}

impl PartFile {
    /// Begins a file. Another one under way of the same name is an error.
    fn create(path: PathBuf) -> Result<Self> {
        let mut part = path.clone().into_os_string();
        part.push(PART);
        let part = PathBuf::from(part);
        let file = fs::File::create_new(&part).map_err(Error::file("create", &part))?;
        Ok(PartFile { file, part, path, bytes: 0, is_finished: false })
    }

    fn add(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::file("write", &self.part))?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Makes it durable, and gives it its name, durably as well.
    fn close(mut self) -> Result<u64> {
        self.file.sync_all().map_err(Error::file("make durable", &self.part))?;
        fs::rename(&self.part, &self.path).map_err(Error::file("rename", &self.part))?;
        self.is_finished = true;
        if let Some(folder) = self.path.parent() {
            sync(folder)?;
        }
        Ok(self.bytes)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.is_finished {
            // A file that stays has a name that no reader takes for an object.
            let _ = fs::remove_file(&self.part);
            if let Some(folder) = self.part.parent() {
                let _ = fs::remove_dir(folder);
            }
        }
    }
}

impl Writing for PartFile {
    fn write(&mut self, bytes: Bytes) -> Pending<'_, ()> {
        Box::pin(async move { self.add(&bytes) })
    }

    fn finish(self: Box<Self>) -> Pending<'static, u64> {
        Box::pin(async move { self.close() })
    }

    fn abandon(self: Box<Self>) -> Pending<'static, ()> {
        Box::pin(async move {
            drop(self);
            Ok(())
        })
    }
}

/// Creates a folder with those that it lies in, each with a durable name.
fn create_durably(folder: &Path) -> Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        create_durably(parent)?;
    }
    match fs::create_dir(folder) {
        Ok(()) => {}
        // Another writer of the archive was faster.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && folder.is_dir() => {}
        Err(error) => return Err(Error::file("create", folder)(error)),
    }
    match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync(parent),
        _ => Ok(()),
    }
}

/// Makes the names in a folder durable.
fn sync(folder: &Path) -> Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let opened = fs::File::open(folder).map_err(Error::file("open", folder))?;
    opened.sync_all().map_err(Error::file("make durable", folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::put;

    #[tokio::test]
    async fn a_file_has_its_name_only_once_it_is_whole_and_leaves_nothing_if_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path().join("x"));
        let mut writing = archive.write("a/f").await.unwrap();
        writing.write(Bytes::from_static(b"some")).await.unwrap();
        assert!(!folder.path().join("x/a/f").exists());
        assert!(archive.write("a/f").await.is_err(), "another one is under way");
        assert_eq!(writing.finish().await.unwrap(), 4);
        assert_eq!(fs::read(folder.path().join("x/a/f")).unwrap(), b"some");
        drop(archive.write("b/f").await.unwrap());
        archive.write("c/f").await.unwrap().abandon().await.unwrap();
        assert_eq!(archive.folders().await.unwrap(), ["a"], "folders go with their last file");
    }

    #[tokio::test]
    async fn objects_are_listed_read_in_parts_and_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Directory::new(folder.path().to_owned());
        put(&archive, "a/two", Bytes::from_static(b"0123456789")).await.unwrap();
        put(&archive, "a/one", Bytes::from_static(b"x")).await.unwrap();
        let listed = archive.list("a").await.unwrap();
        let listed: Vec<_> = listed.iter().map(|object| (object.name.as_str(), object.bytes)).collect();
        assert_eq!(listed, [("one", 1), ("two", 10)]);
        assert_eq!(archive.list("nowhere").await.unwrap(), []);
        let read = async |from, bytes| archive.read("a/two", from, bytes).await.unwrap().unwrap();
        assert_eq!(read(2, 3).await, &b"234"[..]);
        assert_eq!(read(8, 100).await, &b"89"[..]);
        assert_eq!(archive.read("a/three", 0, 1).await.unwrap(), None);
        for name in ["a/one", "a/two", "a/two"] {
            archive.delete(name).await.unwrap();
        }
        assert_eq!(archive.folders().await.unwrap(), Vec::<String>::new());
    }

    #[tokio::test]
    async fn an_archive_that_is_no_folder_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "x").unwrap();
        let archive = Directory::new(file.join("backups"));
        assert!(archive.prepare().await.unwrap_err().to_string().contains("cannot create"));
        assert!(Directory::new(folder.path().join("none")).folders().await.is_err());
    }
}
