//! The client library against real servers: three nodes on threads of this process, over TCP on loopback.

#![allow(clippy::duplicate_mod, reason = "each program of `examples` stands alone, and they begin alike")]

mod announcements;
mod batches;
mod changes;
mod comparisons;
mod cuts;
mod drops;
mod event_loops;
mod examples;
mod expiring;
mod faults;
mod guide;
mod indexes;
mod keyspace_options;
mod keyspaces;
mod losses;
mod membership;
mod memory;
mod outcomes;
mod parallel_snapshot;
mod procedures;
mod rights;
mod serializable;
mod snapshot;
mod speculation;
mod stories;
mod support;
mod tls;
mod transactions;
mod write_where_you_are;

// Messages as they are drawn from the tables of the wire format, for the tests of rights.
#[path = "../../../wire/tests/wire/generate/mod.rs"]
#[expect(dead_code, reason = "other tests draw more")]
mod generate;
#[path = "../../../wire/tests/wire/protobuf/mod.rs"]
#[expect(unused_imports, reason = "other tests read more")]
mod protobuf;
