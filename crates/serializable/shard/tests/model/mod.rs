//! Random histories of a shard, in orders in which a replica may drive it, against a simple model: each
//! answer is the one that one execution after the other would have given, in the order of places.

mod reference;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quorate_core::{ClientId, ClockTime, Key, KeyRange, Random, TransactionId, Value};
use quorate_granola::{Answer as Answered, Application, Place, Prepared};
use quorate_serializable_shard::{
    Answer, Batch, Call, Condition, Declared, Deploy, Frozen, Infer, Inferred, Operation, Page, Remove, Step,
    read_answer,
};

use crate::library::TestedShard;
use reference::{Result, State};

/// Few keys, one of them so long that it is shared and not copied, so that everything meets everything.
const KEYS: [&str; 6] = ["a", "b", "c", "d", "k-that-is-too-long-to-lie-in-its-handle", "x"];

/// A history in the making.
struct History {
    random: Random,
    shard: TestedShard,
    /// The operations that were executed and not undone, with their results.
    executed: BTreeMap<Place, (Operation, Result)>,
    /// The reads whose results nothing may change any more.
    reads: Vec<(Place, Operation, Result)>,
    prepared: BTreeMap<TransactionId, Open>,
    /// Nothing stands above yet.
    last: u64,
    settled: u64,
    sequence: u64,
    frozen: Vec<(Frozen, State)>,
    /// How often interesting things have happened.
    seen: BTreeSet<&'static str>,
}

/// A transaction that is prepared.
struct Open {
    operation: Operation,
    proposed: u64,
    is_forced: bool,
    is_free: bool,
    /// The answer that it will give, unless it was prepared by force.
    promised: Option<Answered>,
}

