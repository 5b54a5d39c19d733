//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows everything, the ids of other clients' transactions included, and keeps to two rules. It sends in its own name,
//! because servers see to that; and it writes only keys of its own, because a client that coordinates can break the data that it
//! writes. All other transactions must stay right and come to an end, and so must its own: what they hold is in the way
//! of others.

use std::collections::BTreeSet;
use std::sync::Arc;

use quorate_core::command::Outcome;
use quorate_core::topology::shard_position;
use quorate_core::{
    Address, Ballot, ClientId, ClockTime, Key, KeyRange, Random, ReadVersion, ReplicaId, ReplicaIndex,
    ShardId, Timestamp, Transaction, TransactionId, Value, View, Write,
};
use quorate_ir::{OperationId, Outline, Part, PartRange, RecordPage};
use quorate_tapir::message::{Decision, Otherwise, Prepare, Validation, Vote};
use quorate_tapir::{Message, Tapir};

use super::Strict;
use crate::system::{HOSTILE_KEYS, is_hostile_key};

type Cluster = crate::cluster::Cluster<Strict>;

type Ir = quorate_ir::Message<Tapir>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    /// Its id.
    pub id: ClientId,
    random: Random,
    sequence: u64,
    /// Transactions of others, and shards that were made to settle them although they have no part in them.
    misled: BTreeSet<(TransactionId, ShardId)>,
}

/// An honest transaction that the hostile client has heard of.
struct Victim {
    id: TransactionId,
    transaction: Arc<Transaction>,
    timestamp: Timestamp,
}

impl crate::system::Hostile<Strict> for Hostile {
    fn new(mut random: Random) -> Self {
        Hostile {
            id: ClientId(1 + random.below((1 << 52) - 1)),
            random,
            sequence: 0,
            misled: BTreeSet::new(),
        }
    }

    /// Not if it is this client's own, nor if the shard was made to abort it, for itself alone, although it has no part in it.
    fn leaves_alone(&self, transaction: TransactionId, shard: ShardId) -> bool {
        transaction.client != self.id && !self.misled.contains(&(transaction, shard))
    }

    fn id(&self) -> ClientId {
        self.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shards = cluster.shards();
        let shard = shards[self.random.index(shards.len())];
        let victim = self.find_victim(cluster);
        let kind = self.random.below(13);
        match (kind, victim) {
            (0, _) => self.prepare_and_vanish(shard, cluster),
            (1, _) => self.prepare_with_lies(shard, cluster),
            (2, _) => self.decide_twice(shard, cluster),
            (3, _) => self.talk_like_a_replica(shard, cluster),
            (4, Some(victim)) => self.decide_for(&victim, cluster),
            (5, Some(victim)) => self.prepare_for(&victim, cluster),
            (6, Some(victim)) => self.recover_with_lies(&victim, cluster),
            (7, _) => self.hold_what_others_want(shard, cluster),
            (8, _) => self.read_ahead(shard, cluster),
            (9, _) => self.hold_reads(cluster),
            (10, _) => self.crowd_the_agenda(shard, cluster),
            (11, _) => self.crowd_the_lines(shard, cluster),
            _ => self.ask_nonsense(shard, cluster),
        }
    }
}

