//! Announcements: what clients tell each other, at most once, and outside of transactions (ADR 0063).
//!
//! ```text
//!   announce ─► the nearest node that is connected ─► every client that listens to the topic, over its connection to that node ─► Announcements::next
//! ```
//!
//! A client that listens says so on its connections to all nodes, so it hears others whichever node they have chosen, as long as it reaches that
//! node. Nothing is stored, and nothing is repeated: what a broken connection swallows is lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::ClientId;
use quorate_runtime::transport::{LinkId, Transport, Turn};
use quorate_wire::Packet;
use quorate_wire::packet::{ANNOUNCEMENT_BYTES_MAX, TOPIC_BYTES_MAX, TOPICS_MAX};
use tokio::sync::Notify;

use crate::database::Database;
use crate::error::{Error, Invalid, Result};
use crate::host::ClientHost;

/// So many bytes of announcements wait for a listener, with [`HEARD_OVERHEAD_BYTES`] for each: what comes then is lost.
const HEARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The cost of each announcement that waits beside its bytes.
const HEARD_OVERHEAD_BYTES: usize = 128;

/// A client announces nothing more while so many bytes wait for the node that it would tell.
const WAITING_BYTES_MAX: usize = 8 * 1024 * 1024;

/// So many clients are remembered with the number that each has announced last.
const SOURCES_MAX: usize = 4_096;

/// How long to wait until a node takes an announcement.
const PATIENCE: Duration = Duration::from_secs(1);

/// Something that a client has announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The client.
    pub from: ClientId,
    /// Its content.
    pub content: Bytes,
}

/// The announcements under a topic, from [`Database::announcements`] on, those of this client among them.
#[derive(Debug)]
pub struct Announcements {
    id: u64,
    transport: Transport<ClientHost>,
    heard: Arc<Heard>,
}

impl Announcements {
    /// Waits for the next one. Those of one client come in the order in which it has announced them.
    pub async fn next(&mut self) -> Announcement {
        loop {
            if let Some(next) = self.heard.take() {
                return next;
            }
            self.heard.bell.notified().await;
        }
    }

    /// How many were lost because they came faster than they were taken. Others may have been lost on the way.
    pub fn lost(&self) -> u64 {
        self.heard.lock().lost
    }
}

impl Drop for Announcements {
    fn drop(&mut self) {
        self.transport.with(|host, turn| host.stop_listening(self.id, turn));
    }
}

/// The announcements that wait for a listener.
#[derive(Debug, Default)]
struct Heard {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    announcements: VecDeque<Announcement>,
    bytes: usize,
    lost: u64,
}

impl Heard {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Announcement> {
        let mut waiting = self.lock();
        let next = waiting.announcements.pop_front()?;
        waiting.bytes -= next.content.len() + HEARD_OVERHEAD_BYTES;
        Some(next)
    }

    fn push(&self, announcement: Announcement) {
        let mut waiting = self.lock();
        let bytes = announcement.content.len() + HEARD_OVERHEAD_BYTES;
        if waiting.bytes + bytes > HEARD_BYTES_MAX {
            waiting.lost += 1;
            return;
        }
        waiting.bytes += bytes;
        waiting.announcements.push_back(announcement);
        drop(waiting);
        self.bell.notify_one();
    }
}

/// The listeners at this client, and the number of its announcements.
#[derive(Default)]
pub(crate) struct Listening {
    listeners: Vec<(u64, String, Arc<Heard>)>,
    next_listener: u64,
    announced: u64,
    /// The number of the last announcement that was heard of a client.
    last: BTreeMap<ClientId, u64>,
}

impl Listening {
    /// The topics that a node is told: all, each once; none if there are none.
    fn topics(&self) -> Vec<String> {
        let mut topics: Vec<String> = self.listeners.iter().map(|(_, topic, _)| topic.clone()).collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Tells a node that has just been connected.
    pub(crate) fn greet(&self, link: LinkId, turn: &mut Turn<'_>) {
        let topics = self.topics();
        if !topics.is_empty() {
            turn.send(link, &Packet::Listen { topics });
        }
    }

    /// The next number of this client.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.announced += 1;
        self.announced
    }

