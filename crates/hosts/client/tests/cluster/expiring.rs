//! Values that expire, through real servers.

use std::time::{Duration, SystemTime};

use quorate::expiry::{Sweeper, SweeperConfig};
use quorate::index::Source;
use quorate::{
    Applied, Batch, Database, Error, IndexFault, IndexOptions, Invalid, Isolation, Keyspace, KeyspaceOptions,
    StepAnswer, Transaction,
};
use quorate_core::Instant;

use crate::support::Cluster;

const ISOLATIONS: [Isolation; 2] = [Isolation::Strict, Isolation::Snapshot];

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(3600);
const SHORT: Duration = Duration::from_millis(50);

async fn create(db: &Database, isolation: Isolation) -> Keyspace {
    let options = KeyspaceOptions { shards: 3, expiring: true, ..KeyspaceOptions::new(isolation) };
    let sessions = db.create_keyspace("sessions", options).await.unwrap();
    assert!(sessions.definition().expiring);
    sessions.with_deadline(Duration::from_secs(60))
}

/// Puts keys whose values are over when this returns.
async fn put_over(keyspace: &Keyspace, keys: &[&str]) {
    let put = async |txn: Transaction| keys.iter().try_for_each(|key| txn.put_for(key, "over", SHORT));
    keyspace.transact(put).await.unwrap();
    tokio::time::sleep(2 * SHORT).await;
}

async fn keys_of(keyspace: &Keyspace) -> Vec<String> {
    let page = keyspace.scan("", "", 100).await.unwrap();
    page.entries.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect()
}

/// Runs a sweeper until it has nothing to do.
async fn sweep(keyspace: &Keyspace) -> u64 {
    let mut sweeper = Sweeper::new(SweeperConfig::default(), 0);
    let began = tokio::time::Instant::now();
    for _ in 0..1_000 {
        let now = Instant::START + began.elapsed();
        if let Some(until) = keyspace.sweep_step(&mut sweeper, now).await {
            if until.saturating_since(now) >= Duration::from_millis(900) {
                assert_eq!(sweeper.swept().failures, 0);
                return sweeper.swept().keys;
            }
            tokio::time::sleep(until.saturating_since(now)).await;
        }
    }
    panic!("{:?}", sweeper.swept());
}

#[tokio::test]
async fn a_key_holds_a_value_for_its_lifetime() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let sessions = create(&db, isolation).await;
        sessions.put("stays", "1").await.unwrap();
        sessions.put_for("lives", "2", LONG).await.unwrap();
        put_over(&sessions, &["a", "b", "c", "d"]).await;
        assert_eq!(sessions.get("stays").await.unwrap().as_deref(), Some(&b"1"[..]));
        let lives = sessions.get_with_expiry("lives").await.unwrap().unwrap();
        assert_eq!(&lives.value[..], b"2");
        let left = lives.remaining().unwrap();
        assert!(left <= LONG && left > LONG / 2, "{left:?}");
        assert_eq!(sessions.get_with_expiry("stays").await.unwrap().unwrap().expires_at, None);
        // Each way to read finds out that a value is over.
        assert_eq!(sessions.get("a").await.unwrap(), None, "{isolation:?}");
        let snapshot = sessions.read_only_with_snapshot(["b", "lives", "stays"]).await.unwrap();
        assert_eq!(snapshot.values.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true, true]);
        assert_eq!(snapshot.expiries, [None, lives.expires_at, None]);
        assert_eq!(keys_of(&sessions).await, ["lives", "stays"]);
        let in_one =
            async |txn: Transaction| Ok((txn.get_many(["c", "d"]).await?, txn.scan("", "", 10).await?));
        let (values, page) = sessions.transact(in_one).await.unwrap();
        assert_eq!((values, page.entries.len()), (vec![None, None], 2));
        // The transaction that finds it over deletes it, so nothing is left to sweep.
        assert_eq!(sweep(&sessions).await, 0);
        // A later write begins anew, and one without a lifetime stays.
        sessions.put_for("a", "3", LONG).await.unwrap();
        sessions.put("lives", "4").await.unwrap();
        assert_eq!(sessions.get_with_expiry("lives").await.unwrap().unwrap().expires_at, None);
        assert_eq!(keys_of(&sessions).await, ["a", "lives", "stays"]);
        // Its own writes a transaction sees, however soon they are over.
        let own = async |txn: Transaction| {
            txn.put_for("own", "5", Duration::from_millis(1))?;
            let read = txn.get("own").await?;
            let scanned = txn.scan("own", "owo", 10).await?.entries.len();
            Ok((read, scanned))
        };
        let (read, scanned) = sessions.transact(own).await.unwrap();
        assert_eq!((read.as_deref(), scanned), (Some(&b"5"[..]), 1));
    }
}

