//! Reading a segment a window at a time.
//!
//! A window is small enough that the next one takes its memory. Memory for a whole segment would be asked of the system, cleared, and given back for each of them,
//! which takes longer than reading what is in it; and a record that is kept would keep all of its segment.

use std::sync::Arc;

use bytes::Bytes;

use super::directory::{Directory, LogFile};
use super::format::{self, Entry, Header, RECORD_HEADER_BYTES, RECORDS_OFFSET};
use super::segment;
use super::{LogError, LogIdentity, Position};

/// How much is read at a time, unless a record is longer, in bytes.
pub(super) const WINDOW_BYTES: u64 = 256 * 1024;

/// Reads what follows in a segment: a window, or the one record that is longer.
pub(super) fn read<D: Directory>(
    directory: &D,
    file: &D::File,
    header: &Header,
    offset: u32,
) -> Result<Vec<u8>, LogError> {
    let path = segment::path(directory, header.number);
    let read = |bytes| file.read_at(offset.into(), bytes).map_err(LogError::io("read", &path));
    let window = read(WINDOW_BYTES)?;
    let rest = u64::from(header.bytes.saturating_sub(offset));
    match format::record_bytes_at(&window).map(|bytes| bytes as u64) {
        Some(bytes) if bytes > WINDOW_BYTES && bytes <= rest => read(bytes),
        _ => Ok(window),
    }
}

/// True if a window may have cut off what begins here.
pub(super) fn may_go_on(rest: &[u8], header: &Header, at: u32) -> bool {
    let left = header.bytes.saturating_sub(at) as usize;
    let needed = format::record_bytes_at(rest).unwrap_or(RECORD_HEADER_BYTES);
    needed > rest.len() && needed <= left
}

/// The entries of a segment, one after the other. A clone reads on from the same place.
#[derive(Debug)]
pub(super) struct Entries<D: Directory> {
    directory: D,
    file: Arc<D::File>,
    header: Header,
    /// The part that was read last, and where in the segment it begins.
    window: Bytes,
    from: u32,
    /// Where the next entry begins.
    offset: u32,
}

/// The entry that stands in a segment next.
#[derive(Debug)]
pub(super) enum Next {
    /// A record.
    Record {
        /// Its bytes.
        contents: Bytes,
        /// How far it says that the log was durable.
        durable: Position,
    },
    /// The end of the segment: the log goes on in the next one.
    Seal {
        /// How far it says that the log was durable.
        durable: Position,
    },
    /// Nothing that can be read.
    Nothing,
}

impl<D: Directory> Entries<D> {
    /// The entries of a segment that belongs to this log.
    pub(super) fn open(directory: &D, number: u32, identity: LogIdentity) -> Result<Self, LogError> {
        let (file, header, window) = segment::open_first(directory, number, identity, WINDOW_BYTES)?;
        Ok(Entries {
            directory: directory.clone(),
            file: Arc::new(file),
            header,
            window: window.into(),
            from: 0,
            offset: RECORDS_OFFSET,
        })
    }

    pub(super) fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the segment before its entries, as long as none was read.
    pub(super) fn beginning(&self) -> &[u8] {
        assert!(self.from == 0, "the window has passed the beginning of the segment");
        &self.window
    }

    /// Where the next entry begins.
    pub(super) fn offset(&self) -> u32 {
        self.offset
    }

    /// The next entry. An entry that cannot be read stays the next one.
    pub(super) fn next(&mut self) -> Result<Next, LogError> {
        if self.from < self.offset && may_go_on(self.rest(), &self.header, self.offset) {
            self.window = read(&self.directory, &self.file, &self.header, self.offset)?.into();
            self.from = self.offset;
        }
        Ok(match format::entry_of(self.rest(), &self.header, self.offset) {
            Entry::Record { contents, durable, next } => {
                let contents = self.window.slice_ref(contents);
                self.offset = next;
                Next::Record { contents, durable }
            }
            Entry::Seal { durable } => Next::Seal { durable },
            Entry::Blank | Entry::Unreadable => Next::Nothing,
        })
    }

    /// The bytes that were read from the next entry on, up to the end of the segment.
    fn rest(&self) -> &[u8] {
        let read = self.window.get((self.offset - self.from) as usize..).unwrap_or_default();
        let left = self.header.bytes.saturating_sub(self.offset) as usize;
        &read[..read.len().min(left)]
    }
}

// Derived, it would ask for files that can be cloned to share one.
impl<D: Directory> Clone for Entries<D> {
    fn clone(&self) -> Self {
        Entries {
            directory: self.directory.clone(),
            file: Arc::clone(&self.file),
            header: self.header,
            window: self.window.clone(),
            ..*self
        }
    }
}
