//! About a minute of simulation: many seeds under all faults, then every planted bug must be caught.

use std::path::Path;
use std::process::Command;

use crate::shell;
use crate::stage::Outcome;

/// How many seeds are run under all faults. They took about 30 ms each on one core of the machine that sized them.
const SEEDS: &str = "1..2000";

/// The seeds within which a plant must be caught. They are among [`SEEDS`], so they pass without it.
const PLANT_SEEDS: &str = "1..200";

pub(crate) fn run(root: &Path) -> Outcome {
    simulate(root).into()
}

fn simulate(root: &Path) -> Result<String, String> {
    shell::cargo(root, &["build", "--release", "--locked", "--package", "quorate-cli"])?;
    let mut failures = Vec::new();
    let seeds = ["sim", "--isolation", "strict", "--seeds", SEEDS, "--faults", "all"];
    let (text, success) = shell::output(quorate(root, &seeds))?;
    println!("{text}");
    if !success {
        failures.push(format!("seeds {SEEDS} are not all good"));
    }
    let (text, _) = shell::output(quorate(root, &["sim", "--list-plants"]))?;
    let plants = plants(&text);
    if plants.is_empty() {
        failures.push("there is no planted bug to catch".to_owned());
    }
    for plant in &plants {
        let arguments = ["sim", "--seeds", PLANT_SEEDS, "--faults", "all", "--plant", plant];
        let (text, success) = shell::quiet_output(quorate(root, &arguments))?;
        // Exit code 1 alone could also mean that the command failed.
        match violation(&text) {
            Some(first) if !success => println!("{plant} is caught: {first}"),
            _ => {
                println!("{plant} is NOT caught within seeds {PLANT_SEEDS}");
                failures.push(format!("{plant} is not caught"));
            }
        }
    }
    if failures.is_empty() {
        Ok(format!("seeds {SEEDS}; caught {}", plants.join(", ")))
    } else {
        Err(failures.join(", "))
    }
}

/// The first violated invariant that a run of `quorate sim` prints. That a history shows too little is no such thing.
fn violation(text: &str) -> Option<&str> {
    text.lines().find(|line| line.starts_with("seed ") && line.contains(" violates I"))
}

/// The binary, run as users run it, from the clone.
pub(crate) fn quorate(root: &Path, arguments: &[&str]) -> Command {
    shell::cargo_command(
        root,
        &[&["run", "--quiet", "--release", "--locked", "--package", "quorate-cli", "--"], arguments].concat(),
    )
}

/// The ids in the table that `quorate sim --list-plants` prints.
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
    fn a_plant_is_caught_by_an_invariant() {
        let vacuous = "seed 3 violates vacuous: vacuous\n  too few";
        assert_eq!(violation(vacuous), None);
        let caught = format!("{vacuous}\n\nseed 4 violates I1: G2\n  a cycle");
        assert_eq!(violation(&caught), Some("seed 4 violates I1: G2"));
    }

    #[test]
    fn plants_are_read_from_the_table() {
        let table = "plant  section  what\nT1     5.1.2    the published rules\nT21    5.1.2    ABSTAIN\n";
        assert_eq!(plants(table), ["T1", "T21"]);
    }
}
