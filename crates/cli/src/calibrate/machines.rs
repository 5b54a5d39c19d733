//! What replicas and coordinators take for each operation: the machines themselves, in the driver that hosts them, without
//! a network between them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_core::machine::InputOf;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Epoch, GroupSize, Input, Key, KeyspaceId, Machine, NodeId, ReplicaId,
    ReplicaIndex, ShardId, TransactionId,
};
use quorate_runtime::{Carrier, Driver, Kept, Time};
use quorate_simulator::cluster::Strict;
use quorate_simulator::world::Protocol;
use quorate_simulator::world::costs::{Cost, Operation, Work};
use quorate_tapir::{
    Boot, Command, Coordinator, CoordinatorConfig, Event, Message, Replica, ReplicaConfig, Routes,
};

use super::fit::fit;

/// Of so many replicas.
const REPLICAS: usize = 3;

/// Transactions read and write so many keys.
const SIZES: [usize; 5] = [1, 2, 4, 8, 16];

/// So many transactions of each size are measured.
const TRANSACTIONS: u64 = 3_000;

/// Of so many keys, in no order that caches could guess.
const KEYS: u64 = 100_000;

/// Before that, so many transactions fill the store, so that it does not fit into the nearest caches.
const FILLING: u64 = 6_000;

/// Every so many transactions, one meets another on its keys.
const CONFLICT_EVERY: u64 = 4;

const SHARD: ShardId = ShardId(1);
const KEYSPACE: KeyspaceId = KeyspaceId(1);
const CLIENT: ClientId = ClientId(1);

/// What an operation was found to cost, and how well that explains what was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) operation: Operation,
    pub(super) cost: Cost,
    pub(super) error: f64,
    pub(super) samples: usize,
}

/// Measures every operation.
pub(super) fn measure() -> Vec<Measured> {
    let mut bench = Bench::new();
    for number in 0..FILLING {
        bench.transact(SIZES[SIZES.len() - 1], number);
    }
    bench.took.clear();
    for size in SIZES {
        for number in 0..TRANSACTIONS {
            bench.transact(size, number);
        }
    }
    let clock = clock_cost();
    Operation::ALL.into_iter().map(|operation| bench.cost(operation, clock)).collect()
}

/// What reading the time twice takes, in nanoseconds.
fn clock_cost() -> f64 {
    let mut took: Vec<u64> = (0..10_000)
        .map(|_| {
            let began = Instant::now();
            began.elapsed().as_nanos() as u64
        })
        .collect();
    took.sort_unstable();
    took[took.len() / 2] as f64
}

/// Machines that speak to each other at once.
struct Bench {
    replicas: Vec<Driver<Replica>>,
    coordinator: Driver<Coordinator>,
    time: Time,
    told: Told,
    /// How long each piece of work took, in nanoseconds.
    took: BTreeMap<Work, Vec<u32>>,
    sequence: u64,
}

/// What machines have said.
#[derive(Default)]
struct Told {
    messages: VecDeque<(Address, Address, Epoch, Message)>,
    events: VecDeque<Event>,
}

struct Ears<'a> {
    from: Address,
    told: &'a mut Told,
}

impl Carrier<Replica> for Ears<'_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.told.messages.push_back((self.from, to, epoch, message));
    }

    fn emit(&mut self, _: <Replica as Machine>::Event) {}

    fn persist(&mut self, _: <Replica as Machine>::Record) -> Kept {
        Kept::Now
    }
}

impl Carrier<Coordinator> for Ears<'_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.told.messages.push_back((self.from, to, epoch, message));
    }

    fn emit(&mut self, event: Event) {
        self.told.events.push_back(event);
    }

    fn persist(&mut self, record: <Coordinator as Machine>::Record) -> Kept {
        match record {}
    }
}

impl Bench {
    fn new() -> Self {
        let group = match GroupSize::new(REPLICAS) {
            Ok(group) => group,
            Err(error) => unreachable!("{error}"),
        };
        let replica = |index: usize| {
            let replica = ReplicaId { shard: SHARD, index: ReplicaIndex(index as u8) };
            let config = ReplicaConfig::new(replica, group, Boot::Initialise);
            Driver::new(Replica::restore(config, []), index as u64)
        };
        let coordinator = Coordinator::restore(CoordinatorConfig::new(CLIENT), []);
        let mut bench = Bench {
            replicas: (0..REPLICAS).map(replica).collect(),
            coordinator: Driver::new(coordinator, 9),
            time: Time {
                now: quorate_core::Instant::START,
                clock: ClockTime::from_micros(1_000_000_000_000_000),
            },
            told: Told::default(),
            took: BTreeMap::new(),
            sequence: 0,
        };
        for index in 0..REPLICAS {
            bench.step_replica(index, Input::Start);
        }
        bench.step_coordinator(Input::Start);
        let nodes = (0..REPLICAS as u16).map(NodeId).collect();
        let keyspace = Keyspace {
            id: KEYSPACE,
            name: "calibration".to_owned(),
            isolation: Isolation::Strict,
            durability: Durability::Memory,
            shards: vec![Shard { id: SHARD, replicas: nodes }],
            clock_bound: None,
            epoch: Epoch::FIRST,
        };
        let nearest = vec![(0..REPLICAS as u8).map(ReplicaIndex).collect()];
        bench.command(Command::Route(Arc::new(Routes { keyspace, nearest })));
        bench
    }

