//! The search for a floor, line by line: everything that a replica says and writes down with each step of it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::hosted::HostedReplica;
use quorate_core::machine::{InputOf, OutboxOf};
use quorate_core::verify::{Point, Request};
use quorate_core::{
    Address, ClientId, ClockTime, Context, Effect, Epoch, GroupSize, Input, Instant, Key, Machine, Outbox,
    Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, Transaction, TransactionId, View, Write,
};
use quorate_ir::{Cursor, Message as Ir, OperationId};
use quorate_tapir::message::{Decision, Prepare};
use quorate_tapir::{Boot, Message, Record, Replica, ReplicaCommand, ReplicaConfig, ReplicaTimer};

const CLIENT: ClientId = ClientId(7);
const NOTHING: [&str; 0] = [];

fn id(sequence: u64) -> TransactionId {
    TransactionId { client: CLIENT, sequence, attempt: 0 }
}

fn at(micros: u64) -> Timestamp {
    Timestamp { micros, client: ClientId(0) }
}

/// Transaction 5 has the timestamp 5, and so on.
fn cursor(sequence: u64) -> Cursor {
    (Timestamp { micros: sequence, client: CLIENT }, id(sequence))
}

fn start(micros: u64) -> Cursor {
    (at(micros), TransactionId::default())
}

fn commit(sequence: u64) -> Decision {
    let write = Write { key: Key::from("a"), value: None };
    let (participants, writes) = (vec![ShardId(1)], vec![write]);
    let transaction = Arc::new(Transaction { participants, writes, ..Transaction::default() });
    let (timestamp, _) = cursor(sequence);
    Decision::Commit { transaction, timestamp, last: timestamp }
}

/// A replica of shard 1, whose group is in view 0 and led by the first.
struct Searcher {
    replica: Replica,
    now: Instant,
    clock: u64,
}

fn sequences(cursors: &[Cursor]) -> String {
    cursors.iter().map(|(_, id)| id.sequence.to_string()).collect::<Vec<_>>().join(" ")
}

fn place((timestamp, id): Cursor) -> String {
    if id == TransactionId::default() { format!("{}", timestamp.micros) } else { format!("#{}", id.sequence) }
}

fn message(message: &Message) -> Option<String> {
    Some(match message {
        Message::Gather { view, floor, below, from } => {
            format!("gather in {view} below {} from {}, floor {}", below.micros, place(*from), floor.micros)
        }
        Message::GatherReply { below, from, executed, open, next, .. } => format!(
            "below {} from {}: executed {}, open {}{}",
            below.micros,
            place(*from),
            sequences(executed),
            sequences(open),
            next.map_or(String::new(), |next| format!(", more from {}", place(next)))
        ),
        Message::FetchDecisions { transactions } => {
            let wanted: Vec<_> = transactions.iter().map(|id| id.sequence.to_string()).collect();
            format!("fetch {}", wanted.join(" "))
        }
        Message::Decisions { decisions } => {
            let known: Vec<_> = decisions.iter().map(|(id, _)| id.sequence.to_string()).collect();
            format!("decisions {}", known.join(" "))
        }
        Message::Complete { below, .. } => format!("complete below {}?", below.micros),
        Message::CompleteReply { below, .. } => format!("complete below {}", below.micros),
        Message::RaiseFloor { floor } => format!("floor {}", floor.micros),
        Message::Recover { transaction, .. } => format!("recover {}", transaction.sequence),
        _ => return None,
    })
}

