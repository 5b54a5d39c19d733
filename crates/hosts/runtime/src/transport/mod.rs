//! The connections of one process, and the host that speaks over them.
//!
//! TCP with NODELAY, and TLS 1.3 where the options have certificates; frames of [`quorate_wire`]. The end that dials says
//! [`Hello`](quorate_wire::Hello); the other end checks it and says [`Welcome`](quorate_wire::Welcome), or says why not and
//! closes. From then on each end sends packets, which may be lost with the connection: a machine that needs an answer
//! repeats its message.
//!
//! | file | role |
//! |---|---|
//! | `connection` | one connection: handshake, then read, decode, hand over |
//! | `dial`, `listen` | where connections come from: dialled again with back-off, or accepted up to a bound |
//! | `doorkeeper` | what a client shows of its user, and who judges that |
//! | `inbound` | the incoming side: bytes in, packets out |
//! | `link`, `links` | the outgoing side: buffers, emulated delay, bounds, few writes per turn |
//! | `turn` | the task that ends each turn |
//! | `options` | who this process is to its peers, and its bounds |
//!
//! # What a hostile peer can do
//! It can have its own connection closed. A connection that does not complete its handshake in time, sends what is not a
//! frame or not a packet, begins a frame and does not finish it, or does not read what it asked for, is closed with a
//! reason in the log; connections beyond the maximum are refused. Nobody else notices. A peer speaks for the identity of its certificate only, and
//! nothing that it says is looked at before that certificate is judged; handshakes are bounded in time, in number, and in how fast they begin.

mod connection;
mod dial;
mod doorkeeper;
mod inbound;
mod link;
mod links;
mod listen;
mod options;
mod turn;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use quorate_core::Instant;
use quorate_wire::packet::{Packet, Peer};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use crate::clock::{Clock, Time};
use connection::Arrival;
pub use dial::{Dialled, Target};
pub use doorkeeper::{Doorkeeper, Judgement, Shown};
pub use link::{DialId, LinkId, Remote};
pub use links::Counters;
use links::Links;
pub use options::Options;

/// The code that owns the machines of a process and speaks for them.
///
/// Everything here is called with the host's mutex held, and must not wait.
pub trait Host: Send + 'static {
    /// A connection is complete in both directions.
    fn on_link_up(&mut self, link: LinkId, remote: &Remote, turn: &mut Turn<'_>);

    /// A connection is gone.
    fn on_link_down(&mut self, link: LinkId, remote: &Remote, reason: &str, turn: &mut Turn<'_>);

    /// An attempt to connect has failed; the next one follows after a pause.
    fn on_dial_failed(&mut self, dial: DialId, target: &Target, reason: &str, turn: &mut Turn<'_>) {
        let _ = (dial, target, reason, turn);
    }

    /// A packet has arrived.
    ///
    /// # Errors
    /// The peer has broken the rules: its connection is closed for this reason.
    fn on_packet(&mut self, link: LinkId, packet: Packet, turn: &mut Turn<'_>) -> Result<(), Violation>;

    /// The turn ends: timers that are due fire, logs are written, what became durable is let go. Called once per turn,
    /// before the links are written.
    fn on_turn_end(&mut self, turn: &mut Turn<'_>);

    /// When the host wants a turn even if nothing happens. Asked at the end of each turn.
    fn next_deadline(&mut self) -> Option<Instant>;
}

/// Why a peer's connection is closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Violation(pub Cow<'static, str>);

/// The access of a host to its links in a turn.
pub struct Turn<'a> {
    /// When the turn began.
    pub time: Time,
    links: &'a mut Links,
}

impl Turn<'_> {
    /// Sends a packet, at the end of the turn at the latest; a link that is gone swallows it.
    pub fn send(&mut self, link: LinkId, packet: &Packet) {
        self.links.push(link, packet, self.time.now);
    }

    /// Sends a packet to every client at the end of the turn.
    pub fn send_to_clients(&mut self, packet: &Packet) {
        for link in self.links.ids() {
            if self.remote(link).is_some_and(|remote| matches!(remote.identity, Peer::Client(_))) {
                self.send(link, packet);
            }
        }
    }

    /// Sends a packet to every peer at the end of the turn.
    pub fn send_to_all(&mut self, packet: &Packet) {
        for link in self.links.ids() {
            self.send(link, packet);
        }
    }

    /// Sends a goodbye with this reason and closes the link.
    pub fn close(&mut self, link: LinkId, reason: impl Into<String>) {
        let reason = reason.into();
        self.links.say_goodbye(link, &Packet::Goodbye { reason: reason.clone() }, reason);
    }

    /// The peer at the other end of a link.
    pub fn remote(&self, link: LinkId) -> Option<&Remote> {
        self.links.get(link).map(|link| &link.remote)
    }

    /// All links, ascending.
    pub fn link_ids(&self) -> Vec<LinkId> {
        self.links.ids()
    }

    /// How much waits to be written to a link, in bytes.
    pub fn link_queued_bytes(&self, link: LinkId) -> usize {
        self.links.get(link).map_or(0, link::Link::queued_bytes)
    }

    /// How much waits to be written over all links, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.links.queued_bytes()
    }

    /// Bounds the connections of clients, now that there are fewer or more descriptors for them. Those that are there stay.
    pub fn set_clients_max(&mut self, clients_max: usize) {
        self.links.clients_max = clients_max;
    }

    /// How many links there are.
    pub fn links_len(&self) -> usize {
        self.links.len()
    }

    /// The traffic of the links.
    pub fn counters(&self) -> Counters {
        self.links.counters
    }
}

