//! The result of a command, and its exit code.

use std::process::ExitCode;

use crate::output;

/// A command that could not do its work, with a message for people: exit code 1, or 2 if it was asked for something that cannot be.
pub(crate) use quorate_cluster::Failure;

/// A command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// And what it judges, if it judges anything, is good: exit code 0.
    Good,
    /// But what it judges is bad: exit code 1.
    Bad,
}

impl Verdict {
    /// Good if this holds.
    pub(crate) fn good_if(holds: bool) -> Self {
        if holds { Verdict::Good } else { Verdict::Bad }
    }
}

/// The result of most commands.
pub(crate) type Outcome = Result<Verdict, Failure>;

/// Prints what went wrong, if anything did, and gives the exit code.
pub(crate) fn code(outcome: Outcome) -> ExitCode {
    let printed = |verdict| match output::failure() {
        Some(error) => Err(Failure::failed(format!("cannot write to standard output: {error}"))),
        None => Ok(verdict),
    };
    match outcome.and_then(printed) {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(Failure::Failed(message)) => {
            errln!("error: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            errln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
