//! Builds the copy. Mutants that do not compile are found by where the compiler complains, and dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::catalogue::Catalogue;
use crate::generator::{Rendered, site::Form};
use crate::targets::TARGETS;
use crate::workspace::{SEEDS_PACKAGE, Workspace, known};

/// The names of mutants that do not compile, from before.
const DROPPED: &str = "dropped.txt";

/// No crate has needed more rounds than this; one that does has an error of its own.
const ROUNDS_MAX: usize = 60;

/// The results of a build.
#[derive(Debug, Default)]
pub(crate) struct Built {
    /// The binaries with tests of each package, by its folder in the copy.
    pub(crate) tests: BTreeMap<PathBuf, Vec<PathBuf>>,
    /// The program that runs seeds, if it was asked for.
    pub(crate) seeds: Option<PathBuf>,
    /// The names of the mutants that do not compile.
    pub(crate) dropped: BTreeSet<String>,
}

/// Builds the tests of packages, and the program that runs seeds.
///
/// # Errors
/// Something does not compile that no mutant is to blame for.
pub(crate) fn build(
    workspace: &Workspace,
    catalogue: &Catalogue,
    packages: &[String],
    seeds: bool,
) -> Result<Built, String> {
    let before = known(workspace, DROPPED);
    let mut dropped: BTreeSet<String> = before.lines().map(str::to_owned).collect();
    let mut rendered = Vec::new();
    for index in 0..catalogue.sources.len() {
        rendered.push(workspace.render(catalogue, index, &dropped)?);
    }
    let mut built = Built::default();
    // A check of the crates is cheaper than a build, and finds nearly all that does not compile. The program that runs seeds is built of all of them.
    let mut check = vec!["check", "--profile", "test", "--keep-going"];
    let all: Vec<String> = TARGETS.iter().map(|target| target.package()).collect();
    let checked = if seeds { &all } else { packages };
    check.extend(checked.iter().flat_map(|package| ["--package", package]));
    let mut steps = vec![check];
    if !packages.is_empty() {
        let mut test = vec!["test", "--no-run"];
        test.extend(packages.iter().flat_map(|package| ["--package", package]));
        steps.push(test);
    }
    if seeds {
        steps.push(vec!["build", "--profile", "test", "--package", SEEDS_PACKAGE]);
    }
    for step in steps {
        let mut rounds = 0;
        loop {
            eprintln!(
                "cargo {} …, without {} mutants that do not compile",
                step[..2].join(" "),
                dropped.len()
            );
            let (messages, success) = cargo(workspace, &step)?;
            if success {
                messages.iter().for_each(|message| built.note(message));
                break;
            }
            let blamed = blamed(catalogue, &rendered, &messages)?;
            let number = dropped.len();
            let mut files = BTreeSet::new();
            for number in blamed {
                let Some(mutant) = catalogue.numbered(number) else { continue };
                dropped.insert(mutant.id.clone());
                files.insert(mutant.source);
            }
            rounds += 1;
            if dropped.len() == number || rounds > ROUNDS_MAX {
                return Err(format!(
                    "the copy in {} does not compile: build it there to see why",
                    workspace.copy.display()
                ));
            }
            for file in files {
                rendered[file] = workspace.render(catalogue, file, &dropped)?;
            }
            let text: String = dropped.iter().map(|id| format!("{id}\n")).collect();
            fs::write(workspace.known.join(DROPPED), text).map_err(|error| format!("{DROPPED}: {error}"))?;
        }
    }
    built.dropped = dropped;
    Ok(built)
}

impl Built {
    /// Keeps what cargo says of a program.
    fn note(&mut self, message: &Value) {
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let Some(executable) = path(&message["executable"]) else { return };
        let package =
            path(&message["manifest_path"]).and_then(|manifest| manifest.parent().map(PathBuf::from));
        if message["profile"]["test"] == Value::Bool(true) {
            self.tests.entry(package.unwrap_or_default()).or_default().push(executable);
        } else if message["target"]["name"] == SEEDS_PACKAGE {
            self.seeds = Some(executable);
        }
    }
}

