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
//! Nobody waits for what has a greater timestamp, and whoever waits holds nothing here, so no circle of waiting
//! closes, over any number of replicas and shards. Every wait is bounded all the same: an earlier transaction may have
//! lost its coordinator. What waits is not recorded and may be forgotten at any time, as if its message had been late;
//! how long it waits decides only which vote it gets, and any vote is safe.

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

/// What waits has so many bytes at most.
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
    /// Those whose time has not come.
    coming: BTreeSet<(Instant, Timestamp, TransactionId)>,
    /// Those whose time has come, and which wait for earlier ones, the most patient first.
    blocked: BTreeSet<(Instant, Timestamp, TransactionId)>,
    /// A transaction that another waits for, and that one: nobody is looked at again before a change concerns it.
    behind: BTreeSet<(TransactionId, TransactionId)>,
    /// Those that such a change concerns, or that have waited long enough. The others whose time has come are not ready.
    stirred: BTreeSet<(Timestamp, TransactionId)>,
}

/// What waits, or is to be admitted.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) from: Address,
    /// The number of a read is its round.
    pub(super) id: OperationId,
    /// Of a read: the keys, and its timestamp.
    pub(super) prepare: Prepare,
    pub(super) wants: Wants,
}

/// What is wanted.
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
        None
    }

    /// A transaction that this one had better wait for, if there is one: all that stand in its way are earlier ones, by
    /// timestamp.
    fn blocker(
        &self,
        id: TransactionId,
        prepare: &Prepare,
        prepared: &PreparedSet,
    ) -> Option<TransactionId> {
        let mut blocker = None;
        for holder in conflicting_holders(prepared, id, &prepare.transaction) {
            if holder.timestamp > prepare.timestamp {
                return None;
            }
            blocker = Some(holder.transaction);
        }
        // Rather the last of those that wait: the others have gone before it goes.
        conflicting_holders(&self.keys, id, &prepare.transaction)
            .filter(|holder| holder.timestamp < prepare.timestamp)
            .map(|holder| (holder.timestamp, holder.transaction))
            .max()
            .map_or(blocker, |(_, last)| Some(last))
    }

    fn put_behind(&mut self, blocker: TransactionId, id: TransactionId) {
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
        for earlier in conflicting_holders(&self.keys, id, &held.transaction) {
            let is_blocked = self.entries[&earlier.transaction].blocker.is_some();
            if is_blocked && earlier.timestamp < held.timestamp {
                self.stirred.insert((earlier.timestamp, earlier.transaction));
            }
        }
    }

    /// What waits for a transaction is looked at again.
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
        self.bytes -= request.prepare.transaction.bytes();
        self.keys.remove(id);
        self.coming.remove(&(due, timestamp, id));
        self.blocked.remove(&(due, timestamp, id));
        self.stirred.remove(&(timestamp, id));
        if let Some(blocker) = blocker {
            self.behind.remove(&(blocker, id));
        }
        self.stir_behind(id);
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
mod tests {
    use std::sync::Arc;

    use quorate_core::{ClockTime, Key, Random, ReadVersion, Transaction, Write};

    use super::*;

    const CLOCK_MICROS: u64 = 1_000_000;

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    /// Client `client` wants to write `key`, so many milliseconds after what the clock shows.
    fn prepare(client: u64, key: &str, ahead: u64) -> Request {
        let transaction = TransactionId { client: ClientId(client), sequence: 1, attempt: 0 };
        let write = Write { key: Key::from(key.to_owned()), value: None };
        let contents = Arc::new(Transaction { writes: vec![write], ..Transaction::default() });
        let micros = CLOCK_MICROS + ahead * 1_000;
        let timestamp = Timestamp { micros, client: ClientId(client) };
        let prepare = Prepare { transaction: contents, timestamp, first: None };
        let (from, id) = (Address::Client(ClientId(client)), OperationId { transaction, number: 1 });
        Request { from, id, prepare, wants: Wants::Vote }
    }

    /// Client `client` wants to read these keys at that time.
    fn read(client: u64, keys: &[&str], ahead: u64) -> Request {
        let version = Timestamp::ZERO;
        let reads = keys.iter().map(|key| ReadVersion { key: Key::from((*key).to_owned()), version });
        let contents =
            Transaction { reads: reads.collect(), reads_when_prepared: true, ..Transaction::default() };
        let Request { from, id, prepare, .. } = prepare(client, "", ahead);
        let prepare = Prepare { transaction: Arc::new(contents), ..prepare };
        Request { from, id, prepare, wants: Wants::Versions }
    }

    struct Fixture {
        agenda: Agenda,
        prepared: Watched,
    }

