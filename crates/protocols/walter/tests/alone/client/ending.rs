//! A client commits, waits for what becomes of that, and places containers.

use super::*;

#[test]
fn a_transaction_that_only_writes_is_one_message() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.adds("elm", "a", 2);
    client.adds("elm", "a", -2);
    client.adds("elm", "b", 1);
    let asked = ["1/r0 ← COMMIT c1.1 oak=x elm[b]+1 after ⟨⟩, period 0"];
    assert_eq!(client.commits(), asked);
    // The site counts its periods from one, and nothing is accepted that names an earlier one.
    assert_eq!(client.is_too_old(Some(0), &[], 7), ["1/r0 ← COMMIT c1.1 oak=x elm[b]+1 after ⟨⟩, period 7"]);
    assert_eq!(client.is_too_old(Some(0), &[], 7), ["✗ known already"]);
    assert_eq!(client.ends(committed(1, &[], true)), ["c1.1 COMMITTED as 1@1"]);
    client.begins();
    client.puts("oak", "y");
    assert_eq!(client.commits(), ["1/r0 ← COMMIT c1.2 oak=y after ⟨1⟩, period 7"]);
}

#[test]
fn what_has_written_nothing_is_a_part_of_its_snapshot() {
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.commits(), ["c1.1 COMMITTED as 0@0"]);
    client.begins();
    client.gets(&["oak"]);
    client.is_told(1, &[3, 1], vec![absent()]);
    assert_eq!(client.commits(), ["c1.2 COMMITTED as 4@0"]);
    assert_eq!(client.reads(&["oak", "elm"]), ["1/r0 ← READ c1.3 oak elm after ⟨3 1⟩"]);
    let told = client.is_told(1, &[3, 2], vec![absent(), found("e", 1)]);
    assert_eq!(told, ["c1.3 got oak = nothing", "c1.3 got elm = e", "c1.3 COMMITTED as 5@0"]);
    assert_eq!(client.seen(), [3, 2]);
    client.begins();
    client.adds("oak", "a", 1);
    client.adds("oak", "a", -1);
    assert_eq!(client.commits(), ["c1.4 COMMITTED as 0@0"], "that is no change");
    client.begins();
    let (transaction, keyspace) = (client.id(), KEYSPACE);
    let aborts = Command::Abort { transaction };
    assert_eq!(client.does(aborts), ["c1.5 ABORTED"]);
    assert_eq!(client.does(Command::Abort { transaction }), [told_not_open(5)]);
    client.begins();
    let again = Command::Begin { transaction: client.id(), keyspace, patience: PATIENCE };
    assert_eq!(client.does(again), [told_not_open(6)], "it has begun");
    let unknown = Command::Begin { transaction: txn(1, 99), keyspace: KeyspaceId(7), patience: PATIENCE };
    assert!(client.does(unknown)[0].contains("UnknownKeyspace"));
}

#[test]
fn the_ending_says_why() {
    for (silent, is_short, expected) in [
        (vec![], false, "c1.1 CONFLICT"),
        (vec![], true, "c1.1 BELOW ZERO"),
        (vec![ShardId(2), ShardId(9)], false, "c1.1 Unavailable { missing: [2/r0] }"),
    ] {
        let mut client = Client::new();
        client.begins();
        client.puts("oak", "x");
        client.commits();
        let transaction = client.id();
        let ending = Ending::Aborted;
        let stray =
            Message::CommitReply { transaction, ending: ending.clone(), silent: vec![], is_short: false };
        assert_eq!(client.hears("2/r0", stray), ["✗ nothing waits under this name"]);
        let told = client.hears("1/r0", Message::CommitReply { transaction, ending, silent, is_short });
        let missing = quorate_core::command::Failure::Unavailable { missing: vec![replica("2/r0")] };
        let expected =
            if expected.contains("Unavailable") { format!("c1.1 {missing:?}") } else { expected.to_owned() };
        assert_eq!(told, [expected]);
        assert_eq!(client.alone.waits(60_000), NOTHING);
    }
    let mut client = Client::new();
    client.begins();
    assert_eq!(client.ends(Ending::Aborted), ["✗ nothing waits under this name"], "it was not asked");
}

