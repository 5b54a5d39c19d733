//! Quorum reads, and reads of what the nearest replicas have validated.

use std::time::Duration;

use quorate_core::command::{Freshness, Invalid};
use quorate_core::transaction::KeyVersion;
use quorate_tapir::message::FoundKey;

use super::*;

const IN_THE_PAST: Freshness = Freshness::At(Timestamp { micros: 900, client: CLIENT });

const NOTHING: [&str; 0] = [];

/// The version of each key, and up to when it is the newest.
type Versions<'a> = &'a [(u64, u64)];

impl Client {
    fn is_ahead(&mut self, from: &str) -> Vec<String> {
        let (transaction, ahead_micros, ahead_max_micros) = (self.transaction, 70, 60);
        self.hears(from, Message::ClockAhead { transaction, ahead_micros, ahead_max_micros })
    }

    fn is_too_old(&mut self, from: &str, oldest: u64) -> Vec<String> {
        let (transaction, oldest) = (self.transaction, at(oldest));
        self.hears(from, Message::SnapshotTooOld { transaction, oldest })
    }

    /// A replica has found these in the range, and has read up to a key.
    fn is_told_page(&mut self, from: &str, keys: &[(&str, &str)], next: Option<&str>) -> Vec<String> {
        let key = |(name, word): &(&str, &str)| FoundKey { key: named(name), version: found(word) };
        let keys = keys.iter().map(key).collect();
        let page = FoundPage { keys, next: next.map(named), absent_below: None };
        let (transaction, round, view) = (self.transaction, self.round, View(self.view));
        self.hears(from, Message::QuorumScanReply { transaction, round, view, page })
    }

    fn waits_for_its_turn(&mut self, from: &str) -> Vec<String> {
        let (transaction, key) = (self.transaction, named("a"));
        self.hears(from, Message::ReadWaits { transaction, key })
    }
}

#[test]
fn a_strict_read_asks_the_nearest_quorum_and_the_others_if_that_does_not_agree() {
    let mut client = Client::new(3);
    client.learns_of(Epoch::FIRST, &[2, 0, 1]);
    assert_eq!(client.reads(&["a", "b"], Freshness::Strict), ["1/r2 1/r0 ← quorum read 1 of a b at 1000"]);
    assert_eq!(client.is_told("1/r2", &["5", "0"]), NOTHING);
    assert_eq!(client.is_told("1/r0", &["5", "7"]), ["1/r1 ← quorum read 1 of a b at 1000"]);
    let told = ["a = 5", "b = 7", "committed at 1000, 0 retries"];
    assert_eq!(client.is_told("1/r1", &["5", "7"]), told);
    assert_eq!(client.waits(60_000), NOTHING);

    let mut client = Client::new(5);
    let asked = client.reads(&["x"], Freshness::Strict);
    assert_eq!(asked, ["2/r0 2/r1 2/r2 2/r3 ← quorum read 1 of x at 1000"]);
    for replica in ["2/r0", "2/r1", "2/r2"] {
        assert_eq!(client.is_told(replica, &["5"]), NOTHING);
    }
    assert_eq!(client.is_told("2/r3", &["5"]), ["x = 5", "committed at 1000, 0 retries"]);
}

/// A new attempt may find the write gone.
#[test]
fn a_strict_read_that_all_replicas_have_answered_differently_is_a_conflict() {
    let mut client = Client::new(3);
    client.reads(&["a"], Freshness::Strict);
    client.is_told("1/r0", &["5"]);
    client.is_told("1/r1", &["6"]);
    assert_eq!(client.is_told("1/r2", &["7"]), ["Conflict"]);

    let mut client = Client::new(3);
    client.knows("1/r1", false);
    assert_eq!(client.reads(&["a"], Freshness::Strict), ["1/r0 1/r2 ← quorum read 1 of a at 1000"]);
    client.is_told("1/r0", &["5"]);
    let told = client.is_told("1/r2", &["5!"]);
    assert_eq!(told, ["Conflict"], "the third is known to be down");
}

