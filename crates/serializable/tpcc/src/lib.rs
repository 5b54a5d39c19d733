//! TPC-C, revision 5.11: the orders, payments and deliveries of a wholesale supplier, as stored procedures.
//!
//! Every key begins with its warehouse, so that a shard holds whole warehouses. The work of a transaction at a
//! warehouse is done by one call at the shard that holds it:
//!
//! ```text
//!   Generator ──▶ Transaction ──arguments(local warehouses)──▶ Tpcc, called at each shard that takes part
//!                     │
//!                     └─ warehouses(): one, or for 10.7 % of the mix several
//! ```
//!
//! Outside the shards, a transaction runs over what it has read interactively: it acts for all its warehouses in one call.
//!
//! A new order takes from the stocks of other warehouses now and then, and a payment may be made for a
//! customer of another one. Such a transaction is *independent*: each shard does its part, and none needs the
//! answer of another. The one reason to refuse, an item that does not exist, is seen by all alike, because
//! each warehouse has all items.
//!
//! | module | what |
//! |---|---|
//! | [`scale`] | how large everything is |
//! | [`key`], [`mod@row`] | the layout of keys and rows |
//! | [`population`] | what there is at first (section 4.3) |
//! | [`transaction`] | what a transaction is asked to do, and its arguments |
//! | [`procedures`] | the five procedures (section 2) |
//! | [`generator`] | the mix (section 5.2) |
//! | [`random`] | what is drawn at random, and how (sections 2.1.6 and 4.3.2) |
//! | [`consistency`] | what must hold at any time (section 3.3.2) |
//! | [`bytes`] | arguments and answers as bytes |
//!
//! # Where it differs from the specification
//! - There are no terminals: a driver asks for the next transaction when it wants one. How long users key in and
//!   think is told ([`Transaction::keying_ms`]), and for the driver to keep to.
//! - History lies with the customer, as its payments are numbered there. Its text, the names of the warehouse
//!   and the district, is left out: it would have to come from another shard, and follows from their numbers.
//! - A line that another warehouse supplies has no text of that warehouse (`OL_DIST_INFO`), for the same
//!   reason: it follows from the stock. No transaction reads it.
//! - Money is counted in cents, taxes and discounts in hundredths of a percent; there is no floating point.
//! - All districts of a delivery are one transaction.

#![no_std]

extern crate alloc;

pub mod bytes;
pub mod consistency;
pub mod generator;
pub mod key;
pub mod population;
pub mod procedures;
pub mod random;
pub mod row;
pub mod scale;
pub mod transaction;

pub use consistency::violations;
pub use generator::Generator;
pub use procedures::Tpcc;
pub use random::Source;
pub use scale::Scale;
pub use transaction::{Class, Transaction};
