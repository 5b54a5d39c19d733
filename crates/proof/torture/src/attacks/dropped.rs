//! A keyspace is dropped by mistake, and taken back within the delay: nothing of it was deleted. One that is not taken back is deleted.

use std::time::{Duration, Instant};

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, STRICT, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "dropped",
    item: 2,
    what: "a keyspace is dropped and taken back within the delay, with restarts between; another one is deleted after its delay",
    scenes: &[
        Scene { name: "undrop", setup: THREE, play: |cluster| Box::pin(undrop(cluster)) },
        Scene { name: "delete", setup: THREE, play: |cluster| Box::pin(delete(cluster)) },
    ],
};

/// How long a dropped keyspace has to be left alone here.
const LEFT_ALONE: Duration = Duration::from_secs(3);

/// How long its deletion may take once it is due.
const DELETE_TIMEOUT: Duration = Duration::from_secs(15);

async fn undrop(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    cluster.command_done(&["keyspace", "drop", STRICT, "--delete-after", "24h"]).await?;
    is_kept(cluster, STRICT)?;
    cluster.kill_all()?;
    for node in [A, B, C] {
        cluster.start(node)?;
    }
    cluster.wait(LEFT_ALONE).await;
    is_kept(cluster, STRICT)?;
    cluster.command_done(&["keyspace", "undrop", STRICT]).await?;
    cluster.write(100).await
}

async fn delete(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(50).await?;
    cluster.command_done(&["keyspace", "create", "gone", "--isolation", "strict"]).await?;
    cluster.wait(Duration::from_secs(1)).await;
    is_kept(cluster, "gone")?;
    cluster.command_done(&["keyspace", "drop", "gone", "--delete-after", "2s"]).await?;
    is_kept(cluster, "gone")?;
    let deadline = Instant::now() + DELETE_TIMEOUT;
    while [A, B, C].into_iter().any(|node| cluster.replica(node, "gone").is_ok()) {
        if Instant::now() >= deadline {
            return Err(Failure::failed(format!(
                "a dropped keyspace is not deleted {DELETE_TIMEOUT:?} after the drop"
            )));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn is_kept(cluster: &Cluster, keyspace: &str) -> Result<(), Failure> {
    [A, B, C].into_iter().try_for_each(|node| cluster.replica(node, keyspace).map(|_| ()))
}
