//! Creating and dropping keyspaces, connecting.

use std::time::Duration;

use quorate::{Error, Invalid, Isolation, KeyspaceOptions, Options};

use crate::support::{Cluster, accounts};

fn strict() -> KeyspaceOptions {
    KeyspaceOptions::new(Isolation::Strict)
}

#[tokio::test]
async fn keyspaces_are_created_listed_and_dropped() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    accounts(&db).await;
    let feed = db.create_keyspace("feed", strict()).await.unwrap();
    feed.put("alice", "hello").await.unwrap();
    let names = |definitions: Vec<quorate::topology::Keyspace>| -> Vec<String> {
        definitions.into_iter().map(|definition| definition.name).collect()
    };
    let other = cluster.connect().await;
    assert_eq!(names(other.list().await.unwrap()), ["accounts", "feed"]);
    assert_eq!(other.keyspace("feed").await.unwrap().definition(), feed.definition());
    let shards: Vec<u32> = feed.definition().shards.iter().map(|shard| shard.id.0).collect();
    assert_eq!(shards, [3], "shard 0 is the catalogue's, 1 and 2 are those of accounts");

    db.drop_keyspace("feed").await.unwrap();
    assert_eq!(names(other.list().await.unwrap()), ["accounts"]);
    let again = db.create_keyspace("feed", strict()).await.unwrap();
    assert_eq!(again.definition().shards[0].id.0, 4, "ids are never used again");
    assert_eq!(again.get("alice").await.unwrap(), None);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_the_reason() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    accounts(&db).await;
    let table = [
        (db.create_keyspace("accounts", strict()).await.map(|_| ()), "already"),
        (db.create_keyspace("_system", strict()).await.map(|_| ()), "built-in"),
        (db.create_keyspace("a/b", strict()).await.map(|_| ()), "letters"),
        (db.keyspace("acounts").await.map(|_| ()), "accounts"),
        (db.drop_keyspace("feed").await, "there is no keyspace"),
        (db.drop_keyspace("_system").await, "built-in"),
        (db.create_keyspace("x", KeyspaceOptions { replicas: Some(2), ..strict() }).await.map(|_| ()), "odd"),
        (
            db.create_keyspace("x", KeyspaceOptions { replicas: Some(5), ..strict() }).await.map(|_| ()),
            "nodes",
        ),
        (
            db.create_keyspace("x", KeyspaceOptions { sites: vec!["mars".into()], ..strict() })
                .await
                .map(|_| ()),
            "a, b, c",
        ),
    ];
    for (result, expected) in table {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_catalogue_can_be_read_and_not_written() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    accounts(&db).await;
    let system = db.keyspace("_system").await.unwrap();
    assert!(system.get("keyspace/accounts").await.unwrap().is_some());
    let error = system.put("next/shard", "0").await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::SystemKeyspace { .. })), "{error}");
}

#[tokio::test]
async fn connecting_says_what_is_wrong() {
    let cluster = Cluster::start();
    let options = Options { site: Some("mars".to_owned()), ..Options::default() };
    let error = quorate::connect_with(cluster.addresses(), options).await.unwrap_err();
    assert!(error.to_string().contains("a, b, c"), "{error}");
    let error = quorate::connect("127.0.0.1:1").await.unwrap_err();
    assert!(matches!(error, Error::Connect { .. }), "{error}");
    let one_is_enough = ["127.0.0.1:1", cluster.addresses()[1].as_str()];
    let db = quorate::connect(one_is_enough).await.unwrap();
    assert_eq!(db.topology().nodes.len(), 3);
}

#[tokio::test]
async fn a_closed_database_answers_that_it_is_closed() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    let open = accounts.begin().await.unwrap();
    open.put("alice", "1").unwrap();
    db.close().await;
    assert!(matches!(accounts.get("alice").await, Err(Error::Closed)));
    assert!(matches!(open.get("alice").await, Err(Error::Closed)));
}

#[tokio::test]
async fn handles_outlive_the_database_that_they_came_from() {
    let cluster = Cluster::start();
    let accounts = {
        let db = cluster.connect().await;
        accounts(&db).await
    };
    accounts.put("alice", "1").await.unwrap();
}

#[tokio::test]
async fn a_node_that_is_stopped_while_it_creates_replicas_begins_again_at_once() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let many = KeyspaceOptions { shards: 200, ..strict() };
    let created = db.create_keyspace_with("many", many, Some(Duration::ZERO), |_| {}).await;
    assert!(matches!(created.map(|keyspace| keyspace.definition()), Err(Error::NotServing { .. })));
    for _ in 0..3 {
        for node in 0..3 {
            cluster.crash(node);
            cluster.restart(node);
        }
    }
    let keyspace = db.await_keyspace("many", None, |_| {}).await.unwrap();
    keyspace.put("key", "value").await.unwrap();
}

#[tokio::test]
async fn a_keyspace_of_many_shards_is_created_and_only_then_waited_for() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let many = KeyspaceOptions { shards: 40, ..strict() };
    let created = db.create_keyspace_with("many", many.clone(), Some(Duration::ZERO), |_| {}).await;
    let error = created.map(|keyspace| keyspace.definition()).unwrap_err();
    assert!(matches!(&error, Error::NotServing { shards: 40, .. }), "{error}");
    assert!(
        error.to_string().contains("is created") && error.to_string().contains("keyspace wait many"),
        "{error}"
    );
    let again = db.create_keyspace("many", many).await.map(|keyspace| keyspace.definition());
    assert!(matches!(again, Err(Error::Invalid(Invalid::KeyspaceExists { .. }))), "{again:?}");

    let mut told = Vec::new();
    let keyspace = db.await_keyspace("many", None, |progress| told.push(progress)).await.unwrap();
    assert_eq!(told.last().map(|progress| (progress.serving, progress.shards)), Some((40, 40)));
    for key in 0..40 {
        keyspace.put(format!("key{key}"), "value").await.unwrap();
    }
    // The keyspaces that were created in one batch are found again.
    for node in 0..3 {
        cluster.crash(node);
        cluster.restart(node);
    }
    for key in 0..40 {
        assert!(keyspace.get(format!("key{key}")).await.unwrap().is_some());
    }
    assert_eq!(cluster.status(0).replicas.len(), 41);
}
