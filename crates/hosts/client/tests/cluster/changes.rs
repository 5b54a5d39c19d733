//! Change feeds: what has committed is told once, in its order, whatever happens to replicas and consumers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use quorate::{
    Addition, Change, Changes, Cursor, Durability, Error, Invalid, InvalidCursor, Isolation, Keyspace,
    KeyspaceOptions, Position, ShardId, System, Timestamp, Write,
};
use tokio::time::Instant;

use crate::support::Cluster;

async fn create(db: &quorate::Database, name: &str, isolation: Isolation, shards: usize) -> Keyspace {
    // All nodes stand in one site.
    let shards = if isolation.stands_in_sites() { 1 } else { shards };
    let options = KeyspaceOptions { shards, durability: Durability::Sync, ..KeyspaceOptions::new(isolation) };
    db.create_keyspace(name, options).await.unwrap()
}

/// The changes that a consumer has been told, and whether it may have been.
#[derive(Default)]
struct Told {
    /// Two transactions of one client may have one timestamp in serializable keyspaces: their changes follow each other.
    changes: BTreeMap<Timestamp, BTreeMap<Option<ShardId>, Vec<Write>>>,
    last: BTreeMap<Option<ShardId>, Timestamp>,
}

impl Told {
    /// Takes one page; false if there is none at present.
    async fn take(&mut self, changes: &mut Changes) -> bool {
        let before = changes.resolved();
        let page = match changes.next().await {
            Ok(page) => page,
            Err(Error::ChangesUnavailable { .. }) => return false,
            Err(error) => panic!("{error}"),
        };
        for Change { timestamp, writes, additions } in page.changes {
            let resolved = &page.resolved;
            assert!(resolved.has_passed(timestamp), "{timestamp} is told, and not below {resolved}");
            assert!(!before.has_passed(timestamp), "{timestamp} is told, and everything below {before} was");
            assert_eq!(additions, []);
            let last = self.last.insert(page.shard, timestamp);
            assert!(last <= Some(timestamp), "{:?}: {timestamp} is told after {last:?}", page.shard);
            let known = self.changes.entry(timestamp).or_default().entry(page.shard).or_default();
            // No value is written twice.
            let again = writes.iter().find(|write| write.value.is_some() && known.contains(write));
            assert_eq!(again, None, "{timestamp} is told twice");
            known.extend(writes);
        }
        true
    }

    /// Takes pages until everything up to a timestamp was told.
    async fn take_until(&mut self, changes: &mut Changes, last: Timestamp) {
        let until = Instant::now() + Duration::from_secs(60);
        while !changes.resolved().has_passed(last) {
            assert!(Instant::now() < until, "resolved up to {}, and not {last}", changes.resolved());
            self.take(changes).await;
        }
    }

    /// The writes at a timestamp, ascending.
    fn writes(&self, timestamp: Timestamp) -> Vec<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let shards = self.changes.get(&timestamp).into_iter().flat_map(BTreeMap::values).flatten();
        let mut writes: Vec<_> =
            shards.map(|write| (text(&write.key), write.value.as_deref().map(text))).collect();
        writes.sort();
        writes
    }
}

/// The writes at each timestamp, ascending.
type Acknowledged = BTreeMap<Timestamp, Vec<(String, Option<String>)>>;

/// Adds those of another consumer, or of one transaction more.
fn acknowledge(all: &mut Acknowledged, timestamp: Timestamp, writes: Vec<(String, Option<String>)>) {
    let known = all.entry(timestamp).or_default();
    known.extend(writes);
    known.sort();
}

