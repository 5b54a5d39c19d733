//! Reading, writing, conflicts.

use std::time::Duration;

use quorate::{Applied, Batch, Error, Invalid, Isolation, Key, KeyspaceOptions, Page, StepAnswer, Value};
use tokio::time::Instant;

use crate::support::{Cluster, accounts, increment, number};

#[tokio::test]
async fn what_is_written_is_read_by_everybody() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    assert_eq!(accounts.get("alice").await.unwrap(), None);
    accounts.put("alice", "100").await.unwrap();
    let other = cluster.connect().await.keyspace("accounts").await.unwrap();
    assert_eq!(other.get("alice").await.unwrap(), Some(Value::from("100")));
    other.delete("alice").await.unwrap();
    assert_eq!(accounts.get("alice").await.unwrap(), None);
}

#[tokio::test]
async fn ranges_span_shards_and_show_own_writes() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    for number in 0..20 {
        accounts.put(format!("k{number:02}"), number.to_string()).await.unwrap();
    }
    let page = accounts.scan("k05", "k15", 100).await.unwrap();
    let keys: Vec<_> = page.entries.iter().map(|(key, _)| key.clone()).collect();
    let expected: Vec<_> = (5..15).map(|number| Key::from(format!("k{number:02}"))).collect();
    assert_eq!((keys, page.next), (expected, None));
    let first = accounts.scan("", "", 7).await.unwrap();
    assert_eq!((first.entries.len(), first.next), (7, Some(Key::from("k07"))));

    // The replica that answers may not have heard of the last writes: such a transaction does not commit, and begins again.
    let page = accounts
        .transact(async |txn| {
            txn.put("k05x", "new")?;
            txn.delete("k06")?;
            txn.scan("k05", "k08", 100).await
        })
        .await
        .unwrap();
    let keys: Vec<_> = page.entries.iter().map(|(key, _)| key.clone()).collect();
    assert_eq!(keys, ["k05", "k05x", "k07"]);
    assert_eq!(accounts.get("k06").await.unwrap(), None);
}

#[tokio::test]
async fn of_two_transactions_that_change_what_both_read_one_conflicts() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    accounts.put("alice", "1").await.unwrap();
    let (mut first, mut second) = (accounts.begin().await.unwrap(), accounts.begin().await.unwrap());
    for txn in [&first, &second] {
        txn.get("alice").await.unwrap();
        txn.put("alice", "2").unwrap();
    }
    first.commit().await.unwrap();
    let error = second.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict), "{error}");
}

#[tokio::test]
async fn a_key_that_appears_in_a_scanned_range_is_a_conflict() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let mut txn = accounts.begin().await.unwrap();
    assert!(txn.scan("a", "b", 10).await.unwrap().entries.is_empty());
    txn.put("count", "0").unwrap();
    accounts.put("apple", "1").await.unwrap();
    let error = txn.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict), "{error}");
}

#[tokio::test]
async fn what_is_aborted_or_dropped_was_never_there() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let mut txn = accounts.begin().await.unwrap();
    txn.put("alice", "1").unwrap();
    txn.abort().await.unwrap();
    let txn = accounts.begin().await.unwrap();
    txn.put("alice", "2").unwrap();
    drop(txn);
    assert_eq!(accounts.get("alice").await.unwrap(), None);
}

#[tokio::test]
async fn batches_compare_and_write_at_once() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let open = || Batch::new().expect_absent("alice").put("alice", "1").read("alice");
    let applied = accounts.apply(open()).await.unwrap();
    let read = StepAnswer::Value(Some(Value::from("1")));
    assert_eq!(applied.answers(), [StepAnswer::Done, read]);
    let unmet = Applied::Unmet { condition: 0, found: Some(Value::from("1")) };
    assert_eq!(accounts.apply(open()).await.unwrap(), unmet);
}

#[tokio::test]
async fn concurrent_increments_are_all_counted() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let accounts = accounts.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    increment(&accounts, "counter").await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(number(&accounts.get("counter").await.unwrap().unwrap()), 40);
}

#[tokio::test]
async fn thousands_of_transactions_are_in_flight_at_once() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let tasks: Vec<_> = (0..2_000)
        .map(|number| {
            let accounts = accounts.clone();
            tokio::spawn(async move { increment(&accounts, &format!("counter{number}")).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), 1);
    }
    assert_eq!(db.counters().refused, 0);
}

#[tokio::test]
async fn keys_are_read_at_once_now_and_in_the_past() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let keys: Vec<String> = (0..8).map(|number| format!("key{number}")).collect();
    let write = async |value: &'static str| {
        let keys = &keys;
        let written =
            accounts.transact_with_receipt(async |txn| keys.iter().try_for_each(|key| txn.put(key, value)));
        written.await.unwrap().1
    };
    let first = write("first").await;
    let second = write("second").await;
    let all = |value: &'static str| vec![Some(Value::from(value)); keys.len()];
    assert_eq!(accounts.read_only(&keys).await.unwrap(), all("second"));
    assert_eq!(accounts.read_at(first.timestamp, &keys).await.unwrap(), all("first"));
    let asked = ["absent", "key1", "key1"];
    let one = accounts.read_only(asked).await.unwrap();
    assert_eq!(one, [None, Some(Value::from("second")), Some(Value::from("second"))]);
    let stale = accounts.read_stale(Duration::from_secs(5), &keys).await.unwrap();
    // The nearest replica may not have heard of the second commit yet; it says so by its timestamp.
    let expected = if stale.timestamp >= second.timestamp { all("second") } else { all("first") };
    assert_eq!(stale.values, expected);
    assert!(stale.timestamp >= first.timestamp);
    let none: [&str; 0] = [];
    assert!(accounts.read_only(none).await.unwrap().is_empty());
    assert!(matches!(accounts.read_only([""]).await, Err(Error::Invalid(_))));
    let unbounded = accounts.read_now(&keys).await;
    assert!(matches!(unbounded, Err(Error::Invalid(Invalid::NoClockBound { .. }))), "{unbounded:?}");
}

