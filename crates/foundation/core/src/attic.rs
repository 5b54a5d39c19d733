//! The place of a replica for values that do not fit into memory.
//!
//! A machine has no I/O, so its host gives it an attic: a file at a server, memory with faults in the simulator. Nothing in an attic is
//! durable, and none outlives its machine: everything in it is in the log of the replica, or at its group. So no crash can make the two disagree.
//!
//! # When an attic fails
//! Without room, or if its disk does not take a value, the value stays in memory: [`Attic::put`] says so. A value that cannot be read again is
//! the end of the machine. [`Attic::value`] then gives none, the machine goes on with something else in its place up to the end of the step, and
//! **the host lets nothing leave that this step or a later one emits**: it asks [`Attic::has_failed`] before each effect, and before it
//! believes an answer. The replica is built again from its log, with an empty attic.

use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

use crate::transaction::Value;

/// Where a value lies in an attic. A place is never given twice in the life of an attic, up to a bound that [`Attic::put`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtticPlace(u64);

impl AtticPlace {
    /// No place has a number that needs more bits.
    pub const BITS: u32 = 62;

    /// The place with this number; none if the number is too large.
    pub const fn new(number: u64) -> Option<Self> {
        if number >> Self::BITS == 0 { Some(AtticPlace(number)) } else { None }
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// The bytes of memory that the key space of a replica takes, about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Keys with the timestamps of their versions, and all that finds them.
    pub index: usize,
    /// Values that are in memory.
    pub values: usize,
    /// How many values are in the attic.
    pub stowed: usize,
}

impl Memory {
    /// All of it.
    pub const fn bytes(self) -> usize {
        self.index + self.values
    }
}

/// True if key spaces take an eighth more memory than they may. Nothing is added to them then.
pub const fn is_exceeded(taken: usize, memory_bytes: usize) -> bool {
    taken > memory_bytes.saturating_add(memory_bytes / 8)
}

/// The changing state of an attic, which a machine and its host share: at servers, on several threads one after the other.
#[derive(Debug, Default)]
pub struct Guarded<T>(Mutex<T>);

impl<T> Guarded<T> {
    /// State that begins as this.
    pub fn new(state: T) -> Self {
        Guarded(Mutex::new(state))
    }

    /// Looks at the state, or changes it.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        // A panic in here ends the machine, and nobody asks again.
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A place for values that do not fit into memory.
pub trait Attic: Debug + Send + Sync {
    /// How many bytes of memory the key space of the replica may take, values and everything that finds them. More if keys alone take more.
    fn memory_bytes(&self) -> usize;

    /// Takes a value over; none if there is no room for it, or it cannot be written: then it stays in memory.
    fn put(&self, value: &[u8]) -> Option<AtticPlace>;

    /// The value at a place that was not given up; none if it cannot be read, which is the end of the machine.
    fn value(&self, place: AtticPlace) -> Option<Value>;

    /// The value at a place is not needed any more.
    fn give_up(&self, place: AtticPlace);

    /// True if a value could not be read.
    fn has_failed(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_beyond_the_memory_is_taken_before_anything_is_refused() {
        let memory = Memory { index: 1_000, values: 125, stowed: 7 };
        assert_eq!(memory.bytes(), 1_125);
        assert_eq!([1_125, 1_126].map(|taken| is_exceeded(taken, 1_000)), [false, true]);
        assert!(!is_exceeded(usize::MAX, usize::MAX) && is_exceeded(1, 0));
    }

    #[test]
    fn a_place_leaves_two_bits_of_a_number_to_others() {
        assert_eq!(AtticPlace::new(u64::MAX >> 2).map(AtticPlace::number), Some(u64::MAX >> 2));
        assert_eq!(AtticPlace::new(1 << 62), None);
    }
}
