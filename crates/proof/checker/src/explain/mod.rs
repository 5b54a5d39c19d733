//! Explanations of anomalies, for people: sentences, a picture, and the smallest part of a history that still
//! fails.

mod layout;
mod parts;
mod picture;
mod routes;
mod shrink;
mod words;

pub use picture::picture;
pub use shrink::{Shrunk, shrink};
pub(crate) use words::Words;