/// Perhaps another replica leads.
#[test]
fn a_site_that_is_silent_is_asked_again_and_in_the_end_given_up() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.alone.waits(499), NOTHING);
    let read = |index: u8| format!("1/r{index} ← READ c1.1 oak after ⟨⟩");
    let again = |after: u64, index| format!("{after} ms: {}", read(index));
    assert_eq!(client.alone.waits(1), [again(1, 1)]);
    assert_eq!(client.alone.waits(1_000), [again(500, 2), again(1_000, 0)]);
    assert_eq!(client.is_redirected("1/r0", 2), [read(2)]);
    assert_eq!(client.is_redirected("1/r0", 1), ["✗ known already"], "it is not taken for the leader");
    assert_eq!(client.is_redirected("1/r2", 2), NOTHING, "it names itself, and is about to lead");
    assert_eq!(client.alone.waits(50), [format!("50 ms: {}", read(2))], "it has had a moment");
    let told = client.alone.waits(8_450);
    assert!(told.last().unwrap().contains("Unavailable"), "{told:?}");
    assert!(told.last().unwrap().starts_with("8450 ms"), "{told:?}");
    assert_eq!(client.alone.waits(60_000), NOTHING);
    assert!(client.alone.machine.is_idle());

    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    let told = client.alone.waits(1_000);
    let expected = [1_u64, 2]
        .map(|index| format!("{} ms: 1/r{index} ← COMMIT c1.1 oak=x after ⟨⟩, period 0", 500 * index));
    assert_eq!(told, expected);
    let told = client.alone.waits(9_000);
    assert_eq!(told.last().unwrap(), "9000 ms: c1.1 UNKNOWN");
    assert!(client.alone.machine.is_idle());
}

#[test]
fn a_replica_that_cannot_be_reached_is_not_waited_for() {
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    let reachable = |reachable| Command::Reachable { replica: replica("1/r0"), reachable };
    assert_eq!(client.does(reachable(false)), NOTHING);
    assert_eq!(client.alone.waits(0), ["0 ms: 1/r1 ← READ c1.1 oak after ⟨⟩"]);
    assert_eq!(client.does(reachable(false)), NOTHING);
    assert_eq!(client.alone.waits(400), NOTHING, "that is no news");
    assert_eq!(client.does(reachable(true)), NOTHING);
    assert_eq!(client.alone.waits(99), NOTHING);
    assert_eq!(client.alone.waits(1), ["1 ms: 1/r2 ← READ c1.1 oak after ⟨⟩"]);
}

/// A transaction whose message was refused as too old has surely not committed only if it could not be forgotten yet.
#[test]
fn a_commit_that_is_too_old_is_sent_again_refused_or_unknown() {
    let begun = |reads: bool| {
        let mut client = Client::new();
        client.begins();
        if reads {
            client.gets(&["elm"]);
            client.is_told(1, &[3], vec![absent()]);
        }
        client.puts("oak", "x");
        client.commits();
        client
    };
    let mut client = begun(true);
    assert_eq!(client.is_too_old(Some(1), &[5], 4), ["1/r0 ← COMMIT c1.1 oak=x at ⟨3⟩, period 4"]);
    let told = client.is_too_old(Some(4), &[5], 4);
    assert_eq!(told, ["c1.1 TOO OLD"], "it is the snapshot");
    let mut client = begun(true);
    assert_eq!(client.is_too_old(Some(1), &[2], 4), ["c1.1 TOO OLD"], "that leader has not committed it");
    let mut client = begun(false);
    assert_eq!(client.is_too_old(Some(0), &[2], 0), ["c1.1 TOO OLD"], "there is no later period");
    let mut client = begun(false);
    client.alone.waits(4_999);
    assert!(client.is_too_old(Some(0), &[5], 4)[0].contains("COMMIT c1.1"));
    client.alone.waits(1);
    let told = client.is_too_old(Some(4), &[5], 9);
    assert_eq!(told, ["c1.1 UNKNOWN"], "it may have been accepted, and forgotten");
    let mut client = begun(false);
    assert_eq!(client.is_too_old(None, &[5], 9), ["✗ known already"], "that is about a read");
    let mut client = Client::new();
    client.begins();
    client.gets(&["oak"]);
    assert_eq!(client.is_too_old(Some(1), &[5], 4), ["✗ known already"]);
    assert_eq!(client.is_too_old(None, &[5], 4), ["c1.1 TOO OLD"]);
}

