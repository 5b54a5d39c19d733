//! The state that the entries of the log have led to: the same at all replicas of a local site.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use quorate_core::changes::Retention;
use quorate_core::hash::FixedMap;
use quorate_core::log::divide;
use quorate_core::{Instant, Key, ShardId, TransactionId};

use super::retained::Retained;
use super::survival::of_sites;
use crate::container::role;
use crate::entry::{Commit, Ended, Entry, Lock, Page, Stretch};
use crate::histories::{Base, Count, Histories, Placed, Read, Update};
use crate::message::{Ending, Period};
use crate::removal::{self, End, Removal};
use crate::rules::{Plant, Rules};
use crate::vector::{LocalSite, Vector, VersionNumber};

/// The replicated state.
#[derive(Debug)]
pub(super) struct State {
    rules: Rules,
    site: LocalSite,
    /// All objects, and what has been received: the paper's *GotVTS* and *histories*.
    pub(super) histories: Histories,
    /// The transactions that have committed here: the paper's *CommittedVTS*. New snapshots are copies of it.
    pub(super) committed: Vector,
    /// The transactions that the floor does not include, by site, in the order of their numbers: the first is the one after the floor.
    pub(super) journals: BTreeMap<LocalSite, VecDeque<Arc<Commit>>>,
    /// The locks, by transaction. Since when they are held is known to this replica alone.
    pub(super) locks: BTreeMap<TransactionId, (Lock, Instant)>,
    /// The transaction that has the lock of each register.
    locked: FixedMap<Key, TransactionId>,
    /// How transactions of this site have ended, and in which period.
    ended: FixedMap<TransactionId, (Ending, Period)>,
    fading: BTreeSet<(Period, TransactionId)>,
    /// The present period, from one.
    pub(super) period: Period,
    /// A message that names this period or an earlier one is refused.
    pub(super) forgotten: Period,
    /// How many transactions of this site have committed and been refused since this replica began.
    pub(super) decided: (u64, u64),
    /// The sites that were taken out, in this order.
    pub(super) removals: Vec<Removal>,
    /// How far this site had come when it went on without the last one.
    pub(super) freeze: Option<removal::Frozen>,
    /// The sites that have joined, in this order.
    pub(super) joined: Vec<ShardId>,
    /// The transactions that the floor includes and consumers of changes may still ask for.
    pub(super) retained: Retained,
    /// The last transaction of this site that another site has included in a snapshot, as far as it has committed here: all up to it are disaster-safe durable.
    pub(super) vouched: u64,
    /// The pages of the state of another site that were adopted so far; none once there is nothing to adopt.
    adopting: Option<Vec<Page>>,
}

impl State {
    /// The state of a founder before the first entry.
    pub(super) fn new(site: LocalSite, rules: Rules) -> Self {
        State {
            rules,
            site,
            histories: Histories::new(site),
            committed: Vector::default(),
            journals: BTreeMap::new(),
            locks: BTreeMap::new(),
            locked: FixedMap::default(),
            ended: FixedMap::default(),
            fading: BTreeSet::new(),
            period: Period(1),
            forgotten: Period(0),
            decided: (0, 0),
            removals: Vec::new(),
            freeze: None,
            joined: Vec::new(),
            retained: Retained::new(Retention::NONE),
            vouched: 0,
            adopting: None,
        }
    }

    /// The state before the first entry of a site that joins: it adopts that of another one.
    pub(super) fn joining(site: LocalSite, rules: Rules) -> Self {
        State { adopting: Some(Vec::new()), ..State::new(site, rules) }
    }

    /// The same state, which retains so much for consumers of changes from here on.
    pub(super) fn retaining(mut self, retention: Retention) -> Self {
        assert!(
            self.histories.floor().numbers().is_empty(),
            "nothing was let go before it is known what is retained"
        );
        self.retained = Retained::new(retention);
        self
    }

    /// True if this site has all that the keyspace has, but for what is on its way: it was founded with it, or has adopted the state of another site.
    pub(super) fn is_whole(&self) -> bool {
        self.adopting.is_none()
    }

    /// How many pages were adopted, of a state that is not whole.
    pub(super) fn adopted(&self) -> usize {
        self.adopting.as_ref().map_or(0, Vec::len)
    }

    /// How a transaction of this site has ended; none if it has not, as far as is known.
    pub(super) fn ending(&self, id: TransactionId) -> Option<&Ending> {
        self.ended.get(&id).map(|(ending, _)| ending)
    }

