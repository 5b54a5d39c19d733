//! The state that the entries of the log have led to: the same at every replica that has applied as many.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use quorate_core::command::Outcome;
use quorate_core::hash::FixedMap;
use quorate_core::log::divide;
use quorate_core::{Instant, Timestamp, Transaction, TransactionId};
use quorate_store::{PreparedSet, Versions};

use crate::config::System;
use crate::entry::{Ended, Entry, Page, Prepared};
use crate::rules::{Plant, Rules};

/// The bytes of an entry of a page beside its own.
const ENTRY_BYTES: usize = 64;

/// When a transaction was proposed, and how old it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proposal {
    pub(super) proposed: Timestamp,
    pub(super) age: Timestamp,
}

/// The replicated state of a shard.
#[derive(Debug)]
pub(super) struct State {
    rules: Rules,
    system: System,
    pub(super) versions: Versions,
    pub(super) prepared: PreparedSet,
    /// When what is prepared was proposed.
    pub(super) proposals: BTreeMap<TransactionId, Proposal>,
    ended: FixedMap<TransactionId, Ended>,
    /// The ended transactions, by the timestamp that the bound of what is forgotten must have passed.
    fading: BTreeSet<(Timestamp, TransactionId)>,
    /// Prepares that were proposed below are refused.
    pub(super) floor: Timestamp,
    /// Outcomes below are forgotten.
    pub(super) forgotten: Timestamp,
    /// The greatest timestamp that was prepared, committed or given away.
    pub(super) last: Timestamp,
    /// How many transactions have ended while this state was followed: not a part of it.
    pub(super) committed: u64,
    pub(super) aborted: u64,
}

/// The state as it was at one position: pages that are handed out one by one. Keys and values are shared with the replica.
#[derive(Debug)]
pub struct Frozen {
    pages: VecDeque<Page>,
}

impl Frozen {
    /// The next page; none if all were given.
    pub(super) fn next_page(&mut self) -> Option<Page> {
        self.pages.pop_front()
    }
}

impl State {
    pub(super) fn new(system: System, rules: Rules) -> Self {
        State {
            rules,
            system,
            versions: Versions::new(),
            prepared: PreparedSet::new(),
            proposals: BTreeMap::new(),
            ended: FixedMap::default(),
            fading: BTreeSet::new(),
            floor: Timestamp::ZERO,
            forgotten: Timestamp::ZERO,
            last: Timestamp::ZERO,
            committed: 0,
            aborted: 0,
        }
    }

    /// How a transaction has ended here, as long as that is known.
    pub(super) fn ended(&self, id: TransactionId) -> Option<&Ended> {
        self.ended.get(&id)
    }

    /// How many transactions there are whose end is known.
    pub(super) fn ended_len(&self) -> usize {
        self.ended.len()
    }

