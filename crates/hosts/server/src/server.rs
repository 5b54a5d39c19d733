//! Starting and stopping a node: a thread with the event loop that speaks for the node, those of further ones, and a small one for HTTP.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_certificates::{Purpose, Trust, TrustError};
use quorate_core::topology::Node as Place;
use quorate_core::{ClientId, NodeId};
use quorate_credentials::Secret;
use quorate_logins::Audit;
use quorate_runtime::transport::{Doorkeeper, Options};
use quorate_runtime::{Clock, Transport};
use quorate_wire::Peer;
use tokio::sync::{oneshot, watch};

use crate::data::{DataDirectory, DataError, Initialise};
use crate::dialling::Dials;
use crate::entrance::{Entrance, Security};
use crate::event_loops::{self, EventLoop, Others};
use crate::http::HttpServer;
use crate::join::{JoinError, Settled, settle};
use crate::node::{DrainState, Node, Origins, Status, SweepingStatus, SweptHere, make_room};
use crate::{Config, Limits, TlsOptions};

/// How long a node waits for the lives of the others before its replicas start without them. One whose disk was rolled back, or which
/// was initialised anew, is told so meanwhile by any peer that can be reached.
const LIVES_GRACE: Duration = Duration::from_secs(1);

/// How long a stopping node without a majority waits for the decisions of clients that had their majority before.
const STUCK_GRACE: Duration = Duration::from_millis(300);

/// The last message to peers.
pub(crate) const GOODBYE: &str = "this node is stopping";

/// How long the last words to peers may take once a node has drained.
const GOODBYE_GRACE: Duration = Duration::from_secs(1);

/// Why a node cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its data directory cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// It is to join a cluster and cannot.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Its certificates cannot be used.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// It cannot listen.
    #[error("cannot listen on {address}: {source}; choose another address, or stop what uses it")]
    Listen {
        /// The address.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
    /// Its audit log cannot be written.
    #[error("the audit log {}: {source}", path.display())]
    Audit {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The operating system refused a thread, randomness or the like.
    #[error("the operating system refused: {0}")]
    System(#[from] std::io::Error),
}

/// A node has stopped other than by being asked to.
#[derive(Debug, thiserror::Error)]
#[error("the node stopped because it found its own state to be impossible; the log says why")]
pub struct Failed;

/// Sockets that were bound before the node starts, for tests and embedded clusters with ports of the system's choice.
#[derive(Debug, Default)]
pub struct Sockets {
    /// Where the node listens instead of its configured address.
    pub node: Option<TcpListener>,
    /// Where it serves HTTP instead of its configured address.
    pub http: Option<TcpListener>,
}

/// A node that runs on a thread of its own.
///
/// Dropping it stops it at once, without draining, as a crash would.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    http: Option<HttpServer>,
    stop: Option<oneshot::Sender<Stop>>,
    thread: Option<JoinHandle<Result<(), Failed>>>,
    transport: Transport<Node>,
    stopped: watch::Receiver<bool>,
    token: Secret,
    audit: Option<Arc<Audit>>,
}

/// How a node is to stop.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Refuse new work, let what is under way end, sync.
    Drain,
    /// At once.
    Crash,
}

impl Server {
    /// Starts a node; it serves when this returns.
    ///
    /// # Errors
    /// It cannot start; nothing is left running.
    pub fn start(config: Config, initialise: Initialise) -> Result<Server, StartError> {
        Server::start_with(config, initialise, Sockets::default())
    }

