//! Groups of which more replicas lose their disks than they survive, and the operators who accept that: what
//! [`quorate_core::acceptance`] says of such a group is asked for and carried out here as `quorate cluster accept-loss` does it.
//!
//! An operator asks the nodes of the group how its replicas are, over links that may be cut, and has those go on that are to go on asleep. It may vanish
//! half-way, and another one begins anew. A node refuses unless its replica has said that the group cannot help itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::acceptance::{self, Plan, Told};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Boot, Holdings, HostedReplica, Status};
use quorate_core::{Instant, Random, ReplicaId, ReplicaIndex, ShardId, TransactionId, View};

use crate::cluster::{Alarm, Cluster};
use crate::hosts::HostPlant;
use crate::system::System;
use crate::world::disk::Crash;

/// An operator is at it within this time after a loss, and another one takes over from one that vanished.
const OPERATOR_MAX: Duration = Duration::from_secs(2);

/// How often an operator asks.
const POLL: Duration = Duration::from_millis(200);

/// A node that has lost the directory of a replica is back within this time.
const BACK_MAX: Duration = Duration::from_secs(3);

/// With this probability an operator vanishes before it asks again.
const VANISHES: f64 = 0.1;

/// A step of what follows such a loss.
#[derive(Clone, Debug)]
pub enum AcceptanceStep {
    /// An operator at a client's node asks how the replicas are, and has some go on asleep.
    Ask {
        /// The node.
        node: usize,
    },
    /// A replica is to go on asleep, in no view up to this one.
    Sleep {
        /// The server.
        server: usize,
        /// The view.
        view: View,
    },
}

/// The groups that have lost more than they survive, if any have.
#[derive(Debug)]
pub(crate) struct AcceptedLosses {
    random: Random,
    loss: Option<Loss>,
    /// The servers that go on asleep and have not been normal since.
    asleep: BTreeSet<usize>,
    /// The servers that have said since they started that their group cannot help itself.
    helpless: BTreeSet<usize>,
    /// Events that are worth counting.
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

/// A loss that is beyond what groups survive.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Before that everything was as ever.
    pub(crate) since: Instant,
    /// The groups.
    pub(crate) groups: BTreeSet<ShardId>,
    /// When an operator has had a replica go on asleep last; none as long as none has.
    pub(crate) accepted: Option<Instant>,
    /// Per group, what its survivors knew to be committed when that was accepted: it is not lost.
    pub(crate) kept: BTreeMap<ShardId, BTreeSet<TransactionId>>,
    /// True once all replicas of the groups serve again.
    is_over: bool,
}

impl AcceptedLosses {
    /// Nothing is lost.
    pub(crate) fn new(seed: u64) -> Self {
        AcceptedLosses {
            random: Random::stream(seed, "accepted losses"),
            loss: None,
            asleep: BTreeSet::new(),
            helpless: BTreeSet::new(),
            happened: BTreeMap::new(),
        }
    }

    /// The loss, if there was one.
    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// True if a group has lost more than it survives, and does not serve again.
    pub(crate) fn concerns(&self, shard: ShardId) -> bool {
        self.loss.as_ref().is_some_and(|loss| !loss.is_over && loss.groups.contains(&shard))
    }

    /// True if no group waits for an operator.
    pub(crate) fn are_over(&self) -> bool {
        self.loss.as_ref().is_none_or(|loss| loss.is_over)
    }

    /// True if a server goes on asleep: its disk says so.
    pub(crate) fn is_asleep(&self, server: usize) -> bool {
        self.asleep.contains(&server)
    }

    /// A server has started, and has said nothing yet.
    pub(crate) fn note_start(&mut self, server: usize) {
        self.helpless.remove(&server);
    }

    /// A server says that its group cannot help itself; true if there is reason to.
    pub(crate) fn note_helpless(&mut self, server: usize, shard: ShardId) -> bool {
        self.helpless.insert(server);
        self.concerns(shard)
    }

    /// A server has no records any more, or has those of its group.
    pub(crate) fn note_awake(&mut self, server: usize) {
        self.asleep.remove(&server);
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }
}

impl<S: System> Cluster<S> {
    /// Has a group lose more replicas than it survives, with their disks; false if that cannot be. There is one such loss in a seed. Where errands ask
    /// for several shards by their names, there is none.
    pub(crate) fn lose_more_than_survives(&mut self) -> bool {
        let has_errands = self.scenario.has_errands();
        let is_lost = self.accepted_losses.loss.is_some() || self.shard_losses.lost().is_some();
        let groups = self.groups();
        let is_changing = groups.iter().any(|group| self.is_changing(*group));
        if !S::ACCEPTS_LOSSES || is_lost || has_errands || is_changing {
            return false;
        }
        let shard = groups[self.accepted_losses.random.index(groups.len())];
        let mut members: Vec<usize> =
            self.members().filter(|server| self.replica(*server).shard == shard).collect();
        let is_sound = |server: &usize| self.has_been_founded(*server) && !self.has_lost(*server);
        let survives = self.definition().members(shard).failures();
        let is_there = members.len() == self.definition().members(shard).replicas();
        if !is_there || !members.iter().all(is_sound) {
            return false;
        }
        let random = &mut self.accepted_losses.random;
        let most = members.len() - usize::from(random.chance(0.8));
        let lost = random.between(survives as u64 + 1, most as u64) as usize;
        let losing: Vec<usize> =
            (0..lost).map(|_| members.swap_remove(random.index(members.len()))).collect();
        self.lose_directories(shard, &losing);
        true
    }