    /// Every transaction whose end is known, the oldest first.
    pub(super) fn all_ended(&self) -> impl Iterator<Item = (TransactionId, &Ended)> + '_ {
        self.fading.iter().map(|(_, id)| (*id, &self.ended[id]))
    }

    /// How many have ended that may be forgotten.
    pub(super) fn overdue(&self) -> usize {
        self.fading.range(..(self.forgotten, TransactionId::default())).count()
    }

    /// Follows an entry. One that contradicts an earlier one means nothing: the first counts.
    pub(super) fn apply(&mut self, entry: &Entry, now: Instant) {
        match entry {
            Entry::Prepared(prepared) => {
                let ignores_outcome = self.rules.has(Plant::PrepareAfterOutcome);
                if ignores_outcome || !self.ended.contains_key(&prepared.transaction) {
                    self.prepare(prepared, now);
                    if commits_with_vote(self.system, &prepared.part) {
                        self.decide(prepared.transaction, Outcome::Committed(prepared.timestamp));
                    }
                }
            }
            Entry::Refused { transaction, participants, until } => {
                if self.prepared.entry(*transaction).is_none() && !self.ended.contains_key(transaction) {
                    let (participants, until) = (participants.clone(), *until);
                    self.end(*transaction, Ended { outcome: Outcome::Aborted, participants, until });
                }
            }
            Entry::Decided { transaction, outcome } => self.decide(*transaction, *outcome),
            Entry::Floor { floor, forgotten } => self.raise_floor(*floor, *forgotten),
            Entry::Ceiling(ceiling) => self.last = self.last.max(*ceiling),
        }
    }

    fn prepare(&mut self, prepared: &Prepared, now: Instant) {
        let Prepared { transaction, part, proposed, age, timestamp } = prepared;
        let held = quorate_store::Prepared { transaction: part.clone(), timestamp: *timestamp, since: now };
        self.prepared.insert(*transaction, held);
        self.proposals.insert(*transaction, Proposal { proposed: *proposed, age: *age });
        self.last = self.last.max(*timestamp);
    }

    fn decide(&mut self, id: TransactionId, outcome: Outcome) {
        let Some(held) = self.prepared.remove(id) else { return };
        let until = self.proposals.remove(&id).map_or(held.timestamp, |proposal| proposal.proposed);
        if let Outcome::Committed(timestamp) = outcome {
            for write in &held.transaction.writes {
                self.versions.install(&write.key, timestamp, write.value.clone());
            }
            self.last = self.last.max(timestamp);
        }
        let participants = held.transaction.participants.clone();
        self.end(id, Ended { outcome, participants, until });
    }

    fn end(&mut self, id: TransactionId, ended: Ended) {
        match ended.outcome {
            Outcome::Committed(_) => self.committed += 1,
            Outcome::Aborted => self.aborted += 1,
        }
        self.remember(id, ended);
    }

    fn remember(&mut self, id: TransactionId, ended: Ended) {
        self.fading.insert((ended.until, id));
        self.ended.insert(id, ended);
    }

    fn raise_floor(&mut self, floor: Timestamp, forgotten: Timestamp) {
        self.floor = self.floor.max(floor);
        self.forgotten = self.forgotten.max(forgotten);
        while let Some((until, id)) = self.fading.first().copied()
            && until < self.forgotten
        {
            self.fading.pop_first();
            self.ended.remove(&id);
        }
        // All of it, not a part at a time: what is kept is part of the state, which is alike everywhere.
        while self.versions.collect(self.floor, usize::MAX) {}
    }

    /// The state as it is now, in pages of about so many bytes.
    pub(super) fn freeze(&self, page_bytes_max: usize) -> Frozen {
        let prepared = self.prepared.ids().into_iter().filter_map(|id| {
            let held = self.prepared.entry(id)?;
            let Proposal { proposed, age } = self.proposals[&id];
            let (part, timestamp) = (held.transaction.clone(), held.timestamp);
            let prepared = Prepared { transaction: id, part, proposed, age, timestamp };
            Some((ENTRY_BYTES + held.transaction.bytes(), prepared))
        });
        let ended = self.all_ended().map(|(id, ended)| (ENTRY_BYTES, (id, ended.clone())));
        let (floor, forgotten, last) = (self.floor, self.forgotten, self.last);
        let mut pages = VecDeque::from([Page::Bounds { floor, forgotten, last }]);
        pages.extend(self.freeze_data(page_bytes_max).pages);
        pages.extend(divide(prepared, page_bytes_max).into_iter().map(Page::Prepared));
        pages.extend(divide(ended, page_bytes_max).into_iter().map(Page::Ended));
        Frozen { pages }
    }

    /// The versions alone, in pages of about so many bytes.
    pub(super) fn freeze_data(&self, page_bytes_max: usize) -> Frozen {
        let versions = self.versions.iter().map(|(key, version)| {
            let version = version.to_version();
            let bytes = key.len() + version.value.as_ref().map_or(0, |value| value.len());
            (ENTRY_BYTES + bytes, (key.clone(), version))
        });
        Frozen { pages: divide(versions, page_bytes_max).into_iter().map(Page::Versions).collect() }
    }

    /// The state that these pages hold. Nobody knows here since when what is prepared is: it counts as old.
    pub(super) fn from_pages(pages: Vec<Page>, system: System, rules: Rules) -> Self {
        let mut state = State::new(system, rules);
        for page in pages {
            match page {
                Page::Versions(versions) => {
                    for (key, version) in versions {
                        state.versions.install(&key, version.timestamp, version.value);
                    }
                }
                Page::Prepared(prepared) => {
                    for prepared in prepared {
                        state.prepare(&prepared, Instant::START);
                    }
                }
                Page::Ended(page) => {
                    for (id, ended) in page {
                        state.remember(id, ended);
                    }
                }
                Page::Bounds { floor, forgotten, last } => {
                    (state.floor, state.forgotten) = (floor, forgotten);
                    state.last = state.last.max(last);
                }
            }
        }
        state
    }
}