impl Hostile {
    fn find_victim(&mut self, cluster: &Cluster) -> Option<Victim> {
        let mut prepared = Vec::new();
        for replica in (0..cluster.world.servers()).filter_map(|server| cluster.world.server(server)) {
            for id in replica.prepared().ids().into_iter().filter(|id| id.client != self.id) {
                let held = replica.prepared().entry(id)?;
                prepared.push(Victim {
                    id,
                    transaction: held.transaction.clone(),
                    timestamp: held.timestamp,
                });
            }
        }
        (!prepared.is_empty()).then(|| prepared.swap_remove(self.random.index(prepared.len())))
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

    fn write(&mut self, shard: ShardId, participants: Vec<ShardId>, cluster: &Cluster) -> Arc<Transaction> {
        let write = Write { key: self.own_key(shard, cluster), value: Some(Value::from_static(b"mine")) };
        Arc::new(Transaction { writes: vec![write], participants, ..Transaction::default() })
    }

    fn send(&self, to: ReplicaId, message: Message, cluster: &mut Cluster) {
        let node = cluster.client_node(0);
        cluster.world.inject(node, Address::Client(self.id), to.into(), message);
    }

    /// Sends what `message` gives for each replica of a shard.
    fn send_each(
        &mut self,
        shard: ShardId,
        cluster: &mut Cluster,
        mut message: impl FnMut(&mut Self, u8) -> Message,
    ) {
        for index in cluster.definition().members(shard).iter() {
            let message = message(self, index.0);
            self.send(ReplicaId { shard, index }, message, cluster);
        }
    }

    /// Prepares a transaction over some shards, or some of its parts, and is never heard of again.
    fn prepare_and_vanish(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let id = self.next_id();
        let timestamp = self.timestamp(cluster, 0);
        let all = cluster.shards();
        let participants = if self.random.chance(0.5) { vec![shard] } else { all };
        for part in participants.clone() {
            if part == shard || self.random.chance(0.5) {
                let transaction = self.write(part, participants.clone(), cluster);
                self.send_each(part, cluster, |_, _| prepare(id, 1, transaction.clone(), timestamp));
            }
        }
    }

    /// Prepares with participants that do not exist or contradict each other, at impossible timestamps, or at one that
    /// belongs to somebody else.
    fn prepare_with_lies(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let id = self.next_id();
        let all = cluster.shards();
        let lists: [Vec<ShardId>; 6] = [
            vec![shard],
            all,
            vec![shard, ShardId(900)],
            vec![],
            vec![ShardId(900)],
            (0..5_000).map(ShardId).collect(),
        ];
        let ahead = [0, 0, 50_000_000, 100_000_000, u64::MAX];
        let number = self.random.below(3) as u32;
        let mut transactions: Vec<_> = Vec::new();
        for list in &lists {
            transactions.push(self.write(shard, list.clone(), cluster));
        }
        let timestamps = ahead.map(|ahead| self.timestamp(cluster, ahead));
        for number in number..number + 2 {
            self.send_each(shard, cluster, |this, _| {
                let at = this.random.below(8) as usize;
                let transaction = transactions[if at < lists.len() { at } else { at - lists.len() }].clone();
                let mut timestamp = timestamps[this.random.index(timestamps.len())];
                if this.random.chance(0.1) {
                    timestamp.client = ClientId(7);
                }
                prepare(id, number, transaction, timestamp)
            });
        }
    }

    /// Commits and aborts one transaction that was never prepared.
    fn decide_twice(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let id = self.next_id();
        let others = cluster.shards();
        let participants = if self.random.chance(0.5) { vec![shard] } else { others };
        let ahead = [0, 50_000_000, 10_000_000_000_000, u64::MAX][self.random.index(4)];
        let timestamp = self.timestamp(cluster, ahead);
        let transaction = self.write(shard, participants, cluster);
        if self.random.chance(0.5) {
            let transaction = transaction.clone();
            self.send_each(shard, cluster, |_, _| prepare(id, 1, transaction.clone(), timestamp));
        }
        self.send_each(shard, cluster, |this, _| {
            let commit = Decision::Commit { transaction: transaction.clone(), timestamp, last: timestamp };
            decide(id, if this.random.chance(0.5) { commit } else { Decision::Abort { last: timestamp } })
        });
        let id = OperationId { transaction: id, number: OperationId::INCONSISTENT };
        self.send_each(shard, cluster, |_, _| Message::Ir(Ir::FinalizeInconsistent { id }));
    }

    /// Decides a transaction of somebody else, or makes votes on it final, under any authority.
    fn decide_for(&mut self, victim: &Victim, cluster: &mut Cluster) {
        let Victim { id, transaction, timestamp } = victim;
        let (id, timestamp) = (*id, *timestamp);
        let view = View(self.random.below(3));
        for shard in transaction.participants.clone() {
            self.send_each(shard, cluster, |this, _| {
                let prepared = OperationId { transaction: id, number: 1 };
                let ballot = [Ballot::ORIGINAL, Ballot(1), Ballot(u32::MAX)][this.random.index(3)];
                match this.random.below(6) {
                    0 => decide(id, Decision::Abort { last: timestamp }),
                    1 => {
                        let transaction = transaction.clone();
                        decide(id, Decision::Commit { transaction, timestamp, last: timestamp })
                    }
                    2 => {
                        Message::CommitPrepared { id: prepared, timestamp, together: this.random.chance(0.5) }
                    }
                    3 => Message::Ir(Ir::FinalizeInconsistent {
                        id: OperationId { transaction: id, number: OperationId::INCONSISTENT },
                    }),
                    _ => {
                        let verdict = if this.random.chance(0.5) { Vote::Abort } else { Vote::Ok };
                        Message::Ir(Ir::FinalizeConsensus { id: prepared, verdict, view, ballot })
                    }
                }
            });
        }
    }

    /// Prepares in the name of somebody else.
    fn prepare_for(&mut self, victim: &Victim, cluster: &mut Cluster) {
        for shard in victim.transaction.participants.clone() {
            let transaction = self.write(shard, victim.transaction.participants.clone(), cluster);
            let timestamp = victim.timestamp;
            self.send_each(shard, cluster, |this, _| {
                prepare(victim.id, 1 + this.random.below(3) as u32, transaction.clone(), timestamp)
            });
        }
    }

    /// Has somebody else's transaction recovered, with participants that it does not have.
    fn recover_with_lies(&mut self, victim: &Victim, cluster: &mut Cluster) {
        let all = cluster.shards();
        for shard in all.clone() {
            if !victim.transaction.participants.contains(&shard) {
                self.misled.insert((victim.id, shard));
            }
            self.send_each(shard, cluster, |this, _| {
                let participants = match this.random.below(5) {
                    0 => vec![shard],
                    1 => all.clone(),
                    2 => vec![shard, ShardId(900)],
                    3 => (0..4_000).map(ShardId).collect(),
                    _ => victim.transaction.participants.clone(),
                };
                let timestamp = [Timestamp::ZERO, victim.timestamp][this.random.index(2)];
                Message::Recover { transaction: victim.id, participants, timestamp }
            });
        }
    }

    /// Says what only replicas say, with numbers beyond all others.
    fn talk_like_a_replica(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let timestamp = Timestamp { micros: u64::MAX, client: self.id };
        self.send_each(shard, cluster, |this, _| {
            let view = [View(0), View(5), View(u64::MAX)][this.random.index(3)];
            let ballot = Ballot(u32::MAX);
            let (part, page) = (Part::WHOLE, RecordPage::default());
            match this.random.below(10) {
                0 => Message::Ir(Ir::HigherView { view }),
                1 => Message::Ir(Ir::StartViewChange { view }),
                2 => Message::Ir(Ir::DoViewChange {
                    view,
                    last_normal: Some(view),
                    lineage: vec![view],
                    part,
                    page,
                    outline: Outline { floor: timestamp, ..Outline::default() },
                    supplement: Default::default(),
                    floor: timestamp,
                    complete: timestamp,
                    lives: [(ReplicaIndex(0), u64::MAX)].into(),
                }),
                3 => Message::Ir(Ir::StartView {
                    view,
                    since: None,
                    part,
                    page,
                    outline: Outline { floor: timestamp, ..Outline::default() },
                    supplement: Default::default(),
                    floor: Some(timestamp),
                    state: Default::default(),
                    state_to: None,
                }),
                4 => Message::Ir(Ir::ViewQueryReply { nonce: 0, view, lost: true, life: 0 }),
                5 => Message::CoordinatorChange { transaction, ballot, timestamp },
                6 => Message::RecordOutcome { transaction, ballot, outcome: Outcome::Aborted },
                7 => Message::Ir(Ir::PartsMissing {
                    view,
                    series: 0,
                    missing: vec![PartRange { first: 0, last: u32::MAX }; 3],
                }),
                8 => Message::Superseded { transaction, promised: ballot },
                _ => Message::RecordOutcomeReply { transaction, ballot, view },
            }
        });
    }

    /// Reads what others write, prepares that, and is never heard of again.
    fn hold_what_others_want(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let id = self.next_id();
        let timestamp = self.timestamp(cluster, 0);
        let reads = self.draw_reads(shard, cluster);
        let participants = vec![shard];
        let transaction = Arc::new(Transaction { reads, participants, ..Transaction::default() });
        self.send_each(shard, cluster, |_, _| prepare(id, 1, transaction.clone(), timestamp));
    }

    /// Some keys of others in a shard, ascending, with their newest versions.
    fn draw_reads(&mut self, shard: ShardId, cluster: &Cluster) -> Vec<ReadVersion> {
        let mut reads: Vec<ReadVersion> = Vec::new();
        for server in (0..cluster.world.servers()).filter(|server| cluster.replica(*server).shard == shard) {
            let Some(replica) = cluster.world.server(server) else { continue };
            for (key, version) in replica.versions().range(&KeyRange { from: Key::from("a"), to: None }) {
                let honest = !is_hostile_key(key) && reads.last().is_none_or(|last| last.key < *key);
                if honest && self.random.chance(0.1) {
                    reads.push(ReadVersion { key: key.clone(), version: version.timestamp, deleted: false });
                }
            }
        }
        reads
    }

    /// Has itself promised that nothing is written to keys of others below a timestamp far ahead, or says that it knows
    /// what they hold there.
    fn read_ahead(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        let reads = self.draw_reads(shard, cluster);
        let keys: Vec<Key> = reads.iter().map(|read| read.key.clone()).collect();
        let ahead =
            [0, 1_000_000, 29_000_000, 59_000_000, u64::MAX].map(|ahead| self.timestamp(cluster, ahead));
        self.send_each(shard, cluster, |this, _| {
            let timestamp = ahead[this.random.index(ahead.len())];
            match this.random.below(5) {
                0 => Message::ReadValidated {
                    transaction,
                    keys: keys.clone(),
                    otherwise: Some(Otherwise { oldest: ahead[4], round: 1, timestamp }),
                    // As below.
                    validated: vec![Validation { timestamp: ahead[4], reads: reads.clone() }],
                },
                // Its word on keys of others would be believed if they could be so.
                1 => Message::Validated { timestamp: ahead[4], reads: reads.clone() },
                2 => {
                    let bound = |at| keys.get(at).cloned().unwrap_or_default();
                    let range = KeyRange { from: bound(this.random.index(2)), to: Some(bound(1)) };
                    let limit = [0, 1, u32::MAX][this.random.index(3)];
                    Message::QuorumScan { transaction, round: 1, timestamp, range, limit }
                }
                in_turn => {
                    let in_turn = in_turn == 3;
                    Message::QuorumRead { transaction, round: 1, timestamp, keys: keys.clone(), in_turn }
                }
            }
        });
    }

    /// Holds keys of others in every shard, to read them, and never lets go.
    fn hold_reads(&mut self, cluster: &mut Cluster) {
        let id = self.next_id();
        let timestamp = self.timestamp(cluster, 0);
        let participants = cluster.shards();
        for shard in participants.clone() {
            let reads = self.draw_reads(shard, cluster);
            let participants = participants.clone();
            let transaction =
                Transaction { reads, participants, reads_when_prepared: true, ..Transaction::default() };
            let transaction = Arc::new(transaction);
            self.send_each(shard, cluster, |_, _| prepare(id, 1, transaction.clone(), timestamp));
        }
    }

    /// Lets many prepares wait for their time, each as long as it can.
    fn crowd_the_agenda(&mut self, shard: ShardId, cluster: &mut Cluster) {
        const PREPARES: u64 = 20;
        let sent = ClockTime::from_micros(self.timestamp(cluster, 0).micros);
        self.send_each(shard, cluster, |_, _| Message::ClockProbe { sent, deadlines: true });
        let reads = self.draw_reads(shard, cluster);
        for at in 0..PREPARES {
            let id = self.next_id();
            let timestamp = self.timestamp(cluster, 500_000 - at);
            let (reads, participants) = (reads.clone(), vec![shard]);
            let transaction = Arc::new(Transaction { reads, participants, ..Transaction::default() });
            self.send_each(shard, cluster, |_, _| prepare(id, 1, transaction.clone(), timestamp));
        }
    }

    /// Joins the lines of readers of contended keys again and again, and never uses its turn.
    fn crowd_the_lines(&mut self, shard: ShardId, cluster: &mut Cluster) {
        const READS: u64 = 20;
        let reads = self.draw_reads(shard, cluster);
        let Some(key) = reads.first().map(|read| read.key.clone()) else { return };
        for _ in 0..READS {
            let transaction = self.next_id();
            let key = key.clone();
            self.send_each(shard, cluster, |_, _| Message::ReadInTurn { transaction, key: key.clone() });
        }
        let (transaction, keys) = (self.next_id(), reads.iter().map(|read| read.key.clone()));
        let keys: Vec<Key> = keys.chain([key.clone(), key]).collect();
        for in_turn in [true, false] {
            let keys = keys.clone();
            self.send_each(shard, cluster, |_, _| {
                let keys = keys.clone();
                Message::ReadMany { transaction, request: u32::MAX, keys, in_turn }
            });
        }
    }

    /// Asks for what is not there, in transactions that do not exist.
    fn ask_nonsense(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.next_id();
        self.send_each(shard, cluster, |this, _| {
            let (key, other) = (Key::from("zz"), Key::from("a"));
            let range = KeyRange { from: key.clone(), to: this.random.chance(0.5).then_some(other) };
            match this.random.below(4) {
                0 => Message::Read { transaction, key: key.clone() },
                1 => Message::Scan { transaction, request: u32::MAX, range, limit: u32::MAX },
                2 => {
                    let timestamp = Timestamp { micros: u64::MAX, client: this.id };
                    Message::Recover { transaction, participants: vec![shard], timestamp }
                }
                _ => Message::CommitPrepared {
                    id: OperationId { transaction, number: 9 },
                    timestamp: Timestamp::ZERO,
                    together: this.random.chance(0.5),
                },
            }
        });
    }
}

fn prepare(
    transaction: TransactionId,
    number: u32,
    contents: Arc<Transaction>,
    timestamp: Timestamp,
) -> Message {
    let operation = Prepare { transaction: contents, timestamp, first: None };
    Message::Ir(Ir::ProposeConsensus { id: OperationId { transaction, number }, operation })
}

fn decide(transaction: TransactionId, operation: Decision) -> Message {
    let id = OperationId { transaction, number: OperationId::INCONSISTENT };
    Message::Ir(Ir::ProposeInconsistent { id, operation })
}