    /// All of them, in no order.
    pub(super) fn endings(&self) -> impl Iterator<Item = (TransactionId, &Ending)> {
        self.ended.iter().map(|(id, (ending, _))| (*id, ending))
    }

    /// How many endings are remembered.
    pub(super) fn ended_len(&self) -> usize {
        self.ended.len()
    }

    /// How many endings are remembered although nothing may ask for them any more.
    pub(super) fn overdue(&self) -> usize {
        let may_fade = |(period, id): &&(Period, TransactionId)| {
            *period <= self.forgotten && self.ended.get(id).is_some_and(|(ending, _)| self.may_fade(ending))
        };
        self.fading.iter().filter(may_fade).count()
    }

    /// The removal of a site.
    pub(super) fn removal(&self, site: LocalSite) -> Option<&Removal> {
        self.removals.iter().find(|removal| removal.site == site)
    }

    /// The sites that were taken out and whose end is open.
    pub(super) fn open_removals(&self) -> impl Iterator<Item = LocalSite> {
        self.removals.iter().filter(|removal| removal.end.is_none()).map(|removal| removal.site)
    }

    /// True if the end of every site that was taken out is settled.
    pub(super) fn are_settled(&self) -> bool {
        self.open_removals().next().is_none()
    }

    /// The site that lets in what one let in at first, and what must have committed there before; none as long as an end is open.
    pub(super) fn successor(&self, site: LocalSite) -> Option<(LocalSite, Vector)> {
        let (mut site, mut barrier) = self.entrusted(site);
        // A successor was not taken out before the one that it succeeds, so this ends.
        while let Some(removal) = self.removal(site) {
            barrier.join(&removal.end.as_ref()?.barrier);
            site = removal.successor;
        }
        Some((site, barrier))
    }

    /// The site to which the role of one was handed over last, and the transaction that did it; the site itself if none has.
    fn entrusted(&self, site: LocalSite) -> (LocalSite, Vector) {
        let mut needs = Vector::default();
        // Nothing is handed over before the first site joins, and every write asks.
        if !self.joined.is_empty()
            && let Some(placed) = self.histories.container(&role(site), None)
            && let Some(container) = &placed.value
        {
            needs.include(placed.version);
            return (container.preferred, needs);
        }
        (site, needs)
    }

    /// The registers that are locked.
    pub(super) fn locked(&self) -> impl Iterator<Item = &Key> {
        self.locks.values().flat_map(|(lock, _)| &lock.keys)
    }

    /// The transaction that has the lock of a register.
    pub(super) fn holder(&self, key: &[u8]) -> Option<TransactionId> {
        self.locked.get(key).copied()
    }

    /// A transaction that the floor does not include.
    pub(super) fn commit(&self, version: VersionNumber) -> Option<&Arc<Commit>> {
        let after = version.seqno.checked_sub(self.histories.floor().of(version.site) + 1)?;
        let commit = self.journals.get(&version.site)?.get(usize::try_from(after).ok()?)?;
        assert!(commit.version == version, "{} stands where {version} is to be", commit.version);
        Some(commit)
    }

    pub(super) fn apply(&mut self, entry: &Entry, now: Instant) {
        match entry {
            Entry::Commit(commit) => self.apply_commit(commit),
            Entry::Refused(id) => self.refuse(*id),
            Entry::Received(commits) => commits.iter().for_each(|commit| self.receive(commit)),
            Entry::Advance(committed) => self.advance(committed),
            Entry::Locked { transaction, origin, keys } => {
                let lock = Lock { transaction: *transaction, origin: *origin, keys: keys.clone() };
                self.lock(lock, now);
            }
            Entry::Released(id) => self.release(*id),
            Entry::Join(joined) => self.join(joined),
            Entry::Adopt { number, is_last, page } => self.adopt(*number as usize, *is_last, page),
            Entry::Anew {} => {
                *self = State::joining(self.site, self.rules).retaining(self.retained.retention())
            }
            Entry::Freeze(removals) => self.freeze_without(removals),
            Entry::Removed { site, end } => self.remove(*site, end),
            Entry::Floor { floor, forgotten } => self.raise_floor(floor, *forgotten),
        }
    }

