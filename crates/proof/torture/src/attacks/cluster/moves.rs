//! Replicas that move, also while something else happens.

use std::time::{Duration, Instant};

use quorate::{Changed, NodeId, ReplicaChange};
use quorate_cluster::Failure;

use super::{Cluster, KEYSPACES, POLL};

/// How long replicas may take to move.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

impl Cluster {
    /// Every shard of every keyspace gets so many replicas.
    pub(in super::super) async fn resize(&mut self, replicas: usize) -> Result<(), Failure> {
        for (name, _) in KEYSPACES {
            self.begin_change(name, ReplicaChange::Resize { replicas, sites: Vec::new() })?;
            self.end_changes().await?;
        }
        Ok(())
    }

    /// The replicas of a keyspace begin to move from one node to another.
    pub(in super::super) fn begin_move(
        &mut self,
        keyspace: &str,
        from: usize,
        to: usize,
    ) -> Result<(), Failure> {
        let [from, to] = [from, to].map(|node| NodeId(node as u16));
        self.begin_change(keyspace, ReplicaChange::Move { shard: None, from, to })
    }

    fn begin_change(&mut self, keyspace: &str, change: ReplicaChange) -> Result<(), Failure> {
        self.note(format!("change {keyspace}: {change:?}"));
        let (db, keyspace) = (self.db()?.clone(), keyspace.to_owned());
        self.changing
            .spawn(async move { db.change_replicas(&keyspace, &change, CHANGE_TIMEOUT, |_| {}).await });
        Ok(())
    }

    /// Waits until replicas have moved that were to.
    pub(in super::super) async fn end_changes(&mut self) -> Result<(), Failure> {
        while let Some(changed) = self.changing.join_next().await {
            let changed = changed.map_err(|_| Failure::failed("the task of a change has panicked"))?;
            let Changed { definition, waits_for, absent, .. } = changed?;
            self.note(format!("{} is in epoch {}, absent: {absent:?}", definition.name, definition.epoch.0));
            if !waits_for.is_empty() {
                return Err(Failure::failed(format!(
                    "the replicas of {} have not moved after {CHANGE_TIMEOUT:?}: {}",
                    definition.name,
                    waits_for.join("; ")
                )));
            }
        }
        self.look_where_replicas_are().await
    }

    /// The nodes that have replicas of the first shard of a keyspace, and those that have none.
    pub(in super::super) async fn hosts(
        &mut self,
        keyspace: &str,
    ) -> Result<(Vec<usize>, Vec<usize>), Failure> {
        let definitions = self.db()?.definitions().await?;
        let known = definitions.iter().find(|definition| definition.name == keyspace);
        let shard = known.and_then(|definition| definition.shards.first());
        let Some(shard) = shard else {
            return Err(Failure::failed(format!("there is no keyspace {keyspace}")));
        };
        let has = |node: &usize| shard.replicas.iter().any(|host| usize::from(host.0) == *node);
        Ok((0..self.setup.nodes).partition(has))
    }

    /// Waits until a node has begun to host a replica of a keyspace.
    pub(in super::super) async fn until_it_joins(
        &mut self,
        node: usize,
        keyspace: &str,
    ) -> Result<(), Failure> {
        let deadline = Instant::now() + CHANGE_TIMEOUT;
        while self.replica(node, keyspace).is_err() {
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!("node {node} does not join {keyspace}")));
            }
            tokio::time::sleep(POLL / 10).await;
        }
        self.note(format!("{node} joins {keyspace}"));
        Ok(())
    }
}
