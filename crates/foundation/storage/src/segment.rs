//! The files of a log.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::directory::{Directory, LogFile};
use super::error::SYNC;
use super::format::{self, BEGINNING_OFFSET, Header, HeaderFault, MARK_OFFSET, RECORDS_OFFSET};
use super::{LogError, LogIdentity, Position};

const EXTENSION: &str = "log";
const EXTENSION_NEW: &str = "new";
const ZEROS: &[u8] = &[0; 256 * 1024];

/// A segment that can be written to.
#[derive(Debug)]
pub(super) struct Segment<D: Directory> {
    pub(super) header: Header,
    pub(super) path: PathBuf,
    file: D::File,
    /// True once a sync has failed. The operating system then takes what it could not write for written, so that no later sync says anything.
    /// Locked for as long as a sync takes: of two at a time the operating system tells one alone of a failure.
    has_failed_to_sync: Mutex<bool>,
}

impl<D: Directory> Segment<D> {
    /// Creates a segment. It appears under its name only once it is whole and durable, so that a crash leaves either
    /// all of it or nothing.
    pub(super) fn create(directory: &D, header: Header) -> Result<Self, LogError> {
        let (name, path) = (name(header.number), path(directory, header.number));
        let name_new = format!("{:010}.{EXTENSION_NEW}", header.number);
        let path_new = directory.path().join(&name_new);
        let file = directory.create_file(&name_new).map_err(LogError::io("create", &path_new))?;
        if let Err(error) = fill(&file, &header).and_then(|()| file.sync()) {
            // It may hold the room that is missing. If it cannot be removed, the next attempt empties it.
            let _ = directory.remove(&name_new);
            return Err(LogError::io("preallocate", &path_new)(error));
        }
        directory.rename(&name_new, &name).map_err(LogError::io("rename", &path_new))?;
        sync_directory(directory)?;
        Ok(Segment { header, path, file, has_failed_to_sync: Mutex::new(false) })
    }

    /// Opens a segment to write to it, and gives it its whole size if its blank end was trimmed off.
    pub(super) fn open(directory: &D, header: Header) -> Result<Self, LogError> {
        let path = path(directory, header.number);
        let file = directory.open_file(&name(header.number)).map_err(LogError::io("open", &path))?;
        let length = file.length().map_err(LogError::io("examine", &path))?;
        let segment = Segment { header, path, file, has_failed_to_sync: Mutex::new(false) };
        if length < u64::from(header.bytes) {
            segment.blank(length, u64::from(header.bytes))?;
        }
        Ok(segment)
    }

