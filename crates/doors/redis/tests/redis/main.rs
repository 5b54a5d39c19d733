//! The door against a real Redis, against a cluster, and against clients that mean no good.

mod access;
mod administration;
mod blocking;
mod channels;
mod clients;
mod cluster;
mod differential;
mod doors;
mod functions;
mod hostile;
mod joint;
mod memory;
mod oracle;
mod scripts;
mod sessions;
mod templates;
mod wire;
