//! Shards that are lost for good, where the others go on without them: the loss, and the operators that declare it.
//!
//! An operator tells the replicas of every other shard again and again, until one of each shard says that it knows, as `quorate cluster declare-lost` does; it may
//! vanish half-way, and another one begins anew. It may also declare lost what still runs (`--force`), and that goes later.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::command::Outcome;
use quorate_core::hosted::{Holdings, HostedReplica};
use quorate_core::{Instant, Random, ShardId, TransactionId};

use crate::cluster::{Alarm, Cluster};
use crate::hosts::HostPlant;
use crate::system::System;

/// An operator declares a loss within this time after it, and another one takes over from one that vanished.
const OPERATOR_MAX: Duration = Duration::from_secs(2);

/// How often an operator asks and tells.
const POLL: Duration = Duration::from_millis(200);

/// The replicas of a shard that was declared lost while it ran are gone within this time.
const GONE_MAX: Duration = Duration::from_secs(8);

/// So often a shard is declared lost while it runs.
const FORCED: f64 = 0.25;

/// With this probability an operator vanishes before it asks again.
const VANISHES: f64 = 0.1;

/// A step of what follows the loss of a shard.
#[derive(Clone, Debug)]
pub enum ShardStep {
    /// Its replicas are gone that ran when it was declared lost.
    Gone,
    /// An operator at a client's node asks who knows, and tells those that do not.
    Declare {
        /// The node.
        node: usize,
    },
    /// A replica is told.
    Told {
        /// The server.
        server: usize,
    },
}

/// The shard that is lost, if one is.
#[derive(Debug)]
pub(crate) struct ShardLosses {
    random: Random,
    lost: Option<Lost>,
    /// Events that are worth counting.
    pub(crate) happened: BTreeMap<&'static str, u64>,
}

/// A shard that is lost for good.
#[derive(Debug)]
pub(crate) struct Lost {
    /// The shard.
    pub(crate) shard: ShardId,
    /// Before that it was as any other.
    pub(crate) since: Instant,
    /// The transactions on which other shards had agreed before it was gone: these are not lost with it.
    pub(crate) kept: BTreeSet<TransactionId>,
    /// True once its replicas are gone.
    is_gone: bool,
}

impl ShardLosses {
    /// No shard is lost.
    pub(crate) fn new(seed: u64) -> Self {
        ShardLosses { random: Random::stream(seed, "lost shards"), lost: None, happened: BTreeMap::new() }
    }

    /// The shard that is lost.
    pub(crate) fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }
}

impl<S: System> Cluster<S> {
    /// Loses a shard; false if that cannot be. One is lost in a seed. Where errands ask for several shards by their names, none is.
    pub(crate) fn lose_shard(&mut self) -> bool {
        let shards = self.shards();
        let has_errands = self.scenario.has_errands();
        if !S::LOSES_SHARDS || self.shard_losses.lost.is_some() || shards.len() < 2 || has_errands {
            return false;
        }
        let shard = shards[self.shard_losses.random.index(shards.len())];
        let since = self.world.now();
        self.shard_losses.lost = Some(Lost { shard, since, kept: BTreeSet::new(), is_gone: false });
        self.losses.note_lost(shard);
        self.keep_what_others_know();
        if self.shard_losses.random.chance(FORCED) {
            self.world.note(|| format!("{shard} is declared lost while it runs"));
            self.shard_losses.note("shards were declared lost while they ran");
            self.shard_step_later(GONE_MAX, ShardStep::Gone);
            self.begin_to_declare(Duration::ZERO);
        } else {
            self.lose_replicas_of_shard();
            self.begin_to_declare(OPERATOR_MAX);
        }
        true
    }

