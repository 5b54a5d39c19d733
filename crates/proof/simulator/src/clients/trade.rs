//! TPC-C beside the workload, in some seeds: its five transactions, as calls of the procedures that servers are linked with.
//!
//! Clients first put what there is at the beginning, and then trade. What became of a transaction is of no interest to them, since
//! the specification's conditions hold either way; only what there is at the beginning has to be there once, so it is found out.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::command::{Command, Executed, Failure, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{ClockTime, Random, ShardId, TransactionId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::answer::Refusal;
use quorate_serializable_shard::operation::{Batch, Call, Operation, Step};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::procedures::INVALID_ITEM;
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Generator, Scale, Transaction, key};

use super::Clients;
use crate::cluster::{Alarm, Cluster, KEYSPACE};
use crate::system::System;

/// Small, because replicas hand it to each other in pages of a few hundred bytes.
const SCALE: Scale = Scale { warehouses: 2, customers: 5, items: 20 };

/// More of it concerns two warehouses than in the specification's mix, so that shards have to agree.
const MIX: Mix = Mix { percents: [40, 4, 6, 4], remote_lines: 8, remote_payments: 40, invalid_items: 4 };

/// So many keys are put at once.
const KEYS_AT_ONCE: usize = 100;

/// So many transactions are begun in a seed of the usual length.
const TRANSACTIONS: u64 = 150;

/// So many of the transactions on whose outcome all shards decide alike are executed as if they did not.
const COORDINATED_PROBABILITY: f64 = 0.2;

/// A trader that cannot begin now looks again after this time.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// The transactions of all traders.
#[derive(Debug)]
pub(super) struct Trade {
    random: Random,
    generator: Generator,
    shards: Vec<ShardId>,
    /// What is still to be put before anybody trades.
    population: VecDeque<(ShardId, Value)>,
    /// When that was put: traders are told, or their reads may be ordered before.
    populated: ClockTime,
    /// How many transactions are still to be begun.
    left: u64,
    traders: Vec<Trader>,
}

/// One transaction after the other, at the client whose place has its number.
#[derive(Debug)]
struct Trader {
    /// What it waits for.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    id: TransactionId,
    participants: Vec<ShardId>,
    began: ClockTime,
    what: What,
    /// True if its client is gone, or was not told: then somebody is to ask what has become of it.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// A part of what there is at the beginning.
    Population,
    /// One of the five transactions, and whether it names an item that does not exist.
    Order { is_invalid: bool },
}

impl Trade {
    /// The traders of a cluster with these shards.
    pub(super) fn new(seed: u64, clients: usize, length: u64, shards: Vec<ShardId>) -> Self {
        let mut random = Random::stream(seed, "trade");
        let mut bits = || random.next_u64();
        let of_population = Constants::of_population(&mut bits);
        let constants = Constants::of_run(&mut bits, &of_population);
        let items = Items::draw(&SCALE, &mut bits);
        let mut population = VecDeque::new();
        for number in 1..=SCALE.warehouses {
            let mut steps = Vec::new();
            population::warehouse(&SCALE, number, &items, &of_population, 1, &mut bits, &mut |(
                key,
                value,
            )| {
                steps.push(Step::Put { key: key.as_slice().into(), value: value.into() });
            });
            for steps in steps.chunks(KEYS_AT_ONCE) {
                let batch = Batch { conditions: Vec::new(), steps: steps.to_vec() };
                population.push_back((shard_of(number, &shards), Operation::Batch(batch).encode()));
            }
        }
        let traders = (0..clients).map(|_| Trader { open: None }).collect();
        let generator = Generator::new(SCALE, constants, MIX);
        let (populated, left) = (ClockTime::from_micros(0), TRANSACTIONS * length);
        Trade { random, generator, shards, population, populated, left, traders }
    }

    /// True if somebody trades at the client in this place.
    pub(super) fn has(&self, slot: usize) -> bool {
        slot < self.traders.len()
    }

