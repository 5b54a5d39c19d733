//! The vector that a client has seen goes along with its later transactions.

use super::*;

#[test]
fn a_session_takes_what_it_has_seen_to_another_site_and_not_the_period() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.is_too_old(Some(0), &[], 6);
    client.ends(committed(1, &[], false));
    assert_eq!(client.does(Command::Route(routes(&[0, 2, 1]))), NOTHING);
    client.begins();
    client.puts("oak", "y");
    assert_eq!(client.commits(), ["1/r0 ← COMMIT c1.2 oak=y after ⟨1⟩, period 6"], "it is the same site");
    client.does(Command::Route(routes(&[1, 0, 2])));
    client.begins();
    client.puts("oak", "y");
    assert_eq!(client.commits(), ["2/r0 ← COMMIT c1.3 oak=y after ⟨1⟩, period 0"]);
    client.sequence = 2;
    assert_eq!(
        client.ends(committed(2, &[1], false)),
        ["c1.2 COMMITTED as 2@1"],
        "it goes on where it was sent"
    );
}

#[test]
fn a_transaction_that_comes_after_another_names_it_until_its_ending_is_heard() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.is_too_old(Some(0), &[], 2);
    client.begins();
    let after = |id: u64, earlier: u64| Command::After { transaction: txn(1, id), earlier: txn(1, earlier) };
    assert_eq!(client.does(after(2, 2)), ["✗ nothing waits under this name"], "after itself");
    assert_eq!(client.does(after(9, 1)), ["✗ nothing waits under this name"], "it has not begun");
    assert_eq!(client.does(after(2, 1)), NOTHING);
    assert_eq!(client.gets(&["oak"]), ["1/r0 ← READ c1.2 oak after ⟨⟩ and c1.1"]);
    assert_eq!(client.does(after(2, 1)), ["✗ nothing waits under this name"], "it takes its snapshot");
    // Its site has forgotten the earlier one, as it was sent first.
    assert_eq!(client.is_too_old(Some(2), &[], 5), ["✗ known already"]);
    assert_eq!(client.is_too_old(Some(1), &[], 5), ["1/r0 ← READ c1.2 oak after ⟨⟩ and c1.1"]);
    client.begins();
    client.does(after(3, 1));
    client.puts("elm", "e");
    assert_eq!(client.commits(), ["1/r0 ← COMMIT c1.3 elm=e after ⟨⟩ and c1.1, period 5"]);
    client.sequence = 1;
    client.ends(committed(1, &[], false));
    client.sequence = 3;
    let again = client.alone.waits(500);
    let expected = ["1/r1 ← READ c1.2 oak after ⟨1⟩", "1/r1 ← COMMIT c1.3 elm=e after ⟨1⟩, period 5"];
    assert_eq!(again.len(), 2, "{again:?}");
    for expected in expected {
        let (_, said) = expected.split_once(" ← ").unwrap();
        assert!(again.iter().any(|line| line.ends_with(said)), "the session has seen it: {again:?}");
    }
    // Another site does not know how that one ends.
    client.begins();
    client.puts("oak", "z");
    client.commits();
    client.does(Command::Route(routes(&[1, 0, 2])));
    client.begins();
    client.does(after(5, 4));
    let told = client.gets(&["oak"]);
    assert!(told[0].starts_with("c1.5 Unavailable"), "{told:?}");
    client.begins();
    client.does(after(6, 4));
    client.puts("oak", "z");
    assert!(client.commits()[0].starts_with("c1.6 Unavailable"));
    // Each keyspace has snapshots of its own.
    let other = routes_of(keyspace(KeyspaceId(2), 4, Epoch::FIRST), &[0, 1, 2]);
    client.does(Command::Route(other));
    client.sequence += 1;
    client.does(Command::Begin { transaction: client.id(), keyspace: KeyspaceId(2), patience: PATIENCE });
    let command = after(client.sequence, 4);
    assert_eq!(client.does(command), ["✗ it is of another keyspace"]);
}