    /// Gives an announcement to the listeners of its topic. One that has been overtaken on another way is dropped, so that those of a client
    /// stay in their order.
    pub(crate) fn hear(&mut self, from: ClientId, number: u64, topic: &str, content: &Bytes) {
        if self.last.get(&from).is_some_and(|last| number <= *last) {
            return;
        }
        if self.last.len() >= SOURCES_MAX && !self.last.contains_key(&from) {
            // Names are drawn at random, and most of those that are remembered are of clients that have gone.
            self.last.pop_first();
        }
        self.last.insert(from, number);
        for (_, _, heard) in self.listeners.iter().filter(|(_, of, _)| of == topic) {
            heard.push(Announcement { from, content: content.clone() });
        }
    }
}

/// The result of an attempt to announce something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// It is on its way to a node.
    Sent,
    /// Too much waits for the nearest node.
    Full,
    /// No node is connected.
    Nowhere,
}

/// True if nothing more is announced over a link for now.
pub(crate) fn is_full(link: LinkId, turn: &Turn<'_>) -> bool {
    turn.link_queued_bytes(link) > WAITING_BYTES_MAX
}

fn check_topic(topic: &str) -> Result<()> {
    if topic.is_empty() || topic.len() > TOPIC_BYTES_MAX {
        let reason =
            format!("a topic has from 1 to {TOPIC_BYTES_MAX} bytes, and {topic:?} has {}", topic.len());
        return Err(Invalid::Announcement { reason }.into());
    }
    Ok(())
}

impl Database {
    /// Announces something under a topic: the clients that listen to it hear of it, at most once each, and those of this client in the order of its
    /// announcements. It is no part of any transaction, and is not stored. Returns once it is on its way to the nearest node, which passes it on as
    /// long as it is not overloaded; a client that is connected to that node hears of it.
    ///
    /// # Errors
    /// [`Invalid::Announcement`] if it is longer than [`ANNOUNCEMENT_BYTES_MAX`] bytes or the topic is empty or longer than 64; [`Error::Overloaded`] if
    /// the node takes nothing for a second, and [`Error::Connect`] if none is connected for as long. Nobody has heard of it then.
    pub async fn announce(&self, topic: &str, content: impl Into<Bytes>) -> Result<()> {
        /// How long to wait before another try.
        const PAUSE: Duration = Duration::from_millis(5);
        let content = content.into();
        check_topic(topic)?;
        if content.len() > ANNOUNCEMENT_BYTES_MAX {
            let reason = format!("it has {} bytes, and may have {ANNOUNCEMENT_BYTES_MAX}", content.len());
            return Err(Invalid::Announcement { reason }.into());
        }
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let announced = self.transport().with(|host, turn| host.announce(topic, &content, turn));
            match announced {
                Announced::Sent => return Ok(()),
                Announced::Full | Announced::Nowhere if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                Announced::Full => return Err(Error::Overloaded { retry_after: PATIENCE }),
                Announced::Nowhere => {
                    let nodes = self.topology();
                    let is_there = nodes.nodes.iter().filter(|node| !node.is_forgotten());
                    let tried = is_there.map(|node| (node.address.clone(), "it is not connected".to_owned()));
                    return Err(Error::Connect { tried: tried.collect() });
                }
            }
        }
    }

    /// Listens to a topic from now on, at all nodes that are connected or will be, until the result is dropped. It is for the caller to take
    /// announcements as fast as they come: 16 MiB of them wait.
    ///
    /// # Errors
    /// [`Invalid::Announcement`] if the topic is empty or longer than 64 bytes, or this client listens to 16 others.
    pub fn announcements(&self, topic: &str) -> Result<Announcements> {
        check_topic(topic)?;
        let heard = Arc::new(Heard::default());
        let id = self.transport().with(|host, turn| host.listen(topic, &heard, turn));
        let Some(id) = id else {
            let reason = format!("this client listens to {TOPICS_MAX} topics, which is the limit");
            return Err(Invalid::Announcement { reason }.into());
        };
        Ok(Announcements { id, transport: self.transport().clone(), heard })
    }
}

