//! Licences: everything that is linked or run for a build must be usable in a project under Apache-2.0.

use std::path::Path;

use crate::shell;
use crate::stage::{Outcome, judge};

/// Licences that ask for no more than their notice.
const ALLOWED: [&str; 8] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
];

pub(crate) fn run(root: &Path) -> Outcome {
    let arguments =
        ["tree", "--workspace", "--locked", "--all-features", "--prefix", "none", "--format", "{p}|{l}"];
    match shell::output(shell::cargo_command(root, &arguments)) {
        Ok((tree, true)) => {
            let packages = packages(&tree);
            let complaints: Vec<String> = packages
                .iter()
                .filter(|(_, licence)| !is_allowed(licence))
                .map(|(package, licence)| {
                    format!("{package}: licence {licence:?} is not among {ALLOWED:?}: use something else")
                })
                .collect();
            judge(&complaints, format!("{} packages", packages.len()))
        }
        Ok(_) => Outcome::failed("cargo tree failed"),
        Err(reason) => Outcome::failed(reason),
    }
}

/// Each package once, with its licence.
fn packages(tree: &str) -> Vec<(&str, &str)> {
    let mut packages: Vec<(&str, &str)> = tree
        .lines()
        .filter_map(|line| line.trim_end().trim_end_matches(" (*)").split_once('|'))
        .map(|(package, licence)| (package.trim(), licence.trim()))
        .collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

/// Judges an SPDX expression, and the older form with a slash for "or".
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let parts = |separator| split(expression, separator);
    let either = parts(" OR ").or_else(|| parts("/"));
    if let Some(either) = either {
        return either.into_iter().any(is_allowed);
    }
    if let Some(both) = parts(" AND ") {
        return both.into_iter().all(is_allowed);
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => ALLOWED.contains(&expression),
    }
}

/// Splits where no parenthesis is open; none if there is nothing to split.
fn split<'a>(expression: &'a str, separator: &str) -> Option<Vec<&'a str>> {
    let mut parts = Vec::new();
    let mut begin = 0;
    for (at, _) in expression.match_indices(separator) {
        let before = &expression[..at];
        if before.matches('(').count() == before.matches(')').count() {
            parts.push(&expression[begin..at]);
            begin = at + separator.len();
        }
    }
    parts.push(&expression[begin..]);
    (parts.len() > 1).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_as_a_table() {
        let table = [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("Unlicense OR MIT", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR Apache-2.0 OR MIT", true),
            ("GPL-3.0", false),
            ("MIT AND GPL-3.0", false),
            ("(MIT OR GPL-3.0) AND (GPL-2.0 OR Zlib)", true),
            ("", false),
        ];
        for (expression, allowed) in table {
            assert_eq!(is_allowed(expression), allowed, "{expression}");
        }
    }

    #[test]
    fn packages_are_listed_once() {
        let tree = "a v1.0.0|MIT\nb v1.0.0|Zlib\na v1.0.0|MIT (*)\n\n";
        assert_eq!(packages(tree), [("a v1.0.0", "MIT"), ("b v1.0.0", "Zlib")]);
    }
}