impl History {
    fn new(seed: u64) -> Self {
        History {
            random: Random::new(seed),
            shard: TestedShard::default(),
            executed: BTreeMap::new(),
            reads: Vec::new(),
            prepared: BTreeMap::new(),
            last: 0,
            settled: 0,
            sequence: 0,
            frozen: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    fn next_id(&mut self) -> TransactionId {
        self.sequence += 1;
        TransactionId { client: ClientId(1), sequence: self.sequence, attempt: 0 }
    }

    fn propose(&mut self) -> u64 {
        self.last += 1 + self.random.below(3);
        self.last
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..30 => self.run(),
            30..50 => self.prepare(),
            50..68 => self.end_one(),
            68..82 => self.read(),
            82..88 => self.settle(),
            88..91 => self.rewind(),
            91..95 => self.freeze(),
            95..96 => self.restart(),
            _ => self.force(),
        }
    }

    fn run(&mut self) {
        let (transaction, timestamp) = (self.next_id(), self.propose());
        let operation = self.operation();
        let place = Place { timestamp: ClockTime::from_micros(timestamp), transaction };
        match self.shard.run(place, &operation.encode()) {
            Some(answer) => self.note(place, operation, &answer),
            None => {
                self.seen.insert("a run met a lock");
                assert!(!self.prepared.is_empty());
            }
        }
    }

    fn note(&mut self, place: Place, operation: Operation, answer: &Answered) {
        let answer = read_answer(answer).expect("an answer can be read");
        self.seen.insert(if answer.is_ok() { "something was done" } else { "something was refused" });
        if let Ok(Answer::Inferred(Inferred { touches: Some(_), .. })) = answer {
            self.seen.insert("a procedure said what it touches");
        }
        self.executed.insert(place, (operation, answer));
    }

    fn prepare(&mut self) {
        let (transaction, operation) = (self.next_id(), self.operation());
        if self.prepared.values().any(|open| open.is_forced) {
            return;
        }
        let promised = match self.shard.prepare(transaction, &operation.encode()) {
            Prepared::Conflict => {
                self.seen.insert("a prepare met a lock");
                return;
            }
            Prepared::Commit(answer) => answer,
            Prepared::Abort(reason) => Answered::Refused(reason),
            Prepared::Late(_) => panic!("nothing asks for its place here"),
        };
        // Only now, so that it stands above what it has met.
        let proposed = self.propose();
        let open = Open { operation, proposed, is_forced: false, is_free: true, promised: Some(promised) };
        self.prepared.insert(transaction, open);
    }

    /// Gives back all locks, and prepares everything by force, in the order of proposals.
    fn force(&mut self) {
        let mut open: Vec<(TransactionId, Open)> = std::mem::take(&mut self.prepared).into_iter().collect();
        open.iter().for_each(|(id, _)| self.shard.abort(*id));
        for _ in 0..self.random.below(2) {
            let operation = self.operation();
            let (id, proposed) = (self.next_id(), self.propose());
            open.push((id, Open { operation, proposed, is_forced: true, is_free: true, promised: None }));
        }
        open.sort_by_key(|(id, open)| (open.proposed, *id));
        for (id, mut open) in open {
            open.is_free = self.shard.force_prepare(id, &open.operation.encode());
            (open.is_forced, open.promised) = (true, None);
            self.seen.insert(if open.is_free { "free by force" } else { "blocked by force" });
            self.prepared.insert(id, open);
        }
    }

    /// Commits or aborts something that is prepared; of what was prepared by force the first, or one that is
    /// free.
    fn end_one(&mut self) {
        let mut free: Vec<TransactionId> = self.prepared.keys().copied().collect();
        let first = free.iter().copied().min_by_key(|id| (self.prepared[id].proposed, *id));
        free.retain(|id| self.prepared[id].is_free || Some(*id) == first);
        if free.is_empty() {
            return;
        }
        let id = free[self.random.index(free.len())];
        let open = self.prepared.remove(&id).expect("it was just found");
        if self.random.chance(0.2) {
            return self.shard.abort(id);
        }
        // The other participants may have proposed something greater: not for what others wait behind.
        let is_later = !open.is_forced && self.random.chance(0.3);
        let timestamp = if is_later { self.propose() } else { open.proposed };
        let place = Place { timestamp: ClockTime::from_micros(timestamp), transaction: id };
        if self.executed.last_key_value().is_some_and(|(last, _)| *last > place) {
            self.seen.insert("a commit below what has run");
        }
        let answer = self.shard.commit(place);
        assert!(open.promised.is_none_or(|promised| promised == answer));
        self.note(place, open.operation, &answer);
    }

    fn read(&mut self) {
        let operation = self.operation();
        let timestamp = self.random.between(self.settled, self.last + 3);
        let before = Place::after(ClockTime::from_micros(timestamp));
        let read = self.shard.read(before, &operation.encode());
        let answer = read_answer(&read.answer).expect("an answer can be read");
        let expected = self.state(before).read(&operation);
        assert_eq!(answer, expected, "{operation:?} before {before}");
        if read.locked_by.is_some() {
            self.seen.insert("a read met a lock");
        } else if timestamp >= self.last {
            // A read at a timestamp moves later proposals above it. Below it, only a transaction that holds locks can still come.
            self.last = self.last.max(timestamp);
            self.reads.push((before, operation, answer));
        }
    }

    /// Nothing below the first proposal can change.
    fn horizon(&self) -> Option<u64> {
        self.prepared.values().map(|open| open.proposed).min()
    }

    fn settle(&mut self) {
        let horizon = self.horizon().unwrap_or(self.last + 1);
        let below = self.random.between(self.settled, horizon).max(self.settled);
        self.settled = below.saturating_sub(1).max(self.settled);
        if self.prepared.is_empty() && self.random.chance(0.5) {
            self.settled = self.last;
            return self.shard.settle(None);
        }
        let below = Place { timestamp: ClockTime::from_micros(below), transaction: TransactionId::default() };
        self.shard.settle(Some(below));
    }

    /// A leader is deposed: it holds no locks any more, and what it ran ahead of its log is undone.
    fn rewind(&mut self) {
        let aborts_first = self.random.chance(0.5);
        let prepared = std::mem::take(&mut self.prepared);
        if aborts_first {
            prepared.keys().for_each(|id| self.shard.abort(*id));
        }
        let to = Place::after(ClockTime::from_micros(self.random.between(self.settled, self.last)));
        self.shard.rewind(to);
        if !aborts_first {
            prepared.keys().for_each(|id| self.shard.abort(*id));
        }
        let undone = self.executed.split_off(&to);
        self.seen.insert(if undone.is_empty() { "nothing was undone" } else { "something was undone" });
        // Those that were told of a later state were told by a leader that knew that it led: none was.
        self.reads.retain(|(before, _, _)| *before <= to);
        assert_eq!(
            contents(&mut self.shard.freeze(None)),
            self.state(Place::after(ClockTime::from_micros(self.last)))
        );
    }

    fn freeze(&mut self) {
        let horizon = self.horizon().unwrap_or(self.last + 1);
        let timestamp = self.random.between(self.settled + 1, horizon.max(self.settled + 1));
        let below =
            Place { timestamp: ClockTime::from_micros(timestamp), transaction: TransactionId::default() };
        let (frozen, state) = match self.random.chance(0.3) {
            true => {
                (self.shard.freeze(None), self.state(Place::after(ClockTime::from_micros(self.last + 9))))
            }
            false => (self.shard.freeze(Some(below)), self.state(below)),
        };
        self.frozen.push((frozen, state));
    }

    /// The shard is built anew from its pages.
    fn restart(&mut self) {
        if !self.prepared.is_empty() {
            return;
        }
        let pages = pages(&mut self.shard.freeze(None), 100);
        self.shard = TestedShard::from_pages(pages.clone());
        assert_eq!(self::pages(&mut self.shard.freeze(None), 100), pages);
        self.settled = self.last;
        self.seen.insert("it was restarted");
    }

    /// The state after everything below a place, one after the other.
    fn state(&self, before: Place) -> State {
        let mut state = State::default();
        for (place, (operation, _)) in self.executed.range(..before) {
            drop(state.run(*place, operation));
        }
        state
    }

    /// Each answer is the one that the order of places gives.
    fn check(mut self) -> BTreeSet<&'static str> {
        let mut state = State::default();
        for (place, (operation, answer)) in &self.executed {
            assert_eq!(*answer, state.run(*place, operation), "{operation:?} at {place}");
        }
        assert_eq!(contents(&mut self.shard.freeze(None)), state);
        for (before, operation, answer) in &self.reads {
            assert_eq!(*answer, self.state(*before).read(operation), "{operation:?} before {before}");
        }
        for (mut frozen, state) in std::mem::take(&mut self.frozen) {
            assert_eq!(contents(&mut frozen), state, "what was frozen does not change");
        }
        let prepared = std::mem::take(&mut self.prepared);
        prepared.keys().for_each(|id| self.shard.abort(*id));
        self.shard.settle(None);
        assert_eq!((self.shard.unsettled(), self.shard.disorders()), (0, 0));
        assert_eq!(self.shard.prepared().count(), 0);
        self.seen
    }

