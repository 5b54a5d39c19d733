//! Every schedule of a small group up to so many steps, one after the other: three replicas, an entry, a view change, a
//! crash or a lost message.
//!
//! The replicas are those that servers run. A state is what has happened so far, done over again; two states are the same
//! if nothing tells their replicas, disks and messages apart. Messages between two keep their order. No time
//! passes: promises last for none, so that nothing but silence keeps a replica from going on.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use quorate_core::log::Position;
use quorate_core::{ClockTime, Epoch, GroupSize, Instant, ReplicaIndex, View};
use stateright::{Checker, Model, Property};

use super::{LIMITS, counting};
use crate::replica::{Boot, Durable};
use crate::{Fact, Host, Membership, Message, Plant, Replica, Rules, Timer, Timing};

const TIMING: Timing = Timing {
    beat: Duration::ZERO,
    silence: Duration::ZERO,
    lease: Duration::ZERO,
    rate_error_ppm: 0,
    clock_error_max: Duration::from_secs(5),
    hand_back: Duration::from_secs(5),
};

/// An event that may happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Act {
    /// The oldest message from one replica to another arrives.
    Deliver(usize, usize),
    /// It is lost.
    Lose(usize, usize),
    /// A leader appends an entry.
    Append(usize),
    /// A replica has heard nothing for long.
    Silence(usize),
    /// A leader says that it is alive.
    Beat(usize),
    /// A replica crashes, and comes back with what its disk has.
    Crash(usize),
}

/// How much may happen.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    appends: u64,
    silences: u64,
    beats: u64,
    crashes: u64,
    losses: u64,
    view: u64,
}

/// An effect that waits until so many facts are durable.
#[derive(Clone, Debug)]
enum Waiting {
    Send(ReplicaIndex, Message<u64>),
    Notify(Durable),
}

#[derive(Debug)]
struct Process {
    replica: Replica<u64>,
    facts: Vec<Fact<u64>>,
    durable: usize,
    waiting: Vec<(usize, Waiting)>,
    applied: usize,
}

/// A group, after what has happened.
#[derive(Debug)]
struct Group {
    processes: Vec<Process>,
    /// From whom to whom, in order.
    flying: BTreeMap<(usize, usize), VecDeque<Message<u64>>>,
    /// With the view in which each became so.
    stable: Vec<(View, u64)>,
    leaders: BTreeMap<View, usize>,
    happened: [u64; 5],
    violation: Option<&'static str>,
}

/// The effects of a replica in one step.
struct Step<'a> {
    facts: &'a mut Vec<Fact<u64>>,
    waiting: &'a mut Vec<(usize, Waiting)>,
    given: Vec<(Position, u64)>,
    leads: Option<View>,
}

impl Host<u64> for Step<'_> {
    fn now(&self) -> Instant {
        Instant::START
    }

    fn clock(&self) -> ClockTime {
        ClockTime::default()
    }

    fn send(&mut self, to: ReplicaIndex, message: Message<u64>) {
        self.waiting.push((self.facts.len(), Waiting::Send(to, message)));
    }

    fn send_unordered(&mut self, to: ReplicaIndex, message: Message<u64>) {
        self.waiting.push((0, Waiting::Send(to, message)));
    }

    fn persist(&mut self, fact: Fact<u64>) {
        self.facts.push(fact);
    }

    fn persist_and_notify(&mut self, fact: Fact<u64>, durable: Durable) {
        self.facts.push(fact);
        self.waiting.push((self.facts.len(), Waiting::Notify(durable)));
    }

    fn anchor(&mut self) {}

    fn truncate(&mut self) {}

    fn set_timer(&mut self, _: Timer, _: Duration) {}

    fn cancel_timer(&mut self, _: Timer) {}

    fn on_stable(&mut self, position: Position, payload: &u64) {
        self.given.push((position, *payload));
    }

    fn freeze(&mut self) -> (Vec<u64>, usize) {
        unreachable!("nobody shortens its log")
    }

    fn next_page(&mut self, _: &mut (Vec<u64>, usize)) -> Option<Vec<u64>> {
        None
    }

    fn replace_state(&mut self, _: Position, _: Vec<Vec<u64>>) {
        unreachable!("nobody shortens its log")
    }

    fn nonce(&mut self) -> u64 {
        0
    }

    fn ignored(&mut self, _: &'static str) {}

    fn on_leading(&mut self, view: View) {
        self.leads = Some(view);
    }

    fn on_deposed(&mut self) {}

    fn on_handed_over(&mut self) {}
}

