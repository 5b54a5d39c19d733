//! Logs in directories of the operating system's file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::directory::{Directory, LogFile};

const LOCK: &str = "lock";

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

impl Files {
    /// The directory at a path, whether it is there or not.
    pub fn at(path: &Path) -> Files {
        Files(path.to_owned())
    }
}

impl Directory for Files {
    type File = File;
    type Lock = File;

    fn path(&self) -> &Path {
        &self.0
    }

    fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        match self.0.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }

    fn lock(&self) -> io::Result<Option<File>> {
        let path = self.0.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.0) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            // A name that is no text is none of ours.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn create_file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(self.0.join(name))
    }

    fn open_file(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.0.join(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        sync_directory(&self.0)
    }
}

impl LogFile for File {
    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length()?.min(bytes_max) as usize];
        self.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        FileExt::write_all_at(self, bytes, offset)
    }

    /// Like `fdatasync`: the length of a file counts, its times do not.
    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
