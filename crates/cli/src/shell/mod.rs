//! The statements of `quorate shell`: how they are written, and what they do.

mod execute;
mod statement;
mod words;

pub(crate) use execute::{Reply, Session};
pub(crate) use statement::{Parsed, Statement};
pub(crate) use words::{SplitError, split};
