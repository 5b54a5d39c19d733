//! Timestamps by the clock of a client that may be turned back.

use std::time::Duration;

use quorate_core::ClockTime;

/// A clock that was turned back by more since a transaction began was wrong then, and its transaction is not proposed.
const TURNED_BACK_MAX: Duration = Duration::from_secs(1);

/// The reading of the clock, and no less than when the transaction began.
///
/// A client that asks for the outcome later takes the beginning for a bound of the transaction's timestamps. If it had committed far
/// below, that might long be forgotten there, and the answer would be that there never was such a transaction. None if the
/// clock has been turned back so far that it must have been wrong: then nobody should be asked for anything that far ahead.
pub fn clock_since(began: ClockTime, clock: ClockTime) -> Option<ClockTime> {
    (began <= clock.saturating_add(TURNED_BACK_MAX)).then(|| clock.max(began))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_proposed_below_its_beginning() {
        let at = ClockTime::from_micros;
        let began = at(5_000_000);
        for (clock, expected) in [
            (6_000_000, Some(6_000_000)),
            (5_000_000, Some(5_000_000)),
            (4_000_000, Some(5_000_000)),
            (3_999_999, None),
        ] {
            assert_eq!(clock_since(began, at(clock)), expected.map(at), "{clock}");
        }
    }
}
