//! Names that deterministic crates must not use, each with what to use instead.
//!
//! The simulator can only repeat an execution from its seed if nothing below it looks at the world by itself. Comments
//! and literals are not looked at; examples and integration tests are not part of a crate's sources and are free.

use std::path::Path;

use crate::crates::CRATES;
use crate::hash_order;
use crate::source::{File, code_only, files, has_word};
use crate::stage::{Outcome, judge};
use crate::streams::Streams;

/// Where each ban does not hold: the one place that defines the replacement.
const EXEMPT: [(&str, &str); 3] = [
    ("HashMap", "crates/foundation/core/src/hash.rs"),
    ("HashSet", "crates/foundation/core/src/hash.rs"),
    ("Mutex", "crates/foundation/core/src/attic.rs"),
];

const TIME: &str = "time is given: take `now` or `clock` from the context";
const THREAD: &str = "a machine is stepped by its driver; state belongs to its machine";
const RANDOM: &str = "draw from the seeded quorate_core::Random of the context";
const HASH: &str = "use quorate_core::hash::FixedMap or FixedSet, or a BTreeMap where order matters";
const WORLD: &str = "emit an effect and let the driver do it";

const STREAM: &str = "give the stream a name: quorate_core::Random::stream(seed, name)";

const BANS: [(&str, &str); 35] = [
    ("Instant::now", TIME),
    ("SystemTime", TIME),
    ("std::thread", THREAD),
    ("thread::spawn", THREAD),
    ("thread::sleep", THREAD),
    ("thread_local!", THREAD),
    ("static mut", THREAD),
    ("Mutex", THREAD),
    ("RwLock", THREAD),
    ("Condvar", THREAD),
    ("OnceLock", THREAD),
    ("LazyLock", THREAD),
    ("mpsc", THREAD),
    ("AtomicBool", THREAD),
    ("AtomicU32", THREAD),
    ("AtomicU64", THREAD),
    ("AtomicUsize", THREAD),
    ("thread_rng", RANDOM),
    ("OsRng", RANDOM),
    ("getrandom", RANDOM),
    ("rand::", RANDOM),
    ("fastrand", RANDOM),
    ("seed ^", STREAM),
    ("Random::new(!", STREAM),
    ("HashMap", HASH),
    ("HashSet", HASH),
    ("RandomState", HASH),
    ("DefaultHasher", HASH),
    ("std::fs", WORLD),
    ("std::net", WORLD),
    ("std::env", WORLD),
    ("std::process", WORLD),
    ("async fn", WORLD),
    (".await", WORLD),
    ("tokio", WORLD),
];

pub(crate) fn run(root: &Path) -> Outcome {
    let mut complaints = Vec::new();
    let mut lines = 0;
    let mut streams = Streams::default();
    for known in CRATES.iter().filter(|known| known.kind.is_deterministic()) {
        let sources = match files(root, &format!("{}/src", known.folder)) {
            Ok(sources) => sources,
            Err(reason) => return Outcome::failed(reason),
        };
        for file in sources.iter().filter(|file| file.is_rust()) {
            lines += file.text.lines().count();
            complaints.extend(banned(file));
            complaints.extend(hash_order::complaints(file));
            complaints.extend(streams.complaints(file));
        }
    }
    judge(&complaints, format!("{lines} lines"))
}

fn banned(file: &File) -> Vec<String> {
    let code = code_only(&file.text);
    let mut complaints = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for (pattern, instead) in BANS {
            let exempt = EXEMPT.iter().any(|(word, path)| *word == pattern && Path::new(path) == file.path);
            if !exempt && has_word(line, pattern) {
                complaints.push(format!("{}: {pattern}: {instead}", file.at(index)));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Vec<String> {
        banned(&File { path: "crates/foundation/store/src/x.rs".into(), text: text.to_owned() })
    }

    #[test]
    fn each_ban_names_its_line_and_its_replacement() {
        let found = complaints("//! Instant::now is banned.\nfn f() {\n    let now = Instant::now();\n}\n");
        assert_eq!(found, [format!("crates/foundation/store/src/x.rs:3: Instant::now: {TIME}")]);
    }

    #[test]
    fn what_deterministic_code_says_is_no_mistake() {
        assert!(complaints("use quorate_core::hash::FixedMap;\nlet at = Instant::START;\n").is_empty());
        assert!(complaints("let operand::x = \"HashMap\";").is_empty());
    }

    #[test]
    fn every_ban_is_found() {
        for (pattern, _) in BANS {
            assert!(!complaints(&format!("{pattern} x")).is_empty(), "{pattern}");
        }
    }
}
