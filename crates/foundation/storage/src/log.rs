//! Appending to a log, and writing what was appended.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use bytes::{Bytes, BytesMut};

use super::directory::Directory;
use super::format::{self, Header, RECORD_HEADER_BYTES, RECORDS_OFFSET};
use super::recovery::{self, Records, Recovery};
use super::segment::{self, Segment};
use super::{Files, LogError, LogIdentity, LogOptions, Position, RECORD_BYTES_MAX, Shortage};

/// The buffer of appended records keeps at most so much room between writes.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// So much of what was written is kept until it is durable, for a [`Journal`](super::Journal). A sync of its own costs little beside more.
const WRITES_BYTES_MAX: usize = 64 << 10;

/// The write-ahead log of one replica.
///
/// [`Log::append`] gathers records in memory, [`Log::write`] hands them to the operating system, and a
/// [`Syncer`](super::Syncer) makes them durable. After a failed write or sync the log refuses everything: what the disk
/// holds then is unknown until it has been read again.
#[derive(Debug)]
pub struct Log<D: Directory = Files> {
    shared: Arc<Shared<D>>,
    options: LogOptions,
    /// The segment that was written to last.
    current: Arc<Segment<D>>,
    /// The segment before that.
    previous: Option<Arc<Segment<D>>>,
    /// Segments before the current one that may not be durable yet.
    sealed: Vec<Arc<Segment<D>>>,
    /// Where the next record goes, counting those that were not written yet.
    tail: Tail,
    /// Chunks of segments that have been filled, oldest first.
    filled: Vec<Chunk>,
    /// The bytes that have been appended to the segment at the tail and were not written yet.
    open: Chunk,
    /// True once the segment that follows the tail's has been asked for.
    next_requested: bool,
    recovery: Recovery,
    lock: Arc<D::Lock>,
}

/// The state that a log and the thread that syncs it share.
#[derive(Debug)]
pub(super) struct Shared<D: Directory = Files> {
    pub(super) directory: D,
    pub(super) identity: LogIdentity,
    pub(super) incarnation: u64,
    /// The number of the segment that the log begins with.
    first: AtomicU32,
    /// Everything before this position is durable.
    pub(super) durable: AtomicU64,
    /// Everything before this position was handed to the operating system.
    written: AtomicU64,
    /// Whether something has failed, and why; see [`FAILURES`].
    failed: AtomicU8,
    /// Tells this log from every other one that was opened in this process, of the same replica too.
    pub(super) opening: u64,
    next: Mutex<Next<D>>,
}

/// The failures of a log, by the number that each is kept as.
const FAILURES: [Option<Option<Shortage>>; 4] =
    [None, Some(None), Some(Some(Shortage::Space)), Some(Some(Shortage::Descriptors))];

/// How many logs were opened in this process.
static OPENINGS: AtomicU64 = AtomicU64::new(0);

/// The segment that will be needed next.
#[derive(Debug)]
struct Next<D: Directory> {
    number: u32,
    prepared: Option<Segment<D>>,
}

/// Where a log goes on.
#[derive(Clone, Copy, Debug)]
struct Tail {
    segment: u32,
    segment_bytes: u32,
    offset: u32,
}

/// Adjacent bytes of one segment.
#[derive(Debug)]
struct Chunk {
    segment: u32,
    segment_bytes: u32,
    offset: u32,
    bytes: BytesMut,
}

/// Bytes that belong to a place in a segment.
#[derive(Debug)]
pub(super) struct Write<D: Directory> {
    pub(super) segment: Arc<Segment<D>>,
    pub(super) offset: u32,
    pub(super) bytes: Bytes,
}

// Derived, it would ask for directories that can be cloned to share segments.
impl<D: Directory> Clone for Write<D> {
    fn clone(&self) -> Self {
        Write { segment: Arc::clone(&self.segment), offset: self.offset, bytes: self.bytes.clone() }
    }
}