    /// True if everything has been put and all transactions have ended.
    pub(super) fn is_done(&self) -> bool {
        self.population.is_empty()
            && self.left == 0
            && self.traders.iter().all(|trader| trader.open.is_none())
    }

    /// What is under way, in words.
    pub(super) fn unfinished(&self) -> Vec<String> {
        let open = self.traders.iter().filter_map(|trader| trader.open.as_ref());
        open.map(|open| format!("transaction {} (of TPC-C: {:?})", open.id, open.what)).collect()
    }

    /// The client in this place is no more. Whoever takes its place is to be woken.
    pub(super) fn bury(&mut self, slot: usize) {
        match self.traders.get_mut(slot).map(|trader| &mut trader.open) {
            Some(Some(open)) if open.what == What::Population => open.is_lost = true,
            Some(open) => *open = None,
            None => {}
        }
    }

    /// What is violated of the specification's conditions, in words; nothing, if they were not all put.
    pub(super) fn violations<'a>(&self, held: impl Iterator<Item = &'a StoredVersion>) -> Vec<String> {
        if !self.population.is_empty() {
            return Vec::new();
        }
        let pairs = held.filter_map(|(key, _, value)| Some((key.to_vec(), value.as_ref()?.to_vec())));
        quorate_tpcc::violations(&SCALE, pairs.filter(|(key, _)| key::split(key).is_some()))
    }

    /// What comes next; nothing, if nothing may now.
    fn next(&mut self, trader: usize, now: u64) -> Option<(BTreeMap<ShardId, Value>, Class, What)> {
        if let Some((shard, put)) = self.population.front() {
            let parts = BTreeMap::from([(*shard, put.clone())]);
            return (trader == 0).then_some((parts, Class::Independent, What::Population));
        }
        self.left = self.left.checked_sub(1)?;
        let home = 1 + trader as u32 % SCALE.warehouses;
        let order = self.generator.next_at(&mut || self.random.next_u64(), home, now);
        let is_invalid = matches!(&order, Transaction::NewOrder(new)
            if new.lines.iter().any(|line| line.item > SCALE.items));
        let parts = parts_of(&order, &self.shards);
        let class = match order.class() {
            quorate_tpcc::Class::ReadOnly => Class::ReadOnly,
            quorate_tpcc::Class::Independent if self.random.chance(COORDINATED_PROBABILITY) => {
                Class::Coordinated
            }
            quorate_tpcc::Class::Independent => Class::Independent,
        };
        let class = if parts.len() == 1 && class == Class::Coordinated { Class::Independent } else { class };
        Some((parts, class, What::Order { is_invalid }))
    }
}

/// Warehouses lie at shards in turn. That other keys lie elsewhere is of no interest to shards.
fn shard_of(warehouse: u32, shards: &[ShardId]) -> ShardId {
    shards[(warehouse as usize - 1) % shards.len()]
}

/// What a transaction does at each shard that takes part.
fn parts_of(order: &Transaction, shards: &[ShardId]) -> BTreeMap<ShardId, Value> {
    let mut local: BTreeMap<ShardId, Vec<u32>> = BTreeMap::new();
    for warehouse in order.warehouses() {
        local.entry(shard_of(warehouse, shards)).or_default().push(warehouse);
    }
    let call = |(shard, warehouses): (ShardId, Vec<u32>)| {
        let name = format!("tpcc/{}", order.name());
        let arguments = Value::from(order.arguments(&warehouses));
        (shard, Operation::Call(Call { name, version: 0, arguments, declared: None }).encode())
    };
    local.into_iter().map(call).collect()
}

impl Clients {
    /// Lets traders begin, each at its client.
    pub(super) fn start_trade<S: System>(&mut self, cluster: &mut Cluster<S>) {
        let clients = cluster.scenario.clients;
        let trade = Trade::new(cluster.scenario.seed, clients, cluster.scenario.length, cluster.shards());
        self.trade = Some(trade);
        for trader in 0..clients {
            cluster.world.set_alarm(PAUSE, Alarm::Trader(trader));
        }
    }

