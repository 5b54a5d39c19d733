//! Runs stored procedures that were compiled to WebAssembly.
//!
//! ```text
//!   bytes ──check──▶ Module ──call──▶ instance: get, put, delete, scan ──▶ Store
//!                                        │
//!                                        └─ fuel, memory and depth run out: Stop::Failed
//! ```
//!
//! A [`Module`] is a [`Procedure`](quorate_procedure::Procedure) like one that is linked with the server.
//! Its effects follow from the keys that it sees and from its arguments:
//!
//! - It imports the functions of one interface, and nothing else: no clock, no randomness, no other module.
//! - It has no floating-point instructions, whose results are not the same bits everywhere ([ADR 0030] has
//!   the reasons).
//! - Each call begins with the memory, the globals and the table that the module declares. An instance is
//!   used again, but what a call has written is undone before the next.
//! - An event that stops a call stops it at once: the guest runs no further, so it cannot hide it.
//!
//! The author of a module may be hostile. The cost of compiling and running it is bounded by [`Limits`].
//!
//! [ADR 0030]: https://github.com/quorate/quorate/blob/main/docs/adr/0030-webassembly.md

mod check;
mod error;
mod host;
mod instance;
mod lent;
mod limits;
mod module;
mod rewrite;

pub use error::{Failure, Invalid};
pub use limits::Limits;
pub use module::Module;
