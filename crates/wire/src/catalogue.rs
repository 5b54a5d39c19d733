//! How the built-in keyspace `_system` stores what is known of the other keyspaces.
//!
//! | key | value |
//! |---|---|
//! | `keyspace/<name>` | the [`Keyspace`](quorate_core::topology::Keyspace), encoded |
//! | `next/keyspace` | the id of the next keyspace, four bytes, the least significant first |
//! | `next/shard` | the id of the next shard, likewise |
//!
//! Creating a keyspace is one strict transaction that reads and writes all three, so ids are never used twice.

use quorate_core::{Key, KeyRange, Value};

use crate::error::{DecodeError, Fault};

/// The name of the built-in keyspace.
pub const SYSTEM_KEYSPACE: &str = "_system";

/// What the keys of keyspaces begin with.
pub const KEYSPACE_KEY_PREFIX: &str = "keyspace/";

/// The key of the counter of keyspaces.
pub const NEXT_KEYSPACE_KEY: &[u8] = b"next/keyspace";

/// The key of the counter of shards.
pub const NEXT_SHARD_KEY: &[u8] = b"next/shard";

/// The key under which a keyspace is stored.
pub fn keyspace_key(name: &str) -> Key {
    Key::from(format!("{KEYSPACE_KEY_PREFIX}{name}"))
}

/// The range of the keys of all keyspaces.
pub fn keyspace_range() -> KeyRange {
    KeyRange {
        from: Key::from(KEYSPACE_KEY_PREFIX),
        // The prefix with its last byte incremented: '0' follows '/'.
        to: Some(Key::from("keyspace0")),
    }
}

/// The value of a counter.
pub fn encode_counter(counter: u32) -> Value {
    Value::copy_from_slice(&counter.to_le_bytes())
}

/// Reads back what [`encode_counter`] has written.
///
/// # Errors
/// The value does not have four bytes.
pub fn decode_counter(value: &[u8]) -> Result<u32, DecodeError> {
    let fault = Fault::Meaningless("a counter has four bytes");
    let bytes = value.try_into().map_err(|_| DecodeError::new("counter", "", fault))?;
    Ok(u32::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_of_keyspaces_holds_their_keys_and_no_counters() {
        let range = keyspace_range();
        for name in ["a", "_system", "ümlaut", "~"] {
            assert!(range.contains(&keyspace_key(name)), "{name}");
        }
        assert!(!range.contains(NEXT_KEYSPACE_KEY));
        assert!(!range.contains(NEXT_SHARD_KEY));
    }

    #[test]
    fn counters_are_read_back_and_others_refused() {
        assert_eq!(decode_counter(&encode_counter(0x0102_0304)), Ok(0x0102_0304));
        assert!(decode_counter(b"12345").unwrap_err().to_string().contains("four bytes"));
    }
}
