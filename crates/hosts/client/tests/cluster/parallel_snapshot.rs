//! Parallel-snapshot keyspaces: transactions commit at the site of their client, and reach the others later.

use std::time::Duration;

use quorate::{
    Database, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, Milestone, NodeId, Options, Outcome,
    Receipt,
};

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
pub(crate) async fn eventually<T: PartialEq + std::fmt::Debug>(expected: T, read: impl AsyncFn() -> T) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let found = read().await;
        if found == expected {
            return;
        }
        assert!(tokio::time::Instant::now() < deadline, "{found:?} is read, and {expected:?} is expected");
        tokio::time::sleep(Duration::from_millis(20)).await;
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
    // A container is at no fewer sites than survive the loss of one, and its preferred site is one of them.
    let bob = north.container("bob");
    for (sites, says) in [(vec!["a"], "at least 2"), (vec!["b", "c"], r#""a" is to be the preferred site"#)] {
        let refused = bob.place("a").replicated_at(sites).await.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::Replicas { .. })), "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
    bob.place("a").replicated_at(["a", "b"]).await.unwrap();
    assert_eq!(bob.replica_sites().await.unwrap(), ["a", "b"]);
    for (refused, says) in
        [(bob.place_at("c").await, r#"not at the site "c""#), (bob.destroy().await, "destroyed")]
    {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, Error::Invalid(Invalid::Replicas { .. })), "{refused}");
        assert!(refused.to_string().contains(says), "{refused}");
    }
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

/// Writes a key whose preferred site is on this node.
async fn put_at(accounts: &Keyspace, node: NodeId) -> Receipt {
    let definition = accounts.definition();
    let is_here = |key: &String| definition.shard_of(key.as_bytes()).replicas == [node];
    let key = (0..).map(|number| format!("key{number}")).find(is_here).unwrap();
    accounts.transact_with_receipt(async |txn| txn.put(&key, "1")).await.unwrap().1
}

#[tokio::test]
async fn receipts_tell_when_a_transaction_is_durable_and_when_it_is_visible_everywhere() {
    let mut cluster = Cluster::start();
    create(&cluster.connect().await, 1).await;
    let south = at(&cluster, "b").await;
    let options =
        Options { site: Some("a".to_owned()), deadline: Duration::from_secs(2), ..Options::default() };
    let db = cluster.connect_with(options).await;
    let north = db.keyspace("accounts").await.unwrap();
    let (_, receipt) = north.transact_with_receipt(async |txn| txn.put("alice", "1")).await.unwrap();
    let (durable, visible) = tokio::join!(receipt.durable(), receipt.visible());
    durable.and(visible).unwrap();
    assert!(south.get("alice").await.unwrap().is_some(), "nobody has to wait for it any more");
    // A site is down: two are enough to be durable, and it is missing where all are needed.
    cluster.crash(2);
    let receipt = put_at(&north, NodeId(0)).await;
    receipt.durable().await.unwrap();
    let error = receipt.visible().await.unwrap_err();
    let Error::NotReached { milestone: Milestone::Visible, missing, .. } = &error else { panic!("{error}") };
    assert_eq!(missing[..], ["c"], "{error}");
    cluster.restart(2);
    eventually(true, async || receipt.visible().await.is_ok()).await;
    // A transaction that has written nothing, or not even read, has nothing to wait for.
    let read = north.transact_with_receipt(async |txn| txn.get("alice").await).await.unwrap().1;
    let idle = north.transact_with_receipt(async |_| Ok(())).await.unwrap().1;
    for receipt in [read, idle] {
        receipt.durable().await.unwrap();
        receipt.visible().await.unwrap();
    }
    drop(north);
    db.close().await;
    assert!(matches!(receipt.durable().await, Err(Error::Closed)));
}

#[tokio::test]
async fn transactions_of_other_keyspaces_are_durable_and_visible_once_they_have_committed() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    for isolation in [Isolation::Strict, Isolation::Serializable, Isolation::Snapshot] {
        let keyspace = db.create_keyspace(isolation.name(), KeyspaceOptions::new(isolation)).await.unwrap();
        let receipt = keyspace.transact_with_receipt(async |txn| txn.put("alice", "1")).await.unwrap().1;
        receipt.durable().await.unwrap();
        receipt.visible().await.unwrap();
    }
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