    /// True if a member of a group has not arrived in its epoch, or an operator wants other members: such a group has no way back yet, because what goes on asleep says
    /// that it has the record with which the epoch begins.
    fn is_changing(&self, shard: ShardId) -> bool {
        let since = self.definition().succession(shard).present.since;
        let mut members = self.members().filter(|server| self.replica(*server).shard == shard);
        members.any(|server| self.arrived_since(server) < Some(since))
            || self.groups_in_charge(shard).len() > 1
    }

    fn lose_directories(&mut self, shard: ShardId, losing: &[usize]) {
        self.world.note(|| format!("{shard} loses {} replicas", losing.len()));
        for server in losing {
            self.crash_node(self.world.node_of_server(*server), Crash::Power);
        }
        for server in losing {
            self.remove_replica(*server);
            let back = BACK_MAX.mul_f64(self.accepted_losses.random.unit());
            self.restart_in(self.world.node_of_server(*server), back);
        }
        // With the memory of a node others may have lost as much.
        let groups = self.groups().into_iter().filter(|group| self.has_lost_too_many(*group)).collect();
        let since = self.world.now();
        self.accepted_losses.loss =
            Some(Loss { since, groups, accepted: None, kept: BTreeMap::new(), is_over: false });
        self.begin_to_accept();
    }

    /// True if more members of a group have lost their records than it survives.
    fn has_lost_too_many(&self, shard: ShardId) -> bool {
        let lost =
            self.members().filter(|server| self.replica(*server).shard == shard && self.has_lost(*server));
        lost.count() > self.definition().members(shard).failures()
    }

    fn begin_to_accept(&mut self) {
        let slot = self.accepted_losses.random.index(self.scenario.clients);
        let node = self.client_node(slot);
        let after = OPERATOR_MAX.mul_f64(self.accepted_losses.random.unit());
        self.world.set_alarm(after, Alarm::Acceptance(AcceptanceStep::Ask { node }));
    }

    /// Goes on with what follows the loss. The replica that goes on asleep, if one does now.
    pub(crate) fn go_on_with_acceptance(&mut self, step: AcceptanceStep) -> Option<ReplicaId> {
        match step {
            AcceptanceStep::Ask { node } => {
                self.ask_and_accept(node);
                None
            }
            AcceptanceStep::Sleep { server, view } => {
                self.fall_asleep(server, view).then(|| self.replica(server))
            }
        }
    }

    /// An operator asks how the replicas of the groups are, and does with each group what the plan says.
    fn ask_and_accept(&mut self, node: usize) {
        let Some(loss) = &self.accepted_losses.loss else { return };
        let groups = loss.groups.clone();
        let mut is_over = true;
        for shard in groups {
            let members: Vec<usize> =
                self.members().filter(|server| self.replica(*server).shard == shard).collect();
            let told: Vec<(ReplicaIndex, Told, View)> =
                members.iter().map(|server| self.ask_replica(*server, node)).collect();
            is_over &= members.iter().all(|server| !self.has_lost(*server) && self.serves(*server));
            match acceptance::plan(&told) {
                Ok(Some(plan)) => self.carry_out(shard, &plan, node),
                Ok(None) => {}
                Err(_) => {
                    self.accepted_losses.note("an operator had to wait for a replica that may know more")
                }
            }
        }
        if is_over {
            self.accepted_losses.note("all replicas served again after an accepted loss");
            if let Some(loss) = &mut self.accepted_losses.loss {
                loss.is_over = true;
            }
            return;
        }
        if !self.losses.is_steady && self.accepted_losses.random.chance(VANISHES) {
            self.accepted_losses.note("an operator that accepted a loss vanished");
            return self.begin_to_accept();
        }
        self.world.set_alarm(POLL, Alarm::Acceptance(AcceptanceStep::Ask { node }));
    }

    fn serves(&self, server: usize) -> bool {
        self.world.server(server).is_some_and(|replica| replica.health().status == Status::Normal)
    }

