//! Consumers of changes beside the workload: see [`quorate_core::changes`].
//!
//! Each shard has two, which ask different replicas at different times, read in pages of a size of their own, hear answers late or not at all, and begin
//! again from the position that they have kept. The changes that they were told are judged at the end (I9), when everything that has committed has
//! been told:
//!
//! * each transaction that a client knows to have committed and written, once;
//! * what any replica retains of the same stretch is the same, as far as it was told, in the same order;
//! * the versions that replicas hold at the end are among what was told.
//!
//! A `parallel-snapshot` keyspace has two consumers, which ask the replicas of all sites: each is told what every site has committed, causes before effects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::changes::{Answer, Change, Follower, Outcome, Page, Position, Request, Retention};
use quorate_core::hosted::{HostedReplica, StoredVersion};
use quorate_core::{Instant, KeyRange, Random, ReplicaId, ShardId, Timestamp};

use crate::cluster::Cluster;
use crate::fault::Fault;
use crate::invariants::{self, Finding, Retold};
use crate::system::System;

/// So often there are consumers, where there can be.
const PROBABILITY: f64 = 0.25;

/// So many consumers follow each shard.
const PER_SHARD: usize = 2;

/// So many pages are asked for at once.
const PAGES_AT_ONCE: usize = 4;

/// With these probabilities a consumer asks when it could, is not answered, hears an answer once more later, and begins again.
const ASKS: f64 = 0.5;
const UNANSWERED: f64 = 0.1;
const HEARD_AGAIN: f64 = 0.1;
const BEGINS_AGAIN: f64 = 0.01;

/// True if a seed of a system with feeds has consumers. A bug of anything else is hunted as it always was.
pub(crate) fn has_consumers<S: System>(seed: u64, plant: Option<&str>) -> bool {
    match plant {
        None => Random::stream(seed, "consumers").chance(PROBABILITY),
        Some(id) => S::FEED_PLANTS.contains(&id),
    }
}

/// How much is retained for consumers: everything, or so little that some are too late.
pub(crate) fn draw_retention(random: &mut Random) -> Retention {
    let time = [200, 2_000, 1_000_000][random.index(3)];
    let bytes = [1_000, u64::MAX, u64::MAX][random.index(3)];
    Retention { time: Duration::from_millis(time), bytes }
}

/// The consumers of all shards.
#[derive(Debug)]
pub(crate) struct Consumers {
    random: Random,
    consumers: Vec<Consumer>,
    /// True until there is nothing more to be told.
    follows: bool,
}

/// A consumer of a shard, or of a keyspace whose sites have all of it.
#[derive(Debug)]
struct Consumer {
    shard: Option<ShardId>,
    bytes_max: u64,
    follower: Follower,
    /// The stretches that it was told without interruption.
    told: Vec<Stretch>,
    /// An answer that it hears once more.
    late: Option<(Request<Position>, Answer<Position>)>,
}

/// The changes that were told from one position up to another.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The shard; none of a keyspace whose sites have all of it.
    pub shard: Option<ShardId>,
    /// The first position.
    pub from: Position,
    /// The first position behind it.
    pub to: Position,
    /// The changes, in the order in which they were told.
    pub changes: Vec<Change>,
    /// Of each change, where transactions have snapshots: what its transaction has seen.
    pub causes: Vec<Position>,
}

impl Stretch {
    /// A stretch in which nothing was told yet.
    pub fn begin(shard: Option<ShardId>, at: Position) -> Self {
        Stretch { shard, from: at.clone(), to: at, changes: Vec::new(), causes: Vec::new() }
    }

    /// True if a transaction of this name lies in it.
    pub fn spans(&self, name: Timestamp) -> bool {
        self.to.has_passed(name) && !self.from.has_passed(name)
    }
}

impl Consumers {
    /// The consumers of a cluster, if the seed has some.
    pub(crate) fn new<S: System>(cluster: &Cluster<S>) -> Option<Consumers> {
        // Hostile clients may tell each replica different writes.
        if !cluster.scenario.consumers || cluster.scenario.has(Fault::HostileClients) {
            return None;
        }
        let mut random = Random::stream(cluster.scenario.seed, "what consumers do");
        let followed: Vec<Option<ShardId>> = match S::ISOLATION.stands_in_sites() {
            true => vec![None],
            false => cluster.shards().into_iter().map(Some).collect(),
        };
        let shards = followed.into_iter().flat_map(|shard| [shard; PER_SHARD]);
        let consumers = shards.map(|shard| Consumer::new(shard, &mut random)).collect();
        Some(Consumers { random, consumers, follows: true })
    }

