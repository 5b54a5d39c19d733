//! The costs of replicas and coordinators for each operation: the machines themselves, in the driver that hosts them, with
//! the bytes that they read and write, and without a network between them.
//!
//! Transactions run side by side. The requests of all of them to one machine are carried out at one go, as in a turn, and timed by what
//! the thread has had of a processor. Nothing is left out of the mean: that a table grows, or a page is collected, happens
//! to few, and all pay for it. The store is as that of a server that has run for a while: each key has been written
//! before, and what has ended is collected as fast as it comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use quorate_cluster::Failure;
use quorate_core::command::{Command, Routes};
use quorate_core::machine::InputOf;
use quorate_core::topology::{Durability, Isolation, Keyspace, Shard};
use quorate_core::{
    Address, ClientId, ClockTime, Epoch, GroupSize, Input, Key, KeyspaceId, Machine, NodeId, Random,
    ReplicaId, ReplicaIndex, ShardId, TransactionId,
};
use quorate_runtime::{Carrier, Driver, Kept, Time};
use quorate_simulator::system::strict::Strict;
use quorate_simulator::world::Protocol;
use quorate_simulator::world::costs::{Cost, Operation, Work};
use quorate_tapir::{Boot, Coordinator, CoordinatorConfig, Message, Replica, ReplicaConfig};
use quorate_wire::{Envelope, FrameReader, FrameWriter, Packet, ProtocolMessage};

use super::fit::fit;
use crate::processors::thread_cpu_time;

/// Of so many replicas.
const REPLICAS: usize = 3;

/// Transactions read and write so many keys.
const SIZES: [usize; 5] = [1, 2, 4, 8, LARGEST];

/// At most.
const LARGEST: usize = 16;

/// So many transactions run side by side.
const SIDE_BY_SIDE: u64 = 64;

/// Values have so many bytes, as those of benchmarks do.
const VALUE_BYTES: usize = 100;

/// So many times for each size.
const BATCHES: u64 = 300;

/// Every so many times, others meet them on their keys.
const CONFLICT_EVERY: u64 = 4;

/// Of so many keys, a power of two, in no order that caches could guess. They do not fit into the nearest caches.
const KEYS: u64 = 1 << 18;

/// Before that, so many times with the largest size write each key once.
const FILLING: u64 = KEYS / SIDE_BY_SIDE / LARGEST as u64;

/// And then they are written as they are measured, for so many times the time between two checkpoints.
const CHECKPOINTS: u32 = 2;

/// So long a transaction takes as far as the clocks of the machines know, so that what they do now and then is done as often as
/// on a busy server.
const PACE: Duration = Duration::from_micros(40);

/// Fewer at one go tell more about the clock than about themselves.
const RUN_MIN: usize = 16;

/// Odd: that many keys one after the other, times it, are all of them, in another order.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

const SHARD: ShardId = ShardId(1);
const KEYSPACE: KeyspaceId = KeyspaceId(1);
const CLIENT: ClientId = ClientId(1);

/// The cost of an operation, and how well that explains the measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) operation: Operation,
    pub(super) cost: Cost,
    pub(super) error: f64,
    pub(super) samples: u64,
}

/// Measures every operation.
pub(super) fn measure() -> Result<Vec<Measured>, Failure> {
    let mut bench = Bench::new()?;
    let mut numbers = 0..;
    for number in numbers.by_ref().take(FILLING as usize) {
        bench.transact(LARGEST, number)?;
    }
    let steady = bench.time.now + config(0)?.checkpoint_interval * CHECKPOINTS;
    while bench.time.now < steady {
        for (size, number) in SIZES.into_iter().zip(numbers.by_ref()) {
            bench.transact(size, number)?;
        }
    }
    bench.took.clear();
    for _ in 0..BATCHES {
        for (size, number) in SIZES.into_iter().zip(numbers.by_ref()) {
            bench.transact(size, number)?;
        }
    }
    Ok(Operation::ALL.into_iter().map(|operation| bench.cost(operation)).collect())
}

