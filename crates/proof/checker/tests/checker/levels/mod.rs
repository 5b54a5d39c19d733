//! Differential fuzzing of all levels: `check` against the brute-force oracle on random tiny histories.
//!
//! `QUORATE_FUZZ_CASES` sets the number of histories (the nightly run takes 200,000 or more),
//! `QUORATE_FUZZ_SEED` where they start. A disagreement prints the seed, and the history as JSON lines, as
//! small as it can be made.

mod mutate;
mod random;
mod store;
pub(crate) mod tape;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_checker::{History, Level, Verdict, check, oracle};

use random::Random;
use tape::Tape;

/// One history in so many is larger than the others.
const TXNS_MAX: [usize; 8] = [3, 4, 5, 5, 5, 6, 6, 7];

pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|number| number.parse().ok()).unwrap_or(default)
}

pub(crate) fn tape(seed: u64) -> Tape {
    let mut random = Random::new(seed);
    let txns_max = random.pick(&TXNS_MAX);
    let mut tape = store::history(&mut random, txns_max);
    for _ in 0..random.pick(&[0, 0, 1, 1, 2, 3]) {
        mutate::mutate(&mut tape, &mut random);
    }
    if random.percent(3) {
        let at = random.below(tape.entries.len());
        tape.entries[at].site = None;
    }
    tape
}

/// The outcome of one history at one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Valid,
    Invalid,
    /// The check says that it does not know.
    Undecided,
    /// The oracle has no answer.
    Unanswered,
    Disagreement,
    Malformed,
}

fn compare(tape: &Tape, level: Level) -> Outcome {
    let Ok(history) = tape.history() else { return Outcome::Malformed };
    let Ok(report) = catch_unwind(AssertUnwindSafe(|| check(&history, level))) else {
        return Outcome::Disagreement;
    };
    match (report.verdict, oracle::satisfies(&history, level)) {
        (Verdict::Valid, Some(true)) => Outcome::Valid,
        (Verdict::Invalid, Some(false)) => Outcome::Invalid,
        (Verdict::Unknown, Some(_)) => Outcome::Undecided,
        (Verdict::Valid, None) if lacks_site(tape, level) => Outcome::Disagreement,
        (_, None) => Outcome::Unanswered,
        _ => Outcome::Disagreement,
    }
}

/// Without sites, nobody can say that a history satisfies a level that is about sites.
fn lacks_site(tape: &Tape, level: Level) -> bool {
    let mut entries = tape.entries.iter();
    match level {
        Level::WalterPsi => entries.any(|entry| entry.site.is_none() && !entry.has_failed()),
        Level::Spsi => entries.any(|entry| entry.site.is_none()),
        _ => false,
    }
}

/// A random history with what the oracle says of it.
pub(crate) struct Judged {
    history: History,
    satisfied: [(Level, Option<bool>); Level::ALL.len()],
}

impl Judged {
    /// Whether the check decides any level otherwise than the oracle, or panics.
    pub(crate) fn is_judged_wrong(&self) -> bool {
        self.satisfied.into_iter().any(|(level, satisfied)| {
            let verdict = catch_unwind(AssertUnwindSafe(|| check(&self.history, level).verdict));
            match (verdict, satisfied) {
                (Err(_), _) => true,
                (Ok(Verdict::Valid), Some(false)) | (Ok(Verdict::Invalid), Some(true)) => true,
                (Ok(_), _) => false,
            }
        })
    }
}

/// The first random histories.
pub(crate) fn judged(count: u64) -> Vec<Judged> {
    let judged = (0..count).map(|seed| {
        let history = tape(seed).history().expect("the generator makes well-formed histories");
        let satisfied = Level::ALL.map(|level| (level, oracle::satisfies(&history, level)));
        Judged { history, satisfied }
    });
    judged.collect()
}

/// Shrinks a disagreement and says all about it.
fn explain(seed: u64, tape: Tape, level: Level) -> String {
    let tape = tape.shrink(|tape| compare(tape, level) == Outcome::Disagreement);
    let history = tape.history().expect("a shrunk history is well formed");
    let expected = match oracle::satisfies(&history, level) {
        Some(true) => "valid",
        Some(false) => "invalid",
        None => "no answer",
    };
    let found = catch_unwind(AssertUnwindSafe(|| check(&history, level).to_string()));
    let found = found.unwrap_or_else(|_| "panic".to_string());
    format!("seed {seed}, {level}: the oracle says {expected}, the check says\n{found}\n{}", tape.json())
}

