//! Members as machines: a replicated list under random schedules, each read and each append at some instant between question
//! and answer.

pub(super) mod arrivals;
mod clocks;
mod epochs;
mod hosting;
pub(super) mod list;
mod losses;
mod verifying;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::machine::{Context, Effect, EffectOf, Input, InputOf, Machine, Outbox, PersistToken};
use quorate_core::replay;
use quorate_core::verify::Pace;
use quorate_core::{Address, ClockTime, Epoch, GroupSize, Instant, Random, ReplicaId, ReplicaIndex, ShardId};

use super::{LIMITS, TIMING};
use crate::member::{Config, MessageOf};
use crate::replica::Boot;
use crate::{Fact, Limits, LogCommand, LogEvent, Member, Membership, Message, Part, Rules, Status};
use list::{Ask, List, Told};

type Node = Member<List>;
type Record = <Node as Machine>::Record;
type Timer = <Node as Machine>::Timer;

/// A process with its disk.
#[derive(Default)]
struct Process {
    member: Option<Node>,
    records: Vec<Record>,
    durable: usize,
    anchor: usize,
    truncations: Vec<(usize, usize)>,
    /// The effects that wait until so many records are durable.
    pending: VecDeque<(usize, Epoch, EffectOf<Node>)>,
    notices: VecDeque<(usize, PersistToken)>,
    timers: BTreeMap<Timer, u64>,
    rate_ppm: i64,
    sync_rate: f64,
    /// True if it has lost its disk, and whether it has not come back since.
    has_lost: bool,
    lacks: bool,
    /// True if the group needs it no longer, and it was stopped.
    is_stopped: bool,
    /// The latest membership that its host has written down.
    known: Option<Membership>,
    /// By how many microseconds its clock is ahead.
    clock_ahead: u64,
}

struct Flying {
    at: u64,
    from: ReplicaIndex,
    to: ReplicaIndex,
    epoch: Epoch,
    message: MessageOf<List>,
}

pub(super) struct World {
    processes: Vec<Process>,
    flying: Vec<Flying>,
    cut: Vec<(ReplicaIndex, ReplicaIndex)>,
    random: Random,
    limits: Limits,
    rules: Rules,
    now: u64,
    loss: f64,
    /// True if messages come once and soon.
    calm: bool,
    asked: u64,
    /// The values that the list holds, as the first replica that knew them has told.
    list: Vec<u64>,
    /// How long it was known to be when each question was asked: appends by value, reads by number.
    appends: BTreeMap<u64, u64>,
    reads: BTreeMap<u64, u64>,
    /// How long it is known to be because somebody has been told.
    floor: u64,
    read: u64,
    /// How many messages with entries were sent, and how many without.
    prepares: u64,
    beats: u64,
    /// The memberships so far.
    memberships: Vec<Membership>,
    /// The epochs that were defined and that the group has not reached, with their members.
    defined: Vec<Membership>,
    /// How many were defined.
    definitions: u32,
    /// The events that the logs have told.
    events: Vec<(usize, LogEvent)>,
    /// True if hosts hear of definitions by themselves, whatever their replicas know.
    hosts_watch: bool,
}

fn id(index: ReplicaIndex) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index }
}

impl World {
    fn new(replicas: usize, seed: u64) -> Self {
        World::with_limits(replicas, seed, LIMITS, Rules::SOUND)
    }

    fn with_limits(replicas: usize, seed: u64, limits: Limits, rules: Rules) -> Self {
        let mut random = Random::new(seed);
        let processes = (0..replicas)
            .map(|_| Process {
                rate_ppm: [-45_000, 0, 45_000][random.index(3)],
                sync_rate: 0.7,
                ..Process::default()
            })
            .collect();
        let loss = [0.0, 0.05, 0.3][random.index(3)];
        let mut world = World {
            processes,
            flying: Vec::new(),
            cut: Vec::new(),
            random,
            limits,
            rules,
            now: 1_000_000,
            loss,
            calm: false,
            asked: 0,
            list: Vec::new(),
            appends: BTreeMap::new(),
            reads: BTreeMap::new(),
            floor: 0,
            read: 0,
            prepares: 0,
            beats: 0,
            memberships: vec![Membership::first(GroupSize::new(replicas).unwrap())],
            defined: Vec::new(),
            definitions: 0,
            events: Vec::new(),
            hosts_watch: false,
        };
        for index in 0..replicas {
            world.boot(index, Boot::Initialise);
        }
        world
    }

