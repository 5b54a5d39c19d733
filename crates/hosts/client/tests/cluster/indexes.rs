//! Secondary indexes through real servers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use quorate::index::{Source, Stage, Unparsable};
use quorate::{
    Database, Error, IndexFault, IndexOptions, Invalid, Isolation, Key, Keyspace, KeyspaceOptions, Page,
    Transaction,
};

use crate::support::Cluster;

const ISOLATIONS: [Isolation; 2] = [Isolation::Strict, Isolation::Snapshot];

async fn create(db: &Database, isolation: Isolation) -> Keyspace {
    let options = KeyspaceOptions { shards: 3, ..KeyspaceOptions::new(isolation) };
    let users = db.create_keyspace("users", options).await.unwrap();
    users.with_deadline(Duration::from_secs(60))
}

fn on(source: &str) -> IndexOptions {
    IndexOptions::new(source.parse::<Source>().unwrap())
}

fn living_in(city: u64) -> String {
    format!("{{\"city\":\"c{city}\"}}")
}

fn fault<T: std::fmt::Debug>(result: quorate::Result<T>) -> IndexFault {
    match result {
        Err(Error::Invalid(Invalid::Index(fault))) => fault,
        other => panic!("{other:?}"),
    }
}

async fn find(users: &Keyspace, index: &str, value: &str) -> Vec<String> {
    let page = users.find(index, value, 1_000).await.unwrap();
    assert!(page.next.is_none());
    page.entries.iter().map(|found| String::from_utf8_lossy(&found.key).into_owned()).collect()
}

/// The index and the data agree, in one transaction.
async fn assert_agrees(users: &Keyspace) -> usize {
    let both = async |txn: Transaction| {
        let Page { entries, next } = txn.scan("", "", 10_000).await?;
        assert!(next.is_none());
        let found = txn.index("by-city").range(None, None, 10_000).await?;
        assert!(found.next.is_none());
        Ok((entries, found.entries))
    };
    let (entries, found) = users.transact(both).await.unwrap();
    let expected: BTreeSet<(String, Key)> = entries
        .iter()
        .map(|(key, value)| (String::from_utf8_lossy(value).into_owned(), key.clone()))
        .collect();
    let present: BTreeSet<(String, Key)> =
        found.iter().map(|found| (format!("{{\"city\":{}}}", found.by), found.key.clone())).collect();
    assert_eq!(present, expected);
    assert!(found.iter().all(|found| entries.contains(&(found.key.clone(), found.value.clone()))));
    found.len()
}

