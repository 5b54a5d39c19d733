//! Keys.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// Keys up to this length lie in the handle itself.
const INLINE_BYTES_MAX: usize = 23;

/// A key: any bytes, ordered lexicographically, at most [`KEY_BYTES_MAX`](crate::transaction::KEY_BYTES_MAX).
///
/// Cheap to clone. Most keys are short, and every index holds and compares many: short ones lie in the handle itself, so
/// that comparing them costs no cache miss; longer ones are shared.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    /// The key, zeros, and its length in the last byte: such arrays are in the order of their keys.
    Inline([u8; INLINE_BYTES_MAX + 1]),
    Shared(Bytes),
}

impl Key {
    /// A key with these bytes.
    pub fn copy_from_slice(key: &[u8]) -> Self {
        Self::inline(key).unwrap_or_else(|| Key(Repr::Shared(Bytes::copy_from_slice(key))))
    }

    /// The bytes of the key.
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline(padded) => &padded[..usize::from(padded[INLINE_BYTES_MAX])],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// True if the key lies in its handle, and takes no memory besides.
    pub fn is_inline(&self) -> bool {
        matches!(self.0, Repr::Inline(_))
    }

    fn inline(key: &[u8]) -> Option<Self> {
        if key.len() > INLINE_BYTES_MAX {
            return None;
        }
        let mut padded = [0; INLINE_BYTES_MAX + 1];
        padded[..key.len()].copy_from_slice(key);
        padded[INLINE_BYTES_MAX] = key.len() as u8;
        Some(Key(Repr::Inline(padded)))
    }
}

impl Default for Key {
    fn default() -> Self {
        Key(Repr::Inline([0; INLINE_BYTES_MAX + 1]))
    }
}

impl Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Inline(ours), Repr::Inline(theirs)) => ours == theirs,
            _ => self.as_slice() == other.as_slice(),
        }
    }
}

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Repr::Inline(ours), Repr::Inline(theirs)) => numbers(ours).cmp(numbers(theirs)),
            _ => self.as_slice().cmp(other.as_slice()),
        }
    }
}

/// A padded key as numbers, which are in the order of such arrays: to compare these takes a few instructions, and no call as for bytes.
fn numbers(padded: &[u8; INLINE_BYTES_MAX + 1]) -> impl Iterator<Item = u64> {
    padded.as_chunks().0.iter().map(|chunk| u64::from_be_bytes(*chunk))
}

impl Hash for Key {
    /// As the bytes alone, so that tables can be asked for a slice.
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "b\"{}\"", self.escape_ascii())
    }
}

impl PartialEq<[u8]> for Key {
    fn eq(&self, other: &[u8]) -> bool {
        self.as_slice() == other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.as_slice() == other.as_bytes()
    }
}

impl From<&[u8]> for Key {
    fn from(key: &[u8]) -> Self {
        Key::copy_from_slice(key)
    }
}

impl<const N: usize> From<&[u8; N]> for Key {
    fn from(key: &[u8; N]) -> Self {
        Key::copy_from_slice(key)
    }
}

impl From<&str> for Key {
    fn from(key: &str) -> Self {
        Key::copy_from_slice(key.as_bytes())
    }
}

impl From<String> for Key {
    fn from(key: String) -> Self {
        Key::from(Bytes::from(key))
    }
}

impl From<Vec<u8>> for Key {
    fn from(key: Vec<u8>) -> Self {
        Key::from(Bytes::from(key))
    }
}

impl From<Bytes> for Key {
    fn from(key: Bytes) -> Self {
        Self::inline(&key).unwrap_or(Key(Repr::Shared(key)))
    }
}

impl From<Key> for Bytes {
    fn from(key: Key) -> Self {
        match key.0 {
            Repr::Inline(_) => Bytes::copy_from_slice(&key),
            Repr::Shared(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_handle_is_no_larger_than_the_bytes_that_it_may_share() {
        assert_eq!(size_of::<Key>(), size_of::<Bytes>());
    }

    #[test]
    fn long_keys_are_shared() {
        let long = Key::from(vec![b'k'; INLINE_BYTES_MAX + 1]);
        assert_eq!(long.as_slice().as_ptr(), long.clone().as_slice().as_ptr());
    }

    /// Few different bytes, zeros among them, so that keys often begin alike.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(0u8..3, 0..4),
            proptest::collection::vec(0u8..3, 20..28),
            proptest::collection::vec(any::<u8>(), 0..50),
        ]
    }

    proptest! {
        #[test]
        fn keys_are_their_bytes(one in bytes(), other in bytes()) {
            let (key, other_key) = (Key::from(one.clone()), Key::copy_from_slice(&other));
            prop_assert_eq!(key.as_slice(), &one[..]);
            prop_assert_eq!(key.cmp(&other_key), one.cmp(&other));
            prop_assert_eq!(key == other_key, one == other);
            prop_assert_eq!(Bytes::from(key), one);
        }
    }
}
