//! The content of a log after any crash or damage.

use std::cmp::Ordering;
use std::vec;

use bytes::Bytes;

use super::directory::Directory;
use super::format::{self, Entry, Header, RECORDS_OFFSET};
use super::segment::{self, Segment};
use super::window::{Entries, Next};
use super::{Files, LogError, LogIdentity, Position};

/// The work of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// How many records the log holds.
    pub records: u64,
    /// How many bytes were cut off because a crash had torn them. None of them was acknowledged.
    pub torn_bytes: u64,
}

/// A log as it was found, and where it goes on.
pub(super) struct Found<D: Directory> {
    /// The segment that the log begins with.
    pub(super) first: u32,
    /// The segment that the log goes on in.
    pub(super) tail: Segment<D>,
    /// The one before it.
    pub(super) previous: Option<Segment<D>>,
    /// Where in it.
    pub(super) offset: u32,
    pub(super) recovery: Recovery,
    pub(super) records: Records<D>,
}

/// Decides where the log begins, reads all segments from there, decides where it ends, cuts off what is torn and makes
/// durable what remains: a machine is about to rely on it.
///
/// A record that is not known to be durable is written once more first. After a sync that failed, the operating system shows
/// what it could not write and takes it for written, so a sync alone would succeed and do nothing.
pub(super) fn recover<D: Directory>(directory: &D, identity: LogIdentity) -> Result<Found<D>, LogError> {
    let Contiguous { segments, incarnation } = contiguous(directory, identity)?;

    let mut recovery = Recovery::default();
    // The first place without a record in the first segment that does not go on in the next one.
    let mut end: Option<End> = None;
    let mut durable = Position::ZERO;
    let mut headers = Vec::with_capacity(segments.len());
    for (at, number) in segments.iter().enumerate() {
        if end.is_none()
            && at + 1 < segments.len()
            && let Some(sealed) = read_sealed(directory, *number, identity, incarnation)?
        {
            recovery.records += sealed.records;
            durable = durable.max(sealed.durable);
            headers.push(sealed.header);
            continue;
        }
        let (header, bytes) = segment::read(directory, *number, identity)?;
        headers.push(header);
        durable = durable.max(format::decode_mark(&bytes, incarnation).unwrap_or_default());
        let (floor, beyond) = match &end {
            Some(end) => (end.position(), RECORDS_OFFSET),
            None => {
                let scanned = scan(&bytes, &header);
                recovery.records += scanned.records;
                durable = durable.max(scanned.durable);
                if scanned.sealed && at + 1 < segments.len() {
                    continue;
                }
                let found = End { at, header, scanned };
                let position = found.position();
                end = Some(found);
                (position, position.offset())
            }
        };
        durable = durable.max(format::durable_beyond(&bytes, &header, beyond, floor).unwrap_or_default());
    }

    let end = end.expect("the last segment, at the latest, is where the log ends");
    let (position, End { at: last, header, scanned }) = (end.position(), end);
    if durable > position {
        return Err(match scanned.sealed {
            true => LogError::MissingSegment { file: segment::path(directory, header.number + 1) },
            false => LogError::Corrupt {
                file: segment::path(directory, header.number),
                offset: scanned.end.into(),
                what: "records that had been made durable cannot be read",
            },
        });
    }
    recovery.torn_bytes = u64::from(scanned.written_end - scanned.end);

    let unproven = |number: u32| match number.cmp(&durable.segment()) {
        Ordering::Less => None,
        Ordering::Equal => Some(durable.offset().max(RECORDS_OFFSET)),
        Ordering::Greater => Some(RECORDS_OFFSET),
    };
    let tail = Segment::open(directory, header)?;
    tail.blank(scanned.end.into(), scanned.written_end.into())?;
    if let Some(from) = unproven(header.number) {
        tail.rewrite(from, scanned.end)?;
    }
    // Segments that nothing was written to yet, or only what is torn.
    segment::remove(directory, &segments[last + 1..])?;
    let first = segments[0];
    let mut segments = segments;
    segments.truncate(last + 1);
    let mut previous = None;
    for header in headers.into_iter().take(last) {
        let segment = Segment::open(directory, header)?;
        if let Some(from) = unproven(header.number) {
            segment.rewrite(from, header.bytes)?;
        }
        if header.number == first && first > 1 {
            segment.begin()?;
        }
        segment.sync()?;
        previous = Some(segment);
    }
    if header.number == first && first > 1 {
        tail.begin()?;
    }
    tail.sync()?;
    // Now it is durable that the log begins where it does.
    segment::remove_before(directory, first)?;
    let records = Records {
        directory: directory.clone(),
        identity,
        end: position,
        segments: segments.into_iter(),
        reading: None,
    };
    Ok(Found { first, tail, previous, offset: scanned.end, recovery, records })
}

/// The segments of a log, from the one that it begins with, without a gap.
struct Contiguous {
    segments: Vec<u32>,
    incarnation: u64,
}

