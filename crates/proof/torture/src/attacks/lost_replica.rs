//! The files of a replica are gone while the disk of its node is otherwise there: the node knows what must be there, and does not begin empty.

use std::path::Path;

use quorate_cluster::{Begin, Failure};

use super::cluster::{A, B, C, Cluster, SERIALIZABLE, STRICT, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "lost-replica",
    item: 3,
    what: "a replica's directory, its mark or all of replicas/ is removed while its node is down, another node is stale and the third is down; \
           then it is put back, or the node is started with --rejoin",
    scenes: &[
        Scene { name: "strict", setup: THREE, play: |cluster| Box::pin(directory_is_lost(cluster, STRICT)) },
        Scene {
            name: "serializable",
            setup: THREE,
            play: |cluster| Box::pin(directory_is_lost(cluster, SERIALIZABLE)),
        },
        Scene { name: "mark", setup: THREE, play: |cluster| Box::pin(mark_is_lost(cluster)) },
        Scene { name: "everything", setup: THREE, play: |cluster| Box::pin(everything_is_lost(cluster)) },
        Scene { name: "leader", setup: THREE, play: |cluster| Box::pin(leader_loses_its_replica(cluster)) },
    ],
};

/// The words that the refusal has to contain, beside the name of what is missing.
const REMEDY: &str = "--rejoin";

async fn directory_is_lost(cluster: &mut Cluster, keyspace: &str) -> Result<(), Failure> {
    let lost = prepare(cluster).await?.replica(A, keyspace)?;
    put_back(cluster, &lost).await
}

async fn mark_is_lost(cluster: &mut Cluster) -> Result<(), Failure> {
    let lost = prepare(cluster).await?.replica(A, STRICT)?.join("replica.toml");
    put_back(cluster, &lost).await
}

async fn everything_is_lost(cluster: &mut Cluster) -> Result<(), Failure> {
    prepare(cluster).await?;
    rejoin(cluster, Path::new("replicas")).await
}

/// Every node is down, A and B know everything, and C has slept through the last writes.
async fn prepare(cluster: &mut Cluster) -> Result<&Cluster, Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    cluster.kill(C)?;
    cluster.write(200).await?;
    cluster.kill(B)?;
    cluster.kill(A)?;
    Ok(cluster)
}

/// A and C are up: what C has slept through, A alone would know.
async fn put_back(cluster: &mut Cluster, lost: &Path) -> Result<(), Failure> {
    let taken = cluster.take(A, lost)?;
    cluster.start(A)?;
    cluster.start(C)?;
    cluster.tempt().await?;
    cluster.expect_refused(A, &["shard-", REMEDY]).await?;
    cluster.kill(A)?;
    cluster.put_back(&taken)?;
    cluster.start(A)?;
    cluster.serve().await?;
    cluster.write(50).await?;
    cluster.start(B)
}

/// The same, and B brings back what A has lost.
async fn rejoin(cluster: &mut Cluster, lost: &Path) -> Result<(), Failure> {
    cluster.take(A, lost)?;
    cluster.start(A)?;
    cluster.start(C)?;
    cluster.tempt().await?;
    cluster.expect_refused(A, &["replicas", REMEDY]).await?;
    cluster.kill(A)?;
    cluster.start(B)?;
    cluster.start_as(A, Begin::Rejoin)?;
    cluster.serve().await?;
    cluster.restart_all().await
}

/// The others go on, and the leader comes back by learning from them.
async fn leader_loses_its_replica(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    let leader = cluster.leader(SERIALIZABLE).await?;
    cluster.kill(leader)?;
    let lost = cluster.replica(leader, SERIALIZABLE)?;
    cluster.take(leader, &lost)?;
    cluster.start(leader)?;
    cluster.expect_refused(leader, &["shard-", REMEDY]).await?;
    cluster.write(200).await?;
    cluster.kill(leader)?;
    cluster.start_as(leader, Begin::Rejoin)?;
    cluster.serve().await
}