    /// A transaction of this site commits: it takes effect, and every snapshot includes it from here on.
    fn apply_commit(&mut self, commit: &Arc<Commit>) {
        let version = commit.version;
        if !self.rules.has(Plant::NumberBeforeVotes) {
            assert!(
                version.site == self.site && version.seqno == self.committed.of(self.site) + 1,
                "{version} commits at {} after number {}",
                self.site,
                self.committed.of(self.site)
            );
        }
        assert!(!self.ended.contains_key(&commit.transaction), "{} commits once", commit.transaction);
        if self.rules.has(Plant::NumberBeforeVotes) && version.seqno != self.committed.of(self.site) + 1 {
            // The numbers of this site have a gap, so nothing that comes after it takes effect anywhere.
            return;
        }
        self.take_effect(commit);
        self.committed.include(version);
        let ending =
            Ending::Committed { version, snapshot: commit.snapshot.clone(), is_slow: commit.is_slow };
        self.end(commit.transaction, ending);
        self.decided.0 += 1;
    }

    fn refuse(&mut self, id: TransactionId) {
        if !self.ended.contains_key(&id) {
            self.end(id, Ending::Aborted);
            self.decided.1 += 1;
        }
    }

    /// A transaction of another site takes effect. Its causes have.
    fn receive(&mut self, commit: &Arc<Commit>) {
        let effects_first = self.rules.has(Plant::EffectsFirst);
        assert!(commit.version.site != self.site, "{} is no transaction of another site", commit.version);
        assert!(
            self.histories.received().includes_all(&commit.snapshot) || effects_first,
            "{} takes effect with {} and {} is here: causes come before effects",
            commit.version,
            commit.snapshot,
            self.histories.received()
        );
        let is_lost = self.removal(commit.version.site).is_some();
        for update in commit.updates.iter().filter(|update| matches!(update, Update::Noted { .. })) {
            assert!(
                !self.histories.needs(update.object(), &commit.snapshot) || is_lost || effects_first,
                "{} takes effect at {} without the values of {:?}, which has a replica here",
                commit.version,
                self.site,
                update.object()
            );
        }
        self.take_effect(commit);
    }

    fn take_effect(&mut self, commit: &Arc<Commit>) {
        self.histories.apply(commit.version, &commit.updates);
        let (site, journal) = (commit.version.site, self.journals.entry(commit.version.site).or_default());
        journal.push_back(Arc::clone(commit));
        let (kept, first) = (journal.len() as u64, self.histories.floor().of(site));
        assert!(
            first + kept == commit.version.seqno,
            "{} takes effect, and the journal of {site} has {kept} after {first}",
            commit.version
        );
    }

    /// Transactions of other sites commit here, with all that their snapshots include.
    fn advance(&mut self, committed: &Vector) {
        let before = self.committed.clone();
        self.committed.join(committed);
        assert!(
            self.histories.received().includes_all(&self.committed),
            "{} commits here and {} was received",
            self.committed,
            self.histories.received()
        );
        let sites: Vec<LocalSite> = self.journals.keys().copied().filter(|site| *site != self.site).collect();
        for site in sites {
            for seqno in before.of(site) + 1..=self.committed.of(site) {
                let commit = self
                    .commit(VersionNumber { site, seqno })
                    .expect("it is above the floor, and was received");
                let (id, snapshot) = (commit.transaction, commit.snapshot.clone());
                self.vouched = self.vouched.max(snapshot.of(self.site));
                assert!(
                    self.committed.includes_all(&snapshot) || self.rules.has(Plant::AdvancesByOne),
                    "{site}.{seqno} commits with {snapshot} where {} has",
                    self.committed
                );
                self.release(id);
            }
        }
    }

    fn lock(&mut self, lock: Lock, now: Instant) {
        for key in &lock.keys {
            let holder = self.locked.insert(key.clone(), lock.transaction);
            assert!(
                holder.is_none_or(|holder| holder == lock.transaction),
                "{} locks what {holder:?} has locked",
                lock.transaction
            );
        }
        self.locks.insert(lock.transaction, (lock, now));
    }

    fn release(&mut self, id: TransactionId) {
        if let Some((lock, _)) = self.locks.remove(&id) {
            for key in &lock.keys {
                let holder = self.locked.remove(key);
                assert!(holder == Some(id), "{id} releases {key:?}, which {holder:?} has locked");
            }
        }
    }

    /// Sites have joined.
    fn join(&mut self, joined: &[ShardId]) {
        if joined.len() > self.joined.len() {
            assert!(joined.starts_with(&self.joined), "{joined:?} have joined, and {:?} before", self.joined);
            self.joined = joined.to_vec();
        }
    }

