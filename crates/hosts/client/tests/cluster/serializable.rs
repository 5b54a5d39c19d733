//! Serializable keyspaces: one-round transactions, and those that read before they know what they write.

use std::time::Duration;

use quorate::{Batch, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Outcome, Seen};

use crate::support::{Cluster, increment, number};

async fn create(db: &Database) -> Keyspace {
    let options = KeyspaceOptions {
        shards: 3,
        durability: Durability::Sync,
        ..KeyspaceOptions::new(Isolation::Serializable)
    };
    db.create_keyspace("orders", options).await.unwrap()
}

/// Increments, with patience for leaders that change.
async fn count_up(keyspace: &Keyspace, key: &str) -> u64 {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        match increment(keyspace, key).await {
            Ok(count) => return count,
            Err(error) => assert!(tokio::time::Instant::now() < deadline, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn transactions_run_as_in_other_keyspaces() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let orders = create(&db).await;
    let mut txn = orders.begin().await.unwrap();
    for key in ["alice", "bob", "carol", "dave"] {
        txn.put(key, "1").unwrap();
    }
    let receipt = txn.commit().await.unwrap();
    assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    // Each key is read, and all that was read is compared: over several shards they have to agree.
    let sum = orders
        .transact(async |txn| {
            let mut sum = 0;
            for key in ["alice", "bob", "carol"] {
                sum += txn.get(key).await?.map_or(0, |value| number(&value));
            }
            txn.put("dave", sum.to_string())?;
            Ok(sum)
        })
        .await
        .unwrap();
    assert_eq!(sum, 3);
    orders.transact(async |txn| txn.delete("carol")).await.unwrap();
    let page = orders.scan("", "", 10).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|(key, value)| (key.to_vec(), number(value))).collect();
    assert_eq!(found, [(b"alice".to_vec(), 1), (b"bob".to_vec(), 1), (b"dave".to_vec(), 3)]);
    let values = orders.read_only(["dave", "carol", "alice"]).await.unwrap();
    assert_eq!(values.iter().flatten().map(|value| number(value)).collect::<Vec<_>>(), [3, 1]);
    let error = orders.read_at(receipt.timestamp, ["alice"]).await.unwrap_err();
    assert!(matches!(error, Error::SnapshotTooOld { .. }), "nothing of the past is kept: {error}");
    db.drop_keyspace("orders").await.unwrap();
}

/// A transaction that has read what another has written since commits nowhere, on whichever shards its keys lie.
#[tokio::test]
async fn what_has_changed_since_it_was_read_is_a_conflict() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let orders = create(&db).await;
    for others in [&["a"][..], &["a", "b", "c", "d", "e"][..]] {
        let mut txn = orders.begin().await.unwrap();
        for key in others {
            txn.get(key).await.unwrap();
        }
        increment(&orders, "a").await.unwrap();
        for key in others {
            txn.put(key, "late").unwrap();
        }
        let token = txn.token();
        let error = txn.commit().await.unwrap_err();
        assert!(matches!(error, Error::Conflict), "{error}");
        assert_eq!(db.outcome(&token).await.unwrap(), Outcome::Aborted);
        // A key that comes into a range that was scanned is such a change, too.
        let mut txn = orders.begin().await.unwrap();
        txn.scan("f", "g", 10).await.unwrap();
        increment(&orders, &format!("f{}", others.len())).await.unwrap();
        txn.put("z", "late").unwrap();
        let error = txn.commit().await.unwrap_err();
        assert!(matches!(error, Error::Conflict), "{error}");
    }
    assert_eq!(number(&orders.get("a").await.unwrap().unwrap()), 2);
    assert_eq!(orders.get("z").await.unwrap(), None);
}

/// What a client begins comes after what another one has seen, however far ahead that is.
#[tokio::test]
async fn sessions_go_on_at_other_clients() {
    let cluster = Cluster::start();
    let (writer, reader) = (cluster.connect().await, cluster.connect().await);
    let orders = create(&writer).await;
    let others = reader.keyspace("orders").await.unwrap();
    let increment = || Batch::new().increment("a", 1);
    let first = orders.apply(increment()).await.unwrap().receipt().unwrap().timestamp;
    let seen = writer.seen();
    assert_eq!(seen.to_string(), first.micros.to_string());
    let ahead: Seen = (first.micros + 5_000_000).to_string().parse().unwrap();
    for seen in [&ahead, &seen] {
        reader.observe(seen).await.unwrap();
        assert_eq!(reader.seen(), ahead, "nothing is forgotten");
    }
    let second = others.apply(Batch::new().increment("b", 1)).await.unwrap().receipt().unwrap().timestamp;
    assert!(second.micros > first.micros + 5_000_000, "{second} is not after {first} and five seconds");
    writer.observe(&reader.seen()).await.unwrap();
    let third = orders.apply(increment()).await.unwrap().receipt().unwrap().timestamp;
    assert!(third.micros > second.micros, "{third} is not after {second}");
}

/// Somebody else can ask for the outcome, and whoever asks before a transaction has been heard of sees to it that it comes to nothing.
#[tokio::test]
async fn others_learn_what_became_of_a_transaction() {
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    let orders = create(&db).await;
    let mut txn = orders.begin().await.unwrap();
    for key in ["a", "b", "c", "d"] {
        txn.put(key, "1").unwrap();
    }
    let receipt = txn.commit().await.unwrap();
    let _ = other.keyspace("orders").await.unwrap();
    assert_eq!(other.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    let mut txn = orders.begin().await.unwrap();
    txn.put("e", "1").unwrap();
    let token = txn.token();
    txn.abort().await.unwrap();
    assert_eq!(other.outcome(&token).await.unwrap(), Outcome::Aborted);
}

#[tokio::test]
async fn a_node_is_missed_by_nobody_and_all_of_them_remember() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let orders = create(&db).await;
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        assert_eq!(count_up(&orders, key).await, 1);
    }
    for node in 0..3 {
        cluster.crash(node);
        for key in keys {
            assert_eq!(count_up(&orders, key).await, 2 + node as u64, "{key} without node {node}");
        }
        cluster.restart(node);
        // What it has missed it learns before the next one is gone.
        for key in ["g", "h", "i"] {
            count_up(&orders, key).await;
        }
        wait_until_all_serve(&cluster).await;
    }
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    let db = cluster.connect().await;
    let orders = db.keyspace("orders").await.unwrap();
    for key in keys {
        assert_eq!(count_up(&orders, key).await, 5, "{key} after all nodes were gone");
    }
}

async fn wait_until_all_serve(cluster: &Cluster) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    let all_serve =
        || (0..3).all(|node| cluster.status(node).replicas.iter().all(|replica| replica.state == "normal"));
    while !all_serve() {
        assert!(tokio::time::Instant::now() < deadline, "replicas come back");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
