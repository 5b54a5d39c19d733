//! The state that the entries of the log have led to: the same at every replica at the same position.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use quorate_access::{concerns_administrators, loses_administrators};
use quorate_core::command::Outcome;
use quorate_core::log::Position;
use quorate_core::{ClientId, Key, KeyRange, TransactionId, Value};
use quorate_store::ClientTable;
use quorate_store::client_table::{Known, Remembered, Request};

use super::history::History;
use crate::config::Limits;
use crate::entry::{Change, Done, Entry, KeyState, LeaseId, Page, Revision, Stored};
use crate::map::SharedMap;
use crate::message::{Compare, ConditionalWrite, WriteResult};
use crate::rules::{Plant, Rules};

/// So many clients go into one page.
const CLIENTS_IN_PAGE: usize = 100;

/// The state of a replica.
#[derive(Debug)]
pub(super) struct State {
    limits: Limits,
    rules: Rules,
    /// Where the last entry that was applied stands.
    pub(super) position: Position,
    pub(super) revision: Revision,
    keys: SharedMap<Key, Stored>,
    /// The sum of the lengths of all keys and values.
    bytes: usize,
    pub(super) history: History,
    leases: SharedMap<LeaseId, Duration>,
    /// The keys that are bound to each lease.
    bound: BTreeMap<LeaseId, BTreeSet<Key>>,
    /// How many leases each client has.
    leases_of: BTreeMap<ClientId, usize>,
    /// Shared with frozen states: the first to write to it copies it, which is bounded.
    clients: Arc<ClientTable<Done>>,
}

/// The result of an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Applied {
    /// A write has this result, now or since it was applied before; none if nobody knows any more.
    Write(Option<WriteResult>),
    /// The lease is there now, unless there are too many.
    Granted(bool),
    /// There is no such lease now.
    Ended,
}

/// The state of a write, as far as it is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KnownWrite<'a> {
    New,
    Done(&'a WriteResult),
    /// It was given up for a later attempt: it was not applied and will not be.
    Superseded,
    TooOld,
}

