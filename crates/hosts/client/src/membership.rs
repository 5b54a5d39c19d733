//! Changing who the replicas of a keyspace are: the host of a [`Definer`], which says what is asked and when an epoch may be defined.
//!
//! The client asks nodes how far their replicas are, plans by the directory that it knows, and defines the next epoch in one transaction on the
//! catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::definer::{
    ChangeProgress, Changed, Definer, Defines, Progress, Survey as Replicas, Want, decide_definition,
    leaving, nodes_to_ask,
};
use quorate_core::topology::{Keyspace as Definition, Moves, Node, Placing, Shard};
use quorate_core::{NodeId, ShardId};
use quorate_wire::ReplicaReport;
use quorate_wire::catalogue::{SYSTEM_KEYSPACE_ID, node_key};
use tokio::time::Instant;

use crate::catalogue;
use crate::database::Database;
use crate::drops;
use crate::error::{Error, Invalid, Result};
use crate::host::NodeReport;
use crate::transaction::Transaction;

/// How often nodes are asked how far their replicas are.
const POLL: Duration = Duration::from_millis(100);

/// A change of the replicas of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaChange {
    /// Those on one node move to another.
    Move {
        /// Of this shard alone; of all, if none is named.
        shard: Option<ShardId>,
        /// Where they are.
        from: NodeId,
        /// Where they are to be.
        to: NodeId,
    },
    /// Those on these nodes move elsewhere: to the same site if there is a node, or else to one that has none of the shard.
    Vacate {
        /// The nodes.
        nodes: BTreeSet<NodeId>,
    },
    /// Every shard has so many.
    Resize {
        /// How many: an odd number.
        replicas: usize,
        /// The names of the sites where further ones may be; all if none are named.
        sites: Vec<String>,
    },
    /// They stay where they are: only the last change is waited for.
    Nothing,
}

/// The answers of nodes about the replicas of a keyspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    /// How far the replicas are.
    pub(crate) replicas: Replicas,
    /// The nodes that have answered and do not know the keyspaces yet.
    pub(crate) waiting: BTreeSet<NodeId>,
    /// How many further replicas a node can have, of those that say so.
    pub(crate) rooms: BTreeMap<NodeId, u64>,
    /// The applications that each node is linked with.
    pub(crate) applications: BTreeMap<NodeId, Vec<String>>,
}

/// The groups of a keyspace whose nodes are needed: all but those of sites that were taken out, once it is settled what is kept of them.
fn needed(keyspace: &Definition) -> impl Iterator<Item = &Shard> {
    let is_over = |group: &Shard| {
        keyspace.removals.iter().any(|removal| removal.shard == group.id && removal.settled.is_some())
    };
    keyspace.groups().filter(move |group| !is_over(group))
}

impl Database {
    /// Changes who the replicas of a keyspace are, while it is used, and waits until they have taken over.
    ///
    /// Before the next epoch is defined nothing has changed, and this waits until it may be. Afterwards it goes on by itself,
    /// whatever becomes of this call; `patience` bounds both. Two changes of a keyspace follow each other.
    ///
    /// # Errors
    /// [`Invalid::CannotMove`] or [`Invalid::CannotChange`] if the replicas cannot be where they are wanted,
    /// [`Error::ChangeRefused`] if the next epoch could not be defined within `patience`, and why; or whatever a transaction
    /// may end with.
    pub async fn change_replicas(
        &self,
        name: &str,
        change: &ReplicaChange,
        patience: Duration,
        mut progress: impl FnMut(&ChangeProgress),
    ) -> Result<Changed> {
        let deadline = Instant::now() + patience;
        let mut definer = Definer::default();
        loop {
            match definer.want() {
                Want::Plan => {
                    let (present, next) = self.plan_next(name, change).await?;
                    if next.is_none() {
                        self.learn(present.clone());
                    }
                    definer.on_plan(present, next);
                }
                Want::Ask(definition) => {
                    let survey = self.ask_replicas(definition).await;
                    if let Some(waits) = definer.on_survey(&survey.replicas, Instant::now() < deadline) {
                        progress(&waits);
                        tokio::time::sleep(POLL).await;
                    }
                }
                Want::Define { present, next } => {
                    let defines = self.define(present, next).await?;
                    if defines != Defines::Overtaken {
                        self.learn(next.clone());
                    }
                    definer.on_defined(defines);
                }
                Want::Nothing(Ok(changed)) => return Ok(changed.clone()),
                Want::Nothing(Err(reason)) => {
                    return Err(Error::ChangeRefused { name: name.to_owned(), reason: reason.clone() });
                }
            }
        }
    }

    /// Reads a keyspace as it is defined, and says how it is to be next; none, if its replicas are where they are wanted.
    async fn plan_next(
        &self,
        name: &str,
        change: &ReplicaChange,
    ) -> Result<(Definition, Option<Definition>)> {
        let keyspaces = self.definitions().await?;
        let Some(present) = keyspaces.iter().find(|keyspace| keyspace.name == name) else {
            let existing = keyspaces.iter().map(|keyspace| keyspace.name.clone()).collect();
            return Err(Invalid::NoSuchKeyspace { name: name.to_owned(), existing }.into());
        };
        let moves = self.plan(present, &keyspaces, change)?;
        let next = (!moves.is_empty()).then(|| present.next_epoch(&moves)).transpose();
        Ok((present.clone(), next.map_err(Invalid::CannotChange)?))
    }

    /// Every keyspace as it is defined, the catalogue last.
    ///
    /// # Errors
    /// Any error that a transaction may end with.
    pub async fn definitions(&self) -> Result<Vec<Definition>> {
        let known = self.system().definition();
        let find = async |txn: Transaction| {
            let mut definitions = catalogue::list(&txn).await?;
            definitions.push(catalogue::system(&txn, &known).await?);
            Ok(definitions)
        };
        self.system().transact(find).await
    }

