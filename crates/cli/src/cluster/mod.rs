//! Clusters on this machine: of threads for `demo` and `dev`, of processes for `bench --embedded`.

mod layout;
mod processes;
mod threads;

pub(crate) use layout::Layout;
pub(crate) use processes::Processes;
pub(crate) use threads::Threads;
