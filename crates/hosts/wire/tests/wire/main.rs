//! The wire format, from outside: round trips, protocol buffers as others read them, frames, and bytes that mean harm.
//!
//! `QUORATE_FUZZ_CASES` multiplies the number of generated cases, and `QUORATE_FUZZ_SEED` repeats the one that has failed.

mod allocation;
mod coverage;
mod evolution;
mod frames;
mod generate;
mod golden;
mod hostile;
mod independent;
mod print;
mod protobuf;
mod rights;
mod roots;
mod round_trip;
mod schema;
mod sharing;

use quorate_core::Random;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Tries a property with so many seeds by default.
fn cases(default: u64, property: impl Fn(&mut Random)) {
    /// Says which seed has failed.
    struct Seed(u64);

    impl Drop for Seed {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let test = std::thread::current().name().unwrap_or_default().to_owned();
                let seed = self.0;
                eprintln!(
                    "QUORATE_FUZZ_SEED={seed} cargo test -p quorate-wire --test wire {test} repeats it"
                );
            }
        }
    }

    let seeds = match variable("QUORATE_FUZZ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..default.saturating_mul(variable("QUORATE_FUZZ_CASES").unwrap_or(1)),
    };
    for seed in seeds {
        let _seed = Seed(seed);
        property(&mut Random::new(seed));
    }
}
