//! A deterministic simulator.
pub mod fault;
pub mod world;
