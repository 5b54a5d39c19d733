//! The definer of the next epoch of a keyspace, and when it may define it.
//!
//! ```text
//!   plan     where the replicas are to be, from the definition as it is
//!   ask      the nodes how far the replicas are; wait as long as the next epoch may not be defined
//!   define   one transaction on the catalogue: the next epoch, unless another definer was first
//!   watch    until the members have arrived, and those before them are gone
//! ```
//!
//! *When.* The knowledge of a group is with the members before until f + 1 of the present ones have arrived, durably; a definition
//! names only the last of those before. So an epoch may be defined once every group that the present one has changed has arrived in it, and
//! every group that the next one changes. A group that goes on as it is, as it was, has nothing to hand over: it may be lost. A
//! replica without its records counts for nobody in a change, so no more may be without than the smaller of the two groups can
//! miss, or the change would not end before a disk is brought back. The answers of replicas may be old when the epoch is defined,
//! which does no harm: a replica that has arrived has arrived, and an epoch is defined only in place of the one that they were asked about.
//!
//! A [`Definer`] has neither a clock nor a network: its host asks nodes, reads and writes the catalogue, and says whether there is time
//! left. It may vanish at any moment, and another one may be at the same keyspace: all that counts is written by one transaction. The
//! rules of a change for protocols stand at [`Groups::next`](crate::members::Groups::next).

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Epoch, NodeId, ReplicaId, ReplicaIndex};
use crate::topology::{Keyspace, Shard};

/// How often a definition is planned again because another definer has changed the keyspace meanwhile.
pub const PLANS_MAX: u32 = 8;

/// How far a replica is, as its node says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since when the members of its group were as they were when it took part last, durably; none if it has not taken part, or is
    /// no member.
    pub arrived: Option<Epoch>,
    /// True if it has its records, so that it counts in a change.
    pub has_records: bool,
}

/// The answers of nodes to the question how far the replicas of a keyspace are.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    replicas: BTreeMap<ReplicaId, Progress>,
    answering: BTreeSet<NodeId>,
}

impl Survey {
    /// A node has answered, and has these replicas.
    pub fn add(&mut self, node: NodeId, replicas: impl IntoIterator<Item = (ReplicaId, Progress)>) {
        self.answering.insert(node);
        self.replicas.extend(replicas);
    }

    /// True if a node has answered.
    pub fn has_answer_of(&self, node: NodeId) -> bool {
        self.answering.contains(&node)
    }

    /// The nodes that have answered.
    pub fn answering(&self) -> &BTreeSet<NodeId> {
        &self.answering
    }

    /// How many members of a group have taken part in it, durably, since they are as they are.
    pub fn arrived(&self, group: &Shard) -> usize {
        let since = group.succession().present.since;
        let has_arrived = |replica: &ReplicaId| {
            self.replicas.get(replica).is_some_and(|known| known.arrived >= Some(since))
        };
        group.replica_ids().filter(has_arrived).count()
    }

    fn of(&self, group: &Shard, index: ReplicaIndex) -> Option<&Progress> {
        self.replicas.get(&ReplicaId { shard: group.id, index })
    }
}

/// The groups of a keyspace that go on: all but those of sites that were taken out. No member asks such a group for its records any more, and most of them
/// never answer again.
fn groups_left(keyspace: &Keyspace) -> impl Iterator<Item = &Shard> {
    let is_left = |group: &&Shard| keyspace.removals.iter().all(|removal| removal.shard != group.id);
    keyspace.groups().filter(is_left)
}

/// True if the present epoch of a keyspace has changed a group, so that the group has to arrive in it before the next one.
fn changes_with(group: &Shard, present: &Keyspace) -> bool {
    group.change.is_some() && group.succession().present.since == present.epoch
}

/// The nodes that are asked about a keyspace: those of its replicas, and of the replicas before them.
pub fn nodes_to_ask(keyspace: &Keyspace) -> BTreeSet<NodeId> {
    let seats = groups_left(keyspace).flat_map(|group| group.members().chain(group.previous()));
    seats.map(|(_, node)| node).collect()
}

