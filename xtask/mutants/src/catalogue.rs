//! All mutants of all crates that have some, with their numbers and names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::generator::{self, Mutant, Site, site};
use crate::targets::{TARGETS, Target};

/// Each file has numbers of its own, so that a change of one changes no number of another, and cargo need not build that again.
const NUMBERS_PER_FILE: u32 = 2_048;

/// A source file with mutants.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root of the repository.
    pub(crate) path: String,
    pub(crate) target: &'static Target,
    pub(crate) text: String,
    pub(crate) sites: Vec<Site>,
    /// The number of each site's first mutant.
    pub(crate) firsts: Vec<u32>,
}

/// A mutant with its name.
#[derive(Debug)]
pub(crate) struct Named {
    /// Names it as long as neither its function nor its line changes otherwise.
    pub(crate) id: String,
    /// Its number in the copy.
    pub(crate) number: u32,
    /// The index of its file, of its site there, and its own there.
    pub(crate) source: usize,
    pub(crate) site: usize,
    pub(crate) own: usize,
}

/// Everything that can be changed.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    pub(crate) sources: Vec<Source>,
    /// By their numbers.
    pub(crate) mutants: Vec<Named>,
}

impl Catalogue {
    /// Finds the mutants of the repository.
    ///
    /// # Errors
    /// A file cannot be read, or is no Rust.
    pub(crate) fn of(root: &Path) -> Result<Self, String> {
        let mut catalogue = Catalogue::default();
        for target in &TARGETS {
            for path in source_files(&root.join(target.folder).join("src"))? {
                let text = read(&path)?;
                let path = path.strip_prefix(root).unwrap_or(&path).display().to_string();
                catalogue.add(path, target, text)?;
            }
        }
        Ok(catalogue)
    }

    /// Adds the mutants of a file.
    pub(crate) fn add(&mut self, path: String, target: &'static Target, text: String) -> Result<(), String> {
        let sites = generator::sites(&text).map_err(|error| format!("{path}: {error}"))?;
        let mut firsts = Vec::with_capacity(sites.len());
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut number = self.sources.len() as u32 * NUMBERS_PER_FILE;
        let most = number + NUMBERS_PER_FILE;
        for (index, site) in sites.iter().enumerate() {
            firsts.push(number);
            let original = site::squeezed(&text[site.range.clone()]);
            for (own, mutant) in site.mutants.iter().enumerate() {
                let words =
                    [&path, &site.function, mutant.kind, &original, &site::squeezed(&mutant.text)].join("|");
                let ordinal = seen.entry(words.clone()).or_default();
                let id = format!("{:010x}", hash(&format!("{words}|{ordinal}")) >> 24);
                *ordinal += 1;
                self.mutants.push(Named { id, number, source: self.sources.len(), site: index, own });
                number += 1;
            }
        }
        if number > most {
            return Err(format!("{path} has more than {NUMBERS_PER_FILE} mutants: raise NUMBERS_PER_FILE"));
        }
        self.sources.push(Source { path, target, text, sites, firsts });
        Ok(())
    }

    /// The mutant with a number.
    pub(crate) fn numbered(&self, number: u32) -> Option<&Named> {
        let at = self.mutants.binary_search_by_key(&number, |mutant| mutant.number).ok()?;
        self.mutants.get(at)
    }

    /// A number beyond those of all mutants.
    pub(crate) fn numbers(&self) -> u32 {
        self.sources.len() as u32 * NUMBERS_PER_FILE
    }

    pub(crate) fn source(&self, mutant: &Named) -> &Source {
        &self.sources[mutant.source]
    }

    pub(crate) fn site(&self, mutant: &Named) -> &Site {
        &self.source(mutant).sites[mutant.site]
    }

    pub(crate) fn change(&self, mutant: &Named) -> &Mutant {
        &self.site(mutant).mutants[mutant.own]
    }

    /// The number of the first mutant of the same site, by which the copy tells that it was reached.
    pub(crate) fn first(&self, mutant: &Named) -> u32 {
        self.source(mutant).firsts[mutant.site]
    }

