//! An operation while it runs: what it sees, what it has written, and what it has touched.
//!
//! Nothing that it writes stands in the shard before it has come to its end. So what refuses, or meets a
//! lock, has changed nothing.

use std::cell::Cell;

use quorate_core::transaction::{TRANSACTION_BYTES_MAX, TRANSACTION_ENTRIES_MAX};
use quorate_core::{Key, KeyRange, TransactionId, Value};
use quorate_granola::Place;

use super::locks::{Access, Locks, Touched};
use super::versions::{Seen, Versions, Writes};

/// The cost of each key that is read or written, beside its bytes.
pub(crate) const ENTRY_BYTES: usize = 64;

/// How an operation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// To its end, at this place.
    Run(Place),
    /// The same, whatever is locked.
    RunAnyway(Place),
    /// To its end without writing, and sees what stands before this place.
    Read(Place),
    /// Up to where it could be committed.
    Prepare,
}

/// Why an operation ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It touches what another transaction has locked.
    Locked,
    /// It writes, and was to read only.
    ReadOnly,
    /// It reads or writes more than a transaction may.
    TooLarge,
}

/// An operation while it runs.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    keys: &'a Versions,
    locks: &'a Locks,
    mode: Mode,
    /// The writes of the transaction.
    pub(crate) writes: Writes,
    /// The keys that it has touched, if somebody may have to lock them.
    pub(crate) touched: Touched,
    /// If it only reads: a transaction that is prepared and may change what it has read.
    pub(crate) locked_by: Option<TransactionId>,
    /// True if something that it has read was written at its place or above: then its answer is wrong.
    pub(crate) is_out_of_order: bool,
    /// True once it has asked for its place and has none.
    lacks_place: Cell<bool>,
    bytes: usize,
    entries: usize,
}

impl<'a> Work<'a> {
    pub(crate) fn new(keys: &'a Versions, locks: &'a Locks, mode: Mode) -> Self {
        let (writes, touched) = (Writes::new(), Touched::default());
        Work {
            keys,
            locks,
            mode,
            writes,
            touched,
            locked_by: None,
            is_out_of_order: false,
            lacks_place: Cell::new(false),
            bytes: 0,
            entries: 0,
        }
    }