    impl Fixture {
        fn new(ahead_max: u64, wait_max: u64) -> Self {
            let milliseconds = Duration::from_millis;
            let agenda = Agenda::new(milliseconds(ahead_max), milliseconds(wait_max));
            let mut fixture = Fixture { agenda, prepared: Watched::default() };
            for client in 1..=WAITING_MAX as u64 {
                fixture.agenda.note_client(ClientId(client), true, Instant::START);
            }
            fixture
        }

        /// True if the request waits; a prepare that does not is prepared.
        fn arrives(&mut self, now: u64, request: Request) -> bool {
            let clock = ClockTime::from_micros(CLOCK_MICROS);
            let mut random = Random::new(1);
            let context = Context { now: at(now), clock, random: &mut random };
            let at_once = self.agenda.admit(request, &self.prepared, &context);
            let waits = at_once.is_none();
            at_once.into_iter().for_each(|request| self.hold(request));
            waits
        }

        /// What wants a vote is prepared. Who only reads holds nothing.
        fn hold(&mut self, request: Request) {
            let Prepare { transaction, timestamp, .. } = request.prepare;
            if request.wants == Wants::Vote {
                let entry = Prepared { transaction, timestamp, since: Instant::START };
                self.prepared.insert(request.id.transaction, entry);
            }
        }

        fn next(&mut self, now: u64) -> Option<Request> {
            for (id, _) in self.prepared.take_changes() {
                self.agenda.note_change(id, &self.prepared);
            }
            self.agenda.next(&self.prepared, at(now))
        }

        /// The clients whose requests have their turn, in order. Each is prepared if nothing is in its way.
        fn served(&mut self, now: u64) -> Vec<u64> {
            let mut served = Vec::new();
            while let Some(request) = self.next(now) {
                let id = request.id.transaction;
                served.push(id.client.0);
                if conflicting_holders(&self.prepared, id, &request.prepare.transaction).next().is_none() {
                    self.hold(request);
                }
            }
            served
        }

        fn ends(&mut self, client: u64) {
            self.prepared.remove(TransactionId { client: ClientId(client), sequence: 1, attempt: 0 });
        }
    }

    #[test]
    fn prepares_get_their_votes_in_timestamp_order_at_their_time() {
        let mut replica = Fixture::new(500, 1_000);
        assert!(replica.arrives(0, prepare(1, "a", 80)));
        assert!(replica.arrives(10, prepare(2, "b", 30)), "due at 40");
        assert_eq!(replica.agenda.wakes_at(), Some(at(40)));
        assert!(replica.served(39).is_empty());
        assert_eq!(replica.served(80), [2, 1]);
        assert_eq!(replica.agenda.len(), 0);
    }

    #[test]
    fn the_later_of_two_waits_for_the_outcome_of_the_earlier() {
        let mut replica = Fixture::new(500, 1_000);
        assert!(!replica.arrives(0, prepare(1, "a", 0)));
        assert!(replica.arrives(1, prepare(2, "a", 1)));
        assert!(replica.arrives(2, prepare(3, "a", 2)), "it waits for both");
        assert!(replica.served(100).is_empty());
        replica.ends(1);
        assert_eq!(replica.served(101), [2]);
        replica.ends(2);
        assert_eq!(replica.served(102), [3]);
    }

    #[test]
    fn nobody_waits_for_a_later_one() {
        let mut replica = Fixture::new(500, 1_000);
        assert!(!replica.arrives(0, prepare(2, "a", 0)));
        let mut late = prepare(1, "a", 0);
        late.prepare.timestamp.micros -= 5;
        assert!(!replica.arrives(1, late), "its vote will be ABSTAIN, at once");
    }

    #[test]
    fn one_that_waits_does_not_hold_up_an_earlier_one() {
        let mut replica = Fixture::new(500, 1_000);
        assert!(replica.arrives(0, prepare(2, "a", 50)));
        assert!(!replica.arrives(1, prepare(1, "a", 0)));
        assert!(replica.served(60).is_empty(), "the later one waits for the earlier one now");
        replica.ends(1);
        assert_eq!(replica.served(61), [2]);
    }

    #[test]
    fn waiting_ends_after_a_while() {
        let mut replica = Fixture::new(500, 100);
        assert!(!replica.arrives(0, prepare(1, "a", 0)));
        assert!(replica.arrives(0, prepare(2, "a", 20)));
        assert_eq!(replica.agenda.wakes_at(), Some(at(20)));
        assert!(replica.served(20).is_empty());
        assert_eq!(replica.agenda.wakes_at(), Some(at(120)));
        assert_eq!(replica.served(120), [2], "to be told ABSTAIN");
    }

