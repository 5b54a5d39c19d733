//! A server that cannot start says why, ends with exit code 1, and starts as always once that is mended.

use quorate_cluster::Failure;

use super::cluster::{A, Cluster, STRICT, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "early-error",
    item: 9,
    what: "a server is started while its address is taken, and with a damaged file; it ends with exit code 1 and says what is wrong",
    scenes: &[Scene { name: "errors", setup: THREE, play: |cluster| Box::pin(errors(cluster)) }],
};

async fn errors(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(100).await?;
    cluster.kill(A)?;
    let taken = cluster.take_address(A)?;
    cluster.start(A)?;
    cluster.expect_exit(A, &["cannot listen on"]).await?;
    drop(taken);
    for file in ["identity.toml", "nodes.toml"] {
        let sound = cluster.damage(A, file)?;
        cluster.start(A)?;
        cluster.expect_exit(A, &[file, "damaged"]).await?;
        cluster.put_back(&sound)?;
    }
    // The node may go on without the replica.
    let mark = cluster.replica(A, STRICT)?.join("replica.toml");
    let sound = cluster.damage(A, mark)?;
    cluster.start(A)?;
    cluster.expect_complaint(A, &["replica.toml", "damaged"]).await?;
    cluster.kill(A)?;
    cluster.put_back(&sound)?;
    cluster.start(A)
}