impl Group {
    fn new(rules: Rules) -> Self {
        let replica = |index| build(index, Vec::new(), rules);
        let processes = (0..3).map(|index| Process {
            replica: replica(index),
            facts: Vec::new(),
            durable: 0,
            waiting: Vec::new(),
            applied: 0,
        });
        let mut group = Group {
            processes: processes.collect(),
            flying: BTreeMap::new(),
            stable: Vec::new(),
            leaders: BTreeMap::new(),
            happened: [0; 5],
            violation: None,
        };
        for index in 0..3 {
            group.step(index, |replica, step| replica.start(Boot::Initialise, step));
        }
        // The first messages tell no replica anything.
        group.flying.clear();
        group
    }

    fn step(&mut self, index: usize, act: impl FnOnce(&mut Replica<u64>, &mut Step<'_>)) {
        let Process { replica, facts, waiting, .. } = &mut self.processes[index];
        let mut step = Step { facts, waiting, given: Vec::new(), leads: None };
        act(replica, &mut step);
        replica.flush(&mut step);
        let Step { given, leads, .. } = step;
        for (position, payload) in given {
            self.give(index, position.0 as usize - 1, payload);
        }
        if let Some(view) = leads {
            self.note_leader(index, view);
        }
        self.sync(index);
    }

    fn give(&mut self, index: usize, at: usize, payload: u64) {
        if at == self.stable.len() {
            self.stable.push((self.processes[index].replica.view(), payload));
        }
        let is_it = self.stable.get(at).is_some_and(|(_, stable)| *stable == payload);
        if !is_it || self.processes[index].applied != at {
            self.violation = Some("two entries are stable in one place");
        }
        self.processes[index].applied = at + 1;
    }

    fn note_leader(&mut self, index: usize, view: View) {
        if *self.leaders.entry(view).or_insert(index) != index {
            self.violation = Some("two lead one view");
        }
        let replica = &self.processes[index].replica;
        let held = (1..).map(|at| replica.entry(Position(at)).map(|entry| entry.payload));
        // Of a later view it knows nothing, and can make nothing stable.
        let earlier = self.stable.iter().take_while(|(since, _)| *since < view);
        if !earlier.zip(held).all(|((_, stable), held)| held == Some(*stable)) {
            self.violation = Some("a leader lacks what was stable before its view");
        }
    }

    fn release(&mut self, index: usize) {
        let process = &mut self.processes[index];
        let durable = process.durable;
        let (ready, waiting): (Vec<_>, _) =
            std::mem::take(&mut process.waiting).into_iter().partition(|(needed, _)| *needed <= durable);
        process.waiting = waiting;
        for (_, waiting) in ready {
            match waiting {
                Waiting::Send(to, message) => {
                    self.flying.entry((index, usize::from(to.0))).or_default().push_back(message);
                }
                Waiting::Notify(durable) => {
                    self.step(index, |replica, step| replica.on_durable(durable, step));
                }
            }
        }
    }

    fn sync(&mut self, index: usize) {
        self.processes[index].durable = self.processes[index].facts.len();
        self.release(index);
    }

    fn take(&mut self, from: usize, to: usize) -> Option<Message<u64>> {
        let queue = self.flying.get_mut(&(from, to))?;
        let message = queue.pop_front();
        if queue.is_empty() {
            self.flying.remove(&(from, to));
        }
        message
    }

    fn happen(&mut self, act: &Act, rules: Rules) {
        match *act {
            Act::Deliver(from, to) => {
                let Some(message) = self.take(from, to) else { return };
                let (from, epoch) = (ReplicaIndex(from as u8), Epoch::FIRST);
                self.step(to, |replica, step| replica.on_message(from, epoch, message, step));
            }
            Act::Lose(from, to) => {
                self.happened[4] += 1;
                self.take(from, to);
            }
            Act::Append(index) => {
                let payload = self.happened[0];
                self.happened[0] += 1;
                self.step(index, |replica, _| {
                    replica.append(payload);
                });
            }
            Act::Silence(index) => {
                self.happened[1] += 1;
                self.step(index, |replica, step| replica.on_timer(Timer::Silence, step));
            }
            Act::Beat(index) => {
                self.happened[2] += 1;
                self.step(index, |replica, step| replica.on_timer(Timer::Beat, step));
            }
            Act::Crash(index) => {
                self.happened[3] += 1;
                let process = &mut self.processes[index];
                process.facts.truncate(process.durable);
                process.waiting.clear();
                process.applied = 0;
                process.replica = build(index, process.facts.clone(), rules);
                self.step(index, |replica, step| replica.start(Boot::Initialise, step));
            }
        }
    }

    fn acts(&self, bounds: Bounds) -> Vec<Act> {
        let [appends, silences, beats, crashes, losses] = self.happened;
        let mut acts = Vec::new();
        for (from, to) in self.flying.keys() {
            acts.push(Act::Deliver(*from, *to));
            acts.extend((losses < bounds.losses).then_some(Act::Lose(*from, *to)));
        }
        for (index, process) in self.processes.iter().enumerate() {
            let (leads, view) = (process.replica.is_leading(), process.replica.view());
            let may = |is_possible: bool, act: Act| is_possible.then_some(act);
            acts.extend(may(leads && appends < bounds.appends, Act::Append(index)));
            acts.extend(may(
                !leads && silences < bounds.silences && view.0 < bounds.view,
                Act::Silence(index),
            ));
            acts.extend(may(leads && beats < bounds.beats, Act::Beat(index)));
            acts.extend(may(crashes < bounds.crashes, Act::Crash(index)));
        }
        acts
    }
}

fn build(index: usize, facts: Vec<Fact<u64>>, rules: Rules) -> Replica<u64> {
    let group = Membership::first(GroupSize::new(3).expect("three is odd"));
    let mut replica = Replica::new(group, ReplicaIndex(index as u8), TIMING, LIMITS).with_rules(rules);
    replica.restore(counting(facts, rules));
    replica
}

/// The events so far, and the state that they have led to.
#[derive(Clone, Debug)]
struct State {
    acts: Vec<Act>,
    looks: u128,
    violation: Option<&'static str>,
    /// How many entries are stable, and the greatest view that somebody has led.
    reached: (usize, u64),
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.looks == other.looks
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.looks.hash(hasher);
    }
}