    /// How many changes were told.
    pub(crate) fn told(&self) -> u64 {
        let stretches = self.consumers.iter().flat_map(|consumer| &consumer.told);
        stretches.map(|stretch| stretch.changes.len() as u64).sum()
    }

    /// Goes on: consumers ask.
    pub(crate) fn go_on<S: System>(&mut self, cluster: &mut Cluster<S>) {
        if !self.follows {
            return;
        }
        for consumer in &mut self.consumers {
            if self.random.chance(ASKS) {
                consumer.ask(cluster, &mut self.random);
            }
        }
    }

    /// Nobody asks any more.
    pub(crate) fn end(&mut self) {
        self.follows = false;
    }

    /// Nothing is promised any more of what a shard tells that is lost, or that has lost more than it survives.
    pub(crate) fn give_up_lost<S: System>(&mut self, cluster: &Cluster<S>) {
        let lost = cluster.shard_losses.lost().map(|lost| lost.shard);
        let void = cluster.accepted_losses.loss().map(|loss| &loss.groups);
        let is_kept = |shard| Some(shard) != lost && void.is_none_or(|groups| !groups.contains(&shard));
        self.consumers.retain(|consumer| consumer.shard.is_none_or(is_kept));
    }

    /// True if the transactions of these names were told.
    pub(crate) fn have_come_to(&self, last: &[Timestamp]) -> bool {
        self.consumers.iter().all(|consumer| consumer.has_come_to(last))
    }

    /// How far those are that have not come so far.
    pub(crate) fn behind(&self, last: &[Timestamp]) -> Vec<String> {
        let tell = |consumer: &Consumer| {
            let (position, reason) = (consumer.follower.position(), consumer.follower.reason());
            format!(
                "a consumer of {:?} is at {position:?}, and not behind {last:?}: {reason}",
                consumer.shard
            )
        };
        self.consumers.iter().filter(|consumer| !consumer.has_come_to(last)).map(tell).collect()
    }

    /// Judges what was told.
    pub(crate) fn judge<S: System>(
        &self,
        cluster: &Cluster<S>,
        written: &BTreeMap<Timestamp, BTreeSet<ShardId>>,
        stored: &[(ShardId, Vec<StoredVersion>)],
        ends: &BTreeMap<u64, u64>,
    ) -> Finding {
        let stretches: Vec<Stretch> =
            self.consumers.iter().flat_map(|consumer| consumer.told.iter().cloned()).collect();
        let mut retold = Vec::new();
        for stretch in &stretches {
            let is_asked =
                |server: &usize| stretch.shard.is_none_or(|shard| cluster.replica(*server).shard == shard);
            for server in cluster.members().filter(is_asked) {
                let Some(replica) = cluster.world.server(server) else { continue };
                let mut tell = |request: &Request<Position>| replica.changes(request);
                if let Some(again) = tell_again(stretch, &mut tell) {
                    retold.push(Retold { by: cluster.replica(server), stretch: again });
                }
            }
        }
        if S::ISOLATION.stands_in_sites() {
            let may_be_lost = S::copies_min(&cluster.scenario.settings)
                .is_some_and(|copies| cluster.losses.count() >= copies);
            let ends = (ends, may_be_lost);
            return invariants::changes_of_sites_are_told_once(&stretches, &retold, written, stored, ends);
        }
        invariants::changes_are_told_once(&stretches, &retold, (written, S::ORDERS_BY_NAME), stored)
    }
}

impl Consumer {
    fn new(shard: Option<ShardId>, random: &mut Random) -> Self {
        let bytes_max = [1, 300, u64::MAX][random.index(3)];
        Consumer { shard, bytes_max, follower: follower(None, Vec::new()), told: Vec::new(), late: None }
    }

    fn has_come_to(&self, last: &[Timestamp]) -> bool {
        let position = self.follower.position();
        position.is_some_and(|position| last.iter().all(|last| position.has_passed(*last)))
    }

