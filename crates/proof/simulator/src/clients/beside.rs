//! Transactions beside the workload, in some seeds: calls of procedures that servers are linked with, or that an operator deploys.
//!
//! Each client runs one after the other, of each kind of [`Errands`] that the seed has. The errands say what is called, and judge what comes of it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use quorate_checker::{Level, RecordedTxn};
use quorate_core::command::{Command, Executed, Failure, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{ClockTime, ShardId, Timestamp, TransactionId, Value};
use quorate_granola::Class;

use super::deployments::Deployments;
use super::frozen::FrozenBackups;
use super::leases::Leases;
use super::trade::Trade;
use super::{Clients, in_history};
use crate::backups::Held;
use crate::cluster::{Alarm, Cluster, KEYSPACE};
use crate::system::System;

/// A client that cannot begin an errand now looks again after this time.
const PAUSE: Duration = Duration::from_millis(100);

/// Transactions of one kind, and what must hold of them.
pub(super) trait Errands: Debug {
    /// Their name, in reports.
    fn name(&self) -> &'static str;

    /// The next transaction at the client in this place, by its clock in microseconds; nothing, if none may begin now.
    fn next(&mut self, slot: usize, now: u64) -> Option<Errand>;

    /// Transactions that begin now stand after this in the serial order.
    fn after(&self) -> ClockTime {
        ClockTime::default()
    }

    /// The client in this place is no more, and is told of nothing.
    fn on_buried(&mut self, slot: usize) {
        let _ = slot;
    }

    /// A coordinator has told what has become of the transaction of this number.
    fn on_told(&mut self, number: u64, told: &Result<Executed, NotExecuted>) -> Remark;

    /// For what share of the longest time the client thinks now.
    fn thought(&mut self) -> f64;

    /// True if no transaction will begin any more.
    fn is_done(&self) -> bool;

    /// The violations at the end, given everything that the shards hold, in words.
    fn violations(&self, held: &mut dyn Iterator<Item = &StoredVersion>) -> Vec<String>;
}

/// A transaction.
#[derive(Clone, Debug)]
pub(super) struct Errand {
    /// Its name among its errands.
    pub(super) number: u64,
    /// The request to each shard.
    pub(super) parts: BTreeMap<ShardId, Value>,
    /// Its class.
    pub(super) class: Class,
    /// True if its outcome is asked for until it is known.
    pub(super) insists: bool,
    /// True if a backup begins with it. One that is being taken has come to nothing then.
    pub(super) begins_backup: bool,
}

/// The remarks of errands on an answer.
#[derive(Debug, Default)]
pub(super) struct Remark {
    /// An event that is worth counting.
    pub(super) happened: Option<&'static str>,
    /// The part of it that makes no sense, in words.
    pub(super) nonsense: Option<String>,
    /// The news of the backup that is being taken.
    pub(super) of_backup: Option<OfBackup>,
}

/// How a backup goes on, which stands in the history as a transaction that has read every key.
#[derive(Debug)]
pub(super) enum OfBackup {
    /// It stands there in the serial order.
    Stands(Timestamp),
    /// All of it was read.
    Taken(Held),
    /// It comes to nothing.
    Lost,
}

/// All errands of a seed.
#[derive(Debug, Default)]
pub(super) struct Beside {
    kinds: Vec<Kind>,
    /// The backup that is being taken.
    backup: Option<RecordedTxn>,
}

#[derive(Debug)]
struct Kind {
    errands: Box<dyn Errands>,
    /// The open errand of the client in each place.
    open: Vec<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    id: TransactionId,
    number: u64,
    insists: bool,
    participants: Vec<ShardId>,
    began: ClockTime,
    /// True if its client is gone, or was not told: then its outcome is asked for.
    is_lost: bool,
}

impl Kind {
    fn is_done(&self) -> bool {
        self.errands.is_done() && self.open.iter().all(Option::is_none)
    }
}

impl Beside {
    /// True if all errands are done.
    pub(super) fn is_done(&self) -> bool {
        self.kinds.iter().all(Kind::is_done)
    }

    /// True if this is an errand under way.
    pub(super) fn is_open(&self, id: TransactionId) -> bool {
        let mut open = self.kinds.iter().flat_map(|kind| kind.open.iter().flatten());
        open.any(|open| open.id == id)
    }

    /// The errands under way, in words.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let open = self.kinds.iter().flat_map(|kind| {
            let name = kind.errands.name();
            kind.open.iter().flatten().map(move |open| format!("transaction {} (of {name})", open.id))
        });
        open.collect()
    }

    /// The client in this place is no more. The one that takes its place is to be woken.
    pub(super) fn bury(&mut self, slot: usize) {
        for kind in &mut self.kinds {
            match kind.open.get_mut(slot) {
                Some(Some(open)) if open.insists => open.is_lost = true,
                Some(open) => *open = None,
                None => {}
            }
            kind.errands.on_buried(slot);
        }
    }

    /// Wakes the client in this place, which is new.
    pub(super) fn wake<S: System>(&self, slot: usize, cluster: &mut Cluster<S>) {
        for (of, kind) in self.kinds.iter().enumerate() {
            if slot < kind.open.len() {
                cluster.world.set_alarm(PAUSE, Alarm::Errand { of, slot });
            }
        }
    }
}