/// Something that was written and is not durable yet. Give it to a [`Syncer`](super::Syncer).
#[derive(Debug)]
#[must_use = "what is not synced is not durable"]
pub struct Unsynced<D: Directory = Files> {
    pub(super) log: Arc<Shared<D>>,
    /// Everything before this was written earlier.
    pub(super) from: Position,
    /// The writes that follow there, without a gap; none if they are many, and were handed to the operating system.
    pub(super) writes: Option<Vec<Write<D>>>,
    /// True if it was handed to the operating system.
    is_written: bool,
    /// The segments that were written to, in order.
    pub(super) segments: Vec<Arc<Segment<D>>>,
    /// Where it is noted that they are durable.
    pub(super) mark: Mark<D>,
    /// Everything before this is durable once they are synced.
    through: Position,
    /// A segment to create ahead of time.
    pub(super) prepare: Option<Prepare<D>>,
}

/// Where a log notes how far it is durable: in the segment that it goes on in, and in the one before, in case that the
/// last one is lost as a whole.
#[derive(Debug)]
pub(super) struct Mark<D: Directory = Files> {
    current: Arc<Segment<D>>,
    previous: Option<Arc<Segment<D>>>,
}

/// A segment to create ahead of time.
#[derive(Debug)]
pub(super) struct Prepare<D: Directory = Files> {
    log: Arc<Shared<D>>,
    header: Header,
    /// Nobody else may open the log meanwhile.
    _lock: Arc<D::Lock>,
}

/// Segments that are not needed any more. Give it to a [`Syncer`](super::Syncer).
#[derive(Debug)]
#[must_use = "nothing is given up before this is done"]
pub struct Truncation<D: Directory = Files> {
    log: Arc<Shared<D>>,
    /// The number of the segment that the log begins with from now on.
    first: u32,
    /// Nobody else may open the log meanwhile.
    _lock: Arc<D::Lock>,
}

impl Log {
    /// Creates the log of a replica that begins empty.
    ///
    /// # Errors
    /// The directory holds a log already, or the operating system refuses.
    pub fn create(directory: &Path, identity: LogIdentity, options: LogOptions) -> Result<Log, LogError> {
        Log::create_in(&Files::at(directory), identity, options, random_incarnation())
    }

    /// Like [`Log::create`], and nothing of it is durable before the caller has made the file system durable: thousands of logs are
    /// created at once with one sync.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub fn create_unsynced(
        directory: &Path,
        identity: LogIdentity,
        options: LogOptions,
    ) -> Result<(), LogError> {
        Log::create_in(&Files::unsynced(directory), identity, options, random_incarnation())?.close()
    }

    /// Opens the log of a replica that has run before, and returns what it holds. All of it is durable.
    ///
    /// # Errors
    /// There is no log, another process uses it, it belongs to another replica, a later version wrote it, something
    /// that had been durable cannot be read, or the operating system refuses. Each error says what to do.
    pub fn open(
        directory: &Path,
        identity: LogIdentity,
        options: LogOptions,
    ) -> Result<(Log, Records), LogError> {
        Log::open_in(&Files::at(directory), identity, options)
    }

    /// True if the directory holds a log, of any replica.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn exists(directory: &Path) -> Result<bool, LogError> {
        Ok(!segment::list(&Files::at(directory))?.is_empty())
    }

    /// As [`Log::incarnation_in`], of a log in a directory of the file system.
    ///
    /// # Errors
    /// As [`Log::incarnation_in`].
    pub fn incarnation_at(directory: &Path, identity: LogIdentity) -> Result<u64, LogError> {
        Log::incarnation_in(&Files::at(directory), identity)
    }
}