/// W14: a session goes on at another site.
#[tokio::test]
async fn sessions_go_on_at_other_sites_with_a_token() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    create(&db, 1).await;
    let north = Options { site: Some("a".to_owned()), ..Options::default() };
    let south =
        Options { site: Some("b".to_owned()), deadline: Duration::from_secs(4), ..Options::default() };
    let (north, south) = (cluster.connect_with(north).await, cluster.connect_with(south).await);
    let writer = north.keyspace("accounts").await.unwrap();
    let mut expected = String::new();
    for number in 0..20 {
        expected = number.to_string();
        writer.put("alice", &expected).await.unwrap();
        // A keyspace that the client does not use yet is waited for when it does.
        south.observe(&north.seen()).await.unwrap();
        let reader = south.keyspace("accounts").await.unwrap();
        assert_eq!(reader.get("alice").await.unwrap().unwrap(), expected);
    }
    // A token is handed on by a session that uses nothing of it.
    let between = cluster.connect().await;
    between.observe(&north.seen()).await.unwrap();
    assert_eq!(between.seen().to_string(), north.seen().to_string());
    // A vector that the other site never had is refused, and counts for nothing.
    let reader = south.keyspace("accounts").await.unwrap();
    let (before, text) = (south.seen(), north.seen().to_string());
    let (part, _) = text.rsplit_once('.').unwrap_or((&text, ""));
    for far in [format!("{part}.99999999"), format!("{text}.7.7.7.7.7"), format!("{part}.{}", u64::MAX)] {
        let begun = tokio::time::Instant::now();
        let error = south.observe(&far.parse().unwrap()).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(Invalid::NeverSeen { .. })), "{far}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "it takes {:?} to refuse {far}", begun.elapsed());
        assert_eq!(south.seen(), before);
    }
    let (words, numbers) = text.split_once('~').unwrap();
    let (keyspace, numbers) = numbers.split_once('.').unwrap();
    let (first, numbers) = numbers.split_once('.').unwrap();
    let elsewhere = format!("{words}~{keyspace}.{first}0.{numbers}");
    let error = south.observe(&elsewhere.parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::SeenElsewhere { .. })), "{error}");
    let many: String = (100..100 + 300).map(|keyspace| format!("~{keyspace}.1.1")).collect();
    assert!(format!("0{many}").parse::<quorate::Seen>().is_err());
    assert_eq!(reader.get("alice").await.unwrap().unwrap(), expected);
    // A site that is cut off is waited for until the deadline, and not by those that have not observed anything of it.
    let receipt = put_at(&writer, NodeId(0)).await;
    receipt.visible().await.unwrap();
    cluster.crash(2);
    let seen = north.seen();
    let mut numbers: Vec<&str> = numbers.split('.').collect();
    numbers.resize(3, "0");
    numbers[2] = "9";
    let ahead = format!("{words}~{keyspace}.{first}.{}", numbers.join("."));
    let error = south.observe(&ahead.parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    south.observe(&seen).await.unwrap();
    assert!(reader.get("alice").await.unwrap().is_some());
}

#[tokio::test]
async fn a_site_joins_once_a_node_of_it_is_up() {
    let mut cluster = Cluster::start_in(&["a", "b", "c"]);
    let db = cluster.connect().await;
    let sites = ["a", "b"].map(str::to_owned).to_vec();
    let options = KeyspaceOptions { sites, ..KeyspaceOptions::new(Isolation::ParallelSnapshot) };
    db.create_keyspace("accounts", options).await.unwrap();
    cluster.crash(2);
    let error = db.add_site("accounts", "c", Duration::from_secs(1), |_| {}).await.unwrap_err();
    let expected = Invalid::NotUp { site: "c".to_owned() };
    assert!(matches!(&error, Error::Invalid(found) if *found == expected), "{error}");
    cluster.restart(2);
    let joined = db.add_site("accounts", "c", Duration::from_secs(60), |_| {}).await.unwrap();
    assert!(joined.is_ready() && joined.definition.shards.len() == 3, "{joined:?}");
}