/// Finds out whether the next epoch of a keyspace may be defined.
///
/// # Errors
/// Why it may not, for people. That may change.
pub fn may_define(present: &Keyspace, next: &Keyspace, survey: &Survey) -> Result<(), String> {
    for (group, after) in groups_left(present).zip(groups_left(next)) {
        if group == after && !changes_with(group, present) {
            continue;
        }
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
        let joins = |index: ReplicaIndex| group.members().all(|(known, _)| known != index);
        let silent = after.members().find(|(index, node)| joins(*index) && !survey.has_answer_of(*node));
        if let Some((_, node)) = silent {
            return Err(format!("{node} does not answer, where a replica of {} is to be", group.id));
        }
        let lacks_records = |(index, _): &(ReplicaIndex, NodeId)| {
            survey.of(group, *index).is_some_and(|known| !known.has_records)
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
            let has_records = survey.of(group, *index).is_some_and(|known| known.has_records);
            survey.has_answer_of(*node) && (joins(*index) || has_records)
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

/// The things that a change waits for, in words; replicas of nodes that do not answer are not waited for as long as others suffice.
pub fn still_to_come(definition: &Keyspace, survey: &Survey) -> Vec<String> {
    let mut waits_for = Vec::new();
    for group in groups_left(definition) {
        let (size, arrived) = (group.group_size(), survey.arrived(group));
        let since = group.succession().present.since;
        if arrived < size.majority() {
            if !changes_with(group, definition) {
                continue;
            }
            waits_for.push(format!("{arrived} of the {size} replicas of {} have taken over", group.id));
            continue;
        }
        for (index, node) in group.members().filter(|(_, node)| survey.has_answer_of(*node)) {
            if survey.of(group, index).is_none_or(|known| known.arrived < Some(since)) {
                waits_for.push(format!(
                    "{} learns on {node} what the others know",
                    ReplicaId { shard: group.id, index }
                ));
            }
        }
        for (index, node) in leaving(group).filter(|(_, node)| survey.has_answer_of(*node)) {
            if survey.of(group, index).is_some_and(|known| known.has_records) {
                waits_for.push(format!("{} is still on {node}", ReplicaId { shard: group.id, index }));
            }
        }
    }
    waits_for
}

/// Replicas that come or go on nodes that do not answer.
pub fn absent(definition: &Keyspace, survey: &Survey) -> Vec<ReplicaId> {
    let mut absent = Vec::new();
    for group in groups_left(definition).filter(|group| group.change.is_some()) {
        let silent = group.members().chain(leaving(group)).filter(|(_, node)| !survey.has_answer_of(*node));
        absent.extend(silent.map(|(index, _)| ReplicaId { shard: group.id, index }));
    }
    absent
}

/// Those before the members that are none any more.
pub fn leaving(group: &Shard) -> impl Iterator<Item = (ReplicaIndex, NodeId)> {
    let members = group.succession().present.members;
    group.previous().filter(move |(index, _)| !members.contains(*index))
}

/// The act of the transaction that is to define an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defines {
    /// It writes the next epoch.
    Next,
    /// Nothing: an attempt of which nothing was heard has written it.
    Nothing,
    /// Nothing: the keyspace is not what it was when this was planned.
    Overtaken,
}

/// Decides what the transaction does, by the definition that it finds.
pub fn decide_definition(found: Option<&Keyspace>, present: &Keyspace, next: &Keyspace) -> Defines {
    match found {
        Some(found) if found == present => Defines::Next,
        Some(found) if found == next => Defines::Nothing,
        _ => Defines::Overtaken,
    }
}

/// How far a change of replicas is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeProgress {
    /// The epoch that is waited for.
    pub epoch: u32,
    /// True once it is defined: then it cannot be taken back.
    pub is_defined: bool,
    /// The things that are waited for, in words.
    pub waits_for: Vec<String>,
}

/// The result of a change of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The keyspace as it is defined now.
    pub definition: Keyspace,
    /// False if nothing was to be changed.
    pub is_new: bool,
    /// The things that are still waited for, if time ran out: the change goes on by itself.
    pub waits_for: Vec<String>,
    /// Replicas of nodes that do not answer: what they have to do they do when they are back.
    pub absent: Vec<ReplicaId>,
}

/// A change of who the replicas of a keyspace are, as the one who wants it goes through it.
#[derive(Clone, Debug)]
pub struct Definer {
    phase: Phase,
    /// How often it has planned.
    plans: u32,
}