/// The connections of a process and its host. Clones share both.
pub struct Transport<H> {
    shared: Arc<Shared<H>>,
}

impl<H> Clone for Transport<H> {
    fn clone(&self) -> Self {
        Transport { shared: Arc::clone(&self.shared) }
    }
}

impl<H> std::fmt::Debug for Transport<H> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Transport")
            .field("identity", &self.shared.options.identity)
            .finish_non_exhaustive()
    }
}

/// The state that a transport's tasks share.
struct Shared<H> {
    hub: Mutex<Hub<H>>,
    clock: Clock,
    options: Options,
    waker: TurnWaker,
    /// True once the transport is closed: tasks end.
    closed: watch::Sender<bool>,
    /// Connections that were accepted and are not gone.
    accepted: AtomicUsize,
    /// Those of them that have not said yet what they are.
    strangers: listen::Strangers,
    dials: AtomicUsize,
    /// The refusals that the log has.
    told: Mutex<BTreeSet<String>>,
    /// The transports of the other event loops of this process, if this is the first.
    others: OnceLock<Vec<Transport<H>>>,
    /// Where connections are put that another event loop has accepted.
    arrivals: mpsc::UnboundedSender<Arrival<H>>,
}

struct Hub<H> {
    host: H,
    links: Links,
}

/// Asks for a turn, from any thread: how the thread that syncs logs reports that it has done so.
#[derive(Clone, Default)]
pub struct TurnWaker {
    inner: Arc<WakerState>,
}

