//! How long a client waits for a node, and whom it believes.

use super::*;

/// The lines of these milliseconds that say this.
fn within(client: &mut Client, milliseconds: u64, what: &str) -> Vec<String> {
    only(client.alone.waits(milliseconds), what)
}

/// Another node, another home or a shard has no say in a transaction.
#[test]
fn a_client_believes_the_node_of_its_transaction() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    let transaction = client.id();
    client.does(Command::CommitSpeculatively { transaction });
    let answered = ["✗ answered already"];
    let shown = Message::Shown { transaction, snapshot: at(700), local: at(800), chain: 1 };
    let under_way = Message::UnderWay { transaction };
    let other = Message::OtherPeriod { transaction, period: Period { life: LIFE, number: 4 } };
    let ends = Message::CommitReply { transaction, ending: commits_at(900) };
    let doomed = Message::Doomed { transaction, refusal: Refusal::Conflict };
    for from in ["3/r1", "1/r0"] {
        for message in [&shown, &under_way, &other, &ends, &doomed] {
            assert_eq!(client.hears(from, message.clone()), answered, "{from}: {message:?}");
        }
    }
    // Of the outcome any machine of its home may know, and nobody else.
    let outcome = Message::InquireReply { transaction, outcome: Some(committed(900)) };
    for from in ["1/r0", "2/r1"] {
        assert_eq!(client.hears(from, outcome.clone()), answered, "{from}");
    }
    assert_eq!(client.hears("3/r2", outcome), ["c1.1 COMMITTED @900"]);
    // A transaction that reads is not over by what was to answer a commit.
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.ends("3/r0", commits_at(900)), answered);
    assert_eq!(client.is_answered("3/r0", Some(committed(900))), ["✗ nothing waits under this name"]);
    assert_eq!(client.is_told("3/r0", 1, 950, vec![version("oak", "x", 5)]).len(), 2, "it reads");
}

/// It lives, whatever it says; only three messages without any answer are a sign.
#[test]
fn any_answer_of_a_node_shows_that_it_lives() {
    type Answer = fn(&mut Client) -> Vec<String>;
    let answers: [Answer; 2] = [
        |client| client.hears("3/r0", Message::UnderWay { transaction: txn(1, 1) }),
        |client| {
            let shown = Message::Shown { transaction: txn(1, 1), snapshot: at(7), local: at(8), chain: 1 };
            client.hears("3/r0", shown)
        },
    ];
    for answer in answers {
        let mut client = Client::new();
        client.begins();
        client.puts("oak", "x");
        client.does(Command::CommitSpeculatively { transaction: txn(1, 1) });
        assert_eq!(within(&mut client, 1_000, "COMMIT").len(), 2);
        answer(&mut client);
        assert_eq!(within(&mut client, 1_000, "COMMIT").len(), 2);
        assert_eq!(within(&mut client, 500, "INQUIRE").len(), 1, "three are enough");
    }
    // A read that is answered counts for one that is not.
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.gets(&["elm"]);
    assert_eq!(within(&mut client, 1_000, "READ").len(), 4, "both, twice");
    client.is_told("3/r0", 2, 700, vec![version("elm", "", 0)]);
    assert_eq!(within(&mut client, 1_000, "READ").len(), 2);
    assert_eq!(client.alone.waits(500), ["500 ms: c1.1 CONFLICT"]);
}

/// The node has another message to answer.
#[test]
fn a_commit_is_waited_for_as_if_the_node_had_answered_before() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(within(&mut client, 1_000, "READ").len(), 2);
    client.puts("oak", "x");
    assert_eq!(client.commits().len(), 1);
    assert_eq!(within(&mut client, 1_000, "COMMIT").len(), 2);
    assert_eq!(within(&mut client, 500, "INQUIRE").len(), 1);
}

/// Each read that is not answered is sent again with the first one that is late.
#[test]
fn the_oldest_read_that_is_not_answered_says_when_reads_are_sent_again() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    client.alone.waits(300);
    client.gets(&["elm"]);
    assert_eq!(client.alone.waits(199), NOTHING);
    let both = ["1 ms: 3/r0 ← READ c1.1 oak above @0", "1 ms: 3/r0 ← READ c1.1 elm above @0"];
    assert_eq!(client.alone.waits(1), both);
    client.is_told("3/r0", 1, 700, vec![version("oak", "", 0)]);
    assert_eq!(client.alone.waits(499), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 3/r0 ← READ c1.1 elm @700"]);
}

