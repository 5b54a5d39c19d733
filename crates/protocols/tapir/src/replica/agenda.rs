//! Prepares that wait at this replica: for their time, or for the outcome of an earlier one (the paper's waiting at
//! participant replicas, section 6).
//!
//! Quorum reads in turn wait among them, so that a read finds no write halfway: what has a lower timestamp has ended when
//! it is answered, and what has a greater one waits until it is, and no longer.
//!
//! A prepare whose timestamp lies ahead of the clock waits until the clock gets there, so that prepares are voted on in
//! timestamp order wherever they arrive in time. When its time has come and an earlier transaction that conflicts is
//! prepared or waits here, it waits on for that one's outcome instead of being told ABSTAIN.
//!
//! Nobody waits for what has a greater timestamp than it was proposed at first, and at no lower one does it hold anything
//! anywhere, so no circle of waiting closes, over any number of replicas and shards. (Where it is prepared again, it holds
//! what it got at first, and others may wait for that: what lies between the two timestamps it does not wait for.) Every wait is
//! bounded all the same: an earlier transaction may have lost its coordinator. A prepare that waits is not recorded and may be
//! forgotten at any time, as if its message had been late; how long it waits decides only which vote it gets, and any vote is safe.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::{Address, ClientId, Context, Instant, Timestamp, TransactionId};
use quorate_ir::OperationId;
use quorate_store::{Prepared, PreparedSet};

use super::validate::conflicting_holders;
use super::watched::{Change, Watched};
use crate::message::Prepare;

/// More does not wait at one replica: further prepares get their vote at once, and reads their answer.
const WAITING_MAX: usize = 4_096;

/// Of those, one client can have so many, that there is room for others.
const WAITING_OF_CLIENT_MAX: usize = WAITING_MAX / 2;

/// All waiting requests have so many bytes at most.
const WAITING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// So many clients are remembered whose timestamps are deadlines.
const CLIENTS_MAX: usize = 16_384;

/// A client says again and again that its timestamps are deadlines; one that has not for so long may be forgotten.
const CLIENT_REMEMBERED: Duration = Duration::from_secs(60);

/// The prepares and reads that wait.
#[derive(Debug)]
pub(super) struct Agenda {
    /// A prepare waits for its time only if that is at most so far ahead. Zero: none does.
    ahead_max: Duration,
    /// From its time on, a prepare waits so long for earlier ones at most. Zero: none does.
    wait_max: Duration,
    /// The clients whose timestamps are deadlines, and when they last said so. A timestamp of another that lies ahead
    /// only shows that its clock is fast, and waiting for it would be of no use to anybody.
    clients: FixedMap<ClientId, Instant>,
    entries: BTreeMap<TransactionId, Waiting>,
    /// How many bytes the transactions have that wait.
    bytes: usize,
    /// The keys of all of them, as if they were prepared.
    keys: Watched,
    /// The prepares whose time has not come.
    coming: BTreeSet<(Instant, Timestamp, TransactionId)>,
    /// The prepares whose time has come, and which wait for earlier ones, by when it came.
    blocked: BTreeSet<(Instant, Timestamp, TransactionId)>,
    /// A transaction that another waits for, and that one: nobody is looked at again before a change concerns it.
    behind: BTreeSet<(TransactionId, TransactionId)>,
    /// Those that such a change concerns, or that have waited long enough. The others whose time has come are not ready.
    stirred: BTreeSet<(Timestamp, TransactionId)>,
}

/// A request that waits, or is to be admitted.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) from: Address,
    /// The number of a read is its round.
    pub(super) id: OperationId,
    /// Of a read: the keys, and its timestamp.
    pub(super) prepare: Prepare,
    pub(super) wants: Wants,
}

/// The answer that a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wants {
    /// The versions that a quorum read finds. It is past once its transaction is prepared.
    Versions,
    /// The vote on a prepare.
    Vote,
}

