//! When a client looks after a transaction again: each phase has a time of its own, however long the one before has taken.

use super::*;

const ALL: &str = "1/r0 1/r1 1/r2";

const NOTHING: [&str; 0] = [];

impl Client {
    /// Begins a transaction that writes a key, and is asked to commit after so long.
    fn writes_after(&mut self, milliseconds: u64) -> Vec<String> {
        self.begins();
        let transaction = self.transaction;
        self.does(Command::Put { transaction, key: named("a"), value: value(1) });
        assert_eq!(self.waits(milliseconds), NOTHING);
        self.does(Command::Commit { transaction })
    }
}

#[test]
fn a_transaction_without_an_answer_ends_with_its_time_however_short_that_is() {
    for patience in [100, 499, 501, 2_000] {
        let mut client = Client::new(3);
        client.transaction.sequence += 1;
        let transaction = client.transaction;
        let patience_for = Duration::from_millis(patience);
        client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: patience_for });
        client.gets("a");
        let told = client.waits(10_000);
        let last = told.last().unwrap();
        assert!(last.starts_with(&format!("{patience} ms: unavailable: 1/r0")), "{told:?}");
    }
    // One that waits for nothing ends with its time as well.
    let mut client = Client::new(3);
    client.begins();
    assert_eq!(client.waits(60_000), ["60000 ms: Conflict"]);
}

#[test]
fn a_prepare_is_repeated_in_its_own_time_however_long_the_transaction_has_run() {
    for ran in [0, 700, 10_000, 40_000] {
        let mut client = Client::new(3);
        let prepare = client.writes_after(ran);
        assert_eq!(prepare, [format!("{ALL} ← prepare 1 of  at 1000")]);
        assert_eq!(client.waits(999), NOTHING);
        assert_eq!(client.waits(1), [format!("1 ms: {ALL} ← prepare 1 of  at 1000")], "after {ran} ms");
    }
}

#[test]
fn a_further_prepare_has_the_time_of_a_first_one() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(900);
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    let told = client.hears_vote("1/r1", Vote::Retry(at(2_001)));
    assert!(told[0].contains("prepare 2"), "{told:?}");
    assert_eq!(client.waits(999), NOTHING);
    assert!(client.waits(1)[0].contains("prepare 2"));
    // A fast quorum is waited for by what the majority took since then.
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING);

    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(300);
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    client.hears_vote("1/r1", Vote::Retry(at(2_001)));
    client.waits(10);
    client.hears_vote("1/r0", Vote::Ok);
    client.hears_vote("1/r1", Vote::Ok);
    assert_eq!(client.waits(19), NOTHING);
    assert!(client.waits(1)[0].ends_with("finalize 2 as OK in v0"));
}

#[test]
fn the_interval_between_repetitions_is_as_long_as_before_when_a_shard_has_agreed() {
    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        client.hears_vote(replica, Vote::Ok);
    }
    let told = client.waits(3_000);
    let expected = [1_000, 3_000].map(|after| format!("{after} ms: 2/r0 2/r1 2/r2 ← prepare 1 of  at 1000"));
    assert_eq!(told, expected);
}

/// What has been prepared for long is repeated seldom; a backup coordinator is waited for no longer than ever.
#[test]
fn a_backup_coordinator_has_its_own_time_however_seldom_the_prepare_was_repeated() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(31_000);
    let (transaction, promised) = (client.transaction, quorate_core::Ballot(3));
    let told = client.hears("1/r0", Message::Superseded { transaction, promised });
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
    assert_eq!(client.waits(1_499), NOTHING);
    let told = client.waits(1);
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
}

#[test]
fn a_transaction_that_nobody_answers_is_unknown_at_its_deadline_and_given_up_some_time_later() {
    let mut client = Client::with(3, |config| config.abandon_after = Duration::from_secs(4));
    client.writes(&["a"]);
    client.waits(59_999);
    let told = client.waits(1);
    assert_eq!(told, ["1 ms: Unknown { participants: [shard1] }"]);
    client.waits(3_999);
    for replica in ["1/r0", "1/r1"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING);
    }
    let told = client.hears_vote("1/r2", Vote::Ok);
    assert_eq!(told, [format!("{ALL} ← commit 1 at 1000")], "it goes on by itself, and nobody is told");

    let mut client = Client::with(3, |config| config.abandon_after = Duration::from_secs(4));
    client.writes(&["a"]);
    client.waits(64_000);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING, "it is forgotten");
    }
}

