//! From the choice of mutants to what became of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::arguments::Arguments;
use crate::catalogue::{Catalogue, Named, hash};
use crate::results::{Results, Verdict};
use crate::seeds::Seeds;
use crate::targets::Target;
use crate::tests::Tests;
use crate::workspace::Workspace;
use crate::{changed, compile, equivalent, report};

/// How often it is said how far a run has come.
const PROGRESS: Duration = Duration::from_secs(10);

/// The verdicts on a mutant, as far as they are known.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// By the tests of its crate.
    pub(crate) tests: Option<Verdict>,
    /// By the seeds of the systems that execute it, the last of which decides unless one has noticed it.
    pub(crate) simulator: Option<Verdict>,
}

impl Known {
    pub(crate) fn is_caught(&self) -> bool {
        [&self.tests, &self.simulator].into_iter().flatten().any(Verdict::is_caught)
    }

    /// True if nothing is known.
    pub(crate) fn is_empty(&self) -> bool {
        self.tests.is_none() && self.simulator.is_none()
    }
}

/// Does what was asked for; gives false if a mutant survives that must not.
///
/// # Errors
/// Wrong use, or something cannot be run.
pub(crate) fn run(root: &Path, arguments: &Arguments) -> Result<bool, String> {
    let catalogue = Catalogue::of(root)?;
    let equivalent = equivalent::read_list(root, &catalogue)?;
    let wanted = wanted(root, arguments, &catalogue)?;
    if arguments.list {
        for mutant in sampled(&catalogue, wanted, arguments) {
            let (before, after) = catalogue.lines(mutant);
            println!("{}\n  {before}\n  {after}", catalogue.summary(mutant));
        }
        return Ok(true);
    }
    if wanted.is_empty() {
        eprintln!("there is nothing to change on these lines");
        return Ok(true);
    }
    let workspace = Workspace::of(root);
    let results = Results::open(&workspace, arguments.fresh)?;
    std::fs::create_dir_all(&workspace.copy)
        .map_err(|error| format!("{}: {error}", workspace.copy.display()))?;
    workspace.copy(root, &catalogue)?;
    let targets = targets(&catalogue, &wanted);
    let mut packages = BTreeSet::new();
    if arguments.by.tests() {
        packages.extend(targets.iter().flat_map(|target| target.judges()).map(Target::package));
    }
    let packages: Vec<String> = packages.into_iter().collect();
    let built = compile::build(&workspace, &catalogue, &packages, arguments.by.simulator())?;
    let possible = wanted.into_iter().filter(|mutant| !built.dropped.contains(&mutant.id)).collect();
    let mut run = Run {
        catalogue: &catalogue,
        arguments,
        workspace: &workspace,
        results,
        chosen: sampled(&catalogue, possible, arguments),
        known: BTreeMap::new(),
        ends: arguments.budget.map(|budget| Instant::now() + budget),
    };
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for target in targets {
        let begin = Instant::now();
        if arguments.by.tests() {
            for judge in target.judges() {
                let binaries = built.tests.get(&workspace.copy.join(judge.folder));
                run.by_tests(target, judge, binaries.map_or(&[][..], Vec::as_slice))?;
            }
        }
        if let Some(program) = &built.seeds {
            run.by_simulator(target, program)?;
        }
        seconds.insert(target.name, begin.elapsed().as_secs_f64());
    }
    let survives =
        report::print(arguments, &catalogue, &built.dropped, &equivalent, &run.chosen, &run.known, &seconds);
    Ok(!(survives && arguments.is_judged()))
}

