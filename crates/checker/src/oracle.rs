//! A brute-force judge of tiny histories, straight from the definitions.
//!
//! A history is serializable if its committed transactions, with any of those of unknown outcome, can run one
//! after another so that every read returns what it did return; the session and strict levels fix the order
//! of some pairs. This module tries the orders one by one. It shares nothing with the fast checks but the
//! typed history, so that a mistake in one of them shows as a disagreement.

use std::collections::BTreeMap;

use crate::history::{Action, History, KeyId, KeyType, Outcome, Seen, Txn, Value};
use crate::level::{Level, Precedence};

/// More transactions than this are refused: the number of orders grows with the factorial.
pub const TXNS_MAX: usize = 10;

/// The state of all keys: a list, a register as a list of one, or a counting set as elements with counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct State {
    lists: BTreeMap<KeyId, Vec<Value>>,
    registers: BTreeMap<KeyId, Value>,
    sets: BTreeMap<KeyId, BTreeMap<Value, i64>>,
}

/// Whether a history satisfies a level of the serializable family, by trying every order.
///
/// Returns none for other levels, for more than [`TXNS_MAX`] transactions, and for lost transactions.
pub fn is_serializable(history: &History, level: Level) -> Option<bool> {
    let precedence = level.serializable_with()?;
    let txns: Vec<&Txn> = history.txns().iter().filter(|txn| txn.outcome != Outcome::Aborted).collect();
    if txns.len() > TXNS_MAX || txns.iter().any(|txn| txn.lost) {
        return None;
    }
    Some(extends(history, precedence, &txns, &mut vec![false; txns.len()], &State::default()))
}

/// Whether the transactions that are not done yet can run in some order from this state.
fn extends(
    history: &History,
    precedence: Precedence,
    txns: &[&Txn],
    done: &mut Vec<bool>,
    state: &State,
) -> bool {
    if txns.iter().zip(&*done).all(|(txn, done)| *done || txn.outcome == Outcome::Unknown) {
        return true;
    }
    for next in 0..txns.len() {
        let is_free = (0..txns.len()).all(|at| done[at] || !precedes(precedence, txns[at], txns[next]));
        if done[next] || !is_free {
            continue;
        }
        if let Some(after) = run(history, txns[next], state) {
            done[next] = true;
            if extends(history, precedence, txns, done, &after) {
                return true;
            }
            done[next] = false;
        }
    }
    false
}

/// Whether the level puts `one` before `other` because of when they ran.
fn precedes(precedence: Precedence, one: &Txn, other: &Txn) -> bool {
    let completed_before = one.outcome == Outcome::Committed
        && one.completion.is_some_and(|completion| completion < other.invoke);
    match precedence {
        Precedence::None => false,
        Precedence::Session => completed_before && one.session == other.session,
        Precedence::RealTime => completed_before,
    }
}

/// The state after a transaction, or none if one of its reads did not return this.
fn run(history: &History, txn: &Txn, state: &State) -> Option<State> {
    let mut state = state.clone();
    for op in history.ops(txn) {
        match op.action {
            Action::Append(value) => state.lists.entry(op.key).or_default().push(value),
            Action::Write(value) => {
                state.registers.insert(op.key, value);
            }
            Action::Add(element) => state.count(op.key, element, 1),
            Action::Remove(element) => state.count(op.key, element, -1),
            Action::Read(seen) => {
                if !explains(history, &state, op.key, seen) {
                    return None;
                }
            }
        }
    }
    Some(state)
}

fn explains(history: &History, state: &State, key: KeyId, seen: Seen) -> bool {
    match seen {
        Seen::Nothing => true,
        Seen::Register(value) => state.registers.get(&key) == Some(&value),
        Seen::List(list) => state.lists.get(&key).is_some_and(|held| held == history.list(key, list)),
        Seen::Set(set) => {
            let seen: BTreeMap<Value, i64> = history.set(set).iter().copied().collect();
            state.sets.get(&key) == Some(&seen)
        }
        Seen::Initial => match history.key_type(key) {
            Some(KeyType::List) => !state.lists.contains_key(&key),
            Some(KeyType::Register) => !state.registers.contains_key(&key),
            Some(KeyType::CountingSet) => !state.sets.contains_key(&key),
            None => true,
        },
    }
}

impl State {
    /// Elements of count zero, and sets without elements, are not kept: they equal the initial ones.
    fn count(&mut self, key: KeyId, element: Value, change: i64) {
        let set = self.sets.entry(key).or_default();
        let count = set.entry(element).or_insert(0);
        *count += change;
        if *count == 0 {
            set.remove(&element);
        }
        if set.is_empty() {
            self.sets.remove(&key);
        }
    }
}
