//! Counts its calls: the example of `docs/procedures.md`.

// Page: count
#![cfg_attr(target_arch = "wasm32", no_std)]
extern crate alloc;

use quorate_procedure::{Answer, Procedure, Stop, Store};

/// Counts its calls.
pub struct Count;

impl Procedure for Count {
    fn call(&self, store: &mut dyn Store, _arguments: &[u8]) -> Result<Answer, Stop> {
        let value = store.get(b"count")?.unwrap_or_default();
        let count = value.try_into().map_or(0, u64::from_le_bytes).wrapping_add(1);
        store.put(b"count", &count.to_le_bytes())?;
        Ok(Answer::Done(count.to_le_bytes().to_vec()))
    }
}

quorate_procedure::export!(Count);
// Page ends.