#[test]
fn a_strict_read_goes_above_what_it_has_found_a_few_times() {
    let mut client = Client::with(3, |config| config.retries_max = 2);
    client.reads(&["a"], Freshness::Strict);
    client.is_told("1/r1", &["5"]);
    assert_eq!(client.is_told("1/r0", &["5+2000"]), ["1/r0 1/r1 ← quorum read 2 of a at 2001"]);
    assert_eq!(client.is_told("1/r0", &["5+3000"]), ["1/r0 1/r1 ← quorum read 3 of a at 3001"]);
    assert_eq!(client.is_told("1/r0", &["3000"]), NOTHING);
    assert_eq!(client.is_told("1/r1", &["3000"]), ["a = 3000", "committed at 3001, 2 retries"]);
    client.reads(&["a"], Freshness::Strict);
    for newest in ["5+4000", "5+5000"] {
        assert_eq!(client.is_told("1/r0", &[newest]).len(), 1);
    }
    assert_eq!(client.is_told("1/r0", &["5+6000"]), ["Conflict"]);
}

/// Replies of two rounds are about two timestamps.
#[test]
fn what_was_said_of_an_earlier_round_does_not_count() {
    let mut client = Client::new(3);
    client.reads(&["a"], Freshness::Strict);
    client.is_told("1/r0", &["5+2000"]);
    client.round = 1;
    assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
    assert_eq!(client.is_told("1/r1", &["5"]), NOTHING);
    client.round = 2;
    assert_eq!(client.is_told("1/r0", &["2000"]), NOTHING);
    client.round = 3;
    assert_eq!(client.is_told("1/r1", &["2000"]), NOTHING);
    client.round = 2;
    assert_eq!(client.is_told("1/r1", &["2000"]), ["a = 2000", "committed at 2001, 1 retries"]);
}

#[test]
fn replies_of_two_views_do_not_count_together_and_the_laggard_is_told() {
    let mut client = Client::new(3);
    client.reads(&["a"], Freshness::Strict);
    assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
    client.view = 2;
    assert_eq!(client.is_told("1/r1", &["5"]), ["1/r0 ← higher view 2"]);
    client.view = 1;
    assert_eq!(client.is_told("1/r2", &["5"]), ["1/r0 1/r2 ← higher view 2"]);
    client.view = 2;
    let told = client.is_told("1/r2", &["5"]);
    assert_eq!(told, ["1/r0 ← higher view 2", "a = 5", "committed at 1000, 0 retries"]);
}

#[test]
fn only_an_answer_to_what_was_asked_is_one() {
    let mut client = Client::new(3);
    client.reads(&["a", "b"], Freshness::Strict);
    for _ in 0..2 {
        assert_eq!(client.is_told("2/r0", &["5", "5"]), NOTHING, "another shard");
        assert_eq!(client.is_told("1/r0", &["5"]), NOTHING, "fewer keys");
        assert_eq!(client.is_told("1/r1", &["5", "6", "7"]), NOTHING, "more keys");
        assert_eq!(client.is_told_page("1/r1", &[("a", "5"), ("b", "5")], None), NOTHING, "of a range");
    }
    assert_eq!(client.is_told("1/r0", &["5", "6"]), NOTHING);
    assert_eq!(client.is_told("1/r0", &["5", "6"]), NOTHING, "the same replica again");
    assert_eq!(client.is_told("1/r2", &["5", "6"]).len(), 3, "one that was not asked knows as much");
}

