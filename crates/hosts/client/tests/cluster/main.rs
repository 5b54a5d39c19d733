//! The client library against real servers: three nodes on threads of this process, over TCP on loopback.

#![allow(clippy::duplicate_mod, reason = "each program of `examples` stands alone, and they begin alike")]

mod announcements;
mod batches;
mod comparisons;
mod cuts;
mod drops;
mod examples;
mod faults;
mod guide;
mod keyspace_options;
mod keyspaces;
mod losses;
mod membership;
mod outcomes;
mod parallel_snapshot;
mod procedures;
mod serializable;
mod snapshot;
mod speculation;
mod stories;
mod support;
mod tls;
mod transactions;
mod write_where_you_are;
