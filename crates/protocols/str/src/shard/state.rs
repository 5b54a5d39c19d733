//! The state that the entries of a shard's log have led to: the same at every replica that has applied as many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::changes::Retention;
use quorate_core::command::Outcome;
use quorate_core::hash::FixedMap;
use quorate_core::log::divide;
use quorate_core::transaction::KeyVersion;
use quorate_core::{ClockTime, Key, KeyRange, ReplicaIndex, Timestamp, TransactionId};
use quorate_store::{History, Versions};

use crate::entry::{Decided, Ended, Frozen, Granted, Page, Prepared};
use crate::message::Holder;

/// The bytes of an element of a page beside its content.
const ENTRY_BYTES: usize = 64;

/// The versions of so many keys are collected with one floor.
const COLLECTED_MAX: usize = 100_000;

/// The replicated state of a shard.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) versions: Versions,
    /// Which of them are retained for consumers of changes.
    pub(super) history: History,
    /// No version is above: follows from them.
    pub(super) greatest: ClockTime,
    pub(super) prepared: BTreeMap<TransactionId, Arc<Prepared>>,
    ended: FixedMap<TransactionId, (Outcome, ClockTime)>,
    /// The transactions that have ended, by the snapshot that the floor must have passed.
    fading: BTreeSet<(ClockTime, TransactionId)>,
    pub(super) floor: ClockTime,
    /// The greatest bound of each replica that was ever granted one, with the life that was granted it last.
    pub(super) grants: BTreeMap<ReplicaIndex, Holder>,
    /// The latest snapshots that have read keys at the nodes of transactions that had written them, and nowhere else.
    readers: BTreeMap<Key, ClockTime>,
    /// How many transactions have ended while this state was followed: not a part of it.
    pub(super) committed: u64,
    pub(super) aborted: u64,
}

impl State {
    /// How a transaction has ended here, as long as that is known.
    pub(super) fn outcome(&self, id: TransactionId) -> Option<Outcome> {
        self.ended.get(&id).map(|(outcome, _)| *outcome)
    }

