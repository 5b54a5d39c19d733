//! A connection of a client of a door: its socket, and the bytes that wait on it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::Limits;
use crate::memory::Share;
use crate::socket::Socket;
use crate::stream::{Account, Stream};

/// The most bytes that a thread reads at once, into one buffer that all connections of a thread use in turn: idle ones have none.
const READ_BYTES: usize = 64 * 1024;

/// A buffer with more room than this is given back once it is empty, in bytes.
const KEPT_BYTES: usize = 16 * 1024;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The client has gone, or the socket failed.
    #[error("the socket: {0}")]
    Socket(#[from] io::Error),
    /// It has stopped in the middle of a request, or does not take its replies.
    #[error("the client neither sends nor takes anything")]
    Stalled,
    /// A request, or what waits for the client, is larger than one connection may hold.
    #[error("more waits than a connection may hold")]
    TooMuch,
    /// All connections together hold as much as they may.
    #[error("the gateway has no memory left for it")]
    NoMemory,
    /// The door sends it more than it takes, of what it has not asked for one by one.
    #[error("the client takes messages more slowly than they come")]
    Behind,
    /// A message that the door sends it may not be heard by its user any more.
    #[error("its user may not hear any more what it is sent")]
    Denied,
    /// Another client has asked for its end.
    #[error("another client has ended it")]
    Killed,
}

/// The buffer that the connections of a thread read into.
pub(crate) type ReadBuffer = Rc<RefCell<Vec<u8>>>;

