//! Everything that is measured, measured again, and one page of it: every experiment, benches with the comparison systems, simulations.
//!
//! Whole runs take a night; quick ones have fewer seeds and seconds. Everything runs one after the other, so that nothing disturbs what is timed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use crate::build::Quorate;

/// The systems that run interactive transactions: isolations, then those that the papers compare with.
const INTERACTIVE: [&str; 9] = [
    "--isolation strict",
    "--isolation serializable",
    "--isolation snapshot",
    "--isolation parallel-snapshot",
    "--baseline txn-lock",
    "--baseline txn-occ",
    "--baseline span-lock",
    "--baseline span-occ",
    "--baseline qwstore",
];

/// The systems that transactions of one round are compared on.
const ONE_ROUND: [&str; 4] =
    ["--isolation serializable", "--isolation strict", "--baseline sinfonia", "--baseline txn-lock"];

/// A workload, and the systems that it is measured on.
struct Bench {
    /// The beginning of the names of its files.
    name: &'static str,
    arguments: &'static str,
    systems: &'static [&'static str],
}

const BENCHES: [Bench; 8] = [
    Bench {
        name: "rmw-memory",
        arguments: "rmw --embedded --durability memory --clients 256 --keys 100000",
        systems: &INTERACTIVE,
    },
    Bench {
        name: "rmw-sync",
        arguments: "rmw --embedded --durability sync --clients 256 --keys 100000",
        systems: &INTERACTIVE,
    },
    Bench {
        name: "retwis-contended",
        arguments: "retwis --embedded --durability memory --clients 128 --keys 100000 --zipf 0.8",
        systems: &INTERACTIVE,
    },
    Bench {
        name: "retwis-regions",
        arguments: "retwis --embedded --durability memory --clients 64 --keys 100000 --wan tapir",
        systems: &INTERACTIVE,
    },
    Bench {
        name: "counters",
        arguments: "counters --embedded --durability memory --clients 128 --keys 100 --shards 2 --two 10",
        systems: &ONE_ROUND,
    },
    Bench {
        name: "tpcc",
        arguments: "tpcc --embedded --durability memory --clients 64",
        systems: &["--isolation serializable"],
    },
    Bench {
        name: "hotspot",
        arguments: "hotspot --embedded --durability memory --clients 32 --shards 4 --mix high-local",
        systems: &["--isolation snapshot", "--isolation snapshot --variant clock-si"],
    },
    Bench {
        name: "waltsocial",
        arguments: "waltsocial --embedded --durability memory --clients 64 --users 10000 --mix mix1 --sites 2 --replicas 1",
        systems: &["--isolation parallel-snapshot"],
    },
];

/// The isolations that are simulated.
const ISOLATIONS: [&str; 4] = ["strict", "serializable", "snapshot", "parallel-snapshot"];

/// Something that is measured.
struct Step {
    /// The name of its file, without the ending.
    name: String,
    /// The arguments of `quorate`.
    arguments: Vec<String>,
}

impl Step {
    fn new(name: String, command: &str) -> Self {
        Step { name, arguments: command.split(' ').map(str::to_owned).collect() }
    }
}

