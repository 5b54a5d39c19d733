//! Which seeds of the simulator notice a mutant.
//!
//! Each seed of a system is run once, to note how long it takes and which sites it reaches. A mutant is then put before the
//! seeds that reach it, the shortest first, in one process, until one violates an invariant, hangs or dies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::arguments::Arguments;
use crate::drive::in_parallel;
use crate::process::{End, Lines, NoLine, bounded, run};
use crate::results::Verdict;
use crate::tests::stamp;
use crate::workspace::{Workspace, known};

/// The faults that are not named where it is said what has noticed a mutant.
const USUAL: &str = "all";

/// A seed may compute this much longer than it takes without a mutant, and this time beside that.
const FACTOR: u32 = 20;
const GRACE: Duration = Duration::from_secs(5);

/// So long some seeds may take when they are run for the first time.
const FIRST_MAX: Duration = Duration::from_secs(1_200);

/// So many seeds that show too little are a violation, as for `quorate sim`.
const VACUOUS_MAX: usize = 2;

/// Seeds that are noted by one process.
const TOGETHER: usize = 10;

#[derive(Debug, Serialize, Deserialize)]
struct Seed {
    number: u64,
    millis: u64,
    /// True if it shows too little without a mutant.
    vacuous: bool,
    reached: BTreeSet<u32>,
}

/// The seeds of a system, and the mutants that each of them reaches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seeds {
    /// Names the program and the seeds that this is known of.
    pub(crate) stamp: String,
    program: PathBuf,
    system: String,
    faults: String,
    /// Shortest first.
    seeds: Vec<Seed>,
}

impl Seeds {
    /// Runs every seed once, unless that was done before.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn noted(
        workspace: &Workspace,
        program: &Path,
        system: &str,
        arguments: &Arguments,
    ) -> Result<Self, String> {
        let Arguments { seeds: range, faults, jobs, .. } = arguments;
        let file = format!("seeds-{system}-{faults}.json");
        let stamp = format!("{} {}..{}", stamp(&[program.to_owned()]), range.start(), range.end());
        if let Ok(before) = serde_json::from_str::<Seeds>(&known(workspace, &file))
            && before.stamp == stamp
        {
            return Ok(before);
        }
        let numbers: Vec<u64> = range.clone().collect();
        eprintln!("{system}: noting what {} seeds reach", numbers.len());
        let chunks: Vec<&[u64]> = numbers.chunks(TOGETHER).collect();
        let ends = in_parallel(&chunks, *jobs, |chunk| {
            run(command(program, system, faults, "note", chunk), FIRST_MAX)
        });
        let mut seeds = Vec::new();
        for end in ends {
            let End::Exit { success: true, printed } = end? else {
                return Err(format!("{system}: seeds cannot be run"));
            };
            for line in printed.lines() {
                let Some((seed, verdict)) = parsed(line) else { continue };
                match verdict.starts_with("broken") {
                    true => eprintln!(
                        "{system}: seed {} is {verdict} without a mutant, and is not asked",
                        seed.number
                    ),
                    false => seeds.push(seed),
                }
            }
        }
        seeds.sort_by_key(|seed| (seed.millis, seed.number));
        let taken: u64 = seeds.iter().map(|seed| seed.millis).sum();
        eprintln!("{system}: {} seeds under {faults} take {:.1} s", seeds.len(), taken as f64 / 1e3);
        let (program, system, faults) = (program.to_owned(), system.to_owned(), faults.clone());
        let seeds = Seeds { stamp, program, system, faults, seeds };
        let text = serde_json::to_string(&seeds).map_err(|error| error.to_string())?;
        fs::write(workspace.known.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
        Ok(seeds)
    }

    /// The name of these seeds as judges, whichever of them there are.
    pub(crate) fn by(&self) -> String {
        if self.faults == USUAL {
            self.system.clone()
        } else {
            format!("{} under {}", self.system, self.faults)
        }
    }

    /// Puts a mutant before the seeds that reach its site.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn judge(&self, number: u32, first: u32) -> Result<Verdict, String> {
        let reaching: Vec<&Seed> = self.seeds.iter().filter(|seed| seed.reached.contains(&first)).collect();
        if reaching.is_empty() {
            return Ok(Verdict::Unreached);
        }
        let numbers: Vec<u64> = reaching.iter().map(|seed| seed.number).collect();
        let mut command = command(&self.program, &self.system, &self.faults, "judge", &numbers);
        command.env("QUORATE_MUTANT", number.to_string());
        let mut lines = Lines::of(command)?;
        let mut verdict = Verdict::Survived;
        let mut vacuous = 0;
        for seed in &reaching {
            let at = |what: &str| Verdict::Caught(format!("{} seed {}: {what}", self.system, seed.number));
            match lines.next(GRACE + Duration::from_millis(seed.millis) * FACTOR) {
                Ok(line) => {
                    let said = parsed(&line).map(|(_, said)| said).unwrap_or_default();
                    vacuous += usize::from(said == "vacuous" && !seed.vacuous);
                    if let Some(broken) = said.strip_prefix("broken ") {
                        verdict = at(broken);
                    } else if vacuous >= VACUOUS_MAX {
                        verdict = at("too many seeds show too little");
                    }
                }
                Err(NoLine::Late) => verdict = at("hangs"),
                Err(NoLine::Over) => verdict = at("dies"),
            }
            if verdict != Verdict::Survived {
                break;
            }
        }
        lines.end();
        Ok(verdict)
    }
}

fn command(program: &Path, system: &str, faults: &str, what: &str, seeds: &[u64]) -> Command {
    let mut command = bounded(program, None);
    command.args([system, what, faults]).args(seeds.iter().map(u64::to_string)).env_remove("QUORATE_MUTANT");
    command
}

/// Reads a line of the program that runs seeds: the seed, and what is said of it.
fn parsed(line: &str) -> Option<(Seed, String)> {
    let mut fields = line.split('\t');
    let (number, millis) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let verdict = fields.next()?.to_owned();
    let reached = fields.next().unwrap_or_default().split(',').filter_map(|site| site.parse().ok()).collect();
    Some((Seed { number, millis, vacuous: verdict == "vacuous", reached }, verdict))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_seed_says_is_read() {
        let (seed, verdict) = parsed("17\t230\tbroken I1 lost-update\t3,40").unwrap();
        assert_eq!((seed.number, seed.millis, verdict.as_str()), (17, 230, "broken I1 lost-update"));
        assert_eq!(seed.reached, BTreeSet::from([3, 40]));
        assert!(parsed("4\t9\tvacuous\t").unwrap().0.vacuous);
        assert!(parsed("no seed").is_none());
    }
}
