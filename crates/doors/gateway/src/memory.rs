//! How much memory connections hold, in all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that all connections of a gateway hold together.
#[derive(Clone, Debug)]
pub struct Memory {
    held: Arc<AtomicUsize>,
    max: usize,
}

impl Memory {
    /// Nothing is held, and so many bytes may be.
    pub fn new(max: usize) -> Self {
        Memory { held: Arc::new(AtomicUsize::new(0)), max }
    }

    /// How many bytes are held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts nothing for one who is going to hold something.
    pub(crate) fn share(&self) -> Share {
        Share { memory: self.clone(), bytes: 0 }
    }
}

/// The share of one connection; it is given back when the connection ends.
#[derive(Debug)]
pub(crate) struct Share {
    memory: Memory,
    bytes: usize,
}

impl Share {
    /// Holds so many bytes from now on; false, and as many as before, if there are not so many.
    pub(crate) fn hold(&mut self, bytes: usize) -> bool {
        let held = &self.memory.held;
        if bytes <= self.bytes {
            held.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            self.bytes = bytes;
            return true;
        }
        let more = bytes - self.bytes;
        if held.fetch_add(more, Ordering::Relaxed) + more > self.memory.max {
            held.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_held_than_there_is() {
        let memory = Memory::new(100);
        let (mut one, mut other) = (memory.share(), memory.share());
        assert!(one.hold(60) && !other.hold(50) && other.hold(40));
        assert_eq!(memory.held(), 100);
        assert!(one.hold(10) && other.hold(90));
        drop(other);
        assert_eq!(memory.held(), 10);
    }
}
