//! A node is killed while its replica joins a group, and the group goes on to other members meanwhile. When the node is back, so is
//! everything: its replica takes part, or is handed over and deleted.

use std::time::Duration;

use quorate_cluster::Failure;

use super::cluster::{Cluster, SERIALIZABLE, STRICT, Setup};
use super::{Attack, Scene};

/// Two nodes have nothing at first.
const ROOMY: Setup = Setup { nodes: 5, replicas: 3 };

pub(super) const ATTACK: Attack = Attack {
    name: "killed-while-joining",
    item: 5,
    what: "a node is killed while it joins a group, replicas move once more meanwhile, and it is started again",
    scenes: &[
        Scene {
            name: "serializable",
            setup: ROOMY,
            play: |cluster| Box::pin(kill(cluster, SERIALIZABLE, 0, Onward::WithIt)),
        },
        Scene {
            name: "serializable-without",
            setup: ROOMY,
            play: |cluster| Box::pin(kill(cluster, SERIALIZABLE, 0, Onward::WithoutIt)),
        },
        Scene {
            name: "serializable-late",
            setup: ROOMY,
            play: |cluster| Box::pin(kill(cluster, SERIALIZABLE, 300, Onward::WithoutIt)),
        },
        Scene {
            name: "strict",
            setup: ROOMY,
            play: |cluster| Box::pin(kill(cluster, STRICT, 50, Onward::WithoutIt)),
        },
    ],
};

/// How the group goes on while the node is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Onward {
    /// The node stays a member, and another one is replaced.
    WithIt,
    /// The node's seat goes to another.
    WithoutIt,
}

/// How large values are at first.
const VALUE_BYTES: usize = 32 * 1024;

/// The node is killed within so many milliseconds after its replica has been created.
async fn kill(cluster: &mut Cluster, keyspace: &str, millis: usize, onward: Onward) -> Result<(), Failure> {
    cluster.begin().await?;
    // So that joining takes a while.
    cluster.fatten(VALUE_BYTES);
    cluster.write(200).await?;
    cluster.fatten(0);
    let (hosts, spare) = cluster.hosts(keyspace).await?;
    let (joining, other) = (spare[0], spare[1]);
    cluster.begin_move(keyspace, hosts[0], joining)?;
    cluster.until_it_joins(joining, keyspace).await?;
    let later = cluster.draw(millis + 1);
    cluster.wait(Duration::from_millis(later as u64)).await;
    cluster.kill(joining)?;
    cluster.end_changes().await?;
    cluster.write(100).await?;
    let leaving = if onward == Onward::WithIt { hosts[1] } else { joining };
    cluster.begin_move(keyspace, leaving, other)?;
    cluster.end_changes().await?;
    cluster.write(50).await?;
    cluster.start(joining)?;
    cluster.serve().await?;
    cluster.write(100).await?;
    cluster.restart_all().await
}