/// A replica that is silent may be down: those that answer are enough for a prepare.
#[test]
fn a_strict_read_without_answers_is_run_as_any_other_transaction() {
    let mut client = Client::new(3);
    client.reads(&["a"], Freshness::Strict);
    client.is_told("1/r0", &["5"]);
    assert_eq!(client.waits(499), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 1/r0 ← read a"]);
    assert_eq!(client.is_answered("1/r0", "a", 5), ["a = 5", "1/r0 1/r1 1/r2 ← prepare 1 of a at 1001"]);

    assert_eq!(client.reads(&["a"], Freshness::Strict), ["1/r0 1/r2 ← quorum read 1 of a at 1002"]);
    client.hears("1/r1", Message::Outdated);
    let asked = client.reads(&["a"], Freshness::Strict);
    assert_eq!(asked, ["1/r0 1/r1 ← quorum read 1 of a at 1003"], "it has spoken since");
}

#[test]
fn a_read_in_the_past_without_answers_asks_everybody_at_longer_and_longer_intervals() {
    let mut client = Client::new(3);
    assert_eq!(client.reads(&["a"], IN_THE_PAST), ["1/r0 1/r1 ← quorum read 1 of a at 900"]);
    let again = |after: u32, round: u32| {
        format!("{after} ms: 1/r0 1/r1 1/r2 ← quorum read {round} of a at 900")
            .replace("1/r0 1/r1 1/r2", "{}")
    };
    let (near, far) = ("1/r0 1/r1 1/r2", "1/r2 1/r0 1/r1");
    let expected = [
        again(500, 2).replace("{}", far),
        again(1_500, 3).replace("{}", near),
        again(3_500, 4).replace("{}", near),
        again(7_500, 5).replace("{}", near),
        again(11_500, 6).replace("{}", near),
        again(15_500, 7).replace("{}", near),
    ];
    assert_eq!(client.waits(19_000), expected);
    client.is_told("1/r1", &["5"]);
    let rest = client.waits(41_000);
    assert_eq!(rest.last().unwrap(), "41000 ms: unavailable: 1/r0 1/r1 1/r2");
}

#[test]
fn a_read_that_fails_names_those_that_were_asked_and_are_silent() {
    let mut client = Client::new(3);
    client.reads(&["a", "x"], IN_THE_PAST);
    client.is_told("2/r0", &["5"]);
    client.is_told("2/r1", &["5"]);
    client.waits(59_000);
    client.is_told("1/r2", &["5"]);
    client.waits_for_its_turn("1/r1");
    let told = client.waits(1_000);
    assert_eq!(told.last().unwrap(), "1000 ms: Conflict", "a write was in the way");

    let mut client = Client::new(5);
    client.reads(&["a", "x"], IN_THE_PAST);
    for index in 0..4 {
        client.is_told(&format!("2/r{index}"), &["5"]);
    }
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "60000 ms: unavailable: 1/r0 1/r1 1/r2 1/r3 1/r4");
}

#[test]
fn a_replica_of_a_shard_that_was_not_asked_lets_no_read_wait() {
    let mut client = Client::new(3);
    client.reads(&["x"], IN_THE_PAST);
    client.waits(400);
    assert_eq!(client.waits_for_its_turn("1/r1"), NOTHING);
    assert_eq!(client.waits(100).len(), 1, "it is asked again in its time");
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap(), "59500 ms: unavailable: 2/r0 2/r1 2/r2", "no write was in the way");
}

/// There is nothing to wait for but those writes.
#[test]
fn a_read_in_the_past_asks_after_writes_in_its_way_at_longer_and_longer_intervals() {
    let mut client = Client::new(3);
    client.reads(&["a"], IN_THE_PAST);
    assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
    assert_eq!(client.is_told("1/r1", &["5!"]), ["1/r2 ← quorum read 1 of a at 900"]);
    assert_eq!(client.is_told("1/r2", &["5!"]), NOTHING);
    for (round, pause) in [10, 20, 40, 80, 160, 320, 500, 500].into_iter().enumerate() {
        let asked = format!("{pause} ms: 1/r0 1/r1 1/r2 ← quorum read {} of a at 900", round + 2);
        assert_eq!(client.waits(pause), [asked]);
        for replica in ["1/r2", "1/r1", "1/r0"] {
            assert_eq!(client.is_told(replica, &["5!"]), NOTHING);
        }
    }
    client.waits(500);
    assert_eq!(client.is_told("1/r0", &["5"]), NOTHING);
    let told = ["a = 5", "1/r0 ← validated at 900: a@5", "committed at 900, 9 retries"];
    assert_eq!(client.is_told("1/r2", &["5"]), told);
}

/// Those that are down will not answer, and what was answered may be otherwise by then.
#[test]
fn a_read_in_the_past_does_not_wait_for_those_that_are_down() {
    let mut client = Client::new(3);
    client.reads(&["a"], IN_THE_PAST);
    client.is_told("1/r0", &["5"]);
    client.is_told("1/r1", &["5!"]);
    assert_eq!(client.waits(100), NOTHING, "the third has not answered");
    client.knows("1/r2", false);
    client.is_told("1/r1", &["5!"]);
    assert_eq!(client.waits(10), ["10 ms: 1/r0 1/r1 1/r2 ← quorum read 2 of a at 900"]);
}

