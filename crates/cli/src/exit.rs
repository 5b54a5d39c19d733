//! What a command comes to, and the exit code that says so.

use std::fmt::Display;
use std::process::ExitCode;

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

/// A command that could not do its work, with a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Something went wrong on the way: exit code 1.
    Failed(String),
    /// It was asked for something that cannot be: exit code 2.
    Usage(String),
}

impl Failure {
    /// Something went wrong on the way.
    pub(crate) fn failed(message: impl Display) -> Self {
        Failure::Failed(message.to_string())
    }

    /// It was asked for something that cannot be.
    pub(crate) fn usage(message: impl Display) -> Self {
        Failure::Usage(message.to_string())
    }
}

impl From<quorate::Error> for Failure {
    fn from(error: quorate::Error) -> Self {
        match error {
            quorate::Error::Invalid(invalid) => Failure::usage(invalid),
            error => Failure::failed(error),
        }
    }
}

/// What most commands return.
pub(crate) type Outcome = Result<Verdict, Failure>;

/// Prints what went wrong, if anything did, and gives the exit code.
pub(crate) fn code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(Failure::Failed(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}
