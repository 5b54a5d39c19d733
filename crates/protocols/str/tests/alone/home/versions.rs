//! Which version of a key a transaction reads: of the node's cache, or of a replica.

use super::*;

impl Home {
    /// A further read of a transaction that has this snapshot.
    fn also_wants(&mut self, client: u64, snapshot: u64, request: u32, wanted: Vec<Wanted>) -> Vec<String> {
        let (transaction, session, snapshot) = (txn(client, 1), Session::default(), Some(at(snapshot)));
        let message = Message::Read { transaction, session, snapshot, request, wanted };
        self.hears(&format!("c{client}"), message)
    }

    /// A transaction that was open before begins with a read that finds nothing. Gives its snapshot.
    fn has_begun(&mut self, client: u64, number: u64) -> u64 {
        self.reads(client, 1, vec![key("moss")]);
        let told = self.is_told("1/r0", number, vec![version("moss", "", 0)]);
        let (_, snapshot) = told[0].split_once("in @").expect("it is told its snapshot");
        snapshot.parse().expect("it is a number")
    }
}

/// Of versions at the same timestamp that of the node counts: it is the same one, become final.
#[test]
fn the_newest_version_counts_wherever_it_is() {
    for (of_replica, expected) in [(1_999, "x@2000"), (2_000, "x@2000"), (2_001, "z@2001")] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.reads_after(2, 1, seen(3_000), vec![key("oak")]);
        let told = home.is_told("1/r0", 1, vec![version("oak", "z", of_replica)]);
        assert_eq!(told, [format!("c2 ← c2.1 reads oak={expected} in @3001")]);
        let speculative = home.alone.machine.counts().unwrap().speculative_reads;
        assert_eq!(speculative, u64::from(expected == "x@2000"));
    }
}

#[test]
fn a_reader_gets_the_latest_local_commit_in_its_snapshot() {
    let mut home = Home::new();
    let before = home.has_begun(5, 1);
    home.commits_locally(1, 1, "oak=x", 2_000);
    let between = home.has_begun(6, 2);
    home.commits(2, 1, "oak=y");
    home.is_voted_here(2, 1, 2_100);
    let after = home.has_begun(7, 3);
    assert_eq!((before, between, after), (1_001, 2_001, 2_101));
    for (client, snapshot, number, expected) in
        [(5, before, 4, "nothing"), (6, between, 5, "x@2000"), (7, after, 6, "y@2100")]
    {
        home.also_wants(client, snapshot, 2, vec![key("oak")]);
        let told = home.is_told("1/r0", number, vec![version("oak", "", 0)]);
        assert_eq!(told, [format!("c{client} ← c{client}.1 reads oak={expected} in @{snapshot}")]);
    }
}

/// A transaction that is being certified commits above its own snapshot, so it is in none that is not greater.
#[test]
fn a_reader_at_the_snapshot_of_a_transaction_that_is_being_certified_does_not_wait() {
    let mut home = Home::new();
    home.reads(2, 1, vec![key("oak")]);
    home.commits(1, 1, "oak=x");
    let told = home.is_told("1/r0", 1, vec![version("oak", "", 0)]);
    assert_eq!(told, ["c2 ← c2.1 reads oak=nothing in @1001"], "both have begun at once");
}

/// It had not committed locally by the snapshot, so it had not to be seen; and what is final at the snapshot is in it.
#[test]
fn a_commit_that_came_after_the_snapshot_is_not_missed() {
    for (local, timestamp, expected) in [(2_000, 5_000, "nothing"), (2_000, 2_000, "nothing")] {
        let mut home = Home::new();
        let snapshot = home.has_begun(2, 1);
        home.commits_locally(1, 1, "oak=x", local);
        home.is_prepared("1/r0", 1, 1, timestamp, vec![]);
        home.is_recorded(1, 1, timestamp);
        home.also_wants(2, snapshot, 2, vec![key("oak")]);
        let told = home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
        assert_eq!(told, [format!("c2 ← c2.1 reads oak={expected} in @{snapshot}")]);
    }
    // A local commit at the very snapshot had to be seen, and a final one is.
    for (timestamp, expected) in [
        (2_001, "c2 ← c2.1 reads oak=x@2001 in @2001"),
        (2_002, "c2 ← c2.1 DOOMED: what it depends on has failed it"),
    ] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        let snapshot = home.has_begun(2, 1);
        home.is_prepared("1/r0", 1, 1, timestamp, vec![]);
        home.is_recorded(1, 1, timestamp);
        home.also_wants(2, snapshot, 2, vec![key("oak")]);
        assert_eq!(home.is_told("1/r0", 2, vec![version("oak", "", 0)]), [expected]);
    }
}

