//! Runs all tests, and keeps the closing lines of each test binary for the end.
//!
//! Tests of hosts wait for sockets, disks and time-outs, and compute for a part of their time: they run one binary after the other. Beside them run those
//! of the Python client, which wait one by one. Tests below the runtime only compute. They run meanwhile, a binary for each core, and yield to the hosts, so that these find their clocks
//! as they are on a quiet machine.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::build::{self, TestBinary};
use crate::crates::CRATES;
use crate::shell;
use crate::stage::Outcome;

/// How many threads the tests of hosts have for each core.
const THREADS_OF_HOSTS: usize = 4;

/// The package whose tests another program runs, one after the other.
const PYTHON: &str = "crates/hosts/python";

/// The oracle of the door for Redis, and how it is installed.
const REDIS: &str = "redis-server";

pub(crate) fn run(root: &Path) -> Outcome {
    tell_of_missing_oracles();
    let (computing, hosts): (Vec<TestBinary>, Vec<TestBinary>) = match build::test_binaries(root) {
        Ok(binaries) => binaries.into_iter().partition(only_computes),
        Err(failed) => return Outcome::failed(failed),
    };
    let (python, hosts): (Vec<TestBinary>, Vec<TestBinary>) =
        hosts.into_iter().partition(|binary| binary.package.ends_with(PYTHON));
    let done = Mutex::new(Done::default());
    let end = |outcome: Run| done.lock().unwrap_or_else(PoisonError::into_inner).take(outcome);
    let queue = Mutex::new(computing.iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        scope.spawn(|| python.iter().for_each(|binary| end(waits(root, binary))));
        scope.spawn(|| hosts.iter().for_each(|binary| end(waits(root, binary))));
        for _ in 0..cores() {
            scope.spawn(|| std::iter::from_fn(next).for_each(|binary| end(computes(root, binary))));
        }
        end(documentation(root));
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).outcome()
}