    /// A segment around any file, for tests of what failing disks do.
    #[cfg(test)]
    pub(super) fn around(file: D::File, path: &std::path::Path, header: Header) -> Self {
        Segment { header, path: path.to_owned(), file, has_failed_to_sync: Mutex::new(false) }
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

    /// Writes what stands between two offsets once more.
    pub(super) fn rewrite(&self, from: u32, to: u32) -> Result<(), LogError> {
        let bytes = self.file.read_at(0, to.into()).map_err(LogError::io("read", &self.path))?;
        self.write(bytes.get(from as usize..).unwrap_or(&[]), from.into())
    }

    /// Makes everything that was written durable. Never succeeds again after it has failed.
    pub(super) fn sync(&self) -> Result<(), LogError> {
        let mut has_failed = self.has_failed_to_sync.lock().unwrap_or_else(PoisonError::into_inner);
        let result = match *has_failed {
            true => Err(io::Error::other("an earlier sync of it has failed")),
            false => self.file.sync(),
        };
        *has_failed |= result.is_err();
        drop(has_failed);
        result.map_err(LogError::io(SYNC, &self.path))
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
fn fill(file: &impl LogFile, header: &Header) -> io::Result<()> {
    let bytes = u64::from(header.bytes);
    let mut at = 0;
    while at < bytes {
        let length = (bytes - at).min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..length as usize], at)?;
        at += length;
    }
    file.write_all_at(&header.encode(), 0)
}

fn name(number: u32) -> String {
    format!("{number:010}.{EXTENSION}")
}

/// Where a segment is kept, for messages.
pub(super) fn path(directory: &impl Directory, number: u32) -> PathBuf {
    directory.path().join(name(number))
}

/// The numbers of the segments in a directory, ascending; none if there is no such directory.
pub(super) fn list(directory: &impl Directory) -> Result<Vec<u32>, LogError> {
    let names = directory.list().map_err(LogError::io("list", directory.path()))?;
    let number = |found: &String| {
        let number = found.strip_suffix(EXTENSION)?.strip_suffix('.')?.parse().ok()?;
        (*found == name(number)).then_some(number)
    };
    let mut segments: Vec<u32> = names.iter().filter_map(number).collect();
    segments.sort_unstable();
    Ok(segments)
}

/// Reads a segment and checks that it belongs to this log.
pub(super) fn read(
    directory: &impl Directory,
    number: u32,
    identity: LogIdentity,
) -> Result<(Header, Vec<u8>), LogError> {
    let (_, header, bytes) = open_first(directory, number, identity, u64::MAX)?;
    Ok((header, bytes))
}

/// Reads what a segment says of itself, and whether the log begins with it.
pub(super) fn peek(
    directory: &impl Directory,
    number: u32,
    identity: LogIdentity,
) -> Result<(Header, bool), LogError> {
    let (_, header, bytes) = open_first(directory, number, identity, RECORDS_OFFSET.into())?;
    Ok((header, format::is_beginning(&bytes, &header)))
}

/// Opens a segment to read what its medium holds, and checks that it belongs to this log.
pub(super) fn open_to_check<D: Directory>(
    directory: &D,
    number: u32,
    identity: LogIdentity,
) -> Result<(D::File, Header), LogError> {
    let path = path(directory, number);
    let file = directory.open_file(&name(number)).map_err(LogError::io("open", &path))?;
    file.forget().map_err(LogError::io("read", &path))?;
    let (header, _) = peek(directory, number, identity)?;
    Ok((file, header))
}

/// Opens a segment, reads its first bytes, and checks that it is the expected one.
pub(super) fn open_first<D: Directory>(
    directory: &D,
    number: u32,
    identity: LogIdentity,
    bytes_max: u64,
) -> Result<(D::File, Header, Vec<u8>), LogError> {
    let file = path(directory, number);
    let (opened, bytes) = directory
        .open_file(&name(number))
        .and_then(|opened| opened.read_at(0, bytes_max).map(|bytes| (opened, bytes)))
        .map_err(LogError::io("read", &file))?;
    let header = match Header::decode(&bytes) {
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
    Ok((opened, header, bytes))
}

/// Removes segments from the end of a log, the last one first, so that a crash in between leaves no gap.
pub(super) fn remove(directory: &impl Directory, segments: &[u32]) -> Result<(), LogError> {
    for number in segments.iter().rev() {
        directory.remove(&name(*number)).map_err(LogError::io("remove", &path(directory, *number)))?;
    }
    if segments.is_empty() { Ok(()) } else { sync_directory(directory) }
}

/// Removes the segments before the one that the log begins with. A crash may leave any of them.
pub(super) fn remove_before(directory: &impl Directory, beginning: u32) -> Result<(), LogError> {
    let mut unneeded = list(directory)?;
    unneeded.retain(|number| *number < beginning);
    remove(directory, &unneeded)
}

/// Keeps others out for as long as what is returned is kept.
pub(super) fn lock<D: Directory>(directory: &D) -> Result<D::Lock, LogError> {
    match directory.lock() {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(LogError::InUse { directory: directory.path().to_owned() }),
        Err(error) => Err(LogError::io("lock", directory.path())(error)),
    }
}

/// Makes the names in a directory durable.
fn sync_directory(directory: &impl Directory) -> Result<(), LogError> {
    directory.sync().map_err(LogError::io(SYNC, directory.path()))
}
