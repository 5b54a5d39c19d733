//! A node of a Quorate cluster: hosts replicas, learns of keyspaces, answers operators.
//!
//! ```no_run
//! use quorate_server::{Config, Initialise, Server};
//!
//! let config = Config::load("node-0.toml".as_ref())?;
//! let server = Server::start(config, Initialise::New)?; // the first time; Initialise::No from then on
//! // …
//! server.shutdown()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A server may be linked with an [`Application`] of its own, before it starts: see [`link`].
//!
//! | file | role |
//! |---|---|
//! | `config` | what a node is told, and every limit |
//! | `join` | which node it is, and who the others are |
//! | `data` | whose data directory it is, and how a replica begins |
//! | `entrance` | who judges what clients show, and what the node knows of users |
//! | `node` | the replicas, the catalogue, admission, status |
//! | `server` | the thread of the node, from start to drain |
//! | `event_loops` | the event loops of the node and their threads |
//! | `dialling` | the standing wishes to be connected to other nodes |
//! | `http`, `metrics` | what operators read |
//! | `probe` | asks a node of this machine whether it is ready, or for another page |

mod config;
mod data;
mod dialling;
mod entrance;
mod event_loops;
mod http;
mod join;
mod metrics;
mod node;
mod probe;
mod process;
mod server;

pub use config::{
    Config, ConfigError, ContainerOptions, Doors, EventLoops, KeyPair, Limits, LogFormat, LogOptions,
    Logging, Reloaded, TlsOptions, print_config,
};
pub use data::{DataError, Initialise};
pub use join::JoinError;
pub use node::{
    ChangesStatus, DecidedStatus, DecisionStatus, DiskStatus, EventLoopStatus, HandedOverStatus,
    HotKeyStatus, LagStatus, LogStatus, MemoryStatus, PeerStatus, ReplicaStatus, SecurityStatus, SlowStatus,
    SpeculatingStatus, Status, SweepingStatus, SweptHere, TrafficStatus, TransportStatus, TunerStatus,
    ValuesInFileStatus, VersionsStatus,
};
pub use probe::{Unready, fetch, probe};
pub use process::{raise_descriptors_max, use_small_pages};
pub use quorate_serializable_library::{Application, LinkError, link};
pub use quorate_wire::catalogue::SYSTEM_KEYSPACE;
pub use server::{Failed, Server, Sockets, StartError};
