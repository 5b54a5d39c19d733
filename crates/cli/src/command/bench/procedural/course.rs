//! The course of a workload of procedures: populate, measure, judge.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use quorate::{Call, Database, Keyspace, ShardId};
use quorate_load::{Costs, read_pairs, write_pairs};
use quorate_procedure::Pair;

use super::{Common, Counts, Places, Seating, Setting, Source, measure, now};
use crate::command::bench::social::Site;
use crate::exit::Failure;
use crate::output::Progress;

/// The parts that all tables of a workload are divided into, each of which lies in one shard: warehouses, or markets.
#[derive(Clone, Copy, Debug)]
pub(in crate::command::bench) struct Homes {
    /// The word for one of them.
    pub(in crate::command::bench) name: &'static str,
    /// All keys of one: from the first up to, and without, the second.
    pub(in crate::command::bench) keys: fn(u32) -> (Vec<u8>, Vec<u8>),
}

impl Homes {
    /// Divides homes among the shards of a keyspace in which they lie.
    pub(in crate::command::bench) fn by_shard(self, homes: &[u32], keyspace: &Keyspace) -> Vec<Vec<u32>> {
        let mut local: BTreeMap<ShardId, Vec<u32>> = BTreeMap::new();
        let definition = keyspace.definition();
        for home in homes {
            local.entry(definition.shard_of(&(self.keys)(*home).0).id).or_default().push(*home);
        }
        local.into_values().collect()
    }

    /// Makes a call at each shard, with arguments for those homes that lie there.
    pub(in crate::command::bench) fn call_at(
        self,
        call: Call,
        local: &[Vec<u32>],
        arguments: impl Fn(&[u32]) -> Vec<u8>,
    ) -> Call {
        local.iter().fold(call, |call, homes| call.at_with((self.keys)(homes[0]).0, arguments(homes)))
    }
}

/// The course of a run over a new keyspace.
pub(in crate::command::bench) struct Course<'a> {
    pub(in crate::command::bench) workload: &'static str,
    pub(in crate::command::bench) homes: Homes,
    /// The homes are numbered from one up to this.
    pub(in crate::command::bench) count: u32,
    /// As long as an average transaction takes with all times of its user, in milliseconds.
    pub(in crate::command::bench) cycle_ms: u32,
    pub(in crate::command::bench) seating: &'a Seating,
    pub(in crate::command::bench) db: &'a Database,
    pub(in crate::command::bench) keyspace: &'a Keyspace,
    /// None if nothing is said of sites.
    pub(in crate::command::bench) sites: &'a [Site],
    pub(in crate::command::bench) progress: &'a Progress,
}

impl Course<'_> {
    fn numbers(&self) -> RangeInclusive<u32> {
        1..=self.count
    }

    /// Writes everything that each home holds at first. `draw` gives the pairs of a home, at a time in microseconds.
    pub(in crate::command::bench) async fn populate(
        &self,
        mut draw: impl FnMut(u32, u64, &mut dyn FnMut(Pair)),
    ) -> Result<Places, Failure> {
        let first_key = |number: u32| (number, (self.homes.keys)(number).0);
        let places = Places::new(self.keyspace, self.sites, self.numbers().map(first_key)).await?;
        for number in self.numbers() {
            self.progress.now(format!("populating {} {number} of {}", self.homes.name, self.count));
            let mut pairs = Vec::new();
            draw(number, now(), &mut |pair| pairs.push(pair));
            write_pairs(places.of(number), pairs).await?;
        }
        Ok(places)
    }

    /// Runs transactions, then reads everything and judges it. `procedures` says how they are run; `violations` finds what must not hold.
    pub(in crate::command::bench) async fn measure(
        &self,
        places: &Places,
        source: impl Source,
        procedures: &'static str,
        violations: impl FnOnce(Vec<Pair>) -> Vec<String>,
    ) -> Result<(Common, Counts, Costs), Failure> {
        let connections: Vec<&Database> = self.sites.iter().map(Site::db).collect();
        let (counts, costs) = measure(
            Arc::new(source),
            places.seats(self.seating),
            self.seating.part_of(self.cycle_ms),
            (self.db, &connections),
            self.seating.seconds,
            self.progress,
        )
        .await?;
        self.progress.now("reading everything, to judge it");
        let mut pairs = Vec::new();
        for number in self.numbers() {
            pairs.extend(read_pairs(places.of(number), (self.homes.keys)(number)).await?);
        }
        let judged = (pairs.len(), violations(pairs));
        let sites = self.sites.len().max(1);
        let setting = Setting { workload: self.workload, procedures, seating: self.seating, sites };
        let common = counts.report(&setting, self.keyspace, costs, judged);
        common.say_violations(self.progress);
        Ok((common, counts, costs))
    }
}
