//! Parallel-snapshot keyspaces: transactions commit at the site of their client, and reach the others later.

use quorate::{Database, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Options, Outcome};

use crate::support::{Cluster, Load, number};

async fn create(db: &Database, replicas: usize) -> Keyspace {
    let options =
        KeyspaceOptions { replicas: Some(replicas), ..KeyspaceOptions::new(Isolation::ParallelSnapshot) };
    db.create_keyspace("accounts", options).await.unwrap()
}

/// A client of a site.
async fn at(cluster: &Cluster, site: &str) -> Keyspace {
    let options = Options { site: Some(site.to_owned()), ..Options::default() };
    cluster.connect_with(options).await.keyspace("accounts").await.unwrap()
}

/// Waits until a client reads something.
async fn eventually<T: PartialEq + std::fmt::Debug>(expected: T, read: impl AsyncFn() -> T) {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
    loop {
        let found = read().await;
        if found == expected {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found:?} is read, and {expected:?} is expected");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn transactions_run_as_in_other_keyspaces() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    create(&db, 1).await;
    let (north, south) = (at(&cluster, "a").await, at(&cluster, "b").await);
    assert_eq!(north.definition().shards.len(), 3, "one local site in each site");
    // Some of these prefer the one site and some the other.
    let mut txn = north.begin().await.unwrap();
    for key in ["alice", "bob", "carol", "dave", "erin"] {
        txn.put(key, "1").unwrap();
    }
    let receipt = txn.commit().await.unwrap();
    assert_eq!(db.outcome(&receipt.token).await.unwrap(), Outcome::Committed(receipt.timestamp));
    let values = north.read_only(["alice", "erin", "nobody"]).await.unwrap();
    assert_eq!(values.iter().map(|value| value.is_some()).collect::<Vec<_>>(), [true, true, false]);
    eventually(5, async || south.scan("", "", 10).await.unwrap().entries.len()).await;
    south.transact(async |txn| txn.delete("carol")).await.unwrap();
    let sum = south
        .transact(async |txn| {
            let page = txn.scan("", "", 10).await?;
            let sum: u64 = page.entries.iter().map(|(_, value)| number(value)).sum();
            txn.put("sum", sum.to_string())?;
            Ok(sum)
        })
        .await
        .unwrap();
    assert_eq!(sum, 4);
    eventually(Some(4), async || north.get("sum").await.unwrap().map(|value| number(&value))).await;
}

#[tokio::test]
async fn a_container_is_placed_where_it_is_written() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    create(&db, 1).await;
    let (north, south) = (at(&cluster, "a").await, at(&cluster, "b").await);
    for site in ["a", "b"] {
        north.container("alice").place_at(site).await.unwrap();
        assert_eq!(north.container("alice").preferred_site().await.unwrap(), site);
        let write = async |txn: quorate::Transaction| {
            let visits = txn.get("{alice}/visits").await?.map_or(0, |value| number(&value));
            txn.put("{alice}/visits", (visits + 1).to_string())
        };
        let begun = if site == "a" { &north } else { &south };
        begun.transact(write).await.unwrap();
    }
    // Neither write is lost, and the other site reads both.
    eventually(Some(2), async || north.get("{alice}/visits").await.unwrap().map(|value| number(&value)))
        .await;
    south.container("alice").destroy().await.unwrap();
    let refused = south.container("alice").place_at("nowhere").await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(Invalid::NoSuchSite { .. })), "{refused}");
    let refused = south.container("{alice}").place_at("a").await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(Invalid::Limit(_))), "{refused}");
    let strict = db.create_keyspace("strict", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    let refused = strict.container("alice").place_at("a").await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(Invalid::Unsupported { .. })), "{refused}");
}

/// W15: the same element is added at two sites and removed once.
#[tokio::test]
async fn sites_change_a_counting_set_without_waiting_for_each_other() {
    let cluster = Cluster::start();
    create(&cluster.connect().await, 1).await;
    let (north, south) = (at(&cluster, "a").await, at(&cluster, "b").await);
    for site in [&north, &south] {
        let befriend = async |txn: quorate::Transaction| {
            txn.set_add("friends", "bob")?;
            assert_eq!(txn.set_count("friends", "bob").await?, 1, "it sees what it has added itself");
            Ok(())
        };
        site.transact(befriend).await.unwrap();
    }
    let count = async |site: &Keyspace| {
        site.transact(async |txn| txn.set_count("friends", "bob").await).await.unwrap()
    };
    eventually(2, async || count(&north).await).await;
    north.transact(async |txn| txn.set_remove("friends", "bob")).await.unwrap();
    assert_eq!(count(&north).await, 1);
    // A client that treats it as an ordinary set takes the element out whatever its count is.
    let is_discarded = north.transact(async |txn| txn.set_discard("friends", "bob").await).await.unwrap();
    assert!(is_discarded);
    eventually(0, async || count(&south).await).await;
    let is_inserted = south.transact(async |txn| txn.set_insert("friends", "bob").await).await.unwrap();
    assert!(is_inserted && count(&south).await == 1);
}

#[tokio::test]
async fn elements_are_read_in_order_from_either_end() {
    let cluster = Cluster::start();
    let accounts = create(&cluster.connect().await, 1).await;
    let add = async |txn: quorate::Transaction| {
        (0..2_500).try_for_each(|number| txn.set_add("numbers", format!("{number:04}")))
    };
    accounts.transact(add).await.unwrap();
    let txn = accounts.begin().await.unwrap();
    let all = txn.set_iter("numbers").collect().await.unwrap();
    assert!(all.len() == 2_500 && all.is_sorted());
    let mut newest = txn.set_iter("numbers").from_greatest().between("0100", "2000").limit(2);
    for expected in ["1999", "1998"] {
        assert_eq!(newest.next().await.unwrap(), Some((expected.into(), 1)));
    }
    assert_eq!(newest.next().await.unwrap(), None);
    assert!(accounts.get("numbers").await.unwrap().is_none(), "a key of this name is another thing");
}

#[tokio::test]
async fn a_local_site_goes_on_without_one_of_its_nodes() {
    let mut cluster = Cluster::start_in(&["a", "a", "a"]);
    let accounts = create(&cluster.connect().await, 3).await;
    let load = Load::start(&accounts);
    load.goes_on("the start").await;
    for node in 0..3 {
        cluster.crash(node);
        load.goes_on("a crash").await;
        cluster.restart(node);
        load.goes_on("a restart").await;
    }
    load.end().await;
}

#[tokio::test]
async fn what_a_keyspace_lacks_is_refused_at_the_call() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = create(&db, 1).await;
    let receipt = accounts.transact_with_receipt(async |txn| txn.put("alice", "1")).await.unwrap().1;
    let error = accounts.read_at(receipt.timestamp, ["alice"]).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::Unsupported { .. })), "{error}");
    let strict = KeyspaceOptions { replicas: Some(1), ..KeyspaceOptions::new(Isolation::Strict) };
    let strict = db.create_keyspace("strict", strict).await.unwrap();
    let txn = strict.begin().await.unwrap();
    for error in [txn.set_add("s", "x").unwrap_err(), txn.set_count("s", "x").await.unwrap_err()] {
        assert!(matches!(error, Error::Invalid(Invalid::Unsupported { .. })), "{error}");
    }
    let txn = accounts.begin().await.unwrap();
    let error = txn.set_add("", "x").unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::Limit(_))), "{error}");
}
