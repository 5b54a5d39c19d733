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

/// A prepare that has waited for long is repeated seldom; a backup coordinator is waited for no longer than ever.
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

/// Enough know the outcome; the third learns of it some day.
#[test]
fn one_that_does_not_answer_is_told_an_outcome_so_many_times() {
    for resends_max in [0, 1, 3] {
        let mut client = Client::with(3, |config| config.decision_resends_max = resends_max);
        client.writes(&["a"]);
        for replica in ["1/r0", "1/r1", "1/r2"] {
            client.hears_vote(replica, Vote::Ok);
        }
        client.hears_told("1/r0");
        client.hears_told("1/r1");
        let told = client.waits(59_000);
        let times = [1_000, 3_000, 7_000].into_iter().take(resends_max as usize);
        let expected: Vec<String> =
            times.map(|after| format!("{after} ms: 1/r2 ← commit all at 1000")).collect();
        assert_eq!(told, expected);
    }
}

/// A change of whom it can reach has a client look at all that waits; what was asked for lately waits on.
#[test]
fn reads_and_scans_that_were_asked_for_lately_are_not_asked_for_again() {
    let mut client = Client::new(3);
    client.begins();
    client.scans(5);
    client.gets("a");
    let told = client.waits(500);
    assert_eq!(told, ["500 ms: 1/r1 ← read a", "500 ms: 1/r1 2/r1 ← scan 1 of 5"]);
    client.waits(100);
    client.knows("1/r0", false);
    assert_eq!(client.waits(300), NOTHING, "those were asked 400 ms ago");
    client.knows("2/r1", false);
    assert_eq!(client.waits(0).len() + client.waits(1).len(), 1, "that one was asked last, and is down");
}

/// Its answer is the first of a quorum.
#[test]
fn a_stale_read_that_goes_on_at_a_quorum_has_its_time_from_then_on() {
    let mut client = Client::new(3);
    client.reads(&["a"], Freshness::Stale(Duration::from_micros(100)));
    client.waits(400);
    assert_eq!(client.is_told("1/r0", &["5"]), ["1/r1 ← quorum read 1 of a at 1000"]);
    assert_eq!(client.waits(499), NOTHING);
    let told = client.waits(1);
    assert!(told.len() == 1 && told[0].contains("quorum read 2 of a at 1000"), "{told:?}");
}

#[test]
fn a_prepare_lies_ahead_by_what_a_majority_needs_where_that_is_asked_first() {
    // Clocks alike; two replicas near, and one so far away that two round trips to the others are sooner.
    for (far, ahead) in [(261, 0), (1, 800)] {
        let mut client = Client::with(3, |config| config.deadlines = true);
        let mut now = 0;
        for (after, replica, offset) in [(1, "1/r0", 0), (1, "1/r1", 0), (far, "1/r2", 800)] {
            client.waits(after - now.min(after));
            now = after;
            let arrived = ClockTime::from_micros(client.probed.as_micros() + offset);
            client.hears(replica, Message::ClockProbeReply { sent: client.probed, arrived });
        }
        let told = client.writes(&["a"]);
        assert!(told[0].ends_with(&format!("at {}", 1_000 + ahead)), "{far} ms: {told:?}");
    }
}

/// It may only commit where it was prepared, if it has: others find out.
#[test]
fn one_whose_window_ends_below_its_next_timestamp_is_left_to_others() {
    let mut client = Client::with(3, |config| config.retry_ahead = Duration::from_micros(5_000));
    client.begins();
    let transaction = client.transaction;
    client.does(Command::Put { transaction, key: named("a"), value: value(1) });
    let before = Some(ClockTime::from_micros(4_000));
    let window = quorate_core::command::CommitWindow { from: ClockTime::from_micros(0), before };
    client.does(Command::Confine { transaction, window });
    client.does(Command::Commit { transaction });
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    let told = client.hears_vote("1/r1", Vote::Retry(at(2_000)));
    let told = if told.is_empty() { client.hears_vote("1/r2", Vote::Retry(at(2_000))) } else { told };
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
}

/// Its timestamp would lie above its clock, whatever is asked for.
#[test]
fn one_whose_window_has_ended_by_the_clock_is_not_prepared_again() {
    let mut client = Client::new(3);
    client.begins();
    let transaction = client.transaction;
    client.does(Command::Put { transaction, key: named("a"), value: value(1) });
    let before = Some(ClockTime::from_micros(4_000));
    let window = quorate_core::command::CommitWindow { from: ClockTime::from_micros(0), before };
    client.does(Command::Confine { transaction, window });
    client.does(Command::Commit { transaction });
    client.clock = 5_000;
    client.hears_vote("1/r0", Vote::Retry(at(2_000)));
    client.hears_vote("1/r1", Vote::Retry(at(2_001)));
    let told = client.hears_vote("1/r2", Vote::Retry(at(2_002)));
    let all = client.waits(0);
    assert!(
        told.iter().chain(&all).all(|line| !line.contains("recover") && !line.contains("prepare")),
        "{told:?}"
    );
}

