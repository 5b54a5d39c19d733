//! Stored procedures: what they are, and what they see of the shard that they run at.
//!
//! A procedure is called with arguments at every shard that takes part in a transaction, runs to its end
//! there, and answers. It sees the keys of that shard as of the place of the transaction in the serial order,
//! and nothing else: no clock, no randomness, no other shard. So all replicas come to the same.
//!
//! A procedure may *refuse*, as long as it has changed nothing: what it has written until then is not kept.
//! Where several shards take part and only one could tell that, the transaction has to be coordinated; of an
//! independent one all refuse or none.
//!
//! The same code is linked with a server or compiled to WebAssembly. Outside its shard it runs over what an interactive transaction has read:
//! see [`fetched`].
//!
//! # To write one
//! ```
//! use quorate_procedure::{Answer, Procedure, Stop, Store};
//!
//! /// Counts how often it was called, and says so.
//! struct Count;
//!
//! impl Procedure for Count {
//!     fn call(&self, store: &mut dyn Store, _arguments: &[u8]) -> Result<Answer, Stop> {
//!         let value = store.get(b"count")?.unwrap_or_default();
//!         let count = value.try_into().map_or(0, u64::from_le_bytes).wrapping_add(1);
//!         store.put(b"count", &count.to_le_bytes())?;
//!         Ok(Answer::Done(count.to_le_bytes().to_vec()))
//!     }
//! }
//! ```
//!
//! For WebAssembly this stands in a crate of type `cdylib`, and of no other or it is not optimised as a whole, that is `no_std`
//! there and names its procedure once:
//!
//! ```ignore
//! #![cfg_attr(target_arch = "wasm32", no_std)]
//!
//! quorate_procedure::export!(Count);
//! ```
//!
//! `cargo build --release --target wasm32-unknown-unknown` makes the module. Code with floating-point
//! instructions is refused when the module is loaded; [`export!`] brings a memory allocator and the handler
//! of panics. `docs/procedures.md` says what other languages need to know.

#![no_std]

extern crate alloc;

mod export;
pub mod fetched;
#[cfg(target_arch = "wasm32")]
pub mod guest;
pub mod memory;
mod store;

use alloc::vec::Vec;

pub use fetched::Needs;
pub use memory::Memory;
pub use store::{Direction, Pair, Stop, Store};

/// The result of a procedure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has done its work.
    Done(Vec<u8>),
    /// It refuses, for this reason, and none of its writes is kept.
    Refused(Vec<u8>),
}

/// A procedure.
pub trait Procedure {
    /// Runs at one shard.
    ///
    /// # Errors
    /// An error of the store is passed on: the caller decides what follows.
    fn call(&self, store: &mut dyn Store, arguments: &[u8]) -> Result<Answer, Stop>;

    /// All keys that a call with these arguments may touch, wherever it stands in the serial order (the paper's
    /// `forcePrepare`). Clients that name no keys ask for it too, and call the procedure at the shards that hold
    /// these keys: there it may touch no other. A footprint that is wider than it needs to be costs conflicts while a
    /// shard waits for one that is lost, and shards that need not take part.
    fn footprint(&self, arguments: &[u8]) -> Footprint {
        let _ = arguments;
        Footprint::Everything
    }

    /// True if a call with these arguments leaves no more behind than was there: it only reads, deletes, or changes what is small. Such calls are let in where
    /// memory is short.
    fn frees(&self, arguments: &[u8]) -> bool {
        let _ = arguments;
        false
    }

    /// The keys and ranges that a call with these arguments reads for certain, as far as the arguments name them. A client that runs the procedure over
    /// what it has [`fetched`] begins with these; a call finds out the others.
    fn named(&self, arguments: &[u8]) -> Needs {
        let _ = arguments;
        Needs::default()
    }
}

/// The keys that a call may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Footprint {
    /// Any key.
    Everything,
    /// These keys, and these ranges of keys: from the first up to, and without, the second.
    Keys {
        /// Single keys.
        keys: Vec<Vec<u8>>,
        /// Ranges.
        ranges: Vec<(Vec<u8>, Vec<u8>)>,
    },
}
