//! Nodes on loopback, three to a cluster, in one process.

mod amnesia;
mod announcements;
mod client;
mod cluster;
mod comparisons;
mod disagreements;
mod joining;
mod keyspaces;
mod losses;
mod memory;
mod operations;
mod raw;
mod restart;
mod shortage;
mod snapshot;
mod versions;
mod waiting;
