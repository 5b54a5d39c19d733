//! Which slot a key has, by the hash of the key.
//!
//! A table that doubles moves everything at once: with twenty million keys an event loop would stand still for a second. So there
//! are many small tables, and a directory that names one for the same bits of a hash (extendible hashing: Fagin, Nievergelt,
//! Pippenger and Strong, 1979). A table that is full is divided, which moves some thousands of slots; the directory doubles now and
//! then, and is four bytes for thousands of keys.
//!
//! Keys whose hashes agree in all bits that the directory looks at share a table, which then grows as any hash table does.

use hashbrown::HashTable;

use super::slab::Slot;

/// A table with so many slots is divided: it would have to grow, and it is seven eighths of a power of two.
const TABLE_MAX: usize = 7_168;

/// The directory looks at so many bits at most: twenty are enough for all slots that there can be.
const BITS_MAX: u32 = 20;

/// The lowest bit that the directory looks at. Within a table, the lower and the highest ones tell slots apart.
const BIT_FIRST: u32 = 32;

#[derive(Debug)]
pub(super) struct Points {
    /// For each value of the bits that it looks at, a table. Two values that differ in a bit which the table does not use name the same.
    directory: Vec<u32>,
    bits: u32,
    tables: Vec<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// All hashes in it agree in so many bits.
    bits: u32,
    slots: HashTable<Slot>,
}

impl Default for Points {
    fn default() -> Self {
        Points { directory: vec![0], bits: 0, tables: vec![Table::default()] }
    }
}

impl Points {
    /// The slot with this hash that is the one.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(Slot) -> bool) -> Option<Slot> {
        let table = &self.tables[self.directory[self.place(hash)] as usize];
        table.slots.find(hash, |slot| is_it(*slot)).copied()
    }

    /// Adds a slot that is not there.
    pub(super) fn insert(&mut self, hash: u64, slot: Slot, hash_of: impl Fn(Slot) -> u64) {
        while self.table(hash).slots.len() >= TABLE_MAX && self.divide(hash, &hash_of) {}
        self.table(hash).slots.insert_unique(hash, slot, |slot| hash_of(*slot));
    }

    /// Removes a slot that is there.
    pub(super) fn remove(&mut self, hash: u64, slot: Slot) {
        let found = self.table(hash).slots.find_entry(hash, |other| *other == slot);
        let found = found.unwrap_or_else(|_| panic!("{slot:?} leaves, and the table of its key lacks it"));
        found.remove();
    }

    /// The bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        let slots: usize = self.tables.iter().map(|table| table.slots.allocation_size()).sum();
        slots + self.tables.capacity() * size_of::<Table>() + self.directory.capacity() * size_of::<u32>()
    }

    /// Where the directory names the table of a hash.
    fn place(&self, hash: u64) -> usize {
        (hash >> BIT_FIRST) as usize & (self.directory.len() - 1)
    }

    fn table(&mut self, hash: u64) -> &mut Table {
        let at = self.directory[self.place(hash)];
        &mut self.tables[at as usize]
    }

    /// Divides the table of a hash by one further bit. False if there is none.
    fn divide(&mut self, hash: u64, hash_of: &impl Fn(Slot) -> u64) -> bool {
        let at = self.directory[self.place(hash)];
        let bits = self.tables[at as usize].bits;
        if bits == BITS_MAX {
            return false;
        }
        if bits == self.bits {
            self.directory.extend_from_within(..);
            self.bits += 1;
        }
        let table = || Table { bits: bits + 1, slots: HashTable::with_capacity(TABLE_MAX) };
        let mut halves = [table(), table()];
        // Each hash is of a key that lies anywhere in memory. Nothing but that is done between two of them, so that the processor waits for several at a time.
        let slots = std::mem::take(&mut self.tables[at as usize].slots).into_iter();
        let hashed: Vec<(u64, Slot)> = slots.map(|slot| (hash_of(slot), slot)).collect();
        for (hash, slot) in hashed {
            let half = (hash >> (BIT_FIRST + bits)) as usize & 1;
            halves[half].slots.insert_unique(hash, slot, |slot| hash_of(*slot));
        }
        let [zero, one] = halves;
        let new = u32::try_from(self.tables.len()).expect("there are no more tables than values of the bits");
        self.tables[at as usize] = zero;
        self.tables.push(one);
        let first = self.place(hash) & ((1 << bits) - 1) | 1 << bits;
        for named in self.directory.iter_mut().skip(first).step_by(1 << (bits + 1)) {
            assert_eq!(*named, at, "the directory names another table for what this one holds");
            *named = new;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks for slots while they come and when every third has left again.
    fn check(hashes: &[u64]) -> Points {
        let hash_of = |slot: Slot| hashes[slot.number() as usize];
        let slots = || (0..hashes.len() as u32).map(Slot::numbered);
        let mut points = Points::default();
        for slot in slots() {
            points.insert(hash_of(slot), slot, hash_of);
        }
        let is_found = |points: &Points, slot| points.find(hash_of(slot), |other| other == slot).is_some();
        assert!(slots().all(|slot| is_found(&points, slot)));
        for slot in slots().step_by(3) {
            points.remove(hash_of(slot), slot);
        }
        assert!(slots().all(|slot| is_found(&points, slot) == (slot.number() % 3 != 0)));
        points
    }

    #[test]
    fn tables_are_divided_and_found_again() {
        let mut random = quorate_core::Random::new(1);
        let hashes: Vec<u64> = (0..20 * TABLE_MAX).map(|_| random.next_u64()).collect();
        let points = check(&hashes);
        assert!((16..64).contains(&points.tables.len()), "{}", points.tables.len());
        assert!(points.tables.iter().all(|table| table.slots.len() <= TABLE_MAX));
    }

    #[test]
    fn keys_that_nothing_tells_apart_share_a_table_and_cost_no_more_memory_than_that() {
        // They differ in bits that the directory does not look at.
        let hashes: Vec<u64> = (0..3 * TABLE_MAX as u64).collect();
        let points = check(&hashes);
        assert!(points.directory.len() <= 1 << BITS_MAX);
        assert!(points.tables.iter().any(|table| table.slots.len() > TABLE_MAX));
    }
}