/// A range is read at once: nothing says how many of its keys are about to be written.
#[test]
fn a_strict_range_is_read_at_the_clock_where_keys_wait_for_their_turn() {
    let mut client = Client::with(3, |config| (config.deadlines, config.reads_in_turn) = (true, true));
    client.waits(1);
    for replica in ["1/r0", "1/r1", "1/r2", "2/r0", "2/r1", "2/r2"] {
        let arrived = ClockTime::from_micros(client.probed.as_micros() + 800);
        client.hears(replica, Message::ClockProbeReply { sent: client.probed, arrived });
    }
    let told = client.reads(&["a"], Freshness::Strict);
    assert!(told[0].ends_with("quorum read 1 of a at 1800 in turn"), "{told:?}");
    let mut client = Client::with(3, |config| (config.deadlines, config.reads_in_turn) = (true, true));
    client.waits(1);
    for replica in ["1/r0", "1/r1", "1/r2", "2/r0", "2/r1", "2/r2"] {
        let arrived = ClockTime::from_micros(client.probed.as_micros() + 800);
        client.hears(replica, Message::ClockProbeReply { sent: client.probed, arrived });
    }
    let told = client.reads_range("{t}1", "{t}2", Freshness::Strict);
    assert!(told[0].ends_with("quorum scan 1 of 9 at 1000"), "{told:?}");
}

/// Where a replica that answers late lets a read wait, that is known: it is not waited for anew.
#[test]
fn a_read_that_waits_for_its_turn_is_asked_for_again_in_its_time() {
    let mut client = Client::with(3, |config| config.reads_in_turn = true);
    client.reads(&["a"], Freshness::Strict);
    let (transaction, key) = (client.transaction, named("a"));
    let waits = || Message::ReadWaits { transaction, key: key.clone() };
    client.hears("1/r0", waits());
    client.waits(400);
    client.hears("1/r0", waits());
    assert_eq!(client.waits(99), NOTHING);
    assert!(client.waits(1)[0].contains("quorum read 2 of a"));
}

#[test]
fn a_read_ends_with_its_time_whichever_way_it_has_gone() {
    let stale = Freshness::Stale(Duration::from_micros(100));
    for patience in [700, 900] {
        for freshness in [Freshness::Strict, stale, Freshness::At(at(900)), Freshness::At(at(501_000))] {
            let mut client = Client::new(3);
            client.transaction.sequence += 1;
            client.does(Command::ReadOnly {
                transaction: client.transaction,
                keyspace: KEYSPACE,
                keys: vec![named("a")],
                freshness,
                patience: Duration::from_millis(patience),
            });
            let told = client.waits(60_000);
            let last = told.last().unwrap();
            assert!(last.starts_with(&format!("{patience} ms: unavailable: ")), "{freshness:?}: {told:?}");
        }
    }
}

/// The timestamps of others are no deadlines, so nothing need be measured for them.
#[test]
fn only_what_is_read_in_turn_measures_the_way() {
    for (freshness, measures) in [(Freshness::Strict, true), (Freshness::At(at(900)), false)] {
        let mut client = Client::with(3, |config| config.reads_in_turn = true);
        client.waits(60_000);
        (client.clock, client.probed) = (70_000, ClockTime::default());
        client.reads(&["a"], freshness);
        assert_eq!(client.probed == ClockTime::from_micros(70_000), measures, "{freshness:?}");
    }
}

#[test]
fn reads_take_turns_where_a_quorum_is_far() {
    for (far, round_trip, in_turn) in [(5, 4, false), (5, 5, true), (0, 1, true)] {
        let mut client = Client::with(3, |config| {
            config.reads_in_turn = true;
            config.far_round_trip = Duration::from_millis(far);
        });
        client.waits(round_trip);
        for replica in ["1/r0", "1/r1", "1/r2"] {
            let (sent, arrived) = (client.probed, client.probed);
            client.hears(replica, Message::ClockProbeReply { sent, arrived });
        }
        client.begins();
        let expected = if in_turn { "1/r0 ← read a in turn" } else { "1/r0 ← read a" };
        assert_eq!(client.gets("a"), [expected], "{round_trip} ms, and {far} ms are far");
    }
}

#[test]
fn others_have_the_time_of_a_first_prepare_once_they_are_the_replicas() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.waits(100);
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING);
    client.waits(50);
    client.learns_of(Epoch(2), &[0, 1, 3]);
    client.waits(10);
    client.hears_vote("1/r0", Vote::Ok);
    assert_eq!(client.hears_vote("1/r1", Vote::Ok), NOTHING, "the majority took ten milliseconds");
    assert_eq!(client.waits(19), NOTHING);
    assert!(client.waits(1)[0].contains("finalize 1 as OK"));
}

#[test]
fn a_key_is_asked_for_again_in_its_own_time_however_long_the_transaction_has_run() {
    let mut client = Client::new(3);
    client.begins();
    assert_eq!(client.waits(10_000), NOTHING);
    client.gets("a");
    assert_eq!(client.waits(499), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 1/r1 ← read a"]);
}

#[test]
fn a_scan_without_answers_names_those_that_were_asked() {
    let mut client = Client::new(3);
    client.begins();
    client.scans(5);
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "60000 ms: unavailable: 1/r0 1/r1 1/r2 2/r0 2/r1 2/r2");
}
