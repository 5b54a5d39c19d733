//! A group with its network, its disks and its time, for tests. In every schedule stable entries must be the same
//! everywhere, and no replica may have a lease that lacks an entry for which another leader has answered.

mod alone;
mod clocks;
mod extremes;
mod guests;
mod hand_back;
mod leases;
mod members;
mod model;
mod plants;
mod recovery;
mod schedules;
mod snapshots;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::replay;
use quorate_core::{ClockTime, Epoch, GroupSize, Instant, Random, ReplicaIndex, View};

use crate::Limits;
use crate::replica::{Boot, Durable, snapshot};
use crate::{Fact, Host, Membership, Message, Payload, Replica, Rules, Status, Timer, Timing};

impl Payload for u64 {
    /// Some of all payloads so far.
    type Page = Vec<u64>;
    /// All payloads so far, and how many of them have been given.
    type Frozen = (Vec<u64>, usize);

    fn bytes(&self) -> usize {
        8
    }

    fn next_group(&self) -> Option<&Membership> {
        None
    }
}

const TIMING: Timing = Timing {
    beat: Duration::from_millis(20),
    // Shorter than the lease, so that leases are all that keeps a replica from going on.
    silence: Duration::from_millis(80),
    lease: Duration::from_millis(150),
    rate_error_ppm: 50_000,
    clock_error_max: Duration::from_secs(5),
    hand_back: Duration::from_secs(2),
};

/// So small that everything takes several messages, and that little is kept.
const LIMITS: Limits = Limits { message_bytes: 40, in_flight: 3, in_flight_bytes: 100, kept: 4 };

/// The conditions of a schedule.
#[derive(Clone, Copy, Debug)]
struct Habits {
    timing: Timing,
    /// How many messages come late.
    late: f64,
    /// How soon who has crashed comes back.
    restarts: f64,
    /// How many of them without their disks.
    losses: f64,
}

impl Habits {
    const COMMON: Habits = Habits { timing: TIMING, late: 0.01, restarts: 0.02, losses: 0.3 };
    /// Where few have patience, messages live long, and disks do not.
    const HASTY: Habits = Habits {
        timing: Timing { silence: Duration::from_millis(15), ..TIMING },
        late: 0.1,
        restarts: 0.2,
        losses: 0.7,
    };
}

/// A page holds so many payloads.
const PAGE: usize = 16;

/// An effect that waits for the disk.
#[derive(Debug)]
enum Pending {
    Send(ReplicaIndex, Message<u64>),
    Notify(Durable),
}

/// A process with its disk.
#[derive(Debug)]
struct Process {
    replica: Option<Replica<u64>>,
    /// The facts that were persisted, and how many of them are durable.
    facts: Vec<Fact<u64>>,
    durable: usize,
    /// Where the last mark is, and how many facts must be durable before those before a mark may go.
    anchor: usize,
    truncations: Vec<(usize, usize)>,
    /// The entries that were given to the host of this life.
    applied: Vec<u64>,
    /// The effects that may happen once so many facts are durable.
    pending: VecDeque<(usize, Pending)>,
    timers: BTreeMap<Timer, u64>,
    /// How many millionths faster its time passes.
    rate_ppm: i64,
    /// By how many microseconds its clock is ahead.
    clock_error: i64,
    /// True if it has lost its disk, once.
    has_lost: bool,
    /// How likely its disk is to sync in a tick.
    sync_rate: f64,
}

#[derive(Debug)]
struct Flying {
    at: u64,
    from: ReplicaIndex,
    to: ReplicaIndex,
    message: Message<u64>,
}

