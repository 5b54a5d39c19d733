//! The socket of a client of a door: plain, or secured by TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quorate_certificates::{Certified, Side, Trust, explain};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// The longest time for a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// The first byte of every handshake of TLS: no request of a language of the doors begins with it.
const HANDSHAKE_RECORD: u8 = 0x16;

/// A socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// True if a client begins as TLS does; false if it does not, or begins with nothing in the time for a handshake.
    pub(crate) async fn begins_with_tls(stream: &TcpStream) -> bool {
        let mut first = [0];
        matches!(timeout(HANDSHAKE_TIMEOUT, stream.peek(&mut first)).await, Ok(Ok(1)) if first == [HANDSHAKE_RECORD])
    }

    /// Secures a connection that a client has made. Most programs that speak the languages of doors have no certificate of their own; one that shows a
    /// certificate is known by it, and is refused if it is not good.
    ///
    /// # Errors
    /// The handshake fails, or takes too long, or the certificate is refused.
    pub(crate) async fn secured(
        trust: &Trust,
        stream: TcpStream,
    ) -> Result<(Socket, Option<Arc<Certified>>), String> {
        let acceptor = TlsAcceptor::from(trust.server_config());
        let handshake = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
        let stream = handshake
            .map_err(|_| format!("no handshake of TLS within {HANDSHAKE_TIMEOUT:?}"))?
            .map_err(|error| explain(&error))?;
        let certified = match stream.get_ref().1.peer_certificates() {
            None => None,
            shown => {
                let judged = trust.judge(shown, Side::Connects);
                Some(Arc::new(judged.map_err(|refusal| refusal.to_string())?))
            }
        };
        Ok((Socket::Encrypted(Box::new(stream)), certified))
    }

    /// The socket below whatever secures it.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Socket::Plain(stream) => stream,
            Socket::Encrypted(stream) => stream.get_ref().0,
        }
    }

    /// Writes what the socket takes now; nothing is waited for.
    pub(crate) fn write_now(&mut self, bytes: &[u8]) {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut written = 0;
        while written < bytes.len() {
            match Pin::new(&mut *self).poll_write(&mut context, &bytes[written..]) {
                Poll::Ready(Ok(count)) if count > 0 => written += count,
                // The connection is about to be closed either way.
                _ => break,
            }
        }
        let _ = Pin::new(self).poll_flush(&mut context);
    }

    /// Writes as many of these last words as the socket takes, and gives the client a moment to read them: a socket that is closed with unread bytes takes
    /// back what was written to it.
    pub(crate) async fn say_and_close(mut self, words: &[u8]) {
        const LINGER: Duration = Duration::from_millis(500);
        self.write_now(words);
        let mut rest = [0; 4096];
        let close = async {
            if self.shutdown().await.is_ok() {
                while matches!(self.read(&mut rest).await, Ok(1..)) {}
            }
        };
        // The client has had its time, or has closed.
        let _ = timeout(LINGER, close).await;
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Socket::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Socket::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Socket::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Socket::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Socket::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Socket::Encrypted(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Socket::Plain(stream) => stream.is_write_vectored(),
            Socket::Encrypted(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Socket::Plain(stream) => Pin::new(stream).poll_flush(context),
            Socket::Encrypted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Socket::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Socket::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
