//! Dependency arrows: compares what cargo resolves with the table of [`crate::crates`].

use std::path::Path;

use crate::crates::{CLIENT, CRATES, Crate};
use crate::stage::{Outcome, judge};
use crate::{picture, shell};

/// Packages on which nothing below the runtime may depend, however far down, and what to use instead.
const BANNED_BELOW_RUNTIME: [(&str, &str); 15] = [
    ("tokio", ASYNC),
    ("async-std", ASYNC),
    ("smol", ASYNC),
    ("async-io", ASYNC),
    ("async-executor", ASYNC),
    ("monoio", ASYNC),
    ("glommio", ASYNC),
    ("futures", ASYNC),
    ("futures-util", ASYNC),
    ("mio", ASYNC),
    ("axum", ASYNC),
    ("hyper", ASYNC),
    ("socket2", "sockets belong to quorate-runtime"),
    ("rand", RANDOM),
    ("getrandom", RANDOM),
];
const ASYNC: &str = "async runtimes belong to quorate-runtime and above; machines are stepped by a driver";
const RANDOM: &str = "draw from the seeded quorate_core::Random of the context";

pub(crate) fn run(root: &Path) -> Outcome {
    match complaints(root) {
        Ok(complaints) => judge(&complaints, format!("{} crates", CRATES.len())),
        Err(reason) => Outcome::failed(reason),
    }
}

fn complaints(root: &Path) -> Result<Vec<String>, String> {
    let mut complaints = unlisted(&direct_tree(root)?);
    // Each asks cargo, which takes one core for a moment.
    let (former, latter) = CRATES.split_at(CRATES.len() / 2);
    let (former, latter) = std::thread::scope(|scope| {
        let former = scope.spawn(|| complaints_of(root, former));
        let latter = complaints_of(root, latter);
        (former.join(), latter)
    });
    complaints.extend(former.map_err(|_| "the check of arrows has panicked".to_owned())??);
    complaints.extend(latter?);
    complaints.extend(uninvited(&cargo_tree(root, &["--package", CLIENT])?));
    complaints.extend(picture::complaints(root)?);
    Ok(complaints)
}

fn complaints_of(root: &Path, crates: &[Crate]) -> Result<Vec<String>, String> {
    let mut complaints = Vec::new();
    for known in crates {
        let direct = tree(root, known.package, &["--depth", "1"])?;
        complaints.extend(arrows_of(known, &direct));
        if known.kind.is_below_runtime() {
            complaints.extend(banned(known, &tree(root, known.package, &[])?));
        }
    }
    Ok(complaints)
}

/// The members of the workspace, one a line.
fn direct_tree(root: &Path) -> Result<String, String> {
    cargo_tree(root, &["--workspace", "--depth", "0"])
}

/// The packages that a package depends on, itself included, tests left out, one a line.
fn tree(root: &Path, package: &str, more: &[&str]) -> Result<String, String> {
    cargo_tree(root, &[&["--all-features", "--package", package], more].concat())
}

fn cargo_tree(root: &Path, more: &[&str]) -> Result<String, String> {
    let common = ["tree", "--locked", "--edges", "normal,build", "--prefix", "none"];
    let command = shell::cargo_command(root, &[&common[..], more].concat());
    let name = shell::name(&command);
    match shell::output(command)? {
        (text, true) => Ok(text),
        _ => Err(format!("{name} failed")),
    }
}

/// The names in the output of `cargo tree`.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.is_empty())
}

fn unlisted(members: &str) -> Vec<String> {
    names(members)
        .filter(|name| CRATES.iter().all(|known| known.package != *name))
        .map(|name| format!("{name}: not in the table of xtask/src/crates.rs; say there what it may import"))
        .collect()
}

fn arrows_of(known: &Crate, direct: &str) -> Vec<String> {
    names(direct)
        .filter(|name| *name != known.package && CRATES.iter().any(|other| other.package == *name))
        .filter(|name| !known.may_import.contains(name))
        .map(|name| format!("{}: imports {name}; it may import only {:?}", known.package, known.may_import))
        .collect()
}

/// The systems of comparison among the packages that a program pulls in with the client when it asks for no feature.
fn uninvited(whole: &str) -> Vec<String> {
    let is_rival = |name: &&str| {
        CRATES.iter().any(|known| known.package == *name && known.folder.starts_with("crates/rivals/"))
    };
    let complaint = |name| format!("{CLIENT}: pulls in {name} without the feature `rivals`");
    names(whole).filter(is_rival).map(complaint).collect()
}

fn banned(known: &Crate, whole: &str) -> Vec<String> {
    BANNED_BELOW_RUNTIME
        .iter()
        .filter(|(ban, _)| names(whole).any(|name| name == *ban))
        .map(|(ban, instead)| format!("{}: depends on {ban}: {instead}", known.package))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(package: &str) -> &'static Crate {
        CRATES.iter().find(|known| known.package == package).unwrap()
    }

    #[test]
    fn arrows_of_the_table_point_down() {
        for (at, known) in CRATES.iter().enumerate() {
            for import in known.may_import {
                assert!(
                    CRATES[..at].iter().any(|lower| lower.package == *import),
                    "{} {import}",
                    known.package
                );
                let lower = self::known(import).layer();
                assert!(lower <= known.layer(), "{} lies below {import}", known.folder);
            }
        }
    }

    #[test]
    fn an_arrow_that_points_up_is_found() {
        let direct =
            "quorate-store v0.1.0 (/x)\nbytes v1.12.1\nquorate-core v0.1.0 (/x)\nquorate-wire v0.1.0 (/x)\n";
        let complaints = arrows_of(known("quorate-store"), direct);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].contains("imports quorate-wire"), "{complaints:?}");
    }

    #[test]
    fn a_runtime_below_the_runtime_is_found() {
        let whole = "quorate-wire v0.1.0 (/x)\nbytes v1.12.1\ntokio v1.54.0\nmio v1.2.3 (*)\n";
        assert_eq!(banned(known("quorate-wire"), whole).len(), 2);
        assert!(banned(known("quorate-wire"), "tokio-free v1.0.0\n").is_empty());
    }

    #[test]
    fn a_rival_that_nobody_asked_for_is_found() {
        let whole = "quorate v0.1.0 (/x)\nquorate-qwstore v0.1.0 (/x)\nquorate-str v0.1.0 (/x)\n";
        assert_eq!(uninvited(whole), ["quorate: pulls in quorate-qwstore without the feature `rivals`"]);
    }

    #[test]
    fn a_new_crate_must_be_listed() {
        assert_eq!(unlisted("quorate-core v0.1.0 (/x)\nquorate-new v0.1.0 (/x)\n").len(), 1);
    }
}
