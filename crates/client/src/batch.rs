//! One-shot transactions: all that is to be read, compared and written is known beforehand, so no closure is needed.

use quorate_core::{Key, Value};

use crate::transaction::Receipt;

/// Reads, comparisons and writes that happen at once, or not at all.
///
/// ```no_run
/// # async fn example(accounts: quorate::Keyspace) -> quorate::Result<()> {
/// use quorate::Batch;
///
/// let transfer = Batch::new().expect("alice", "100").expect_absent("bob").put("alice", "60").put("bob", "40");
/// let applied = accounts.apply(transfer).await?;
/// assert!(applied.holds || applied.values.is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    pub(crate) reads: Vec<Key>,
    pub(crate) expected: Vec<(Key, Option<Value>)>,
    pub(crate) writes: Vec<(Key, Option<Value>)>,
}

/// What a [`Batch`] has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// True if every comparison held, so that the writes were made.
    pub holds: bool,
    /// What the keys of [`Batch::read`] held before the writes, in the order in which they were named.
    pub values: Vec<Option<Value>>,
    /// The committed transaction; also a batch whose comparisons did not hold has read a consistent state.
    pub receipt: Receipt,
}

impl Batch {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also reads this key.
    #[must_use]
    pub fn read(mut self, key: impl AsRef<[u8]>) -> Self {
        self.reads.push(Key::from(key.as_ref()));
        self
    }

    /// Writes only if this key holds exactly this value.
    #[must_use]
    pub fn expect(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.expected.push((Key::from(key.as_ref()), Some(Value::copy_from_slice(value.as_ref()))));
        self
    }

    /// Writes only if this key is absent.
    #[must_use]
    pub fn expect_absent(mut self, key: impl AsRef<[u8]>) -> Self {
        self.expected.push((Key::from(key.as_ref()), None));
        self
    }

    /// Writes this key.
    #[must_use]
    pub fn put(mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Self {
        self.writes.push((Key::from(key.as_ref()), Some(Value::copy_from_slice(value.as_ref()))));
        self
    }

    /// Deletes this key.
    #[must_use]
    pub fn delete(mut self, key: impl AsRef<[u8]>) -> Self {
        self.writes.push((Key::from(key.as_ref()), None));
        self
    }
}
