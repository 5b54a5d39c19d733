//! What was loaded lately in this process.
//!
//! To load a module takes far longer than anything else that a shard does, and the same one is loaded again and again: by each shard of
//! the keyspace that has a replica here, and by one that tries a deployment again. What comes of it follows from the code alone.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So many are remembered, whatever became of them.
const REMEMBERED: usize = 4;

/// What was loaded lately, the latest last.
#[derive(Debug)]
pub(crate) struct Recent<T>(Mutex<VecDeque<(Box<[u8]>, T)>>);

impl<T: Clone> Recent<T> {
    pub(crate) const fn new() -> Self {
        Recent(Mutex::new(VecDeque::new()))
    }

    /// Loads code, unless it was loaded lately. Who wants the same meanwhile waits for it.
    pub(crate) fn load(&self, code: &[u8], load: impl FnOnce(&[u8]) -> T) -> T {
        let mut known = self.known();
        let at = known.iter().position(|(known, _)| **known == *code);
        let entry = match at.and_then(|at| known.remove(at)) {
            Some(entry) => entry,
            None => (Box::from(code), load(code)),
        };
        let loaded = entry.1.clone();
        known.push_back(entry);
        if known.len() > REMEMBERED {
            known.pop_front();
        }
        loaded
    }

    /// A panic in between leaves it as it was, or without one entry.
    fn known(&self) -> MutexGuard<'_, VecDeque<(Box<[u8]>, T)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_are_not_loaded_again() {
        let recent = Recent::new();
        let is_loaded = |code: &[u8]| {
            let mut is_loaded = false;
            let text = recent.load(code, |code| {
                is_loaded = true;
                String::from_utf8_lossy(code).into_owned()
            });
            assert_eq!(text.as_bytes(), code);
            is_loaded
        };
        assert!(is_loaded(b"a") && !is_loaded(b"a"));
        assert!(is_loaded(b"b") && is_loaded(b"c") && is_loaded(b"d"));
        assert!(!is_loaded(b"a"), "it is among the latest four");
        assert!(is_loaded(b"e") && !is_loaded(b"a") && is_loaded(b"b"), "what was not used for longest goes");
        assert_eq!(recent.known().len(), REMEMBERED);
    }
}
