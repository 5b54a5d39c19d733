//! Scans span shards: how the pages of several become one.

use quorate_core::{Key, Value};

/// Keys and values, ascending.
pub(super) type Entries = Vec<(Key, Value)>;

/// The first key that not all pages cover, given where each ends; none if all cover the whole range.
pub(super) fn common_end<'a>(ends: impl Iterator<Item = &'a Option<Key>>) -> Option<Key> {
    ends.flatten().min().cloned()
}

/// Leaves so many entries at most; gives the first key that is left out, if one is.
pub(super) fn cut(entries: &mut Entries, limit: u32) -> Option<Key> {
    let next = entries.get(limit as usize).map(|(key, _)| key.clone());
    entries.truncate(limit as usize);
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_every_page_covers_is_covered() {
        let key = |name: &str| Some(Key::copy_from_slice(name.as_bytes()));
        assert_eq!(common_end([key("c"), None, key("b")].iter()), key("b"));
        assert_eq!(common_end([None, None].iter()), None);
    }

    #[test]
    fn the_limit_says_where_to_go_on() {
        let entry = |name: &str| (Key::copy_from_slice(name.as_bytes()), Value::new());
        let mut entries = vec![entry("a"), entry("b"), entry("c")];
        assert_eq!(cut(&mut entries, 3), None);
        assert_eq!(cut(&mut entries, 2), Some(Key::from("c")));
        assert_eq!(entries, [entry("a"), entry("b")]);
    }
}
