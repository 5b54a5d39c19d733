//! Keyspaces that comparison systems run, on the same servers and over the same connections.

use std::time::Duration;

use quorate::{
    Database, Durability, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Outcome, Rival, System,
};

use crate::support::{Cluster, accounts, count_up, increment, number};

async fn create(db: &Database, rival: impl Into<Rival>) -> Keyspace {
    let rival = rival.into();
    let options = KeyspaceOptions {
        shards: 2,
        durability: Durability::Sync,
        comparison: Some(rival),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    db.create_keyspace(rival.name(), options).await.unwrap()
}

#[tokio::test]
async fn every_system_runs_transactions_beside_the_others() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let strict = accounts(&db).await;
    strict.put("alice", "0").await.unwrap();
    for system in System::ALL {
        let keyspace = create(&db, system).await;
        let mut txn = keyspace.begin().await.unwrap();
        for key in ["alice", "bob", "carol"] {
            txn.put(key, "1").unwrap();
        }
        let receipt = txn.commit().await.unwrap();
        assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
        assert_eq!(increment(&keyspace, "bob").await.unwrap(), 2, "{system}");
        keyspace.transact(async |txn| txn.delete("carol")).await.unwrap();
        let page = keyspace.scan("", "", 10).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|(key, value)| (key.to_vec(), number(value))).collect();
        assert_eq!(found, [(b"alice".to_vec(), 1), (b"bob".to_vec(), 2)], "{system}");
        let mut txn = keyspace.begin().await.unwrap();
        txn.put("dave", "1").unwrap();
        let token = txn.token();
        txn.abort().await.unwrap();
        assert_eq!(db.outcome(&token).await.unwrap(), Outcome::Aborted, "{system}");
        let other = cluster.connect().await;
        let again = other.keyspace(system.name()).await.unwrap();
        assert_eq!(again.get("bob").await.unwrap().unwrap(), "2");
        assert_eq!(strict.get("alice").await.unwrap().unwrap(), "0", "keyspaces are apart");
    }
    for definition in db.list().await.unwrap() {
        let Some(comparison) = &definition.comparison else { continue };
        let first: Vec<_> = definition.groups().map(|group| group.replicas[0].0).collect();
        let expected = if comparison.rival.has_service() { vec![0, 1, 2] } else { vec![0, 1] };
        assert_eq!(first, expected, "{} has its leaders on different nodes", definition.name);
    }
    for system in System::ALL {
        db.drop_keyspace(system.name()).await.unwrap();
        let error = db.keyspace(system.name()).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(Invalid::KeyspaceInDrops { .. })), "{error}");
    }
}

/// Waits until the nearest replica of a quorum store has what was put.
async fn arrives(keyspace: &Keyspace, key: &str) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while keyspace.get(key).await.unwrap().is_none() {
        assert!(tokio::time::Instant::now() < deadline, "{key} is not there");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Its lack of promises is shown in the simulator; here only that it is served.
#[tokio::test]
async fn the_quorum_store_takes_what_is_put_and_has_no_transactions() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let rival = Rival::ALL.into_iter().find(|rival| !rival.is_transactional()).unwrap();
    let keyspace = create(&db, rival).await;
    let mut txn = keyspace.begin().await.unwrap();
    for key in ["alice", "bob", "carol"] {
        txn.put(key, "1").unwrap();
    }
    txn.commit().await.unwrap();
    // A majority has it. The nearest replica may not be among them, and is the one that is read.
    arrives(&keyspace, "bob").await;
    assert_eq!(increment(&keyspace, "bob").await.unwrap(), 2);
    keyspace.transact(async |txn| txn.delete("carol")).await.unwrap();
    let mut txn = keyspace.begin().await.unwrap();
    txn.put("dave", "1").unwrap();
    txn.abort().await.unwrap();
    // A put leaves at once, and is not taken back. Each of them may still be on its way to the nearest replica.
    let expected = [(b"alice".to_vec(), 1), (b"bob".to_vec(), 2), (b"dave".to_vec(), 1)];
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let page = keyspace.scan("", "", 10).await.unwrap();
        let found: Vec<_> = page.entries.iter().map(|(key, value)| (key.to_vec(), number(value))).collect();
        if found == expected {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found:?} is there, and {expected:?} was put");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // It goes on without one node, and knows after a restart of all what was put.
    cluster.crash(2);
    assert_eq!(count_up(&keyspace, "bob").await, 3);
    (0..2).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    let db = cluster.connect().await;
    assert_eq!(count_up(&db.keyspace(rival.name()).await.unwrap(), "bob").await, 4);
    db.drop_keyspace(rival.name()).await.unwrap();
}

#[tokio::test]
async fn leaders_crash_and_come_back_from_their_disks_and_without_them() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let mut keyspaces = Vec::new();
    for system in System::ALL {
        keyspaces.push(create(&db, system).await);
    }
    let mut counts = vec![0; keyspaces.len()];
    for node in 0..3 {
        cluster.crash(node);
        for (keyspace, count) in keyspaces.iter().zip(&mut counts) {
            let before = *count;
            *count = count_up(keyspace, "counter").await;
            assert!(*count > before, "{}: acknowledged increments survive", keyspace.name());
        }
        if node == 1 {
            // A replica of the last keyspace loses its disk, and has to learn everything again.
            let definition = db.list().await.unwrap().into_iter().find(|known| known.name == "txn-lock");
            let shard = &definition.unwrap().shards[0];
            assert_eq!(shard.replicas[1].0, 1);
            cluster.lose_log(node, shard.id.0);
        }
        cluster.restart(node);
    }
    (0..3).for_each(|node| cluster.crash(node));
    (0..3).for_each(|node| cluster.restart(node));
    let db = cluster.connect().await;
    for (system, count) in System::ALL.into_iter().zip(counts) {
        let keyspace = db.keyspace(system.name()).await.unwrap();
        assert!(count_up(&keyspace, "counter").await > count, "{system}: nothing acknowledged is lost");
    }
}
