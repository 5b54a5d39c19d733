//! A keyspace gets other replicas, and then every node is started again, twice: the first start writes down how groups are now, the
//! second has only that to go by.

use quorate_cluster::Failure;

use super::cluster::{Cluster, Setup};
use super::{Attack, Scene};

/// Keyspaces on all five nodes, and on three of five.
const WIDE: Setup = Setup { nodes: 5, replicas: 5 };
const NARROW: Setup = Setup { nodes: 5, replicas: 3 };

pub(super) const ATTACK: Attack = Attack {
    name: "resize-restart",
    item: 1,
    what: "keyspaces shrink from five replicas to three and to one, or grow from three to five, with two restarts of all nodes after each step",
    scenes: &[
        Scene { name: "shrink", setup: WIDE, play: |cluster| Box::pin(shrink(cluster)) },
        Scene { name: "grow", setup: NARROW, play: |cluster| Box::pin(grow(cluster)) },
    ],
};

async fn shrink(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(100).await?;
    for replicas in [3, 1] {
        cluster.resize(replicas).await?;
        cluster.write(100).await?;
        cluster.restart_all().await?;
        cluster.restart_all().await?;
        cluster.write(100).await?;
    }
    Ok(())
}

async fn grow(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(100).await?;
    cluster.resize(5).await?;
    cluster.write(100).await?;
    cluster.restart_all().await?;
    cluster.restart_all().await
}
