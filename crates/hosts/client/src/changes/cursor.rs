//! Cursors: how far a consumer of changes has come.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use quorate_core::topology::{Keyspace as Definition, SHARDS_MAX};
use quorate_core::{ClientId, KeyspaceId, ShardId, Timestamp};

use crate::error::Invalid;

/// The place of a consumer in the changes of a keyspace: behind all that it has taken.
///
/// Its text form, from `Display` and back through `FromStr`, is made to be kept: `1.7.12-0005f3a61c0ab12c000000000000002a` is the version of the form, the
/// number of the keyspace, which no other one and no later one of the same name has, and for each shard the first position that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    keyspace: KeyspaceId,
    positions: BTreeMap<ShardId, Timestamp>,
}

/// A text that is no cursor, or a cursor of something else.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCursor {
    /// The text is no cursor.
    #[error("\"{text}\" is no cursor: {reason}")]
    Malformed {
        /// The text that was given, shortened.
        text: String,
        /// The fault in it.
        reason: &'static str,
    },
    /// It belongs to another keyspace, or to one of this name that was there before.
    #[error(
        "the cursor belongs to the keyspace numbered {found}, and {name:?} is numbered {expected}: it is another one, or was created or restored since. Begin \
         without a cursor, or with a fresh snapshot"
    )]
    Foreign {
        /// The name of the keyspace whose changes were asked for.
        name: String,
        /// Its number.
        expected: u32,
        /// The number in the cursor.
        found: u32,
    },
    /// It is one of other keys of the keyspace.
    #[error("the cursor is one for other keys of {name:?}: use it for those that it was given for")]
    OtherKeys {
        /// The name of the keyspace.
        name: String,
    },
}

/// The version of the text form.
const VERSION: &str = "1";

impl Cursor {
    /// A cursor of a keyspace.
    pub(crate) fn begin(keyspace: &Definition, positions: BTreeMap<ShardId, Timestamp>) -> Self {
        Cursor { keyspace: keyspace.id, positions }
    }

    /// The same cursor if it is one of these shards of a keyspace.
    pub(crate) fn of(&self, keyspace: &Definition, shards: &[ShardId]) -> Result<&Self, Invalid> {
        let name = keyspace.name.clone();
        if self.keyspace != keyspace.id {
            let (expected, found) = (keyspace.id.0, self.keyspace.0);
            return Err(InvalidCursor::Foreign { name, expected, found }.into());
        }
        match self.positions.keys().eq(shards) {
            true => Ok(self),
            false => Err(InvalidCursor::OtherKeys { name }.into()),
        }
    }

    pub(crate) fn position(&self, shard: ShardId) -> Option<Timestamp> {
        self.positions.get(&shard).copied()
    }

    /// A stretch of a shard was taken.
    ///
    /// # Panics
    /// If it does not begin where the last one has ended.
    pub(crate) fn advance(&mut self, shard: ShardId, from: Timestamp, to: Timestamp) {
        let position = self.positions.entry(shard).or_insert(from);
        assert!(
            *position == from && from <= to,
            "changes of {shard} from {from} to {to} are taken where those up to {position} were"
        );
        *position = to;
    }

    /// No change below this position comes later, of any shard.
    pub fn resolved(&self) -> Timestamp {
        self.positions.values().copied().min().unwrap_or_default()
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{VERSION}.{}", self.keyspace.0)?;
        for (shard, Timestamp { micros, client }) in &self.positions {
            write!(formatter, ".{}-{micros:016x}{:016x}", shard.0, client.0)?;
        }
        Ok(())
    }
}

impl FromStr for Cursor {
    type Err = InvalidCursor;

    fn from_str(text: &str) -> Result<Self, InvalidCursor> {
        parse(text.trim())
            .map_err(|reason| InvalidCursor::Malformed { text: text.chars().take(80).collect(), reason })
    }
}