    fn ask<S: System>(&mut self, cluster: &mut Cluster<S>, random: &mut Random) {
        let now = cluster.world.now();
        let is_asked =
            |server: &usize| self.shard.is_none_or(|shard| cluster.replica(*server).shard == shard);
        let servers: Vec<usize> = cluster.members().filter(is_asked).collect();
        let mut members: Vec<ReplicaId> = servers.iter().map(|server| cluster.replica(*server)).collect();
        if random.chance(BEGINS_AGAIN) {
            random.shuffle(&mut members);
            self.follower = follower(self.follower.position().cloned(), members);
        } else {
            self.follower.change_members(members);
        }
        if let Some((request, answer)) = self.late.take() {
            let outcome = self.follower.on_answer(&request, answer, now);
            self.hear(outcome, Vec::new());
        }
        for _ in 0..PAGES_AT_ONCE {
            let Some((member, request)) = self.follower.next() else { return };
            let request = Request { bytes_max: self.bytes_max, ..request };
            let server = servers.iter().copied().find(|server| cluster.replica(*server) == member);
            let answer = server.and_then(|server| answer(cluster, server, &request));
            let answer = answer.filter(|_| !random.chance(UNANSWERED));
            let causes = causes_of(cluster, server, answer.as_ref());
            let outcome = match answer {
                None => self.follower.on_silence(now),
                Some(answer) => {
                    if random.chance(HEARD_AGAIN) {
                        self.late = Some((request.clone(), answer.clone()));
                    }
                    self.follower.on_answer(&request, answer, now)
                }
            };
            if !self.hear(outcome, causes) {
                return;
            }
        }
    }

    /// Takes in what an answer has come to. True if more can be asked for at once.
    fn hear(&mut self, outcome: Outcome, causes: Vec<Position>) -> bool {
        match outcome {
            Outcome::Page(Page { from, to, changes, is_last }) => {
                if self.told.last().is_none_or(|stretch| stretch.to != from) {
                    self.told.push(Stretch::begin(self.shard, from));
                }
                if let Some(stretch) = self.told.last_mut() {
                    stretch.to = to;
                    stretch.changes.extend(changes);
                    stretch.causes.extend(causes);
                }
                !is_last
            }
            Outcome::Pause => false,
            Outcome::TooOld(_) => {
                // It takes a snapshot, and goes on from there.
                self.follower = follower(None, Vec::new());
                self.late = None;
                false
            }
        }
    }
}

/// The snapshots of the transactions that a server has told just now.
fn causes_of<S: System>(
    cluster: &Cluster<S>,
    server: Option<usize>,
    answer: Option<&Answer<Position>>,
) -> Vec<Position> {
    let replica = server.and_then(|server| cluster.world.server(server));
    let (Some(replica), Some(Answer::Page(page))) = (replica, answer) else { return Vec::new() };
    page.changes.iter().filter_map(|change| S::causes(replica, change.timestamp)).collect()
}

fn follower(position: Option<Position>, members: Vec<ReplicaId>) -> Follower {
    Follower::new(position, KeyRange { from: Default::default(), to: None }, members, Instant::START)
}

/// The answer of a server, if it is up.
fn answer<S: System>(
    cluster: &mut Cluster<S>,
    server: usize,
    request: &Request<Position>,
) -> Option<Answer<Position>> {
    cluster.world.server(server)?;
    if let Some(command) = S::Server::follow() {
        cluster.world.command_server(server, command);
    }
    let answer = cluster.world.server(server).map(|replica| replica.changes(request));
    answer.filter(|_| !cluster.world.ends_unread(server))
}

/// The changes of the same stretch by a replica, as far as it has come and retains all of it.
fn tell_again(
    stretch: &Stretch,
    tell: &mut impl FnMut(&Request<Position>) -> Answer<Position>,
) -> Option<Stretch> {
    let mut again = Stretch::begin(stretch.shard, stretch.from.clone());
    loop {
        match tell(&Request::all(Some(again.to.clone()))) {
            Answer::Page(page) => {
                let is_last = page.is_last;
                again.changes.extend(page.changes);
                again.to = page.to;
                if is_last || again.to.includes(&stretch.to) {
                    again.changes.retain(|change| stretch.to.has_passed(change.timestamp));
                    again.to = again.to.meet(&stretch.to);
                    return Some(again);
                }
            }
            // Another site may have what this one lacks.
            Answer::Unable { .. } if again.to != again.from => {
                again.changes.retain(|change| stretch.to.has_passed(change.timestamp));
                again.to = again.to.meet(&stretch.to);
                return Some(again);
            }
            Answer::TooOld { .. } | Answer::Unable { .. } => return None,
        }
    }
}

/// How long consumers may take to come to the end, once nothing is written any more.
pub(crate) const CATCHING_UP_MAX: Duration = Duration::from_secs(300);
