//! Writes that are done once more before the first log of a node is opened.
//!
//! The writes to a log have one of three ends, for each log by itself:
//!
//! | what is found | what is done |
//! |---|---|
//! | the log of that incarnation | the writes are done, and synced: they are settled |
//! | a log of another incarnation, or the node has no such replica any more | no log needs them: they are settled |
//! | no log, or one that cannot be read or written to, that lacks a segment, or something that it had acknowledged before; or something foreign in its place | they are *kept*, and the log is not opened in this process |
//!
//! A log may be away for one start only: not mounted, moved, on a disk that does not answer. It has acknowledged what stands in the journal, so that is kept
//! until the log is there again, or another one has taken its place.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use quorate_core::ReplicaId;

use super::Whereabouts;
use super::kept::{self, KeptName, Place, Whose};
use super::settling::Held;
use crate::directory::Directory;
use crate::segment::{self, Segment};
use crate::{Log, LogError, LogIdentity, recovery};

/// The advice to an operator about a log that is gone.
const LOST: &str = "bring it back and restart this node; or give it up: move the directory of the replica away, and start the node once with \
                    --rejoin";

/// The counts of writes when a journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// How many writes were done once more.
    pub writes: u64,
    /// How many were let go, because their logs are gone for good, or do not need them any more.
    pub let_go: u64,
    /// How many are kept, because their logs cannot be written to.
    pub kept: u64,
}

/// The writes that are to be done once more to one log.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    writes: Vec<Place>,
    /// How many of the writes stand in files of their own.
    kept: usize,
    files: Vec<KeptName>,
    /// Why the files cannot be read.
    unreadable: Option<LogError>,
}

/// All that is to be done once more, by log.
#[derive(Debug, Default)]
pub(super) struct Replay {
    logs: BTreeMap<Whose, Wanted>,
    /// The number of the next file that keeps writes.
    next_file: u64,
}

/// The result of a replay.
#[derive(Debug)]
pub(super) struct Done<D> {
    pub(super) replayed: Replayed,
    /// The logs that lack writes.
    pub(super) held: Vec<(Whose, Held<D>)>,
    /// The files that keep writes which are settled, once that is noted.
    pub(super) unneeded: Vec<KeptName>,
    /// Why something could not be kept, if so: then nothing may be noted as settled.
    pub(super) failure: Option<LogError>,
    /// The number of the next file that keeps writes.
    pub(super) next_file: u64,
}

impl Replay {
    /// The contents of the files beside the journal: of those that are there, and those that have to be.
    pub(super) fn begin(directory: &impl Directory, noted: Vec<KeptName>) -> Result<Replay, LogError> {
        let mut replay = Replay::default();
        let mut names: BTreeSet<KeptName> = kept::list(directory)?.into_iter().collect();
        names.extend(noted);
        for name in names {
            replay.next_file = replay.next_file.max(name.number.saturating_add(1));
            let wanted = replay.logs.entry(name.whose).or_default();
            wanted.files.push(name);
            match kept::read(directory, name) {
                Ok(writes) => wanted.writes.extend(writes),
                Err(error) => wanted.unreadable = Some(error),
            }
            wanted.kept = wanted.writes.len();
        }
        Ok(replay)
    }

    /// Adds the writes of a record of the journal. False if they cannot be understood.
    pub(super) fn add(&mut self, record: Bytes) -> bool {
        let Some(writes) = kept::take_writes(record) else { return false };
        for (whose, place) in writes {
            self.logs.entry(whose).or_default().writes.push(place);
        }
        true
    }

    /// Does all writes once more, or keeps them.
    pub(super) fn run<D: Directory>(
        mut self,
        directory: &D,
        cluster: u64,
        place: impl Fn(ReplicaId) -> Whereabouts<D>,
    ) -> Done<D> {
        let replayed = Replayed::default();
        let mut done = Done { replayed, held: Vec::new(), unneeded: Vec::new(), failure: None, next_file: 0 };
        for (whose, mut wanted) in std::mem::take(&mut self.logs) {
            let count = wanted.writes.len() as u64;
            let place = place(whose.replica);
            match do_again(&mut wanted, whose, cluster, &place) {
                Ok(written) => {
                    done.replayed.writes += written;
                    done.replayed.let_go += count - written;
                    done.unneeded.extend(wanted.files);
                }
                Err(error) => {
                    done.replayed.kept += count;
                    let kept = self.keep(directory, whose, &mut wanted);
                    let place = match place {
                        Whereabouts::Here(directory) if kept.is_ok() => Some(directory),
                        _ => None,
                    };
                    done.held.push((whose, Held { files: wanted.files, place, is_loss: error.is_loss() }));
                    tracing::error!(
                        replica = %whose.replica, log = format_args!("{:016x}", whose.incarnation), %error,
                        writes = count, journal = %directory.path().display(),
                        "the journal keeps what the log of a replica has acknowledged and cannot be given now: {}",
                        if error.is_loss() { LOST } else { error.remedy() }
                    );
                    if let Err(error) = kept {
                        done.failure = Some(error);
                    }
                }
            }
        }
        done.next_file = self.next_file;
        done
    }

