//! One connection: handshake, then read all that is there, decode it and hand it over.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorate_wire::FrameWriter;
use quorate_wire::packet::{Hello, Packet, Peer, Welcome};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::doorkeeper::Shown;
use super::inbound::{Inbound, Unsupported};
use super::link::{DialId, LinkId, Remote};
use super::listen::{Slot, Stranger};
use super::{Dialled, Host, Shared, Target, Turn, Violation, dial};
use crate::secure::{self, Certified, Detached, Reader, Secured, Socket, Wire};

/// How long a peer that is being closed may take to read why.
const LINGER: Duration = Duration::from_millis(500);

/// No more event loops of a node are dialled, however many it says that it has.
const EVENT_LOOPS_MAX: u16 = 256;

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer closed it and said why.
    #[error("the peer said goodbye: {0}")]
    Goodbye(String),
    /// The network broke it.
    #[error("{0}")]
    Broken(#[from] std::io::Error),
    /// Connecting and introducing each other took too long.
    #[error("no handshake within {0:?}")]
    HandshakeTimeout(Duration),
    /// So many others came that have not said what they are either that this one had to go.
    #[error("others came before it had said what it is")]
    Displaced,
    /// Its certificate was refused, or the handshake of TLS has failed.
    #[error("{0}")]
    Insecure(String),
    /// The peer broke the rules, or is not who it should be.
    #[error("{0}")]
    Violation(#[from] Violation),
}

/// A connection whose handshake is complete.
pub(super) struct Established {
    wire: Wire,
    inbound: Inbound,
    remote: Remote,
}

/// Serves a connection that a peer has made, to its end.
pub(super) async fn serve_accepted<H: Host>(
    shared: Arc<Shared<H>>,
    stream: TcpStream,
    address: SocketAddr,
    mut stranger: Stranger,
    slot: Slot<H>,
) {
    let timeout = shared.options.handshake_timeout;
    let established = tokio::select! {
        established = tokio::time::timeout(timeout, welcome(&shared, stream, address)) => {
            established.unwrap_or(Err(End::HandshakeTimeout(timeout)))
        }
        () = stranger.displaced() => Err(End::Displaced),
    };
    drop(stranger);
    let end = match established {
        Ok(established) if established.remote.event_loop > 0 => {
            return pass_on(&shared, established, slot);
        }
        Ok(Established { wire, inbound, remote }) => serve(&shared, wire.split(), inbound, remote).await,
        Err(end) => refused(&shared, end),
    };
    tracing::debug!(%address, reason = %end, "connection ended");
}

/// Passes a connection on to the event loop that it leads to.
fn pass_on<H: Host>(shared: &Shared<H>, established: Established, slot: Slot<H>) {
    let Established { wire, inbound, remote } = established;
    let (event_loop, address) = (remote.event_loop, remote.address);
    let passed = wire.detach().and_then(|wire| {
        let other = shared.other(event_loop).ok_or(std::io::ErrorKind::NotConnected)?;
        let arrival = Arrival { wire, inbound, remote, slot };
        other.arrivals.send(arrival).map_err(|_| std::io::ErrorKind::NotConnected.into())
    });
    // An event loop ends only with its node.
    if let Err(error) = passed {
        tracing::debug!(%address, event_loop, %error, "a connection cannot be passed on");
    }
}

/// A connection that another event loop of this process has accepted.
pub(super) struct Arrival<H> {
    wire: Detached,
    inbound: Inbound,
    remote: Remote,
    slot: Slot<H>,
}

/// Serves the connections that another event loop has accepted, until the transport is closed.
pub(super) async fn serve_arrivals<H: Host>(
    shared: Arc<Shared<H>>,
    mut arrivals: mpsc::UnboundedReceiver<Arrival<H>>,
) {
    let mut closed = shared.closed.subscribe();
    loop {
        let arrival = tokio::select! {
            arrival = arrivals.recv() => arrival,
            _ = closed.wait_for(|closed| *closed) => None,
        };
        let Some(Arrival { wire, inbound, remote, slot }) = arrival else { return };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let address = remote.address;
            let end = match wire.attach() {
                Ok(halves) => serve(&shared, halves, inbound, remote).await,
                Err(error) => End::Broken(error),
            };
            tracing::debug!(%address, reason = %end, "connection ended");
            drop(slot);
        });
    }
}

