//! `cargo xtask`: every check of the project behind one command, and one command that repairs what can be repaired.
//!
//! | file | what it is about |
//! |---|---|
//! | [`check`] | the stages, in their order, and the summary |
//! | [`stage`] | one stage: its name, what it does, how it ends |
//! | [`shell`] | running cargo and other programs |
//! | [`crates`] | the crates, what each may import, which of them are deterministic |
//! | [`arrows`] | compares that table with what the manifests say and cargo resolves |
//! | [`picture`] | draws the table of crates into `docs/architecture.md` |
//! | [`source`] | Rust files, with and without comments and string literals |
//! | [`determinism`], [`hash_order`] | what deterministic crates must not use |
//! | [`licences`] | what dependencies ask for |
//! | [`tidy`] | size of files, leftovers, machine paths |
//! | [`assertions`] | counts what machines assert |
//! | [`decisions`] | compares the index of decisions with their pages |
//! | [`examples`] | compares code that pages show with the tests that run it |
//! | [`build`] | what the stages run that run something |
//! | [`package`] | packs a release |
//! | [`reproduce`] | measures everything again |
//! | [`upgrade`] | upgrades clusters from an earlier commit |
//! | [`wasm`], [`simulation`], [`torture`], [`testing`] | the stages that need more than one command |
//!
//! The standard library is its only dependency, so that a cold check does not begin by building the checker.

mod arrows;
mod assertions;
mod build;
mod check;
mod crates;
mod decisions;
mod determinism;
mod examples;
mod hash_order;
mod licences;
mod package;
mod picture;
mod reproduce;
mod shell;
mod simulation;
mod source;
mod stage;
mod streams;
mod testing;
mod tidy;
mod torture;
mod upgrade;
mod wasm;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
Usage: cargo xtask check [STAGE…]    run all stages, or those that are named; changes no file of the repository
       cargo xtask fix               format, draw the picture of the crates, copy examples into pages, and apply what clippy can repair
       cargo xtask pin               hunt every planted bug anew, and write the seeds that catch them
       cargo xtask soak              all seeds, all crash points, all hunts, and an upgrade: hours
       cargo xtask upgrade [COMMIT]  build an earlier commit, and upgrade clusters from it under load, and back; the commit before this one if none is named
       cargo xtask stages            list the stages
       cargo xtask package           build the release, and pack it: an archive and a package of Debian
       cargo xtask reproduce [--quick] [--out DIR]     measure every figure, bench and simulation again; --quick: smaller runs
       cargo xtask mutants --help    changes lines of protocol crates, and counts which changes are noticed

Examples:
  cargo xtask check                 what CI runs
  cargo xtask check format tidy determinism arrows licences     the stages that compile nothing

Exit codes: 0 all passed or were skipped with a reason, 1 a stage failed, 2 wrong use.";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check", names @ ..] => check::run(&repository(), names),
        ["fix"] => fix(&repository()),
        ["pin"] => simulation::pin(&repository()),
        ["soak"] => soak(&repository()),
        ["upgrade"] => upgrade::run(&repository(), None),
        ["upgrade", commit] => upgrade::run(&repository(), Some(commit)),
        ["stages"] => check::list(),
        ["package"] => package::run(&repository()),
        ["reproduce", options @ ..] => reproduce::run(&repository(), options),
        ["mutants", options @ ..] => mutants(&repository(), options),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Everything that takes hours.
fn soak(root: &std::path::Path) -> ExitCode {
    let ends = [simulation::soak(root), upgrade::run(root, None)];
    if ends.iter().all(|end| *end == ExitCode::SUCCESS) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The root of the repository: cargo tells where this package is, one folder below it.
fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    package.and_then(|package| package.parent().map(PathBuf::from)).unwrap_or_else(|| PathBuf::from("."))
}

/// Runs the program that has dependencies, so that this one has none.
fn mutants(root: &std::path::Path, options: &[&str]) -> ExitCode {
    let run = ["run", "--quiet", "--locked", "--package", "quorate-mutants", "--"];
    match shell::cargo_command(root, &[&run[..], options].concat()).status() {
        Ok(status) => {
            status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
        Err(error) => {
            eprintln!("cargo run: {error}");
            ExitCode::from(2)
        }
    }
}

fn fix(root: &std::path::Path) -> ExitCode {
    let clippy = ["clippy", "--fix", "--allow-dirty", "--allow-staged", "--workspace", "--all-targets"];
    if let Err(reason) = picture::write(root) {
        eprintln!("{reason}");
        return ExitCode::FAILURE;
    }
    for arguments in [&clippy[..], &["fmt", "--all"]] {
        if let Err(reason) = shell::cargo(root, arguments) {
            eprintln!("{reason}");
            return ExitCode::FAILURE;
        }
    }
    // The examples are copied from the formatted code.
    if let Err(reason) = examples::write(root) {
        eprintln!("{reason}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
