//! Consumers of changes: a replica of the first shard reads all keys for them, and tells up to where nothing else commits.

use quorate_core::changes::{Answer, Page, Position, Request};
use quorate_core::log::Position as LogPosition;
use quorate_str::Rules;

use super::*;

/// The first replica, which leads the first view and is granted snapshots, as a consumer wants, up to 2,001,000.
fn followed(change: impl FnOnce(&mut ReplicaConfig)) -> Alone {
    let mut shard = machine("1/r0", |config| {
        config.follow_lag = Duration::ZERO;
        change(config);
    });
    shard.starts();
    shard.leads(0);
    assert_eq!(shard.does(ReplicaCommand::Follow), ["appends GRANTED r0 up to @2001000"]);
    let unable = shard.machine.changes(&Request::all(None));
    assert!(matches!(unable, Answer::Unable { .. }), "{unable:?}");
    shard.logs();
    assert_eq!(shard.does(ReplicaCommand::Follow), NOTHING);
    shard
}

fn prepare(sequence: u64, snapshot: u64, words: &str) -> Message {
    Message::Prepare {
        transaction: txn(1, sequence),
        life: LIFE,
        snapshot: at(snapshot),
        writes: writes(words),
        after: Vec::new(),
        is_local: false,
        knows_indexes: false,
    }
}

fn decide(sequence: u64, outcome: Outcome) -> Message {
    Message::Decide { transaction: txn(1, sequence), outcome, readers: Vec::new(), is_forgotten: false }
}

fn page(shard: &Alone, from: u64) -> Page<Position> {
    let from = Timestamp { micros: from, client: ClientId(0) };
    match shard.machine.changes(&Request::all(Some(from.into()))) {
        Answer::Page(page) => page,
        other => panic!("{other:?}"),
    }
}

/// Below this timestamp everything is certain.
fn certain(shard: &Alone) -> u64 {
    let Position::Timestamp(to) = page(shard, 0).to else { panic!("positions are timestamps") };
    to.micros
}

fn told(page: &Page<Position>) -> Vec<(u64, usize)> {
    page.changes.iter().map(|change| (change.timestamp.micros, change.writes.len())).collect()
}

#[test]
fn a_consumer_has_read_everything_below_what_it_is_told_is_certain() {
    let mut shard = followed(|_| {});
    assert_eq!(certain(&shard), 1_001);
    // What is let in later is proposed above, as if all of its keys had been read.
    let told_by = shard.hears("4/r0", prepare(1, 500, "elm=y oak=x"));
    assert_eq!(told_by, ["appends PREPARED c1.1 elm=y oak=x in @500, @1001"]);
    shard.logs();
    shard.waits(100);
    shard.does(ReplicaCommand::Follow);
    assert_eq!(
        certain(&shard),
        501,
        "it may commit at any timestamp above its snapshot, as far as is known here"
    );
    shard.hears("4/r0", decide(1, committed(1_500)));
    assert_eq!(certain(&shard), 1_500, "the log does not say yet that it has");
    shard.logs();
    shard.does(ReplicaCommand::Follow);
    let all = page(&shard, 0);
    let to = Position::Timestamp(Timestamp { micros: 101_001, client: ClientId(0) });
    assert_eq!((told(&all), all.to), (vec![(1_500, 2)], to));
}

#[test]
fn what_is_aborted_holds_nobody_up() {
    let mut shard = followed(|_| {});
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    shard.logs();
    assert_eq!(certain(&shard), 501);
    shard.hears("4/r0", decide(1, Outcome::Aborted));
    assert_eq!(certain(&shard), 1_001);
}

#[test]
fn nothing_is_promised_above_what_was_granted() {
    let mut shard = followed(|config| config.attention_interval = Duration::from_secs(60));
    shard.waits(3_000);
    shard.does(ReplicaCommand::Follow);
    assert_eq!(certain(&shard), 2_001_001, "the next grant is not stable");
    shard.logs();
    shard.does(ReplicaCommand::Follow);
    assert_eq!(certain(&shard), 3_001_001);
}

#[test]
fn a_consumer_stays_behind_snapshots_that_are_under_way() {
    let mut shard = followed(|config| config.follow_lag = Duration::from_secs(1));
    shard.waits(1_500);
    shard.does(ReplicaCommand::Follow);
    assert_eq!(certain(&shard), 501_001);
    let told_by = shard.hears("4/r0", prepare(1, 1_400_000, "oak=x"));
    assert_eq!(told_by, ["appends PREPARED c1.1 oak=x in @1400000, @1400001"], "no timestamp is raised");
}

#[test]
fn versions_are_retained_below_the_floor_and_given_to_others() {
    let mut shard = followed(|config| config.floor_lag = Duration::from_secs(4));
    for (sequence, timestamp) in [(1, 1_500), (2, 2_500)] {
        shard.hears("4/r0", prepare(sequence, timestamp - 100, "oak=x"));
        shard.logs();
        shard.hears("4/r0", decide(sequence, committed(timestamp)));
        shard.logs();
    }
    shard.waits(6_000);
    shard.logs();
    shard.does(ReplicaCommand::Follow);
    assert!(shard.machine.floor().micros > 2_500);
    assert_eq!(told(&page(&shard, 0)), [(1_500, 1), (2_500, 1)]);
    let mut other = machine("1/r1", |_| {});
    other.starts();
    other.machine.replace_state(LogPosition(9), shard.pages());
    assert_eq!(other.machine.retained(), shard.machine.retained());
}

#[test]
fn planted_bugs_tell_consumers_too_much() {
    let planted =
        |id: &'static str| move |config: &mut ReplicaConfig| config.rules = Rules::with_id(Some(id));
    let mut shard = followed(planted("S22"));
    shard.hears("4/r0", prepare(1, 500, "oak=x"));
    assert_eq!(certain(&shard), 1_001, "it may commit at 501");
    let mut shard = followed(planted("S23"));
    let told_by = shard.hears("4/r0", prepare(1, 500, "oak=x"));
    assert_eq!(told_by, ["appends PREPARED c1.1 oak=x in @500, @501"], "all up to 1,000 was told");
}
