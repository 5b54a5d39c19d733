//! The files of a log.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::format::{self, BEGINNING_OFFSET, Header, HeaderFault, MARK_OFFSET, RECORDS_OFFSET};
use super::{LogError, LogIdentity, Position};

const EXTENSION: &str = "log";
const EXTENSION_NEW: &str = "new";
const LOCK: &str = "lock";
const ZEROS: &[u8] = &[0; 256 * 1024];

/// A segment that can be written to.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) path: PathBuf,
    file: File,
}

impl Segment {
    /// Creates a segment. It appears under its name only once it is whole and durable, so that a crash leaves either
    /// all of it or nothing.
    pub(super) fn create(directory: &Path, header: Header) -> Result<Segment, LogError> {
        let path = self::path(directory, header.number);
        let path_new = path.with_extension(EXTENSION_NEW);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path_new)
            .map_err(LogError::io("create", &path_new))?;
        fill(&mut file, &header)
            .and_then(|()| file.sync_all())
            .map_err(LogError::io("preallocate", &path_new))?;
        fs::rename(&path_new, &path).map_err(LogError::io("rename", &path_new))?;
        sync_directory(directory)?;
        Ok(Segment { header, path, file })
    }

    /// Opens a segment to write to it, and gives it its whole size if its blank end was trimmed off.
    pub(super) fn open(path: PathBuf, header: Header) -> Result<Segment, LogError> {
        let file =
            OpenOptions::new().read(true).write(true).open(&path).map_err(LogError::io("open", &path))?;
        let length = file.metadata().map_err(LogError::io("examine", &path))?.len();
        let segment = Segment { header, path, file };
        if length < u64::from(header.bytes) {
            segment.blank(length, u64::from(header.bytes))?;
        }
        Ok(segment)
    }

    /// A segment around any file, for tests of what failing disks do.
    #[cfg(test)]
    pub(super) fn around(file: File, path: &Path, header: Header) -> Segment {
        Segment { header, path: path.to_owned(), file }
    }

    pub(super) fn write(&self, bytes: &[u8], offset: u64) -> Result<(), LogError> {
        self.file.write_all_at(bytes, offset).map_err(LogError::io("write to", &self.path))
    }

    /// Overwrites everything between two offsets with zeros.
    pub(super) fn blank(&self, from: u64, to: u64) -> Result<(), LogError> {
        let mut at = from;
        while at < to {
            let length = (to - at).min(ZEROS.len() as u64);
            self.write(&ZEROS[..length as usize], at)?;
            at += length;
        }
        Ok(())
    }

    /// Makes everything that was written durable.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        self.file.sync_data().map_err(LogError::io("sync", &self.path))
    }

    /// Writes the durable mark.
    pub(super) fn mark(&self, durable: Position) -> Result<(), LogError> {
        self.write(&format::encode_mark(self.header.incarnation, durable), MARK_OFFSET)
    }

    /// Says that the log begins here.
    pub(super) fn begin(&self) -> Result<(), LogError> {
        self.write(&format::encode_beginning(&self.header), BEGINNING_OFFSET)
    }
}

/// Writes the header and zeros. Real zeros and not only a reservation, which would have to be converted when records
/// are written, at the cost of a second write in each sync.
fn fill(file: &mut File, header: &Header) -> io::Result<()> {
    let mut left = header.bytes as usize;
    while left > 0 {
        let length = left.min(ZEROS.len());
        file.write_all(&ZEROS[..length])?;
        left -= length;
    }
    file.write_all_at(&header.encode(), 0)
}

/// Where a segment is kept.
pub(super) fn path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number:010}.{EXTENSION}"))
}

/// The segments in a directory, ascending; none if there is no such directory.
pub(super) fn list(directory: &Path) -> Result<Vec<(u32, PathBuf)>, LogError> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(LogError::io("list", directory)(error)),
    };
    let mut segments = Vec::new();
    for entry in entries {
        let path = entry.map_err(LogError::io("list", directory))?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(number) = number
            && path == self::path(directory, number)
        {
            segments.push((number, path));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// Reads a segment and checks that it belongs to this log.
pub(super) fn read(path: &Path, number: u32, identity: LogIdentity) -> Result<(Header, Vec<u8>), LogError> {
    let bytes = fs::read(path).map_err(LogError::io("read", path))?;
    Ok((check(path, number, identity, &bytes)?, bytes))
}

/// Reads what a segment says of itself, and whether the log begins with it.
pub(super) fn peek(path: &Path, number: u32, identity: LogIdentity) -> Result<(Header, bool), LogError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(RECORDS_OFFSET.into()).read_to_end(&mut bytes))
        .map_err(LogError::io("read", path))?;
    let header = check(path, number, identity, &bytes)?;
    Ok((header, format::is_beginning(&bytes, &header)))
}

/// Reads the header of a segment and checks that it is the expected one.
fn check(path: &Path, number: u32, identity: LogIdentity, bytes: &[u8]) -> Result<Header, LogError> {
    let file = path.to_owned();
    let header = match Header::decode(bytes) {
        Ok(header) => header,
        Err(HeaderFault::Magic) => return Err(LogError::NotALog { file }),
        Err(HeaderFault::Format(found)) => return Err(LogError::NewerFormat { file, found }),
        Err(HeaderFault::Damaged) => {
            return Err(LogError::Corrupt { file, offset: 0, what: "the header cannot be read" });
        }
    };
    if header.identity.cluster != identity.cluster {
        let (found, expected) = (header.identity.cluster, identity.cluster);
        return Err(LogError::ForeignCluster { file, found, expected });
    }
    if header.identity.replica != identity.replica {
        let (found, expected) = (header.identity.replica, identity.replica);
        return Err(LogError::ForeignReplica { file, found, expected });
    }
    if header.number != number {
        return Err(LogError::Corrupt { file, offset: 32, what: "it is another segment than its name says" });
    }
    Ok(header)
}

/// Removes segments from the end of a log, the last one first, so that a crash in between leaves no gap.
pub(super) fn remove(directory: &Path, segments: &[(u32, PathBuf)]) -> Result<(), LogError> {
    for (_, path) in segments.iter().rev() {
        fs::remove_file(path).map_err(LogError::io("remove", path))?;
    }
    if segments.is_empty() { Ok(()) } else { sync_directory(directory) }
}

/// Removes the segments before the one that the log begins with. A crash may leave any of them.
pub(super) fn remove_before(directory: &Path, beginning: u32) -> Result<(), LogError> {
    let mut unneeded = list(directory)?;
    unneeded.retain(|(number, _)| *number < beginning);
    remove(directory, &unneeded)
}

/// Keeps other processes out for as long as the file that is returned stays open.
pub(super) fn lock(directory: &Path) -> Result<File, LogError> {
    let path = directory.join(LOCK);
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(LogError::io("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(LogError::InUse { directory: directory.to_owned() }),
        Err(TryLockError::Error(error)) => Err(LogError::io("lock", &path)(error)),
    }
}

/// Makes the names in a directory durable.
pub(super) fn sync_directory(directory: &Path) -> Result<(), LogError> {
    File::open(directory).and_then(|file| file.sync_all()).map_err(LogError::io("sync", directory))
}
