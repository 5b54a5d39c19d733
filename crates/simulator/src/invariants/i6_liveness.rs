//! I6: once faults have ended, every transaction ends, every replica serves and nothing stays prepared.

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// Nothing is left that should have ended; `when` names the phase, `left` says what is left in words.
pub fn everything_ends(when: &str, left: &[String]) -> Finding {
    let broken = left
        .iter()
        .take(BROKEN_MAX)
        .map(|left| Broken::new(Invariant::Liveness, "stuck", format!("{when}: {left}")))
        .collect();
    finding(broken)
}
