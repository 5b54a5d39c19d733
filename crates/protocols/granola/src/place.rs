//! The serial order.

use std::fmt;

use quorate_core::{ClockTime, TransactionId};

/// Where a transaction stands in the serial order: by its timestamp, and by its name among those that have the same one
/// (section 4.1).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Its timestamp: a reading of some replica's clock, or above one.
    pub timestamp: ClockTime,
    /// Its name.
    pub transaction: TransactionId,
}

impl Place {
    /// After everything that has this timestamp, and before everything that has a greater one: there stands what only reads.
    pub fn after(timestamp: ClockTime) -> Self {
        let next = ClockTime::from_micros(timestamp.as_micros().saturating_add(1));
        Place { timestamp: next, transaction: TransactionId::default() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.timestamp.as_micros(), self.transaction)
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}
