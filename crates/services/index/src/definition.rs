//! The definitions of indexes, and the list of them that stands at each shard.

use quorate_core::expiry::Envelope;
use quorate_core::{Key, Value};
use serde_json::{Value as Json, json};

use crate::entry::{Entries, entry_of};
use crate::source::{InvalidSource, Source};

/// The most indexes of a keyspace.
pub const INDEXES_MAX: usize = 16;

/// The longest name of an index, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Keyspaces of more shards have no indexes: each change of the list is one transaction over all of them.
pub const SHARDS_MAX: usize = 256;

/// The name of the index on the expiries of values. Names of users begin with a letter.
const EXPIRIES: &str = "_expiries";

/// The version of the form in which lists are written.
const FORMAT: u64 = 1;

/// How far an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Every transaction that writes keeps it, but transactions that do not know it may be under way.
    Announced,
    /// None of those is left, and the entries of keys that were there before are added.
    Building,
    /// It has the entries of all keys, and can be read.
    Ready,
    /// Nobody keeps it any more, and its entries are deleted.
    Dropping,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Stage; 4] = [Stage::Announced, Stage::Building, Stage::Ready, Stage::Dropping];

    /// The name, as people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Announced => "announced",
            Stage::Building => "building",
            Stage::Ready => "ready",
            Stage::Dropping => "dropping",
        }
    }
}

quorate_core::names!(Stage, "stage");

/// The fate of a value that does not parse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unparsable {
    /// A transaction that would write it is refused.
    #[default]
    Refuse,
    /// It is written, and has no entry.
    LeaveOut,
}

impl Unparsable {
    /// Every choice.
    pub const ALL: [Unparsable; 2] = [Unparsable::Refuse, Unparsable::LeaveOut];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Unparsable::Refuse => "refuse",
            Unparsable::LeaveOut => "leave-out",
        }
    }
}

quorate_core::names!(Unparsable, "choice");

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its number, which is never given again in its keyspace.
    pub id: u32,
    /// Its name, unique among those of its keyspace.
    pub name: String,
    /// The part of a value by which keys are found.
    pub on: Source,
    /// True if a value belongs to one key only.
    pub unique: bool,
    /// What becomes of values that do not parse.
    pub unparsable: Unparsable,
    /// How far it is.
    pub stage: Stage,
    /// True if the values of the keyspace have envelopes. No list says so of an index: it is so of all, if one of them is on expiries.
    pub in_envelopes: bool,
}

/// The indexes of a keyspace, as each of its shards has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexList {
    /// All of them, in the order of their creation.
    pub indexes: Vec<Definition>,
    /// The number of the last index that was created.
    pub last: u32,
}

/// Why an index cannot be defined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDefinition {
    /// The name cannot name an index.
    #[error(
        "{name:?} cannot name an index: a name begins with a letter, and has up to 64 letters, digits, '-', '_' and '.'"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// There is another index of that name.
    #[error("there is an index {name:?} already, on {on}{}: drop it first, or choose another name", if *is_ready { "" } else { ", which is not ready" })]
    Exists {
        /// The name.
        name: String,
        /// What it is on.
        on: String,
        /// True if it is ready.
        is_ready: bool,
    },
    /// The index belongs to keyspaces whose values expire.
    #[error("an expiring keyspace keeps an index on expiries by itself, and no other keyspace can have one")]
    OnExpiries,
    /// There are too many.
    #[error("a keyspace has at most 16 indexes: drop one first")]
    TooMany,
}

/// A list that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index list cannot be read: {0}; a later version of this program may have written it")]
pub struct Malformed(pub String);

impl Definition {
    /// An index that is announced, by default not unique and refusing values that do not parse.
    pub fn new(id: u32, name: &str, on: Source) -> Self {
        let (name, unparsable) = (name.to_owned(), Unparsable::default());
        Definition { id, name, on, unique: false, unparsable, stage: Stage::Announced, in_envelopes: false }
    }

    /// True if it is on the expiries of values. Then it belongs to the keyspace, and nobody creates or drops it.
    pub fn is_on_expiries(&self) -> bool {
        self.on == Source::Expiry
    }

    /// True if transactions that write have to keep it.
    pub fn is_kept(&self) -> bool {
        self.stage != Stage::Dropping
    }

    /// The entries of a key that holds this.
    ///
    /// # Errors
    /// The value does not parse; in words that follow "the value of key K".
    pub fn entries_of(&self, key: &Key, value: &[u8]) -> Result<Entries, String> {
        let within = match self.in_envelopes && !self.is_on_expiries() {
            true => Envelope::value_in(value).map_err(|error| error.to_string()),
            false => Ok(value),
        };
        let values = match (within.and_then(|value| self.on.values_of(value)), self.unparsable) {
            (Ok(values), _) => values,
            (Err(_), Unparsable::LeaveOut) => Vec::new(),
            (Err(reason), Unparsable::Refuse) => return Err(reason),
        };
        Ok(values.iter().map(|value| entry_of(self, value, key)).collect())
    }

