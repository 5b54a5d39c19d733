//! Warehouses on shards in memory.

use std::collections::BTreeMap;

use quorate_core::Random;
use quorate_procedure::{Answer, Memory, Procedure};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::key::{self, Table};
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::random::Constants;
use quorate_tpcc::transaction::{Class, Transaction};
use quorate_tpcc::{Generator, Scale, violations};

/// Numbers from a seed.
pub(crate) fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.next_u64()
}

pub(crate) const NOW: u64 = 1_000_000;

/// Warehouses, each on a shard.
pub(crate) struct World {
    pub(crate) scale: Scale,
    pub(crate) shards: Vec<Memory>,
    pub(crate) population: Constants,
}

impl World {
    pub(crate) fn new(warehouses: u32, shards: usize) -> Self {
        Self::drawn(Scale { warehouses, customers: 30, items: 200 }, shards, 7)
    }

    pub(crate) fn drawn(scale: Scale, shards: usize, seed: u64) -> Self {
        let warehouses = scale.warehouses;
        let mut random = seeded(seed);
        let population = Constants::of_population(&mut random);
        let items = Items::draw(&scale, &mut random);
        let mut world = World { scale, shards: vec![Memory::default(); shards], population };
        for warehouse in 1..=warehouses {
            let shard = world.shard_of(warehouse);
            let pairs = &mut world.shards[shard].pairs;
            population::warehouse(
                &scale,
                warehouse,
                &items,
                &population,
                NOW,
                &mut random,
                &mut |(key, value)| {
                    assert!(pairs.insert(key, value).is_none(), "a key is given twice");
                },
            );
        }
        world
    }

    pub(crate) fn shard_of(&self, warehouse: u32) -> usize {
        warehouse as usize % self.shards.len()
    }

    /// Runs a transaction at each shard that takes part. A refusal keeps nothing; all refuse or none.
    pub(crate) fn run(
        &mut self,
        procedure: &dyn Procedure,
        transaction: &Transaction,
    ) -> Result<Vec<Vec<u8>>, Vec<u8>> {
        let mut local: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for warehouse in transaction.warehouses() {
            local.entry(self.shard_of(warehouse)).or_default().push(warehouse);
        }
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        let is_read_only = transaction.class() == Class::ReadOnly;
        for (shard, local) in &local {
            let arguments = transaction.arguments(local);
            match self.shards[*shard].call(procedure, &arguments, is_read_only).expect("nothing stops it") {
                Answer::Done(bytes) => done.push(bytes),
                Answer::Refused(reason) => refused.push(reason),
            }
        }
        assert!(done.is_empty() || refused.is_empty(), "not all have refused: {transaction:?}");
        refused.pop().map_or(Ok(done), Err)
    }

    pub(crate) fn run_many(
        &mut self,
        procedure: &dyn Procedure,
        count: u64,
        seed: u64,
    ) -> BTreeMap<&'static str, u64> {
        let mut random = seeded(seed);
        let constants = Constants::of_run(&mut random, &self.population);
        let generator = Generator::new(self.scale, constants, Mix::default());
        let mut kinds = BTreeMap::new();
        for at in 0..count {
            let transaction = generator.next(&mut random, NOW + at);
            let result = self.run(procedure, &transaction);
            let kind = if result.is_ok() { transaction.name() } else { "refused" };
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }

    pub(crate) fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.shards.iter().flat_map(|shard| shard.pairs.clone()).collect()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        violations(&self.scale, self.all())
    }

    /// Changes a row of a table, or takes it away.
    pub(crate) fn tamper(&mut self, table: Table, change: impl FnOnce(&mut Vec<u8>) -> bool) {
        let is_of = |key: &&Vec<u8>| key::split(key).is_some_and(|(_, of, _)| of == table);
        let shard = &mut self.shards[0].pairs;
        let key = shard.keys().rfind(is_of).expect("there is such a row").clone();
        let row = shard.get_mut(&key).unwrap();
        if !change(row) {
            shard.remove(&key);
        }
    }
}
