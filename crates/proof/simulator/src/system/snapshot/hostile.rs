//! A hostile client: it says whatever a client can say, true or not.

use quorate_core::command::Outcome;
use quorate_core::{
    ClientId, ClockTime, Key, KeyRange, Random, ReplicaIndex, ShardId, Timestamp, TransactionId, Value, View,
    Write,
};
use quorate_str::Message;
use quorate_str::message::{Holder, Life, Period, Session, Wanted};

use super::Snapshot;
use crate::system::on_log::hostile::Liar;

type Cluster = crate::cluster::Cluster<Snapshot>;

/// A hostile client.
#[derive(Debug)]
pub struct Hostile {
    liar: Liar,
}

impl crate::system::Hostile<Snapshot> for Hostile {
    fn new(random: Random) -> Self {
        Hostile { liar: Liar::new(random) }
    }

    fn id(&self) -> ClientId {
        self.liar.id
    }

    fn attack(&mut self, cluster: &mut Cluster) {
        let groups = cluster.groups();
        let group = groups[self.liar.random.index(groups.len())];
        match self.liar.random.below(5) {
            0 => self.read_nonsense(group, cluster),
            1 => self.commit_nonsense(group, cluster),
            2 => self.meddle(group, cluster),
            3 => self.talk_like_a_home(group, cluster),
            _ => {
                let own = self.lie_of_a_replica(cluster);
                self.liar.talk_like_a_replica(group, cluster, &own);
            }
        }
    }

    fn leaves_alone(&self, transaction: TransactionId, _: ShardId) -> bool {
        transaction.client != self.liar.id
    }
}

impl Hostile {
    fn time(&mut self, cluster: &Cluster) -> ClockTime {
        match self.liar.random.below(5) {
            0 => ClockTime::default(),
            1 => ClockTime::from_micros(u64::MAX),
            2 => self.liar.clock(cluster, 3_600_000_000),
            3 => self.liar.clock(cluster, 25_000_000),
            _ => self.liar.clock(cluster, 0),
        }
    }

    fn own_key(&mut self, cluster: &Cluster) -> Key {
        let shard = self.liar.shard(cluster);
        self.liar.own_key(shard, cluster)
    }

    /// Begins what it never ends, at snapshots that are far.
    fn read_nonsense(&mut self, group: ShardId, cluster: &mut Cluster) {
        let (transaction, key, seen) = (self.liar.next_id(), self.own_key(cluster), self.time(cluster));
        let after = self.liar.random.chance(0.3).then(|| self.liar.last_id());
        self.liar.send_each(group, cluster, |liar| {
            let range = KeyRange { from: Key::default(), to: None };
            let wanted = match liar.random.below(3) {
                0 => vec![],
                1 => vec![Wanted::Range { range, limit: u32::MAX }],
                _ => vec![Wanted::Key(key.clone())],
            };
            let snapshot = liar.random.chance(0.3).then_some(seen);
            let session = Session { seen, after };
            Message::Read { transaction, session, snapshot, request: 1, wanted }
        });
    }

    /// Commits unsorted, empty and foreign writes, in periods that never were.
    fn commit_nonsense(&mut self, group: ShardId, cluster: &mut Cluster) {
        let (own, keys) = (self.liar.next_id(), [self.own_key(cluster), self.own_key(cluster)]);
        let other = TransactionId { client: ClientId(7), ..own };
        let seen = self.time(cluster);
        self.liar.send_each(group, cluster, |liar| {
            let write = |key: &Key| Write { key: key.clone(), value: Some(Value::from_static(b"hostile")) };
            Message::Commit {
                knows_indexes: false,
                transaction: if liar.random.chance(0.2) { other } else { own },
                session: Session { seen, after: None },
                snapshot: liar.random.chance(0.3).then_some(seen),
                period: Period { life: Life(liar.random.below(2)), number: liar.random.below(3) },
                begun: if liar.random.chance(0.3) { ClockTime::from_micros(u64::MAX) } else { seen },
                writes: keys.iter().take(liar.random.index(3)).map(write).collect(),
                shows: true,
            }
        });
    }

    /// Aborts the transactions of others.
    fn meddle(&mut self, group: ShardId, cluster: &mut Cluster) {
        let Some(victim) = self.liar.find_victim(cluster) else { return };
        let transaction = victim.id;
        self.liar.send_each(group, cluster, |liar| match liar.random.below(2) {
            0 => Message::Abort { transaction },
            _ => Message::Decide {
                transaction,
                outcome: Outcome::Aborted,
                readers: vec![],
                is_forgotten: false,
            },
        });
    }

    /// Says what only machines of homes say.
    fn talk_like_a_home(&mut self, group: ShardId, cluster: &mut Cluster) {
        let (transaction, key, snapshot) = (self.liar.next_id(), self.own_key(cluster), self.time(cluster));
        self.liar.send_each(group, cluster, |liar| match liar.random.below(4) {
            0 => Message::ReadAt {
                life: Life(1),
                request: 1,
                snapshot,
                wanted: vec![Wanted::Key(key.clone())],
            },
            1 => Message::Prepare {
                knows_indexes: false,
                transaction,
                life: Life(1),
                snapshot,
                writes: vec![Write { key: key.clone(), value: None }],
                after: vec![],
                is_local: liar.random.chance(0.5),
            },
            2 => Message::Hello { life: Life(7), wants: true },
            _ => Message::Settled { transactions: vec![transaction] },
        });
    }

    /// Something that only a replica of a shard says.
    fn lie_of_a_replica(&mut self, cluster: &Cluster) -> Message {
        let (transaction, until) = (self.liar.next_id(), self.time(cluster));
        match self.liar.random.below(6) {
            0 => Message::Vote { transaction, life: Life(1), view: View(0), proposal: until },
            1 => Message::Bound { until, clock: until },
            2 => Message::AskGrant { life: Life(9), wanted: until },
            3 => Message::Time { life: Life(1), clock: until },
            4 => Message::Recorded { transaction, outcome: Outcome::Committed(Timestamp::ZERO) },
            _ => Message::Replicate {
                transaction,
                home: Default::default(),
                life: Life(1),
                snapshot: until,
                keys: vec![self.own_key(cluster)],
                holder: Holder { replica: ReplicaIndex(0), life: Life(1), until },
                view: View(1),
            },
        }
    }
}
