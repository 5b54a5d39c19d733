//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the ids of other clients' transactions, sends in its own name, and writes only keys of its own.

use std::sync::Arc;

use quorate_baselines::Message;
use quorate_baselines::message::{Age, Standing, Wanted};
use quorate_core::command::Outcome;
use quorate_core::hosted::{Held, Holdings};
use quorate_core::{
    ClientId, Key, KeyRange, Random, ReadVersion, ReplicaIndex, ShardId, Timestamp, Transaction,
    TransactionId, Value, View, Write,
};

use super::Baseline;
use crate::system::on_log::hostile::Liar;

type Cluster = crate::cluster::Cluster<Baseline>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    liar: Liar,
}

impl crate::system::Hostile<Baseline> for Hostile {
    fn new(random: Random) -> Self {
        Hostile { liar: Liar::new(random) }
    }

    fn id(&self) -> ClientId {
        self.liar.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shard = self.liar.shard(cluster);
        let victim = self.liar.find_victim(cluster);
        let coordinated = cluster.scenario.settings.coordinator.system.has_coordinator();
        match (self.liar.random.below(if coordinated { 8 } else { 7 }), victim) {
            (0, _) => self.prepare_and_vanish(shard, cluster),
            (1, _) => self.prepare_with_lies(shard, cluster),
            (2, _) => self.decide_what_nobody_prepared(shard, cluster),
            (3, Some(victim)) => self.meddle_with(&victim, cluster),
            (4, _) => {
                let floor = Timestamp { micros: u64::MAX, client: self.liar.id };
                self.liar.talk_like_a_replica(shard, cluster, &Message::AskFloorReply { floor });
            }
            (5, _) => self.hold_what_others_want(shard, cluster),
            (7, _) => self.coordinate_with_lies(shard, cluster),
            _ => self.ask_nonsense(shard, cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.liar.id
    }
}

impl Hostile {
    /// A timestamp of its own, `ahead` microseconds ahead of a perfect clock.
    fn timestamp(&self, cluster: &Cluster, ahead: u64) -> Timestamp {
        Timestamp { micros: self.liar.clock(cluster, ahead).as_micros(), client: self.liar.id }
    }

    /// A write of a key of its own that belongs to a shard.
    fn write(&mut self, shard: ShardId, participants: Vec<ShardId>, cluster: &Cluster) -> Arc<Transaction> {
        let key = self.liar.own_key(shard, cluster);
        let write = Write { key, value: Some(Value::from_static(b"mine")) };
        Arc::new(Transaction { writes: vec![write], participants, ..Transaction::default() })
    }

    /// Prepares a transaction over some shards, or some of its parts, and is never heard of again.
    fn prepare_and_vanish(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, proposed) = (self.liar.next_id(), self.timestamp(cluster, 0));
        let participants = if self.liar.random.chance(0.5) { vec![shard] } else { cluster.shards() };
        for part in participants.clone() {
            if part == shard || self.liar.random.chance(0.5) {
                let part_of = self.write(part, participants.clone(), cluster);
                let prepare =
                    Message::Prepare { transaction, part: part_of, proposed, age: proposed, locked_in: None };
                self.liar.send_each(part, cluster, |_| prepare.clone());
            }
        }
    }

    /// Prepares with participants that do not exist or contradict each other, at impossible timestamps.
    fn prepare_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.liar.next_id();
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
        self.liar.send_each(shard, cluster, |liar| {
            let part = parts[liar.random.index(parts.len())].clone();
            let mut proposed = timestamps[liar.random.index(timestamps.len())];
            if liar.random.chance(0.1) {
                proposed.client = ClientId(7);
            }
            Message::Prepare { transaction, part, proposed, age: Timestamp::ZERO, locked_in: None }
        });
    }

    /// Lets somebody coordinate what is not one transaction, or is that of somebody else: participants and the coordinator are
    /// asked alike.
    fn coordinate_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (own, proposed) = (self.liar.next_id(), self.timestamp(cluster, 0));
        let shards = cluster.shards();
        let whole: Vec<_> = shards.iter().map(|part| self.write(*part, shards.clone(), cluster)).collect();
        let coordinator = ShardId(shards[0].0 + shards.len() as u32);
        let victim = self.liar.find_victim(cluster).map(|held| held.id);
        let to = if self.liar.random.chance(0.2) { shard } else { coordinator };
        let drops = self.liar.random.index(whole.len());
        self.liar.send_each(to, cluster, |liar| {
            let mut parts = whole.clone();
            match liar.random.below(4) {
                0 => drop(parts.remove(drops)),
                1 => parts.reverse(),
                2 => parts.clear(),
                _ => {}
            }
            let transaction = victim.filter(|_| liar.random.chance(0.2)).unwrap_or(own);
            if liar.random.chance(0.1) {
                return Message::PrepareReply { transaction, standing: Standing::Ended(Outcome::Aborted) };
            }
            Message::Coordinate { transaction, parts, proposed }
        });
    }

    /// Commits and aborts one transaction that was never prepared.
    fn decide_what_nobody_prepared(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.liar.next_id();
        let ahead = [0, 50_000_000, u64::MAX][self.liar.random.index(3)];
        let timestamp = self.timestamp(cluster, ahead);
        self.liar.send_each(shard, cluster, |liar| {
            let commits = liar.random.chance(0.5);
            let outcome = if commits { Outcome::Committed(timestamp) } else { Outcome::Aborted };
            Message::Decide { transaction, outcome }
        });
    }

    /// Decides, prepares and asks after the transaction of somebody else.
    fn meddle_with(&mut self, victim: &Held, cluster: &mut Cluster) {
        let transaction = victim.id;
        for shard in cluster.shards() {
            let part = self.write(shard, victim.participants.clone(), cluster);
            self.liar.send_each(shard, cluster, |liar| match liar.random.below(6) {
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

    /// Prepares to have read what others write, and is never heard of again.
    fn hold_what_others_want(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, proposed) = (self.liar.next_id(), self.timestamp(cluster, 0));
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
            reads.push(ReadVersion { key, version, deleted: false });
        }
        let participants = vec![shard];
        let part = Arc::new(Transaction { reads, participants, ..Transaction::default() });
        self.liar.send_each(shard, cluster, |_| {
            let part = part.clone();
            Message::Prepare { transaction, part, proposed, age: proposed, locked_in: None }
        });
    }

    /// Asks for what does not exist, endlessly or at impossible times.
    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.liar.next_id();
        let range = KeyRange { from: Key::from("z"), to: Some(Key::from("a")) };
        let far = Timestamp { micros: u64::MAX, client: self.liar.id };
        self.liar.send_each(shard, cluster, |liar| match liar.random.below(9) {
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