impl State {
    pub(super) fn new(limits: Limits, rules: Rules) -> Self {
        State {
            limits,
            rules,
            position: Position::START,
            revision: Revision::START,
            keys: SharedMap::default(),
            bytes: 0,
            history: History::default(),
            leases: SharedMap::default(),
            bound: BTreeMap::new(),
            leases_of: BTreeMap::new(),
            clients: Arc::new(ClientTable::new(limits.results_max, limits.clients_max)),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Stored> {
        self.keys.get(key)
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&Key, &Stored)> {
        self.keys.iter()
    }

    /// The known outcomes of writes, ascending.
    pub(super) fn outcomes(&self) -> Vec<(TransactionId, Outcome)> {
        let mut outcomes = Vec::new();
        let mut after = None;
        while let Some(page) = self.clients.page(after, CLIENTS_IN_PAGE) {
            after = page.clients.last().map(|client| client.client);
            for Remembered { client, results, .. } in page.clients {
                let id = |sequence, attempt| TransactionId { client, sequence, attempt };
                let outcome = |(sequence, done): (u64, Done)| {
                    let id = id(sequence, done.attempt);
                    (id, done.result.outcome(id))
                };
                outcomes.extend(results.into_iter().map(outcome));
            }
        }
        outcomes
    }

    /// The keys of a range, ascending.
    pub(super) fn range<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = (&'a Key, &'a Stored)> {
        let from = self.keys.range(Bound::Included(&range.from));
        from.take_while(move |(key, _)| range.to.as_ref().is_none_or(|to| *key < to))
    }

    pub(super) fn lease(&self, lease: LeaseId) -> Option<Duration> {
        self.leases.get(&lease).copied()
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.leases.iter().map(|(lease, duration)| (*lease, *duration))
    }

    pub(super) fn leases_len(&self) -> usize {
        self.leases.len()
    }

    /// Every key that a lease binds is there and bound to it, and the other way round.
    pub(super) fn assert_bound(&self) {
        let mut bound = 0;
        for (lease, keys) in &self.bound {
            for key in keys {
                let holder = self.get(key).and_then(|stored| stored.lease);
                assert!(
                    holder == Some(*lease),
                    "CONF4: {key:?} is bound to {lease:?}, and held by {holder:?}"
                );
            }
            bound += keys.len();
        }
        let leased = self.all().filter(|(_, stored)| stored.lease.is_some()).count();
        assert!(leased == bound, "CONF4: {leased} keys are bound to leases, and the leases know {bound}");
    }

    /// The sums are those of what there is.
    pub(super) fn assert_counted(&self) {
        let bytes: usize = self.all().map(|(key, stored)| key.len() + stored.value.len()).sum();
        assert!(bytes == self.bytes, "CONF5: all keys have {bytes} bytes, and {} are counted", self.bytes);
        let (leases, counted) = (self.leases.len(), self.leases_of.values().sum::<usize>());
        assert!(leases == counted, "CONF5: {leases} leases are held, and {counted} are counted");
    }

    #[cfg(test)]
    pub(super) fn break_lease(&mut self, lease: LeaseId, duration: Duration) {
        self.leases.insert(lease, duration);
    }

    #[cfg(test)]
    pub(super) fn break_bound(&mut self, lease: LeaseId, key: Key) {
        self.bound.entry(lease).or_default().insert(key);
    }

    #[cfg(test)]
    pub(super) fn break_stored(&mut self, lease: LeaseId, key: Key) {
        let (value, changed) = (quorate_core::Value::new(), Revision::START);
        self.bytes += key.len();
        self.keys.insert(key, Stored { value, created: changed, changed, lease: Some(lease) });
    }

    #[cfg(test)]
    pub(super) fn break_bytes(&mut self) {
        self.bytes += 1;
    }

    /// The state of a write that its client sent when it knew the log up to a position.
    pub(super) fn known(&self, id: TransactionId, since: Position) -> KnownWrite<'_> {
        match self.clients.look_up(request(id, since)) {
            Known::New => KnownWrite::New,
            Known::TooOld => KnownWrite::TooOld,
            Known::Executed(done) if done.attempt == id.attempt => KnownWrite::Done(&done.result),
            Known::Executed(done) if done.attempt > id.attempt => KnownWrite::Superseded,
            // A written transaction has no later attempt, even if another client asks for one to be settled.
            Known::Executed(Done { result: WriteResult::Written { .. }, .. }) => KnownWrite::Superseded,
            Known::Executed(_) => KnownWrite::New,
        }
    }

    /// Applies an entry.
    pub(super) fn apply(&mut self, position: Position, entry: &Entry) -> Applied {
        assert!(
            position > self.position,
            "the entry at {position:?} is applied after that at {:?}",
            self.position
        );
        self.position = position;
        match entry {
            Entry::Write { transaction, since, write } => {
                if let Some(known) = self.done(*transaction, *since) {
                    return Applied::Write(known);
                }
                let result = self.execute(transaction.client, write);
                let done = Done { attempt: transaction.attempt, result };
                Arc::make_mut(&mut self.clients).note(request(*transaction, *since), position, done);
                Applied::Write(Some(result))
            }
            Entry::Settle { transaction, since } => {
                if let Some(known) = self.done(*transaction, *since) {
                    return Applied::Write(known);
                }
                // Anybody may name any number: that must not make the client's own ones too old.
                let done = Done { attempt: transaction.attempt, result: WriteResult::Settled };
                let clients = Arc::make_mut(&mut self.clients);
                let is_settled = clients.set_aside(request(*transaction, *since), position, done);
                Applied::Write(is_settled.then_some(WriteResult::Settled))
            }
            Entry::Grant { lease, duration } => Applied::Granted(self.grant(*lease, *duration)),
            Entry::End { lease } => {
                self.end(*lease);
                Applied::Ended
            }
        }
    }

    /// The result of a write that has been done, none within if nobody knows whether it has; none if it is to be done.
    fn done(&self, id: TransactionId, since: Position) -> Option<Option<WriteResult>> {
        if self.rules.has(Plant::RepeatedAfterFailOver) {
            return None;
        }
        match self.known(id, since) {
            KnownWrite::New => None,
            KnownWrite::Done(result) => Some(Some(*result)),
            KnownWrite::Superseded => Some(Some(WriteResult::Settled)),
            KnownWrite::TooOld => Some(None),
        }
    }

    fn execute(&mut self, client: ClientId, write: &ConditionalWrite) -> WriteResult {
        if let Some(compare) = write.compares.iter().position(|compare| !self.holds(compare)) {
            return WriteResult::NotHeld { revision: self.revision, compare: compare as u32 };
        }
        let bound = write.puts.iter().filter(|put| put.value.is_some()).filter_map(|put| put.lease);
        if let Some(lease) = bound.into_iter().find(|lease| !self.may_bind(client, *lease)) {
            return WriteResult::NoSuchLease { lease };
        }
        if self.loses_administrators(write) {
            return WriteResult::LastAdministrator;
        }
        if self.bytes_after(write) > self.limits.bytes_max.max(self.bytes) {
            return WriteResult::Full;
        }
        if write.puts.is_empty() {
            return WriteResult::Written { revision: self.revision };
        }
        let revision = self.revision.next();
        assert!(revision > self.revision, "a write is given the revision {revision:?}, as one before");
        let mut keys = Vec::with_capacity(write.puts.len());
        for put in &write.puts {
            let before = self.take(&put.key);
            let stored = put.value.as_ref().map(|value| Stored {
                value: value.clone(),
                created: before.as_ref().map_or(revision, |stored| stored.created),
                changed: revision,
                lease: put.lease,
            });
            if before.is_some() || stored.is_some() {
                keys.push(KeyState { key: put.key.clone(), stored: stored.clone() });
            }
            if let Some(stored) = stored {
                self.put(put.key.clone(), stored);
            }
        }
        self.note(Change { revision, keys });
        WriteResult::Written { revision }
    }

    /// True if a write would leave nobody who may let others in. It is decided here and not by the client, because two clients may each take away one of the last
    /// two administrators.
    fn loses_administrators(&self, write: &ConditionalWrite) -> bool {
        if !write.puts.iter().any(|put| concerns_administrators(&put.key))
            || self.rules.has(Plant::AdministratorsLost)
        {
            return false;
        }
        let last = |value: &'_ Value, lease: Option<LeaseId>| lasting(value, lease).clone();
        let puts: Vec<_> = write
            .puts
            .iter()
            .map(|put| (put.key.clone(), put.value.as_ref().map(|value| last(value, put.lease))))
            .collect();
        loses_administrators(&Lasting(self), &puts)
    }

    /// CONF6.
    pub(super) fn assert_administered(&self) {
        let is_empty = self.range(&quorate_access::user_range()).next().is_none();
        assert!(
            is_empty || quorate_access::has_administrators(&Lasting(self)),
            "CONF6: there are users, and no administrator"
        );
    }

    /// True if a client may bind keys to a lease: it holds it.
    fn may_bind(&self, client: ClientId, lease: LeaseId) -> bool {
        lease.client == client && self.lease(lease).is_some()
    }

    /// True if a condition holds.
    pub(super) fn holds(&self, compare: &Compare) -> bool {
        match compare {
            Compare::Key { key, changed } => {
                let found = self.get(key).map(|stored| stored.changed);
                found == *changed || changed.is_none() && self.rules.has(Plant::AbsenceNotCompared)
            }
            Compare::Range { range, after, keys } => {
                self.rules.has(Plant::AbsenceNotCompared) || self.is_as_it_was(range, *after, *keys)
            }
        }
    }

    /// A key that has come or changed since has a later revision; if none has, a key that has gone is missing in number.
    fn is_as_it_was(&self, range: &KeyRange, after: Revision, keys: u64) -> bool {
        let mut found = 0;
        for (_, stored) in self.range(range) {
            found += 1;
            if stored.changed > after || found > keys {
                return false;
            }
        }
        found == keys
    }

    fn bytes_after(&self, write: &ConditionalWrite) -> usize {
        let mut bytes = self.bytes;
        for put in &write.puts {
            let before = self.get(&put.key).map_or(0, |stored| put.key.len() + stored.value.len());
            assert!(bytes >= before, "{:?} has {before} bytes, and all keys have {bytes}", put.key);
            bytes -= before;
            bytes += put.value.as_ref().map_or(0, |value| put.key.len() + value.len());
        }
        bytes
    }

    /// Puts a key that is absent.
    fn put(&mut self, key: Key, stored: Stored) {
        self.bytes += key.len() + stored.value.len();
        if let Some(lease) = stored.lease {
            self.bound.entry(lease).or_default().insert(key.clone());
        }
        self.keys.insert(key, stored);
    }

    /// Takes a key away.
    fn take(&mut self, key: &Key) -> Option<Stored> {
        let stored = self.keys.remove(key)?;
        let bytes = key.len() + stored.value.len();
        assert!(self.bytes >= bytes, "{key:?} has {bytes} bytes, and all keys have {}", self.bytes);
        self.bytes -= bytes;
        assert!(self.bytes > 0 || self.keys.len() == 0, "{} keys have no bytes", self.keys.len());
        let is_planted = self.rules.has(Plant::LeaseTakesOthersKeys);
        if let Some(lease) = stored.lease.filter(|_| !is_planted)
            && let Some(keys) = self.bound.get_mut(&lease)
        {
            let was_bound = keys.remove(key);
            assert!(was_bound, "{key:?} is bound to {lease:?}, which does not know");
            if keys.is_empty() {
                self.bound.remove(&lease);
            }
        }
        Some(stored)
    }

    fn note(&mut self, change: Change) {
        assert!(change.revision == self.revision.next(), "{:?} follows {:?}", change.revision, self.revision);
        self.revision = change.revision;
        self.history.push(change, &self.limits);
    }

    fn grant(&mut self, lease: LeaseId, duration: Duration) -> bool {
        if self.lease(lease).is_some() {
            return true;
        }
        let of_client = self.leases_of.entry(lease.client).or_default();
        if self.leases.len() >= self.limits.leases_max || *of_client >= self.limits.leases_of_client_max {
            if *of_client == 0 {
                self.leases_of.remove(&lease.client);
            }
            return false;
        }
        *of_client += 1;
        assert!(
            *of_client <= self.limits.leases_of_client_max,
            "{of_client} leases are held by {:?}",
            lease.client
        );
        self.leases.insert(lease, duration);
        assert!(self.leases.len() <= self.limits.leases_max, "{} leases are held", self.leases.len());
        true
    }

    /// A lease ends, and what is bound to it vanishes.
    fn end(&mut self, lease: LeaseId) {
        if self.leases.remove(&lease).is_none() {
            return;
        }
        let of_client = self.leases_of.get_mut(&lease.client);
        assert!(of_client.is_some(), "{lease:?} ends, and its client has no lease");
        if let Some(of_client) = of_client {
            assert!(*of_client > 0, "{lease:?} ends, and its client has none");
            *of_client -= 1;
            if *of_client == 0 {
                self.leases_of.remove(&lease.client);
            }
        }
        let bound = self.bound.remove(&lease).unwrap_or_default();
        assert!(bound.len() <= self.keys.len(), "{} keys are bound to {lease:?}", bound.len());
        let mut keys = Vec::with_capacity(bound.len());
        for key in bound {
            if self.take(&key).is_some() {
                keys.push(KeyState { key, stored: None });
            }
        }
        if !keys.is_empty() {
            self.note(Change { revision: self.revision.next(), keys });
        }
    }

    /// The state as it is now.
    pub(super) fn freeze(&self, page_bytes_max: usize) -> Frozen {
        Frozen {
            page_bytes_max,
            revisions: Some((self.revision, self.history.forgotten())),
            keys: self.keys.clone(),
            key: None,
            changes: self.history.changes().cloned().collect(),
            leases: Some(self.leases.clone()),
            clients: (!self.rules.has(Plant::SnapshotWithoutClients)).then(|| Arc::clone(&self.clients)),
            client: None,
        }
    }

    /// The state that these pages hold.
    pub(super) fn from_pages(base: Position, pages: Vec<Page>, limits: Limits, rules: Rules) -> Self {
        let mut state = State::new(limits, rules);
        state.position = base;
        for page in pages {
            match page {
                Page::Revisions { revision, forgotten } => {
                    state.revision = revision;
                    state.history = History::after(forgotten);
                }
                Page::Keys(keys) => {
                    for (key, stored) in keys {
                        state.put(key, stored);
                    }
                }
                Page::Changes(changes) => {
                    for change in changes {
                        state.history.restore(change);
                    }
                }
                Page::Leases(leases) => {
                    for (lease, duration) in leases {
                        *state.leases_of.entry(lease.client).or_default() += 1;
                        state.leases.insert(lease, duration);
                    }
                }
                Page::Clients(page) => Arc::make_mut(&mut state.clients).take_page(page),
            }
        }
        if rules.has(Plant::RevisionFromKeys) {
            let last = state.keys.iter().map(|(_, stored)| stored.changed).max();
            state.revision = last.unwrap_or_default();
        }
        state
    }
}

/// The entries of access control that no lease takes away. An administrator that vanishes with a lease is none to rely on.
struct Lasting<'a>(&'a State);

