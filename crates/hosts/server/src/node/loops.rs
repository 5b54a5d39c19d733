//! The event loops of a node, as each of them sees them (ADR 0080).
//!
//! Each event loop has a thread, a transport and a [`Node`](super::Node) of its own. A replica lives on one of them and never leaves it while it
//! runs; nothing of it is shared. The first event loop speaks for the node: it keeps the copy of the catalogue, answers operators and clients,
//! and tells the others what concerns all. Messages that one hands over to another go into a bounded queue at the end of its turn, and ask for
//! a turn there.
//!
//! ```text
//!   a message ─► its event loop by the shard ─► here: the replica takes a step
//!                                          └──► elsewhere: handed over, and delivered there in the next turn
//!   a message for a client or another node ─► a connection of this event loop, or handed to the first one, which has one to each
//! ```
//!
//! A message that finds the queue full is lost, as one may be whose connection breaks; what else is handed over never is.
//!
//! The first event loop may wait for the lock of another one, to read or change what is there on behalf of an operator. No other waits for it, so none waits for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::hosted::Urgency;
use quorate_core::topology::Topology;
use quorate_core::{ClientId, Instant, NodeId, ReplicaId};
use quorate_runtime::LinkId;
use quorate_runtime::transport::TurnWaker;
use quorate_wire::{Envelope, Packet, ProtocolVersion};

use super::catalogue::{Answered, Question, Reading};
use crate::Limits;

/// So many messages wait for an event loop at most.
const MESSAGES_MAX: u64 = 65_536;

/// An item that one event loop hands to another: a message, a question, or news.
#[derive(Debug)]
pub(crate) enum Handed {
    /// A message that may be taken in: for a replica of the event loop or, at the first one, for what is reached from there.
    Message(Envelope),
    /// A message of a client for a replica of the event loop, which decides whether it has too much to do.
    Asked(Asked),
    /// Such a message was refused.
    Refused {
        /// The connection of the client.
        link: LinkId,
    },
    /// To the first one: a replica asks the configuration service.
    Question(Question),
    /// The answer to it.
    Answer(Answered),
    /// To the first one: packets for all clients.
    ToClients(Packet),
    /// To the first one: the replicas of an event loop that do not serve before an operator acts, and how many of them keep logs.
    Service {
        /// The event loop.
        event_loop: u16,
        /// Why they do not.
        problems: BTreeMap<ReplicaId, String>,
        /// How many logs it has.
        logs: usize,
    },
    /// The keyspaces, as they were read in the catalogue.
    Reading(Box<Reading>),
    /// The sites and nodes have changed.
    Topology(Arc<Topology>),
    /// How many event loops another node has.
    EventLoops {
        /// The node.
        node: NodeId,
        /// How many.
        count: u16,
    },
    /// A protocol version is in force.
    Version(ProtocolVersion),
    /// Which nodes have too little room.
    Space {
        /// True if this one has.
        own: bool,
        /// The others.
        others: BTreeSet<NodeId>,
    },
    /// Clients were told that the node stops.
    Leaving(Instant),
    /// The node is not believed any more.
    Fenced(String),
    /// The limits have changed.
    Limits(Limits),
    /// There are users now.
    AccessControl,
}

/// A message of a client that was judged where it has arrived, except for the load of its replica.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) envelope: Envelope,
    pub(crate) client: ClientId,
    pub(crate) urgency: Urgency,
    /// True if it begins writes.
    pub(crate) writes: bool,
    /// Where it has arrived: the event loop, its connection there, and how much waits to be sent there, in bytes.
    pub(crate) event_loop: u16,
    pub(crate) link: LinkId,
    pub(crate) queued_bytes: usize,
}

impl Handed {
    /// True if it may be lost.
    fn is_message(&self) -> bool {
        matches!(self, Handed::Message(_) | Handed::Asked(_))
    }
}

/// The queue of an event loop.
struct Inbox {
    waiting: Mutex<Waiting>,
    /// Messages that were handed over, and those that found the queue full, since the process started.
    taken: AtomicU64,
    lost: AtomicU64,
    waker: TurnWaker,
}

#[derive(Debug, Default)]
struct Waiting {
    handed: Vec<Handed>,
    messages: u64,
}

impl Inbox {
    /// Takes in what another event loop hands over.
    fn put(&self, handed: &mut Vec<Handed>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut taken, mut lost) = (0, 0);
        for handed in handed.drain(..) {
            if handed.is_message() {
                if waiting.messages >= MESSAGES_MAX {
                    lost += 1;
                    continue;
                }
                waiting.messages += 1;
                taken += 1;
            }
            waiting.handed.push(handed);
        }
        drop(waiting);
        self.taken.fetch_add(taken, Ordering::Relaxed);
        if lost > 0 && self.lost.fetch_add(lost, Ordering::Relaxed) == 0 {
            tracing::warn!(lost, "an event loop is so far behind that messages for it are lost");
        }
        self.waker.wake();
    }

    fn take(&self) -> Vec<Handed> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.messages = 0;
        std::mem::take(&mut waiting.handed)
    }
}

/// The event loops of a node, as one of them sees them.
pub(crate) struct Loops {
    own: u16,
    inboxes: Arc<[Inbox]>,
    /// The items that are handed over when the turn ends, by event loop.
    outboxes: Vec<Vec<Handed>>,
}

