//! One page of everything that was measured: every figure and table of the papers with their numbers beside ours, benches with their rivals, and simulations.
//!
//! The page is made of the JSON that `quorate experiment`, `quorate bench` and `quorate sim` print. It stands alone: no network, no script.
//!
//! | file | role |
//! |---|---|
//! | [`read`] | results in directories |
//! | [`papers`] | every figure and table of the papers, and where each is measured or kept |
//! | [`page`](mod@page) | the page |
//! | [`summary`] | the same for programs |

pub mod page;
pub mod papers;
pub mod read;
pub mod summary;

pub use page::page;
pub use read::{Bench, Found, Latency, Results, Simulation, Violation};
pub use summary::Summary;
