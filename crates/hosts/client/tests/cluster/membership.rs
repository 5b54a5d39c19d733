//! Replicas that are replaced, added and taken away while they are used.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate::{
    Changed, Database, Durability, Isolation, Keyspace, KeyspaceOptions, NodeId, ReplicaChange, Result,
    Rival, System,
};

use crate::support::{Cluster, Load, accounts, until};

const PATIENCE: Duration = Duration::from_secs(20);

async fn change(db: &Database, change: ReplicaChange) -> Result<Changed> {
    db.change_replicas("accounts", &change, PATIENCE, |_| {}).await
}

fn moved(from: u16, to: u16) -> ReplicaChange {
    ReplicaChange::Move { shard: None, from: NodeId(from), to: NodeId(to) }
}

fn resized(replicas: usize) -> ReplicaChange {
    ReplicaChange::Resize { replicas, sites: Vec::new() }
}

/// The nodes of each shard, as a keyspace is defined.
fn nodes(keyspace: &Keyspace) -> Vec<Vec<u16>> {
    let definition = keyspace.definition();
    let of_shard = |shard: &quorate::topology::Shard| {
        // The first of them leads first, and differs from shard to shard.
        let mut nodes: Vec<u16> = shard.replicas.iter().map(|node| node.0).collect();
        nodes.sort_unstable();
        nodes
    };
    definition.shards.iter().map(of_shard).collect()
}

/// How many replicas of the keyspace a node has.
fn hosted(cluster: &Cluster, node: usize) -> usize {
    cluster.status(node).replicas.iter().filter(|replica| replica.keyspace == "accounts").count()
}

/// A keyspace whose first replicas are on the first three of four nodes.
async fn accounts_on_three(db: &Database) -> Keyspace {
    accounts_run_by(db, None).await
}

/// The same, run by a comparison system if one is named.
async fn accounts_run_by(db: &Database, comparison: Option<Rival>) -> Keyspace {
    accounts_named(db, "accounts", comparison).await
}

async fn accounts_named(db: &Database, name: &str, comparison: Option<Rival>) -> Keyspace {
    let options = KeyspaceOptions {
        comparison,
        shards: 2,
        replicas: Some(3),
        sites: ["a", "b", "c"].map(str::to_owned).to_vec(),
        durability: Durability::Sync,
        ..KeyspaceOptions::new(Isolation::Strict)
    };
    db.create_keyspace(name, options).await.unwrap()
}

#[tokio::test]
async fn replicas_move_under_load_and_the_node_that_they_have_left_is_not_missed() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d"]);
    let db = cluster.connect().await;
    let accounts = accounts_on_three(&db).await;
    accounts.put("before", "1").await.unwrap();
    let load = Load::start(&accounts);
    load.goes_on("the start").await;
    // Somebody else changes it: who is connected finds out.
    let operator = cluster.connect().await;
    let changed = change(&operator, moved(1, 3)).await.unwrap();
    assert_eq!((changed.definition.epoch.0, changed.is_new), (1, true));
    assert_eq!((changed.waits_for, changed.absent), (vec![], vec![]));
    assert_eq!([0, 1, 2, 3].map(|node| hosted(&cluster, node)), [2, 0, 2, 2]);
    cluster.crash(1);
    cluster.crash(2);
    tokio::time::sleep(Duration::from_millis(500)).await;
    accounts.put("after", "1").await.unwrap();
    load.goes_on("two crashes, one of a node that is not missed").await;
    cluster.restart(2);
    load.end().await;
    assert_eq!(nodes(&accounts), [[0, 2, 3], [0, 2, 3]], "it has heard of the change");

    // Its replicas come back from their logs, and know who they are.
    for node in [0, 2, 3] {
        cluster.crash(node);
    }
    for node in 0..4 {
        cluster.restart(node);
    }
    let accounts = cluster.connect().await.keyspace("accounts").await.unwrap();
    for key in ["before", "after"] {
        assert!(accounts.get(key).await.unwrap().is_some(), "{key}");
    }
    assert_eq!([0, 1, 2, 3].map(|node| hosted(&cluster, node)), [2, 0, 2, 2]);
}

/// Shards, and the timestamp server or the coordinator that they share.
#[tokio::test]
async fn groups_on_logs_move_under_load_and_the_node_that_they_have_left_is_not_missed() {
    for system in [System::TxnOcc, System::SpanLock, System::Sinfonia] {
        let mut cluster = Cluster::start_in(&["a", "b", "c", "d"]);
        let db = cluster.connect().await;
        let accounts = accounts_run_by(&db, Some(system.into())).await;
        let groups = accounts.definition().groups().count();
        let load = Load::start(&accounts);
        load.goes_on("the start").await;
        let changed = change(&cluster.connect().await, moved(0, 3)).await.unwrap();
        assert_eq!((changed.definition.epoch.0, &changed.waits_for), (1, &vec![]), "{system}");
        assert_eq!([0, 1, 2, 3].map(|node| hosted(&cluster, node)), [0, groups, groups, groups], "{system}");
        cluster.crash(0);
        accounts.put("after", "1").await.unwrap();
        load.goes_on(&format!("the crash of a node that {system} does not miss")).await;
        load.end().await;
        // They come back from their logs, the new ones too.
        for node in [1, 2, 3] {
            cluster.crash(node);
        }
        for node in 0..4 {
            cluster.restart(node);
        }
        let accounts = cluster.connect().await.keyspace("accounts").await.unwrap();
        assert!(accounts.get("after").await.unwrap().is_some(), "{system}");
    }
}

