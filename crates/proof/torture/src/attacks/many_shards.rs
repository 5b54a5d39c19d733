//! A keyspace of many shards is created: what the command says is true.

use std::time::Duration;

use quorate_cluster::Failure;

use super::cluster::{Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "many-shards",
    item: 10,
    what: "a keyspace of 600 shards is created, and the catalogue holds what the command has said; then it is dropped",
    scenes: &[Scene { name: "600", setup: THREE, play: |cluster| Box::pin(create(cluster)) }],
};

/// How long whatever was surely not done has to stay undone.
const AFTERMATH: Duration = Duration::from_secs(3);

async fn create(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.begin().await?;
    cluster.write(50).await?;
    let create = ["keyspace", "create", "many", "--isolation", "strict", "--shards", "600"];
    let told = cluster.command(&create).await?;
    cluster.wait(AFTERMATH).await;
    let is_there = cluster.command_done(&["keyspace", "list"]).await?.contains("many");
    let may_be_there = told.err.contains("may or may not");
    if is_there != (told.code == Some(0)) && !may_be_there {
        return Err(Failure::failed(format!(
            "the keyspace is in the catalogue: {is_there}, and the command has said {:?}: {}",
            told.code,
            told.err.trim_end()
        )));
    }
    if is_there {
        cluster.command_done(&["keyspace", "drop", "many"]).await?;
    }
    cluster.write(50).await
}