impl<D: Directory> Log<D> {
    /// Like [`Log::create`], in any directory. No other log may ever have the same incarnation.
    ///
    /// # Errors
    /// As [`Log::create`].
    pub fn create_in(
        directory: &D,
        identity: LogIdentity,
        options: LogOptions,
        incarnation: u64,
    ) -> Result<Self, LogError> {
        directory.create().map_err(LogError::io("create", directory.path()))?;
        let lock = segment::lock(directory)?;
        if !segment::list(directory)?.is_empty() {
            return Err(LogError::Exists { directory: directory.path().to_owned() });
        }
        let header = Header { identity, incarnation, number: 1, bytes: options.segment_bytes(1) };
        let segment = Segment::create(directory, header)?;
        segment.mark(Position::new(1, RECORDS_OFFSET))?;
        Ok(Log::starting_at(directory, segment, RECORDS_OFFSET, options, Recovery::default(), lock))
    }

    /// Like [`Log::open`], in any directory.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn open_in(
        directory: &D,
        identity: LogIdentity,
        options: LogOptions,
    ) -> Result<(Self, Records<D>), LogError> {
        if segment::list(directory)?.is_empty() {
            return Err(LogError::Missing { directory: directory.path().to_owned() });
        }
        let lock = segment::lock(directory)?;
        let found = recovery::recover(directory, identity)?;
        let mut log = Log::starting_at(directory, found.tail, found.offset, options, found.recovery, lock);
        log.shared.first.store(found.first, Ordering::Release);
        log.previous = found.previous.map(Arc::new);
        log.mark().write(log.durable())?;
        Ok((log, found.records))
    }

    fn starting_at(
        directory: &D,
        segment: Segment<D>,
        offset: u32,
        options: LogOptions,
        recovery: Recovery,
        lock: D::Lock,
    ) -> Self {
        let Header { identity, incarnation, number, bytes: segment_bytes } = segment.header;
        let shared = Shared {
            directory: directory.clone(),
            identity,
            incarnation,
            first: AtomicU32::new(number),
            durable: AtomicU64::new(Position::new(number, offset).0),
            written: AtomicU64::new(Position::new(number, offset).0),
            failed: AtomicU8::new(0),
            opening: OPENINGS.fetch_add(1, Ordering::Relaxed),
            next: Mutex::new(Next { number: number + 1, prepared: None }),
        };
        Log {
            shared: Arc::new(shared),
            options,
            current: Arc::new(segment),
            previous: None,
            sealed: Vec::new(),
            tail: Tail { segment: number, segment_bytes, offset },
            filled: Vec::new(),
            open: Chunk { segment: number, segment_bytes, offset, bytes: BytesMut::new() },
            next_requested: false,
            recovery,
            lock: Arc::new(lock),
        }
    }

    /// Tells the log in a directory from all others of the same replica.
    ///
    /// # Errors
    /// There is no log, it cannot be read, or it belongs to another replica.
    pub fn incarnation_in(directory: &D, identity: LogIdentity) -> Result<u64, LogError> {
        match segment::list(directory)?.last() {
            Some(last) => Ok(segment::peek(directory, *last, identity)?.0.incarnation),
            None => Err(LogError::Missing { directory: directory.path().to_owned() }),
        }
    }

    /// Tells this log from all others of the same replica.
    pub fn incarnation(&self) -> u64 {
        self.shared.incarnation
    }

    pub(super) fn shared(&self) -> &Arc<Shared<D>> {
        &self.shared
    }

    /// Tells this log from every other one that was opened in this process, of the same replica too.
    pub fn opening(&self) -> u64 {
        self.shared.opening
    }

    /// The owner of this log.
    pub fn identity(&self) -> LogIdentity {
        self.shared.identity
    }

    /// The work that was needed when the log was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Everything before this position is durable.
    pub fn durable(&self) -> Position {
        self.shared.durable()
    }

    /// After the last record that was appended.
    pub fn end(&self) -> Position {
        Position::new(self.tail.segment, self.tail.offset)
    }

    /// The size of the segment at the tail, in bytes.
    pub(super) fn segment_bytes(&self) -> u32 {
        self.tail.segment_bytes
    }

    /// How many bytes have been appended and not written yet.
    pub fn unwritten_bytes(&self) -> usize {
        self.open.bytes.len() + self.filled.iter().map(|chunk| chunk.bytes.len()).sum::<usize>()
    }

    /// Appends a record. It is durable once the log is durable up to the position that is returned.
    ///
    /// # Panics
    /// If the record is empty or longer than [`RECORD_BYTES_MAX`].
    pub fn append(&mut self, record: &[u8]) -> Position {
        self.append_with(|bytes| bytes.extend_from_slice(record))
    }

    /// Appends the record that `encode` adds to the end of a buffer, without a copy in between.
    ///
    /// # Panics
    /// As [`Log::append`].
    pub fn append_with(&mut self, encode: impl FnOnce(&mut BytesMut)) -> Position {
        let start = self.open.bytes.len();
        self.open.bytes.resize(start + RECORD_HEADER_BYTES, 0);
        encode(&mut self.open.bytes);
        let contents = self.open.bytes.len() - start - RECORD_HEADER_BYTES;
        assert!(contents > 0, "a record is never empty");
        assert!(contents <= RECORD_BYTES_MAX, "a record of {contents} bytes is too long for a log");

        let mut start = start;
        let record_bytes = format::record_bytes(contents) as u32;
        let room = self.tail.segment_bytes - self.tail.offset;
        if record_bytes + RECORD_HEADER_BYTES as u32 > room {
            self.seal_before(start, record_bytes);
            start = 0;
        }
        let (position, durable) = (self.end(), self.durable());
        format::finish_record(&mut self.open.bytes, start, self.shared.incarnation, position, durable);
        self.tail.offset += record_bytes;
        self.end()
    }

    /// Seals the segment at the tail and moves the record that begins at `start` of the open chunk to the next one.
    fn seal_before(&mut self, start: usize, record_bytes: u32) {
        let record = self.open.bytes.split_off(start);
        let seal = format::seal(self.shared.incarnation, self.end(), self.durable());
        self.open.bytes.extend_from_slice(&seal);

        let number = self.tail.segment + 1;
        let needed = RECORDS_OFFSET + record_bytes + RECORD_HEADER_BYTES as u32;
        let segment_bytes = self.options.segment_bytes(number).max(needed);
        self.tail = Tail { segment: number, segment_bytes, offset: RECORDS_OFFSET };
        self.next_requested = false;
        let open = Chunk { segment: number, segment_bytes, offset: RECORDS_OFFSET, bytes: record };
        self.filled.push(std::mem::replace(&mut self.open, open));
    }

    /// Writes what was appended. It is not durable before it has been synced; nothing if nothing was appended.
    ///
    /// # Errors
    /// The operating system refuses, or something has failed before. The log cannot be used any more.
    ///
    /// # Panics
    /// If something that was appended earlier was left to be written later, and has not been.
    pub fn write(&mut self) -> Result<Option<Unsynced<D>>, LogError> {
        self.write_if(true)
    }

    /// As [`Log::write`], but leaves it to a [`Syncer`](super::Syncer) to hand what was appended to the operating system: where there is a journal,
    /// much of it goes together later.
    ///
    /// # Errors
    /// A segment is needed and cannot be created, or something has failed before. The log cannot be used any more.
    pub fn write_later(&mut self) -> Result<Option<Unsynced<D>>, LogError> {
        self.write_if(false)
    }

    fn write_if(&mut self, is_now: bool) -> Result<Option<Unsynced<D>>, LogError> {
        if self.shared.has_failed() {
            return Err(self.shared.failed_before());
        }
        if self.unwritten_bytes() == 0 {
            return Ok(None);
        }
        let result = self.write_chunks(is_now);
        if let Err(error) = &result {
            self.shared.fail(error);
        }
        result.map(Some)
    }

    fn write_chunks(&mut self, is_now: bool) -> Result<Unsynced<D>, LogError> {
        let mut chunks = std::mem::take(&mut self.filled);
        let next = Chunk { offset: self.tail.offset, bytes: BytesMut::new(), ..self.open };
        chunks.push(std::mem::replace(&mut self.open, next));
        let from = Position::new(chunks[0].segment, chunks[0].offset);
        if is_now {
            // Else the log would count as durable with a gap.
            assert!(from <= self.shared.written(), "what was appended before {from:?} is not written");
        }
        let mut writes = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            self.go_on_in(&chunk)?;
            let Chunk { offset, mut bytes, .. } = chunk;
            writes.push(Write { segment: Arc::clone(&self.current), offset, bytes: bytes.split().freeze() });
            // The room behind the bytes of the last one.
            self.open.bytes = bytes;
        }
        if self.open.bytes.capacity() > BUFFER_BYTES_KEPT {
            self.open.bytes = BytesMut::new();
        }
        let mut unsynced = self.unsynced(from, Some(writes));
        if is_now {
            unsynced.write()?;
            unsynced.writes = unsynced.writes.take().filter(|writes| bytes_of(writes) <= WRITES_BYTES_MAX);
        }
        Ok(unsynced)
    }

    /// Goes on in the segment that a chunk belongs to.
    fn go_on_in(&mut self, chunk: &Chunk) -> Result<(), LogError> {
        if chunk.segment != self.current.header.number {
            let next = Arc::new(self.next_for(chunk)?);
            let previous = std::mem::replace(&mut self.current, next);
            self.sealed.push(Arc::clone(&previous));
            self.previous = Some(previous);
        }
        Ok(())
    }

    /// The segment that a chunk begins. If there is no room for a whole one, a small one has to do: then a log goes on with
    /// what there is, and what frees room can still be written.
    fn next_for(&mut self, chunk: &Chunk) -> Result<Segment<D>, LogError> {
        let header = self.header_of(chunk.segment, chunk.segment_bytes);
        let error = match self.shared.take_next(header) {
            Err(error) if error.shortage() == Some(Shortage::Space) => error,
            taken => return taken,
        };
        let needed = RECORDS_OFFSET + (chunk.bytes.len() + RECORD_HEADER_BYTES) as u32;
        let segment_bytes = self.options.segment_bytes_first.max(needed);
        if segment_bytes >= chunk.segment_bytes {
            return Err(error);
        }
        let segment = self.shared.take_next(Header { bytes: segment_bytes, ..header })?;
        if chunk.segment == self.tail.segment {
            self.tail.segment_bytes = segment_bytes;
            self.open.segment_bytes = segment_bytes;
            self.next_requested = false;
        }
        Ok(segment)
    }

    /// Gives up the records before a position, as far as they fill whole segments. Nothing if they do not fill another
    /// one.
    ///
    /// # Panics
    /// If something from there on could still be lost: then the records before it may be needed after all.
    pub fn truncate(&mut self, up_to: Position) -> Option<Truncation<D>> {
        assert!(up_to <= self.durable(), "what stays of a log is durable before the rest goes");
        let first = up_to.segment();
        if first <= self.shared.first() {
            return None;
        }
        self.shared.first.store(first, Ordering::Release);
        self.previous = self.previous.take().filter(|previous| previous.header.number >= first);
        Some(Truncation { log: Arc::clone(&self.shared), first, _lock: Arc::clone(&self.lock) })
    }

    /// Everything that was written and may not be durable, also what was returned before.
    fn unsynced(&mut self, from: Position, writes: Option<Vec<Write<D>>>) -> Unsynced<D> {
        let durable = self.durable();
        self.sealed.retain(|segment| segment.header.number >= durable.segment());
        let segments = self.sealed.iter().chain([&self.current]).map(Arc::clone).collect();
        let (log, mark) = (Arc::clone(&self.shared), self.mark());
        let (through, prepare) = (self.end(), self.next_segment());
        let is_written = writes.is_none();
        Unsynced { log, from, writes, is_written, segments, mark, through, prepare }
    }

    fn mark(&self) -> Mark<D> {
        Mark { current: Arc::clone(&self.current), previous: self.previous.clone() }
    }

    /// The segment to create ahead of time, once the one at the tail is half full.
    fn next_segment(&mut self) -> Option<Prepare<D>> {
        if self.next_requested || self.tail.offset < self.tail.segment_bytes / 2 {
            return None;
        }
        self.next_requested = true;
        Some(self.next_to_prepare())
    }

    /// The segment after the one at the tail, to create ahead of time unless it has been.
    pub(super) fn next_to_prepare(&self) -> Prepare<D> {
        let number = self.tail.segment + 1;
        let header = self.header_of(number, self.options.segment_bytes(number));
        Prepare { log: Arc::clone(&self.shared), header, _lock: Arc::clone(&self.lock) }
    }

    /// How many of some records, whose contents are so long, need no segment that is not there yet if they are appended in turn, and so many bytes of
    /// small ones after them.
    pub(super) fn room_for(&self, records: impl Iterator<Item = usize>, reserve: usize) -> usize {
        let mut room = (self.tail.segment_bytes - self.tail.offset) as usize;
        let mut next = self.room_in_next();
        let needed = |contents| format::record_bytes(contents) + RECORD_HEADER_BYTES + reserve;
        let fits = |contents: &usize| {
            if needed(*contents) > room {
                room = next.take().unwrap_or(0);
            }
            let is_room = needed(*contents) <= room;
            room = room.saturating_sub(format::record_bytes(*contents));
            is_room
        };
        records.take_while(fits).count()
    }

    /// How much the segment after the one at the tail has room for, in bytes, if it was created ahead of time.
    fn room_in_next(&self) -> Option<usize> {
        // A thread that holds the lock creates it now, and that takes long.
        let is_prepared = self.shared.next.try_lock().is_ok_and(|next| next.prepared.is_some());
        is_prepared.then(|| (self.options.segment_bytes(self.tail.segment + 1) - RECORDS_OFFSET) as usize)
    }

    /// Puts another file under the log, for tests of what failing disks do.
    #[cfg(test)]
    pub(super) fn replace_segment(&mut self, replace: impl FnOnce(&Segment<D>) -> Segment<D>) {
        self.current = Arc::new(replace(&self.current));
    }

    #[cfg(test)]
    pub(super) fn current_segment(&self) -> Arc<Segment<D>> {
        Arc::clone(&self.current)
    }

    fn header_of(&self, number: u32, bytes: u32) -> Header {
        Header { identity: self.shared.identity, incarnation: self.shared.incarnation, number, bytes }
    }

    /// Writes what was appended and waits until all of the log is durable. For callers that have no event loop to keep
    /// going.
    ///
    /// # Errors
    /// As [`Log::write`], or syncing fails; the log cannot be used any more.
    pub fn sync(&mut self) -> Result<Position, LogError> {
        let unsynced = match self.write()? {
            Some(unsynced) => unsynced,
            None => self.unsynced(self.end(), None),
        };
        assert!(self.shared.written() >= self.end(), "what was appended last is not written");
        unsynced.sync()?;
        if unsynced.prepare.is_some() {
            // Nobody is there to do it ahead of time.
            self.next_requested = false;
        }
        Ok(unsynced.through)
    }

    /// Makes everything durable and notes that it is, so that every record that the disk loses later is noticed.
    ///
    /// # Errors
    /// As [`Log::sync`].
    pub fn close(mut self) -> Result<(), LogError> {
        let durable = self.sync()?;
        let mark = self.mark();
        mark.write(durable)?;
        mark.sync()
    }
}

