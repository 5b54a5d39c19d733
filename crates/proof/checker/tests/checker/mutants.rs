//! The strength of the tests: every fault that can be planted in the checker changes a verdict of the corpus,
//! and nearly every one a verdict of a random history.

use std::panic::catch_unwind;

use quorate_checker::mutants::{self, Mutant};

use crate::{corpus, levels};

/// So many random histories are judged; most faults show within the first few hundred.
const HISTORIES: u64 = 4_000;

/// Faults that take four or five transactions of one certain shape to show, too rare for so few random
/// histories. The corpus has these shapes.
const RARE: [Mutant; 6] = [
    Mutant::LeavesSnapshotsApart,
    Mutant::IgnoresSnapshotConflicts,
    Mutant::ForgetsSources,
    Mutant::ForgetsHeld,
    Mutant::EndsWholeSnapshots,
    Mutant::TakesShownForFinal,
];

#[test]
fn the_corpus_catches_every_mutant() {
    // A mutant that panics is caught too.
    let is_wrong = || catch_unwind(corpus::wrong_verdicts).map_or(true, |wrong| !wrong.is_empty());
    assert!(!is_wrong(), "without a mutant every verdict is right");
    let escaped = escaped(|mutant| mutants::with(mutant, is_wrong));
    assert!(escaped.is_empty(), "{escaped:?}");
}

#[test]
fn fuzzing_catches_every_mutant_that_is_not_rare() {
    let judged = levels::judged(levels::number("QUORATE_MUTANT_CASES", HISTORIES));
    let is_wrong = || judged.iter().any(levels::Judged::is_judged_wrong);
    assert!(!is_wrong(), "without a mutant the check agrees with the oracle");
    let escaped = escaped(|mutant| RARE.contains(&mutant) || mutants::with(mutant, is_wrong));
    assert!(escaped.is_empty(), "{escaped:?}");
}

fn escaped(is_caught: impl Fn(Mutant) -> bool) -> Vec<Mutant> {
    Mutant::ALL.into_iter().filter(|mutant| !is_caught(*mutant)).collect()
}