    #[test]
    fn what_is_too_far_ahead_or_must_not_wait_gets_its_vote_at_once() {
        let mut replica = Fixture::new(50, 0);
        assert!(!replica.arrives(0, prepare(1, "a", 51)));
        assert!(!replica.arrives(0, prepare(2, "a", 0)), "ABSTAIN: waiting for others is switched off");
        let mut unasked = Fixture::new(500, 0);
        unasked.agenda.note_client(ClientId(3), false, at(0));
        assert!(!unasked.arrives(0, prepare(3, "a", 1)), "its clock is fast, that is all");
        let mut plain = Fixture::new(0, 0);
        assert!(!plain.arrives(0, prepare(1, "a", 1)));
    }

    #[test]
    fn a_repetition_changes_nothing_and_a_later_prepare_replaces_it() {
        let mut replica = Fixture::new(500, 100);
        assert!(replica.arrives(0, prepare(1, "a", 20)));
        assert!(replica.arrives(5, prepare(1, "a", 20)));
        assert_eq!((replica.agenda.len(), replica.agenda.wakes_at()), (1, Some(at(20))));
        let mut retried = prepare(1, "a", 40);
        retried.id.number = 2;
        assert!(replica.arrives(6, retried));
        assert_eq!((replica.agenda.len(), replica.agenda.wakes_at()), (1, Some(at(46))));
    }

    #[test]
    fn a_read_waits_for_earlier_writes_and_later_writes_wait_for_the_read() {
        let mut replica = Fixture::new(0, 1_000);
        assert!(!replica.arrives(0, prepare(1, "a", 0)));
        assert!(replica.arrives(1, read(2, &["a", "b"], 1)));
        assert!(
            replica.arrives(2, prepare(3, "b", 2)),
            "nobody is about to write b, but the read waits to find it so"
        );
        assert!(!replica.arrives(2, prepare(4, "c", 2)));
        assert!(replica.agenda.waits_for_another(read(2, &[], 1).id.transaction, &replica.prepared));
        assert!(replica.served(100).is_empty());
        replica.ends(1);
        assert_eq!(replica.served(101), [2, 3], "the read holds nothing once it is answered");
    }

    #[test]
    fn a_read_waits_for_its_time() {
        let mut replica = Fixture::new(500, 1_000);
        assert!(replica.arrives(0, read(1, &["a"], 50)));
        assert!(!replica.agenda.waits_for_another(read(1, &[], 50).id.transaction, &replica.prepared));
        assert!(!replica.arrives(10, prepare(2, "a", 0)), "a write of an earlier time goes first");
        assert!(replica.served(50).is_empty());
        replica.ends(2);
        assert_eq!(replica.served(51), [1]);
    }

    #[test]
    fn a_prepare_takes_the_place_of_a_read_of_its_transaction_and_not_the_other_way_round() {
        let mut replica = Fixture::new(500, 100);
        let mut repeated = read(1, &["a"], 20);
        repeated.id.number = 7;
        assert!(replica.arrives(0, repeated.clone()));
        assert!(replica.arrives(1, prepare(1, "a", 40)));
        assert!(replica.arrives(2, repeated), "it is late, and not answered");
        assert_eq!((replica.agenda.len(), replica.agenda.wakes_at()), (1, Some(at(41))));
    }

    #[test]
    fn no_more_wait_than_memory_allows() {
        let mut replica = Fixture::new(500, 100);
        for client in 0..WAITING_MAX as u64 {
            assert!(replica.arrives(0, prepare(client + 1, &format!("k{client}"), 20)));
        }
        let mut another = prepare(1, "another", 20);
        another.id.transaction.sequence += 1;
        assert!(!replica.arrives(0, another));
    }

    #[test]
    fn one_client_leaves_room_for_others() {
        let mut replica = Fixture::new(500, 100);
        for sequence in 0..WAITING_OF_CLIENT_MAX as u64 {
            let mut one = prepare(1, &format!("k{sequence}"), 20);
            one.id.transaction.sequence += sequence;
            assert!(replica.arrives(0, one));
        }
        let mut another = prepare(1, "another", 20);
        another.id.transaction.sequence = 1_000_000;
        assert!(!replica.arrives(0, another));
        assert!(replica.arrives(0, prepare(2, "another's", 20)));
    }

    #[test]
    fn what_waits_has_only_so_many_bytes() {
        let mut replica = Fixture::new(500, 100);
        let large = |client: u64| {
            let mut large = prepare(client, &format!("k{client}"), 20);
            let key = large.prepare.transaction.writes[0].key.clone();
            let write = Write { key, value: Some(vec![0; WAITING_BYTES_MAX / 2].into()) };
            large.prepare.transaction =
                Arc::new(Transaction { writes: vec![write], ..Transaction::default() });
            large
        };
        assert!(replica.arrives(0, large(1)));
        assert!(!replica.arrives(0, large(2)));
        assert_eq!(replica.served(20), [1]);
        assert!(replica.arrives(20, large(3)), "there is room again");
    }
}
