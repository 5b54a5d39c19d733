//! A hostile client: it says whatever a client can say, true or not.
//!
//! It knows the ids of other clients' transactions, sends in its own name, and writes only keys of its own.

use quorate_core::command::{End, Milestone};
use quorate_core::counter::{VALUE, set_of};
use quorate_core::{ClientId, Key, Random, ShardId, TransactionId, Value};
use quorate_walter::message::{Ending, Period, Snapshot, Wanted};
use quorate_walter::{LocalSite, Message, Update, Vector, VersionNumber};

use super::ParallelSnapshot;
use crate::system::HOSTILE_KEYS;
use crate::system::on_log::hostile::Liar;

type Cluster = crate::cluster::Cluster<ParallelSnapshot>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    liar: Liar,
}

impl crate::system::Hostile<ParallelSnapshot> for Hostile {
    fn new(random: Random) -> Self {
        Hostile { liar: Liar::new(random) }
    }

    fn id(&self) -> ClientId {
        self.liar.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let shard = self.liar.shard(cluster);
        match self.liar.random.below(6) {
            0 | 1 => self.commit_oddly(shard, cluster),
            2 => self.read_oddly(shard, cluster),
            3 => self.meddle(shard, cluster),
            4 => self.ask_for_outcomes(shard, cluster),
            _ => self.talk_like_a_site(shard, cluster),
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.liar.id
    }
}

impl Hostile {
    /// A vector of nobody's: empty, a little ahead, far ahead, of sites that do not exist.
    fn vector(&mut self) -> Vector {
        match self.liar.random.below(4) {
            0 => Vector::default(),
            1 => Vector::new((0..3).map(|_| self.liar.random.below(20)).collect()),
            2 => Vector::new(vec![u64::MAX; 3]),
            _ => Vector::new(vec![1; 5_000]),
        }
    }

    fn snapshot(&mut self) -> Snapshot {
        let vector = self.vector();
        match self.liar.random.below(4) {
            0 | 1 => Snapshot::Taken(vector),
            2 => Snapshot::New(vector),
            _ => Snapshot::After {
                seen: vector,
                earlier: self.liar.next_id(),
                period: Period(self.liar.random.below(20)),
            },
        }
    }

    fn updates(&mut self) -> Vec<Update> {
        let key = Key::copy_from_slice(&[HOSTILE_KEYS, self.liar.random.below(8) as u8]);
        let write = Update::Write { key: key.clone(), value: Some(Value::from_static(b"mine")) };
        let other = Key::copy_from_slice(&[HOSTILE_KEYS, self.liar.random.below(256) as u8]);
        let add = Update::Add { set: other.clone(), element: key, by: i32::MAX };
        let counter = set_of(&other);
        let element = [VALUE, b"s0", b"s1"][self.liar.random.index(3)];
        let by = [1, -1, 1_000_000, i32::MIN][self.liar.random.index(4)];
        let change = Update::Add { set: counter, element: Key::copy_from_slice(element), by };
        match self.liar.random.below(7) {
            0 => vec![],
            1 => vec![write.clone(), write],
            2 => vec![add.clone(), add],
            3 => vec![change],
            4 => vec![change.clone(), change],
            5 => vec![write, Update::Write { key: other, value: None }, add],
            _ => vec![write],
        }
    }

    /// Commits what no coordinator would, several times, and is never heard of again.
    fn commit_oddly(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction =
            if self.liar.random.chance(0.3) { self.liar.last_id() } else { self.liar.next_id() };
        let (snapshot, updates) = (self.snapshot(), self.updates());
        let period = Period([0, 1, 2, 5, 20, u64::MAX][self.liar.random.index(6)]);
        for _ in 0..2 {
            let message =
                Message::Commit { transaction, snapshot: snapshot.clone(), period, updates: updates.clone() };
            self.liar.send_each(shard, cluster, |_| message.clone());
        }
    }

