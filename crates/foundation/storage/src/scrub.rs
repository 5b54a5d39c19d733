//! Reading again what a log holds, while it is used, so that decay is found before more of the group decays.
//!
//! Only what is durable is looked at: nothing there is ever written again, but for marks, on which nothing depends. So a
//! scrubber needs no lock. It finds the same damage as [`Log::open`] would: a record that had been durable and cannot be read.

use std::sync::{Arc, Weak};

use super::directory::Directory;
use super::format::{self, Entry, Header, RECORDS_OFFSET};
use super::log::{Log, Shared};
use super::segment;
use super::window;
use super::{Files, LogError};

/// Reads a log again, a piece at a time, from its beginning to where it is durable, and then from its beginning.
#[derive(Debug)]
pub struct Scrubber<D: Directory = Files> {
    /// The log keeps it for as long as it is used.
    log: Weak<Shared<D>>,
    opening: u64,
    /// The segment that is being read, and how far; none between two passes.
    reading: Option<Reading<D>>,
}

#[derive(Debug)]
struct Reading<D: Directory> {
    file: D::File,
    header: Header,
    offset: u32,
}

/// The part of a log that a scrubber has looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scrubbed {
    /// How much, in bytes.
    pub bytes: u64,
    /// True if it has come to where the log is durable: a pass is complete.
    pub is_complete: bool,
}

/// The content of some place of a segment.
enum Found {
    /// Readable entries up to this offset.
    Records(u32),
    /// The end of the segment: the log goes on in the next one.
    Seal,
    /// Something that cannot be read, at this offset.
    Unreadable(u32),
}

impl<D: Directory> Scrubber<D> {
    /// A scrubber for a log, which ends with it.
    pub fn new(log: &Log<D>) -> Self {
        Scrubber { log: Arc::downgrade(log.shared()), opening: log.opening(), reading: None }
    }

    /// Which log it reads, as [`Log::opening`] says.
    pub fn opening(&self) -> u64 {
        self.opening
    }

    /// Looks at some more of the log; none if the log is not used any more.
    ///
    /// # Errors
    /// Something that had been durable cannot be read, as [`Log::open`] would say; or the operating system refuses.
    pub fn step(&mut self) -> Option<Result<Scrubbed, LogError>> {
        let log = self.log.upgrade()?;
        let result = self.step_in(&log);
        // A log that has failed or was given up says so itself, and its files may be gone.
        if log.has_failed() { None } else { Some(result) }
    }

    fn step_in(&mut self, log: &Shared<D>) -> Result<Scrubbed, LogError> {
        // The newest records may be durable in the journal, and not written to the files yet.
        let (first, durable) = (log.first(), log.durable().min(log.written()));
        let mut reading = match self.reading.take() {
            // A segment that has been given up is not needed any more.
            Some(reading) if reading.header.number >= first => reading,
            _ => open(log, first)?,
        };
        let number = reading.header.number;
        let end = if number < durable.segment() { reading.header.bytes } else { durable.offset() };
        let mut scrubbed =
            Scrubbed { bytes: 0, is_complete: number > durable.segment() || reading.offset >= end };
        if scrubbed.is_complete {
            return Ok(scrubbed);
        }
        let from = reading.offset;
        let window = window::read(&log.directory, &reading.file, &reading.header, from)?;
        scrubbed.bytes = window.len() as u64;
        match look_at(&window, &reading.header, from, end) {
            Found::Records(to) => {
                reading.offset = to;
                scrubbed.is_complete = number == durable.segment() && to >= end;
                self.reading = Some(reading);
            }
            Found::Seal if number < durable.segment() => self.reading = Some(open(log, number + 1)?),
            Found::Seal => scrubbed.is_complete = true,
            // It was given up while it was read.
            Found::Unreadable(_) if number < log.first() => {}
            Found::Unreadable(at) => {
                return Err(LogError::Corrupt {
                    file: segment::path(&log.directory, number),
                    offset: at.into(),
                    what: "records that had been made durable cannot be read any more",
                });
            }
        }
        if scrubbed.is_complete {
            self.reading = None;
        }
        Ok(scrubbed)
    }
}

/// Opens a segment; the next one that is needed if that has been given up meanwhile.
fn open<D: Directory>(log: &Shared<D>, number: u32) -> Result<Reading<D>, LogError> {
    let opened = segment::open_to_check(&log.directory, number, log.identity);
    match opened {
        Ok((file, header)) => Ok(Reading { file, header, offset: RECORDS_OFFSET }),
        Err(_) if number < log.first() => open(log, log.first()),
        Err(LogError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            Err(LogError::MissingSegment { file: segment::path(&log.directory, number) })
        }
        Err(error) => Err(error),
    }
}

/// Looks at the records that stand in a window which begins at `from`, up to `end` at most.
fn look_at(window: &[u8], header: &Header, from: u32, end: u32) -> Found {
    let mut at = from;
    while at < end {
        let rest = &window[(at - from) as usize..];
        match format::entry_of(rest, header, at) {
            Entry::Record { next, .. } => at = next,
            Entry::Seal { .. } => return Found::Seal,
            // The next window begins with it.
            Entry::Blank | Entry::Unreadable if at > from && window::may_go_on(rest, header, at) => break,
            Entry::Blank | Entry::Unreadable => return Found::Unreadable(at),
        }
    }
    Found::Records(at)
}

/// Looks at all of a log once.
///
/// # Errors
/// As [`Scrubber::step`].
pub fn scrub<D: Directory>(log: &Log<D>) -> Result<u64, LogError> {
    let mut scrubber = Scrubber::new(log);
    let mut bytes = 0;
    while let Some(result) = scrubber.step() {
        let scrubbed = result?;
        bytes += scrubbed.bytes;
        if scrubbed.is_complete {
            break;
        }
    }
    Ok(bytes)
}