    /// Keeps what no file keeps yet.
    fn keep(
        &mut self,
        directory: &impl Directory,
        whose: Whose,
        wanted: &mut Wanted,
    ) -> Result<(), LogError> {
        let mut writes = BytesMut::new();
        for Place { segment, offset, bytes } in &wanted.writes[wanted.kept..] {
            kept::put_write(&mut writes, whose, *segment, *offset, bytes);
        }
        if writes.is_empty() {
            return Ok(());
        }
        let name = KeptName { whose, number: self.next_file };
        self.next_file += 1;
        kept::keep(directory, name, &writes)?;
        wanted.files.push(name);
        Ok(())
    }
}

/// Gives a log what files beside the journal keep of it.
pub(super) fn again<D: Directory>(
    directory: &D,
    cluster: u64,
    whose: Whose,
    files: &[KeptName],
    log: &D,
) -> Result<(), LogError> {
    // Only the next process lets go what belongs to a log in whose place another one stands.
    if Log::incarnation_in(log, LogIdentity { cluster, replica: whose.replica })? != whose.incarnation {
        return Err(LogError::Hidden { directory: log.path().to_owned() });
    }
    let mut wanted = Wanted::default();
    for name in files {
        wanted.writes.extend(kept::read(directory, *name)?);
    }
    do_again(&mut wanted, whose, cluster, &Whereabouts::Here(log.clone())).map(drop)
}

/// Does the writes to a log once more, as far as it needs them, and makes them durable; gives how many.
fn do_again<D: Directory>(
    wanted: &mut Wanted,
    Whose { replica, incarnation }: Whose,
    cluster: u64,
    place: &Whereabouts<D>,
) -> Result<u64, LogError> {
    let identity = LogIdentity { cluster, replica };
    let directory = match place {
        Whereabouts::Here(directory) => directory,
        Whereabouts::Hidden(directory) => {
            return Err(LogError::Hidden { directory: directory.path().to_owned() });
        }
        Whereabouts::GivenUp => return Ok(0),
    };
    let there = segment::list(directory)?;
    let Some(last) = there.last() else {
        return Err(LogError::Missing { directory: directory.path().to_owned() });
    };
    let (header, _) = segment::peek(directory, *last, identity)?;
    if header.incarnation != incarnation {
        return Ok(0);
    }
    if let Some(error) = wanted.unreadable.take() {
        return Err(error);
    }
    // No other process may use it.
    let _lock = segment::lock(directory)?;
    let first = first_of(directory, &there, identity)?;
    let needed: Vec<&Place> = wanted.writes.iter().filter(|place| place.segment >= first).collect();
    check(directory, &there, first, &needed, Whose { replica, incarnation }, identity)?;
    let mut segments: BTreeMap<u32, Segment<D>> = BTreeMap::new();
    for Place { segment: number, offset, bytes } in &needed {
        let segment = match segments.entry(*number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let (header, _) = segment::peek(directory, *number, identity)?;
                vacant.insert(Segment::open(directory, header)?)
            }
        };
        segment.write(bytes, (*offset).into())?;
    }
    segments.values().try_for_each(Segment::sync)?;
    Ok(needed.len() as u64)
}

/// Checks that a log with these writes can be read up to the last one. In an older copy of it they would stand behind a gap, and be gone for
/// the log itself when that is brought back.
fn check<D: Directory>(
    directory: &D,
    there: &[u32],
    first: u32,
    needed: &[&Place],
    whose: Whose,
    identity: LogIdentity,
) -> Result<(), LogError> {
    let numbers = || needed.iter().map(|place| place.segment);
    let (Some(from), Some(to)) = (numbers().min(), numbers().max()) else { return Ok(()) };
    // The segment before has to be full.
    for number in (from - 1).max(first)..=to {
        let file = segment::path(directory, number);
        if !there.contains(&number) {
            return Err(LogError::MissingSegment { file });
        }
        let (header, mut bytes) = segment::read(directory, number, identity)?;
        if header.incarnation != whose.incarnation {
            return Err(LogError::ForeignIncarnation { file });
        }
        bytes.resize(header.bytes as usize, 0);
        let mut written_end = 0;
        for place in needed.iter().filter(|place| place.segment == number) {
            let (begin, length) = (place.offset as usize, place.bytes.len());
            let Some(room) = bytes.get_mut(begin..begin + length) else {
                let what = "the journal has writes that go beyond it";
                return Err(LogError::Corrupt { file, offset: begin as u64, what });
            };
            room.copy_from_slice(&place.bytes);
            written_end = written_end.max(begin + length);
        }
        let (end, is_sealed) = recovery::readable(&bytes, &header);
        let is_read_through = is_sealed || (number == to && end as usize >= written_end);
        if !is_read_through {
            let what = "what it had acknowledged before the writes that the journal has cannot be read: it may be an older copy";
            return Err(LogError::Corrupt { file, offset: end.into(), what });
        }
    }
    Ok(())
}

/// The segment that a log begins with, as it says itself.
fn first_of(directory: &impl Directory, there: &[u32], identity: LogIdentity) -> Result<u32, LogError> {
    for number in there.iter().rev() {
        if segment::peek(directory, *number, identity)?.1 {
            return Ok(*number);
        }
    }
    Ok(1)
}