    /// So many more replicas, which wait until the group goes on with them.
    fn with_spares(mut self, spares: usize) -> Self {
        let replicas = self.processes.len();
        for index in replicas..replicas + spares {
            self.processes.push(Process { sync_rate: 0.7, ..Process::default() });
            self.boot(index, Boot::Join);
        }
        self
    }

    fn latest(&self) -> &Membership {
        self.memberships.last().expect("there is a first")
    }

    fn local_now(&self, index: usize) -> Instant {
        let rate = self.processes[index].rate_ppm;
        let micros = self.now as i64 + self.now as i64 * rate / 1_000_000;
        Instant::START + Duration::from_micros(micros as u64)
    }

    fn boot(&mut self, index: usize, boot: Boot) {
        let membership = self.membership_at_start(index);
        let process = &mut self.processes[index];
        process.is_stopped = false;
        let config = Config {
            me: id(ReplicaIndex(index as u8)),
            membership,
            boot,
            timing: TIMING,
            limits: self.limits,
            pace: Pace::DEFAULT,
            snapshot_bytes: 400,
            rules: self.rules,
            machine: (),
        };
        process.member = Some(replay::rebuild::<Node>(config, process.records.clone()));
        self.step(index, Input::Start);
        if let Some(known) = self.processes[index].known.clone() {
            self.step(index, Input::Command(Part::Log(LogCommand::ChangeGroup(known))));
        }
    }

    /// By which membership a host builds a replica. It may have heard of epochs since that the group has not reached, and of
    /// those it has heard of it knows the latest; of the first replicas it says as what they were created.
    fn membership_at_start(&mut self, index: usize) -> Membership {
        let is_first = self.memberships[0].contains(ReplicaIndex(index as u8));
        let has_records = !self.processes[index].records.is_empty();
        if !self.hosts_watch {
            return self.latest().clone();
        }
        self.hear(index);
        match &self.processes[index].known {
            Some(known) if !(is_first && has_records) => known.clone(),
            _ => self.memberships[0].clone(),
        }
    }

    /// A host hears of a definition, perhaps, and tells its replica.
    fn learn(&mut self, index: usize) {
        let before = self.processes[index].known.clone();
        self.hear(index);
        if let Some(known) =
            self.processes[index].known.clone().filter(|known| Some(known) != before.as_ref())
        {
            self.step(index, Input::Command(Part::Log(LogCommand::ChangeGroup(known))));
        }
    }

    /// A host hears of a definition that it has not heard of, if there is one: any.
    fn hear(&mut self, index: usize) {
        let heard = self.processes[index].known.as_ref().map_or(Epoch::FIRST, Membership::epoch);
        let all = self.memberships.iter().chain(&self.defined);
        let later: Vec<Membership> = all.filter(|membership| membership.epoch() > heard).cloned().collect();
        if !later.is_empty() {
            let at = self.random.index(later.len());
            self.processes[index].known = Some(later[at].clone());
        }
    }

    fn step(&mut self, index: usize, input: InputOf<Node>) {
        let (now, true_now) = (self.local_now(index), self.now);
        let process = &mut self.processes[index];
        let Some(member) = &mut process.member else { return };
        let mut outbox = Outbox::new();
        let clock = ClockTime::from_micros(true_now + process.clock_ahead);
        member.step(&mut Context { now, clock, random: &mut self.random }, input, &mut outbox);
        let epoch = member.epoch(id(ReplicaIndex(0)).into());
        for effect in outbox.drain() {
            process.carry_out(effect, epoch, true_now);
        }
        self.examine(index);
        self.release(index);
    }

