//! Cursors: how far a consumer of changes has come.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use quorate_core::changes::Position;
use quorate_core::seen::SITES_MAX;
use quorate_core::topology::{Keyspace as Definition, SHARDS_MAX};
use quorate_core::{ClientId, KeyspaceId, ShardId, Timestamp};

use crate::error::Invalid;

/// The place of a consumer in the changes of a keyspace: behind all that it has taken.
///
/// Its text form, from `Display` and back through `FromStr`, is made to be kept: `1.7.12-0005f3a61c0ab12c000000000000002a` is the version of the form, the
/// number of the keyspace, which no other one and no later one of the same name has, and for each shard the first position that was not taken. Of a `parallel-snapshot` keyspace it is
/// `2.7.2-00000000000000050000000000000003`: how many local sites are named, and how many transactions of each were taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    keyspace: KeyspaceId,
    place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    /// For each shard that is followed the first timestamp that was not taken.
    Shards(BTreeMap<ShardId, Timestamp>),
    /// How many transactions of each local site were taken.
    Sites(Vec<u64>),
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

/// The versions of the text form: with a timestamp for each shard, and with a number for each local site.
const OF_SHARDS: &str = "1";
const OF_SITES: &str = "2";

impl Cursor {
    /// A cursor of a keyspace that has come to these positions; none if they are of different kinds.
    pub(crate) fn begin(
        keyspace: &Definition,
        positions: impl IntoIterator<Item = (Option<ShardId>, Position)>,
    ) -> Option<Self> {
        let mut shards = BTreeMap::new();
        let mut sites = None;
        for position in positions {
            match position {
                (Some(shard), Position::Timestamp(timestamp)) => _ = shards.insert(shard, timestamp),
                (None, Position::Sites(numbers)) => sites = Some(numbers),
                (Some(_), Position::Sites(_)) | (None, Position::Timestamp(_)) => return None,
            }
        }
        let place = match sites {
            Some(numbers) if shards.is_empty() => Place::Sites(numbers),
            Some(_) => return None,
            None => Place::Shards(shards),
        };
        Some(Cursor { keyspace: keyspace.id, place })
    }

    /// The same cursor if it is one of these shards of a keyspace, or of its sites.
    pub(crate) fn of(&self, keyspace: &Definition, followed: &[Option<ShardId>]) -> Result<&Self, Invalid> {
        let name = keyspace.name.clone();
        if self.keyspace != keyspace.id {
            let (expected, found) = (keyspace.id.0, self.keyspace.0);
            return Err(InvalidCursor::Foreign { name, expected, found }.into());
        }
        let fits = match &self.place {
            Place::Shards(positions) => positions.keys().copied().map(Some).eq(followed.iter().copied()),
            Place::Sites(_) => followed == [None],
        };
        match fits {
            true => Ok(self),
            false => Err(InvalidCursor::OtherKeys { name }.into()),
        }
    }

    pub(crate) fn position(&self, shard: Option<ShardId>) -> Option<Position> {
        match &self.place {
            Place::Shards(positions) => positions.get(&shard?).copied().map(Position::Timestamp),
            Place::Sites(numbers) => Some(Position::Sites(numbers.clone())),
        }
    }

    /// A stretch was taken, of a shard or of all sites. False if its positions are of another kind.
    ///
    /// # Panics
    /// If it does not begin where the last one has ended.
    pub(crate) fn advance(&mut self, shard: Option<ShardId>, from: &Position, to: &Position) -> bool {
        let position = self.position(shard).unwrap_or_else(|| from.clone());
        assert!(
            position == *from && to.includes(from),
            "changes of {shard:?} from {from} to {to} are taken where those up to {position} were"
        );
        match (&mut self.place, shard, to) {
            (Place::Shards(positions), Some(shard), Position::Timestamp(to)) => {
                _ = positions.insert(shard, *to);
            }
            (Place::Sites(numbers), None, Position::Sites(to)) => numbers.clone_from(to),
            (Place::Shards(_) | Place::Sites(_), _, _) => return false,
        }
        true
    }