impl<D: Directory> Unsynced<D> {
    /// Everything before this is durable once this is.
    pub fn through(&self) -> Position {
        self.through
    }

    /// Of which log it is, as [`Log::opening`] says.
    pub fn opening(&self) -> u64 {
        self.log.opening
    }

    /// The outcome of writes that a [`Journal`](super::Journal) has made durable: up to where the log is durable.
    ///
    /// # Errors
    /// The log has failed before, and acknowledges nothing more.
    pub fn outcome(&self) -> Result<Position, LogError> {
        if self.log.has_failed() { Err(self.log.failed_before()) } else { Ok(self.through) }
    }

    /// Makes it durable, and waits for that. After a failure the log is refused from then on: a second sync could
    /// succeed and have lost what the first one could not write.
    ///
    /// # Errors
    /// The operating system refuses, or something has failed before. The log cannot be used any more.
    pub fn sync(&self) -> Result<(), LogError> {
        if self.log.has_failed() {
            return Err(self.log.failed_before());
        }
        let written = if self.is_written { Ok(()) } else { self.write_out() };
        let result = written.and_then(|()| self.segments.iter().try_for_each(|segment| segment.sync()));
        match &result {
            Ok(()) => drop(self.log.durable.fetch_max(self.through.0, Ordering::AcqRel)),
            Err(error) => self.log.fail(error),
        }
        result
    }

