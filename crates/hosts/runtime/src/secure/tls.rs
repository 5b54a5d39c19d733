//! Connections that TLS secures.

use std::io::{self, BufRead, IoSlice, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BytesMut};
use quorate_certificates::{Refusal, Side, Subject, Trust, explain};
use quorate_wire::Peer;
use rustls::Connection;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

use super::{Secured, Wire};

/// The certificates by which connections are secured.
pub type Tls = Arc<Trust>;

/// The identity that the certificate of a peer proves.
pub type Certified = Arc<quorate_certificates::Certified>;

/// A connection that is encrypted, while its peers introduce each other.
pub(super) type Encrypted = TlsStream<TcpStream>;

/// The name that rustls wants of a peer: peers are known by their certificates, and it is not sent.
const UNUSED_NAME: &str = "node.quorate.invalid";

/// Secures a connection that a peer has made.
pub(super) async fn accept_secured(tls: &Tls, stream: TcpStream) -> Secured {
    let acceptor = TlsAcceptor::from(tls.server_config());
    match acceptor.accept(stream).await {
        Ok(stream) => judged(tls, TlsStream::Server(stream), Side::Connects),
        Err(error) => Secured::Failed(explain(&error)),
    }
}

/// Secures a connection that this process has made.
pub(super) async fn connect_secured(tls: &Tls, stream: TcpStream) -> Secured {
    let name = match ServerName::try_from(UNUSED_NAME) {
        Ok(name) => name,
        Err(error) => return Secured::Failed(error.to_string()),
    };
    let connector = TlsConnector::from(tls.client_config());
    match connector.connect(name, stream).await {
        Ok(stream) => judged(tls, TlsStream::Client(stream), Side::Accepts),
        Err(error) => Secured::Failed(explain(&error)),
    }
}

/// Judges the certificate that a peer has shown, and has the key of.
fn judged(tls: &Tls, stream: Encrypted, side: Side) -> Secured {
    let certified = tls.judge(shown(&stream), side);
    let wire = Wire::Encrypted(Box::new(stream));
    match certified {
        Ok(certified) => Secured::Good(wire, Some(Arc::new(certified))),
        Err(refusal) => Secured::Refused(wire, refusal.to_string()),
    }
}

fn shown(stream: &Encrypted) -> Option<&[CertificateDer<'static>]> {
    match stream {
        TlsStream::Client(stream) => stream.get_ref().1.peer_certificates(),
        TlsStream::Server(stream) => stream.get_ref().1.peer_certificates(),
    }
}

/// Why a peer with this certificate may not say that it is this, if it may not. A node may begin as a client: before it joins, it does not know which node it
/// is. The host decides which packets it may send then.
pub(crate) fn contradiction(certified: Option<&Certified>, peer: Peer) -> Option<String> {
    let identity = &certified?.identity;
    match (peer, &identity.subject) {
        (Peer::Node(node), Subject::Node(named)) if node == *named => None,
        (Peer::Client(_), _) => None,
        (Peer::Node(node), named) => Some(format!(
            "it says that it is {node}, and its certificate is that of {named}: each speaks for itself only"
        )),
    }
}

/// True if both certificates are those of one node or user, or if there are none.
pub(crate) fn is_same(one: Option<&Certified>, other: Option<&Certified>) -> bool {
    one.map(|certified| &certified.identity) == other.map(|certified| &certified.identity)
}

/// Why a certificate is not good any more that was so when its connection began.
pub(crate) fn outlived(tls: &Tls, certified: &Certified) -> Option<String> {
    tls.judge_again(certified).err().map(|refusal: Refusal| refusal.to_string())
}

/// The session of a connection, which its halves share.
#[derive(Clone)]
pub(super) struct Session(Arc<Mutex<Connection>>);

impl Session {
    /// Takes a connection apart.
    pub(super) fn of(encrypted: Encrypted) -> (TcpStream, Session) {
        let (stream, connection) = match encrypted {
            TlsStream::Client(stream) => {
                let (stream, connection) = stream.into_inner();
                (stream, Connection::Client(connection))
            }
            TlsStream::Server(stream) => {
                let (stream, connection) = stream.into_inner();
                (stream, Connection::Server(connection))
            }
        };
        (stream, Session(Arc::new(Mutex::new(connection))))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        // A thread that panicked here has ended its transport, and with it this connection.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decrypts what has arrived, appends it, and says how much that is: nothing once the peer has said that it closes, none if more has to arrive.
    pub(super) fn decrypt(
        &self,
        encrypted: &mut BytesMut,
        plain: &mut BytesMut,
    ) -> io::Result<Option<usize>> {
        let mut connection = self.lock();
        let mut length = 0;
        loop {
            let is_closed = take_plain(&mut connection, plain, &mut length)?;
            if is_closed || (encrypted.is_empty() && length > 0) {
                return Ok(Some(length));
            }
            if encrypted.is_empty() {
                return Ok(None);
            }
            let taken = connection.read_tls(&mut &encrypted[..])?;
            if taken == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "records follow the end of the connection",
                ));
            }
            encrypted.advance(taken);
            // An alert about it leaves with the next write, if the connection lives for one.
            connection
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts as much as fits, and writes what the socket takes.
    pub(super) fn try_write(&self, bytes: &[u8], half: &OwnedWriteHalf) -> io::Result<usize> {
        let mut connection = self.lock();
        // Bytes that were taken before go first, and bound what waits.
        flush(&mut connection, half)?;
        let taken = connection.writer().write(bytes)?;
        match flush(&mut connection, half) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            // Bytes that are not written wait: the next flush says so.
            _ => Ok(taken),
        }
    }

    /// Writes what was encrypted before.
    pub(super) fn try_flush(&self, half: &OwnedWriteHalf) -> io::Result<()> {
        flush(&mut self.lock(), half)
    }
}

/// Appends what is decrypted; true if the peer has said that nothing follows.
fn take_plain(connection: &mut Connection, plain: &mut BytesMut, length: &mut usize) -> io::Result<bool> {
    loop {
        let mut reader = connection.reader();
        match reader.fill_buf() {
            Ok([]) => return Ok(true),
            Ok(bytes) => {
                let count = bytes.len();
                plain.extend_from_slice(bytes);
                reader.consume(count);
                *length += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn flush(connection: &mut Connection, half: &OwnedWriteHalf) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut Records(half))?;
    }
    Ok(())
}

/// The socket, as records are written to it: what it does not take at once is not waited for.
struct Records<'a>(&'a OwnedWriteHalf);

impl Write for Records<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