/// Each of them would leave it otherwise, and the second one the node after that.
#[test]
fn a_node_is_left_once_by_all_transactions_that_it_does_not_answer() {
    let mut client = Client::new();
    for _ in 0..2 {
        client.begins();
        client.gets(&["oak"]);
    }
    // The second one waits a while longer: the client has turned to another node meanwhile, which may be further away.
    assert_eq!(within(&mut client, 2_000, "CONFLICT").len(), 2);
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.3 oak above @0"]);
    // Beyond the last one comes the first.
    for next in ["3/r2", "3/r0"] {
        client.alone.waits(20_000);
        client.begins();
        assert!(client.gets(&["oak"])[0].starts_with(next), "{next}");
    }
}

#[test]
fn where_no_node_can_be_reached_the_nearest_is_asked() {
    let mut client = Client::new();
    for index in 0..3 {
        client.does(Command::Reachable { replica: replica(&format!("3/r{index}")), reachable: false });
    }
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.1 oak above @0"]);
}

/// The first one that can be reached, if all have something to be told.
#[test]
fn a_transaction_begins_at_a_node_that_is_behind_if_there_is_no_other() {
    let mut client = Client::new();
    let reachable =
        |index: u8, reachable| Command::Reachable { replica: replica(&format!("3/r{index}")), reachable };
    // Of one that was given up before it is not known which machine has run it.
    let resolve = Command::Resolve {
        transaction: txn(1, 9),
        participants: vec![ShardId(3)],
        timestamp: Timestamp { micros: 400, client: ClientId(1) },
        patience: PATIENCE,
    };
    assert_eq!(client.does(resolve), ["3/r0 ← INQUIRE c1.9 of @400"]);
    let aborted = Message::InquireReply { transaction: txn(1, 9), outcome: Some(Outcome::Aborted) };
    assert_eq!(client.hears("3/r1", aborted), ["c1.9 resolved: aborted"]);
    let begins = |client: &mut Client| {
        client.sequence += 1;
        let transaction = client.id();
        client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE })
    };
    assert_eq!(begins(&mut client), ["3/r0 ← INQUIRE c1.9 of @400"]);
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.1 oak above @0"], "that one knows");
    client.does(reachable(1, false));
    client.alone.waits(1_000);
    assert_eq!(begins(&mut client), ["3/r0 ← INQUIRE c1.9 of @400", "3/r2 ← INQUIRE c1.9 of @400"]);
    assert_eq!(client.gets(&["oak"]), ["3/r0 ← READ c1.2 oak above @0"]);
    // One that does not lead its log does not run it.
    let elsewhere = Message::NotLeading { transaction: Some(txn(1, 9)), leader: ReplicaIndex(1) };
    client.hears("3/r2", elsewhere);
    client.alone.waits(10_000);
    assert_eq!(begins(&mut client), NOTHING);
    assert_eq!(client.gets(&["oak"]), ["3/r2 ← READ c1.3 oak above @0"]);
}

/// Its node alone may show it, where that is known.
#[test]
fn only_the_node_of_an_aborted_transaction_is_behind() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.alone.waits(2_000);
    client.is_answered("3/r1", Some(Outcome::Aborted));
    client.does(Command::Reachable { replica: replica("3/r1"), reachable: false });
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r2 ← READ c1.2 oak above @0"]);
}

/// A transaction that has only read is at its snapshot, and that may be all that the session has seen.
#[test]
fn a_session_has_seen_timestamps_and_snapshots() {
    let mut client = Client::new();
    for (timestamp, snapshot, seen) in [(500, 900, 900), (800, 100, 900), (950, 100, 950)] {
        client.begins();
        client.puts("oak", "x");
        client.commits();
        let ending = Ending::Committed {
            timestamp: Timestamp { micros: timestamp, client: ClientId(1) },
            snapshot: at(snapshot),
        };
        client.ends("3/r0", ending);
        assert_eq!(client.seen(), quorate_core::seen::Seen::at(at(seen)));
    }
}

/// A home of one keyspace knows nothing of the transactions of another.
#[test]
fn a_transaction_follows_another_one_of_its_keyspace() {
    for (earlier, later) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
        let mut client = Client::new();
        let known = routes(Epoch::FIRST);
        let keyspace = Keyspace { id: KeyspaceId(2), ..known.keyspace.clone() };
        let members = vec![(0..3).map(ReplicaIndex).collect(); 3];
        client.does(Command::Route(Arc::new(Routes::new(keyspace, members))));
        let begins = |client: &mut Client, keyspace| {
            client.sequence += 1;
            let (transaction, keyspace) = (client.id(), KeyspaceId(keyspace));
            client.does(Command::Begin { transaction, keyspace, patience: PATIENCE });
        };
        begins(&mut client, earlier);
        client.puts("oak", "x");
        client.commits();
        begins(&mut client, later);
        client.does(Command::After { transaction: client.id(), earlier: txn(1, 1) });
        let after = if earlier == later { " after c1.1" } else { "" };
        assert_eq!(client.gets(&["oak"]), [format!("3/r0 ← READ c1.2 oak above @0{after}")]);
    }
}