    fn to_json(&self) -> Json {
        json!({
            "id": self.id,
            "name": self.name,
            "on": self.on.to_string(),
            "unique": self.unique,
            "unparsable": self.unparsable.name(),
            "stage": self.stage.name(),
        })
    }

    fn of_json(json: &Json) -> Result<Self, Malformed> {
        let text = |name: &str| {
            json.get(name).and_then(Json::as_str).ok_or_else(|| Malformed(format!("an index has no {name}")))
        };
        let malformed = |error: &dyn std::error::Error| Malformed(error.to_string());
        let id = json.get("id").and_then(Json::as_u64).and_then(|id| u32::try_from(id).ok());
        let unique = json.get("unique").and_then(Json::as_bool);
        Ok(Definition {
            id: id.ok_or_else(|| Malformed("an index has no number".to_owned()))?,
            name: text("name")?.to_owned(),
            on: text("on")?.parse().map_err(|error: InvalidSource| malformed(&error))?,
            unique: unique
                .ok_or_else(|| Malformed("an index does not say whether it is unique".to_owned()))?,
            unparsable: text("unparsable")?
                .parse()
                .map_err(|error: quorate_core::topology::UnknownName| malformed(&error))?,
            stage: text("stage")?
                .parse()
                .map_err(|error: quorate_core::topology::UnknownName| malformed(&error))?,
            in_envelopes: false,
        })
    }
}

impl IndexList {
    /// True if no transaction has to keep any index.
    pub fn is_idle(&self) -> bool {
        !self.indexes.iter().any(Definition::is_kept)
    }

    /// The index on the expiries of values, which every list of an expiring keyspace has.
    pub fn on_expiries(&self) -> Option<&Definition> {
        self.indexes.iter().find(|index| index.is_on_expiries())
    }

    /// Adds the index on the expiries of values to the list of a keyspace that is empty, where it is ready at once. Says whether it was not there before.
    pub fn keep_expiries(&mut self) -> bool {
        if self.on_expiries().is_some() {
            return false;
        }
        self.last += 1;
        let expiries = Definition::new(self.last, EXPIRIES, Source::Expiry);
        self.indexes.push(Definition { stage: Stage::Ready, ..expiries });
        self.indexes.iter_mut().for_each(|index| index.in_envelopes = true);
        true
    }

    /// The index of this name.
    pub fn find(&self, name: &str) -> Option<&Definition> {
        self.indexes.iter().find(|index| index.name == name)
    }

    /// The index of this name, to be changed.
    pub fn find_mut(&mut self, name: &str) -> Option<&mut Definition> {
        self.indexes.iter_mut().find(|index| index.name == name)
    }

