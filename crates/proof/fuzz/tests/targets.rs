//! Some inputs of each target, always the same. `QUORATE_FUZZ_FACTOR` multiplies their number, `QUORATE_FUZZ_SEED` says with which seed they begin.

use quorate_fuzz::{STACK_BYTES, TARGETS};

/// So many inputs has each target.
const INPUTS: u64 = 400;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

/// Says which input it was, if one fails.
struct Repeat(&'static str, u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Repeat(target, seed) = self;
            eprintln!(
                "cargo run --profile test -p quorate-fuzz --example hunt -- --seconds 1 --seed {seed} {target} repeats it"
            );
        }
    }
}

#[test]
fn no_target_is_harmed_by_what_it_reads() {
    let (first, inputs) = (variable("QUORATE_FUZZ_SEED", 0), INPUTS * variable("QUORATE_FUZZ_FACTOR", 1));
    let try_all = move |target: &quorate_fuzz::Target| {
        for seed in first..first + inputs {
            let repeat = Repeat(target.name, seed);
            target.run(&target.input(seed));
            drop(repeat);
        }
    };
    let threads: Vec<_> = TARGETS
        .iter()
        .map(|target| {
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).name(target.name.to_owned());
            thread.spawn(move || try_all(target)).unwrap()
        })
        .collect();
    let failed: Vec<_> = threads
        .into_iter()
        .zip(TARGETS)
        .filter_map(|(thread, target)| thread.join().err().map(|_| target.name))
        .collect();
    assert!(failed.is_empty(), "{failed:?} fail");
}