#[test]
fn the_outcome_of_a_transaction_that_was_given_up_can_be_asked_for() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    client.is_too_old(Some(0), &[], 5);
    client.alone.waits(60_000);
    let resolve = |shards: &[u32]| Command::Resolve {
        transaction: txn(1, 1),
        participants: shards.iter().copied().map(ShardId).collect(),
        timestamp: Timestamp::ZERO,
        patience: PATIENCE,
    };
    assert_eq!(client.does(resolve(&[1])).len(), 1);
    assert_eq!(client.does(resolve(&[1])), ["c1.1 resolved: unknown"], "it is asked for");
    let asked = client.alone.waits(500);
    assert!(asked[0].ends_with("ASK-OUTCOME c1.1, period 5, 0 committed"), "with its period: {asked:?}");
    assert_eq!(client.ends(committed(2, &[1], false)), ["c1.1 resolved: committed as 2@1"]);
    assert_eq!(client.seen(), [2]);
    assert_eq!(client.does(resolve(&[1, 2])), ["c1.1 resolved: unknown"], "it has one site");
    assert_eq!(client.does(resolve(&[])), ["c1.1 resolved: unknown"]);
    assert_eq!(client.does(resolve(&[9])), ["c1.1 resolved: unknown"]);
    client.does(resolve(&[2]));
    let message =
        |from: &str, client: &mut Client| client.hears(from, Message::Forgotten { transaction: txn(1, 1) });
    assert_eq!(message("1/r0", &mut client), ["✗ nothing waits under this name"]);
    assert_eq!(message("2/r0", &mut client), ["c1.1 is forgotten"]);
    client.does(resolve(&[1]));
    let told = client.alone.waits(10_000);
    assert_eq!(told.last().unwrap(), "10000 ms: c1.1 resolved: unknown");
    // A client that has turned to another site since asks the one at which it was.
    client.does(Command::Route(routes(&[1, 2])));
    assert_eq!(client.does(resolve(&[1])), ["c1.1 is forgotten"], "which is no more");
    assert_eq!(client.does(resolve(&[3]))[0].split(' ').next(), Some("3/r0"));
}

#[test]
fn a_client_that_is_asked_to_commit_tells_forgotten_only_if_it_has_asked() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    assert_eq!(client.hears("1/r0", Message::Forgotten { transaction: txn(1, 1) }), NOTHING);
    assert_eq!(client.ends(committed(1, &[], false)), ["c1.1 COMMITTED as 1@1"]);
}

#[test]
fn milestones_are_asked_for_until_they_are_reached() {
    let mut client = Client::new();
    let wait = |shards: &[u32], seqno: u64, site: u64, milestone| Command::Await {
        transaction: txn(1, 1),
        participants: shards.iter().copied().map(ShardId).collect(),
        timestamp: Timestamp { micros: seqno, client: ClientId(site) },
        milestone,
        patience: Duration::from_secs(2),
    };
    let durable = Milestone::Durable;
    assert_eq!(client.does(wait(&[1], 4, 0, durable)), ["c1.1 is durable"], "it has written nothing");
    let invalid = client.does(wait(&[9], 4, 1, durable));
    assert!(invalid[0].starts_with("c1.1: "), "{invalid:?}");
    assert_eq!(client.does(wait(&[1], 4, 1, durable)), ["1/r0 ← ASK-MILESTONE c1.1 s0.4 durable"]);
    let reply = |milestone, missing: &[u32]| Message::MilestoneReply {
        transaction: txn(1, 1),
        milestone,
        missing: missing.iter().copied().map(ShardId).collect(),
    };
    assert_eq!(client.hears("2/r0", reply(durable, &[])), ["✗ nothing waits under this name"]);
    assert_eq!(client.hears("1/r0", reply(Milestone::Visible, &[])), ["✗ nothing waits under this name"]);
    assert_eq!(client.hears("1/r0", reply(durable, &[2, 3])), NOTHING);
    assert_eq!(
        client.alone.waits(500),
        ["500 ms: 1/r0 ← ASK-MILESTONE c1.1 s0.4 durable"],
        "it has answered"
    );
    assert_eq!(client.alone.waits(500), ["500 ms: 1/r1 ← ASK-MILESTONE c1.1 s0.4 durable"], "it is silent");
    assert_eq!(client.hears("1/r1", reply(durable, &[3])), NOTHING);
    let told = client.alone.waits(1_000);
    assert_eq!(
        told,
        [
            "500 ms: 1/r1 ← ASK-MILESTONE c1.1 s0.4 durable",
            "1000 ms: c1.1 is NOT durable IN TIME, missing shard3"
        ]
    );
    assert_eq!(client.alone.waits(60_000), NOTHING);
    // Two are asked for, and a replica that does not lead is left for both; but a few times only.
    client.does(wait(&[1], 4, 1, durable));
    client.does(wait(&[1], 4, 1, Milestone::Visible));
    client.sequence = 1;
    for (from, leader) in [("1/r1", 2), ("1/r2", 0), ("1/r0", 1)] {
        let told = client.is_redirected(from, leader);
        assert_eq!(told.len(), 2, "{from}: {told:?}");
    }
    assert_eq!(client.is_redirected("1/r1", 2), NOTHING, "replicas may name each other for a while");
    let again = client.alone.waits(500);
    assert_eq!(again.len(), 2, "{again:?}");
    assert_eq!(client.hears("1/r2", reply(durable, &[])), ["c1.1 is durable"]);
    assert_eq!(client.hears("1/r2", reply(Milestone::Visible, &[])), ["c1.1 is visible"]);
    assert_eq!(client.alone.waits(60_000), NOTHING);
}

