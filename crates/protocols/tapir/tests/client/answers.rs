//! Whose answers count, and of which transaction: those of the shard and of the replicas that were asked.

use quorate_core::command::Invalid;

use super::*;

const NOTHING: [&str; 0] = [];

/// Reads at quorums, of shards of which one has answered.
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

/// The words of replicas of a shard that was not asked are nobody's answer.
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
        let transaction = client.transaction;
        for index in 0..3 {
            let ahead = Message::ClockAhead { transaction, ahead_micros: 70, ahead_max_micros: 60 };
            assert_eq!(client.hears(&format!("{other}/r{index}"), ahead), NOTHING);
        }
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

#[test]
fn a_replica_that_comes_back_may_know_requests_for_several_keys() {
    let many = |client: &mut Client| {
        client.begins();
        let (transaction, keys) = (client.transaction, vec![named("a"), named("b")]);
        client.does(Command::GetMany { transaction, keys })
    };
    let mut client = Client::new(3);
    many(&mut client);
    client.waits(500);
    assert_eq!(many(&mut client).len(), 2, "it has left one unanswered");
    client.knows("1/r0", false);
    client.knows("1/r0", true);
    assert_eq!(many(&mut client), ["1/r0 ← read a b"]);
}

/// A change of one keyspace is none of another, whose replicas this client may get to know later.
#[test]
fn what_is_known_of_replicas_of_other_keyspaces_survives_a_change() {
    let other = quorate_core::KeyspaceId(KEYSPACE.0 + 1);
    let shards = vec![Shard::new(ShardId(9), [0, 1, 2].map(NodeId).to_vec())];
    let keyspace = Keyspace::new(other, "o", Isolation::Strict, Durability::Sync, shards);
    let routes_of_other = Arc::new(Routes::new(keyspace, vec![[0, 1, 2].map(ReplicaIndex).to_vec()]));
    let mut client = Client::new(3);
    client.knows("9/r2", false);
    client.learns_of(Epoch(2), &[0, 1, 3]);
    client.epoch = Epoch::FIRST;
    client.does(Command::Route(routes_of_other));
    client.transaction.sequence += 1;
    let (transaction, patience) = (client.transaction, Duration::from_secs(9));
    client.does(Command::Begin { transaction, keyspace: other, patience });
    client.does(Command::Put { transaction, key: Key::from("k"), value: value(1) });
    client.does(Command::Commit { transaction });
    client.hears_vote("9/r0", Vote::Ok);
    let told = client.hears_vote("9/r1", Vote::Ok);
    assert!(told.len() == 1 && told[0].ends_with("finalize 1 as OK in v0"), "the third is down: {told:?}");
}

#[test]
fn nobody_is_asked_for_an_outcome_unless_all_participants_are_known() {
    for (participants, known) in
        [(vec![1, 2], true), (vec![1, 9], false), (vec![9], false), (vec![], false), (vec![2, 1], false)]
    {
        let mut client = Client::new(3);
        client.transaction.sequence = 4;
        let told = client.does(Command::Resolve {
            transaction: client.transaction,
            participants: participants.iter().copied().map(ShardId).collect(),
            timestamp: at(700),
            patience: Duration::from_secs(5),
        });
        assert_eq!(told[0].contains("recover"), known, "{participants:?}: {told:?}");
        assert_eq!(told == ["resolved: None"], !known);
    }
}

/// Its client did not ask what became of it, and only learns that nobody knows.
#[test]
fn one_that_others_have_forgotten_is_unknown_to_its_client() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let (transaction, promised) = (client.transaction, quorate_core::Ballot(3));
    client.hears("1/r0", Message::Superseded { transaction, promised });
    let told = client.hears("1/r1", Message::Forgotten { transaction });
    assert_eq!(told, ["Unknown { participants: [shard1] }"]);
    assert_eq!(client.waits(60_000), NOTHING);
}

/// A value that a replica had validated says nothing of whether it answers at a quorum.
#[test]
fn a_stale_read_that_fails_at_quorums_names_all_that_are_silent() {
    let mut client = Client::with(3, |config| config.read_timeout = Duration::from_secs(90));
    client.reads(&["a", "x"], Freshness::Stale(Duration::from_micros(100)));
    client.is_told_validated("1/r0", &[(5, 950)]);
    let asked = ["1/r0 1/r1 ← quorum read 2 of a at 1001", "2/r0 2/r1 ← quorum read 2 of x at 1001"];
    assert_eq!(client.is_told_validated("2/r0", &[(5, 800)]), asked);
    assert_eq!(client.waits(60_000), ["60000 ms: unavailable: 1/r0 1/r1 2/r0 2/r1"]);
}