struct World {
    processes: Vec<Process>,
    flying: Vec<Flying>,
    cut: BTreeSet<(ReplicaIndex, ReplicaIndex)>,
    random: Random,
    rules: Rules,
    habits: Habits,
    /// True time, in microseconds.
    now: u64,
    loss: f64,
    /// True if messages come once and soon.
    calm: bool,
    nonces: u64,
    appended: u64,
    /// The stable entries, as the first replica that knew them has told.
    stable: Vec<u64>,
    /// How often a replica was given a state: by its disk, and by another replica.
    restored: usize,
    transferred: usize,
    /// True while a replica starts.
    is_start: bool,
    /// Up to where leaders have answered.
    answered: Position,
    /// Confirmations that were asked for: who, which number, and what had been answered then.
    confirmations: Vec<(ReplicaIndex, View, u64, Position)>,
}

/// The effects of a replica in one step.
struct Step<'a> {
    me: ReplicaIndex,
    now: Instant,
    true_now: u64,
    /// The reading of its clock, in microseconds.
    clock: u64,
    process: Acts<'a>,
    stable: &'a mut Vec<u64>,
    restored: &'a mut usize,
    transferred: &'a mut usize,
    is_start: bool,
    nonces: &'a mut u64,
}

struct Acts<'a> {
    facts: &'a mut Vec<Fact<u64>>,
    anchor: &'a mut usize,
    truncations: &'a mut Vec<(usize, usize)>,
    applied: &'a mut Vec<u64>,
    pending: &'a mut VecDeque<(usize, Pending)>,
    timers: &'a mut BTreeMap<Timer, u64>,
    rate_ppm: i64,
}

impl Host<u64> for Step<'_> {
    fn now(&self) -> Instant {
        self.now
    }

    fn clock(&self) -> ClockTime {
        ClockTime::from_micros(self.clock)
    }

    fn send(&mut self, to: ReplicaIndex, message: Message<u64>) {
        assert_ne!(to, self.me);
        self.process.pending.push_back((self.process.facts.len(), Pending::Send(to, message)));
    }

    fn send_unordered(&mut self, to: ReplicaIndex, message: Message<u64>) {
        self.process.pending.push_back((0, Pending::Send(to, message)));
    }

    fn persist(&mut self, fact: Fact<u64>) {
        self.process.facts.push(fact);
    }

    fn anchor(&mut self) {
        *self.process.anchor = self.process.facts.len();
    }

    fn truncate(&mut self) {
        self.process.truncations.push((self.process.facts.len(), *self.process.anchor));
    }

    fn persist_and_notify(&mut self, fact: Fact<u64>, durable: Durable) {
        self.persist(fact);
        self.process.pending.push_back((self.process.facts.len(), Pending::Notify(durable)));
    }

    fn set_timer(&mut self, timer: Timer, after: Duration) {
        let micros = after.as_micros() as i64 * 1_000_000 / (1_000_000 + self.process.rate_ppm);
        self.process.timers.insert(timer, self.true_now + micros as u64 + 1);
    }

    fn cancel_timer(&mut self, timer: Timer) {
        self.process.timers.remove(&timer);
    }

    fn on_stable(&mut self, position: Position, payload: &u64) {
        let at = position.0 as usize - 1;
        assert!(at <= self.stable.len(), "{position} is stable before what comes before it");
        if at == self.stable.len() {
            self.stable.push(*payload);
        }
        assert_eq!(self.stable[at], *payload, "two entries are stable at {position}");
        assert_eq!(self.process.applied.len(), at, "{position} is given out of turn");
        self.process.applied.push(*payload);
    }

    fn freeze(&mut self) -> (Vec<u64>, usize) {
        (self.process.applied.clone(), 0)
    }

    fn next_page(&mut self, (applied, given): &mut (Vec<u64>, usize)) -> Option<Vec<u64>> {
        let page = applied[*given..].iter().take(PAGE).copied().collect::<Vec<u64>>();
        *given += page.len();
        Some(page).filter(|page| !page.is_empty())
    }

    fn replace_state(&mut self, base: Position, pages: Vec<Vec<u64>>) {
        let state = pages.concat();
        assert_eq!(state, self.stable[..base.0 as usize], "what led to {base} is something else");
        assert!(state.len() >= self.process.applied.len(), "what was given is taken back");
        *self.process.applied = state;
        *if self.is_start { &mut *self.restored } else { &mut *self.transferred } += 1;
    }

    fn nonce(&mut self) -> u64 {
        *self.nonces += 1;
        *self.nonces
    }

    fn ignored(&mut self, _: &'static str) {}

    fn on_leading(&mut self, _: View) {}

    fn on_deposed(&mut self) {}

    fn on_handed_over(&mut self) {}
}

