//! A connection as a stream of bytes, for doors whose protocol a library reads and writes.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::Ended;
use crate::memory::Share;
use crate::socket::Socket;

/// The account of what a connection holds. Cheap to clone: all clones are one account.
#[derive(Clone, Debug)]
pub struct Account {
    held: Rc<RefCell<Held>>,
}

#[derive(Debug)]
struct Held {
    share: Share,
    /// The part of the share that lasts as long as the connection.
    reserved: usize,
    bytes_max: usize,
    /// True once the reply is on its way: nothing is held any more when the stream has written everything.
    is_answered: bool,
}

impl Account {
    pub(crate) fn new(share: Share, reserved: usize, bytes_max: usize) -> Self {
        Account { held: Rc::new(RefCell::new(Held { share, reserved, bytes_max, is_answered: false })) }
    }

    /// Says how many bytes the door holds for the connection from now on, beside those that are reserved.
    ///
    /// # Errors
    /// [`Ended::TooMuch`] and [`Ended::NoMemory`] if that is more than may be; then as many as before are counted.
    pub fn hold(&self, bytes: usize) -> Result<(), Ended> {
        let held = &mut *self.held.borrow_mut();
        if bytes > held.bytes_max {
            return Err(Ended::TooMuch);
        }
        if !held.share.hold(held.reserved.saturating_add(bytes)) {
            return Err(Ended::NoMemory);
        }
        held.is_answered = false;
        Ok(())
    }

    /// Says that the reply is on its way: once the stream has written all of it, nothing is held.
    pub fn answered(&self) {
        self.held.borrow_mut().is_answered = true;
    }

    /// The stream has written everything.
    fn flushed(&self) {
        let held = &mut *self.held.borrow_mut();
        if held.is_answered {
            held.share.hold(held.reserved);
            held.is_answered = false;
        }
    }
}

/// The bytes of a connection. A client that takes nothing for too long is cut off; the door bounds how long it waits for what is read.
#[derive(Debug)]
pub struct Stream {
    stream: Socket,
    stall_timeout: Duration,
    /// Runs while the socket takes nothing.
    stalled: Option<Pin<Box<Sleep>>>,
    account: Account,
}

impl Stream {
    pub(crate) fn new(stream: Socket, stall_timeout: Duration, account: Account) -> Self {
        Stream { stream, stall_timeout, stalled: None, account }
    }

    /// Ends a wait that has lasted too long.
    fn bounded<T>(&mut self, written: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.stall_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        match stalled.as_mut().poll(context) {
            Poll::Ready(()) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, Ended::Stalled.to_string())))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.bounded(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        let flushed = self.bounded(flushed, context);
        if flushed.is_ready() {
            self.account.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
