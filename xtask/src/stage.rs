//! One stage of a check.

use std::path::Path;

/// A stage: what it is called, what it looks at, and how it is run.
pub(crate) struct Stage {
    /// What it is called on the command line and in the summary.
    pub(crate) name: &'static str,
    /// What it looks at, in a line.
    pub(crate) what: &'static str,
    /// Runs it in the repository with this root.
    pub(crate) run: fn(&Path) -> Outcome,
}

/// How a stage ended. Details were printed while it ran.
pub(crate) enum Outcome {
    /// Nothing to complain of; the note, which may be empty, goes into the summary.
    Passed(String),
    /// It could not run here, and says why. This is no failure.
    Skipped(String),
    /// Something is wrong.
    Failed(String),
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        match result {
            Ok(()) => Outcome::Passed(String::new()),
            Err(reason) => Outcome::Failed(reason),
        }
    }
}

/// Prints complaints, one a line, and says how many there are.
pub(crate) fn judge(complaints: &[String], note: impl Into<String>) -> Outcome {
    for complaint in complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Outcome::Passed(note.into()),
        1 => Outcome::Failed("1 complaint".to_owned()),
        count => Outcome::Failed(format!("{count} complaints")),
    }
}
