//! What the sandbox accepts, runs and stops.

mod calls;
mod common;
mod example;
mod hostile;
mod modules;
