//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the ids of other clients' transactions, sends in its own name, and writes only keys of its own.

use std::sync::Arc;

use quorate_baselines::Message;
use quorate_baselines::message::{Age, Standing, Wanted};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Held, Holdings};
use quorate_core::topology::shard_position;
use quorate_core::{
    Address, ClientId, Key, KeyRange, Random, ReadVersion, ReplicaId, ReplicaIndex, ShardId, Timestamp,
    Transaction, TransactionId, Value, View, Write,
};
use quorate_log::Part;

use super::Baseline;
use crate::system::HOSTILE_KEYS;

type Cluster = crate::cluster::Cluster<Baseline>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    id: ClientId,
    random: Random,
    sequence: u64,
}

impl crate::system::Hostile<Baseline> for Hostile {
    fn new(mut random: Random) -> Self {
        Hostile { id: ClientId(1 + random.below((1 << 52) - 1)), random, sequence: 0 }
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shards = cluster.shards();
        let shard = shards[self.random.index(shards.len())];
        let victim = self.find_victim(cluster);
        let coordinated = cluster.scenario.settings.coordinator.system.has_coordinator();
        match (self.random.below(if coordinated { 8 } else { 7 }), victim) {
            (0, _) => self.prepare_and_vanish(shard, cluster),
            (1, _) => self.prepare_with_lies(shard, cluster),
            (2, _) => self.decide_what_nobody_prepared(shard, cluster),
            (3, Some(victim)) => self.meddle_with(&victim, cluster),
            (4, _) => self.talk_like_a_replica(shard, cluster),
            (5, _) => self.hold_what_others_want(shard, cluster),
            (7, _) => self.coordinate_with_lies(shard, cluster),
            _ => self.ask_nonsense(shard, cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.id
    }
}

impl Hostile {
    fn find_victim(&mut self, cluster: &Cluster) -> Option<Held> {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let mut held: Vec<Held> = servers.flat_map(Holdings::held).collect();
        held.retain(|held| held.id.client != self.id);
        (!held.is_empty()).then(|| held.swap_remove(self.random.index(held.len())))
    }

    fn next_id(&mut self) -> TransactionId {
        self.sequence += 1;
        TransactionId { client: self.id, sequence: self.sequence, attempt: 0 }
    }

    /// A timestamp of its own, `ahead` microseconds ahead of a perfect clock.
    fn timestamp(&self, cluster: &Cluster, ahead: u64) -> Timestamp {
        let start = crate::world::clock::START_MICROS as u64;
        let now = start + cluster.world.now().as_nanos() / 1_000;
        Timestamp { micros: now.saturating_add(ahead), client: self.id }
    }

    /// A write of a key of its own that belongs to a shard.
    fn write(&mut self, shard: ShardId, participants: Vec<ShardId>, cluster: &Cluster) -> Arc<Transaction> {
        let shards = cluster.shards();
        let key = loop {
            let key = [HOSTILE_KEYS, self.random.below(256) as u8];
            if shards[shard_position(&key, shards.len())] == shard {
                break Key::copy_from_slice(&key);
            }
        };
        let write = Write { key, value: Some(Value::from_static(b"mine")) };
        Arc::new(Transaction { writes: vec![write], participants, ..Transaction::default() })
    }

    /// Sends what `message` gives to each replica of a group.
    fn send_each(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster,
        mut message: impl FnMut(&mut Self) -> Message,
    ) {
        let node = cluster.client_node(0);
        for index in cluster.definition().members(shard).iter() {
            let to = ReplicaId { shard, index };
            let message = Part::Own(message(self));
            cluster.world.inject(node, Address::Client(self.id), to.into(), message);
        }
    }

    /// Prepares a transaction over some shards, or some of its parts, and is never heard of again.
    fn prepare_and_vanish(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, proposed) = (self.next_id(), self.timestamp(cluster, 0));
        let participants = if self.random.chance(0.5) { vec![shard] } else { cluster.shards() };
        for part in participants.clone() {
            if part == shard || self.random.chance(0.5) {
                let part_of = self.write(part, participants.clone(), cluster);
                let prepare =
                    Message::Prepare { transaction, part: part_of, proposed, age: proposed, locked_in: None };
                self.send_each(part, cluster, |_| prepare.clone());
            }
        }
    }

    /// Prepares with participants that do not exist or contradict each other, at impossible timestamps.
    fn prepare_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let lists: [Vec<ShardId>; 5] = [
            vec![shard, ShardId(900)],
            vec![],
            vec![ShardId(900)],
            (0..5_000).map(ShardId).collect(),
            cluster.shards(),
        ];
        let parts = lists.map(|list| self.write(shard, list, cluster));
        let ahead = [0, 50_000_000, 100_000_000, u64::MAX];
        let timestamps = ahead.map(|ahead| self.timestamp(cluster, ahead));
        self.send_each(shard, cluster, |this| {
            let part = parts[this.random.index(parts.len())].clone();
            let mut proposed = timestamps[this.random.index(timestamps.len())];
            if this.random.chance(0.1) {
                proposed.client = ClientId(7);
            }
            Message::Prepare { transaction, part, proposed, age: Timestamp::ZERO, locked_in: None }
        });
    }

