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
use quorate_core::{ClientId, Key, KeyRange, Random, ShardId, TransactionId, Value, View};
use quorate_log::Part;

use super::{Cluster, ConfigurationService};
use crate::system::HOSTILE_KEYS;
use crate::system::on_log::hostile::Liar;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    liar: Liar,
}

impl crate::system::Hostile<ConfigurationService> for Hostile {
    fn new(random: Random) -> Self {
        Hostile { liar: Liar::new(random) }
    }

    fn id(&self) -> ClientId {
        self.liar.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        match self.liar.random.below(6) {
            0 => self.write_nonsense(cluster),
            1 => self.ask_nonsense(cluster),
            2 => self.watch_and_vanish(cluster),
            3 => self.meddle_with_leases(cluster),
            4 => self.meddle_with_writes(cluster),
            _ => self.talk_like_a_replica(cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.liar.id
    }
}

impl Hostile {
    fn next_id(&mut self) -> TransactionId {
        TransactionId { attempt: self.liar.random.below(3) as u32, ..self.liar.next_id() }
    }

    /// Sends what `message` gives to each replica.
    fn send_each(&mut self, cluster: &mut Cluster, message: impl FnMut(&mut Liar) -> Message) {
        let shard = cluster.shards()[0];
        self.liar.send_each(shard, cluster, message);
    }

    /// Writes keys of its own, in disorder, under leases of others, relying on what never was.
    fn write_nonsense(&mut self, cluster: &mut Cluster) {
        let transaction = self.next_id();
        self.send_each(cluster, |liar| {
            let mut puts: Vec<Put> = (0..liar.random.below(5))
                .map(|_| {
                    let value = liar.random.chance(0.8).then(|| Value::from_static(b"mine"));
                    let client = if liar.random.chance(0.5) { liar.id } else { ClientId(7) };
                    let lease = LeaseId { client, number: number(liar) };
                    Put { key: key(liar), value, lease: liar.random.chance(0.3).then_some(lease) }
                })
                .collect();
            if liar.random.chance(0.8) {
                puts.sort_by(|one, other| one.key.cmp(&other.key));
                puts.dedup_by(|one, other| one.key == other.key);
            }
            let compares = (0..liar.random.below(3))
                .map(|_| {
                    let changed = liar.random.chance(0.5).then(|| Revision(number(liar)));
                    Compare::Key { key: key(liar), changed }
                })
                .collect();
            let (request, since) = (number(liar), Position(number(liar)));
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
        self.send_each(cluster, |liar| {
            let (request, range) = (number(liar), ranges[liar.random.index(3)].clone());
            let consistency = [Consistency::Stale, Consistency::Linearizable][liar.random.index(2)];
            match liar.random.below(4) {
                0 => Message::Scan { request, range, limit: u32::MAX, consistency },
                1 => Message::Get { request, keys: vec![Key::from("a"); 1_000], consistency },
                2 => {
                    let (after, keys) = (Revision(number(liar)), number(liar));
                    Message::Check { request, compares: vec![Compare::Range { range, after, keys }] }
                }
                _ => Message::Watch { request, range, after: Revision(number(liar)) },
            }
        });
    }

    /// Watches everything again and again under new names, and never says that it does not.
    fn watch_and_vanish(&mut self, cluster: &mut Cluster) {
        for _ in 0..20 {
            self.send_each(cluster, |liar| {
                let range = KeyRange { from: Key::default(), to: None };
                let after = [Revision::START, Revision(number(liar))][liar.random.index(2)];
                Message::Watch { request: liar.random.next_u64(), range, after }
            });
        }
    }

    /// Asks for leases for ever and for no time, and gives up those of others.
    fn meddle_with_leases(&mut self, cluster: &mut Cluster) {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let held: Vec<LeaseId> =
            servers.flat_map(|server| server.machine().leases().map(|(lease, _)| lease)).collect();
        self.send_each(cluster, |liar| {
            let own = LeaseId { client: liar.id, number: number(liar) };
            let lease = match held.is_empty() || liar.random.chance(0.5) {
                true => own,
                false => held[liar.random.index(held.len())],
            };
            let request = number(liar);
            match liar.random.below(4) {
                0 => Message::Release { request, lease },
                1 => Message::Renew { request, lease },
                2 => Message::Grant { request, lease, duration: Duration::from_micros(number(liar)) },
                _ => Message::Grant { request, lease, duration: Duration::from_secs(1) },
            }
        });
    }

    /// Writes in the name of somebody else, and settles what is none of its business.
    fn meddle_with_writes(&mut self, cluster: &mut Cluster) {
        let servers = (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server));
        let mut known: Vec<TransactionId> = servers.flat_map(Holdings::outcomes).map(|(id, _)| id).collect();
        known.retain(|id| id.client != self.liar.id);
        let Some(victim) = (!known.is_empty()).then(|| known[self.liar.random.index(known.len())]) else {
            return;
        };
        self.send_each(cluster, |liar| {
            let mut transaction = victim;
            transaction.attempt += liar.random.below(2) as u32;
            let (request, since) = (number(liar), Position(number(liar)));
            match liar.random.below(2) {
                0 => Message::Settle { request, transaction: victim, since },
                _ => {
                    let put = Put { key: key(liar), value: None, lease: None };
                    let write = Arc::new(ConditionalWrite { compares: Vec::new(), puts: vec![put] });
                    Message::Write { request, transaction, since, write }
                }
            }
        });
    }

    /// Says what only replicas say.
    fn talk_like_a_replica(&mut self, cluster: &mut Cluster) {
        let shard = cluster.shards()[0];
        self.liar.say_to_each(shard, cluster, |liar| {
            let view = [View(0), View(5), View(u64::MAX)][liar.random.index(3)];
            let request = number(liar);
            match liar.random.below(5) {
                0 => Part::Log(quorate_log::Message::StartViewChange { view, entered: true }),
                1 => Part::Log(quorate_log::Message::NewLife { life: u64::MAX }),
                2 => Part::Own(Message::WriteReply {
                    request,
                    position: Position(u64::MAX),
                    result: WriteResult::Settled,
                }),
                3 => Part::Own(Message::Refused { request, refusal: Refusal::TooOld }),
                _ => Part::Own(Message::Forgotten { request, forgotten: Revision(u64::MAX) }),
            }
        });
    }
}

/// A number that is likely to be somebody's, or nobody's.
fn number(liar: &mut Liar) -> u64 {
    let some = liar.random.below(300);
    [some, liar.random.next_u64(), u64::MAX][liar.random.index(3)]
}

/// A key of its own.
fn key(liar: &mut Liar) -> Key {
    Key::copy_from_slice(&[HOSTILE_KEYS, liar.random.below(256) as u8])
}
