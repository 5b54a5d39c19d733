//! The bytes of a connection: as they are, or through TLS.
//!
//! Built without the feature `tls` there are plain connections only, and the types that stand for certificates have no values.
//!
//! After the handshake a connection has two halves that share its session. The reader decrypts what has arrived into the buffer of frames; the writer
//! encrypts a whole turn's frames at once into records of up to 16 KiB and writes them in one call. Both run on the event loop of the transport, so the
//! lock between them is never waited for.

#![cfg_attr(
    not(feature = "tls"),
    allow(dead_code, private_interfaces, unreachable_code, reason = "nothing is encrypted without it")
)]

#[cfg(not(feature = "tls"))]
mod none;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::net::Shutdown;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BytesMut;
#[cfg(not(feature = "tls"))]
pub use none::{Certified, Tls};
#[cfg(not(feature = "tls"))]
use none::{Encrypted, Session, accept_secured, connect_secured};
#[cfg(not(feature = "tls"))]
pub(crate) use none::{contradiction, is_same, outlived};
use socket2::SockRef;
#[cfg(feature = "tls")]
pub use tls::{Certified, Tls};
#[cfg(feature = "tls")]
use tls::{Encrypted, Session, accept_secured, connect_secured};
#[cfg(feature = "tls")]
pub(crate) use tls::{contradiction, is_same, outlived};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// How long to wait for the second and third byte of a peer that has sent one, before looking again.
const PEEK_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// A connection whose peer has been asked for its certificate, if certificates are asked for at all.
pub(crate) enum Secured {
    /// The packets of the peer may be looked at.
    Good(Wire, Option<Certified>),
    /// They may not, for this reason, which the peer can be told.
    Refused(Wire, String),
    /// The handshake of TLS has failed, for this reason.
    Failed(String),
}

/// Secures a connection that a peer has made.
pub(crate) async fn accept(tls: Option<&Tls>, stream: TcpStream) -> io::Result<Secured> {
    let speaks_tls = begins_with_tls(&stream).await?;
    match tls {
        Some(tls) if speaks_tls => Ok(accept_secured(tls, stream).await),
        Some(_) => Ok(Secured::Refused(
            Wire::Plain(stream),
            "this node speaks TLS only: connect with a certificate (--ca, --certificate, --certificate-key)"
                .to_owned(),
        )),
        // The peer finds out by itself that the answer is no TLS.
        None if speaks_tls => Ok(Secured::Refused(
            Wire::Plain(stream),
            "the peer speaks TLS, and this node has no [tls] in its configuration".to_owned(),
        )),
        None => Ok(Secured::Good(Wire::Plain(stream), None)),
    }
}

/// Secures a connection that this process has made.
pub(crate) async fn connect(tls: Option<&Tls>, stream: TcpStream) -> Secured {
    match tls {
        Some(tls) => connect_secured(tls, stream).await,
        None => Secured::Good(Wire::Plain(stream), None),
    }
}

/// True if the first bytes of a peer are those of a handshake of TLS, which no frame of a handshake begins with: it would be of 790 bytes and more.
///
/// # Errors
/// The connection is broken, or the peer has closed it without a word, as a balancer of load does that looks whether somebody listens.
async fn begins_with_tls(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; 3];
    loop {
        let length = stream.peek(&mut first).await?;
        match first[..length] {
            [] => return Err(io::ErrorKind::UnexpectedEof.into()),
            [0x16, 0x03, 0x00..=0x04] => return Ok(true),
            // The rest is on its way; the time for a handshake bounds the wait.
            [0x16] | [0x16, 0x03] => tokio::time::sleep(PEEK_PAUSE).await,
            _ => return Ok(false),
        }
    }
}

/// A connection while its peers introduce each other.
pub(crate) enum Wire {
    Plain(TcpStream),
    Encrypted(Box<Encrypted>),
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Wire").finish_non_exhaustive()
    }
}

/// A connection that no event loop serves at the moment.
pub(crate) struct Detached {
    stream: std::net::TcpStream,
    session: Option<Session>,
}

impl Detached {
    /// The two halves of the connection, which the event loop serves that calls this.
    pub(crate) fn attach(self) -> io::Result<(Reader, Socket)> {
        Ok(halves(TcpStream::from_std(self.stream)?, self.session))
    }
}

impl Wire {
    /// Takes the connection from the event loop that serves it, once its peers are introduced.
    pub(crate) fn detach(self) -> io::Result<Detached> {
        let (stream, session) = self.open();
        Ok(Detached { stream: stream.into_std()?, session })
    }

    fn open(self) -> (TcpStream, Option<Session>) {
        match self {
            Wire::Plain(stream) => (stream, None),
            Wire::Encrypted(encrypted) => {
                let (stream, session) = Session::of(*encrypted);
                (stream, Some(session))
            }
        }
    }

    /// The two halves of the connection.
    pub(crate) fn split(self) -> (Reader, Socket) {
        let (stream, session) = self.open();
        halves(stream, session)
    }
}

fn halves(stream: TcpStream, session: Option<Session>) -> (Reader, Socket) {
    let (read, write) = stream.into_split();
    let encrypted = BytesMut::new();
    (Reader { half: read, session: session.clone(), encrypted }, Socket { half: write, session })
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Wire::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Wire::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(context),
            Wire::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Wire::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// How much is read from the socket of an encrypted connection at a time, in bytes.
const ENCRYPTED_BYTES: usize = 64 * 1024;

/// The half that reads.
pub(crate) struct Reader {
    half: OwnedReadHalf,
    session: Option<Session>,
    /// The bytes that have been read from the socket and not been decrypted yet.
    encrypted: BytesMut,
}

impl Reader {
    /// Appends what arrives to a buffer with room in it, and says how much; nothing if the peer has closed the connection.
    pub(crate) async fn read_into(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let Some(session) = &self.session else { return self.half.read_buf(buffer).await };
        loop {
            // Bytes that came with the handshake are there already.
            if let Some(length) = session.decrypt(&mut self.encrypted, buffer)? {
                return Ok(length);
            }
            self.encrypted.reserve(ENCRYPTED_BYTES);
            if self.half.read_buf(&mut self.encrypted).await? == 0 {
                return Ok(0);
            }
        }
    }

    /// Reads and forgets what the peer still sends, until it closes.
    pub(crate) async fn discard(&mut self) {
        let mut rest = [0; 4096];
        while matches!(self.half.read(&mut rest).await, Ok(length) if length > 0) {}
    }
}

/// The half that writes.
pub(crate) struct Socket {
    half: OwnedWriteHalf,
    session: Option<Session>,
}

impl Socket {
    /// Takes as many of these bytes as can be on their way now. Some of them may still wait in this half: [`Socket::try_flush`] knows.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.session {
            None => self.half.try_write(bytes),
            Some(session) => session.try_write(bytes, &self.half),
        }
    }

    /// Writes what waits in this half.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the socket is full and some still waits.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        match &self.session {
            None => Ok(()),
            Some(session) => session.try_flush(&self.half),
        }
    }

    /// Waits until the socket takes more.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.half.writable().await
    }

    /// Closes the connection at once, in both directions.
    pub(crate) fn shut(&self) {
        // A socket that cannot be shut down is closed already.
        let _ = SockRef::from(self.half.as_ref()).shutdown(Shutdown::Both);
    }
}
