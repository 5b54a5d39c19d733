//! The wire format, from outside: round trips, protocol buffers as others read them, frames, and bytes that mean harm.
//!
//! `QUORATE_FUZZ_CASES` multiplies the number of generated cases.

mod allocation;
mod evolution;
mod frames;
mod generate;
mod golden;
mod hostile;
mod oracle;
mod oracle_test;
mod round_trip;
mod schema;
mod sharing;

use proptest::test_runner::Config;

/// The configuration of a property with so many cases by default.
fn cases(default: u32) -> Config {
    let factor = std::env::var("QUORATE_FUZZ_CASES").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    let cases = default.saturating_mul(factor);
    Config { cases, max_shrink_iters: 10_000, failure_persistence: None, ..Config::default() }
}