impl Searcher {
    fn new(index: u8, replicas: usize, change: impl FnOnce(&mut ReplicaConfig)) -> Self {
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) };
        let mut config = ReplicaConfig {
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_lag: Duration::from_micros(100),
            checkpoint_lag_min: Duration::from_micros(10),
            checkpoint_lag_followed: Duration::from_micros(30),
            recovery_timeout: Duration::from_secs(10),
            ..ReplicaConfig::new(replica, GroupSize::new(replicas).unwrap(), Boot::Initialise)
        };
        change(&mut config);
        let replica = Replica::restore(config, []);
        let mut searcher = Searcher { replica, now: Instant::START, clock: 1_000 };
        searcher.step(Input::Start);
        searcher
    }

    fn step(&mut self, input: InputOf<Replica>) -> Vec<String> {
        let mut outbox: OutboxOf<Replica> = Outbox::new();
        let (clock, mut random) = (ClockTime::from_micros(self.clock), Random::new(1));
        self.replica.step(&mut Context { now: self.now, clock, random: &mut random }, input, &mut outbox);
        let mut told: Vec<String> = Vec::new();
        for effect in outbox.drain() {
            match effect {
                Effect::Send { to: Address::Replica(to), message: said } => {
                    let Some(said) = message(&said) else { continue };
                    told.push(format!("r{} ← {said}", to.index.0));
                }
                Effect::Persist { record: Record::Refusing { below }, .. } => {
                    told.push(format!("refuses below {}", below.micros));
                }
                Effect::Persist { record: Record::Completed { below }, .. } => {
                    told.push(format!("is complete below {}", below.micros));
                }
                Effect::Persist { record: Record::FloorRaised { floor }, .. } => {
                    told.push(format!("raises the floor to {}", floor.micros));
                }
                _ => {}
            }
        }
        told
    }

    fn hears(&mut self, from: u8, message: Message) -> Vec<String> {
        let from = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(from) });
        self.step(Input::Message { from, epoch: Epoch::FIRST, message })
    }

    fn sweeps_after(&mut self, milliseconds: u64) -> Vec<String> {
        self.now = self.now + Duration::from_millis(milliseconds);
        self.step(Input::Timer(ReplicaTimer::Sweep))
    }

    /// Begins a search from the floor 0 to 900.
    fn searches(&mut self) {
        self.sweeps_after(0);
        let told = self.sweeps_after(1_000);
        assert_eq!(told[0], "r1 ← gather in v0 below 900 from 0, floor 0");
    }

    /// Transactions commit, and that is made final.
    fn commits(&mut self, sequences: impl IntoIterator<Item = u64>) {
        for sequence in sequences {
            let id = OperationId { transaction: id(sequence), number: OperationId::INCONSISTENT };
            for message in
                [Ir::ProposeInconsistent { id, operation: commit(sequence) }, Ir::FinalizeInconsistent { id }]
            {
                let from = Address::Client(CLIENT);
                let message = Message::Ir(message);
                self.step(Input::Message { from, epoch: Epoch::FIRST, message });
            }
        }
    }

    fn prepares(&mut self, sequence: u64) {
        let Decision::Commit { transaction, timestamp, .. } = commit(sequence) else { return };
        let operation = Prepare { transaction, timestamp, first: None };
        let id = OperationId { transaction: id(sequence), number: 1 };
        let message = Message::Ir(Ir::ProposeConsensus { id, operation });
        self.step(Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message });
    }

    /// Another replica has this below 900, in one page that begins and ends here.
    fn is_told(
        &mut self,
        by: u8,
        from: Cursor,
        executed: &[u64],
        open: &[u64],
        next: Option<Cursor>,
    ) -> Vec<String> {
        let list = |sequences: &[u64]| sequences.iter().copied().map(cursor).collect();
        let (view, below, executed, open) = (View(0), at(900), list(executed), list(open));
        self.hears(by, Message::GatherReply { view, below, from, executed, open, next })
    }

    fn is_complete(&mut self, replica: u8, below: u64) -> Vec<String> {
        self.hears(replica, Message::CompleteReply { view: View(0), below: at(below) })
    }

    fn is_asked(&mut self, by: u8, floor: u64, below: u64, from: Cursor) -> Vec<String> {
        let (floor, below) = (at(floor), at(below));
        self.hears(by, Message::Gather { view: View(0), floor, below, from })
    }
}

#[test]
fn a_search_from_its_beginning_to_the_floor() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5, 6]);
    assert_eq!(leader.sweeps_after(0), NOTHING, "the floor has not stood still yet");
    assert_eq!(leader.sweeps_after(999), NOTHING);
    let asked =
        ["r1 ← gather in v0 below 900 from 0, floor 0", "r2 ← gather in v0 below 900 from 0, floor 0"];
    assert_eq!(leader.sweeps_after(1), asked);
    assert_eq!(leader.is_told(2, start(0), &[5, 6], &[], None), ["refuses below 900"]);
    let told = ["is complete below 900", "r1 ← complete below 900?", "r2 ← complete below 900?"];
    assert_eq!(leader.is_told(1, start(0), &[5, 6], &[], None), told);
    assert_eq!(leader.sweeps_after(1), told[1..], "they may not have heard it");
    let told = ["raises the floor to 900", "r2 ← floor 900"];
    assert_eq!(leader.is_complete(2, 900), told);
    assert_eq!(leader.is_complete(1, 900), ["r1 ← floor 900"], "one that is later");
    assert_eq!(leader.is_complete(1, 899), ["r1 ← floor 899"], "it has been passed");
}

