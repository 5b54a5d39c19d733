//! `lists`: the judged workload. It looks for conflicts, and a checker can see every one of them.
//!
//! Keys are lists that grow by appends, whose order a single read reveals, and registers. Every key belongs to a
//! *generation*; clients move to the next one as they go, so lists stay short, and absent keys are read all the time. The
//! declared universe of a generation is [`Lists::universe`]: a scan is recorded as one read for each of its keys.
//!
//! | transaction | operations | looks for |
//! |---|---|---|
//! | `append` | appends to 1 to 3 lists | lost updates, torn multi-shard commits |
//! | `read` | reads 2 to 5 keys | fractured and stale reads |
//! | `skew` | reads 1 to 3 keys, appends to another | write skew, over absent keys too |
//! | `transfer` | updates 2 registers and reads a third | lost updates, reads of what was aborted |
//! | `blind` | writes 1 or 2 registers unread, reads a list | writes slipped below committed reads |
//! | `scan` | reads a range of lists, sometimes only its first page | phantoms, fractured reads |
//! | `count` | reads a range of lists, appends to one list, within the range or not | phantom write skew |
//! | `own` | appends, reads the key again, appends again | a transaction's view of its own writes |
//!
//! [`Mix::Relay`] is for sessions that go on at other clients: most of what they do is about one key, and somebody looks at all keys
//! at once all the time.
//!
//! | transaction | operations | looks for |
//! |---|---|---|
//! | `hop` | appends to a list | a step that stands before what its session has seen elsewhere |
//! | `look` | reads all lists of a generation | such steps, in the wrong order |
//! | `pair` | appends to 2 lists | timestamps that are agreed upon while others wait |
//! | `skew` | as above | the same |
//!
//! [`Mix::Sets`] has counting sets as well, one for each register:
//!
//! | transaction | operations | looks for |
//! |---|---|---|
//! | `befriend` | adds an element of its own to 2 sets | fractured reads, lost and repeated updates |
//! | `tally` | changes the count of an element that others change, in 1 or 2 sets | sums that do not add up |
//! | `roll` | reads 1 or 2 sets | the same |
//! | `post` | adds an element of its own to a set, and appends to a list | sets and lists that are torn apart |
//! | `view` | reads a set and a list | the same |
//!
//! [`Mix::Counters`] has counters that do not fall below zero besides, one for each register:
//!
//! | transaction | operations | looks for |
//! |---|---|---|
//! | `stock` | adds to a counter, or takes from it | counters that fall below zero |
//! | `sell` | takes from a counter, and appends to a list | the same, and counters and lists that are torn apart |
//! | `stocks` | reads 1 or 2 counters | the same |

use quorate_core::command::End;
use quorate_core::counter::set_of;
use quorate_core::{Key, KeyRange, Random};

use crate::key::slotted;
use crate::operation::{Element, Elements, Operation, Plan, Scan};
use crate::zipf::{Distribution, Popularity};

const LIST: u8 = b'l';
const REGISTER: u8 = b'r';
const SET: u8 = b's';
const COUNTER: u8 = b'c';

/// How often a client works on the generation after its current one, so that generations overlap and first writes race.
const AHEAD_PROBABILITY: f64 = 0.05;

/// The fewest lists of a generation that transactions of every kind need to tell apart.
pub const LISTS_MIN: u64 = 5;

/// The fewest registers of a generation that transactions of every kind need to tell apart.
pub const REGISTERS_MIN: u64 = 3;

/// The fewest keys of a generation: two lists and a register, with which transactions have fewer operations.
pub const KEYS_MIN: u64 = 3;

/// The kinds of transactions of [`Mix::Broad`].
pub const KINDS: [&str; 8] = ["append", "read", "skew", "transfer", "blind", "scan", "count", "own"];

/// How often there is which transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mix {
    /// Some of everything.
    #[default]
    Broad,
    /// Appends to one list after the other, and looks at all of them.
    Relay,
    /// Counting sets, and some of everything.
    Sets,
    /// Counting sets, counters that do not fall below zero, and some of everything.
    Counters,
}

/// The judged workload, as one client draws it.
#[derive(Clone, Debug)]
pub struct Lists {
    lists: Distribution,
    registers: Distribution,
    /// After so many transactions of one client the next generation begins.
    generation_transactions: u64,
    mix: Mix,
    /// The kinds of transactions that are drawn; all of them if none is named.
    only: Vec<&'static str>,
    drawn: u64,
}

