//! Prepares and reads that wait, one after the other, and at random beside a look at everything.

use std::sync::Arc;

use quorate_core::{ClockTime, Key, KeyRange, Random, ReadVersion, Transaction, Write};

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
    let reads =
        keys.iter().map(|key| ReadVersion { key: Key::from((*key).to_owned()), version, deleted: false });
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

    /// A request that wants a vote is prepared. A request that only reads holds nothing.
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

/// Prepares `client` again, so many milliseconds after what the clock shows.
fn prepare_again(client: u64, key: &str, first: u64, ahead: u64) -> Request {
    let mut again = prepare(client, key, ahead);
    again.id.number = 2;
    again.prepare.first = Some(prepare(client, key, first).prepare.timestamp);
    again
}

#[test]
fn one_that_is_prepared_again_does_not_wait_for_those_that_wait_for_its_first_prepare() {
    let (mut here, mut there) = (Fixture::new(0, 1_000), Fixture::new(0, 1_000));
    assert!(!there.arrives(0, prepare(1, "a", 10)), "OK, but not here: it is to be prepared again at 30");
    assert!(!here.arrives(0, prepare(2, "a", 20)));
    assert!(there.arrives(0, prepare(2, "a", 20)), "2 waits for 1");
    assert!(!here.arrives(1, prepare_again(1, "a", 10, 30)), "1 does not wait for 2");
    assert!(!there.arrives(1, prepare_again(1, "a", 10, 30)));
    assert!(here.arrives(1, prepare(3, "a", 40)), "what is new waits for all");
}

#[test]
fn one_that_is_prepared_again_waits_for_what_was_earlier_at_first() {
    let mut replica = Fixture::new(0, 1_000);
    assert!(!replica.arrives(0, prepare(1, "a", 5)));
    assert!(replica.arrives(1, prepare_again(2, "a", 10, 30)));
    assert!(replica.served(2).is_empty());
    replica.hold(prepare(3, "a", 20));
    assert_eq!(replica.served(3), [2], "between its two timestamps: ABSTAIN, at once");
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
    assert!(!replica.agenda.waits_for_another(read(9, &[], 50).id.transaction, &replica.prepared));
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
fn so_many_clients_are_remembered_and_those_that_are_silent_for_long_make_room() {
    let mut agenda = Agenda::new(Duration::from_secs(1), Duration::from_secs(1));
    let late = Instant::START + CLIENT_REMEMBERED;
    for client in 0..CLIENTS_MAX as u64 {
        let noted_at = if client < 10 { Instant::START } else { late };
        agenda.note_client(ClientId(client), true, noted_at);
    }
    let is_known = |agenda: &Agenda, client| agenda.clients.contains_key(&ClientId(client));
    let one_more = CLIENTS_MAX as u64;
    agenda.note_client(ClientId(one_more), true, Instant::START + CLIENT_REMEMBERED / 2);
    assert!(!is_known(&agenda, one_more), "there is no room");
    agenda.note_client(ClientId(20), true, late);
    agenda.note_client(ClientId(one_more), true, late);
    assert!(is_known(&agenda, one_more) && !is_known(&agenda, 3) && is_known(&agenda, 20));
    assert_eq!(agenda.clients.len(), CLIENTS_MAX - 9, "ten were silent for long");
    agenda.note_client(ClientId(20), false, late);
    assert!(!is_known(&agenda, 20), "its timestamps are no deadlines any more");
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
        large.prepare.transaction = Arc::new(Transaction { writes: vec![write], ..Transaction::default() });
        large
    };
    assert!(replica.arrives(0, large(1)));
    assert!(!replica.arrives(0, large(2)));
    assert_eq!(replica.served(20), [1]);
    assert!(replica.arrives(20, large(3)), "there is room again");
}

/// A change of an index list waits for others as any write does, and transactions that have read the list do not keep it off. The transaction in its
/// way may change meanwhile, and counts once.
#[test]
fn one_that_is_looked_at_in_vain_waits_for_whatever_is_in_its_way_now() {
    let list = quorate_core::reserved::index_list_keys(1).remove(0);
    let mut replica = Fixture::new(0, 1_000);
    assert!(!replica.arrives(0, prepare(1, "a", 0)));
    let mut change = prepare(2, "a", 30);
    let mut writes = change.prepare.transaction.writes.clone();
    writes.push(Write { key: list.clone(), value: None });
    change.prepare.transaction = Arc::new(Transaction { writes, ..Transaction::default() });
    assert!(replica.arrives(0, change));
    assert!(replica.served(0).is_empty());
    for (client, ahead) in [(3, 20), (5, 25)] {
        assert!(replica.arrives(0, prepare(client, "a", ahead)), "between them");
    }
    let mut reader = prepare(4, "b", 40);
    let reads = vec![ReadVersion { key: list, version: Timestamp::ZERO, deleted: false }];
    let writes = reader.prepare.transaction.writes.clone();
    reader.prepare.transaction = Arc::new(Transaction { reads, writes, ..Transaction::default() });
    replica.hold(reader);
    assert!(replica.served(1).is_empty());
    assert_eq!(replica.agenda.behind.len(), 3, "each waits for one");
    let name = |client| prepare(client, "", 0).id.transaction;
    assert!(replica.agenda.behind.contains(&(name(5), name(2))), "rather for the last that goes before");
    replica.ends(1);
    assert_eq!(replica.served(2), [3]);
    replica.ends(3);
    assert_eq!(replica.served(3), [5]);
    replica.ends(5);
    assert_eq!(replica.served(4), [2]);
    assert!(replica.agenda.behind.is_empty() && replica.agenda.len() == 0);
}