    /// As [`Server::start`], on sockets that were bound before.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(
        config: Config,
        initialise: Initialise,
        sockets: Sockets,
    ) -> Result<Server, StartError> {
        let client = ClientId(random()?.max(1));
        // A node that joins is told which one it is.
        let node = config.join.is_empty().then_some(config.node);
        let asking =
            config.tls.as_ref().map(|tls| Trust::load(tls.files(), purpose(&config, node))).transpose()?;
        let Settled { config, initialise, hints } = settle(config, initialise, client, asking.as_ref())?;
        let config = Arc::new(config);
        let watched = |tls: &TlsOptions| Trust::watched(tls.files(), purpose(&config, Some(config.node)));
        let trust = config.tls.as_ref().map(watched).transpose()?;
        let (cluster, node) = (config.cluster, config.node);
        make_room(&config.data_directory);
        let data = DataDirectory::open(&config.data_directory, cluster, node, initialise, random()?)?
            .with_memory(config.limits.memory_bytes)?;
        data.remember(&config.topology, &config.system)?;
        let listener = match sockets.node {
            Some(listener) => listener,
            None => bind(config.listen_address())?,
        };
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let http_listener = match (sockets.http, &config.http) {
            (Some(listener), _) => Some(listener),
            (None, Some(address)) => Some(bind(address)?),
            (None, None) => None,
        };

        let event_loops = config.threads.count();
        let journals = data.open_journals(event_loops)?;
        let token = Secret::new().map_err(std::io::Error::other)?;
        data.write_token(token.reveal())?;
        let audit = config.doors.audit_log.as_deref().map(open_audit).transpose()?;
        let clock = Clock::start();
        let entrance = Entrance::new(token.hash(), data.remembered_access()?, audit.clone(), clock);
        let entrance = Arc::new(entrance);
        let security = Security { trust: trust.clone(), entrance: Arc::clone(&entrance) };
        let (data, client) = (Arc::new(data), ClientId(random()?.max(1)));
        let origins = Origins { config: Arc::clone(&config), data, client, security };
        let options = options(&config, trust.clone(), Arc::clone(&entrance) as Arc<dyn Doorkeeper>);
        let seeds = (0..event_loops).map(|_| random()).collect::<Result<Vec<_>, _>>()?;
        let (first, others) = event_loops::build(&origins, journals, (random()?, seeds), &options, clock)?;
        let transport = first.transport.clone();
        let others = Others::start(others)?;
        transport.with(|node, _| node.set_others(others.transports()));
        transport.share_connections(others.transports());
        let serve = |listener| {
            let (trust, entrance) = (trust.clone(), Arc::clone(&entrance));
            HttpServer::start(listener, transport.clone(), &config.limits, trust, entrance)
        };
        let http = http_listener.map(serve).transpose()?;
        let (stop, stop_asked) = oneshot::channel();
        let (has_stopped, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new().name(config.node.to_string()).spawn({
            let config = Arc::clone(&config);
            move || {
                let result = run(first, others, listener, &config, hints, stop_asked);
                has_stopped.send_replace(true);
                result
            }
        })?;
        let security = if trust.is_some() { "TLS" } else { "plain text" };
        tracing::info!(node = %config.node, %address, cluster = config.cluster_name, security, "listening");
        let insecure = config.insecure_addresses();
        if !insecure.is_empty() {
            tracing::warn!(
                ?insecure,
                "everything that reaches these addresses may do everything: plain text is spoken there, because the file asks for it"
            );
        }
        Ok(Server { address, http, stop: Some(stop), thread: Some(thread), transport, stopped, token, audit })
    }

    /// The token of the node, by which every node of the cluster knows its doors: they may do everything, and ask for the rights of their own clients. It is
    /// another one in each life of the node, and also in the file `token` of its data directory.
    pub fn token(&self) -> &str {
        self.token.reveal()
    }

    /// The log of log-ins, refusals and administration, if the node has one. Its doors write to the same.
    pub fn audit(&self) -> Option<Arc<Audit>> {
        self.audit.clone()
    }

    /// Where the node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it serves HTTP.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::address)
    }

    /// How the node is.
    pub fn status(&self) -> Status {
        self.transport.with(|node, turn| node.status(turn))
    }

    /// Goes by these limits from now on, as far as [`Config::take_over`] takes limits over.
    pub fn set_limits(&self, limits: &Limits) {
        self.transport.with(|node, turn| node.set_limits(limits, turn));
    }

    /// Tells operators why the configuration that was read again cannot be used; none if it can be.
    pub fn set_configuration_problem(&self, problem: Option<String>) {
        self.transport.with(|node, _| node.set_configuration_problem(problem));
    }

    /// The keyspaces whose values expire and that the process of this node is to sweep, as a client of the cluster.
    pub fn swept_here(&self) -> Vec<SweptHere> {
        self.transport.with(|node, _| node.swept_here())
    }

    /// Takes over how that goes, to be told to operators.
    pub fn set_sweeping(&self, sweeping: Vec<SweepingStatus>) {
        self.transport.with(|node, _| node.set_sweeping(sweeping));
    }

    /// Waits until the node has stopped by itself, which it does only when something is very wrong.
    pub async fn stopped(&self) {
        let mut stopped = self.stopped.clone();
        // An error means that the thread is gone, which is as good.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }

    /// Stops the node in good order: it refuses new work, lets what is under way end as long as
    /// [`Limits::drain_timeout`](crate::Limits::drain_timeout) allows, syncs its logs and says goodbye.
    ///
    /// # Errors
    /// The node had failed.
    pub fn shutdown(mut self) -> Result<(), Failed> {
        self.stop(Stop::Drain)
    }

    /// Stops the node as a crash would: at once, whatever is under way.
    ///
    /// # Errors
    /// The node had failed by itself.
    pub fn crash(mut self) -> Result<(), Failed> {
        self.stop(Stop::Crash)
    }

    fn stop(&mut self, how: Stop) -> Result<(), Failed> {
        if let Some(stop) = self.stop.take() {
            // A node that has failed does not listen any more, which its result tells.
            let _ = stop.send(how);
        }
        self.http = None;
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or(Err(Failed)),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.stop(Stop::Crash).is_err() {
            tracing::error!("a node had failed before it was stopped");
        }
    }
}

