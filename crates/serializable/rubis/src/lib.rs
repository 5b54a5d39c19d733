//! RUBiS: an auction site, whose users browse, bid, buy, sell and comment, as stored procedures.
//!
//! Every table is divided into equal portions, and the portions of all tables that belong together are a *market*. Every key begins with its market, so
//! that a shard holds whole markets. The work of an interaction at a market is done by one call at the shard that holds it:
//!
//! ```text
//!   Generator ──▶ Interaction ──arguments(local markets)──▶ Rubis, called at each shard that takes part
//!                     │
//!                     └─ markets(): one, or two if a user deals with an item or a user of another market
//! ```
//!
//! Numbers of new users, items, bids, purchases and comments come from counters of their market, one for each table (STR paper, section 8.2), so two
//! interactions that insert into one table of a market conflict. A user that bids or buys at another market leaves a *note* at its own. Such an
//! interaction is *independent*: each shard does its part, and none needs the answer of another.
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | the 26 interactions, how often there is which, and how long users think |
//! | [`scale`] | how large everything is |
//! | [`key`], [`row`] | the layout of keys and rows |
//! | [`population`] | what there is at first |
//! | [`interaction`] | what an interaction is asked to do, and its arguments |
//! | [`procedures`] | what it does |
//! | [`generator`] | the mix |
//! | [`consistency`] | what must hold at any time |
//!
//! # Where it differs from the benchmark of Rice University
//! - Sessions are not walked through: interactions are drawn one by one, as often as a walk passes through them.
//! - A page of search results begins at a number that is drawn, where the benchmark counts pages from the first.
//! - Auctions do not end while it runs, so there is no table of old items. An item that is bought to the last piece stays.
//! - Bids and comments hold the nickname of their author, a user of any market; the notes of a bidder say what it has bid, and not whether it
//!   was outbid elsewhere.
//! - A buyer that wants more than there is gets what there is. The benchmark refuses; here the buyer's market could not tell.
//! - A comment concerns the market of the user that it is about, and no other. The author has no note of it.
//! - Money is counted in cents.

#![no_std]

extern crate alloc;

pub mod consistency;
pub mod generator;
pub mod interaction;
pub mod key;
pub mod kind;
pub mod population;
pub mod procedures;
pub mod row;
pub mod scale;

pub use consistency::violations;
pub use generator::{Generator, Mix};
pub use interaction::Interaction;
pub use kind::Kind;
pub use procedures::Rubis;
pub use scale::Scale;
