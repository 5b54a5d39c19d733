//! A copy of the workspace with all mutants in it.
//!
//! It lies in the target directory. A file is written only if it differs, so that cargo builds again what has changed and nothing
//! else. The copy has two things more than the repository: a module of `quorate-core`, which knows which mutant is chosen, and a
//! program that runs seeds.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::catalogue::{Catalogue, read};
use crate::generator::{Rendered, render};

const MUTANT: &str = include_str!("runtime/mutant.rs");
const SEEDS: &str = include_str!("runtime/seeds.rs");

/// The folder of the program that runs seeds, and the name of its package.
pub(crate) const SEEDS_PACKAGE: &str = "quorate-mutant-seeds";
const SEEDS_FOLDER: &str = "crates/mutant-seeds";
const CORE: &str = "crates/foundation/core/src";

/// Where everything about mutants is kept.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// The copy.
    pub(crate) copy: PathBuf,
    /// The folder of its builds.
    pub(crate) build: PathBuf,
    /// The folder of the results on mutants.
    pub(crate) known: PathBuf,
}

impl Workspace {
    /// In the target directory of the repository.
    pub(crate) fn of(root: &Path) -> Self {
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |set| root.join(set));
        let below = target.join("mutants");
        Workspace { copy: below.join("copy"), build: below.join("build"), known: below }
    }

    /// Brings the copy up to date, apart from the files with mutants.
    ///
    /// # Errors
    /// Something cannot be read or written.
    pub(crate) fn copy(&self, root: &Path, catalogue: &Catalogue) -> Result<(), String> {
        let mut kept = BTreeSet::new();
        let with_mutants: BTreeSet<&str> =
            catalogue.sources.iter().map(|source| source.path.as_str()).collect();
        for path in listed(root)? {
            kept.insert(self.copy.join(&path));
            if with_mutants.contains(path.as_str()) {
                continue;
            }
            let from = root.join(&path);
            // A file that is deleted and not committed is listed all the same.
            let Ok(bytes) = fs::read(&from) else { continue };
            let bytes = match path.as_str() {
                "Cargo.toml" => manifest(&text(bytes)).into_bytes(),
                // Cargo adds the program that runs seeds to it.
                "Cargo.lock" if self.copy.join(&path).exists() && is_older(&from, &self.copy.join(&path)) => {
                    continue;
                }
                _ if Path::new(&path) == Path::new(CORE).join("lib.rs") => {
                    with_module(&text(bytes)).into_bytes()
                }
                _ => bytes,
            };
            self.write(&path, &bytes)?;
        }
        let number = format!("const MUTANTS: usize = {};", catalogue.numbers());
        let mutant = MUTANT.replacen("const MUTANTS: usize = 0;", &number, 1);
        for (path, text) in [
            (format!("{CORE}/mutant.rs"), mutant),
            (format!("{SEEDS_FOLDER}/Cargo.toml"), seeds_manifest()),
            (format!("{SEEDS_FOLDER}/src/main.rs"), SEEDS.to_owned()),
        ] {
            kept.insert(self.copy.join(&path));
            self.write(&path, text.as_bytes())?;
        }
        remove_others(&self.copy, &kept)
    }

    /// Writes a file with those of its mutants that are not dropped.
    pub(crate) fn render(
        &self,
        catalogue: &Catalogue,
        index: usize,
        dropped: &BTreeSet<String>,
    ) -> Result<Rendered, String> {
        let source = &catalogue.sources[index];
        let keeps = |site: usize, own: usize| {
            let mutant = catalogue.numbered(source.firsts[site] + own as u32);
            mutant.is_some_and(|mutant| !dropped.contains(&mutant.id))
        };
        let is_kept = |site: usize| (0..source.sites[site].mutants.len()).any(|own| keeps(site, own));
        let numbers: Vec<Option<u32>> =
            (0..source.sites.len()).map(|site| is_kept(site).then_some(source.firsts[site])).collect();
        let rendered = render(&source.text, &source.sites, &numbers, &keeps);
        self.write(&source.path, rendered.text.as_bytes())?;
        Ok(rendered)
    }

    fn write(&self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let path = self.copy.join(path);
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        if fs::read(&path).is_ok_and(|before| before == bytes) {
            return Ok(());
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::write(&path, bytes).map_err(failed)
    }
}

/// The files of the repository, and those that are not committed yet.
fn listed(root: &Path) -> Result<Vec<String>, String> {
    let mut command = Command::new("git");
    command.args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let output =
        command.current_dir(root).stdin(Stdio::null()).output().map_err(|error| format!("git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

fn is_older(one: &Path, other: &Path) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    modified(one) < modified(other)
}

/// Mutants are no style, and those that panic are noticed.
const LINTS: [&str; 3] =
    ["warnings = \"allow\"", "arithmetic_overflow = \"allow\"", "unconditional_panic = \"allow\""];

/// The manifest of the workspace with one member more, and without lints.
fn manifest(text: &str) -> String {
    let mut lines = Vec::new();
    let mut in_lints = false;
    for line in text.lines() {
        if line.starts_with('[') {
            in_lints = line.starts_with("[workspace.lints");
            if in_lints && !lines.contains(&"[workspace.lints.rust]") {
                lines.push("[workspace.lints.rust]");
                lines.extend(LINTS);
            }
        }
        if in_lints && !line.is_empty() {
            continue;
        }
        lines.push(line);
        if line == "members = [" {
            lines.push("    \"crates/mutant-seeds\",");
        }
    }
    lines.join("\n") + "\n"
}

fn with_module(text: &str) -> String {
    let mut text = text.to_owned();
    text.push_str("\npub mod mutant;\n");
    text
}

fn seeds_manifest() -> String {
    format!(
        "[package]\nname = \"{SEEDS_PACKAGE}\"\nversion.workspace = true\nedition.workspace = true\npublish = false\n\n\
         [dependencies]\nquorate-core.workspace = true\nquorate-simulator.workspace = true\n"
    )
}

/// Removes what the repository has no more.
fn remove_others(folder: &Path, kept: &BTreeSet<PathBuf>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            remove_others(&path, kept)?;
        } else if !kept.contains(&path) {
            fs::remove_file(&path).map_err(failed)?;
        }
    }
    Ok(())
}

/// The content of a file in the folder of results; nothing if there is no such file.
pub(crate) fn known(workspace: &Workspace, name: &str) -> String {
    read(&workspace.known.join(name)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_one_member_more_and_no_lints() {
        let text = "[workspace]\nmembers = [\n    \"xtask\",\n]\n\n[workspace.lints.rust]\nmissing_docs = \"warn\"\n\n\
                    [workspace.lints.clippy]\nall = \"warn\"\n\n[profile.test]\ndebug = false\n";
        let expected = "[workspace]\nmembers = [\n    \"crates/mutant-seeds\",\n    \"xtask\",\n]\n\n[workspace.lints.rust]\n\
                        warnings = \"allow\"\narithmetic_overflow = \"allow\"\nunconditional_panic = \"allow\"\n\n\n[profile.test]\ndebug = false\n";
        assert_eq!(manifest(text), expected);
    }
}
