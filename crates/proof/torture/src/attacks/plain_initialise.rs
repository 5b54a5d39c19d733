//! A node whose disk is empty is started as if it were new. The others know it, and do not believe it; nothing is deleted because the
//! catalogue does not name it.

use std::path::PathBuf;
use std::time::Duration;

use quorate_cluster::{Begin, Failure};

use super::cluster::{A, B, C, Cluster, THREE};
use super::{Attack, Scene};

pub(super) const ATTACK: Attack = Attack {
    name: "plain-initialise",
    item: 2,
    what: "a node's disk is emptied and it is started with plain --initialise while the others are up, also with restarts of all nodes; \
           then it is replaced",
    scenes: &[
        Scene { name: "once", setup: THREE, play: |cluster| Box::pin(once(cluster)) },
        Scene { name: "restarts", setup: THREE, play: |cluster| Box::pin(with_restarts(cluster)) },
    ],
};

/// The words that the refusal has to contain.
const REMEDY: &str = "--initialise=replace";

/// How many calls of the catalogue have to succeed meanwhile.
const CALLS: usize = 6;

/// How long the others are given to delete what they must not delete.
const DELETE_TIME: Duration = Duration::from_secs(2);

async fn once(cluster: &mut Cluster) -> Result<(), Failure> {
    let survivors = forget(cluster).await?;
    for _ in 0..CALLS {
        cluster.command_done(&["keyspace", "list"]).await?;
    }
    cluster.command_done(&["keyspace", "create", "meanwhile", "--isolation", "strict"]).await?;
    cluster.expect_refused(A, &[REMEDY]).await?;
    cluster.write(100).await?;
    has_kept(cluster, &survivors)?;
    replace(cluster).await
}

async fn with_restarts(cluster: &mut Cluster) -> Result<(), Failure> {
    let survivors = forget(cluster).await?;
    for _ in 0..2 {
        cluster.wait(DELETE_TIME).await;
        cluster.kill_all()?;
        for node in [A, B, C] {
            cluster.start(node)?;
        }
        // The node may have noted that it is not believed, and not start any more.
        cluster.expect_complaint(A, &[REMEDY]).await?;
        cluster.serve_at(&[B, C]).await?;
    }
    cluster.wait(DELETE_TIME).await;
    has_kept(cluster, &survivors)?;
    for _ in 0..CALLS {
        let list = cluster.command_done(&["keyspace", "list"]).await?;
        if !list.contains("strict") || !list.contains("serializable") {
            return Err(Failure::failed(format!("keyspaces are missing in the catalogue: {list}")));
        }
    }
    cluster.write(100).await?;
    replace(cluster).await
}

/// A has been emptied and started as if it were new. Gives what the others have.
async fn forget(cluster: &mut Cluster) -> Result<Vec<(usize, PathBuf)>, Failure> {
    cluster.begin().await?;
    cluster.write(200).await?;
    let mut survivors = Vec::new();
    for node in [B, C] {
        survivors.extend(cluster.replicas_of(node)?.into_iter().map(|replica| (node, replica)));
    }
    cluster.kill(A)?;
    cluster.empty(A)?;
    cluster.start_as(A, Begin::New)?;
    Ok(survivors)
}

fn has_kept(cluster: &Cluster, survivors: &[(usize, PathBuf)]) -> Result<(), Failure> {
    let deleted = survivors.iter().find(|(node, replica)| !cluster.data(*node).join(replica).exists());
    match deleted {
        Some((node, replica)) => {
            Err(Failure::failed(format!("node {node} has deleted {}", replica.display())))
        }
        None => Ok(()),
    }
}

async fn replace(cluster: &mut Cluster) -> Result<(), Failure> {
    cluster.kill(A)?;
    cluster.empty(A)?;
    cluster.start_as(A, Begin::Replace)?;
    cluster.serve().await
}