fn parse(text: &str) -> Result<Cursor, &'static str> {
    let mut fields = text.split('.');
    match fields.next() {
        Some(VERSION) => {}
        Some(other) if other.bytes().all(|byte| byte.is_ascii_digit()) && !other.is_empty() => {
            return Err("it has a form that this version does not know");
        }
        _ => return Err("it does not begin with the version of its form"),
    }
    let keyspace = fields.next().and_then(number).ok_or("the number of its keyspace is none")?;
    let mut positions = BTreeMap::new();
    for field in fields {
        let (shard, position) = field.split_once('-').ok_or("a position of it has no shard")?;
        let shard = ShardId(number(shard).ok_or("a shard of it is not a number")?);
        // Of a fixed length, so that one that was cut off is not taken for an earlier one.
        if position.len() != 32 || !position.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err("a position of it has not 32 hexadecimal digits: was its end cut off?");
        }
        let half =
            |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| "a position of it is no number");
        let (micros, client) = position.split_at(16);
        let position = Timestamp { micros: half(micros)?, client: ClientId(half(client)?) };
        if positions.last_key_value().is_some_and(|(last, _)| *last >= shard) {
            return Err("its shards are not in ascending order");
        }
        if positions.len() == SHARDS_MAX {
            return Err("it names more shards than a keyspace can have");
        }
        positions.insert(shard, position);
    }
    match positions.is_empty() {
        true => Err("it names no shard"),
        false => Ok(Cursor { keyspace: KeyspaceId(keyspace), positions }),
    }
}

/// A number as it is written: without a sign or leading zeros, so that each cursor has one text.
fn number(text: &str) -> Option<u32> {
    let parsed: u32 = text.parse().ok()?;
    (parsed.to_string() == text).then_some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64, client: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(client) }
    }

    fn cursor() -> Cursor {
        let positions = [(ShardId(12), at(0x5_f3a6, 0)), (ShardId(13), at(9, u64::MAX))];
        Cursor { keyspace: KeyspaceId(7), positions: positions.into() }
    }

    #[test]
    fn a_cursor_is_read_back_from_its_text() {
        let text = cursor().to_string();
        assert_eq!(text, "1.7.12-000000000005f3a60000000000000000.13-0000000000000009ffffffffffffffff");
        assert_eq!(text.parse(), Ok(cursor()));
        assert_eq!(format!(" {text}\n").parse(), Ok(cursor()));
    }

    #[test]
    fn what_is_no_cursor_is_refused_with_the_reason() {
        let position = "000000000005f3a60000000000000000";
        let table = [
            (String::new(), "it does not begin with the version of its form"),
            (format!("2.7.12-{position}"), "it has a form that this version does not know"),
            (format!("1.07.12-{position}"), "the number of its keyspace is none"),
            ("1.7".to_owned(), "it names no shard"),
            (format!("1.7.{position}"), "a position of it has no shard"),
            (format!("1.7.x-{position}"), "a shard of it is not a number"),
            (
                format!("1.7.12-{}", &position[..31]),
                "a position of it has not 32 hexadecimal digits: was its end cut off?",
            ),
            (
                format!("1.7.12-+{}", &position[..31]),
                "a position of it has not 32 hexadecimal digits: was its end cut off?",
            ),
            (format!("1.7.12-{position}.12-{position}"), "its shards are not in ascending order"),
        ];
        for (text, expected) in table {
            match text.parse::<Cursor>() {
                Err(InvalidCursor::Malformed { reason, .. }) => assert_eq!(reason, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn stretches_are_taken_one_after_the_other_and_the_least_position_is_resolved() {
        let mut cursor = cursor();
        assert_eq!(cursor.resolved(), at(9, u64::MAX));
        cursor.advance(ShardId(13), at(9, u64::MAX), at(0x6_0000, 0));
        assert_eq!(
            (cursor.resolved(), cursor.position(ShardId(13))),
            (at(0x5_f3a6, 0), Some(at(0x6_0000, 0)))
        );
    }

    #[test]
    #[should_panic(expected = "are taken where those up to")]
    fn a_stretch_that_leaves_something_out_is_not_taken() {
        cursor().advance(ShardId(12), at(0x6_0000, 0), at(0x7_0000, 0));
    }
}