#[test]
fn a_client_catches_up_before_it_takes_a_vector_over() {
    let mut client = Client::new();
    client.sequence = 1;
    let catch = |sequence| Command::CatchUp {
        transaction: txn(1, sequence),
        keyspace: KEYSPACE,
        seen: vec![4, 0, 2],
        patience: PATIENCE,
    };
    assert_eq!(client.does(catch(1)), ["1/r0 ← READ c1.1  after ⟨4 0 2⟩"]);
    assert_eq!(client.seen(), [0; 0]);
    assert_eq!(client.is_told(1, &[4, 1, 3], vec![]), ["c1.1 COMMITTED as 8@0"]);
    assert_eq!(client.seen(), [4, 1, 3]);
    // Some of it was abandoned with its site: the rest counts.
    client.sequence = 2;
    let abandoned = |last| Message::Abandoned { transaction: txn(1, 2), last };
    assert_eq!(client.hears("1/r0", abandoned(version(2, 1))), ["✗ nothing waits under this name"]);
    client.does(catch(2));
    assert_eq!(client.hears("2/r0", abandoned(version(2, 1))), ["✗ nothing waits under this name"]);
    let told = client.hears("1/r0", abandoned(version(2, 1)));
    assert_eq!(told, ["1/r0 ← READ c1.2  after ⟨4 1 1⟩"]);
    assert_eq!(client.is_told(1, &[4, 1, 1], vec![]), ["c1.2 HISTORY ABANDONED"]);
    assert_eq!(client.seen(), [4, 1, 1]);
    // A leader alone tells it, and is asked from here on.
    client.sequence = 9;
    client.does(Command::CatchUp {
        transaction: txn(1, 9),
        keyspace: KEYSPACE,
        seen: vec![4, 3, 1],
        patience: PATIENCE,
    });
    let gone = Message::Abandoned { transaction: txn(1, 9), last: version(1, 1) };
    assert_eq!(client.hears("1/r2", gone), ["1/r2 ← READ c1.9  after ⟨4 1 1⟩"]);
    client.hears("1/r0", Message::NotLeading { transaction: Some(txn(1, 9)), leader: ReplicaIndex(0) });
    assert_eq!(client.is_told(9, &[4, 1, 1], vec![]).len(), 1);
    // A transaction that was never there fails it.
    client.sequence = 3;
    client.does(catch(3));
    let never = Message::NeverCommitted { transaction: txn(1, 3), last: version(0, 2) };
    assert_eq!(client.hears("1/r0", never), ["c1.3 has SEEN what s0 never had"]);
    assert_eq!(client.seen(), [2, 1, 1]);
    // A transaction whose session has seen it fails once.
    client.begins();
    client.gets(&["oak"]);
    let gone = |last| Message::Abandoned { transaction: txn(1, 4), last };
    assert_eq!(client.hears("1/r0", gone(version(9, 0))), ["✗ no coordinator sends this"], "no such site");
    assert_eq!(client.hears("1/r0", gone(version(1, 0))), ["c1.4 HISTORY ABANDONED"]);
    assert_eq!(client.seen(), [2, 0, 1]);
    // A commit that includes nothing of it may commit.
    client.begins();
    client.puts("oak", "x");
    client.commits();
    let gone = |last| Message::NeverCommitted { transaction: txn(1, 5), last };
    assert_eq!(client.hears("1/r0", gone(version(2, 1))), ["✗ known already"]);
    assert_eq!(client.hears("1/r0", gone(version(2, 0))), ["c1.5 has SEEN what s2 never had"]);
}

/// A client is told of a later membership once, so that it learns of it.
#[test]
fn a_later_membership_is_told_once() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    let reply = || Message::ReadReply {
        transaction: txn(1, 1),
        request: 9,
        snapshot: v(&[]),
        found: vec![],
        period: Period(1),
    };
    let told = client.alone.hears_under(Epoch(3), "1/r0", reply());
    assert_eq!(told.len(), 2, "it counts all the same: {told:?}");
    assert!(told.iter().any(|line| line.contains("Outdated")));
    assert_eq!(client.alone.hears_under(Epoch(3), "1/r0", reply()), ["✗ known already"]);
    let told = client.alone.hears_under(Epoch(3), "9/r0", reply());
    assert_eq!(told, ["✗ another membership than the coordinator's"]);
    assert_eq!(client.alone.machine.epoch(replica("1/r0").into()), Epoch::FIRST);
    client.does(Command::Route(routes_of(keyspace(KEYSPACE, 1, Epoch(3)), &[0, 1, 2])));
    assert_eq!(client.alone.machine.epoch(replica("1/r0").into()), Epoch(3));
}

#[test]
fn a_client_is_told_nothing_that_is_for_replicas() {
    let mut client = Client::new();
    let vector = v(&[]);
    for message in [
        Message::NotLeading { transaction: None, leader: ReplicaIndex(1) },
        Message::Release { transaction: txn(1, 1) },
        Message::Progress { received: 0, committed: vector.clone(), oldest: vector },
        Message::Join {},
    ] {
        assert_eq!(client.hears("1/r0", message.clone()), ["✗ only replicas are told so"], "{message:?}");
    }
    assert_eq!(client.is_redirected("1/r0", 1), ["✗ nothing waits under this name"]);
}