#[test]
fn a_request_that_is_lost_count_of_is_noticed() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let miscounted = || {
        let mut replica = Fixture::new(500, 100);
        assert!(replica.arrives(0, prepare(1, "a", 20)) && replica.arrives(0, prepare(2, "b", 20)));
        let lost = prepare(9, "c", 20).prepare;
        let since = Instant::START;
        let entry = Prepared { transaction: lost.transaction, timestamp: lost.timestamp, since };
        replica.agenda.keys.insert(prepare(9, "", 0).id.transaction, entry);
        replica
    };
    let arrives = || miscounted().arrives(0, prepare(3, "d", 20));
    let leaves = || drop(miscounted().agenda.remove(prepare(1, "a", 20).id.transaction));
    assert!(catch_unwind(AssertUnwindSafe(arrives)).is_err());
    assert!(catch_unwind(AssertUnwindSafe(leaves)).is_err());
}

/// The answers of a look at everything that waits.
mod naive {
    use super::*;

    fn is_blocked(agenda: &Agenda, id: TransactionId, prepare: &Prepare, prepared: &PreparedSet) -> bool {
        let holders = |set| conflicting_holders(set, id, &prepare.transaction);
        let first = prepare.first_timestamp();
        holders(prepared).all(|holder| holder.timestamp <= first)
            && (holders(prepared).next().is_some()
                || holders(&agenda.keys).any(|holder| holder.timestamp < first))
    }

    pub(super) fn next(agenda: &Agenda, prepared: &PreparedSet, now: Instant) -> Option<TransactionId> {
        let is_ready = |id: TransactionId, waiting: &Waiting| {
            let is_patient = now - waiting.due < agenda.wait_max;
            let is_blocked = is_blocked(agenda, id, &waiting.request.prepare, prepared);
            waiting.due <= now && !(is_patient && is_blocked)
        };
        let ready = agenda.entries.iter().filter(|(id, waiting)| is_ready(**id, waiting));
        ready.map(|(id, waiting)| (waiting.request.prepare.timestamp, *id)).min().map(|(_, id)| id)
    }

    pub(super) fn wakes_at(agenda: &Agenda, now: Instant) -> Option<Instant> {
        let wakes_at = |waiting: &Waiting| {
            if waiting.due > now { waiting.due } else { waiting.due + agenda.wait_max }
        };
        agenda.entries.values().map(wakes_at).min()
    }
}

/// Client `client` reads, writes and scans some of six keys.
fn some_request(random: &mut Random, client: u64) -> Request {
    let mut names: Vec<Key> = (0..6).map(|name| Key::from(format!("k{name}"))).collect();
    random.shuffle(&mut names);
    let last = names.pop();
    let mut contents = Transaction::default();
    for key in names.into_iter().take(random.between(1, 3) as usize) {
        match random.below(5) {
            0..=1 => contents.reads.push(ReadVersion { key, version: Timestamp::ZERO, deleted: false }),
            2..=3 => contents.writes.push(Write { key, value: None }),
            _ => contents.ranges.push(KeyRange { from: key, to: last.clone() }),
        }
    }
    let mut request = prepare(client, "", 0);
    request.prepare.timestamp.micros += random.below(40) * 1_000;
    request.prepare.transaction = Arc::new(contents);
    request.id.number = random.between(1, 2) as u32;
    if request.id.number > 1 {
        let earlier = request.prepare.timestamp.micros - random.below(20) * 1_000;
        request.prepare.first = Some(Timestamp { micros: earlier, ..request.prepare.timestamp });
    }
    request.wants = if random.chance(0.2) { Wants::Versions } else { Wants::Vote };
    request
}

/// Requests, outcomes and view changes at random: who is next, and when, is what it would be if everything that waits
/// were looked at every time.
#[test]
fn what_no_change_concerns_need_not_be_looked_at() {
    let mut served = 0;
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let mut replica = Fixture::new(20, [0, 30, 300][random.index(3)]);
        let mut now = 0;
        for _ in 0..1_000 {
            now += random.below(3) * random.below(8);
            let client = random.between(1, 24);
            let request = some_request(&mut random, client);
            let id = request.id.transaction;
            match random.below(10) {
                0..=4 => {
                    replica.arrives(now, request);
                }
                5..=6 => replica.ends(client),
                7 => replica.hold(request),
                8 => {
                    replica.agenda.remove(id);
                }
                _ if random.chance(0.1) => replica.agenda.clear(),
                _ => {}
            }
            loop {
                let expected = naive::next(&replica.agenda, &replica.prepared, at(now));
                let next = replica.next(now);
                assert_eq!(next.as_ref().map(|next| next.id.transaction), expected, "seed {seed}");
                let Some(next) = next else { break };
                served += 1;
                if random.chance(0.8) {
                    replica.hold(next);
                }
            }
            let agenda = &replica.agenda;
            assert_eq!(agenda.wakes_at(), naive::wakes_at(agenda, at(now)), "seed {seed}");
            assert!(agenda.behind.len() <= agenda.blocked.len() && agenda.stirred.is_empty());
            assert_eq!(agenda.entries.len(), agenda.coming.len() + agenda.blocked.len());
        }
    }
    assert!(served > 5_000, "{served}");
}
