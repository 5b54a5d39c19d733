//! Stories that keyspaces of several isolations share.

use quorate::{Database, Keyspace, Outcome, Receipt};

use crate::support::{Cluster, count_up, number};

/// A new keyspace runs transactions that write, read, delete and scan. Gives the first commit.
pub(crate) async fn transactions_run(db: &Database, keyspace: &Keyspace) -> Receipt {
    let mut txn = keyspace.begin().await.unwrap();
    for key in ["alice", "bob", "carol", "dave"] {
        txn.put(key, "1").unwrap();
    }
    let receipt = txn.commit().await.unwrap();
    assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    // The keys that are read lie on several shards.
    let sum = keyspace
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
    keyspace.transact(async |txn| txn.delete("carol")).await.unwrap();
    let page = keyspace.scan("", "", 10).await.unwrap();
    let found: Vec<_> = page.entries.iter().map(|(key, value)| (key.to_vec(), number(value))).collect();
    assert_eq!(found, [(b"alice".to_vec(), 1), (b"bob".to_vec(), 1), (b"dave".to_vec(), 3)]);
    let values = keyspace.read_only(["dave", "carol", "alice"]).await.unwrap();
    assert_eq!(values.iter().flatten().map(|value| number(value)).collect::<Vec<_>>(), [3, 1]);
    receipt
}

/// Another client can ask for the outcome; a client that asks before the cluster has heard of a transaction aborts it by that.
pub(crate) async fn others_learn_outcomes(keyspace: &Keyspace, other: &Database) {
    let mut txn = keyspace.begin().await.unwrap();
    for key in ["a", "b", "c", "d"] {
        txn.put(key, "1").unwrap();
    }
    let receipt = txn.commit().await.unwrap();
    let _ = other.keyspace(keyspace.name()).await.unwrap();
    assert_eq!(other.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    let mut txn = keyspace.begin().await.unwrap();
    txn.put("e", "1").unwrap();
    let token = txn.token();
    txn.abort().await.unwrap();
    assert_eq!(other.outcome(&token).await.unwrap(), Outcome::Aborted);
}

/// Transactions commit without each of three nodes in turn, and after all of them were gone at once.
pub(crate) async fn nodes_crash_and_remember(cluster: &mut Cluster, keyspace: &Keyspace) {
    let keys = ["a", "b", "c", "d", "e", "f"];
    for key in keys {
        assert_eq!(count_up(keyspace, key).await, 1);
    }
    for node in 0..3 {
        cluster.crash(node);
        for key in keys {
            assert_eq!(count_up(keyspace, key).await, 2 + node as u64, "{key} without node {node}");
        }
        cluster.restart(node);
        // The node learns the entries that it has missed before the next one is gone.
        for key in ["g", "h", "i"] {
            count_up(keyspace, key).await;
        }
        cluster.all_serve().await;
    }
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    let keyspace = cluster.connect().await.keyspace(keyspace.name()).await.unwrap();
    for key in keys {
        assert_eq!(count_up(&keyspace, key).await, 5, "{key} after all nodes were gone");
    }
}
