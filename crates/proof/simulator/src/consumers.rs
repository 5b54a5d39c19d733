//! Consumers of changes beside the workload: see [`quorate_core::changes`].
//!
//! Each shard has two, which ask different replicas at different times, read in pages of a size of their own, hear answers late or not at all, and begin
//! again from the position that they have kept. The changes that they were told are judged at the end (I9), when everything that has committed has
//! been told:
//!
//! * each transaction that a client knows to have committed and written, once;
//! * what any replica retains of the same stretch is the same, as far as it was told, in the same order;
//! * the versions that replicas hold at the end are among what was told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::changes::{Answer, Change, Follower, Outcome, Page, Request, Retention};
use quorate_core::hosted::{HostedReplica, StoredVersion};
use quorate_core::{Instant, KeyRange, Random, ReplicaIndex, ShardId, Timestamp};

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

/// A consumer of a shard.
#[derive(Debug)]
struct Consumer {
    shard: ShardId,
    bytes_max: u64,
    follower: Follower,
    /// The stretches that it was told without interruption.
    told: Vec<Stretch>,
    /// An answer that it hears once more.
    late: Option<(Request, Answer)>,
}

/// The changes that were told from one position up to another.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The shard.
    pub shard: ShardId,
    /// The first position.
    pub from: Timestamp,
    /// The first position behind it.
    pub to: Timestamp,
    /// The changes, in the order in which they were told.
    pub changes: Vec<Change>,
}

impl Consumers {
    /// The consumers of a cluster, if the seed has some.
    pub(crate) fn new<S: System>(cluster: &Cluster<S>) -> Option<Consumers> {
        // Hostile clients may tell each replica different writes.
        if !cluster.scenario.consumers || cluster.scenario.has(Fault::HostileClients) {
            return None;
        }
        let mut random = Random::stream(cluster.scenario.seed, "what consumers do");
        let shards = cluster.shards().into_iter().flat_map(|shard| [shard; PER_SHARD]);
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
        self.consumers.retain(|consumer| is_kept(consumer.shard));
    }

    /// True if everything up to a timestamp was told.
    pub(crate) fn have_come_to(&self, latest: Timestamp) -> bool {
        self.consumers.iter().all(|consumer| consumer.follower.position() > Some(latest))
    }

    /// How far those are that have not come so far.
    pub(crate) fn behind(&self, latest: Timestamp) -> Vec<String> {
        let is_behind = |consumer: &&Consumer| consumer.follower.position() <= Some(latest);
        let tell = |consumer: &Consumer| {
            let (position, reason) = (consumer.follower.position(), consumer.follower.reason());
            format!("a consumer of {} is at {position:?}, and not behind {latest}: {reason}", consumer.shard)
        };
        self.consumers.iter().filter(is_behind).map(tell).collect()
    }

    /// Judges what was told.
    pub(crate) fn judge<S: System>(
        &self,
        cluster: &Cluster<S>,
        written: &BTreeMap<Timestamp, BTreeSet<ShardId>>,
        stored: &[(ShardId, Vec<StoredVersion>)],
    ) -> Finding {
        let stretches: Vec<Stretch> =
            self.consumers.iter().flat_map(|consumer| consumer.told.iter().cloned()).collect();
        let mut retold = Vec::new();
        for stretch in &stretches {
            for server in cluster.members().filter(|server| cluster.replica(*server).shard == stretch.shard) {
                let Some(replica) = cluster.world.server(server) else { continue };
                let mut tell = |request: &Request| replica.changes(request);
                if let Some(again) = tell_again(stretch, &mut tell) {
                    retold.push(Retold { by: cluster.replica(server), stretch: again });
                }
            }
        }
        invariants::changes_are_told_once(&stretches, &retold, (written, S::ORDERS_BY_NAME), stored)
    }
}

impl Consumer {
    fn new(shard: ShardId, random: &mut Random) -> Self {
        let bytes_max = [1, 300, u64::MAX][random.index(3)];
        Consumer { shard, bytes_max, follower: follower(None, Vec::new()), told: Vec::new(), late: None }
    }

    fn ask<S: System>(&mut self, cluster: &mut Cluster<S>, random: &mut Random) {
        let now = cluster.world.now();
        let servers: Vec<usize> =
            cluster.members().filter(|server| cluster.replica(*server).shard == self.shard).collect();
        let mut members: Vec<ReplicaIndex> =
            servers.iter().map(|server| cluster.replica(*server).index).collect();
        if random.chance(BEGINS_AGAIN) {
            random.shuffle(&mut members);
            self.follower = follower(self.follower.position(), members);
        } else {
            self.follower.change_members(members);
        }
        if let Some((request, answer)) = self.late.take() {
            let outcome = self.follower.on_answer(&request, answer, now);
            self.hear(outcome);
        }
        for _ in 0..PAGES_AT_ONCE {
            let Some((index, request)) = self.follower.next() else { return };
            let request = Request { bytes_max: self.bytes_max, ..request };
            let server = servers.iter().copied().find(|server| cluster.replica(*server).index == index);
            let answer = server.and_then(|server| answer(cluster, server, &request));
            let answer = answer.filter(|_| !random.chance(UNANSWERED));
            let outcome = match answer {
                None => self.follower.on_silence(now),
                Some(answer) => {
                    if random.chance(HEARD_AGAIN) {
                        self.late = Some((request.clone(), answer.clone()));
                    }
                    self.follower.on_answer(&request, answer, now)
                }
            };
            if !self.hear(outcome) {
                return;
            }
        }
    }

    /// Takes in what an answer has come to. True if more can be asked for at once.
    fn hear(&mut self, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Page(Page { from, to, changes, is_last }) => {
                match self.told.last_mut().filter(|stretch| stretch.to == from) {
                    Some(stretch) => {
                        stretch.to = to;
                        stretch.changes.extend(changes);
                    }
                    None => self.told.push(Stretch { shard: self.shard, from, to, changes }),
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

fn follower(position: Option<Timestamp>, members: Vec<ReplicaIndex>) -> Follower {
    Follower::new(position, KeyRange { from: Default::default(), to: None }, members, Instant::START)
}

/// The answer of a server, if it is up.
fn answer<S: System>(cluster: &mut Cluster<S>, server: usize, request: &Request) -> Option<Answer> {
    cluster.world.server(server)?;
    if let Some(command) = S::Server::follow() {
        cluster.world.command_server(server, command);
    }
    let answer = cluster.world.server(server).map(|replica| replica.changes(request));
    answer.filter(|_| !cluster.world.ends_unread(server))
}

/// The changes of the same stretch by a replica, as far as it has come and retains all of it.
fn tell_again(stretch: &Stretch, tell: &mut impl FnMut(&Request) -> Answer) -> Option<Stretch> {
    let mut again = Stretch { to: stretch.from, changes: Vec::new(), ..*stretch };
    loop {
        match tell(&Request::all(Some(again.to))) {
            Answer::Page(page) => {
                let is_last = page.is_last;
                again.changes.extend(page.changes);
                again.to = page.to;
                if is_last || again.to >= stretch.to {
                    again.changes.retain(|change| change.timestamp < stretch.to);
                    again.to = again.to.min(stretch.to);
                    return Some(again);
                }
            }
            Answer::TooOld { .. } | Answer::Unable { .. } => return None,
        }
    }
}

/// How long consumers may take to come to the end, once nothing is written any more.
pub(crate) const CATCHING_UP_MAX: Duration = Duration::from_secs(300);