/// The mutants that were asked for, apart from the sample.
fn wanted<'a>(
    root: &Path,
    arguments: &Arguments,
    catalogue: &'a Catalogue,
) -> Result<Vec<&'a Named>, String> {
    let lines = arguments.changed.as_deref().map(|base| changed::lines(root, base)).transpose()?;
    if let Some(unknown) =
        arguments.only.iter().find(|id| catalogue.mutants.iter().all(|mutant| mutant.id != **id))
    {
        return Err(format!("--only {unknown}: there is no such mutant; --list names them"));
    }
    let is_wanted = |mutant: &&Named| {
        let (first, last) = catalogue.line_numbers(mutant);
        let source = catalogue.source(mutant);
        let is_new = |lines| changed::touches(lines, &source.path, first, last);
        (arguments.crates.contains(&source.target) || !arguments.only.is_empty())
            && (arguments.only.is_empty() || arguments.only.contains(&mutant.id))
            && arguments.within.as_ref().is_none_or(|within| source.path.contains(within.as_str()))
            && lines.as_ref().is_none_or(is_new)
    };
    Ok(catalogue.mutants.iter().filter(is_wanted).collect())
}

/// Draws the sample of each crate. One that is larger holds one that is smaller, and a mutant more or less changes little.
fn sampled<'a>(catalogue: &Catalogue, mut wanted: Vec<&'a Named>, arguments: &Arguments) -> Vec<&'a Named> {
    let Some(sample) = arguments.sample else { return wanted };
    wanted.sort_by_key(|mutant| hash(&format!("{}|{}", arguments.seed, mutant.id)).rotate_left(32));
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    wanted.retain(|mutant| {
        let taken = taken.entry(catalogue.source(mutant).target.name).or_default();
        *taken += 1;
        *taken <= sample
    });
    wanted.sort_by_key(|mutant| mutant.number);
    wanted
}

fn targets(catalogue: &Catalogue, wanted: &[&Named]) -> Vec<&'static Target> {
    let mut targets: Vec<&'static Target> = Vec::new();
    for mutant in wanted {
        let target = catalogue.source(mutant).target;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    targets
}

struct Run<'a> {
    catalogue: &'a Catalogue,
    arguments: &'a Arguments,
    workspace: &'a Workspace,
    results: Results,
    chosen: Vec<&'a Named>,
    known: BTreeMap<u32, Known>,
    /// When no further mutant is begun.
    ends: Option<Instant>,
}