    /// Hands it to the operating system, if it was not.
    pub(super) fn write(&mut self) -> Result<(), LogError> {
        if self.log.has_failed() {
            // The writes before it may be missing.
            return Err(self.log.failed_before());
        }
        if !self.is_written {
            self.is_written = true;
            let result = self.write_out();
            if let Err(error) = &result {
                self.log.fail(error);
            }
            return result;
        }
        Ok(())
    }

    fn write_out(&self) -> Result<(), LogError> {
        assert!(self.from <= self.log.written(), "what was appended before {:?} is not written", self.from);
        self.log.write_out(self.writes.iter().flatten(), self.through)
    }

    /// True if it is little enough for a journal.
    pub(super) fn is_little(&self) -> bool {
        self.writes.as_ref().is_some_and(|writes| bytes_of(writes) <= WRITES_BYTES_MAX)
    }

    /// Takes in what was written to the same log later, so that one sync serves both.
    pub fn merge(&mut self, mut later: Unsynced<D>) {
        match (&mut self.writes, &mut later.writes) {
            (Some(writes), Some(more)) => {
                writes.append(more);
                self.is_written &= later.is_written;
            }
            _ => {
                // If that fails the log is refused, and then nothing of it is synced.
                let _ = self.write().and_then(|()| later.write());
                self.writes = None;
            }
        }
        for segment in later.segments {
            if !self.segments.iter().any(|known| Arc::ptr_eq(known, &segment)) {
                self.segments.push(segment);
            }
        }
        self.mark = later.mark;
        self.through = later.through;
        self.prepare = later.prepare.or(self.prepare.take());
    }
}