#[tokio::test]
async fn commits_of_a_session_are_pipelined() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    create(&db, 1).await;
    let north = at(&cluster, "a").await;
    north.container("mine").place_at("a").await.unwrap();
    north.container("theirs").place_at("b").await.unwrap();
    let mut under_way = Vec::new();
    let mut first = north.begin().await.unwrap();
    first.put("{mine}/1", "1").unwrap();
    let mut earlier = first.commit_soon().await.unwrap();
    for number in 2..=20 {
        let mut txn = north.begin_after(&earlier).await.unwrap();
        if number % 5 == 0 {
            // The write of the transaction before it is read.
            assert!(txn.get(format!("{{mine}}/{}", number - 1)).await.unwrap().is_some(), "{number}");
        }
        txn.put(format!("{{mine}}/{number}"), "1").unwrap();
        let later = txn.commit_soon().await.unwrap();
        under_way.push(std::mem::replace(&mut earlier, later));
    }
    under_way.push(earlier);
    for committing in under_way {
        let token = committing.token();
        let receipt = committing.receipt().await.unwrap();
        assert!(receipt.fast && receipt.token == token, "one site decides alone");
    }
    // A slow commit waits for another site, and what comes after it waits for that.
    let mut slow = north.begin().await.unwrap();
    slow.put("{theirs}/1", "1").unwrap();
    let slow = slow.commit_soon().await.unwrap();
    let mut after = north.begin_after(&slow).await.unwrap();
    assert!(after.get("{theirs}/1").await.unwrap().is_some());
    after.abort().await.unwrap();
    assert!(!slow.receipt().await.unwrap().fast);
    // One that has done nothing is nothing to come after.
    let nothing = north.begin().await.unwrap().commit_soon().await.unwrap();
    north.begin_after(&nothing).await.unwrap().commit().await.unwrap();
    nothing.receipt().await.unwrap();

    let mut txn = north.begin().await.unwrap();
    txn.put("{mine}/1", "2").unwrap();
    let committing = txn.commit_soon().await.unwrap();
    let south = at(&cluster, "b").await;
    let error = south.begin_after(&committing).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::OtherKeyspace { .. })), "{error}");
    let options = KeyspaceOptions::new(Isolation::Strict);
    let strict = db.create_keyspace("strict", options).await.unwrap();
    let error = strict.begin_after(&committing).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(Invalid::Unsupported { .. })), "{error}");
    committing.receipt().await.unwrap();
}

#[tokio::test]
async fn a_container_moves_to_the_site_that_writes_it() {
    let options = "[containers]\nmove_window_ms = 500\nmove_writes_min = 5\n";
    let cluster = Cluster::start_with(&["a", "b", "c"], options);
    let db = cluster.connect().await;
    create(&db, 1).await;
    let south = at(&cluster, "b").await;
    let write = async |tag: &str| {
        let key = format!("{{{tag}}}/x");
        let ((), receipt) = south.transact_with_receipt(async |txn| txn.put(&key, "1")).await.unwrap();
        receipt.fast
    };
    south.container("stays").place_at("a").await.unwrap();
    // Some of these names have their hash at another site.
    let tags = ["ann", "ben", "cid", "dan", "eve", "fay"];
    let mut slow = 0;
    for tag in tags {
        slow += u32::from(!write(tag).await);
    }
    assert!(slow > 0, "all of these prefer the site b");
    eventually(true, async || {
        let mut all = true;
        for tag in tags {
            all &= write(tag).await;
        }
        assert!(!write("stays").await, "a client has placed it at the site a");
        all
    })
    .await;
    for tag in tags {
        assert_eq!(south.container(tag).preferred_site().await.unwrap(), "b", "{tag}");
    }
    assert_eq!(south.container("stays").preferred_site().await.unwrap(), "a");
}