impl Clients {
    /// Lets the errands of the scenario begin, at each client.
    pub(super) fn start_errands<S: System>(&mut self, cluster: &mut Cluster<S>) {
        let scenario = &cluster.scenario;
        let (seed, clients, length) = (scenario.seed, scenario.clients, scenario.length);
        let mut kinds: Vec<Box<dyn Errands>> = Vec::new();
        if scenario.trades {
            kinds.push(Box::new(Trade::new(seed, length, cluster.shards())));
        }
        if scenario.leases {
            kinds.push(Box::new(Leases::new(seed, length, cluster.shards())));
        }
        if scenario.deployments {
            kinds.push(Box::new(Deployments::new(seed, length, cluster.shards())));
        }
        if scenario.freezes() {
            kinds.push(Box::new(FrozenBackups::new(seed, length, cluster.shards())));
        }
        let none_open = || (0..clients).map(|_| None).collect();
        self.beside.kinds = kinds.into_iter().map(|errands| Kind { errands, open: none_open() }).collect();
        (0..clients).for_each(|slot| self.beside.wake(slot, cluster));
    }

    /// The alarm of an errand goes off.
    pub fn wake_for_errand<S: System>(&mut self, of: usize, slot: usize, cluster: &mut Cluster<S>) {
        let kind = &mut self.beside.kinds[of];
        if kind.is_done() {
            return;
        }
        let may = self.confined.as_ref().is_none_or(|(slots, _)| slots.contains(&slot));
        if !may || !self.slots[slot].is_alive {
            return cluster.world.set_alarm(PAUSE, Alarm::Errand { of, slot });
        }
        let client = self.slots[slot].client;
        let patience = 10 * cluster.scenario.slow_round_trip() + Duration::from_secs(1);
        let clock = cluster.client_clock(slot);
        match &mut kind.open[slot] {
            Some(open) if open.is_lost => {
                open.is_lost = false;
                let (transaction, participants, not_before) =
                    (open.id, open.participants.clone(), open.began);
                let recall = Command::Recall { transaction, participants, not_before, patience };
                cluster.world.command(client, recall);
            }
            Some(_) => {}
            None => {
                let Some(errand) = kind.errands.next(slot, clock.as_micros()) else {
                    return cluster.world.set_alarm(PAUSE, Alarm::Errand { of, slot });
                };
                let Errand { number, parts, class, insists, begins_backup } = errand;
                self.slots[slot].sequence += S::NUMBERS_APART;
                let (client_id, sequence) = (self.slots[slot].id, self.slots[slot].sequence);
                let id = TransactionId { client: client_id, sequence, attempt: 0 };
                let participants = parts.keys().copied().collect();
                kind.open[slot] =
                    Some(Open { id, number, insists, participants, began: clock, is_lost: false });
                cluster.world.command(client, Command::Observe { timestamp: kind.errands.after() });
                let (transaction, keyspace, not_before) = (id, KEYSPACE, clock);
                let execute = Command::Execute { transaction, keyspace, parts, class, not_before, patience };
                cluster.world.command(client, execute);
                if begins_backup {
                    self.on_backup(id, Some(OfBackup::Lost), cluster);
                    self.beside.backup = Some(self.begin_backup(None, cluster));
                }
            }
        }
    }

