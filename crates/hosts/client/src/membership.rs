//! Changing who the replicas of a keyspace are: who defines the next epoch, and when that may be.
//!
//! ```text
//!   plan     where the replicas are to be, from the definition as it is
//!   ask      the nodes how far the replicas are; wait as long as the next epoch may not be defined
//!   define   one transaction on the catalogue: the next epoch, unless somebody else was first
//!   watch    until the members have arrived, and those before them are gone
//! ```
//!
//! *When.* What a group knows is with those who were members before until f + 1 of the present ones have arrived, durably; a definition
//! names only the last of those before. So an epoch may be defined once every group of the keyspace has arrived in the present one. A
//! replica without its records counts for nobody in a change, so no more may be without than the smaller of the two groups can
//! miss, or the change would not end before a disk is brought back. What replicas said may be old when the epoch is defined,
//! which does no harm: who has arrived has arrived, and an epoch is defined only in place of the one that they were asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::topology::{Keyspace as Definition, Moves, Node, Placing, Shard};
use quorate_core::{NodeId, ReplicaId, ReplicaIndex, ShardId};
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

/// How often a definition is planned again because somebody else has changed the keyspace meanwhile.
const PLANS_MAX: u32 = 8;

/// What is to become of the replicas of a keyspace.
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

/// How far a change of replicas is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeProgress {
    /// The epoch that is waited for.
    pub epoch: u32,
    /// True once it is defined: then it cannot be taken back.
    pub is_defined: bool,
    /// What is waited for, in words.
    pub waits_for: Vec<String>,
}

/// What has come of a change of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The keyspace as it is defined now.
    pub definition: Definition,
    /// False if nothing was to be changed.
    pub is_new: bool,
    /// What is still waited for, if time ran out: it goes on by itself.
    pub waits_for: Vec<String>,
    /// Replicas of nodes that do not answer: what they have to do they do when they are back.
    pub absent: Vec<ReplicaId>,
}

/// What nodes say of the replicas of a keyspace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    reports: BTreeMap<ReplicaId, ReplicaReport>,
    pub(crate) answering: BTreeSet<NodeId>,
    /// The nodes of these that do not know the keyspaces yet.
    pub(crate) waiting: BTreeSet<NodeId>,
    /// How many further replicas a node can have, of those that say so.
    pub(crate) rooms: BTreeMap<NodeId, u64>,
    /// The applications that each node is linked with.
    pub(crate) applications: BTreeMap<NodeId, Vec<String>>,
}

