//! The Redis protocol as bytes: requests as clients send them, replies in versions 2 and 3.

mod reply;
mod request;

pub use reply::{Part, Version, write_push, write_reply};
pub use request::{Invalid, Limits, Parser};
