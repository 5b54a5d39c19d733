//! The binary as users run it: exit codes, what goes to which output, and whole clusters.

mod access;
mod backups;
mod browser;
mod certificates;
mod changes;
mod checking;
mod clusters;
mod console;
mod declaring;
mod doors;
mod exposition;
mod membership;
mod packaging;
mod procedures;
mod reloading;
mod removing;
mod servers;
mod sites;
mod torturing;
mod usage;
mod verifying;
mod workloads;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// `quorate`, to be given arguments.
fn quorate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// The result of a run.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    fn json(&self) -> serde_json::Value {
        let mut lines = self.out.lines();
        let line = lines.next().unwrap_or_else(|| panic!("nothing was printed; {}", self.err));
        assert_eq!(lines.next(), None, "one JSON object and nothing else");
        serde_json::from_str(line).unwrap()
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Run {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Runs `quorate` with these arguments to its end.
fn run(arguments: &[&str]) -> Run {
    quorate().args(arguments).output().unwrap().into()
}

/// The same, with this text on its standard input.
fn run_with_input(arguments: &[&str], input: &str) -> Run {
    let mut child = quorate()
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that finds its arguments wrong does not read its input.
    if let Err(error) = child.stdin.take().unwrap().write_all(input.as_bytes()) {
        assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe, "{error}");
    }
    child.wait_with_output().unwrap().into()
}
