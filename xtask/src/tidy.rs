//! Style that neither rustfmt nor clippy knows: the size of files, leftovers, paths of somebody's machine, the index of decisions,
//! the code that pages show, and how much machines assert.

use std::path::Path;

use crate::assertions;
use crate::crates::CRATES;
use crate::decisions;
use crate::examples;
use crate::source::{File, code_only, files, has_word};
use crate::stage::{Outcome, judge};

/// A file above this many lines is a question: is it one thing?
const LINES_QUESTIONED: usize = 600;

/// A file above this many lines fails unless its documentation says why, in a line that begins with [`REASON`].
const LINES_MAX: usize = 1_000;

const REASON: &str = "//! Long because ";

/// The files and folders that are looked at, from the root of the repository.
const LOOKED_AT: [&str; 11] = [
    "crates",
    "xtask",
    "docs",
    ".ci",
    ".cargo",
    "Cargo.toml",
    "rustfmt.toml",
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    ".gitignore",
];

/// Words that no text may contain, in pieces so that this file does not, and what to do instead.
const LEFTOVERS: [(&str, &str); 4] = [
    (concat!("TO", "DO"), "do it, or open an issue and say what the code does today"),
    (concat!("FIX", "ME"), "fix it, or open an issue and say what the code does today"),
    (concat!("XX", "X"), "say what is meant"),
    (concat!("HA", "CK"), "say what is meant"),
];

/// Words that no Rust code may contain, and what to write instead.
const CODE: [(&str, &str); 6] = [
    ("todo!", "a function that exists works"),
    ("unimplemented!", "a function that exists works"),
    ("dbg!", "use tracing, or a test"),
    ("debug_assert!", "a safety property is an assert!, in release too"),
    ("debug_assert_eq!", "a safety property is an assert_eq!, in release too"),
    ("#[allow(", "write #[expect(…, reason = \"…\")], which says why and ends when it is not needed"),
];

/// Paths that exist on one machine only.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/mn", "t/"),
];

/// How a line begins that a merge has left behind.
const CONFLICTS: [&str; 2] = [concat!("<<<<", "<<< "), concat!(">>>>", ">>> ")];

pub(crate) fn run(root: &Path) -> Outcome {
    let mut complaints = Vec::new();
    let mut questions = 0;
    for place in LOOKED_AT {
        let found = match files(root, place) {
            Ok(found) => found,
            Err(reason) => return Outcome::failed(reason),
        };
        for file in &found {
            complaints.extend(text_complaints(file));
            if file.is_rust() {
                complaints.extend(code_complaints(file));
                let lines = file.text.lines().count();
                if lines > LINES_QUESTIONED {
                    questions += 1;
                    println!("{}: {lines} lines: is it one thing?", file.path.display());
                }
            }
        }
    }
    complaints.extend(manifest_complaints(root));
    for found in [decisions::complaints(root), examples::complaints(root), assertions::complaints(root)] {
        match found {
            Ok(found) => complaints.extend(found),
            Err(reason) => return Outcome::failed(reason),
        }
    }
    let note = match questions {
        0 => String::new(),
        1 => "1 question of size".to_owned(),
        _ => format!("{questions} questions of size"),
    };
    judge(&complaints, note)
}

fn text_complaints(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (word, instead) in LEFTOVERS.iter().filter(|(word, _)| has_word(line, word)) {
            complaints.push(format!("{}: {word}: {instead}", file.at(index)));
        }
        if CONFLICTS.iter().any(|conflict| line.starts_with(conflict)) {
            complaints.push(format!("{}: two versions side by side: choose one", file.at(index)));
        }
        for path in MACHINE_PATHS.iter().filter(|path| line.contains(**path)) {
            complaints.push(format!("{}: {path}: a path of one machine; make it relative", file.at(index)));
        }
    }
    complaints
}

fn code_complaints(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in code_only(&file.text).lines().enumerate() {
        for (pattern, instead) in CODE.iter().filter(|(pattern, _)| has_word(line, pattern)) {
            complaints.push(format!("{}: {pattern}: {instead}", file.at(index)));
        }
    }
    let lines = file.text.lines().count();
    let has_reason = file.text.lines().any(|line| line.starts_with(REASON));
    if lines > LINES_MAX && !has_reason {
        complaints.push(format!(
            "{}: {lines} lines, the limit is {LINES_MAX}: split it along the state it owns, or say `{REASON}…`",
            file.path.display()
        ));
    }
    let is_source = file.path.iter().any(|part| part == "src");
    if is_source && !file.text.starts_with("//!") {
        complaints.push(format!("{}: begins without saying what it is (`//! …`)", file.path.display()));
    }
    complaints
}

/// Every crate takes its lints from the workspace.
fn manifest_complaints(root: &Path) -> Vec<String> {
    let manifests = CRATES.iter().map(|known| format!("{}/Cargo.toml", known.folder));
    manifests
        .filter(|path| {
            let text = std::fs::read_to_string(root.join(path)).unwrap_or_default();
            !text.contains("[lints]\nworkspace = true")
        })
        .map(|path| format!("{path}: does not take its lints from the workspace"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> File {
        File { path: "crates/foundation/core/src/x.rs".into(), text: text.to_owned() }
    }

    #[test]
    fn leftovers_are_found_in_comments_too() {
        let word = LEFTOVERS[0].0;
        assert_eq!(text_complaints(&file(&format!("//! x\n// {word}: later\n"))).len(), 1);
        assert!(text_complaints(&file(&format!("{word}S and MASTO{word}N"))).is_empty());
        assert_eq!(text_complaints(&file(&format!("see {}me/notes", MACHINE_PATHS[0]))).len(), 1);
    }

    #[test]
    fn what_a_merge_leaves_behind_is_found() {
        let text = format!("{}HEAD\none\n====\nother\n{}branch\n", CONFLICTS[0], CONFLICTS[1]);
        assert_eq!(text_complaints(&file(&text)).len(), 2);
    }

    #[test]
    fn code_is_told_from_talk() {
        assert_eq!(code_complaints(&file("//! x\nfn f() { todo!() }\n")).len(), 1);
        assert!(code_complaints(&file("//! x\n// never todo!()\nlet s = \"dbg!\";\n")).is_empty());
        assert_eq!(code_complaints(&file("//! x\n#[allow(dead_code)]\n")).len(), 1);
    }

    #[test]
    fn long_files_say_why() {
        let body = "fn f() {}\n".repeat(LINES_MAX);
        assert_eq!(code_complaints(&file(&format!("//! x\n{body}"))).len(), 1);
        assert!(code_complaints(&file(&format!("//! x\n{REASON}it is one table.\n{body}"))).is_empty());
    }

    #[test]
    fn sources_say_what_they_are() {
        assert_eq!(code_complaints(&file("fn f() {}\n")).len(), 1);
    }
}
