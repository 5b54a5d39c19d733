//! The door against a cluster, with the examples of its page, and against clients that mean no good.

mod access;
mod cluster;
mod console;
mod examples;
mod hostile;
mod sessions;
mod support;
mod wire;