    /// The applied entries are the same everywhere.
    fn examine(&mut self, index: usize) {
        let Some(member) = &self.processes[index].member else { return };
        let membership = member.replica().membership();
        let has_begun = self.processes[index]
            .records
            .iter()
            .any(|record| matches!(record, Fact::ViewInstalled { .. } | Fact::SnapshotBegun { .. }));
        if self.hosts_watch && !has_begun {
            // It may know its group by its host only, which may have heard of epochs that never come.
            return;
        }
        if membership.epoch() > self.latest().epoch() {
            self.memberships.push(membership.clone());
            self.defined.retain(|defined| membership.precedes(defined));
        }
        assert!(self.memberships.contains(membership), "two groups in one epoch");
        let values = member.machine().values();
        let common = values.len().min(self.list.len());
        assert_eq!(values[..common], self.list[..common], "r{index} has applied something else");
        self.list.extend(&values[common..]);
    }

    /// Lets go what waits for no sync any more.
    fn release(&mut self, index: usize) {
        let durable = self.processes[index].durable;
        let pending = std::mem::take(&mut self.processes[index].pending);
        let (ready, waiting): (VecDeque<_>, _) =
            pending.into_iter().partition(|(needed, ..)| *needed <= durable);
        self.processes[index].pending = waiting;
        for (_, epoch, effect) in ready {
            match effect {
                Effect::Send { to: Address::Replica(to), message }
                | Effect::SendUnordered { to: Address::Replica(to), message } => {
                    self.fly(ReplicaIndex(index as u8), to.index, epoch, message);
                }
                Effect::Emit(Part::Own(told)) => self.on_told(told),
                Effect::Emit(Part::Log(LogEvent::HandedOver)) if !self.calm => self.hand_over(index),
                Effect::Emit(Part::Log(event)) => self.events.push((index, event)),
                other => unreachable!("{other:?} waits for no disk"),
            }
        }
    }

    fn on_told(&mut self, told: Told) {
        match told {
            Told::Appended { value, place } => {
                assert_eq!(self.list[place as usize], value);
                let Some(floor) = self.appends.remove(&value) else { return };
                assert!(place >= floor, "{value} stands before what was there when it was appended");
                self.floor = self.floor.max(place + 1);
            }
            Told::Read { number, length } => {
                let Some(floor) = self.reads.remove(&number) else { return };
                assert!(length >= floor, "read {number} misses what was there before");
                self.floor = self.floor.max(length);
                self.read += 1;
            }
            Told::Failed(_) => {}
        }
    }

    /// The group needs a replica no longer. Some are stopped.
    fn hand_over(&mut self, index: usize) {
        if self.random.chance(0.5) {
            self.processes[index].durable = self.processes[index].records.len();
            self.crash(index);
            self.processes[index].is_stopped = true;
        }
    }