/// Writes two keys at a time, until it is to stop; gives what was acknowledged, and which values may have been written beside.
async fn writes(
    keyspace: Keyspace,
    name: u64,
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
) -> (Acknowledged, BTreeSet<String>) {
    let (mut acknowledged, mut doubtful, mut number) = (Acknowledged::new(), BTreeSet::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        // There is a feed to be tested, and no throughput: other tests run beside this one.
        tokio::time::sleep(Duration::from_millis(5)).await;
        let value = format!("{name}.{number}");
        let keys = [format!("key{}", number % 7), format!("own{name}.{}", number % 11)];
        let written = keyspace
            .transact_with_receipt(async |txn| {
                txn.put(&keys[0], value.clone())?;
                if number % 5 == 0 { txn.delete(&keys[1]) } else { txn.put(&keys[1], value.clone()) }
            })
            .await;
        match written {
            Ok(((), receipt)) => {
                let other = (number % 5 != 0).then(|| value.clone());
                let [first, second] = keys;
                acknowledge(
                    &mut acknowledged,
                    receipt.timestamp,
                    vec![(first, Some(value)), (second, other)],
                );
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => drop(doubtful.insert(value)),
        }
    }
    (acknowledged, doubtful)
}

struct Writers {
    stop: Arc<AtomicBool>,
    count: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<(Acknowledged, BTreeSet<String>)>>,
}

impl Writers {
    fn start(keyspace: &Keyspace, writers: u64) -> Self {
        let (stop, count) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer =
            |name| tokio::spawn(writes(keyspace.clone(), name, Arc::clone(&stop), Arc::clone(&count)));
        let tasks = (0..writers).map(writer).collect();
        Writers { stop, count, tasks }
    }

    /// Waits until more was acknowledged.
    async fn go_on(&self, after: &str) {
        let (before, until) = (self.count.load(Ordering::Relaxed), Instant::now() + Duration::from_secs(60));
        while self.count.load(Ordering::Relaxed) < before + 5 {
            assert!(Instant::now() < until, "nothing is written after {after}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn end(self) -> (Acknowledged, BTreeSet<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let (mut acknowledged, mut doubtful) = (Acknowledged::new(), BTreeSet::new());
        for task in self.tasks {
            let (written, lost) = task.await.unwrap();
            for (timestamp, writes) in written {
                acknowledge(&mut acknowledged, timestamp, writes);
            }
            doubtful.extend(lost);
        }
        (acknowledged, doubtful)
    }
}

/// Acknowledged writes from a timestamp on were told as they were written, and no others but those that may have committed.
fn judge(told: &Told, from: &Position, acknowledged: &Acknowledged, doubtful: &BTreeSet<String>) {
    for (timestamp, writes) in acknowledged.iter().filter(|(timestamp, _)| !from.has_passed(**timestamp)) {
        let mut told = told.writes(*timestamp);
        // One more may have this timestamp, of which its client has not heard.
        told.retain(|(_, value)| value.as_ref().is_none_or(|value| !doubtful.contains(value)));
        assert_eq!(told, *writes, "{timestamp}");
    }
    for timestamp in told.changes.keys().filter(|timestamp| !acknowledged.contains_key(timestamp)) {
        let writes = told.writes(*timestamp);
        let is_doubtful =
            writes.iter().filter_map(|(_, value)| value.as_ref()).any(|value| doubtful.contains(value));
        assert!(is_doubtful, "{timestamp} is told, and nobody has written {writes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_strict_keyspace_are_told_once_while_nodes_crash() {
    told_once_while_nodes_crash(Isolation::Strict).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_serializable_keyspace_are_told_once_while_nodes_crash() {
    told_once_while_nodes_crash(Isolation::Serializable).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_snapshot_keyspace_are_told_once_while_nodes_crash() {
    told_once_while_nodes_crash(Isolation::Snapshot).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_a_parallel_snapshot_keyspace_are_told_once_while_nodes_crash() {
    told_once_while_nodes_crash(Isolation::ParallelSnapshot).await;
}

/// Each change is told once and in order while nodes crash and consumers begin again.
async fn told_once_while_nodes_crash(isolation: Isolation) {
    // Where sites commit for themselves, a site of one node that is down commits nothing.
    let mut cluster =
        if isolation.stands_in_sites() { Cluster::start_in(&["a"; 3]) } else { Cluster::start() };
    let db = cluster.connect().await;
    let keyspace = create(&db, isolation.name(), isolation, 3).await;
    let mut changes = keyspace.changes(None).await.unwrap();
    let first = changes.resolved();
    let writers = Writers::start(&keyspace, 3);
    let mut told = Told::default();
    for node in 0..3 {
        writers.go_on("the start").await;
        cluster.crash(node);
        writers.go_on(&format!("the crash of {node}")).await;
        // The consumer begins again, as another process would, from what it has kept.
        let kept = changes.cursor().to_string();
        drop(changes);
        changes = keyspace.changes(Some(&kept.parse::<Cursor>().unwrap())).await.unwrap();
        for _ in 0..6 {
            told.take(&mut changes).await;
        }
        cluster.restart(node);
        writers.go_on(&format!("the restart of {node}")).await;
    }
    for node in 0..3 {
        cluster.crash(node);
    }
    for node in 0..3 {
        cluster.restart(node);
    }
    writers.go_on("the crash of all").await;
    let (acknowledged, doubtful) = writers.end().await;
    let last = *acknowledged.last_key_value().unwrap().0;
    told.take_until(&mut changes, last).await;
    judge(&told, &first, &acknowledged, &doubtful);
    assert!(told.changes.len() > 30, "{isolation}: {} changes", told.changes.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_begins_behind_a_cut_gets_what_the_cut_does_not_hold() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let keyspace = create(&db, isolation.name(), isolation, 3).await;
        let writers = Writers::start(&keyspace, 2);
        writers.go_on("the start").await;
        let cut = db.cut(keyspace.name(), Duration::from_secs(60)).await.unwrap();
        let mut state = BTreeMap::new();
        for shard in cut.shards() {
            let mut reader = cut.reader(shard);
            while let Some(page) = reader.next().await.unwrap() {
                for entry in page {
                    let quorate::CutEntry::Value { key, value } = entry else { panic!("{entry:?}") };
                    state.insert(key, value);
                }
            }
        }
        writers.go_on("the cut").await;
        let (acknowledged, _) = writers.end().await;
        let mut changes = keyspace.changes(Some(&cut.cursor().unwrap())).await.unwrap();
        let mut told = Told::default();
        told.take_until(&mut changes, *acknowledged.last_key_value().unwrap().0).await;
        for writes in told.changes.values().flat_map(BTreeMap::values).flatten() {
            match &writes.value {
                Some(value) => state.insert(writes.key.clone(), value.clone()),
                None => state.remove(&writes.key),
            };
        }
        let entries = keyspace.transact(async |txn| txn.scan("", "", 1_000).await).await.unwrap().entries;
        assert_eq!(state.into_iter().collect::<Vec<_>>(), entries, "{isolation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_or_a_prefix_is_watched_and_a_cursor_is_of_use_for_that_alone() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let keyspace = create(&db, isolation.name(), isolation, 3).await;
        let other = create(&db, &format!("{isolation}2"), isolation, 3).await;
        let mut key = keyspace.watch("user/ada", None).await.unwrap();
        let mut prefix = keyspace.watch_prefix("user/", None).await.unwrap();
        let names = ["user", "user/", "user/ada", "user/ada2", "user/bob", "user0"];
        let mut last = Timestamp::ZERO;
        for name in names {
            let put = keyspace.transact_with_receipt(async |txn| txn.put(name, "x")).await.unwrap();
            last = put.1.timestamp;
        }
        let told = async |changes: &mut Changes| {
            let mut told = Told::default();
            told.take_until(changes, last).await;
            told.changes
                .keys()
                .flat_map(|timestamp| told.writes(*timestamp))
                .map(|(key, _)| key)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(&mut key).await, ["user/ada"], "{isolation}");
        assert_eq!(told(&mut prefix).await, names[1..5], "{isolation}");

        let refused = |result: quorate::Result<Changes>| match result {
            Err(Error::Invalid(Invalid::Cursor(error))) => error,
            other => panic!("{other:?}"),
        };
        let foreign = refused(other.changes(Some(prefix.cursor())).await);
        assert!(matches!(&foreign, InvalidCursor::Foreign { .. }), "{foreign}");
        if !isolation.stands_in_sites() {
            let others = refused(keyspace.changes(Some(key.cursor())).await);
            assert!(matches!(&others, InvalidCursor::OtherKeys { .. }), "{others}");
        }
        // A keyspace of the same name is another one.
        let kept = keyspace.changes(None).await.unwrap().cursor().clone();
        db.drop_keyspace(keyspace.name()).await.unwrap();
        let again = create(&db, keyspace.name(), isolation, 3).await;
        let foreign = refused(again.changes(Some(&kept)).await);
        assert!(matches!(&foreign, InvalidCursor::Foreign { .. }), "{foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_is_told_of_the_replicas_of_every_event_loop() {
    let cluster = Cluster::start_of(2);
    let db = cluster.connect().await;
    let keyspace = create(&db, "accounts", Isolation::Strict, 4).await;
    let mut changes = keyspace.changes(None).await.unwrap();
    let (first, writers) = (changes.resolved(), Writers::start(&keyspace, 1));
    for round in 0..4 {
        writers.go_on(&format!("round {round}")).await;
    }
    let (acknowledged, doubtful) = writers.end().await;
    let mut told = Told::default();
    told.take_until(&mut changes, *acknowledged.last_key_value().unwrap().0).await;
    judge(&told, &first, &acknowledged, &doubtful);
    assert!(told.last.len() > 1, "one shard has written alone: {:?}", told.last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_waits_for_a_majority_and_goes_on_with_it() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = create(&db, "accounts", Isolation::Strict, 1).await;
    let patient = keyspace.clone().with_deadline(Duration::from_millis(1_500));
    let mut changes = patient.changes(None).await.unwrap();
    cluster.crash(1);
    cluster.crash(2);
    let until = Instant::now() + Duration::from_secs(60);
    let error = loop {
        assert!(Instant::now() < until, "pages come without a majority");
        match changes.next().await {
            Ok(page) => assert_eq!(page.changes, []),
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::ChangesUnavailable { name, .. } if name == "accounts"), "{error}");
    cluster.restart(1);
    cluster.restart(2);
    let written = async || keyspace.transact_with_receipt(async |txn| txn.put("a", "1")).await;
    let receipt = loop {
        match written().await {
            Ok(((), receipt)) => break receipt,
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
    };
    let mut told = Told::default();
    told.take_until(&mut changes, receipt.timestamp).await;
    assert_eq!(told.writes(receipt.timestamp), [("a".to_owned(), Some("1".to_owned()))]);
}

/// Sets and counters are told as what was added to them, and each change after all that it has seen.
#[tokio::test(flavor = "multi_thread")]
async fn of_sets_and_counters_a_consumer_adds_up_what_it_is_told() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = create(&db, "social", Isolation::ParallelSnapshot, 1).await;
    let mut changes = keyspace.changes(None).await.unwrap();
    let first = keyspace
        .transact_with_receipt(async |txn| {
            txn.put("post", "1")?;
            txn.set_add("likes", "ada")?;
            txn.set_add("likes", "bob")?;
            txn.counter_add("stock", 7)
        })
        .await
        .unwrap();
    let second = keyspace
        .transact_with_receipt(async |txn| {
            txn.set_remove("likes", "bob")?;
            txn.counter_add("stock", -3)
        })
        .await
        .unwrap();
    let (mut told, mut counts) = (Vec::new(), BTreeMap::new());
    let until = Instant::now() + Duration::from_secs(60);
    while !changes.resolved().has_passed(second.1.timestamp) {
        assert!(Instant::now() < until, "resolved up to {}", changes.resolved());
        let page = changes.next().await.unwrap();
        assert_eq!(page.shard, None);
        for change in page.changes {
            told.push((change.timestamp, change.writes.len()));
            for Addition { object, element, by } in change.additions {
                *counts.entry((object, element)).or_insert(0) += by;
            }
        }
    }
    assert_eq!(told, [(first.1.timestamp, 1), (second.1.timestamp, 0)]);
    counts.retain(|_, count| *count != 0);
    let expected = [(("likes".into(), Some("ada".into())), 1), (("stock".into(), None), 4)];
    assert_eq!(counts, BTreeMap::from(expected));
    let latest = db.latest_position(&keyspace).await.unwrap();
    assert!(latest.has_passed(second.1.timestamp) && changes.resolved().includes(&latest));
}

#[tokio::test(flavor = "multi_thread")]
async fn systems_that_are_there_to_be_compared_with_have_no_feeds() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let options = KeyspaceOptions {
        comparison: Some(System::TxnOcc.into()),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    let keyspace = db.create_keyspace("compared", options).await.unwrap();
    let refused = keyspace.changes(None).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(Invalid::NoFeed { .. })), "{refused}");
}
