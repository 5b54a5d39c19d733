//! List reads in little memory: per key the longest committed list, and lengths for the reads that are
//! prefixes of it.
//!
//! A workload of a million transactions reads lists of up to 64 elements several million times; spelled out
//! they would fill more than a gigabyte. Almost all of them are prefixes of one another, so a read is a
//! length of its key's *spine*, the longest list that an acknowledged transaction read so far. The spine only
//! ever grows at its end, hence a length stays valid. A read that does not fit is kept apart, spelled out,
//! for the checks to complain about.

use super::{KeyId, Value};

/// How one list read is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListRead {
    /// The first so many elements of the key's spine.
    Prefix(u32),
    /// A list that is spelled out on its own.
    Apart(u32),
}

/// All lists that a history read.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListStore {
    spines: Vec<Vec<Value>>,
    apart: Vec<Value>,
    apart_ranges: Vec<(usize, usize)>,
}

impl ListStore {
    /// Stores a read. Only acknowledged transactions may extend the spine, so that what an aborted one saw
    /// decides nothing.
    pub(crate) fn add(&mut self, key: KeyId, list: &[Value], acknowledged: bool) -> ListRead {
        if self.spines.len() <= key.index() {
            self.spines.resize_with(key.index() + 1, Vec::new);
        }
        let spine = &mut self.spines[key.index()];
        let common = spine.len().min(list.len());
        if spine[..common] == list[..common] && (common == list.len() || acknowledged) {
            spine.extend_from_slice(&list[common..]);
            return ListRead::Prefix(list.len() as u32);
        }
        let start = self.apart.len();
        self.apart.extend_from_slice(list);
        self.apart_ranges.push((start, self.apart.len()));
        ListRead::Apart((self.apart_ranges.len() - 1) as u32)
    }

    pub(crate) fn values(&self, key: KeyId, read: ListRead) -> &[Value] {
        match read {
            // A key without a spine has only empty prefixes.
            ListRead::Prefix(len) => self.spines.get(key.index()).map_or(&[], |spine| &spine[..len as usize]),
            ListRead::Apart(at) => {
                let (start, end) = self.apart_ranges[at as usize];
                &self.apart[start..end]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyId = KeyId(3);

    #[test]
    fn prefixes_share_the_spine() {
        let mut lists = ListStore::default();
        assert_eq!(lists.add(KEY, &[1], true), ListRead::Prefix(1));
        assert_eq!(lists.add(KEY, &[1, 2, 3], true), ListRead::Prefix(3));
        assert_eq!(lists.add(KEY, &[1, 2], false), ListRead::Prefix(2));
        assert_eq!(lists.values(KEY, ListRead::Prefix(2)), [1, 2]);
    }

    #[test]
    fn a_read_that_does_not_fit_is_kept_apart() {
        let mut lists = ListStore::default();
        lists.add(KEY, &[1, 2], true);
        let odd = lists.add(KEY, &[2, 1, 3], true);
        assert_eq!(lists.values(KEY, odd), [2, 1, 3]);
        assert_eq!(lists.add(KEY, &[1, 2], true), ListRead::Prefix(2));
    }

    #[test]
    fn an_aborted_read_never_extends_the_spine() {
        let mut lists = ListStore::default();
        lists.add(KEY, &[1], true);
        let aborted = lists.add(KEY, &[1, 9], false);
        assert_eq!(lists.values(KEY, aborted), [1, 9]);
        assert_eq!(lists.add(KEY, &[1, 2], true), ListRead::Prefix(2), "9 has not entered the spine");
    }
}
