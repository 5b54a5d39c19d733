//! The subscriptions of one client.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use quorate_redis_commands::Reply;

use super::mailbox::Mailbox;
use super::message::{CHANNEL_BYTES_MAX, too_long};
use super::{Channels, Kind, PATTERNS_MAX};

/// A client may subscribe to so many channels, patterns and shard channels.
const SUBSCRIPTIONS_MAX: usize = 100_000;

/// The cost of each subscription beside its name, in bytes.
const SUBSCRIPTION_BYTES: usize = 256;

/// A client with its subscriptions, which end when this is dropped.
#[derive(Debug)]
pub(crate) struct Subscriber {
    id: u64,
    channels: Arc<Channels>,
    mailbox: Arc<Mailbox>,
    names: [BTreeSet<Bytes>; 3],
    bytes: usize,
}

fn cost(name: &Bytes) -> usize {
    SUBSCRIPTION_BYTES + 2 * name.len()
}

impl Subscriber {
    /// A client that subscribes to nothing yet.
    pub(crate) fn new(channels: &Arc<Channels>) -> Self {
        Subscriber {
            id: channels.next_subscriber.fetch_add(1, Ordering::Relaxed),
            mailbox: Arc::new(Mailbox::new(&channels.held)),
            channels: Arc::clone(channels),
            names: Default::default(),
            bytes: 0,
        }
    }

    /// Where its messages wait.
    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    /// The bytes that it holds: names, and messages that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.mailbox.bytes()
    }

    /// The names of one kind, ascending.
    pub(crate) fn names(&self, kind: Kind) -> Vec<Bytes> {
        self.names[kind as usize].iter().cloned().collect()
    }

    /// How many subscriptions of a kind there are.
    pub(crate) fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// True if it subscribes to nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeSet::is_empty)
    }

    /// The number that goes with a confirmation: shard channels are counted by themselves.
    pub(crate) fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard => self.len(Kind::Shard),
        }
    }

    /// Subscribes to names; gives the number that goes with the confirmation of each.
    ///
    /// # Errors
    /// The reply that says which bound they exceed; then it subscribes to none of them.
    pub(crate) fn subscribe(&mut self, kind: Kind, names: &[Bytes]) -> Result<Vec<usize>, Reply> {
        if names.iter().any(|name| name.len() > CHANNEL_BYTES_MAX) {
            return Err(too_long());
        }
        let count: usize = self.names.iter().map(BTreeSet::len).sum();
        if count + names.len() > SUBSCRIPTIONS_MAX {
            return Err(Reply::error(format!(
                "ERR a client may have at most {SUBSCRIPTIONS_MAX} subscriptions, and nothing was done"
            )));
        }
        let channels = Arc::clone(&self.channels);
        let mut subscriptions = channels.lock();
        let of_kind = subscriptions.of_mut(kind);
        let new = names.iter().filter(|name| !of_kind.contains_key(*name)).count();
        if kind == Kind::Pattern && of_kind.len() + new > PATTERNS_MAX {
            return Err(Reply::error(format!(
                "ERR the clients of a door may subscribe to at most {PATTERNS_MAX} different patterns, and nothing was done"
            )));
        }
        let mut told = Vec::with_capacity(names.len());
        for name in names {
            // Bytes of a request belong to the buffer of its connection.
            let name = Bytes::copy_from_slice(name);
            of_kind.entry(name.clone()).or_default().insert(self.id, Arc::clone(&self.mailbox));
            let bytes = cost(&name);
            if self.names[kind as usize].insert(name) {
                self.bytes += bytes;
            }
            told.push(self.told(kind));
        }
        Ok(told)
    }

    /// Ends a subscription, if there is one. From then on no message comes for it; those before wait in the mailbox.
    pub(crate) fn unsubscribe(&mut self, kind: Kind, name: &Bytes) {
        if self.names[kind as usize].remove(name) {
            self.bytes -= cost(name);
            self.forget(kind, name);
        }
    }

    fn forget(&self, kind: Kind, name: &Bytes) {
        let mut subscriptions = self.channels.lock();
        let of_kind = subscriptions.of_mut(kind);
        if let Some(subscribers) = of_kind.get_mut(name) {
            subscribers.remove(&self.id);
            if subscribers.is_empty() {
                of_kind.remove(name);
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            for name in &self.names[kind as usize] {
                self.forget(kind, name);
            }
        }
    }
}
