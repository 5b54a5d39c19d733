//! TPC-C beside the workload, in some seeds: its five transactions, as calls of the procedures that servers are linked with.
//!
//! Clients first put the records that there are at the beginning, and then trade. The fate of a transaction is of no interest to them, since
//! the specification's conditions hold either way; only the records at the beginning have to be there once, so it is found out.

use std::collections::{BTreeMap, VecDeque};

use quorate_core::command::{Executed, NotExecuted};
use quorate_core::hosted::StoredVersion;
use quorate_core::{ClockTime, Random, ShardId, Value};
use quorate_granola::Class;
use quorate_serializable_shard::answer::Refusal;
use quorate_serializable_shard::operation::{Batch, Call, Operation, Step};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::procedures::INVALID_ITEM;
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Generator, Scale, Transaction, key};

use super::beside::{Errand, Errands, Remark};

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

/// The numbers of its transactions: each stands for what has to be known of one when it has ended.
const POPULATION: u64 = 0;
const ORDER: u64 = 1;
const ORDER_OF_NO_ITEM: u64 = 2;

/// The transactions of all clients.
#[derive(Debug)]
pub(super) struct Trade {
    random: Random,
    generator: Generator,
    shards: Vec<ShardId>,
    /// The records still to be put before any client trades.
    population: VecDeque<(ShardId, Value)>,
    /// When that was put: clients are told, or their reads may be ordered before.
    populated: ClockTime,
    /// How many transactions are still to be begun.
    left: u64,
}

impl Trade {
    /// The trade in a cluster with these shards.
    pub(super) fn new(seed: u64, length: u64, shards: Vec<ShardId>) -> Self {
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
        let generator = Generator::new(SCALE, constants, MIX);
        let (populated, left) = (ClockTime::from_micros(0), TRANSACTIONS * length);
        Trade { random, generator, shards, population, populated, left }
    }
}

impl Errands for Trade {
    fn name(&self) -> &'static str {
        "TPC-C"
    }

    fn next(&mut self, slot: usize, now: u64) -> Option<Errand> {
        if let Some((shard, put)) = self.population.front() {
            let parts = BTreeMap::from([(*shard, put.clone())]);
            let put = Errand {
                number: POPULATION,
                parts,
                class: Class::Independent,
                insists: true,
                begins_backup: false,
            };
            return (slot == 0).then_some(put);
        }
        self.left = self.left.checked_sub(1)?;
        let home = 1 + slot as u32 % SCALE.warehouses;
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
        let number = if is_invalid { ORDER_OF_NO_ITEM } else { ORDER };
        Some(Errand { number, parts, class, insists: false, begins_backup: false })
    }

    fn after(&self) -> ClockTime {
        self.populated
    }

    fn on_told(&mut self, number: u64, told: &Result<Executed, NotExecuted>) -> Remark {
        let mut answer = Remark::default();
        match told {
            Ok(Executed { timestamp, .. }) | Err(NotExecuted::AnswersLost { timestamp, .. })
                if number == POPULATION =>
            {
                self.population.pop_front();
                self.populated = self.populated.max(ClockTime::from_micros(timestamp.micros));
            }
            Ok(_) | Err(NotExecuted::AnswersLost { .. }) => answer.happened = Some("transaction of TPC-C"),
            Err(NotExecuted::Refused { reason, .. }) => {
                let refusal = Refusal::decode(reason);
                let of_item =
                    matches!(&refusal, Ok(Refusal::Procedure { reason }) if reason.as_ref() == INVALID_ITEM);
                if !of_item || number != ORDER_OF_NO_ITEM {
                    answer.nonsense = Some(format!("was refused: {refusal:?}"));
                }
            }
            Err(NotExecuted::NoSuchShard(_) | NotExecuted::Failed(_) | NotExecuted::Forgotten) => {}
        }
        answer
    }

    fn thought(&mut self) -> f64 {
        self.random.unit()
    }

    fn is_done(&self) -> bool {
        self.population.is_empty() && self.left == 0
    }

    /// The violated conditions of the specification; nothing, if not all was put that there is at the beginning.
    fn violations(&self, held: &mut dyn Iterator<Item = &StoredVersion>) -> Vec<String> {
        if !self.population.is_empty() {
            return Vec::new();
        }
        let pairs = held.filter_map(|(key, _, value)| Some((key.to_vec(), value.as_ref()?.to_vec())));
        quorate_tpcc::violations(&SCALE, pairs.filter(|(key, _)| key::split(key).is_some()))
    }
}

/// Warehouses lie at shards in turn. That other keys lie elsewhere is of no interest to shards.
fn shard_of(warehouse: u32, shards: &[ShardId]) -> ShardId {
    shards[(warehouse as usize - 1) % shards.len()]
}

/// The part of a transaction at each shard that takes part.
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