    /// The version of a key.
    pub(crate) fn read(&mut self, key: &Key) -> Result<Option<Seen<'_>>, Halt> {
        self.touch_key(key, Access::Read)?;
        let found = match self.mode {
            Mode::Read(before) => self.keys.before(key, before),
            Mode::Run(_) | Mode::RunAnyway(_) | Mode::Prepare => self.keys.newest(key),
        };
        self.count(key.len() + found.map_or(0, |version| version.value.len()))?;
        if let Some(version) = found {
            self.is_out_of_order |= !self.is_below(version.place);
        }
        if !self.writes.is_empty()
            && let Some(written) = self.writes.get(key)
        {
            return Ok(written.as_ref().map(Seen::written));
        }
        Ok(found.map(Seen::of))
    }

    /// Sets what a key holds; none removes it.
    pub(crate) fn write(&mut self, key: Key, value: Option<Value>) -> Result<(), Halt> {
        if let Mode::Read(_) = self.mode {
            return Err(Halt::ReadOnly);
        }
        self.touch_key(&key, Access::Write)?;
        self.count(key.len() + value.as_ref().map_or(0, |value| value.len()))?;
        self.writes.insert(key, value);
        Ok(())
    }

    /// Looks at the keys of a range, from one end, until it is told to stop. True if it was.
    pub(crate) fn scan(
        &mut self,
        range: &KeyRange,
        descending: bool,
        mut visit: impl FnMut(&Key, Seen<'_>) -> bool,
    ) -> Result<bool, Halt> {
        let before = match self.mode {
            Mode::Read(before) => Some(before),
            Mode::Run(_) | Mode::RunAnyway(_) | Mode::Prepare => None,
        };
        let keys = self.keys;
        let (mut bytes, mut entries, mut last, mut is_in_order) = (self.bytes, self.entries, None, true);
        for (key, seen) in keys.scan(range, before, &self.writes, descending) {
            is_in_order &= seen.place.is_none_or(|place| self.is_below(place));
            if !visit(key, seen) {
                last = Some(key.clone());
                break;
            }
            bytes += ENTRY_BYTES + key.len() + seen.value.len();
            entries += 1;
            if bytes > TRANSACTION_BYTES_MAX || entries > TRANSACTION_ENTRIES_MAX {
                break;
            }
        }
        // Before it counts: whether it meets a lock says nothing of what it has read.
        self.touch_range(covered(range, last.as_ref(), descending))?;
        self.is_out_of_order |= !is_in_order;
        (self.bytes, self.entries) = (bytes, entries);
        self.count(0)?;
        Ok(last.is_some())
    }

    /// True if what was written there stands below whatever runs.
    fn is_below(&self, version: Place) -> bool {
        match self.mode {
            Mode::Run(place) | Mode::RunAnyway(place) => version < place,
            Mode::Read(_) | Mode::Prepare => true,
        }
    }

    fn touch_key(&mut self, key: &Key, access: Access) -> Result<(), Halt> {
        self.meet_lock(|locks| locks.has_key(key, access), |locks| locks.writer_of_key(key))?;
        if self.mode == Mode::Prepare {
            self.touched.key(key, access);
        }
        Ok(())
    }

    fn touch_range(&mut self, range: KeyRange) -> Result<(), Halt> {
        self.meet_lock(|locks| locks.has_range(&range, Access::Read), |locks| locks.writer_of_range(&range))?;
        if self.mode == Mode::Prepare {
            self.touched.range(range, Access::Read);
        }
        Ok(())
    }

    /// Reads every key, without looking at any: what is locked may be about to change one.
    pub(crate) fn touch_all(&mut self) -> Result<(), Halt> {
        self.touch_range(KeyRange { from: Key::default(), to: None })
    }

    /// Asks which procedures there are, or changes that.
    pub(crate) fn touch_procedures(&mut self, access: Access) -> Result<(), Halt> {
        if access == Access::Write && matches!(self.mode, Mode::Read(_)) {
            return Err(Halt::ReadOnly);
        }
        self.meet_lock(|locks| locks.has_procedures(access), Locks::writer_of_procedures)?;
        let is_written = self.touched.procedures == Some(Access::Write);
        self.touched.procedures = Some(if is_written { Access::Write } else { access });
        Ok(())
    }

    /// Looks whether a lock stands against it. A transaction that only reads goes on, and says which transaction holds such a lock.
    fn meet_lock(
        &mut self,
        is_locked: impl FnOnce(&Locks) -> bool,
        writer: impl FnOnce(&Locks) -> Option<TransactionId>,
    ) -> Result<(), Halt> {
        match self.mode {
            Mode::Read(_) => self.locked_by = self.locked_by.or_else(|| writer(self.locks)),
            Mode::RunAnyway(_) => {}
            Mode::Run(_) | Mode::Prepare => {
                return if is_locked(self.locks) { Err(Halt::Locked) } else { Ok(()) };
            }
        }
        Ok(())
    }

    /// The place before which it sees what procedures there are.
    pub(crate) fn before(&self) -> Option<Place> {
        match self.mode {
            Mode::Read(before) => Some(before),
            Mode::Run(_) | Mode::RunAnyway(_) | Mode::Prepare => None,
        }
    }

    /// The place where it runs, if that is known yet. Its effects depend on that from here on.
    pub(crate) fn ask_place(&self) -> Option<Place> {
        match self.mode {
            Mode::Run(place) | Mode::RunAnyway(place) | Mode::Read(place) => Some(place),
            Mode::Prepare => {
                self.lacks_place.set(true);
                None
            }
        }
    }

    /// True if it has asked for its place, and that is not known yet.
    pub(crate) fn lacks_place(&self) -> bool {
        self.lacks_place.get()
    }

    fn count(&mut self, bytes: usize) -> Result<(), Halt> {
        self.bytes += ENTRY_BYTES + bytes;
        self.entries += 1;
        let is_too_large = self.bytes > TRANSACTION_BYTES_MAX || self.entries > TRANSACTION_ENTRIES_MAX;
        if is_too_large { Err(Halt::TooLarge) } else { Ok(()) }
    }
}

/// The part of a range that a scan has looked at that stopped at a key, that key included.
fn covered(range: &KeyRange, last: Option<&Key>, descending: bool) -> KeyRange {
    match last {
        None => range.clone(),
        Some(last) if descending => KeyRange { from: last.clone(), to: range.to.clone() },
        Some(last) => {
            let after = Key::from([last.as_slice(), b"\0"].concat());
            KeyRange { from: range.from.clone(), to: Some(after) }
        }
    }
}