/// The times to write and to read the bytes of a packet, in nanoseconds: they are a part of every operation here, and of
/// the time of the transport for a message.
pub(super) fn codec(packet: &Packet) -> Result<[f64; 2], Failure> {
    const PACKETS: usize = 100;
    const ROUNDS: usize = 200;
    let (mut frames, mut reader) = (FrameWriter::new(), FrameReader::new());
    let (mut writing, mut reading) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..ROUNDS {
        let began = thread_cpu_time();
        for _ in 0..PACKETS {
            frames.push(packet).map_err(Failure::failed)?;
        }
        writing += thread_cpu_time() - began;
        reader.feed(&frames.take());
        let packets = reader.next_frame().map_err(Failure::failed)?.into_iter().flatten();
        let began = thread_cpu_time();
        for packet in packets {
            drop(packet.map_err(Failure::failed)?);
        }
        reading += thread_cpu_time() - began;
    }
    let each =
        |took: Duration| (took.as_nanos() as f64 / ROUNDS as f64 - clock_cost()).max(0.0) / PACKETS as f64;
    Ok([each(writing), each(reading)])
}

/// The time to read the clock twice, in nanoseconds.
fn clock_cost() -> f64 {
    const TIMES: u32 = 1_000;
    let began = thread_cpu_time();
    for _ in 1..TIMES {
        thread_cpu_time();
    }
    (thread_cpu_time() - began).as_nanos() as f64 / f64::from(TIMES)
}

/// How often something was done, and how long that took together.
#[derive(Clone, Copy, Debug, Default)]
struct Took {
    count: u64,
    ns: f64,
}

/// Machines that speak to each other at once.
struct Bench {
    replicas: Vec<Driver<Replica>>,
    coordinator: Driver<Coordinator>,
    time: Time,
    told: Told,
    took: BTreeMap<Work, Took>,
    clock_ns: f64,
    sequence: u64,
}

/// The messages to each machine, as bytes: the replicas, and then the coordinator.
#[derive(Default)]
struct Told {
    frames: [FrameWriter; REPLICAS + 1],
    /// The first packet that could not be written.
    trouble: Option<Failure>,
}

impl Told {
    fn tell(&mut self, from: Address, to: Address, epoch: Epoch, message: Message) {
        let place = match to {
            Address::Replica(replica) => usize::from(replica.index.0),
            Address::Client(_) => REPLICAS,
        };
        let packet = Packet::Envelope(Envelope { from, to, epoch, message: ProtocolMessage::Tapir(message) });
        if let Err(error) = self.frames[place].push(&packet) {
            self.trouble.get_or_insert(Failure::failed(error));
        }
    }
}

struct Ears<'a> {
    from: Address,
    told: &'a mut Told,
}

impl Carrier<Replica> for Ears<'_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.told.tell(self.from, to, epoch, message);
    }

    fn emit(&mut self, _: <Replica as Machine>::Event) {}

    fn persist(&mut self, _: &Replica, _: <Replica as Machine>::Record) -> Kept {
        Kept::Now
    }

    fn ignored(&mut self, _: &'static str) {}
}

impl Carrier<Coordinator> for Ears<'_> {
    fn send(&mut self, to: Address, epoch: Epoch, message: Message) {
        self.told.tell(self.from, to, epoch, message);
    }

    fn emit(&mut self, _: <Coordinator as Machine>::Event) {}

    fn persist(&mut self, _: &Coordinator, record: <Coordinator as Machine>::Record) -> Kept {
        match record {}
    }

    fn ignored(&mut self, _: &'static str) {}
}

/// As servers have it.
fn config(index: usize) -> Result<ReplicaConfig, Failure> {
    let group = GroupSize::new(REPLICAS).map_err(Failure::failed)?;
    Ok(ReplicaConfig::new(replica_at(index), group, Boot::Initialise))
}

