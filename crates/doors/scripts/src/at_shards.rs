//! The knowledge of a door of a script at shards: whether they run it, and where its text is kept.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use quorate_redis_evaluator::Program;

/// A script that shards give up again and again is tried there once in `2^GIVEN_UP_MAX` times.
const GIVEN_UP_MAX: u32 = 10;

/// A shorter text, in bytes, is told with each call.
const KEPT_BYTES_MIN: usize = 128;

/// A text is kept once the script has been run so often,
const KEPT_RUNS: u32 = 8;

/// and after twice as many each time that a shard has not kept it, up to `2^LOST_MAX` times as many.
const LOST_MAX: u32 = 12;

/// A shard of a database: both by their numbers.
pub type Place = (usize, usize);

/// How a call tells the text of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// All of it.
    Whole,
    /// All of it, and the shard is to keep it.
    Keep,
    /// By its digest.
    Kept,
}

/// The knowledge of one script. All of it may be wrong, which costs a round trip.
#[derive(Debug, Default)]
pub struct AtShards {
    /// Whether shards know the language of all of it, once that was asked.
    is_fit: OnceLock<bool>,
    /// How often in a row shards gave it up.
    given_up: AtomicU32,
    /// So many times it is not tried at a shard.
    passes: AtomicU32,
    /// How often shards have run it since its text was last not kept.
    runs: AtomicU32,
    /// How often its text was not kept.
    lost: AtomicU32,
    kept: Mutex<BTreeSet<Place>>,
}

impl AtShards {
    fn kept(&self) -> MutexGuard<'_, BTreeSet<Place>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a script of this text is to be tried at a shard: shards know all of it, and have not just given it up.
    pub fn is_tried(&self, text: &[u8]) -> bool {
        let is_fit = *self.is_fit.get_or_init(|| Program::new(text).is_ok());
        let pass = |passes: u32| passes.checked_sub(1);
        is_fit && self.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pass).is_err()
    }

    /// A shard has run it to its end, told like this.
    pub fn note_end(&self, place: Place, telling: Telling) {
        self.given_up.store(0, Ordering::Relaxed);
        // It would take months to count further.
        self.runs.fetch_add(1, Ordering::Relaxed);
        if telling == Telling::Keep {
            self.kept().insert(place);
        }
    }

    /// A shard has given it up. Each time it is tried half as often.
    pub fn note_given_up(&self) {
        let given_up = (self.given_up.load(Ordering::Relaxed) + 1).min(GIVEN_UP_MAX);
        self.given_up.store(given_up, Ordering::Relaxed);
        self.passes.store((1 << given_up) - 1, Ordering::Relaxed);
    }

    /// A shard has not kept its text, or not any more.
    pub fn note_unknown(&self, place: Place) {
        if self.kept().remove(&place) {
            let lost = (self.lost.load(Ordering::Relaxed) + 1).min(LOST_MAX);
            self.lost.store(lost, Ordering::Relaxed);
            self.runs.store(0, Ordering::Relaxed);
        }
    }

    /// How a call is to tell this text at a place; one that cannot write cannot have it kept.
    pub fn telling(&self, text: &[u8], place: Place, may_write: bool) -> Telling {
        if text.len() < KEPT_BYTES_MIN {
            return Telling::Whole;
        }
        if self.kept().contains(&place) {
            return Telling::Kept;
        }
        let is_used = self.runs.load(Ordering::Relaxed) >= KEPT_RUNS << self.lost.load(Ordering::Relaxed);
        if is_used && may_write { Telling::Keep } else { Telling::Whole }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_that_is_given_up_is_tried_half_as_often_each_time() {
        let known = AtShards::default();
        let passes = || (0..).take_while(|_| !known.is_tried(b"return 1")).count();
        for expected in [0, 1, 3, 7, 15] {
            assert_eq!(passes(), expected);
            known.note_given_up();
        }
        assert_eq!(passes(), 31);
        known.note_end((0, 0), Telling::Whole);
        known.note_given_up();
        assert_eq!(passes(), 1, "it begins anew once a shard has run it");
        for _ in 0..20 {
            known.note_given_up();
        }
        assert_eq!(passes(), 1_023);
        assert!(!AtShards::default().is_tried(b"this is no Lua"));
    }

    #[test]
    fn a_text_is_told_once_where_it_is_used_often() {
        let (known, text) = (AtShards::default(), [b' '; KEPT_BYTES_MIN]);
        let telling = |place| known.telling(&text, place, true);
        for _ in 0..KEPT_RUNS {
            assert_eq!(telling((0, 1)), Telling::Whole);
            known.note_end((0, 1), Telling::Whole);
        }
        assert_eq!(telling((0, 1)), Telling::Keep);
        assert_eq!(known.telling(&text, (0, 1), false), Telling::Whole, "what only reads keeps nothing");
        assert_eq!(known.telling(b"return 1", (0, 1), true), Telling::Whole, "it is short");
        known.note_end((0, 1), Telling::Keep);
        assert_eq!(
            (telling((0, 1)), telling((0, 2))),
            (Telling::Kept, Telling::Keep),
            "each shard has its own"
        );
        // A shard that forgets it has to be told less often.
        known.note_unknown((0, 1));
        for _ in 0..2 * KEPT_RUNS {
            assert_eq!(telling((0, 1)), Telling::Whole);
            known.note_end((0, 1), Telling::Whole);
        }
        assert_eq!(telling((0, 1)), Telling::Keep);
        known.note_unknown((0, 1));
        assert_eq!(telling((0, 1)), Telling::Keep, "it was not known to be kept");
    }
}
