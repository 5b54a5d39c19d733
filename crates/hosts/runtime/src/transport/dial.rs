//! Connections that this process makes, and makes again when they break.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use quorate_core::{NodeId, Random};
use tokio::sync::watch;

use super::connection::{End, serve_dialled};
use super::link::DialId;
use super::{Host, Shared};

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Where the node listens, as `host:port`.
    pub address: String,
    /// Which node it must be, if that is known.
    pub expect: Option<NodeId>,
    /// The event loop of the node to which the connection is to lead, counted from 0; see [`Hello::event_loop`](quorate_wire::Hello::event_loop).
    pub event_loop: u16,
}

/// A standing wish to be connected to a target. Dropping it closes the connection and ends the wish.
#[derive(Debug)]
pub struct Dialled {
    id: DialId,
    /// Its receiver ends the dial when this is dropped.
    _alive: watch::Sender<()>,
}

impl Dialled {
    fn new(id: DialId) -> (Self, watch::Receiver<()>) {
        let (sender, receiver) = watch::channel(());
        (Dialled { id, _alive: sender }, receiver)
    }

    /// The id, by which [`Remote::dial`](super::Remote::dial) tells which links come of it.
    pub fn id(&self) -> DialId {
        self.id
    }
}

/// Begins to dial, until what this gives is dropped or the transport ends.
pub(super) fn start<H: Host>(shared: &Arc<Shared<H>>, target: Target) -> Dialled {
    let id = DialId(shared.dials.fetch_add(1, Ordering::Relaxed) as u64 + 1);
    let (dialled, wished) = Dialled::new(id);
    tokio::spawn(run(Arc::clone(shared), id, target, wished));
    dialled
}

/// Dials until the wish or the transport ends.
async fn run<H: Host>(shared: Arc<Shared<H>>, id: DialId, target: Target, mut wished: watch::Receiver<()>) {
    let mut closed = shared.closed.subscribe();
    tokio::select! {
        never = dial_for_ever(&shared, id, &target) => match never {},
        _ = closed.wait_for(|closed| *closed) => {}
        // Nothing is ever sent: this is the end of the sender.
        _ = wished.changed() => {}
    }
    shared.with(|host, turn| {
        for (link, remote) in turn.links.remove_dialled(id) {
            host.on_link_down(link, &remote, "it is not wanted any more", turn);
        }
    });
}

async fn dial_for_ever<H: Host>(
    shared: &Arc<Shared<H>>,
    id: DialId,
    target: &Target,
) -> std::convert::Infallible {
    let (pause_min, pause_max) = (shared.options.redial_pause_min, shared.options.redial_pause_max);
    let mut pause = pause_min;
    // Only spreads the dials of many peers in time; nothing depends on it.
    let mut random = Random::new(shared.clock.read().clock.as_micros() ^ id.0);
    loop {
        match serve_dialled(shared, id, target).await {
            // It had been up: the first new attempt may be made soon.
            Ok(end) => {
                tracing::debug!(address = target.address, reason = %end, "connection ended");
                pause = pause_min;
            }
            Err(end) => {
                tracing::debug!(address = target.address, reason = %end, "cannot connect");
                shared.with(|host, turn| host.on_dial_failed(id, target, &end.to_string(), turn));
                if let End::Goodbye(_) | End::Violation(_) = end {
                    // The peer is there and does not want us, or we do not want it: asking often does not help.
                    pause = pause_max;
                }
            }
        }
        tokio::time::sleep(pause.mul_f64(0.5 + random.unit())).await;
        pause = (pause * 2).min(pause_max).max(Duration::from_millis(1));
    }
}
