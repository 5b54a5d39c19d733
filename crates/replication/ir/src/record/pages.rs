//! A map from transactions to what is kept of them, in which the transactions that a client began one after the other
//! lie together.
//!
//! A record grows without bound between two collections, but nearly every access is to a transaction that began a
//! moment ago. In a plain hash table those lie scattered over all of its memory, and each access is a cache miss; here
//! they lie in the last page of each client.

use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, TransactionId};

/// So many consecutive transactions of a client share a page.
const SEQUENCES_PER_PAGE: u64 = 32;

/// Names a page: the client, and its sequence numbers divided by [`SEQUENCES_PER_PAGE`].
type PageId = (ClientId, u64);

/// Names an entry within its page: what is left of the sequence number, and the attempt.
type PlaceId = (u32, u32);

/// A map from transactions to values.
#[derive(Debug)]
pub(super) struct TransactionPages<T> {
    pages: FixedMap<PageId, Page<T>>,
    len: usize,
}

/// The entries of one page, ascending. Boxed, because transactions do not begin quite in order.
type Page<T> = Vec<(PlaceId, Box<T>)>;

impl<T> Default for TransactionPages<T> {
    fn default() -> Self {
        TransactionPages { pages: FixedMap::default(), len: 0 }
    }
}

fn locate(id: TransactionId) -> (PageId, PlaceId) {
    let place = (id.sequence % SEQUENCES_PER_PAGE) as u32;
    ((id.client, id.sequence / SEQUENCES_PER_PAGE), (place, id.attempt))
}

fn id_at((client, page): PageId, (place, attempt): PlaceId) -> TransactionId {
    TransactionId { client, sequence: page * SEQUENCES_PER_PAGE + u64::from(place), attempt }
}

fn find<T>(page: &Page<T>, place: PlaceId) -> Result<usize, usize> {
    page.binary_search_by_key(&place, |(known, _)| *known)
}

impl<T> TransactionPages<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: TransactionId) -> Option<&T> {
        let (page, place) = locate(id);
        let page = self.pages.get(&page)?;
        find(page, place).ok().map(|at| &*page[at].1)
    }

    pub(super) fn get_mut(&mut self, id: TransactionId) -> Option<&mut T> {
        let (page, place) = locate(id);
        let page = self.pages.get_mut(&page)?;
        find(page, place).ok().map(|at| &mut *page[at].1)
    }

    /// The value of a transaction; a new one if there is none.
    pub(super) fn get_or_default(&mut self, id: TransactionId) -> &mut T
    where
        T: Default,
    {
        let (page, place) = locate(id);
        let page = self.pages.entry(page).or_default();
        let at = match find(page, place) {
            Ok(at) => at,
            Err(at) => {
                page.insert(at, (place, Box::default()));
                self.len += 1;
                at
            }
        };
        &mut page[at].1
    }

    /// Drops the value of a transaction.
    pub(super) fn remove(&mut self, id: TransactionId) {
        let (page, place) = locate(id);
        let Some(entries) = self.pages.get_mut(&page) else { return };
        if let Ok(at) = find(entries, place) {
            entries.remove(at);
            assert!(self.len > 0, "{id} goes, and nothing is counted");
            self.len -= 1;
            if entries.is_empty() {
                self.pages.remove(&page);
            }
        }
    }

    /// All entries, in no particular order: sort what is found.
    pub(super) fn in_any_order(&self) -> impl Iterator<Item = (TransactionId, &T)> {
        // Any order: the name says so.
        self.pages.iter().flat_map(|(&page, entries)| {
            entries.iter().map(move |(place, value)| (id_at(page, *place), &**value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(client: u64, sequence: u64, attempt: u32) -> TransactionId {
        TransactionId { client: ClientId(client), sequence, attempt }
    }

    #[test]
    fn neighbours_of_all_kinds_are_kept_apart() {
        let ids = [
            id(1, 31, 0),
            id(1, 32, 0),
            id(1, 32, 1),
            id(1, 33, 0),
            id(1, 0, 0),
            id(2, 0, 0),
            id(1, u64::MAX, u32::MAX),
        ];
        let mut pages = TransactionPages::<usize>::default();
        for (value, id) in ids.iter().enumerate() {
            assert_eq!(pages.get(*id), None);
            *pages.get_or_default(*id) = value;
        }
        assert_eq!(pages.len(), ids.len());
        for (value, id) in ids.iter().enumerate() {
            assert_eq!(pages.get(*id), Some(&value));
            assert_eq!(*pages.get_or_default(*id), value);
        }
        let mut listed: Vec<_> = pages.in_any_order().map(|(id, value)| (id, *value)).collect();
        listed.sort_unstable_by_key(|(_, value)| *value);
        assert_eq!(listed, ids.iter().copied().zip(0..).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_dropped_is_gone() {
        let mut pages = TransactionPages::<u64>::default();
        for sequence in 0..100 {
            *pages.get_or_default(id(1, sequence, 0)) = sequence;
        }
        for sequence in (0..100).filter(|sequence| sequence % 10 != 0) {
            pages.remove(id(1, sequence, 0));
        }
        assert_eq!(pages.len(), 10);
        assert_eq!(pages.get(id(1, 50, 0)), Some(&50));
        assert_eq!(pages.get_mut(id(1, 51, 0)), None);
        pages.remove(id(1, 50, 0));
        pages.remove(id(1, 50, 0));
        pages.remove(id(2, 50, 0));
        assert_eq!((pages.len(), pages.get(id(1, 50, 0))), (9, None));
        for sequence in 0..100 {
            pages.remove(id(1, sequence, 0));
        }
        assert!(pages.len() == 0 && pages.pages.is_empty(), "empty pages are not kept");
    }
}
