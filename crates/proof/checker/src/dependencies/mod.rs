//! From a history to the dependencies between its committed transactions, which every level is judged by.
//!
//! The steps, each in its own module: the writer of each value ([`writes`]), the fate of each transaction
//! ([`fate`]), what each one read from others once its own operations agree ([`reads`]), and the version
//! order of [`lists`] and [`registers`] and the updates that counts of [`sets`] show, which give the
//! [`edges`]. Violations that need no cycle are found on the way.

mod edges;
mod fate;
mod lists;
mod reads;
mod registers;
mod sets;
mod tails;
mod writes;

pub(crate) use edges::{Edge, EdgeKind};
pub(crate) use fate::{Fate, decide_fates, decide_fates_by_values};
pub(crate) use reads::{RegisterVersion, collect as collect_reads};
pub(crate) use registers::{Chain, OpenOrder, check_reads as check_register_reads};
pub(crate) use sets::add_edges as count_edges;
pub(crate) use sets::{CountChoices, CountState, NoChoices, OpenCounts, SetUpdates};
pub(crate) use sets::{SetRead, Update, external as external_set_reads, is_reachable};
pub(crate) use tails::Tail;
pub(crate) use writes::{ABSENT, WriteIndex};

use crate::history::History;
use crate::report::Anomalies;

/// The dependencies between committed transactions.
pub(crate) struct Dependencies {
    /// The fate of each transaction.
    pub(crate) fates: Vec<Fate>,
    /// Edges between adjacent versions.
    pub(crate) edges: Vec<Edge>,
    /// Versions at the end of a key in no known order.
    pub(crate) tails: Vec<Tail>,
    /// Registers whose version order is open.
    pub(crate) open: Vec<OpenOrder>,
    /// Counts of counting sets whose updates are not known.
    pub(crate) counts: OpenCounts,
}

impl Dependencies {
    /// Derives the dependencies, and reports the anomalies that need no cycle.
    pub(crate) fn derive(history: &History, anomalies: &mut Anomalies) -> Self {
        let writes = WriteIndex::new(history);
        let fates = fate::decide_fates(history, &writes);
        let reads = reads::collect(history, &writes, &fates, anomalies);
        let mut edges = Vec::new();
        let lists = lists::Lists::place(history, &writes, &fates, &reads, anomalies);
        lists.check_program_order(anomalies);
        let tails = lists.add_edges(&mut edges, anomalies);
        let place = |tail: Tail| tail.place_updates(history, &mut edges, anomalies);
        let mut tails: Vec<Tail> = tails.into_iter().filter_map(place).collect();
        let registers =
            registers::add_edges(history, &writes, &fates, &reads.registers, &mut edges, anomalies);
        tails.extend(registers.tails);
        let counts = sets::add_edges(history, &fates, &mut edges, anomalies);
        Dependencies { fates, edges, tails, open: registers.open, counts }
    }
}
