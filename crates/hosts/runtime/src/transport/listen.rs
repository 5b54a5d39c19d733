//! Connections that peers make, up to a bound.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::connection::{refuse, serve_accepted};
use super::{Host, Shared};

/// How long to wait when the operating system has no resources for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// So many connections are accepted beyond those of clients: what a peer is shows only when it has said so, and other nodes
/// have to get through when there are too many clients.
const FOR_NODES: usize = 64;

/// So many peers may be about to say what they are. For a further one, the one that has taken longest has to go: peers that mean it take milliseconds,
/// so those that say nothing keep nobody out.
const STRANGERS_MAX: usize = 128;

/// Between two handshakes of TLS that peers begin, so much time passes for all else: each costs processor time, with any peer.
const HANDSHAKE_PAUSE: Duration = Duration::from_millis(1);

/// So many handshakes may begin at once before there are pauses between them.
const HANDSHAKES_AT_ONCE: u32 = 64;

/// Accepts connections until the transport is closed.
pub(super) async fn run<H: Host>(shared: Arc<Shared<H>>, listener: TcpListener) {
    let mut closed = shared.closed.subscribe();
    tokio::select! {
        never = accept_for_ever(&shared, &listener) => match never {},
        _ = closed.wait_for(|closed| *closed) => {}
    }
}

async fn accept_for_ever<H: Host>(
    shared: &Arc<Shared<H>>,
    listener: &TcpListener,
) -> std::convert::Infallible {
    let mut pace = Pace { begun: 0, since: tokio::time::Instant::now() };
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(EXHAUSTED_PAUSE).await;
                continue;
            }
        };
        let slot = Slot::take(shared);
        // A client or node makes one to each event loop.
        let event_loops = usize::from(shared.options.event_loops);
        let connections_max = (shared.lock().links.clients_max + FOR_NODES) * event_loops;
        if shared.accepted.load(Ordering::Relaxed) > connections_max + shared.strangers.len() {
            shared.log_refusal(address, "there are too many connections");
            shared.with(|_, turn| turn.links.counters.refused += 1);
            tokio::spawn(refuse(stream, format!("this node serves {connections_max} connections already")));
            continue;
        }
        let stranger = shared.strangers.enter();
        tokio::spawn(serve_accepted(Arc::clone(shared), stream, address, stranger, slot));
        if shared.options.tls.is_some() {
            pace.rest().await;
        }
    }
}

/// How fast handshakes of TLS begin.
struct Pace {
    /// How many have begun since there was a pause of which all are forgiven.
    begun: u32,
    since: tokio::time::Instant,
}

impl Pace {
    /// Another one has begun: waits as long as the next one has to.
    async fn rest(&mut self) {
        let due =
            (self.since.elapsed().as_nanos() / HANDSHAKE_PAUSE.as_nanos()).try_into().unwrap_or(u32::MAX);
        if due >= self.begun {
            (self.begun, self.since) = (0, tokio::time::Instant::now());
        }
        self.begun += 1;
        if self.begun >= HANDSHAKES_AT_ONCE {
            tokio::time::sleep(HANDSHAKE_PAUSE).await;
        }
    }
}

/// The peers that have connected and have not said yet what they are, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<Waiting>>);

#[derive(Default)]
struct Waiting {
    last: u64,
    /// How many there are, with those that have to go and are not gone yet.
    present: usize,
    /// Each hears when its sender is dropped.
    displace: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them, until it is dropped.
pub(super) struct Stranger {
    number: u64,
    strangers: Strangers,
    displaced: oneshot::Receiver<()>,
}

impl Strangers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn len(&self) -> usize {
        self.lock().present
    }

    fn enter(&self) -> Stranger {
        let (sender, displaced) = oneshot::channel();
        let mut waiting = self.lock();
        while waiting.displace.len() >= STRANGERS_MAX {
            waiting.displace.pop_first();
        }
        waiting.last += 1;
        waiting.present += 1;
        let number = waiting.last;
        waiting.displace.insert(number, sender);
        Stranger { number, strangers: self.clone(), displaced }
    }
}

impl Stranger {
    /// Ends when it has to go.
    pub(super) async fn displaced(&mut self) {
        // Nothing is ever sent: this is the end of the sender.
        let _ = (&mut self.displaced).await;
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let mut waiting = self.strangers.lock();
        waiting.present = waiting.present.saturating_sub(1);
        waiting.displace.remove(&self.number);
    }
}

/// One of the connections that are counted towards the maximum.
pub(super) struct Slot<H>(Arc<Shared<H>>);

impl<H> Slot<H> {
    fn take(shared: &Arc<Shared<H>>) -> Self {
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(shared))
    }
}

impl<H> Drop for Slot<H> {
    fn drop(&mut self) {
        self.0.accepted.fetch_sub(1, Ordering::Relaxed);
    }
}