/// Makes a connection and serves it to its end.
///
/// # Errors
/// The connection could not be made, or the peers do not belong together.
pub(super) async fn serve_dialled<H: Host>(
    shared: &Arc<Shared<H>>,
    dial: DialId,
    target: &Target,
) -> Result<End, End> {
    let timeout = shared.options.handshake_timeout;
    let introduced = tokio::time::timeout(timeout, introduce(shared, dial, target)).await;
    let Established { wire, inbound, remote } = introduced.map_err(|_| End::HandshakeTimeout(timeout))??;
    // As long as this one lasts.
    let _further = dial_further(shared, target, &remote);
    Ok(serve(shared, wire.split(), inbound, remote).await)
}

/// Dials the other event loops of a node whose first one has been reached, if each is to be.
fn dial_further<H: Host>(shared: &Arc<Shared<H>>, target: &Target, first: &Remote) -> Vec<Dialled> {
    if !shared.options.dials_each_event_loop || target.event_loop > 0 {
        return Vec::new();
    }
    let further =
        (1..first.event_loops.min(EVENT_LOOPS_MAX)).map(|event_loop| Target { event_loop, ..target.clone() });
    further.map(|target| dial::start(shared, target)).collect()
}

/// Tells a stranger why it is not served.
pub(super) async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin, reason: String) {
    // The connection is closed, also if an error occurs here.
    if write_one(&mut stream, &Packet::Goodbye { reason }).await.is_ok() && stream.shutdown().await.is_ok() {
        discard(&mut stream).await;
    }
}

fn refused<H: Host>(shared: &Shared<H>, end: End) -> End {
    shared.with(|_, turn| {
        turn.links.counters.refused += 1;
        turn.links.counters.refused_by_certificate += u64::from(matches!(end, End::Insecure(_)));
    });
    end
}

/// The accepting side of the handshake.
async fn welcome<H: Host>(
    shared: &Shared<H>,
    stream: TcpStream,
    address: SocketAddr,
) -> Result<Established, End> {
    prepare(&stream)?;
    let secured = secure::accept(shared.options.tls.as_ref(), stream).await?;
    let (mut wire, certified) = match secured {
        Secured::Good(wire, certified) => (wire, certified),
        Secured::Refused(wire, reason) => {
            shared.log_refusal(address, &reason);
            refuse(wire, reason.clone()).await;
            return Err(End::Insecure(reason));
        }
        Secured::Failed(reason) => {
            shared.log_refusal(address, &reason);
            return Err(End::Insecure(reason));
        }
    };
    let mut inbound = Inbound::for_handshake();
    let outcome = match read_one(&mut wire, &mut inbound).await {
        Ok(Packet::Hello(hello)) => admit(shared, hello, address, certified.as_ref()).await,
        Ok(Packet::Goodbye { reason }) => {
            shared.log_refusal(address, &format!("the peer refuses this node: {reason}"));
            return Err(End::Goodbye(reason));
        }
        Ok(_) => Err(Violation("the first packet must be a hello".into())),
        Err(End::Violation(violation)) => Err(violation),
        Err(end) => return Err(end),
    };
    match outcome {
        Ok((hello, shown)) => {
            let event_loops = shared.options.event_loops;
            let event_loop = hello.event_loop % event_loops;
            let Hello { cluster, peer: identity, site, .. } = hello;
            write_one(&mut wire, &Packet::Welcome(own_welcome(shared))).await?;
            inbound.finish_handshake();
            let dial = None;
            let remote =
                Remote { identity, cluster, site, dial, address, certified, shown, event_loop, event_loops };
            Ok(Established { wire, inbound, remote })
        }
        Err(violation) => {
            shared.log_refusal(address, &violation.0);
            refuse(wire, violation.to_string()).await;
            Err(violation.into())
        }
    }
}

