//! The connections that HTTP is served on: few, each for a bounded time, and none that keeps others out.
//!
//! Operators have to get through when something is wrong, so a connection is never refused. If there are as many as may be,
//! the one that was answered least recently is closed. A connection has one time-out, from when it was accepted or from what
//! was written to it last: within it a whole request must have arrived and a part of the answer must have been taken. So it
//! bounds idle connections, headers and bodies that never end, and clients that do not read alike.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use quorate_certificates::Trust;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::stream::Stream;

/// How long to wait when the operating system has no descriptor for another connection.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Accepts connections, and closes those that are too many.
#[derive(Debug)]
pub(super) struct BoundedListener {
    listener: TcpListener,
    connections_max: usize,
    timeout: Duration,
    /// The certificates by which connections are secured; none if they are plain text.
    trust: Option<Arc<Trust>>,
    open: Open,
    accepted: u64,
}

/// The connections that are open, in the order in which they were answered last, or accepted.
#[derive(Clone, Debug, Default)]
struct Open(Arc<Mutex<Places>>);

/// The connections, and how each is told to close.
type Places = BTreeMap<(Instant, u64), oneshot::Sender<()>>;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    open: Open,
    /// Its place among those that are open.
    place: (Instant, u64),
    /// Resolves when it is taken out of those that are open.
    closed: oneshot::Receiver<()>,
    deadline: Pin<Box<Sleep>>,
    timeout: Duration,
    has_ended: bool,
}

impl BoundedListener {
    pub(super) fn new(
        listener: TcpListener,
        connections_max: usize,
        timeout: Duration,
        trust: Option<Arc<Trust>>,
    ) -> Self {
        BoundedListener { listener, connections_max, timeout, trust, open: Open::default(), accepted: 0 }
    }

    fn admit(&mut self, stream: TcpStream) -> Connection {
        while self.open.lock().len() >= self.connections_max.max(1) {
            self.open.close_least_recent();
        }
        self.accepted += 1;
        let (closer, closed) = oneshot::channel();
        let place = (Instant::now(), self.accepted);
        self.open.lock().insert(place, closer);
        let deadline = Box::pin(tokio::time::sleep(self.timeout));
        Connection {
            stream: Stream::accepted(stream, self.trust.as_deref()),
            open: self.open.clone(),
            place,
            closed,
            deadline,
            timeout: self.timeout,
            has_ended: false,
        }
    }
}

impl Listener for BoundedListener {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => return (self.admit(stream), address),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept an HTTP connection");
                    // If there are no descriptors, this gives one back.
                    self.open.close_least_recent();
                    tokio::time::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the connection that was answered least recently.
    fn close_least_recent(&self) {
        // Its other end hears that the sender is gone.
        drop(self.lock().pop_first());
    }
}

impl Connection {
    /// Fails once the connection has to end.
    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.has_ended = self.has_ended
            || Pin::new(&mut self.closed).poll(context).is_ready()
            || self.deadline.as_mut().poll(context).is_ready();
        if self.has_ended { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Something was written to it.
    fn on_progress(&mut self) {
        let now = Instant::now();
        self.deadline.as_mut().reset(now + self.timeout);
        let mut open = self.open.lock();
        if let Some(closer) = open.remove(&self.place) {
            self.place.0 = now;
            open.insert(self.place, closer);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.lock().remove(&self.place);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.on_progress();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
