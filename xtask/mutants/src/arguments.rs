//! The arguments of a run.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::targets::{TARGETS, Target};

pub(crate) const HELP: &str = "\
Usage: cargo xtask mutants [OPTION…]

Changes protocol crates, one line at a time, and counts which changes the tests of the crate and seeds of the simulator notice.

  --crate NAME          mutants of this crate; may be repeated (default: all of tapir, ir, granola, log, configuration, walter, str, qwstore)
  --in PATH             only files whose path holds this, such as src/recovery
  --by WHAT             tests: the tests of the crate; simulator: seeds; both: seeds for what the tests do not notice (default)
  --sample N            N mutants of each crate, drawn by --seed (default: all)
  --seed S              another sample (default 1)
  --changed [BASE]      mutants on lines that differ from BASE (default main); exit code 1 if one survives
  --only ID             one mutant, as reports name it; may be repeated; exit code 1 if one survives
  --seeds A..B          seeds of each system, both ends included (default 1..100)
  --faults NAMES        the faults of these seeds, as quorate sim reads them (default all)
  --budget MINUTES      begin no further mutant after this time; what is known is kept, and the next run goes on
  --jobs N              programs at the same time (default: all processors)
  --fresh               forget what earlier runs have found
  --list                list the mutants and do nothing
  --json                one JSON object a line: crates, then survivors

Examples:
  cargo xtask mutants --crate tapir --sample 150
  cargo xtask mutants --changed main
  cargo xtask mutants --only 3fa9c2d1b7 --seeds 1..1000
  cargo xtask mutants --crate tapir --sample 60 --by simulator --faults swarm

Exit codes: 0 done, 1 a mutant survives with --changed or --only, 2 wrong use, or nothing could be run.";

/// The judges of mutants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Tests,
    Simulator,
    Both,
}

impl By {
    pub(crate) fn tests(self) -> bool {
        self != By::Simulator
    }

    pub(crate) fn simulator(self) -> bool {
        self != By::Tests
    }
}

#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) crates: Vec<&'static Target>,
    /// A part of the path of a file.
    pub(crate) within: Option<String>,
    pub(crate) by: By,
    pub(crate) sample: Option<usize>,
    pub(crate) seed: u64,
    /// The commit from which lines must differ.
    pub(crate) changed: Option<String>,
    pub(crate) only: Vec<String>,
    pub(crate) seeds: RangeInclusive<u64>,
    /// The faults of seeds, by name.
    pub(crate) faults: String,
    pub(crate) budget: Option<Duration>,
    pub(crate) jobs: usize,
    pub(crate) fresh: bool,
    pub(crate) list: bool,
    pub(crate) json: bool,
}

impl Arguments {
    /// # Errors
    /// Something is unknown, or is no number.
    pub(crate) fn parse(words: &[String]) -> Result<Self, String> {
        let mut arguments = Arguments {
            crates: Vec::new(),
            within: None,
            by: By::Both,
            sample: None,
            seed: 1,
            changed: None,
            only: Vec::new(),
            seeds: 1..=100,
            faults: "all".to_owned(),
            budget: None,
            jobs: std::thread::available_parallelism().map_or(1, usize::from),
            fresh: false,
            list: false,
            json: false,
        };
        let mut words = words.iter().map(String::as_str).peekable();
        while let Some(option) = words.next() {
            if option == "--changed" {
                let base = words.next_if(|word| !word.starts_with("--"));
                arguments.changed = Some(base.unwrap_or("main").to_owned());
                continue;
            }
            let mut value = || words.next().ok_or_else(|| format!("{option} needs a value"));
            match option {
                "--crate" => arguments.crates.push(Target::named(value()?)?),
                "--in" => arguments.within = Some(value()?.to_owned()),
                "--by" => arguments.by = by(value()?)?,
                "--sample" => arguments.sample = Some(number(option, value()?)? as usize),
                "--seed" => arguments.seed = number(option, value()?)?,
                "--only" => arguments.only.push(value()?.to_owned()),
                "--seeds" => arguments.seeds = range(value()?)?,
                "--faults" => arguments.faults = value()?.to_owned(),
                "--budget" => arguments.budget = Some(Duration::from_secs(60 * number(option, value()?)?)),
                "--jobs" => arguments.jobs = number(option, value()?)?.clamp(1, 256) as usize,
                "--fresh" => arguments.fresh = true,
                "--list" => arguments.list = true,
                "--json" => arguments.json = true,
                _ => return Err(format!("there is no option {option}; --help lists them")),
            }
        }
        if arguments.crates.is_empty() {
            arguments.crates = TARGETS.iter().collect();
        }
        Ok(arguments)
    }

    /// True if a mutant that survives fails the command: where it was asked for these mutants and not for a score.
    pub(crate) fn is_judged(&self) -> bool {
        self.changed.is_some() || !self.only.is_empty()
    }
}

fn by(word: &str) -> Result<By, String> {
    match word {
        "tests" => Ok(By::Tests),
        "simulator" => Ok(By::Simulator),
        "both" => Ok(By::Both),
        _ => Err(format!("--by {word}: choose tests, simulator or both")),
    }
}

fn number(option: &str, word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{option} {word}: not a number"))
}

fn range(word: &str) -> Result<RangeInclusive<u64>, String> {
    let parsed = word.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..=to.parse().ok()?));
    parsed
        .filter(|range: &RangeInclusive<u64>| !range.is_empty())
        .ok_or_else(|| format!("--seeds {word}: write A..B, such as 1..100"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_as_users_write_them() {
        let arguments =
            parsed("--crate ir --crate quorate-log --by tests --sample 150 --seeds 5..9 --budget 2").unwrap();
        assert_eq!(arguments.crates.iter().map(|target| target.name).collect::<Vec<_>>(), ["ir", "log"]);
        assert_eq!((arguments.by, arguments.sample, arguments.seeds), (By::Tests, Some(150), 5..=9));
        assert_eq!(arguments.budget, Some(Duration::from_secs(120)));
        assert_eq!(
            (arguments.faults.as_str(), parsed("--faults swarm").unwrap().faults),
            ("all", "swarm".to_owned())
        );
        assert_eq!(parsed("").unwrap().crates.len(), TARGETS.len());
    }

    #[test]
    fn changed_lines_differ_from_main_unless_a_base_is_named() {
        assert_eq!(parsed("--changed").unwrap().changed.as_deref(), Some("main"));
        assert_eq!(parsed("--changed --json").unwrap().changed.as_deref(), Some("main"));
        assert_eq!(parsed("--changed HEAD~3 --json").unwrap().changed.as_deref(), Some("HEAD~3"));
        assert!(parsed("--changed").unwrap().is_judged() && !parsed("").unwrap().is_judged());
    }

    #[test]
    fn a_wrong_argument_is_named_with_its_remedy() {
        let table = [
            ("--crate taper", "there are no mutants of a crate taper; choose among tapir, ir"),
            ("--crate", "--crate needs a value"),
            ("--by luck", "--by luck: choose tests, simulator or both"),
            ("--sample many", "--sample many: not a number"),
            ("--seeds 9..5", "--seeds 9..5: write A..B"),
            ("--seeds 9", "--seeds 9: write A..B"),
            ("--al", "there is no option --al; --help lists them"),
        ];
        for (line, expected) in table {
            let reason = parsed(line).unwrap_err();
            assert!(reason.starts_with(expected), "{line}: {reason}");
        }
    }
}
