//! Runs seeds of a system in the copy. Written by `cargo xtask mutants`; there is nothing like it in the repository.
//!
//! `seeds SYSTEM note|judge FAULTS SEED…` prints a line for each seed, as soon as it has ended.

use std::io::Write as _;
use std::time::Instant;

use quorate_core::mutant;
use quorate_simulator::{Options, SystemKind, run_seed};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [system, what, faults, seeds @ ..] = arguments.as_slice() else { panic!("seeds SYSTEM note|judge FAULTS SEED…") };
    let Some(system) = SystemKind::all().find(|known| known.name() == system) else { panic!("no system {system}") };
    let notes = what == "note";
    if notes {
        mutant::note_reached();
    }
    std::panic::set_hook(Box::new(|_| ()));
    for seed in seeds {
        let seed: u64 = seed.parse().expect("a seed is a number");
        let mut options = Options::new(seed..=seed);
        options.system = system;
        options.faults = faults.parse().expect("faults have names");
        options.repeat_every = 0;
        let begin = Instant::now();
        let report = run_seed(seed, &options, None).report;
        let millis = begin.elapsed().as_millis();
        let verdict = match report.broken.first() {
            Some(broken) => format!("broken {} {}", broken.invariant.id(), broken.anomaly.replace('\n', " ")),
            None if report.vacuous.is_some() => "vacuous".to_owned(),
            None => "good".to_owned(),
        };
        let reached = if notes { mutant::take_reached() } else { Vec::new() };
        let reached: Vec<String> = reached.iter().map(u32::to_string).collect();
        println!("{seed}\t{millis}\t{verdict}\t{}", reached.join(","));
        let _ = std::io::stdout().flush();
        if !notes && verdict.starts_with("broken") {
            return;
        }
    }
}
