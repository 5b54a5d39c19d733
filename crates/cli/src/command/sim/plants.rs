//! `quorate sim --plants`: plants every known bug in turn, and says how soon each was noticed. A bug whose pinned seed still
//! catches it is not hunted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use quorate_simulator::{Faults, Hunt, Options, Planted, hunt};

use super::panics::Hush;
use super::pins::Pins;
use crate::exit::{Outcome, Verdict};
use crate::output::{Align, Progress, Table, print_json};
use crate::parse::Share;

/// Hunts a share of the plants that seeds can find, under `faults` or those that suit it; first at its pinned seed, if it has one. Good if
/// each was caught.
pub(super) fn run(
    options: &Options,
    faults: Option<&Faults>,
    pins: &Pins,
    share: Share,
    json: bool,
) -> Outcome {
    let hunts = hunt_all(options, faults, pins, share);
    tell(&hunts, json)
}

/// Hunts every plant without pins, and writes the seeds that have caught them to a file.
pub(super) fn pin(options: &Options, path: &std::path::Path, json: bool) -> Outcome {
    let mut pins = if path.exists() { Pins::read(path)? } else { Pins::default() };
    let hunts = hunt_all(options, None, &Pins::default(), Share::default());
    pins.set(options.system, &hunts);
    pins.write(path)?;
    tell(&hunts, json)
}

fn tell(hunts: &[Hunt], json: bool) -> Outcome {
    if json {
        print_json(&hunts)?;
    } else {
        outln!("{}", table(hunts));
    }
    Ok(Verdict::good_if(hunts.iter().all(|hunt| hunt.caught.is_some())))
}

/// Hunts on all processors: each plant is a hunt of its own. Reported in the order of the plants.
fn hunt_all(options: &Options, faults: Option<&Faults>, pins: &Pins, share: Share) -> Vec<Hunt> {
    let plants = options.system.plants().into_iter().filter(|plant| plant.is_hunted);
    let plants: Vec<Planted> = share.of(plants).collect();
    let progress = Progress::bar(plants.len() as u64);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(plants.len());
    let next = AtomicUsize::new(0);
    let (sender, hunts) = mpsc::channel();
    let mut done = BTreeMap::new();
    let hush = Hush::new();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let (sender, next, plants, hush) = (sender.clone(), &next, &plants, &hush);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plant) = plants.get(at) else { return };
                    let faults = faults.cloned().unwrap_or_else(|| plant.suited_faults.clone());
                    let options = Options { faults, ..options.clone() };
                    let hunt_in = |options: &Options| hunt(plant, options, |run| hush.aside(run));
                    let pinned =
                        pins.seed(plant).map(|seed| Options { seeds: seed..=seed, ..options.clone() });
                    let pinned = pinned.map(|options| hunt_in(&options)).filter(|hunt| hunt.caught.is_some());
                    let hunt = pinned.unwrap_or_else(|| hunt_in(&options));
                    // The receiver lives as long as this scope.
                    let _ = sender.send((at, hunt));
                }
            });
        }
        drop(sender);
        for (at, hunt) in hunts {
            if hunt.caught.is_none() {
                progress.say(format!("{} is not caught", hunt.plant));
            }
            done.insert(at, hunt);
            progress.step_to(done.len() as u64);
        }
    });
    done.into_values().collect()
}

fn table(hunts: &[Hunt]) -> Table {
    let mut table = Table::new(&[
        ("plant", Align::Left),
        ("faults", Align::Left),
        ("seeds", Align::Right),
        ("caught by", Align::Left),
        ("what", Align::Left),
    ]);
    for hunt in hunts {
        let caught = hunt.caught.as_ref().map_or("NOTHING".to_owned(), |violation| {
            format!("{} {}", violation.invariant, violation.anomaly)
        });
        table.row([
            hunt.plant.to_owned(),
            hunt.faults.clone(),
            hunt.seeds.to_string(),
            caught,
            hunt.what.to_owned(),
        ]);
    }
    table
}
