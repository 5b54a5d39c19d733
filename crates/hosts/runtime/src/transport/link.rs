//! The outgoing side of one connection: packets gather in a buffer and leave when the turn ends, or
//! when there are many.
//!
//! Where a delay is emulated, bytes carry the instant before which they must not leave; without one they may leave at
//! once and no instant is kept.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::Instant;
use quorate_wire::FrameWriter;
use quorate_wire::packet::{Packet, Peer};

use super::doorkeeper::Shown;
use super::links::Counters;
use crate::secure::{Certified, Socket};

/// Once this much waits it is written before the turn ends, so that the peer can begin while this process goes on.
const WRITE_BYTES_FULL: usize = 16 * 1024;

/// An empty buffer that had grown beyond this is not kept.
const BUFFER_BYTES_KEPT: usize = 4 * 1024 * 1024;

/// Names a connection. Never used again within its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u64);

/// Names a standing wish to be connected to an address, see [`Transport::dial`](super::Transport::dial).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DialId(pub(super) u64);

/// The peer at the other end of a link.
#[derive(Clone, Debug)]
pub struct Remote {
    /// The identity that it claims.
    pub identity: Peer,
    /// The cluster that it says it belongs to; 0 is any.
    pub cluster: u64,
    /// The site that it says it stands in.
    pub site: String,
    /// The dial that made the connection; none if the peer made it.
    pub dial: Option<DialId>,
    /// The address of its socket.
    pub address: std::net::SocketAddr,
    /// The identity that its certificate proves; none if the connection is plain.
    pub certified: Option<Certified>,
    /// The credential of a client; none of a node, and of a client that has shown nothing.
    pub shown: Option<Arc<Shown>>,
    /// The event loop of the accepting end to which the connection leads.
    pub event_loop: u16,
    /// How many event loops the accepting end has.
    pub event_loops: u16,
}

/// How far a link has come on its way to being closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// It is open.
    Open,
    /// The bytes that wait, with a goodbye at their end, are still written; nothing is added.
    Draining(String),
    /// Its socket is shut down; the reader will find out and remove it.
    Shut(String),
}

impl Closing {
    /// Why this side closes, if it does.
    pub(super) fn into_reason(self) -> Option<String> {
        match self {
            Closing::Open => None,
            Closing::Draining(reason) | Closing::Shut(reason) => Some(reason),
        }
    }
}

/// The outgoing side of one connection.
pub(super) struct Link {
    pub(super) remote: Remote,
    pub(super) closing: Closing,
    /// In the list of links that have something to write in this turn.
    pub(super) dirty: bool,
    /// Somebody waits until its socket is writable.
    pub(super) waited_for: bool,
    /// How much the reader holds of a frame that has not ended, and since when.
    pub(super) unfinished_bytes: usize,
    pub(super) unfinished_since: Option<Instant>,
    socket: Arc<Socket>,
    frames: FrameWriter,
    bytes_max: usize,
    /// The most that has waited here since the buffer was new.
    bytes_peak: usize,
    delay: Duration,
    /// How many bytes were ever released to be written, and how many ever were written.
    released: u64,
    written: u64,
    /// With a delay: until when the bytes up to a position stay; ascending.
    delayed: VecDeque<(Instant, u64)>,
    /// Since when the socket has taken nothing; none while it takes all.
    blocked_since: Option<Instant>,
}

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Everything that was released is on its way.
    All,
    /// The socket is full: to be called again once it is writable.
    Blocked,
}

impl Link {
    pub(super) fn new(remote: Remote, socket: Arc<Socket>, bytes_max: usize, delay: Duration) -> Self {
        Link {
            remote,
            closing: Closing::Open,
            dirty: false,
            waited_for: false,
            unfinished_bytes: 0,
            unfinished_since: None,
            socket,
            frames: FrameWriter::new(),
            bytes_max,
            bytes_peak: 0,
            delay,
            released: 0,
            written: 0,
            delayed: VecDeque::new(),
            blocked_since: None,
        }
    }