#[test]
fn too_few_replicas_for_a_quorum_read_are_known_at_once() {
    let down = |client: &mut Client, replicas: &[&str]| {
        replicas.iter().flat_map(|replica| client.knows(replica, false)).collect::<Vec<_>>()
    };
    let mut client = Client::new(3);
    down(&mut client, &["1/r0"]);
    assert_eq!(client.reads(&["a"], IN_THE_PAST), ["1/r1 1/r2 ← quorum read 1 of a at 900"]);
    client.transaction.sequence += 1;
    down(&mut client, &["1/r2"]);
    let failed = client.waits(0);
    assert_eq!(failed, ["0 ms: unavailable: 1/r0 1/r2"]);
    assert_eq!(client.reads(&["x"], IN_THE_PAST), ["2/r0 2/r1 ← quorum read 1 of x at 900"]);
    assert_eq!(client.reads(&["a"], IN_THE_PAST), ["unavailable: 1/r0 1/r2"]);
    let later = Freshness::At(at(1_000_000));
    assert_eq!(client.reads(&["a"], later), ["unavailable: 1/r0 1/r2"]);
    assert_eq!(client.reads(&["a"], Freshness::Strict), ["1/r1 ← read a"]);
    client.knows("1/r0", true);
    assert_eq!(client.reads(&["a"], IN_THE_PAST), ["1/r0 1/r1 ← quorum read 1 of a at 900"]);
}

#[test]
fn a_strict_read_whose_replicas_go_down_is_run_as_any_other_transaction() {
    let mut client = Client::new(3);
    client.reads(&["a", "b"], Freshness::Strict);
    client.is_told("1/r2", &["5", "5"]);
    client.knows("1/r0", false);
    assert_eq!(client.waits(0), NOTHING);
    client.knows("1/r1", false);
    assert_eq!(client.waits(0), ["0 ms: 1/r2 ← read a b"]);
}

#[test]
fn a_timestamp_ahead_of_the_clock_is_waited_for() {
    let mut client = Client::new(3);
    assert_eq!(client.reads(&["a"], Freshness::At(at(1_001_000))), NOTHING);
    client.knows("1/r2", false);
    assert_eq!(client.waits(999), NOTHING, "that another is down is no reason to begin");
    assert_eq!(client.waits(1), ["1 ms: 1/r0 1/r1 ← quorum read 1 of a at 1001000"]);
    client.is_told("1/r0", &["5"]);
    assert_eq!(client.is_told("1/r1", &["5"]).len(), 3);
    let at_once = client.reads(&["a"], Freshness::At(at(1_000)));
    assert_eq!(at_once, ["1/r0 1/r1 ← quorum read 1 of a at 1000"]);
}

#[test]
fn a_read_that_waits_for_its_timestamp_ends_with_its_deadline() {
    let mut client = Client::new(3);
    assert_eq!(client.reads(&["a"], Freshness::At(at(90_000_000))), NOTHING);
    assert_eq!(client.waits(90_000), ["60000 ms: unavailable: "]);
}

/// As long as the others make a quorum it is asked too much.
#[test]
fn a_read_is_too_far_ahead_once_no_quorum_is_left() {
    let ahead = Invalid::ClockAhead { ahead_micros: 70, ahead_max_micros: 60 };
    let refused = format!("Invalid({ahead:?})");
    for (freshness, expected, micros) in
        [(Freshness::Strict, "Conflict", 1_000), (IN_THE_PAST, refused.as_str(), 900)]
    {
        let mut client = Client::new(3);
        client.reads(&["a"], freshness);
        assert_eq!(client.is_ahead("1/r0"), [format!("1/r2 ← quorum read 1 of a at {micros}")]);
        assert_eq!(client.is_ahead("1/r0"), NOTHING);
        assert_eq!(client.is_ahead("2/r1"), NOTHING);
        assert_eq!(client.is_ahead("1/r1"), [expected]);
    }
    let mut client = Client::new(5);
    client.reads(&["a"], IN_THE_PAST);
    assert_eq!(client.is_ahead("1/r4"), ["1/r4 ← quorum read 1 of a at 900"]);
    assert_eq!(client.is_ahead("1/r3"), [refused.as_str()]);
}

#[test]
fn a_snapshot_that_is_not_kept_is_too_old_unless_the_newest_will_do() {
    let mut client = Client::new(3);
    client.reads(&["a"], IN_THE_PAST);
    assert_eq!(client.is_too_old("1/r0", 900), NOTHING, "of an earlier round");
    assert_eq!(client.is_too_old("1/r0", 901), ["too old: 901"]);
    client.reads(&["a"], Freshness::Strict);
    assert_eq!(client.is_too_old("1/r0", 1_000), NOTHING);
    assert_eq!(client.is_too_old("1/r0", 1_500), ["1/r0 1/r1 ← quorum read 2 of a at 1501"]);
    assert_eq!(client.is_too_old("1/r0", 1_500), NOTHING, "of the round before");
    client.reads(&["a"], Freshness::Stale(Duration::ZERO));
    let asked = ["1/r0 1/r1 ← quorum read 2 of a at 1503"];
    assert_eq!(client.is_too_old("1/r0", 9_000), asked, "it has validated nothing recent, either");
}

