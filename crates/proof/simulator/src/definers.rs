//! Operators that change who the replicas are, and the catalogue that they write to: the hosts of
//! [`quorate_core::definer::Definer`], in place of those of the client library.
//!
//! An operator sits at the node of a client. It reads the catalogue, asks the nodes of replicas how far these are, and writes the next epoch, each
//! with messages that take their time and are lost over links that are cut. The catalogue stands on one node and is written at once, as
//! far as it is as the operator has found it: that it is a replicated log with leaders of its own is simulated elsewhere.
//!
//! | what goes wrong | what must come of it |
//! |---|---|
//! | an operator vanishes, before or after its write has left | the next one goes on from what is defined |
//! | two are at it at once | one of them is first, and the other plans again |
//! | nobody hears of a write that was made | its operator finds the epoch defined |
//! | a node does not answer, or its answer is old | nothing is defined before enough have arrived |
//!
//! Where replicas go is drawn, and not planned as operators plan it: two of a group may come to one node, and a node that a replica leaves may get
//! another one, which reaches more states on few nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use quorate_core::definer::{Definer, Defines, Progress, Survey, Want, decide_definition, nodes_to_ask};
use quorate_core::hosted::{HostedReplica, Status};
use quorate_core::topology::{Change, Keyspace, Shard};
use quorate_core::{
    Epoch, Instant, Members, NodeId, Random, ReplicaId, ReplicaIndex, ShardId, Succession, Tenure,
};

use crate::cluster::{Alarm, Cluster};
use crate::hosts::HostPlant;
use crate::membership::MembershipStep;
use crate::system::System;

/// So many operators are at it at once, at most.
const OPERATORS_MAX: usize = 3;

/// How often nodes are asked how far their replicas are.
const POLL: Duration = Duration::from_millis(100);

/// An operator gives up after this time what is not defined by then.
const PATIENCE: Duration = Duration::from_secs(8);

/// Beside some round trips, an answer is waited for so long.
const ANSWER_PATIENCE: Duration = Duration::from_millis(300);

/// With this probability an operator vanishes in place of what it would do next, and with this one right after it has sent what it writes.
const VANISHES: f64 = 0.02;
const VANISHES_AFTER_WRITE: f64 = 0.15;

/// With this probability a question to the catalogue, or its answer, is lost.
const LOSS: f64 = 0.05;

/// An event of an operator that changes who the replicas are, or of a message of its.
#[derive(Clone, Debug)]
pub enum DefinerStep {
    /// It goes on.
    Goes,
    /// The catalogue is read, in this round of the operator.
    Reads(u32),
    /// The operator hears how the keyspace is defined.
    Read(u32, Arc<Keyspace>),
    /// A node is asked how far its replicas are.
    Asked(u32, NodeId),
    /// The operator hears how far the replicas of a node are.
    Told(u32, NodeId, Vec<(ReplicaId, Progress)>),
    /// The catalogue is written.
    Writes {
        /// The round of the operator.
        round: u32,
        /// The keyspace as it has to be.
        present: Arc<Keyspace>,
        /// The next epoch.
        next: Arc<Keyspace>,
    },
    /// The operator hears what its write has done.
    Wrote(u32, Defines),
    /// No answer is waited for any longer.
    Waited(u32),
    /// Its last write, if there was one, has arrived by now.
    Forgotten,
}

/// An operator that changes who the replicas are.
#[derive(Debug)]
struct Undertaking {
    /// Its node.
    node: usize,
    definer: Definer,
    deadline: Instant,
    /// Counts what it has asked for: older answers say nothing to it.
    round: u32,
    survey: Survey,
    /// The nodes that have not answered.
    awaited: BTreeSet<NodeId>,
}

