//! The clock of a leader is two hours ahead for two seconds. It does not lead and propose with that clock, and nothing is left of it when
//! the clock is right again.

use std::time::{Duration, Instant};

use quorate_cluster::Failure;

use super::cluster::{A, B, C, Cluster, SERIALIZABLE, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "leaping-clock",
    item: 7,
    what: "the clock of the leader of a serializable keyspace is two hours ahead for two seconds; needs libfaketime",
    scenes: &[Scene { name: "ahead", setup: THREE, play: |cluster| Box::pin(leap(cluster)) }],
};

/// How far the clock is ahead, as libfaketime is told, and for how long.
const AHEAD: &str = "+7200s";
const RIGHT: &str = "+0s";
const LASTS: Duration = Duration::from_secs(2);

/// How many writes every keyspace has to acknowledge afterwards, in much less time than the clock was ahead.
const WRITES: u64 = 300;

async fn leap(cluster: &mut Cluster) -> Result<(), Failure> {
    let Some(library) = Cluster::fake_time_library() else {
        cluster.skip("there is no libfaketime here: install it");
        return Ok(());
    };
    cluster.begin().await?;
    cluster.write(50).await?;
    cluster.kill_all()?;
    for node in [A, B, C] {
        cluster.set_clock(node, RIGHT)?;
        cluster.start_with_clock(node, &library)?;
    }
    cluster.serve().await?;
    // Twice, because much depends on what is under way when a clock comes back.
    for _ in 0..2 {
        let leader = cluster.leader(SERIALIZABLE).await?;
        cluster.set_clock(leader, AHEAD)?;
        let end = Instant::now() + LASTS;
        while Instant::now() < end {
            cluster.tempt().await?;
        }
        cluster.set_clock(leader, RIGHT)?;
        cluster.write(WRITES).await?;
    }
    cluster.restart_all().await?;
    cluster.write(WRITES).await
}
