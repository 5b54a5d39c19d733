//! Which values leave memory first: those of keys that nobody has looked up since the hand last came by (second chance).

use std::cell::Cell;

use super::slab::Slot;

/// A hand that goes round over all slots, and a bit for each. Where nothing is ever stowed there are none.
#[derive(Debug, Default)]
pub(super) struct Hand {
    next: u32,
    /// Looking a key up changes nothing that its caller could see, so these change behind a shared reference.
    touched: Vec<Cell<u64>>,
}

impl Hand {
    /// The key of a slot is looked up.
    pub(super) fn touch(&self, slot: Slot) {
        let number = slot.number();
        if let Some(word) = self.touched.get(number as usize / 64) {
            word.set(word.get() | 1 << (number % 64));
        }
    }

    /// There are so many slots.
    pub(super) fn cover(&mut self, slots: u32) {
        let words = slots.div_ceil(64) as usize;
        if words > self.touched.len() {
            self.touched.resize_with(words, Cell::default);
        }
    }

    /// The slot that the hand comes to, of so many, and whether its key was looked up since it last came by.
    pub(super) fn advance(&mut self, slots: u32) -> (Slot, bool) {
        let number = if self.next < slots { self.next } else { 0 };
        self.next = number + 1;
        let bit = 1 << (number % 64);
        let was_touched = self.touched.get_mut(number as usize / 64).is_some_and(|word| {
            let word = word.get_mut();
            let was_touched = *word & bit != 0;
            *word &= !bit;
            was_touched
        });
        (Slot::numbered(number), was_touched)
    }

    /// The bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.touched.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_looked_up_is_passed_over_once() {
        let mut hand = Hand::default();
        hand.touch(Slot::numbered(1));
        hand.cover(3);
        hand.touch(Slot::numbered(2));
        let mut round = |slots: u32| (0..slots).map(|_| hand.advance(slots).1).collect::<Vec<_>>();
        assert_eq!(round(3), [false, false, true]);
        assert_eq!(round(3), [false, false, false]);
        hand.touch(Slot::numbered(0));
        assert_eq!(hand.advance(3), (Slot::numbered(0), true));
        // Of keys that are gone the hand begins anew.
        assert_eq!(hand.advance(1), (Slot::numbered(0), false));
    }
}
