//! `quorate user`, `quorate role`, `quorate token`: who may do what.
//!
//! Passwords come from a prompt or a file, and never from an argument, which every process of the machine could read. A token is printed once.

mod role;
mod token;
mod user;

use quorate::rights::Grant;

pub(crate) use role::RoleArguments;
pub(crate) use token::TokenArguments;
pub(crate) use user::UserArguments;

/// A grant as the command line has it.
fn parse_grant(text: &str) -> Result<Grant, String> {
    text.parse().map_err(|error: quorate::rights::InvalidGrant| error.to_string())
}

/// Grants as people read them.
fn list(grants: &[Grant]) -> String {
    grants.iter().map(Grant::to_string).collect::<Vec<_>>().join(" ")
}