    /// Adds a packet, to be written at the end of the turn.
    pub(super) fn push(&mut self, packet: &Packet, counters: &mut Counters) {
        if self.closing != Closing::Open {
            return;
        }
        if let Err(error) = self.frames.push(packet) {
            tracing::error!(peer = ?self.remote.identity, %error, "a message was dropped");
        }
        if self.queued_bytes() > self.bytes_max {
            counters.slow_readers += 1;
            self.shut(format!("it does not read: {} bytes wait for it", self.queued_bytes()));
        }
    }

    /// How many bytes wait to be written, delayed ones included.
    pub(super) fn queued_bytes(&self) -> usize {
        self.frames.len()
    }

    /// True if enough waits that writing it should not wait for the end of the turn.
    pub(super) fn is_full(&self) -> bool {
        self.queued_bytes() >= WRITE_BYTES_FULL && self.delay.is_zero() && self.blocked_since.is_none()
    }

    /// Says goodbye and closes once that is written.
    pub(super) fn say_goodbye(&mut self, packet: &Packet, reason: String) {
        if self.closing == Closing::Open {
            // A goodbye is small; if it were not, closing would say enough.
            let _ = self.frames.push(packet);
            self.closing = Closing::Draining(reason);
        }
    }

    /// Closes at once; the reader finds its socket at its end and removes the link.
    pub(super) fn shut(&mut self, reason: String) {
        if !matches!(self.closing, Closing::Shut(_)) {
            self.closing = Closing::Shut(reason);
            self.socket.shut();
        }
    }

    /// Ends the turn: what was added belongs to this instant. Then writes what may leave.
    pub(super) fn flush(&mut self, now: Instant, counters: &mut Counters) -> Written {
        self.frames.close();
        let appended = self.written + self.frames.len() as u64;
        if self.delay.is_zero() {
            self.released = appended;
        } else {
            if self.delayed.back().map_or(self.released, |(_, position)| *position) < appended {
                self.delayed.push_back((now + self.delay, appended));
            }
            while let Some((_, position)) = self.delayed.pop_front_if(|(instant, _)| *instant <= now) {
                self.released = position;
            }
        }
        self.write(now, counters)
    }

    /// When the next delayed bytes may leave.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.delayed.front().map(|(instant, _)| *instant)
    }

    /// Why the link should be closed by now: a frame that does not end, or a socket that takes nothing.
    pub(super) fn stalled(&self, now: Instant, timeout: Duration) -> Option<&'static str> {
        let overdue = |since: Option<Instant>| since.is_some_and(|since| now - since > timeout);
        if overdue(self.unfinished_since) {
            Some("it began a frame and does not finish it")
        } else if overdue(self.blocked_since) {
            Some("it does not read what is sent to it")
        } else {
            None
        }
    }

    /// The socket, to wait until it is writable.
    pub(super) fn socket(&self) -> Arc<Socket> {
        Arc::clone(&self.socket)
    }

    fn write(&mut self, now: Instant, counters: &mut Counters) -> Written {
        self.bytes_peak = self.bytes_peak.max(self.frames.len());
        while self.written < self.released && !matches!(self.closing, Closing::Shut(_)) {
            let may_leave = (self.released - self.written) as usize;
            counters.socket_writes += 1;
            match self.socket.try_write(&self.frames.ready()[..may_leave]) {
                Ok(length) => {
                    self.frames.advance(length);
                    self.written += length as u64;
                    counters.bytes_sent += length as u64;
                    self.blocked_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    return Written::Blocked;
                }
                Err(error) => self.shut(error.to_string()),
            }
        }
        if !matches!(self.closing, Closing::Shut(_)) {
            match self.socket.try_flush() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.blocked_since.get_or_insert(now);
                    return Written::Blocked;
                }
                Err(error) => self.shut(error.to_string()),
            }
        }
        if let Closing::Draining(reason) = &self.closing
            && self.frames.is_empty()
        {
            let reason = reason.clone();
            self.shut(reason);
        }
        if self.frames.is_empty() && self.bytes_peak > BUFFER_BYTES_KEPT {
            // A burst is over: give its memory back.
            self.frames = FrameWriter::new();
            self.bytes_peak = 0;
        }
        Written::All
    }
}
