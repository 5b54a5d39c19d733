//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the names of other clients' transactions, sends in its own name, and writes only keys of its own.

use quorate_core::hosted::Held;
use quorate_core::{ClientId, ClockTime, Random, ReplicaIndex, ShardId, TransactionId, Value};
use quorate_granola::message::{Message, Reply, Request};
use quorate_granola::{Class, Ending, Outcome, Vote};
use quorate_serializable_shard::operation::{Batch, Operation, Step};

use super::Serializable;
use crate::system::on_log::hostile::Liar;

type Cluster = crate::cluster::Cluster<Serializable>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    liar: Liar,
}

impl crate::system::Hostile<Serializable> for Hostile {
    fn new(random: Random) -> Self {
        Hostile { liar: Liar::new(random) }
    }

    fn id(&self) -> ClientId {
        self.liar.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shard = self.liar.shard(cluster);
        let victim = self.liar.find_victim(cluster);
        match (self.liar.random.below(6), victim) {
            (0, _) => self.ask_some_and_vanish(shard, cluster),
            (1, _) => self.ask_with_lies(shard, cluster),
            (2, _) => self.ask_each_for_something_else(cluster),
            (3, Some(victim)) => self.meddle_with(&victim, cluster),
            (4, _) => {
                let (floor, ceiling) = (ClockTime::from_micros(u64::MAX), ClockTime::from_micros(u64::MAX));
                self.liar.talk_like_a_replica(shard, cluster, &Message::AskFloorReply { floor, ceiling });
            }
            _ => self.ask_nonsense(shard, cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.liar.id
    }
}

impl Hostile {
    /// A write of a key of its own that belongs to a shard.
    fn write(&mut self, shard: ShardId, cluster: &Cluster) -> Value {
        let key = self.liar.own_key(shard, cluster);
        let step = Step::Put { key, value: Value::from_static(b"mine") };
        Operation::Batch(Batch { conditions: Vec::new(), steps: vec![step] }).encode()
    }

    /// Asks for a write, as an honest client would.
    fn request(&mut self, shard: ShardId, participants: Vec<ShardId>, cluster: &Cluster) -> Request {
        Request {
            transaction: self.liar.last_id(),
            participants,
            operation: self.write(shard, cluster),
            class: Class::Independent,
            high: ClockTime::default(),
            first: self.liar.clock(cluster, 0),
        }
    }

    /// Asks some participants, or all, and is never heard of again.
    fn ask_some_and_vanish(&mut self, shard: ShardId, cluster: &mut Cluster) {
        self.liar.next_id();
        let all = cluster.shards();
        let class = [Class::ReadOnly, Class::Independent, Class::Coordinated][self.liar.random.index(3)];
        for part in all.clone() {
            if part == shard || self.liar.random.chance(0.5) {
                let request = Request { class, ..self.request(part, all.clone(), cluster) };
                self.liar.send_each(part, cluster, |_| Message::Request(request.clone()));
            }
        }
    }

    /// Asks with participants that do not exist or are out of order, at impossible times.
    fn ask_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        self.liar.next_id();
        let lists: [Vec<ShardId>; 5] = [
            vec![shard, ShardId(900)],
            vec![],
            vec![ShardId(900)],
            (0..5_000).map(ShardId).collect(),
            cluster.shards().into_iter().rev().collect(),
        ];
        let honest = self.request(shard, vec![shard], cluster);
        let ahead = [0, 50_000_000, 100_000_000, u64::MAX].map(|ahead| self.liar.clock(cluster, ahead));
        self.liar.send_each(shard, cluster, |liar| {
            let participants = match liar.random.chance(0.7) {
                true => lists[liar.random.index(lists.len())].clone(),
                false => vec![shard],
            };
            let high = ahead[liar.random.index(ahead.len())];
            let first = ahead[liar.random.index(ahead.len())];
            Message::Request(Request { participants, high, first, ..honest.clone() })
        });
    }

    /// Asks the participants of one transaction for different things, of different classes.
    fn ask_each_for_something_else(&mut self, cluster: &mut Cluster) {
        self.liar.next_id();
        let all = cluster.shards();
        for part in all.clone() {
            let class = [Class::Independent, Class::Coordinated][self.liar.random.index(2)];
            let mut request = Request { class, ..self.request(part, all.clone(), cluster) };
            if self.liar.random.chance(0.3) {
                request.operation = Value::from_static(b"\xff\xff");
            }
            if self.liar.random.chance(0.3) {
                request.participants = vec![part];
            }
            self.liar.send_each(part, cluster, |_| Message::Request(request.clone()));
        }
    }

    /// Asks under the name of somebody else, and votes on it.
    fn meddle_with(&mut self, victim: &Held, cluster: &mut Cluster) {
        let transaction = victim.id;
        for shard in cluster.shards() {
            let honest = self.request(shard, victim.participants.clone(), cluster);
            let proposed = self.liar.clock(cluster, 0);
            self.liar.send_each(shard, cluster, |liar| match liar.random.below(5) {
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

    /// Asks for what does not exist, or what is no operation.
    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.liar.next_id();
        let honest = self.request(shard, vec![shard], cluster);
        let write = honest.operation.clone();
        self.liar.send_each(shard, cluster, |liar| match liar.random.below(5) {
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
