//! The record in the catalogue of a keyspace that was dropped: enough to bring it back, and the word that its data may go.
//!
//! A replica is deleted because its keyspace is recorded here as [`DropStage::Purged`], and for no other reason: a catalogue that is
//! empty, or older than it was, deletes nothing.
//!
//! # Whose clock
//! No clock's. The delay is *waited*, and the record counts how much of it was. A node that sees a record waits a step of it by its
//! monotonic clock, and then adds that step, on the condition that the record is still the one that it has seen. A step therefore
//! lies between two writes of the record, steps of different nodes never count twice, and the sum is at most the time that has
//! really passed. A wall clock that is wrong, at a node or at the client, deletes nothing early; nodes that are stopped delay it. See
//! ADR 0038.

use std::time::Duration;

use quorate_core::topology::{KEYSPACE_NAME_BYTES_MAX, Keyspace};
use quorate_core::{ClockTime, Key, KeyRange, KeyspaceId};

use super::{KEYSPACE_KEY_PREFIX, keyspace_range};
use quorate_codec::Fault;
use quorate_codec::field::{KeyBytes, Nested, Optional, Repeated, Text, Varint};
use quorate_codec::{choices, message};

/// The beginning of the keys of dropped keyspaces.
const DROPPED_KEY_PREFIX: &str = "dropped/";

/// How long a dropped keyspace can be brought back if nothing else is asked for.
pub const DELETE_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Into how many steps the delay is divided: so many writes at most, and a restart of all nodes at once delays it by a step.
const STEPS: u32 = 24;

/// No step is shorter, unless it is the last one.
const STEP_MIN: Duration = Duration::from_secs(1);

/// A keyspace that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// The keyspace.
    pub id: KeyspaceId,
    /// Its name when it was dropped.
    pub name: String,
    /// Its stage: whether it may come back.
    pub stage: DropStage,
    /// When it was dropped, by the clock of the client: for people, and to tell the latest of several. Nothing is deleted by it.
    pub dropped_at: ClockTime,
    /// How long it can be brought back.
    pub delete_after: Duration,
    /// How much of that was waited for certain.
    pub waited: Duration,
    /// How it was defined; none once it is purged, or if nobody knew that any more.
    pub definition: Option<Keyspace>,
    /// The names that it had before, oldest first: the directories of replicas bear the name of the time of their creation.
    pub former_names: Vec<String>,
    /// The keys of the catalogue that go with it, ascending.
    pub procedures: Vec<Key>,
}

/// The stage of a keyspace that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropStage {
    /// It serves no client, and can be brought back.
    Waiting,
    /// Its replicas are deleted wherever they are found. It cannot be brought back.
    Purged,
    /// It was brought back under another name: the record keeps the former names.
    Restored,
}

impl DropStage {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            DropStage::Waiting => "waiting",
            DropStage::Purged => "purged",
            DropStage::Restored => "restored",
        }
    }
}

choices!(DropStage {
    1 "waiting" [DropStage::Waiting],
    2 "purged" [DropStage::Purged],
    3 "restored" [DropStage::Restored],
});

message!(Dropped, "Dropped", {
    1 id: Varint,
    2 name: Text,
    3 stage: Varint,
    4 dropped_at: Varint,
    5 delete_after: Varint,
    6 waited: Varint,
    7 definition: Optional<Nested>,
    8 former_names: Repeated<Text>,
    9 procedures: Repeated<KeyBytes>,
}, check validate_dropped);

fn validate_dropped(dropped: &Dropped) -> Result<(), Fault> {
    let is_name = |name: &String| !name.is_empty() && name.len() <= KEYSPACE_NAME_BYTES_MAX;
    if !is_name(&dropped.name) || !dropped.former_names.iter().all(is_name) {
        Err(Fault::Meaningless("the name of a keyspace is empty or too long"))
    } else if dropped.definition.as_ref().is_some_and(|definition| definition.id != dropped.id) {
        Err(Fault::Meaningless("what was dropped is defined as another keyspace"))
    } else if !dropped.procedures.is_sorted_by(|one, next| one < next) {
        Err(Fault::Meaningless("the keys that go with a dropped keyspace are not ascending"))
    } else {
        Ok(())
    }
}

impl Dropped {
    /// True if the keyspace has, or had, this name.
    pub fn bears(&self, name: &str) -> bool {
        self.name == name || self.former_names.iter().any(|known| known == name)
    }