#[tokio::test]
async fn what_is_over_is_swept() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let sessions = create(&db, isolation).await;
        let keys: Vec<String> = (0..70).map(|number| format!("k{number}")).collect();
        put_over(&sessions, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
        sessions.put_for("k7", "renewed", LONG).await.unwrap();
        sessions.put("k8", "stays").await.unwrap();
        sessions.delete("k9").await.unwrap();
        // Another client, which has heard of nothing, sweeps beside.
        let other = cluster.connect().await;
        let other = other.keyspace("sessions").await.unwrap();
        let (one, two) = tokio::join!(sweep(&sessions), sweep(&other));
        assert_eq!(one + two, 67, "{isolation:?}");
        assert_eq!(keys_of(&sessions).await, ["k7", "k8"]);
        assert_eq!(sweep(&other).await, 0);
    }
}

#[tokio::test]
async fn reads_in_the_past_go_by_their_timestamp() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let sessions = create(&db, Isolation::Strict).await;
    let put = async |txn: Transaction| txn.put_for("a", "1", Duration::from_millis(500));
    let ((), receipt) = sessions.transact_with_receipt(put).await.unwrap();
    tokio::time::sleep(Duration::from_millis(600)).await;
    let at =
        |after: u64| quorate::Timestamp { micros: receipt.timestamp.micros + after, ..receipt.timestamp };
    let there = sessions.read_at(at(1), ["a"]).await.unwrap();
    assert_eq!(there[0].as_deref(), Some(&b"1"[..]), "nobody has deleted it");
    assert_eq!(sessions.read_at(at(550_000), ["a"]).await.unwrap(), [None]);
    assert!(sessions.scan_at(at(550_000), "", "", 10).await.unwrap().entries.is_empty());
    // The deletion of the key changes nothing of that.
    assert_eq!(sessions.get("a").await.unwrap(), None);
    let there = sessions.read_at(at(1), ["a"]).await.unwrap();
    assert_eq!(there[0].as_deref(), Some(&b"1"[..]));
    assert_eq!(sessions.read_at(at(550_000), ["a"]).await.unwrap(), [None]);
}

#[tokio::test]
async fn indexes_are_on_values_and_fall_with_them() {
    for isolation in ISOLATIONS {
        let cluster = Cluster::start();
        let db = cluster.connect().await;
        let sessions = create(&db, isolation).await;
        sessions.put_for("before", r#"{"user":"ada"}"#, LONG).await.unwrap();
        let unique =
            IndexOptions { unique: true, ..IndexOptions::new("json:/user".parse::<Source>().unwrap()) };
        sessions.create_index("by-user", &unique, |_| {}).await.unwrap();
        assert_eq!(sessions.find("by-user", "ada", 10).await.unwrap().entries.len(), 1);
        let names: Vec<String> =
            sessions.indexes().await.unwrap().into_iter().map(|index| index.name).collect();
        assert_eq!(names, ["by-user"], "that on expiries is nobody's");
        sessions.put_for("s1", r#"{"user":"bob"}"#, SHORT).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;
        // The value belongs to a key that is there no more.
        sessions.put_for("s2", r#"{"user":"bob"}"#, LONG).await.unwrap();
        let found = sessions.find("by-user", "bob", 10).await.unwrap();
        assert_eq!(found.entries.iter().map(|found| &found.key[..]).collect::<Vec<_>>(), [b"s2"]);
        let second = sessions.put("s3", r#"{"user":"bob"}"#).await;
        assert!(
            matches!(second, Err(Error::Invalid(Invalid::Index(IndexFault::NotUnique(_))))),
            "{second:?}"
        );
        sessions.put_for("s4", r#"{"user":"eve"}"#, SHORT).await.unwrap();
        tokio::time::sleep(2 * SHORT).await;
        assert!(sessions.find("by-user", "eve", 10).await.unwrap().entries.is_empty(), "{isolation:?}");
        assert_eq!(keys_of(&sessions).await, ["before", "s2"]);
        let on_expiries = IndexOptions::new(Source::Expiry);
        let refused = sessions.create_index("mine", &on_expiries, |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::Index(IndexFault::Definition(_)))), "{refused:?}");
        let refused = sessions.drop_index("_expiries", |_| {}).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::Index(IndexFault::NoSuchIndex { .. }))));
    }
}