#[tokio::test]
async fn groups_grow_and_shrink_under_load() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d", "e"]);
    let db = cluster.connect().await;
    let accounts = accounts_on_three(&db).await;
    let load = Load::start(&accounts);
    let grown = change(&db, resized(5)).await.unwrap();
    assert_eq!((grown.definition.epoch.0, grown.waits_for), (1, vec![]));
    assert_eq!(nodes(&accounts), [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]]);
    // It survives two now.
    cluster.crash(0);
    cluster.crash(1);
    tokio::time::sleep(Duration::from_millis(500)).await;
    accounts.put("meanwhile", "1").await.unwrap();
    cluster.restart(0);
    cluster.restart(1);
    let shrunk = change(&db, resized(3)).await.unwrap();
    assert_eq!((shrunk.definition.epoch.0, shrunk.waits_for), (2, vec![]));
    assert_eq!((0..5).map(|node| hosted(&cluster, node)).sum::<usize>(), 6);
    load.goes_on("growing and shrinking").await;
    load.end().await;
    assert!(accounts.get("meanwhile").await.unwrap().is_some());
    assert!(!change(&db, resized(3)).await.unwrap().is_new, "it has as many");
}

/// Everybody has to find it again: nodes, clients that are connected, and such as come later.
#[tokio::test]
async fn the_configuration_service_moves_grows_and_shrinks_while_keyspaces_are_created() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d", "e"]);
    let (db, operator) = (cluster.connect().await, cluster.connect().await);
    let accounts = accounts(&db).await;
    let held = |cluster: &Cluster, node| {
        cluster
            .status(node)
            .replicas
            .iter()
            .any(|replica| replica.keyspace == "_system" && replica.state == "normal")
    };
    let wishes = [moved(0, 3), moved(1, 0), resized(5), resized(3)];
    for (epoch, wish) in (1..).zip(wishes) {
        let changed = operator.change_replicas("_system", &wish, PATIENCE, |_| {}).await.unwrap();
        assert_eq!((changed.definition.epoch.0, changed.waits_for), (epoch, vec![]), "{wish:?}");
        let name = format!("keyspace{epoch}");
        let created = db.create_keyspace(&name, KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
        created.put("alice", "1").await.unwrap();
        cluster.connect().await.keyspace(&name).await.unwrap();
        let holders = (0..5).filter(|node| held(&cluster, *node)).count();
        assert_eq!(holders, changed.definition.shards[0].replicas.len());
    }
    // A node that starts anew knows who holds it.
    for node in 0..5 {
        cluster.crash(node);
    }
    for node in 0..5 {
        cluster.restart(node);
    }
    let db = cluster.connect().await;
    assert_eq!(db.list().await.unwrap().len(), 5);
    db.create_keyspace("last", KeyspaceOptions::new(Isolation::Strict)).await.unwrap();
    drop(accounts);
}

#[tokio::test]
async fn a_node_is_emptied_without_being_there() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "c"]);
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    accounts.put("alice", "1").await.unwrap();
    let node = nodes(&accounts)[0].iter().copied().find(|node| *node > 1).unwrap();
    let left = usize::from(node);
    cluster.crash(left);
    let vacated = change(&db, ReplicaChange::Vacate { nodes: BTreeSet::from([NodeId(node)]) }).await.unwrap();
    assert_eq!(vacated.waits_for, Vec::<String>::new());
    assert!(!vacated.absent.is_empty(), "what is there is deleted when it is back");
    assert!(nodes(&accounts).iter().all(|nodes| !nodes.contains(&node)));
    assert_eq!(accounts.get("alice").await.unwrap().unwrap(), "1");
    cluster.restart(left);
    until("it is told that nobody needs it", || hosted(&cluster, left) == 0).await;
}

#[tokio::test]
async fn the_node_of_a_site_that_was_taken_out_is_forgotten_and_replicas_of_others_still_move() {
    let mut cluster = Cluster::start_in(&["a", "a", "b", "c", "d"]);
    let db = cluster.connect().await;
    let options = KeyspaceOptions {
        shards: 1,
        replicas: Some(1),
        durability: Durability::Sync,
        ..KeyspaceOptions::new(Isolation::ParallelSnapshot)
    };
    let accounts = db.create_keyspace("accounts", options).await.unwrap();
    let (_, receipt) = accounts.transact_with_receipt(async |txn| txn.put("alice", "1")).await.unwrap();
    receipt.visible().await.unwrap();
    cluster.crash(4);
    let refused = db.forget_node(NodeId(4)).await.unwrap_err().to_string();
    assert!(refused.contains("replicas of \"accounts\""), "{refused}");
    assert!(db.remove_site("accounts", "d", PATIENCE, |_| {}).await.unwrap().is_settled());
    db.forget_node(NodeId(4)).await.unwrap();
    let at = nodes(&db.keyspace("accounts").await.unwrap())[0][0];
    let changed = change(&db, moved(at, 1 - at)).await.unwrap();
    assert_eq!((changed.waits_for, changed.absent), (vec![], vec![]));
    assert_eq!(accounts.get("alice").await.unwrap().unwrap(), "1");
}

