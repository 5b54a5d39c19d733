//! Causal consistency with convergence: sessions, transitive visibility, and one arbitration order.
//!
//! The least visibility that explains a history is (SO ∪ WR)⁺, and if any does, that one does: seeing more would only have
//! to be explained too. A reader of a list saw every writer in it, since no writer of a key need have seen the earlier ones;
//! so lists of one key need not be prefixes of one another. These conditions remain:
//!
//! - visibility has no cycle;
//! - a list holds the appends of all visible writers, a register the write of one of them, and a count of a
//!   counting set the sum of them: no visible writer is missed;
//! - there is one order of all transactions, the arbitration, which contains visibility, in which lists hold
//!   their elements, and in which the write that a register read returns is the last of the visible ones.

mod arbitration;
mod facts;
mod visibility;

use crate::dependencies::{CountChoices, Edge, EdgeKind};
use crate::explain::Words;
use crate::history::{History, TxnId};
use crate::level::Precedence;
use crate::levels::causal::facts::Facts;
use crate::levels::causal::visibility::{Cyclic, Visibility};
use crate::levels::search::{self, Cause, Choice, Resolution};
use crate::levels::{acyclic, counts, recheck::Recheck};
use crate::report::{Anomalies, AnomalyKind};

/// So many violations are looked for.
const VIOLATIONS_MAX: usize = 10;

/// Looks for violations and adds them to `anomalies`. Returns a reason if the question stays open.
pub(crate) fn judge(history: &History, anomalies: &mut Anomalies) -> Option<String> {
    let facts = Facts::derive(history, anomalies);
    let violations = match violations(&facts, &[]) {
        Ok(violations) => violations,
        Err(reason) => return Some(reason),
    };
    for cycle in &violations {
        describe(history, cycle, anomalies);
    }
    if !anomalies.is_empty() || facts.counts.is_empty() {
        return None;
    }
    let choices = match counts::open_choices(history, &facts.counts, Precedence::Session, anomalies) {
        Ok(choices) => choices,
        Err(reason) => return reason,
    };
    settle_counts(history, &facts, &choices, anomalies)
}

fn settle_counts(
    history: &History,
    facts: &Facts<'_>,
    choices: &CountChoices,
    anomalies: &mut Anomalies,
) -> Option<String> {
    let holds = |edges: &[Edge]| violations(facts, edges).is_ok_and(|found| found.is_empty());
    let mut model = Recheck::new((history.op_count() + history.txn_count()) as u64, holds);
    match search::resolve(&mut model, &[], choices) {
        Resolution::Settled => None,
        Resolution::GaveUp(reason) => Some(reason),
        Resolution::Contradiction(contradiction) => {
            match &contradiction.cause {
                Cause::Sum(sum) => facts.counts.sum(*sum).describe(history, anomalies),
                Cause::Choice(choice) => {
                    let cycle = choice.answers.iter().find_map(|answer| {
                        let edges = [&contradiction.forced[..], answer].concat();
                        violations(facts, &edges).ok().and_then(|found| found.into_iter().next())
                    });
                    match cycle.filter(|cycle| !cycle.is_empty()) {
                        Some(cycle) => describe(history, &cycle, anomalies),
                        None => describe_counts(history, choice, anomalies),
                    }
                }
            }
            None
        }
    }
}

/// Cycles that break the level, with further edges of counting sets.
///
/// # Errors
///
/// Why the question stays open.
fn violations(facts: &Facts<'_>, further: &[Edge]) -> Result<Vec<Vec<Edge>>, String> {
    let visibility = match Visibility::derive(facts, further) {
        Ok(visibility) => visibility,
        Err(Cyclic::Cycle(cycle)) => return Ok(vec![cycle]),
        Err(Cyclic::TooWide(reason)) => return Err(reason),
    };
    let mut arbitration = Vec::new();
    let mut cycles = Vec::new();
    for missed in visibility.missed_writes(&mut arbitration) {
        cycles.push(visibility.cycle_of(&missed));
        if cycles.len() == VIOLATIONS_MAX {
            break;
        }
    }
    if cycles.is_empty() {
        cycles = arbitration::cycles(facts, &arbitration, further);
    }
    Ok(cycles)
}

fn describe(history: &History, cycle: &[Edge], anomalies: &mut Anomalies) {
    let txns: Vec<TxnId> = cycle.iter().map(|edge| TxnId(edge.from)).collect();
    anomalies
        .add_with_edges(history, classify(history, cycle), &txns, cycle, || Words::new(history).cycle(cycle));
}

/// Adds a count that no answer explains, where no single cycle tells why.
fn describe_counts(history: &History, choice: &Choice, anomalies: &mut Anomalies) {
    let mut txns: Vec<TxnId> =
        choice.answers.iter().flatten().flat_map(|edge| [TxnId(edge.from), TxnId(edge.to)]).collect();
    txns.sort_unstable();
    txns.dedup();
    anomalies.add(history, AnomalyKind::WrongCount, &txns, || {
        let words = Words::new(history);
        let names: Vec<String> = txns.iter().map(|&txn| words.txn(txn)).collect();
        let (names, key) = (names.join(" and "), history.key(choice.key));
        format!("Whether {names} saw one another at {key} or not, it contradicts what else is known.")
    });
}

/// The usual name of a cycle: a missed write closes a path of visibility, anything else is a cycle of orders.
fn classify(history: &History, cycle: &[Edge]) -> AnomalyKind {
    let count = |kind| cycle.iter().filter(|edge| edge.kind == kind).count();
    if count(EdgeKind::AntiDependency) == 0 {
        return acyclic::classify(history, cycle);
    }
    match (cycle.len(), count(EdgeKind::ReadsFrom)) {
        (2, 1) => AnomalyKind::FracturedRead,
        (_, 0) => AnomalyKind::SessionViolation,
        _ => AnomalyKind::CausalityViolation,
    }
}
