//! An attic in a file: values that do not fit into memory, in slots of one size each.
//!
//! ```text
//!   slot   CRC of place, length and value | length | value | anything up to the size of the slot
//! ```
//!
//! Sizes of slots grow by a quarter at most. A slot that is given up is used again for a value of its size; nothing is moved, and the file never
//! shrinks while it is used. It is emptied when it is created, because nothing in it is ever needed by another process (see
//! [`quorate_core::attic`]), and never synced.
//!
//! New slots are gathered in memory before they are written together at the end of the file: a replica that is rebuilt fills its attic with millions.
//! If they cannot be written they stay in memory, and the attic takes nothing more until they are.
//!
//! The place of a value names its slot, and how many values were put before it, modulo four million. The checksum covers the place: what a disk
//! has written elsewhere, what stands in the slot from an earlier value, and a place that was given up are all found when the slot is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use quorate_core::Value;
use quorate_core::attic::{Attic, AtticPlace, Guarded};

use crate::directory::LogFile;

/// The bytes of a slot before its value.
const HEADER: usize = 8;

/// Slots begin at multiples of this.
const UNIT: u64 = 16;

/// Of a place, so many bits name the unit at which the slot begins: files of 256 GiB at most,
const UNIT_BITS: u32 = 34;

/// so many its size,
const SIZE_BITS: u32 = 6;

/// and so many tell values apart that lie in it one after the other.
const TURN_BITS: u32 = AtticPlace::BITS - UNIT_BITS - SIZE_BITS;

/// The number of sizes: the last one holds the longest value.
const SIZES: usize = 49;

const _: () = assert!(SIZES <= 1 << SIZE_BITS, "each size has a number");

/// The sizes of slots, in units.
const UNITS: [u64; SIZES] = {
    let mut units = [2; SIZES];
    let mut at = 1;
    while at < SIZES {
        let quarter = units[at - 1] / 4;
        units[at] = units[at - 1] + if quarter == 0 { 1 } else { quarter };
        at += 1;
    }
    units
};

/// After a value could not be put, so many are not even tried: what has no room now has none a moment later.
const REFUSALS: u32 = 64;

/// An attic in a file.
#[derive(Debug)]
pub struct FileAttic<F> {
    file: F,
    bounds: Arc<AtticBounds>,
    /// So many bytes of new slots are gathered before they are written.
    gathered_bytes: usize,
    has_failed: AtomicBool,
    inner: Guarded<Inner>,
}

/// The bounds of attics, which their host may change.
#[derive(Debug, Default)]
pub struct AtticBounds {
    memory_bytes: AtomicUsize,
    is_full: AtomicBool,
}

#[derive(Debug, Default)]
struct Inner {
    /// Slots that are not used, by their size.
    vacant: Vec<Vec<u64>>,
    /// Where the last slot ends, in units.
    end: u64,
    /// The last slots, which are not written yet.
    gathered: Vec<u8>,
    turn: u64,
    /// Values are not tried for so long.
    refuses: u32,
    /// The bytes of the slot that is written.
    scratch: Vec<u8>,
    seen: AtticStatus,
}

/// The contents of an attic, and its reads, writes and failures so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AtticStatus {
    /// How many values are in it.
    pub values: u64,
    /// How much of the file their slots take, in bytes.
    pub bytes: u64,
    /// How long the file is, in bytes, once everything is written.
    pub file_bytes: u64,
    /// How many values were put.
    pub puts: u64,
    /// How many values were read.
    pub reads: u64,
    /// Why the last value that could not be put has stayed in memory; none if the last one that was tried was put.
    pub stays: Option<String>,
    /// Why a value could not be read, which is the end of its machine.
    pub failure: Option<String>,
}

