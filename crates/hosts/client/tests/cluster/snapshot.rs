//! Snapshot keyspaces: transactions run at nodes, each with the machine of its home beside the replicas of shards.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate::topology::{Decisions, Grants, Speculation, SpeculationVariant};
use quorate::wan::Matrix;
use quorate::{
    Database, Durability, Error, Invalid, Isolation, Keyspace, KeyspaceOptions, NodeId, Options, Outcome,
    ReplicaChange, Speculated,
};

use crate::stories;
use crate::support::{Cluster, Load, count_up, increment, number};

async fn create(db: &Database, durability: Durability) -> Keyspace {
    create_as(db, durability, Speculation::default()).await
}

async fn create_as(db: &Database, durability: Durability, speculation: Speculation) -> Keyspace {
    let snapshot = KeyspaceOptions::new(Isolation::Snapshot);
    let options = KeyspaceOptions { shards: 3, durability, speculation: Some(speculation), ..snapshot };
    db.create_keyspace("shop", options).await.unwrap()
}

/// Decisions stand across sites.
const ACROSS: Speculation = Speculation {
    variant: SpeculationVariant::StrExternal,
    orders_sessions: false,
    chain_max: None,
    untuned: false,
    decisions: Decisions::AcrossSites,
    grants: Grants::All,
};

/// Reads go to leaders.
const AT_LEADERS: Speculation = Speculation { decisions: Decisions::Site, grants: Grants::Leader, ..ACROSS };

/// The nodes of each home.
fn homes(keyspace: &Keyspace) -> Vec<Vec<u16>> {
    let nodes = |home: &quorate::topology::Shard| home.replicas.iter().map(|node| node.0).collect();
    keyspace.definition().homes.iter().map(nodes).collect()
}

#[tokio::test]
async fn transactions_run_as_in_other_keyspaces() {
    let usual = Speculation::default();
    for (sites, speculation, expected) in [
        (["a", "b", "c"], usual, vec![vec![0], vec![1], vec![2]]),
        (["a", "b", "c"], ACROSS, vec![vec![0, 1, 2]]),
        (["a", "b", "c"], AT_LEADERS, vec![vec![0], vec![1], vec![2]]),
        (["a"; 3], usual, vec![vec![0, 1, 2]]),
    ] {
        let cluster = Cluster::start_in(&sites);
        let db = cluster.connect().await;
        let shop = create_as(&db, Durability::Sync, speculation).await;
        assert_eq!(homes(&shop), expected);
        stories::transactions_run(&db, &shop).await;
        db.drop_keyspace("shop").await.unwrap();
    }
}

/// Two transactions with one snapshot: the second to write a key that both write commits nowhere, and one that has read what the other
/// writes does, which serializability forbids.
#[tokio::test]
async fn a_lost_update_is_a_conflict_and_a_write_skew_is_none() {
    let cluster = Cluster::start();
    let db = cluster.connect().await;
    let shop = create(&db, Durability::Sync).await;
    for key in ["a", "b"] {
        increment(&shop, key).await.unwrap();
    }
    let (mut one, mut other) = (shop.begin().await.unwrap(), shop.begin().await.unwrap());
    for txn in [&one, &other] {
        txn.get("a").await.unwrap();
    }
    one.put("a", "one").unwrap();
    other.put("a", "other").unwrap();
    one.commit().await.unwrap();
    let error = other.commit().await.unwrap_err();
    assert!(matches!(error, Error::Conflict), "{error}");
    let (mut one, mut other) = (shop.begin().await.unwrap(), shop.begin().await.unwrap());
    for txn in [&one, &other] {
        txn.get_many(["a", "b"]).await.unwrap();
    }
    one.put("a", "1").unwrap();
    other.put("b", "1").unwrap();
    one.commit().await.unwrap();
    other.commit().await.unwrap();
}