    fn operation(&mut self) -> Operation {
        let name = pick(&mut self.random, &["p", "q"]).to_owned();
        match self.random.below(20) {
            0 => {
                let code = pick(&mut self.random, &["a +", "b -", "no-line"]);
                let version = self.random.between(1, 2) as u32;
                Operation::Deploy(Deploy { name, version, code: Value::from_static(code.as_bytes()) })
            }
            1 => Operation::Remove(Remove { name, version: self.random.between(1, 2) as u32 }),
            2 | 3 => {
                let declared = self.random.chance(0.5).then(|| Declared {
                    keys: vec![self.key()],
                    ranges: if self.random.chance(0.5) { vec![self.range()] } else { Vec::new() },
                });
                let (version, arguments) = (self.random.below(3) as u32, Value::from_static(b"!"));
                Operation::Call(Call { name, version, arguments, declared })
            }
            4 => Operation::Call(Call { name: "count".into(), ..Call::default() }),
            5 if self.random.chance(0.2) => {
                Operation::Infer(Infer { name: "count".to_owned(), ..Infer::default() })
            }
            5 => Operation::Infer(Infer {
                name,
                version: self.random.below(3) as u32,
                arguments: Value::default(),
            }),
            _ => {
                let conditions = (0..self.random.below(3)).filter_map(|_| self.condition()).collect();
                let steps = (0..self.random.below(4)).map(|_| self.one_step()).collect();
                Operation::Batch(Batch { conditions, steps })
            }
        }
    }

