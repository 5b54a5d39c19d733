//! The pages of a replica that is read: as many as an operator is behind, and no more.

use std::collections::VecDeque;

use super::digest::{Digester, Stored};

/// A page ends once its items take so many bytes.
pub const PAGE_BYTES: usize = 512 * 1024;

/// The most items that a page may have.
pub const PAGE_ITEMS_MAX: usize = 16 * 1024;

/// So many pages are kept ahead of the operator: what comes behind them stays where it is until there is room.
const PAGES_AHEAD: usize = 4;

/// The items that were read and are not yet fetched.
#[derive(Debug)]
pub(super) struct Pages {
    /// The most items of a page.
    items_max: usize,
    /// The number of the first page that is kept.
    first: u64,
    whole: VecDeque<Vec<Stored>>,
    /// The page that is being filled.
    open: Vec<Stored>,
    open_bytes: usize,
    /// True if nothing comes behind the open page.
    is_whole: bool,
}

impl Pages {
    /// No pages yet, of at most so many items each.
    pub(super) fn new(items_max: usize) -> Self {
        Pages {
            items_max,
            first: 0,
            whole: VecDeque::new(),
            open: Vec::new(),
            open_bytes: 0,
            is_whole: false,
        }
    }

    /// True if more may be read.
    pub(super) fn has_room(&self) -> bool {
        !self.is_whole && self.whole.len() < PAGES_AHEAD
    }

    /// True if everything was read.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Takes what a digester hands on.
    pub(super) fn fill(&mut self, digester: &mut Digester) {
        assert!(!self.is_whole, "nothing comes behind the last page");
        for item in digester.take() {
            let bytes = item.bytes();
            let is_full = self.open_bytes + bytes > PAGE_BYTES || self.open.len() == self.items_max;
            if is_full && !self.open.is_empty() {
                self.whole.push_back(std::mem::take(&mut self.open));
                self.open_bytes = 0;
            }
            self.open_bytes += bytes;
            self.open.push(item);
        }
    }

    /// Nothing comes any more.
    pub(super) fn end(&mut self) {
        assert!(!self.is_whole, "what is read ends once");
        self.whole.push_back(std::mem::take(&mut self.open));
        self.is_whole = true;
    }

    /// The operator has the pages before this one.
    pub(super) fn release(&mut self, before: u64) {
        while self.first < before && self.whole.len() > usize::from(self.is_whole) {
            self.whole.pop_front();
            self.first += 1;
        }
    }

    /// A page, and whether it is the last; none if it is not there yet, or was released.
    pub(super) fn page(&self, number: u64) -> Option<(&[Stored], bool)> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let page = self.whole.get(at)?;
        Some((page, self.is_whole && at + 1 == self.whole.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Item;

    fn fill(pages: &mut Pages, count: usize, value: &[u8]) {
        let mut digester = Digester::reading();
        for number in 0..count {
            let key = number.to_be_bytes();
            digester.add(Item { space: Item::DATA, key: &key, stamps: &[1], value: Some(value) });
        }
        pages.fill(&mut digester);
    }

    #[test]
    fn pages_are_cut_by_bytes_and_a_value_that_is_larger_has_a_page_of_its_own() {
        let mut pages = Pages::new(1_000);
        fill(&mut pages, 3, &vec![7; PAGE_BYTES]);
        assert_eq!(pages.page(0).map(|(items, is_last)| (items.len(), is_last)), Some((1, false)));
        assert_eq!(pages.page(2), None, "it may still grow");
        pages.end();
        assert_eq!(pages.page(2).map(|(items, is_last)| (items.len(), is_last)), Some((1, true)));
    }

    #[test]
    fn nothing_is_one_page_that_is_empty_and_last() {
        let mut pages = Pages::new(1_000);
        assert_eq!(pages.page(0), None);
        pages.end();
        assert_eq!(pages.page(0), Some((&[][..], true)));
    }

    #[test]
    fn a_replica_reads_no_further_ahead_than_there_is_room_until_pages_are_released() {
        let mut pages = Pages::new(1_000);
        fill(&mut pages, PAGES_AHEAD, &vec![7; PAGE_BYTES]);
        assert!(pages.has_room());
        fill(&mut pages, 1, &vec![7; PAGE_BYTES]);
        assert!(!pages.has_room());
        pages.release(1);
        assert!(pages.has_room());
        assert_eq!(pages.page(0), None, "it was released");
        assert!(pages.page(1).is_some());
        pages.end();
        assert!(!pages.has_room(), "there is nothing left to read");
        pages.release(100);
        assert!(pages.page(PAGES_AHEAD as u64).is_some(), "the last page may be asked for again");
    }
}
