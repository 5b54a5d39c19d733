//! Idle connections to the HTTP of nodes take all descriptors, and go again later: logs go on meanwhile, or come back by themselves.

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "no-descriptors",
    item: 8,
    what: "1,100 idle HTTP connections to each node, which may have 1,024 descriptors, while clients write; then they end",
    scenes: &[Scene { name: "idle-http", setup: THREE, play: |cluster| Box::pin(exhaust(cluster)) }],
};

/// How many connections, and how many descriptors a node may have.
const CONNECTIONS: usize = 1_100;
const LIMIT: &str = "ulimit -n 1024; exec \"$0\" \"$@\"";

/// How large values are, so that logs need further segments soon, which are files.
const VALUE_BYTES: usize = 60 * 1024;

/// How often clients try to write meanwhile.
const TRIES: usize = 10;

async fn exhaust(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(50).await?;
    cluster.kill_all()?;
    for node in [A, B, C] {
        cluster.start_within(node, &["sh", "-c", LIMIT])?;
    }
    cluster.serve().await?;
    cluster.fatten(VALUE_BYTES);
    let idle = cluster.connect_idly(CONNECTIONS).await?;
    for _ in 0..TRIES {
        if cluster.tempt().await? == 0 {
            break;
        }
    }
    drop(idle);
    cluster.fatten(0);
    cluster.serve().await?;
    cluster.write(50).await
}
