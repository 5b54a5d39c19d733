//! The node that a client speaks to, as nodes come and go, and for how long the client remembers what it was shown.

use super::*;

/// Routes under a later epoch, with these machines of homes, the nearest first.
fn routes_to(epoch: u32, homes: &[&str]) -> Command {
    let known = routes(Epoch(epoch));
    Command::Route(Arc::new(Routes {
        homes: homes.iter().map(|name| replica(name)).collect(),
        ..Routes::clone(&known)
    }))
}

/// Where the next transaction begins.
fn begins_at(client: &mut Client) -> String {
    client.begins();
    let told = client.gets(&["oak"]);
    told[0].split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn a_client_stays_with_its_node_when_others_come_and_go() {
    let mut client = Client::new();
    assert_eq!(begins_at(&mut client), "3/r0");
    client.alone.waits(2_000);
    assert_eq!(begins_at(&mut client), "3/r1", "the first one was silent");
    client.does(routes_to(1, &["3/r2", "3/r0", "3/r1"]));
    assert_eq!(begins_at(&mut client), "3/r1");
    // It has turned to that one, and waits for it twice as long.
    assert_eq!(only(client.alone.waits(999), "READ c1.3"), NOTHING);
    assert_eq!(only(client.alone.waits(1), "READ c1.3").len(), 1);
    client.does(routes_to(2, &["3/r2", "3/r0"]));
    assert_eq!(begins_at(&mut client), "3/r2", "that one is gone, and this one the nearest");
}

/// A node that is gone shows nothing any more.
#[test]
fn a_node_that_is_gone_is_asked_about_no_abort() {
    for (homes, asked) in [(["3/r0", "3/r1", "3/r2"], 1), (["3/r1", "3/r2", "3/r3"], 0)] {
        let mut client = Client::new();
        client.begins();
        client.puts("oak", "x");
        client.commits();
        client.alone.waits(2_000);
        assert_eq!(client.is_answered("3/r1", Some(Outcome::Aborted)), ["c1.1 CONFLICT"]);
        client.does(routes_to(1, &homes));
        client.does(routes_to(2, &["3/r0", "3/r1", "3/r2"]));
        client.does(Command::Reachable { replica: replica("3/r0"), reachable: false });
        client.does(Command::Reachable { replica: replica("3/r0"), reachable: true });
        client.sequence += 1;
        let transaction = client.id();
        let told = client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience: PATIENCE });
        assert_eq!(told.len(), asked, "{homes:?}: {told:?}");
    }
}

/// A client that hears of no end goes on asking for as long as it was last told to.
#[test]
fn a_transaction_that_is_asked_after_is_asked_for_as_long_as_that() {
    for (patience, ends) in [(20, 30_000), (5, 20_000)] {
        let mut client = Client::new();
        client.begins();
        client.puts("oak", "x");
        client.commits();
        client.alone.waits(10_000);
        let resolve = Command::Resolve {
            transaction: txn(1, 1),
            participants: vec![ShardId(3)],
            timestamp: Timestamp { micros: 1_000, client: ClientId(1) },
            patience: Duration::from_secs(patience),
        };
        assert_eq!(client.does(resolve), NOTHING);
        let told = client.alone.waits(ends - 10_001);
        assert!(told.iter().all(|line| line.contains("INQUIRE")), "{told:?}");
        let told = client.alone.waits(1);
        let last: Vec<&str> = told.iter().map(|line| line.as_str()).collect();
        assert!(last.contains(&"1 ms: c1.1 UNKNOWN"), "{last:?}");
        assert!(last.contains(&"1 ms: c1.1 resolved: unknown"), "{last:?}");
    }
}

#[test]
fn a_client_whose_clock_is_ahead_is_told_by_how_much() {
    let mut client = Client::new();
    client.begins();
    client.puts("oak", "x");
    client.commits();
    let refusal = Refusal::ClientAhead { ahead_micros: 7, ahead_max_micros: 5 };
    let told = client.ends("3/r0", Ending::Aborted(refusal));
    assert!(told[0].contains("ClockAhead { ahead_micros: 7, ahead_max_micros: 5 }"), "{told:?}");
}

/// It may not have heard of the apology when it begins the next one, but does soon.
#[test]
fn a_client_remembers_the_last_thousand_apologies() {
    let mut client = Client::new();
    for _ in 0..1_001 {
        client.begins();
        client.puts("oak", "x");
        let transaction = client.id();
        client.does(Command::CommitSpeculatively { transaction });
        client.hears("3/r0", Message::Shown { transaction, snapshot: at(700), local: at(800), chain: 1 });
        client.ends("3/r0", Ending::Aborted(Refusal::Misspeculated));
    }
    for (earlier, is_remembered) in [(1, false), (2, true), (1_001, true)] {
        client.begins();
        let transaction = client.id();
        let told = client.does(Command::After { transaction, earlier: txn(1, earlier) });
        assert_eq!(told.len(), usize::from(is_remembered), "{earlier}: {told:?}");
    }
}

/// A transaction that a node has not committed says nothing of how far away the node is.
#[test]
fn a_client_is_as_patient_as_the_number_of_nodes_that_it_has_left() {
    let mut client = Client::new();
    for (turns, milliseconds) in [(0, 500), (1, 1_000), (2, 2_000), (3, 4_000), (4, 4_000)] {
        client.sequence += 1;
        let transaction = client.id();
        let patience = Duration::from_secs(60);
        client.does(Command::Begin { transaction, keyspace: KEYSPACE, patience });
        client.gets(&["oak"]);
        assert_eq!(client.alone.waits(milliseconds - 1), NOTHING, "{turns} were left");
        assert_eq!(client.alone.waits(1).len(), 1, "{turns} were left");
        let told = client.alone.waits(2 * milliseconds);
        assert!(told.last().is_some_and(|line| line.ends_with("CONFLICT")), "{told:?}");
    }
}

/// Nearness is the place among the machines of homes, and not a number.
#[test]
fn a_node_that_comes_back_is_as_near_as_it_was() {
    let mut client = Client::new();
    client.does(routes_to(1, &["3/r2"]));
    client.does(routes_to(2, &["3/r2", "3/r0", "3/r1"]));
    assert_eq!(begins_at(&mut client), "3/r2");
    client.alone.waits(20_000);
    assert_eq!(begins_at(&mut client), "3/r0");
    client.alone.waits(20_000);
    assert_eq!(begins_at(&mut client), "3/r1", "both were silent");
    for (index, reachable) in [(0, false), (0, true)] {
        client.does(Command::Reachable { replica: replica(&format!("3/r{index}")), reachable });
    }
    assert_eq!(begins_at(&mut client), "3/r0");
}
