//! Everything that a keyspace holds, read at one instant beside the protocol, while transactions go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quorate::{CutEntry, Database, Durability, Error, Isolation, Keyspace, KeyspaceOptions, Options, System};

use crate::support::Cluster;

const PATIENCE: Duration = Duration::from_secs(90);

async fn create(db: &Database, isolation: Isolation, shards: usize) -> Keyspace {
    let shards = if isolation.stands_in_sites() { 1 } else { shards };
    let options =
        KeyspaceOptions { shards, durability: Durability::Memory, ..KeyspaceOptions::new(isolation) };
    db.create_keyspace(isolation.name(), options).await.unwrap()
}

/// All entries of a keyspace at one instant, and the instant.
async fn read(db: &Database, name: &str) -> quorate::Result<(Vec<CutEntry>, u64)> {
    let cut = db.cut(name, PATIENCE).await?;
    let mut tasks: Vec<tokio::task::JoinHandle<quorate::Result<Vec<CutEntry>>>> = Vec::new();
    for shard in cut.shards() {
        let mut reader = cut.reader(shard);
        tasks.push(tokio::spawn(async move {
            let mut entries = Vec::new();
            while let Some(page) = reader.next().await? {
                entries.extend(page);
            }
            Ok(entries)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap()?);
    }
    all.sort();
    Ok((all, cut.instant_micros()))
}

fn numbers(entries: &[CutEntry]) -> BTreeMap<String, i64> {
    let number = |entry: &CutEntry| match entry {
        CutEntry::Value { key, value } => {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            (text(key), text(value).parse().unwrap())
        }
        other => panic!("{other:?}"),
    };
    entries.iter().map(number).collect()
}

/// Does nothing.
const NOTHING: &str =
    r#"(module (memory (export "memory") 1) (func (export "call") (param i32) (result i32) i32.const 0))"#;

/// Accounts between which money is moved all the time; their sum never changes.
const ACCOUNTS: i64 = 20;
const EACH: i64 = 100;

/// The money in an account. A `strict` transaction reads at one replica, which may not have heard of the first commit yet: it would not be
/// validated, and is tried again. In every other isolation a client reads whatever it has written.
fn balance(value: Option<quorate::Value>, isolation: Isolation) -> quorate::Result<i64> {
    let Some(value) = value else {
        assert_eq!(isolation, Isolation::Strict, "a session does not read its own write");
        return Err(Error::Conflict);
    };
    Ok(String::from_utf8(value.to_vec()).unwrap().parse().unwrap())
}

async fn moves_money(keyspace: Keyspace, first: i64, stop: Arc<AtomicBool>, moved: Arc<AtomicU64>) {
    let isolation = keyspace.isolation();
    let mut turn = first;
    while !stop.load(Ordering::Relaxed) {
        turn += 1;
        let (from, to) = (turn * 7 % ACCOUNTS, (turn * 11 + 3) % ACCOUNTS);
        if from == to {
            continue;
        }
        let ended = keyspace
            .transact(async |txn| {
                let keys = [format!("account{from:02}"), format!("account{to:02}")];
                let one = balance(txn.get(&keys[0]).await?, isolation)?;
                let other = balance(txn.get(&keys[1]).await?, isolation)?;
                txn.put(&keys[0], (one - 1).to_string())?;
                txn.put(&keys[1], (other + 1).to_string())
            })
            .await;
        match ended {
            Ok(()) => drop(moved.fetch_add(1, Ordering::Relaxed)),
            Err(Error::Conflict | Error::Overloaded { .. } | Error::Unknown { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Waits until more was moved, however busy the machine is.
async fn more_moves(moved: &AtomicU64) {
    let (before, until) = (moved.load(Ordering::Relaxed), Instant::now() + PATIENCE);
    while moved.load(Ordering::Relaxed) <= before {
        assert!(Instant::now() < until, "{before} transactions have moved money, and no other one does");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_at_one_instant_of_any_isolation_is_a_state_that_a_transaction_could_have_read() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let keyspace = create(&db, isolation, 3).await;
        let open = keyspace.transact_with_receipt(async |txn| {
            (0..ACCOUNTS).try_for_each(|number| txn.put(format!("account{number:02}"), EACH.to_string()))
        });
        open.await.unwrap().1.visible().await.unwrap();
        let (stop, moved) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mover = |first| moves_money(keyspace.clone(), first, Arc::clone(&stop), Arc::clone(&moved));
        let movers: Vec<_> = [0, 100, 200].map(|first| tokio::spawn(mover(first))).into();
        more_moves(&moved).await;
        let mut seen = Vec::new();
        for _ in 0..2 {
            let (entries, instant) =
                read(&db, keyspace.name()).await.unwrap_or_else(|error| panic!("{isolation}: {error}"));
            let numbers = numbers(&entries);
            assert_eq!(numbers.len() as i64, ACCOUNTS, "{isolation}");
            assert_eq!(numbers.values().sum::<i64>(), ACCOUNTS * EACH, "{isolation}: {numbers:?}");
            seen.push((numbers, instant));
            more_moves(&moved).await;
        }
        stop.store(true, Ordering::Relaxed);
        for mover in movers {
            mover.await.unwrap();
        }
        assert_ne!(seen[0].0, seen[1].0, "{isolation}: both are of one instant");
        assert!(seen[0].1 < seen[1].1, "{isolation}");
        // A write that was acknowledged before the instant is in it.
        keyspace.put("last", "1").await.unwrap();
        keyspace.delete("account00").await.unwrap();
        let numbers = numbers(&read(&db, keyspace.name()).await.unwrap().0);
        assert_eq!((numbers.get("last"), numbers.get("account00")), (Some(&1), None), "{isolation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sets_counters_and_procedures_are_read_and_shares_of_counters_are_not() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let keyspace = create(&db, Isolation::ParallelSnapshot, 1).await;
    keyspace
        .transact(async |txn| {
            txn.put("likes", "a key of the same name")?;
            txn.set_change("likes", "ada", 3)?;
            txn.set_remove("likes", "bob")?;
            txn.set_add("likes", "carol")?;
            txn.set_remove("likes", "carol")?;
            txn.counter_add("stock", 1_000)
        })
        .await
        .unwrap();
    keyspace.transact(async |txn| txn.counter_add("stock", -1)).await.unwrap();
    let key = |text: &str| quorate::Key::from(text);
    let expected = vec![
        CutEntry::Value { key: key("likes"), value: quorate::Value::from_static(b"a key of the same name") },
        CutEntry::Count { set: key("likes"), element: key("ada"), count: 3 },
        CutEntry::Count { set: key("likes"), element: key("bob"), count: -1 },
        CutEntry::Counter { counter: key("stock"), value: 999 },
    ];
    assert_eq!(read(&db, keyspace.name()).await.unwrap().0, expected);

    let keyspace = create(&db, Isolation::Serializable, 2).await;
    let code = wat::parse_str(NOTHING).unwrap();
    keyspace.deploy("nothing", None, &code).await.unwrap();
    keyspace.put("a", "1").await.unwrap();
    let procedure =
        CutEntry::Procedure { name: "nothing".to_owned(), version: 1, code: quorate::Value::from(code) };
    let value = CutEntry::Value { key: key("a"), value: quorate::Value::from_static(b"1") };
    assert_eq!(read(&db, keyspace.name()).await.unwrap().0, [value, procedure.clone(), procedure]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pages_of_large_values_come_one_after_the_other() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in Isolation::ALL {
        let keyspace = create(&db, isolation, 2).await;
        for number in 0..12 {
            let value = vec![b'a' + number; 400_000];
            keyspace.put(format!("key{number:02}"), value).await.unwrap();
        }
        let (entries, _) = read(&db, keyspace.name()).await.unwrap();
        let lengths: Vec<(u8, usize)> = entries
            .iter()
            .map(|entry| match entry {
                CutEntry::Value { value, .. } => (value[0], value.len()),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            lengths,
            (0..12).map(|number| (b'a' + number, 400_000)).collect::<Vec<_>>(),
            "{isolation}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_keyspace_that_cannot_be_read_says_why() {
    let mut cluster = Cluster::start();
    let patient = cluster.connect().await;
    let db = cluster.connect_with(Options { deadline: Duration::from_secs(3), ..Options::default() }).await;
    let options = KeyspaceOptions {
        comparison: Some(System::TxnOcc.into()),
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    patient.create_keyspace("compared", options).await.unwrap();
    let error = db.cut("compared", PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("there to be compared with"), "{error}");
    let error = db.cut("nothing", PATIENCE).await.unwrap_err().to_string();
    assert!(error.contains("nothing"), "{error}");

    let keyspace = create(&patient, Isolation::Strict, 1).await;
    keyspace.put("a", "1").await.unwrap();
    cluster.crash(1);
    cluster.crash(2);
    let cut = db.cut(keyspace.name(), Duration::from_secs(2)).await.unwrap();
    let error = cut.reader(cut.shards()[0]).next().await.unwrap_err();
    assert!(matches!(&error, Error::CutLost { name, .. } if name == "strict"), "{error}");
}