    fn fly(&mut self, from: ReplicaIndex, to: ReplicaIndex, epoch: Epoch, message: MessageOf<List>) {
        if let Part::Log(Message::Prepare { entries, .. }) = &message {
            *if entries.is_empty() { &mut self.beats } else { &mut self.prepares } += 1;
        }
        if self.cut.contains(&(from, to)) || self.random.chance(self.loss) {
            return;
        }
        let copies = if !self.calm && self.random.chance(0.05) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if !self.calm && self.random.chance(0.01) { 500_000 } else { 3_000 };
            let at = self.now + 100 + self.random.below(late);
            self.flying.push(Flying { at, from, to, epoch, message: message.clone() });
        }
    }

    fn sync(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.durable = process.records.len();
        self.release(index);
        while let Some((needed, token)) = self.processes[index].notices.front().copied()
            && needed <= self.processes[index].durable
        {
            self.processes[index].notices.pop_front();
            self.step(index, Input::Persisted(token));
        }
    }

    fn tick(&mut self) {
        for index in 0..self.processes.len() {
            if self.random.chance(self.processes[index].sync_rate) {
                self.sync(index);
            }
        }
        self.now += 200 + self.random.below(800);
        let (mut due, later): (Vec<Flying>, _) =
            std::mem::take(&mut self.flying).into_iter().partition(|flying| flying.at <= self.now);
        self.flying = later;
        while !due.is_empty() {
            let Flying { from, to, epoch, message, .. } = due.swap_remove(self.random.index(due.len()));
            self.step(usize::from(to.0), Input::Message { from: id(from).into(), epoch, message });
        }
        for index in 0..self.processes.len() {
            let timers = &mut self.processes[index].timers;
            let due: Vec<Timer> =
                timers.iter().filter(|(_, at)| **at <= self.now).map(|(timer, _)| timer.clone()).collect();
            for timer in due {
                self.processes[index].timers.remove(&timer);
                self.step(index, Input::Timer(timer));
            }
        }
    }

    /// Lets so many milliseconds pass.
    fn pass(&mut self, millis: u64) {
        let end = self.now + 1_000 * millis;
        while self.now < end {
            self.tick();
        }
    }

    fn ask(&mut self, index: usize, ask: Ask) {
        match ask {
            Ask::Append(value) => {
                self.appends.insert(value, self.floor);
            }
            Ask::AppendMany(first, count) => {
                self.appends.extend((first..first + count).map(|value| (value, self.floor)));
            }
            Ask::ReadByLease(number) | Ask::ReadByConfirmation(number) => {
                self.reads.insert(number, self.floor);
            }
        }
        self.step(index, Input::Command(Part::Own(ask)));
    }

    fn use_it(&mut self) {
        if !self.random.chance(0.4) {
            return;
        }
        let index = self.random.index(self.processes.len());
        self.asked += 4;
        let asked = self.asked;
        let ask = match self.random.index(4) {
            0 => Ask::Append(asked),
            1 => Ask::AppendMany(asked, 1 + self.random.below(4)),
            2 => Ask::ReadByLease(asked),
            _ => Ask::ReadByConfirmation(asked),
        };
        self.ask(index, ask);
    }

    fn crash(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let unsynced = process.records.len() - process.durable;
        let kept = process.durable + self.random.index(unsynced + 1);
        process.records.truncate(kept);
        process.durable = kept;
        process.truncations.retain(|(needed, _)| *needed <= kept);
        process.member = None;
        process.pending.clear();
        process.notices.clear();
        process.timers.clear();
        self.give_up(index);
    }

    /// Storage gives up what it may.
    fn give_up(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let durable = process.durable;
        let allowed = process.truncations.iter().filter(|(needed, _)| *needed <= durable);
        let Some(anchor) = allowed.map(|(_, anchor)| *anchor).max() else { return };
        process.records.drain(..anchor);
        process.durable -= anchor;
        process.truncations.clear();
    }

    fn disturb(&mut self) {
        let replicas = self.processes.len();
        let any = self.random.index(replicas);
        let leader = self.leader().unwrap_or(any);
        let index = if self.random.chance(0.5) { leader } else { any };
        if self.random.chance(0.003) {
            self.crash(index);
        }
        let is_due = self.processes[any].member.is_none() && self.may_run(any);
        if is_due && self.random.chance(0.02) {
            if self.may_lose() && self.random.chance(0.3) {
                self.lose(any);
            }
            self.restart(any);
        }
        if self.random.chance(0.003) {
            self.processes[index].sync_rate = [0.7, 0.01][self.random.index(2)];
        }
        if self.random.chance(0.004) {
            let (hears, speaks) = (self.random.chance(0.5), self.random.chance(0.5));
            for other in (0..replicas).filter(|other| *other != index) {
                let (me, other) = (ReplicaIndex(index as u8), ReplicaIndex(other as u8));
                self.cut.extend((!hears).then_some((other, me)));
                self.cut.extend((!speaks).then_some((me, other)));
            }
        }
        if self.random.chance(0.002) {
            self.cut.clear();
        }
    }

    /// The next epoch, with these replicas.
    fn define(&mut self, members: Vec<ReplicaIndex>) -> Membership {
        self.definitions += 1;
        let defined = Membership::new(Epoch(self.definitions), members).expect("a group");
        self.defined.push(defined.clone());
        defined
    }

    /// The leader, and perhaps another replica, is told to go on with another group: any of those that are there, down or not. It is
    /// not waited for that the group has arrived in the epoch before.
    fn change_group(&mut self) {
        let mut all: Vec<ReplicaIndex> =
            (0..self.processes.len()).map(|index| ReplicaIndex(index as u8)).collect();
        self.random.shuffle(&mut all);
        all.truncate([3, 3, 3, 5][self.random.index(4)]);
        if all.iter().filter(|index| self.processes[usize::from(index.0)].lacks).count() > 1 {
            return;
        }
        let defined = self.define(all);
        let other = self.random.index(self.processes.len());
        for index in [self.leader().unwrap_or(other), other] {
            self.step(index, Input::Command(Part::Log(LogCommand::ChangeGroup(defined.clone()))));
        }
    }

    fn leader(&self) -> Option<usize> {
        let leads =
            |process: &Process| process.member.as_ref().is_some_and(|member| member.leading().is_some());
        self.processes.iter().position(leads)
    }

    /// True if a process was not stopped for good, or the group has gone on with it since.
    fn may_run(&self, index: usize) -> bool {
        !self.processes[index].is_stopped || self.latest().contains(ReplicaIndex(index as u8))
    }

    /// A process loses its disk.
    fn lose(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.records.clear();
        process.truncations.clear();
        (process.durable, process.has_lost, process.lacks) = (0, true, true);
    }

    /// One disk at a time may be lost, of those that the group needs.
    fn may_lose(&mut self) -> bool {
        for process in &mut self.processes {
            let is_back =
                |record: &Record| matches!(record, Fact::ViewInstalled { .. } | Fact::SnapshotBegun { .. });
            process.lacks &= !process.records[..process.durable].iter().any(is_back);
        }
        let epoch = self.latest().epoch();
        let has_gone_on = |index: &&ReplicaIndex| {
            let process = &self.processes[usize::from(index.0)];
            process.records[..process.durable].iter().any(|record| match record {
                Fact::ViewInstalled { beginning, .. } | Fact::SnapshotBegun { beginning, .. } => {
                    beginning.membership.epoch() == epoch
                }
                _ => false,
            })
        };
        let gone_on = self.latest().members().iter().filter(has_gone_on).count();
        let groups = if gone_on >= self.latest().group().majority() { 1 } else { 2 };
        let needed: Vec<&Membership> = self.memberships.iter().rev().take(groups).collect();
        let lacks = |index: usize| {
            self.processes[index].lacks
                && (self.defined.iter().any(|defined| defined.contains(ReplicaIndex(index as u8)))
                    || needed.iter().any(|membership| membership.contains(ReplicaIndex(index as u8))))
        };
        !(0..self.processes.len()).any(lacks)
    }

    fn restart(&mut self, index: usize) {
        let is_first = self.memberships[0].contains(ReplicaIndex(index as u8));
        let boot = match self.processes[index].has_lost {
            true => Boot::Recover,
            false if is_first => Boot::Initialise,
            false => Boot::Join,
        };
        self.boot(index, boot);
    }

    /// Everything works again: everybody comes to have everything, and questions are answered.
    fn heal(&mut self) {
        self.loss = 0.0;
        self.cut.clear();
        for index in 0..self.processes.len() {
            self.processes[index].sync_rate = 0.7;
            if self.processes[index].member.is_none() && self.may_run(index) {
                self.restart(index);
            }
        }
        let (length, read) = (self.list.len(), self.read);
        for _ in 0..20_000 {
            self.tick();
            self.use_it();
            if self.hosts_watch {
                let any = self.random.index(self.processes.len());
                self.learn(any);
            }
            for index in 0..self.processes.len() {
                if self.processes[index].member.is_none() && self.may_run(index) {
                    self.restart(index);
                }
            }
            let settled = |(index, process): (usize, &Process)| {
                let Some(member) = &process.member else { return process.is_stopped };
                let status = member.replica().status();
                if self.latest().contains(ReplicaIndex(index as u8)) {
                    status == Status::Normal && member.machine().values().len() > length
                } else {
                    let heard = process.known.as_ref().map(Membership::epoch);
                    // A replica that holds nothing waits only for an epoch that may still come.
                    let waits_in_vain = status == Status::Recovering && heard >= Some(self.latest().epoch());
                    // Nobody may be left who knows that it is needed no more.
                    !waits_in_vain && (status != Status::Normal || member.leading().is_none())
                }
            };
            if self.processes.iter().enumerate().all(settled) && self.read > read + 10 {
                return;
            }
        }
        let says = |process: &Process| {
            let replica = process.member.as_ref()?.replica();
            let membership = replica.membership().clone();
            Some((membership, replica.status(), replica.view(), replica.stable(), replica.last()))
        };
        let all: Vec<_> = self.processes.iter().map(says).collect();
        panic!("{length} were there, and the group has not come back: {all:?}");
    }
}

