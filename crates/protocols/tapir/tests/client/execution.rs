//! Reads and scans of a transaction that is being run: of one replica each, the nearest first.

use quorate_core::transaction::KeyVersion;

use super::*;

const NOTHING: [&str; 0] = [];

impl Client {
    fn has_scanned(&mut self, from: &str, request: u32, names: &[&str], next: Option<&str>) -> Vec<String> {
        let found = |name: &&str| KeyVersion { key: named(name), version: at(5), value: value(5) };
        let (keys, next) = (names.iter().map(found).collect(), next.map(named));
        self.hears(from, Message::ScanReply { transaction: self.transaction, request, keys, next })
    }

    fn waits_for_its_turn_at(&mut self, from: &str, name: &str) -> Vec<String> {
        let (transaction, key) = (self.transaction, named(name));
        self.hears(from, Message::ReadWaits { transaction, key })
    }
}

#[test]
fn a_read_asks_one_replica_after_the_other_the_nearest_first() {
    let mut client = Client::new(3);
    client.learns_of(Epoch::FIRST, &[1, 2, 0]);
    client.begins();
    assert_eq!(client.gets("a"), ["1/r1 ← read a"]);
    assert_eq!(client.gets("x"), ["2/r1 ← read x"]);
    assert_eq!(client.waits(499), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 2/r2 ← read x", "1 ms: 1/r2 ← read a"]);
    assert_eq!(client.is_answered("2/r1", "x", 5), ["x = 5"], "late, and as good");
    let again = ["500 ms: 1/r0 ← read a", "1000 ms: 1/r1 ← read a", "1500 ms: 1/r2 ← read a"];
    assert_eq!(client.waits(1_999), again);
    assert_eq!(client.is_answered("1/r0", "a", 0), ["a = nothing"]);
    assert_eq!(client.waits(70_000).last().unwrap(), "57501 ms: Conflict");
}

#[test]
fn a_transaction_that_has_no_time_left_names_those_that_are_silent() {
    let mut client = Client::new(3);
    client.begins();
    client.waits(59_400);
    client.gets("a");
    client.gets("b");
    client.scans(9);
    client.has_scanned("2/r0", 1, &["x"], None);
    client.waits(599);
    assert_eq!(client.waits(1), ["1 ms: unavailable: 1/r0 1/r1"]);
}

#[test]
fn replicas_that_are_known_to_be_down_are_passed_over() {
    let mut client = Client::new(3);
    client.knows("1/r0", false);
    client.begins();
    assert_eq!(client.gets("a"), ["1/r1 ← read a"]);
    client.knows("1/r1", false);
    assert_eq!(client.waits(0), ["0 ms: 1/r2 ← read a"], "nobody waits for an answer of it any more");
    assert_eq!(client.gets("b"), ["1/r2 ← read b"]);
    assert_eq!(client.waits(500), ["500 ms: 1/r2 ← read a", "500 ms: 1/r2 ← read b"]);
    client.knows("1/r0", true);
    assert_eq!(client.waits(500), ["500 ms: 1/r0 ← read a", "500 ms: 1/r0 ← read b"]);
    for replica in ["1/r0", "1/r2"] {
        client.knows(replica, false);
    }
    client.waits(0);
    client.begins();
    assert_eq!(client.gets("a"), ["1/r0 ← read a"], "one of them may be there all the same");

    let mut client = Client::new(3);
    client.begins();
    client.gets("a");
    client.knows("1/r2", false);
    assert_eq!(client.waits(0), NOTHING, "it was not asked");
}

/// One that waits in a line would lose its place.
#[test]
fn a_replica_that_lets_a_read_wait_is_asked_again_and_no_other() {
    let mut client = Client::with(3, |config| config.reads_in_turn = true);
    client.begins();
    assert_eq!(client.gets("a"), ["1/r0 ← read a in turn"]);
    client.waits(300);
    assert_eq!(client.waits_for_its_turn_at("1/r0", "a"), NOTHING);
    assert_eq!(client.waits_for_its_turn_at("1/r1", "b"), NOTHING, "nobody asked for that");
    let again = client.waits(1_000);
    assert_eq!(again.len(), 1);
    assert!(again[0].ends_with("1/r0 ← read a in turn"), "{again:?}");
    assert_eq!(client.waits_for_its_turn_at("1/r0", "a"), NOTHING);
    client.knows("1/r0", false);
    let told = client.waits(1_000);
    assert!(told[0].ends_with("1/r1 ← read a in turn"), "{told:?}");
    let told = client.waits(1_000);
    assert!(told.iter().all(|line| !line.contains("1/r0")), "{told:?}");
    assert_eq!(client.is_answered("1/r0", "a", 5), ["a = 5"]);
}

#[test]
fn a_scan_asks_one_replica_of_each_shard_that_has_not_answered() {
    let mut client = Client::with(3, |config| config.scan_page_max = 7);
    client.knows("2/r0", false);
    client.begins();
    assert_eq!(client.scans(9), ["1/r0 2/r1 ← scan 1 of 7"]);
    assert_eq!(client.scans(3), ["1/r0 2/r1 ← scan 2 of 3"]);
    assert_eq!(client.has_scanned("2/r1", 1, &["x"], None), NOTHING);
    assert_eq!(client.has_scanned("2/r1", 2, &["x"], None), NOTHING);
    assert_eq!(client.has_scanned("1/r0", 3, &["a"], None), NOTHING, "nobody asked for that");
    assert_eq!(client.waits(500), ["500 ms: 1/r1 ← scan 1 of 7", "500 ms: 1/r1 ← scan 2 of 3"]);
    assert_eq!(client.has_scanned("1/r1", 2, &["a"], None).len(), 1);
    client.knows("1/r1", false);
    assert_eq!(client.waits(0), ["0 ms: 1/r2 ← scan 1 of 7"]);
    let told = client.has_scanned("1/r0", 1, &["a"], None);
    assert_eq!(told.len(), 1);
    assert!(["scanned a x", "scanned x a"].contains(&told[0].as_str()), "{told:?}");
    assert_eq!(client.scans(0), ["scanned  and more"], "of nothing nobody is asked");
}

#[test]
fn a_scan_is_asked_again_in_its_own_time() {
    let mut client = Client::new(3);
    client.begins();
    assert_eq!(client.scans(5), ["1/r0 2/r0 ← scan 1 of 5"]);
    assert_eq!(client.waits(200), NOTHING);
    assert_eq!(client.scans(6), ["1/r0 2/r0 ← scan 2 of 6"]);
    assert_eq!(client.waits(299), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 1/r1 2/r1 ← scan 1 of 5"]);
    let told = client.waits(500);
    assert_eq!(told, ["500 ms: 1/r2 2/r2 ← scan 1 of 5", "500 ms: 1/r1 2/r1 ← scan 2 of 6"]);
}

/// Most conflicts are real, so the second attempt reads where the first has; of two replicas each may have missed a commit.
#[test]
fn a_third_attempt_reads_elsewhere_and_each_key_at_another_place() {
    let first_asked = |attempt: u32, name: &str| {
        let mut client = Client::new(5);
        client.transaction.attempt = attempt;
        client.begins();
        client.gets(name)[0].split(' ').next().unwrap().to_owned()
    };
    for attempt in 0..2 {
        for (name, nearest) in [("a", "1/r0"), ("b", "1/r0"), ("x", "2/r0")] {
            assert_eq!(first_asked(attempt, name), nearest);
        }
    }
    assert!(KEYS.iter().any(|(name, ..)| !first_asked(2, name).ends_with("/r0")));
    let places = |name: &str| (2..40).map(|attempt| first_asked(attempt, name)).collect::<BTreeSet<_>>();
    assert_eq!((places("a").len(), places("x").len()), (5, 5));
    let apart = (2..40).filter(|attempt| first_asked(*attempt, "a") != first_asked(*attempt, "b")).count();
    assert!(apart > 20, "{apart} of 38");

    let mut client = Client::new(5);
    client.transaction.attempt = 2;
    client.begins();
    client.gets("a");
    let after = |line: &str| replica(line.split(' ').find(|word| word.contains("/r")).unwrap()).index.0;
    let asked: Vec<u8> = client.waits(2_500).iter().map(|line| after(line)).collect();
    assert!(asked.windows(2).all(|pair| pair[1] == (pair[0] + 1) % 5), "{asked:?}");
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "57500 ms: unavailable: 1/r0 1/r1 1/r2 1/r3 1/r4");
}

#[test]
fn a_transaction_that_only_reads_commits_once_everything_is_read() {
    let mut client = Client::with(3, |config| config.read_only_attempts_max = 1);
    client.transaction.attempt = 1;
    assert_eq!(client.reads(&["a", "b"], Freshness::Strict), ["1/r0 ← read a b"]);
    assert_eq!(client.is_answered("1/r0", "b", 5), ["b = 5"]);
    let told = ["a = 9", "1/r0 1/r1 1/r2 ← prepare 1 of a b at 1000"];
    assert_eq!(client.is_answered("1/r0", "a", 9), told);

    client.begins();
    client.gets("a");
    assert_eq!(client.is_answered("1/r0", "a", 9), ["a = 9"], "what else it reads only its client knows");
}

#[test]
fn reads_and_scans_are_asked_for_where_others_hold_the_keys() {
    let mut client = Client::new(3);
    client.begins();
    client.gets("a");
    client.gets("b");
    client.scans(9);
    client.is_answered("1/r0", "b", 5);
    client.has_scanned("2/r0", 1, &[], None);
    client.waits(500);
    assert_eq!(client.learns_of(Epoch(2), &[3, 4, 0]), ["1/r3 ← read a", "1/r3 ← scan 1 of 9"]);
    assert_eq!(client.waits(499), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 1/r4 ← read a", "1 ms: 1/r4 ← scan 1 of 9"]);
}