    /// A page of the state of another site is adopted, unless it belongs to a state that was given up, or this one is whole.
    fn adopt(&mut self, number: usize, is_last: bool, page: &Page) {
        let Some(pages) = &mut self.adopting else { return };
        if number == 0 {
            pages.clear();
        }
        if number != pages.len() {
            return;
        }
        pages.push(page.clone());
        if is_last {
            let pages = std::mem::take(pages);
            *self = State::from_pages(pages, self.site, self.rules, self.retained.retention());
            // These are the other site's own.
            (self.period, self.forgotten) = (Period(1), Period(0));
            if self.freeze.is_some() {
                self.note_freeze();
            }
            assert!(self.is_whole(), "the last page of a state was adopted, and it is not whole");
        }
    }

    /// Goes on without sites that were taken out.
    fn freeze_without(&mut self, removals: &[Removal]) {
        for removal in removals {
            if self.removal(removal.site).is_none() {
                self.removals.push(Removal { end: None, ..removal.clone() });
            }
        }
        self.note_freeze();
    }

    /// Notes how far this site is, going on without those that were taken out.
    fn note_freeze(&mut self) {
        let received = of_sites(self.histories.received(), self.open_removals());
        let committed = of_sites(&self.committed, self.open_removals());
        let (removals, seqno) = (self.removals.len() as u32, self.committed.of(self.site));
        self.freeze = Some(removal::Frozen { removals, received, committed, seqno });
    }

    /// The end of a site is settled.
    fn remove(&mut self, site: LocalSite, end: &End) {
        let last = VersionNumber { site, seqno: end.last };
        assert!(
            self.histories.received().of(site) >= end.last && self.committed.of(site) <= end.last,
            "{site} ends at {}, and {} was received and {} has committed here",
            end.last,
            self.histories.received(),
            self.committed
        );
        let floor = self.histories.floor().of(site);
        self.histories.abandon_above(last);
        let mut kept = BTreeSet::new();
        if let Some(journal) = self.journals.get_mut(&site) {
            journal.truncate((end.last - floor) as usize);
            kept.extend(journal.iter().map(|commit| commit.transaction));
        }
        self.journals.retain(|_, journal| !journal.is_empty());
        // A transaction that it coordinated has committed if it is kept, and never will if not.
        let is_over = |(id, (lock, _)): (&TransactionId, &(Lock, Instant))| {
            (lock.origin == site && !kept.contains(id)).then_some(*id)
        };
        let over: Vec<TransactionId> = self.locks.iter().filter_map(is_over).collect();
        over.into_iter().for_each(|id| self.release(id));
        if let Some(removal) = self.removals.iter_mut().find(|removal| removal.site == site) {
            removal.end = Some(end.clone());
        }
        let received = self.histories.received().of(site);
        assert!(received == end.last, "{site} ends at {}, and {received} of it are here", end.last);
    }

    fn end(&mut self, id: TransactionId, ending: Ending) {
        self.fading.insert((self.period, id));
        let before = self.ended.insert(id, (ending, self.period));
        assert!(before.is_none(), "{id} has ended before, as {before:?}");
        self.assert_fading();
    }

    /// Each ending that is remembered fades once.
    fn assert_fading(&self) {
        let (ended, fading) = (self.ended.len(), self.fading.len());
        assert!(ended == fading, "{ended} endings are remembered, and {fading} fade");
    }

    /// True if nothing can depend on it that a transaction is known to have ended like this. A lock goes once its transaction has committed
    /// where it is held, which it has wherever the floor includes it.
    fn may_fade(&self, ending: &Ending) -> bool {
        match ending {
            Ending::Committed { version, .. } => self.histories.floor().includes(*version),
            Ending::Aborted => true,
        }
    }

    fn raise_floor(&mut self, floor: &Vector, forgotten: Period) {
        assert!(
            self.committed.includes_all(floor),
            "the floor {floor} includes only what has committed here: {}",
            self.committed
        );
        let before = self.histories.floor().clone();
        if !self.rules.has(Plant::SnapshotsKept) {
            self.histories.raise_floor(floor);
            // All of it, not a part at a time: what is kept is part of the state, which is alike everywhere.
            while self.histories.fold(usize::MAX) {}
        }
        let after = self.histories.floor().clone();
        let mut included = Vec::new();
        for (site, journal) in &mut self.journals {
            included.extend(journal.drain(..(after.of(*site) - before.of(*site)) as usize));
        }
        self.retained.add(&after, included);
        self.journals.retain(|_, journal| !journal.is_empty());
        self.period = Period(self.period.0 + 1);
        self.forgotten = self.forgotten.max(forgotten);
        assert!(
            self.forgotten < self.period,
            "requests of {:?} are refused, and it is {:?}",
            self.forgotten,
            self.period
        );
        self.fade();
        self.assert_fading();
    }