    /// Notes what the other shards have agreed on, as far as it is known where nobody leads: a leader may know more than its log.
    fn keep_what_others_know(&mut self) {
        let Some(lost) = &self.shard_losses.lost else { return };
        let is_other = |server: &usize| self.replica(*server).shard != lost.shard;
        let replicas =
            (0..self.world.servers()).filter(is_other).filter_map(|server| self.world.server(server));
        let backups = replicas.filter(|replica| !replica.health().leads);
        let committed = |(id, outcome): (TransactionId, Outcome)| match outcome {
            Outcome::Committed(_) => Some(id),
            Outcome::Aborted => None,
        };
        let kept: Vec<TransactionId> =
            backups.flat_map(|replica| replica.outcomes()).filter_map(committed).collect();
        if let Some(lost) = &mut self.shard_losses.lost {
            lost.kept.extend(kept);
        }
    }

    fn lose_replicas_of_shard(&mut self) {
        self.keep_what_others_know();
        let Some(lost) = self.shard_losses.lost.as_mut().filter(|lost| !lost.is_gone) else { return };
        lost.is_gone = true;
        let shard = lost.shard;
        self.world.note(|| format!("{shard} is lost for good"));
        self.erase_group(shard);
    }

    fn shard_step_later(&mut self, most: Duration, step: ShardStep) {
        let after = most.mul_f64(self.shard_losses.random.unit());
        self.world.set_alarm(after, Alarm::Shard(step));
    }

    fn begin_to_declare(&mut self, most: Duration) {
        let slot = self.shard_losses.random.index(self.scenario.clients);
        let node = self.client_node(slot);
        self.shard_step_later(most, ShardStep::Declare { node });
    }

    /// Goes on with what follows the loss of a shard.
    pub(crate) fn go_on_with_shard(&mut self, step: ShardStep) {
        let Some(shard) = self.shard_losses.lost.as_ref().map(|lost| lost.shard) else { return };
        match step {
            ShardStep::Gone => self.lose_replicas_of_shard(),
            ShardStep::Declare { node } => self.declare(shard, node),
            ShardStep::Told { server } => {
                if self.world.server(server).is_some()
                    && let Some(command) = S::Server::declare_lost(shard)
                {
                    self.world.command_server(server, command);
                }
            }
        }
    }

    /// An operator asks who knows of the loss, and tells those that do not.
    fn declare(&mut self, lost: ShardId, node: usize) {
        let others: Vec<ShardId> = self.shards().into_iter().filter(|shard| *shard != lost).collect();
        let unaware: Vec<ShardId> =
            others.iter().copied().filter(|shard| !self.is_aware(*shard, lost, node)).collect();
        let is_content = match self.scenario.host_plant {
            Some(HostPlant::LossDeclaredToOne) => unaware.len() < others.len(),
            _ => unaware.is_empty(),
        };
        if is_content {
            return self.shard_losses.note("all other shards knew that one is lost");
        }
        for server in 0..self.world.servers() {
            let to = self.world.node_of_server(server);
            if unaware.contains(&self.replica(server).shard) && self.reaches(node, to) {
                let delay = self.world.network().delay(node, to);
                self.world.set_alarm(delay, Alarm::Shard(ShardStep::Told { server }));
            }
        }
        if !self.losses.is_steady && self.shard_losses.random.chance(VANISHES) {
            self.shard_losses.note("an operator that declared a loss vanished");
            return self.begin_to_declare(OPERATOR_MAX);
        }
        self.world.set_alarm(POLL, Alarm::Shard(ShardStep::Declare { node }));
    }

    /// True if a replica of a shard that can be asked says that another one is lost.
    fn is_aware(&mut self, shard: ShardId, lost: ShardId, node: usize) -> bool {
        (0..self.world.servers()).any(|server| {
            let to = self.world.node_of_server(server);
            let knows =
                self.world.server(server).is_some_and(|replica| replica.lost_shards().contains(&lost));
            self.replica(server).shard == shard && knows && self.reaches(node, to) && self.reaches(to, node)
        })
    }

    fn reaches(&mut self, from: usize, to: usize) -> bool {
        self.world.network().is_open(from, to) && !self.world.is_paused(to)
    }

    /// All faults have ended: what was declared lost is gone. Operators go on until all know.
    pub(crate) fn end_shard_losses(&mut self) {
        self.lose_replicas_of_shard();
    }
}