pub(crate) fn read_buffer() -> ReadBuffer {
    Rc::new(RefCell::new(vec![0; READ_BYTES]))
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: Socket,
    peer: SocketAddr,
    local: SocketAddr,
    buffer: ReadBuffer,
    share: Share,
    bytes_max: usize,
    stall_timeout: Duration,
    /// The bytes that the client has sent and the door has not taken yet. A door that takes a part of them and keeps it says so with
    /// [`Connection::set_aside`].
    pub input: BytesMut,
    /// The bytes that wait for the client.
    pub output: Vec<u8>,
    /// How many bytes a door keeps of a request that is not whole,
    of_request: usize,
    /// and in all.
    aside: usize,
    /// How many bytes a stream will hold.
    reserved: usize,
    /// How many bytes of the output are written already.
    sent: usize,
    /// Since when the rest of a request is waited for.
    waiting_since: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(
        stream: Socket,
        peer: SocketAddr,
        buffer: ReadBuffer,
        share: Share,
        limits: &Limits,
    ) -> io::Result<Self> {
        Ok(Connection {
            local: stream.tcp().local_addr()?,
            stream,
            peer,
            buffer,
            share,
            bytes_max: limits.connection_bytes_max,
            stall_timeout: limits.stall_timeout,
            input: BytesMut::new(),
            output: Vec::new(),
            of_request: 0,
            aside: 0,
            reserved: 0,
            sent: 0,
            waiting_since: None,
        })
    }

    /// Where the client is.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Where it has come in.
    pub fn local(&self) -> SocketAddr {
        self.local
    }

    /// Counts the bytes that a stream will hold as long as it lasts, whatever it carries.
    ///
    /// # Errors
    /// [`Ended::NoMemory`] if there are not so many.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), Ended> {
        if !self.share.hold(bytes) {
            return Err(Ended::NoMemory);
        }
        self.reserved = bytes;
        Ok(())
    }

    /// The connection as a stream, for doors whose protocol a library reads and writes. The door counts what it holds in the account, beside
    /// what was [reserved](Connection::reserve).
    pub fn into_stream(self) -> (Stream, Account) {
        let account = Account::new(self.share, self.reserved, self.bytes_max);
        (Stream::new(self.stream, self.stall_timeout, account.clone()), account)
    }

    /// Says how much the door keeps, in bytes: of a request that is not whole, and beside.
    pub fn set_aside(&mut self, of_request: usize, beside: usize) {
        (self.of_request, self.aside) = (of_request, of_request + beside);
    }

    /// Counts what is held; [`Ended::TooMuch`] and [`Ended::NoMemory`] if that is more than may be.
    fn count(&mut self) -> Result<(), Ended> {
        let bytes = self.input.len() + self.output.len() + self.aside;
        if bytes > self.bytes_max {
            return Err(Ended::TooMuch);
        }
        if self.share.hold(bytes) { Ok(()) } else { Err(Ended::NoMemory) }
    }

    /// Waits for more of what the client sends; false if it sends no more. Between requests it may take its time, within one it may not.
    ///
    /// Nothing is lost if the wait is given up, and the time that the rest of a request has taken so far counts when it begins again.
    ///
    /// # Errors
    /// The connection is to end.
    pub async fn receive(&mut self) -> Result<bool, Ended> {
        let is_between = self.input.is_empty() && self.of_request == 0;
        if is_between && self.input.capacity() > KEPT_BYTES {
            self.input = BytesMut::new();
        }
        if is_between && self.output.capacity() > KEPT_BYTES {
            self.output = Vec::new();
        }
        self.count()?;
        let (stream, input, buffer) = (&mut self.stream, &mut self.input, &self.buffer);
        // A read that does not fill the buffer tells that there is no more, and spares asking once more.
        let read = poll_fn(|context| {
            let mut buffer = buffer.borrow_mut();
            let mut read = ReadBuf::new(&mut buffer);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut read))?;
            input.extend_from_slice(read.filled());
            Poll::Ready(io::Result::Ok(read.filled().len()))
        });
        let count = if is_between {
            read.await?
        } else {
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            timeout_at(since + self.stall_timeout, read).await.map_err(|_| Ended::Stalled)??
        };
        self.waiting_since = None;
        self.count()?;
        Ok(count > 0)
    }

    /// Ends when the client has gone, or sends no more, however much it has sent before that.
    pub async fn left(&self) -> Ended {
        /// How often to look while there is something to read.
        const PAUSE: Duration = Duration::from_millis(250);
        loop {
            match self.stream.tcp().ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() || ready.is_error() => {
                    return Ended::Socket(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(_) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Ended::Socket(error),
            }
        }
    }

    /// Writes all that waits for the client, before anything more of it is read. A client that takes nothing for too long is cut off.
    ///
    /// # Errors
    /// The connection is to end.
    pub async fn send(&mut self) -> Result<(), Ended> {
        self.count()?;
        while self.sent < self.output.len() {
            let (stream, output, sent) = (&mut self.stream, &self.output, self.sent);
            let write = poll_fn(|context| Pin::new(&mut *stream).poll_write(context, &output[sent..]));
            match timeout(self.stall_timeout, write).await.map_err(|_| Ended::Stalled)?? {
                0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                count => self.sent += count,
            }
        }
        // Records of TLS may wait though their content was taken.
        let stream = &mut self.stream;
        let flush = poll_fn(|context| Pin::new(&mut *stream).poll_flush(context));
        timeout(self.stall_timeout, flush).await.map_err(|_| Ended::Stalled)??;
        self.output.clear();
        self.sent = 0;
        Ok(())
    }

    /// Tells the client why it is cut off, as far as the buffer of its socket has room: nothing is waited for.
    pub fn last_words(&mut self, words: &[u8]) {
        self.output.extend_from_slice(words);
        self.stream.write_now(&self.output[self.sent..]);
        (self.output, self.sent) = (Vec::new(), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use crate::memory::Memory;

    #[test]
    fn last_words_come_behind_what_is_written_already() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        let reader = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a connection");
            // The output of the connection does not fit into the buffers of the sockets.
            std::thread::sleep(Duration::from_millis(400));
            let mut read = Vec::new();
            client.read_to_end(&mut read).expect("all that comes");
            read
        });
        let output: Vec<u8> = (0..16_000_000_u32).map(|at| (at % 251) as u8).collect();
        runtime.block_on(async {
            let stream = Socket::Plain(tokio::net::TcpStream::connect(address).await.expect("it listens"));
            let limits = Limits { stall_timeout: Duration::from_millis(100), ..Limits::default() };
            let share = Memory::new(limits.bytes_max).share();
            let mut connection =
                Connection::new(stream, address, read_buffer(), share, &limits).expect("a connection");
            connection.output = output.clone();
            assert!(matches!(connection.send().await, Err(Ended::Stalled)));
            // By now the client has taken what was sent, and there is room for more.
            tokio::time::sleep(Duration::from_secs(1)).await;
            connection.last_words(b"the end");
        });
        let read = reader.join().expect("it has read");
        assert!(!read.is_empty() && output.starts_with(&read), "{} bytes are no beginning", read.len());
    }
}