impl Bench {
    fn new() -> Result<Self, Failure> {
        let replica =
            |index: usize| Ok(Driver::new(Replica::restore(config(index)?, []), Random::new(index as u64)));
        let coordinator = Coordinator::restore(CoordinatorConfig::new(CLIENT), []);
        let mut bench = Bench {
            replicas: (0..REPLICAS).map(replica).collect::<Result<_, Failure>>()?,
            coordinator: Driver::new(coordinator, Random::new(9)),
            time: Time {
                now: quorate_core::Instant::START,
                clock: ClockTime::from_micros(1_000_000_000_000_000),
            },
            told: Told::default(),
            took: BTreeMap::new(),
            clock_ns: clock_cost(),
            sequence: 0,
        };
        for index in 0..REPLICAS {
            bench.step_replica(index, Input::Start);
        }
        bench.step_coordinator(Input::Start);
        let nodes = (0..REPLICAS as u16).map(NodeId).collect();
        let keyspace = Keyspace::new(
            KEYSPACE,
            "calibration",
            Isolation::Strict,
            Durability::Memory,
            vec![Shard::new(SHARD, nodes)],
        );
        let nearest = vec![(0..REPLICAS as u8).map(ReplicaIndex).collect()];
        bench.step_coordinator(Input::Command(Command::Route(Arc::new(Routes::new(keyspace, nearest)))));
        bench.settle()?;
        Ok(bench)
    }

    /// Lets some time pass, so that what machines do now and then is done now and then.
    fn pass(&mut self, time: Duration) {
        self.time.now = self.time.now + time;
        self.time.clock = ClockTime::from_micros(self.time.clock.as_micros() + time.as_micros() as u64);
        for index in 0..REPLICAS {
            let mut ears = Ears { from: replica_at(index).into(), told: &mut self.told };
            self.replicas[index].fire_timers(self.time, &mut ears);
        }
        let mut ears = Ears { from: CLIENT.into(), told: &mut self.told };
        self.coordinator.fire_timers(self.time, &mut ears);
    }

    fn step_replica(&mut self, index: usize, input: InputOf<Replica>) {
        let mut ears = Ears { from: replica_at(index).into(), told: &mut self.told };
        self.replicas[index].step(self.time, input, &mut ears);
    }

    fn step_coordinator(&mut self, input: InputOf<Coordinator>) {
        let mut ears = Ears { from: CLIENT.into(), told: &mut self.told };
        self.coordinator.step(self.time, input, &mut ears);
    }

    /// Gives commands to the coordinator at one go. Those of the smallest transactions count: they are one read, one write,
    /// and what is around them.
    fn command(&mut self, counts: bool, commands: Vec<Command>) {
        let Some(work) = commands.first().map(Strict::command_work) else { return };
        let count = commands.len();
        let began = thread_cpu_time();
        for command in commands {
            self.step_coordinator(Input::Command(command));
        }
        if counts {
            self.note(work, count, thread_cpu_time() - began);
        }
    }

    fn note(&mut self, work: Work, count: usize, took: Duration) {
        if count >= RUN_MIN {
            let known = self.took.entry(work).or_default();
            known.count += count as u64;
            known.ns += (took.as_nanos() as f64 - self.clock_ns).max(0.0);
        }
    }

    /// Delivers messages until nobody has anything to say.
    fn settle(&mut self) -> Result<(), Failure> {
        while let Some(place) = self.told.frames.iter().position(|frames| !frames.is_empty()) {
            let bytes = self.told.frames[place].take();
            self.deliver(place, &bytes)?;
        }
        match self.told.trouble.take() {
            Some(trouble) => Err(trouble),
            None => Ok(()),
        }
    }

    /// Gives a machine what it was told. Messages one after the other that ask for the same are timed together.
    fn deliver(&mut self, place: usize, bytes: &[u8]) -> Result<(), Failure> {
        // Read twice: what is asked for has to be known before anything is timed.
        let (mut before, mut frames) = (FrameReader::new(), FrameReader::new());
        before.feed(bytes);
        frames.feed(bytes);
        while let (Some(asked), Some(mut packets)) =
            (before.next_frame().map_err(Failure::failed)?, frames.next_frame().map_err(Failure::failed)?)
        {
            let works = asked.map(|packet| Ok(self.work(place, &packet.map_err(Failure::failed)?)));
            let works = works.collect::<Result<Vec<Work>, Failure>>()?;
            for run in works.chunk_by(PartialEq::eq) {
                let began = thread_cpu_time();
                for packet in packets.by_ref().take(run.len()) {
                    self.hear(place, packet.map_err(Failure::failed)?);
                }
                self.note(run[0], run.len(), thread_cpu_time() - began);
            }
        }
        Ok(())
    }

