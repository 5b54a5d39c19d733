//! Listeners and threads, from start to stop.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use quorate::rights::Access;
use quorate_certificates::{Certified, Trust};
use quorate_logins::{Audit, Logins};
use socket2::{SockRef, TcpKeepalive};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::sync::{OnceCell, watch};
use tokio::task::LocalSet;

use crate::access;
use crate::connection::{Connection, ReadBuffer, read_buffer};
use crate::memory::Memory;
use crate::meter::Meter;
use crate::session::{Session, Shared};
use crate::socket::Socket;
use crate::{Door, Limits};

/// The options of a gateway.
#[derive(Clone)]
pub struct Options {
    /// Where nodes of the cluster are found.
    pub addresses: Vec<String>,
    /// The certificate that doors show to their clients, and the authorities by which they judge those of clients; none if they speak plain text.
    pub trust: Option<Arc<Trust>>,
    /// How it connects to them.
    pub client: quorate::Options,
    /// How many threads it has.
    pub threads: usize,
    /// The log of log-ins, refusals and administration, if there is one.
    pub audit: Option<Arc<Audit>>,
    /// Its bounds.
    pub limits: Limits,
    /// The keyspaces whose keys are records of one of the doors.
    pub layered: Arc<[String]>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Options").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl Options {
    /// One thread, which finds the cluster at these addresses. Without addresses there is no cluster, and nothing to protect.
    pub fn new(addresses: Vec<String>) -> Self {
        Options {
            addresses,
            trust: None,
            client: quorate::Options::default(),
            threads: 1,
            audit: None,
            limits: Limits::default(),
            layered: Arc::default(),
        }
    }
}

/// The doors of a node, open until this is dropped.
#[derive(Debug)]
pub struct Gateway {
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
    memory: Memory,
    connections: Arc<AtomicUsize>,
}

/// A door with its listener.
type Open = (TcpListener, Arc<dyn Door>);

impl Gateway {
    /// Opens doors. Connections to the cluster are made when they are first needed.
    ///
    /// # Errors
    /// The operating system refuses a thread or a listener.
    pub fn start(options: Options, doors: Vec<Open>) -> io::Result<Gateway> {
        let (stop, stopped) = watch::channel(false);
        let memory = Memory::new(options.limits.bytes_max);
        let connections = Arc::new(AtomicUsize::new(0));
        let mut gateway = Gateway { stop, threads: Vec::new(), memory, connections };
        for (listener, door) in &doors {
            listener.set_nonblocking(true)?;
            tracing::info!(door = door.name(), address = %listener.local_addr()?, "open");
        }
        let (tell, known) = watch::channel(options.addresses.is_empty().then(Arc::default));
        let mut tell = Some(tell);
        let (logins, meter) = (Arc::<Logins>::default(), Meter::default());
        for number in 0..options.threads.max(1) {
            let doors = doors
                .iter()
                .map(|(listener, door)| Ok((listener.try_clone()?, Arc::clone(door))))
                .collect::<io::Result<Vec<Open>>>()?;
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let (options, stopped) = (options.clone(), stopped.clone());
            let (memory, connections) = (gateway.memory.clone(), Arc::clone(&gateway.connections));
            // One of them tends the doors.
            let tends = tell.take();
            let of_all = OfAll { access: known.clone(), logins: Arc::clone(&logins), meter: meter.clone() };
            let run = move || {
                let serving = serve(tends, of_all, options, doors, stopped, memory, connections);
                LocalSet::new().block_on(&runtime, serving);
            };
            let thread = std::thread::Builder::new().name(format!("gateway-{number}")).spawn(run)?;
            gateway.threads.push(thread);
        }
        Ok(gateway)
    }

    /// The bytes that all connections hold.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Closes all doors. A request under way is cut off: its client does not know what has come of it, as after any broken connection.
    pub fn shutdown(mut self) {
        self.close();
    }

    fn close(&mut self) {
        self.stop.send_replace(true);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the gateway had failed");
            }
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.close();
    }
}

/// The state of access control that all threads share.
struct OfAll {
    access: access::Known,
    logins: Arc<Logins>,
    meter: Meter,
}

