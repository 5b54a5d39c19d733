//! I7: no machine panics, and no client is told anything that makes no sense.

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// A machine has panicked with this message.
pub fn machine_panicked(message: &str) -> Finding {
    finding(vec![Broken::new(Invariant::Sanity, "panic", message.to_owned())])
}

/// Clients understood everything that they were told.
pub fn nothing_makes_no_sense(nonsense: &[String]) -> Finding {
    let broken = nonsense.iter().take(BROKEN_MAX);
    finding(broken.map(|told| Broken::new(Invariant::Sanity, "nonsense", told.clone())).collect())
}