impl Lists {
    /// Generations of `keys` keys (raised to the fewest that are needed), two thirds of them lists.
    pub fn new(keys: u64, popularity: Popularity, generation_transactions: u64, mix: Mix) -> Self {
        let suffice = keys >= LISTS_MIN + REGISTERS_MIN;
        let registers = (keys / 3).max(if suffice { REGISTERS_MIN } else { 1 });
        let lists = keys.max(KEYS_MIN) - registers;
        Lists {
            lists: Distribution::new(lists, popularity),
            registers: Distribution::new(registers, popularity),
            generation_transactions: generation_transactions.max(1),
            mix,
            only: Vec::new(),
            drawn: 0,
        }
    }

    /// The same, but of these kinds of transactions alone; all of them if none is named.
    ///
    /// # Panics
    /// If [`Mix::Broad`] has no transactions of such a kind.
    pub fn of_kinds(mut self, only: Vec<&'static str>) -> Self {
        assert!(only.iter().all(|kind| KINDS.contains(kind)), "{only:?}: choose among {KINDS:?}");
        self.only = only;
        self
    }

    /// The generation that the next transaction works on, give or take one.
    pub fn generation(&self) -> u64 {
        self.drawn / self.generation_transactions
    }

    /// Every key that was or will be written in a generation, ascending.
    pub fn universe(&self, generation: u64) -> Vec<Key> {
        let lists = (0..self.lists.count()).map(|slot| slotted(LIST, generation, slot));
        lists.chain((0..self.registers.count()).map(|slot| slotted(REGISTER, generation, slot))).collect()
    }

    /// Every set that was or will be changed in a generation, counters among them, ascending.
    pub fn sets(&self, generation: u64) -> Vec<Key> {
        let slots = |has_them| if has_them { 0..self.registers.count() } else { 0..0 };
        let counters = slots(self.mix == Mix::Counters).map(|slot| counter(generation, slot));
        let sets = slots(matches!(self.mix, Mix::Sets | Mix::Counters));
        counters.chain(sets.map(|slot| slotted(SET, generation, slot))).collect()
    }

    /// The next transaction.
    pub fn draw(&mut self, random: &mut Random) -> Plan {
        let generation = self.generation() + u64::from(random.chance(AHEAD_PROBABILITY));
        self.drawn += 1;
        let draw = Draw { lists: self, generation };
        let (kind, operations) = match (self.mix, random.below(100)) {
            (Mix::Broad, drawn) => draw.of_everything(drawn, random),
            (Mix::Sets, 0..45) | (Mix::Counters, 0..38) => draw.of_sets(random),
            (Mix::Counters, 38..52) => draw.of_counters(random),
            (Mix::Sets | Mix::Counters, _) => draw.of_everything(random.below(100), random),
            (Mix::Relay, 0..30) => ("hop", draw.appends(1, 1, random)),
            (Mix::Relay, 30..45) => ("look", draw.look()),
            (Mix::Relay, 45..92) => ("pair", draw.appends(2, 2, random)),
            (Mix::Relay, _) => ("skew", draw.skew(random)),
        };
        Plan { kind, operations }
    }
}

/// Draws operations within one generation.
struct Draw<'a> {
    lists: &'a Lists,
    generation: u64,
}

