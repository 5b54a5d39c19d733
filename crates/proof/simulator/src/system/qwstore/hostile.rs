//! A hostile client: it says whatever a client can say, true or not.
//!
//! It puts only keys of its own, and may put them as it likes: that nobody reads them is all that others are promised.

use std::sync::Arc;

use quorate_core::topology::shard_position;
use quorate_core::{
    Address, ClientId, Key, KeyRange, Random, ReplicaId, ReplicaIndex, ShardId, Timestamp, TransactionId,
    Value, View,
};
use quorate_ir::{Message as Ir, OperationId, Outline, Part, RecordPage};
use quorate_qwstore::Message;
use quorate_qwstore::message::{Put, Supplement};

use super::QwStore;
use crate::system::HOSTILE_KEYS;

type Cluster = crate::cluster::Cluster<QwStore>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    id: ClientId,
    random: Random,
    sequence: u64,
}

impl crate::system::Hostile<QwStore> for Hostile {
    fn new(mut random: Random) -> Self {
        Hostile { id: ClientId(1 + random.below((1 << 52) - 1)), random, sequence: 0 }
    }

    fn id(&self) -> ClientId {
        self.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shards = cluster.shards();
        let shard = shards[self.random.index(shards.len())];
        match self.random.below(4) {
            0 => self.put_at_some(shard, cluster),
            1 => self.put_with_lies(shard, cluster),
            2 => self.talk_like_a_replica(shard, cluster),
            _ => self.ask_nonsense(shard, cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.id
    }
}

impl Hostile {
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

    /// A key of its own that belongs to a shard.
    fn own_key(&mut self, shard: ShardId, cluster: &Cluster) -> Key {
        let shards = cluster.shards();
        loop {
            let key = [HOSTILE_KEYS, self.random.below(256) as u8];
            if shards[shard_position(&key, shards.len())] == shard {
                return Key::copy_from_slice(&key);
            }
        }
    }

    fn send(&self, to: ReplicaId, message: Message, cluster: &mut Cluster) {
        let node = cluster.client_node(0);
        cluster.world.inject(node, Address::Client(self.id), to.into(), message);
    }

    fn send_each(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster,
        mut message: impl FnMut(&mut Self) -> Message,
    ) {
        for index in 0..cluster.scenario.group.replicas() as u8 {
            let message = message(self);
            self.send(ReplicaId { shard, index: ReplicaIndex(index) }, message, cluster);
        }
    }

    /// Puts at some replicas only, and is never heard of again.
    fn put_at_some(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (id, timestamp, key) = (self.next_id(), self.timestamp(cluster, 0), self.own_key(shard, cluster));
        for index in 0..cluster.scenario.group.replicas() as u8 {
            if self.random.chance(0.5) {
                let message = put(id, key.clone(), timestamp, b"some");
                self.send(ReplicaId { shard, index: ReplicaIndex(index) }, message, cluster);
            }
        }
    }

    /// Puts different values under one id, far ahead or behind, or in the name of others.
    fn put_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (own, key) = (self.next_id(), self.own_key(shard, cluster));
        let other = TransactionId { client: ClientId(7), ..own };
        let timestamps =
            [0, 1, 50_000_000, 100_000_000, u64::MAX].map(|ahead| self.timestamp(cluster, ahead));
        self.send_each(shard, cluster, |this| {
            let id = if this.random.chance(0.3) { other } else { own };
            let mut timestamp = timestamps[this.random.index(timestamps.len())];
            if this.random.chance(0.2) {
                timestamp = Timestamp { micros: this.random.below(1_000), ..timestamp };
            }
            if this.random.chance(0.2) {
                timestamp.client = ClientId(7);
            }
            put(id, key.clone(), timestamp, if this.random.chance(0.5) { b"this" } else { b"that" })
        });
    }

    /// Says what only replicas say to each other.
    fn talk_like_a_replica(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let view = View(self.random.below(5));
        let far = self.timestamp(cluster, 1_000_000_000);
        self.send_each(shard, cluster, |this| {
            let page = RecordPage::default();
            let id = OperationId { transaction: this.next_id(), number: 0 };
            match this.random.below(9) {
                0 => Message::Ir(Ir::StartViewChange { view: View(u64::MAX) }),
                1 => Message::Ir(Ir::HigherView { view: View(u64::MAX) }),
                2 => Message::Ir(Ir::StartView {
                    view: View(1_000),
                    since: None,
                    part: Part::WHOLE,
                    page,
                    outline: Outline { floor: far, ..Outline::default() },
                    supplement: Supplement::default(),
                    floor: Some(far),
                    state: None,
                    state_to: None,
                }),
                3 => Message::Ir(Ir::FinalizeInconsistent { id }),
                4 => Message::Gather { view, floor: far, below: far, from: (far, id.transaction) },
                5 => Message::Complete { view, below: far },
                6 => Message::RaiseFloor { floor: far },
                7 => Message::FetchPuts { puts: vec![id.transaction] },
                _ => Message::Ir(Ir::ViewQueryReply { nonce: 1, view, lost: true, life: 0 }),
            }
        });
    }

    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let key = self.own_key(shard, cluster);
        self.send_each(shard, cluster, |this| {
            let range = KeyRange { from: Key::default(), to: None };
            match this.random.below(3) {
                0 => Message::Scan { transaction, request: 0, range, limit: u32::MAX },
                1 => Message::Read { transaction, key: key.clone() },
                _ => Message::Late { put: transaction, refusal: Timestamp::ZERO, clock: Default::default() },
            }
        });
    }
}

fn put(id: TransactionId, key: Key, timestamp: Timestamp, value: &'static [u8]) -> Message {
    let operation = Arc::new(Put { key, value: Some(Value::from_static(value)), timestamp });
    let id = OperationId { transaction: id, number: OperationId::INCONSISTENT };
    Message::Ir(Ir::ProposeInconsistent { id, operation })
}
