//! Two nodes have each other's replicas: each says whose they are, and believes none.

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "swapped-replicas",
    item: 3,
    what: "the directories replicas/ of two nodes are swapped while they are down, and put back",
    scenes: &[Scene { name: "swap", setup: THREE, play: |cluster| Box::pin(swap(cluster)) }],
};

async fn swap(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    for node in [A, B] {
        cluster.kill(node)?;
    }
    cluster.swap([A, B], "replicas")?;
    cluster.start(A)?;
    cluster.start(B)?;
    cluster.expect_refused(A, &["shard-", "node1"]).await?;
    cluster.expect_refused(B, &["shard-", "node0"]).await?;
    cluster.tempt().await?;
    for node in [A, B] {
        cluster.kill(node)?;
    }
    cluster.swap([A, B], "replicas")?;
    cluster.start(A)?;
    cluster.start(B)?;
    cluster.serve_at(&[A, B, C]).await
}
