//! The ids of entries: a time in milliseconds and a number, ordered by both.

use std::fmt;

use crate::Malformed;
use crate::reply::{Fail, Reply, fail};

/// The id of an entry of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    /// Milliseconds since the Unix epoch, unless a client has chosen something else.
    pub(crate) time: u64,
    /// Tells entries of one millisecond apart.
    pub(crate) number: u64,
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.time, self.number)
    }
}

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

/// No id has more bytes.
const TEXT_BYTES_MAX: usize = 127;

impl Id {
    pub(crate) const LEAST: Id = Id { time: 0, number: 0 };
    pub(crate) const GREATEST: Id = Id { time: u64::MAX, number: u64::MAX };

    /// The bytes of the id, ordered as ids are.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.time) << 64 | u128::from(self.number)).to_be_bytes()
    }

    /// Reads these bytes.
    pub(crate) fn of_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        let bits = u128::from_be_bytes(bytes.try_into().map_err(|_| Malformed)?);
        Ok(Id { time: (bits >> 64) as u64, number: bits as u64 })
    }

    pub(crate) fn reply(self) -> Reply {
        Reply::bulk(self.to_string())
    }

    /// The next id; none behind the greatest.
    pub(crate) fn next(self) -> Option<Self> {
        match self.number.checked_add(1) {
            Some(number) => Some(Id { number, ..self }),
            None => Some(Id { time: self.time.checked_add(1)?, number: 0 }),
        }
    }

    /// The id before; none before the least.
    pub(crate) fn before(self) -> Option<Self> {
        match self.number.checked_sub(1) {
            Some(number) => Some(Id { number, ..self }),
            None => Some(Id { time: self.time.checked_sub(1)?, number: u64::MAX }),
        }
    }

    /// Reads an id that names both parts, or its time alone, which `number` completes.
    fn parse(word: &[u8], number: u64) -> Result<Self, Fail> {
        let text = if word.len() > TEXT_BYTES_MAX { &b""[..] } else { crate::c_string(word) };
        let (time, rest) = match text.iter().position(|byte| *byte == b'-') {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let id = match (unsigned(time), rest.map(unsigned)) {
            (Some(time), None) => Some(Id { time, number }),
            (Some(time), Some(Some(number))) => Some(Id { time, number }),
            _ => None,
        };
        id.map_or_else(|| fail(INVALID), Ok)
    }

    /// An id that an argument has to be. Its number is zero where it names a time alone.
    pub(crate) fn argument(word: &[u8]) -> Result<Self, Fail> {
        Id::parse(word, 0)
    }

    /// The same, where `-` and `+` stand for the ends.
    pub(crate) fn argument_or_end(word: &[u8], number: u64) -> Result<Self, Fail> {
        match crate::c_string(word) {
            b"-" => Ok(Id::LEAST),
            b"+" => Ok(Id::GREATEST),
            _ => Id::parse(word, number),
        }
    }
}

/// A number as `strtoull` reads it: with space in front, and a sign, which wraps.
fn unsigned(text: &[u8]) -> Option<u64> {
    if let Some(number) = crate::parse::integer(text) {
        return u64::try_from(number).ok();
    }
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(if is_negative { number.wrapping_neg() } else { number })
}

/// The id that an entry is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// `*`: of this time, or behind the last one.
    Any,
    /// `time-*`: the next one of that time.
    OfTime(u64),
    /// This one.
    Exactly(Id),
}

impl Wanted {
    pub(super) fn parse(word: &[u8]) -> Result<Self, Fail> {
        match crate::c_string(word) {
            b"*" => Ok(Wanted::Any),
            [time @ .., b'-', b'*'] if !time.contains(&b'-') => match unsigned(time) {
                Some(time) if word.len() <= TEXT_BYTES_MAX => Ok(Wanted::OfTime(time)),
                _ => fail(INVALID),
            },
            _ => Ok(Wanted::Exactly(Id::argument(word)?)),
        }
    }

