//! Differential fuzzing: the fast checks against the brute-force oracle on random tiny histories.
//!
//! Histories come from running random transactions on a random schedule, so that many are valid, and then
//! from bending some of what was read, so that many are not. `QUORATE_FUZZ_CASES` sets the number of cases.

use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use quorate_checker::{History, Level, MicroOp, Observed, Recorder, Timestamp, Verdict};
use quorate_checker::{check, check_timestamps, oracle};

const LEVELS: [Level; 3] = [Level::StrictSerializable, Level::SessionSerializable, Level::Serializable];

/// One operation of a plan: what it does, to which of few keys. Keys below [`LISTS`] are lists, others
/// registers.
#[derive(Debug, Clone, Copy)]
struct PlannedOp {
    key: i64,
    is_write: bool,
    /// The change that a read makes to the result that it finds.
    bend: Bend,
}

#[derive(Debug, Clone, Copy)]
enum Bend {
    /// Returns what the schedule explains.
    Honest,
    /// Returns what the state was so many steps ago.
    Stale(usize),
    /// Drops the last element of a list, or returns some written value of a register.
    Shorter(i64),
    /// Appends some written value.
    Longer(i64),
    /// Swaps the last two elements.
    Swapped,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Ok,
    Fail,
    /// Unknown; whether it takes effect.
    Info(bool),
    Open(bool),
    /// Reported as failed, although it took effect.
    Lie,
}

#[derive(Debug, Clone)]
struct PlannedTxn {
    ops: Vec<PlannedOp>,
    end: End,
    session: u64,
    /// When it is invoked, takes effect and completes; sorted by the plan.
    moments: [u8; 3],
    /// It takes effect outside of its interval, which breaks real time.
    displaced: Option<u8>,
}

const LISTS: i64 = 2;

/// Lists and registers together, or one kind alone, or a single key, where conflicts are dense.
const KEY_RANGES: [std::ops::Range<i64>; 5] = [0..4, 0..2, 2..4, 0..1, 3..4];

fn plan() -> impl Strategy<Value = Vec<PlannedTxn>> {
    prop::sample::select(&KEY_RANGES[..]).prop_flat_map(|keys| prop::collection::vec(planned_txn(keys), 1..8))
}

fn planned_op(keys: std::ops::Range<i64>) -> impl Strategy<Value = PlannedOp> {
    let bend = prop_oneof![
        14 => Just(Bend::Honest),
        2 => (1..4_usize).prop_map(Bend::Stale),
        1 => (1..9_i64).prop_map(Bend::Shorter),
        1 => (1..9_i64).prop_map(Bend::Longer),
        1 => Just(Bend::Swapped),
    ];
    (keys, any::<bool>(), bend).prop_map(|(key, is_write, bend)| PlannedOp { key, is_write, bend })
}

fn planned_txn(keys: std::ops::Range<i64>) -> impl Strategy<Value = PlannedTxn> {
    let end = prop_oneof![
        12 => Just(End::Ok),
        2 => Just(End::Fail),
        2 => any::<bool>().prop_map(End::Info),
        1 => any::<bool>().prop_map(End::Open),
        1 => Just(End::Lie),
    ];
    let displaced = prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)];
    (prop::collection::vec(planned_op(keys), 1..5), end, 0..3_u64, any::<[u8; 3]>(), displaced).prop_map(
        |(ops, end, session, mut moments, displaced)| {
            moments.sort_unstable();
            PlannedTxn { ops, end, session, moments, displaced }
        },
    )
}

type State = BTreeMap<i64, Vec<i64>>;

/// Runs a plan on one state, transaction after transaction in the order of their effects, and records what
/// clients saw.
fn record(plan: &[PlannedTxn]) -> Recorder {
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by_key(|&at| plan[at].displaced.unwrap_or(plan[at].moments[1]));
    let mut states = vec![State::new()];
    let mut results = vec![Vec::new(); plan.len()];
    let mut next_value = 0;
    for at in order {
        let mut state = states[states.len() - 1].clone();
        results[at] = run(&plan[at], &states, &mut state, &mut next_value);
        if matches!(plan[at].end, End::Ok | End::Lie | End::Info(true) | End::Open(true)) {
            states.push(state);
        }
    }
    let mut events: Vec<(u8, bool, usize)> = Vec::new();
    for (at, txn) in plan.iter().enumerate() {
        events.push((txn.moments[0], false, at));
        if !matches!(txn.end, End::Open(_)) {
            events.push((txn.moments[2], true, at));
        }
    }
    events.sort_unstable();
    let mut recorder = Recorder::new();
    let mut handles = BTreeMap::new();
    for (moment, is_completion, at) in events {
        let time = i64::from(moment);
        if !is_completion {
            let handle = recorder.invoke(at as u64, time);
            recorder.session(handle, plan[at].session.to_string());
            results[at].iter().for_each(|op| recorder.attempt(handle, op.clone()));
            handles.insert(at, handle);
            continue;
        }
        match plan[at].end {
            End::Ok => recorder.ok(handles[&at], time, results[at].clone()),
            End::Fail | End::Lie => recorder.fail(handles[&at], time),
            End::Info(_) | End::Open(_) => recorder.info(handles[&at], time),
        }
    }
    recorder
}