/// A replica that knows up to when a version is the newest answers by itself.
#[test]
fn a_stale_read_asks_the_nearest_replica_of_each_shard() {
    let stale = Freshness::Stale(Duration::from_micros(100));
    let mut client = Client::new(3);
    let asked = ["1/r0 ← read validated a b", "2/r0 ← read validated x"];
    assert_eq!(client.reads(&["a", "b", "x"], stale), asked);
    assert_eq!(client.is_told_validated("1/r0", &[(5, 950), (6, 970)]), NOTHING);
    let told = ["a = 5", "b = 6", "x = 7", "committed at 940, 0 retries"];
    assert_eq!(client.is_told_validated("2/r0", &[(7, 940)]), told);

    client.reads(&["a"], stale);
    assert_eq!(client.is_told_validated("1/r0", &[(900, 900)]), ["a = 900", "committed at 900, 0 retries"]);
}

#[test]
fn a_stale_read_asks_a_quorum_if_the_nearest_do_not_know_enough() {
    let stale = Freshness::Stale(Duration::from_micros(100));
    let answers: [(Versions, Versions, &str); 4] = [
        (&[(5, 899)], &[(7, 940)], "too long ago"),
        (&[(5, 920)], &[(930, 940)], "at no time were both the newest"),
        (&[(5, 920)], &[], "nothing is validated"),
        (&[(5, 920)], &[(7, 940), (7, 940)], "not what was asked for"),
    ];
    for (one, other, why) in answers {
        let mut client = Client::new(3);
        client.reads(&["a", "x"], stale);
        assert_eq!(client.is_told_validated("1/r0", one), NOTHING);
        let asked = ["1/r0 1/r1 ← quorum read 2 of a at 1001", "2/r0 2/r1 ← quorum read 2 of x at 1001"];
        assert_eq!(client.is_told_validated("2/r0", other), asked, "{why}");
        let again = ["2/r0 ← quorum read 2 of x at 1001"];
        assert_eq!(
            client.is_told_validated("2/r0", &[(7, 940)]),
            again,
            "it has not heard what is wanted now"
        );
        client.is_told("1/r0", &["5"]);
        client.is_told("1/r1", &["6"]);
        client.is_told("2/r1", &["7"]);
        let told = ["a = 6", "x = 7", "committed at 1001, 1 retries"];
        assert_eq!(client.is_told("2/r0", &["7"]), told);
        let asked = ["1/r0 ← read validated a, and is told", "2/r0 ← read validated x, and is told"];
        assert_eq!(client.reads(&["a", "x"], stale), asked, "the nearest may serve that from now on");
    }
    let mut client = Client::new(3);
    client.reads(&["a"], stale);
    assert_eq!(client.waits(499), NOTHING);
    assert_eq!(client.waits(1), ["1 ms: 1/r1 1/r2 ← quorum read 2 of a at 1001"]);
}

#[test]
fn a_read_within_a_bound_of_clocks_is_at_the_clock() {
    let mut client = Client::new(3);
    let bounded = routes(Epoch(2), &[0, 1, 2], Some(Duration::from_micros(500)));
    client.does(Command::Route(bounded));
    client.epoch = Epoch(2);
    client.clock = 2_000;
    let asked = client.reads(&["a", "x"], Freshness::ClockBound);
    assert_eq!(asked, ["1/r0 1/r1 ← quorum read 1 of a at 2000", "2/r0 2/r1 ← quorum read 1 of x at 2000"]);
    for replica in ["1/r0", "1/r1", "2/r0"] {
        assert_eq!(client.is_told(replica, &["5"]), NOTHING);
    }
    let told = ["a = 5", "x = 5", "1/r0 ← validated at 2000: a@5", "2/r0 ← validated at 2000: x@5"];
    assert_eq!(client.is_told("2/r2", &["5"]), told);
    client.clock = 2_500;
    client.waits(1);
    client.clock = 2_501;
    assert_eq!(client.waits(1), ["0.501 ms: committed at 2000, 0 retries"], "the clock was slow");
}