#[derive(Clone, Debug)]
enum Phase {
    Plans,
    Asks { present: Keyspace, next: Keyspace },
    Defines { present: Keyspace, next: Keyspace },
    Watches { definition: Keyspace, is_new: bool },
    Ended(Result<Changed, String>),
}

/// The next thing that a definer wants of its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Want<'a> {
    /// To read the keyspace as it is defined, and to plan where its replicas are to be: [`Definer::on_plan`].
    Plan,
    /// To ask the [nodes](nodes_to_ask) of this definition how far their replicas are: [`Definer::on_survey`].
    Ask(&'a Keyspace),
    /// To carry out the transaction of [`decide_definition`]: [`Definer::on_defined`].
    Define {
        /// The keyspace as it has to be.
        present: &'a Keyspace,
        /// The next epoch.
        next: &'a Keyspace,
    },
    /// Nothing: the change is over, or was given up before anything was defined, which this says why.
    Nothing(&'a Result<Changed, String>),
}

impl Default for Definer {
    fn default() -> Self {
        Definer { phase: Phase::Plans, plans: 0 }
    }
}

impl Definer {
    /// The next thing to do.
    pub fn want(&self) -> Want<'_> {
        match &self.phase {
            Phase::Plans => Want::Plan,
            Phase::Asks { next, .. } => Want::Ask(next),
            Phase::Defines { present, next } => Want::Define { present, next },
            Phase::Watches { definition, .. } => Want::Ask(definition),
            Phase::Ended(ended) => Want::Nothing(ended),
        }
    }

    /// The keyspace was read, and is to be so next; none, if its replicas are where they are wanted.
    ///
    /// # Panics
    /// If a plan is not wanted, or the next definition is not of the next epoch.
    pub fn on_plan(&mut self, present: Keyspace, next: Option<Keyspace>) {
        assert!(matches!(self.phase, Phase::Plans), "a plan is made when it is wanted");
        self.plans += 1;
        self.phase = match next {
            Some(next) => {
                assert!(next.epoch.0 == present.epoch.0 + 1, "epochs follow each other");
                Phase::Asks { present, next }
            }
            None => Phase::Watches { definition: present, is_new: false },
        };
    }

    /// Nodes have answered; `has_time` says whether there is time left to ask them again. If something is still waited for, gives
    /// what: then nodes are to be asked again after a while.
    ///
    /// # Panics
    /// If no answers are wanted.
    pub fn on_survey(&mut self, survey: &Survey, has_time: bool) -> Option<ChangeProgress> {
        match std::mem::replace(&mut self.phase, Phase::Plans) {
            Phase::Asks { present, next } => match may_define(&present, &next, survey) {
                Ok(()) => {
                    self.phase = Phase::Defines { present, next };
                    None
                }
                Err(reason) if !has_time => {
                    self.phase = Phase::Ended(Err(reason));
                    None
                }
                Err(reason) => {
                    let epoch = next.epoch.0;
                    self.phase = Phase::Asks { present, next };
                    Some(ChangeProgress { epoch, is_defined: false, waits_for: vec![reason] })
                }
            },
            Phase::Watches { definition, is_new } => {
                let waits_for = still_to_come(&definition, survey);
                if !waits_for.is_empty() && has_time {
                    let epoch = definition.epoch.0;
                    self.phase = Phase::Watches { definition, is_new };
                    return Some(ChangeProgress { epoch, is_defined: true, waits_for });
                }
                let absent = absent(&definition, survey);
                self.phase = Phase::Ended(Ok(Changed { definition, is_new, waits_for, absent }));
                None
            }
            phase => panic!("nobody was to be asked in {phase:?}"),
        }
    }

    /// The transaction was carried out, and did this.
    ///
    /// # Panics
    /// If no epoch was to be defined.
    pub fn on_defined(&mut self, defines: Defines) {
        let Phase::Defines { next, .. } = std::mem::replace(&mut self.phase, Phase::Plans) else {
            panic!("no epoch was to be defined")
        };
        self.phase = match defines {
            Defines::Next | Defines::Nothing => Phase::Watches { definition: next, is_new: true },
            Defines::Overtaken if self.plans < PLANS_MAX => Phase::Plans,
            Defines::Overtaken => Phase::Ended(Err("others change it again and again".to_owned())),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{KeyspaceId, ShardId};
    use crate::topology::{Durability, Isolation, Removal};

    fn nodes(nodes: &[u16]) -> Vec<NodeId> {
        nodes.iter().copied().map(NodeId).collect()
    }

    /// A keyspace with two shards, of which the second stays where it is.
    fn keyspace(replicas: &[u16]) -> Keyspace {
        let shards = vec![Shard::new(ShardId(1), nodes(replicas)), Shard::new(ShardId(2), nodes(&[0, 1, 2]))];
        Keyspace::new(KeyspaceId(1), "accounts", Isolation::Strict, Durability::Sync, shards)
    }

    fn moved(present: &Keyspace, to: &[u16]) -> Keyspace {
        present.next_epoch(&BTreeMap::from([(ShardId(1), nodes(to))])).expect("these can be its nodes")
    }

    /// All nodes answer, and their replicas have arrived in the latest tenure.
    fn all_well(keyspace: &Keyspace) -> Survey {
        let mut survey = Survey::default();
        for group in keyspace.groups() {
            let arrived = Some(group.succession().present.since);
            for (index, node) in group.members() {
                let id = ReplicaId { shard: group.id, index };
                survey.add(node, [(id, Progress { arrived, has_records: true })]);
            }
        }
        survey
    }

    fn replica(index: u8) -> ReplicaId {
        ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
    }

    /// Why the next epoch may not be defined, or nothing.
    fn refusal(present: &Keyspace, next: &Keyspace, survey: &Survey) -> String {
        may_define(present, next, survey).err().unwrap_or_default()
    }

    #[test]
    fn an_epoch_is_defined_once_a_majority_of_every_group_has_arrived_in_the_present_one() {
        let first = keyspace(&[0, 1, 2]);
        let second = moved(&first, &[0, 1, 3]);
        let third = moved(&second, &[0, 3, 4]);
        let mut survey = all_well(&second);
        survey.add(NodeId(4), []);
        assert_eq!(refusal(&second, &third, &survey), "");
        let old = Progress { arrived: Some(Epoch::FIRST), has_records: true };
        survey.add(NodeId(0), [(replica(0), old)]);
        assert_eq!(refusal(&second, &third, &survey), "", "two of the three have arrived");
        survey.add(NodeId(1), [(replica(1), old)]);
        assert!(refusal(&second, &third, &survey).contains("1 of the 3 replicas of shard1 serve since"));
    }

    /// The refusal for shard 2 where nobody serves it, and what is still to come.
    fn without_shard2(present: &Keyspace, next: &Keyspace) -> (String, Vec<String>) {
        let mut survey = all_well(present);
        [3, 4].map(NodeId).into_iter().for_each(|node| survey.add(node, []));
        let lost = Progress { arrived: None, has_records: false };
        let replicas = present.shards[1].replica_ids().map(|id| (id, lost));
        survey.add(NodeId(0), replicas);
        (refusal(present, next, &survey), still_to_come(present, &survey))
    }

    #[test]
    fn a_group_that_goes_on_as_it_was_may_be_lost() {
        let present = moved(&keyspace(&[0, 1, 2]), &[0, 1, 3]);
        assert_eq!(without_shard2(&present, &moved(&present, &[0, 3, 4])), (String::new(), vec![]));
        // It was changed once, and has arrived before the epochs since.
        let shard2 = ShardId(2);
        let nodes = |nodes: [u16; 3]| BTreeMap::from([(shard2, nodes.map(NodeId).to_vec())]);
        let changed = keyspace(&[0, 1, 2]).next_epoch(&nodes([0, 1, 4])).unwrap();
        let (refused, waits_for) = without_shard2(&changed, &moved(&changed, &[0, 1, 3]));
        assert!(refused.contains("0 of the 3 replicas of shard2 serve since"), "{refused}");
        assert_eq!(waits_for.len(), 1, "{waits_for:?}");
        let later = moved(&changed, &[0, 1, 3]);
        assert_eq!(without_shard2(&later, &moved(&later, &[0, 1, 4])), (String::new(), vec![]));
        // It is to be changed itself.
        let next = present.next_epoch(&nodes([0, 1, 4])).unwrap();
        assert!(without_shard2(&present, &next).0.contains("replicas of shard2 serve"));
    }

    #[test]
    fn the_node_of_a_new_replica_answers_before_an_epoch_is_defined() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[0, 1, 3]);
        let mut survey = all_well(&present);
        assert!(refusal(&present, &next, &survey).contains("node3 does not answer"));
        survey.add(NodeId(3), []);
        assert_eq!(refusal(&present, &next, &survey), "");
        assert_eq!(refusal(&present, &moved(&present, &[2, 1, 0]), &all_well(&present)), "", "nobody joins");
    }

    #[test]
    fn no_more_replicas_lack_their_records_than_the_smaller_group_can_miss() {
        let lost = Progress { arrived: Some(Epoch::FIRST), has_records: false };
        /// The members, the next members, those without their records, and the refusal.
        type Case = (&'static [u16], &'static [u16], &'static [u8], &'static str);
        let table: [Case; 5] = [
            (&[0, 1, 2], &[0, 1, 3], &[2], ""),
            (&[0, 1, 2], &[0, 1, 3], &[1, 2], "2 replicas of shard1 are without their records"),
            (&[0, 1, 2, 4, 5], &[0, 1, 2], &[3], ""),
            (&[0, 1, 2, 4, 5], &[0, 1, 2], &[3, 4], "the smaller group can miss 1"),
            (&[0, 1, 2], &[0, 1, 2, 4, 5], &[0, 1], "the smaller group can miss 1"),
        ];
        for (before, after, lacking, expected) in table {
            let present = keyspace(before);
            let mut survey = all_well(&present);
            [3, 4, 5].map(NodeId).into_iter().for_each(|node| survey.add(node, []));
            survey.add(NodeId(0), lacking.iter().map(|index| (replica(*index), lost)));
            let refusal = refusal(&present, &moved(&present, after), &survey);
            assert!(refusal.contains(expected) && refusal.is_empty() == expected.is_empty(), "{refusal}");
        }
    }

    #[test]
    fn a_majority_of_the_next_members_can_take_part() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[1, 2, 3]);
        let told = |silent: &[u16], lost: &[u8]| {
            let mut survey = Survey::default();
            for (index, node) in [0u8, 1, 2].into_iter().zip([0u16, 1, 2]) {
                let has_records = !lost.contains(&index);
                let known = Progress { arrived: Some(Epoch::FIRST), has_records };
                let other = ReplicaId { shard: ShardId(2), index: ReplicaIndex(index) };
                if !silent.contains(&node) {
                    survey.add(NodeId(node), [(replica(index), known), (other, known)]);
                }
            }
            survey.add(NodeId(3), []);
            refusal(&present, &next, &survey)
        };
        assert_eq!(told(&[], &[]), "");
        assert_eq!(told(&[1], &[]), "", "the new one and another suffice");
        assert!(told(&[1], &[2]).contains("1 of the 3 replicas that shard1 is to have could take part"));
    }

    #[test]
    fn a_site_that_was_taken_out_holds_up_no_change_of_the_others() {
        let mut present = keyspace(&[0, 1, 3]);
        let mut survey = Survey::default();
        for (index, node) in [(0, 0), (1, 1), (2, 3)] {
            let arrived = Some(Epoch::FIRST);
            survey.add(NodeId(node), [(replica(index), Progress { arrived, has_records: true })]);
        }
        survey.add(NodeId(4), []);
        let lost = |present: &Keyspace| {
            let nodes = BTreeMap::from([(ShardId(1), vec![NodeId(0)]), (ShardId(2), vec![NodeId(0)])]);
            refusal(present, &present.next_epoch(&nodes).unwrap(), &survey)
        };
        assert!(lost(&present).contains("shard2 serve"), "{}", lost(&present));
        let removal = Removal { shard: ShardId(2), successor: ShardId(1), settled: None };
        present.removals.push(removal);
        let next = moved(&present, &[0, 1, 4]);
        assert_eq!(refusal(&present, &next, &survey), "");
        survey.add(NodeId(4), [(replica(3), Progress { arrived: Some(Epoch(1)), has_records: true })]);
        survey.add(NodeId(0), [(replica(0), Progress { arrived: Some(Epoch(1)), has_records: true })]);
        survey.add(NodeId(1), [(replica(1), Progress { arrived: Some(Epoch(1)), has_records: true })]);
        let left = Progress { arrived: None, has_records: false };
        survey.add(NodeId(3), [(replica(2), left)]);
        assert_eq!(still_to_come(&next, &survey), [""; 0]);
        assert!(!nodes_to_ask(&next).contains(&NodeId(2)));
    }

    #[test]
    fn a_change_waits_for_those_that_learn_and_those_that_leave() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[0, 1, 3]);
        let mut survey = all_well(&present);
        assert!(still_to_come(&next, &survey)[0].contains("0 of the 3 replicas of shard1 have taken over"));
        survey = all_well(&next);
        assert_eq!(still_to_come(&next, &survey), [""; 0]);
        survey.add(NodeId(3), [(replica(3), Progress { arrived: None, has_records: false })]);
        let left = Progress { arrived: Some(Epoch::FIRST), has_records: true };
        survey.add(NodeId(2), [(replica(2), left)]);
        let waits_for = still_to_come(&next, &survey);
        assert_eq!(
            waits_for,
            ["shard1/r3 learns on node3 what the others know", "shard1/r2 is still on node2"]
        );
        assert_eq!(absent(&next, &survey), []);
        let mut survey = Survey::default();
        survey.add(NodeId(0), []);
        survey.add(NodeId(1), []);
        assert_eq!(absent(&next, &survey), [replica(3), replica(2)]);
        assert_eq!(nodes_to_ask(&next).len(), 4, "of those before as well");
    }

    #[test]
    fn an_epoch_is_defined_in_place_of_the_one_that_was_asked_about() {
        let present = keyspace(&[0, 1, 2]);
        let (next, other) = (moved(&present, &[0, 1, 3]), moved(&present, &[0, 1, 4]));
        let decide = |found| decide_definition(found, &present, &next);
        assert_eq!(decide(Some(&present)), Defines::Next);
        assert_eq!(decide(Some(&next)), Defines::Nothing);
        assert_eq!(decide(Some(&other)), Defines::Overtaken);
        assert_eq!(decide(None), Defines::Overtaken, "it was dropped");
    }

    #[test]
    fn a_definer_asks_until_it_may_define_and_watches_until_all_have_arrived() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[0, 1, 3]);
        let mut definer = Definer::default();
        assert_eq!(definer.want(), Want::Plan);
        definer.on_plan(present.clone(), Some(next.clone()));
        assert_eq!(definer.want(), Want::Ask(&next));
        let waits = definer.on_survey(&all_well(&present), true).expect("a node is silent");
        assert_eq!((waits.epoch, waits.is_defined), (1, false));
        let mut survey = all_well(&present);
        survey.add(NodeId(3), []);
        assert_eq!(definer.on_survey(&survey, true), None);
        assert_eq!(definer.want(), Want::Define { present: &present, next: &next });
        definer.on_defined(Defines::Nothing);
        assert_eq!(definer.want(), Want::Ask(&next));
        assert!(definer.on_survey(&survey, true).is_some_and(|waits| waits.is_defined));
        assert_eq!(definer.on_survey(&all_well(&next), true), None);
        let changed = Changed { definition: next, is_new: true, waits_for: vec![], absent: vec![] };
        assert_eq!(definer.want(), Want::Nothing(&Ok(changed)));
    }

    #[test]
    fn a_definer_without_time_gives_up_what_is_not_defined_and_leaves_alone_what_is() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[0, 1, 3]);
        let mut early = Definer::default();
        early.on_plan(present.clone(), Some(next.clone()));
        assert_eq!(early.on_survey(&all_well(&present), false), None);
        assert!(matches!(early.want(), Want::Nothing(Err(reason)) if reason.contains("node3")));
        let mut late = Definer::default();
        late.on_plan(next.clone(), None);
        assert_eq!(late.on_survey(&all_well(&present), false), None);
        let Want::Nothing(Ok(changed)) = late.want() else { panic!("it goes on by itself") };
        assert!(!changed.is_new && !changed.waits_for.is_empty());
    }

    #[test]
    fn a_definer_that_is_overtaken_plans_again_but_not_for_ever() {
        let present = keyspace(&[0, 1, 2]);
        let next = moved(&present, &[0, 1, 3]);
        let mut survey = all_well(&present);
        survey.add(NodeId(3), []);
        let mut definer = Definer::default();
        for _ in 0..PLANS_MAX {
            assert_eq!(definer.want(), Want::Plan);
            definer.on_plan(present.clone(), Some(next.clone()));
            definer.on_survey(&survey, true);
            definer.on_defined(Defines::Overtaken);
        }
        assert!(matches!(definer.want(), Want::Nothing(Err(reason)) if reason.contains("again and again")));
    }
}
