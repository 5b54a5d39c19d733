//! The events of an execution, as a hash that names it and, on demand, as text that a person can read.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use quorate_core::Instant;

/// A stable hash: the same numbers in the same order give the same hash on every platform and in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        TraceHash(0x243f_6a88_85a3_08d3)
    }
}

impl TraceHash {
    /// Folds a number in.
    pub fn fold(&mut self, number: u64) {
        // The finalizer of SplitMix64 over a rotation, so that order matters and single bits spread.
        let mut mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^= mixed >> 29;
        self.0 = mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }

    /// Folds bytes in.
    pub fn fold_bytes(&mut self, bytes: &[u8]) {
        self.fold(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.fold(u64::from_le_bytes(word));
        }
    }

    /// The hash so far.
    pub fn value(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TraceHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

/// The readable text of a trace. It is shared, so that it is still there after a machine has panicked.
pub type TraceText = Rc<RefCell<String>>;

/// Records an execution.
#[derive(Debug, Default)]
pub struct Trace {
    hash: TraceHash,
    text: Option<TraceText>,
}

impl Trace {
    /// A trace that writes one line per event, with milliseconds since the start, to `text` if there is one.
    pub fn new(text: Option<TraceText>) -> Self {
        Trace { hash: TraceHash::default(), text }
    }

    /// Folds an event into the hash: when, what, and the two numbers that tell it from others.
    pub fn event(&mut self, now: Instant, kind: u64, one: u64, other: u64) {
        self.hash.fold(now.as_nanos());
        self.hash.fold(kind);
        self.hash.fold(one);
        self.hash.fold(other);
    }

    /// Adds a line to the text, if there is one.
    pub fn line(&mut self, now: Instant, line: impl FnOnce() -> String) {
        if let Some(text) = &self.text {
            write_line(text, now, &line());
        }
    }

    /// The hash so far.
    pub fn hash(&self) -> TraceHash {
        self.hash
    }
}

fn write_line(text: &TraceText, now: Instant, line: &str) {
    let nanos = now.as_nanos();
    let (millis, micros) = (nanos / 1_000_000, nanos / 1_000 % 1_000);
    text.borrow_mut().push_str(&format!("{millis:>8}.{micros:03}  {line}\n"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_pinned_and_depends_on_order() {
        let hash = |numbers: &[u64]| {
            let mut hash = TraceHash::default();
            numbers.iter().for_each(|number| hash.fold(*number));
            hash.value()
        };
        assert_ne!(hash(&[1, 2]), hash(&[2, 1]));
        assert_ne!(hash(&[0]), hash(&[0, 0]));
        assert_eq!(hash(&[1, 2, 3]), hash(&[1, 2, 3]));
    }

    #[test]
    fn bytes_of_different_lengths_differ() {
        let hash = |bytes: &[u8]| {
            let mut hash = TraceHash::default();
            hash.fold_bytes(bytes);
            hash
        };
        assert_ne!(hash(b"a"), hash(b"a\0"));
        assert_eq!(hash(b"quorate rocks"), hash(b"quorate rocks"));
    }

    #[test]
    fn text_is_only_kept_on_demand() {
        let now = Instant::from_nanos(1_234_567);
        let mut silent = Trace::new(None);
        silent.line(now, || unreachable!("a line that nobody reads is not composed"));
        let text = TraceText::default();
        let mut readable = Trace::new(Some(text.clone()));
        readable.line(now, || "hello".into());
        assert_eq!(*text.borrow(), "       1.234  hello\n");
    }
}
