//! The verdicts on each mutant from before, in a file to which results are appended as they come.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::workspace::{Workspace, known};

const RESULTS: &str = "results.jsonl";

/// The result of running a mutant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Verdict {
    /// This test or seed notices it.
    Caught(String),
    /// None that reaches it notices it.
    Survived,
    /// None reaches it.
    Unreached,
}

impl Verdict {
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self, Verdict::Caught(_))
    }
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    id: String,
    /// `tests`, or the name of a system.
    by: String,
    verdict: Verdict,
    /// Names what has judged: a mutant that was not noticed is judged again by other tests or seeds. A mutant that was
    /// noticed stays so.
    stamp: String,
}

/// The results of this run and earlier ones.
#[derive(Debug)]
pub(crate) struct Results {
    found: Mutex<Found>,
}

/// The known results, and the file to which further ones are appended.
#[derive(Debug)]
struct Found {
    /// By the mutant and its judge: the verdict, and the stamp.
    known: BTreeMap<(String, String), (Verdict, String)>,
    file: File,
}

impl Results {
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(workspace: &Workspace, fresh: bool) -> Result<Self, String> {
        let path = workspace.known.join(RESULTS);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        fs::create_dir_all(&workspace.known).map_err(failed)?;
        if fresh && path.exists() {
            fs::remove_file(&path).map_err(failed)?;
        }
        let mut verdicts = BTreeMap::new();
        for line in known(workspace, RESULTS).lines() {
            // The last line may have been cut off.
            if let Ok(line) = serde_json::from_str::<Line>(line) {
                verdicts.insert((line.id, line.by), (line.verdict, line.stamp));
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
        Ok(Results { found: Mutex::new(Found { known: verdicts, file }) })
    }

    /// The known verdict, if it still holds for the present judges.
    pub(crate) fn known(&self, id: &str, by: &str, stamp: &str) -> Option<Verdict> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (verdict, before) = found.known.get(&(id.to_owned(), by.to_owned()))?;
        (verdict.is_caught() || before == stamp).then(|| verdict.clone())
    }

    /// # Errors
    /// It cannot be written.
    pub(crate) fn add(&self, id: &str, by: &str, stamp: &str, verdict: Verdict) -> Result<(), String> {
        let line = Line { id: id.to_owned(), by: by.to_owned(), verdict, stamp: stamp.to_owned() };
        let text = serde_json::to_string(&line).map_err(|error| error.to_string())?;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(found.file, "{text}").map_err(|error| format!("{RESULTS}: {error}"))?;
        found.known.insert((line.id, line.by), (line.verdict, line.stamp));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_where_another_stopped() {
        let known = std::env::temp_dir().join(format!("quorate-mutants-{}", std::process::id()));
        let workspace =
            Workspace { copy: known.join("copy"), build: known.join("build"), known: known.clone() };
        let results = Results::open(&workspace, true).unwrap();
        results.add("a", "tests", "1", Verdict::Survived).unwrap();
        results.add("b", "tests", "1", Verdict::Caught("a_test".to_owned())).unwrap();
        let again = Results::open(&workspace, false).unwrap();
        assert_eq!(again.known("a", "tests", "1"), Some(Verdict::Survived));
        assert_eq!(again.known("a", "tests", "2"), None, "other tests may notice it");
        assert_eq!(again.known("b", "tests", "2"), Some(Verdict::Caught("a_test".to_owned())));
        assert_eq!(again.known("a", "strict", "1"), None);
        assert_eq!(Results::open(&workspace, true).unwrap().known("b", "tests", "1"), None);
        fs::remove_dir_all(known).unwrap();
    }
}
