//! Minutes of simulation: many seeds under all faults, small clusters with a crash at every step, and then planted bugs
//! must be caught.
//!
//! A check runs a share of all seeds, crash points and planted bugs, which the hash of the commit chooses; a soak runs them all. A planted bug is hunted only if
//! its pinned seed does not catch it any more.

use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::build::Quorate;
use crate::shell;
use crate::stage::Outcome;

/// The system that has most of the seeds.
const STRICT: &str = "strict";

/// The systems that run seeds of few faults each, and those frequent (ADR 0056).
const SWARMING: [&str; 4] = [STRICT, "serializable", "snapshot", "parallel-snapshot"];

/// The seeds within which a plant must be caught, under the faults that suit it.
const PLANT_SEEDS: &str = "1..300";

/// Where the seeds stand that catch plants.
const PINS: &str = "crates/proof/simulator/pins.txt";

/// How much is run.
struct Extent {
    /// The seeds of strict beyond those that cover its table.
    strict: RangeInclusive<u64>,
    /// The seeds of every other system.
    others: RangeInclusive<u64>,
    /// The seeds with few faults each.
    swarm: RangeInclusive<u64>,
    /// Of which systems the table is judged.
    judged: Judged,
    /// True if no more seeds are run than it takes to cover the table.
    stops_once_covered: bool,
    /// The crash points, as an argument of `quorate sim --share`.
    crash_points: String,
    /// The planted bugs, likewise.
    plants: String,
    /// True if plants are hunted although they have pins.
    hunts_all: bool,
}

/// Of which systems no cell of the table of coverage may be empty.
#[derive(Clone, Copy)]
enum Judged {
    /// Of the one with this number, modulo their number.
    One(usize),
    All,
}

impl Judged {
    fn judges(self, number: usize, systems: usize) -> bool {
        match self {
            Judged::One(one) => one % systems == number,
            Judged::All => true,
        }
    }
}

/// The seeds that leave no cell of a table of coverage empty.
const COVERING: RangeInclusive<u64> = 1..=300;

/// The number of shares.
const SHARES: u64 = 24;

/// The number of shares of planted bugs. There are fewer: a change that no longer notices a mistake is to be found within a few commits.
const PLANT_SHARES: u64 = 3;

impl Extent {
    /// The share of a check. Tests run some seeds that are always the same, so that changes meet them at once.
    fn share(number: u64) -> Self {
        let (strict, others) = (251 + number * 12, 251 + number * 7);
        Extent {
            strict: strict..=strict + 11,
            others: others..=others + 6,
            swarm: 1 + number * 3..=3 + number * 3,
            judged: Judged::One(number as usize + 1),
            stops_once_covered: true,
            crash_points: format!("{}/{SHARES}", number + 1),
            plants: format!("{}/{PLANT_SHARES}", number % PLANT_SHARES + 1),
            hunts_all: false,
        }
    }

    /// Everything.
    fn soak() -> Self {
        Extent {
            strict: 251..=5_000,
            others: 251..=2_000,
            swarm: 1..=2_000,
            judged: Judged::All,
            stops_once_covered: false,
            crash_points: "1/1".to_owned(),
            plants: "1/1".to_owned(),
            hunts_all: true,
        }
    }
}

/// The share that a commit chooses; the first where there is no repository.
pub(crate) fn share_of_commit(root: &Path) -> u64 {
    let mut command = Command::new("git");
    command.args(["rev-parse", "HEAD"]).current_dir(root).stdin(Stdio::null());
    let commit = shell::output(command).ok().filter(|(_, success)| *success);
    let number = commit.and_then(|(commit, _)| u64::from_str_radix(commit.get(..8)?, 16).ok());
    number.unwrap_or_default() % SHARES
}

pub(crate) fn run(root: &Path) -> Outcome {
    let share = share_of_commit(root);
    println!("share {} of {SHARES}, as the commit has it; `cargo xtask soak` runs everything", share + 1);
    simulate(root, &Extent::share(share)).into()
}

