//! When a client looks after a transaction again: each phase has a time of its own, however long the one before has taken.

use quorate_core::command::Invalid;

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

/// Shards whose replicas are others, each.
fn routes_of(epoch: Epoch, members: [&[u8]; 2]) -> Arc<Routes> {
    let shard = |(id, members): (u32, &[u8])| {
        let nodes = members.iter().map(|index| NodeId(u16::from(*index))).collect();
        Shard::new(ShardId(id), nodes)
    };
    let shards = (1..).zip(members).map(shard).collect();
    let keyspace = Keyspace::new(KEYSPACE, "k", Isolation::Strict, Durability::Sync, shards);
    let nearest = members.map(|members| members.iter().copied().map(ReplicaIndex).collect()).to_vec();
    Arc::new(Routes::new(Keyspace { epoch, ..keyspace }, nearest))
}

#[test]
fn each_shard_is_asked_at_its_own_replicas_after_a_change() {
    let changed = || routes_of(Epoch(2), [&[3, 1, 0], &[4, 2, 0]]);
    let mut client = Client::new(3);
    client.reads(&["a", "x"], Freshness::At(at(900)));
    client.epoch = Epoch(2);
    let told = client.does(Command::Route(changed()));
    assert_eq!(told, ["1/r3 1/r1 ← quorum read 2 of a at 900", "2/r4 2/r2 ← quorum read 2 of x at 900"]);

    let mut client = Client::new(3);
    client.begins();
    client.gets("a");
    client.gets("x");
    client.epoch = Epoch(2);
    assert_eq!(client.does(Command::Route(changed())), ["1/r3 ← read a", "2/r4 ← read x"]);

    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    client.epoch = Epoch(2);
    let told = client.does(Command::Route(changed()));
    assert_eq!(told, ["1/r0 1/r1 1/r3 2/r0 2/r2 2/r4 ← prepare 1 of  at 1000"]);
}

#[test]
fn confirmations_count_for_their_shard_alone() {
    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    for replica in ["1/r0", "1/r1", "2/r0", "2/r1"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING);
    }
    let told = client.waits(5);
    assert_eq!(told, ["5 ms: 1/r0 1/r1 1/r2 2/r0 2/r1 2/r2 ← finalize 1 as OK in v0"]);
    for replica in ["2/r0", "2/r1", "2/r2"] {
        assert_eq!(client.hears_confirmed(replica, Vote::Ok), NOTHING, "the first shard has not confirmed");
    }
    assert_eq!(client.hears_confirmed("1/r0", Vote::Ok), NOTHING);
    assert_eq!(client.hears_confirmed("1/r1", Vote::Ok)[0], "committed at 1000, 0 retries, slowly");
    // With one shard alone those of the other count for nothing.
    for (name, own, other) in [("a", "1", "2"), ("x", "2", "1")] {
        let mut client = Client::new(3);
        client.writes(&[name]);
        for index in 0..2 {
            client.hears_vote(&format!("{own}/r{index}"), Vote::Ok);
        }
        client.waits(5);
        for index in 0..3 {
            assert_eq!(client.hears_confirmed(&format!("{other}/r{index}"), Vote::Ok), NOTHING);
        }
        assert_eq!(client.hears_confirmed(&format!("{own}/r0"), Vote::Ok), NOTHING);
        let told = client.hears_confirmed(&format!("{own}/r1"), Vote::Ok);
        assert!(told[0].starts_with("committed"), "{told:?}");
    }
}

