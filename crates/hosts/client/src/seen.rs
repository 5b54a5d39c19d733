//! What a client has seen of serializable keyspaces, to be handed to another one.

use std::fmt;
use std::str::FromStr;

use quorate_core::ClockTime;

/// How far a client has seen into the serial order of serializable keyspaces: see [`Database::seen`](crate::Database::seen).
///
/// Its text form, from `Display` and back through `FromStr`, is a number of microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen(pub(crate) ClockTime);

/// A text that does not say what was seen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} does not say what a client has seen: that is a number of microseconds since 1970")]
pub struct InvalidSeen {
    /// What was given, shortened.
    pub text: String,
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0.as_micros())
    }
}

impl FromStr for Seen {
    type Err = InvalidSeen;

    fn from_str(text: &str) -> Result<Self, InvalidSeen> {
        let micros = text.parse().map_err(|_| InvalidSeen { text: text.chars().take(40).collect() })?;
        Ok(Seen(ClockTime::from_micros(micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_survives_as_text() {
        let seen = Seen(ClockTime::from_micros(1_800_000_000_000_007));
        assert_eq!(seen.to_string().parse(), Ok(seen));
        let error = "soon".parse::<Seen>().unwrap_err().to_string();
        assert!(error.contains("soon") && error.contains("microseconds"), "{error}");
    }
}