#[tokio::test]
async fn a_node_is_forgotten_once_it_has_nothing_and_nobody_gets_its_number() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d", "e"]);
    let db = cluster.connect().await;
    accounts_on_three(&db).await;
    change(&db, moved(1, 3)).await.unwrap();
    for (node, expected) in [(3, "replicas of \"accounts\""), (1, "replicas of \"_system\""), (9, "no node")]
    {
        let error = db.forget_node(NodeId(node)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    change(&db, moved(3, 4)).await.unwrap();
    db.forget_node(NodeId(3)).await.unwrap();
    assert!(db.forget_node(NodeId(3)).await.is_err(), "once");
    let refused = change(&db, moved(0, 3)).await.unwrap_err().to_string();
    assert!(
        refused.contains("node3"),
        "nothing moves there, whether this client has heard of it or not: {refused}"
    );
    let noticed = || db.topology().node(NodeId(3)).is_none() && !cluster.status(3).healthy;
    until("clients and the node itself are told", noticed).await;
    assert!(cluster.status(3).problems.iter().any(|problem| problem.contains("forgotten")));
    // It is not let in again, and nothing is placed there.
    cluster.crash(3);
    cluster.restart(3);
    let db = cluster.connect().await;
    assert!(db.topology().node(NodeId(3)).is_none() && db.topology().nodes.len() == 5);
    let options = KeyspaceOptions { shards: 4, ..KeyspaceOptions::new(Isolation::Strict) };
    let feed = db.create_keyspace("feed", options).await.unwrap();
    assert!(nodes(&feed).iter().flatten().all(|node| *node != 3));
}

#[tokio::test]
async fn nodes_that_crash_and_disks_that_are_lost_in_the_middle_of_changes_cost_nothing() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d"]);
    let db = cluster.connect().await;
    let accounts = accounts_on_three(&db).await;
    let load = Load::start(&accounts);
    let operator = cluster.connect().await;
    for (from, to, crashing) in [(0, 3, 3), (1, 0, 2), (3, 1, 3), (2, 3, 0)] {
        let changing = tokio::spawn({
            let operator = operator.clone();
            async move { change(&operator, moved(from, to)).await }
        });
        tokio::time::sleep(Duration::from_millis(150)).await;
        cluster.crash(crashing);
        tokio::time::sleep(Duration::from_millis(300)).await;
        if crashing == 2 {
            cluster.replace(crashing)
        } else {
            cluster.restart(crashing)
        }
        let changed = changing.await.unwrap().unwrap();
        let nodes = [0, 1, 2, 3].map(|node| cluster.status(node));
        assert_eq!(changed.waits_for, Vec::<String>::new(), "{from} to {to}, among {nodes:?}");
    }
    accounts.put("alice", "1").await.unwrap();
    load.goes_on("the last change").await;
    load.end().await;
    assert_eq!(nodes(&accounts), [[0, 1, 3], [0, 1, 3]].map(|nodes| nodes.to_vec()));
    assert_eq!(accounts.definition().epoch.0, 4);
}

#[tokio::test]
async fn what_cannot_be_is_refused_and_says_why() {
    let mut cluster = Cluster::start_in(&["a", "b", "c", "d"]);
    let db = cluster.connect().await;
    accounts_on_three(&db).await;
    let table = [
        (moved(0, 1), "node1 has a replica of"),
        (moved(3, 1), "node3 has no replica"),
        (moved(0, 9), "node9 is no node"),
        (resized(4), "odd number"),
        (resized(5), "no node is left"),
        (ReplicaChange::Resize { replicas: 5, sites: vec!["mars".into()] }, "no site \"mars\""),
    ];
    for (wish, expected) in table {
        let error = change(&db, wish).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let fixed = Rival::ALL.into_iter().find(|rival| !rival.changes_groups());
    accounts_named(&db, "registers", fixed).await;
    let stays = db.change_replicas("registers", &moved(0, 3), PATIENCE, |_| {}).await.unwrap_err();
    assert!(stays.to_string().contains("quorum store"), "{stays}");
    let unknown = db.change_replicas("nothing", &moved(0, 3), PATIENCE, |_| {}).await.unwrap_err();
    assert!(unknown.to_string().contains("there are: accounts, registers, _system"), "{unknown}");
    // Without a majority nobody could hand over what is known.
    cluster.crash(1);
    cluster.crash(2);
    let hasty = Duration::from_secs(1);
    let error = db.change_replicas("accounts", &moved(1, 3), hasty, |_| {}).await.unwrap_err().to_string();
    assert!(error.contains("nothing was") || error.contains("too few replicas"), "{error}");
}