#[test]
fn that_an_outcome_is_carried_out_is_said_by_the_shard_that_was_told() {
    for (name, own, other) in [("a", "1", "2"), ("x", "2", "1")] {
        let mut client = Client::new(5);
        client.writes(&[name]);
        for index in 0..4 {
            client.hears_vote(&format!("{own}/r{index}"), Vote::Ok);
        }
        for index in 0..5 {
            client.hears_told(&format!("{own}/r{index}"));
        }
        let id = OperationId { transaction: client.transaction, number: OperationId::INCONSISTENT };
        for index in 0..5 {
            let (view, verdict, finalized) = (View(0), None, true);
            client.hears(
                &format!("{other}/r{index}"),
                Message::Ir(Ir::Confirm { id, view, verdict, finalized }),
            );
        }
        let told = client.waits(1_000);
        assert_eq!(told.len(), 1, "nobody who carries it out has said so: {told:?}");
        assert!(told[0].ends_with("carry it out"));
    }
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

#[test]
fn a_replica_that_answers_is_asked_for_several_keys_again() {
    let many = |client: &mut Client| {
        client.begins();
        let (transaction, keys) = (client.transaction, vec![named("a"), named("b")]);
        client.does(Command::GetMany { transaction, keys })
    };
    let mut client = Client::new(3);
    many(&mut client);
    let (first, request) = (client.transaction, client.round);
    client.waits(500);
    let apart = ["1/r0 ← read a", "1/r0 ← read b"];
    assert_eq!(many(&mut client), apart);
    let found = ["a", "b"].map(|name| quorate_core::transaction::KeyVersion {
        key: named(name),
        version: at(5),
        value: value(5),
    });
    let reply =
        Message::ReadManyReply { transaction: first, request, found: found.to_vec(), waiting: vec![] };
    assert_eq!(client.hears("1/r0", reply), ["a = 5", "b = 5"], "it was slow");
    assert_eq!(many(&mut client), ["1/r0 ← read a b"]);
    // One that is known to be down may know such requests.
    let mut client = Client::new(3);
    many(&mut client);
    client.knows("1/r0", false);
    client.waits(1);
    client.knows("1/r0", true);
    assert_eq!(many(&mut client), ["1/r0 ← read a b"]);
    // And for so long as it has left one unanswered it is asked for each by itself.
    let mut client = Client::new(3);
    many(&mut client);
    client.waits(500);
    client.waits(9_999);
    assert_eq!(many(&mut client), apart);
    client.waits(1);
    assert_eq!(many(&mut client), ["1/r0 ← read a b"]);
}

#[test]
fn only_an_open_transaction_is_aborted_or_takes_what_it_is_to_write() {
    let not_open = |client: &Client| [format!("Invalid({:?})", Invalid::NotOpen(client.transaction))];
    let mut client = Client::new(3);
    client.transaction.sequence = 5;
    let transaction = client.transaction;
    assert_eq!(client.does(Command::Abort { transaction }), not_open(&client), "it has not begun");
    client.begins();
    let transaction = client.transaction;
    assert_eq!(client.does(Command::Abort { transaction }), ["Aborted"]);
    assert_eq!(client.does(Command::Abort { transaction }), not_open(&client));
    let put = || Command::Put { transaction, key: named("a"), value: value(1) };
    assert_eq!(client.does(put()), not_open(&client));
    client.writes(&["a"]);
    let transaction = client.transaction;
    assert_eq!(client.does(Command::Abort { transaction }), not_open(&client), "it may have committed");
    assert_eq!(client.does(Command::Commit { transaction }), not_open(&client));
}

#[test]
fn keys_and_values_that_are_too_large_end_a_transaction() {
    let huge = Key::from(vec![b'k'; 1 << 20]);
    let is_limit = |told: Vec<String>| told.len() == 1 && told[0].starts_with("Invalid(Limit");
    let mut client = Client::new(3);
    client.begins();
    let transaction = client.transaction;
    assert!(is_limit(client.does(Command::Put { transaction, key: huge.clone(), value: value(1) })));
    assert_eq!(client.does(Command::Commit { transaction }).len(), 1, "it is over");
    client.begins();
    let transaction = client.transaction;
    let keys = vec![named("a"), huge.clone()];
    assert!(is_limit(client.does(Command::GetMany { transaction, keys })), "nothing of it is asked for");
    client.begins();
    let transaction = client.transaction;
    assert!(is_limit(client.does(Command::Get { transaction, key: huge })));
    client.begins();
    let (transaction, large) = (client.transaction, Some(Bytes::from(vec![b'x'; 200 << 20])));
    assert!(is_limit(client.does(Command::Put { transaction, key: named("a"), value: large })));
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
