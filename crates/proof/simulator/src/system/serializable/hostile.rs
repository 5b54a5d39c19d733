//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the names of other clients' transactions, sends in its own name, and writes only keys of its own.

use quorate_core::hosted::{Held, Holdings};
use quorate_core::topology::shard_position;
use quorate_core::{
    Address, ClientId, ClockTime, Key, Random, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value, View,
};
use quorate_granola::message::{Message, Reply, Request};
use quorate_granola::{Class, Ending, Outcome, Vote};
use quorate_log::Part;
use quorate_serializable_shard::operation::{Batch, Operation, Step};

use super::Serializable;
use crate::system::HOSTILE_KEYS;

type Cluster = crate::cluster::Cluster<Serializable>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    id: ClientId,
    random: Random,
    sequence: u64,
}

impl crate::system::Hostile<Serializable> for Hostile {
    fn new(mut random: Random) -> Self {
        Hostile { id: ClientId(1 + random.below((1 << 52) - 1)), random, sequence: 0 }
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shards = cluster.shards();
        let shard = shards[self.random.index(shards.len())];
        let victim = self.find_victim(cluster);
        match (self.random.below(6), victim) {
            (0, _) => self.ask_some_and_vanish(shard, cluster),
            (1, _) => self.ask_with_lies(shard, cluster),
            (2, _) => self.ask_each_for_something_else(cluster),
            (3, Some(victim)) => self.meddle_with(&victim, cluster),
            (4, _) => self.talk_like_a_replica(shard, cluster),
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

    /// What a clock would show that is `ahead` microseconds ahead of a perfect one.
    fn clock(&self, cluster: &Cluster, ahead: u64) -> ClockTime {
        let start = crate::world::clock::START_MICROS as u64;
        let now = start + cluster.world.now().as_nanos() / 1_000;
        ClockTime::from_micros(now.saturating_add(ahead))
    }

    /// A write of a key of its own that belongs to a shard.
    fn write(&mut self, shard: ShardId, cluster: &Cluster) -> Value {
        let shards = cluster.shards();
        let key = loop {
            let key = [HOSTILE_KEYS, self.random.below(256) as u8];
            if shards[shard_position(&key, shards.len())] == shard {
                break Key::copy_from_slice(&key);
            }
        };
        let step = Step::Put { key, value: Value::from_static(b"mine") };
        Operation::Batch(Batch { conditions: Vec::new(), steps: vec![step] }).encode()
    }

    /// Asks for a write, as an honest client would.
    fn request(&mut self, shard: ShardId, participants: Vec<ShardId>, cluster: &Cluster) -> Request {
        Request {
            transaction: TransactionId { client: self.id, sequence: self.sequence, attempt: 0 },
            participants,
            operation: self.write(shard, cluster),
            class: Class::Independent,
            high: ClockTime::default(),
            first: self.clock(cluster, 0),
        }
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

    /// Asks some participants, or all, and is never heard of again.
    fn ask_some_and_vanish(&mut self, shard: ShardId, cluster: &mut Cluster) {
        self.next_id();
        let all = cluster.shards();
        let class = [Class::ReadOnly, Class::Independent, Class::Coordinated][self.random.index(3)];
        for part in all.clone() {
            if part == shard || self.random.chance(0.5) {
                let request = Request { class, ..self.request(part, all.clone(), cluster) };
                self.send_each(part, cluster, |_| Message::Request(request.clone()));
            }
        }
    }

    /// Asks with participants that do not exist or are out of order, at impossible times.
    fn ask_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        self.next_id();
        let lists: [Vec<ShardId>; 5] = [
            vec![shard, ShardId(900)],
            vec![],
            vec![ShardId(900)],
            (0..5_000).map(ShardId).collect(),
            cluster.shards().into_iter().rev().collect(),
        ];
        let honest = self.request(shard, vec![shard], cluster);
        let ahead = [0, 50_000_000, 100_000_000, u64::MAX].map(|ahead| self.clock(cluster, ahead));
        self.send_each(shard, cluster, |this| {
            let participants = match this.random.chance(0.7) {
                true => lists[this.random.index(lists.len())].clone(),
                false => vec![shard],
            };
            let high = ahead[this.random.index(ahead.len())];
            let first = ahead[this.random.index(ahead.len())];
            Message::Request(Request { participants, high, first, ..honest.clone() })
        });
    }

    /// Asks the participants of one transaction for different things, of different classes.
    fn ask_each_for_something_else(&mut self, cluster: &mut Cluster) {
        self.next_id();
        let all = cluster.shards();
        for part in all.clone() {
            let class = [Class::Independent, Class::Coordinated][self.random.index(2)];
            let mut request = Request { class, ..self.request(part, all.clone(), cluster) };
            if self.random.chance(0.3) {
                request.operation = Value::from_static(b"\xff\xff");
            }
            if self.random.chance(0.3) {
                request.participants = vec![part];
            }
            self.send_each(part, cluster, |_| Message::Request(request.clone()));
        }
    }

    /// Asks under the name of somebody else, and votes on it.
    fn meddle_with(&mut self, victim: &Held, cluster: &mut Cluster) {
        let transaction = victim.id;
        for shard in cluster.shards() {
            let honest = self.request(shard, victim.participants.clone(), cluster);
            let proposed = self.clock(cluster, 0);
            self.send_each(shard, cluster, |this| match this.random.below(5) {
                0 => Message::Request(Request { transaction, ..honest.clone() }),
                1 => Message::Vote {
                    transaction,
                    participants: victim.participants.clone(),
                    first: proposed,
                    vote: Vote::Conflict,
                    proposed,
                    class: Class::Independent,
                    wants: true,
                },
                2 => Message::Resolved { transaction, ending: Ending::Conflict },
                3 => Message::Abandoned { transaction, lost: shard },
                _ => Message::Reply { transaction, reply: Reply::Ended(Outcome::Conflict) },
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
                _ => {
                    let (floor, ceiling) =
                        (ClockTime::from_micros(u64::MAX), ClockTime::from_micros(u64::MAX));
                    Part::Own(Message::AskFloorReply { floor, ceiling })
                }
            };
            cluster.world.inject(node, Address::Client(self.id), to.into(), message);
        }
    }

    /// Asks for what does not exist, or what is no operation.
    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let honest = self.request(shard, vec![shard], cluster);
        let write = honest.operation.clone();
        self.send_each(shard, cluster, |this| match this.random.below(5) {
            0 => Message::NotLeading { transaction, leader: ReplicaIndex(200) },
            1 => Message::AskFloor,
            // It only reads, it says.
            2 => Message::Request(Request {
                class: Class::ReadOnly,
                operation: write.clone(),
                ..honest.clone()
            }),
            3 => Message::Request(Request { operation: Value::new(), ..honest.clone() }),
            _ => Message::Request(Request { operation: Value::from_static(b"\x0a\xff"), ..honest.clone() }),
        });
    }
}
