//! All links of a process, and what they have carried.

use std::sync::Arc;
use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::{ClientId, Instant};
use quorate_wire::packet::{Packet, Peer};

use super::Violation;
use super::doorkeeper::Shown;
use super::link::{Closing, DialId, Link, LinkId, Remote, Written};
use super::options::Options;
use crate::secure::{self, Certified, Socket, Tls};

/// The traffic of the links of a process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Protocol messages handed over for sending.
    pub messages_sent: u64,
    /// Protocol messages received.
    pub messages_received: u64,
    /// Bytes written to sockets.
    pub bytes_sent: u64,
    /// Bytes read from sockets.
    pub bytes_received: u64,
    /// Calls that wrote to a socket.
    pub socket_writes: u64,
    /// Calls that read from a socket.
    pub socket_reads: u64,
    /// Connections that were refused, in the handshake or because there were too many.
    pub refused: u64,
    /// Those of them that were refused by their certificate, by the lack of one, or because the handshake of TLS has failed.
    pub refused_by_certificate: u64,
    /// Connections that were closed because their peer broke the rules.
    pub violations: u64,
    /// Connections that were closed because their peer did not read.
    pub slow_readers: u64,
    /// Packets that were passed over because their peer is of a later version, which says more than this one knows.
    pub unsupported: u64,
    /// Kinds of messages, over all connections, that peers of an earlier version have passed over.
    pub unsupported_by_peers: u64,
}

/// All links of a process.
#[derive(Default)]
pub(super) struct Links {
    links: FixedMap<LinkId, Link>,
    /// The links with something to write in this turn.
    dirty: Vec<LinkId>,
    /// The links that hold bytes which may not leave yet.
    delayed: Vec<LinkId>,
    /// How much waits to be written, over all links.
    queued_bytes: usize,
    /// How much of frames that have not ended waits to be completed, over all links.
    unfinished_bytes: usize,
    last: u64,
    /// The most connections of clients at a time.
    pub(super) clients_max: usize,
    pub(super) counters: Counters,
}

impl Links {
    /// No links, with room for so many clients.
    pub(super) fn bounded(clients_max: usize) -> Self {
        Links { clients_max, ..Links::default() }
    }

    /// Takes in a connection whose handshake is complete.
    pub(super) fn insert(&mut self, remote: Remote, socket: Arc<Socket>, options: &Options) -> LinkId {
        self.last += 1;
        let id = LinkId(self.last);
        let bytes_max = options.link_bytes_max(remote.identity);
        let delay = options.delay_to(&remote.site);
        self.links.insert(id, Link::new(remote, socket, bytes_max, delay));
        id
    }

    /// Forgets a connection, and gives back who it was with and why this side closed it, if it did.
    pub(super) fn remove(&mut self, id: LinkId) -> Option<(Remote, Option<String>)> {
        let link = self.links.remove(&id)?;
        self.queued_bytes -= link.queued_bytes();
        self.unfinished_bytes -= link.unfinished_bytes;
        Some((link.remote, link.closing.into_reason()))
    }

    pub(super) fn get(&self, id: LinkId) -> Option<&Link> {
        self.links.get(&id)
    }