/// All clients find what one has committed, at whichever node.
#[tokio::test]
async fn sessions_go_on_at_other_clients() {
    let cluster = Cluster::start();
    let (writer, reader) = (cluster.connect().await, cluster.connect().await);
    let shop = create(&writer, Durability::Sync).await;
    let others = reader.keyspace("shop").await.unwrap();
    for round in 1..=5 {
        assert_eq!(increment(&shop, "a").await.unwrap(), 2 * round - 1);
        reader.observe(&writer.seen()).await.unwrap();
        assert_eq!(count_up(&others, "a").await, 2 * round);
        writer.observe(&reader.seen()).await.unwrap();
    }
}

#[tokio::test]
async fn others_learn_what_became_of_a_transaction() {
    let cluster = Cluster::start();
    let (db, other) = (cluster.connect().await, cluster.connect().await);
    stories::others_learn_outcomes(&create(&db, Durability::Sync).await, &other).await;
}

#[tokio::test]
async fn a_node_is_missed_by_nobody_and_all_of_them_remember() {
    for sites in [["a", "b", "c"], ["a"; 3]] {
        let mut cluster = Cluster::start_in(&sites);
        let db = cluster.connect().await;
        let shop = create(&db, Durability::Sync).await;
        stories::nodes_crash_and_remember(&mut cluster, &shop).await;
    }
}

/// In memory the shards survive a node, and a home of one keeps its decisions on disk all the same. While it is away, the keys wait of which it alone
/// knows what became; all others are written.
#[tokio::test]
async fn a_keyspace_in_memory_survives_each_node() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let shop = create(&db, Durability::Memory).await;
    let homes: Vec<u32> = shop.definition().homes.iter().map(|home| home.id.0).collect();
    let load = Load::start(&shop);
    load.goes_on("it has begun").await;
    for node in 0..3 {
        cluster.crash(node);
        for key in ["x", "y", "z"] {
            assert_eq!(count_up(&shop, &format!("{key}{node}")).await, 1, "without node {node}");
        }
        for shard in 1..homes[0] {
            assert!(!cluster.has_log(node, shard, node), "shard {shard} is in memory");
        }
        assert!(cluster.has_log(node, homes[node], 0), "the home of node {node} is on its disk");
        cluster.restart(node);
        cluster.all_serve().await;
        load.goes_on(&format!("node {node} is back")).await;
    }
    load.end().await;
}

/// Nodes of one site share a home: the others find out what became of the transactions of one that is gone, and no key waits for it.
#[tokio::test]
async fn a_home_of_three_settles_what_a_node_has_left() {
    for (sites, speculation, durability) in [
        (["a"; 3], Speculation::default(), Durability::Sync),
        (["a"; 3], Speculation::default(), Durability::Memory),
        (["a", "b", "c"], ACROSS, Durability::Memory),
        (["a"; 3], AT_LEADERS, Durability::Memory),
    ] {
        let mut cluster = Cluster::start_in(&sites);
        let db = cluster.connect().await;
        let shop = create_as(&db, durability, speculation).await;
        let load = Load::start(&shop);
        load.goes_on("it has begun").await;
        for node in 0..3 {
            cluster.crash(node);
            load.goes_on(&format!("node {node} is gone, {durability}")).await;
            cluster.restart(node);
            cluster.all_serve().await;
            load.goes_on(&format!("node {node} is back, {durability}")).await;
        }
        load.end().await;
    }
}