/// Tests that compare with another program compare nothing without it. People are told so before they wait.
fn tell_of_missing_oracles() {
    let is_named = std::env::var_os("QUORATE_REDIS_SERVER").is_some();
    let is_missing =
        || Command::new(REDIS).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err();
    if !is_named && is_missing() {
        eprintln!(
            "{REDIS} is not installed, so nothing is compared with it (Debian: apt-get install {REDIS})"
        );
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// True if the tests of a binary need neither sockets nor clocks.
fn only_computes(binary: &TestBinary) -> bool {
    let package = CRATES.iter().find(|known| binary.package.ends_with(known.folder));
    package.is_some_and(|package| package.kind.is_below_runtime())
}

/// Runs tests that wait more than they compute.
fn waits(root: &Path, binary: &TestBinary) -> Run {
    let mut command = Command::new(&binary.executable);
    command.env("RUST_TEST_THREADS", (THREADS_OF_HOSTS * cores()).to_string());
    Run::of(binary.name(root), binary.again(), binary.in_place(command))
}

/// Runs tests that only compute, with what others leave.
fn computes(root: &Path, binary: &TestBinary) -> Run {
    let command = shell::computing(&binary.executable);
    Run::of(binary.name(root), binary.again(), binary.in_place(command))
}

/// Runs the examples in the documentation of public items.
fn documentation(root: &Path) -> Run {
    let arguments = [&build::TESTS[..], &["--doc", "--no-fail-fast", "--", "--quiet"]].concat();
    let command = shell::cargo_command(root, &arguments);
    Run::of(String::new(), "--doc".to_owned(), command)
}

/// How a test binary has ended.
struct Run {
    /// The line that names it, as cargo has it; empty if there is such a line in what was printed.
    name: String,
    /// How cargo is asked to run it again.
    again: String,
    printed: String,
    status: Result<ExitStatus, String>,
}

impl Run {
    /// Runs it to its end. One line a test would bury everything else; failures are printed in full all the same.
    fn of(name: String, again: String, mut command: Command) -> Self {
        let mut printed = String::new();
        let status = std::io::pipe().and_then(|(mut reader, writer)| {
            command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
            let mut child = command.spawn()?;
            // The command owns the writing ends; the reader would wait for them for ever.
            drop(command);
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut reader, &mut bytes)?;
            printed = String::from_utf8_lossy(&bytes).into_owned();
            child.wait()
        });
        Run { name, again, printed, status: status.map_err(|error| error.to_string()) }
    }

    fn has_passed(&self) -> bool {
        matches!(&self.status, Ok(status) if status.success())
    }
}

/// The test binaries that have run. The output of each is printed in one piece.
#[derive(Default)]
struct Done {
    closing: Closing,
    failed: Vec<String>,
}

impl Done {
    fn take(&mut self, run: Run) {
        if !run.name.is_empty() {
            println!();
            self.closing.take(&run.name);
        }
        run.printed.lines().for_each(|line| self.closing.take(line));
        if !run.has_passed() {
            let how = match &run.status {
                Ok(status) => status.to_string(),
                Err(error) => error.clone(),
            };
            println!("error: test failed, to rerun pass `{}` ({how})", run.again);
            self.failed.push(run.again);
        }
    }

    fn outcome(self) -> Outcome {
        let total = self.closing.total();
        let outcome = match self.failed.is_empty() {
            true => Outcome::passed(total),
            false => Outcome::failed(format!("{total}; failed: {}", self.failed.join(", "))),
        };
        Outcome { last_words: self.closing.lines, ..outcome }
    }
}

/// The lines in which test binaries say how they ended, each after the line that names the binary.
#[derive(Default)]
struct Closing {
    binary: String,
    lines: Vec<String>,
    passed: u64,
    failed: u64,
    ignored: u64,
}

impl Closing {
    /// Passes a line on, or keeps it for the end.
    fn take(&mut self, line: &str) {
        let trimmed = line.trim_start();
        if trimmed.starts_with("Running ") || trimmed.starts_with("Doc-tests ") {
            self.binary = line.to_owned();
        }
        if !trimmed.starts_with("test result: ") {
            println!("{line}");
            return;
        }
        let counts = [" passed", " failed", " ignored"].map(|word| count(trimmed, word));
        if counts.iter().sum::<u64>() == 0 {
            println!("{line}");
            return;
        }
        let [passed, failed, ignored] = counts;
        self.passed += passed;
        self.failed += failed;
        self.ignored += ignored;
        self.lines.push(std::mem::take(&mut self.binary));
        self.lines.push(line.to_owned());
    }

    fn total(&self) -> String {
        format!("{} passed, {} failed, {} ignored", self.passed, self.failed, self.ignored)
    }
}

/// The number before a word of a closing line.
fn count(line: &str, word: &str) -> u64 {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_kept_and_counted() {
        let mut closing = Closing::default();
        closing.take("     Running unittests src/lib.rs (target/debug/deps/quorate_core-1)");
        closing.take("running 2 tests");
        closing.take(
            "test result: ok. 12 passed; 0 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s",
        );
        closing.take("   Doc-tests quorate_core");
        closing.take("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
        closing.take("   Doc-tests quorate");
        closing.take("test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        assert_eq!(closing.total(), "13 passed, 2 failed, 3 ignored");
        assert_eq!(closing.lines.len(), 4);
        assert!(closing.lines[1].starts_with("test result: ok."));
    }

    #[test]
    fn hosts_are_told_from_crates_that_only_compute() {
        let binary = |folder: &str| TestBinary {
            package: Path::new("/clone").join(folder),
            source: Path::new("/clone").join(folder).join("src/lib.rs"),
            executable: "tests".into(),
        };
        assert!(only_computes(&binary("crates/proof/simulator")));
        assert!(!only_computes(&binary("crates/hosts/client")));
        assert!(!only_computes(&binary("crates/unknown")), "it may do anything");
    }

    #[cfg(unix)]
    #[test]
    fn a_binary_that_fails_fails_the_stage_and_is_named() {
        let mut done = Done::default();
        let run = |script: &str, again: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Run::of("     Running tests/a.rs (a)".to_owned(), again.to_owned(), command)
        };
        done.take(run("echo 'test result: ok. 2 passed; 0 failed; 0 ignored'", "-p a"));
        done.take(run("echo 'test result: FAILED. 1 passed; 1 failed; 0 ignored'; exit 101", "-p b"));
        // One that is killed says nothing.
        done.take(run("kill -9 $$", "-p c"));
        let outcome = done.outcome();
        assert_eq!(outcome.verdict, crate::stage::Verdict::Failed);
        assert_eq!(outcome.note, "3 passed, 1 failed, 0 ignored; failed: -p b, -p c");
        assert_eq!(outcome.last_words.len(), 4);
    }
}
