//! Causal tokens: how far a session has seen, to be handed to another one.
//!
//! A session is ordered as it has run its transactions. Another session knows nothing of it, unless it is told: it *observes* a token. A token has a
//! time, for all keyspaces whose serial order goes by timestamps, and a part for each keyspace whose local sites number their transactions.
//! Parts join: of each local site the greater number. Nobody has to understand all parts; those that are not understood are handed on.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::id::{KeyspaceId, ShardId};
use crate::time::ClockTime;

/// A token has no more parts, so that nobody can be made to keep many.
pub const PARTS_MAX: usize = 256;

/// A part has numbers of no more local sites.
pub const SITES_MAX: usize = 1_024;

/// The text of a token is no longer.
pub const TEXT_BYTES_MAX: usize = 65_536;

/// How far a session has seen, a *causal token*: see `Database::seen` of the client library.
///
/// Its text form, from `Display` and back through `FromStr`, has digits, dots and tildes only, so it can be put into a cookie or an address. It is to
/// be handed on as it is. It is no secret and no proof: a program that takes it from users it does not trust should sign it, although a forged one
/// does no more than that it is refused, or waited for in vain by the session that observes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Transactions of keyspaces that go by timestamps come after this if they are executed from here on.
    pub time: ClockTime,
    /// The vectors that were seen of keyspaces in local sites.
    parts: BTreeMap<KeyspaceId, SeenPart>,
}

/// The part of a token that is about a keyspace in local sites: a vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenPart {
    /// The first shard of the keyspace, which tells it from one of the same number elsewhere.
    pub first: ShardId,
    /// Of each local site, by position, the first so many transactions.
    pub numbers: Vec<u64>,
}

/// A token cannot be one, or is too large to be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSeen {
    /// The text is none that a token has.
    #[error(
        "{text:?} does not say what a session has seen: it is to be the text of a token, as `Database::seen` has given it"
    )]
    Text {
        /// The text that was given, shortened.
        text: String,
    },
    /// There are too many parts.
    #[error("a token has parts of at most {PARTS_MAX} keyspaces, and this one would have {parts}")]
    Parts {
        /// How many there are.
        parts: usize,
    },
}

impl Seen {
    /// A token of keyspaces that go by timestamps alone.
    pub fn at(time: ClockTime) -> Self {
        Seen { time, parts: BTreeMap::new() }
    }

    /// The parts, by keyspace.
    pub fn parts(&self) -> impl Iterator<Item = (KeyspaceId, &SeenPart)> {
        self.parts.iter().map(|(keyspace, part)| (*keyspace, part))
    }

    /// The part of a keyspace.
    pub fn part(&self, keyspace: KeyspaceId) -> Option<&SeenPart> {
        self.parts.get(&keyspace)
    }

    /// Takes a part out.
    pub fn take(&mut self, keyspace: KeyspaceId) -> Option<SeenPart> {
        self.parts.remove(&keyspace)
    }

    /// The time, and the part of this keyspace alone: enough for a session that goes on there.
    pub fn only(&self, keyspace: KeyspaceId) -> Seen {
        let parts = self.parts.get_key_value(&keyspace).map(|(keyspace, part)| (*keyspace, part.clone()));
        Seen { time: self.time, parts: parts.into_iter().collect() }
    }

    /// True if a session that has seen this has seen all that the other token says.
    pub fn includes(&self, other: &Seen) -> bool {
        let has_part = |(keyspace, theirs): (KeyspaceId, &SeenPart)| {
            self.part(keyspace).is_some_and(|ours| ours.includes(theirs))
        };
        self.time >= other.time && other.parts().all(has_part)
    }

    /// Includes what the part says. Where a part of the same keyspace elsewhere is known, that one stays.
    pub fn include(&mut self, keyspace: KeyspaceId, part: SeenPart) {
        match self.parts.get_mut(&keyspace) {
            Some(known) => known.join(&part),
            None => _ = self.parts.insert(keyspace, part),
        }
    }

    /// Includes all that the other token says.
    pub fn join(&mut self, other: &Seen) {
        self.time = self.time.max(other.time);
        for (keyspace, part) in other.parts() {
            self.include(keyspace, part.clone());
        }
    }

    /// Checks that a token which includes both is not too large.
    ///
    /// # Errors
    /// [`InvalidSeen::Parts`].
    pub fn validate_join(&self, other: &Seen) -> Result<(), InvalidSeen> {
        let new = other.parts.keys().filter(|keyspace| !self.parts.contains_key(keyspace)).count();
        let parts = self.parts.len() + new;
        if new > 0 && parts > PARTS_MAX { Err(InvalidSeen::Parts { parts }) } else { Ok(()) }
    }
}

impl SeenPart {
    fn includes(&self, other: &SeenPart) -> bool {
        let ours = self.numbers.iter().copied().chain(std::iter::repeat(0));
        self.first == other.first && other.numbers.iter().zip(ours).all(|(theirs, ours)| *theirs <= ours)
    }

    fn join(&mut self, other: &SeenPart) {
        if self.first != other.first {
            return;
        }
        if self.numbers.len() < other.numbers.len() {
            self.numbers.resize(other.numbers.len(), 0);
        }
        for (ours, theirs) in self.numbers.iter_mut().zip(&other.numbers) {
            *ours = (*ours).max(*theirs);
        }
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.time.as_micros())?;
        for (keyspace, SeenPart { first, numbers }) in self.parts() {
            write!(formatter, "~{}.{}", keyspace.0, first.0)?;
            numbers.iter().try_for_each(|number| write!(formatter, ".{number}"))?;
        }
        Ok(())
    }
}

