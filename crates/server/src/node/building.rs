//! Replicas that are being built while the node runs.
//!
//! To create a log is to write a whole segment of it, and the event loop must not wait for that: a thread builds, and asks
//! for a turn whenever a replica is ready.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use quorate_core::{ReplicaId, View};
use quorate_runtime::transport::TurnWaker;

use super::hosted::Hosted;
use super::log::Logs;
use crate::data::{DataDirectory, Placement};

/// A replica that is to be built.
pub(crate) struct Order {
    pub(crate) placement: Placement,
    pub(crate) origin: Origin,
    /// Feeds the randomness of its machine.
    pub(crate) seed: u64,
}

/// How a replica begins of which nothing is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Empty: its whole group is new.
    NewGroup,
    /// By learning everything from its group, which has existed before.
    OldGroup,
    /// As if it had slept since its group was created, and above this view: an operator has accepted that what was only
    /// here is lost.
    AcceptedLoss {
        /// No replica of the group has been in a greater one.
        view: View,
    },
}

/// Builds replicas in other threads.
pub(crate) struct Builder {
    data: Arc<DataDirectory>,
    logs: Logs,
    waker: TurnWaker,
    under_way: BTreeSet<ReplicaId>,
    ready: (Sender<Hosted>, Receiver<Hosted>),
    threads: Vec<JoinHandle<()>>,
}

impl Builder {
    pub(crate) fn new(data: Arc<DataDirectory>, logs: Logs, waker: TurnWaker) -> Self {
        Builder { data, logs, waker, under_way: BTreeSet::new(), ready: channel(), threads: Vec::new() }
    }

    /// Builds a replica now, in this thread.
    pub(crate) fn build(&self, order: Order) -> Hosted {
        build(order, &self.data, &self.logs)
    }

    /// Builds replicas in another thread, one after the other: they share the disk anyway.
    pub(crate) fn start(&mut self, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let replicas: Vec<_> = orders.iter().map(|order| order.placement.replica).collect();
        let (data, logs, waker) = (Arc::clone(&self.data), self.logs.clone(), self.waker.clone());
        let ready = self.ready.0.clone();
        let thread = thread::Builder::new().name("replica-builder".to_owned()).spawn(move || {
            for order in orders {
                // Nobody waits any more if the node has stopped.
                if ready.send(build(order, &data, &logs)).is_err() {
                    return;
                }
                waker.wake();
            }
        });
        match thread {
            Ok(thread) => {
                self.threads.push(thread);
                self.under_way.extend(replicas);
            }
            // The next reading of the catalogue finds them missing and asks again.
            Err(error) => tracing::error!(?replicas, %error, "no thread to build replicas"),
        }
    }

    /// True if this replica is being built.
    pub(crate) fn is_building(&self, replica: ReplicaId) -> bool {
        self.under_way.contains(&replica)
    }

    /// The replicas that have become ready.
    ///
    /// # Panics
    /// If building one has panicked: a replica must not be missing in silence.
    pub(crate) fn take_ready(&mut self) -> Vec<Hosted> {
        for thread in self.threads.extract_if(.., |thread| thread.is_finished()) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let ready: Vec<_> = self.ready.1.try_iter().collect();
        for hosted in &ready {
            self.under_way.remove(&hosted.placement.replica);
        }
        ready
    }

    /// Waits until nothing is being built: the data directory is no longer used afterwards.
    pub(crate) fn close(&mut self) {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that builds replicas has panicked");
            }
        }
    }
}

fn build(order: Order, data: &DataDirectory, logs: &Logs) -> Hosted {
    Hosted::build(order.placement, data, order.origin, logs, order.seed)
}