    /// Lets somebody coordinate what is not one transaction, or is that of somebody else: participants and the coordinator are
    /// asked alike.
    fn coordinate_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (own, proposed) = (self.next_id(), self.timestamp(cluster, 0));
        let shards = cluster.shards();
        let whole: Vec<_> = shards.iter().map(|part| self.write(*part, shards.clone(), cluster)).collect();
        let coordinator = ShardId(shards[0].0 + shards.len() as u32);
        let victim = self.find_victim(cluster).map(|held| held.id);
        let to = if self.random.chance(0.2) { shard } else { coordinator };
        let drops = self.random.index(whole.len());
        self.send_each(to, cluster, |this| {
            let mut parts = whole.clone();
            match this.random.below(4) {
                0 => drop(parts.remove(drops)),
                1 => parts.reverse(),
                2 => parts.clear(),
                _ => {}
            }
            let transaction = victim.filter(|_| this.random.chance(0.2)).unwrap_or(own);
            if this.random.chance(0.1) {
                return Message::PrepareReply { transaction, standing: Standing::Ended(Outcome::Aborted) };
            }
            Message::Coordinate { transaction, parts, proposed }
        });
    }

    /// Commits and aborts one transaction that was never prepared.
    fn decide_what_nobody_prepared(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let ahead = [0, 50_000_000, u64::MAX][self.random.index(3)];
        let timestamp = self.timestamp(cluster, ahead);
        self.send_each(shard, cluster, |this| {
            let commits = this.random.chance(0.5);
            let outcome = if commits { Outcome::Committed(timestamp) } else { Outcome::Aborted };
            Message::Decide { transaction, outcome }
        });
    }

    /// Decides, prepares and asks after the transaction of somebody else.
    fn meddle_with(&mut self, victim: &Held, cluster: &mut Cluster) {
        let transaction = victim.id;
        for shard in cluster.shards() {
            let part = self.write(shard, victim.participants.clone(), cluster);
            self.send_each(shard, cluster, |this| match this.random.below(6) {
                0 => Message::Decide { transaction, outcome: Outcome::Aborted },
                1 => Message::Decide { transaction, outcome: Outcome::Committed(victim.timestamp) },
                2 => Message::Prepare {
                    transaction,
                    part: part.clone(),
                    proposed: victim.timestamp,
                    age: victim.timestamp,
                    locked_in: Some(View(0)),
                },
                3 => Message::InquireReply { transaction, standing: Standing::Ended(Outcome::Aborted) },
                4 => Message::Inquire {
                    transaction,
                    participants: vec![shard, ShardId(900)],
                    age: Age::NotBefore(Timestamp::ZERO),
                },
                _ => Message::Inquire {
                    transaction,
                    participants: victim.participants.clone(),
                    age: Age::Proposed(victim.timestamp),
                },
            });
        }
    }

    /// Says what only replicas say.
    fn talk_like_a_replica(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let node = cluster.client_node(0);
        for index in cluster.definition().members(shard).iter() {
            let to = ReplicaId { shard, index };
            let view = [View(0), View(5), View(u64::MAX)][self.random.index(3)];
            let message = match self.random.below(4) {
                0 => Part::Log(quorate_log::Message::StartViewChange { view, entered: true }),
                1 => Part::Log(quorate_log::Message::Join { view }),
                2 => Part::Log(quorate_log::Message::NewLife { life: u64::MAX }),
                _ => Part::Own(Message::AskFloorReply {
                    floor: Timestamp { micros: u64::MAX, client: self.id },
                }),
            };
            cluster.world.inject(node, Address::Client(self.id), to.into(), message);
        }
    }

    /// Prepares to have read what others write, and is never heard of again.
    fn hold_what_others_want(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, proposed) = (self.next_id(), self.timestamp(cluster, 0));
        let mut keys: Vec<(Key, Timestamp)> = Vec::new();
        for server in 0..cluster.world.servers() {
            let of_shard = cluster.replica(server).shard == shard;
            if let Some(server) = cluster.world.server(server).filter(|_| of_shard) {
                keys.extend(server.versions().into_iter().map(|(key, version, _)| (key, version)));
            }
        }
        keys.sort_unstable();
        let mut reads: Vec<ReadVersion> = Vec::new();
        for (key, version) in keys {
            reads.pop_if(|last| last.key == key);
            reads.push(ReadVersion { key, version });
        }
        let participants = vec![shard];
        let part = Arc::new(Transaction { reads, participants, ..Transaction::default() });
        self.send_each(shard, cluster, |_| {
            let part = part.clone();
            Message::Prepare { transaction, part, proposed, age: proposed, locked_in: None }
        });
    }

    /// Asks for what does not exist, endlessly or at impossible times.
    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let range = KeyRange { from: Key::from("z"), to: Some(Key::from("a")) };
        let far = Timestamp { micros: u64::MAX, client: self.id };
        self.send_each(shard, cluster, |this| match this.random.below(9) {
            0 => Message::Scan { transaction, request: 0, range: range.clone(), limit: u32::MAX, lock: None },
            1 => Message::ReadCurrent { transaction, keys: vec![Key::from("a"); 1_000] },
            2 => Message::NextTimestamp { transaction, above: far },
            3 => Message::NotLeading { transaction, leader: ReplicaIndex(200) },
            4 => Message::AskFloor,
            7 => Message::ReadAt { transaction, wanted: Wanted::Range(range.clone(), u32::MAX), at: far },
            5 => Message::Read { transaction, key: Key::from("a"), lock: Some(Timestamp::ZERO) },
            6 => Message::Release { transaction },
            _ => Message::Validate { transaction, part: Arc::default(), locked_in: None, at: Some(far) },
        });
    }
}