/// Floors need no order, so it does not matter which replica has searched.
#[test]
fn a_replica_that_does_not_lead_raises_the_floor_as_well() {
    let mut replica = Searcher::new(1, 3, |_| {});
    replica.commits([5]);
    replica.sweeps_after(0);
    replica.sweeps_after(2_000);
    assert_eq!(replica.is_told(0, start(0), &[5], &[], None), ["refuses below 900"]);
    let told = ["is complete below 900", "r0 ← complete below 900?", "r2 ← complete below 900?"];
    assert_eq!(replica.is_told(2, start(0), &[5], &[], None), told);
    assert_eq!(replica.is_complete(0, 900), ["raises the floor to 900", "r0 ← floor 900"]);
    assert_eq!(replica.is_complete(2, 900), ["r2 ← floor 900"]);
}

/// The next replica tries as well, if the floor of the leader does not move for twice as long; and so on.
#[test]
fn a_replica_searches_the_later_the_further_it_stands_behind_the_leader() {
    for (index, others) in [(1, [0, 2]), (2, [0, 1])] {
        let mut replica = Searcher::new(index, 3, |_| {});
        replica.commits([5]);
        replica.sweeps_after(0);
        let wait = 1_000 * (u64::from(index) + 1);
        assert_eq!(replica.sweeps_after(wait - 1), NOTHING);
        let asked = others.map(|other| format!("r{other} ← gather in v0 below 900 from 0, floor 0"));
        assert_eq!(replica.sweeps_after(1), asked);
    }
    let mut idle = Searcher::new(1, 3, |_| {});
    idle.sweeps_after(0);
    assert_eq!(idle.sweeps_after(60_000), NOTHING, "it has nothing to forget");
    idle.commits([5]);
    assert_eq!(idle.sweeps_after(1_999), NOTHING, "its time begins when it has");
    assert_eq!(idle.sweeps_after(1).len(), 2);
}

/// A backup reads all that is held below an instant once the floor has passed it. Digests are compared at floors that replicas have.
#[test]
fn a_group_raises_its_floor_at_once_and_near_to_the_clock_for_a_reader_that_waits_for_it_and_for_no_digest() {
    for (index, page) in [(0, Some(0)), (1, Some(0)), (0, None)] {
        let mut replica = Searcher::new(index, 3, |_| {});
        replica.sweeps_after(0);
        if index == 0 {
            assert_eq!(replica.sweeps_after(1_000).len(), 2);
            for other in [1, 2] {
                replica.is_told(other, start(0), &[], &[], None);
            }
            for other in [1, 2] {
                replica.is_complete(other, 900);
            }
        }
        replica.clock = 5_000;
        assert_eq!(replica.sweeps_after(60_000), NOTHING, "it has nothing to forget");
        let point = Some(Point::Below(at(2_000)));
        let request = Request { operator: 1, point, path: Bytes::new(), page };
        replica.step(Input::Command(ReplicaCommand::Verify(request)));
        if page.is_none() {
            assert_eq!(replica.sweeps_after(60_000), NOTHING);
            continue;
        }
        let asked = replica.sweeps_after(1);
        assert!(asked.len() == 2 && asked[0].contains("gather in v0 below 4970"), "{asked:?}");
    }
}

#[test]
fn the_leader_alone_searches_at_once_where_more_has_ended_than_is_to_be_remembered() {
    for (index, expected) in [(0, 2), (1, 0), (2, 0)] {
        let mut replica = Searcher::new(index, 3, |config| config.checkpoint_bytes_max = 1);
        replica.commits([5]);
        assert_eq!(replica.sweeps_after(0).len(), expected, "{index}");
    }
}

