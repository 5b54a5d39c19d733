//! TPC-C over stores in memory: after any transactions the consistency conditions hold, and a broken one is
//! noticed.

mod conditions;
mod misses;
mod mix;
mod transactions;
mod world;