impl FromStr for Seen {
    type Err = InvalidSeen;

    fn from_str(text: &str) -> Result<Self, InvalidSeen> {
        let refused = || InvalidSeen::Text { text: text.chars().take(40).collect() };
        if text.len() > TEXT_BYTES_MAX {
            return Err(refused());
        }
        let mut words = text.split('~');
        let time = words.next().and_then(|word| word.parse().ok()).ok_or_else(refused)?;
        let mut seen = Seen::at(ClockTime::from_micros(time));
        for word in words {
            let (keyspace, part) = part(word).ok_or_else(refused)?;
            if seen.parts.insert(keyspace, part).is_some() {
                return Err(refused());
            }
        }
        match seen.parts.len() {
            parts if parts > PARTS_MAX => Err(InvalidSeen::Parts { parts }),
            _ => Ok(seen),
        }
    }
}

/// A part, as its text says: the keyspace, its first shard, and a number for each local site.
fn part(word: &str) -> Option<(KeyspaceId, SeenPart)> {
    let mut numbers = word.split('.');
    let keyspace = KeyspaceId(numbers.next()?.parse().ok()?);
    let first = ShardId(numbers.next()?.parse().ok()?);
    let numbers = numbers.map(|number| number.parse().ok()).collect::<Option<Vec<u64>>>()?;
    (numbers.len() <= SITES_MAX).then_some((keyspace, SeenPart { first, numbers }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seen(text: &str) -> Seen {
        text.parse().unwrap()
    }

    #[test]
    fn a_token_survives_as_text() {
        for text in ["1800000000000007", "0~7.31.12.0.5", "9~7.31~8.40.18446744073709551615"] {
            assert_eq!(seen(text).to_string(), text);
        }
        assert_eq!(seen("9").time, ClockTime::from_micros(9));
        assert_eq!(seen("0~7.31.12").part(KeyspaceId(7)).unwrap().numbers, [12]);
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        let far = format!("0~1.2{}", ".1".repeat(SITES_MAX + 1));
        let long = "1".repeat(TEXT_BYTES_MAX + 1);
        for text in [
            "",
            "soon",
            "-1",
            "1~",
            "1~7",
            "1~7.x",
            "1~7.3.",
            "1~7.3.1~7.3.2",
            "1 ",
            "1~7.3.1.e",
            "é",
            &far,
            &long,
        ] {
            let error = text.parse::<Seen>().unwrap_err();
            assert!(matches!(error, InvalidSeen::Text { .. }), "{text:?}: {error}");
            assert!(error.to_string().len() < 300, "{error}");
        }
        let parts: String = (0..=PARTS_MAX).map(|keyspace| format!("~{keyspace}.1.1")).collect();
        let error = format!("0{parts}").parse::<Seen>().unwrap_err();
        assert_eq!(error, InvalidSeen::Parts { parts: PARTS_MAX + 1 });
    }

    #[test]
    fn a_token_includes_another_if_it_is_as_far_in_every_part() {
        let all = seen("5~1.10.3.4~2.20.7");
        for (text, is_included) in [
            ("5~1.10.3.4~2.20.7", true),
            ("4~1.10.2.4.0", true),
            ("0", true),
            ("6", false),
            ("5~1.10.3.5", false),
            ("5~1.10.3.4.1", false),
            ("5~1.11.3.4", false),
            ("5~3.10", false),
        ] {
            assert_eq!(all.includes(&seen(text)), is_included, "{text}");
        }
        assert_eq!(all.only(KeyspaceId(2)), seen("5~2.20.7"));
        assert_eq!(all.only(KeyspaceId(3)), seen("5"));
    }

    #[test]
    fn tokens_join_part_by_part() {
        let mut joined = seen("5~1.10.3.4~2.20.7");
        joined.join(&seen("4~1.10.1.9.2~3.30.1"));
        assert_eq!(joined.to_string(), "5~1.10.3.9.2~2.20.7~3.30.1");
        // Another keyspace of the same number takes nothing away.
        joined.join(&seen("6~2.21.9"));
        assert_eq!(joined.to_string(), "6~1.10.3.9.2~2.20.7~3.30.1");
        assert_eq!(joined.take(KeyspaceId(3)).unwrap().numbers, [1]);
        assert!(joined.part(KeyspaceId(3)).is_none());
    }

    #[test]
    fn what_is_joined_is_bounded() {
        let all = |from: usize| -> Seen {
            let parts: String = (from..from + PARTS_MAX).map(|keyspace| format!("~{keyspace}.1.1")).collect();
            seen(&format!("0{parts}"))
        };
        assert_eq!(all(0).validate_join(&all(0)), Ok(()));
        assert_eq!(all(0).validate_join(&all(1)), Err(InvalidSeen::Parts { parts: PARTS_MAX + 1 }));
        assert_eq!(Seen::default().validate_join(&all(1)), Ok(()));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_a_token(text in "[0-9.~]{0,40}") {
            if let Ok(token) = text.parse::<Seen>() {
                prop_assert_eq!(token.to_string().parse(), Ok(token));
            }
        }
    }
}