    /// Every outcome that is known, ascending.
    pub(super) fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        let mut outcomes: Vec<_> = self.fading.iter().map(|(_, id)| (*id, self.ended[id].0)).collect();
        outcomes.sort_unstable_by_key(|(id, _)| *id);
        outcomes
    }

    pub(super) fn ended_len(&self) -> usize {
        self.ended.len()
    }

    /// The latest snapshot that has read a key at a node of a transaction that had written it.
    pub(super) fn reader_of(&self, key: &[u8]) -> ClockTime {
        self.readers.get(key).copied().unwrap_or_default()
    }

    /// False if the transaction has ended before its prepare was appended.
    pub(super) fn prepare(&mut self, prepared: &Arc<Prepared>) -> bool {
        if self.ended.contains_key(&prepared.transaction) {
            return false;
        }
        self.prepared.insert(prepared.transaction, Arc::clone(prepared));
        true
    }

    pub(super) fn decide(&mut self, decided: &Decided) {
        for (key, snapshot) in &decided.readers {
            let known = self.readers.entry(key.clone()).or_default();
            *known = (*known).max(*snapshot);
        }
        let Some(prepared) = self.prepared.remove(&decided.transaction) else { return };
        match decided.outcome {
            Outcome::Committed(timestamp) => {
                self.committed += 1;
                self.history.note(timestamp, &prepared.writes);
                // One that stands on top of another may be decided here before it, so versions come in any order.
                for write in &prepared.writes {
                    self.versions.install(&write.key, timestamp, write.value.clone());
                }
                self.greatest = self.greatest.max(ClockTime::from_micros(timestamp.micros));
            }
            Outcome::Aborted => self.aborted += 1,
        }
        let id = decided.transaction;
        assert!(!self.ended.contains_key(&id), "{id} was prepared, and had ended");
        self.remember(Ended { transaction: id, outcome: decided.outcome, snapshot: prepared.snapshot });
        assert_eq!(
            self.ended.len(),
            self.fading.len(),
            "what has ended is forgotten with the floor, {id} as the rest"
        );
    }

    fn remember(&mut self, ended: Ended) {
        self.ended.insert(ended.transaction, (ended.outcome, ended.snapshot));
        self.fading.insert((ended.snapshot, ended.transaction));
    }

    pub(super) fn grant(&mut self, granted: &Granted) {
        for holder in &granted.holders {
            let known = self.grants.entry(holder.replica).or_insert(*holder);
            *known = Holder { until: known.until.max(holder.until), ..*holder };
        }
    }

    /// Forgets what lies below a floor, but for versions that are retained.
    pub(super) fn raise_floor(&mut self, floor: ClockTime, retention: Retention) {
        self.floor = self.floor.max(floor);
        while let Some((snapshot, id)) = self.fading.first().copied()
            && snapshot < self.floor
        {
            self.fading.pop_first();
            assert!(self.ended.remove(&id).is_some(), "{id} fades, and has not ended");
        }
        let kept = self.floor;
        self.readers.retain(|_, snapshot| *snapshot >= kept);
        // All replicas let go the same with the same entry.
        self.history.retain(self.floor_timestamp(), retention, usize::MAX);
        // Further keys are collected with the next floor.
        self.versions.collect(self.history.horizon(), COLLECTED_MAX);
    }

    /// Below this timestamp versions may have been collected.
    pub(super) fn floor_timestamp(&self) -> Timestamp {
        Timestamp { micros: self.floor.as_micros(), client: Default::default() }
    }

    /// The keys that have a value at a timestamp, each with its version there. Nothing at or above the floor was collected.
    pub(super) fn freeze_at(&self, timestamp: Timestamp) -> Frozen {
        const PAGE_BYTES: usize = 16 * 1024;
        let all = KeyRange { from: Key::default(), to: None };
        let sized = self.versions.range(&all).filter_map(|(key, _)| {
            let version = self.versions.at(key, timestamp)?;
            let value = version.value()?;
            let bytes = ENTRY_BYTES + key.len() + value.len();
            Some((bytes, KeyVersion { key: key.clone(), version: version.timestamp, value: Some(value) }))
        });
        Frozen { pages: divide(sized, PAGE_BYTES).into_iter().map(Page::Versions).collect() }
    }

    pub(super) fn freeze(&self, page_bytes_max: usize, data_only: bool) -> Frozen {
        let sized = self.versions.iter().map(|(key, version)| {
            let value = version.value();
            let bytes = ENTRY_BYTES + key.len() + value.as_ref().map_or(0, |value| value.len());
            (bytes, KeyVersion { key: key.clone(), version: version.timestamp, value })
        });
        let mut pages: VecDeque<Page> =
            divide(sized, page_bytes_max).into_iter().map(Page::Versions).collect();
        if data_only {
            return Frozen { pages };
        }
        let prepared = self.prepared.values().map(|prepared| {
            let bytes = |write: &quorate_core::Write| {
                write.key.len() + write.value.as_ref().map_or(0, |value| value.len())
            };
            (ENTRY_BYTES + prepared.writes.iter().map(bytes).sum::<usize>(), Arc::clone(prepared))
        });
        pages.extend(divide(prepared, page_bytes_max).into_iter().map(Page::Prepared));
        let ended = self.fading.iter().map(|(snapshot, id)| {
            let outcome = self.ended[id].0;
            (ENTRY_BYTES, Ended { transaction: *id, outcome, snapshot: *snapshot })
        });
        pages.extend(divide(ended, page_bytes_max).into_iter().map(Page::Ended));
        pages.push_back(Page::Bounds {
            floor: self.floor,
            grants: self.grants.values().copied().collect(),
            readers: self.readers.iter().map(|(key, snapshot)| (key.clone(), *snapshot)).collect(),
            retained_from: Some(self.history.horizon()),
        });
        Frozen { pages }
    }

    pub(super) fn from_pages(pages: Vec<Page>) -> Self {
        let mut state = State::default();
        let mut horizon = None;
        for page in pages {
            match page {
                Page::Versions(versions) => {
                    for KeyVersion { key, version, value } in versions {
                        state.versions.install(&key, version, value);
                        state.greatest = state.greatest.max(ClockTime::from_micros(version.micros));
                    }
                }
                Page::Prepared(prepared) => {
                    state.prepared.extend(prepared.into_iter().map(|one| (one.transaction, one)));
                }
                Page::Ended(page) => page.into_iter().for_each(|ended| state.remember(ended)),
                Page::Bounds { floor, grants, readers, retained_from } => {
                    horizon = retained_from;
                    state.floor = floor;
                    state.grants = grants.into_iter().map(|holder| (holder.replica, holder)).collect();
                    state.readers = readers.into_iter().collect();
                }
                Page::Decisions(_) | Page::HomeBounds { .. } => {
                    unreachable!("the log of a shard leads to no pages of a home")
                }
            }
        }
        // A program that knows no horizon may have collected anything below its floor.
        let horizon = horizon.unwrap_or_else(|| state.floor_timestamp());
        state.history.rebuild(horizon, &state.versions);
        state
    }
}
