//! Connections that peers make, up to a bound.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpListener;

use super::connection::{refuse, serve_accepted};
use super::{Host, Shared};

/// How long to wait when the operating system has no resources for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// So many connections are accepted beyond those of clients: what a peer is shows only when it has said so, and other nodes
/// have to get through when there are too many clients.
const FOR_NODES: usize = 64;

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
        let connections_max = shared.lock().links.clients_max + FOR_NODES;
        if shared.accepted.load(Ordering::Relaxed) > connections_max {
            tracing::warn!(%address, connections_max, "connection refused: there are too many");
            shared.with(|_, turn| turn.links.counters.refused += 1);
            tokio::spawn(refuse(stream, format!("this node serves {connections_max} connections already")));
            continue;
        }
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            serve_accepted(shared, stream, address).await;
            drop(slot);
        });
    }
}

/// One of the connections that are counted towards the maximum.
struct Slot<H>(Arc<Shared<H>>);

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
