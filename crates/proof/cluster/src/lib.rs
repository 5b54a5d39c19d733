//! Clusters on this machine, of threads or of processes, and whether the replicas of a cluster hold the same.
//!
//! | file | role |
//! |---|---|
//! | `layout` | the configuration of each node |
//! | `threads` | nodes as threads of this process |
//! | `three` | three such nodes with keyspaces, for tests |
//! | `processes` | nodes as processes, which can be killed, paused and started again |
//! | `embedded` | such processes on loopback, for one measurement |
//! | [`verify`] | the comparison of what replicas hold |
//! | `certificates` | the certificates of a cluster that has some |
//! | `failure` | the reason why something could not be done |

mod certificates;
mod embedded;
mod failure;
mod layout;
mod processes;
mod threads;
mod three;
pub mod verify;

pub use certificates::{client_files, door_files, make_certificates, node_files};
pub use embedded::{Embedded, EmbeddedOptions};
pub use failure::Failure;
pub use layout::{CLUSTER_NAME, Layout, RedisDoors};
pub use processes::{Begin, Launch, Processes, free_addresses};
pub use threads::Threads;
pub use three::ThreeNodes;
