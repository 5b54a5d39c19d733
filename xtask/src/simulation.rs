//! Minutes of simulation: many seeds under all faults, small clusters with a crash at every step, and then every planted
//! bug must be caught.

use std::path::Path;

use crate::build::Quorate;
use crate::stage::Outcome;

/// How many seeds are run under all faults. They took about 0.1 s each on one core of the machine that sized them.
const SEEDS: &str = "1..900";

/// How many seeds every other system runs.
const OTHER_SEEDS: &str = "1..100";

/// The system to which [`SEEDS`] belong.
const STRICT: &str = "strict";

/// The seeds within which a plant must be caught, under the faults that suit it.
const PLANT_SEEDS: &str = "1..200";

pub(crate) fn run(root: &Path) -> Outcome {
    simulate(root).into()
}

fn simulate(root: &Path) -> Result<String, String> {
    let quorate = Quorate::built(root)?;
    let mut failures = Vec::new();
    let seeds = ["sim", "--isolation", "strict", "--seeds", SEEDS, "--faults", "all"];
    let (text, success) = quorate.output(&seeds)?;
    println!("{text}");
    if !success {
        failures.push(format!("seeds {SEEDS} are not all good"));
    }
    if let Some(cells) = uncovered(&text) {
        failures.push(format!("no seed covers {cells}"));
    }
    let (text, success) = quorate.output(&["sim", "--crash-points"])?;
    println!("{text}");
    if !success {
        failures.push("not every crash of a small cluster is survived".to_owned());
    }
    let hunt = ["sim", "--isolation", "strict", "--plants", "--seeds", PLANT_SEEDS];
    let (text, success) = quorate.output(&hunt)?;
    println!("{text}");
    let mut caught: Vec<String> = plants(&text).into_iter().map(str::to_owned).collect();
    if caught.is_empty() {
        failures.push("there is no planted bug to catch".to_owned());
    }
    if !success {
        failures.push(format!("a planted bug is not caught within seeds {PLANT_SEEDS}"));
    }
    let (text, _) = quorate.output(&["sim", "--list-systems"])?;
    let systems: Vec<(&str, Vec<&str>)> = systems(&text).filter(|(name, _)| *name != STRICT).collect();
    if systems.is_empty() {
        failures.push("there is no comparison system".to_owned());
    }
    for (name, option) in &systems {
        let seeds = [&["sim"], &option[..], &["--seeds", OTHER_SEEDS, "--faults", "all"]].concat();
        let (text, success) = quorate.output(&seeds)?;
        println!("{text}");
        if !success {
            failures.push(format!("seeds {OTHER_SEEDS} of {name} are not all good"));
        }
        let hunt = [&["sim"], &option[..], &["--plants", "--seeds", PLANT_SEEDS]].concat();
        let (text, success) = quorate.output(&hunt)?;
        println!("{text}");
        caught.extend(plants(&text).into_iter().map(str::to_owned));
        if !success {
            failures.push(format!("a bug planted in {name} is not caught within seeds {PLANT_SEEDS}"));
        }
    }
    if failures.is_empty() {
        let caught = caught.join(", ");
        let others: Vec<&str> = systems.iter().map(|(name, _)| *name).collect();
        let others = others.join(", ");
        Ok(format!("seeds {SEEDS}; crashes at every step; seeds {OTHER_SEEDS} of {others}; caught {caught}"))
    } else {
        Err(failures.join(", "))
    }
}

/// The cells of the table of faults and invariants that no seed has covered, as `quorate sim` prints them.
fn uncovered(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("not covered: "))
}

/// The systems in the table that `quorate sim --list-systems` prints, each with the option that chooses it.
fn systems(table: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    let columns = |line| str::split(line, "  ").map(str::trim).filter(|column| !column.is_empty());
    table.lines().filter_map(move |line: &str| {
        let mut columns = columns(line);
        let (name, option) = (columns.next()?, columns.next()?);
        option.starts_with("--").then(|| (name, option.split_whitespace().collect()))
    })
}

/// The ids in the table that `quorate sim --plants` prints.
fn plants(table: &str) -> Vec<&str> {
    table
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|word| {
            let mut chars = word.chars();
            let digits = chars.as_str().get(1..).unwrap_or_default();
            chars.next().is_some_and(|first| first.is_ascii_uppercase())
                && !digits.is_empty()
                && digits.chars().all(|char| char.is_ascii_digit())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_without_evidence_is_noticed() {
        assert_eq!(uncovered("loss  3\nall 7 cells are covered"), None);
        assert_eq!(uncovered("loss  0\nnot covered: loss×I1, loss×I2"), Some("loss×I1, loss×I2"));
    }

    #[test]
    fn systems_are_read_from_the_table() {
        let table = "  system   option               what\n  ──────   ──────               ────\n  \
                     strict   --isolation strict   TAPIR\n  service  --configuration      it configures";
        let expected = [("strict", vec!["--isolation", "strict"]), ("service", vec!["--configuration"])];
        assert_eq!(systems(table).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn plants_are_read_from_the_table() {
        let table = "plant  seeds  caught by\nT1     16     I1 stale-read\nT21    1      I1 lost-update\n";
        assert_eq!(plants(table), ["T1", "T21"]);
    }
}