/// The life of a thread. One of them also tends the doors, and tells all what it reads of access control.
async fn serve(
    tends: Option<watch::Sender<Option<Arc<Access>>>>,
    of_all: OfAll,
    options: Options,
    doors: Vec<Open>,
    mut stopped: watch::Receiver<bool>,
    memory: Memory,
    connections: Arc<AtomicUsize>,
) {
    let Options { addresses, trust, client, audit, limits, layered, .. } = options;
    let OfAll { access, logins, meter } = of_all;
    let shared = Rc::new(Shared {
        addresses,
        client,
        access,
        logins,
        meter,
        audit,
        limits,
        layered,
        database: OnceCell::new(),
        keyspaces: RefCell::new(BTreeMap::new()),
        of_doors: RefCell::default(),
    });
    let buffer = read_buffer();
    for (listener, door) in doors {
        let listener = match tokio::net::TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(%error, door = door.name(), "cannot listen");
                continue;
            }
        };
        let accepting = Accepting {
            door,
            trust: trust.clone(),
            shared: Rc::clone(&shared),
            buffer: Rc::clone(&buffer),
            memory: memory.clone(),
            connections: Arc::clone(&connections),
        };
        if tends.is_some() {
            let session = Session::of_door(Rc::clone(&shared), accepting.door.name());
            let door = Arc::clone(&accepting.door);
            tokio::task::spawn_local(async move { door.tend(session).await });
        }
        tokio::task::spawn_local(accepting.run(listener));
    }
    if let Some(tell) = tends.filter(|_| !shared.addresses.is_empty()) {
        tokio::task::spawn_local(access::keep(Rc::clone(&shared), tell));
    }
    // An error means that the gateway is gone, which is as good. Tasks end with the set that they run in.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

/// Ends when the certificate that a client has shown is not good any more, and says why; never, if it has shown none.
async fn outlived(trust: Option<&Trust>, certified: Option<&Certified>) -> String {
    /// How often a certificate is judged again: as often as the files of nodes are looked at.
    const PERIOD: Duration = Duration::from_secs(1);
    let (Some(trust), Some(certified)) = (trust, certified) else { return std::future::pending().await };
    loop {
        tokio::time::sleep(PERIOD).await;
        if let Err(refusal) = trust.judge_again(certified) {
            return refusal.to_string();
        }
    }
}

/// A door on one thread.
struct Accepting {
    door: Arc<dyn Door>,
    trust: Option<Arc<Trust>>,
    shared: Rc<Shared>,
    buffer: ReadBuffer,
    memory: Memory,
    connections: Arc<AtomicUsize>,
}

/// One of the connections that are counted.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Accepting {
    async fn run(self, listener: tokio::net::TcpListener) {
        /// How long to wait where the system has no descriptor for a connection.
        const PAUSE: Duration = Duration::from_millis(50);
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.accept(stream, peer),
                Err(error) => {
                    tracing::warn!(%error, door = self.door.name(), "cannot accept");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn accept(&self, stream: TcpStream, peer: SocketAddr) {
        /// After so long without a word a client is asked whether it is still there.
        const KEEPALIVE: Duration = Duration::from_secs(300);
        let limits = &self.shared.limits;
        let counted = Counted(Arc::clone(&self.connections));
        if self.connections.fetch_add(1, Ordering::Relaxed) >= limits.connections_max {
            // The words that fit into the buffer of the socket are sent; nothing is waited for. Words in plain text are none to a client that wants TLS.
            if self.trust.is_none() {
                let _ = stream.try_write(&self.door.too_many());
            }
            return;
        }
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        if stream
            .set_nodelay(true)
            .and_then(|()| SockRef::from(&stream).set_tcp_keepalive(&keepalive))
            .is_err()
        {
            // It has gone already.
            return;
        }
        let share = self.memory.share();
        let (door, trust) = (Arc::clone(&self.door), self.trust.clone());
        let (shared, buffer) = (Rc::clone(&self.shared), Rc::clone(&self.buffer));
        tokio::task::spawn_local(async move {
            let secured = match &trust {
                None => Ok((Socket::Plain(stream), None)),
                Some(_) if !Socket::begins_with_tls(&stream).await => {
                    Socket::Plain(stream).say_and_close(&door.speaks_tls()).await;
                    Err("it speaks plain text".to_owned())
                }
                Some(trust) => Socket::secured(trust, stream).await,
            };
            match secured {
                Ok((socket, certified)) => {
                    if let Ok(connection) = Connection::new(socket, peer, buffer, share, &shared.limits) {
                        let shown = certified.clone();
                        let session = Session::of_client(Rc::clone(&shared), door.name(), peer, shown);
                        tokio::select! {
                            () = door.serve(connection, session) => {}
                            reason = outlived(trust.as_deref(), certified.as_deref()) => {
                                tracing::warn!(%peer, reason, door = door.name(), "connection closed");
                            }
                        }
                    }
                }
                Err(reason) => tracing::debug!(%peer, reason, door = door.name(), "a connection is refused"),
            }
            drop(counted);
        });
    }
}
