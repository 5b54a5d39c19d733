//! One stage of a check.

use std::path::Path;

/// A stage: what it is called, what it looks at, and how it is run.
pub(crate) struct Stage {
    /// Its name on the command line and in the summary.
    pub(crate) name: &'static str,
    /// The objects of its checks, in a line.
    pub(crate) what: &'static str,
    /// How many seconds it may take on two quiet cores, on a machine that has built nothing yet.
    pub(crate) budget: u32,
    /// Runs it in the repository with this root.
    pub(crate) run: fn(&Path) -> Outcome,
}

/// How a stage ended. Details were printed while it ran.
pub(crate) struct Outcome {
    /// The verdict of the stage.
    pub(crate) verdict: Verdict,
    /// A few words for the summary; may be empty.
    pub(crate) note: String,
    /// Lines to be printed again after the summary.
    pub(crate) last_words: Vec<String>,
}

/// The verdict of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing to complain of.
    Passed,
    /// It could not run here, and says why. This is no failure.
    Skipped,
    /// Something is wrong.
    Failed,
}

impl Verdict {
    /// The word for the summary.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Passed => "passed",
            Verdict::Skipped => "skipped",
            Verdict::Failed => "FAILED",
        }
    }
}

impl Outcome {
    pub(crate) fn passed(note: impl Into<String>) -> Self {
        Outcome { verdict: Verdict::Passed, note: note.into(), last_words: Vec::new() }
    }

    pub(crate) fn skipped(note: impl Into<String>) -> Self {
        Outcome { verdict: Verdict::Skipped, ..Outcome::passed(note) }
    }

    pub(crate) fn failed(note: impl Into<String>) -> Self {
        Outcome { verdict: Verdict::Failed, ..Outcome::passed(note) }
    }
}

impl From<Result<String, String>> for Outcome {
    fn from(result: Result<String, String>) -> Self {
        match result {
            Ok(note) => Outcome::passed(note),
            Err(reason) => Outcome::failed(reason),
        }
    }
}

impl From<Result<(), String>> for Outcome {
    fn from(result: Result<(), String>) -> Self {
        result.map(|()| String::new()).into()
    }
}

/// Prints complaints, one a line, and says how many there are.
pub(crate) fn judge(complaints: &[String], note: impl Into<String>) -> Outcome {
    for complaint in complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => Outcome::passed(note),
        1 => Outcome::failed("1 complaint"),
        count => Outcome::failed(format!("{count} complaints")),
    }
}
