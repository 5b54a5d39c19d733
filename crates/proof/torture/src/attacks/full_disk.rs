//! The disks of all nodes are full, and have room again later: nodes refuse writes meanwhile, and come back by themselves.

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "full-disk",
    item: 8,
    what: "the disks of all nodes are filled while clients write, a node is started with a full disk, and there is room again; needs to mount",
    scenes: &[Scene { name: "full", setup: THREE, play: |cluster| Box::pin(fill(cluster)) }],
};

/// How large the disks are.
const MEBIBYTES: u64 = 64;

/// How large values are, so that logs need further segments soon.
const VALUE_BYTES: usize = 60 * 1024;

/// How often clients try to write while there is no room.
const TRIES: usize = 20;

async fn fill(cluster: &mut Cluster) -> Result<(), Failure> {
    if !cluster.mount_small_disks(MEBIBYTES)? {
        cluster.skip("no file system can be mounted here: run as root");
        return Ok(());
    }
    cluster.begin().await?;
    cluster.write(50).await?;
    cluster.fatten(VALUE_BYTES);
    for node in [A, B, C] {
        cluster.fill(node)?;
    }
    for _ in 0..TRIES {
        if cluster.tempt().await? == 0 {
            break;
        }
    }
    cluster.kill(A)?;
    cluster.start(A)?;
    cluster.tempt().await?;
    for node in [A, B, C] {
        cluster.make_room(node)?;
    }
    cluster.fatten(0);
    cluster.serve().await?;
    cluster.write(50).await?;
    cluster.restart_all().await
}
