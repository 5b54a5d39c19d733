//! Which tests of a crate notice a mutant.
//!
//! Each test is run once by itself, to note how long it takes and which sites it reaches. A mutant is then put before the
//! tests that reach it, the quick ones first, some in one process, until one fails, hangs or dies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::drive::in_parallel;
use crate::process::{End, WAIT_FACTOR, bounded, run};
use crate::results::Verdict;
use crate::targets::Target;
use crate::workspace::{Workspace, known};

/// Tests are run together as long as they take no longer than this without a mutant.
const TOGETHER_MS: u64 = 400;

/// A test may compute this much longer than it takes without a mutant, and this time beside that.
const FACTOR: u32 = 5;
const GRACE: Duration = Duration::from_secs(5);

/// A test that computes for longer than this is not asked: each mutant that survives would cost as much.
const FIRST_MAX: Duration = Duration::from_secs(40);

/// A test, and what is known of it.
#[derive(Debug, Serialize, Deserialize)]
struct Test {
    binary: PathBuf,
    name: String,
    millis: u64,
    reached: BTreeSet<u32>,
}

/// The tests of a crate, and the mutants that each of them reaches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Tests {
    /// Names the binaries that this is known of.
    pub(crate) stamp: String,
    /// The folder of the package.
    folder: PathBuf,
    tests: Vec<Test>,
}

/// Names files as long as they are not built again.
pub(crate) fn stamp(files: &[PathBuf]) -> String {
    let of = |path: &PathBuf| {
        let metadata = fs::metadata(path).ok()?;
        let modified = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(format!("{}-{}", metadata.len(), modified.as_nanos()))
    };
    files.iter().map(|path| of(path).unwrap_or_default()).collect::<Vec<_>>().join("+")
}

impl Tests {
    /// Runs every test of a crate once, unless that was done before.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn noted(
        workspace: &Workspace,
        target: &Target,
        binaries: &[PathBuf],
        jobs: usize,
    ) -> Result<Self, String> {
        let file = format!("tests-{}.json", target.name);
        let folder = workspace.copy.join(target.folder);
        let stamp = stamp(binaries);
        if let Ok(before) = serde_json::from_str::<Tests>(&known(workspace, &file))
            && before.stamp == stamp
        {
            return Ok(before);
        }
        let mut all = Vec::new();
        for binary in binaries {
            let mut list = command(binary, &folder, "", None);
            list.args(["--list", "--format", "terse"]);
            let End::Exit { printed, .. } = run(list, GRACE)? else {
                return Err(format!("{} lists no tests", binary.display()));
            };
            all.extend(
                printed
                    .lines()
                    .filter_map(|line| Some((binary.clone(), line.strip_suffix(": test")?.to_owned()))),
            );
        }
        eprintln!("{}: noting what {} tests reach", target.name, all.len());
        let notebooks = workspace.known.join("notes");
        fs::create_dir_all(&notebooks).map_err(|error| format!("{}: {error}", notebooks.display()))?;
        let numbered: Vec<(usize, &(PathBuf, String))> = all.iter().enumerate().collect();
        let noted = in_parallel(&numbered, jobs, |(number, (binary, name))| {
            let notebook = notebooks.join(format!("{}-{number}", target.name));
            let _ = fs::remove_file(&notebook);
            let chosen = format!("reached:{}", notebook.display());
            let mut command = command(binary, &folder, &chosen, Some(FIRST_MAX));
            command.args(["--exact", name, "--test-threads", "1"]);
            let begin = Instant::now();
            let end = run(command, FIRST_MAX * WAIT_FACTOR);
            let millis = begin.elapsed().as_millis() as u64;
            let text = fs::read_to_string(&notebook).unwrap_or_default();
            let _ = fs::remove_file(&notebook);
            let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
            let test = Test { binary: binary.clone(), name: name.clone(), millis, reached };
            let why_not = match end {
                Ok(End::Exit { success: true, .. }) => None,
                Ok(End::Exit { .. }) => Some("fails without a mutant".to_owned()),
                Ok(End::Late) => Some("takes too long".to_owned()),
                Err(error) => Some(error),
            };
            (test, why_not)
        });
        let mut tests = Vec::new();
        for (test, why_not) in noted {
            match why_not {
                None => tests.push(test),
                Some(reason) => eprintln!("{}: {} {reason}, and is not asked", target.name, test.name),
            }
        }
        tests.sort_by_key(|test| test.millis);
        let tests = Tests { stamp, folder, tests };
        let text = serde_json::to_string(&tests).map_err(|error| error.to_string())?;
        fs::write(workspace.known.join(&file), text).map_err(|error| format!("{file}: {error}"))?;
        Ok(tests)
    }

    /// Puts a mutant before the tests that reach its site.
    ///
    /// # Errors
    /// They cannot be run.
    pub(crate) fn judge(&self, number: u32, first: u32) -> Result<Verdict, String> {
        let reaching = self.tests.iter().filter(|test| test.reached.contains(&first));
        let mut batches: Vec<(&Path, u64, Vec<&str>)> = Vec::new();
        let mut open: BTreeMap<&Path, usize> = BTreeMap::new();
        for test in reaching {
            let fits = open.get(test.binary.as_path()).copied();
            match fits.filter(|at| batches[*at].1 + test.millis <= TOGETHER_MS) {
                Some(at) => {
                    batches[at].1 += test.millis;
                    batches[at].2.push(&test.name);
                }
                None => {
                    open.insert(&test.binary, batches.len());
                    batches.push((&test.binary, test.millis, vec![&test.name]));
                }
            }
        }
        if batches.is_empty() {
            return Ok(Verdict::Unreached);
        }
        for (binary, millis, names) in batches {
            let patience = GRACE + Duration::from_millis(millis) * FACTOR;
            let mut command = command(binary, &self.folder, &number.to_string(), Some(patience));
            command.arg("--exact").args(&names).args(["--test-threads", "1"]);
            match run(command, patience * WAIT_FACTOR)? {
                End::Exit { success: true, .. } => {}
                End::Exit { printed, .. } => {
                    let failed = printed
                        .lines()
                        .find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
                    let failed = failed.map_or_else(|| format!("one of {} dies", names.len()), str::to_owned);
                    return Ok(Verdict::Caught(failed));
                }
                End::Late => return Ok(Verdict::Caught(format!("{} hangs", names[0]))),
            }
        }
        Ok(Verdict::Survived)
    }
}

/// Runs a binary with tests as cargo would, with a mutant.
fn command(binary: &Path, folder: &Path, mutant: &str, processor_max: Option<Duration>) -> Command {
    let mut command = bounded(binary, processor_max);
    command
        .current_dir(folder)
        .env("CARGO_MANIFEST_DIR", folder)
        .env("QUORATE_MUTANT", mutant)
        .env_remove("QUORATE_BLESS");
    command
}