/// The dialling side of the handshake.
async fn introduce<H: Host>(shared: &Shared<H>, dial: DialId, target: &Target) -> Result<Established, End> {
    let stream = TcpStream::connect(&target.address).await?;
    prepare(&stream)?;
    let address = stream.peer_addr()?;
    let options = &shared.options;
    let (mut stream, certified) = match secure::connect(options.tls.as_ref(), stream).await {
        Secured::Good(wire, certified) => (wire, certified),
        Secured::Refused(wire, reason) => {
            refuse(wire, reason.clone()).await;
            return Err(End::Insecure(reason));
        }
        Secured::Failed(reason) => return Err(End::Insecure(reason)),
    };
    let hello = Hello {
        cluster: options.cluster,
        peer: options.identity,
        site: options.site.clone(),
        credential: options.credential.clone(),
        event_loop: target.event_loop,
    };
    write_one(&mut stream, &Packet::Hello(hello)).await?;
    let mut inbound = Inbound::for_handshake();
    let welcome = match read_one(&mut stream, &mut inbound).await? {
        Packet::Welcome(welcome) => welcome,
        Packet::Goodbye { reason } => return Err(End::Goodbye(reason)),
        _ => return Err(Violation("the first packet must be a welcome".into()).into()),
    };
    if options.cluster != 0 && welcome.cluster != options.cluster {
        let (theirs, ours) = (welcome.cluster, options.cluster);
        return Err(Violation(format!("it belongs to cluster {theirs}, not to {ours}").into()).into());
    }
    if target.expect.is_some_and(|expected| expected != welcome.node) {
        return Err(Violation(
            format!("it is {}, which was not expected at this address", welcome.node).into(),
        )
        .into());
    }
    if let Some(contradiction) = secure::contradiction(certified.as_ref(), Peer::Node(welcome.node)) {
        return Err(Violation(contradiction.into()).into());
    }
    inbound.finish_handshake();
    let Welcome { cluster, node, site, further_event_loops, .. } = welcome;
    let (identity, dial, shown) = (Peer::Node(node), Some(dial), None);
    let event_loops = further_event_loops.saturating_add(1);
    let event_loop = target.event_loop % event_loops;
    let remote = Remote { identity, cluster, site, dial, address, certified, shown, event_loop, event_loops };
    Ok(Established { wire: stream, inbound, remote })
}

/// Decides whether a peer is let in, and as which user a client comes.
async fn admit<H: Host>(
    shared: &Shared<H>,
    hello: Hello,
    address: SocketAddr,
    certified: Option<&Certified>,
) -> Result<(Hello, Option<Arc<Shown>>), Violation> {
    validate_hello(shared, &hello, certified)?;
    let Peer::Client(client) = hello.peer else { return Ok((hello, None)) };
    let shown = match &shared.options.doorkeeper {
        Some(doorkeeper) => {
            let judged = doorkeeper.judge(address, hello.credential.as_ref(), certified);
            judged.await.map_err(|reason| Violation(reason.into()))?
        }
        None => None,
    };
    // It may have taken a while.
    let other = shared.other(hello.event_loop % shared.options.event_loops);
    let hub = other.as_deref().unwrap_or(shared).lock();
    // Answers go to the connection that a client has made last.
    if hub.links.is_of_another(client, certified, shown.as_deref()) {
        return Err(Violation(format!("{client} is connected in the name of another user").into()));
    }
    let clients_max = hub.links.clients_max;
    if hub.links.clients() >= clients_max {
        return Err(Violation(format!("this node serves {clients_max} connections already").into()));
    }
    drop(hub);
    Ok((hello, shown))
}

fn validate_hello<H: Host>(
    shared: &Shared<H>,
    hello: &Hello,
    certified: Option<&Certified>,
) -> Result<(), Violation> {
    if let Some(contradiction) = secure::contradiction(certified, hello.peer) {
        return Err(Violation(contradiction.into()));
    }
    let ours = shared.options.cluster;
    let any_will_do = hello.cluster == 0 && matches!(hello.peer, Peer::Client(_));
    if hello.cluster != ours && !any_will_do {
        let theirs = hello.cluster;
        return Err(Violation(format!("this is cluster {ours}, and you belong to cluster {theirs}").into()));
    }
    Ok(())
}

fn own_welcome<H: Host>(shared: &Shared<H>) -> Welcome {
    let node = match shared.options.identity {
        Peer::Node(node) => node,
        Peer::Client(_) => unreachable!("only servers accept connections"),
    };
    Welcome {
        cluster: shared.options.cluster,
        node,
        site: shared.options.site.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        further_event_loops: shared.options.event_loops - 1,
    }
}

fn prepare(stream: &TcpStream) -> Result<(), End> {
    stream.set_nodelay(true)?;
    // A peer whose machine has lost power says nothing; the kernel asks it now and then.
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(10)).with_interval(Duration::from_secs(5));
    SockRef::from(stream).set_tcp_keepalive(&keepalive)?;
    Ok(())
}

/// Reads the one packet of a handshake.
async fn read_one(stream: &mut Wire, inbound: &mut Inbound) -> Result<Packet, End> {
    loop {
        if let Some(packet) = inbound.first_packet()? {
            return Ok(packet);
        }
        if stream.read_buf(inbound.space()).await? == 0 {
            return Err(End::Closed);
        }
    }
}

