//! The identity of this process to its peers, and the bounds within which it serves them.

use std::sync::Arc;
use std::time::Duration;

use quorate_wire::{Credential, Peer};

use super::doorkeeper::Doorkeeper;
use crate::secure::Tls;
use crate::wan::Matrix;

/// How a transport behaves.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster that this process belongs to; a client may say 0, which is any.
    pub cluster: u64,
    /// The identity of this process.
    pub identity: Peer,
    /// The site that it stands in, for emulated delay; empty if it does not say.
    pub site: String,
    /// Delays between sites to emulate; none in real clusters.
    pub delays: Option<Arc<Matrix>>,
    /// The certificates by which every connection is secured; none if connections are plain.
    pub tls: Option<Tls>,
    /// By what a client says as which user it comes, on every connection that it makes.
    pub credential: Option<Credential>,
    /// The judge of what clients show to a server; without one nobody logs in.
    pub doorkeeper: Option<Arc<dyn Doorkeeper>>,
    /// How long a new connection may take to be established and to say who it is.
    pub handshake_timeout: Duration,
    /// How long a frame may take from its first byte to its last, and a peer to take any of what waits for it.
    pub stall_timeout: Duration,
    /// How much may wait to be written to a client before it counts as a slow reader and is disconnected, in bytes.
    pub client_link_bytes_max: usize,
    /// The same for a node, to which whole records may be on their way, in bytes.
    pub node_link_bytes_max: usize,
    /// How much of frames that have begun and not ended may be held, over all connections, in bytes.
    pub unfinished_bytes_max: usize,
    /// The most connections of clients that are accepted at a time. A few more are left for other nodes.
    pub connections_max: usize,
    /// The first pause before a broken connection is dialled again; doubles from one failure to the next.
    pub redial_pause_min: Duration,
    /// The longest such pause.
    pub redial_pause_max: Duration,
    /// How many event loops this process has, each with a transport of its own: 1 at least. Connections are accepted by the first one, and passed on
    /// to those that they ask for.
    pub event_loops: u16,
    /// True if a dial makes a connection to each event loop of its target, so that messages need not be passed on there.
    pub dials_each_event_loop: bool,
}

impl Options {
    /// Options for a process of `cluster`, with the defaults that servers and clients use.
    pub fn new(cluster: u64, identity: Peer, site: impl Into<String>) -> Self {
        Options {
            cluster,
            identity,
            site: site.into(),
            delays: None,
            tls: None,
            credential: None,
            doorkeeper: None,
            handshake_timeout: Duration::from_secs(5),
            stall_timeout: Duration::from_secs(30),
            client_link_bytes_max: 64 * 1024 * 1024,
            node_link_bytes_max: 1024 * 1024 * 1024,
            unfinished_bytes_max: 512 * 1024 * 1024,
            connections_max: 1_024,
            redial_pause_min: Duration::from_millis(20),
            redial_pause_max: Duration::from_millis(500),
            event_loops: 1,
            dials_each_event_loop: false,
        }
    }

    /// How much may wait to be written to a peer.
    pub(super) fn link_bytes_max(&self, peer: Peer) -> usize {
        match peer {
            Peer::Node(_) => self.node_link_bytes_max,
            Peer::Client(_) => self.client_link_bytes_max,
        }
    }

    /// How long messages to a site are delayed.
    pub(super) fn delay_to(&self, site: &str) -> Duration {
        self.delays.as_ref().and_then(|delays| delays.one_way(&self.site, site)).unwrap_or(Duration::ZERO)
    }
}