#[tokio::test]
async fn batches_write_for_lifetimes_and_numbers_keep_theirs() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let limits = create(&db, Isolation::Strict).await;
    let first = Batch::new().expect_absent("hits").put_for("hits", "1", LONG);
    assert!(matches!(limits.apply(first.clone()).await.unwrap(), Applied::Done { .. }));
    let expiry = limits.get_with_expiry("hits").await.unwrap().unwrap().expires_at;
    assert!(expiry.is_some_and(|at| at > SystemTime::now()));
    let applied = limits.apply(Batch::new().increment("hits", 4)).await.unwrap();
    let Applied::Done { answers, .. } = applied else { panic!("{applied:?}") };
    assert_eq!(answers, [StepAnswer::Number(5)]);
    assert_eq!(limits.get_with_expiry("hits").await.unwrap().unwrap().expires_at, expiry);
    assert!(matches!(limits.apply(first).await.unwrap(), Applied::Unmet { condition: 0, .. }));
    limits.apply(Batch::new().put_for("soon", "9", SHORT)).await.unwrap();
    tokio::time::sleep(2 * SHORT).await;
    let applied = limits.apply(Batch::new().increment("soon", 1)).await.unwrap();
    let Applied::Done { answers, .. } = applied else { panic!("{applied:?}") };
    assert_eq!(answers, [StepAnswer::Number(1)], "what is over counts as zero");
    assert_eq!(limits.get_with_expiry("soon").await.unwrap().unwrap().expires_at, None);
}

#[tokio::test]
async fn changes_tell_expiries_and_deletions() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let sessions = create(&db, Isolation::Strict).await;
    let mut changes = sessions.changes(None).await.unwrap();
    sessions.put("stays", "1").await.unwrap();
    put_over(&sessions, &["a"]).await;
    assert_eq!(sweep(&sessions).await, 1);
    let mut told = Vec::new();
    while told.len() < 3 {
        match changes.next().await {
            Ok(page) => {
                for change in &page.changes {
                    for write in &change.writes {
                        let expires = page.expiries.contains_key(&(change.timestamp, write.key.clone()));
                        let key = String::from_utf8_lossy(&write.key).into_owned();
                        let value =
                            write.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
                        told.push((key, value, expires));
                    }
                }
            }
            Err(Error::ChangesUnavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    told.sort();
    let expected = [
        ("a".to_owned(), None, false),
        ("a".to_owned(), Some("over".to_owned()), true),
        ("stays".to_owned(), Some("1".to_owned()), false),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn what_cannot_be_is_refused_in_words() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let sessions = create(&db, Isolation::Strict).await;
    for lifetime in [Duration::ZERO, Duration::from_micros(10), Duration::from_secs(101 * 365 * 24 * 3600)] {
        let refused = sessions.put_for("a", "1", lifetime).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::Lifetime(_))), "{refused:?}");
        let batch = Batch::new().put_for("a", "1", lifetime);
        assert!(matches!(sessions.apply(batch).await, Err(Error::Invalid(Invalid::Lifetime(_)))));
    }
    let reserved = sessions.put_for(b"\xff\xffx", "1", LONG).await.unwrap_err();
    assert!(matches!(reserved, Error::Invalid(Invalid::Index(IndexFault::Reserved { .. }))), "{reserved:?}");
    for isolation in Isolation::ALL {
        let name = format!("plain-{isolation}");
        let plain = db.create_keyspace(&name, KeyspaceOptions::new(isolation)).await.unwrap();
        let refused = plain.put_for("a", "1", LONG).await.unwrap_err();
        let told = refused.to_string();
        assert!(
            matches!(refused, Error::Invalid(Invalid::NotExpiring { .. })) && told.contains(&name),
            "{told}"
        );
        let batch = Batch::new().put_for("a", "1", LONG);
        assert!(matches!(plain.apply(batch).await, Err(Error::Invalid(Invalid::NotExpiring { .. }))));
        assert_eq!(plain.get("a").await.unwrap(), None);
        if !ISOLATIONS.contains(&isolation) {
            let options = KeyspaceOptions { expiring: true, ..KeyspaceOptions::new(isolation) };
            let refused = db.create_keyspace("no", options).await.unwrap_err();
            assert!(matches!(refused, Error::Invalid(Invalid::CannotExpire { .. })), "{refused:?}");
        }
    }
}