/// Runs everything, which takes hours.
pub(crate) fn soak(root: &Path) -> ExitCode {
    match simulate(root, &Extent::soak()) {
        Ok(done) => {
            println!("{done}");
            ExitCode::SUCCESS
        }
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

/// Hunts every plant, and writes the seeds that catch them.
pub(crate) fn pin(root: &Path) -> ExitCode {
    let pinned = Quorate::built(root).and_then(|quorate| {
        let mut all_caught = true;
        for (name, option) in systems(&quorate.computed(&["sim", "--list-systems"])?.0) {
            let hunt =
                [&["sim"], &option[..], &["--plants", "--seeds", PLANT_SEEDS, "--write-pins", PINS]].concat();
            let (text, success) = quorate.computed(&hunt)?;
            println!("{name}\n{text}");
            all_caught &= success;
        }
        if all_caught { Ok(()) } else { Err(format!("a plant is not caught within seeds {PLANT_SEEDS}")) }
    });
    match pinned {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{failed}");
            ExitCode::FAILURE
        }
    }
}

fn simulate(root: &Path, extent: &Extent) -> Result<String, String> {
    let quorate = Quorate::built(root)?;
    let mut failures = Vec::new();
    let mut done = Vec::new();
    let mut caught: Vec<String> = Vec::new();
    let mut sim = |arguments: &[&str], failed: String| -> Result<String, String> {
        let (text, success) = quorate.computed(&[&["sim"], arguments].concat())?;
        println!("{text}");
        if !success {
            failures.push(failed);
        }
        Ok(text)
    };
    let list = sim(&["--list-systems"], "the systems cannot be listed".to_owned())?;
    let systems: Vec<(&str, Vec<&str>)> = systems(&list).collect();
    let crashes = ["--crash-points", "--share", &extent.crash_points];
    sim(&crashes, "not every crash of a small cluster is survived".to_owned())?;
    let mut uncovered_cells = Vec::new();
    for (number, (name, option)) in systems.iter().enumerate() {
        let further = match *name {
            STRICT => &extent.strict,
            _ => &extent.others,
        };
        let is_judged = extent.judged.judges(number, systems.len());
        for range in is_judged.then_some(&COVERING).into_iter().chain([further]) {
            let seeds = format!("{}..{}", range.start(), range.end());
            let stops = *range == COVERING && extent.stops_once_covered;
            let until_covered: &[&str] = if stops { &["--until-covered"] } else { &[] };
            let arguments = [&option[..], &["--seeds", &seeds, "--faults", "all"], until_covered].concat();
            let text = sim(&arguments, format!("seeds {seeds} of {name} are not all good"))?;
            if *range == COVERING
                && let Some(cells) = uncovered(&text)
            {
                uncovered_cells.push(format!("no seed of {name} covers {cells}"));
            }
            done.push(format!("{seeds} of {name}"));
        }
        if SWARMING.contains(name) {
            let seeds = format!("{}..{}", extent.swarm.start(), extent.swarm.end());
            let arguments = [&option[..], &["--seeds", &seeds, "--faults", "swarm"]].concat();
            sim(&arguments, format!("swarm seeds {seeds} of {name} are not all good"))?;
            done.push(format!("swarm {seeds} of {name}"));
        }
        let pins: &[&str] = if extent.hunts_all { &[] } else { &["--pins", PINS] };
        let plants_hunted = ["--plants", "--seeds", PLANT_SEEDS, "--share", &extent.plants];
        let hunt = [&option[..], &plants_hunted, pins].concat();
        let failed = format!("a bug planted in {name} is not caught within seeds {PLANT_SEEDS}");
        caught.extend(plants(&sim(&hunt, failed)?).into_iter().map(str::to_owned));
    }
    if !systems.iter().any(|(name, _)| *name == STRICT) || systems.len() < 2 {
        failures.push("systems are missing from the list".to_owned());
    }
    if caught.is_empty() {
        failures.push("there is no planted bug to catch".to_owned());
    }
    failures.extend(uncovered_cells);
    if failures.is_empty() {
        let (done, caught) = (done.join(", "), caught.join(", "));
        Ok(format!(
            "seeds {done}; share {} of crashes at every step; share {} of plants: caught {caught}",
            extent.crash_points, extent.plants
        ))
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
    fn the_shares_of_a_check_run_all_seeds_of_another_system() {
        let seeds: Vec<u64> = (0..SHARES).flat_map(|share| Extent::share(share).others).collect();
        assert_eq!(seeds, (251..=250 + 7 * SHARES).collect::<Vec<_>>());
    }

    #[test]
    fn the_shares_of_a_check_hunt_all_plants() {
        let hunted: std::collections::BTreeSet<String> =
            (0..SHARES).map(|share| Extent::share(share).plants).collect();
        assert!(hunted.into_iter().eq((1..=PLANT_SHARES).map(|which| format!("{which}/{PLANT_SHARES}"))));
    }

    #[test]
    fn the_shares_of_a_check_judge_the_table_of_every_system() {
        let systems = 10;
        for number in 0..systems {
            let judges = |share| Extent::share(share).judged.judges(number, systems);
            assert!((0..SHARES).any(judges), "{number}");
            assert!(Extent::soak().judged.judges(number, systems));
        }
    }

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
