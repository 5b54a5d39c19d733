//! Secondary indexes: keys are found by a part of their values.
//!
//! ```text
//!   create: announce ─► every writer keeps it ─► build ─► entries of what was there ─► ready
//!   drop:   nobody keeps it ─► its entries are deleted ─► it is gone
//! ```
//!
//! Each arrow is a transaction over the index lists of all shards ([`quorate_index`], ADR 0084). This client keeps the list that it has read last, and learns of a later one as
//! soon as a transaction that writes meets it.
//!
//! | file | role |
//! |---|---|
//! | `known` | the lists, as far as this client knows them |
//! | `changing` | lists are changed |
//! | `building` | entries are added for what was there before, and deleted |
//! | `error` | why not |
//!
//! The part of a transaction is in `transaction/indexes`.

mod building;
mod changing;
mod error;
pub(crate) mod known;

pub use building::IndexProgress;
pub use changing::IndexOptions;
pub use error::IndexFault;
