//! Scans span shards: how the pages of several become one.

use quorate_core::command::Event;
use quorate_core::machine::Outbox;
use quorate_core::topology::Keyspace;
use quorate_core::transaction::KeyVersion;
use quorate_core::{Key, KeyRange, ShardId, TransactionId, Value};

/// Keys and values, ascending.
pub type Entries = Vec<(Key, Value)>;

/// The keys that one shard holds of a range.
#[derive(Debug, Default)]
pub struct Page {
    /// The keys, ascending.
    pub keys: Vec<KeyVersion>,
    /// The first key that is not covered; none if the whole range is.
    pub next: Option<Key>,
}

/// A scan whose pages are being gathered.
#[derive(Debug)]
pub struct Scan {
    /// The range.
    pub range: KeyRange,
    /// At most so many keys.
    pub limit: u32,
    /// One page for each shard of the keyspace, once it is there; an empty one for those that hold no key of the range.
    pages: Vec<Option<Page>>,
}

impl Scan {
    /// A scan without any page of the shards that may hold keys of the range.
    pub fn new(keyspace: &Keyspace, range: KeyRange, limit: u32) -> Self {
        let asked: Vec<ShardId> = keyspace.shards_of_range(&range).iter().map(|shard| shard.id).collect();
        let page = |shard: ShardId| (!asked.contains(&shard)).then(Page::default);
        let pages = keyspace.shards.iter().map(|shard| page(shard.id)).collect();
        Scan { range, limit, pages }
    }

    /// A scan of which this page alone is the answer of all shards.
    pub fn of_page(keyspace: &Keyspace, range: KeyRange, limit: u32, page: Page) -> Self {
        let mut scan = Scan::new(keyspace, range, limit);
        let mut page = Some(page);
        for missing in scan.pages.iter_mut().filter(|page| page.is_none()) {
            *missing = Some(page.take().unwrap_or_default());
        }
        scan
    }

    /// The shards, by position in the keyspace, whose pages are missing.
    pub fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.pages.len()).filter(|shard| self.pages[*shard].is_none())
    }

    /// Takes the page of the shard at this position. True if none is missing any more.
    pub fn take(&mut self, shard: usize, page: Page) -> bool {
        self.pages[shard] = Some(page);
        self.pages.iter().all(Option::is_some)
    }

    /// How many bytes the keys and values of all pages have.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |found: &KeyVersion| found.key.len() + found.value.as_ref().map_or(0, Value::len);
        self.pages.iter().flatten().flat_map(|page| &page.keys).map(bytes).sum()
    }

    /// The first key that not all pages cover.
    pub(crate) fn end(&self) -> Option<Key> {
        common_end(self.pages.iter().flatten().map(|page| &page.next))
    }

    /// Everything that was found, one shard after the other.
    pub(crate) fn into_found(self) -> impl Iterator<Item = KeyVersion> {
        self.pages.into_iter().flatten().flat_map(|page| page.keys)
    }
}

/// Answers a scan that finds nothing whatever shards hold, of an empty range or of no keys. True if it is one.
pub fn answer_empty<M, T, R>(
    outbox: &mut Outbox<M, T, R, Event>,
    transaction: TransactionId,
    range: &KeyRange,
    limit: u32,
) -> bool {
    let is_empty = range.is_empty() || limit == 0;
    if is_empty {
        let next = (!range.is_empty()).then(|| range.from.clone());
        outbox.emit(Event::Scanned { transaction, entries: Vec::new(), next });
    }
    is_empty
}

/// The first key that not all pages cover, given where each ends; none if all cover the whole range.
pub fn common_end<'a>(ends: impl Iterator<Item = &'a Option<Key>>) -> Option<Key> {
    ends.flatten().min().cloned()
}

/// Leaves so many entries at most; gives the first key that is left out, if one is.
pub fn cut(entries: &mut Entries, limit: u32) -> Option<Key> {
    let next = entries.get(limit as usize).map(|(key, _)| key.clone());
    entries.truncate(limit as usize);
    next
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::ClientId;
    use quorate_core::machine::Effect;

    #[test]
    fn an_empty_scan_is_answered_and_says_where_to_go_on() {
        let answered = |to: &str, limit| {
            let mut outbox: Outbox<(), (), (), Event> = Outbox::new();
            let transaction = TransactionId { client: ClientId(1), sequence: 1, attempt: 0 };
            let range = KeyRange { from: Key::from("b"), to: Some(Key::copy_from_slice(to.as_bytes())) };
            let is_answered = answer_empty(&mut outbox, transaction, &range, limit);
            let next = |effect: Effect<(), (), (), Event>| match effect {
                Effect::Emit(Event::Scanned { entries, next, .. }) if entries.is_empty() => next,
                other => panic!("{other:?} is no empty answer"),
            };
            let told: Vec<Option<Key>> = outbox.drain().map(next).collect();
            assert_eq!(is_answered, !told.is_empty());
            told
        };
        assert_eq!(answered("c", 1), []);
        assert_eq!(answered("c", 0), [Some(Key::from("b"))]);
        assert_eq!(answered("b", 1), [None]);
        assert_eq!(answered("a", 0), [None]);
    }

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
