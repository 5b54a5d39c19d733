//! The strength of the tests: every fault that can be planted in the checker changes a verdict of the corpus,
//! and one of a random history.

use std::panic::catch_unwind;

use quorate_checker::mutants::{self, Mutant};

use crate::{corpus, levels};

/// So many random histories are judged; most faults show within the first few hundred.
const HISTORIES: u64 = 10_000;

#[test]
fn the_corpus_catches_every_mutant() {
    // A mutant that panics is caught too.
    let is_wrong = || catch_unwind(corpus::wrong_verdicts).map_or(true, |wrong| !wrong.is_empty());
    assert!(!is_wrong(), "without a mutant every verdict is right");
    let escaped = escaped(is_wrong);
    assert!(escaped.is_empty(), "{escaped:?}");
}

#[test]
fn fuzzing_catches_every_mutant() {
    let judged = levels::judged(HISTORIES);
    let is_wrong = || judged.iter().any(levels::Judged::is_judged_wrong);
    assert!(!is_wrong(), "without a mutant the check agrees with the oracle");
    let escaped = escaped(is_wrong);
    assert!(escaped.is_empty(), "{escaped:?}");
}

fn escaped(is_caught: impl Fn() -> bool) -> Vec<Mutant> {
    let is_escaped = |mutant: &Mutant| !mutants::with(*mutant, &is_caught);
    Mutant::ALL.into_iter().filter(is_escaped).collect()
}