/// The life of a node's thread.
fn run(
    EventLoop { runtime, transport, turns }: EventLoop,
    mut others: Others,
    listener: TcpListener,
    config: &Config,
    hints: Vec<Place>,
    stop: oneshot::Receiver<Stop>,
) -> Result<(), Failed> {
    let result = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(|error| {
            tracing::error!(%error, "cannot listen");
            Failed
        })?;
        transport.listen(listener);
        let mut dialled = Dials::new(&transport, config.node, hints);
        connect(&transport).await;
        transport.with(|node, turn| node.start(turn));
        let result = tokio::select! {
            // The turn task ends only with the transport, or with a machine that has panicked.
            _ = turns => Err(Failed),
            // So do these: they end with the node.
            () = dialled.follow(&transport) => Err(Failed),
            () = others.ended() => Err(Failed),
            // An error means that the handle is gone: as good as a crash.
            stop = stop => {
                if let Ok(Stop::Drain) = stop {
                    let timeout = transport.with(|node, _| node.drain_timeout());
                    drain(&transport, timeout).await;
                    others.say_goodbye(GOODBYE_GRACE).await;
                    transport.with(|node, _| node.close());
                }
                Ok(())
            }
        };
        drop(dialled);
        result
    });
    // Sockets, tasks and machines end here.
    drop(runtime);
    drop(others);
    result
}

/// Waits a moment until the other nodes have said their lives. Also, what replicas say first is lost while they cannot be reached, and
/// repeated only after a time-out.
async fn connect(transport: &Transport<Node>) {
    let deadline = Instant::now() + LIVES_GRACE;
    while !transport.with(|node, _| node.knows_all_lives()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn drain(transport: &Transport<Node>, timeout: Duration) {
    tracing::info!("stopping");
    let deadline = Instant::now() + timeout;
    transport.with(|node, turn| node.drain(turn));
    let mut stuck_since = None;
    loop {
        let now = Instant::now();
        match transport.with(|node, turn| node.drain_state(turn)) {
            DrainState::Drained => break,
            DrainState::UnderWay => stuck_since = None,
            DrainState::Stuck => _ = stuck_since.get_or_insert(now),
        }
        if now >= deadline || stuck_since.is_some_and(|since| now - since >= STUCK_GRACE) {
            tracing::warn!(
                "transactions are still under way; whoever coordinates them will be told when this node is back"
            );
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    transport.close(GOODBYE, GOODBYE_GRACE).await;
}

/// The purpose of the certificate of a node.
pub(crate) fn purpose(config: &Config, node: Option<NodeId>) -> Purpose {
    Purpose::Node { cluster: config.cluster_name.clone(), node }
}

fn open_audit(path: &Path) -> Result<Arc<Audit>, StartError> {
    let opened = Audit::open(path).map(Arc::new);
    opened.map_err(|source| StartError::Audit { path: path.to_owned(), source })
}

fn options(config: &Config, tls: Option<Arc<Trust>>, entrance: Arc<dyn Doorkeeper>) -> Options {
    let limits = &config.limits;
    let identity = Peer::Node(NodeId(config.node.0));
    Options {
        delays: config.wan.clone(),
        tls,
        doorkeeper: Some(entrance),
        handshake_timeout: limits.handshake_timeout,
        stall_timeout: limits.stall_timeout,
        client_link_bytes_max: limits.client_queue_bytes_max,
        node_link_bytes_max: limits.node_queue_bytes_max,
        unfinished_bytes_max: limits.unfinished_bytes_max,
        connections_max: limits.connections_max,
        event_loops: config.threads.count(),
        ..Options::new(config.cluster, identity, config.own_site())
    }
}

fn bind(address: &str) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).map_err(|source| StartError::Listen { address: address.to_owned(), source })
}

fn random() -> Result<u64, StartError> {
    getrandom::u64().map_err(|error| StartError::System(std::io::Error::other(error)))
}
