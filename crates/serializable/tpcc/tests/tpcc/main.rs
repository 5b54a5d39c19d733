//! TPC-C over stores in memory: whatever is run, the consistency conditions hold, and what is broken is
//! noticed.

mod conditions;
mod misses;
mod mix;
mod transactions;
mod world;