/// Finds out where a log begins. Segments before that, which a crash has left, are not needed.
fn contiguous(directory: &impl Directory, identity: LogIdentity) -> Result<Contiguous, LogError> {
    let mut segments = segment::list(directory)?;
    let mut first = 1;
    let mut known = None;
    for number in &segments {
        let (header, is_beginning) = segment::peek(directory, *number, identity)?;
        if *known.get_or_insert(header.incarnation) != header.incarnation {
            return Err(LogError::ForeignIncarnation { file: segment::path(directory, *number) });
        }
        if is_beginning {
            first = *number;
        }
    }
    let Some(incarnation) = known else {
        return Err(LogError::Missing { directory: directory.path().to_owned() });
    };
    segments.retain(|number| *number >= first);
    match segments.iter().zip(first..).find(|(found, expected)| *found != expected) {
        Some((_, expected)) => Err(LogError::MissingSegment { file: segment::path(directory, expected) }),
        None => Ok(Contiguous { segments, incarnation }),
    }
}

/// Where a log ends.
struct End {
    /// In which of the segments.
    at: usize,
    header: Header,
    scanned: Scanned,
}

impl End {
    fn position(&self) -> Position {
        Position::new(self.header.number, self.scanned.end)
    }
}

/// A segment that is full of records, up to its seal.
struct Sealed {
    header: Header,
    records: u64,
    /// How far it says that the log was durable.
    durable: Position,
}

/// Reads a segment if it is sealed. Most are, and are not needed as a whole.
fn read_sealed<D: Directory>(
    directory: &D,
    number: u32,
    identity: LogIdentity,
    incarnation: u64,
) -> Result<Option<Sealed>, LogError> {
    let mut entries = Entries::open(directory, number, identity)?;
    let marked = format::decode_mark(entries.beginning(), incarnation).unwrap_or_default();
    let mut sealed = Sealed { header: *entries.header(), records: 0, durable: marked };
    loop {
        match entries.next()? {
            Next::Record { durable, .. } => {
                sealed.records += 1;
                sealed.durable = sealed.durable.max(durable);
            }
            Next::Seal { durable } => {
                sealed.durable = sealed.durable.max(durable);
                return Ok(Some(sealed));
            }
            Next::Nothing => return Ok(None),
        }
    }
}

/// The content of a segment from its beginning on.
struct Scanned {
    /// Where the first thing stands that is no record.
    end: u32,
    /// True if that is a seal. One that no segment follows was written just before a crash, and is taken back.
    sealed: bool,
    records: u64,
    /// How far its records say that the log was durable.
    durable: Position,
    /// After the last byte that is not zero; at least `end`.
    written_end: u32,
}

/// Up to where a segment holds records, and whether the log goes on in the next one.
pub(super) fn readable(bytes: &[u8], header: &Header) -> (u32, bool) {
    let Scanned { end, sealed, .. } = scan(bytes, header);
    (end, sealed)
}

fn scan(bytes: &[u8], header: &Header) -> Scanned {
    let mut scanned = Scanned {
        end: RECORDS_OFFSET,
        sealed: false,
        records: 0,
        durable: Position::ZERO,
        written_end: RECORDS_OFFSET,
    };
    loop {
        match format::entry_at(bytes, header, scanned.end) {
            Entry::Record { next, durable, .. } => {
                scanned.records += 1;
                scanned.durable = scanned.durable.max(durable);
                scanned.end = next;
            }
            Entry::Seal { durable } => {
                scanned.sealed = true;
                scanned.durable = scanned.durable.max(durable);
                break;
            }
            Entry::Blank | Entry::Unreadable => break,
        }
    }
    let limit = bytes.len().min(header.bytes as usize);
    let rest = bytes.get(scanned.end as usize..limit).unwrap_or(&[]);
    let written = rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    scanned.written_end = scanned.end + written as u32;
    scanned
}

/// The records of a log, in the order in which they were appended. A clone reads on from the same place.
#[derive(Clone, Debug)]
pub struct Records<D: Directory = Files> {
    directory: D,
    identity: LogIdentity,
    end: Position,
    segments: vec::IntoIter<u32>,
    /// The segment that is being read.
    reading: Option<Entries<D>>,
}

impl<D: Directory> Iterator for Records<D> {
    type Item = Result<Bytes, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(reading) = &mut self.reading else {
                let number = self.segments.next()?;
                match Entries::open(&self.directory, number, self.identity) {
                    Ok(entries) => self.reading = Some(entries),
                    Err(error) => return Some(Err(self.stop(error))),
                }
                continue;
            };
            let (number, offset) = (reading.header().number, reading.offset());
            if Position::new(number, offset) >= self.end {
                return None;
            }
            match reading.next() {
                Ok(Next::Record { contents, .. }) => return Some(Ok(contents)),
                Ok(Next::Seal { .. }) => self.reading = None,
                Ok(Next::Nothing) => {
                    let file = segment::path(&self.directory, number);
                    let what = "it has changed since it was checked";
                    return Some(Err(self.stop(LogError::Corrupt { file, offset: offset.into(), what })));
                }
                Err(error) => return Some(Err(self.stop(error))),
            }
        }
    }
}

impl<D: Directory> Records<D> {
    /// Ends the iteration with an error.
    fn stop(&mut self, error: LogError) -> LogError {
        self.end = Position::ZERO;
        self.segments = Vec::new().into_iter();
        error
    }
}