/// Runs cargo in the copy; gives what it says.
fn cargo(workspace: &Workspace, arguments: &[&str]) -> Result<(Vec<Value>, bool), String> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(program).args(arguments).args([
        "--offline",
        "--quiet",
        "--message-format",
        "json",
    ]);
    // The variables in which cargo tells a package of itself must not reach another.
    command.env_remove("CARGO_MANIFEST_DIR").env("CARGO_TARGET_DIR", &workspace.build);
    command.current_dir(&workspace.copy).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    if !output.status.success() && !messages.iter().any(is_error) {
        return Err(format!("cargo {}:\n{}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok((messages, output.status.success()))
}

fn is_error(message: &Value) -> bool {
    message["reason"] == "compiler-message" && message["message"]["level"] == "error"
}

/// The numbers of the mutants to drop for what the compiler complains about.
fn blamed(catalogue: &Catalogue, rendered: &[Rendered], messages: &[Value]) -> Result<BTreeSet<u32>, String> {
    let mut blamed = BTreeSet::new();
    for message in messages.iter().filter(|message| is_error(message)) {
        let message = &message["message"];
        let (mut first, mut others) = (Vec::new(), Vec::new());
        spans(message, &mut first, &mut others);
        if first.is_empty() && others.is_empty() {
            continue;
        }
        let before = blamed.len();
        let mut blame = |spans: &[Span], suspects: Suspects| {
            let numbers: Vec<u32> =
                spans.iter().flat_map(|span| suspects(catalogue, rendered, span)).collect();
            blamed.extend(&numbers);
            !numbers.is_empty()
        };
        let found = blame(&first, suspects) || blame(&others, suspects) || blame(&first, deletions);
        if !found && blamed.len() == before {
            let text = message["rendered"].as_str().unwrap_or_default();
            return Err(format!("no mutant is to blame for this:\n{text}"));
        }
    }
    Ok(blamed)
}

type Span = (String, Range<usize>);

/// Finds the numbers of mutants that a complaint at a place may be about.
type Suspects = fn(&Catalogue, &[Rendered], &Span) -> Vec<u32>;

/// The places that a complaint names: where the error is, and what it says beside that.
fn spans(message: &Value, first: &mut Vec<Span>, others: &mut Vec<Span>) {
    for span in message["spans"].as_array().into_iter().flatten() {
        let at = |name: &str| span[name].as_u64().unwrap_or_default() as usize;
        let place =
            (span["file_name"].as_str().unwrap_or_default().to_owned(), at("byte_start")..at("byte_end"));
        if span["is_primary"] == Value::Bool(true) { first.push(place) } else { others.push(place) }
    }
    for child in message["children"].as_array().into_iter().flatten() {
        let mut all = Vec::new();
        spans(child, &mut all, others);
        others.append(&mut all);
    }
}

/// The deletions in the function around a place, those of ways out alone if there are any: without them something may have no value,
/// another type, or still be borrowed.
fn deletions(catalogue: &Catalogue, rendered: &[Rendered], (file, place): &Span) -> Vec<u32> {
    let Some(index) = catalogue.sources.iter().position(|source| source.path == *file) else {
        return Vec::new();
    };
    let (source, rendered) = (&catalogue.sources[index], &rendered[index]);
    let nearest = rendered.sites.iter().min_by_key(|(range, _)| range.start.abs_diff(place.start));
    let Some((_, nearest)) = nearest else { return Vec::new() };
    let function = &source.sites[*nearest].function;
    let sites = rendered.sites.iter().map(|(_, site)| *site);
    let deletions: Vec<usize> = sites
        .filter(|site| {
            source.sites[*site].form == Form::Statement && source.sites[*site].function == *function
        })
        .collect();
    let is_exit = |site: &usize| source.sites[*site].mutants[0].kind == "exit-deleted";
    let has_exits = deletions.iter().any(is_exit);
    deletions.into_iter().filter(|site| !has_exits || is_exit(site)).map(|site| source.firsts[site]).collect()
}

/// The mutants at a place: the smallest one around it, else those of the smallest site around it, else those inside of it.
fn suspects(catalogue: &Catalogue, rendered: &[Rendered], (file, place): &Span) -> Vec<u32> {
    let Some(index) = catalogue.sources.iter().position(|source| source.path == *file) else {
        return Vec::new();
    };
    let (source, rendered) = (&catalogue.sources[index], &rendered[index]);
    let contains = |range: &Range<usize>| range.start <= place.start && place.end <= range.end;
    let around = rendered.mutants.iter().filter(|(range, ..)| contains(range));
    if let Some((_, site, own)) = around.min_by_key(|(range, ..)| range.len()) {
        return vec![source.firsts[*site] + *own as u32];
    }
    let all = |site: usize| {
        let first = source.firsts[site];
        first..first + source.sites[site].mutants.len() as u32
    };
    let around = rendered.sites.iter().filter(|(range, _)| contains(range));
    if let Some((_, site)) = around.min_by_key(|(range, _)| range.len()) {
        return all(*site).collect();
    }
    let inside =
        rendered.sites.iter().filter(|(range, _)| place.start <= range.start && range.end <= place.end);
    inside.flat_map(|(_, site)| all(*site)).collect()
}