#[tokio::test]
async fn ranges_are_read_now_and_in_the_past() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let write = async |keys: std::ops::Range<u32>, value: &'static str| {
        let keys = &keys;
        let written = accounts.transact_with_receipt(async |txn| {
            keys.clone().try_for_each(|number| txn.put(format!("k{number:02}"), value))
        });
        written.await.unwrap().1
    };
    let first = write(0..20, "first").await;
    write(10..30, "second").await;
    let told = |page: &Page| -> Vec<(String, Value)> {
        page.entries
            .iter()
            .map(|(key, value)| (String::from_utf8_lossy(key).into_owned(), value.clone()))
            .collect()
    };
    let expected = |keys: std::ops::Range<u32>, value: &'static str| -> Vec<(String, Value)> {
        keys.map(|number| (format!("k{number:02}"), Value::from(value))).collect()
    };

    // Two pages of what was there after the first commit, and a scan of what is there now, over all shards.
    let page = accounts.scan_at(first.timestamp, "k", "l", 15).await.unwrap();
    assert_eq!((told(&page), page.next.clone()), (expected(0..15, "first"), Some(Key::from("k15"))));
    let rest = accounts.scan_at(first.timestamp, page.next.unwrap(), "", 15).await.unwrap();
    assert_eq!((told(&rest), rest.next), (expected(15..20, "first"), None));
    let now = accounts.scan_with_snapshot("k10", "", 100).await.unwrap();
    assert_eq!((told(&now.page), now.page.next), (expected(10..30, "second"), None));
    let before = accounts.scan_at(now.timestamp, "k05", "k10", 100).await.unwrap();
    assert_eq!(told(&before), expected(5..10, "first"), "the same snapshot");

    // Before anything was written, nothing was there; and what was so long ago says when that was.
    let stale = accounts.scan_stale(Duration::from_secs(8), "", "", 100).await.unwrap();
    assert!(stale.timestamp < first.timestamp && stale.page.entries.is_empty(), "{stale:?}");
    // Keys with a tag are in one shard, and read there alone.
    accounts.put("{tag}1", "x").await.unwrap();
    assert_eq!(accounts.scan("{tag}", "{tag~", 10).await.unwrap().entries.len(), 1);
    let mut txn = accounts.begin().await.unwrap();
    assert_eq!(txn.scan("{tag}", "{tag}2", 10).await.unwrap().entries.len(), 1);
    txn.put("{tag}2", "y").unwrap();
    txn.commit().await.unwrap();
    let two = accounts.scan("{tag}", "{tag~", 10).await.unwrap().entries.len();
    assert_eq!(two, 2);

    let long = vec![b'k'; 5_000];
    assert!(matches!(accounts.scan(&long, "", 1).await, Err(Error::Invalid(_))));
    let unbounded = accounts.scan_now("", "", 1).await;
    assert!(matches!(unbounded, Err(Error::Invalid(Invalid::NoClockBound { .. }))), "{unbounded:?}");
}

#[tokio::test]
async fn where_clocks_are_bounded_commits_take_as_long_and_the_clock_can_be_read_by() {
    const BOUND: Duration = Duration::from_millis(40);
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    let options = |clock_bound| KeyspaceOptions {
        shards: 2,
        clock_bound: Some(clock_bound),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    let refused = db.create_keyspace("bounded", options(Duration::from_secs(2))).await;
    assert!(matches!(refused, Err(Error::Invalid(Invalid::ClockBound { .. }))), "{refused:?}");
    let bounded = db.create_keyspace("bounded", options(BOUND)).await.unwrap();
    let elsewhere = other.keyspace("bounded").await.unwrap();
    for round in 0..5 {
        let before = Instant::now();
        let (_, receipt) = bounded
            .transact_with_receipt(async |txn| (0..4).try_for_each(|key| txn.put([key], [round])))
            .await
            .unwrap();
        assert!(before.elapsed() >= BOUND, "{:?}", before.elapsed());
        let before = Instant::now();
        let snapshot = elsewhere.read_now((0..4).map(|key| [key])).await.unwrap();
        assert!(before.elapsed() >= BOUND, "{:?}", before.elapsed());
        assert!(snapshot.timestamp > receipt.timestamp);
        assert_eq!(snapshot.values, vec![Some(Value::copy_from_slice(&[round])); 4]);
        let before = Instant::now();
        let scanned = elsewhere.scan_now([0], [9], 3).await.unwrap();
        assert!(before.elapsed() >= BOUND && scanned.timestamp > snapshot.timestamp);
        assert!(scanned.page.entries.iter().all(|(_, value)| value.as_ref() == [round]), "{scanned:?}");
        assert_eq!(scanned.page.next, Some(Key::from(&[3])));
    }
}
