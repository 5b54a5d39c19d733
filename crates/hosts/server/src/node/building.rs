//! Replicas that are built: those that a node begins with, and others while it runs.
//!
//! A node begins with what the logs of its replicas hold. To read a long one is work for a processor, so several are read at a time, of all event loops.
//!
//! To create a log is to write a whole segment of it, and the event loop must not wait for that: threads build, and ask
//! for a turn whenever a replica is ready.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use quorate_core::{KeyspaceId, ReplicaId, View};
use quorate_runtime::transport::TurnWaker;

use super::hosted::Hosted;
use super::log::Logs;
use super::workers::{Tray, Workers};
use crate::config::{ContainerOptions, LogOptions};
use crate::data::{DataDirectory, Placement};

/// A replica that is to be built.
pub(crate) struct Order {
    pub(crate) placement: Placement,
    pub(crate) origin: Origin,
    /// How its containers go by, if it has some.
    pub(crate) containers: ContainerOptions,
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
        /// The life in which it goes on: the other replicas know of no later one.
        life: u64,
    },
}

/// So many replicas are made durable at once.
const BATCH: usize = 256;

/// Fewer are created one by one: to make all durable that the file system holds would take longer.
const BATCH_MIN: usize = 16;

/// No more threads build at a time.
const THREADS_MAX: usize = 4;

/// Takes the next orders, at most a batch.
fn next_batch(queue: &Mutex<Vec<Order>>) -> Vec<Order> {
    let mut orders = queue.lock().unwrap_or_else(PoisonError::into_inner);
    let left = orders.len().saturating_sub(BATCH);
    orders.split_off(left)
}

/// Builds a batch of replicas. False if nobody waits for them any more.
fn build_batch(batch: Vec<Order>, data: &DataDirectory, logs: &Logs, tray: &Tray<Hosted>) -> bool {
    #[cfg(target_os = "linux")]
    if batch.len() >= BATCH_MIN {
        let new = batch.iter().filter(|order| order.origin == Origin::NewGroup).map(|order| &order.placement);
        let create = |directory: &Path, replica| logs.create_unsynced(directory, replica);
        if let Err(error) = data.stage_replicas(new, create) {
            // Each is created by itself then, and says what stands in its way.
            tracing::warn!(%error, "replicas cannot be created at once");
        }
    }
    batch.into_iter().all(|order| tray.put(Hosted::build(order, data, logs)))
}

/// Builds the replicas that event loops begin with: of each its own, in the order in which it has ordered them.
pub(crate) fn build_all(data: &DataDirectory, ordered: Vec<(Logs, Vec<Order>)>) -> Vec<Vec<Hosted>> {
    let (logs, orders): (Vec<Logs>, Vec<Vec<Order>>) = ordered.into_iter().unzip();
    let orders =
        orders.into_iter().enumerate().flat_map(|(of, orders)| orders.into_iter().map(move |one| (of, one)));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let build = |(of, order): (usize, Order)| (of, Hosted::build(order, data, &logs[of]));
    let mut built: Vec<Vec<Hosted>> = logs.iter().map(|_| Vec::new()).collect();
    for (of, hosted) in in_threads(processors, orders.collect(), build) {
        built[of].push(hosted);
    }
    built
}

/// Does some work for each item, in so many threads at most, this one among them. Gives the results in the order of the items.
///
/// # Panics
/// If the work does.
fn in_threads<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let others = threads.min(items.len()).saturating_sub(1);
    let queue = Mutex::new(items.into_iter().enumerate());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    let take = || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
    let mut done = thread::scope(|scope| {
        let start = |_| thread::Builder::new().name("replica-builder".to_owned()).spawn_scoped(scope, take);
        let warn = |error: &std::io::Error| tracing::warn!(%error, "few threads to build replicas");
        let others: Vec<_> = (0..others).map_while(|other| start(other).inspect_err(warn).ok()).collect();
        let mut done = take();
        others
            .into_iter()
            .for_each(|other| done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic))));
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Builds replicas in other threads.
pub(crate) struct Builder {
    data: Arc<DataDirectory>,
    logs: Logs,
    under_way: BTreeMap<ReplicaId, KeyspaceId>,
    workers: Workers<Hosted>,
}

impl Builder {
    pub(crate) fn new(data: Arc<DataDirectory>, logs: Logs, waker: TurnWaker) -> Self {
        Builder { data, logs, under_way: BTreeMap::new(), workers: Workers::new("replica-builder", waker) }
    }

    /// Builds replicas in other threads. Those that are new are created in batches.
    pub(crate) fn start(&mut self, orders: Vec<Order>) {
        if orders.is_empty() {
            return;
        }
        let place = |order: &Order| (order.placement.replica, order.placement.keyspace);
        let replicas: Vec<_> = orders.iter().map(place).collect();
        // Threads wait for the disk, so there may be more than processors; a few replicas are built by one.
        let threads = orders.len().div_ceil(BATCH).min(THREADS_MAX);
        let queue = Arc::new(Mutex::new(orders));
        for started in 0..threads {
            let (data, logs, queue) = (Arc::clone(&self.data), self.logs.clone(), Arc::clone(&queue));
            let work = move |tray: &Tray<Hosted>| {
                loop {
                    let batch = next_batch(&queue);
                    if batch.is_empty() || !build_batch(batch, &data, &logs, tray) {
                        return;
                    }
                }
            };
            match self.workers.start(work) {
                Ok(()) => {}
                // Those that run build everything.
                Err(error) if started > 0 => tracing::warn!(%error, "few threads to build replicas"),
                // The next reading of the catalogue finds them missing and asks again.
                Err(error) => {
                    tracing::error!(?replicas, %error, "no thread to build replicas");
                    return;
                }
            }
        }
        self.under_way.extend(replicas);
    }

