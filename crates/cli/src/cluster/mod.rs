//! Clusters on this machine: of threads for `demo` and `dev`, of processes for `bench --embedded` and `torture`.

mod embedded;
mod layout;
mod processes;
mod threads;

pub(crate) use embedded::Embedded;
pub(crate) use layout::Layout;
pub(crate) use processes::{Begin, Launch, Processes, free_addresses};
pub(crate) use threads::Threads;