    /// The lines of a mutant's site, counted from one.
    pub(crate) fn line_numbers(&self, mutant: &Named) -> (usize, usize) {
        let text = &self.source(mutant).text;
        let range = &self.site(mutant).range;
        let line = |at: usize| text[..at].matches('\n').count() + 1;
        (line(range.start), line(range.end))
    }

    /// `file:line`.
    pub(crate) fn place(&self, mutant: &Named) -> String {
        format!("{}:{}", self.source(mutant).path, self.line_numbers(mutant).0)
    }

    /// The line of a mutant before and after the change.
    pub(crate) fn lines(&self, mutant: &Named) -> (String, String) {
        site::lines(&self.source(mutant).text, self.site(mutant), self.change(mutant))
    }

    /// Says what a mutant changes, in one line.
    pub(crate) fn summary(&self, mutant: &Named) -> String {
        let (place, kind, function) =
            (self.place(mutant), self.change(mutant).kind, &self.site(mutant).function);
        format!("{} {place} {function} {kind}", mutant.id)
    }
}

/// Modules that are there for tests, although not for those of their own crate alone.
const FOR_TESTS: [&str; 1] = ["handover"];

/// FNV-1a: the same on every machine and in every version.
pub(crate) fn hash(text: &str) -> u64 {
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, fold)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The source files below a folder that are more than tests, sorted.
fn source_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut files, mut tests) = (Vec::new(), BTreeSet::new());
    sources_below(folder, &mut tests, &mut files)?;
    Ok(files)
}

/// Adds the source files below a folder. The modules that are there for tests are known by their paths without an extension: a file declares
/// those of its own folder, or of one below.
fn sources_below(
    folder: &Path,
    tests: &mut BTreeSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> Result<(), String> {
    let mut entries = Vec::new();
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    for entry in fs::read_dir(folder).map_err(failed)? {
        entries.push(entry.map_err(failed)?.path());
    }
    entries.sort_unstable();
    tests.extend(FOR_TESTS.iter().map(|name| folder.join(name)));
    for path in entries.iter().filter(|path| path.extension().is_some_and(|extension| extension == "rs")) {
        let stem = path.file_stem().unwrap_or_default();
        let is_root = ["lib", "mod", "main"].iter().any(|root| stem == *root);
        let below = if is_root { folder.to_owned() } else { folder.join(stem) };
        tests.extend(generator::modules_of_tests(&read(path)?).into_iter().map(|module| below.join(module)));
    }
    for path in entries {
        let module = path.with_extension("");
        let is_test = module.file_stem().is_some_and(|stem| stem == "tests") || tests.contains(&module);
        if is_test {
            continue;
        }
        if path.is_dir() {
            sources_below(&path, tests, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A module that a file beside its folder declares for tests was taken for a source once.
    #[test]
    fn modules_for_tests_are_no_sources_wherever_they_are_declared() {
        let root = std::env::temp_dir().join(format!("quorate-sources-{}", std::process::id()));
        for (path, text) in [
            ("lib.rs", "mod part;\nmod other;\n#[cfg(test)]\nmod beside;\n"),
            ("beside.rs", ""),
            ("part.rs", "mod real;\n#[cfg(test)]\nmod tests;\n#[cfg(test)]\nmod traces;\n"),
            ("part/real.rs", ""),
            ("part/tests.rs", ""),
            ("part/traces.rs", ""),
            ("part/traces/deeper.rs", ""),
            ("other/mod.rs", "mod traces;\n#[cfg(test)]\nmod steps;\n"),
            ("other/steps.rs", ""),
            ("other/traces.rs", ""),
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let files = source_files(&root).unwrap();
        fs::remove_dir_all(&root).unwrap();
        let expected = ["lib.rs", "other/mod.rs", "other/traces.rs", "part.rs", "part/real.rs"];
        let expected = expected.map(|path| root.join(path));
        // Folders and files of one name are neighbours in either order.
        let (mut files, mut expected) = (files, expected.to_vec());
        files.sort_unstable();
        expected.sort_unstable();
        assert_eq!(files, expected);
    }
}
