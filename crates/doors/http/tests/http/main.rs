//! The door against a cluster, with the examples of its page, and against clients that mean no good.

mod cluster;
mod console;
mod examples;
mod hostile;
mod support;
mod wire;