    /// How a replica is, as the node of an operator is told.
    fn ask_replica(&mut self, server: usize, node: usize) -> (ReplicaIndex, Told, View) {
        let ReplicaId { shard, index } = self.replica(server);
        let since = self.definition().succession(shard).present.since;
        let at = self.world.node_of_server(server);
        let answers = self.hears(node, at) && self.hears(at, node);
        let is_missing = self.amnesia.missing[server];
        let Some(health) = self.world.server(server).map(HostedReplica::health).filter(|_| answers) else {
            // A node that runs tells of a replica that does not begin.
            let is_refused = answers
                && is_missing
                && self.servers_of(at).iter().any(|other| self.world.server(*other).is_some());
            return (index, if is_refused { Told::Refused } else { Told::Silent }, View::default());
        };
        let told = match health.status {
            Status::Normal | Status::ViewChanging if health.arrived < Some(since) => Told::Arrives,
            Status::Normal | Status::ViewChanging => Told::Survives,
            Status::Recovering => Told::Lost,
            Status::Retired => Told::Leaves,
        };
        (index, told, health.view)
    }

    fn hears(&mut self, from: usize, to: usize) -> bool {
        self.world.network().is_open(from, to) && !self.world.is_paused(to)
    }

    fn carry_out(&mut self, shard: ShardId, plan: &Plan, node: usize) {
        self.keep_what_survivors_know(shard, &plan.survivors);
        let sleepers = match self.scenario.host_plant {
            Some(HostPlant::AllGoOnAsleep) => &plan.lost,
            _ => &plan.sleepers,
        };
        for index in sleepers {
            if !self.losses.is_steady && self.accepted_losses.random.chance(VANISHES) {
                return self
                    .accepted_losses
                    .note("an operator vanished between two replicas that were to go on asleep");
            }
            let replica = ReplicaId { shard, index: *index };
            let Some(server) = (0..self.world.servers()).find(|server| self.replica(*server) == replica)
            else {
                continue;
            };
            let to = self.world.node_of_server(server);
            let delay = self.world.network().delay(node, to);
            let step = AcceptanceStep::Sleep { server, view: plan.view };
            self.world.set_alarm(delay, Alarm::Acceptance(step));
        }
    }

    /// Notes what those know that are left of a group, as far as it is durable. Of a log a leader may know more.
    fn keep_what_survivors_know(&mut self, shard: ShardId, survivors: &[ReplicaIndex]) {
        let survives = |server: &usize| {
            let replica = self.replica(*server);
            replica.shard == shard
                && survivors.contains(&replica.index)
                && !self.world.disk(*server).is_dirty()
        };
        let survivors = (0..self.world.servers()).filter(survives);
        let replicas = survivors.filter_map(|server| self.world.server(server));
        let committed = |(id, outcome): (TransactionId, Outcome)| match outcome {
            Outcome::Committed(_) => Some(id),
            Outcome::Aborted => None,
        };
        let outcomes = replicas.filter(|replica| !replica.health().leads).flat_map(Holdings::outcomes);
        let kept: BTreeSet<TransactionId> = outcomes.filter_map(committed).collect();
        if let Some(loss) = &mut self.accepted_losses.loss {
            loss.kept.insert(shard, kept);
        }
    }

    /// A replica that has lost its records goes on as if it had slept since its group was created; false if its node refuses that.
    fn fall_asleep(&mut self, server: usize, view: View) -> bool {
        let replica = self.world.server(server);
        let is_lost = replica.is_some_and(|replica| replica.health().status == Status::Recovering);
        if !is_lost || !self.accepted_losses.helpless.contains(&server) {
            self.accepted_losses.note("a node refused to have a replica go on asleep");
            return false;
        }
        if !self.boot_asleep(server, view) {
            return false;
        }
        self.accepted_losses.asleep.insert(server);
        self.accepted_losses.note("replicas went on asleep");
        let now = self.world.now();
        if let Some(loss) = &mut self.accepted_losses.loss {
            loss.accepted = Some(now);
        }
        true
    }

    /// Has a replica that has lost its records go on as if it had slept since its group was created; false if its disk takes nothing.
    fn boot_asleep(&mut self, server: usize, view: View) -> bool {
        let seat = self.seat(self.replica(server), self.definition().clone(), Boot::Rejoin);
        let since = self.definition().succession(self.replica(server).shard).present.since;
        let next_life = self.world.server(server).and_then(HostedReplica::next_life);
        let Ok(life) = acceptance::life_asleep(next_life, since, view) else { return false };
        let Some(records) = S::Server::asleep_since_creation(&seat, view, life) else { return false };
        self.world.crash_server(server, Crash::Process);
        self.world.replace_disk(server);
        if self.world.put_on_disk(server, self.definition().epoch, &records).is_err() {
            // It begins anew without its records.
            self.world.replace_disk(server);
            self.restart_later(self.world.node_of_server(server));
            return false;
        }
        let records = match self.world.disk(server).is_kept() {
            true => self
                .world
                .open_disk(server)
                .unwrap_or_else(|error| panic!("a disk was written to, and is refused: {error}")),
            false => records,
        };
        self.start(server, &seat, records);
        true
    }
}