/// What a transaction that defines an epoch has come to.
enum Defined {
    Yes,
    /// The keyspace is not what it was when this was planned.
    Overtaken,
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
        for _ in 0..PLANS_MAX {
            let keyspaces = self.definitions().await?;
            let Some(present) = keyspaces.iter().find(|keyspace| keyspace.name == name) else {
                let existing = keyspaces.iter().map(|keyspace| keyspace.name.clone()).collect();
                return Err(Invalid::NoSuchKeyspace { name: name.to_owned(), existing }.into());
            };
            let moves = self.plan(present, &keyspaces, change)?;
            if moves.is_empty() {
                return self.await_arrival(present.clone(), false, deadline, &mut progress).await;
            }
            let next = present.next_epoch(&moves).map_err(Invalid::CannotChange)?;
            loop {
                let Err(reason) = may_define(present, &next, &self.ask_replicas(&next).await) else { break };
                if Instant::now() >= deadline {
                    return Err(Error::ChangeRefused { name: name.to_owned(), reason });
                }
                progress(&ChangeProgress { epoch: next.epoch.0, is_defined: false, waits_for: vec![reason] });
                tokio::time::sleep(POLL).await;
            }
            match self.define(present, &next).await? {
                Defined::Yes => return self.await_arrival(next, true, deadline, &mut progress).await,
                Defined::Overtaken => {}
            }
        }
        let reason = "others change it again and again".to_owned();
        Err(Error::ChangeRefused { name: name.to_owned(), reason })
    }

    /// Every keyspace as it is defined, the catalogue last.
    ///
    /// # Errors
    /// Whatever a transaction may end with.
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
            let left: Vec<&Shard> = keyspace.groups().filter(is_left).collect();
            let survey = if left.is_empty() { Survey::default() } else { self.ask_replicas(keyspace).await };
            if left.iter().any(|group| survey.arrived(group) < group.group_size().majority()) {
                return Err(in_use(&keyspace.name));
            }
        }
        let forget = async |txn: Transaction| {
            let uses = |keyspace: &Definition| keyspace.groups().any(|group| group.replicas.contains(&node));
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
        let seats = keyspace.groups().flat_map(|group| group.members().chain(group.previous()));
        self.ask_nodes(seats.map(|(_, node)| node).collect()).await
    }

    /// Asks nodes how far their replicas are.
    pub(crate) async fn ask_nodes(&self, nodes: BTreeSet<NodeId>) -> Survey {
        let ask = |node: NodeId| self.transport().with(|host, turn| host.ask_replicas(node, turn));
        // All at once: who does not answer is waited for once.
        let asked: Vec<_> = nodes.into_iter().map(|node| (node, ask(node))).collect();
        let mut survey = Survey::default();
        for (node, answer) in asked {
            if let Ok(report) = self.answer_of(node, answer).await {
                let NodeReport { replicas, room, knows_keyspaces, applications } = report;
                survey.answering.insert(node);
                survey.waiting.extend((!knows_keyspaces).then_some(node));
                survey.rooms.extend(room.map(|room| (node, room)));
                survey.applications.insert(node, applications);
                survey.reports.extend(replicas.into_iter().map(|report| (report.replica, report)));
            }
        }
        survey
    }

    /// Defines the next epoch of a keyspace, if it is still as it was.
    async fn define(&self, present: &Definition, next: &Definition) -> Result<Defined> {
        let define = async |txn: Transaction| {
            let found = match present.id {
                SYSTEM_KEYSPACE_ID => Some(catalogue::system(&txn, present).await?),
                _ => catalogue::remembered(&txn, &present.name).await?,
            };
            if found.as_ref() == Some(present) {
                let nodes = next.groups().flat_map(|group| group.replicas.iter().copied());
                if let Some(node) = catalogue::forgotten_among(&txn, nodes).await? {
                    return Ok(Err(Invalid::NoSuchNode { node }));
                }
                catalogue::define(&txn, next)?;
                return Ok(Ok(Defined::Yes));
            }
            // An attempt of which nothing was heard may have been made.
            Ok(Ok(if found.as_ref() == Some(next) { Defined::Yes } else { Defined::Overtaken }))
        };
        Ok(self.system().transact(define).await??)
    }

    /// Waits until the members of a keyspace's groups have arrived in its epoch, and those before them are gone.
    async fn await_arrival(
        &self,
        definition: Definition,
        is_new: bool,
        deadline: Instant,
        progress: &mut impl FnMut(&ChangeProgress),
    ) -> Result<Changed> {
        self.learn(definition.clone());
        loop {
            let survey = self.ask_replicas(&definition).await;
            let (waits_for, absent) = (still_to_come(&definition, &survey), absent(&definition, &survey));
            if waits_for.is_empty() || Instant::now() >= deadline {
                return Ok(Changed { definition, is_new, waits_for, absent });
            }
            progress(&ChangeProgress { epoch: definition.epoch.0, is_defined: true, waits_for });
            tokio::time::sleep(POLL).await;
        }
    }
}

impl Survey {
    fn of(&self, shard: &Shard, index: ReplicaIndex) -> Option<&ReplicaReport> {
        self.reports.get(&ReplicaId { shard: shard.id, index })
    }

    /// How many members of a group have taken part in it, durably, since they are as they are.
    pub(crate) fn arrived(&self, group: &Shard) -> usize {
        let since = group.succession().present.since;
        let has_arrived = |replica: &ReplicaId| {
            self.reports.get(replica).is_some_and(|report| report.arrived >= Some(since))
        };
        group.replica_ids().filter(has_arrived).count()
    }
}

