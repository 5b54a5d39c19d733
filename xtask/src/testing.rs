//! Runs all tests and keeps the closing lines of each test binary for the end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Child;

use crate::stage::Outcome;
use crate::{build, shell};

pub(crate) fn run(root: &Path) -> Outcome {
    // One line a test would bury everything else; failures are printed in full all the same.
    let arguments = ["--no-fail-fast", "--", "--quiet"];
    let mut command = shell::cargo_command(root, &[&build::TESTS[..], &arguments].concat());
    // The longest tests wait for servers and time-outs: they compute for a seventh of their time.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    command.env("RUST_TEST_THREADS", (4 * cores).to_string());
    let name = shell::name(&command);
    let joined = std::io::pipe().and_then(|(reader, writer)| {
        command.stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command owns the writing ends; the reader would wait for them for ever.
        drop(command);
        Ok((reader, child))
    });
    let (reader, child) = match joined {
        Ok(joined) => joined,
        Err(error) => return Outcome::failed(format!("{name}: {error}")),
    };
    let mut closing = Closing::default();
    for line in BufReader::new(reader).split(b'\n') {
        match line {
            Ok(line) => closing.take(&String::from_utf8_lossy(&line)),
            Err(error) => return Outcome::failed(format!("{name}: {error}")),
        }
    }
    finish(child, &name, closing)
}

fn finish(mut child: Child, name: &str, closing: Closing) -> Outcome {
    let outcome = match child.wait() {
        Ok(status) if status.success() => Outcome::passed(closing.total()),
        Ok(status) => Outcome::failed(format!("{}; {name}: {status}", closing.total())),
        Err(error) => Outcome::failed(format!("{name}: {error}")),
    };
    Outcome { last_words: closing.lines, ..outcome }
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
}