    /// Takes a node out of the cluster that has no replica any more. Its number is not given to another, and it is not let in again:
    /// it may join as a new one.
    ///
    /// # Errors
    /// [`Invalid::NodeInUse`] if it has replicas, or had some that others still need; or whatever a transaction may end with.
    pub async fn forget_node(&self, node: NodeId) -> Result<()> {
        let in_use = |what: &str| Error::from(Invalid::NodeInUse { node, what: what.to_owned() });
        let known = self.system().definition();
        for keyspace in &self.definitions().await? {
            let is_left = |group: &&Shard| leaving(group).any(|(_, host)| host == node);
            let left: Vec<&Shard> = needed(keyspace).filter(is_left).collect();
            let survey = if left.is_empty() { Survey::default() } else { self.ask_replicas(keyspace).await };
            if left.iter().any(|group| survey.replicas.arrived(group) < group.group_size().majority()) {
                return Err(in_use(&keyspace.name));
            }
        }
        let forget = async |txn: Transaction| {
            let uses = |keyspace: &Definition| needed(keyspace).any(|group| group.replicas.contains(&node));
            let mut definitions = catalogue::list(&txn).await?;
            definitions.push(catalogue::system(&txn, &known).await?);
            if let Some(keyspace) = definitions.iter().find(|known| uses(known)) {
                return Ok(Err(Invalid::NodeInUse { node, what: keyspace.name.clone() }));
            }
            // It may come back, with the replicas that are there.
            let dropped = drops::list(&txn).await?;
            if let Some(dropped) = dropped.iter().find(|known| known.definition.as_ref().is_some_and(uses)) {
                let what = format!("{}, which was dropped and can be brought back", dropped.name);
                return Ok(Err(Invalid::NodeInUse { node, what }));
            }
            let found = txn.get(node_key(node)).await?;
            let found = found.map(|value| quorate_wire::decode::<Node>(&value)).transpose();
            match found.map_err(|error| catalogue::damaged(&error))? {
                Some(known) if !known.is_forgotten() => {
                    let forgotten = Node { address: String::new(), ..known };
                    txn.put(node_key(node), quorate_wire::encode(&forgotten)).map(Ok)
                }
                _ => Ok(Err(Invalid::NoSuchNode { node })),
            }
        };
        Ok(self.system().transact(forget).await??)
    }

    /// Where the replicas of a keyspace are to be that move.
    fn plan(
        &self,
        present: &Definition,
        keyspaces: &[Definition],
        change: &ReplicaChange,
    ) -> Result<Moves, Invalid> {
        let stays = present.comparison.as_ref().is_some_and(|comparison| !comparison.rival.changes_groups());
        if stays && *change != ReplicaChange::Nothing {
            return Err(Invalid::QuorumStoreStays { name: present.name.clone() });
        }
        let directory = self.shared().places.directory();
        let mut placing = Placing::new(directory.topology(), keyspaces);
        let moves = match change {
            ReplicaChange::Move { shard, from, to } => placing.relocate(present, *shard, *from, *to),
            ReplicaChange::Vacate { nodes } => placing.vacate(present, nodes),
            ReplicaChange::Resize { replicas, sites } => {
                placing.resize(present, *replicas, &directory.sites(sites)?)
            }
            ReplicaChange::Nothing => Ok(Moves::new()),
        };
        moves.map_err(|error| Invalid::CannotMove { name: present.name.clone(), error })
    }

    /// Asks the nodes how far the replicas of a keyspace are, those of the epoch before too.
    pub(crate) async fn ask_replicas(&self, keyspace: &Definition) -> Survey {
        self.ask_nodes(nodes_to_ask(keyspace)).await
    }

    /// Asks nodes how far their replicas are.
    pub(crate) async fn ask_nodes(&self, nodes: BTreeSet<NodeId>) -> Survey {
        let ask = |node: NodeId| self.transport().with(|host, turn| host.ask_replicas(node, turn));
        // All at once: who does not answer is waited for once.
        let asked: Vec<_> = nodes.into_iter().map(|node| (node, ask(node))).collect();
        let mut survey = Survey::default();
        for (node, answer) in asked {
            // A node that refuses is no node that answers: what needs its answer says which it lacks.
            if let Ok(Ok(report)) = self.answer_of(node, answer).await {
                let NodeReport { replicas, room, knows_keyspaces, applications } = report;
                let progress = |report: ReplicaReport| {
                    let ReplicaReport { replica, arrived, has_records, .. } = report;
                    (replica, Progress { arrived, has_records })
                };
                survey.replicas.add(node, replicas.into_iter().map(progress));
                survey.waiting.extend((!knows_keyspaces).then_some(node));
                survey.rooms.extend(room.map(|room| (node, room)));
                survey.applications.insert(node, applications);
            }
        }
        survey
    }

    /// Defines the next epoch of a keyspace, if it is still as it was.
    async fn define(&self, present: &Definition, next: &Definition) -> Result<Defines> {
        let define = async |txn: Transaction| {
            let found = match present.id {
                SYSTEM_KEYSPACE_ID => Some(catalogue::system(&txn, present).await?),
                _ => catalogue::remembered(&txn, &present.name).await?,
            };
            let defines = decide_definition(found.as_ref(), present, next);
            if defines == Defines::Next {
                let nodes = needed(next).flat_map(|group| group.replicas.iter().copied());
                if let Some(node) = catalogue::forgotten_among(&txn, nodes).await? {
                    return Ok(Err(Invalid::NoSuchNode { node }));
                }
                catalogue::define(&txn, next)?;
            }
            Ok(Ok(defines))
        };
        Ok(self.system().transact(define).await??)
    }
}