    fn read_oddly(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, snapshot) = (self.liar.next_id(), self.snapshot());
        let key = Key::copy_from_slice(&[HOSTILE_KEYS]);
        let range = quorate_core::KeyRange { from: key.clone(), to: Some(key.clone()) };
        let members =
            |limit| Wanted::Members { set: key.clone(), range: range.clone(), from: End::Least, limit };
        let wanted = match self.liar.random.below(4) {
            0 => vec![],
            3 => vec![members(1), members(u32::MAX)],
            1 => vec![Wanted::Register(key); 1_000],
            _ => vec![Wanted::Range(range, u32::MAX)],
        };
        let (home, at) = (LocalSite([0, 1, 2, u16::MAX][self.liar.random.index(4)]), self.vector());
        let copy = Message::ReadCopy { transaction, request: 1, snapshot: at, home, wanted: wanted.clone() };
        self.liar.send_each(shard, cluster, |_| copy.clone());
        let message = Message::Read { transaction, request: 1, snapshot, wanted };
        self.liar.send_each(shard, cluster, |_| message.clone());
    }

    /// Says something about a transaction of somebody else.
    fn meddle(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let Some(victim) = self.liar.find_victim(cluster) else { return };
        let transaction = victim.id;
        let (snapshot, updates) = (self.snapshot(), self.updates());
        self.liar.send_each(shard, cluster, |liar| match liar.random.below(4) {
            0 => Message::Release { transaction },
            1 => {
                let keys = vec![Key::copy_from_slice(&[HOSTILE_KEYS])];
                Message::Vote { transaction, keys, agrees: liar.random.chance(0.5) }
            }
            2 => Message::Commit {
                transaction,
                snapshot: snapshot.clone(),
                period: Period(1),
                updates: updates.clone(),
            },
            _ => Message::CommitReply {
                transaction,
                ending: Ending::Aborted,
                silent: vec![shard],
                is_short: true,
            },
        });
    }

    fn ask_for_outcomes(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let transaction = self.liar.next_id();
        let period = Period([0, 1, u64::MAX][self.liar.random.index(3)]);
        let committed = [0, u64::MAX][self.liar.random.index(2)];
        self.liar.send_each(shard, cluster, |_| Message::AskOutcome { transaction, period, committed });
        let milestone = Milestone::ALL[self.liar.random.index(2)];
        let version = self.version();
        self.liar.send_each(shard, cluster, |_| Message::AskMilestone { transaction, version, milestone });
    }

    /// A version that may have been given to another transaction, or to none.
    fn version(&mut self) -> VersionNumber {
        let seqno = [0, 1, 20, u64::MAX][self.liar.random.index(4)];
        VersionNumber { site: LocalSite([0, 1, 2, u16::MAX][self.liar.random.index(4)]), seqno }
    }

    /// Says what only leaders of other sites say.
    fn talk_like_a_site(&mut self, shard: ShardId, cluster: &mut Cluster) {
        let (transaction, vector) = (self.liar.next_id(), self.vector());
        let version = VersionNumber { site: LocalSite(0), seqno: 1 + self.liar.random.below(20) };
        let commit = quorate_walter::entry::Commit {
            transaction,
            version,
            snapshot: Vector::default(),
            updates: self.updates(),
            is_slow: false,
        };
        let keys = vec![Key::copy_from_slice(&[HOSTILE_KEYS])];
        let said = [
            Message::Propagate { commits: vec![commit.into()], durable: u64::MAX },
            Message::Progress { received: u64::MAX, committed: vector.clone(), oldest: vector.clone() },
            Message::Prepare { transaction, keys, snapshot: vector },
            Message::NotLeading { transaction: None, leader: quorate_core::ReplicaIndex(200) },
            Message::AskLast { question: 0 },
            Message::AskShare { counter: set_of(b"hostile"), wanted: u64::MAX },
            Message::Last { question: u64::MAX, seqno: 0 },
        ];
        let own = said[self.liar.random.index(said.len())].clone();
        self.liar.talk_like_a_replica(shard, cluster, &own);
    }
}
