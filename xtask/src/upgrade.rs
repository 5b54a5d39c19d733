//! `cargo xtask upgrade`: builds an earlier commit beside this one, and has clusters upgraded from it under load, back, and upgraded again.
//!
//! The earlier commit has a work tree and a target directory of its own, in the target directory of this one, so that its next build is quick and nothing of
//! this one is built again.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::build::{self, Quorate};
use crate::shell;

/// The commit before this one.
const COMMIT: &str = "HEAD~1";

/// The isolations whose clusters are upgraded.
const ISOLATIONS: [&str; 4] = ["strict", "serializable", "snapshot", "parallel-snapshot"];

/// Upgrades clusters from this commit, or from the one before.
pub(crate) fn run(root: &Path, commit: Option<&str>) -> ExitCode {
    match upgrade(root, commit.unwrap_or(COMMIT)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn upgrade(root: &Path, commit: &str) -> Result<(), String> {
    let later = Quorate::built(root)?;
    let earlier = earlier(root, commit, &later.folder().join("upgrade"))?;
    let earlier = earlier.to_string_lossy();
    let mut failed = Vec::new();
    for isolation in ISOLATIONS {
        println!("\n── from {commit}: {isolation}");
        let arguments = ["torture", "--upgrade-from", &earlier, "--isolation", isolation];
        let (text, success) = later.output(&arguments)?;
        println!("{text}");
        failed.extend((!success).then_some(isolation));
    }
    match failed.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("clients noticed the upgrade from {commit}, or data is wrong: {}", failed.join(", ")))
        }
    }
}

/// Builds a commit; gives where its binary is.
fn earlier(root: &Path, commit: &str, folder: &Path) -> Result<PathBuf, String> {
    let source = folder.join("source");
    let git = |place: &Path, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(place).args(arguments).stdin(Stdio::null());
        shell::run(command)
    };
    let mut resolve = Command::new("git");
    resolve.arg("-C").arg(root).args(["rev-parse", "--verify", &format!("{commit}^{{commit}}")]);
    let (resolved, success) = shell::output(resolve)?;
    let resolved = resolved.trim();
    if !success {
        return Err(format!("there is no commit {commit}"));
    }
    if source.join(".git").exists() {
        git(&source, &["checkout", "--quiet", "--detach", resolved])?;
    } else {
        // The folder may have been removed since.
        git(root, &["worktree", "prune"])?;
        git(root, &["worktree", "add", "--quiet", "--detach", &source.to_string_lossy(), resolved])?;
    }
    build::binary_of(&source, &folder.join("target"))
}