    fn key(&mut self) -> Key {
        Key::from(pick(&mut self.random, &KEYS))
    }

    fn range(&mut self) -> KeyRange {
        let (from, to) = (self.key(), self.key());
        KeyRange { from, to: self.random.chance(0.8).then_some(to) }
    }

    /// Mostly such that hold, as far as is known.
    fn condition(&mut self) -> Option<Condition> {
        let key = self.key();
        let held = self.shard.newest(&key).cloned();
        Some(match (self.random.below(5), held) {
            (0, None) => Condition::Absent { key },
            (0, Some(_)) => Condition::Exists { key },
            (1, Some(held)) => Condition::Version { key, version: held.place },
            (2, held) => {
                Condition::Value { key, value: held.map_or(Value::from_static(b"1"), |held| held.value) }
            }
            (3, _) => {
                let range = self.range();
                let at = self.last.saturating_sub(self.random.below(4));
                let before = Place::after(ClockTime::from_micros(at));
                let keys = self.state(before).count(&range);
                Condition::Unchanged { range, before, keys }
            }
            (4, _) => Condition::AtLeast { key, number: self.random.below(4) as i64 - 2 },
            _ => return None,
        })
    }

    fn one_step(&mut self) -> Step {
        let (key, value) = (self.key(), Value::from(self.random.below(30).to_string()));
        match self.random.below(8) {
            0 | 1 => Step::Get { key },
            2 | 3 => Step::Put { key, value },
            4 => Step::Delete { key },
            5 => Step::Increment { key, by: self.random.below(9) as i64 - 4 },
            6 => Step::Append { key, value },
            _ => {
                let (limit, descending) = (self.random.between(1, 4) as u32, self.random.chance(0.5));
                Step::Scan { range: self.range(), limit, descending }
            }
        }
    }
}

fn pages(frozen: &mut Frozen, bytes_max: usize) -> Vec<Page> {
    std::iter::from_fn(|| TestedShard::next_page(frozen, bytes_max)).collect()
}

fn contents(frozen: &mut Frozen) -> State {
    let mut state = State::default();
    for page in pages(frozen, 100) {
        match page {
            Page::Keys { entries, .. } => {
                state.keys.extend(entries.into_iter().map(|(key, held)| (key.to_vec(), held)));
            }
            Page::Procedures(page) => {
                state.procedures.extend(page.into_iter().map(|(key, held)| (key.to_vec(), held)));
            }
        }
    }
    state
}

fn history(seed: u64, steps: usize) -> BTreeSet<&'static str> {
    let mut history = History::new(seed);
    (0..steps).for_each(|_| history.step());
    history.check()
}

#[test]
fn histories_reach_everything() {
    let seen: BTreeSet<_> = (0..40).flat_map(|seed| history(seed, 150)).collect();
    let expected = [
        "a commit below what has run",
        "a prepare met a lock",
        "a procedure said what it touches",
        "a read met a lock",
        "a run met a lock",
        "blocked by force",
        "free by force",
        "it was restarted",
        "nothing was undone",
        "something was done",
        "something was refused",
        "something was undone",
    ];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_runs_is_what_the_order_of_places_gives(seed in any::<u64>(), steps in 1usize..200) {
        history(seed, steps);
    }
}

fn pick<'a>(random: &mut Random, from: &[&'a str]) -> &'a str {
    from[random.index(from.len())]
}
