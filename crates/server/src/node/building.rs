//! Replicas that are being built while the node runs.
//!
//! To create a log is to write a whole segment of it, and the event loop must not wait for that: a thread builds, and asks
//! for a turn whenever a replica is ready.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use quorate_core::{KeyspaceId, ReplicaId, View};
use quorate_runtime::transport::TurnWaker;

use super::hosted::Hosted;
use super::log::Logs;
use crate::config::LogOptions;
use crate::data::{DataDirectory, Placement};

/// A replica that is to be built.
pub(crate) struct Order {
    pub(crate) placement: Placement,
    pub(crate) origin: Origin,
    /// How its replicated log goes by, if it stands on one.
    pub(crate) log: LogOptions,
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
    under_way: BTreeMap<ReplicaId, KeyspaceId>,
    ready: (Sender<Hosted>, Receiver<Hosted>),
    threads: Vec<JoinHandle<()>>,
    /// What builds a replica, and what starts a thread. Tests put others in their places.
    means: Means,
}

#[derive(Clone, Copy)]
struct Means {
    build: fn(Order, &DataDirectory, &Logs) -> Hosted,
    spawn: fn(Work) -> io::Result<JoinHandle<()>>,
}

/// What a thread does.
type Work = Box<dyn FnOnce() + Send>;

impl Builder {
    pub(crate) fn new(data: Arc<DataDirectory>, logs: Logs, waker: TurnWaker) -> Self {
        let means = Means { build, spawn };
        Builder {
            data,
            logs,
            waker,
            under_way: BTreeMap::new(),
            ready: channel(),
            threads: Vec::new(),
            means,
        }
    }

    /// Builds a replica now, in this thread.
    pub(crate) fn build(&self, order: Order) -> Hosted {
        (self.means.build)(order, &self.data, &self.logs)
    }

    /// Builds replicas in another thread, one after the other: they share the disk anyway.
    pub(crate) fn start(&mut self, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let place = |order: &Order| (order.placement.replica, order.placement.keyspace);
        let replicas: Vec<_> = orders.iter().map(place).collect();
        let (data, logs, waker) = (Arc::clone(&self.data), self.logs.clone(), self.waker.clone());
        let (ready, Means { build, spawn }) = (self.ready.0.clone(), self.means);
        let thread = spawn(Box::new(move || {
            for order in orders {
                // Nobody waits any more if the node has stopped.
                if ready.send(build(order, &data, &logs)).is_err() {
                    return;
                }
                waker.wake();
            }
        }));
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
        self.under_way.contains_key(&replica)
    }

    /// True if a replica of this keyspace is being built.
    pub(crate) fn is_building_for(&self, keyspace: KeyspaceId) -> bool {
        self.under_way.values().any(|known| *known == keyspace)
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

fn spawn(work: Work) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("replica-builder".to_owned()).spawn(work)
}

fn build(order: Order, data: &DataDirectory, logs: &Logs) -> Hosted {
    Hosted::build(order, data, logs)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::{Duration, Instant};

    use quorate_core::NodeId;
    use quorate_core::topology::Durability;

    use super::*;
    use crate::config::system_keyspace;
    use crate::data::Initialise;

    const CLUSTER: u64 = 7;

    struct Fixture {
        builder: Builder,
        placement: Placement,
        _directory: tempfile::TempDir,
    }

    impl Fixture {
        fn new(means: Means) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("node");
            let data = DataDirectory::open(&path, CLUSTER, NodeId(0), Initialise::New, 1).unwrap();
            let waker = TurnWaker::default();
            let logs = Logs::start(CLUSTER, waker.clone()).unwrap();
            let builder = Builder { means, ..Builder::new(Arc::new(data), logs, waker) };
            let keyspace = system_keyspace(vec![NodeId(0)], Durability::Sync);
            let placement = Placement::on_node(&keyspace, NodeId(0)).remove(0);
            Fixture { builder, placement, _directory: directory }
        }

        fn start(&mut self) {
            let placement = self.placement.clone();
            self.builder.start(vec![Order {
                placement,
                origin: Origin::NewGroup,
                log: LogOptions::default(),
                seed: 1,
            }]);
        }

        /// Takes until something is ready.
        fn take(&mut self) -> Vec<Hosted> {
            let deadline = Instant::now() + Duration::from_secs(10);
            loop {
                let ready = self.builder.take_ready();
                if !ready.is_empty() {
                    return ready;
                }
                assert!(Instant::now() < deadline, "nothing becomes ready");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    #[test]
    fn a_replica_is_under_way_until_it_is_taken() {
        let mut fixture = Fixture::new(Means { build, spawn });
        let replica = fixture.placement.replica;
        fixture.start();
        assert!(fixture.builder.is_building(replica));
        assert_eq!(fixture.take().remove(0).placement.replica, replica);
        assert!(!fixture.builder.is_building(replica));
    }

    #[test]
    fn a_panic_while_building_is_not_swallowed() {
        let mut fixture = Fixture::new(Means { build: |_, _, _| panic!("the disk lies"), spawn });
        fixture.start();
        let panic = catch_unwind(AssertUnwindSafe(|| fixture.take())).err().expect("it goes on");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the disk lies"));
    }

    #[test]
    fn a_node_that_stops_closes_in_spite_of_a_panic() {
        let mut fixture = Fixture::new(Means { build: |_, _, _| panic!("the disk lies"), spawn });
        fixture.start();
        fixture.builder.close();
        assert!(fixture.builder.threads.is_empty());
    }

    #[test]
    fn without_a_thread_a_replica_can_be_asked_for_again() {
        let no_thread: fn(Work) -> _ = |_| Err(io::Error::other("no more threads"));
        let mut fixture = Fixture::new(Means { build, spawn: no_thread });
        let replica = fixture.placement.replica;
        fixture.start();
        assert!(!fixture.builder.is_building(replica), "the next reading of the catalogue asks again");
        assert!(fixture.builder.take_ready().is_empty());
        fixture.builder.means.spawn = spawn;
        fixture.start();
        assert_eq!(fixture.take().len(), 1);
    }
}