/// A value that is no entry.
static NO_ENTRY: Value = Value::new();

fn lasting(value: &Value, lease: Option<LeaseId>) -> &Value {
    if lease.is_none() { value } else { &NO_ENTRY }
}

impl quorate_access::Entries for Lasting<'_> {
    fn entry(&self, key: &Key) -> Option<&Value> {
        self.0.get(key).map(|stored| lasting(&stored.value, stored.lease))
    }

    fn users(&self) -> impl Iterator<Item = (&Key, &Value)> {
        let (from, to) = quorate_access::USER_RANGE;
        let from = Key::from(from);
        let users = self.0.keys.all_from(&from).take_while(move |(key, _)| key.as_slice() < to.as_bytes());
        users.map(|(key, stored)| (key, lasting(&stored.value, stored.lease)))
    }
}

fn request(id: TransactionId, since: Position) -> Request {
    Request { client: id.client, number: id.sequence, since }
}

/// A state as it was at one position, while more entries come.
#[derive(Debug)]
pub struct Frozen {
    page_bytes_max: usize,
    revisions: Option<(Revision, Revision)>,
    keys: SharedMap<Key, Stored>,
    /// The last key that was given.
    key: Option<Key>,
    changes: VecDeque<Arc<Change>>,
    leases: Option<SharedMap<LeaseId, Duration>>,
    clients: Option<Arc<ClientTable<Done>>>,
    /// The last client that was given.
    client: Option<ClientId>,
}

