//! Access control: users, roles, rights and tokens, and the decision what a login may do.
//!
//! Users, roles and tokens are entries of the configuration service's map. Each door keeps a copy of them, [`Access`], and asks it for every request; so a change
//! needs no connection to be made anew. Everything here is a pure function of entries and a time: the configuration service, the doors and the tests decide alike.
//!
//! | file | what to read it for |
//! |---|---|
//! | `right` | the rights, and where a grant gives them |
//! | `entry` | users, roles and tokens, as the map keeps them |
//! | [`mod@access`] | what a login may do |
//! | [`mod@native`] | what a client of the native protocol may claim |
//! | `administrators` | the rule that an administrator is left, which the configuration service applies with each write |
//!
//! # Invariants
//! * Access control is in force once there is a user, and stays so: the last administrator cannot be removed ([`loses_administrators`]).
//! * A login is worth as much as its credential: it ends with the password, the token or the user that it was made with.
//! * What no grant gives is refused.

pub mod access;
mod administrators;
mod entry;
pub mod native;
mod right;

pub use access::{Access, Login, Proof, Refusal, Scope};
pub use administrators::{Entries, concerns_administrators, has_administrators, loses_administrators};
pub use entry::{
    Entry, InvalidEntry, NAME_BYTES_MAX, PasswordHash, ROLE_RANGE, Role, SALT_BYTES, TOKEN_RANGE, Token,
    TokenId, USER_RANGE, User, UserLimits, role_key, token_key, user_key, user_range, validate_name,
};
pub use native::{Claim, Standing, Visitor, Wish};
pub use quorate_core::ClockTime;
pub use right::{CHANNELS, Grant, InvalidGrant, Right};
