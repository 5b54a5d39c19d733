//! The transactions whose writes a replica knows of, and whose outcome it may not know: what holds keys.
//!
//! A replica learns of a transaction from the home of its node (a *note*), from a leader that announces what it appends, and from the
//! log. It holds the keys as long as one of the three says so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::{ClockTime, Instant, Key, KeyRange, ReplicaId, TransactionId, View, Write};

use crate::entry::Prepared;
use crate::message::Life;

/// A transaction that holds keys here.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) home: ReplicaId,
    pub(super) life: Life,
    pub(super) snapshot: ClockTime,
    pub(super) keys: Vec<Key>,
    /// True if it keeps the indexes of its snapshot, as far as is known: one of which only the log is known may not.
    pub(super) knows_indexes: bool,
    /// Its writes, noted for the home of this node.
    pub(super) note: Option<Vec<Write>>,
    /// The leader of this view has announced it.
    pub(super) announced: Option<View>,
    /// This replica leads, and has appended it.
    pub(super) is_appended: bool,
    /// The log says so.
    pub(super) prepared: Option<Arc<Prepared>>,
    /// How it ended, if that is known before the log says it.
    pub(super) outcome: Option<Outcome>,
    /// The latest snapshots that have read its keys at its own node alone, if it is known how it ended.
    pub(super) readers: Vec<(Key, ClockTime)>,
    /// The notes that have to give way before this replica votes, and the vote.
    pub(super) in_the_way: BTreeSet<TransactionId>,
    pub(super) vote: Option<HeldVote>,
    /// Since when it is known here.
    pub(super) since: Instant,
    /// How often its home was asked what became of it, and when last.
    pub(super) inquiries: u32,
    pub(super) inquired_at: Option<Instant>,
}

/// A vote that waits until notes have given way.
#[derive(Clone, Copy, Debug)]
pub(super) enum HeldVote {
    /// Of a replica that was granted snapshots in this life, under this view.
    Holder(Life, View, ClockTime),
    /// Of the leader.
    Leader,
}

impl Pending {
    pub(super) fn new(
        home: ReplicaId,
        life: Life,
        snapshot: ClockTime,
        keys: Vec<Key>,
        since: Instant,
    ) -> Self {
        Pending {
            home,
            life,
            snapshot,
            keys,
            knows_indexes: false,
            note: None,
            announced: None,
            is_appended: false,
            prepared: None,
            outcome: None,
            readers: Vec::new(),
            in_the_way: BTreeSet::new(),
            vote: None,
            since,
            inquiries: 0,
            inquired_at: None,
        }
    }

    /// True if more than the home of this node says that it holds keys.
    pub(super) fn is_let_in(&self) -> bool {
        self.announced.is_some() || self.is_appended || self.prepared.is_some()
    }

    /// The write to a key; none if that has not come here yet.
    pub(super) fn write_to(&self, key: &[u8]) -> Option<&Write> {
        let writes = self.note.as_deref().or_else(|| self.prepared.as_deref().map(|one| &one.writes[..]))?;
        let at = writes.binary_search_by(|write| write.key.as_slice().cmp(key)).ok()?;
        Some(&writes[at])
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Pendings {
    /// Boxed, because they are many bytes each, and neighbours in the map are moved often.
    known: BTreeMap<TransactionId, Box<Pending>>,
    by_key: BTreeMap<Key, Vec<TransactionId>>,
}

impl Pendings {
    pub(super) fn get(&self, id: TransactionId) -> Option<&Pending> {
        self.known.get(&id).map(|pending| &**pending)
    }

    pub(super) fn get_mut(&mut self, id: TransactionId) -> Option<&mut Pending> {
        self.known.get_mut(&id).map(|pending| &mut **pending)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (TransactionId, &Pending)> {
        self.known.iter().map(|(id, pending)| (*id, &**pending))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (TransactionId, &mut Pending)> {
        self.known.iter_mut().map(|(id, pending)| (*id, &mut **pending))
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// The transaction, which is entered if it is not known.
    pub(super) fn enter(&mut self, id: TransactionId, new: impl FnOnce() -> Pending) -> &mut Pending {
        if !self.known.contains_key(&id) {
            let pending = Box::new(new());
            for key in &pending.keys {
                let holders = self.by_key.entry(key.clone()).or_default();
                assert!(!holders.contains(&id), "{id} holds {key:?} already, and is not known");
                holders.push(id);
            }
            self.known.insert(id, pending);
        }
        self.known.get_mut(&id).expect("it was just entered")
    }

    pub(super) fn remove(&mut self, id: TransactionId) -> Option<Pending> {
        let pending = self.known.remove(&id)?;
        for key in &pending.keys {
            let held = self.by_key.get_mut(key).and_then(|holders| {
                let at = holders.iter().position(|holder| *holder == id)?;
                holders.remove(at);
                Some(holders.is_empty())
            });
            assert!(held.is_some(), "{id} is known to hold {key:?}, and does not");
            if held == Some(true) {
                self.by_key.remove(key);
            }
        }
        Some(*pending)
    }

    /// The transactions that hold a key, in the order in which they came.
    pub(super) fn of_key(&self, key: &[u8]) -> impl Iterator<Item = (TransactionId, &Pending)> {
        self.by_key.get(key).into_iter().flatten().map(|id| (*id, &*self.known[id]))
    }

    /// The keys of a range that are held, ascending.
    pub(super) fn keys_in<'a>(&'a self, range: &KeyRange) -> impl Iterator<Item = &'a Key> + use<'a> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let to = range.to.as_ref().map_or(Unbounded, |to| Excluded(to.clone()));
        // As for versions: mostly it is asked whether an index list, above all keys of users, is held.
        let is_above_all = self.by_key.last_key_value().is_none_or(|(last, _)| *last < range.from);
        let bounds = (!range.is_empty() && !is_above_all).then(|| (Included(range.from.clone()), to));
        bounds.into_iter().flat_map(|bounds| self.by_key.range::<Key, _>(bounds)).map(|(key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    const KEYS: [&str; 2] = ["a", "b"];

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    #[test]
    fn holders_of_a_key_are_known_in_the_order_in_which_they_came() {
        let mut pendings = Pendings::default();
        let new = || {
            let keys = KEYS.map(Key::from).to_vec();
            Pending::new(ReplicaId::default(), Life(1), ClockTime::default(), keys, Instant::START)
        };
        for sequence in [3, 1, 2] {
            pendings.enter(id(sequence), new);
        }
        let holders =
            |pendings: &Pendings| pendings.of_key(b"b").map(|(id, _)| id.sequence).collect::<Vec<_>>();
        assert_eq!((holders(&pendings), pendings.len()), (vec![3, 1, 2], 3));
        assert!(pendings.remove(id(1)).is_some() && pendings.remove(id(1)).is_none());
        assert_eq!(holders(&pendings), [3, 2]);
        let keys = |pendings: &Pendings, from: &str, to: Option<&str>| {
            let range = KeyRange { from: Key::from(from), to: to.map(Key::from) };
            pendings.keys_in(&range).cloned().collect::<Vec<_>>()
        };
        assert_eq!(keys(&pendings, "a", None), KEYS.map(Key::from));
        assert_eq!(keys(&pendings, "a", Some("b")), [Key::from("a")]);
        assert_eq!(keys(&pendings, "aa", Some("bb")), [Key::from("b")]);
        assert!(keys(&pendings, "b", Some("a")).is_empty(), "it ends before it begins");
        pendings.remove(id(2));
        pendings.remove(id(3));
        assert!(keys(&pendings, "a", None).is_empty() && pendings.len() == 0);
    }
}
