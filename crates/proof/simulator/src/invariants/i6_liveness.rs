//! I6: once faults have ended, every transaction ends, every replica serves and nothing stays prepared.

use std::time::Duration;

use quorate_core::ReplicaId;

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

/// No replica leads for long while its clock is far off: `leaders` are those that do, and for how long.
pub fn leaders_have_sound_clocks(leaders: &[(ReplicaId, Duration)]) -> Finding {
    let broken = leaders.iter().take(BROKEN_MAX).map(|(replica, led)| {
        let explain = format!("{replica} has led for {led:?} while its clock was far off");
        Broken::new(Invariant::Liveness, "off clock leads", explain)
    });
    finding(broken.collect())
}
