//! Pages of a key space: of what is scanned, and of all versions, for another replica or for a snapshot.

use quorate_core::transaction::KeyVersion;
use quorate_core::{Key, KeyRange, Timestamp, Value};

use crate::versions::{VersionRef, Versions};

/// The limits of a page of a scan.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// The most keys that exist.
    pub live: u32,
    /// The most keys that are listed. Deleted ones count too, or a graveyard would have to be walked in one step.
    pub keys: usize,
    /// The most bytes of keys and values; the last key may go over it.
    pub bytes: usize,
}

/// A page that is being filled.
#[derive(Debug)]
pub struct Filling {
    limits: PageLimits,
    live: u32,
    keys: usize,
    bytes: usize,
}

impl PageLimits {
    /// Roughly how many bytes of keys and values go into one reply to a scan.
    const SCAN_BYTES_MAX: usize = 4 * 1024 * 1024;

    /// The limits of a reply to a scan that wants at most `live` keys, by a replica that lists at most `keys`.
    pub fn of_scan(live: u32, keys: usize) -> Self {
        PageLimits { live, keys, bytes: Self::SCAN_BYTES_MAX }
    }

    /// An empty page.
    pub fn begin(self) -> Filling {
        Filling { limits: self, live: 0, keys: 0, bytes: 0 }
    }
}

impl Filling {
    /// True if nothing more goes into the page.
    pub fn is_full(&self) -> bool {
        let PageLimits { live, keys, bytes } = self.limits;
        self.live >= live || self.keys >= keys || self.bytes >= bytes
    }

    /// Counts a key with its value, or with none.
    pub fn add(&mut self, key: &Key, value: Option<&Value>) {
        self.live += u32::from(value.is_some());
        self.keys += 1;
        self.bytes += key.len() + value.map_or(0, Value::len);
    }
}

/// A version as it travels.
fn travelling(key: &Key, version: VersionRef<'_>) -> KeyVersion {
    KeyVersion { key: key.clone(), version: version.timestamp, value: version.value() }
}

fn bytes_of(found: &KeyVersion) -> usize {
    found.key.len() + found.value.as_ref().map_or(0, Value::len)
}

impl Versions {
    /// The newest versions of the first keys of a range, deletions among them, and the first key that is not covered; none if the
    /// whole range is.
    pub fn scan(&self, range: &KeyRange, limits: PageLimits) -> (Vec<KeyVersion>, Option<Key>) {
        let (mut found, mut filling) = (Vec::new(), limits.begin());
        for (key, version) in self.range(range) {
            if filling.is_full() {
                return (found, Some(key.clone()));
            }
            let version = travelling(key, version);
            filling.add(key, version.value.as_ref());
            found.push(version);
        }
        (found, None)
    }

