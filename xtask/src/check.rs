//! `cargo xtask check`: the stages in their order, each with its seconds, and a summary.
//!
//! Cheap stages come first, tests come last so that their closing lines are near the end. A stage that fails does not keep
//! the later ones from running: one run tells everything that is wrong.
//!
//! Nothing is compiled more often than it must be. Clippy, rustdoc and wasm32 only check; tests and the `quorate` binary are
//! compiled once, in one profile ([`build`]).

use std::path::Path;
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use crate::crates::CLIENT;
use crate::stage::{Outcome, Stage, Verdict};
use crate::{arrows, build, determinism, licences, shell, simulation, testing, tidy, torture, wasm};

const STAGES: [Stage; 12] = [
    Stage { name: "format", what: "rustfmt finds nothing to change", budget: 5, run: format },
    Stage {
        name: "tidy",
        what: "size of files, leftovers, machine paths, the index of decisions, code in pages, assertions",
        budget: 5,
        run: tidy::run,
    },
    Stage {
        name: "determinism",
        what: "no clocks, threads, randomness, I/O or hash order in deterministic crates",
        budget: 5,
        run: determinism::run,
    },
    Stage { name: "arrows", what: "crates import only what they may", budget: 10, run: arrows::run },
    Stage { name: "licences", what: "what dependencies ask for", budget: 5, run: licences::run },
    Stage { name: "clippy", what: "rustc and clippy, warnings denied", budget: 90, run: clippy },
    Stage { name: "rustdoc", what: "documentation, warnings denied", budget: 40, run: rustdoc },
    Stage {
        name: "wasm",
        what: "the deterministic crates without an operating system",
        budget: 20,
        run: wasm::run,
    },
    Stage {
        name: "build",
        what: "all tests, and the binary that later stages run",
        budget: 400,
        run: build::run,
    },
    Stage {
        name: "simulation",
        what: "a share of the seeds under all faults, of the crash points and of the planted bugs",
        budget: 200,
        run: simulation::run,
    },
    Stage {
        name: "torture",
        what: "faults on real server processes for a while, on each kind of network",
        budget: 120,
        run: torture::run,
    },
    Stage { name: "tests", what: "all tests of the workspace", budget: 200, run: testing::run },
];

/// The stage that runs beside those after it: it only computes, and yields to servers that are tortured, which wait most of the time.
const ASIDE: &str = "simulation";

/// The stage that begins once the other has ended: some of its tests lose their patience on a machine that computes at the same time.
const AFTERWARDS: &str = "tests";

/// How many seconds all of them may take together on two quiet cores.
const BUDGET: u32 = 1_200;

/// Runs all stages, or the named ones.
pub(crate) fn run(root: &Path, names: &[&str]) -> ExitCode {
    if let Some(unknown) = names.iter().find(|name| STAGES.iter().all(|stage| stage.name != **name)) {
        eprintln!("there is no stage {unknown}; `cargo xtask stages` lists them");
        return ExitCode::from(2);
    }
    let begin = Instant::now();
    let mut summary = Vec::new();
    let mut last_words = Vec::new();
    let mut failed: Vec<&str> = Vec::new();
    let chosen: Vec<&Stage> =
        STAGES.iter().filter(|stage| names.is_empty() || names.contains(&stage.name)).collect();
    for (stage, outcome, seconds) in run_all(root, &chosen) {
        summary.push(line(stage.name, outcome.verdict, seconds, stage.budget, &outcome.note));
        last_words.extend(outcome.last_words);
        failed.extend((outcome.verdict == Verdict::Failed).then_some(stage.name));
    }
    println!("\n── summary\n{}", summary.join("\n"));
    if !last_words.is_empty() {
        println!("\n{}\n", last_words.join("\n"));
    }
    let verdict = if failed.is_empty() { Verdict::Passed } else { Verdict::Failed };
    let note = match failed.is_empty() {
        true => String::new(),
        false => format!("{} of {} stages: {}", failed.len(), summary.len(), failed.join(", ")),
    };
    println!("{}", line("check", verdict, begin.elapsed().as_secs_f64(), BUDGET, &note));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs stages one after the other, but for the one that runs aside. Gives, in their order, how each has ended, and after how many seconds.
fn run_all<'a>(root: &Path, stages: &[&'a Stage]) -> Vec<(&'a Stage, Outcome, f64)> {
    std::thread::scope(|scope| {
        let (mut ended, mut aside) = (Vec::new(), None);
        for (at, stage) in stages.iter().copied().enumerate() {
            if stage.name == ASIDE {
                aside = Some((at, stage, scope.spawn(move || run_one(root, stage))));
                continue;
            }
            if stage.name == AFTERWARDS {
                join(&mut ended, aside.take());
            }
            ended.push(run_one(root, stage));
        }
        join(&mut ended, aside);
        ended
    })
}

/// Waits for the stage that runs aside, and puts it where it belongs.
fn join<'a>(ended: &mut Vec<Ended<'a>>, aside: Option<(usize, &'a Stage, ScopedJoinHandle<'_, Ended<'a>>)>) {
    if let Some((at, stage, running)) = aside {
        let panicked = |_| (stage, Outcome::failed("the check itself has panicked"), 0.0);
        ended.insert(at, running.join().unwrap_or_else(panicked));
    }
}

/// A stage, how it has ended, and after how many seconds.
type Ended<'a> = (&'a Stage, Outcome, f64);

fn run_one<'a>(root: &Path, stage: &'a Stage) -> (&'a Stage, Outcome, f64) {
    println!("\n── {}: {}", stage.name, stage.what);
    let begin = Instant::now();
    let outcome = (stage.run)(root);
    let seconds = begin.elapsed().as_secs_f64();
    println!("── {} {} after {seconds:.1} s", stage.name, outcome.verdict.word());
    (stage, outcome, seconds)
}

/// A line of the summary. A machine that is busy may take longer than the budget, which fails nothing.
fn line(name: &str, verdict: Verdict, seconds: f64, budget: u32, note: &str) -> String {
    let over = if seconds > f64::from(budget) { "!" } else { " " };
    format!("{name:<12} {:<8} {seconds:>7.1} s of {budget:>3}{over} {note}", verdict.word())
        .trim_end()
        .to_owned()
}

/// Prints the stages.
pub(crate) fn list() -> ExitCode {
    for stage in &STAGES {
        println!("{:<12} {:>3} s  {}", stage.name, stage.budget, stage.what);
    }
    ExitCode::SUCCESS
}

fn format(root: &Path) -> Outcome {
    shell::cargo(root, &["fmt", "--all", "--check"]).into()
}

fn clippy(root: &Path) -> Outcome {
    let arguments =
        ["clippy", "--workspace", "--all-targets", "--locked", "--keep-going", "--", "-D", "warnings"];
    // The client as programs have it, which ask for none of its features: the workspace builds it with all.
    let client = ["clippy", "--package", CLIENT, "--locked", "--", "-D", "warnings"];
    shell::cargo(root, &arguments).and_then(|()| shell::cargo(root, &client)).into()
}

fn rustdoc(root: &Path) -> Outcome {
    let mut command =
        shell::cargo_command(root, &["doc", "--workspace", "--no-deps", "--locked", "--keep-going"]);
    command.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(command).into()
}
