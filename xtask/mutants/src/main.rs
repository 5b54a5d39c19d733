//! `cargo xtask mutants`: how many small changes of protocol crates their tests and the simulator notice.
//!
//! | file | role |
//! |---|---|
//! | [`arguments`] | what was asked for |
//! | [`targets`] | the crates, and the systems that execute them |
//! | [`generator`], [`catalogue`] | the mutants of a file, and of all |
//! | [`changed`] | those on changed lines |
//! | [`workspace`], [`compile`] | a copy of the workspace with all mutants in it, and the build of it |
//! | [`process`] | programs with a bound on their time and memory |
//! | [`tests`], [`seeds`] | which tests, and which seeds, notice a mutant |
//! | [`results`], [`equivalent`] | what is known of each from before |
//! | [`drive`], [`report`] | from the choice of mutants to their score |
//!
//! All mutants are compiled into one copy of the workspace, and one of them is chosen when a program of the copy starts. So
//! there is one build, and not one for each mutant; see ADR 0057.

mod arguments;
mod catalogue;
mod changed;
mod compile;
mod drive;
mod equivalent;
mod generator;
mod process;
mod report;
mod results;
mod seeds;
mod targets;
mod tests;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| matches!(word.as_str(), "help" | "--help" | "-h")) {
        println!("{}", arguments::HELP);
        return ExitCode::SUCCESS;
    }
    let arguments = match arguments::Arguments::parse(&words) {
        Ok(arguments) => arguments,
        Err(reason) => return wrong(&reason),
    };
    match drive::run(&repository(), &arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => wrong(&reason),
    }
}

fn wrong(reason: &str) -> ExitCode {
    eprintln!("cargo xtask mutants: {reason}");
    ExitCode::from(2)
}

/// The root of the repository: cargo tells where this package is, two folders below it.
fn repository() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let root = package.and_then(|package| package.ancestors().nth(2).map(PathBuf::from));
    root.unwrap_or_else(|| PathBuf::from("."))
}