#[test]
fn records_are_compared_page_by_page() {
    let mut leader = Searcher::new(0, 3, |config| config.checkpoint_page_max = 2);
    leader.commits([1, 2, 3, 4, 5]);
    leader.searches();
    // Its own page ends before the other's.
    let told = leader.is_told(1, start(0), &[1, 2, 3], &[], Some(cursor(4)));
    assert_eq!(told, ["r1 ← gather in v0 below 900 from #3, floor 0", "refuses below 900"]);
    assert_eq!(leader.is_told(1, start(0), &[1, 2, 3], &[], Some(cursor(4))), NOTHING, "an answer again");
    let told = leader.is_told(1, cursor(3), &[3], &[], Some(cursor(4)));
    assert_eq!(told, ["r1 ← gather in v0 below 900 from #4, floor 0"], "and here the other's before its own");
    assert_eq!(leader.is_told(1, cursor(4), &[4, 5], &[], None), NOTHING);
    assert_eq!(leader.sweeps_after(1), ["r2 ← gather in v0 below 900 from 0, floor 0"]);
    assert_eq!(leader.is_told(2, start(0), &[1, 2], &[], Some(cursor(3))).len(), 1);
    assert_eq!(leader.is_told(2, cursor(3), &[3, 4], &[], Some(cursor(5))).len(), 1);
    assert_eq!(leader.is_told(2, cursor(5), &[5], &[], None)[0], "is complete below 900");
}

#[test]
fn what_differs_is_fetched_and_pushed_and_compared_again() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5, 7]);
    leader.searches();
    let told = leader.is_told(1, start(0), &[4, 5, 8], &[9], None);
    assert_eq!(told, ["r1 ← decisions 7", "r1 ← fetch 4 8", "refuses below 900"]);
    assert_eq!(
        leader.sweeps_after(1)[0],
        "r1 ← gather in v0 below 900 from #4, floor 0",
        "up to there it agrees"
    );
    let learned = vec![(id(4), commit(4)), (id(8), commit(8))];
    assert_eq!(leader.hears(1, Message::Decisions { decisions: learned }), NOTHING);
    assert_eq!(
        leader.is_told(1, cursor(4), &[4, 5, 7, 8], &[9], None),
        NOTHING,
        "that was before it learned"
    );
    let from = (cursor(4).0, TransactionId::default());
    assert_eq!(leader.is_told(1, from, &[4, 5, 7, 8], &[9], None), NOTHING);
    assert_eq!(leader.sweeps_after(1)[0], "r1 ← gather in v0 below 900 from #9, floor 0");
    assert_eq!(leader.is_told(1, cursor(9), &[9], &[], None), ["r1 ← fetch 9"]);
    // A transaction that is open at another has ended here.
    let told = leader.is_told(2, start(0), &[4, 5, 7], &[8], None);
    assert!(told.len() == 1 && told[0].starts_with("r2 ← decisions 8"), "{told:?}");
}

/// A page of differences is more than one message carries.
#[test]
fn many_differences_are_told_in_messages_of_bounded_size() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits(1..=129);
    leader.searches();
    let theirs: Vec<u64> = (200..=329).collect();
    let told = leader.is_told(1, start(0), &theirs, &[], None);
    let sizes: Vec<(&str, usize)> = told
        .iter()
        .map(|line| (line.split(' ').nth(2).unwrap(), line.split(' ').count() - 3))
        .filter(|(what, _)| ["decisions", "fetch"].contains(what))
        .collect();
    assert_eq!(sizes, [("decisions", 128), ("decisions", 1), ("fetch", 128), ("fetch", 2)]);

    let wanted: Vec<TransactionId> = (1..=129).map(id).collect();
    let told = leader.hears(1, Message::FetchDecisions { transactions: wanted });
    assert_eq!(told.len(), 1);
    assert!(told[0].ends_with(" 127 128"), "the rest is asked for again");

    let mut small = Searcher::new(0, 3, |config| config.page_bytes_max = 1);
    small.commits(1..=3);
    let wanted = vec![id(9), id(2), id(3)];
    assert_eq!(small.hears(1, Message::FetchDecisions { transactions: wanted }), ["r1 ← decisions 2"]);
    assert_eq!(small.hears(1, Message::FetchDecisions { transactions: vec![id(9)] }), NOTHING);
}

