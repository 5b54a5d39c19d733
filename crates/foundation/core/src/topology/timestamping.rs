//! The meaning and the choice of timestamps in strict keyspaces: options of TAPIR (TAPIR paper, sections 6.3 and 6.5).

use std::time::Duration;

/// The order in which the transactions of a strict keyspace are serialized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SerialOrder {
    /// One that agrees with real time: strict serializability.
    #[default]
    RealTime,
    /// That of timestamps: serializability, and no more. A transaction may be ordered before another one that had returned before it began.
    /// Reads of versions that were overwritten later, and writes below newer versions, are let in (section 6.3).
    Timestamps,
}

impl SerialOrder {
    /// Every choice.
    pub const ALL: [SerialOrder; 2] = [SerialOrder::RealTime, SerialOrder::Timestamps];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            SerialOrder::RealTime => "real-time",
            SerialOrder::Timestamps => "timestamps",
        }
    }
}

crate::names!(SerialOrder, "order");

/// The options of timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamping {
    /// The serial order.
    pub order: SerialOrder,
    /// How far above what a replica asks for a transaction is proposed again the first time, and then twice as far each further time (section 6.5). Zero, the
    /// default, is just above.
    pub retry_ahead: Duration,
}

impl Timestamping {
    /// No transaction is proposed again further ahead the first time.
    pub const RETRY_AHEAD_MAX: Duration = Duration::from_secs(1);

    /// Says what fits no keyspace.
    ///
    /// # Errors
    /// Proposals too far ahead, or clocks with a bound where the order is not that of real time.
    pub fn validate(&self, clock_bound: Option<Duration>) -> Result<(), TimestampingError> {
        if self.retry_ahead > Self::RETRY_AHEAD_MAX {
            return Err(TimestampingError::RetryAhead);
        }
        match self.order {
            SerialOrder::Timestamps if clock_bound.is_some() => Err(TimestampingError::ClockBound),
            SerialOrder::Timestamps | SerialOrder::RealTime => Ok(()),
        }
    }
}

/// Timestamps cannot be chosen like this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimestampingError {
    /// Others would have to go up as far.
    #[error(
        "a transaction is proposed again at most {} ms above what a replica asks for: state less",
        Timestamping::RETRY_AHEAD_MAX.as_millis()
    )]
    RetryAhead,
    /// The bound of clocks is for an order that agrees with real time.
    #[error(
        "a bound of clocks is for transactions in the order of real time, not of timestamps alone: leave one of the two out"
    )]
    ClockBound,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_have_names_and_others_are_refused() {
        for order in SerialOrder::ALL {
            assert_eq!(order.name().parse(), Ok(order));
        }
        let refused = "strict".parse::<SerialOrder>().unwrap_err().to_string();
        assert!(refused.contains("\"strict\"") && refused.contains("real-time, timestamps"), "{refused}");
        assert_eq!(Timestamping::default().order, SerialOrder::RealTime);
    }

    #[test]
    fn options_that_fit_no_keyspace_are_named() {
        let bound = Some(Duration::from_millis(1));
        let timestamps = Timestamping { order: SerialOrder::Timestamps, ..Timestamping::default() };
        assert_eq!(timestamps.validate(None), Ok(()));
        assert_eq!(timestamps.validate(bound), Err(TimestampingError::ClockBound));
        let ahead = |retry_ahead| Timestamping { retry_ahead, ..Timestamping::default() };
        assert_eq!(ahead(Timestamping::RETRY_AHEAD_MAX).validate(bound), Ok(()));
        let too_far = Timestamping::RETRY_AHEAD_MAX + Duration::from_micros(1);
        assert_eq!(ahead(too_far).validate(None), Err(TimestampingError::RetryAhead));
    }
}