    /// No change below this position comes later, of any shard. Of a `parallel-snapshot` keyspace none that it has passed.
    pub fn resolved(&self) -> Position {
        match &self.place {
            Place::Shards(positions) => {
                Position::Timestamp(positions.values().copied().min().unwrap_or_default())
            }
            Place::Sites(numbers) => Position::Sites(numbers.clone()),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Shards(positions) => {
                write!(formatter, "{OF_SHARDS}.{}", self.keyspace.0)?;
                for (shard, Timestamp { micros, client }) in positions {
                    write!(formatter, ".{}-{micros:016x}{:016x}", shard.0, client.0)?;
                }
            }
            Place::Sites(numbers) => {
                write!(formatter, "{OF_SITES}.{}.{}-", self.keyspace.0, numbers.len())?;
                for number in numbers {
                    write!(formatter, "{number:016x}")?;
                }
            }
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
    let version = fields.next();
    match version {
        Some(OF_SHARDS | OF_SITES) => {}
        Some(other) if other.bytes().all(|byte| byte.is_ascii_digit()) && !other.is_empty() => {
            return Err("it has a form that this version does not know");
        }
        _ => return Err("it does not begin with the version of its form"),
    }
    let keyspace = KeyspaceId(fields.next().and_then(number).ok_or("the number of its keyspace is none")?);
    let place = match version {
        Some(OF_SITES) => Place::Sites(parse_sites(fields)?),
        _ => Place::Shards(parse_shards(fields)?),
    };
    Ok(Cursor { keyspace, place })
}

/// The digits of so many numbers: of a fixed length, so that a text that was cut off is not taken for an earlier cursor.
fn numbers(digits: &str, count: usize) -> Option<Vec<u64>> {
    let is_whole = digits.len() == 16 * count && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then_some(())?;
    (0..count).map(|at| u64::from_str_radix(&digits[16 * at..16 * (at + 1)], 16).ok()).collect()
}

fn parse_sites<'a>(mut fields: impl Iterator<Item = &'a str>) -> Result<Vec<u64>, &'static str> {
    let field = fields.next().ok_or("it has no numbers of sites")?;
    let (count, digits) = field.split_once('-').ok_or("its numbers of sites are none")?;
    let count = number(count).map(|count| count as usize).filter(|count| *count <= SITES_MAX);
    let count = count.ok_or("it has no number of sites, or names more than a keyspace can have")?;
    let numbers = numbers(digits, count)
        .ok_or("its numbers have not 16 hexadecimal digits for each site: was its end cut off?")?;
    if numbers.last() == Some(&0) {
        return Err("it ends with a site of which it says nothing");
    }
    match fields.next() {
        Some(_) => Err("something stands behind its end"),
        None => Ok(numbers),
    }
}

fn parse_shards<'a>(
    fields: impl Iterator<Item = &'a str>,
) -> Result<BTreeMap<ShardId, Timestamp>, &'static str> {
    let mut positions = BTreeMap::new();
    for field in fields {
        let (shard, digits) = field.split_once('-').ok_or("a position of it has no shard")?;
        let shard = ShardId(number(shard).ok_or("a shard of it is not a number")?);
        let halves = numbers(digits, 2)
            .ok_or("a position of it has not 32 hexadecimal digits: was its end cut off?")?;
        let position = Timestamp { micros: halves[0], client: ClientId(halves[1]) };
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
        false => Ok(positions),
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
        Cursor { keyspace: KeyspaceId(7), place: Place::Shards(positions.into()) }
    }

    fn of_sites(numbers: &[u64]) -> Cursor {
        Cursor { keyspace: KeyspaceId(7), place: Place::Sites(numbers.to_vec()) }
    }

    #[test]
    fn a_cursor_is_read_back_from_its_text() {
        let text = cursor().to_string();
        assert_eq!(text, "1.7.12-000000000005f3a60000000000000000.13-0000000000000009ffffffffffffffff");
        assert_eq!(text.parse(), Ok(cursor()));
        assert_eq!(format!(" {text}\n").parse(), Ok(cursor()));
        for (numbers, text) in
            [(&[5, 0, 3][..], "2.7.3-000000000000000500000000000000000000000000000003"), (&[], "2.7.0-")]
        {
            assert_eq!(of_sites(numbers).to_string(), text);
            assert_eq!(text.parse(), Ok(of_sites(numbers)));
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused_with_the_reason() {
        let position = "000000000005f3a60000000000000000";
        let table = [
            (String::new(), "it does not begin with the version of its form"),
            (format!("3.7.12-{position}"), "it has a form that this version does not know"),
            ("2.7".to_owned(), "it has no numbers of sites"),
            (
                format!("2.7.2-{}", &position[..31]),
                "its numbers have not 16 hexadecimal digits for each site: was its end cut off?",
            ),
            (
                format!("2.7.3-{position}"),
                "its numbers have not 16 hexadecimal digits for each site: was its end cut off?",
            ),
            (format!("2.7.2-{position}"), "it ends with a site of which it says nothing"),
            (
                format!("2.7.9999-{position}"),
                "it has no number of sites, or names more than a keyspace can have",
            ),
            ("2.7.0-.".to_owned(), "something stands behind its end"),
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

    fn take(cursor: &mut Cursor, shard: u32, from: Timestamp, to: Timestamp) -> bool {
        cursor.advance(Some(ShardId(shard)), &from.into(), &to.into())
    }

    #[test]
    fn stretches_are_taken_one_after_the_other_and_the_least_position_is_resolved() {
        let mut cursor = cursor();
        assert_eq!(cursor.resolved(), at(9, u64::MAX).into());
        assert!(take(&mut cursor, 13, at(9, u64::MAX), at(0x6_0000, 0)));
        assert_eq!(
            (cursor.resolved(), cursor.position(Some(ShardId(13)))),
            (at(0x5_f3a6, 0).into(), Some(at(0x6_0000, 0).into()))
        );
        let mut sites = of_sites(&[5, 3]);
        let behind = |numbers: &[u64]| Position::Sites(numbers.to_vec());
        assert!(sites.advance(None, &behind(&[5, 3]), &behind(&[5, 4, 1])));
        assert_eq!(sites, of_sites(&[5, 4, 1]));
    }

    #[test]
    #[should_panic(expected = "are taken where those up to")]
    fn a_stretch_that_leaves_something_out_is_not_taken() {
        take(&mut cursor(), 12, at(0x6_0000, 0), at(0x7_0000, 0));
    }
}