impl<D: Directory> Mark<D> {
    /// Notes that the log is durable up to a position. The note itself need not be durable: it is worth most when a
    /// disk decays, long after it was written.
    pub(super) fn write(&self, durable: Position) -> Result<(), LogError> {
        self.places().try_for_each(|segment| segment.mark(durable))
    }

    fn sync(&self) -> Result<(), LogError> {
        self.places().try_for_each(|segment| segment.sync())
    }

    fn places(&self) -> impl Iterator<Item = &Arc<Segment<D>>> {
        self.previous.iter().chain([&self.current])
    }
}

impl<D: Directory> Prepare<D> {
    /// Creates the segment, unless it has been needed meanwhile.
    pub(super) fn run(self) -> Result<(), LogError> {
        let mut next = self.log.next.lock().unwrap_or_else(PoisonError::into_inner);
        if next.number == self.header.number && next.prepared.is_none() {
            next.prepared = Some(Segment::create(&self.log.directory, self.header)?);
        }
        Ok(())
    }
}

impl<D: Directory> Truncation<D> {
    /// Notes durably where the log begins, and removes what lies before.
    ///
    /// # Errors
    /// The operating system refuses. If that is to note the beginning, the log cannot be used any more; if it is to open or
    /// remove something, that is tried again with the next truncation.
    pub fn run(self) -> Result<(), LogError> {
        if self.log.has_failed() {
            return Err(self.log.failed_before());
        }
        // Through a file handle of its own: an error of this sync is still reported to the one who syncs records.
        let noted = self.first_segment().and_then(|segment| segment.begin().and_then(|()| segment.sync()));
        // Without a descriptor nothing was begun.
        if let Err(error) = &noted
            && error.shortage() != Some(Shortage::Descriptors)
        {
            self.log.fail(error);
        }
        noted.and_then(|()| segment::remove_before(&self.log.directory, self.first))
    }