#[test]
fn a_container_is_found_and_placed() {
    let call = |sequence, name: &str, call| Command::Container {
        transaction: txn(1, sequence),
        keyspace: KEYSPACE,
        name: Key::from(name),
        call,
        patience: PATIENCE,
    };
    let place = |preferred, replicas: Option<&[u32]>| ContainerCall::Place {
        preferred: ShardId(preferred),
        replicas: replicas.map(|replicas| replicas.iter().copied().map(ShardId).collect()),
    };
    let at = |preferred: u16, copies: &[u16]| Found::Container {
        container: Container {
            preferred: LocalSite(preferred),
            replicas: Replicas::of(copies.iter().copied().map(LocalSite)),
            stays: false,
        },
        copies_min: 2,
    };
    let mut client = Client::new();
    let mut answer = |wanted, present: Found| {
        client.sequence += 1;
        let command = call(client.sequence, "oak", wanted);
        let asked = client.does(command);
        assert!(asked[0].contains("READ") && asked[0].contains("the container oak"), "{asked:?}");
        let mut told = client.is_told(1, &[3], vec![present]);
        told.iter_mut().for_each(|line| *line = line.replace(&format!("c1.{}", client.sequence), "c1"));
        told
    };
    let found = answer(ContainerCall::Locate, at(1, &[]));
    assert!(found[0].starts_with("c1 finds oak at ") && found[1].starts_with("c1 COMMITTED"), "{found:?}");
    let asked = "2/r0 ← COMMIT c1 oak to s0 after ⟨3⟩, period 0";
    assert_eq!(answer(place(1, None), at(1, &[])), [asked], "where it is lets it go");
    assert_eq!(answer(place(1, Some(&[1, 2, 3])), at(1, &[])), [asked]);
    assert_eq!(
        answer(place(1, Some(&[1, 2])), at(1, &[])),
        [asked.replace("to s0", "to s0, copies at s0 s1")]
    );
    assert_eq!(answer(place(1, None), at(1, &[0, 1])), [asked.replace("to s0", "to s0, copies at s0 s1")]);
    assert_eq!(answer(ContainerCall::Destroy, at(1, &[])), [asked.replace("to s0", "to where it was")]);
    for (wanted, present, expected) in [
        (ContainerCall::Destroy, at(1, &[0, 1]), "Limited"),
        (place(1, Some(&[])), at(1, &[]), "PreferredWithoutCopy"),
        (place(1, Some(&[2, 3])), at(1, &[]), "PreferredWithoutCopy"),
        (place(3, None), at(1, &[0, 1]), "NoCopy"),
        (place(1, Some(&[1, 3])), at(1, &[0, 1]), "NoCopy"),
        (place(1, Some(&[1])), at(1, &[]), "TooFew"),
    ] {
        let told = answer(wanted.clone(), present);
        assert!(told[0].contains(expected), "{wanted:?}: {told:?}");
    }
    assert_eq!(answer(place(1, None), at(9, &[])), ["✗ no coordinator sends this"]);
    let told = client.does(call(99, "{oak}", ContainerCall::Locate));
    assert!(told[0].contains("ContainerName"), "{told:?}");
    let told = client.does(call(98, "oak", place(7, None)));
    assert!(told[0].contains("NoSuchSite"), "{told:?}");
    let told = client.does(call(96, "oak", place(0, None)));
    assert!(told[0].contains("NoSuchSite"), "{told:?}");
    let told = client.does(call(97, "oak", place(1, Some(&[1, 8]))));
    assert!(told[0].contains("NoSuchSite"), "{told:?}");
}
