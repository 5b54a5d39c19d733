//! Which versions of keys are known to have been the newest until when (TAPIR paper, section 6.1).
//!
//! A read timestamp alone says that nothing will be written below it. It does not say what was read: a replica that missed
//! the commit of the version has an older one, and would take that for valid (T16). So the version is kept with it.
//!
//! This is knowledge, not state: any of it may be forgotten at any time, and is when there is too much.

use quorate_core::hash::FixedMap;
use quorate_core::{Key, Timestamp};

/// So many keys are remembered.
const KEYS_MAX: usize = 65_536;

/// For how long a version is known to have been the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The version; [`Timestamp::ZERO`] if the key was absent.
    pub version: Timestamp,
    /// No other version will ever lie between `version` and this timestamp.
    pub until: Timestamp,
}

/// The versions of a shard that were validated.
#[derive(Debug, Default)]
pub struct ValidatedVersions {
    keys: FixedMap<Key, Validity>,
}

impl ValidatedVersions {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that `version` of a key is the newest up to `until`.
    pub fn validate(&mut self, key: &Key, version: Timestamp, until: Timestamp) {
        if let Some(known) = self.keys.get_mut(key.as_slice()) {
            if until > known.until {
                *known = Validity { version, until };
            }
            return;
        }
        if self.keys.len() >= KEYS_MAX {
            self.keys.clear();
        }
        self.keys.insert(key.clone(), Validity { version, until });
    }

    /// The validity of the newest version of a key.
    pub fn of(&self, key: &[u8]) -> Option<Validity> {
        self.keys.get(key).copied()
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::ClientId;

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    #[test]
    fn the_latest_knowledge_counts() {
        let mut validated = ValidatedVersions::new();
        let key = Key::from("k");
        assert_eq!(validated.of(&key), None);
        validated.validate(&key, at(5), at(9));
        validated.validate(&key, at(2), at(4));
        assert_eq!(validated.of(&key), Some(Validity { version: at(5), until: at(9) }));
        validated.validate(&key, at(5), at(12));
        assert_eq!(validated.of(&key), Some(Validity { version: at(5), until: at(12) }));
    }

    #[test]
    fn memory_is_bounded() {
        let mut validated = ValidatedVersions::new();
        for number in 0..3 * KEYS_MAX {
            validated.validate(&Key::from(number.to_string()), at(1), at(2));
        }
        assert!(validated.keys.len() <= KEYS_MAX);
    }
}
