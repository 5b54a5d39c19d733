//! Batches: conditions and steps that are known beforehand.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::values::Octets;

/// Conditions, and steps that are taken one after the other if all conditions hold: all of them at once, or none. Its methods add to it, and give it back.
#[pyclass(frozen, module = "quorate")]
pub(crate) struct Batch(Mutex<quorate::Batch>);

impl Batch {
    pub(crate) fn copy(&self) -> quorate::Batch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn add(&self, add: impl FnOnce(quorate::Batch) -> quorate::Batch) {
        let mut batch = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *batch);
        *batch = add(before);
    }
}

#[pymethods]
impl Batch {
    /// An empty batch.
    #[new]
    fn new() -> Self {
        Batch(Mutex::default())
    }

    /// Condition: this key holds exactly this value.
    fn expect(slf: Bound<'_, Self>, key: Octets, value: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.expect(key, value));
        slf
    }

    /// Condition: this key is absent.
    fn expect_absent(slf: Bound<'_, Self>, key: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.expect_absent(key));
        slf
    }

    /// Condition: this key is there, whatever it holds.
    fn expect_exists(slf: Bound<'_, Self>, key: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.expect_exists(key));
        slf
    }

    /// Condition: this key holds a number in decimal digits that is not less than `number`; an absent key counts as zero.
    fn expect_at_least(slf: Bound<'_, Self>, key: Octets, number: i64) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.expect_at_least(key, number));
        slf
    }

    /// Step: reads this key.
    fn read(slf: Bound<'_, Self>, key: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.read(key));
        slf
    }

    /// Step: writes this key.
    fn put(slf: Bound<'_, Self>, key: Octets, value: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.put(key, value));
        slf
    }

    /// Step: deletes this key. It is no mistake if it is absent.
    fn delete(slf: Bound<'_, Self>, key: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.delete(key));
        slf
    }

    /// Step: adds to the number that this key holds in decimal digits; an absent key counts as zero.
    #[pyo3(signature = (key, by=1))]
    fn increment(slf: Bound<'_, Self>, key: Octets, by: i64) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.increment(key, by));
        slf
    }

    /// Step: adds bytes at the end of the value of this key; an absent key counts as empty.
    fn append(slf: Bound<'_, Self>, key: Octets, value: Octets) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.append(key, value));
        slf
    }

    /// Step: reads up to `limit` keys, from 1 to 10,000, from `start` (included) to `end` (excluded); an empty `end` means to the end.
    #[pyo3(signature = (start, end, limit=1000))]
    fn scan(slf: Bound<'_, Self>, start: Octets, end: Octets, limit: u32) -> Bound<'_, Self> {
        slf.get().add(|batch| batch.scan(start, end, limit));
        slf
    }
}