    /// Lets some time pass, so that what replicas do now and then is done now and then.
    fn pass(&mut self, time: Duration) {
        self.time.now = self.time.now + time;
        self.time.clock = ClockTime::from_micros(self.time.clock.as_micros() + time.as_micros() as u64);
        for index in 0..REPLICAS {
            let from = Address::Replica(ReplicaId { shard: SHARD, index: ReplicaIndex(index as u8) });
            let mut ears = Ears { from, told: &mut self.told };
            self.replicas[index].fire_timers(self.time, &mut ears);
        }
        let mut ears = Ears { from: CLIENT.into(), told: &mut self.told };
        self.coordinator.fire_timers(self.time, &mut ears);
    }

    fn step_replica(&mut self, index: usize, input: InputOf<Replica>) -> u32 {
        let from = Address::Replica(ReplicaId { shard: SHARD, index: ReplicaIndex(index as u8) });
        let mut ears = Ears { from, told: &mut self.told };
        let began = Instant::now();
        self.replicas[index].step(self.time, input, &mut ears);
        began.elapsed().as_nanos() as u32
    }

    fn step_coordinator(&mut self, input: InputOf<Coordinator>) -> u32 {
        let mut ears = Ears { from: CLIENT.into(), told: &mut self.told };
        let began = Instant::now();
        self.coordinator.step(self.time, input, &mut ears);
        began.elapsed().as_nanos() as u32
    }

    fn command(&mut self, command: Command) {
        let work = Strict::command_work(&command);
        let took = self.step_coordinator(Input::Command(command));
        self.took.entry(work).or_default().push(took);
    }

    /// Delivers messages until nobody has anything to say.
    fn settle(&mut self) {
        while let Some((from, to, epoch, message)) = self.told.messages.pop_front() {
            let (work, took) = match to {
                Address::Replica(id) => {
                    let index = usize::from(id.index.0);
                    let work = Strict::work(Some(self.replicas[index].machine()), &message);
                    (work, self.step_replica(index, Input::Message { from, epoch, message }))
                }
                Address::Client(_) => {
                    let work = Strict::work(None, &message);
                    (work, self.step_coordinator(Input::Message { from, epoch, message }))
                }
            };
            self.took.entry(work).or_default().push(took);
        }
    }

    /// Runs a transaction, and now and then another one on the same keys beside it.
    fn transact(&mut self, size: usize, number: u64) {
        self.pass(Duration::from_micros(200));
        let side_by_side = if number.is_multiple_of(CONFLICT_EVERY) { 2 } else { 1 };
        let ids: Vec<TransactionId> = (0..side_by_side)
            .map(|_| {
                self.sequence += 1;
                TransactionId { client: CLIENT, sequence: self.sequence, attempt: 0 }
            })
            .collect();
        for &transaction in &ids {
            self.command(Command::Begin {
                transaction,
                keyspace: KEYSPACE,
                patience: Duration::from_secs(9),
            });
        }
        for place in 0..size {
            let drawn = (number * 16 + place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
            let key = Key::from(format!("key-{:08}", drawn % KEYS));
            for &transaction in &ids {
                self.command(Command::Get { transaction, key: key.clone() });
                self.settle();
                let value = Some(vec![7; 64].into());
                self.command(Command::Put { transaction, key: key.clone(), value });
            }
        }
        for &transaction in &ids {
            self.command(Command::Commit { transaction });
        }
        self.settle();
        self.told.events.clear();
    }

    /// What an operation costs, by the mean for each number of keys. The longest do not count: there somebody else had the
    /// processor.
    fn cost(&self, operation: Operation, clock_ns: f64) -> Measured {
        let mut samples = Vec::new();
        let mut count = 0;
        for (work, took) in self.took.iter().filter(|(work, _)| work.operation == operation) {
            let mut sorted = took.clone();
            sorted.sort_unstable();
            // Few of a kind tell little.
            if sorted.len() >= 50 {
                sorted.truncate(sorted.len() - sorted.len() / 50);
                let mean = sorted.iter().copied().map(f64::from).sum::<f64>() / sorted.len() as f64;
                samples.push((vec![1.0, work.keys as f64], (mean - clock_ns).max(1.0)));
                count += sorted.len();
            }
        }
        if samples.len() == 1 {
            // Of one size only: nothing can be said about others.
            let cost = Cost::new(samples[0].1, 0.0);
            return Measured { operation, cost, error: 0.0, samples: count };
        }
        let found = fit(&samples);
        let cost = match found.costs.as_slice() {
            [base, each] => Cost::new(*base, *each),
            _ => Cost::default(),
        };
        Measured { operation, cost, error: found.error, samples: count }
    }
}
