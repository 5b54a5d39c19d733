//! Logging in, wherever a node lets users in: how fast passwords can be guessed, and what is written down of those that come.
//!
//! | file | what to read it for |
//! |---|---|
//! | `guesses` | passwords that are compared beside the event loop, and clients that guess them |
//! | `audit` | the audit log of a node, which its doors and its native port share |

mod audit;
mod guesses;

pub use audit::Audit;
pub use guesses::{LoginError, Logins};
