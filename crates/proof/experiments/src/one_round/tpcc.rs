//! TPC-C over one-round transactions (section 6.2): a warehouse in each repository, and all items in each of them.

use std::collections::BTreeMap;

use quorate_core::{Random, Value};
use quorate_granola::Class;
use quorate_procedure::Procedure;
use quorate_serializable_shard::{Batch, Call, Library, Operation, Step};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::random::Constants;
use quorate_tpcc::{Generator, Scale, Tpcc, Transaction as Order};

use super::deployment::shard;
use super::rounds::{Transaction, held};
use super::world::{Application, OneRound};
use crate::deployment::Deployment;
use crate::load::{Measured, Window, run_to_rest};

/// The procedures of TPC-C.
#[derive(Clone, Copy, Debug)]
pub enum Linked {}

/// The name that they are linked under.
const NAME: &str = "tpcc";

impl Library for Linked {
    type Module = quorate_serializable_shard::library::NoModule;

    fn find(name: &str) -> Option<&'static (dyn Procedure + Sync)> {
        (name == NAME).then_some(&Tpcc)
    }

    fn compile(_: &[u8]) -> Result<Self::Module, String> {
        Err("no procedures are deployed here".to_owned())
    }

    fn failure(_: &Self::Module) -> Option<String> {
        None
    }
}

/// How long a server takes to run each, in nanoseconds, as `cargo run --release -p quorate-experiments --example tpcc_costs` has
/// measured.
const COSTS: [(&str, usize); 5] = [
    ("new-order", 35_900),
    ("payment", 7_800),
    ("order-status", 13_400),
    ("delivery", 225_000),
    ("stock-level", 118_000),
];

/// How much longer they take where they lock: what is prepared, held and then committed, as a share of running it. Measured by
/// the same command.
pub const LOCK_OVERHEAD: f64 = 0.28;

/// How much longer they take where something else is locked: no more than can be measured, by the same command.
pub const LOCK_CHECKS: f64 = 0.0;

/// Writing one key of the population.
const PUT_NS: usize = 500;

/// The mix over so many warehouses.
#[derive(Clone, Debug)]
pub struct Trade {
    scale: Scale,
    population: Constants,
    generator: Generator,
    kinds: Kinds,
    seed: u64,
    /// Orders of a run are numbered by the time at which they were drawn.
    now: u64,
}

/// Which transactions are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kinds {
    /// The specification's mix.
    All,
    /// New orders alone, of which this share takes from another warehouse.
    NewOrders {
        /// The share.
        distributed: f64,
    },
}

/// A repository is smaller than the specification's warehouse, so that it is written quickly.
fn scale(warehouses: usize) -> Scale {
    Scale { warehouses: warehouses as u32, customers: 60, items: 500 }
}

impl Trade {
    /// Transactions over so many warehouses.
    pub fn new(warehouses: usize, kinds: Kinds, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut bits = || random.next_u64();
        let population = Constants::of_population(&mut bits);
        let constants = Constants::of_run(&mut bits, &population);
        let scale = scale(warehouses);
        let mix = match kinds {
            Kinds::All => Mix::default(),
            // A new order is distributed if one of ten lines is, on average.
            Kinds::NewOrders { .. } => Mix { percents: [0, 0, 0, 0], remote_lines: 0, ..Mix::default() },
        };
        let generator = Generator::new(scale, constants, mix);
        Trade { scale, population, generator, kinds, seed, now: 1 }
    }

    /// The parts of a transaction, one at each repository that takes part.
    pub fn parts(order: &Order) -> Transaction {
        let part = |warehouse: u32| {
            let arguments = Value::from(order.arguments(&[warehouse]));
            let call = Call { name: NAME.to_owned(), version: 0, arguments, declared: None };
            (shard(warehouse as usize - 1), Operation::Call(call).encode())
        };
        let class = match order.class() {
            quorate_tpcc::Class::ReadOnly => Class::ReadOnly,
            quorate_tpcc::Class::Independent => Class::Independent,
        };
        let parts: BTreeMap<_, _> = order.warehouses().into_iter().map(part).collect();
        Transaction { parts, class, kind: order.name() }
    }
}