    /// A coordinator has answered for a one-round transaction. False if it is no errand.
    pub(super) fn on_errand_told<S: System>(
        &mut self,
        id: TransactionId,
        told: &Result<Executed, NotExecuted>,
        cluster: &mut Cluster<S>,
    ) -> bool {
        let is_its = |open: &Option<Open>| open.as_ref().is_some_and(|open| open.id == id);
        let mut places = self.beside.kinds.iter().enumerate();
        let found = places.find_map(|(of, kind)| Some((of, kind.open.iter().position(is_its)?)));
        let Some((of, slot)) = found else { return false };
        let Kind { errands, open } = &mut self.beside.kinds[of];
        let thought = errands.thought();
        let Some(errand) = &mut open[slot] else { return false };
        let number = errand.number;
        errand.is_lost = errand.insists && matches!(told, Err(NotExecuted::Failed(Failure::Unknown { .. })));
        if !errand.is_lost {
            open[slot] = None;
        }
        let Remark { happened, nonsense, of_backup } = errands.on_told(number, told);
        if let Some(happened) = happened {
            *self.happened.entry(happened).or_default() += 1;
        }
        self.nonsense.extend(nonsense.map(|text| format!("{id} (of {}) {text}", errands.name())));
        if let Err(NotExecuted::NoSuchShard(shard)) = told {
            self.nonsense.push(format!("{id} is for {shard:?}, which does not exist"));
        }
        self.on_backup(id, of_backup, cluster);
        let round_trip = cluster.scenario.round_trip() + Duration::from_millis(1);
        let after = (4 * round_trip).mul_f64(thought);
        cluster.world.set_alarm(after + Duration::from_nanos(1), Alarm::Errand { of, slot });
        true
    }

    /// There is news of the backup that is being taken, by the transaction of this name.
    fn on_backup<S: System>(&mut self, id: TransactionId, news: Option<OfBackup>, cluster: &Cluster<S>) {
        let (Some(news), Some(recorded)) = (news, self.beside.backup) else { return };
        let (held, happened) = match news {
            OfBackup::Stands(timestamp) => {
                return self.record_timestamp::<S>(recorded, in_history::<S>(id, timestamp));
            }
            OfBackup::Taken(held) => (Some(held), "backups taken"),
            OfBackup::Lost => (None, "backups that lost their instant"),
        };
        self.beside.backup = None;
        *self.happened.entry(happened).or_default() += 1;
        self.end_backup(recorded, held, cluster);
    }

    /// The violated conditions of errands, given everything that the shards hold, in words.
    pub fn errand_violations(&self, held: &[&StoredVersion], level: Option<Level>) -> Vec<String> {
        let violations = |kind: &Kind| {
            let name = kind.errands.name();
            let found = kind.errands.violations(&mut held.iter().copied());
            found.into_iter().map(move |text| format!("{name}: {text}"))
        };
        let of_errands = self.beside.kinds.iter().flat_map(violations);
        let beside = self.indexing.violations(held).into_iter().chain(self.expiring.violations(held, level));
        of_errands.chain(beside).collect()
    }
}