    fn first_segment(&self) -> Result<Segment<D>, LogError> {
        let (header, _) = segment::peek(&self.log.directory, self.first, self.log.identity)?;
        Segment::open(&self.log.directory, header)
    }
}

impl<D: Directory> Shared<D> {
    pub(super) fn durable(&self) -> Position {
        Position(self.durable.load(Ordering::Acquire))
    }

    /// Everything before this was handed to the operating system.
    pub(super) fn written(&self) -> Position {
        Position(self.written.load(Ordering::Acquire))
    }

    /// Hands writes to the operating system, which follow what was handed to it before and end at a position.
    pub(super) fn write_out<'a>(
        &self,
        writes: impl Iterator<Item = &'a Write<D>>,
        through: Position,
    ) -> Result<(), LogError>
    where
        D: 'a,
    {
        // Writes that stand side by side go together.
        let mut writes = writes.peekable();
        let mut joined = BytesMut::new();
        while let Some(first) = writes.next() {
            joined.clear();
            let mut end = first.offset + first.bytes.len() as u32;
            while let Some(next) =
                writes.next_if(|next| Arc::ptr_eq(&next.segment, &first.segment) && next.offset == end)
            {
                if joined.is_empty() {
                    joined.extend_from_slice(&first.bytes);
                }
                joined.extend_from_slice(&next.bytes);
                end += next.bytes.len() as u32;
            }
            let bytes = if joined.is_empty() { &first.bytes[..] } else { &joined[..] };
            first.segment.write(bytes, first.offset.into())?;
        }
        self.written.fetch_max(through.0, Ordering::AcqRel);
        Ok(())
    }

    /// The number of the segment that the log begins with.
    pub(super) fn first(&self) -> u32 {
        self.first.load(Ordering::Acquire)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire) != 0
    }

    pub(super) fn fail(&self, error: &LogError) {
        let failure = FAILURES.iter().position(|known| *known == Some(error.shortage()));
        let failure = failure.expect("every shortage is listed") as u8;
        // The first one counts: a later one may be its consequence.
        let _ = self.failed.compare_exchange(0, failure, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(super) fn failed_before(&self) -> LogError {
        let shortage = FAILURES[usize::from(self.failed.load(Ordering::Acquire))].flatten();
        LogError::Failed { directory: self.directory.path().to_owned(), shortage }
    }

    /// The segment that was created ahead of time, else one that is created now. Waits while it is being created.
    fn take_next(&self, header: Header) -> Result<Segment<D>, LogError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let prepared = next.prepared.take();
        next.number = header.number + 1;
        match prepared {
            Some(segment) if segment.header == header => Ok(segment),
            // None, or too small for an uncommonly large record.
            _ => Segment::create(&self.directory, header),
        }
    }
}

fn bytes_of<D: Directory>(writes: &[Write<D>]) -> usize {
    writes.iter().map(|write| write.bytes.len()).sum()
}

/// A number that no other log has, from the randomness that the standard library seeds its hash tables with.
pub(super) fn random_incarnation() -> u64 {
    RandomState::new().hash_one((SystemTime::now(), std::process::id()))
}