impl Process {
    fn carry_out(&mut self, effect: EffectOf<Node>, epoch: Epoch, true_now: u64) {
        match effect {
            Effect::Send { .. } | Effect::Emit(_) => {
                self.pending.push_back((self.records.len(), epoch, effect));
            }
            Effect::SendUnordered { .. } => self.pending.push_back((0, epoch, effect)),
            Effect::SetTimer { timer, after } => {
                let micros = after.as_micros() as i64 * 1_000_000 / (1_000_000 + self.rate_ppm);
                self.timers.insert(timer, true_now + micros as u64 + 1);
            }
            Effect::CancelTimer(timer) => {
                self.timers.remove(&timer);
            }
            Effect::Persist { record, notify } => {
                self.records.push(record);
                self.notices.extend(notify.map(|token| (self.records.len(), token)));
            }
            Effect::Anchor => self.anchor = self.records.len(),
            Effect::Truncate => self.truncations.push((self.records.len(), self.anchor)),
        }
    }
}

fn run(seed: u64) -> World {
    let mut world = World::new(if seed.is_multiple_of(3) { 5 } else { 3 }, seed);
    for _ in 0..6_000 {
        world.tick();
        world.use_it();
        world.disturb();
    }
    world.heal();
    world
}

pub(super) fn run_with_changes(seed: u64, rules: Rules) -> World {
    let mut world = World::with_limits(3, seed, LIMITS, rules).with_spares(4);
    for _ in 0..8_000 {
        world.tick();
        world.use_it();
        world.disturb();
        if world.random.chance(0.003) {
            world.change_group();
        }
    }
    world.heal();
    world
}