struct Small {
    bounds: Bounds,
    rules: Rules,
}

impl Small {
    fn run(&self, acts: &[Act]) -> Group {
        let mut group = Group::new(self.rules);
        for act in acts {
            group.happen(act, self.rules);
        }
        group
    }

    fn state(acts: Vec<Act>, group: &Group) -> State {
        let text = format!("{group:?}");
        let half = |salt: u64| {
            // FNV-1a, twice: the states themselves are too long to keep.
            text.bytes().fold(0xcbf2_9ce4_8422_2325 ^ salt, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left((salt & 1) as u32)
            })
        };
        let looks = u128::from(half(0)) << 64 | u128::from(half(0x9e37_79b9_7f4a_7c15));
        let view = group.leaders.keys().last().map_or(0, |view| view.0);
        State { acts, looks, violation: group.violation, reached: (group.stable.len(), view) }
    }
}

impl Model for Small {
    type State = State;
    type Action = Act;

    fn init_states(&self) -> Vec<State> {
        vec![Small::state(Vec::new(), &self.run(&[]))]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Act>) {
        actions.extend(self.run(&state.acts).acts(self.bounds));
    }

    fn next_state(&self, state: &State, act: Act) -> Option<State> {
        let mut acts = state.acts.clone();
        acts.push(act);
        let group = self.run(&acts);
        Some(Small::state(acts, &group))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("agreement, no loss, one leader a view", |_, state: &State| {
                state.violation.is_none()
            }),
            Property::sometimes("a later view makes an entry stable", |_, state: &State| {
                state.reached.0 > 0 && state.reached.1 > 0
            }),
        ]
    }
}

fn check(bounds: Bounds, depth: usize, rules: Rules) -> (usize, Option<&'static str>) {
    let model = Small { bounds, rules };
    let checker = model.checker().threads(2).target_max_depth(depth).spawn_bfs().join();
    let violation = checker.discovery("agreement, no loss, one leader a view").map(|path| {
        println!("{:?}", path.last_state().acts);
        path.last_state().violation.expect("that is what it violates")
    });
    if violation.is_none() {
        checker.assert_any_discovery("a later view makes an entry stable");
    }
    (checker.unique_state_count(), violation)
}

#[test]
fn no_schedule_of_a_small_group_loses_anything() {
    let calm = Bounds { appends: 1, silences: 1, beats: 0, crashes: 0, losses: 0, view: 1 };
    for (bounds, depth) in [(Bounds { crashes: 1, ..calm }, 12), (Bounds { losses: 1, ..calm }, 13)] {
        let (states, violation) = check(bounds, depth, Rules::SOUND);
        assert_eq!(violation, None, "{bounds:?}");
        assert!(states > 15_000, "{states} states of {bounds:?} in {depth} steps");
    }
}

#[test]
fn a_schedule_of_a_small_group_loses_what_a_planted_bug_loses() {
    let bounds = Bounds { appends: 1, silences: 1, beats: 0, crashes: 0, losses: 0, view: 1 };
    let (_, violation) = check(bounds, 14, Rules::planted(Plant::OwnLogBegins));
    assert_eq!(violation, Some("a leader lacks what was stable before its view"));
}