    /// The id of an entry behind the last one, at a time in milliseconds; none if there is none.
    pub(super) fn behind(self, last: Id, now: u64) -> Option<Id> {
        match self {
            Wanted::Any if now > last.time => Some(Id { time: now, number: 0 }),
            Wanted::Any => last.next(),
            // The time is that of the client: it does not go on where its numbers are used up.
            Wanted::OfTime(time) if time == last.time => {
                last.number.checked_add(1).map(|number| Id { time, number })
            }
            Wanted::OfTime(time) => Some(Id { time, number: 0 }).filter(|id| *id > last),
            Wanted::Exactly(id) => Some(id).filter(|id| *id > last),
        }
    }
}

/// The ids from one up to, and with, another, as two arguments give them: with `(` in front an end does not belong to them.
pub(super) fn interval(start: &[u8], end: &[u8]) -> Result<(Id, Id), Fail> {
    Ok((interval_start(start)?, interval_end(end)?))
}

/// The first id of an interval.
pub(super) fn interval_start(word: &[u8]) -> Result<Id, Fail> {
    match word {
        [b'(', word @ ..] if !word.is_empty() => match Id::argument(word)?.next() {
            Some(id) => Ok(id),
            None => fail("ERR invalid start ID for the interval"),
        },
        word => Id::argument_or_end(word, 0),
    }
}

/// The last one.
fn interval_end(word: &[u8]) -> Result<Id, Fail> {
    match word {
        [b'(', word @ ..] if !word.is_empty() => match Id::parse(word, u64::MAX)?.before() {
            Some(id) => Ok(id),
            None => fail("ERR invalid end ID for the interval"),
        },
        word => Id::argument_or_end(word, u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(time: u64, number: u64) -> Id {
        Id { time, number }
    }

    #[test]
    fn ids_are_read_as_redis_reads_them() {
        for (text, expected) in [
            ("1-2", Some(id(1, 2))),
            ("7", Some(id(7, 0))),
            ("007", Some(id(7, 0))),
            (" 7-+3", Some(id(7, 3))),
            ("18446744073709551615-18446744073709551615", Some(Id::GREATEST)),
            ("18446744073709551616", None),
            ("1-", None),
            ("-", None),
            ("-1", None),
            ("1-2-3", None),
            ("1-*", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(Id::argument(text.as_bytes()).ok(), expected, "{text:?}");
        }
        assert_eq!(Id::argument_or_end(b"+", 0).ok(), Some(Id::GREATEST));
        assert_eq!(Id::argument_or_end(b"5", u64::MAX).ok(), Some(id(5, u64::MAX)));
        assert!(Id::argument(&[b'1'; TEXT_BYTES_MAX + 1]).is_err());
        assert_eq!(Id::of_bytes(&id(3, 4).to_bytes()), Ok(id(3, 4)));
    }

    #[test]
    fn an_entry_gets_an_id_behind_the_last_one() {
        let last = id(10, 5);
        for (word, now, expected) in [
            ("*", 11, Some(id(11, 0))),
            ("*", 10, Some(id(10, 6))),
            ("*", 3, Some(id(10, 6))),
            ("10-*", 3, Some(id(10, 6))),
            ("12-*", 3, Some(id(12, 0))),
            ("9-*", 30, None),
            ("10-5", 30, None),
            ("10-7", 0, Some(id(10, 7))),
        ] {
            assert_eq!(Wanted::parse(word.as_bytes()).unwrap().behind(last, now), expected, "{word}");
        }
        let full = id(10, u64::MAX);
        assert_eq!(Wanted::Any.behind(full, 0), Some(id(11, 0)));
        assert_eq!(Wanted::OfTime(10).behind(full, 0), None);
        assert_eq!(Wanted::Any.behind(Id::GREATEST, 0), None);
    }

    #[test]
    fn intervals_are_open_behind_a_parenthesis() {
        assert_eq!(interval(b"-", b"+").unwrap(), (Id::LEAST, Id::GREATEST));
        assert_eq!(interval(b"(1-1", b"(2").unwrap(), (id(1, 2), id(2, u64::MAX - 1)));
        assert_eq!(interval(b"(1", b"(2-0").unwrap(), (id(1, 1), id(1, u64::MAX)));
        for (start, end) in [("(-", "+"), ("(18446744073709551615-18446744073709551615", "+"), ("-", "(0-0")]
        {
            assert!(interval(start.as_bytes(), end.as_bytes()).is_err(), "{start} {end}");
        }
    }
}
