//! Differential fuzzing: the fast checks against the brute-force oracle on random tiny histories.
//!
//! Histories come from running random transactions on a random schedule, so that many are valid, and then from bending
//! some of what was read, so that many are not. `QUORATE_FUZZ_CASES` sets the number of cases.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use quorate_checker::{History, Level, MicroOp, Observed, Recorder, Verdict, check, oracle};

const LEVELS: [Level; 3] = [Level::StrictSerializable, Level::SessionSerializable, Level::Serializable];

/// One operation of a plan: what it does, to which of few keys. Keys below [`LISTS`] are lists, others registers.
#[derive(Debug, Clone, Copy)]
struct PlannedOp {
    key: i64,
    is_write: bool,
    /// What a read does with what it finds.
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

fn planned_op() -> impl Strategy<Value = PlannedOp> {
    let bend = prop_oneof![
        14 => Just(Bend::Honest),
        2 => (1..4_usize).prop_map(Bend::Stale),
        1 => (1..9_i64).prop_map(Bend::Shorter),
        1 => (1..9_i64).prop_map(Bend::Longer),
        1 => Just(Bend::Swapped),
    ];
    (0..4_i64, any::<bool>(), bend).prop_map(|(key, is_write, bend)| PlannedOp { key, is_write, bend })
}

fn planned_txn() -> impl Strategy<Value = PlannedTxn> {
    let end = prop_oneof![
        12 => Just(End::Ok),
        2 => Just(End::Fail),
        2 => any::<bool>().prop_map(End::Info),
        1 => any::<bool>().prop_map(End::Open),
        1 => Just(End::Lie),
    ];
    let displaced = prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)];
    (prop::collection::vec(planned_op(), 1..5), end, 0..3_u64, any::<[u8; 3]>(), displaced).prop_map(
        |(ops, end, session, mut moments, displaced)| {
            moments.sort_unstable();
            PlannedTxn { ops, end, session, moments, displaced }
        },
    )
}

type State = BTreeMap<i64, Vec<i64>>;

/// Runs a plan on one state, transaction after transaction in the order of their effects, and records what clients saw.
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

#[test]
fn the_fast_checks_agree_with_the_oracle() {
    let cases = cases();
    let mut runner = TestRunner::new_with_rng(
        Config { cases, failure_persistence: None, ..Config::default() },
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let tally = std::cell::RefCell::new(Tally::new());
    let outcome = runner.run(&prop::collection::vec(planned_txn(), 1..7), |plan| {
        let recorder = record(&plan);
        let Ok(history) = recorder.to_history() else { return Ok(()) };
        compare(&history, &mut tally.borrow_mut()).map_err(|error| {
            let mut json = Vec::new();
            recorder.write_json(&mut json).expect("memory does not fail");
            TestCaseError::fail(format!("{error}\n{}", String::from_utf8_lossy(&json)))
        })
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    let tally = tally.into_inner();
    for level in LEVELS {
        for verdict in ["valid", "invalid"] {
            let count = tally.get(&(level.name(), verdict)).copied().unwrap_or(0);
            assert!(count * 20 > cases, "{level}: only {count} of {cases} histories are {verdict}: {tally:?}");
        }
    }
}
