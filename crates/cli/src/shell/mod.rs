//! The statements of `quorate shell`: how they are written, what they do, and how answers are shown.

mod answer;
mod completion;
mod execute;
mod grammar;
mod hints;
mod statement;
mod words;

pub(crate) use answer::{Form, help};
pub(crate) use completion::Completion;
pub(crate) use execute::{Reply, Session};
pub(crate) use grammar::Grammar;
pub(crate) use hints::Hints;
pub(crate) use statement::{Parsed, Setting, Statement};
pub(crate) use words::{SplitError, Word, quoted, split};
