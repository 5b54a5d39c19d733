//! The common part of hostile clients of systems on replicated logs: a name, keys of its own, and a voice.

use quorate_core::hosted::{Held, Holdings};
use quorate_core::topology::shard_position;
use quorate_core::{Address, ClientId, ClockTime, Key, Random, ReplicaId, ShardId, TransactionId, View};
use quorate_log::{Part, Payload};

use crate::cluster::Cluster;
use crate::system::{HOSTILE_KEYS, System};

/// A client that lies. It sends in its own name, because servers see to that, and writes only keys of its own.
#[derive(Debug)]
pub(crate) struct Liar {
    /// The client.
    pub(crate) id: ClientId,
    /// The generator that its lies are drawn from.
    pub(crate) random: Random,
    sequence: u64,
}

impl Liar {
    /// A client that has done nothing yet.
    pub(crate) fn new(mut random: Random) -> Self {
        Liar { id: ClientId(1 + random.below((1 << 52) - 1)), random, sequence: 0 }
    }

    /// The transaction that it has named last.
    pub(crate) fn last_id(&self) -> TransactionId {
        TransactionId { client: self.id, sequence: self.sequence, attempt: 0 }
    }

    /// A transaction of a new name.
    pub(crate) fn next_id(&mut self) -> TransactionId {
        self.sequence += 1;
        self.last_id()
    }

    /// One of the shards.
    pub(crate) fn shard<S: System>(&mut self, cluster: &Cluster<S>) -> ShardId {
        let shards = cluster.shards();
        shards[self.random.index(shards.len())]
    }

    /// A transaction of another client that a replica holds.
    pub(crate) fn find_victim<S: System>(&mut self, cluster: &Cluster<S>) -> Option<Held> {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let mut held: Vec<Held> = servers.flat_map(Holdings::held).collect();
        held.retain(|held| held.id.client != self.id);
        (!held.is_empty()).then(|| held.swap_remove(self.random.index(held.len())))
    }

    /// The reading of a clock that is `ahead` microseconds ahead of a perfect one.
    pub(crate) fn clock<S: System>(&self, cluster: &Cluster<S>, ahead: u64) -> ClockTime {
        let start = crate::world::clock::START_MICROS as u64;
        let now = start + cluster.world.now().as_nanos() / 1_000;
        ClockTime::from_micros(now.saturating_add(ahead))
    }

    /// A key of its own that belongs to a shard.
    pub(crate) fn own_key<S: System>(&mut self, shard: ShardId, cluster: &Cluster<S>) -> Key {
        let shards = cluster.shards();
        loop {
            let key = [HOSTILE_KEYS, self.random.below(256) as u8];
            if shards[shard_position(&key, shards.len())] == shard {
                return Key::copy_from_slice(&key);
            }
        }
    }

    /// Sends what `message` gives to each replica of a group.
    pub(crate) fn send_each<S, L, O>(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster<S>,
        mut message: impl FnMut(&mut Self) -> O,
    ) where
        S: System<Message = Part<L, O>>,
    {
        self.say_to_each(shard, cluster, |liar| Part::Own(message(liar)));
    }

    /// Says to each replica of a group what only replicas say, about the log or as `own` says it.
    pub(crate) fn talk_like_a_replica<S, P, O: Clone>(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster<S>,
        own: &O,
    ) where
        S: System<Message = Part<quorate_log::Message<P>, O>>,
        P: Payload,
    {
        self.say_to_each(shard, cluster, |liar| {
            let view = [View(0), View(5), View(u64::MAX)][liar.random.index(3)];
            match liar.random.below(4) {
                0 => Part::Log(quorate_log::Message::StartViewChange { view, entered: true }),
                1 => Part::Log(quorate_log::Message::Join { view }),
                2 => Part::Log(quorate_log::Message::NewLife { life: u64::MAX }),
                _ => Part::Own(own.clone()),
            }
        });
    }

    /// Says to each replica of a group what `message` gives, about the log or not.
    pub(crate) fn say_to_each<S: System>(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster<S>,
        mut message: impl FnMut(&mut Self) -> S::Message,
    ) {
        let node = cluster.client_node(0);
        for index in cluster.definition().members(shard).iter() {
            let to = ReplicaId { shard, index };
            let message = message(self);
            cluster.world.inject(node, Address::Client(self.id), to.into(), message);
        }
    }
}