/// Its result was shown, and what it has written is not there.
#[test]
fn a_shown_commit_of_which_its_home_says_that_it_is_aborted_is_apologised_for() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    let transaction = client.id();
    client.does(Command::CommitSpeculatively { transaction });
    client.hears("3/r0", Message::Shown { transaction, snapshot: at(700), local: at(800), chain: 1 });
    client.alone.waits(1_500);
    assert_eq!(client.is_answered("3/r1", Some(Outcome::Aborted)), ["c1.1 CONFLICT"]);
    client.begins();
    let after = Command::After { transaction: client.id(), earlier: transaction };
    assert_eq!(client.does(after), ["c1.2 CONFLICT"]);
    // One that was not shown is no broken promise.
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.ends("3/r1", Ending::Aborted(Refusal::Conflict)), ["c1.3 CONFLICT"]);
    let earlier = client.id();
    client.begins();
    assert_eq!(client.does(Command::After { transaction: client.id(), earlier }), NOTHING);
}

/// An outcome that is asked for is asked for again.
#[test]
fn an_outcome_is_asked_for_at_one_machine_after_another() {
    let mut client = Client::new();
    let resolve = Command::Resolve {
        transaction: txn(1, 9),
        participants: vec![ShardId(3)],
        timestamp: Timestamp { micros: 400, client: ClientId(1) },
        patience: PATIENCE,
    };
    client.does(resolve);
    let asks = |index: u8| [format!("500 ms: 3/r{index} ← INQUIRE c1.9 of @400")];
    assert_eq!(client.alone.waits(500), asks(1));
    let named = Message::NotLeading { transaction: Some(txn(1, 9)), leader: ReplicaIndex(2) };
    assert_eq!(client.hears("3/r0", named.clone()), ["✗ this is known"], "it was not asked last");
    assert_eq!(client.hears("3/r1", named), ["3/r2 ← INQUIRE c1.9 of @400"]);
    assert_eq!(client.alone.waits(500), asks(0));
}

/// Whichever of the two has the greater number.
#[test]
fn a_transaction_has_one_snapshot_and_a_commit_one_period() {
    for second in [600, 800] {
        let mut client = Client::new();
        client.begins();
        client.gets(&["oak"]);
        client.gets(&["elm"]);
        client.is_told("3/r0", 1, 700, vec![version("oak", "", 0)]);
        assert_eq!(client.is_told("1/r0", 2, 700, vec![]), ["✗ nothing waits under this name"]);
        assert_eq!(client.is_told("3/r0", 2, second, vec![version("elm", "", 0)]), ["c1.1 CONFLICT"]);
    }
    for period in [3, 5] {
        let mut client = Client::new();
        client.begins();
        client.puts("oak", "x");
        client.commits();
        assert_eq!(client.is_other_period(4), ["3/r0 ← COMMIT c1.1 oak=x"]);
        assert_eq!(client.is_other_period(period), ["3/r0 ← INQUIRE c1.1 of @1000"]);
    }
    // A later life may have the lesser number.
    let mut client = Client::new();
    let named = |client: &mut Client, life, number| {
        let (transaction, period) = (client.id(), Period { life: Life(life), number });
        client.hears("3/r0", Message::OtherPeriod { transaction, period })
    };
    for (life, number, known) in [(7, 4, (7, 4)), (7, 3, (7, 4)), (3, 9, (3, 9)), (8, 1, (8, 1))] {
        client.begins();
        named(&mut client, life, number);
        client.puts("oak", "x");
        client.commits();
        assert_eq!(named(&mut client, known.0, known.1), ["✗ this is known"], "{life} {number}");
        client.ends("3/r0", commits_at(900));
    }
}

/// A doomed transaction is told so by its node.
#[test]
fn a_transaction_that_reads_is_doomed_by_its_node_alone() {
    let mut client = Client::new();
    client.alone.waits(1);
    client.does(Command::Reachable { replica: replica("3/r0"), reachable: false });
    client.begins();
    assert_eq!(client.gets(&["oak"]), ["3/r1 ← READ c1.1 oak above @0"]);
    let doomed = Message::Doomed { transaction: txn(1, 1), refusal: Refusal::Conflict };
    for from in ["1/r0", "3/r0", "3/r2"] {
        assert_eq!(client.hears(from, doomed.clone()), ["✗ answered already"], "{from}");
    }
    assert_eq!(client.hears("3/r1", doomed), ["c1.1 CONFLICT"]);
    let scan = Command::Scan {
        transaction: txn(1, 1),
        range: KeyRange { from: Key::from("a"), to: Some(Key::from("z")) },
        limit: 5,
    };
    assert_eq!(client.does(scan), [not_open(1)], "it is over");
}