#[derive(Default)]
struct WakerState {
    due: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl TurnWaker {
    /// Asks for a turn, unless one has been asked for already.
    pub fn wake(&self) {
        if !self.inner.due.swap(true, Ordering::AcqRel)
            && let Some(waker) = &*self.inner.waker.lock().unwrap_or_else(PoisonError::into_inner)
        {
            waker.wake_by_ref();
        }
    }
}

impl<H: Host> Transport<H> {
    /// Starts a transport on the tokio runtime of the caller. The handle of the task that ends its turns comes with it:
    /// it ends when the transport is closed, and with a panic if a machine has found its own state to be impossible.
    ///
    /// `waker` may have been given to other threads before.
    pub fn start(host: H, options: Options, clock: Clock, waker: TurnWaker) -> (Self, JoinHandle<()>) {
        let (arrivals, arrived) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            hub: Mutex::new(Hub { host, links: Links::bounded(options.connections_max) }),
            clock,
            options,
            waker,
            closed: watch::Sender::new(false),
            accepted: AtomicUsize::new(0),
            strangers: listen::Strangers::default(),
            told: Mutex::default(),
            dials: AtomicUsize::new(0),
            others: OnceLock::new(),
            arrivals,
        });
        tokio::spawn(connection::serve_arrivals(Arc::clone(&shared), arrived));
        let task = tokio::spawn(turn::run(Arc::clone(&shared)));
        (Transport { shared }, task)
    }

    /// Runs `action` on the host, now, on the thread of the caller; what it sends leaves at the end of the turn.
    pub fn with<R>(&self, action: impl FnOnce(&mut H, &mut Turn<'_>) -> R) -> R {
        self.shared.with(action)
    }

    /// Accepts connections from a listener.
    pub fn listen(&self, listener: TcpListener) {
        tokio::spawn(listen::run(Arc::clone(&self.shared), listener));
    }

    /// Keeps a connection to `target`: dials, and dials again whenever it breaks, until the dial is dropped.
    pub fn dial(&self, target: Target) -> Dialled {
        dial::start(&self.shared, target)
    }

    /// Passes connections that lead to other event loops of this process on to their transports: to the first of these those that lead to event loop
    /// 1, and so on. To be called before [`Transport::listen`], as many as [`Options::event_loops`] says.
    ///
    /// # Panics
    /// If it is called twice.
    pub fn share_connections(&self, others: Vec<Transport<H>>) {
        assert!(self.shared.others.set(others).is_ok(), "event loops are told of each other once");
    }

    /// Asks for a turn.
    pub fn waker(&self) -> TurnWaker {
        self.shared.waker.clone()
    }

    /// Says goodbye on every link, waits until that is written or `grace` has passed, and ends every task.
    pub async fn close(&self, reason: &str, grace: Duration) {
        self.shared.with(|_, turn| {
            for link in turn.links.ids() {
                turn.close(link, reason);
            }
        });
        let deadline = tokio::time::Instant::now() + grace;
        while self.shared.with(|_, turn| turn.links.queued_bytes() > 0)
            && tokio::time::Instant::now() < deadline
        {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.abandon();
    }

    /// Closes every connection now and ends every task.
    pub fn abandon(&self) {
        self.shared.closed.send_replace(true);
        self.shared.with(|_, turn| turn.links.shut_all("this process stops"));
        self.shared.waker.wake();
    }
}

impl<H: Host> Shared<H> {
    fn lock(&self) -> MutexGuard<'_, Hub<H>> {
        // A machine that has panicked in an assertion must not be stepped again: the next caller panics as well, and
        // with the turn task the process or its node ends.
        self.hub.lock().unwrap_or_else(|_| panic!("the host of this transport has panicked"))
    }

    fn with<R>(&self, action: impl FnOnce(&mut H, &mut Turn<'_>) -> R) -> R {
        let mut hub = self.lock();
        let Hub { host, links } = &mut *hub;
        let result = action(host, &mut Turn { time: self.clock.read(), links });
        drop(hub);
        self.waker.wake();
        result
    }

    /// Has the log say why a peer is refused: once for each place and reason, because it will try again.
    fn log_refusal(&self, address: SocketAddr, reason: &str) {
        /// So many places and reasons are remembered.
        const TOLD_MAX: usize = 1_024;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        if told.insert(format!("{} {reason}", address.ip())) {
            tracing::warn!(%address, reason, "connection refused");
        } else {
            tracing::debug!(%address, reason, "connection refused");
        }
    }

    /// The transport of another event loop; none if it is this one.
    fn other(&self, event_loop: u16) -> Option<Arc<Shared<H>>> {
        let at = usize::from(event_loop).checked_sub(1)?;
        self.others.get()?.get(at).map(|other| Arc::clone(&other.shared))
    }

    fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }
}
