//! A proxy before every node, through which everybody reaches it.
//!
//! The peer that connects names itself in its first packet, so the proxy knows between which two places a connection runs.
//! Bytes that pass over a link that is cut wait, and arrive once the link is mended, as TCP would deliver them; connections
//! can also be broken.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpListener as StdListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quorate_cluster::{Failure, free_addresses};
use quorate_wire::{FrameReader, Packet, Peer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{NodeAddress, Place};

/// How much is read at once, and how many such pieces may be on their way over a link.
const PIECE_BYTES: usize = 64 * 1024;
const PIECES_MAX: usize = 256;

/// The proxies of all nodes, on a thread of their own. Dropping this ends them.
pub(crate) struct Proxies {
    addresses: Vec<NodeAddress>,
    links: Arc<Links>,
    /// Its receiver ends the thread when this is dropped.
    _alive: oneshot::Sender<()>,
}

/// The links, and the changes that can be made to them.
struct Links {
    state: Mutex<State>,
    /// Counts the changes of the state.
    changed: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// How often each link was cut without having been mended since: cuts may overlap.
    cut: BTreeMap<(Place, Place), u32>,
    extra: BTreeMap<Place, Duration>,
    broken: BTreeMap<Place, u64>,
}

impl Proxies {
    /// Starts a proxy for each of so many nodes.
    pub(crate) fn start(nodes: usize) -> Result<Proxies, Failure> {
        let failed = |error: io::Error| Failure::failed(format!("cannot listen on 127.0.0.1: {error}"));
        let links = Arc::new(Links { state: Mutex::default(), changed: watch::Sender::new(0) });
        let (mut addresses, mut listeners) = (Vec::with_capacity(nodes), Vec::with_capacity(nodes));
        for listen in free_addresses(nodes)? {
            let listener = StdListener::bind("127.0.0.1:0").map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let found = listener.local_addr().map_err(failed)?.to_string();
            listeners.push((listener, listen.clone()));
            addresses.push(NodeAddress { found, listen });
        }
        let (alive, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let run = {
            let links = Arc::clone(&links);
            move || runtime.block_on(run(listeners, links, ended))
        };
        std::thread::Builder::new().name("proxies".to_owned()).spawn(run).map_err(failed)?;
        Ok(Proxies { addresses, links, _alive: alive })
    }

    pub(super) fn addresses(&self) -> &[NodeAddress] {
        &self.addresses
    }

    pub(super) fn cut(&self, links: &[(Place, Place)]) {
        self.links.change(|state| {
            for link in links {
                *state.cut.entry(*link).or_default() += 1;
            }
        });
    }

    pub(super) fn mend(&self, links: &[(Place, Place)]) {
        self.links.change(|state| {
            for link in links {
                if let Some(cuts) = state.cut.get_mut(link) {
                    *cuts = cuts.saturating_sub(1);
                }
            }
            state.cut.retain(|_, cuts| *cuts > 0);
        });
    }

    pub(super) fn slow(&self, node: usize, extra: Duration) {
        self.links.change(|state| _ = state.extra.insert(Place::Node(node), extra));
    }

    pub(super) fn break_connections(&self, node: usize) {
        self.links.change(|state| *state.broken.entry(Place::Node(node)).or_default() += 1);
    }
}

impl Links {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.send_modify(|changes| *changes += 1);
    }

    /// Waits until something holds of the state.
    async fn wait_until(&self, holds: impl Fn(&State) -> bool) {
        let mut changed = self.changed.subscribe();
        while !holds(&self.state()) {
            // The sender lives as long as the links.
            let _ = changed.changed().await;
        }
    }

    async fn wait_until_open(&self, from: Place, to: Place) {
        self.wait_until(|state| !state.cut.contains_key(&(from, to))).await;
    }

    /// Waits until the connections of one of two places are broken.
    async fn wait_until_broken(&self, ends: [Place; 2]) {
        let breaks = |state: &State| ends.map(|end| state.broken.get(&end).copied());
        let before = breaks(&self.state());
        self.wait_until(|state| breaks(state) != before).await;
    }
}

/// Runs the proxies until nobody needs them any more.
async fn run(listeners: Vec<(StdListener, String)>, links: Arc<Links>, ended: oneshot::Receiver<()>) {
    let mut proxies = JoinSet::new();
    for (node, (listener, listen)) in listeners.into_iter().enumerate() {
        let listener = TcpListener::from_std(listener).expect("it does not block, and the runtime runs");
        proxies.spawn(accept(listener, Place::Node(node), listen, Arc::clone(&links)));
    }
    // Nothing is ever said: this is the end of the sender.
    let _ = ended.await;
}

/// Accepts the connections to one node.
async fn accept(listener: TcpListener, node: Place, listen: String, links: Arc<Links>) {
    let mut connections = JoinSet::new();
    loop {
        // Too few descriptors, or a connection that was gone at once: the next one may work.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (links, listen) = (Arc::clone(&links), listen.clone());
        connections.spawn(async move {
            // However it ends, it is closed at both ends, which tell their processes.
            let _ = relay(stream, node, &listen, &links).await;
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Relays one connection until it ends at either end, or is broken.
async fn relay(mut dialler: TcpStream, node: Place, listen: &str, links: &Links) -> io::Result<()> {
    dialler.set_nodelay(true)?;
    let (place, said) = introduction(&mut dialler).await?;
    links.wait_until_open(place, node).await;
    let listener = TcpStream::connect(listen).await?;
    listener.set_nodelay(true)?;
    let (from_dialler, to_dialler) = dialler.into_split();
    let (from_node, to_node) = listener.into_split();
    let both = async {
        tokio::try_join!(
            pump(said, from_dialler, to_node, (place, node), links),
            pump(Vec::new(), from_node, to_dialler, (node, place), links),
        )
    };
    tokio::select! {
        ended = both => ended.map(|_| ()),
        () = links.wait_until_broken([place, node]) => Ok(()),
    }
}

/// Reads until the peer that connected has named itself; gives what was read as well.
async fn introduction(dialler: &mut TcpStream) -> io::Result<(Place, Vec<u8>)> {
    let (mut said, mut frames) = (Vec::new(), FrameReader::new());
    loop {
        let begin = said.len();
        if dialler.read_buf(&mut said).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        frames.feed(&said[begin..]);
        let Some(mut packets) = frames.next_frame().map_err(io::Error::other)? else { continue };
        return match packets.next() {
            Some(Ok(Packet::Hello(hello))) => Ok((place(hello.peer, &hello.site), said)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        };
    }
}

/// Where somebody stands who has introduced itself. Clients say it by their site.
fn place(peer: Peer, site: &str) -> Place {
    match peer {
        Peer::Node(node) => Place::Node(usize::from(node.0)),
        Peer::Client(_) => site_number(site).map_or(Place::Watch, Place::Clients),
    }
}

/// The name of the site of a node.
pub(crate) fn site_name(node: usize) -> String {
    format!("site{}", node + 1)
}

/// The node of a site with this name.
fn site_number(name: &str) -> Option<usize> {
    name.strip_prefix("site")?.parse::<usize>().ok()?.checked_sub(1)
}

/// Carries bytes in one direction: each piece leaves when its time has come and the link is open.
async fn pump(
    first: Vec<u8>,
    mut reader: OwnedReadHalf,
    mut writer: OwnedWriteHalf,
    (from, to): (Place, Place),
    links: &Links,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES_MAX);
    let due = || Instant::now() + links.state().extra.get(&from).copied().unwrap_or_default();
    let read = async {
        let mut piece = first;
        loop {
            if !piece.is_empty() && sender.send((due(), std::mem::take(&mut piece))).await.is_err() {
                return Ok(());
            }
            piece.reserve(PIECE_BYTES);
            if reader.read_buf(&mut piece).await? == 0 {
                break;
            }
        }
        drop(sender);
        Ok::<(), io::Error>(())
    };
    let write = async {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            links.wait_until_open(from, to).await;
            writer.write_all(&piece).await?;
        }
        links.wait_until_open(from, to).await;
        writer.shutdown().await
    };
    tokio::try_join!(read, write).map(|_| ())
}