/// A reader of what is final depends on nothing.
#[test]
fn a_final_version_is_no_speculation() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "oak=x", 2_000);
    let snapshot = home.has_begun(2, 1);
    home.is_prepared("1/r0", 1, 1, 2_001, vec![]);
    home.is_recorded(1, 1, 2_001);
    home.also_wants(2, snapshot, 2, vec![key("oak")]);
    home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
    assert_eq!(home.commits(2, 1, "").last().unwrap(), "c2 ← c2.1 committed @2001, snapshot @2001");
    assert_eq!(home.alone.machine.counts().unwrap().speculative_reads, 0);
}

/// An old transaction keeps a final version in the cache. Another node has deleted the key meanwhile, and its shard has forgotten when: a replica that lacks nothing below its floor is
/// believed that there is no such key.
#[test]
fn a_version_below_the_floor_of_a_replica_is_no_version_of_the_cache() {
    for (floor, expected) in [(0, "x@2001"), (2_001, "x@2001"), (2_002, "nothing")] {
        let mut home = Home::new();
        home.commits_locally(1, 1, "oak=x", 2_000);
        home.has_begun(4, 1);
        home.is_prepared("1/r0", 1, 1, 2_001, vec![]);
        home.is_recorded(1, 1, 2_001);
        home.reads_after(2, 1, seen(3_000), vec![key("oak")]);
        let told = home.is_told_with("1/r0", 2, vec![version("oak", "", 0)], floor);
        assert_eq!(told, [format!("c2 ← c2.1 reads oak={expected} in @3001")], "{floor}");
        home.also_wants(2, 3_001, 2, vec![range("oa", "ob", 9)]);
        // Each shard has keys of a range, and its own floor.
        let page = || vec![Found::Range { keys: vec![], next: None }];
        assert_eq!(home.is_told_with("1/r0", 3, page(), floor), NOTHING);
        let told = home.is_told_with("2/r0", 4, page(), 3_000 - floor);
        let expected = if expected == "nothing" { "[]" } else { "[oak=x@2001]" };
        assert_eq!(told, [format!("c2 ← c2.1 reads {expected} in @3001")], "{floor}");
    }
}

/// The node has deleted it, and the replica has not heard of that.
#[test]
fn a_key_that_is_deleted_on_the_node_is_in_no_range() {
    let mut home = Home::new();
    home.commits_locally(1, 1, "elm=", 2_000);
    let told = home.reads(3, 1, vec![range("e", "f", 9)]);
    assert_eq!(told.len(), 2, "{told:?}");
    let page = |words: &[&str]| {
        let version = |key: &&str| KeyVersion {
            key: Key::from(*key),
            version: Timestamp { micros: 5, client: ClientId(9) },
            value: Some(Value::from("v")),
        };
        vec![Found::Range { keys: words.iter().map(version).collect(), next: None }]
    };
    home.is_told("1/r0", 1, page(&["elm", "eon"]));
    let told = home.is_told("2/r0", 2, page(&[]));
    assert_eq!(told, ["c3 ← c3.1 reads [eon=v@5] in @2001"]);
}

#[test]
fn a_read_that_no_client_sends_is_dropped() {
    let mut home = Home::new();
    let malformed = ["✗ no coordinator sends this"];
    assert_eq!(home.reads(1, 1, vec![]), malformed);
    let many = |count: usize| (0..count).map(|at| key(&format!("{{oak}}{at}"))).collect::<Vec<_>>();
    assert_eq!(home.reads(1, 1, many(TRANSACTION_ENTRIES_MAX + 1)), malformed);
    assert_eq!(home.reads(1, 1, many(TRANSACTION_ENTRIES_MAX)).len(), 1);
    // One that has committed reads no more.
    home.commits(2, 1, "");
    assert_eq!(home.reads(2, 1, vec![key("oak")]), ["✗ it has ended here"]);
}

/// Another machine of the home has decided it: this one knows it from the log alone.
#[test]
fn a_transaction_that_follows_a_commit_of_another_machine_has_it_in_its_snapshot() {
    let mut home = Home::new();
    let decision = quorate_str::entry::Decision {
        transaction: txn(1, 1),
        by: ReplicaIndex(1),
        snapshot: at(500),
        begun: at(400),
        participants: vec![ShardId(2)],
        outcome: committed(700_000),
        readers: Vec::new(),
    };
    home.alone.follows(&quorate_str::Entry::Recorded(std::sync::Arc::new(decision)));
    assert_eq!(home.reads(2, 1, vec![key("oak")]), ["1/r0 ← READ-AT @1001 oak, number 1"], "another session");
    let told = home.reads_after(1, 2, after(1), vec![key("oak")]);
    assert_eq!(told, ["1/r0 ← READ-AT @700001 oak, number 2"]);
    assert_eq!(home.commits(1, 1, "oak=x"), ["c1 ← c1.1 committed @700000, snapshot @500"], "it is over");
}

