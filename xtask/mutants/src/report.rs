//! The score of each crate, and the mutants that survive.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use crate::arguments::Arguments;
use crate::catalogue::{Catalogue, Named};
use crate::drive::{Known, dropped_of};
use crate::equivalent::Equivalent;
use crate::results::Verdict;
use crate::targets::Target;

/// The counts of one crate.
#[derive(Debug, Default, PartialEq)]
struct Score {
    /// All that compile.
    mutants: usize,
    /// Those that were judged, without equivalent ones.
    judged: usize,
    tests: usize,
    /// Those that the simulator notices; of both, those that tests do not.
    simulator: usize,
    neither: usize,
    equivalent: usize,
}

impl Score {
    fn caught(&self) -> usize {
        self.tests + self.simulator
    }
}

/// Prints what was found; true if a mutant survives.
pub(crate) fn print(
    arguments: &Arguments,
    catalogue: &Catalogue,
    dropped: &BTreeSet<String>,
    equivalent: &Equivalent,
    chosen: &[&Named],
    known: &BTreeMap<u32, Known>,
    seconds: &BTreeMap<&str, f64>,
) -> bool {
    let nothing = Known::default();
    let of = |mutant: &Named| known.get(&mutant.number).unwrap_or(&nothing);
    let mut survivors: Vec<&Named> = Vec::new();
    let mut lines = Vec::new();
    for target in &arguments.crates {
        let chosen: Vec<&Named> =
            chosen.iter().copied().filter(|mutant| catalogue.source(mutant).target == *target).collect();
        if chosen.is_empty() {
            continue;
        }
        let mut score = Score {
            mutants: mutants_of(catalogue, target) - dropped_of(catalogue, dropped, target),
            ..Score::default()
        };
        for mutant in chosen.iter().copied() {
            let known = of(mutant);
            let by = |verdict: &Option<Verdict>| verdict.as_ref().is_some_and(Verdict::is_caught);
            match () {
                () if equivalent.contains_key(&mutant.id) => score.equivalent += 1,
                () if known.is_empty() => continue,
                () if by(&known.tests) => score.tests += 1,
                () if by(&known.simulator) => score.simulator += 1,
                () => {
                    score.neither += 1;
                    survivors.push(mutant);
                }
            }
        }
        score.judged = score.caught() + score.neither;
        let seconds = seconds.get(target.name).copied().unwrap_or_default();
        let (low, high) = interval(score.caught(), score.judged);
        if arguments.json {
            println!(
                "{}",
                json!({
                    "crate": target.name, "mutants": score.mutants, "judged": score.judged, "tests": score.tests,
                    "simulator": score.simulator, "neither": score.neither, "equivalent": score.equivalent,
                    "score": share(score.caught(), score.judged), "low": low, "high": high, "seconds": seconds,
                })
            );
        }
        let is_sample = score.judged + score.equivalent < score.mutants;
        let confidence =
            if is_sample { format!("{:.0}-{:.0}", 100.0 * low, 100.0 * high) } else { "all".to_owned() };
        let percent = 100.0 * share(score.caught(), score.judged);
        lines.push(format!(
            "{:<14} {:>7} {:>7} {:>7} {:>9} {:>8} {:>10} {percent:>6.1} {confidence:>7} {:>7.0}",
            target.name,
            score.mutants,
            score.judged,
            score.tests,
            score.simulator,
            score.neither,
            score.equivalent,
            seconds
        ));
    }
    for mutant in &survivors {
        let (before, after) = catalogue.lines(mutant);
        let known = of(mutant);
        let reached = [&known.tests, &known.simulator]
            .into_iter()
            .flatten()
            .any(|verdict| *verdict != Verdict::Unreached);
        let function = &catalogue.site(mutant).function;
        if arguments.json {
            println!(
                "{}",
                json!({
                    "id": mutant.id, "crate": catalogue.source(mutant).target.name, "place": catalogue.place(mutant),
                    "function": function, "kind": catalogue.change(mutant).kind, "before": before, "after": after,
                    "reached": reached, "repeat": format!("cargo xtask mutants --only {}", mutant.id),
                })
            );
        } else {
            let reached = if reached { "" } else { ", which nothing reaches" };
            println!("{} {function}: {}{reached}", catalogue.place(mutant), catalogue.change(mutant).kind);
            println!("  - {}\n  + {}", shortened(&before), shortened(&after));
            println!("  cargo xtask mutants --only {}", mutant.id);
        }
    }
    if !arguments.json {
        let header = [
            "crate",
            "mutants",
            "judged",
            "tests",
            "simulator",
            "neither",
            "equivalent",
            "score",
            "95 %",
            "seconds",
        ];
        let [name, mutants, judged, tests, simulator, neither, equivalent, score, confidence, seconds] =
            header;
        println!(
            "\n{name:<14} {mutants:>7} {judged:>7} {tests:>7} {simulator:>9} {neither:>8} {equivalent:>10} {score:>6} {confidence:>7} {seconds:>7}"
        );
        lines.iter().for_each(|line| println!("{line}"));
        if let Some(sample) = arguments.sample {
            println!(
                "a sample of {sample} mutants of each crate, drawn by seed {}; the score lies in the interval with 95 %",
                arguments.seed
            );
        }
    }
    !survivors.is_empty()
}

fn mutants_of(catalogue: &Catalogue, target: &Target) -> usize {
    catalogue.mutants.iter().filter(|mutant| catalogue.source(mutant).target == target).count()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

/// The interval of Wilson, in which the share of all lies with a confidence of 95 %, if this is that of a sample.
fn interval(part: usize, whole: usize) -> (f64, f64) {
    const Z: f64 = 1.96;
    if whole == 0 {
        return (0.0, 1.0);
    }
    let (share, count) = (share(part, whole), whole as f64);
    let middle = share + Z * Z / (2.0 * count);
    let spread = Z * ((share * (1.0 - share) + Z * Z / (4.0 * count)) / count).sqrt();
    let norm = 1.0 + Z * Z / count;
    (((middle - spread) / norm).max(0.0), ((middle + spread) / norm).min(1.0))
}

/// A line of source as long as a screen has room for.
fn shortened(line: &str) -> String {
    const LENGTH_MAX: usize = 220;
    match line.char_indices().nth(LENGTH_MAX) {
        Some((at, _)) => format!("{} …", &line[..at]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_intervals() {
        let rounded = |part, whole| {
            let (low, high) = interval(part, whole);
            ((100.0 * low).round(), (100.0 * high).round())
        };
        let table = [
            ((0, 0), (0.0, 100.0)),
            ((90, 100), (83.0, 94.0)),
            ((150, 150), (98.0, 100.0)),
            ((0, 10), (0.0, 28.0)),
        ];
        for ((part, whole), expected) in table {
            assert_eq!(rounded(part, whole), expected, "{part} of {whole}");
        }
    }
}