/// A floor that f + 1 have made sure of has to wait for the others for a while only.
#[test]
fn slow_replicas_are_waited_for_and_then_left_behind() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.searches();
    assert_eq!(leader.is_told(1, start(0), &[5], &[], None), ["refuses below 900"]);
    assert_eq!(leader.sweeps_after(39_999), ["r2 ← gather in v0 below 900 from 0, floor 0"]);
    let told = leader.sweeps_after(1);
    assert_eq!(
        told,
        ["r2 ← gather in v0 below 900 from 0, floor 0", "is complete below 900", "r1 ← complete below 900?"]
    );
    let told = leader.is_told(2, start(0), &[], &[], None);
    assert_eq!(told, NOTHING, "the floor is chosen");
    assert_eq!(leader.is_complete(1, 900), ["raises the floor to 900", "r1 ← floor 900"]);
}

#[test]
fn a_floor_stops_short_of_what_is_open_for_long() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.prepares(7);
    leader.searches();
    leader.is_told(1, start(0), &[5], &[7], None);
    assert_eq!(leader.is_told(2, start(0), &[5], &[7], None), NOTHING);
    let again =
        ["r1 ← gather in v0 below 900 from #7, floor 0", "r2 ← gather in v0 below 900 from #7, floor 0"];
    let settling = |line: &String| !line.contains("recover");
    let told: Vec<String> = leader.sweeps_after(39_999).into_iter().filter(settling).collect();
    assert_eq!(told, again);
    // Below its timestamp, but for the transaction itself.
    let told: Vec<String> = leader.sweeps_after(40_001).into_iter().filter(settling).collect();
    assert_eq!(told[2..], ["is complete below 7", "r1 ← complete below 7?", "r2 ← complete below 7?"]);
}

#[test]
fn a_search_is_given_up_after_its_time_and_begun_anew() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.searches();
    leader.clock = 2_000;
    let told = leader.sweeps_after(159_999);
    assert_eq!(told[0], "r1 ← gather in v0 below 900 from 0, floor 0");
    let told = leader.sweeps_after(1);
    assert_eq!(told[0], "r1 ← gather in v0 below 1900 from 0, floor 0");
    leader.clock = 1_000;
    let told = leader.sweeps_after(160_000);
    assert_eq!(told[0], "r1 ← gather in v0 below 900 from 0, floor 0");
    assert_eq!(leader.is_told(1, start(0), &[5], &[], None).len(), 1);
}

/// Its clock was far ahead when it began, and is right again.
#[test]
fn a_search_by_a_wild_clock_is_given_up() {
    let half = Duration::from_secs(30).as_micros() as u64;
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.sweeps_after(0);
    leader.clock = 1_000 + half + 100;
    let wild = format!("r1 ← gather in v0 below {} from 0, floor 0", 1_000 + half);
    assert_eq!(leader.sweeps_after(1_000)[0], wild);
    leader.clock = 1_000;
    assert_eq!(leader.sweeps_after(1)[0], wild, "that is as far as is believed");
    leader.clock = 999;
    assert_eq!(leader.sweeps_after(1)[0], "r1 ← gather in v0 below 899 from 0, floor 0");
}

#[test]
fn a_member_answers_a_search_once_it_refuses_what_lies_below() {
    let mut member = Searcher::new(1, 3, |config| config.checkpoint_page_max = 2);
    member.commits([5, 6]);
    member.prepares(7);
    let told = ["refuses below 900", "r0 ← below 900 from 0: executed 5 6, open , more from #7"];
    assert_eq!(member.is_asked(0, 0, 900, start(0)), told);
    assert_eq!(member.is_asked(0, 0, 900, cursor(7)), ["r0 ← below 900 from #7: executed , open 7"]);
    assert_eq!(member.is_asked(2, 0, 800, cursor(6)), ["r2 ← below 800 from #6: executed 6, open 7"]);
    let other_view = Message::Gather { view: View(1), floor: at(0), below: at(950), from: start(0) };
    assert_eq!(member.hears(0, other_view), NOTHING);
    let other_view = Message::Complete { view: View(1), below: at(900) };
    assert_eq!(member.hears(0, other_view), NOTHING);
    let complete = || Message::Complete { view: View(0), below: at(900) };
    assert_eq!(member.hears(0, complete()), ["is complete below 900", "r0 ← complete below 900"]);
    assert_eq!(member.hears(0, complete()), ["r0 ← complete below 900"], "once is enough to be written down");
    assert_eq!(member.hears(0, Message::RaiseFloor { floor: at(901) }), NOTHING, "it is not so far");
    assert_eq!(member.hears(0, Message::RaiseFloor { floor: at(900) }), ["raises the floor to 900"]);
    assert_eq!(member.is_asked(0, 0, 950, start(0)), ["r0 ← floor 900"], "the sender has missed it");
    assert_eq!(
        member.is_asked(0, 900, 950, start(900)),
        ["refuses below 950", "r0 ← below 950 from 900: executed , open "]
    );
}

