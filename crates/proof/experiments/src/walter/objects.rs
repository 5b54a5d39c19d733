//! Transactions of single objects, as the paper's micro-benchmarks run them: objects of 100 bytes, whose preferred sites are even (Walter
//! paper, sections 8.2 to 8.5).

use std::sync::Arc;

use quorate_core::topology::{container_of, shard_position};
use quorate_core::{Key, Random};
use quorate_workloads::operation::{Element, Operation, Plan};
use quorate_workloads::social::draw_of;
use quorate_workloads::{Parameters, WorkloadKind};

use super::{COMMIT, REMOTE_APPLY, REQUEST};
use crate::interactive::Transactions;

/// The operations of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Reads so many objects, one after the other.
    Reads(usize),
    /// Writes so many objects of its own site.
    Writes(usize),
    /// Writes two objects of its own site, and adds to a counting set of another one.
    WritesAndSet,
    /// Writes one object of each of so many sites, its own among them: in turn, so that no two transactions that meet write the same.
    Across(usize),
}

impl Shape {
    fn name(self) -> &'static str {
        match self {
            Shape::Reads(_) => "read",
            Shape::Writes(_) => "write",
            Shape::WritesAndSet => "write and set",
            Shape::Across(_) => "write across sites",
        }
    }

    /// How many requests it makes: what it updates goes along with its commit.
    fn requests(self) -> usize {
        if let Shape::Reads(objects) = self { objects } else { 1 }
    }

    /// How many it makes where each update is a request, and the commit goes along with the last one if it is the only kind.
    fn requests_of_the_paper(self) -> usize {
        match self {
            Shape::Reads(objects) | Shape::Writes(objects) | Shape::Across(objects) => objects,
            Shape::WritesAndSet => 4,
        }
    }

    /// How many objects it updates.
    pub fn updates(self) -> usize {
        match self {
            Shape::Reads(_) => 0,
            Shape::Writes(objects) | Shape::Across(objects) => objects,
            Shape::WritesAndSet => 3,
        }
    }
}

/// Transactions of several shapes, each as often as its share says.
#[derive(Clone, Debug)]
pub struct Mix(Vec<(Shape, u64)>);

impl Mix {
    /// All of them alike.
    pub fn of(shape: Shape) -> Self {
        Mix(vec![(shape, 1)])
    }

    /// Some of each.
    pub fn shares(shares: &[(Shape, u64)]) -> Self {
        Mix(shares.to_vec())
    }

    fn mean(&self, of: impl Fn(Shape) -> f64) -> f64 {
        let sum: u64 = self.0.iter().map(|(_, share)| share).sum();
        self.0.iter().map(|(shape, share)| of(*shape) * *share as f64).sum::<f64>() / sum as f64
    }

    /// How many objects a transaction updates that updates any, on average.
    pub fn updates(&self) -> f64 {
        self.mean(|shape| shape.updates() as f64) / self.writing().max(f64::MIN_POSITIVE)
    }

    /// The share of transactions that update anything.
    pub fn writing(&self) -> f64 {
        self.mean(|shape| if shape.updates() > 0 { 1.0 } else { 0.0 })
    }

    /// The time that a transaction takes of all servers together, by arithmetic, in microseconds.
    fn work_micros(&self, sites: usize, requests: impl Fn(Shape) -> usize) -> f64 {
        let commit = COMMIT + REMOTE_APPLY * (sites - 1) as f64;
        self.mean(|shape| REQUEST * requests(shape) as f64 + if shape.updates() > 0 { commit } else { 0.0 })
    }

    /// Thousands a second that the processors of so many sites can do, by arithmetic.
    pub fn expected(&self, sites: usize) -> f64 {
        sites as f64 * 1_000.0 / self.work_micros(sites, Shape::requests)
    }

    /// The same if each update is a request of its own.
    pub fn expected_of_the_paper(&self, sites: usize) -> f64 {
        sites as f64 * 1_000.0 / self.work_micros(sites, Shape::requests_of_the_paper)
    }

    /// As transactions on so many objects, by so many sessions at each site.
    pub fn transactions(&self, sites: usize, sessions: usize) -> Transactions {
        let objects = Objects::new(sites, OBJECTS, self.clone());
        Transactions {
            reads_at_once: false,
            objects: Some(objects),
            sessions_per_client: sessions,
            // Its transactions are never drawn.
            ..Transactions::new(Parameters::new(WorkloadKind::Rmw))
        }
    }
}