    fn fade(&mut self) {
        let due: Vec<(Period, TransactionId)> =
            self.fading.range(..(Period(self.forgotten.0 + 1), TransactionId::default())).copied().collect();
        for (period, id) in due {
            if self.ended.get(&id).is_some_and(|(ending, _)| self.may_fade(ending)) {
                self.fading.remove(&(period, id));
                self.ended.remove(&id);
            }
        }
    }

    /// The state as it is now, in pages of about so many bytes.
    pub(super) fn freeze(&self, page_bytes_max: usize) -> Frozen {
        if let Some(pages) = &self.adopting {
            return Frozen { pages: [Page::Partial {}].into_iter().chain(pages.iter().cloned()).collect() };
        }
        let locks = self.locks.values().map(|(lock, _)| (lock.bytes(), lock.clone()));
        let ended = self.fading.iter().filter_map(|(period, id)| {
            let (ending, _) = self.ended.get(id)?;
            Some((Ended::BYTES, Ended { transaction: *id, ending: ending.clone(), period: *period }))
        });
        let mut pages = self.freeze_shared(page_bytes_max).pages;
        pages.extend(divide(locks, page_bytes_max).into_iter().map(Page::Locks));
        pages.extend(divide(ended, page_bytes_max).into_iter().map(Page::Ended));
        pages.extend(self.freeze_retained(page_bytes_max));
        Frozen { pages }
    }

    /// The pages of the transactions that are retained for consumers. Another site that adopts the rest retains nothing at first: the others tell consumers what came before.
    fn freeze_retained(&self, page_bytes_max: usize) -> Vec<Page> {
        let stretches: Vec<Stretch> = self.retained.stretches().cloned().collect();
        if stretches.is_empty() {
            return Vec::new();
        }
        let horizon = Some(self.retained.horizon().clone());
        let (commits, retained) = Default::default();
        let first = Page::Journal { commits, retained, horizon, stretches };
        let commits = self.retained.commits().map(|commit| (commit.bytes(), Arc::clone(commit)));
        let pages = divide(commits, page_bytes_max).into_iter().map(Page::retained);
        [first].into_iter().chain(pages).collect()
    }

    /// All that another site may adopt: what this one has promised to clients and other sites stays its own.
    pub(super) fn freeze_shared(&self, page_bytes_max: usize) -> Frozen {
        let commits = self.journals.values().flatten();
        let commits = commits.map(|commit| (commit.bytes(), Arc::clone(commit)));
        let mut pages = VecDeque::from([Page::Bounds {
            floor: self.histories.floor().clone(),
            committed: self.committed.clone(),
            period: self.period,
            forgotten: self.forgotten,
        }]);
        if !self.removals.is_empty() {
            pages.push_back(Page::Removals { removals: self.removals.clone(), frozen: self.freeze.clone() });
        }
        if !self.joined.is_empty() {
            pages.push_back(Page::Joined(self.joined.clone()));
        }
        pages.extend(self.freeze_data(page_bytes_max).pages);
        pages.extend(divide(commits, page_bytes_max).into_iter().map(Page::journal));
        Frozen { pages }
    }

    /// The objects alone, as the floor reads them.
    pub(super) fn freeze_data(&self, page_bytes_max: usize) -> Frozen {
        freeze_objects(self.histories.base(), page_bytes_max)
    }

    /// The objects alone, as a snapshot of all that has committed here reads them; none while the state of another site is adopted.
    pub(super) fn freeze_to_read(&self, page_bytes_max: usize) -> Option<Frozen> {
        if self.adopting.is_some() {
            return None;
        }
        let mut frozen = freeze_objects(self.histories.at(&self.committed), page_bytes_max);
        // A consumer of changes goes on behind it.
        frozen.pages.push_front(Page::Bounds {
            floor: self.committed.clone(),
            committed: self.committed.clone(),
            period: self.period,
            forgotten: self.forgotten,
        });
        Some(frozen)
    }