/// A planted bug: each shard is read at a timestamp of its own.
#[test]
fn shards_that_are_read_apart_are_not_read_anew() {
    use quorate_tapir::{Plant, Rules};
    let mut client = Client::with(3, |config| config.rules = Rules::planted(Plant::ShardsReadApart));
    let told = client.reads(&["a", "x"], Freshness::Strict);
    assert_eq!(told, ["1/r0 1/r1 ← quorum read 1 of a at 1000", "2/r0 2/r1 ← quorum read 1 of x at 1000"]);
    client.is_told("1/r0", &["5"]);
    client.is_told("1/r1", &["5"]);
    assert_eq!(client.is_told("2/r0", &["5+2000"]), ["2/r0 2/r1 ← quorum read 2 of x at 2001"]);
    client.is_told("2/r0", &["2000"]);
    assert_eq!(client.is_told("2/r1", &["2000"])[..2], ["a = 5", "x = 2000"]);
}

/// A vote on a prepare that is still to come cannot be of this client's making.
#[test]
fn only_votes_on_the_present_prepare_count() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    client.round = 2;
    for replica in ["1/r0", "1/r1", "1/r2"] {
        assert_eq!(client.hears_vote(replica, Vote::Ok), NOTHING);
    }
    client.round = 1;
    client.hears_vote("1/r0", Vote::Ok);
    client.hears_vote("1/r1", Vote::Ok);
    assert!(client.hears_vote("1/r2", Vote::Ok)[0].starts_with("committed"));
}

#[test]
fn those_that_find_a_prepare_too_far_ahead_are_counted_in_each_epoch() {
    let mut client = Client::new(3);
    client.writes(&["a"]);
    let transaction = client.transaction;
    let ahead = || Message::ClockAhead { transaction, ahead_micros: 70, ahead_max_micros: 60 };
    assert_eq!(client.hears("1/r0", ahead()), NOTHING);
    client.learns_of(Epoch(2), &[0, 1, 3]);
    assert_eq!(client.hears("1/r1", ahead()), NOTHING, "the first has been asked anew");
    let told = client.hears("1/r0", ahead());
    assert!(told.len() == 1 && told[0].ends_with("recover what was at 1000"), "{told:?}");
}

#[test]
fn the_answers_to_another_question_are_no_answers_to_a_scan() {
    let mut client = Client::new(3);
    client.reads_range("1", "2", Freshness::At(at(900)));
    for replica in ["1/r0", "1/r1", "2/r0", "2/r1"] {
        assert_eq!(client.is_told(replica, &[]), NOTHING, "they tell of no keys, and not of a range");
    }
    assert!(client.waits(500)[0].ends_with("quorum scan 2 of 9 at 900"));
}

#[test]
fn a_transaction_of_which_one_key_waits_for_its_turn_is_in_conflict() {
    let mut client = Client::with(3, |config| config.reads_in_turn = true);
    client.begins();
    client.gets("a");
    client.gets("b");
    let (transaction, key) = (client.transaction, named("b"));
    client.waits(59_900);
    client.hears("1/r0", Message::ReadWaits { transaction, key });
    assert_eq!(client.waits(100).last().unwrap(), "100 ms: Conflict", "another is about to write it");
}

#[test]
fn a_shard_that_goes_on_as_it_is_is_told_an_outcome_as_far_as_it_lacks_it() {
    let mut client = Client::new(3);
    client.writes(&["a", "x"]);
    for replica in ["1/r0", "1/r1", "1/r2", "2/r0", "2/r1", "2/r2"] {
        client.hears_vote(replica, Vote::Ok);
    }
    client.hears_told("1/r0");
    client.hears_told("2/r0");
    client.epoch = Epoch(2);
    let told = client.does(Command::Route(routes_of(Epoch(2), [&[0, 1, 2], &[0, 1, 3]])));
    assert_eq!(told, ["1/r1 1/r2 2/r0 2/r1 2/r3 ← commit all at 1000"]);
}

/// Neither what executes nor what is read there is asked for anew.
#[test]
fn the_change_of_another_keyspace_is_no_change() {
    for other in [KEYSPACE.0 + 1, KEYSPACE.0.wrapping_sub(1)] {
        let routes_in = |epoch| {
            let shards = vec![Shard::new(ShardId(9), [0, 1, 2].map(NodeId).to_vec())];
            let keyspace = Keyspace::new(
                quorate_core::KeyspaceId(other),
                "o",
                Isolation::Strict,
                Durability::Sync,
                shards,
            );
            let nearest = vec![[0, 1, 2].map(ReplicaIndex).to_vec()];
            Command::Route(Arc::new(Routes::new(Keyspace { epoch, ..keyspace }, nearest)))
        };
        let mut client = Client::new(3);
        client.does(routes_in(Epoch(1)));
        client.begins();
        client.gets("a");
        client.scans(5);
        client.reads(&["a"], Freshness::At(at(900)));
        assert_eq!(client.does(routes_in(Epoch(2))), NOTHING);
        assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
        assert_eq!(client.is_told("1/r1", &["5"])[0], "a = 5");
    }
}