impl World {
    fn with_rules(replicas: usize, seed: u64, rules: Rules, habits: Habits) -> Self {
        let mut random = Random::new(seed);
        let processes = (0..replicas)
            .map(|_| Process {
                replica: None,
                facts: Vec::new(),
                durable: 0,
                anchor: 0,
                truncations: Vec::new(),
                applied: Vec::new(),
                pending: VecDeque::new(),
                timers: BTreeMap::new(),
                rate_ppm: [-45_000, 0, 45_000][random.index(3)],
                clock_error: 0,
                sync_rate: 0.7,
                has_lost: false,
            })
            .collect();
        let loss = [0.0, 0.05, 0.3][random.index(3)];
        let mut world = World {
            processes,
            flying: Vec::new(),
            cut: BTreeSet::new(),
            random,
            rules,
            habits,
            now: 1_000_000,
            loss,
            calm: false,
            nonces: 0,
            appended: 0,
            stable: Vec::new(),
            restored: 0,
            transferred: 0,
            is_start: false,
            answered: Position::START,
            confirmations: Vec::new(),
        };
        for index in 0..replicas {
            world.restart(index);
        }
        world
    }

    /// A group in which nothing goes wrong, and time passes alike.
    fn calm(replicas: usize) -> Self {
        World::calm_with(replicas, Rules::SOUND)
    }

    fn calm_with(replicas: usize, rules: Rules) -> Self {
        let mut world = World::with_rules(replicas, 1, rules, Habits::COMMON);
        (world.loss, world.calm) = (0.0, true);
        for process in &mut world.processes {
            process.rate_ppm = 0;
        }
        world.pass(Duration::from_millis(50));
        world
    }