/// The machine of a node follows the replicas: what it has decided is found where the others of its home are, and nothing misses the node.
#[tokio::test]
async fn replicas_and_homes_move_under_load_and_the_node_that_they_have_left_is_not_missed() {
    for (sites, before, after) in [
        (["a", "b", "c", "a"], vec![vec![0], vec![1], vec![2]], vec![vec![3], vec![1], vec![2]]),
        (["a"; 4], vec![vec![0, 1, 2]], vec![vec![1, 2, 3]]),
    ] {
        let mut cluster = Cluster::start_in(&sites);
        let db = cluster.connect().await;
        let options = KeyspaceOptions { replicas: Some(3), ..KeyspaceOptions::new(Isolation::Snapshot) };
        let shop = db.create_keyspace("shop", options).await.unwrap();
        assert_eq!(homes(&shop), before);
        let load = Load::start(&shop);
        load.goes_on("it has begun").await;
        let change = ReplicaChange::Vacate { nodes: BTreeSet::from([NodeId(0)]) };
        let changed = db.change_replicas("shop", &change, Duration::from_secs(60), |_| {}).await.unwrap();
        assert_eq!((changed.waits_for, changed.absent), (vec![], vec![]));
        assert_eq!(homes(&shop), after);
        cluster.crash(0);
        load.goes_on("node 0 is gone, and not missed").await;
        load.end().await;
        let known = count_up(&shop, "counter").await;
        // They come back from their logs, the new ones too.
        for node in 1..4 {
            cluster.crash(node);
        }
        for node in 1..4 {
            cluster.restart(node);
        }
        assert_eq!(count_up(&shop, "counter").await, known + 1);
        let resize = ReplicaChange::Resize { replicas: 1, sites: Vec::new() };
        let shrunk = db.change_replicas("shop", &resize, Duration::from_secs(60), |_| {}).await.unwrap();
        assert_eq!(shrunk.waits_for, Vec::<String>::new());
        assert_eq!(homes(&shop), after, "homes are as they were");
        assert_eq!(count_up(&shop, "counter").await, known + 2);
    }
}

/// A shop whose nodes are 100 ms apart, there and back, and clients at its sites.
pub(crate) struct Shop {
    pub(crate) west: Keyspace,
    east: Keyspace,
    db: Database,
    _cluster: Cluster,
}

impl Shop {
    async fn start(variant: SpeculationVariant) -> Shop {
        Shop::start_as(Speculation { variant, ..Speculation::default() }).await
    }

    pub(crate) async fn start_as(speculation: Speculation) -> Shop {
        let cluster = Cluster::start_with(&["north", "east", "west"], "[wan]\nmatrix = \"uniform-100ms\"\n");
        let at = async |site: &str| {
            let delays = Matrix::builtin("uniform-100ms");
            let options = Options { site: Some(site.to_owned()), delays, ..Options::default() };
            quorate::connect_with(cluster.addresses(), options).await.unwrap()
        };
        let (db, other) = (at("west").await, at("east").await);
        let options = KeyspaceOptions {
            durability: Durability::Memory,
            speculation: Some(speculation),
            ..KeyspaceOptions::new(Isolation::Snapshot)
        };
        let west = db.create_keyspace("shop", options).await.unwrap();
        let east = other.keyspace("shop").await.unwrap();
        // Until replicas serve reads at both sites.
        for shop in [&west, &east] {
            for key in ["warm/1", "warm/2"] {
                count_up(shop, key).await;
            }
        }
        Shop { west, east, db, _cluster: cluster }
    }
}

#[tokio::test]
async fn results_are_shown_before_they_are_final() -> quorate::Result<()> {
    let started = Shop::start(SpeculationVariant::StrExternal).await;
    let (shop, db) = (&started.west, &started.db);
    count_up(shop, "stock/book").await;
    let (shown_sender, shown) = std::sync::mpsc::channel();
    let (confirmed_sender, confirmed) = tokio::sync::oneshot::channel();
    let tell = |text: String| shown_sender.send(text).unwrap();
    let confirm = |text: String| confirmed_sender.send(text).unwrap();
    let began = tokio::time::Instant::now();
    // Page: order
    let mut order = shop.begin().await?;
    order.set_kind("order")?;
    let left = order.get("stock/book").await?.map_or(0, |stock| number(&stock));
    order.put("stock/book", (left - 1).to_string())?;
    order.put("order/1", "one book")?;
    let told = order
        .commit_speculatively(
            |info| info.commit_probability > 0.5,
            |order| tell(format!("Thank you! Your order is {}.", order.token())),
            move |end| match end {
                Ok(_) => confirm("Your order is confirmed.".to_owned()),
                Err(error) => confirm(format!("We are sorry: {error}")),
            },
        )
        .await?;
    // Page ends.
    let perceived = began.elapsed();
    let Speculated::Shown(commit) = &told else { panic!("it was final at once: {told:?}") };
    assert_eq!(commit.chain(), 1);
    assert!(shown.recv().unwrap().contains(&commit.token().to_string()));
    let token = commit.token();
    // Page: next
    if let Speculated::Shown(order) = &told {
        let mut receipt = shop.begin_after(order).await?;
        receipt.put("mail/1", "your order")?;
        receipt.commit().await?;
    }
    // Page ends.
    assert_eq!(confirmed.await.unwrap(), "Your order is confirmed.");
    let final_latency = began.elapsed();
    assert!(perceived < final_latency / 2, "shown after {perceived:?}, final after {final_latency:?}");
    assert!(matches!(db.outcome(&token).await.unwrap(), Outcome::Committed(_)));
    let mut order = shop.begin().await.unwrap();
    assert!(order.get("mail/1").await.unwrap().is_some());
    assert!(order.info().snapshot.is_some());
    order.abort().await
}