/// Measures everything with what is built for release, and makes the page.
pub(crate) fn run(root: &Path, words: &[&str]) -> ExitCode {
    let (is_quick, out) = match words {
        [] => (false, None),
        ["--quick"] => (true, None),
        ["--out", out] => (false, Some(PathBuf::from(out))),
        ["--quick", "--out", out] | ["--out", out, "--quick"] => (true, Some(PathBuf::from(out))),
        _ => {
            eprintln!("Usage: cargo xtask reproduce [--quick] [--out DIR]");
            return ExitCode::from(2);
        }
    };
    match reproduce(root, is_quick, out) {
        Ok(failed) if failed.is_empty() => ExitCode::SUCCESS,
        Ok(failed) => {
            eprintln!("failed: {}", failed.join(", "));
            ExitCode::FAILURE
        }
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

/// Gives the names of the steps that have failed.
fn reproduce(root: &Path, is_quick: bool, out: Option<PathBuf>) -> Result<Vec<String>, String> {
    let quorate = Quorate::released(root)?;
    let out = out.map_or_else(|| quorate.folder().join("reproduction"), |out| root.join(out));
    fs::create_dir_all(&out).map_err(|error| format!("cannot create {}: {error}", out.display()))?;
    let (listed, success) = quorate.output(&["experiment", "--list", "--json"])?;
    if !success {
        return Err("quorate experiment --list failed".to_owned());
    }
    let steps = steps(&names(&listed), is_quick);
    let (begin, mut failed) = (Instant::now(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        let took = Instant::now();
        let done = one(&quorate, &out, step);
        let (seconds, minutes) = (took.elapsed().as_secs_f64(), begin.elapsed().as_secs_f64() / 60.0);
        let verdict =
            done.as_ref().err().map_or_else(|| "done".to_owned(), |reason| format!("FAILED: {reason}"));
        println!(
            "{:>3} of {}  {:<32} {seconds:>7.1} s {minutes:>7.1} min in all  {verdict}",
            number + 1,
            steps.len(),
            step.name
        );
        failed.extend(done.is_err().then(|| step.name.clone()));
    }
    let page = out.join("report.html");
    let (directory, file) = (out.to_string_lossy(), page.to_string_lossy());
    let (said, success) = quorate.output(&["report", &directory, "--out", &file])?;
    print!("{said}");
    if success { Ok(failed) } else { Err("the page was not made".to_owned()) }
}

/// Measures one thing, and writes the result. A result of an earlier run does not stay in its place.
fn one(quorate: &Quorate, out: &Path, step: &Step) -> Result<(), String> {
    let path = out.join(format!("{}.json", step.name));
    if path.exists() {
        fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
    }
    let mut arguments: Vec<&str> = step.arguments.iter().map(String::as_str).collect();
    arguments.push("--json");
    let (json, success) = quorate.output(&arguments)?;
    // A bad verdict is a result, and is shown.
    if !json.is_empty() {
        fs::write(&path, &json).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    if success { Ok(()) } else { Err(format!("quorate {}", arguments.join(" "))) }
}

/// Everything that is measured.
fn steps(experiments: &[String], is_quick: bool) -> Vec<Step> {
    let quick = if is_quick { " --quick" } else { "" };
    let (seconds, seeds) = if is_quick { (2, 20) } else { (20, 1_000) };
    let mut steps: Vec<Step> = experiments
        .iter()
        .map(|name| Step::new(name.clone(), &format!("experiment {name}{quick}")))
        .collect();
    for bench in &BENCHES {
        for system in bench.systems {
            let name = format!("bench-{}-{}", bench.name, system.split(' ').next_back().unwrap_or_default());
            steps.push(Step::new(name, &format!("bench {} --seconds {seconds} {system}", bench.arguments)));
        }
    }
    for isolation in ISOLATIONS {
        let name = format!("sim-{isolation}");
        steps.push(Step::new(name, &format!("sim --isolation {isolation} --seeds 1..{seeds} --faults all")));
    }
    steps
}

/// The names in a list of JSON objects that each have one.
fn names(json: &str) -> Vec<String> {
    let begins = json.split(r#""name":""#).skip(1);
    begins.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_step_has_a_file_of_its_own() {
        let experiments = names(r#"[{"name":"tapir-fig9","what":"a \"b\""},{"name":"str-fig3","what":"c"}]"#);
        assert_eq!(experiments, ["tapir-fig9", "str-fig3"]);
        let steps = steps(&experiments, true);
        let files: BTreeSet<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        assert_eq!(files.len(), steps.len());
        assert_eq!(steps[0].arguments, ["experiment", "tapir-fig9", "--quick"]);
    }
}