    /// Every version, ascending by key and then by timestamp, in pages of roughly `bytes_max` bytes, at least one.
    pub fn pages(&self, bytes_max: usize) -> Vec<Vec<KeyVersion>> {
        /// The bytes that a version takes beside its key and its value.
        const OVERHEAD: usize = 48;
        let (mut pages, mut page, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (key, version) in self.iter() {
            let version = travelling(key, version);
            let size = bytes_of(&version) + OVERHEAD;
            if bytes > 0 && bytes + size > bytes_max {
                pages.push(std::mem::take(&mut page));
                bytes = 0;
            }
            bytes += size;
            page.push(version);
        }
        pages.push(page);
        pages
    }

    /// A page with all versions below a timestamp of the keys after `after`, of roughly `bytes_max` bytes, and the last
    /// of these keys; none if there are no more. No key is divided, so that the next page can begin after that one although keys are overwritten
    /// meanwhile. A version that is left out counts by its key, so that no page walks over everything.
    pub fn page_after(
        &self,
        after: Option<&Key>,
        below: Timestamp,
        bytes_max: usize,
    ) -> (Vec<KeyVersion>, Option<Key>) {
        let (mut page, mut bytes, mut last): (Vec<KeyVersion>, usize, Option<&Key>) = (Vec::new(), 0, None);
        for (key, version) in self.after(after) {
            if let Some(last) = last.filter(|last| *last != key && bytes >= bytes_max) {
                return (page, Some(last.clone()));
            }
            last = Some(key);
            if version.timestamp < below {
                let version = travelling(key, version);
                bytes += bytes_of(&version);
                page.push(version);
            } else {
                bytes += key.len();
            }
        }
        (page, None)
    }

    /// Takes over pages of another key space, or of an earlier one.
    pub fn install_page(&mut self, page: impl IntoIterator<Item = KeyVersion>) {
        for KeyVersion { key, version, value } in page {
            self.install(&key, version, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    /// a@1, b@1, b@2 (a deletion), c@3; each key and value is one byte.
    fn versions() -> Versions {
        let mut versions = Versions::new();
        for (key, micros, value) in
            [("a", 1, Some("x")), ("b", 1, Some("y")), ("b", 2, None), ("c", 3, Some("z"))]
        {
            versions.install(&Key::from(key), at(micros), value.map(Value::from));
        }
        versions
    }

    fn text(page: &[KeyVersion]) -> String {
        let word =
            |found: &KeyVersion| format!("{}@{}", String::from_utf8_lossy(&found.key), found.version.micros);
        page.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_scan_ends_where_a_limit_is_reached() {
        let range = KeyRange { from: "a".into(), to: None };
        let all = usize::MAX;
        let table = [
            (9, all, all, "a@1 b@2 c@3", None),
            (1, all, all, "a@1", Some("b")),
            (2, all, all, "a@1 b@2 c@3", None),
            (9, 2, all, "a@1 b@2", Some("c")),
            (9, all, 2, "a@1", Some("b")),
            (0, all, all, "", Some("a")),
        ];
        for (live, keys, bytes, expected, next) in table {
            let (page, found) = versions().scan(&range, PageLimits { live, keys, bytes });
            assert_eq!(
                (text(&page).as_str(), found),
                (expected, next.map(Key::from)),
                "{live} {keys} {bytes}"
            );
        }
    }

    #[test]
    fn pages_cover_all_versions_and_a_snapshot_never_splits_a_key() {
        let mut versions = Versions::new();
        for (key, micros) in [("a", 1), ("a", 2), ("b", 1), ("c", 1), ("c", 2), ("c", 3)] {
            versions.install(&Key::from(key), at(micros), Some(Value::from("x")));
        }
        let names =
            |page: &[KeyVersion]| page.iter().flat_map(|found| found.key.to_vec()).collect::<Vec<_>>();
        let table = [(1, "aa b ccc"), (5, "aab ccc"), (6, "aab ccc"), (7, "aabccc")];
        for (bytes_max, expected) in table {
            let (mut after, mut written) = (None, Vec::new());
            for page in expected.split(' ') {
                let (found, last) = versions.page_after(after.as_ref(), Timestamp::MAX, bytes_max);
                assert_eq!(names(&found), page.as_bytes());
                written.extend(found);
                after = last;
            }
            assert_eq!(after, None, "{bytes_max}");
            assert_eq!(versions.pages(bytes_max).concat(), written);
        }
        assert_eq!(Versions::new().page_after(None, Timestamp::MAX, 1), (Vec::new(), None));
    }

    #[test]
    fn a_page_of_what_lies_below_covers_keys_that_are_not_in_it() {
        let table = [
            (None, 1, "a@1", Some("a")),
            (None, 9, "a@1 b@1", None),
            (Some("a"), 1, "b@1", Some("b")),
            (Some("b"), 1, "", None),
        ];
        for (after, bytes_max, expected, to) in table {
            let after = after.map(Key::from);
            let (page, last) = versions().page_after(after.as_ref(), at(2), bytes_max);
            assert_eq!((text(&page).as_str(), last), (expected, to.map(Key::from)), "{after:?} {bytes_max}");
        }
        let (page, last) = versions().page_after(None, at(0), 2);
        assert_eq!(
            (page, last),
            (Vec::new(), Some("b".into())),
            "what is left out is walked over in pages, too"
        );
    }

    #[test]
    fn pages_that_are_installed_elsewhere_give_the_same() {
        for bytes_max in [1, 100, 1_000] {
            let mut other = Versions::new();
            let pages = versions().pages(bytes_max);
            other.install_page(pages.into_iter().rev().flatten());
            assert_eq!(other.stored(), versions().stored(), "{bytes_max}");
        }
        assert_eq!(versions().pages(1).len(), 4);
        assert_eq!(Versions::new().pages(1), [Vec::new()]);
    }
}
