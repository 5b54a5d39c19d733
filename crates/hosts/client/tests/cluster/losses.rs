//! Shards of which more replicas have lost their records than they survive.

use std::time::Duration;

use quorate::{Error, Invalid, Keyspace, KeyspaceOptions, NodeId, ReplicaId, ReplicaIndex, Timestamp, View};
use tokio::time::Instant;

use crate::support::{Cluster, accounts, until};

/// Nobody has waited for a deadline, even if the machine is slow.
const SOON: Duration = Duration::from_secs(10);

/// Writes until this holds of what comes of it; gives that and how long the last write took.
async fn write_until(
    keyspace: &Keyspace,
    holds: impl Fn(&quorate::Result<()>) -> bool,
) -> (quorate::Result<()>, Duration) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let before = Instant::now();
        let outcome = keyspace.put("probe", "1").await;
        if holds(&outcome) {
            return (outcome, before.elapsed());
        }
        assert!(Instant::now() < deadline, "{outcome:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// True if the call names both lost replicas of so many shards, each with what is wrong with it.
fn gives_advice(outcome: &quorate::Result<()>, shards: usize) -> bool {
    matches!(outcome, Err(Error::Unavailable { missing }) if missing.len() == 2 * shards
        && missing.iter().all(|replica| replica.problem.is_some()))
}

#[tokio::test]
async fn a_lost_shard_says_so_at_once_and_goes_on_when_its_loss_is_accepted() {
    let mut cluster = Cluster::start();
    let db = cluster.connect().await;
    let accounts = accounts(&db).await;
    for number in 0..20 {
        accounts.put(format!("key{number}"), "1").await.unwrap();
    }
    // The last decisions are still on their way to the node that will be left.
    let known = || {
        cluster
            .status(0)
            .replicas
            .iter()
            .filter(|replica| replica.keyspace == "accounts")
            .map(|it| it.commits)
            .sum::<u64>()
    };
    until("what is left knows every commit", || known() >= 20).await;
    // Two of three are enough for that.
    let hosts =
        |node| cluster.status(node).replicas.iter().filter(|replica| replica.keyspace == "accounts").count();
    until("all have their replicas", || [1, 2].iter().all(|node| hosts(*node) == 2)).await;
    let shards: Vec<_> = accounts.definition().shards.iter().map(|shard| shard.id).collect();
    for node in [1, 2] {
        cluster.crash(node);
    }
    for node in [1, 2] {
        shards.iter().for_each(|shard| cluster.lose_log(node, shard.0));
        cluster.restart(node);
    }
    let (outcome, took) = write_until(&accounts, |outcome| gives_advice(outcome, 1)).await;
    assert!(took < SOON, "nobody waits for answers that cannot come: {took:?}");
    let error = outcome.unwrap_err();
    for part in ["node-1", "node-2", "quorate cluster accept-loss accounts", &cluster.addresses()[1]] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    let before = Instant::now();
    let read = accounts.get("key1").await.unwrap_err();
    assert!(matches!(read, Error::Unavailable { .. }) && before.elapsed() < SOON, "{read}");
    // Reads that hold nothing say so as well, over one shard or both, and name each replica once.
    let before = Instant::now();
    let everywhere: Vec<String> =
        (0..20).flat_map(|number| [format!("key{number}"), "key1".into()]).collect();
    let reads = [
        (1, accounts.read_only(["key1", "key1"]).await.map(drop)),
        (2, accounts.read_only(&everywhere).await.map(drop)),
        (1, accounts.read_at(Timestamp::ZERO, ["key1"]).await.map(drop)),
        (1, accounts.read_stale(Duration::from_secs(60), ["key1"]).await.map(drop)),
    ];
    for (shards, read) in reads {
        assert!(gives_advice(&read, shards), "{shards}: {read:?}");
    }
    assert!(before.elapsed() < SOON, "{:?}", before.elapsed());

    // A shard is lost, and not the cluster.
    let other = db.create_keyspace("other", KeyspaceOptions::new(quorate::Isolation::Strict)).await.unwrap();
    other.put("key", "1").await.unwrap();

    let accept = async |node: u16, shard| {
        let definition = accounts.definition();
        let group = definition.shards.iter().find(|group| group.id == shard).unwrap();
        let index = group.replicas.iter().position(|it| it.0 == node).unwrap();
        let replica = ReplicaId { shard, index: ReplicaIndex(index as u8) };
        db.accept_loss(NodeId(node), replica, View(1_000)).await
    };
    let refused = accept(0, shards[0]).await.unwrap_err();
    assert!(matches!(refused, Error::Invalid(Invalid::LossNotAccepted { .. })), "{refused}");
    for shard in &shards {
        // The node refuses until it has heard from the other replicas since it started.
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(refused) = accept(1, *shard).await {
            assert!(
                matches!(refused, Error::Invalid(Invalid::LossNotAccepted { passes: true, .. })),
                "{refused}"
            );
            assert!(Instant::now() < deadline, "{refused}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    write_until(&accounts, Result::is_ok).await.0.unwrap();
    for node in 0..3 {
        cluster.crash(node);
    }
    for node in 0..3 {
        cluster.restart(node);
    }
    let again = cluster.connect().await;
    let accounts = again.keyspace("accounts").await.unwrap();
    for number in 0..20 {
        let key = format!("key{number}");
        assert_eq!(accounts.get(&key).await.unwrap().as_deref(), Some(&b"1"[..]), "{key}");
    }
    let status = again.status(NodeId(1)).await.unwrap();
    let status = String::from_utf8_lossy(&status);
    let accepted =
        status.matches("\"accepted_losses\":[").count() - status.matches("\"accepted_losses\":[]").count();
    assert_eq!(accepted, shards.len(), "it is remembered: {status}");
}