/// Writes the one packet of a handshake.
async fn write_one(stream: &mut (impl AsyncWrite + Unpin), packet: &Packet) -> Result<(), End> {
    let mut frames = FrameWriter::new();
    frames.push(packet).map_err(|error| Violation(error.to_string().into()))?;
    stream.write_all(&frames.take()).await?;
    stream.flush().await?;
    Ok(())
}

/// Registers the connection, reads until it ends, and unregisters it.
async fn serve<H: Host>(
    shared: &Arc<Shared<H>>,
    (mut reader, writer): (Reader, Socket),
    mut inbound: Inbound,
    remote: Remote,
) -> End {
    let link = shared.with(|host, turn| {
        let link = turn.links.insert(remote.clone(), Arc::new(writer), &shared.options);
        host.on_link_up(link, &remote, turn);
        if shared.is_closed() {
            turn.links.shut_all("this process stops");
        }
        link
    });
    let end = read_loop(shared, link, &mut reader, &mut inbound).await;
    if let End::Violation(violation) = &end {
        tracing::warn!(address = %remote.address, reason = %violation, "connection closed");
        shared.with(|_, turn| {
            turn.links.counters.violations += 1;
            turn.close(link, violation.0.clone());
        });
        // The peer has had its time, or has closed.
        let _ = tokio::time::timeout(LINGER, reader.discard()).await;
    }
    shared.with(|host, turn| {
        let Some((remote, own_reason)) = turn.links.remove(link) else { return };
        let reason = own_reason.unwrap_or_else(|| end.to_string());
        host.on_link_down(link, &remote, &reason, turn);
    });
    end
}

/// Lets a peer that is being closed read why: reads what it still sends, for a moment. A socket that is closed with
/// unread bytes would take back what was written to it.
async fn discard(reader: &mut (impl AsyncRead + Unpin)) {
    let mut rest = [0; 4096];
    let discard = async { while matches!(reader.read(&mut rest).await, Ok(length) if length > 0) {} };
    // The peer has had its time, or has closed.
    let _ = tokio::time::timeout(LINGER, discard).await;
}

/// Reads, decodes and hands over until the connection ends.
async fn read_loop<H: Host>(
    shared: &Shared<H>,
    link: LinkId,
    reader: &mut Reader,
    inbound: &mut Inbound,
) -> End {
    let mut packets = Vec::new();
    // Bytes that came with the handshake are there already.
    let mut received = 0;
    loop {
        let decoded = inbound.decode_into(&mut packets);
        let delivered = shared.with(|host, turn| {
            let unfinished = (inbound.unfinished_bytes(), !packets.is_empty());
            turn.links.on_received(link, received, unfinished, turn.time.now, &shared.options)?;
            tell_unsupported(link, inbound.take_unsupported(), turn);
            deliver(host, link, &mut packets, turn)
        });
        if let Err(end) = delivered.and(decoded.map_err(End::from)) {
            return end;
        }
        received = match reader.read_into(inbound.space()).await {
            Ok(0) => return End::Closed,
            Ok(received) => received,
            Err(error) => return error.into(),
        };
    }
}

/// Tells a peer of a later version what this one does not know.
fn tell_unsupported(link: LinkId, unsupported: Unsupported, turn: &mut Turn<'_>) {
    turn.links.counters.unsupported += unsupported.packets;
    for message in unsupported.news {
        if let Some(remote) = turn.remote(link) {
            let address = remote.address;
            tracing::warn!(%address, message, "the peer is of a later version and says what this one does not know");
        }
        turn.send(link, &Packet::Unsupported { message: message.to_owned() });
    }
}

/// Hands packets to the host.
fn deliver<H: Host>(
    host: &mut H,
    link: LinkId,
    packets: &mut Vec<Packet>,
    turn: &mut Turn<'_>,
) -> Result<(), End> {
    for packet in packets.drain(..) {
        match packet {
            Packet::Goodbye { reason } => return Err(End::Goodbye(reason)),
            Packet::Hello(_) | Packet::Welcome(_) => {
                return Err(Violation("a second handshake".into()).into());
            }
            Packet::Unsupported { message } => {
                turn.links.counters.unsupported_by_peers += 1;
                tracing::debug!(?link, message, "the peer is of an earlier version and does not know this");
            }
            packet => {
                if let Packet::Envelope(_) = packet {
                    turn.links.counters.messages_received += 1;
                }
                host.on_packet(link, packet, turn)?;
            }
        }
    }
    Ok(())
}