/// The replica on the node serves snapshots only since the key was read of the cache alone, and the readers of its commit are counted by now.
#[test]
fn a_reader_of_a_commit_that_is_being_decided_asks_a_replica_that_has_come_meanwhile() {
    let mut home = Home::uncompared(|_| {});
    let life = home.life;
    home.hears("2/r0", Message::Time { life, clock: at(1_000) });
    assert!(home.commits(1, 1, "oak=x")[0].contains("SHOWN"), "no replica certifies it here");
    let told = home.reads_after(2, 1, seen(3_000), vec![key("oak"), key("apple")]);
    assert_eq!(told, ["2/r0 ← READ-AT @3001 apple, number 1"]);
    home.is_prepared("1/r0", 1, 1, 2_000, vec![]);
    home.hears("1/r0", Message::Bound { until: at(9_000_000), clock: at(1_000) });
    let told = home.is_told("2/r0", 1, vec![version("apple", "", 0)]);
    assert_eq!(told, ["1/r0 ← READ-AT @3001 oak, number 2", "2/r0 ← READ-AT @3001 apple, number 3"]);
    home.is_told("1/r0", 2, vec![version("oak", "", 0)]);
    let told = home.is_told("2/r0", 3, vec![version("apple", "", 0)]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("c2 ← c2.1 reads oak=x@"), "{told:?}");
}

/// The ending of a transaction may be forgotten before a question of it is answered, and another one begin under its name.
#[test]
fn an_answer_to_a_transaction_that_is_over_is_not_for_the_next_one_of_its_name() {
    let mut home = Home::with(|config| {
        (config.floor_lag, config.resend_timeout) = (Duration::from_secs(1), Duration::from_secs(20));
    });
    home.reads(1, 1, vec![key("oak"), key("elm")]);
    home.hears("c1", Message::Abort { transaction: txn(1, 1) });
    home.alone.waits(3_000);
    let told = only(home.reads(1, 1, vec![key("oak")]), "READ-AT");
    assert!(told.len() == 1 && told[0].ends_with("oak, number 2"), "{told:?}");
    let open = ["✗ nothing waits under this name"];
    let cannot = |home: &Home, request| {
        let (life, why) = (home.life, Unreadable::TooOld(at(5)));
        Message::CannotRead { life, request, why }
    };
    // Both questions are of the same shard.
    let message = cannot(&home, 2);
    assert_eq!(home.hears("2/r0", message), open, "of another shard");
    assert_eq!(home.is_told("1/r0", 1, vec![version("oak", "x", 5), version("elm", "y", 5)]), open);
    home.reads(3, 1, vec![key("oak"), key("elm")]);
    home.hears("c3", Message::Abort { transaction: txn(3, 1) });
    home.alone.waits(3_000);
    assert_eq!(only(home.reads(3, 1, vec![key("oak")]), "READ-AT").len(), 1);
    let message = cannot(&home, 3);
    assert_eq!(home.hears("1/r0", message), open, "it has not asked that");
    // Nor is one asked again that nobody has answered.
    home.reads(5, 1, vec![key("oak"), key("elm")]);
    home.hears("c5", Message::Abort { transaction: txn(5, 1) });
    home.alone.waits(3_000);
    assert_eq!(only(home.reads(5, 1, vec![key("oak")]), "READ-AT").len(), 1);
    let told = only(home.alone.waits(20_000), "READ-AT");
    let told: Vec<&str> = told.iter().filter_map(|line| line.split(", number ").nth(1)).collect();
    assert_eq!(told, ["2", "4", "6"]);
}

/// A question names its shard, and an answer comes from there.
#[test]
fn a_replica_answers_for_its_own_shard() {
    let mut home = Home::new();
    home.reads(1, 1, vec![key("oak"), key("apple")]);
    let open = ["✗ nothing waits under this name"];
    assert_eq!(home.is_told("1/r0", 2, vec![version("apple", "x", 5)]), open);
    assert_eq!(home.is_told("2/r0", 1, vec![version("oak", "x", 5)]), open);
    let life = home.life;
    let why = Unreadable::TooOld(at(5));
    for (from, request) in [("1/r0", 2), ("2/r0", 1)] {
        assert_eq!(home.hears(from, Message::CannotRead { life, request, why }), open, "{from}");
    }
    // In the life that has asked.
    for life in [Life(1), Life(u64::MAX)] {
        let other = ["✗ said in another life"];
        assert_eq!(home.hears("1/r0", Message::CannotRead { life, request: 1, why }), other);
        let found = vec![version("oak", "x", 5)];
        assert_eq!(home.hears("1/r0", Message::ReadAtReply { life, request: 1, found, floor: at(0) }), other);
        assert_eq!(home.hears("1/r0", Message::Time { life, clock: at(9) }), other);
    }
    assert_eq!(home.is_told("1/r1", 1, vec![version("oak", "x", 5)]), NOTHING);
    assert_eq!(home.is_told("2/r2", 2, vec![version("apple", "", 0)]).len(), 1);
}