    /// A trader's alarm goes off.
    pub fn wake_trader<S: System>(&mut self, slot: usize, cluster: &mut Cluster<S>) {
        let Some(trade) = self.trade.as_mut().filter(|trade| !trade.is_done()) else { return };
        let may = self.confined.as_ref().is_none_or(|(slots, _)| slots.contains(&slot));
        if !may || !self.slots[slot].is_alive {
            return cluster.world.set_alarm(PAUSE, Alarm::Trader(slot));
        }
        let client = self.slots[slot].client;
        let patience = 10 * cluster.scenario.slow_round_trip() + Duration::from_secs(1);
        let clock = cluster.client_clock(slot);
        match &mut trade.traders[slot].open {
            Some(open) if open.is_lost => {
                open.is_lost = false;
                let (transaction, participants, not_before) =
                    (open.id, open.participants.clone(), open.began);
                cluster
                    .world
                    .command(client, Command::Recall { transaction, participants, not_before, patience });
            }
            Some(_) => {}
            None => {
                let Some((parts, class, what)) = trade.next(slot, clock.as_micros()) else {
                    return cluster.world.set_alarm(PAUSE, Alarm::Trader(slot));
                };
                self.slots[slot].sequence += S::NUMBERS_APART;
                let id = TransactionId {
                    client: self.slots[slot].id,
                    sequence: self.slots[slot].sequence,
                    attempt: 0,
                };
                let participants = parts.keys().copied().collect();
                trade.traders[slot].open =
                    Some(Open { id, participants, began: clock, what, is_lost: false });
                cluster.world.command(client, Command::Observe { timestamp: trade.populated });
                let (transaction, keyspace, not_before) = (id, KEYSPACE, clock);
                let execute = Command::Execute { transaction, keyspace, parts, class, not_before, patience };
                cluster.world.command(client, execute);
            }
        }
    }

    /// A coordinator has answered for a one-round transaction. False if it is no trader's.
    pub(super) fn on_traded<S: System>(
        &mut self,
        id: TransactionId,
        told: &Result<Executed, NotExecuted>,
        cluster: &mut Cluster<S>,
    ) -> bool {
        let Some(trade) = &mut self.trade else { return false };
        let is_its = |trader: &Trader| trader.open.as_ref().is_some_and(|open| open.id == id);
        let Some(trader) = trade.traders.iter().position(is_its) else { return false };
        let Some(open) = &mut trade.traders[trader].open else { return false };
        let (what, thought) = (open.what, trade.random.unit());
        open.is_lost =
            what == What::Population && matches!(told, Err(NotExecuted::Failed(Failure::Unknown { .. })));
        if !open.is_lost {
            trade.traders[trader].open = None;
        }
        match told {
            Ok(Executed { timestamp, .. }) | Err(NotExecuted::AnswersLost { timestamp, .. })
                if what == What::Population =>
            {
                trade.population.pop_front();
                trade.populated = trade.populated.max(ClockTime::from_micros(timestamp.micros));
            }
            Ok(_) | Err(NotExecuted::AnswersLost { .. }) => {
                *self.happened.entry("transaction of TPC-C").or_default() += 1;
            }
            Err(NotExecuted::Refused { reason, .. }) => {
                let refusal = Refusal::decode(reason);
                let of_item =
                    matches!(&refusal, Ok(Refusal::Procedure { reason }) if reason.as_ref() == INVALID_ITEM);
                if !of_item || what != (What::Order { is_invalid: true }) {
                    self.nonsense.push(format!("{id} (of TPC-C: {what:?}) was refused: {refusal:?}"));
                }
            }
            Err(NotExecuted::NoSuchShard(shard)) => {
                self.nonsense.push(format!("{id} is for {shard:?}, which does not exist"));
            }
            Err(NotExecuted::Failed(_) | NotExecuted::Forgotten) => {}
        }
        let round_trip = cluster.scenario.round_trip() + Duration::from_millis(1);
        let after = (4 * round_trip).mul_f64(thought);
        cluster.world.set_alarm(after + Duration::from_nanos(1), Alarm::Trader(trader));
        true
    }
}
