//! Consumers of changes: up to where a replica tells that nothing else comes.

use std::sync::Arc;

use quorate_core::changes::{Answer as Told, Request as Wanted};
use quorate_granola::{Body, Final, ReplicaCommand, Rules, Voted};

use super::*;

impl Alone {
    /// A consumer asks. Gives the timestamp below which everything is certain, and what else comes of it.
    fn is_followed(&mut self) -> (u64, Vec<String>) {
        let input = Input::Command(ReplicaCommand::Follow);
        let told = self.step(|replica, context, log, outbox| replica.step(context, input, log, outbox));
        match self.replica.changes(&Wanted::all(None)) {
            Told::TooOld { retained_from } => (retained_from.micros, told),
            other => panic!("{other:?}"),
        }
    }

    fn asks_for(&mut self, sequence: u64, of: &[u32]) -> Vec<String> {
        let (transaction, participants) = (txn(1, sequence), shards(of));
        let (operation, class) = (Value::from_static(b"put a x"), Class::Independent);
        let request = Request { transaction, participants, operation, class, high: at(0), first: at(1_000) };
        self.hears("c1", Message::Request(request))
    }
}

fn quiet(certain: u64) -> (u64, Vec<String>) {
    (certain, Vec::new())
}

#[test]
fn a_leader_promises_up_to_its_clock_beneath_the_ceiling_that_is_stable() {
    let mut shard = Alone::leading(1, |_| {});
    assert_eq!(shard.is_followed(), (1, vec!["appends ceiling 501000".to_owned()]), "nothing is stable yet");
    assert_eq!(shard.logs(), NOTHING);
    assert_eq!(shard.is_followed(), quiet(1_001));
    // Its clock goes back: what it has promised stays.
    shard.clock = 500;
    assert_eq!(shard.is_followed(), quiet(1_001));
    let appended = shard.asks_for(1, &[1]);
    assert_eq!(appended, ["appends VOTED c1.1 COMMIT put a x at 1001, ceiling 501001"]);
    // It is further than its ceiling, and makes room.
    shard.logs();
    shard.clock = 900_000;
    assert_eq!(shard.is_followed(), (501_002, vec!["appends ceiling 1400000".to_owned()]));
    assert_eq!(shard.logs(), NOTHING);
    assert_eq!(shard.is_followed(), quiet(900_001));
}

#[test]
fn nothing_is_certain_from_the_first_on_that_is_pending() {
    let mut shard = Alone::leading(1, |_| {});
    shard.is_followed();
    shard.logs();
    // Its vote is not stable.
    shard.asks_for(1, &[1]);
    shard.clock = 2_000;
    assert_eq!(shard.is_followed(), quiet(1_001));
    shard.logs();
    assert_eq!(shard.is_followed(), quiet(2_001));
    // It lacks a vote; then its place is certain, and the log does not say so.
    shard.asks_for(2, &[1, 2]);
    shard.logs();
    shard.clock = 3_000;
    assert_eq!(shard.is_followed(), quiet(2_001));
    let (transaction, participants) = (txn(1, 2), shards(&[1, 2]));
    let (vote, class) = (Vote::Commit, Class::Independent);
    let ballot = Message::Vote {
        transaction,
        participants,
        first: at(1_000),
        vote,
        proposed: at(2_500),
        class,
        wants: false,
    };
    assert_eq!(shard.hears("2/r0", ballot), ["c1 ← REPLY c1.2 committed at 2500: x"]);
    assert_eq!(shard.is_followed(), quiet(2_001));
    // It rides along with the next entry.
    shard.asks_for(3, &[1]);
    assert_eq!(shard.is_followed(), quiet(2_001));
    shard.logs();
    assert_eq!(shard.is_followed(), quiet(3_001));
}

#[test]
fn a_replica_that_follows_knows_what_stands_before_what_it_has_executed() {
    let mut backup = Alone::following(1, |_| {});
    assert_eq!(backup.is_followed(), quiet(0));
    let voted = |sequence, of: &[u32], proposed| {
        let (transaction, participants) = (txn(1, sequence), shards(of));
        let voted = Voted {
            transaction,
            class: Class::Independent,
            participants,
            operation: Some(Value::from_static(b"put a x")),
            vote: Vote::Commit,
            proposed: at(proposed),
            first: at(1_000),
        };
        Entry { ceiling: at(600_000), finals: Vec::new(), body: Body::Voted(Arc::new(voted)) }
    };
    let follow = |backup: &mut Alone, entry: Entry| {
        backup.step(|replica, context, log, outbox| replica.apply(context, Position(1), &entry, log, outbox));
        backup.is_followed().0
    };
    assert_eq!(follow(&mut backup, voted(1, &[1], 2_000)), 2_000);
    assert_eq!(follow(&mut backup, voted(2, &[1, 2], 3_000)), 2_000);
    assert_eq!(follow(&mut backup, voted(3, &[1], 4_000)), 2_000, "another stands before it");
    let ending = Final { transaction: txn(1, 2), ending: Ending::Commit(at(3_500)) };
    let entry = Entry { ceiling: at(600_000), finals: vec![ending], body: Body::Nothing };
    assert_eq!(follow(&mut backup, entry), 4_000);
}

#[test]
fn planted_bugs_tell_consumers_too_much() {
    let planted =
        |id: &'static str| move |config: &mut ReplicaConfig| config.rules = Rules::with_id(Some(id));
    let mut shard = Alone::leading(1, planted("G26"));
    shard.is_followed();
    shard.logs();
    shard.asks_for(1, &[1]);
    shard.clock = 2_000;
    assert_eq!(shard.is_followed(), quiet(2_001), "it is pending at 1,001");
    let mut backup = Alone::following(1, planted("G27"));
    let entry = Entry { ceiling: at(600_000), finals: Vec::new(), body: Body::Nothing };
    backup.step(|replica, context, log, outbox| replica.apply(context, Position(1), &entry, log, outbox));
    assert_eq!(backup.is_followed(), quiet(600_000), "anything may still be proposed below");
}