/// Finds out whether the next epoch of a keyspace may be defined.
///
/// # Errors
/// Why it may not, for people. That may change.
fn may_define(present: &Definition, next: &Definition, survey: &Survey) -> Result<(), String> {
    for (group, after) in present.groups().zip(next.groups()) {
        let (size, arrived) = (group.group_size(), survey.arrived(group));
        if arrived < size.majority() {
            return Err(format!(
                "{arrived} of the {size} replicas of {} serve since they are these, and {} must",
                group.id,
                size.majority()
            ));
        }
        if group == after {
            continue;
        }
        let silent = after.members().find(|(index, node)| {
            group.members().all(|(known, _)| known != *index) && !survey.answering.contains(node)
        });
        if let Some((_, node)) = silent {
            return Err(format!("{node} does not answer, where a replica of {} is to be", group.id));
        }
        let lacks_records = |(index, _): &(ReplicaIndex, NodeId)| {
            survey.of(group, *index).is_some_and(|report| !report.has_records)
        };
        let (lacking, can_miss) = (
            group.members().filter(lacks_records).count(),
            size.failures().min(after.group_size().failures()),
        );
        if lacking > can_miss {
            return Err(format!(
                "{lacking} replicas of {} are without their records, and the smaller group can miss {can_miss}",
                group.id
            ));
        }
        let counts = |(index, node): &(ReplicaIndex, NodeId)| {
            let joins = group.members().all(|(known, _)| known != *index);
            let has_records = survey.of(group, *index).is_some_and(|report| report.has_records);
            survey.answering.contains(node) && (joins || has_records)
        };
        let (count, majority) = (after.members().filter(counts).count(), after.group_size().majority());
        if count < majority {
            return Err(format!(
                "{count} of the {} replicas that {} is to have could take part, and {majority} must",
                after.group_size(),
                group.id
            ));
        }
    }
    Ok(())
}

/// What a change waits for, in words; replicas of nodes that do not answer are not waited for as long as others suffice.
fn still_to_come(definition: &Definition, survey: &Survey) -> Vec<String> {
    let mut waits_for = Vec::new();
    for group in definition.groups() {
        let (size, arrived) = (group.group_size(), survey.arrived(group));
        let since = group.succession().present.since;
        if arrived < size.majority() {
            waits_for.push(format!("{arrived} of the {size} replicas of {} have taken over", group.id));
            continue;
        }
        for (index, node) in group.members().filter(|(_, node)| survey.answering.contains(node)) {
            let report = survey.of(group, index);
            if report.is_none_or(|report| report.arrived < Some(since)) {
                waits_for.push(format!(
                    "{} learns on {node} what the others know",
                    ReplicaId { shard: group.id, index }
                ));
            }
        }
        for (index, node) in leaving(group).filter(|(_, node)| survey.answering.contains(node)) {
            if survey.of(group, index).is_some_and(|report| report.has_records) {
                waits_for.push(format!("{} is still on {node}", ReplicaId { shard: group.id, index }));
            }
        }
    }
    waits_for
}

/// Replicas that come or go on nodes that do not answer.
fn absent(definition: &Definition, survey: &Survey) -> Vec<ReplicaId> {
    let mut absent = Vec::new();
    for group in definition.groups().filter(|group| group.change.is_some()) {
        let silent =
            group.members().chain(leaving(group)).filter(|(_, node)| !survey.answering.contains(node));
        absent.extend(silent.map(|(index, _)| ReplicaId { shard: group.id, index }));
    }
    absent
}

/// Those before the members that are none any more.
fn leaving(group: &Shard) -> impl Iterator<Item = (ReplicaIndex, NodeId)> {
    let members = group.succession().present.members;
    group.previous().filter(move |(index, _)| !members.contains(*index))
}