impl<'a> Run<'a> {
    fn of(&self, target: &Target) -> Vec<&'a Named> {
        self.chosen.iter().copied().filter(|mutant| self.catalogue.source(mutant).target == target).collect()
    }

    /// Puts mutants of a crate before the tests of a crate.
    fn by_tests(
        &mut self,
        target: &'static Target,
        judge: &Target,
        binaries: &[PathBuf],
    ) -> Result<(), String> {
        let mutants = self.survivors(target);
        if mutants.is_empty() || self.is_over() {
            return Ok(());
        }
        let tests = Tests::noted(self.workspace, judge, binaries, self.arguments.jobs)?;
        let by = if target == judge { "tests".to_owned() } else { format!("tests of {}", judge.name) };
        let verdicts = self.judged(target.name, &by, &tests.stamp, &mutants, &|mutant| {
            tests.judge(mutant.number, self.catalogue.first(mutant))
        })?;
        for (mutant, verdict) in verdicts {
            let known = &mut self.known.entry(mutant).or_default().tests;
            if verdict != Verdict::Unreached || known.is_none() {
                *known = Some(verdict);
            }
        }
        Ok(())
    }

    /// The chosen mutants of a crate that nothing has noticed yet.
    fn survivors(&self, target: &Target) -> Vec<&'a Named> {
        let is_caught = |mutant: &&Named| self.known.get(&mutant.number).is_some_and(Known::is_caught);
        self.of(target).into_iter().filter(|mutant| !is_caught(mutant)).collect()
    }

    fn by_simulator(&mut self, target: &'static Target, program: &Path) -> Result<(), String> {
        for system in target.systems {
            let mutants = self.survivors(target);
            if mutants.is_empty() || self.is_over() {
                break;
            }
            let seeds = Seeds::noted(self.workspace, program, system, self.arguments)?;
            let by = seeds.by();
            let verdicts = self.judged(target.name, &by, &seeds.stamp, &mutants, &|mutant| {
                seeds.judge(mutant.number, self.catalogue.first(mutant))
            })?;
            for (mutant, verdict) in verdicts {
                let known = &mut self.known.entry(mutant).or_default().simulator;
                if verdict != Verdict::Unreached || known.is_none() {
                    *known = Some(verdict);
                }
            }
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.ends.is_some_and(|ends| Instant::now() > ends)
    }

    /// Judges those mutants of which nothing is known yet, as long as there is time.
    fn judged(
        &self,
        name: &str,
        by: &str,
        stamp: &str,
        mutants: &[&Named],
        judge: &(dyn Fn(&Named) -> Result<Verdict, String> + Sync),
    ) -> Result<Vec<(u32, Verdict)>, String> {
        let mut verdicts = Vec::new();
        let mut open = Vec::new();
        for mutant in mutants {
            match self.results.known(&mutant.id, by, stamp) {
                Some(verdict) => verdicts.push((mutant.number, verdict)),
                None => open.push(*mutant),
            }
        }
        let (done, caught) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let begin = Instant::now();
        let said = Mutex::new(begin);
        let found =
            in_parallel(&open, self.arguments.jobs, |mutant| -> Result<Option<(u32, Verdict)>, String> {
                if self.is_over() {
                    return Ok(None);
                }
                let verdict = judge(mutant)?;
                self.results.add(&mutant.id, by, stamp, verdict.clone())?;
                let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                let caught = caught.fetch_add(usize::from(verdict.is_caught()), Ordering::Relaxed);
                let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
                if said.elapsed() > PROGRESS {
                    *said = Instant::now();
                    let left = begin.elapsed().as_secs_f64() / done as f64 * (open.len() - done) as f64;
                    eprintln!(
                        "{name} by {by}: {done} of {}, {caught} caught, about {:.1} minutes left",
                        open.len(),
                        left / 60.0
                    );
                }
                Ok(Some((mutant.number, verdict)))
            });
        for found in found {
            verdicts.extend(found?);
        }
        Ok(verdicts)
    }
}

/// Does the same with each of some things, several at the same time; gives the results in the order of the things.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    things: &[T],
    jobs: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, things.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(thing) = things.get(index) else { return };
                    let result = work(thing);
                    results.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// The names of mutants that do not compile, of those that were asked for.
pub(crate) fn dropped_of(catalogue: &Catalogue, dropped: &BTreeSet<String>, target: &Target) -> usize {
    let of_target =
        |mutant: &&Named| catalogue.source(mutant).target == target && dropped.contains(&mutant.id);
    catalogue.mutants.iter().filter(of_target).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_things() {
        let things: Vec<u64> = (0..100).collect();
        assert_eq!(in_parallel(&things, 3, |thing| thing * 2), (0..200).step_by(2).collect::<Vec<u64>>());
        assert!(in_parallel(&[] as &[u64], 3, |thing| *thing).is_empty());
    }

    #[test]
    fn a_larger_sample_holds_a_smaller_one() {
        let mut catalogue = Catalogue::default();
        let text: String =
            (0..40).map(|number| format!("fn f{number}(a: u8) {{ g(a < {number}); }}\n")).collect();
        catalogue.add("x.rs".to_owned(), Target::named("ir").unwrap(), text).unwrap();
        let drawn = |sample: &str, seed: &str| {
            let words = ["--sample", sample, "--seed", seed].map(str::to_owned);
            let arguments = Arguments::parse(&words).unwrap();
            let sample = sampled(&catalogue, catalogue.mutants.iter().collect(), &arguments);
            sample.iter().map(|mutant| mutant.number).collect::<BTreeSet<_>>()
        };
        assert_eq!(drawn("10", "1").len(), 10);
        assert!(drawn("20", "1").is_superset(&drawn("10", "1")));
        assert_ne!(drawn("10", "1"), drawn("10", "2"));
    }
}
