//! Logs in directories of the operating system's file system.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::directory::{Directory, LogFile};

const LOCK: &str = "lock";

/// A directory of the file system.
#[derive(Clone, Debug)]
pub struct Files {
    path: PathBuf,
    /// False if its owner makes everything durable itself.
    syncs: bool,
}

impl Files {
    /// The directory at a path, whether it is there or not.
    pub fn at(path: &Path) -> Files {
        Files { path: path.to_owned(), syncs: true }
    }

    /// The same, and nothing in it is made durable: for many logs that are created at once, which the caller makes durable together
    /// before it relies on any.
    pub fn unsynced(path: &Path) -> Files {
        Files { path: path.to_owned(), syncs: false }
    }
}

impl Directory for Files {
    type File = LogHandle;
    type Lock = File;

    fn path(&self) -> &Path {
        &self.path
    }

    fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.path)?;
        match self.path.parent().filter(|parent| self.syncs && !parent.as_os_str().is_empty()) {
            Some(parent) => sync_directory(parent),
            None => Ok(()),
        }
    }

    fn lock(&self) -> io::Result<Option<File>> {
        let path = self.path.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.path) {
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

    fn create_file(&self, name: &str) -> io::Result<LogHandle> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self.path.join(name))?;
        Ok(LogHandle { file, syncs: self.syncs })
    }

    fn open_file(&self, name: &str) -> io::Result<LogHandle> {
        let file = OpenOptions::new().read(true).write(true).open(self.path.join(name))?;
        Ok(LogHandle { file, syncs: self.syncs })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        if self.syncs { sync_directory(&self.path) } else { Ok(()) }
    }
}

/// An open file of a log.
#[derive(Debug)]
pub struct LogHandle {
    file: File,
    syncs: bool,
}

#[cfg(test)]
impl From<File> for LogHandle {
    fn from(file: File) -> Self {
        LogHandle { file, syncs: true }
    }
}

impl LogFile for LogHandle {
    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; self.length()?.saturating_sub(offset).min(bytes_max) as usize];
        self.file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    fn forget(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    /// Like `fdatasync`: the length of a file counts, its times do not.
    fn sync(&self) -> io::Result<()> {
        if self.syncs { self.file.sync_data() } else { Ok(()) }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