    /// True if nothing is being built.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.is_empty()
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
        let ready = self.workers.take_ready();
        for hosted in &ready {
            self.under_way.remove(&hosted.placement.replica);
        }
        ready
    }

    /// Waits until nothing is being built: the data directory is no longer used afterwards.
    pub(crate) fn close(&mut self) {
        self.workers.close();
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::NodeId;
    use quorate_core::topology::{Durability, Isolation};

    use super::super::hosted::State;
    use super::super::log::LogError;
    use super::super::workers::{no_threads, take_until_ready};
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
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("node");
            let data = DataDirectory::open(&path, CLUSTER, NodeId(0), Initialise::New, 1).unwrap();
            let waker = TurnWaker::default();
            let logs = Logs::start(CLUSTER, waker.clone()).unwrap();
            let builder = Builder::new(Arc::new(data), logs, waker);
            let keyspace = system_keyspace(vec![NodeId(0)], Durability::Sync);
            let placement = Placement::on_node(&keyspace, NodeId(0)).remove(0);
            Fixture { builder, placement, _directory: directory }
        }

        fn start(&mut self) {
            let placement = self.placement.clone();
            self.builder.start(vec![Order {
                placement,
                origin: Origin::NewGroup,
                containers: ContainerOptions::default(),
                log: LogOptions::default(),
                seed: 1,
            }]);
        }
    }

    #[test]
    fn what_a_node_begins_with_is_built_by_several_threads_and_stays_in_its_order() {
        let (first, second) = std::sync::mpsc::channel();
        let second = Mutex::new(second);
        let work = |item: u32| {
            match item {
                // It ends only after a later one has begun, which another thread must have done.
                0 => second.lock().unwrap().recv_timeout(std::time::Duration::from_secs(60)).unwrap(),
                1 => first.send(()).unwrap(),
                _ => {}
            }
            item * 10
        };
        assert_eq!(in_threads(2, vec![0, 1, 2, 3], work), [0, 10, 20, 30]);
        assert_eq!(in_threads(8, vec![7], work), [70]);
        assert_eq!(in_threads(1, vec![2, 3], work), [20, 30]);
        assert_eq!(in_threads(1, Vec::new(), work), [0; 0]);
    }

    #[test]
    fn each_event_loop_gets_the_replicas_that_it_has_ordered() {
        let fixture = Fixture::new();
        let order = |replica: u32| {
            let mut placement = fixture.placement.clone();
            placement.replica.shard.0 += replica;
            Order {
                placement,
                origin: Origin::NewGroup,
                containers: ContainerOptions::default(),
                log: LogOptions::default(),
                seed: 1,
            }
        };
        let Builder { data, logs, .. } = &fixture.builder;
        let ordered = vec![
            (logs.clone(), vec![order(3), order(1)]),
            (logs.clone(), Vec::new()),
            (logs.clone(), vec![order(2)]),
        ];
        let first = fixture.placement.replica.shard.0;
        let built = build_all(data, ordered);
        let shards = |one: &Vec<Hosted>| -> Vec<u32> {
            one.iter().map(|hosted| hosted.placement.replica.shard.0 - first).collect()
        };
        assert_eq!(built.iter().map(shards).collect::<Vec<_>>(), [vec![3, 1], Vec::new(), vec![2]]);
        let runs = |hosted: &Hosted| matches!(hosted.state, State::Running(_));
        assert!(built.iter().flatten().all(runs));
    }

    #[test]
    fn a_replica_is_under_way_until_it_is_taken() {
        let mut fixture = Fixture::new();
        let replica = fixture.placement.replica;
        fixture.start();
        assert!(fixture.builder.is_building(replica));
        let mut ready = take_until_ready(|| fixture.builder.take_ready());
        assert_eq!(ready.remove(0).placement.replica, replica);
        assert!(!fixture.builder.is_building(replica));
    }

    #[test]
    fn without_a_thread_a_replica_can_be_asked_for_again() {
        let mut fixture = Fixture::new();
        let replica = fixture.placement.replica;
        let spawn = std::mem::replace(&mut fixture.builder.workers.spawn, no_threads);
        fixture.start();
        assert!(!fixture.builder.is_building(replica), "the next reading of the catalogue asks again");
        assert!(fixture.builder.take_ready().is_empty());
        fixture.builder.workers.spawn = spawn;
        fixture.start();
        assert_eq!(take_until_ready(|| fixture.builder.take_ready()).len(), 1);
    }

    #[test]
    fn a_replica_whose_protocol_has_to_know_the_shards_is_refused_without_them() {
        let mut fixture = Fixture::new();
        let known = fixture.placement.shards;
        for (shards, is_refused) in [(None, true), (known, false)] {
            let isolation = Isolation::Serializable;
            fixture.placement = Placement { keyspace: KeyspaceId(2), isolation, shards, ..fixture.placement };
            fixture.start();
            let hosted = take_until_ready(|| fixture.builder.take_ready()).remove(0);
            let refused =
                matches!(&hosted.state, State::Refused(why) if *why == LogError::Shards.to_string());
            assert_eq!(refused, is_refused);
        }
    }
}
