//! Warehouses on shards in memory.

use std::collections::BTreeMap;

use quorate_procedure::{Answer, Direction, Pair, Procedure, Stop, Store};
use quorate_tpcc::generator::Mix;
use quorate_tpcc::key::{self, Table};
use quorate_tpcc::population::{self, Items};
use quorate_tpcc::random::{Constants, Source};
use quorate_tpcc::transaction::{Class, Transaction};
use quorate_tpcc::{Generator, Scale, violations};

/// Numbers from a seed: SplitMix64.
pub(crate) struct Seeded(pub(crate) u64);

impl Source for Seeded {
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A shard in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shard {
    pub(crate) pairs: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) is_read_only: bool,
    pub(crate) writes: usize,
}

impl Store for Shard {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.pairs.get(key).cloned())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        if self.is_read_only {
            return Err(Stop::ReadOnly);
        }
        self.writes += 1;
        self.pairs.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        if self.is_read_only {
            return Err(Stop::ReadOnly);
        }
        self.writes += 1;
        self.pairs.remove(key);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        let range =
            self.pairs.range(from.to_vec()..to.to_vec()).map(|(key, value)| (key.clone(), value.clone()));
        Ok(match direction {
            Direction::Ascending => range.take(limit).collect(),
            Direction::Descending => range.rev().take(limit).collect(),
        })
    }
}

pub(crate) const NOW: u64 = 1_000_000;

/// Warehouses, each on a shard.
pub(crate) struct World {
    pub(crate) scale: Scale,
    pub(crate) shards: Vec<Shard>,
    pub(crate) population: Constants,
}

impl World {
    pub(crate) fn new(warehouses: u32, shards: usize) -> Self {
        Self::drawn(Scale { warehouses, customers: 30, items: 200 }, shards, 7)
    }

    pub(crate) fn drawn(scale: Scale, shards: usize, seed: u64) -> Self {
        let warehouses = scale.warehouses;
        let mut random = Seeded(seed);
        let population = Constants::of_population(&mut random);
        let items = Items::draw(&scale, &mut random);
        let mut world = World { scale, shards: vec![Shard::default(); shards], population };
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
        for (shard, local) in &local {
            let shard = &mut self.shards[*shard];
            shard.writes = 0;
            shard.is_read_only = transaction.class() == Class::ReadOnly;
            match procedure.call(shard, &transaction.arguments(local)).expect("nothing stops it") {
                Answer::Done(bytes) => done.push(bytes),
                Answer::Refused(reason) => {
                    assert_eq!(shard.writes, 0, "a refused call has written");
                    refused.push(reason);
                }
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
        let mut random = Seeded(seed);
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
