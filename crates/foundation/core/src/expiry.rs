//! Values that expire: the envelope in which an expiring keyspace keeps its values.
//!
//! ```text
//!   00  value                          stays until it is overwritten or deleted
//!   01  expiry, 8 bytes  value         is over from the expiry on: microseconds since 1970, the greatest byte first
//! ```
//!
//! Every value of such a keyspace has an envelope, also one that stays, so no value of a user is ever taken for one. Replicas know nothing of it: to them it is a part of the value, and is
//! replicated, validated, backed up and restored with it ([ADR 0085](https://github.com/quorate/quorate/blob/main/docs/adr/0085-time-to-live.md)).

use std::fmt;
use std::time::Duration;

use crate::time::ClockTime;
use crate::timestamp::Timestamp;
use crate::transaction::Value;

/// The shortest lifetime of a value.
pub const LIFETIME_MIN: Duration = Duration::from_millis(1);

/// The longest one: a hundred years of 365 days.
pub const LIFETIME_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The most bytes that an envelope adds to a value.
pub const ENVELOPE_BYTES_MAX: usize = 9;

const STAYS: u8 = 0;
const EXPIRES: u8 = 1;

/// The instant from which on a value is over, in microseconds since 1970 by the clocks that form timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expiry(u64);

/// A lifetime that no value can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a lifetime of {given:?} is not possible: choose one from {LIFETIME_MIN:?} to 100 years")]
pub struct LifetimeError {
    /// The lifetime.
    pub given: Duration,
}

/// Bytes that are no envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it has no envelope that this version can read")]
pub struct NoEnvelope;

/// A value of an expiring keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The value.
    pub value: Value,
    /// The instant from which on it is over; none if it stays.
    pub expiry: Option<Expiry>,
}

impl Expiry {
    /// The expiry at this time, in microseconds since 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Expiry(micros)
    }

    /// The expiry of a value that begins to live now.
    ///
    /// # Errors
    /// The lifetime is zero, or beyond [`LIFETIME_MIN`] and [`LIFETIME_MAX`].
    pub fn after(now: ClockTime, lifetime: Duration) -> Result<Self, LifetimeError> {
        if lifetime < LIFETIME_MIN || lifetime > LIFETIME_MAX {
            return Err(LifetimeError { given: lifetime });
        }
        Ok(Expiry(now.saturating_add(lifetime).as_micros()))
    }

    /// In microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// True if it has passed at this timestamp.
    pub const fn has_passed_at(self, timestamp: Timestamp) -> bool {
        self.0 <= timestamp.micros
    }

    /// True if it has passed by this reading of a clock.
    pub fn has_passed_by(self, clock: ClockTime) -> bool {
        self.0 <= clock.as_micros()
    }

    /// The time that is left by this reading of a clock; zero once it has passed.
    pub fn remaining(self, clock: ClockTime) -> Duration {
        Duration::from_micros(self.0.saturating_sub(clock.as_micros()))
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Envelope {
    /// A value that stays.
    pub fn lasting(value: Value) -> Self {
        Envelope { value, expiry: None }
    }

    /// The bytes that replicas keep.
    pub fn encode(&self) -> Value {
        let mut bytes = Vec::with_capacity(ENVELOPE_BYTES_MAX + self.value.len());
        match self.expiry {
            None => bytes.push(STAYS),
            Some(Expiry(micros)) => {
                bytes.push(EXPIRES);
                bytes.extend(micros.to_be_bytes());
            }
        }
        bytes.extend(&self.value[..]);
        Value::from(bytes)
    }

    /// Reads what [`Envelope::encode`] has written.
    ///
    /// # Errors
    /// These bytes are no envelope.
    pub fn decode(bytes: &Value) -> Result<Self, NoEnvelope> {
        let (expiry, at) = Self::head(bytes)?;
        Ok(Envelope { value: bytes.slice(at..), expiry })
    }

    /// The value alone, without a copy.
    ///
    /// # Errors
    /// As [`Envelope::decode`].
    pub fn value_in(bytes: &[u8]) -> Result<&[u8], NoEnvelope> {
        Self::head(bytes).map(|(_, at)| &bytes[at..])
    }

    /// The expiry alone.
    ///
    /// # Errors
    /// As [`Envelope::decode`].
    pub fn expiry_in(bytes: &[u8]) -> Result<Option<Expiry>, NoEnvelope> {
        Self::head(bytes).map(|(expiry, _)| expiry)
    }

    /// The expiry, and where the value begins.
    fn head(bytes: &[u8]) -> Result<(Option<Expiry>, usize), NoEnvelope> {
        match bytes.split_first() {
            Some((&STAYS, _)) => Ok((None, 1)),
            Some((&EXPIRES, rest)) => {
                let micros = rest.first_chunk().ok_or(NoEnvelope)?;
                Ok((Some(Expiry(u64::from_be_bytes(*micros))), ENVELOPE_BYTES_MAX))
            }
            _ => Err(NoEnvelope),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::ClientId;

    #[test]
    fn lifetimes_have_bounds() {
        let now = ClockTime::from_micros(1_000);
        let table = [
            (Duration::ZERO, None),
            (Duration::from_micros(999), None),
            (LIFETIME_MIN, Some(2_000)),
            (LIFETIME_MAX, Some(1_000 + LIFETIME_MAX.as_micros() as u64)),
            (LIFETIME_MAX + Duration::from_nanos(1), None),
            (Duration::MAX, None),
        ];
        for (lifetime, expected) in table {
            let expiry = Expiry::after(now, lifetime).ok().map(Expiry::as_micros);
            assert_eq!(expiry, expected, "{lifetime:?}");
        }
        let late = Expiry::after(ClockTime::from_micros(u64::MAX), LIFETIME_MIN).unwrap();
        assert_eq!(late.as_micros(), u64::MAX, "a wild clock makes no early expiry");
    }

    #[test]
    fn an_expiry_has_passed_from_its_very_instant_on() {
        let expiry = Expiry::from_micros(10);
        for (micros, expected) in [(9, false), (10, true), (11, true)] {
            assert_eq!(expiry.has_passed_at(Timestamp { micros, client: ClientId(0) }), expected);
            assert_eq!(expiry.has_passed_by(ClockTime::from_micros(micros)), expected);
        }
        assert_eq!(expiry.remaining(ClockTime::from_micros(4)), Duration::from_micros(6));
        assert_eq!(expiry.remaining(ClockTime::from_micros(11)), Duration::ZERO);
    }

    #[test]
    fn bytes_without_an_envelope_are_refused() {
        for bytes in [&b""[..], b"\x01", b"\x01\0\0\0\0\0\0\0", b"\x02abc", b"{}"] {
            assert_eq!(Envelope::decode(&Value::copy_from_slice(bytes)), Err(NoEnvelope), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn envelopes_are_read_back(value: Vec<u8>, expiry: Option<u64>) {
            let (value, expiry) = (Value::from(value), expiry.map(Expiry));
            let envelope = Envelope { value: value.clone(), expiry };
            let bytes = envelope.encode();
            prop_assert!(bytes.len() <= value.len() + ENVELOPE_BYTES_MAX);
            prop_assert_eq!(Envelope::value_in(&bytes), Ok(&value[..]));
            prop_assert_eq!(Envelope::expiry_in(&bytes), Ok(expiry));
            prop_assert_eq!(Envelope::decode(&bytes), Ok(envelope));
        }
    }
}
