//! RUBiS over stores in memory: after any run the conditions hold, and what is broken is noticed.

mod conditions;
mod interactions;
mod misses;
mod mix;
mod world;