impl<F: LogFile> FileAttic<F> {
    /// An attic in an empty file, which writes new slots once they have so many bytes.
    pub fn new(file: F, bounds: Arc<AtticBounds>, gathered_bytes: usize) -> Self {
        let inner = Inner { vacant: vec![Vec::new(); SIZES], ..Inner::default() };
        let has_failed = AtomicBool::new(false);
        FileAttic { file, bounds, gathered_bytes, has_failed, inner: Guarded::new(inner) }
    }

    /// Its contents, and its reads, writes and failures so far.
    pub fn status(&self) -> AtticStatus {
        self.inner.with(|inner| AtticStatus { file_bytes: inner.end * UNIT, ..inner.seen.clone() })
    }

    fn try_put(&self, inner: &mut Inner, value: &[u8]) -> Result<AtticPlace, String> {
        let bytes = (HEADER + value.len()) as u64;
        let size = UNITS.partition_point(|units| units * UNIT < bytes);
        let units =
            *UNITS.get(size).ok_or_else(|| format!("a value of {} bytes is too long", value.len()))?;
        let reused = inner.vacant[size].last().copied();
        let unit = match reused {
            Some(unit) => unit,
            None if self.bounds.is_full.load(Ordering::Relaxed) => {
                return Err("there is little room left on the disk, which logs need".to_owned());
            }
            None if (inner.end + units) >> UNIT_BITS > 0 => {
                return Err("the file is as long as it can be".to_owned());
            }
            None => {
                if inner.gathered.len() >= self.gathered_bytes {
                    self.write_gathered(inner)?;
                }
                inner.end
            }
        };
        let turn = inner.turn & ((1 << TURN_BITS) - 1);
        let number = unit | (size as u64) << UNIT_BITS | turn << (UNIT_BITS + SIZE_BITS);
        let place = AtticPlace::new(number).ok_or("a place has too many bits")?;
        let (written, bytes) = (inner.written(), (units * UNIT) as usize);
        match unit.checked_sub(written) {
            // Beside the others that are not written yet, or behind them.
            Some(after) => {
                let from = (after * UNIT) as usize;
                let rest = inner.gathered.len().max(from + bytes);
                inner.gathered.resize(rest, 0);
                fill(&mut inner.gathered[from..from + bytes], place, value);
            }
            None => {
                inner.scratch.resize(bytes, 0);
                fill(&mut inner.scratch, place, value);
                self.file.write_all_at(&inner.scratch, unit * UNIT).map_err(|error| error.to_string())?;
            }
        }
        match reused {
            Some(_) => _ = inner.vacant[size].pop(),
            None => inner.end += units,
        }
        assert!(
            inner.written() == written,
            "slots that are not written do not follow each other up to the end"
        );
        inner.turn += 1;
        Ok(place)
    }

    /// Writes the slots that were gathered. They stay in memory if that fails.
    fn write_gathered(&self, inner: &mut Inner) -> Result<(), String> {
        let at = inner.written() * UNIT;
        self.file.write_all_at(&inner.gathered, at).map_err(|error| error.to_string())?;
        inner.gathered.clear();
        Ok(())
    }

    fn try_value(&self, place: AtticPlace) -> Result<Value, String> {
        let (unit, units) = slot_of(place);
        let slot = match self.inner.with(|inner| inner.gathered_slot(unit, units)) {
            Some(slot) => slot,
            None => self.file.read_at(unit * UNIT, units * UNIT).map_err(|error| error.to_string())?,
        };
        let Some((header, rest)) = slot.split_at_checked(HEADER) else {
            return Err("the file ends before it".to_owned());
        };
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        match rest.get(..word(4) as usize) {
            Some(value) if checksum(place, value) == word(0) => {
                let end = HEADER + value.len();
                Ok(Value::from(slot).slice(HEADER..end))
            }
            _ => Err("its slot holds something else".to_owned()),
        }
    }
}

impl Inner {
    /// Where the slots end that are in the file, in units.
    fn written(&self) -> u64 {
        self.end - self.gathered.len() as u64 / UNIT
    }