#[test]
fn a_list_stays_linearizable_while_its_group_changes() {
    const CASES: u64 = 200;
    let (mut length, mut read, mut epochs) = (0, 0, 0);
    for seed in 1..=CASES {
        let world = run_with_changes(seed, Rules::SOUND);
        length += world.list.len() as u64;
        read += world.read;
        epochs += world.memberships.len() as u64 - 1;
    }
    assert!(length > 100 * CASES, "{length} values were appended in {CASES} runs");
    assert!(read > 60 * CASES, "{read} reads were answered in {CASES} runs");
    assert!(epochs > 3 * CASES, "{epochs} changes of groups in {CASES} runs");
}

#[test]
fn a_list_on_the_log_is_linearizable_under_random_schedules() {
    const CASES: u64 = 200;
    let (mut length, mut read) = (0, 0);
    for seed in 1..=CASES {
        let world = run(seed);
        length += world.list.len() as u64;
        read += world.read;
    }
    assert!(length > 150 * CASES, "{length} values were appended in {CASES} runs");
    assert!(read > 100 * CASES, "{read} reads were answered in {CASES} runs");
}

/// Three replicas of which the first leads, without faults.
fn calm(limits: Limits) -> World {
    let mut world = World::with_limits(3, 1, limits, Rules::SOUND);
    (world.loss, world.calm) = (0.0, true);
    for process in &mut world.processes {
        process.rate_ppm = 0;
    }
    world.pass(50);
    assert!(world.processes[0].member.as_ref().is_some_and(|member| member.leading().is_some()));
    world
}

