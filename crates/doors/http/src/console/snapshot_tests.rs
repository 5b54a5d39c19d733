//! Answers of nodes, and the picture that they make.

use std::time::Duration;

use quorate::NodeId;
use quorate::topology::Node as Place;
use quorate_core::SiteId;
use serde_json::json;
use tokio::time::Instant;

use super::*;

fn topology() -> Topology {
    let sites = ["us", "europe", "asia"].map(str::to_owned).to_vec();
    let node =
        |number| Place { id: NodeId(number), site: SiteId(number), address: format!("host{number}:7400") };
    Topology { sites, nodes: (0..3).map(node).collect() }
}

fn status(node: u16, index: u8, commits: u64) -> NodeStatus {
    let peers: Vec<_> = (0..3u16)
        .filter(|peer| *peer != node)
        .map(|peer| json!({ "node": peer, "connected": true, "round_trip_seconds": 0.1 * f64::from(node + peer) }))
        .collect();
    let traffic = json!({
        "commits": commits, "slow_commits": commits / 4, "aborts": 0,
        "recent_durations": [[0.1, 98], [0.4, 2]],
        "hot_keys": [{ "key": "stock", "writers": 9, "hindered": 3 }],
        "slow_transactions": [{ "transaction": "7.1.0", "seconds": 0.4, "committed": true, "ended_seconds_ago": 1.0, "keys": ["stock"] }],
    });
    serde_json::from_value(json!({
        "cluster": "test", "version": "0", "peers": peers, "problems": [],
        "replicas": [{
            "keyspace": "shop", "shard": 4, "index": index, "members": [0, 1, 2], "nodes": [0, 1, 2], "protocol": "tapir",
            "durability": "sync", "state": "normal", "catalogue": "listed", "view": 7, "traffic": traffic,
        }],
    }))
    .unwrap()
}

fn answered(node: u16, said: Result<NodeStatus, String>, at: Instant) -> Answered {
    Answered { node, said, took: Duration::from_millis(3), at }
}

#[test]
fn nodes_of_which_one_is_gone_make_one_picture() {
    let (mut surveyor, start) = (Surveyor::default(), Instant::now());
    let first = [0, 1, 2].map(|node| answered(node, Ok(status(node, node as u8, 100)), start));
    snapshot(0, &topology(), &first, &mut surveyor);
    let later = start + Duration::from_secs(2);
    let second = [
        answered(0, Ok(status(0, 0, 300)), later),
        answered(1, Ok(status(1, 1, 296)), later),
        answered(2, Err("it is not connected".to_owned()), later),
    ];
    let told = snapshot(5, &topology(), &second, &mut surveyor);
    assert_eq!(told.nodes.iter().map(|node| node.up).collect::<Vec<_>>(), [true, true, false]);
    assert_eq!(told.sites[0].round_trips, [None, Some(0.1), Some(0.2)]);
    let [shop] = &told.keyspaces[..] else { panic!("{told:?}") };
    assert_eq!((shop.isolation.as_str(), shop.commits_per_second), ("strict", 100.0), "counted once");
    assert_eq!((shop.fast_share, shop.p50_seconds, shop.p99_seconds), (Some(0.75), Some(0.1), Some(0.4)));
    assert_eq!(shop.hot_keys, [Hot { key: "stock".to_owned(), writers: 9, hindered: 3 }]);
    assert_eq!(shop.shards[0].verdict, "served by a majority");
    let states: Vec<_> = shop.shards[0].replicas.iter().map(|replica| replica.state.as_str()).collect();
    assert_eq!(states, ["normal", "normal", "unreachable"]);
    assert_eq!(told.slow_transactions.len(), 1, "all replicas tell of the same one");
    let [problem] = &told.problems[..] else { panic!("{:?}", told.problems) };
    assert_eq!(
        (problem.place.as_str(), problem.text.as_str()),
        ("node 2", "does not answer: it is not connected")
    );
    assert!(problem.advice.is_some());
}

#[test]
fn replicas_and_sites_that_lag_are_told() {
    let mut earlier = status(0, 0, 1);
    earlier.replicas[0].view = 3;
    let mut site = status(1, 1, 1);
    site.replicas[0].leads = true;
    let lag = json!({ "shard": 4, "uncommitted": 7, "uncommitted_seconds": 12.4, "holds_up": true });
    site.replicas[0].lags = vec![serde_json::from_value(lag).unwrap()];
    let now = Instant::now();
    let answers = [answered(0, Ok(earlier), now), answered(1, Ok(site), now)];
    let told = snapshot(0, &topology(), &answers, &mut Surveyor::default());
    let lags: Vec<_> =
        told.keyspaces[0].shards[0].replicas.iter().map(|replica| replica.lags.as_deref()).collect();
    let behind = "7 transactions of another site have not come, the first for 12 s";
    assert_eq!(lags, [Some(EARLIER_VIEW), Some(behind), None]);
    let texts: Vec<_> = told.problems.iter().map(|problem| problem.text.as_str()).collect();
    assert!(texts.contains(&"shard 4 holds up 7 transactions of shard 4, the first for 12 s"), "{texts:?}");
}

#[test]
fn a_node_of_an_earlier_version_is_shown_without_what_it_does_not_tell() {
    let old: NodeStatus = serde_json::from_value(
        json!({ "cluster": "test", "replicas": [{ "keyspace": "shop", "shard": 1 }] }),
    )
    .unwrap();
    let answers = [answered(0, Ok(old), Instant::now())];
    let told = snapshot(0, &topology(), &answers, &mut Surveyor::default());
    assert_eq!((told.nodes.len(), told.keyspaces[0].commits_per_second), (1, 0.0));
}

#[test]
fn a_cluster_that_cannot_be_reached_is_said_to_be() {
    let told = serde_json::to_value(Snapshot::unreachable(1, "no".to_owned())).unwrap();
    assert_eq!((&told["unreachable"], &told["nodes"]), (&json!("no"), &json!([])));
}