fn run(txn: &PlannedTxn, states: &[State], state: &mut State, next_value: &mut i64) -> Vec<MicroOp> {
    let mut ops = Vec::new();
    for op in &txn.ops {
        let is_list = op.key < LISTS;
        if op.is_write {
            *next_value += 1;
            let held = state.entry(op.key).or_default();
            held.truncate(if is_list { usize::MAX } else { 0 });
            held.push(*next_value);
            let write = if is_list { MicroOp::Append } else { MicroOp::Write };
            ops.push(write(op.key.into(), *next_value));
            continue;
        }
        let mut seen = state.get(&op.key).cloned().unwrap_or_default();
        match op.bend {
            Bend::Honest => {}
            Bend::Stale(steps) => {
                let old = &states[states.len().saturating_sub(steps)..];
                seen = old.first().and_then(|old| old.get(&op.key)).cloned().unwrap_or_default();
            }
            Bend::Shorter(value) => {
                seen.pop();
                seen.extend((!is_list).then_some(value));
            }
            Bend::Longer(value) => {
                seen.truncate(if is_list { usize::MAX } else { 0 });
                seen.push(value);
            }
            Bend::Swapped => {
                let len = seen.len();
                if len > 1 {
                    seen.swap(len - 2, len - 1);
                }
            }
        }
        let observed = match (&seen[..], is_list) {
            ([], _) => Observed::Null,
            ([value, ..], false) => Observed::Register(*value),
            (_, true) => Observed::List(seen),
        };
        ops.push(MicroOp::Read(op.key.into(), observed));
    }
    ops
}

/// How often each level was judged valid and invalid.
type Tally = BTreeMap<(&'static str, &'static str), u32>;

fn compare(history: &History, tally: &mut Tally) -> Result<(), TestCaseError> {
    for level in LEVELS {
        let report = check(history, level);
        let expected = oracle::is_serializable(history, level).expect("the history is tiny");
        let verdict = if expected { Verdict::Valid } else { Verdict::Invalid };
        prop_assert_eq!(report.verdict, verdict, "{}", report);
        prop_assert_eq!(report.anomalies.is_empty(), expected);
        *tally.entry((level.name(), verdict.name())).or_default() += 1;
    }
    Ok(())
}

fn cases() -> u32 {
    std::env::var("QUORATE_FUZZ_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(4_000)
}

fn runner() -> TestRunner {
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn as_json(recorder: &Recorder) -> String {
    let mut json = Vec::new();
    recorder.write_json(&mut json).expect("memory does not fail");
    String::from_utf8(json).expect("JSON is UTF-8")
}

#[test]
fn the_fast_checks_agree_with_the_oracle() {
    let tally = RefCell::new(Tally::new());
    let outcome = runner().run(&plan(), |plan| {
        let recorder = record(&plan);
        let history = recorder.to_history().expect("the recording is well formed");
        compare(&history, &mut tally.borrow_mut())
            .map_err(|error| TestCaseError::fail(format!("{error}\n{}", as_json(&recorder))))
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let tally = tally.into_inner();
    for level in LEVELS {
        for verdict in ["valid", "invalid"] {
            let count = tally.get(&(level.name(), verdict)).copied().unwrap_or(0);
            assert!(count * 8 > cases(), "{level}: too few histories are {verdict}: {tally:?}");
        }
    }
}

#[test]
fn a_recording_and_its_json_are_judged_alike() {
    let outcome = runner().run(&plan(), |plan| {
        let recorder = record(&plan);
        let direct = recorder.to_history().expect("the recording is well formed");
        let read = History::read(as_json(&recorder).as_bytes()).expect("what is written can be read");
        for level in LEVELS {
            prop_assert_eq!(check(&direct, level), check(&read, level));
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Timestamps follow the order of effects, so exactly the bent reads of committed transactions are wrong.
#[test]
fn timestamps_explain_honest_reads_and_no_others() {
    let tally = RefCell::new(Tally::new());
    let outcome = runner().run(&plan(), |mut plan| {
        plan.iter_mut().for_each(|txn| txn.end = End::Ok);
        let mut honest = plan.clone();
        honest.iter_mut().flat_map(|txn| &mut txn.ops).for_each(|op| op.bend = Bend::Honest);
        let mut recorder = record(&plan);
        let is_honest = as_json(&recorder) == as_json(&record(&honest));
        stamp(&plan, &mut recorder);
        let history = recorder.to_history().expect("the recording is well formed");
        let report = check_timestamps(&history);
        prop_assert_eq!(report.is_valid(), is_honest, "{}\n{}", report, as_json(&recorder));
        *tally.borrow_mut().entry(("timestamps", report.verdict.name())).or_default() += 1;
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(tally.into_inner().values().all(|&count| count * 8 > cases()));
}

/// Gives each transaction its place in the order of effects as a commit timestamp.
fn stamp(plan: &[PlannedTxn], recorder: &mut Recorder) {
    let mut invoked: Vec<usize> = (0..plan.len()).collect();
    invoked.sort_by_key(|&at| (plan[at].moments[0], at));
    for (handle, at) in recorder.txns().collect::<Vec<_>>().into_iter().zip(invoked) {
        let time = i64::from(plan[at].displaced.unwrap_or(plan[at].moments[1]));
        recorder.timestamp(handle, Timestamp { time, client: at as i64 });
    }
}