    /// The bytes of a slot that is not written yet.
    fn gathered_slot(&self, unit: u64, units: u64) -> Option<Vec<u8>> {
        let from = (unit.checked_sub(self.written())? * UNIT) as usize;
        self.gathered.get(from..)?.get(..(units * UNIT) as usize).map(<[u8]>::to_vec)
    }
}

impl AtticBounds {
    /// Replicas may take so many bytes of memory each, and files may grow.
    pub fn new(memory_bytes: usize) -> Self {
        let bounds = AtticBounds::default();
        bounds.set_memory_bytes(memory_bytes);
        bounds
    }

    /// From now on replicas may take so many bytes of memory each.
    pub fn set_memory_bytes(&self, memory_bytes: usize) {
        self.memory_bytes.store(memory_bytes, Ordering::Relaxed);
    }

    /// From now on files may grow, or may not, so that logs have the room.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }
}

/// Where the slot of a place begins, and how long it is, in units.
fn slot_of(place: AtticPlace) -> (u64, u64) {
    let bits = |from: u32, count: u32| place.number() >> from & ((1 << count) - 1);
    (bits(0, UNIT_BITS), UNITS.get(bits(UNIT_BITS, SIZE_BITS) as usize).copied().unwrap_or_default())
}

/// Fills a slot up to its end, so that it can be read as a whole.
fn fill(slot: &mut [u8], place: AtticPlace, value: &[u8]) {
    let (header, rest) = slot.split_at_mut(HEADER);
    header[..4].copy_from_slice(&checksum(place, value).to_le_bytes());
    header[4..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    rest[..value.len()].copy_from_slice(value);
    rest[value.len()..].fill(0);
}

fn checksum(place: AtticPlace, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&place.number().to_le_bytes());
    hasher.update(&(value.len() as u32).to_le_bytes());
    hasher.update(value);
    hasher.finalize()
}

impl<F: LogFile + Send + Sync> Attic for FileAttic<F> {
    fn memory_bytes(&self) -> usize {
        self.bounds.memory_bytes.load(Ordering::Relaxed)
    }

    fn put(&self, value: &[u8]) -> Option<AtticPlace> {
        self.inner.with(|inner| {
            if inner.refuses > 0 {
                inner.refuses -= 1;
                return None;
            }
            match self.try_put(inner, value) {
                Ok(place) => {
                    inner.seen.puts += 1;
                    inner.seen.values += 1;
                    inner.seen.bytes += slot_of(place).1 * UNIT;
                    inner.seen.stays = None;
                    Some(place)
                }
                Err(why) => {
                    inner.refuses = REFUSALS;
                    inner.seen.stays = Some(why);
                    None
                }
            }
        })
    }

    fn value(&self, place: AtticPlace) -> Option<Value> {
        let value = self.try_value(place);
        self.inner.with(|inner| {
            inner.seen.reads += 1;
            let why = match value {
                Ok(value) => return Some(value),
                Err(why) => why,
            };
            inner.seen.failure = Some(why);
            self.has_failed.store(true, Ordering::Relaxed);
            None
        })
    }

    fn give_up(&self, place: AtticPlace) {
        let (unit, units) = slot_of(place);
        let size = UNITS.partition_point(|known| *known < units);
        self.inner.with(|inner| {
            inner.vacant[size].push(unit);
            inner.seen.values -= 1;
            inner.seen.bytes -= units * UNIT;
        });
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};
    use std::sync::{Mutex, MutexGuard};

    use proptest::prelude::*;

    use super::*;

    /// Memory, which can be full, and changed by a test.
    #[derive(Clone, Debug, Default)]
    struct Memory(Arc<Mutex<Contents>>);

    #[derive(Debug, Default)]
    struct Contents {
        bytes: Vec<u8>,
        is_full: bool,
        is_gone: bool,
    }