/// They have handed over what they had promised.
#[test]
fn a_read_is_begun_anew_where_others_hold_what_it_reads() {
    let mut client = Client::new(3);
    client.reads(&["a"], IN_THE_PAST);
    client.is_told("1/r0", &["5"]);
    assert_eq!(client.learns_of(Epoch(2), &[4, 3, 1]), ["1/r4 1/r3 ← quorum read 2 of a at 900"]);
    assert_eq!(client.is_told("1/r4", &["5"]), NOTHING);
    let told = ["a = 5", "1/r4 ← validated at 900: a@5", "committed at 900, 1 retries"];
    assert_eq!(client.is_told("1/r1", &["5"]), told);

    assert_eq!(client.reads(&["a"], Freshness::At(at(3_000))), NOTHING);
    assert_eq!(client.learns_of(Epoch(3), &[2, 4, 3]), NOTHING, "it begins when it was to");
    assert_eq!(client.waits(2), ["2 ms: 1/r2 1/r4 ← quorum read 1 of a at 3000"]);
}

#[test]
fn a_range_is_read_of_a_quorum_of_every_shard() {
    let mut client = Client::new(3);
    let asked = ["1/r0 1/r1 2/r0 2/r1 ← quorum scan 1 of 9 at 900"];
    assert_eq!(client.reads_range("1", "2", IN_THE_PAST), asked);
    assert_eq!(client.is_told_page("1/r0", &[("a", "5"), ("b", "6")], None), NOTHING);
    assert_eq!(client.is_told("1/r1", &[]), NOTHING, "that is no answer to a scan");
    assert_eq!(client.is_told_page("1/r1", &[("a", "5!")], None), ["1/r2 2/r2 ← quorum scan 1 of 9 at 900"]);
    assert_eq!(client.is_told_page("1/r2", &[("a", "7")], None), NOTHING);
    assert_eq!(client.is_told_page("2/r2", &[], None), NOTHING);
    let told = client.is_told_page("2/r1", &[("x", "5")], None);
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1], "committed at 900, 0 retries");
    let stale = Freshness::Stale(Duration::from_micros(300));
    assert_eq!(client.reads_range("1", "2", stale), ["1/r0 1/r1 2/r0 2/r1 ← quorum scan 1 of 9 at 700"]);
    assert_eq!(client.reads_range("1", "2", Freshness::Strict), ["1/r0 2/r0 ← scan 1 of 9"]);
}

#[test]
fn a_strict_range_of_one_shard_that_is_not_answered_is_run_as_any_other_transaction() {
    let mut client = Client::new(3);
    let asked = client.reads_range("{t}1", "{t}2", Freshness::Strict);
    let shard = &asked[0][..1];
    assert_eq!(asked, [format!("{shard}/r0 {shard}/r1 ← quorum scan 1 of 9 at 1000")]);
    assert_eq!(client.waits(500), [format!("500 ms: {shard}/r0 ← scan 1 of 9")]);
    let keys = Vec::<KeyVersion>::new();
    let found = Message::ScanReply { transaction: client.transaction, request: 1, keys, next: None };
    let prepared = format!("{shard}/r0 {shard}/r1 {shard}/r2 ← prepare 1 of  at 1001");
    assert_eq!(client.hears(&format!("{shard}/r1"), found), ["scanned ".to_owned(), prepared]);
}

/// It is there, so it is not silent, and a write is in the way.
#[test]
fn a_replica_that_lets_a_read_wait_for_its_turn_is_waited_for() {
    let mut client = Client::with(3, |config| config.reads_in_turn = true);
    assert_eq!(client.reads(&["a"], Freshness::Strict), ["1/r0 1/r1 ← quorum read 1 of a at 1000 in turn"]);
    client.waits(400);
    assert_eq!(client.waits_for_its_turn("1/r0"), NOTHING);
    assert_eq!(client.waits(499), NOTHING);
    let again = "1 ms: 1/r2 1/r0 1/r1 ← quorum read 2 of a at 1000 in turn";
    let told = client.waits(1);
    assert_eq!(told, [again.replace("1/r2 1/r0 1/r1", "1/r0 1/r2 1/r1")]);
    client.waits(100);
    for replica in ["1/r0", "1/r1"] {
        assert_eq!(client.waits_for_its_turn(replica), NOTHING);
        client.waits(100);
        assert_eq!(client.waits_for_its_turn(replica), NOTHING, "that it waits is known");
    }
    assert_eq!(client.waits_for_its_turn("2/r0"), NOTHING);
    let told = client.waits(60_000);
    assert_eq!(told.last().unwrap().split_once(": ").unwrap().1, "Conflict");
}
