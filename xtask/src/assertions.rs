//! Machines assert what they rely on, in release too: at least so often for so many lines of code.
//!
//! Only code that runs outside of tests counts: no blank lines, no comments, no test modules. The modules named `invariants` neither count as
//! lines nor for what they assert, since servers do not run all of them after every step.

use std::path::Path;

use crate::source::{File, code_only, files, has_word};

/// The machines, by the folder of their crate.
const MACHINES: [&str; 8] = [
    "crates/replication/log",
    "crates/replication/ir",
    "crates/protocols/tapir",
    "crates/protocols/granola",
    "crates/protocols/walter",
    "crates/protocols/str",
    "crates/rivals/qwstore",
    "crates/services/configuration",
];

/// So many assertions a machine has for every 1,000 lines of code, or more.
const PER_THOUSAND_MIN: usize = 10;

/// The macros that assert.
const ASSERTIONS: [&str; 3] = ["assert!", "assert_eq!", "assert_ne!"];

/// How tests begin that stand in the file of what they test. They stand at its end.
const TESTS: &str = "\n#[cfg(test)]\nmod tests {";

/// The counts of a machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    lines: usize,
    assertions: usize,
}

impl Count {
    fn add(&mut self, other: Count) {
        self.lines += other.lines;
        self.assertions += other.assertions;
    }

    fn is_enough(self) -> bool {
        self.assertions * 1_000 >= self.lines * PER_THOUSAND_MIN
    }
}

/// The machines that assert too little.
///
/// # Errors
/// Something cannot be read.
pub(crate) fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for folder in MACHINES {
        let mut count = Count::default();
        for file in files(root, &format!("{folder}/src"))? {
            count.add(count_in(&file));
        }
        if !count.is_enough() {
            let Count { lines, assertions } = count;
            complaints.push(format!(
                "{folder}: {assertions} assertions in {lines} lines of code, and {PER_THOUSAND_MIN} in 1,000 \
                 are the least: assert what its handlers rely on"
            ));
        }
    }
    Ok(complaints)
}

fn count_in(file: &File) -> Count {
    let is_left_out =
        |part: &std::ffi::OsStr| ["tests", "tests.rs", "invariants.rs"].iter().any(|name| part == *name);
    if !file.is_rust() || file.path.iter().any(is_left_out) {
        return Count::default();
    }
    let (text, _) = file.text.split_once(TESTS).unwrap_or((&file.text, ""));
    let code = code_only(text);
    let lines = code.lines().filter(|line| !line.trim().is_empty());
    let asserts = |line: &&str| ASSERTIONS.iter().any(|assertion| has_word(line, assertion));
    Count { lines: lines.clone().count(), assertions: lines.filter(asserts).count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(path: &str, text: &str) -> (usize, usize) {
        let count = count_in(&File { path: path.into(), text: text.to_owned() });
        (count.lines, count.assertions)
    }

    #[test]
    fn code_outside_of_tests_is_counted() {
        let text =
            "//! x\n\nfn f() {\n    // assert!(a)\n    assert!(a, \"assert!\");\n    assert_eq!(a, b);\n}\n";
        assert_eq!(counted("crates/x/src/lib.rs", text), (4, 2));
        let tests = "\n#[cfg(test)]\nmod tests {\n    fn g() { assert!(b) }\n}\n";
        assert_eq!(counted("crates/x/src/lib.rs", &format!("{text}{tests}")), (4, 2));
    }

    #[test]
    fn debug_assertions_do_not_count() {
        assert_eq!(counted("crates/x/src/lib.rs", "fn f() { debug_assert!(a) }\n"), (1, 0));
    }

    #[test]
    fn what_only_proofs_run_does_not_count() {
        for path in ["src/replica/invariants.rs", "src/tests.rs", "src/tests/one.rs", "src/x.toml"] {
            assert_eq!(counted(path, "fn f() { assert!(a) }\n"), (0, 0), "{path}");
        }
    }

    #[test]
    fn ten_in_a_thousand_are_enough() {
        for (lines, assertions, is_enough) in
            [(1_000, 10, true), (1_001, 10, false), (99, 0, false), (0, 0, true)]
        {
            assert_eq!(Count { lines, assertions }.is_enough(), is_enough, "{assertions} in {lines}");
        }
    }
}
