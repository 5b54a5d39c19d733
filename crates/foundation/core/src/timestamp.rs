//! Transaction timestamps: a clock reading made unique by the client that chose it (TAPIR paper, section 5.1.2).

use std::fmt;

use crate::id::ClientId;
use crate::time::ClockTime;

/// A unique, totally ordered timestamp: microseconds first, the choosing client second.
///
/// It also names the version that a committed transaction wrote. [`Timestamp::ZERO`] is the version of a key that
/// nobody has written.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Microseconds since the Unix epoch, by the clock of the client that chose it.
    pub micros: u64,
    /// The client that chose it.
    pub client: ClientId,
}

impl Timestamp {
    /// Below every timestamp that a transaction can have: the version of an absent key.
    pub const ZERO: Timestamp = Timestamp { micros: 0, client: ClientId(0) };

    /// No timestamp is greater.
    pub const MAX: Timestamp = Timestamp { micros: u64::MAX, client: ClientId(u64::MAX) };

    /// The timestamp of `client` at `clock`.
    pub const fn new(clock: ClockTime, client: ClientId) -> Self {
        Timestamp { micros: clock.as_micros(), client }
    }

    /// The smallest timestamp of `client` that is not below `clock` and above `self`.
    pub fn successor(self, clock: ClockTime, client: ClientId) -> Self {
        let micros = clock.as_micros().max(self.micros.saturating_add(1));
        Timestamp { micros, client }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{:x}", self.micros, self.client.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_lies_above_and_not_before_the_clock() {
        let old = Timestamp { micros: 10, client: ClientId(7) };
        let client = ClientId(1);
        assert_eq!(old.successor(ClockTime::from_micros(5), client).micros, 11);
        assert_eq!(old.successor(ClockTime::from_micros(50), client).micros, 50);
        assert!(old.successor(ClockTime::from_micros(10), client) > old);
    }
}
