//! Judges.
pub mod history;
pub use history::*;
