//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the ids of other clients' transactions and leases, sends in its own name, and writes only keys of its own.

use std::sync::Arc;
use std::time::Duration;

use quorate_configuration::{
    Compare, ConditionalWrite, Consistency, LeaseId, Message, Put, Refusal, Revision, WriteResult,
};
use quorate_core::hosted::Holdings;
use quorate_core::log::Position;
use quorate_core::{
    Address, ClientId, Key, KeyRange, Random, ReplicaId, ReplicaIndex, ShardId, TransactionId, Value, View,
};
use quorate_log::Part;

use super::{Cluster, ConfigurationService};
use crate::system::HOSTILE_KEYS;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    id: ClientId,
    random: Random,
    sequence: u64,
}

impl crate::system::Hostile<ConfigurationService> for Hostile {
    fn new(mut random: Random) -> Self {
        Hostile { id: ClientId(1 + random.below((1 << 52) - 1)), random, sequence: 0 }
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        match self.random.below(6) {
            0 => self.write_nonsense(cluster),
            1 => self.ask_nonsense(cluster),
            2 => self.watch_and_vanish(cluster),
            3 => self.meddle_with_leases(cluster),
            4 => self.meddle_with_writes(cluster),
            _ => self.talk_like_a_replica(cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.id
    }
}

impl Hostile {
    fn next_id(&mut self) -> TransactionId {
        self.sequence += 1;
        TransactionId { client: self.id, sequence: self.sequence, attempt: self.random.below(3) as u32 }
    }

    /// A number that is likely to be somebody's, or nobody's.
    fn number(&mut self) -> u64 {
        let some = self.random.below(300);
        [some, self.random.next_u64(), u64::MAX][self.random.index(3)]
    }

    /// Sends what `message` gives to each replica.
    fn send_each(&mut self, cluster: &mut Cluster, mut message: impl FnMut(&mut Self) -> Message) {
        for index in members(cluster) {
            let message = message(self);
            self.send(index, Part::Own(message), cluster);
        }
    }

    fn send(&mut self, index: ReplicaIndex, message: super::MessageOfService, cluster: &mut Cluster) {
        let (node, shard) = (cluster.client_node(0), cluster.shards()[0]);
        let to = ReplicaId { shard, index };
        cluster.world.inject(node, Address::Client(self.id), to.into(), message);
    }

    fn key(&mut self) -> Key {
        Key::copy_from_slice(&[HOSTILE_KEYS, self.random.below(256) as u8])
    }

    /// Writes keys of its own, in disorder, under leases of others, relying on what never was.
    fn write_nonsense(&mut self, cluster: &mut Cluster) {
        let transaction = self.next_id();
        self.send_each(cluster, |this| {
            let mut puts: Vec<Put> = (0..this.random.below(5))
                .map(|_| {
                    let value = this.random.chance(0.8).then(|| Value::from_static(b"mine"));
                    let client = if this.random.chance(0.5) { this.id } else { ClientId(7) };
                    let lease = LeaseId { client, number: this.number() };
                    Put { key: this.key(), value, lease: this.random.chance(0.3).then_some(lease) }
                })
                .collect();
            if this.random.chance(0.8) {
                puts.sort_by(|one, other| one.key.cmp(&other.key));
                puts.dedup_by(|one, other| one.key == other.key);
            }
            let compares = (0..this.random.below(3))
                .map(|_| {
                    let changed = this.random.chance(0.5).then(|| Revision(this.number()));
                    Compare::Key { key: this.key(), changed }
                })
                .collect();
            let (request, since) = (this.number(), Position(this.number()));
            let write = Arc::new(ConditionalWrite { compares, puts });
            Message::Write { request, transaction, since, write }
        });
    }

    /// Asks for what does not exist.
    fn ask_nonsense(&mut self, cluster: &mut Cluster) {
        let ranges = [
            KeyRange { from: Key::from("z"), to: Some(Key::from("a")) },
            KeyRange { from: Key::default(), to: None },
            KeyRange { from: Key::from(vec![0xff; 5_000]), to: None },
        ];
        self.send_each(cluster, |this| {
            let (request, range) = (this.number(), ranges[this.random.index(3)].clone());
            let consistency = [Consistency::Stale, Consistency::Linearizable][this.random.index(2)];
            match this.random.below(4) {
                0 => Message::Scan { request, range, limit: u32::MAX, consistency },
                1 => Message::Get { request, keys: vec![Key::from("a"); 1_000], consistency },
                2 => {
                    let (after, keys) = (Revision(this.number()), this.number());
                    Message::Check { request, compares: vec![Compare::Range { range, after, keys }] }
                }
                _ => Message::Watch { request, range, after: Revision(this.number()) },
            }
        });
    }

    /// Watches everything again and again under new names, and never says that it does not.
    fn watch_and_vanish(&mut self, cluster: &mut Cluster) {
        for _ in 0..20 {
            self.send_each(cluster, |this| {
                let range = KeyRange { from: Key::default(), to: None };
                let after = [Revision::START, Revision(this.number())][this.random.index(2)];
                Message::Watch { request: this.random.next_u64(), range, after }
            });
        }
    }

    /// Asks for leases for ever and for no time, and gives up those of others.
    fn meddle_with_leases(&mut self, cluster: &mut Cluster) {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let held: Vec<LeaseId> =
            servers.flat_map(|server| server.machine().leases().map(|(lease, _)| lease)).collect();
        self.send_each(cluster, |this| {
            let own = LeaseId { client: this.id, number: this.number() };
            let lease = match held.is_empty() || this.random.chance(0.5) {
                true => own,
                false => held[this.random.index(held.len())],
            };
            let request = this.number();
            match this.random.below(4) {
                0 => Message::Release { request, lease },
                1 => Message::Renew { request, lease },
                2 => Message::Grant { request, lease, duration: Duration::from_micros(this.number()) },
                _ => Message::Grant { request, lease, duration: Duration::from_secs(1) },
            }
        });
    }

    /// Writes in the name of somebody else, and settles what is none of its business.
    fn meddle_with_writes(&mut self, cluster: &mut Cluster) {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let mut known: Vec<TransactionId> = servers.flat_map(Holdings::outcomes).map(|(id, _)| id).collect();
        known.retain(|id| id.client != self.id);
        let Some(victim) = (!known.is_empty()).then(|| known[self.random.index(known.len())]) else { return };
        self.send_each(cluster, |this| {
            let mut transaction = victim;
            transaction.attempt += this.random.below(2) as u32;
            let (request, since) = (this.number(), Position(this.number()));
            match this.random.below(2) {
                0 => Message::Settle { request, transaction: victim, since },
                _ => {
                    let put = Put { key: this.key(), value: None, lease: None };
                    let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: vec![put] });
                    Message::Write { request, transaction, since, write }
                }
            }
        });
    }

    /// Says what only replicas say.
    fn talk_like_a_replica(&mut self, cluster: &mut Cluster) {
        for index in members(cluster) {
            let view = [View(0), View(5), View(u64::MAX)][self.random.index(3)];
            let request = self.number();
            let message = match self.random.below(5) {
                0 => Part::Log(quorate_log::Message::StartViewChange { view, entered: true }),
                1 => Part::Log(quorate_log::Message::NewLife { life: u64::MAX }),
                2 => Part::Own(Message::WriteReply {
                    request,
                    position: Position(u64::MAX),
                    result: WriteResult::Settled,
                }),
                3 => Part::Own(Message::Refused { request, refusal: Refusal::TooOld }),
                _ => Part::Own(Message::Forgotten { request, forgotten: Revision(u64::MAX) }),
            };
            self.send(index, message, cluster);
        }
    }
}

/// The replicas, by the latest definition.
fn members(cluster: &Cluster) -> Vec<ReplicaIndex> {
    cluster.definition().members(cluster.shards()[0]).iter().collect()
}