    fn work(&self, place: usize, packet: &Packet) -> Work {
        let receiver = self.replicas.get(place).map(Driver::machine);
        match packet {
            Packet::Envelope(Envelope { message: ProtocolMessage::Tapir(message), .. }) => {
                Strict::work(receiver, message)
            }
            _ => Work::new(Operation::Control, 0),
        }
    }

    fn hear(&mut self, place: usize, packet: Packet) {
        let Packet::Envelope(Envelope { from, epoch, message: ProtocolMessage::Tapir(message), .. }) = packet
        else {
            return;
        };
        if place < REPLICAS {
            self.step_replica(place, Input::Message { from, epoch, message });
        } else {
            self.step_coordinator(Input::Message { from, epoch, message });
        }
    }

    /// Runs transactions side by side, and now and then others on the same keys beside them.
    fn transact(&mut self, size: usize, number: u64) -> Result<(), Failure> {
        self.pass(PACE * SIDE_BY_SIDE as u32);
        let rivals = if number.is_multiple_of(CONFLICT_EVERY) { 2 } else { 1 };
        let first = self.sequence + 1;
        self.sequence += rivals * SIDE_BY_SIDE;
        let ids: Vec<TransactionId> = (first..=self.sequence)
            .map(|sequence| TransactionId { client: CLIENT, sequence, attempt: 0 })
            .collect();
        // Rivals have the same keys.
        let key = |place: u64, transaction: &TransactionId| {
            let drawn =
                (number * SIDE_BY_SIDE + transaction.sequence % SIDE_BY_SIDE) * LARGEST as u64 + place;
            Key::from(format!("key-{:08}", drawn.wrapping_mul(SCATTER) % KEYS))
        };
        let counts = size == 1;
        let patience = Duration::from_secs(9);
        let all = |command: &dyn Fn(TransactionId) -> Command| ids.iter().copied().map(command).collect();
        self.command(
            counts,
            all(&|transaction| Command::Begin { transaction, keyspace: KEYSPACE, patience }),
        );
        for place in 0..size as u64 {
            let key = |transaction| key(place, &transaction);
            self.command(counts, all(&|transaction| Command::Get { transaction, key: key(transaction) }));
            self.settle()?;
            let value = Some(vec![7; VALUE_BYTES].into());
            let put = |transaction| Command::Put { transaction, key: key(transaction), value: value.clone() };
            self.command(counts, all(&put));
        }
        self.command(counts, all(&|transaction| Command::Commit { transaction }));
        self.settle()
    }

    /// The cost of an operation, by the mean for each number of keys.
    fn cost(&self, operation: Operation) -> Measured {
        let took = self.took.iter().filter(|(work, _)| work.operation == operation);
        let samples: Vec<_> = took
            .clone()
            .map(|(work, took)| (vec![1.0, work.keys as f64], (took.ns / took.count as f64).max(1.0)))
            .collect();
        let count = took.map(|(_, took)| took.count).sum();
        if let [(_, mean)] = samples.as_slice() {
            // Of one size only: nothing can be said about others.
            return Measured { operation, cost: Cost::new(*mean, 0.0), error: 0.0, samples: count };
        }
        let found = fit(&samples);
        let cost = match found.costs.as_slice() {
            [base, each] => Cost::new(*base, *each),
            _ => Cost::default(),
        };
        Measured { operation, cost, error: found.error, samples: count }
    }
}

fn replica_at(index: usize) -> ReplicaId {
    ReplicaId { shard: SHARD, index: ReplicaIndex(index as u8) }
}