#[test]
fn answers_of_replicas_that_were_not_asked_count_for_nothing() {
    let mut member = Searcher::new(1, 3, |_| {});
    member.commits([5]);
    assert_eq!(member.is_told(0, start(0), &[6], &[], None), NOTHING, "it does not search");
    assert_eq!(member.is_complete(0, 900), NOTHING);
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.searches();
    assert_eq!(leader.is_complete(1, 900), NOTHING, "the floor is not chosen");
    assert_eq!(leader.is_told(7, start(0), &[5], &[], None), NOTHING, "no member");
    leader.is_told(1, start(0), &[5], &[], None);
    leader.is_told(2, start(0), &[5], &[], None);
    assert_eq!(leader.is_complete(7, 900), NOTHING);
    assert_eq!(leader.is_complete(1, 899), NOTHING, "not what was chosen");
    let other_view = Message::CompleteReply { view: View(1), below: at(900) };
    assert_eq!(leader.hears(1, other_view), NOTHING);
    assert_eq!(leader.is_complete(1, 900)[0], "raises the floor to 900");
}

/// Two of five are enough besides itself to be sure that its clock is not the wild one.
#[test]
fn a_searcher_refuses_once_f_others_do() {
    let mut leader = Searcher::new(0, 5, |_| {});
    leader.commits([5]);
    leader.searches();
    assert_eq!(leader.is_told(1, start(0), &[5], &[], None), NOTHING);
    assert_eq!(leader.is_told(1, start(0), &[5], &[], None), NOTHING, "the same one again");
    assert_eq!(leader.is_told(2, start(0), &[5], &[], None), ["refuses below 900"]);
    leader.is_told(3, start(0), &[5], &[], None);
    assert_eq!(leader.is_told(4, start(0), &[5], &[], None)[0], "is complete below 900");
    assert_eq!(leader.is_complete(1, 900), NOTHING, "two of five");
    assert_eq!(leader.is_complete(1, 900), NOTHING, "the same one again");
    let told = ["raises the floor to 900", "r1 ← floor 900", "r3 ← floor 900"];
    assert_eq!(leader.is_complete(3, 900), told);
}

#[test]
fn what_runs_here_late_is_compared_once_more_with_everybody() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.searches();
    leader.is_told(1, start(0), &[5], &[], None);
    leader.commits([3]);
    leader.sweeps_after(1);
    let told = ["r1 ← gather in v0 below 900 from 3, floor 0", "r2 ← gather in v0 below 900 from 0, floor 0"];
    assert_eq!(leader.sweeps_after(1), told);
    assert_eq!(leader.is_told(2, start(0), &[3, 5], &[], None), NOTHING, "the first may lack it");
    let lacks = leader.is_told(1, (cursor(3).0, TransactionId::default()), &[5], &[], None);
    assert_eq!(lacks, ["r1 ← decisions 3"]);
}

#[test]
fn a_search_ends_with_the_epoch_in_which_it_was_begun() {
    let mut leader = Searcher::new(0, 3, |_| {});
    leader.commits([5]);
    leader.searches();
    let groups = quorate_core::Groups::new(GroupSize::new(3).unwrap());
    let others = quorate_core::Members::new([0, 1, 3].map(ReplicaIndex).to_vec()).unwrap();
    let next = groups.next([(ShardId(2), others)]);
    leader.step(Input::Command(ReplicaCommand::ChangeGroups(next)));
    assert_eq!(leader.sweeps_after(1).len(), 2, "it is begun anew");
}