    /// The state that these pages hold. Nobody knows here since when locks are held: they count as old.
    pub(super) fn from_pages(
        mut pages: Vec<Page>,
        site: LocalSite,
        rules: Rules,
        retention: Retention,
    ) -> Self {
        let mut state = State::new(site, rules).retaining(retention);
        if pages.first() == Some(&Page::Partial {}) {
            state.adopting = Some(pages.split_off(1));
            return state;
        }
        let mut base = Base::default();
        let (mut first, mut kept) = (None, Vec::new());
        let mut journals: BTreeMap<LocalSite, VecDeque<Arc<Commit>>> = BTreeMap::new();
        for page in pages {
            match page {
                Page::Bounds { floor, committed, period, forgotten } => {
                    base.floor = floor;
                    (state.committed, state.period, state.forgotten) = (committed, period, forgotten);
                }
                Page::Removals { removals, frozen } => (state.removals, state.freeze) = (removals, frozen),
                Page::Joined(joined) => state.joined = joined,
                Page::Partial {} => unreachable!("a state that is not whole has this page first"),
                Page::Registers(registers) => base.registers.extend(registers),
                Page::Counts(counts) => base.counts.extend(counts),
                Page::Containers(containers) => base.containers.extend(containers),
                Page::Journal { commits, retained, horizon, stretches } => {
                    for commit in commits {
                        journals.entry(commit.version.site).or_default().push_back(commit);
                    }
                    kept.extend(retained);
                    first = horizon.map(|horizon| (horizon, stretches)).or(first);
                }
                Page::Locks(locks) => locks.into_iter().for_each(|lock| state.lock(lock, Instant::START)),
                Page::Ended(endings) => {
                    for Ended { transaction, ending, period } in endings {
                        state.fading.insert((period, transaction));
                        state.ended.insert(transaction, (ending, period));
                    }
                }
            }
        }
        let retained = first.map(|(horizon, stretches)| (horizon, stretches, kept));
        state.retained = Retained::restored(retention, &base.floor, retained);
        state.histories = Histories::from_base(base, site);
        state.replay(journals);
        state.vouched = state.vouched_for();
        state
    }

    /// The last transaction of this site that one of another site has seen which has committed here and is in a journal.
    fn vouched_for(&self) -> u64 {
        let others =
            self.journals.iter().filter(|(site, _)| **site != self.site).flat_map(|(_, journal)| journal);
        let committed = others.filter(|commit| self.committed.includes(commit.version));
        committed.map(|commit| commit.snapshot.of(self.site)).max().unwrap_or(0)
    }

    /// Transactions take effect again, causes before effects.
    fn replay(&mut self, mut journals: BTreeMap<LocalSite, VecDeque<Arc<Commit>>>) {
        loop {
            let mut is_over = true;
            for journal in journals.values_mut() {
                while let Some(commit) = journal.front()
                    && (self.histories.received().includes_all(&commit.snapshot)
                        || self.rules.has(Plant::EffectsFirst))
                {
                    let commit = journal.pop_front().expect("it was looked at");
                    self.take_effect(&commit);
                    is_over = false;
                }
            }
            if is_over {
                break;
            }
        }
        assert!(
            journals.values().all(VecDeque::is_empty),
            "the causes of each transaction of a state are in the state: {journals:?}"
        );
    }
}

/// Objects in pages of about so many bytes.
fn freeze_objects(base: Base, page_bytes_max: usize) -> Frozen {
    let registers = base.registers.into_iter().map(|read| (Read::bytes(&read), read));
    let counts = base.counts.into_iter().map(|count| (Count::bytes(&count), count));
    let containers = base.containers.into_iter().map(|placed| (Placed::bytes(&placed), placed));
    let mut pages: VecDeque<Page> =
        divide(registers, page_bytes_max).into_iter().map(Page::Registers).collect();
    pages.extend(divide(counts, page_bytes_max).into_iter().map(Page::Counts));
    pages.extend(divide(containers, page_bytes_max).into_iter().map(Page::Containers));
    Frozen { pages }
}

/// A state as it was at one position, in pages.
#[derive(Debug)]
pub struct Frozen {
    pages: VecDeque<Page>,
}

impl Frozen {
    /// The next page.
    pub(super) fn next_page(&mut self) -> Option<Page> {
        self.pages.pop_front()
    }

    /// True if no page is left.
    pub(super) fn is_done(&self) -> bool {
        self.pages.is_empty()
    }
}

#[cfg(test)]
mod tests;
