//! Milestones: some clients wait until what they have committed is durable, or visible everywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::command::{AtSite, Command, Milestone, NotReached, SiteVersion};
use quorate_core::{ClientId, Instant, Random, Timestamp, TransactionId};

use super::{Clients, Work};
use crate::cluster::Cluster;
use crate::run::HEALING_MAX;
use crate::system::System;

/// So often a client asks for milestones of a transaction that it has committed.
const PROBABILITY: f64 = 0.3;

/// A client waits for so long at most while faults strike.
const PATIENCE_MAX: Duration = Duration::from_secs(8);

/// A milestone that a client was told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its version.
    pub version: SiteVersion,
    /// The milestone that it has reached.
    pub milestone: Milestone,
}

/// A milestone that a client waits for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    version: SiteVersion,
    /// By when the coordinator has to answer.
    deadline: Instant,
    /// True if faults have ended and the client has all the time that healing takes: then it has to be reached.
    must_be_reached: bool,
}

/// The milestones that clients wait for, and those that they were told of.
#[derive(Debug)]
pub(super) struct Milestones {
    random: Random,
    asked: BTreeMap<(TransactionId, Milestone), Asked>,
    /// Those that they wait for no more, although their coordinators still do.
    given_up: BTreeSet<(TransactionId, Milestone)>,
    /// Those that nobody has judged yet.
    told: Vec<Told>,
    /// True once all faults have ended.
    is_calm: bool,
}

impl Milestones {
    pub(super) fn new(seed: u64) -> Self {
        let random = Random::stream(seed, "milestones");
        let (asked, given_up, told) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        Milestones { random, asked, given_up, told, is_calm: false }
    }

    /// All faults have ended.
    pub(super) fn calm(&mut self) {
        self.is_calm = true;
    }

    /// A client waits for this no more.
    pub(super) fn give_up(&mut self, transaction: TransactionId, milestone: Milestone) {
        if self.asked.remove(&(transaction, milestone)).is_some() {
            self.given_up.insert((transaction, milestone));
        }
    }

    /// A client is no more, and waits for nothing.
    pub(super) fn bury(&mut self, client: ClientId) {
        self.asked.retain(|(transaction, _), _| transaction.client != client);
    }
}

impl Clients {
    /// A transaction has committed. Its client may ask what more it reaches.
    pub(super) fn draw_milestones<S: System>(
        &mut self,
        session: usize,
        (transaction, timestamp): (TransactionId, Timestamp),
        at_site: Option<&AtSite>,
        cluster: &mut Cluster<S>,
    ) {
        let version = at_site.and_then(|at_site| at_site.version);
        let Some(version) = version.filter(|_| matches!(self.sessions[session].work, Work::Drawn)) else {
            return;
        };
        let milestones = &mut self.milestones;
        if !S::TELLS_MILESTONES || !milestones.random.chance(PROBABILITY) {
            return;
        }
        let drawn: &[Milestone] = match milestones.random.below(3) {
            0 => &[Milestone::Durable],
            1 => &[Milestone::Visible],
            _ => &Milestone::ALL,
        };
        let client = self.slots[self.sessions[session].slot].client;
        let participants = vec![cluster.shards()[usize::from(version.site)]];
        for milestone in drawn.iter().copied() {
            let must_be_reached = milestones.is_calm;
            let patience = match must_be_reached {
                true => HEALING_MAX,
                false => {
                    2 * cluster.scenario.slow_round_trip() + PATIENCE_MAX.mul_f64(milestones.random.unit())
                }
            };
            // Where processors take their time, or clocks run too slowly, the answer comes later than it is due.
            let deadline = cluster.world.now() + 2 * patience + Duration::from_secs(10);
            milestones.asked.insert((transaction, milestone), Asked { version, deadline, must_be_reached });
            let participants = participants.clone();
            cluster.world.command(
                client,
                Command::Await { transaction, participants, timestamp, milestone, patience },
            );
        }
    }

    /// A coordinator has answered whether a transaction has reached a milestone.
    pub(super) fn on_milestone(
        &mut self,
        transaction: TransactionId,
        milestone: Milestone,
        result: Result<(), NotReached>,
    ) {
        if self.milestones.given_up.remove(&(transaction, milestone)) {
            return;
        }
        let Some(asked) = self.milestones.asked.remove(&(transaction, milestone)) else {
            self.nonsense.push(format!("{transaction} is {milestone}, and nobody has asked: {result:?}"));
            return;
        };
        let what = match (result, milestone) {
            (Ok(()), Milestone::Durable) => "client was told that its transaction is durable",
            (Ok(()), Milestone::Visible) => "client was told that its transaction is visible everywhere",
            (Err(NotReached::Missing(missing)), _) if !missing.is_empty() && !asked.must_be_reached => {
                *self
                    .happened
                    .entry("client was told which sites keep its transaction from a milestone")
                    .or_default() += 1;
                return;
            }
            (Err(not_reached), _) => {
                self.nonsense.push(format!("{transaction} has not come to be {milestone}: {not_reached:?}"));
                return;
            }
        };
        *self.happened.entry(what).or_default() += 1;
        self.milestones.told.push(Told { transaction, version: asked.version, milestone });
    }

    /// The milestones that clients were told and no judge has seen yet.
    pub fn take_milestones(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.milestones.told)
    }

    /// Milestones that coordinators have not answered for although they should have, in words.
    pub fn unanswered_milestones(&self, now: Instant) -> Vec<String> {
        let late = self.milestones.asked.iter().filter(|(_, asked)| asked.deadline < now);
        late.map(|((id, milestone), _)| format!("nobody has said in time whether {id} is {milestone}"))
            .collect()
    }
}
