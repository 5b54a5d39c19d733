//! One-round transactions: Granola, beside the systems that its paper measures with it (section 6).
//!
//! | file | role |
//! |---|---|
//! | [`world`] | the machines, and what their work costs |
//! | [`deployment`] | where they run |
//! | [`rounds`] | transactions as sessions run them |
//! | [`counters`] | the micro-benchmark |
//! | [`coordination`] | its figures |
//! | [`tpcc`] | TPC-C |
//! | [`trade`] | its figures |

pub mod coordination;
pub mod counters;
pub mod deployment;
pub mod rounds;
pub mod tpcc;
pub mod trade;
pub mod world;