    impl Memory {
        fn contents(&self) -> MutexGuard<'_, Contents> {
            self.0.lock().unwrap()
        }
    }

    impl LogFile for Memory {
        fn length(&self) -> io::Result<u64> {
            Ok(self.contents().bytes.len() as u64)
        }

        fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
            let contents = self.contents();
            if contents.is_gone {
                return Err(io::Error::other("the disk does not answer"));
            }
            Ok(contents.bytes.iter().skip(offset as usize).take(bytes_max as usize).copied().collect())
        }

        fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
            let mut contents = self.contents();
            if contents.is_full {
                return Err(ErrorKind::StorageFull.into());
            }
            let (from, to) = (offset as usize, offset as usize + bytes.len());
            if contents.bytes.len() < to {
                contents.bytes.resize(to, 0);
            }
            contents.bytes[from..to].copy_from_slice(bytes);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            panic!("nothing in an attic has to be durable")
        }
    }

    /// An attic that writes each slot when the next one comes.
    fn attic() -> (FileAttic<Memory>, Memory) {
        gathering(1)
    }

    fn gathering(bytes: usize) -> (FileAttic<Memory>, Memory) {
        let memory = Memory::default();
        (FileAttic::new(memory.clone(), Arc::default(), bytes), memory)
    }

    #[test]
    fn sizes_of_slots_grow_by_a_quarter_and_hold_every_value() {
        for pair in UNITS.windows(2) {
            assert!(pair[0] < pair[1] && (pair[1] - pair[0] == 1 || pair[1] * 4 <= pair[0] * 5), "{pair:?}");
        }
        let longest = (quorate_core::transaction::VALUE_BYTES_MAX + HEADER) as u64;
        assert!(UNITS[SIZES - 1] * UNIT >= longest && UNITS[SIZES - 2] * UNIT < longest);
    }

    #[test]
    fn a_slot_is_used_again_and_the_file_does_not_grow() {
        let (attic, memory) = attic();
        let first = attic.put(&[1; 100]).unwrap();
        let other = attic.put(&[2; 500]).unwrap();
        let length = attic.status().file_bytes;
        attic.give_up(first);
        let second = attic.put(&[3; 101]).unwrap();
        assert!(memory.length().unwrap() < length, "the last slot is not written yet");
        assert_eq!(slot_of(first), slot_of(second));
        assert_ne!(first, second, "a place is not given twice");
        assert_eq!(attic.value(second).as_deref(), Some(&[3; 101][..]));
        assert_eq!(attic.value(other).as_deref(), Some(&[2; 500][..]));
        let status = attic.status();
        assert_eq!((status.values, status.puts, status.reads), (2, 3, 2));
        assert_eq!((status.file_bytes, status.bytes), (length, length));
        assert!(!attic.has_failed());
    }

    #[test]
    fn a_place_that_was_given_up_cannot_be_read() {
        let (attic, _) = attic();
        let stale = attic.put(&[1; 100]).unwrap();
        attic.give_up(stale);
        attic.put(&[1; 100]).unwrap();
        assert_eq!((attic.value(stale), attic.has_failed()), (None, true));
        assert!(attic.status().failure.unwrap().contains("something else"));
    }

    #[test]
    fn every_bit_of_a_value_and_its_header_counts() {
        let (attic, memory) = attic();
        let place = attic.put(b"salt").unwrap();
        attic.put(b"pepper").unwrap();
        for bit in 0..(HEADER + 4) * 8 {
            memory.contents().bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(attic.value(place), None, "bit {bit}");
            memory.contents().bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(attic.value(place).is_some());
        memory.contents().bytes.truncate(4);
        assert_eq!(attic.value(place), None, "the file is cut off");
        memory.contents().is_gone = true;
        assert_eq!(attic.value(place), None);
        assert!(attic.status().failure.unwrap().contains("does not answer"));
    }

    #[test]
    fn a_full_disk_takes_nothing_and_is_asked_again_later() {
        let (attic, memory) = attic();
        let kept = attic.put(b"salt").unwrap();
        let other = attic.put(b"pepper").unwrap();
        memory.contents().is_full = true;
        assert_eq!(attic.put(b"cumin"), None);
        assert!(attic.status().stays.is_some());
        attic.give_up(kept);
        memory.contents().is_full = false;
        assert_eq!((0..REFUSALS).filter_map(|_| attic.put(b"cumin")).count(), 0);
        let again = attic.put(b"cumin").expect("there is room again");
        assert_eq!(slot_of(again), slot_of(kept));
        assert_eq!((attic.status().stays, attic.status().values), (None, 2));
        assert_eq!(attic.value(other).as_deref(), Some(&b"pepper"[..]));
        assert!(!attic.has_failed());
    }

    #[test]
    fn slots_are_gathered_and_stay_in_memory_while_they_cannot_be_written() {
        let (attic, memory) = gathering(1_000);
        let values: Vec<Vec<u8>> = (0..20).map(|number| vec![number; 100]).collect();
        let mut places: Vec<AtticPlace> = values.iter().map_while(|value| attic.put(value)).collect();
        let slot = attic.status().file_bytes / 20;
        let together = 1_000_u64.next_multiple_of(slot);
        assert_eq!(memory.length().unwrap(), 2 * together, "a thousand bytes at a time");
        // One of those that are not written yet is given up, and used again.
        attic.give_up(places[19]);
        places[19] = attic.put(&values[19]).unwrap();
        memory.contents().is_full = true;
        let more: Vec<AtticPlace> = (0..20).map_while(|_| attic.put(&[100; 100])).collect();
        assert!((1..20).contains(&more.len()), "{}", more.len());
        let all = |attic: &FileAttic<Memory>| {
            places
                .iter()
                .zip(&values)
                .all(|(place, value)| attic.value(*place).as_deref() == Some(&value[..]))
                && more.iter().all(|place| attic.value(*place).as_deref() == Some(&[100; 100][..]))
        };
        assert!(all(&attic));
        memory.contents().is_full = false;
        assert!((0..=REFUSALS).any(|_| attic.put(&[101; 100]).is_some()));
        assert!(all(&attic) && memory.length().unwrap() >= 20 * slot);
    }

    #[test]
    fn where_room_is_short_only_slots_that_are_there_are_used() {
        let memory = Memory::default();
        let bounds = Arc::new(AtticBounds::new(7));
        let attic = FileAttic::new(memory.clone(), Arc::clone(&bounds), 1);
        assert_eq!(attic.memory_bytes(), 7);
        let first = attic.put(b"salt").unwrap();
        bounds.set_full(true);
        attic.give_up(first);
        assert!(attic.put(b"pepper").is_some());
        assert_eq!(attic.put(b"cumin"), None);
        assert!(attic.status().stays.unwrap().contains("logs need"));
        assert!(memory.length().unwrap() <= attic.status().file_bytes);
    }

    proptest! {
        #[test]
        fn it_is_a_map_of_places_to_values(
            changes in proptest::collection::vec((0usize..400, any::<u8>(), any::<bool>()), 0..200),
            gathered in 0usize..2_000,
        ) {
            let (attic, _) = gathering(gathered);
            let mut model: Vec<(AtticPlace, Vec<u8>)> = Vec::new();
            for (len, byte, puts) in changes {
                if puts || model.is_empty() {
                    let value = vec![byte; len];
                    let place = attic.put(&value).unwrap();
                    prop_assert!(model.iter().all(|(known, _)| *known != place));
                    model.push((place, value));
                } else {
                    let (place, value) = model.swap_remove(len % model.len());
                    let found = attic.value(place);
                    prop_assert_eq!(found.as_deref(), Some(&value[..]));
                    attic.give_up(place);
                }
            }
            for (place, value) in &model {
                let found = attic.value(*place);
                prop_assert_eq!(found.as_deref(), Some(&value[..]));
            }
            prop_assert_eq!(attic.status().values, model.len() as u64);
            prop_assert!(!attic.has_failed());
        }
    }
}