impl Frozen {
    pub(super) fn next_page(&mut self) -> Option<Page> {
        if let Some((revision, forgotten)) = self.revisions.take() {
            return Some(Page::Revisions { revision, forgotten });
        }
        let keys = self.next_keys();
        if !keys.is_empty() {
            let last = keys.last().map(|(key, _)| key.clone());
            assert!(last > self.key, "a page of a state ends with {last:?}, after {:?}", self.key);
            self.key = last;
            return Some(Page::Keys(keys));
        }
        if !self.changes.is_empty() {
            return Some(Page::Changes(self.next_changes()));
        }
        if let Some(leases) = self.leases.take()
            && leases.len() > 0
        {
            return Some(Page::Leases(leases.iter().map(|(lease, duration)| (*lease, *duration)).collect()));
        }
        let page = self.clients.as_ref()?.page(self.client, CLIENTS_IN_PAGE)?;
        let last = page.clients.last().map(|client| client.client);
        assert!(last > self.client, "a page of a state ends with {last:?}, after {:?}", self.client);
        self.client = last;
        Some(Page::Clients(page))
    }

    fn next_keys(&self) -> Vec<(Key, Stored)> {
        const ENTRY_BYTES: usize = 64;
        let from = self.key.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let (mut keys, mut bytes) = (Vec::new(), 0);
        for (key, stored) in self.keys.range(from) {
            keys.push((key.clone(), stored.clone()));
            bytes += ENTRY_BYTES + key.len() + stored.value.len();
            if bytes >= self.page_bytes_max {
                break;
            }
        }
        keys
    }

    fn next_changes(&mut self) -> Vec<Arc<Change>> {
        let (mut changes, mut bytes) = (Vec::new(), 0);
        while let Some(change) = self.changes.pop_front() {
            bytes += change.bytes();
            changes.push(change);
            if bytes >= self.page_bytes_max {
                break;
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests;