impl Draw<'_> {
    fn of_everything(&self, drawn: u64, random: &mut Random) -> (&'static str, Vec<Operation>) {
        let only = &self.lists.only;
        let kind = match drawn {
            _ if !only.is_empty() => only[random.index(only.len())],
            0..18 => "append",
            18..42 => "read",
            42..56 => "skew",
            56..66 => "transfer",
            66..78 => "blind",
            78..86 => "scan",
            86..94 => "count",
            _ => "own",
        };
        let operations = match kind {
            "append" => self.appends(1, 3, random),
            "read" => self.read(random),
            "skew" => self.skew(random),
            "transfer" => self.transfer(random),
            "blind" => self.blind(random),
            "scan" => vec![self.scan(random)],
            "count" => self.count(random),
            _ => self.own(random),
        };
        (kind, operations)
    }

    fn of_sets(&self, random: &mut Random) -> (&'static str, Vec<Operation>) {
        match random.below(5) {
            0 => ("befriend", self.some_sets(2, random).into_iter().map(add).collect()),
            1 => {
                let element = Element::Numbered(random.between(1, 3) as i64);
                let by = [-2, -1, -1, 1, 1, 1, 2][random.index(7)];
                let wanted = random.between(1, 2);
                let change = |set| Operation::Change { set, element, by };
                ("tally", self.some_sets(wanted, random).into_iter().map(change).collect())
            }
            2 => {
                let wanted = random.between(1, 2);
                let sets = self.some_sets(wanted, random);
                ("roll", sets.into_iter().map(|set| elements(set, random)).collect())
            }
            3 => {
                let added = self.some_sets(1, random).into_iter().map(add);
                (
                    "post",
                    added.chain(self.some_lists(1, 1, random).into_iter().map(Operation::Append)).collect(),
                )
            }
            _ => {
                let set = self.some_sets(1, random).into_iter().map(|set| elements(set, random)).collect();
                let lists = self.some_lists(1, 1, random).into_iter().map(Operation::Get);
                ("view", Vec::into_iter(set).chain(lists).collect())
            }
        }
    }

    /// Counters that do not fall below zero. Only few of their changes, so that it can be told which of them a reader has seen.
    fn of_counters(&self, random: &mut Random) -> (&'static str, Vec<Operation>) {
        let slots = |wanted: u64, random: &mut Random| self.some_slots(wanted, random);
        let change = |slot, by| {
            let set = counter(self.generation, slot);
            Operation::Change { set, element: Element::Value, by }
        };
        match random.below(4) {
            0 => {
                let by = [3, 2, 1, 2, -1, -2][random.index(6)];
                ("stock", slots(1, random).into_iter().map(|slot| change(slot, by)).collect())
            }
            1 | 2 => {
                let sold = slots(1, random).into_iter().map(|slot| change(slot, -1));
                let lists = self.some_lists(0, 1, random).into_iter().map(Operation::Append);
                ("sell", sold.chain(lists).collect())
            }
            _ => {
                let wanted = random.between(1, 2);
                let read = |slot| Elements::all(counter(self.generation, slot), End::Least, 1_000);
                (
                    "stocks",
                    slots(wanted, random).into_iter().map(|slot| Operation::Elements(read(slot))).collect(),
                )
            }
        }
    }

    /// There are as many sets as registers.
    fn some_sets(&self, wanted: u64, random: &mut Random) -> Vec<Key> {
        let slots = self.some_slots(wanted, random);
        slots.into_iter().map(|slot| slotted(SET, self.generation, slot)).collect()
    }

    fn list(&self, slot: u64) -> Key {
        slotted(LIST, self.generation, slot)
    }

    fn register(&self, slot: u64) -> Key {
        slotted(REGISTER, self.generation, slot)
    }

    fn some_lists(&self, low: u64, high: u64, random: &mut Random) -> Vec<Key> {
        let wanted = random.between(low, high).min(self.lists.lists.count()) as usize;
        let slots = self.lists.lists.draw_distinct(random, wanted);
        slots.into_iter().map(|slot| self.list(slot)).collect()
    }

    fn some_registers(&self, wanted: u64, random: &mut Random) -> Vec<Key> {
        self.some_slots(wanted, random).into_iter().map(|slot| self.register(slot)).collect()
    }

    /// Registers, or fewer of them if there are not as many.
    fn some_slots(&self, wanted: u64, random: &mut Random) -> Vec<u64> {
        let registers = &self.lists.registers;
        registers.draw_distinct(random, wanted.min(registers.count()) as usize)
    }

    fn appends(&self, low: u64, high: u64, random: &mut Random) -> Vec<Operation> {
        self.some_lists(low, high, random).into_iter().map(Operation::Append).collect()
    }

    fn look(&self) -> Vec<Operation> {
        (0..self.lists.lists.count()).map(|slot| Operation::Get(self.list(slot))).collect()
    }

    fn read(&self, random: &mut Random) -> Vec<Operation> {
        let mut keys = self.some_lists(2, 4, random);
        if random.chance(0.5) {
            keys.extend(self.some_registers(1, random));
        }
        keys.into_iter().map(Operation::Get).collect()
    }

    fn skew(&self, random: &mut Random) -> Vec<Operation> {
        let mut keys = self.some_lists(2, 4, random);
        let written = keys.pop().map(Operation::Append);
        keys.into_iter().map(Operation::Get).chain(written).collect()
    }

    fn transfer(&self, random: &mut Random) -> Vec<Operation> {
        let mut keys = self.some_registers(3, random);
        let read = if keys.len() > 1 { keys.pop().map(Operation::Get) } else { None };
        keys.into_iter().map(Operation::Update).chain(read).collect()
    }

    fn blind(&self, random: &mut Random) -> Vec<Operation> {
        let wanted = random.between(1, 2);
        let writes = self.some_registers(wanted, random).into_iter().map(Operation::Put);
        writes.chain(self.some_lists(1, 1, random).into_iter().map(Operation::Get)).collect()
    }

    fn scan(&self, random: &mut Random) -> Operation {
        let count = self.lists.lists.count();
        let first = random.below(count);
        let end = random.between(first + 1, count);
        let range = KeyRange { from: self.list(first), to: Some(self.list(end)) };
        let universe = (first..end).map(|slot| self.list(slot)).collect();
        let page = if random.chance(0.5) { 1_000 } else { random.between(1, 3) as u32 };
        let pages_max = if random.chance(0.8) { u32::MAX } else { 1 };
        Operation::Scan(Scan { range, universe, page, pages_max })
    }

    fn count(&self, random: &mut Random) -> Vec<Operation> {
        let scan = self.scan(random);
        let written = self.some_lists(1, 1, random).into_iter().map(Operation::Append);
        std::iter::once(scan).chain(written).collect()
    }

    fn own(&self, random: &mut Random) -> Vec<Operation> {
        let keys = self.some_lists(1, 1, random);
        let again = || keys.iter().cloned();
        again()
            .map(Operation::Append)
            .chain(again().map(Operation::Get))
            .chain(again().map(Operation::Append))
            .collect()
    }
}

