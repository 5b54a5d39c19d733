//! The door against a real Redis, against a cluster, and against clients that mean no good.

mod blocking;
mod clients;
mod cluster;
mod differential;
mod hostile;
mod memory;
mod oracle;
mod scripts;
mod templates;
mod wire;