    /// Adds an index, or finds the one that was added by a creation that was interrupted.
    ///
    /// # Errors
    /// The name is none, or is taken by another index, or there are too many.
    pub fn announce(
        &mut self,
        name: &str,
        on: &Source,
        unique: bool,
        unparsable: Unparsable,
    ) -> Result<&Definition, InvalidDefinition> {
        if *on == Source::Expiry {
            return Err(InvalidDefinition::OnExpiries);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let begins = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
        if !begins || name.len() > NAME_BYTES_MAX || !name.bytes().all(allowed) {
            return Err(InvalidDefinition::Name { name: name.chars().take(NAME_BYTES_MAX).collect() });
        }
        if let Some(at) = self.indexes.iter().position(|index| index.name == name) {
            let known = &self.indexes[at];
            let goes_on = matches!(known.stage, Stage::Announced | Stage::Building);
            if goes_on && known.on == *on && known.unique == unique && known.unparsable == unparsable {
                return Ok(&self.indexes[at]);
            }
            let (on, is_ready) = (known.on.to_string(), known.stage == Stage::Ready);
            return Err(InvalidDefinition::Exists { name: name.to_owned(), on, is_ready });
        }
        if self.indexes.len() >= INDEXES_MAX {
            return Err(InvalidDefinition::TooMany);
        }
        self.last += 1;
        let in_envelopes = self.on_expiries().is_some();
        let new =
            Definition { unique, unparsable, in_envelopes, ..Definition::new(self.last, name, on.clone()) };
        self.indexes.push(new);
        Ok(&self.indexes[self.indexes.len() - 1])
    }

    /// The value of the key of a list.
    pub fn encode(&self) -> Value {
        let indexes: Vec<Json> = self.indexes.iter().map(Definition::to_json).collect();
        Value::from(json!({ "format": FORMAT, "last": self.last, "indexes": indexes }).to_string())
    }

    /// Reads a list; where there is none, there is no index.
    ///
    /// # Errors
    /// It is no list, or one of a later version.
    pub fn decode(value: Option<&[u8]>) -> Result<Self, Malformed> {
        let Some(value) = value else { return Ok(IndexList::default()) };
        let json: Json = serde_json::from_slice(value).map_err(|error| Malformed(error.to_string()))?;
        if json.get("format").and_then(Json::as_u64) != Some(FORMAT) {
            return Err(Malformed(format!("it is not of format {FORMAT}")));
        }
        let last = json.get("last").and_then(Json::as_u64).and_then(|last| u32::try_from(last).ok());
        let indexes = json.get("indexes").and_then(Json::as_array);
        match (last, indexes) {
            (Some(last), Some(indexes)) if indexes.len() <= INDEXES_MAX => {
                let mut indexes: Vec<Definition> =
                    indexes.iter().map(Definition::of_json).collect::<Result<_, _>>()?;
                let in_envelopes = indexes.iter().any(Definition::is_on_expiries);
                indexes.iter_mut().for_each(|index| index.in_envelopes = in_envelopes);
                Ok(IndexList { indexes, last })
            }
            _ => Err(Malformed("it lacks its indexes, or has too many".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn announce(list: &mut IndexList, name: &str, on: &str, unique: bool) -> Result<u32, InvalidDefinition> {
        list.announce(name, &on.parse().unwrap(), unique, Unparsable::Refuse).map(|index| index.id)
    }

    #[test]
    fn lists_are_read_back() {
        let mut list = IndexList::default();
        assert_eq!(IndexList::decode(None), Ok(list.clone()));
        announce(&mut list, "by-city", "json:/city", false).unwrap();
        announce(&mut list, "by-id", "bytes:0..8", true).unwrap();
        list.find_mut("by-id").unwrap().stage = Stage::Ready;
        list.find_mut("by-id").unwrap().unparsable = Unparsable::LeaveOut;
        let written = list.encode();
        assert_eq!(IndexList::decode(Some(&written)), Ok(list));
        let text = std::str::from_utf8(&written).unwrap();
        for (right, wrong) in [
            ("\"format\":1", "\"format\":2"),
            ("ready", "steady"),
            ("\"unique\":true", "\"unique\":1"),
            ("bytes:0..8", "bytes:8..0"),
            ("\"last\":2", "\"last\":-2"),
            ("\"id\":1", "\"id\":5000000000"),
        ] {
            let changed = text.replacen(right, wrong, 1);
            assert!(changed != text, "{right} is in {text}");
            assert!(IndexList::decode(Some(changed.as_bytes())).is_err(), "{changed}");
        }
    }

    #[test]
    fn an_expiring_keyspace_indexes_expiries_by_itself_and_values_within_envelopes() {
        let mut list = IndexList::default();
        assert!(list.keep_expiries() && !list.keep_expiries());
        assert_eq!(announce(&mut list, "mine", "expiry:", false), Err(InvalidDefinition::OnExpiries));
        announce(&mut list, "by-city", "json:/city", false).unwrap();
        assert_eq!(IndexList::decode(Some(&list.encode())), Ok(list.clone()));
        assert!(list.indexes.iter().all(|index| index.in_envelopes), "{list:?}");
        let expiry = quorate_core::expiry::Expiry::from_micros(7);
        let value = Value::from_static(b"{\"city\":\"Berlin\"}");
        let (stays, expires) =
            (Envelope::lasting(value.clone()), Envelope { value: value.clone(), expiry: Some(expiry) });
        let count =
            |index: &Definition, value: &Value| index.entries_of(&Key::from("k"), value).map(|of| of.len());
        let [on_expiries, by_city] = &list.indexes[..] else { panic!("{list:?}") };
        assert_eq!(
            (count(on_expiries, &stays.encode()), count(on_expiries, &expires.encode())),
            (Ok(0), Ok(1))
        );
        assert_eq!((count(by_city, &stays.encode()), count(by_city, &expires.encode())), (Ok(1), Ok(1)));
        assert!(count(by_city, &value).unwrap_err().contains("envelope"));
    }

    #[test]
    fn a_creation_that_was_interrupted_goes_on_and_another_one_is_refused() {
        let mut list = IndexList::default();
        assert_eq!(announce(&mut list, "by-city", "json:/city", false), Ok(1));
        assert_eq!(announce(&mut list, "by-city", "json:/city", false), Ok(1));
        assert!(matches!(
            announce(&mut list, "by-city", "json:/town", false),
            Err(InvalidDefinition::Exists { .. })
        ));
        assert!(matches!(
            announce(&mut list, "by-city", "json:/city", true),
            Err(InvalidDefinition::Exists { .. })
        ));
        for stage in [Stage::Ready, Stage::Dropping] {
            list.find_mut("by-city").unwrap().stage = stage;
            assert!(announce(&mut list, "by-city", "json:/city", false).is_err(), "{stage}");
        }
        assert!(list.is_idle());
        for name in ["", "1st", "a b", "ümlaut", &"a".repeat(NAME_BYTES_MAX + 1)] {
            assert!(matches!(announce(&mut list, name, "json:", false), Err(InvalidDefinition::Name { .. })));
        }
        for number in list.indexes.len()..INDEXES_MAX {
            announce(&mut list, &format!("i{number}"), "json:", false).unwrap();
        }
        assert_eq!(announce(&mut list, "more", "json:", false), Err(InvalidDefinition::TooMany));
        list.indexes.remove(0);
        assert_eq!(announce(&mut list, "more", "json:", false), Ok(17), "numbers are never given again");
        assert!(!list.is_idle());
    }
}