/// How many objects there are (section 8.2), and how many sets.
const OBJECTS: usize = 50_000;

/// The bytes of an object.
const OBJECT_BYTES: usize = 100;

/// Transactions of single objects.
#[derive(Clone, Debug)]
pub struct Objects {
    /// The objects of each site.
    homes: Arc<Vec<Vec<Key>>>,
    mix: Mix,
    /// How many transactions have been drawn.
    drawn: usize,
    /// Written values have at least this many bytes.
    pub value_bytes: usize,
}

impl Objects {
    /// So many objects, whose preferred sites are where the hash of their names says.
    fn new(sites: usize, objects: usize, mix: Mix) -> Self {
        let mut homes = vec![Vec::new(); sites];
        for number in 0..objects {
            let key = Key::from(format!("o{number:05}"));
            homes[shard_position(container_of(&key), sites)].push(key);
        }
        Objects { homes: Arc::new(homes), mix, drawn: 0, value_bytes: OBJECT_BYTES }
    }

    /// The next transaction of a client.
    pub fn draw(&mut self, client: usize, random: &mut Random) -> Plan {
        self.drawn += 1;
        let sites = self.homes.len();
        let here = client % sites;
        let shape = draw_of(&self.mix.0, random);
        let operations = match shape {
            Shape::Reads(objects) => self.some(here, objects, random).map(Operation::Get).collect(),
            Shape::Writes(objects) => self.some(here, objects, random).map(Operation::Put).collect(),
            Shape::WritesAndSet => {
                let elsewhere = (here + 1 + random.index((sites - 1).max(1))) % sites;
                let set = self.some(elsewhere, 1, random).next().unwrap_or_default();
                let add = Operation::Change { set, element: Element::Fresh, by: 1 };
                self.some(here, 2, random).map(Operation::Put).chain([add]).collect()
            }
            Shape::Across(objects) => {
                let sites = (0..objects).map(|site| (here + site) % sites);
                let in_turn = |home: &Vec<Key>| home[self.drawn % home.len()].clone();
                sites.map(|site| in_turn(&self.homes[site])).map(Operation::Put).collect()
            }
        };
        Plan { kind: shape.name(), operations }
    }

    /// So many objects of a site, each another one.
    fn some(&self, site: usize, count: usize, random: &mut Random) -> std::vec::IntoIter<Key> {
        let home = &self.homes[site];
        let mut drawn: Vec<Key> = Vec::with_capacity(count);
        while drawn.len() < count {
            let key = &home[random.index(home.len())];
            if !drawn.contains(key) {
                drawn.push(key.clone());
            }
        }
        drawn.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sites of what a transaction updates or reads.
    fn sites_of(plan: &Plan) -> Vec<usize> {
        let site = |operation: &Operation| match operation {
            Operation::Get(key) | Operation::Put(key) | Operation::Change { set: key, .. } => {
                shard_position(container_of(key), 4)
            }
            other => panic!("{other:?}"),
        };
        plan.operations.iter().map(site).collect()
    }

    #[test]
    fn objects_lie_where_transactions_want_them() {
        let mut random = Random::new(1);
        let mut draw = |shape| {
            let mut objects = Objects::new(4, 1_000, Mix::of(shape));
            sites_of(&objects.draw(1, &mut random))
        };
        assert_eq!(draw(Shape::Writes(5)), [1; 5]);
        assert_eq!(draw(Shape::Reads(1)), [1]);
        assert_eq!(draw(Shape::Across(4)), [1, 2, 3, 0]);
        let with_set = draw(Shape::WritesAndSet);
        assert!(with_set[..2] == [1, 1] && with_set[2] != 1, "{with_set:?}");
    }

    /// The note's numbers: 157, 52, about 99 and 26 thousand a second at four sites.
    #[test]
    fn arithmetic_is_that_of_the_paper() {
        let about = |mix: &Mix, expected: f64| {
            let found = mix.expected_of_the_paper(4);
            assert!((found / expected - 1.0).abs() < 0.03, "{mix:?}: {found}");
        };
        about(&Mix::of(Shape::Reads(1)), 157.0);
        about(&Mix::of(Shape::Writes(1)), 52.0);
        about(&Mix::of(Shape::WritesAndSet), 26.0);
        about(&Mix::shares(&[(Shape::Reads(1), 9), (Shape::Writes(5), 1)]), 99.0);
    }
}