    /// How long the delay still takes at least; none if nothing is waited for.
    pub fn remaining(&self) -> Option<Duration> {
        (self.stage == DropStage::Waiting).then(|| self.delete_after.saturating_sub(self.waited))
    }

    /// How long a node waits before it writes the record anew; none if nothing is waited for.
    pub fn step(&self) -> Option<Duration> {
        Some(self.remaining()?.min((self.delete_after / STEPS).max(STEP_MIN)))
    }

    /// The record once so much more was waited: purged if that is all.
    #[must_use]
    pub fn after_waiting(&self, step: Duration) -> Dropped {
        let waited = Dropped { waited: self.waited.saturating_add(step), ..self.clone() };
        match waited.remaining() {
            Some(Duration::ZERO) => waited.purged(),
            _ => waited,
        }
    }

    /// The record once nothing is waited for any more. It stays, because a node that was away learns from it that its replicas may
    /// go; so it is short.
    #[must_use]
    pub fn purged(self) -> Dropped {
        Dropped { stage: DropStage::Purged, definition: None, procedures: Vec::new(), ..self }
    }
}

/// The key under which it is recorded that a keyspace was dropped.
pub fn dropped_key(keyspace: KeyspaceId) -> Key {
    Key::from(format!("{DROPPED_KEY_PREFIX}{:010}", keyspace.0))
}

/// The range of the keys of all keyspaces that were dropped.
pub fn dropped_range() -> KeyRange {
    // '0' follows '/'.
    KeyRange { from: Key::from(DROPPED_KEY_PREFIX), to: Some(Key::from("dropped0")) }
}

/// A range that holds the keys of all keyspaces and of those that were dropped, and others. A copy of it never shows a keyspace as
/// neither there nor dropped because one half of it is older than the other.
pub fn keyspaces_and_dropped_range() -> KeyRange {
    KeyRange { from: dropped_range().from, to: keyspace_range().to }
}

/// True if this is the key of a keyspace.
pub fn is_keyspace_key(key: &Key) -> bool {
    key.as_slice().starts_with(KEYSPACE_KEY_PREFIX.as_bytes())
}

/// True if this is the key of a keyspace that was dropped.
pub fn is_dropped_key(key: &Key) -> bool {
    key.as_slice().starts_with(DROPPED_KEY_PREFIX.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dropped(delete_after: Duration) -> Dropped {
        Dropped {
            id: KeyspaceId(3),
            name: "accounts".to_owned(),
            stage: DropStage::Waiting,
            dropped_at: ClockTime::from_micros(7),
            delete_after,
            waited: Duration::ZERO,
            definition: None,
            former_names: vec!["konten".to_owned()],
            procedures: Vec::new(),
        }
    }

    #[test]
    fn a_record_is_purged_once_its_steps_come_to_the_delay() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let table = [
            (hours(24), 24, hours(1)),
            (Duration::from_secs(24), 24, Duration::from_secs(1)),
            (Duration::from_millis(2_500), 3, Duration::from_secs(1)),
            (Duration::from_millis(300), 1, Duration::from_millis(300)),
        ];
        for (delete_after, steps, first) in table {
            let mut record = dropped(delete_after);
            let mut waited = Duration::ZERO;
            assert_eq!(record.step(), Some(first), "{delete_after:?}");
            for _ in 0..steps {
                let step = record.step().expect("it is waited for");
                assert!(record.stage == DropStage::Waiting && step > Duration::ZERO, "{record:?}");
                waited += step;
                record = record.after_waiting(step);
            }
            assert_eq!((record.stage, record.step()), (DropStage::Purged, None), "{delete_after:?}");
            assert_eq!(waited, delete_after, "neither too early nor too late");
        }
    }

    #[test]
    fn a_record_knows_the_names_of_its_keyspace() {
        let record = dropped(DELETE_AFTER);
        assert!(record.bears("accounts") && record.bears("konten") && !record.bears("account"));
    }

    #[test]
    fn one_range_holds_both() {
        let range = keyspaces_and_dropped_range();
        for key in
            [dropped_key(KeyspaceId(0)), dropped_key(KeyspaceId(u32::MAX)), super::super::keyspace_key("~")]
        {
            assert!(range.contains(&key), "{key:?}");
            assert!(is_keyspace_key(&key) != is_dropped_key(&key), "{key:?}");
        }
        assert!(dropped_range().contains(&dropped_key(KeyspaceId(u32::MAX))));
        assert!(dropped_key(KeyspaceId(9)) < dropped_key(KeyspaceId(10)));
    }
}