/// A counter, as a set.
fn counter(generation: u64, slot: u64) -> Key {
    set_of(&slotted(COUNTER, generation, slot))
}

/// Adds an element that nobody else adds.
fn add(set: Key) -> Operation {
    Operation::Change { set, element: Element::Fresh, by: 1 }
}

fn elements(set: Key, random: &mut Random) -> Operation {
    let from = if random.chance(0.5) { End::Least } else { End::Greatest };
    let page = if random.chance(0.5) { 1_000 } else { random.between(1, 3) as u32 };
    Operation::Elements(Elements::all(set, from, page))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn drawn(count: usize, mix: Mix) -> (Lists, Vec<Plan>) {
        let mut lists = Lists::new(9, Popularity::Zipf(0.8), 50, mix);
        let mut random = Random::new(5);
        let plans = (0..count).map(|_| lists.draw(&mut random)).collect();
        (lists, plans)
    }

    #[test]
    fn every_shape_is_drawn_and_judgeable() {
        for (mix, shapes) in [(Mix::Broad, 8), (Mix::Relay, 4), (Mix::Sets, 13), (Mix::Counters, 16)] {
            let (_, plans) = drawn(1_000, mix);
            let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
            for plan in &plans {
                *kinds.entry(plan.kind).or_default() += 1;
                assert!(plan.is_judgeable(), "{plan:?}");
            }
            assert_eq!(kinds.len(), shapes, "{kinds:?}");
            assert!(plans.iter().filter(|plan| plan.is_read_only()).count() > 100);
        }
    }

    #[test]
    fn few_keys_are_enough_for_every_kind() {
        for (keys, only) in [(0, vec![]), (3, vec!["skew", "transfer"]), (5, vec![]), (8, vec!["scan"])] {
            let mut lists = Lists::new(keys, Popularity::Uniform, 50, Mix::Broad).of_kinds(only.clone());
            assert_eq!(lists.universe(0).len() as u64, keys.max(KEYS_MIN));
            let mut random = Random::new(5);
            let plans: Vec<Plan> = (0..300).map(|_| lists.draw(&mut random)).collect();
            let kinds: BTreeSet<&str> = plans.iter().map(|plan| plan.kind).collect();
            let expected = if only.is_empty() { KINDS.into() } else { only.into_iter().collect() };
            assert_eq!(kinds, expected, "{keys} keys");
            assert!(plans.iter().all(|plan| plan.is_judgeable() && !plan.operations.is_empty()));
        }
    }

    #[test]
    fn whoever_looks_sees_every_list_of_a_generation() {
        let (lists, plans) = drawn(100, Mix::Relay);
        for plan in plans.iter().filter(|plan| plan.kind == "look") {
            let keys = plan.keys_read().expect("it only reads keys");
            let of_generation =
                |generation: &u64| keys.iter().all(|key| lists.universe(*generation).contains(key));
            assert_eq!((keys.len(), (0..4).filter(of_generation).count()), (6, 1), "{plan:?}");
        }
    }

    #[test]
    fn nothing_outside_the_universe_is_touched() {
        let (lists, plans) = drawn(400, Mix::Broad);
        let generations = 0..=lists.generation() + 1;
        let universe: BTreeSet<Key> = generations.flat_map(|generation| lists.universe(generation)).collect();
        for operation in plans.iter().flat_map(|plan| &plan.operations) {
            match operation {
                Operation::Scan(scan) => {
                    let expected: Vec<&Key> =
                        universe.iter().filter(|key| scan.range.contains(key)).collect();
                    assert_eq!(scan.universe.iter().collect::<Vec<_>>(), expected);
                }
                Operation::Get(key) => assert!(universe.contains(key)),
                other => assert!(other.key_written().is_some_and(|key| universe.contains(key))),
            }
        }
    }

    #[test]
    fn generations_move_on() {
        let (lists, _) = drawn(400, Mix::Broad);
        assert_eq!(lists.generation(), 8);
        assert!(lists.universe(8).is_sorted());
        assert_eq!(lists.universe(8).len(), 9);
    }
}
