//! `quorate`: the one binary. Servers, demo, shell, benchmarks, simulator and checker.
//!
//! | module | what it is about |
//! |---|---|
//! | [`command`] | one file per command |
//! | [`parse`] | values of options that need more than the standard parsers |
//! | [`runtime`] | the world that commands need: an async runtime, signals, logs |
//! | [`exit`] | what commands come to: 0 good, 1 bad, 2 wrongly used |
//! | [`shell`] | the statements of `quorate shell` |
//! | [`output`] | tables, progress |
//!
//! Commands choose and print. Clusters, loads, torture and calibration are crates below this one.

#![warn(clippy::print_stdout, clippy::print_stderr)]

// First, for its macros.
#[macro_use]
mod output;

mod command;
mod exit;
mod parse;
mod runtime;
mod shell;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

/// Small allocations on every path of a transaction: the system allocator costs a tenth of the throughput.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Quorate: a geo-distributed, transactional key-value database in which every keyspace chooses how much agreement its
/// transactions wait for.
#[derive(Debug, Parser)]
#[command(
    name = "quorate",
    version,
    arg_required_else_help = true,
    after_help = "\
Examples:
  quorate demo                     three sites in one process, transactions, and a verdict on them
  quorate dev --dir ./data         a development cluster that stays up
  quorate shell                    talk to it
  quorate COMMAND --help           what a command does, with examples

Exit codes: 0 success, 1 what the command judges is bad or failed, 2 wrong use."
)]
struct Arguments {
    #[command(subcommand)]
    command: command::Command,
}

fn main() -> ExitCode {
    match Arguments::try_parse() {
        Ok(arguments) => exit::code(arguments.command.run()),
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            out!("{}", output::help::rendered(&error.render()));
            exit::code(Ok(exit::Verdict::Good))
        }
        Err(error) => output::harmless(error).exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples() {
        for command in Arguments::command().get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:"), "{} has no examples", command.get_name());
        }
    }
}
