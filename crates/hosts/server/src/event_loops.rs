//! The event loops of a node: how they are built, and the threads of those beside the first one (ADR 0080).

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use quorate_core::NodeId;
use quorate_runtime::transport::{Options, TurnWaker};
use quorate_runtime::{Clock, Transport};
use quorate_storage::Journal;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use crate::data::DataError;
use crate::dialling::Dials;
use crate::node::{Disk, Logs, Loops, Node, Origins, Peers, build_all};
use crate::process::BackgroundRuntime;
use crate::server::{GOODBYE, StartError};

/// An event loop that no thread runs yet.
pub(crate) struct EventLoop {
    pub(crate) runtime: BackgroundRuntime,
    pub(crate) transport: Transport<Node>,
    /// The task that ends its turns.
    pub(crate) turns: tokio::task::JoinHandle<()>,
}

/// Builds the event loops of a node, one for each seed: the first one, and the others. The life that begins has this tag.
pub(crate) fn build(
    origins: &Origins,
    journals: Vec<Journal>,
    (tag, seeds): (u64, Vec<u64>),
    options: &Options,
    clock: Clock,
) -> Result<(EventLoop, Vec<EventLoop>), StartError> {
    let config = &origins.config;
    let wakers: Vec<TurnWaker> = seeds.iter().map(|_| TurnWaker::default()).collect();
    let logs = Logs::start_all(config.cluster, journals, &wakers)?;
    let path = origins.data.path();
    let watched = logs.iter().cloned().zip(wakers.iter().cloned()).collect();
    let disk = Disk::watch(&origins.data, &config.limits, watched)
        .map_err(|source| DataError::Io { path: path.to_owned(), source })?;
    let peers = Peers::new(Arc::clone(&origins.data), config.node, tag)?;
    let mut disk = Some(disk);
    let (mut nodes, mut ordered) = (Vec::new(), Vec::new());
    for (((loops, waker), logs), seed) in Loops::of(&wakers).into_iter().zip(wakers).zip(logs).zip(seeds) {
        let own = (logs.clone(), disk.take());
        let (origins, peers) = (origins.clone(), peers.of_another_event_loop());
        let (node, orders) = Node::new(origins, peers, (loops, waker.clone()), own, seed)?;
        nodes.push((node, waker));
        ordered.push((logs, orders));
    }
    let mut built = Vec::new();
    for ((mut node, waker), replicas) in nodes.into_iter().zip(build_all(&origins.data, ordered)) {
        node.begin_with(replicas)?;
        let runtime = BackgroundRuntime::new(Builder::new_current_thread().enable_all().build()?);
        let (transport, turns) = {
            let _inside = runtime.enter();
            Transport::start(node, options.clone(), clock, waker)
        };
        built.push(EventLoop { runtime, transport, turns });
    }
    let others = built.split_off(1);
    let first = built.pop().ok_or_else(|| std::io::Error::other("a node has an event loop at least"))?;
    Ok((first, others))
}

/// The event loops beside the first one, each on a thread of its own, until they are dropped.
pub(crate) struct Others {
    transports: Vec<Transport<Node>>,
    /// Their receivers end the threads when these are dropped.
    stops: Vec<oneshot::Sender<()>>,
    /// Its sender is held by the threads: one that ends by itself says so.
    ended: watch::Receiver<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Others {
    /// Starts their threads. Their replicas start with those of the first one.
    pub(crate) fn start(event_loops: Vec<EventLoop>) -> std::io::Result<Others> {
        let (end, ended) = watch::channel(false);
        let end = Arc::new(end);
        let (transports, stops, threads) = (Vec::new(), Vec::new(), Vec::new());
        let mut others = Others { transports, stops, ended, threads };
        for EventLoop { runtime, transport, turns } in event_loops {
            let (event_loop, me) = transport.with(|node, _| (node.event_loop(), node.node()));
            let (stop, stop_asked) = oneshot::channel();
            others.transports.push(transport.clone());
            others.stops.push(stop);
            let end = Arc::clone(&end);
            let name = format!("{me}-{event_loop}");
            let thread = std::thread::Builder::new().name(name).spawn(move || {
                if !run(runtime, transport, turns, me, stop_asked) {
                    tracing::error!(event_loop, "an event loop has ended");
                    end.send_replace(true);
                }
            })?;
            others.threads.push(thread);
        }
        Ok(others)
    }

    pub(crate) fn transports(&self) -> Vec<Transport<Node>> {
        self.transports.clone()
    }

    /// Waits until one of them has ended by itself, which it does only when something is very wrong.
    pub(crate) async fn ended(&mut self) {
        if self.ended.wait_for(|ended| *ended).await.is_err() {
            // There are none, or all are being stopped.
            std::future::pending::<()>().await;
        }
    }

    /// Ends their connections in good order.
    pub(crate) async fn say_goodbye(&self, grace: Duration) {
        for transport in &self.transports {
            transport.close(GOODBYE, grace).await;
        }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        self.stops.clear();
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("the thread of an event loop has panicked");
            }
        }
    }
}

/// The life of the thread of an event loop. False if it has ended by itself.
fn run(
    runtime: BackgroundRuntime,
    transport: Transport<Node>,
    turns: tokio::task::JoinHandle<()>,
    me: NodeId,
    stop: oneshot::Receiver<()>,
) -> bool {
    let is_stopped = runtime.block_on(async {
        let mut dialled = Dials::new(&transport, me, Vec::new());
        let stop = async {
            // Nothing is ever sent: this is the end of the sender.
            let _ = stop.await;
        };
        tokio::pin!(stop);
        tokio::select! {
            () = &mut stop => return true,
            // It ends when connections are closed in good order, and with a machine that has panicked.
            ended = turns => if ended.is_err() { return false },
            () = dialled.follow(&transport) => return false,
        }
        stop.await;
        true
    });
    drop(runtime);
    is_stopped
}
