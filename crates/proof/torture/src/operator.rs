//! The operator of a cluster under torture, who changes where replicas are while everything else goes wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use quorate::{Database, Error, NodeId, ReplicaChange};
use quorate_cluster::Failure;
use quorate_core::GroupSize;
use quorate_server::SYSTEM_KEYSPACE;
use tokio::task::JoinSet;

use super::KEYSPACE;

/// How many replicas a group gets more when it grows, and how many nodes are needed for that beside those of the smaller one.
pub(crate) const SPARE_NODES: usize = 2;

/// How long one attempt may wait; then another one is made.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long to wait after an attempt that has failed.
const PAUSE: Duration = Duration::from_millis(50);

/// The membership that the groups are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// They get [`SPARE_NODES`] replicas more than at first.
    Grow,
    /// They have as many replicas as at first, and none on this node, which is free to take some later.
    Vacate(usize),
}

/// Somebody who changes replicas, one wish after the other.
pub(crate) struct Operator {
    db: Database,
    /// How many replicas groups have at first.
    replicas: usize,
    /// The wish that is under way. Dropping this ends the waiting for it.
    changing: JoinSet<Result<Vec<usize>, Failure>>,
}

impl Operator {
    /// Somebody who is connected so. Groups have so many replicas at first.
    pub(crate) fn new(db: Database, replicas: usize) -> Operator {
        Operator { db, replicas, changing: JoinSet::new() }
    }

    /// Begins to fulfil a wish.
    pub(crate) fn begin(&mut self, wish: Wish) {
        self.changing.spawn(fulfil(self.db.clone(), wish, self.replicas));
    }

    /// True if there is a wish that has not been asked for since it began.
    pub(crate) fn is_changing(&self) -> bool {
        !self.changing.is_empty()
    }

    /// How many replicas each node has, once the wish that was under way is fulfilled; none as long as it is not.
    pub(crate) fn take_fulfilled(&mut self) -> Result<Option<Vec<usize>>, Failure> {
        let Some(ended) = self.changing.try_join_next() else { return Ok(None) };
        ended.map_err(|_| Failure::failed("the task of the operator has panicked"))?.map(Some)
    }
}

/// Fulfils a wish, however long it takes and however often an attempt fails.
async fn fulfil(db: Database, wish: Wish, replicas: usize) -> Result<Vec<usize>, Failure> {
    for change in changes(wish, replicas) {
        for name in [KEYSPACE, SYSTEM_KEYSPACE] {
            loop {
                match db.change_replicas(name, &change, PATIENCE, |_| {}).await {
                    Ok(changed) if changed.waits_for.is_empty() => break,
                    Ok(_) => {}
                    Err(error @ Error::Invalid(_)) => {
                        return Err(Failure::failed(format!("{change:?} of {name} is refused: {error}")));
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            }
        }
    }
    loop {
        match placed(&db).await {
            Ok(counts) => return Ok(counts),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// The steps to a wish. Each may be taken again.
fn changes(wish: Wish, replicas: usize) -> Vec<ReplicaChange> {
    let resize = |replicas| ReplicaChange::Resize { replicas, sites: Vec::new() };
    match wish {
        Wish::Grow => vec![resize((replicas + SPARE_NODES).min(GroupSize::MAX))],
        Wish::Vacate(node) => {
            let nodes = BTreeSet::from([NodeId(node as u16)]);
            vec![resize(replicas), ReplicaChange::Vacate { nodes }]
        }
    }
}

/// How many replicas each node has, as keyspaces are defined.
pub(crate) async fn placed(db: &Database) -> Result<Vec<usize>, Error> {
    let mut counts = vec![0; db.topology().nodes.len()];
    for keyspace in db.definitions().await? {
        for node in keyspace.groups().flat_map(|group| &group.replicas) {
            counts[usize::from(node.0)] += 1;
        }
    }
    Ok(counts)
}
