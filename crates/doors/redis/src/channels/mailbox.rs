//! The messages that wait for one subscriber.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quorate_gateway::Ended;
use tokio::sync::Notify;

use super::message::Kept;

/// So many bytes may wait for one subscriber; one for which there are more is cut off.
pub(crate) const MAILBOX_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The cost of each message to each subscriber that it waits for, beside the message.
const ENTRY_BYTES: usize = 64;

/// A message as a subscriber gets it.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    /// The pattern that its channel matches, if that is why.
    pub(crate) pattern: Option<Bytes>,
    pub(crate) kept: Arc<Kept>,
}

impl Delivery {
    fn cost(&self) -> usize {
        ENTRY_BYTES + self.kept.message.cost()
    }
}

/// A mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    waiting: Mutex<Waiting>,
    bell: Notify,
    /// The bytes that all mailboxes of the door hold.
    held: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Waiting {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    /// True once there were too many: nothing more is taken in, and the subscriber is to be cut off.
    is_cut: bool,
}

impl Mailbox {
    pub(crate) fn new(held: &Arc<AtomicUsize>) -> Self {
        Mailbox { waiting: Mutex::default(), bell: Notify::new(), held: Arc::clone(held) }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes wait.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    pub(crate) fn push(&self, delivery: Delivery) {
        let mut waiting = self.lock();
        if waiting.is_cut {
            return;
        }
        let cost = delivery.cost();
        if waiting.bytes + cost > MAILBOX_BYTES_MAX {
            drop(waiting);
            return self.cut();
        }
        waiting.bytes += cost;
        waiting.deliveries.push_back(delivery);
        drop(waiting);
        self.held.fetch_add(ENTRY_BYTES, Ordering::Relaxed);
        self.bell.notify_one();
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// There were too many.
    pub(crate) fn take(&self) -> Result<Option<Delivery>, Ended> {
        let mut waiting = self.lock();
        if waiting.is_cut {
            return Err(Ended::Behind);
        }
        let Some(delivery) = waiting.deliveries.pop_front() else { return Ok(None) };
        waiting.bytes -= delivery.cost();
        drop(waiting);
        self.held.fetch_sub(ENTRY_BYTES, Ordering::Relaxed);
        Ok(Some(delivery))
    }

    /// Gives up what waits: the subscriber is to be cut off.
    pub(crate) fn cut(&self) {
        self.clear(true);
        self.bell.notify_one();
    }

    fn clear(&self, is_cut: bool) {
        let mut waiting = self.lock();
        let deliveries = std::mem::take(&mut waiting.deliveries);
        waiting.bytes = 0;
        waiting.is_cut |= is_cut;
        drop(waiting);
        self.held.fetch_sub(ENTRY_BYTES * deliveries.len(), Ordering::Relaxed);
    }

    /// Waits until something waits here, or the subscriber is to be cut off.
    pub(crate) async fn rung(&self) {
        loop {
            {
                let waiting = self.lock();
                if waiting.is_cut || !waiting.deliveries.is_empty() {
                    return;
                }
            }
            self.bell.notified().await;
        }
    }

    /// Waits until the subscriber is to be cut off.
    pub(crate) async fn is_cut(&self) {
        loop {
            if self.lock().is_cut {
                return;
            }
            self.bell.notified().await;
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.clear(true);
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;

    #[test]
    fn a_subscriber_that_takes_nothing_is_cut_off_and_holds_nothing_then() {
        let held = Arc::new(AtomicUsize::new(0));
        let mailbox = Mailbox::new(&held);
        let message = Message::new(b"c", &vec![b'm'; 1_000_000], false).unwrap();
        let mut pushed = 0;
        while mailbox.take().is_ok() && pushed < 100 {
            // Two in, one out.
            for _ in 0..2 {
                let kept = Arc::new(Kept::new(message.clone(), &held));
                mailbox.push(Delivery { pattern: None, kept });
                pushed += 1;
            }
            assert!(mailbox.bytes() <= MAILBOX_BYTES_MAX);
        }
        assert!(pushed < 100 && matches!(mailbox.take(), Err(Ended::Behind)));
        assert_eq!((mailbox.bytes(), held.load(Ordering::Relaxed)), (0, 0));
        mailbox.push(Delivery { pattern: None, kept: Arc::new(Kept::new(message, &held)) });
        assert_eq!(held.load(Ordering::Relaxed), 0, "nothing more is taken in");
    }
}