/// Which levels promise all that others do. `spsi` speaks of aborted transactions too, so no other level
/// implies it.
const STRONGER: [(Level, Level); 13] = [
    (Level::StrictSerializable, Level::SessionSerializable),
    (Level::SessionSerializable, Level::Serializable),
    (Level::StrictSerializable, Level::StrongSi),
    (Level::SessionSerializable, Level::SessionSi),
    (Level::Serializable, Level::Si),
    (Level::StrongSi, Level::SessionSi),
    (Level::SessionSi, Level::Si),
    (Level::SessionSi, Level::SessionPsi),
    (Level::Si, Level::Psi),
    (Level::SessionPsi, Level::Psi),
    (Level::SessionPsi, Level::Causal),
    (Level::WalterPsi, Level::Psi),
    (Level::Spsi, Level::Si),
];

/// A test of the oracle and of the generator at once.
#[test]
fn stronger_levels_imply_weaker_ones_and_no_two_are_the_same() {
    let mut seen: BTreeMap<(Level, Level), u64> = BTreeMap::new();
    for seed in 0..number("QUORATE_FUZZ_CASES", 4_000) {
        let tape = tape(seed);
        let history = tape.history().expect("the generator makes well-formed histories");
        let satisfied = Level::ALL.map(|level| (level, oracle::satisfies(&history, level)));
        for (one, first) in satisfied {
            for (other, second) in satisfied {
                if (first, second) == (Some(true), Some(false)) {
                    *seen.entry((one, other)).or_default() += 1;
                    assert!(
                        !STRONGER.contains(&(one, other)),
                        "seed {seed}: {one}, not {other}\n{}",
                        tape.json()
                    );
                }
            }
        }
    }
    for one in Level::ALL {
        for other in Level::ALL.into_iter().filter(|other| *other != one) {
            let differ = seen.contains_key(&(one, other)) || seen.contains_key(&(other, one));
            assert!(differ, "no history tells {one} from {other}");
        }
    }
}

/// Of fewer histories it says nothing how many were decided.
const MEASURED_FROM: u64 = 1_000;

#[test]
fn every_level_agrees_with_the_oracle() {
    let (cases, first) = (number("QUORATE_FUZZ_CASES", 4_000), number("QUORATE_FUZZ_SEED", 0));
    let mut tally: BTreeMap<(Level, Outcome), u64> = BTreeMap::new();
    let mut disagreements = Vec::new();
    for seed in first..first + cases {
        let tape = tape(seed);
        for level in Level::ALL {
            let outcome = compare(&tape, level);
            *tally.entry((level, outcome)).or_default() += 1;
            let is_new = !disagreements.iter().any(|(known, _)| *known == level);
            if outcome == Outcome::Disagreement && is_new {
                disagreements.push((level, explain(seed, tape.clone(), level)));
            }
        }
    }
    let count = |level, outcome| tally.get(&(level, outcome)).copied().unwrap_or(0);
    let mut undecided_levels = Vec::new();
    for level in Level::ALL {
        let counts = [Outcome::Valid, Outcome::Invalid, Outcome::Undecided, Outcome::Unanswered]
            .map(|outcome| count(level, outcome));
        println!(
            "{level:22} valid {:7} invalid {:7} undecided {:7} unanswered {:7}",
            counts[0], counts[1], counts[2], counts[3]
        );
        // The histories must be worth judging, and the check must judge them.
        if counts[0] * 8 < cases || counts[1] * 8 < cases || counts[2] * 100 > cases {
            undecided_levels.push(level.name());
        }
        assert_eq!(count(level, Outcome::Malformed), 0, "the generator makes well-formed histories");
    }
    let reports: Vec<String> = disagreements.into_iter().map(|(_, report)| report).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n"));
    let is_measured = cases >= MEASURED_FROM;
    assert!(
        !is_measured || undecided_levels.is_empty(),
        "too few are decided, valid or invalid: {undecided_levels:?}"
    );
}