#[test]
fn the_more_there_is_to_append_the_more_goes_into_a_message() {
    let mut world =
        calm(Limits { message_bytes: 1 << 20, in_flight: 16, in_flight_bytes: 1 << 24, ..LIMITS });
    let mut messages_of = |values_per_tick: u64| {
        let (sent, held) = (world.prepares, world.list.len());
        for _ in 0..500 {
            world.asked += 4;
            for value in 0..values_per_tick {
                let value = 7 * (world.asked * 1_000 + value) + 1;
                world.ask(0, Ask::Append(value));
            }
            world.tick();
        }
        world.pass(50);
        let appended = world.list.len() - held;
        assert_eq!(appended as u64, 500 * values_per_tick);
        (world.prepares - sent) as f64 / 2.0 / appended as f64
    };
    let (alone, few, many) = (messages_of(1), messages_of(4), messages_of(64));
    assert!(alone > 0.9, "who comes alone waits for nobody: {alone} messages an entry");
    assert!(few < 0.7, "{few} messages an entry");
    assert!(many < 0.07, "{many} messages an entry");
}

#[test]
fn messages_that_overtake_each_other_are_put_in_order() {
    let mut world = calm(LIMITS);
    world.ask(0, Ask::AppendMany(1, 6));
    world.flying.reverse();
    let (own, _): (Vec<Flying>, Vec<Flying>) =
        std::mem::take(&mut world.flying).into_iter().partition(|flying| flying.to == ReplicaIndex(2));
    for Flying { from, epoch, message, .. } in own {
        world.step(2, Input::Message { from: id(from).into(), epoch, message });
    }
    assert_eq!(world.processes[2].member.as_ref().map(|member| member.replica().last().0), Some(6));
}

#[test]
fn what_is_appended_in_one_step_goes_together() {
    let mut world = calm(Limits { message_bytes: 1 << 20, in_flight_bytes: 1 << 24, ..LIMITS });
    let sent = world.prepares;
    world.ask(0, Ask::AppendMany(1, 6));
    assert_eq!(world.prepares - sent, 2, "one message to each of the others");
    world.pass(50);
    assert_eq!(world.list, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn no_more_than_so_many_bytes_are_on_their_way() {
    let mut world = calm(Limits { message_bytes: 40, in_flight: 100, in_flight_bytes: 100, kept: 4 });
    let sent = world.prepares;
    world.ask(0, Ask::AppendMany(1, 40));
    assert_eq!(world.prepares - sent, 2 * 3, "three messages of forty bytes to each of the others");
    world.pass(50);
    assert!((1..=40).all(|value| world.list.contains(&value)));
}

#[test]
fn a_confirmation_whose_question_is_lost_is_asked_for_again() {
    let mut world = calm(LIMITS);
    for other in [1, 2].map(ReplicaIndex) {
        world.cut.extend([(ReplicaIndex(0), other), (other, ReplicaIndex(0))]);
    }
    world.ask(0, Ask::ReadByConfirmation(1));
    world.pass(30);
    assert_eq!(world.read, 0, "nobody has confirmed");
    world.cut.clear();
    world.pass(60);
    assert_eq!(world.read, 1);
}

#[test]
fn many_questions_at_once_are_few_beats() {
    let mut world = calm(LIMITS);
    let beats = |world: &World| world.beats;
    let before = beats(&world);
    for number in 0..100 {
        world.ask(0, Ask::ReadByConfirmation(number));
    }
    assert!(beats(&world) - before <= 2 * world.limits.in_flight as u64);
    world.pass(30);
    assert_eq!(world.read, 100);
    assert!(beats(&world) - before <= 2 * (world.limits.in_flight as u64 + 4));
}
