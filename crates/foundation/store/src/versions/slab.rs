//! The entries of keys, each in a slot that stays its own as long as the key has a version.
//!
//! Entries lie in chunks that are never moved, so that a key space that grows copies nothing: its loop waits for no copy of
//! everything that it holds, and no moment needs twice the memory.

use quorate_core::{Key, Timestamp};

use super::values::Content;

/// Where the entry of a key lies. A slot whose key is gone is given to another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(u32);

/// A key and its newest version: a line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) key: Key,
    pub(super) timestamp: Timestamp,
    pub(super) content: Content,
}

const _: () = assert!(size_of::<Entry>() == 64, "an entry is one line of the cache");

/// The entries of a chunk: 256 KiB.
const CHUNK: usize = 4_096;

/// All entries.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<Vec<Entry>>,
    /// Slots whose keys are gone.
    vacant: Vec<Slot>,
    /// The bytes of keys that do not fit into their entries.
    key_bytes: usize,
}

impl Slab {
    /// Puts an entry into a slot.
    pub(super) fn insert(&mut self, entry: Entry) -> Slot {
        self.key_bytes += outside(&entry.key);
        if let Some(slot) = self.vacant.pop() {
            self.chunks[slot.chunk()][slot.place()] = entry;
            return slot;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first one grows as its keys come: most replicas of a test hold few.
            let capacity = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(capacity));
        }
        let number = (self.chunks.len() - 1) * CHUNK;
        let last = self.chunks.last_mut().expect("a chunk was just seen to");
        let number = u32::try_from(number + last.len()).expect("four thousand million entries are 256 GiB");
        last.push(entry);
        Slot(number)
    }

    /// Takes an entry out of its slot.
    pub(super) fn remove(&mut self, slot: Slot) -> Entry {
        let vacant = Entry { key: Key::default(), timestamp: Timestamp::ZERO, content: Content::VACANT };
        let entry = std::mem::replace(self.entry_mut(slot), vacant);
        assert!(!entry.content.is_vacant(), "{slot:?} is given up, and no key had it");
        self.key_bytes -= outside(&entry.key);
        self.vacant.push(slot);
        entry
    }

    pub(super) fn entry(&self, slot: Slot) -> &Entry {
        &self.chunks[slot.chunk()][slot.place()]
    }

    pub(super) fn entry_mut(&mut self, slot: Slot) -> &mut Entry {
        &mut self.chunks[slot.chunk()][slot.place()]
    }

    pub(super) fn key(&self, slot: Slot) -> &Key {
        &self.entry(slot).key
    }

    /// True if a key has this slot.
    pub(super) fn is_occupied(&self, slot: Slot) -> bool {
        !self.entry(slot).content.is_vacant()
    }

    /// The slots that keys have, in no order of keys.
    pub(super) fn occupied(&self) -> impl Iterator<Item = Slot> + '_ {
        let all = self.chunks.iter().flatten().zip(0..);
        all.filter(|(entry, _)| !entry.content.is_vacant()).map(|(_, number)| Slot(number))
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, Vec::len) - self.vacant.len()
    }

    /// The number of slots, whether a key has them or not.
    pub(super) fn slots(&self) -> u32 {
        (self.len() + self.vacant.len()) as u32
    }

    /// The bytes of memory that entries and keys take.
    pub(super) fn bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        let lists = self.chunks.capacity() * size_of::<Vec<Entry>>();
        let vacant = self.vacant.capacity() * size_of::<Slot>();
        entries * size_of::<Entry>() + lists + vacant + self.key_bytes
    }
}

impl Slot {
    /// No slot is before it.
    pub(super) const FIRST: Slot = Slot(0);

    fn chunk(self) -> usize {
        self.0 as usize / CHUNK
    }

    fn place(self) -> usize {
        self.0 as usize % CHUNK
    }

    pub(super) fn numbered(number: u32) -> Self {
        Slot(number)
    }

    pub(super) fn number(self) -> u32 {
        self.0
    }
}

/// The bytes of a key that lie outside of its handle.
fn outside(key: &Key) -> usize {
    if key.is_inline() { 0 } else { key.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32) -> Entry {
        let key = Key::from(number.to_be_bytes().to_vec());
        Entry { key, timestamp: Timestamp::ZERO, content: Content::DELETED }
    }

    #[test]
    fn slots_of_keys_that_are_gone_are_given_again() {
        let mut slab = Slab::default();
        let count = CHUNK as u32 + 10;
        let slots: Vec<Slot> = (0..count).map(|number| slab.insert(entry(number))).collect();
        assert_eq!((slab.len(), slab.occupied().count()), (count as usize, count as usize));
        let gone = [slots[3], slots[CHUNK]];
        for slot in gone {
            slab.remove(slot);
            assert!(!slab.is_occupied(slot));
        }
        assert_eq!((slab.len(), slab.occupied().count()), (count as usize - 2, count as usize - 2));
        let again = [slab.insert(entry(7)), slab.insert(entry(8))];
        assert_eq!(again, [gone[1], gone[0]]);
        assert_eq!(slab.occupied().collect::<Vec<_>>(), slots);
    }

    #[test]
    #[should_panic(expected = "no key had it")]
    fn a_slot_is_given_up_once() {
        let mut slab = Slab::default();
        let slot = slab.insert(entry(1));
        slab.remove(slot);
        slab.remove(slot);
    }
}
