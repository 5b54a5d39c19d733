//! Announcements: what clients tell each other through this node, at most once (ADR 0063).
//!
//! A client that announces something says it to one node, and a client that listens does so at all nodes: so no node asks another one, and a node
//! keeps nothing but who listens. Announcements are worth less than the messages of transactions. Where much waits to be sent, they are
//! dropped and counted.

use std::collections::BTreeMap;

use quorate_core::ClientId;
use quorate_runtime::transport::Violation;
use quorate_runtime::{LinkId, Turn};
use quorate_wire::packet::{ANNOUNCEMENT_BYTES_MAX, TOPIC_BYTES_MAX, TOPICS_MAX};
use quorate_wire::{Packet, Peer};

use super::Node;

/// Nothing is passed on to a client for which so many bytes wait, transactions of its own among them.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// The clients that listen, and what became of announcements.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    listening: BTreeMap<LinkId, Vec<String>>,
    passed_on: u64,
    dropped: u64,
}

impl Announcements {
    /// The connection of a client is gone.
    pub(super) fn forget_link(&mut self, link: LinkId) {
        self.listening.remove(&link);
    }

    /// How many were passed on, once for each client that listens.
    pub(super) fn passed_on(&self) -> u64 {
        self.passed_on
    }

    /// How many were dropped, likewise.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The client at the other end of a link; none if that is a node.
fn client_of(link: LinkId, turn: &Turn<'_>) -> Option<ClientId> {
    match turn.remote(link)?.identity {
        Peer::Client(client) => Some(client),
        Peer::Node(_) => None,
    }
}

impl Node {
    /// A client says which topics it listens to. Between nodes this means nothing.
    ///
    /// # Errors
    /// It names more than it may.
    pub(super) fn listen(
        &mut self,
        link: LinkId,
        topics: Vec<String>,
        turn: &Turn<'_>,
    ) -> Result<(), Violation> {
        let Some(client) = client_of(link, turn) else { return Ok(()) };
        if topics.len() > TOPICS_MAX || topics.iter().any(|topic| topic.len() > TOPIC_BYTES_MAX) {
            return Err(Violation(
                format!("{client} listens to more than {TOPICS_MAX} topics, or one is longer than {TOPIC_BYTES_MAX} bytes").into(),
            ));
        }
        if topics.is_empty() {
            self.announcements.listening.remove(&link);
        } else {
            self.announcements.listening.insert(link, topics);
        }
        Ok(())
    }

    /// Passes an announcement on to the clients that listen to its topic. Between nodes it means nothing.
    ///
    /// # Errors
    /// The client speaks in the name of another one, or says more than it may.
    pub(super) fn pass_on(
        &mut self,
        link: LinkId,
        packet: &Packet,
        turn: &mut Turn<'_>,
    ) -> Result<(), Violation> {
        let (Some(client), Packet::Announce { from, topic, content, .. }) = (client_of(link, turn), packet)
        else {
            return Ok(());
        };
        if *from != client {
            return Err(Violation(format!("{client} announces in the name of {from}").into()));
        }
        if topic.len() > TOPIC_BYTES_MAX || content.len() > ANNOUNCEMENT_BYTES_MAX {
            return Err(Violation(
                format!("{client} announces more than {ANNOUNCEMENT_BYTES_MAX} bytes, or its topic is longer than {TOPIC_BYTES_MAX}").into(),
            ));
        }
        let limits = &self.config.limits;
        let waiting_max = WAITING_BYTES_MAX.min(limits.client_queue_bytes_max / 2);
        let Announcements { listening, passed_on, dropped } = &mut self.announcements;
        for (to, _) in listening.iter().filter(|(_, topics)| topics.contains(topic)) {
            let is_full = turn.link_queued_bytes(*to) + content.len() > waiting_max
                || turn.queued_bytes() > limits.queued_bytes_high;
            if is_full {
                *dropped += 1;
            } else {
                *passed_on += 1;
                turn.send(*to, packet);
            }
        }
        Ok(())
    }
}