#[tokio::test]
async fn an_apology_is_owed_for_what_was_shown_and_lost_to_another_site() {
    let started = Shop::start(SpeculationVariant::StrExternal).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    // Both sites sell the last book at once, until one of them has been shown what it then loses.
    let owed = loop {
        assert!(tokio::time::Instant::now() < deadline, "both sites always commit");
        let sell = async |shop: &Keyspace| {
            let mut sale = shop.begin().await.unwrap();
            // Another sale may be in the way already.
            sale.get("stock").await.ok()?;
            sale.put("stock", "sold").ok()?;
            let (sender, end) = tokio::sync::oneshot::channel();
            let told = sale.commit_speculatively(|_| true, |_| {}, move |end| drop(sender.send(end))).await;
            match told {
                Ok(Speculated::Shown(commit)) => Some((commit, end.await.unwrap())),
                Ok(Speculated::Final(_)) | Err(_) => None,
            }
        };
        let (one, other) = tokio::join!(sell(&started.west), sell(&started.east));
        if let Some(owed) = [one, other].into_iter().flatten().find(|(_, end)| end.is_err()) {
            break owed;
        }
    };
    let (commit, end) = owed;
    let error = end.unwrap_err();
    assert!(matches!(&error, Error::ApologyOwed { token } if *token == commit.token()), "{error}");
    assert!(error.to_string().contains("apology"), "{error}");
}

#[tokio::test]
async fn a_keyspace_that_shows_nothing_refuses_to() {
    let started = Shop::start(SpeculationVariant::StrInternal).await;
    let mut sale = started.west.begin().await.unwrap();
    sale.put("stock", "sold").unwrap();
    let refused = sale.commit_speculatively(|_| true, |_| {}, drop).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(Invalid::ShowsNothing { .. })), "{refused}");
    // Nothing was asked yet, so it can still commit.
    sale.commit().await.unwrap();
}

/// It runs there and nowhere else, so the node takes its messages as long as it runs itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_is_open_on_a_node_that_stops_commits() {
    let mut cluster = Cluster::start_in(&["a", "b", "c"]);
    let db = cluster.connect_with(Options { site: Some("a".to_owned()), ..Options::default() }).await;
    let shop = create(&db, Durability::Sync).await;
    shop.put("stock", "7").await.unwrap();
    let mut transaction = shop.begin().await.unwrap();
    assert_eq!(transaction.get("stock").await.unwrap().unwrap(), "7");
    let stopping = tokio::task::spawn_blocking(move || {
        cluster.stop(0);
        cluster
    });
    // By now the node takes nothing of a transaction that a client begins there.
    tokio::time::sleep(Duration::from_millis(600)).await;
    transaction.put("stock", "6").unwrap();
    transaction.commit().await.unwrap();
    let mut cluster = stopping.await.unwrap();
    assert_eq!(shop.get("stock").await.unwrap().unwrap(), "6", "at another node");
    cluster.restart(0);
    cluster.all_serve().await;
    db.close().await;
}