/// The clock of the client has gone on since the first prepare, and what it proposes next lies above it.
#[test]
fn a_transaction_is_not_prepared_again_so_late_that_no_replica_would_vote_on_it() {
    for (clock, again) in [(5_999, true), (6_000, false)] {
        let mut client = Client::with(3, |config| config.retry_span = Duration::from_micros(5_000));
        client.writes(&["a"]);
        client.clock = clock;
        client.hears_vote("1/r0", Vote::Retry(at(2_000)));
        let told = client.hears_vote("1/r1", Vote::Retry(at(2_001)));
        assert_eq!(told[0].contains("prepare 2"), again, "at {clock}: {told:?}");
    }
    // Another of its transactions has been driven far ahead: timestamps of one client rise.
    let mut client = Client::with(3, |config| config.retry_span = Duration::from_micros(5_000));
    client.writes(&["a"]);
    let (first, round) = (client.transaction, client.round);
    client.writes(&["x"]);
    client.hears_vote("2/r0", Vote::Retry(at(5_900)));
    client.hears_vote("2/r1", Vote::Retry(at(5_900)));
    client.hears_vote("2/r2", Vote::Retry(at(6_100)));
    (client.transaction, client.round) = (first, round);
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    let told = client.hears_vote("1/r1", Vote::Retry(at(2_001)));
    assert!(told[0].ends_with("finalize 1 as ABORT in v0"), "{told:?}");
}

/// What is read at quorums, of shards of which one has answered.
#[test]
fn a_read_that_fails_names_nobody_of_a_shard_that_is_read() {
    let in_the_past = Freshness::At(at(900));
    let mut client = Client::new(3);
    client.reads(&["a", "x"], in_the_past);
    client.is_told("1/r0", &["5"]);
    client.is_told("1/r1", &["5"]);
    client.is_told("2/r1", &["5"]);
    let told = client.waits(60_000);
    assert!(told.last().unwrap().ends_with("unavailable: 2/r0 2/r1 2/r2"), "{told:?}");
    // Of a stale read a shard that has validated what it holds is read, too.
    let stale = Freshness::Stale(Duration::from_micros(100));
    let mut client = Client::with(3, |config| config.read_timeout = Duration::from_secs(90));
    client.reads(&["a", "x"], stale);
    client.is_told_validated("2/r0", &[(5, 950)]);
    assert_eq!(client.waits(60_000), ["60000 ms: unavailable: 1/r0"]);
}

/// What replicas say of a shard that was not asked is nobody's answer.
#[test]
fn the_answers_of_other_shards_are_no_part_of_a_read() {
    for (name, own, other) in [("a", "1", "2"), ("x", "2", "1")] {
        let mut client = Client::new(3);
        client.reads(&[name], Freshness::At(at(900)));
        for index in 0..3 {
            assert_eq!(client.is_told(&format!("{other}/r{index}"), &["7"]), NOTHING);
        }
        assert_eq!(client.is_told(&format!("{own}/r0"), &["5"]), NOTHING);
        assert_eq!(client.is_told(&format!("{own}/r1"), &["5"])[0], format!("{name} = 5"));

        client.reads(&[name], Freshness::Stale(Duration::from_micros(100)));
        assert_eq!(client.is_told_validated(&format!("{other}/r0"), &[(7, 950)]), NOTHING);
        let told = client.is_told_validated(&format!("{own}/r0"), &[(5, 950)]);
        assert_eq!(told, [format!("{name} = 5"), "committed at 950, 0 retries".to_owned()]);

        client.writes(&[name]);
        for index in 0..3 {
            assert_eq!(client.hears_vote(&format!("{other}/r{index}"), Vote::Ok), NOTHING);
        }
        for index in 0..2 {
            client.hears_vote(&format!("{own}/r{index}"), Vote::Ok);
        }
        let told = client.hears_vote(&format!("{own}/r2"), Vote::Ok);
        assert!(told[0].starts_with("committed"), "{told:?}");
    }
}

#[test]
fn a_version_that_is_validated_up_to_the_very_bound_is_recent_enough() {
    let oldest = Timestamp { micros: 900, ..Timestamp::ZERO };
    for (until, recent) in [(oldest, true), (Timestamp { micros: 899, ..at(1) }, false)] {
        let mut client = Client::new(3);
        client.reads(&["a"], Freshness::Stale(Duration::from_micros(100)));
        let version = FoundVersion { version: at(5), value: value(5), absent_below: None };
        let found = vec![ValidatedVersion { found: version, until }];
        let told =
            client.hears("1/r0", Message::ReadValidatedReply { transaction: client.transaction, found });
        assert_eq!(told[0].starts_with("a = 5"), recent, "{told:?}");
    }
}