/// Those that change who the replicas are, and the catalogue.
#[derive(Debug)]
pub(crate) struct Definers {
    random: Random,
    /// The keyspace, as the catalogue has it.
    defined: Arc<Keyspace>,
    /// By their numbers, those that are at it.
    operators: BTreeMap<u64, Undertaking>,
    /// By the number of an operator, the shard that it wants to change, and who is to have it: it may be defined at any moment.
    wanted: BTreeMap<u64, (ShardId, Members)>,
    /// How many there have been.
    begun: u64,
    /// True once nobody changes anything any more.
    are_done: bool,
    /// Events that are worth counting.
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

impl Definers {
    /// Nobody is at a keyspace that has just been created.
    pub(crate) fn new(seed: u64, keyspace: Keyspace) -> Self {
        Definers {
            random: Random::stream(seed, "definers"),
            defined: Arc::new(keyspace),
            operators: BTreeMap::new(),
            wanted: BTreeMap::new(),
            begun: 0,
            are_done: false,
            happened: BTreeMap::new(),
        }
    }

    /// The keyspace, as the catalogue has it.
    pub(crate) fn defined(&self) -> &Keyspace {
        &self.defined
    }

    /// As [`Definers::defined`], for what operators change beside who the replicas are.
    pub(crate) fn defined_mut(&mut self) -> &mut Keyspace {
        Arc::make_mut(&mut self.defined)
    }

    /// The members that may have a shard at any moment, as far as operators want it.
    pub(crate) fn wanted(&self, shard: ShardId) -> impl Iterator<Item = Members> {
        self.wanted.values().filter(move |(of, _)| *of == shard).map(|(_, members)| *members)
    }

    /// Nobody changes anything any more.
    pub(crate) fn end(&mut self) {
        self.are_done = true;
        self.operators.clear();
        self.wanted.clear();
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }
}

impl<S: System> Cluster<S> {
    /// An operator begins to change who the replicas are.
    pub(crate) fn begin_change(&mut self) {
        if !S::CHANGES_GROUPS || self.definers.operators.len() >= OPERATORS_MAX {
            return;
        }
        let slot = self.definers.random.index(self.scenario.clients);
        let (node, deadline) = (self.client_node(slot), self.instant_after(PATIENCE));
        self.definers.begun += 1;
        let number = self.definers.begun;
        if !self.definers.operators.is_empty() {
            self.definers.note("operators changed replicas at the same time");
        }
        let operator = Undertaking {
            node,
            definer: Definer::default(),
            deadline,
            round: 0,
            survey: Survey::default(),
            awaited: BTreeSet::new(),
        };
        self.definers.operators.insert(number, operator);
        self.definer_later(Duration::from_micros(1), number, DefinerStep::Goes);
    }

    fn definer_later(&mut self, after: Duration, number: u64, step: DefinerStep) {
        self.world.set_alarm(after, Alarm::Membership(MembershipStep::Definer(number, step)));
    }

    /// Goes on with a change of replicas. True if an epoch was defined.
    pub(crate) fn go_on_defining(&mut self, number: u64, step: DefinerStep) -> bool {
        match step {
            DefinerStep::Goes => self.let_operator_go(number),
            DefinerStep::Reads(round) => {
                let defined = Arc::clone(&self.definers.defined);
                self.catalogue_answers(number, DefinerStep::Read(round, defined));
            }
            DefinerStep::Read(round, present) => self.on_catalogue_read(number, round, &present),
            DefinerStep::Asked(round, node) => self.ask_node(number, round, node),
            DefinerStep::Told(round, node, replicas) => {
                if let Some(operator) = self.undertaking_in(number, round) {
                    operator.survey.add(node, replicas);
                    operator.awaited.remove(&node);
                    if operator.awaited.is_empty() {
                        self.on_surveyed(number);
                    }
                }
            }
            DefinerStep::Writes { round, present, next } => {
                let defines = self.write_epoch(&present, &next);
                self.catalogue_answers(number, DefinerStep::Wrote(round, defines));
                return defines == Defines::Next;
            }
            DefinerStep::Wrote(round, defines) => {
                if let Some(operator) = self.undertaking_in(number, round) {
                    operator.definer.on_defined(defines);
                    match defines {
                        Defines::Next => {}
                        Defines::Nothing => self.definers.note("an operator found its epoch defined"),
                        Defines::Overtaken => self.definers.note("an operator was overtaken by another"),
                    }
                    self.definer_later(Duration::from_micros(1), number, DefinerStep::Goes);
                }
            }
            DefinerStep::Waited(round) => {
                if let Some(operator) = self.undertaking_in(number, round) {
                    match operator.definer.want() {
                        Want::Ask(_) => self.on_surveyed(number),
                        Want::Plan | Want::Define { .. } | Want::Nothing(_) => self.let_operator_go(number),
                    }
                }
            }
            DefinerStep::Forgotten => _ = self.definers.wanted.remove(&number),
        }
        false
    }

