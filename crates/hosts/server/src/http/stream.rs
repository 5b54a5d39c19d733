//! The bytes of a connection for HTTP: as they are, or through TLS, whose handshake begins when the connection is first read.
//!
//! So a peer that takes its time for a handshake keeps nobody else from being accepted, and the time-out of its connection bounds it.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use quorate_certificates::Trust;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// A stream of bytes.
pub(super) enum Stream {
    Plain(TcpStream),
    /// The handshake is under way.
    Begun(Box<Accept<TcpStream>>),
    Encrypted(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Failed,
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn accepted(stream: TcpStream, trust: Option<&Trust>) -> Self {
        match trust {
            None => Stream::Plain(stream),
            Some(trust) => {
                let acceptor = TlsAcceptor::from(trust.server_config());
                Stream::Begun(Box::new(acceptor.accept(stream)))
            }
        }
    }

    /// Goes on with the handshake.
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Begun(accept) = self {
            match ready!(Pin::new(&mut **accept).poll(context)) {
                Ok(stream) => *self = Stream::Encrypted(Box::new(stream)),
                Err(error) => {
                    *self = Stream::Failed;
                    return Poll::Ready(Err(error));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// The error of every call behind a handshake that has failed.
fn unready<T>() -> Poll<io::Result<T>> {
    Poll::Ready(Err(io::ErrorKind::NotConnected.into()))
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_ready(context))?;
        match &mut *self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Encrypted(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Begun(_) | Stream::Failed => unready(),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_ready(context))?;
        match &mut *self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Encrypted(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Begun(_) | Stream::Failed => unready(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_flush(context),
            // Nothing was written.
            Stream::Begun(_) | Stream::Failed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Encrypted(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Begun(_) | Stream::Failed => Poll::Ready(Ok(())),
        }
    }
}