impl ClientHost {
    /// Begins to listen; none if there are too many topics.
    fn listen(&mut self, topic: &str, heard: &Arc<Heard>, turn: &mut Turn<'_>) -> Option<u64> {
        let (before, id) = (self.listening.topics(), self.listening.next_listener);
        if !before.iter().any(|known| known == topic) && before.len() >= TOPICS_MAX {
            return None;
        }
        self.listening.next_listener += 1;
        self.listening.listeners.push((id, topic.to_owned(), Arc::clone(heard)));
        self.tell_topics(&before, turn);
        Some(id)
    }

    fn stop_listening(&mut self, id: u64, turn: &mut Turn<'_>) {
        let before = self.listening.topics();
        self.listening.listeners.retain(|(known, ..)| *known != id);
        self.tell_topics(&before, turn);
    }

    /// Tells all nodes the topics, unless they are as before.
    fn tell_topics(&self, before: &[String], turn: &mut Turn<'_>) {
        let topics = self.listening.topics();
        if topics != before {
            turn.send_to_all(&Packet::Listen { topics });
        }
    }

    fn announce(&mut self, topic: &str, content: &Bytes, turn: &mut Turn<'_>) -> Announced {
        let Some(link) = self.nearest_connected(turn.time.now) else { return Announced::Nowhere };
        if is_full(link, turn) {
            return Announced::Full;
        }
        let (from, number) = (self.client(), self.listening.next_number());
        let (topic, content) = (topic.to_owned(), content.clone());
        turn.send(link, &Packet::Announce { from, number, topic, content });
        Announced::Sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hear(listening: &mut Listening, from: u64, number: u64, topic: &str) {
        listening.hear(ClientId(from), number, topic, &Bytes::from(number.to_string()));
    }

    fn listener(listening: &mut Listening, topic: &str) -> Arc<Heard> {
        let heard = Arc::new(Heard::default());
        listening.listeners.push((0, topic.to_owned(), Arc::clone(&heard)));
        heard
    }

    fn taken(heard: &Heard) -> Vec<String> {
        let next = || heard.take().map(|next| String::from_utf8_lossy(&next.content).into_owned());
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn a_listener_hears_each_client_in_its_order_and_its_topic_alone() {
        let mut listening = Listening::default();
        let (one, other) = (listener(&mut listening, "one"), listener(&mut listening, "other"));
        for (from, number, topic) in
            [(1, 1, "one"), (2, 1, "one"), (1, 3, "one"), (1, 2, "one"), (1, 3, "one"), (1, 4, "other")]
        {
            hear(&mut listening, from, number, topic);
        }
        assert_eq!(taken(&one), ["1", "1", "3"], "the second of client 1 comes too late");
        assert_eq!(taken(&other), ["4"]);
        assert_eq!(listening.topics(), ["one", "other"]);
    }

    #[test]
    fn a_listener_that_takes_nothing_loses_what_is_too_much() {
        let mut listening = Listening::default();
        let heard = listener(&mut listening, "t");
        let content = Bytes::from(vec![0; ANNOUNCEMENT_BYTES_MAX]);
        (1..=20).for_each(|number| listening.hear(ClientId(1), number, "t", &content));
        assert!(heard.lock().lost > 0 && heard.lock().bytes <= HEARD_BYTES_MAX);
        while heard.take().is_some() {}
        assert_eq!(heard.lock().bytes, 0);
    }

    #[test]
    fn a_listener_remembers_a_bounded_number_of_clients() {
        let mut listening = Listening::default();
        (0..2 * SOURCES_MAX as u64).for_each(|from| hear(&mut listening, from, 1, "t"));
        assert_eq!(listening.last.len(), SOURCES_MAX);
    }
}
