//! Files of logs that are synced, so that the journal is not needed for what was written to them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;

use super::kept::{self, KeptName, Whose};
use crate::directory::Directory;
use crate::log::{Shared, Unsynced, Write};
use crate::segment::Segment;
use crate::{Files, LogError, Position};

/// So much of what belongs to the file of a log is gathered before it is handed to the operating system, in bytes.
const GATHERED_BYTES_MAX: usize = 16 << 10;

/// A log that has writes which are durable in the journal only.
#[derive(Debug)]
pub(super) struct Owed<D: Directory> {
    pub(super) log: Arc<Shared<D>>,
    segments: Vec<Arc<Segment<D>>>,
    /// The writes in order. They are needed until they are settled, in case that the file of the log fails. Those of a record that has failed
    /// are among them.
    writes: Vec<Write<D>>,
    /// How many of them were handed to the operating system, and how many bytes were not.
    written: usize,
    gathered_bytes: usize,
    /// Where the writes end.
    through: Position,
}

impl<D: Directory> Owed<D> {
    pub(super) fn new(log: &Arc<Shared<D>>, from: Position) -> Self {
        Owed {
            log: Arc::clone(log),
            segments: Vec::new(),
            writes: Vec::new(),
            written: 0,
            gathered_bytes: 0,
            through: from,
        }
    }

    /// Its files are to be synced before it is settled.
    fn note_segments(&mut self, segments: &[Arc<Segment<D>>]) {
        for segment in segments {
            if !self.segments.iter().any(|known| Arc::ptr_eq(known, segment)) {
                self.segments.push(Arc::clone(segment));
            }
        }
    }

    /// Remembers writes that the journal may hold, and that are to be synced for themselves. If their log has failed before that, only the
    /// journal gives them to it.
    pub(super) fn remember(&mut self, unsynced: &Unsynced<D>) {
        self.add(unsynced, unsynced.writes.iter().flatten().cloned().collect());
    }

    fn add(&mut self, unsynced: &Unsynced<D>, writes: Vec<Write<D>>) {
        self.note_segments(&unsynced.segments);
        self.gathered_bytes += writes.iter().map(|write| write.bytes.len()).sum::<usize>();
        self.writes.extend(writes);
        self.through = unsynced.through();
    }

    /// Takes over writes that are durable in the journal.
    pub(super) fn take_over(&mut self, unsynced: &mut Unsynced<D>) {
        let writes = unsynced.writes.take().unwrap_or_default();
        self.add(unsynced, writes);
        if self.gathered_bytes >= GATHERED_BYTES_MAX {
            self.write_out();
        }
    }

    /// Hands the gathered writes to the operating system. A write that it refuses is tried again later.
    pub(super) fn write_out(&mut self) {
        let gathered = &self.writes[self.written..];
        if gathered.is_empty() {
            return;
        }
        match self.log.write_out(gathered.iter(), self.through) {
            Ok(()) => (self.written, self.gathered_bytes) = (self.writes.len(), 0),
            Err(error) => {
                // First of all: nothing more of it is acknowledged.
                self.log.fail(&error);
                tracing::error!(replica = %self.log.identity.replica, %error, "what the journal holds cannot be written to a log");
            }
        }
    }

    /// Makes its files hold what was written. The log is refused from then on if that fails.
    pub(super) fn sync(&mut self) -> Result<(), LogError> {
        self.write_out();
        if self.written < self.writes.len() {
            return Err(self.log.failed_before());
        }
        if let Err(error) = self.segments.iter().try_for_each(|segment| segment.sync()) {
            self.log.fail(&error);
            return Err(error);
        }
        match self.log.has_failed() {
            // For want of room, say, which says nothing of what was written.
            true if self.log.failed_before().shortage().is_none() => Err(self.log.failed_before()),
            _ => Ok(()),
        }
    }
}

/// The lack that keeps a log from being opened.
#[derive(Debug)]
pub(super) struct Held<D> {
    /// The files that keep what it lacks.
    pub(super) files: Vec<KeptName>,
    /// Where it can be given that; none if it has no place, or some of it stands in the journal alone, which is read by the next process.
    pub(super) place: Option<D>,
    /// True if the log was gone, damaged, or another one.
    pub(super) is_loss: bool,
}

/// Files to sync, so that the journal is not needed for what was written to them.
#[derive(Debug)]
pub struct Settling<D: Directory = Files> {
    pub(super) directory: D,
    pub(super) owed: BTreeMap<u64, Owed<D>>,
    /// The number of the first file that keeps what cannot be synced.
    pub(super) next_file: u64,
    /// All writes up to this number are settled by that.
    pub(super) through: u64,
    /// The journal up to here is not needed then.
    pub(super) end: Position,
}

/// How syncing files has ended.
#[derive(Debug)]
pub struct Settled<D: Directory = Files> {
    /// All writes up to here are durable in their own files, or kept.
    pub(super) through: u64,
    pub(super) end: Position,
    /// The logs whose files could not be synced.
    pub(super) held: Vec<(Whose, Held<D>)>,
    /// Why their writes could not be kept, if so: then nothing may be noted as settled.
    pub(super) failure: Option<LogError>,
}

impl<D: Directory> Settling<D> {
    /// How many files there are.
    pub(crate) fn files(&self) -> usize {
        self.owed.values().map(|owed| owed.segments.len()).sum()
    }

    /// Syncs the files. A log whose file cannot be synced is refused from then on, and its writes are kept.
    pub fn run(mut self) -> Settled<D> {
        let mut settled = Settled { through: self.through, end: self.end, held: Vec::new(), failure: None };
        for (number, owed) in (self.next_file..).zip(self.owed.values_mut()) {
            let Err(error) = owed.sync() else { continue };
            let whose = Whose::of(&owed.log);
            tracing::error!(
                replica = %whose.replica, %error, journal = %self.directory.path().display(),
                "a log of which the journal holds something cannot be synced: the journal keeps that, and the replica is refused until the \
                 log has been given it"
            );
            let mut writes = BytesMut::new();
            kept::put_writes(&mut writes, &owed.log, &owed.writes);
            let name = KeptName { whose, number };
            let held = match kept::keep(&self.directory, name, &writes) {
                Ok(()) => Held { files: vec![name], place: Some(owed.log.directory.clone()), is_loss: false },
                Err(error) => {
                    settled.failure = Some(error);
                    Held { files: Vec::new(), place: None, is_loss: false }
                }
            };
            settled.held.push((whose, held));
        }
        settled
    }
}