/// True if the vote of the one shard that takes part decides a transaction.
pub(super) fn commits_with_vote(system: System, part: &Transaction) -> bool {
    system.commits_with_one_vote() && part.participants.len() == 1
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use quorate_core::{ClientId, Key, ShardId, Transaction, Value, Write};

    use super::*;

    fn id(sequence: u64) -> TransactionId {
        TransactionId { client: ClientId(1), sequence, attempt: 0 }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn prepared(sequence: u64, micros: u64) -> Entry {
        let write = Write { key: Key::from("k"), value: Some(Value::from_static(b"v")) };
        let part = Transaction {
            writes: vec![write],
            participants: vec![ShardId(1), ShardId(2)],
            ..Transaction::default()
        };
        Entry::Prepared(Prepared {
            transaction: id(sequence),
            part: Arc::new(part),
            proposed: at(micros),
            age: at(micros - 1),
            timestamp: at(micros + 1),
        })
    }

    fn refused(sequence: u64, micros: u64) -> Entry {
        let participants = vec![ShardId(1), ShardId(2)];
        Entry::Refused { transaction: id(sequence), participants, until: at(micros) }
    }

    fn decided(sequence: u64, outcome: Outcome) -> Entry {
        Entry::Decided { transaction: id(sequence), outcome }
    }

    fn state(entries: &[Entry]) -> State {
        let mut state = State::new(System::TxnOcc, Rules::SOUND);
        for entry in entries {
            state.apply(entry, Instant::from_nanos(7));
        }
        state
    }

    #[test]
    fn the_first_of_two_votes_counts() {
        let both = state(&[prepared(1, 10), refused(1, 10), refused(2, 10), prepared(2, 10)]);
        assert_eq!(both.prepared.ids(), [id(1)]);
        assert_eq!(both.ended(id(1)), None);
        assert_eq!(both.ended(id(2)).map(|ended| ended.outcome), Some(Outcome::Aborted));
    }

    #[test]
    fn an_outcome_is_followed_once_and_only_if_the_transaction_is_prepared() {
        let committed = Outcome::Committed(at(12));
        let state = state(&[
            decided(1, committed),
            prepared(1, 10),
            decided(1, committed),
            decided(1, Outcome::Aborted),
            prepared(1, 10),
        ]);
        assert!(state.prepared.is_empty() && state.proposals.is_empty());
        assert_eq!(state.ended(id(1)).map(|ended| (ended.outcome, ended.until)), Some((committed, at(10))));
        assert_eq!(state.versions.newest_timestamp(b"k"), at(12));
        assert_eq!(state.last, at(12));
    }

    #[test]
    fn the_vote_of_the_only_participant_commits_where_that_is_the_rule() {
        let Entry::Prepared(prepared) = prepared(1, 10) else { unreachable!("it is one") };
        let part = Transaction { participants: vec![ShardId(1)], ..(*prepared.part).clone() };
        let alone = Entry::Prepared(Prepared { part: Arc::new(part), ..prepared });
        for (system, commits) in [(System::Sinfonia, true), (System::TxnOcc, false)] {
            let mut state = State::new(system, Rules::SOUND);
            state.apply(&alone, Instant::START);
            let ended = state.ended(id(1)).map(|ended| (ended.outcome, ended.until));
            assert_eq!(ended, commits.then_some((Outcome::Committed(at(11)), at(10))), "{system}");
            assert_eq!(state.prepared.is_empty(), commits);
            assert_eq!(state.versions.newest_timestamp(b"k"), if commits { at(11) } else { Timestamp::ZERO });
            state.apply(&refused(1, 10), Instant::START);
            assert_eq!(state.aborted, 0, "it comes too late");
        }
    }

    #[test]
    fn outcomes_are_forgotten_below_their_bound_and_versions_below_the_floor() {
        let mut state = state(&[
            prepared(1, 10),
            decided(1, Outcome::Committed(at(11))),
            prepared(2, 20),
            decided(2, Outcome::Committed(at(21))),
        ]);
        state.apply(&Entry::Floor { floor: at(30), forgotten: at(10) }, Instant::START);
        assert_eq!((state.all_ended().count(), state.versions.count(), state.overdue()), (2, 1, 0));
        state.apply(&Entry::Floor { floor: at(25), forgotten: at(20) }, Instant::START);
        assert_eq!((state.floor, state.all_ended().count()), (at(30), 1));
        assert_eq!(state.ended(id(1)), None);
    }

    #[test]
    fn pages_hold_all_of_the_state_and_are_alike_however_they_were_come_by() {
        let state = state(&[
            prepared(1, 10),
            decided(1, Outcome::Committed(at(11))),
            prepared(2, 20),
            decided(2, Outcome::Committed(at(21))),
            prepared(3, 30),
            refused(4, 40),
            Entry::Floor { floor: at(5), forgotten: at(3) },
            Entry::Ceiling(at(90)),
        ]);
        let pages = |state: &State, bytes_max| {
            let mut frozen = state.freeze(bytes_max);
            std::iter::from_fn(|| frozen.next_page()).collect::<Vec<_>>()
        };
        let small = pages(&state, 1);
        assert_eq!(small.len(), 1 + 2 + 1 + 3, "one page for each thing");
        let copy = State::from_pages(small.clone(), System::TxnOcc, Rules::SOUND);
        assert_eq!(pages(&copy, 1), small);
        assert_eq!(pages(&copy, 1 << 20), pages(&state, 1 << 20));
        assert_eq!(copy.last, at(90));
        assert_eq!(copy.prepared.older_than(Instant::START), [id(3)], "it counts as old");
    }
}
