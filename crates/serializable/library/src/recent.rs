//! The modules that were loaded lately in this process.
//!
//! To load a module takes far longer than anything else that a shard does, and the same one is loaded again and again: ahead of the shards
//! of the keyspace that have replicas here, by each of them, and by one that tries a deployment again. The result follows from the
//! code alone.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many bytes of code are remembered, whatever became of it, and the latest in any case.
const REMEMBERED_BYTES: usize = 4 * 1024 * 1024;

/// Code that is short counts as this.
const ENTRY_BYTES: usize = 16 * 1024;

/// The results of the last loads, the latest last.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    known: Mutex<VecDeque<Entry<T>>>,
    /// The cost that a byte of code counts for,
    byte_cost: usize,
    /// and the cost of code that is short.
    entry_bytes: usize,
}

/// Code, and what comes of it once it is loaded.
#[derive(Debug)]
struct Entry<T> {
    code: Arc<[u8]>,
    loaded: Arc<Mutex<Option<T>>>,
}

impl<T: Clone> Recent<T> {
    pub(crate) const fn new() -> Self {
        Recent::with_costs(1, ENTRY_BYTES)
    }

    /// The same for what takes more than its code, or less: what a byte of it counts as, and what code counts as that is short.
    pub(crate) const fn with_costs(byte_cost: usize, entry_bytes: usize) -> Self {
        Recent { known: Mutex::new(VecDeque::new()), byte_cost, entry_bytes }
    }

    fn cost(&self, entry: &Entry<T>) -> usize {
        (entry.code.len() * self.byte_cost).max(self.entry_bytes)
    }

    /// Loads code, unless it was loaded lately. A caller that wants the same meanwhile waits for it, and no other.
    pub(crate) fn load(&self, code: &[u8], load: impl FnOnce(&[u8]) -> T) -> T {
        let entry = self.entry(code);
        let mut loaded = lock(&entry);
        match &*loaded {
            Some(known) => known.clone(),
            None => loaded.insert(load(code)).clone(),
        }
    }

    /// True if code was loaded lately.
    pub(crate) fn has(&self, code: &[u8]) -> bool {
        let known = lock(&self.known);
        let entry = known.iter().find(|known| *known.code == *code);
        entry.is_some_and(|entry| entry.loaded.try_lock().is_ok_and(|loaded| loaded.is_some()))
    }

    /// Where it is noted what comes of code, which is the latest now.
    fn entry(&self, code: &[u8]) -> Arc<Mutex<Option<T>>> {
        let mut known = lock(&self.known);
        let at = known.iter().position(|known| *known.code == *code);
        let entry = match at.and_then(|at| known.remove(at)) {
            Some(entry) => entry,
            None => Entry { code: Arc::from(code), loaded: Arc::default() },
        };
        let loaded = Arc::clone(&entry.loaded);
        known.push_back(entry);
        let mut bytes: usize = known.iter().map(|known| self.cost(known)).sum();
        while bytes > REMEMBERED_BYTES
            && known.len() > 1
            && let Some(oldest) = known.pop_front()
        {
            bytes -= self.cost(&oldest);
        }
        loaded
    }
}

/// A panic in between leaves what is locked as it was, or without one entry.
fn lock<T>(locked: &Mutex<T>) -> MutexGuard<'_, T> {
    locked.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn only_the_latest_are_not_loaded_again() {
        let recent = Recent::new();
        let code = |name: u8| vec![name; REMEMBERED_BYTES / 4];
        let is_loaded = |name: u8| {
            let code = code(name);
            let (mut is_loaded, was_known) = (false, recent.has(&code));
            let first = recent.load(&code, |code| {
                is_loaded = true;
                code[0]
            });
            assert_eq!((first, was_known), (name, !is_loaded));
            assert!(recent.has(&code));
            is_loaded
        };
        assert!(is_loaded(b'a') && !is_loaded(b'a'));
        assert!(is_loaded(b'b') && is_loaded(b'c') && is_loaded(b'd'));
        assert!(!is_loaded(b'a'), "it is among the latest four");
        assert!(is_loaded(b'e') && !is_loaded(b'a') && is_loaded(b'b'), "what was not used for longest goes");
        assert_eq!(lock(&recent.known).len(), 4);
    }

    #[test]
    fn short_code_and_what_is_longer_than_everything_is_remembered_within_bounds() {
        let recent = Recent::new();
        for number in 0..1_000_u32 {
            recent.load(&number.to_le_bytes(), <[u8]>::len);
        }
        assert_eq!(lock(&recent.known).len(), REMEMBERED_BYTES / ENTRY_BYTES);
        let dear = Recent::with_costs(64, 1_024);
        for number in 0..10_000_u32 {
            dear.load(&[number.to_le_bytes(); 8].concat(), <[u8]>::len);
        }
        assert_eq!(lock(&dear.known).len(), REMEMBERED_BYTES / (64 * 32));
        let long = vec![0; REMEMBERED_BYTES + 1];
        recent.load(&long, <[u8]>::len);
        assert!(recent.has(&long) && lock(&recent.known).len() == 1);
    }

    #[test]
    fn who_wants_something_else_does_not_wait() {
        let recent = &Recent::new();
        let ((begun, is_begun), (go_on, may_go_on)) = (channel(), channel());
        thread::scope(|scope| {
            let first = scope.spawn(move || {
                recent.load(b"slow", |_| {
                    begun.send(()).unwrap();
                    may_go_on.recv().unwrap()
                })
            });
            is_begun.recv().unwrap();
            assert!(!recent.has(b"slow"));
            assert_eq!(recent.load(b"other", |_| 2), 2);
            let same = scope.spawn(|| recent.load(b"slow", |_| unreachable!("it is loaded once")));
            go_on.send(1).unwrap();
            assert_eq!((first.join().unwrap(), same.join().unwrap()), (1, 1));
        });
    }

    #[test]
    fn what_has_panicked_is_loaded_again() {
        let recent = Recent::new();
        let panics = AssertUnwindSafe(|| recent.load(b"a", |_| panic!("no memory")));
        assert!(catch_unwind(panics).is_err() && !recent.has(b"a"));
        assert_eq!(recent.load(b"a", |_| 1), 1);
    }
}
