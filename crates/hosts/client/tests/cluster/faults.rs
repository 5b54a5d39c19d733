//! Nodes that crash and come back.

use std::time::Duration;

use quorate::Error;

use crate::support::{Cluster, Load, accounts, impatient};

#[tokio::test]
async fn a_minority_may_crash_and_come_back_under_load() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let load = Load::start(&accounts);
    for node in 0..3 {
        load.goes_on("the start").await;
        cluster.crash(node);
        load.goes_on(&format!("the crash of {node}")).await;
        cluster.restart(node);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    load.goes_on("the last restart").await;
    load.end().await;
}

#[tokio::test]
async fn without_a_majority_nothing_is_available_and_nobody_waits_for_ever() {
    let mut cluster = Cluster::start();
    accounts(&cluster.connect().await).await.put("alice", "1").await.unwrap();
    let db = cluster.connect_with(impatient(Duration::from_secs(2))).await;
    let accounts = db.keyspace("accounts").await.unwrap();
    cluster.crash(1);
    cluster.crash(2);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = tokio::time::Instant::now();
    let error = accounts.put("alice", "2").await.unwrap_err();
    assert!(before.elapsed() < Duration::from_secs(10), "{:?}", before.elapsed());
    let Error::Unavailable { missing } = &error else { panic!("{error}") };
    assert_eq!(missing.iter().map(|missing| missing.site.as_str()).collect::<Vec<_>>(), ["b", "c"]);
    assert!(error.to_string().contains(&cluster.addresses()[1]), "{error}");

    cluster.restart(1);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while let Err(error) = accounts.put("alice", "3").await {
        assert!(tokio::time::Instant::now() < deadline, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(accounts.get("alice").await.unwrap().unwrap(), "3");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_crash_of_all_nodes_at_once() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    for number in 0..20 {
        accounts.put(format!("key{number}"), "1").await.unwrap();
    }
    for node in 0..3 {
        cluster.crash(node);
    }
    for node in 0..3 {
        cluster.restart(node);
    }
    let again = cluster.connect().await.keyspace("accounts").await.unwrap();
    for number in 0..20 {
        assert!(again.get(format!("key{number}")).await.unwrap().is_some(), "key{number}");
    }
}

#[tokio::test]
async fn a_transaction_of_a_client_that_vanished_is_in_nobodys_way() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let survivors = accounts(&db).await;
    let runtime = std::thread::spawn({
        let addresses = cluster.addresses().to_vec();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let db = quorate::connect(addresses).await.unwrap();
                let accounts = db.keyspace("accounts").await.unwrap();
                let mut txn = accounts.begin().await.unwrap();
                txn.put("alice", "1").unwrap();
                // The prepare leaves, and nobody is there any more when its answers come.
                let _ = tokio::time::timeout(Duration::from_micros(200), txn.commit()).await;
            });
            runtime.shutdown_background();
        }
    });
    runtime.join().unwrap();
    survivors.put("alice", "2").await.unwrap();
    assert_eq!(survivors.get("alice").await.unwrap().unwrap(), "2");
}