/// Measures it, and sees to it that all repositories hold together what the specification's consistency conditions say.
///
/// # Panics
/// If they do not.
pub fn run(deployment: &Deployment<OneRound<Trade>>, seed: u64, window: Window) -> Measured {
    let (measured, world) = run_to_rest(deployment, seed, window);
    let violations = quorate_tpcc::violations(&deployment.work.scale, held(&world));
    assert!(violations.is_empty(), "seed {seed}: {violations:#?}");
    measured
}

impl Application for Trade {
    type Library = Linked;

    fn nanoseconds(operation: &Value) -> usize {
        match Operation::decode(operation) {
            Ok(Operation::Call(call)) => {
                let decoded = Order::decode(&call.arguments);
                let of = |order: &Order| COSTS.iter().find(|(name, _)| *name == order.name());
                decoded.and_then(|(_, order)| of(&order).map(|(_, cost)| *cost)).unwrap_or(PUT_NS)
            }
            Ok(Operation::Batch(batch)) => PUT_NS * batch.steps.len(),
            Ok(
                Operation::Deploy(_)
                | Operation::Remove(_)
                | Operation::Infer(_)
                | Operation::Freeze(_)
                | Operation::ReadFrozen(_),
            )
            | Err(_) => PUT_NS,
        }
    }

    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction {
        self.now += 1;
        let home = 1 + (session as u32 % self.scale.warehouses);
        let mut order = self.generator.next_at(&mut || random.next_u64(), home, self.now);
        if let (Kinds::NewOrders { distributed }, Order::NewOrder(new)) = (self.kinds, &mut order)
            && self.scale.warehouses > 1
            && random.chance(distributed)
        {
            let other = 1 + home % self.scale.warehouses;
            let line = random.index(new.lines.len());
            new.lines[line].supplier = other;
        }
        Self::parts(&order)
    }

    fn population(&self) -> Vec<Transaction> {
        const KEYS: usize = 500;
        let mut random = Random::new(self.seed);
        let mut bits = || random.next_u64();
        let items = Items::draw(&self.scale, &mut bits);
        let mut all = Vec::new();
        for number in 1..=self.scale.warehouses {
            let mut steps = Vec::new();
            population::warehouse(
                &self.scale,
                number,
                &items,
                &self.population,
                1,
                &mut bits,
                &mut |(key, value)| steps.push(Step::Put { key: key.as_slice().into(), value: value.into() }),
            );
            for steps in steps.chunks(KEYS) {
                let batch = Batch { conditions: Vec::new(), steps: steps.to_vec() };
                let operation = Operation::Batch(batch).encode();
                let parts = BTreeMap::from([(shard(number as usize - 1), operation)]);
                all.push(Transaction { parts, class: Class::Independent, kind: "population" });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::one_round::deployment::{Coordination, Labour};

    #[test]
    fn the_conditions_hold_in_each_system() {
        for coordination in Coordination::COMPARED {
            let plain = Deployment::of_repositories(coordination, 3, Trade::new(3, Kinds::All, 1));
            let labour =
                Labour { lock_overhead: LOCK_OVERHEAD, single_overhead: LOCK_CHECKS, ..Labour::PLAIN };
            let deployment = Deployment { costs: labour.costs(), sessions_per_client: 4, ..plain };
            let measured = run(&deployment, 1, Window::millis(100, 300));
            assert_eq!(measured.unknown, 0, "{}", coordination.name());
            assert!(measured.committed > 300, "{}: {}", coordination.name(), measured.committed);
            let shared = measured.took.iter().filter(|took| took.parts > 1).count();
            let share = shared as f64 / measured.committed as f64;
            assert!((0.05..0.18).contains(&share), "{share} of all are distributed");
        }
    }
}