#[test]
fn as_many_operations_are_told_as_fit_into_a_message() {
    let Decision::Commit { transaction, .. } = commit(1) else { panic!("it is a commit") };
    let two = 2 * transaction.bytes();
    for (bytes_max, expected) in [(two, "r1 ← decisions 1 2"), (two - 1, "r1 ← decisions 1")] {
        let mut leader = Searcher::new(0, 3, |config| config.page_bytes_max = bytes_max);
        leader.commits([1, 2, 3]);
        let wanted = [1, 2, 3].map(id).to_vec();
        assert_eq!(leader.hears(1, Message::FetchDecisions { transactions: wanted }), [expected]);
    }
}

/// With f > 1 it had recorded the decision, and nobody has told it since that it takes effect.
#[test]
fn what_was_recorded_and_is_learned_has_run() {
    let mut replica = Searcher::new(1, 5, |_| {});
    let id_of = OperationId { transaction: id(5), number: OperationId::INCONSISTENT };
    let proposed = Message::Ir(Ir::ProposeInconsistent { id: id_of, operation: commit(5) });
    replica.step(Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message: proposed });
    let told = replica.is_asked(0, 0, 900, start(0));
    assert_eq!(told.last().unwrap(), "r0 ← below 900 from 0: executed , open 5");
    replica.hears(0, Message::Decisions { decisions: vec![(id(5), commit(5))] });
    assert_eq!(replica.is_asked(0, 0, 900, start(0)), ["r0 ← below 900 from 0: executed 5, open "]);
    assert_eq!(replica.replica.committed(), 1);
    replica.hears(0, Message::Decisions { decisions: vec![(id(5), commit(5))] });
    assert_eq!(replica.replica.committed(), 1, "once");
    let finalize = Message::Ir(Ir::FinalizeInconsistent { id: id_of });
    replica.step(Input::Message { from: Address::Client(CLIENT), epoch: Epoch::FIRST, message: finalize });
    assert_eq!(replica.replica.committed(), 1, "and no more");
}

#[test]
fn a_replica_that_a_consumer_of_changes_asks_searches_at_once_and_near_to_the_clock() {
    for index in [0, 1] {
        let mut replica = Searcher::new(index, 3, |_| {});
        let follow = || <Replica as HostedReplica>::follow().map(Input::Command).unwrap();
        assert_eq!(replica.sweeps_after(0), NOTHING);
        replica.step(follow());
        let told = replica.sweeps_after(1);
        let begins = |told: &[String], below: u64| {
            told.iter().any(|line| line.contains(&format!("gather in v0 below {below} from 0")))
        };
        assert!(begins(&told, 970), "replica {index}, idle as it is: {told:?}");
        // The search ends with its time, and the consumer is gone by then.
        replica.clock = 2_000;
        for _ in 0..200 {
            replica.sweeps_after(1_000);
        }
        replica.clock = 3_000;
        let told: Vec<String> = (0..10).flat_map(|_| replica.sweeps_after(100)).collect();
        assert!(!begins(&told, 2_970), "replica {index}: {told:?}");
    }
}

/// All that has ended since the last snapshot may be more than memory holds.
#[test]
fn a_replica_that_is_rebuilt_lets_go_of_what_has_ended_before_it_has_read_its_log() {
    let decision = commit(5);
    let Decision::Commit { transaction, .. } = &decision else { panic!("it commits") };
    let contents = Arc::downgrade(transaction);
    let decided = Record::Decided { transaction: id(5), decision, executed: true };
    let below = [Record::Refusing { below: at(900) }, Record::Completed { below: at(900) }];
    let ended = [Record::Initialised, decided].into_iter().chain(below);
    let raised = [Record::FloorRaised { floor: at(900) }];
    let is_held = || contents.upgrade().is_some();
    let looks = |expected: bool| {
        std::iter::once_with(move || {
            assert_eq!(is_held(), expected, "the log has more records");
            Record::Refusing { below: at(900) }
        })
    };
    let records = ended.chain(looks(true)).chain(raised).chain(looks(false));
    let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
    let config = ReplicaConfig::new(replica, GroupSize::new(3).unwrap(), Boot::Rejoin);
    let replica = Replica::restore(config, records);
    assert_eq!((replica.floor(), replica.outcome(id(5))), (at(900), None));
}
