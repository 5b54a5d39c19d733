//! Hostile input for what reads bytes from outside: the codecs of the doors, and the commands behind that for Redis.
//!
//! A [`Target`] draws an input from a seed, by the structure of what it reads: a pipeline of commands, a dump, a document. Half of the inputs are bent
//! afterwards, byte by byte. On any input, the target must neither panic nor break what it asserts. The tests run some seeds of each target; the
//! example `hunt` runs them for as long as it is told, and shrinks what it finds:
//!
//! ```text
//! cargo run --profile test -p quorate-fuzz --example hunt -- --seconds 60
//! cargo run --profile test -p quorate-fuzz --example hunt -- --seconds 600 --seed 1000000 commands dumps
//! ```
//!
//! A fuzzer that is guided by coverage needs no more than [`Target::run`], which takes any bytes; what it finds is run again by `hunt --input FILE TARGET`.
//!
//! | file | role |
//! |---|---|
//! | `mutate` | bends bytes |
//! | `targets` | what is tried |
//!
//! The wire format between nodes has tests of this kind of its own, beside its code, which draw every message.

mod mutate;
mod targets;

use quorate_core::Random;

pub use quorate_redis_scripts::STACK_BYTES;
pub use targets::TARGETS;

/// How often an input is bent after it was drawn.
const BENT: f64 = 0.5;

/// Something that reads bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// The code that reads the bytes, and its assertions, in a line.
    pub what: &'static str,
    draw: fn(&mut Random) -> Vec<u8>,
    run: fn(&[u8]),
}

impl Target {
    /// The input of a seed.
    pub fn input(&self, seed: u64) -> Vec<u8> {
        let mut random = Random::new(seed).fork();
        let mut input = (self.draw)(&mut random);
        if random.chance(BENT) {
            mutate::bend(&mut input, &mut random);
        }
        input
    }

    /// Has the target read an input. It belongs on a thread with a stack of [`STACK_BYTES`].
    ///
    /// # Panics
    /// The input has found a fault.
    pub fn run(&self, input: &[u8]) {
        (self.run)(input);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_input_and_others_draw_others() {
        for target in TARGETS {
            let inputs: Vec<_> = (0..50).map(|seed| target.input(seed)).collect();
            assert!((0..50).all(|seed| target.input(seed) == inputs[seed as usize]), "{}", target.name);
            let different: std::collections::BTreeSet<_> = inputs.into_iter().collect();
            assert!(different.len() > 30, "{} draws {} inputs", target.name, different.len());
        }
    }
}
