//! RUBiS over stores in memory: whatever is run, the conditions hold, and what is broken is noticed.

mod conditions;
mod interactions;
mod misses;
mod mix;
mod world;
