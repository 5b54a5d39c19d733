//! The modules that the sandbox accepts, and the calls that it runs and stops.

mod calls;
mod common;
mod example;
mod hostile;
mod modules;
