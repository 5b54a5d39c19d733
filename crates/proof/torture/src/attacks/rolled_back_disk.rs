//! The disk of a node holds what it held in an earlier life. The others remember a later one, and do not believe it.

use quorate_cluster::{Begin, Failure};

use super::cluster::{A, B, C, Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "rolled-back-disk",
    item: 4,
    what: "a node's disk is replaced by a copy from before its last start, or the one before, while another node is stale and the third is \
           down; then it is replaced",
    scenes: &[
        Scene { name: "one-life", setup: THREE, play: |cluster| Box::pin(roll_back(cluster, 1)) },
        Scene { name: "two-lives", setup: THREE, play: |cluster| Box::pin(roll_back(cluster, 2)) },
    ],
};

/// The words that the refusal has to contain.
const REMEDY: &str = "--initialise=replace";

/// The copy is from so many lives ago.
async fn roll_back(cluster: &mut Cluster, lives: usize) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    cluster.stop(A).await?;
    let copy = cluster.copy(A)?;
    for _ in 0..lives {
        cluster.kill(A)?;
        cluster.start(A)?;
        cluster.serve().await?;
    }
    cluster.write(50).await?;
    cluster.kill(C)?;
    cluster.write(200).await?;
    cluster.kill(A)?;
    cluster.kill(B)?;
    cluster.roll_back(A, &copy)?;
    cluster.start(A)?;
    cluster.start(C)?;
    cluster.tempt().await?;
    cluster.expect_refused(A, &[REMEDY]).await?;
    cluster.tempt().await?;
    cluster.kill(A)?;
    cluster.start(B)?;
    cluster.empty(A)?;
    cluster.start_as(A, Begin::Replace)?;
    cluster.serve().await
}