    pub(super) fn ids(&self) -> Vec<LinkId> {
        let mut ids: Vec<_> = self.links.keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// How many clients have connected.
    pub(super) fn clients(&self) -> usize {
        // Any order: they are counted.
        self.links.values().filter(|link| matches!(link.remote.identity, Peer::Client(_))).count()
    }

    /// True if a connection of this client is that of another user.
    pub(super) fn is_of_another(
        &self,
        client: ClientId,
        certified: Option<&Certified>,
        shown: Option<&Shown>,
    ) -> bool {
        // Any order: it is asked whether there is one.
        let mut links = self.links.values().map(|link| &link.remote);
        links.any(|remote| {
            remote.identity == Peer::Client(client)
                && !(secure::is_same(remote.certified.as_ref(), certified)
                    && remote.shown.as_deref() == shown)
        })
    }

    /// Closes links whose certificate has expired since they began, or was revoked: at once, so that nothing more is taken from them. The peer is
    /// told why when it connects again.
    pub(super) fn judge_again(&mut self, tls: &Tls) {
        for link in self.links.values_mut().filter(|link| link.closing == Closing::Open) {
            let Some(certified) = &link.remote.certified else { continue };
            if let Some(reason) = secure::outlived(tls, certified) {
                tracing::warn!(address = %link.remote.address, reason, "connection closed");
                self.counters.refused_by_certificate += 1;
                link.shut(reason);
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Adds a packet to a link; a link that is gone swallows it.
    pub(super) fn push(&mut self, id: LinkId, packet: &Packet, now: Instant) {
        let Some(link) = self.links.get_mut(&id) else { return };
        if let Packet::Envelope(_) = packet {
            self.counters.messages_sent += 1;
        }
        let before = link.queued_bytes();
        link.push(packet, &mut self.counters);
        if link.is_full() {
            // Bytes that cannot be written stay for the end of the turn.
            link.flush(now, &mut self.counters);
        }
        self.queued_bytes = self.queued_bytes + link.queued_bytes() - before;
        self.mark_dirty(id);
    }

    /// Says goodbye on a link and closes it once that is written.
    pub(super) fn say_goodbye(&mut self, id: LinkId, packet: &Packet, reason: String) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let before = link.queued_bytes();
        link.say_goodbye(packet, reason);
        self.queued_bytes += link.queued_bytes() - before;
        self.mark_dirty(id);
    }

    /// Sees to it that the link is written to in this turn.
    pub(super) fn mark_dirty(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id)
            && !link.dirty
        {
            link.dirty = true;
            self.dirty.push(id);
        }
    }

    /// The socket of a link was found writable.
    pub(super) fn on_writable(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(&id) {
            link.waited_for = false;
            self.mark_dirty(id);
        }
    }

    /// Writes every dirty link, and every link whose delayed bytes may leave now, once. Links whose socket is full are
    /// added to `blocked`.
    pub(super) fn flush(&mut self, now: Instant, blocked: &mut Vec<(LinkId, Arc<Socket>)>) {
        for id in std::mem::take(&mut self.delayed) {
            self.mark_dirty(id);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            let Some(link) = self.links.get_mut(&id) else { continue };
            link.dirty = false;
            let before = link.queued_bytes();
            if link.flush(now, &mut self.counters) == Written::Blocked && !link.waited_for {
                link.waited_for = true;
                blocked.push((id, link.socket()));
            }
            self.queued_bytes -= before - link.queued_bytes();
            if link.next_release().is_some() {
                self.delayed.push(id);
            }
        }
        self.dirty = dirty;
    }

    /// When the next delayed bytes may leave.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.delayed.iter().filter_map(|id| self.links.get(id)?.next_release()).min()
    }

    /// Bytes have arrived on a link, and `unfinished` of them belong to a frame that has not ended, which is a new one or
    /// not.
    ///
    /// # Errors
    /// Unfinished frames hold too much memory, and this one adds to it.
    pub(super) fn on_received(
        &mut self,
        id: LinkId,
        bytes: usize,
        (unfinished, is_new): (usize, bool),
        now: Instant,
        options: &Options,
    ) -> Result<(), Violation> {
        self.counters.socket_reads += 1;
        self.counters.bytes_received += bytes as u64;
        let Some(link) = self.links.get_mut(&id) else { return Ok(()) };
        self.unfinished_bytes = self.unfinished_bytes - link.unfinished_bytes + unfinished;
        link.unfinished_bytes = unfinished;
        let since = link.unfinished_since.filter(|_| !is_new).unwrap_or(now);
        link.unfinished_since = (unfinished > 0).then_some(since);
        if unfinished > 0 && self.unfinished_bytes > options.unfinished_bytes_max {
            return Err(Violation("too many large frames are arriving at once; try again later".into()));
        }
        Ok(())
    }

    /// Forgets the connections that came of a dial.
    pub(super) fn remove_dialled(&mut self, dial: DialId) -> Vec<(LinkId, Remote)> {
        let mut ids = self.ids();
        ids.retain(|id| self.links[id].remote.dial == Some(dial));
        ids.into_iter().filter_map(|id| self.remove(id).map(|(remote, _)| (id, remote))).collect()
    }

    /// Closes every link at once.
    pub(super) fn shut_all(&mut self, reason: &str) {
        for link in self.links.values_mut() {
            link.shut(reason.to_owned());
        }
    }

    /// Closes links whose peer has stalled.
    pub(super) fn sweep(&mut self, now: Instant, timeout: Duration) {
        for link in self.links.values_mut() {
            if let Some(reason) = link.stalled(now, timeout) {
                self.counters.slow_readers += 1;
                link.shut(reason.to_owned());
            }
        }
    }
}