    /// An operator, if it still waits for answers of this round.
    fn undertaking_in(&mut self, number: u64, round: u32) -> Option<&mut Undertaking> {
        self.definers.operators.get_mut(&number).filter(|operator| operator.round == round)
    }

    /// An operator does what its definer wants, or vanishes.
    fn let_operator_go(&mut self, number: u64) {
        let vanishes = self.definers.random.chance(VANISHES);
        let Some(operator) = self.definers.operators.get_mut(&number) else { return };
        if vanishes {
            self.definers.note("an operator that changed replicas vanished");
            return self.dismiss(number);
        }
        operator.round += 1;
        let (round, node) = (operator.round, operator.node);
        match operator.definer.want() {
            Want::Plan => self.ask_catalogue(number, node, DefinerStep::Reads(round)),
            Want::Ask(definition) => {
                let nodes = nodes_to_ask(definition);
                (operator.survey, operator.awaited) = (Survey::default(), nodes.clone());
                for asked in nodes {
                    self.carry(number, node, usize::from(asked.0), DefinerStep::Asked(round, asked));
                }
            }
            Want::Define { present, next } => {
                let (present, next) = (Arc::new(present.clone()), Arc::new(next.clone()));
                self.ask_catalogue(number, node, DefinerStep::Writes { round, present, next });
                if self.definers.random.chance(VANISHES_AFTER_WRITE) {
                    self.definers.note("an operator vanished after it had sent the next epoch");
                    return self.dismiss(number);
                }
            }
            Want::Nothing(_) => return self.dismiss(number),
        }
        let patience = ANSWER_PATIENCE + 2 * self.scenario.slow_round_trip();
        self.definer_later(patience, number, DefinerStep::Waited(round));
    }

    /// An operator is gone. Its writes may still be on their way.
    fn dismiss(&mut self, number: u64) {
        self.definers.operators.remove(&number);
        self.definer_later(2 * self.scenario.slow_round_trip(), number, DefinerStep::Forgotten);
    }

    /// Carries something from one node to another, unless the link is cut.
    fn carry(&mut self, number: u64, from: usize, to: usize, step: DefinerStep) {
        if self.world.network().is_open(from, to) {
            let delay = self.world.network().delay(from, to);
            let delay = delay.mul_f64(1.0 + self.scenario.jitter * self.definers.random.unit());
            self.definer_later(delay, number, step);
        }
    }

    /// Carries a question to the catalogue, which is lost now and then.
    fn ask_catalogue(&mut self, number: u64, from: usize, step: DefinerStep) {
        let catalogue = self.catalogue_node();
        if !self.definers.random.chance(LOSS) {
            self.carry(number, from, catalogue, step);
        }
    }

    /// Carries the answer of the catalogue, which is lost now and then.
    fn catalogue_answers(&mut self, number: u64, step: DefinerStep) {
        let (catalogue, is_lost) = (self.catalogue_node(), self.definers.random.chance(LOSS));
        if let Some(operator) = self.definers.operators.get(&number).filter(|_| !is_lost) {
            let to = operator.node;
            self.carry(number, catalogue, to, step);
        }
    }