impl Loops {
    /// The event loops that are woken by these, as each of them sees them.
    pub(crate) fn of(wakers: &[TurnWaker]) -> Vec<Loops> {
        let inbox = |waker: &TurnWaker| Inbox {
            waiting: Mutex::default(),
            taken: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            waker: waker.clone(),
        };
        let inboxes: Arc<[Inbox]> = wakers.iter().map(inbox).collect();
        let outboxes = || wakers.iter().map(|_| Vec::new()).collect();
        let own = (0..).take(wakers.len());
        own.map(|own| Loops { own, inboxes: Arc::clone(&inboxes), outboxes: outboxes() }).collect()
    }

    /// Which one this is.
    pub(crate) fn own(&self) -> u16 {
        self.own
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u16 {
        self.inboxes.len() as u16
    }

    /// True if this one speaks for the node.
    pub(crate) fn is_first(&self) -> bool {
        self.own == 0
    }

    /// Hands something over when the turn ends.
    pub(crate) fn hand(&mut self, event_loop: u16, handed: Handed) {
        assert_ne!(event_loop, self.own, "an event loop hands nothing to itself");
        if let Some(outbox) = self.outboxes.get_mut(usize::from(event_loop)) {
            outbox.push(handed);
        }
    }

    /// Hands something to each of the others.
    pub(crate) fn hand_to_others(&mut self, handed: impl Fn() -> Handed) {
        for event_loop in 0..self.count() {
            if event_loop != self.own {
                self.hand(event_loop, handed());
            }
        }
    }

    /// The same, at the first one.
    pub(crate) fn hand_to_others_if_first(&mut self, handed: impl Fn() -> Handed) {
        if self.is_first() {
            self.hand_to_others(handed);
        }
    }

    /// The turn ends: hands over what there is.
    pub(crate) fn end_turn(&mut self) {
        for (outbox, inbox) in self.outboxes.iter_mut().zip(self.inboxes.iter()) {
            if !outbox.is_empty() {
                inbox.put(outbox);
            }
        }
    }

    /// The items that the others have handed over since this was asked last.
    pub(crate) fn take(&self) -> Vec<Handed> {
        self.inbox().map_or_else(Vec::new, Inbox::take)
    }

    /// Messages that others have handed to this one, and those of them that were lost, since the process started.
    pub(crate) fn messages(&self) -> (u64, u64) {
        let read = |inbox: &Inbox| {
            let lost = inbox.lost.load(Ordering::Relaxed);
            (inbox.taken.load(Ordering::Relaxed), lost)
        };
        self.inbox().map_or((0, 0), read)
    }

    /// True if nothing waits for this one, and nothing to be handed to others.
    pub(crate) fn is_idle(&self) -> bool {
        let is_empty =
            |inbox: &Inbox| inbox.waiting.lock().unwrap_or_else(PoisonError::into_inner).handed.is_empty();
        self.outboxes.iter().all(Vec::is_empty) && self.inbox().is_none_or(is_empty)
    }

    fn inbox(&self) -> Option<&Inbox> {
        self.inboxes.get(usize::from(self.own))
    }
}

/// Messages for machines of this event loop, and what goes to others.
pub(crate) struct Here {
    pub(crate) queue: VecDeque<Envelope>,
    pub(crate) loops: Loops,
}

#[cfg(test)]
mod tests {
    use quorate_core::{Address, Epoch, ShardId};
    use quorate_wire::ProtocolMessage;

    use super::*;

    fn message() -> Handed {
        let client = Address::Client(ClientId(1));
        let to = Address::Replica(ReplicaId { shard: ShardId(1), ..ReplicaId::default() });
        let message =
            ProtocolMessage::Configuration(quorate_log::Part::Own(quorate_configuration::Message::Refused {
                request: 1,
                refusal: quorate_configuration::Refusal::Malformed,
            }));
        Handed::Message(Envelope { from: client, to, epoch: Epoch::FIRST, message })
    }

    #[test]
    fn what_is_handed_over_arrives_when_the_turn_ends_and_once() {
        let mut loops = Loops::of(&[TurnWaker::default(), TurnWaker::default(), TurnWaker::default()]);
        let [first, second, third] = &mut loops[..] else { panic!("there are three") };
        assert!(first.is_first() && !second.is_first());
        assert_eq!((third.own(), third.count()), (2, 3));
        first.hand(1, message());
        first.hand_to_others(|| Handed::AccessControl);
        assert!(second.take().is_empty(), "the turn has not ended");
        first.end_turn();
        assert!(matches!(second.take()[..], [Handed::Message(_), Handed::AccessControl]));
        assert!(second.take().is_empty());
        assert!(matches!(third.take()[..], [Handed::AccessControl]));
        assert!(first.take().is_empty());
        assert_eq!(second.messages(), (1, 0));
    }

    #[test]
    fn messages_are_lost_when_too_many_wait_and_nothing_else_is() {
        let mut loops = Loops::of(&[TurnWaker::default(), TurnWaker::default()]);
        let [first, second] = &mut loops[..] else { panic!("there are two") };
        for _ in 0..MESSAGES_MAX + 3 {
            first.hand(1, message());
        }
        first.hand(1, Handed::AccessControl);
        first.end_turn();
        assert_eq!(second.messages(), (MESSAGES_MAX, 3));
        let taken = second.take();
        assert_eq!(taken.len() as u64, MESSAGES_MAX + 1);
        assert!(matches!(taken.last(), Some(Handed::AccessControl)));
        first.hand(1, message());
        first.end_turn();
        assert_eq!(second.take().len(), 1, "there is room again");
    }
}
