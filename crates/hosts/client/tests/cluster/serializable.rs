//! Serializable keyspaces: one-round transactions, and those that read before they know what they write.

use quorate::{Batch, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Outcome, Seen};

use crate::stories;
use crate::support::{Cluster, increment, number};

async fn create(db: &Database) -> Keyspace {
    let options = KeyspaceOptions {
        shards: 3,
        durability: Durability::Sync,
        ..KeyspaceOptions::new(Isolation::Serializable)
    };
    db.create_keyspace("orders", options).await.unwrap()
}

#[tokio::test]
async fn transactions_run_as_in_other_keyspaces() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let orders = create(&db).await;
    let receipt = stories::transactions_run(&db, &orders).await;
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

/// A transaction that a client begins comes after what another one has seen, however far ahead that is.
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

#[tokio::test]
async fn others_learn_what_became_of_a_transaction() {
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    stories::others_learn_outcomes(&create(&db).await, &other).await;
}

#[tokio::test]
async fn a_node_is_missed_by_nobody_and_all_of_them_remember() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let orders = create(&db).await;
    stories::nodes_crash_and_remember(&mut cluster, &orders).await;
}
