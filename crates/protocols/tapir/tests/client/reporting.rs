//! Where a keyspace states a bound of clocks, a commit is reported once its timestamp has passed on all of them.

use super::*;

const NOTHING: [&str; 0] = [];

/// A client of a keyspace whose clocks are no more than seven milliseconds apart.
fn client() -> Client {
    let mut client = Client::new(3);
    let bound = Some(Duration::from_millis(7));
    client.does(Command::Route(routes(Epoch::FIRST, &[0, 1, 2], bound)));
    client
}

/// The reports among what happens.
fn reports(told: Vec<String>) -> Vec<String> {
    let is_report =
        |line: &String| ["committed", "resolved", "Unknown"].iter().any(|word| line.contains(word));
    told.into_iter().filter(is_report).collect()
}

/// A transaction that writes a key, and on which all replicas of its shard have voted.
fn decides(client: &mut Client, name: &str) {
    client.writes(&[name]);
    for replica in ["1/r0", "1/r1", "1/r2"] {
        let told = client.hears_vote(replica, Vote::Ok);
        assert_eq!(reports(told), NOTHING, "{replica}");
    }
}

/// The client asks what becomes of its transaction, and has so many seconds for that.
fn asks(client: &mut Client, seconds: u64) -> Vec<String> {
    client.does(Command::Resolve {
        transaction: client.transaction,
        participants: vec![ShardId(1)],
        timestamp: at(1_000),
        patience: Duration::from_secs(seconds),
    })
}

#[test]
fn a_commit_is_reported_once_its_timestamp_has_passed_on_every_clock() {
    let mut client = client();
    decides(&mut client, "a");
    assert_eq!(reports(client.waits(7)), NOTHING);
    client.clock = 8_000;
    assert_eq!(reports(client.waits(1)), NOTHING, "it has not passed by the bound");
    client.clock = 8_001;
    assert_eq!(reports(client.waits(1)), ["0.001 ms: committed at 1000, 0 retries"]);
    assert_eq!(reports(client.waits(60_000)), NOTHING, "once");
}

#[test]
fn a_commit_whose_timestamp_has_passed_when_it_is_decided_is_reported_at_once() {
    for (clock, expected) in [(8_000, None), (8_001, Some("committed at 1000, 0 retries"))] {
        let mut client = client();
        client.writes(&["a"]);
        client.clock = clock;
        for replica in ["1/r0", "1/r1"] {
            assert_eq!(reports(client.hears_vote(replica, Vote::Ok)), NOTHING);
        }
        let told = reports(client.hears_vote("1/r2", Vote::Ok));
        assert_eq!(told.first().map(String::as_str), expected, "at {clock}");
    }
}

#[test]
fn commits_are_reported_each_in_its_time() {
    let mut client = client();
    decides(&mut client, "a");
    client.clock = 3_000;
    decides(&mut client, "b");
    client.clock = 8_001;
    assert_eq!(reports(client.waits(8)), ["7.001 ms: committed at 1000, 0 retries"]);
    client.clock = 10_001;
    assert_eq!(reports(client.waits(60_000)).len(), 1);
}

/// A clock that stands still, or was turned back, keeps nobody waiting for longer than there is time.
#[test]
fn a_commit_that_has_not_passed_when_time_is_up_is_unknown() {
    let mut client = client();
    decides(&mut client, "a");
    assert_eq!(reports(client.waits(59_999)), NOTHING);
    let told = reports(client.waits(1));
    assert!(told.len() == 1 && told[0].starts_with("1 ms: Unknown"), "{told:?}");
}

#[test]
fn a_commit_that_is_asked_after_is_told_of_when_it_has_passed_or_time_is_up() {
    let mut client = client();
    decides(&mut client, "a");
    assert_eq!(reports(asks(&mut client, 90)), NOTHING);
    assert_eq!(reports(client.waits(89_999)), NOTHING, "it has more time now");
    let told = reports(client.waits(1));
    assert!(told.len() == 2 && told[0] == "1 ms: resolved: None" && told[1].contains("Unknown"), "{told:?}");

    let mut client = self::client();
    decides(&mut client, "a");
    assert_eq!(reports(asks(&mut client, 1)), NOTHING);
    client.waits(50_000);
    client.clock = 8_001;
    let told = reports(client.waits(10));
    assert!(told.len() == 2 && told[0].contains("resolved: Some(Committed"), "{told:?}");
    assert!(told[1].contains("committed at 1000"), "{told:?}");
}