#[tokio::test]
async fn keys_are_found_by_their_values() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let users = create(&db, isolation).await;
        users.put("ada", living_in(1)).await.unwrap();
        users.put("{bob}/profile", living_in(2)).await.unwrap();
        let missing = fault(users.find("by-city", "c1", 10).await);
        assert!(missing.to_string().contains("no index \"by-city\""), "{missing}");
        let mut told = Vec::new();
        users.create_index("by-city", &on("json:/city"), |progress| told.push(progress)).await.unwrap();
        assert_eq!(told.last().map(|last| (last.keys, last.entries)), Some((2, 2)), "{isolation:?}");
        assert_eq!(find(&users, "by-city", "c1").await, ["ada"]);
        // One transaction moves one, adds one and takes one away, and sees that before it commits.
        let change = async |txn: Transaction| {
            txn.put("ada", living_in(2))?;
            txn.put("eve", living_in(2))?;
            let before = txn.index("by-city").get("c2", 10).await?.entries.len();
            txn.delete("{bob}/profile")?;
            assert_eq!(txn.get("ada").await?.as_deref(), Some(living_in(2).as_bytes()));
            Ok((before, txn.index("by-city").get("c2", 10).await?.entries.len()))
        };
        assert_eq!(users.transact(change).await.unwrap(), (3, 2));
        assert_eq!(find(&users, "by-city", "c2").await, ["ada", "eve"]);
        assert!(find(&users, "by-city", "c1").await.is_empty());
        assert_eq!(assert_agrees(&users).await, 2);
        // Pages follow each other.
        let first = users.find("by-city", "c2", 1).await.unwrap();
        let next = first.next.unwrap();
        let rest = async |txn: Transaction| txn.index("by-city").resume(next.clone()).get("c2", 5).await;
        let rest = users.transact(rest).await.unwrap();
        assert_eq!(
            (first.entries[0].key.as_slice(), rest.entries[0].key.as_slice()),
            (&b"ada"[..], &b"eve"[..])
        );
        assert!(rest.next.is_none() && rest.entries.len() == 1);
        // The system's keys are nobody's.
        let Page { entries, .. } = users.scan("", "", 100).await.unwrap();
        assert_eq!(entries.len(), 2, "entries are not seen");
        let reserved = fault(users.put(b"\xff\xffx", "y").await);
        assert!(matches!(reserved, IndexFault::Reserved { .. }));
        let mut changes = users.changes(None).await.unwrap();
        users.put("fay", living_in(3)).await.unwrap();
        let mut told: Vec<Key> = Vec::new();
        while !told.iter().any(|key| key.as_slice() == b"fay") {
            match changes.next().await {
                Ok(page) => {
                    let writes = page.changes.into_iter().flat_map(|change| change.writes);
                    told.extend(writes.map(|write| write.key));
                }
                Err(Error::ChangesUnavailable { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            told.iter().all(|key| !key.starts_with(b"\xff\xff")),
            "consumers are told of users' keys: {told:?}"
        );
    }
}

#[tokio::test]
async fn values_that_do_not_fit_are_refused_in_words() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let users = create(&db, isolation).await;
        users.put("bad", "no json").await.unwrap();
        let told = fault(users.create_index("by-city", &on("json:/city"), |_| {}).await).to_string();
        assert!(
            told.contains("\"bad\"") && told.contains("no JSON") && told.contains("dropped again"),
            "{told}"
        );
        assert!(users.indexes().await.unwrap().is_empty());
        let lenient = IndexOptions { unparsable: Unparsable::LeaveOut, ..on("json:/city") };
        users.create_index("by-city", &lenient, |_| {}).await.unwrap();
        users.put("worse", "{").await.unwrap();
        let unique = IndexOptions { unique: true, unparsable: Unparsable::LeaveOut, ..on("json:/mail") };
        users.put("ada", r#"{"mail":"a@b"}"#).await.unwrap();
        users.put("eve", r#"{"mail":"a@b"}"#).await.unwrap();
        let told = fault(users.create_index("by-mail", &unique, |_| {}).await).to_string();
        assert!(told.contains("unique") && told.contains("\"ada\"") && told.contains("\"eve\""), "{told}");
        users.delete("eve").await.unwrap();
        users.create_index("by-mail", &unique, |_| {}).await.unwrap();
        let told = fault(users.put("eve", r#"{"mail":"a@b"}"#).await).to_string();
        assert!(told.contains("belongs to \"ada\""), "{told}");
        // It moves from one to the other.
        let swap = async |txn: Transaction| {
            txn.put("ada", r#"{"mail":"c@d"}"#)?;
            txn.put("eve", r#"{"mail":"a@b"}"#)
        };
        users.transact(swap).await.unwrap();
        assert_eq!(find(&users, "by-mail", "a@b").await, ["eve"]);
        let strict = on("bytes:0..3");
        let told = fault(users.create_index("by-mail", &strict, |_| {}).await).to_string();
        assert!(told.contains("already"), "{told}");
        users.create_index("by-bytes", &strict, |_| {}).await.unwrap_err();
        users.delete("worse").await.unwrap();
        users.create_index("by-bytes", &strict, |_| {}).await.unwrap();
        let told = fault(users.put("short", "ab").await).to_string();
        assert!(told.contains("has 2 bytes"), "{told}");
    }
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let users = create(&db, Isolation::Serializable).await;
    let told = fault(users.create_index("by-city", &on("json:/city"), |_| {}).await).to_string();
    assert!(told.contains("cannot have indexes"), "{told}");
}

/// A client that has heard of no index cannot commit past it: its shards refuse it, it asks, and keeps the index from there on.
#[tokio::test]
async fn clients_that_do_not_know_an_index_learn_of_it() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let (db, other) = (cluster.connect().await, cluster.connect().await);
        let users = create(&db, isolation).await;
        let old = other.keyspace("users").await.unwrap().with_deadline(Duration::from_secs(60));
        old.put("ada", living_in(1)).await.unwrap();
        let mut open = old.begin().await.unwrap();
        open.get("ada").await.unwrap();
        open.put("eve", living_in(1)).unwrap();
        users.create_index("by-city", &on("json:/city"), |_| {}).await.unwrap();
        assert!(matches!(open.commit().await, Err(Error::Conflict)), "it has begun before the index");
        old.put("eve", living_in(1)).await.unwrap();
        // In a `snapshot` keyspace, other sessions see a commit that passed a silent replica once their clocks have reached it.
        let begun = Instant::now();
        while find(&users, "by-city", "c1").await != ["ada", "eve"] {
            assert!(
                isolation == Isolation::Snapshot,
                "a commit is not seen by a transaction that began later"
            );
            assert!(begun.elapsed() < Duration::from_secs(30), "a commit is never seen by other sessions");
        }
        // And the other way round: it is dropped, and created under the same name.
        users.drop_index("by-city", |_| {}).await.unwrap();
        old.put("eve", living_in(2)).await.unwrap();
        users.create_index("by-city", &on("json:/city"), |_| {}).await.unwrap();
        old.put("ada", living_in(2)).await.unwrap();
        assert_eq!(find(&old, "by-city", "c2").await, ["ada", "eve"]);
        assert_eq!(assert_agrees(&users).await, 2);
        let stages: Vec<Stage> = old.indexes().await.unwrap().iter().map(|index| index.stage).collect();
        assert_eq!(stages, [Stage::Ready]);
    }
}

/// An index is created while clients write that know nothing of it, and one node fails on the way.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_built_beside_writers_and_a_crash() {
    for isolation in ISOLATIONS {
        let mut cluster = Cluster::start();
        let db = cluster.connect().await;
        let users = create(&db, isolation).await;
        for page in 0..4 {
            let fill = async |txn: Transaction| {
                (0..100)
                    .try_for_each(|key| txn.put(format!("user{:03}", page * 100 + key), living_in(key % 7)))
            };
            users.transact(fill).await.unwrap();
        }
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let mut writers = Vec::new();
        for writer in 0..4_u64 {
            let db = cluster.connect().await;
            let users = db.keyspace("users").await.unwrap().with_deadline(Duration::from_secs(60));
            let stopped = stopped.clone();
            writers.push(tokio::spawn(async move {
                let mut written = 0;
                while !*stopped.borrow() {
                    let key = format!("user{:03}", (writer + written * 37) % 450);
                    // Each key is written by several: none of them may undo the other's entries.
                    match written % 5 {
                        4 => users.delete(&key).await.unwrap(),
                        _ => users.put(&key, living_in(written % 11)).await.unwrap(),
                    }
                    written += 1;
                }
                db.close().await;
                written
            }));
        }
        let building = {
            let users = users.clone();
            tokio::spawn(async move { users.create_index("by-city", &on("json:/city"), |_| {}).await })
        };
        tokio::time::sleep(Duration::from_millis(200)).await;
        cluster.crash(2);
        tokio::time::sleep(Duration::from_millis(500)).await;
        cluster.restart(2);
        building.await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        stop.send(true).unwrap();
        for writer in writers {
            assert!(writer.await.unwrap() > 0);
        }
        assert!(assert_agrees(&users).await > 0, "{isolation:?}");
        users.drop_index("by-city", |_| {}).await.unwrap();
        let gone = fault(users.find("by-city", "c1", 1).await);
        assert!(matches!(gone, IndexFault::NoSuchIndex { .. }));
    }
}
