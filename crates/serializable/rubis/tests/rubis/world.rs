//! Markets on shards in memory.

use std::collections::BTreeMap;

use quorate_core::Random;
use quorate_procedure::{Answer, Memory, Procedure, Stop};
use quorate_rubis::key::{self, Table};
use quorate_rubis::{Generator, Interaction, Mix, Scale, population, violations};

/// Numbers from a seed.
pub(crate) fn seeded(seed: u64) -> impl FnMut() -> u64 {
    let mut random = Random::new(seed);
    move || random.next_u64()
}

pub(crate) const NOW: u64 = 1_000_000;

pub(crate) const SMALL: Scale = Scale { markets: 3, users: 40, items: 30, bids_max: 6 };

/// Markets, each on a shard.
pub(crate) struct World {
    pub(crate) scale: Scale,
    pub(crate) shards: Vec<Memory>,
}

impl World {
    pub(crate) fn new(scale: Scale, shards: usize, seed: u64) -> Self {
        let mut random = seeded(seed);
        let mut world = World { scale, shards: vec![Memory::default(); shards] };
        for market in 1..=scale.markets {
            let pairs = &mut world.shards[market as usize % shards].pairs;
            population::market(&scale, market, NOW, &mut random, &mut |(key, value)| {
                assert!(pairs.insert(key, value).is_none(), "a key is given twice");
            });
        }
        world
    }

    /// Runs an interaction at each shard that takes part. A refusal keeps nothing.
    pub(crate) fn run(
        &mut self,
        procedure: &dyn Procedure,
        interaction: &Interaction,
    ) -> Result<Vec<Vec<u8>>, Vec<u8>> {
        let mut local: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for market in interaction.markets() {
            local.entry(market as usize % self.shards.len()).or_default().push(market);
        }
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        let is_read_only = !interaction.kind().is_update();
        for (shard, local) in &local {
            let arguments = interaction.arguments(local);
            match self.shards[*shard].call(procedure, &arguments, is_read_only).expect("nothing stops it") {
                Answer::Done(bytes) => done.push(bytes),
                Answer::Refused(reason) => refused.push(reason),
            }
        }
        assert!(refused.is_empty() || is_read_only || done.is_empty(), "{interaction:?}");
        refused.pop().map_or(Ok(done), Err)
    }

    pub(crate) fn run_many(
        &mut self,
        procedure: &dyn Procedure,
        mix: Mix,
        count: u64,
        seed: u64,
    ) -> BTreeMap<&'static str, u64> {
        let mut random = seeded(seed);
        let generator = Generator::new(self.scale, mix);
        let mut kinds = BTreeMap::new();
        for at in 0..count {
            let home = 1 + (at % u64::from(self.scale.markets)) as u32;
            let interaction = generator.next_at(&mut random, home, NOW + at);
            let result = self.run(procedure, &interaction);
            assert!(result.is_ok(), "{interaction:?}: {result:?}");
            *kinds.entry(interaction.kind().name()).or_default() += 1;
        }
        kinds
    }

    pub(crate) fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.shards.iter().flat_map(|shard| shard.pairs.clone()).collect()
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        violations(&self.scale, self.all())
    }

    /// Changes the last row of a table, or takes it away.
    pub(crate) fn tamper(&mut self, table: Table, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
        let is_of = |key: &&Vec<u8>| key::split(key).is_some_and(|(_, of, _)| of == table);
        let shard = &mut self.shards[0].pairs;
        let key = shard.keys().rfind(is_of).expect("there is such a row").clone();
        let row = shard.remove(&key).expect("it is there");
        if let Some(row) = change(row) {
            shard.insert(key, row);
        }
    }
}

/// A row as it was stored.
pub(crate) fn row<R>(row: Result<R, Stop>) -> R {
    row.expect("it is such a row")
}