    /// A node says how far its replicas are, if it runs.
    fn ask_node(&mut self, number: u64, round: u32, asked: NodeId) {
        let node = usize::from(asked.0);
        let servers = self.servers_of(node);
        let is_down =
            !servers.is_empty() && servers.iter().all(|server| self.world.server(*server).is_none());
        if is_down || self.world.is_paused(node) {
            return;
        }
        let progress = |server: &usize| {
            let health = self.world.server(*server).map(HostedReplica::health);
            let has_records = health.is_some_and(|health| health.status != Status::Recovering);
            let arrived = health.and(self.served_since(*server));
            (self.replica(*server), Progress { arrived, has_records })
        };
        let replicas = servers.iter().map(progress).collect();
        if let Some(operator) = self.definers.operators.get(&number) {
            let to = operator.node;
            self.carry(number, node, to, DefinerStep::Told(round, asked, replicas));
        }
    }

    /// All nodes have answered that will.
    fn on_surveyed(&mut self, number: u64) {
        let now = self.world.now();
        let is_rash = self.scenario.host_plant == Some(HostPlant::EpochsDefinedEarly)
            || S::defines_epochs_early(&self.scenario.settings);
        let Some(operator) = self.definers.operators.get_mut(&number) else { return };
        operator.round += 1;
        let has_time = now < operator.deadline;
        if is_rash && let Want::Ask(definition) = operator.definer.want() {
            operator.survey = everything_has_arrived(definition);
        }
        let waits = operator.definer.on_survey(&operator.survey, has_time).is_some();
        if waits {
            self.definers.note("the next epoch, or its members, had to be waited for");
        }
        let after = if waits { POLL } else { Duration::from_micros(1) };
        self.definer_later(after, number, DefinerStep::Goes);
    }

    /// The catalogue is written, if it is as it has to be.
    fn write_epoch(&mut self, present: &Keyspace, next: &Keyspace) -> Defines {
        if self.definers.are_done {
            return Defines::Overtaken;
        }
        let defines = match self.scenario.host_plant {
            Some(HostPlant::EpochsOverwritten) => Defines::Next,
            _ => decide_definition(Some(&self.definers.defined), present, next),
        };
        if defines == Defines::Next {
            self.definers.note("epochs were defined");
            self.definers.defined = Arc::new(next.clone());
            self.enter_definition();
        }
        defines
    }

    /// An operator hears how the keyspace is defined, and plans.
    fn on_catalogue_read(&mut self, number: u64, round: u32, present: &Keyspace) {
        if self.undertaking_in(number, round).is_none() {
            return;
        }
        let next = self.plan(number, present);
        if let Some(operator) = self.undertaking_in(number, round) {
            operator.definer.on_plan(present.clone(), next);
            self.definer_later(Duration::from_micros(1), number, DefinerStep::Goes);
        }
    }

    /// Draws who the replicas are to be next: some of a group are replaced by new ones, or two are added, or taken away. Nothing if
    /// that cannot be now.
    fn plan(&mut self, number: u64, present: &Keyspace) -> Option<Keyspace> {
        let mut random = self.definers.random.fork();
        let groups = self.groups();
        let shard = groups[random.index(groups.len())];
        let group = present.groups().find(|group| group.id == shard)?;
        let mut seats: Vec<(ReplicaIndex, NodeId)> = group.members().collect();
        let failures = group.group_size().failures();
        let is_home = present.is_home(shard);
        let (leave, join) = match random.below(4) {
            _ if is_home => (1, 1),
            0 if failures < 2 => (0, 2),
            0 | 1 if failures > 1 => (2, 0),
            2 if failures > 1 => (2, 2),
            _ => (1, 1),
        };
        // A group that stands in a site stays there.
        let stands_in = |node: &NodeId| self.site_of(usize::from(node.0));
        let stays = S::ISOLATION.stands_in_sites() || is_home;
        let site = group.replicas.first().map(stands_in).filter(|_| stays);
        let left: Vec<ReplicaIndex> =
            (0..leave).map(|_| seats.swap_remove(random.index(seats.len())).0).collect();
        // A replica that has lost its records counts for nobody, and the smaller group must be able to do without. An operator is told of that, but not of
        // a disk that nobody has read since it decayed: such a change would never end.
        let failures_after = failures + join / 2 - leave / 2;
        let indices = seats.iter().map(|(index, _)| *index);
        let lost = indices.clone().chain(left).filter(|index| self.has_lost_records(shard, *index)).count();
        if lost > failures.min(failures_after) {
            return None;
        }
        let first = group.next_index();
        let joining = (first..first + join as u16).map(|index| u8::try_from(index).ok().map(ReplicaIndex));
        let joining: Vec<ReplicaIndex> = joining.collect::<Option<_>>()?;
        let members = Members::on_log(indices.chain(joining.iter().copied())).ok()?;
        // No node has the machines of two homes.
        let hosting: Vec<usize> = match is_home {
            true => {
                present.homes.iter().flat_map(|home| &home.replicas).map(|node| usize::from(node.0)).collect()
            }
            false => seats.iter().map(|(_, node)| usize::from(node.0)).collect(),
        };
        let nodes = self.nodes_to_join(&hosting, join, site, &mut random)?;
        seats.extend(joining.into_iter().zip(nodes.into_iter().map(|node| NodeId(node as u16))));
        self.definers.wanted.insert(number, (shard, members));
        Some(next_definition(present, group, seats, members))
    }

