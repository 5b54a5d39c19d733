//! The lines that differ from a commit.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};

/// Of each file, which lines of it are new.
pub(crate) type Lines = BTreeMap<String, Vec<RangeInclusive<usize>>>;

/// Asks git which lines of the working tree differ from where it has left `base`.
///
/// # Errors
/// There is no such commit.
pub(crate) fn lines(root: &Path, base: &str) -> Result<Lines, String> {
    let unknown = |_| format!("--changed {base}: git knows no such commit");
    git(root, &["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")]).map_err(unknown)?;
    // A line that has been added to the base since then is no change of this branch.
    let fork = git(root, &["merge-base", base, "HEAD"]).unwrap_or_else(|_| base.to_owned());
    let diff = git(root, &["diff", "--unified=0", "--no-color", "--no-ext-diff", fork.trim(), "--", "*.rs"])?;
    Ok(parsed(&diff))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(root).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().map_err(|error| format!("git: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("git {}: {}", arguments.join(" "), output.status)),
    }
}

/// Reads a difference without context.
fn parsed(diff: &str) -> Lines {
    let mut lines = Lines::new();
    let mut file = None;
    for line in diff.lines() {
        if let Some(path) = line.strip_prefix("+++ ") {
            file = path.strip_prefix("b/").map(str::to_owned);
        } else if let Some(hunk) = line.strip_prefix("@@ ")
            && let Some(file) = &file
            && let Some(added) = added(hunk)
        {
            lines.entry(file.clone()).or_default().push(added);
        }
    }
    lines
}

/// The new lines of a hunk, such as `-3,2 +4,5 @@`; where lines are only gone, those around the gap.
fn added(hunk: &str) -> Option<RangeInclusive<usize>> {
    let added = hunk.split(' ').find_map(|word| word.strip_prefix('+'))?;
    let (first, count) = added.split_once(',').unwrap_or((added, "1"));
    let (first, count): (usize, usize) = (first.parse().ok()?, count.parse().ok()?);
    Some(if count == 0 { first..=first + 1 } else { first..=first + count - 1 })
}

/// True if one of these lines is new.
pub(crate) fn touches(lines: &Lines, file: &str, first: usize, last: usize) -> bool {
    lines
        .get(file)
        .is_some_and(|changed| changed.iter().any(|range| *range.start() <= last && first <= *range.end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_lines_are_read_from_a_difference() {
        let diff = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -3 +3,2 @@ fn f\n-a\n+b\n+c\n@@ -9,2 +9,0 @@\n-d\n-e\n\
                    --- a/y.rs\n+++ /dev/null\n@@ -1,2 +0,0 @@\n";
        let lines = parsed(diff);
        assert_eq!(lines, Lines::from([("x.rs".to_owned(), vec![3..=4, 9..=10])]));
        let table = [(1, 2, false), (2, 3, true), (4, 4, true), (5, 8, false), (10, 12, true)];
        for (first, last, expected) in table {
            assert_eq!(touches(&lines, "x.rs", first, last), expected, "{first}..{last}");
        }
        assert!(!touches(&lines, "y.rs", 1, 9));
    }

    #[test]
    fn a_base_that_does_not_exist_is_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            lines(root, "no-such-branch").unwrap_err(),
            "--changed no-such-branch: git knows no such commit"
        );
    }
}