    /// Lets time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time.as_micros() as u64;
        while self.now < end {
            self.tick();
        }
    }

    fn replica(&self, index: usize) -> &Replica<u64> {
        self.processes[index].replica.as_ref().expect("it is up")
    }

    /// The clock of the group, as a replica has it.
    fn group_clock(&mut self, index: usize) -> Option<ClockTime> {
        let (own, now) = (ClockTime::from_micros(self.clock(index)), self.local_now(index));
        self.processes[index].replica.as_mut().expect("it is up").group_clock(own, now)
    }

    /// A replica is told something by another.
    fn tell(&mut self, to: usize, from: usize, message: Message<u64>) {
        self.step(to, |replica, step| {
            replica.on_message(ReplicaIndex(from as u8), Epoch::FIRST, message, step)
        });
    }

    /// The node of a replica is about to stop.
    fn give_way(&mut self, index: usize) {
        self.step(index, |replica, step| replica.give_way(step));
    }

    /// True if something of this kind is on its way from a replica.
    fn has_said(&mut self, from: usize, is_kind: impl Fn(&Message<u64>) -> bool) -> bool {
        self.sync(from);
        self.flying.iter().any(|flying| usize::from(flying.from.0) == from && is_kind(&flying.message))
    }

    /// Nothing passes between a replica and the others.
    fn isolate(&mut self, index: usize) {
        for other in (0..self.processes.len()).filter(|other| *other != index) {
            let (me, other) = (ReplicaIndex(index as u8), ReplicaIndex(other as u8));
            self.cut.extend([(me, other), (other, me)]);
        }
    }

    fn local_now(&self, index: usize) -> Instant {
        let rate = self.processes[index].rate_ppm;
        let micros = self.now as i64
            + self.now as i64 / 1_000_000 * rate
            + self.now as i64 % 1_000_000 * rate / 1_000_000;
        Instant::START + Duration::from_micros(micros as u64)
    }

    /// The reading of a replica's clock, in microseconds since some day.
    fn clock(&self, index: usize) -> u64 {
        const DAY: u64 = 86_400_000_000;
        (DAY + self.now).saturating_add_signed(self.processes[index].clock_error)
    }

    /// Lets a replica do something, and looks whether all is well afterwards.
    fn step<R>(
        &mut self,
        index: usize,
        act: impl FnOnce(&mut Replica<u64>, &mut Step<'_>) -> R,
    ) -> Option<R> {
        let (now, true_now) = (self.local_now(index), self.now);
        let clock = self.clock(index);
        let Process { replica, facts, anchor, truncations, applied, pending, timers, rate_ppm, .. } =
            &mut self.processes[index];
        let replica = replica.as_mut()?;
        let acts = Acts { facts, anchor, truncations, applied, pending, timers, rate_ppm: *rate_ppm };
        let me = ReplicaIndex(index as u8);
        let mut step = Step {
            me,
            now,
            true_now,
            clock,
            process: acts,
            stable: &mut self.stable,
            restored: &mut self.restored,
            transferred: &mut self.transferred,
            is_start: std::mem::take(&mut self.is_start),
            nonces: &mut self.nonces,
        };
        let result = act(replica, &mut step);
        replica.flush(&mut step);
        self.release(index);
        self.examine(index);
        Some(result)
    }

    /// Leaders answer for what is stable, and nobody who has a lease may miss what another has answered for.
    fn examine(&mut self, index: usize) {
        let Some(replica) = &self.processes[index].replica else { return };
        if replica.is_leading() {
            self.answered = self.answered.max(replica.stable());
        }
        for (other, process) in self.processes.iter().enumerate() {
            let Some(replica) = &process.replica else { continue };
            if replica.lease_until().is_some_and(|until| until > self.local_now(other)) {
                assert!(
                    replica.stable() >= self.answered,
                    "r{other} has a lease and lacks what has been answered for"
                );
            }
        }
        let processes = &self.processes;
        self.confirmations.retain(|(who, view, number, answered)| {
            let Some(replica) = &processes[usize::from(who.0)].replica else { return false };
            if replica.view() != *view || !replica.is_leading() {
                return false;
            }
            let confirmed = replica.has_confirmed(*number);
            assert!(
                !confirmed || replica.stable() >= *answered,
                "{who:?} is confirmed and lacks what was answered"
            );
            !confirmed
        });
    }

    /// Brings a replica back, with what its disk holds.
    fn restart(&mut self, index: usize) {
        let boot = if self.processes[index].has_lost { Boot::Recover } else { Boot::Initialise };
        self.boot(index, boot);
    }

    /// Brings a replica back without its disk.
    fn lose(&mut self, index: usize) {
        self.processes[index].has_lost = true;
        self.processes[index].facts.clear();
        self.processes[index].truncations.clear();
        self.processes[index].durable = 0;
        self.boot(index, Boot::Recover);
    }

    /// How many replicas lack what they once had.
    fn lost(&self) -> usize {
        let is_lost = |process: &&Process| {
            let installed =
                |fact: &Fact<u64>| matches!(fact, Fact::ViewInstalled { .. } | Fact::SnapshotBegun { .. });
            !process.facts[..process.durable].iter().any(installed)
        };
        self.processes.iter().filter(is_lost).count()
    }

    fn boot(&mut self, index: usize, boot: Boot) {
        let group = GroupSize::on_log(self.processes.len()).unwrap();
        let process = &mut self.processes[index];
        let mut replica =
            Replica::new(Membership::first(group), ReplicaIndex(index as u8), self.habits.timing, LIMITS)
                .with_rules(self.rules);
        replica.restore(counting(process.facts.clone(), self.rules));
        process.applied.clear();
        process.replica = Some(replica);
        self.is_start = true;
        self.step(index, |replica, step| replica.start(boot, step));
    }

    /// Some of what was persisted and not synced may be there all the same.
    fn crash(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let unsynced = process.facts.len() - process.durable;
        let kept = process.durable + self.random.index(unsynced + 1);
        process.facts.truncate(kept);
        process.durable = kept;
        process.truncations.retain(|(needed, _)| *needed <= kept);
        process.replica = None;
        process.pending.clear();
        process.timers.clear();
        self.confirmations.retain(|(who, ..)| usize::from(who.0) != index);
    }

    /// A disk syncs, and what has waited for it goes out.
    fn sync(&mut self, index: usize) {
        let process = &mut self.processes[index];
        process.durable = process.facts.len();
        self.release(index);
    }

    /// Storage gives up old facts when it suits it, and not always all that it may.
    fn give_up(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let allowed = process.truncations.iter().filter(|(needed, _)| *needed <= process.durable);
        let Some(anchor) = allowed.map(|(_, anchor)| *anchor).max() else { return };
        let given_up = if self.random.chance(0.5) { anchor } else { self.random.index(anchor + 1) };
        let process = &mut self.processes[index];
        process.facts.drain(..given_up);
        process.durable -= given_up;
        process.anchor = process.anchor.saturating_sub(given_up);
        process.pending.iter_mut().for_each(|(needed, _)| *needed = needed.saturating_sub(given_up));
        for (needed, anchor) in &mut process.truncations {
            (*needed, *anchor) = (*needed - given_up.min(*needed), anchor.saturating_sub(given_up));
        }
        process.truncations.retain(|(_, anchor)| *anchor > 0);
    }

    /// Lets go what waits for no sync any more.
    fn release(&mut self, index: usize) {
        let durable = self.processes[index].durable;
        let (ready, waiting) = std::mem::take(&mut self.processes[index].pending)
            .into_iter()
            .partition(|(needed, _)| *needed <= durable);
        self.processes[index].pending = waiting;
        let ready: VecDeque<(usize, Pending)> = ready;
        for (_, pending) in ready {
            match pending {
                Pending::Send(to, message) => self.fly(ReplicaIndex(index as u8), to, message),
                Pending::Notify(durable) => {
                    self.step(index, |replica, step| replica.on_durable(durable, step));
                }
            }
        }
    }

    fn fly(&mut self, from: ReplicaIndex, to: ReplicaIndex, message: Message<u64>) {
        if self.cut.contains(&(from, to)) || self.random.chance(self.loss) {
            return;
        }
        let copies = if !self.calm && self.random.chance(0.05) { 2 } else { 1 };
        for _ in 0..copies {
            let late = if !self.calm && self.random.chance(self.habits.late) { 500_000 } else { 3_000 };
            let at = self.now + 100 + self.random.below(late);
            self.flying.push(Flying { at, from, to, message: message.clone() });
        }
    }

    /// The next event happens.
    fn tick(&mut self) {
        for index in 0..self.processes.len() {
            if self.random.chance(self.processes[index].sync_rate) {
                self.sync(index);
            }
        }
        self.now += 200 + self.random.below(800);
        let (due, later) =
            std::mem::take(&mut self.flying).into_iter().partition(|flying| flying.at <= self.now);
        self.flying = later;
        let mut due: Vec<Flying> = due;
        while !due.is_empty() {
            let Flying { from, to, message, .. } = due.swap_remove(self.random.index(due.len()));
            self.step(usize::from(to.0), |replica, step| {
                replica.on_message(from, Epoch::FIRST, message, step)
            });
        }
        for index in 0..self.processes.len() {
            let now = self.now;
            let timers = &mut self.processes[index].timers;
            let fired: Vec<Timer> =
                timers.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
            for timer in fired {
                self.processes[index].timers.remove(&timer);
                self.step(index, |replica, step| replica.on_timer(timer, step));
            }
        }
    }

    /// Leaders append, and ask whether they lead; everybody shortens its log now and then.
    fn use_it(&mut self) {
        for index in 0..self.processes.len() {
            if self.random.chance(0.01) {
                self.step(index, |replica, step| replica.begin_snapshot(step));
                self.give_up(index);
            }
            if self.random.chance(0.1) {
                let payload = self.appended;
                if self.step(index, |replica, _| replica.append(payload)).flatten().is_some() {
                    self.appended += 1;
                }
            }
            if self.random.chance(0.02) {
                let answered = self.answered;
                let asked = self.step(index, |replica, _| (replica.view(), replica.confirm()));
                if let Some((view, Some(number))) = asked {
                    self.confirmations.push((ReplicaIndex(index as u8), view, number, answered));
                }
            }
        }
    }

    fn disturb(&mut self) {
        let replicas = self.processes.len();
        let index = self.random.index(replicas);
        if self.random.chance(0.003) {
            let index = self.leader_or(index);
            self.crash(index);
        }
        if self.processes[index].replica.is_none() && self.random.chance(self.habits.restarts) {
            // Never more than f lack what they once had.
            let may_lose = self.lost() < (replicas - 1) / 2;
            if may_lose && self.random.chance(self.habits.losses) {
                self.lose(index)
            } else {
                self.restart(index)
            }
        }
        if self.random.chance(0.003) {
            let index = self.leader_or(index);
            self.processes[index].sync_rate = [0.7, 0.01][self.random.index(2)];
        }
        if self.random.chance(0.004) {
            self.cut_off(index);
        }
        // Long enough, at times, for the others to go on to another view, and to a third.
        if self.random.chance(0.002) {
            self.cut.clear();
        }
    }

    /// Somebody who leads, half of the time.
    fn leader_or(&mut self, any: usize) -> usize {
        let leads = |process: &Process| process.replica.as_ref().is_some_and(Replica::is_leading);
        let leader = self.processes.iter().position(leads);
        leader.filter(|_| self.random.chance(0.5)).unwrap_or(any)
    }

    /// A replica does not hear some of the others, or all, or is not heard by them, or both; preferably one that leads.
    fn cut_off(&mut self, any: usize) {
        let index = self.leader_or(any);
        let (hears, speaks, share) = (self.random.chance(0.5), self.random.chance(0.5), self.random.unit());
        for other in 0..self.processes.len() {
            if self.random.chance(share) {
                continue;
            }
            let (me, other) = (ReplicaIndex(index as u8), ReplicaIndex(other as u8));
            if !hears {
                self.cut.insert((other, me));
            }
            if !speaks {
                self.cut.insert((me, other));
            }
        }
    }

    /// Everything works again; everybody comes to have all that is stable, and more becomes so.
    fn heal(&mut self) {
        self.loss = 0.0;
        self.cut.clear();
        for index in 0..self.processes.len() {
            self.processes[index].sync_rate = 0.7;
            if self.processes[index].replica.is_none() {
                self.restart(index);
            }
        }
        let before = self.stable.len();
        for _ in 0..20_000 {
            self.tick();
            self.use_it();
            let settled = |process: &Process| {
                process.replica.as_ref().is_some_and(|replica| {
                    replica.status() == Status::Normal && replica.stable().0 as usize > before
                })
            };
            if self.processes.iter().all(settled) {
                return;
            }
        }
        let says = |process: &Process| {
            let replica = process.replica.as_ref()?;
            Some((replica.status(), replica.view(), replica.is_leading(), replica.stable(), replica.last()))
        };
        let all: Vec<_> = self.processes.iter().map(says).collect();
        panic!("{before} were stable, and some replicas have no more: {all:?}");
    }
}

/// The facts of a log that count when its replica restarts.
fn counting<P: Payload>(facts: Vec<Fact<P>>, rules: Rules) -> Vec<Fact<P>> {
    replay::counting(facts, |fact| snapshot::part(fact, rules))
}