    /// True if a replica that is there has lost its records, or may have.
    fn has_lost_records(&self, shard: ShardId, index: ReplicaIndex) -> bool {
        let mut servers = 0..self.world.servers();
        let server = servers.find(|server| self.replica(*server) == ReplicaId { shard, index });
        server.is_some_and(|server| self.has_lost(server))
    }
}

/// The next epoch of a keyspace, in which a group has these members at these places.
fn next_definition(
    present: &Keyspace,
    group: &Shard,
    mut seats: Vec<(ReplicaIndex, NodeId)>,
    members: Members,
) -> Keyspace {
    let epoch = Epoch(present.epoch.0 + 1);
    seats.sort_unstable();
    let given = seats.last().map_or(0, |(index, _)| u16::from(index.0) + 1);
    let succession =
        Succession { previous: Some(group.succession().present), present: Tenure { since: epoch, members } };
    let change = Change { succession, previous: group.replicas.clone(), next: group.next_index().max(given) };
    let replicas = seats.into_iter().map(|(_, node)| node).collect();
    let mut next = Keyspace { epoch, ..present.clone() };
    for shard in next.groups_mut().filter(|shard| shard.id == group.id) {
        *shard = Shard { id: group.id, replicas: Vec::clone(&replicas), change: Some(change.clone()) };
    }
    next
}

/// The answers that an operator imagines who asks nobody: everything is as it is to be.
fn everything_has_arrived(definition: &Keyspace) -> Survey {
    let mut survey = Survey::default();
    for group in definition.groups() {
        let known = Progress { arrived: Some(definition.epoch), has_records: true };
        for (index, node) in group.members() {
            survey.add(node, [(ReplicaId { shard: group.id, index }, known)]);
        }
    }
    survey
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::KeyspaceId;
    use quorate_core::topology::{Durability, Isolation};

    #[test]
    fn a_drawn_definition_is_the_one_that_an_operator_would_write() {
        let nodes = |nodes: &[u16]| nodes.iter().copied().map(NodeId).collect::<Vec<_>>();
        let shards =
            vec![Shard::new(ShardId(1), nodes(&[0, 1, 2])), Shard::new(ShardId(2), nodes(&[0, 1, 2]))];
        let mut present = Keyspace::new(KeyspaceId(1), "k", Isolation::Strict, Durability::Sync, shards);
        for to in [[0, 1, 3], [3, 4, 0]] {
            let expected = present.next_epoch(&BTreeMap::from([(ShardId(1), nodes(&to))])).unwrap();
            let group = &present.shards[0];
            let seats: Vec<_> = expected.shards[0].members().collect();
            let members = expected.shards[0].succession().present.members;
            assert_eq!(next_definition(&present, group, seats, members), expected);
            present = expected;
        }
    }
}