impl Request {
    /// Of one transaction, the later request has the greater rank.
    fn rank(&self) -> (Wants, u32) {
        (self.wants, self.id.number)
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    request: Request,
    due: Instant,
    /// One that it was found to wait for, if that is still in its way.
    blocker: Option<TransactionId>,
}

impl Agenda {
    pub(super) fn new(ahead_max: Duration, wait_max: Duration) -> Self {
        Agenda {
            ahead_max,
            wait_max,
            clients: FixedMap::default(),
            entries: BTreeMap::new(),
            bytes: 0,
            keys: Watched::default(),
            coming: BTreeSet::new(),
            blocked: BTreeSet::new(),
            behind: BTreeSet::new(),
            stirred: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The transactions that wait, with the keys that they would hold.
    pub(super) fn keys(&self) -> &PreparedSet {
        &self.keys
    }

    /// Which of them have come or gone since this was last asked.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        self.keys.take_changes()
    }

    /// A client has said whether its timestamps are deadlines.
    pub(super) fn note_client(&mut self, client: ClientId, deadlines: bool, now: Instant) {
        if !deadlines {
            self.clients.remove(&client);
            return;
        }
        if self.clients.len() >= CLIENTS_MAX && !self.clients.contains_key(&client) {
            self.clients.retain(|_, noted_at| now - *noted_at < CLIENT_REMEMBERED);
            if self.clients.len() >= CLIENTS_MAX {
                return;
            }
        }
        self.clients.insert(client, now);
        assert!(self.clients.len() <= CLIENTS_MAX, "{} clients are remembered", self.clients.len());
    }

    /// Takes what had better wait, or gives it back if it should be answered at once.
    pub(super) fn admit(
        &mut self,
        request: Request,
        prepared: &PreparedSet,
        context: &Context<'_>,
    ) -> Option<Request> {
        let Request { id, ref prepare, .. } = request;
        if let Some(known) = self.entries.get(&id.transaction) {
            if request.rank() <= known.request.rank() {
                // A repetition, or late: what this one waits for answers both.
                return None;
            }
            self.remove(id.transaction);
        }
        let ahead = Duration::from_micros(prepare.timestamp.micros.saturating_sub(context.clock.as_micros()));
        // From here on only the monotonic clock counts: the other may jump or stand still.
        let is_deadline = self.clients.contains_key(&id.transaction.client) && ahead <= self.ahead_max;
        let due = if is_deadline { context.now + ahead } else { context.now };
        let is_due = due <= context.now;
        let blocker = is_due.then(|| self.blocker(id.transaction, prepare, prepared)).flatten();
        let waits = !is_due || (blocker.is_some() && self.wait_max > Duration::ZERO);
        let bytes = self.bytes + prepare.transaction.bytes();
        let is_full = self.entries.len() >= WAITING_MAX
            || self.keys.len_of(id.transaction.client) >= WAITING_OF_CLIENT_MAX
            || bytes > WAITING_BYTES_MAX;
        if !waits || is_full {
            return Some(request);
        }
        self.bytes = bytes;
        let (transaction, timestamp) = (prepare.transaction.clone(), prepare.timestamp);
        self.keys.insert(id.transaction, Prepared { transaction, timestamp, since: context.now });
        let waiting = if is_due { &mut self.blocked } else { &mut self.coming };
        waiting.insert((due, timestamp, id.transaction));
        self.entries.insert(id.transaction, Waiting { request, due, blocker: None });
        if let Some(blocker) = blocker {
            self.put_behind(blocker, id.transaction);
        }
        self.assert_accounted();
        assert!(
            self.entries.len() <= WAITING_MAX && self.bytes <= WAITING_BYTES_MAX,
            "{} requests wait, of {} bytes",
            self.entries.len(),
            self.bytes
        );
        None
    }

    /// Every waiting request has its keys watched, and waits for its time, for another, or to be looked at.
    fn assert_accounted(&self) {
        let (entries, keys) = (self.entries.len(), self.keys.len());
        assert!(entries == keys, "{entries} requests wait, and the keys of {keys}");
        let (coming, blocked) = (self.coming.len(), self.blocked.len());
        assert!(
            coming + blocked <= entries,
            "of {entries} requests {coming} are early and {blocked} blocked"
        );
        assert!(self.behind.len() <= entries, "{} of {entries} requests wait for another", self.behind.len());
        assert!(self.stirred.len() <= entries, "{} of {entries} requests are due", self.stirred.len());
    }

    /// A transaction that this one had better wait for, if there is one: all that stand in its way are earlier than where it
    /// was proposed first.
    fn blocker(&self, id: TransactionId, prepare: &Prepare, prepared: &PreparedSet) -> Option<TransactionId> {
        let first = prepare.first_timestamp();
        let mut blocker = None;
        for holder in conflicting_holders(prepared, id, &prepare.transaction) {
            if holder.timestamp > first {
                return None;
            }
            blocker = Some(holder.transaction);
        }
        // Rather the last of those that wait: the others have gone before it goes.
        conflicting_holders(&self.keys, id, &prepare.transaction)
            .filter(|holder| holder.timestamp < first)
            .map(|holder| (holder.timestamp, holder.transaction))
            .max()
            .map_or(blocker, |(_, last)| Some(last))
    }

    fn put_behind(&mut self, blocker: TransactionId, id: TransactionId) {
        assert!(blocker != id, "{id} waits for itself");
        let waiting = self.entries.get_mut(&id).expect("only what waits is put behind another");
        if let Some(before) = waiting.blocker.replace(blocker) {
            self.behind.remove(&(before, id));
        }
        self.behind.insert((blocker, id));
    }

    /// A transaction was prepared, or is prepared no longer, or at another timestamp.
    pub(super) fn note_change(&mut self, id: TransactionId, prepared: &PreparedSet) {
        self.stir_behind(id);
        // Nobody waits any more if a later one was prepared.
        let Some(held) = prepared.entry(id) else { return };
        let is_later = |waiting: &Waiting| waiting.request.prepare.first_timestamp() < held.timestamp;
        let earlier = conflicting_holders(&self.keys, id, &held.transaction)
            .filter(|holder| {
                let waiting = &self.entries[&holder.transaction];
                waiting.blocker.is_some() && is_later(waiting)
            })
            .map(|holder| (holder.timestamp, holder.transaction));
        self.stirred.extend(earlier);
    }

    /// Requests that wait for a transaction are looked at again.
    fn stir_behind(&mut self, blocker: TransactionId) {
        let first = (blocker, TransactionId::default());
        while let Some(&(of, id)) = self.behind.range(first..).next()
            && of == blocker
        {
            self.behind.remove(&(of, id));
            let waiting = self.entries.get_mut(&id).expect("only what waits is behind another");
            waiting.blocker = None;
            self.stirred.insert((waiting.request.prepare.timestamp, id));
        }
    }

    /// True if what this transaction waits for is another.
    pub(super) fn waits_for_another(&self, id: TransactionId, prepared: &PreparedSet) -> bool {
        let waiting = self.entries.get(&id);
        waiting.is_some_and(|waiting| self.blocker(id, &waiting.request.prepare, prepared).is_some())
    }

    /// A transaction waits no longer.
    pub(super) fn remove(&mut self, id: TransactionId) -> Option<Request> {
        let Waiting { request, due, blocker } = self.entries.remove(&id)?;
        let timestamp = request.prepare.timestamp;
        let bytes = request.prepare.transaction.bytes();
        assert!(self.bytes >= bytes, "{id} has {bytes} bytes, and all that waits {}", self.bytes);
        self.bytes -= bytes;
        self.keys.remove(id);
        self.coming.remove(&(due, timestamp, id));
        self.blocked.remove(&(due, timestamp, id));
        self.stirred.remove(&(timestamp, id));
        if let Some(blocker) = blocker {
            self.behind.remove(&(blocker, id));
        }
        self.stir_behind(id);
        self.assert_accounted();
        assert!(!self.entries.is_empty() || self.bytes == 0, "nothing waits, of {} bytes", self.bytes);
        Some(request)
    }

    /// Forgets all that waits: their coordinators will send them again.
    pub(super) fn clear(&mut self) {
        while let Some((&id, _)) = self.entries.first_key_value() {
            self.remove(id);
        }
    }

    /// Takes out the earliest that should be answered now.
    pub(super) fn next(&mut self, prepared: &PreparedSet, now: Instant) -> Option<Request> {
        while let Some(&(due, timestamp, id)) = self.coming.first()
            && due <= now
        {
            self.coming.pop_first();
            self.blocked.insert((due, timestamp, id));
            self.stirred.insert((timestamp, id));
        }
        while let Some(&(due, timestamp, id)) = self.blocked.first()
            && now - due >= self.wait_max
        {
            self.blocked.pop_first();
            self.stirred.insert((timestamp, id));
        }
        while let Some((_, id)) = self.stirred.pop_first() {
            let waiting = &self.entries[&id];
            let is_patient = now - waiting.due < self.wait_max;
            let blocker = || self.blocker(id, &waiting.request.prepare, prepared);
            let Some(blocker) = is_patient.then(blocker).flatten() else { return self.remove(id) };
            self.put_behind(blocker, id);
        }
        None
    }

    /// When to look again, if nothing else happens, once nothing is next.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        let due = self.coming.first().map(|(due, ..)| *due);
        let patience = self.blocked.first().map(|(due, ..)| *due + self.wait_max);
        due.into_iter().chain(patience).min()
    }
}

#[cfg(test)]
mod tests;
