//! INT and EXT: what a transaction must read, given the transactions that it sees, in their order.
//!
//! Source: Cerone, Bernardi, Gotsman, *A framework for transactional consistency models with atomic
//! visibility*, CONCUR 2015. EXT: a read returns what the last visible writer of the object left there. INT:
//! after an own operation on the object, it agrees with that one. Appends and updates of counting sets extend
//! what is there, so a read of a list returns all visible appends in arbitration order, and a read of a
//! counting set the sums over all visible updates (Walter paper, section 3.3).

use crate::history::{Action, History, KeyId, KeyType, Op, Seen, Value};

use super::members::change;

/// Whether each read among `ops` returns what the operations before it explain: those of the visible
/// transactions in `visible`, one transaction after another, and then the own ones.
pub(super) fn explains<'a>(
    history: &History,
    visible: impl Iterator<Item = &'a [Op]> + Clone,
    ops: &'a [Op],
) -> bool {
    ops.iter().enumerate().all(|(position, op)| {
        let Action::Read(seen) = op.action else { return true };
        let before = visible.clone().chain(std::iter::once(&ops[..position]));
        let actions = before.flatten().filter(|before| before.key == op.key).map(|before| before.action);
        returns(history, op.key, seen, actions)
    })
}

/// Whether a read of a key returns this after these operations on it.
fn returns(history: &History, key: KeyId, seen: Seen, actions: impl Iterator<Item = Action>) -> bool {
    match (seen, history.key_type(key)) {
        (Seen::Nothing, _) => true,
        (Seen::Register(value), _) => actions.filter_map(Action::written).last() == Some(value),
        (Seen::List(list), _) => {
            actions.filter_map(Action::written).eq(history.list(key, list).iter().copied())
        }
        (Seen::Set(set), _) => counts(actions).eq(history.set(set)),
        (Seen::Initial, Some(KeyType::CountingSet)) => counts(actions).is_empty(),
        (Seen::Initial, _) => actions.filter_map(Action::written).next().is_none(),
    }
}

/// The elements whose adds and removes do not cancel out, in ascending order, as histories keep them.
fn counts(actions: impl Iterator<Item = Action>) -> Vec<(Value, i64)> {
    let mut counts: Vec<(Value, i64)> = Vec::new();
    for (element, by) in actions.filter_map(change) {
        match counts.iter_mut().find(|(counted, _)| *counted == element) {
            Some((_, count)) => *count += by,
            None => counts.push((element, by)),
        }
    }
    counts.retain(|&(_, count)| count != 0);
    counts.sort_unstable();
    counts
}
