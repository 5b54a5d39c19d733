//! Code that is loaded beside the event loop.
//!
//! To load a module takes far longer than anything else that a replica does, and all replicas of the node would stand still. So a
//! message that brings code waits until a thread has loaded it, and its replica finds it loaded. The effect at the replica is the same
//! in any case: messages may be late, and overtake each other.

use std::sync::mpsc::channel;

use quorate_core::Value;
use quorate_granola::entry::{Body, Entry, Page};
use quorate_granola::{Message as Granola, Replica};
use quorate_log::member::Item;
use quorate_log::{Message as Log, Part};
use quorate_runtime::transport::TurnWaker;
use quorate_serializable_shard::{Page as ShardPage, Shard, code_of};
use quorate_wire::{Envelope, ProtocolMessage};

use super::workers::Workers;

/// Shorter code is loaded by its replica, within about a millisecond.
const LONG: usize = 4 * 1024;

/// So many messages wait at most. The code of later ones is loaded by their replicas.
const WAITING_MAX: usize = 16;

/// Loads code in other threads.
pub(crate) struct Loader {
    workers: Workers<Envelope>,
    waiting: usize,
    /// The functions that load code. Tests put others in their place.
    means: Means,
}

#[derive(Clone, Copy)]
struct Means {
    is_loaded: fn(&[u8]) -> bool,
    load: fn(&[u8]),
}

/// The replicas of serializable keyspaces, as their messages name them.
type Shards = Replica<Shard>;

impl Loader {
    pub(crate) fn new(waker: TurnWaker) -> Self {
        let means = Means {
            is_loaded: quorate_serializable_library::is_loaded,
            load: quorate_serializable_library::load,
        };
        Loader { workers: Workers::new("procedure-loader", waker), waiting: 0, means }
    }

    /// Keeps a message until the code that it brings is loaded; gives back one that need not wait.
    pub(crate) fn keep(&mut self, envelope: Envelope) -> Option<Envelope> {
        let mut code = code_in(&envelope.message);
        code.retain(|code| code.len() >= LONG && !(self.means.is_loaded)(code));
        if code.is_empty() || self.waiting >= WAITING_MAX {
            return Some(envelope);
        }
        let load = self.means.load;
        // It is handed over once there is a thread.
        let (hand_over, handed_over) = channel();
        let started = self.workers.start(move |tray| {
            let Ok(envelope) = handed_over.recv() else { return };
            code.iter().for_each(|code| load(code));
            tray.put(envelope);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "no thread to load a procedure: replicas wait for it");
            return Some(envelope);
        }
        match hand_over.send(envelope) {
            Ok(()) => {
                self.waiting += 1;
                None
            }
            Err(unsent) => Some(unsent.0),
        }
    }

    /// True if no message waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting == 0
    }

    /// The messages whose code is loaded by now.
    ///
    /// # Panics
    /// If loading has panicked, as it would have at the replica.
    pub(crate) fn take_ready(&mut self) -> Vec<Envelope> {
        if self.is_idle() {
            return Vec::new();
        }
        let ready = self.workers.take_ready();
        self.waiting -= ready.len();
        ready
    }

    /// Waits until nothing is being loaded.
    pub(crate) fn close(&mut self) {
        self.workers.close();
    }
}

/// The code that a message brings to a replica.
fn code_in(message: &ProtocolMessage) -> Vec<Value> {
    let ProtocolMessage::Granola(message) = message else { return Vec::new() };
    match message {
        Part::Own(Granola::Request(request)) => code_of(&request.operation).into_iter().collect(),
        Part::Log(Log::Prepare { entries, .. } | Log::Fetched { entries, .. }) => {
            let operation = |entry: &Item<Shards>| match entry {
                Item::Own(Entry { body: Body::Voted(voted), .. }) => {
                    voted.operation.as_ref().and_then(code_of)
                }
                Item::Own(_) | Item::NextGroup(_) => None,
            };
            entries.iter().filter_map(|entry| operation(&entry.payload)).collect()
        }
        Part::Log(Log::FromState { state: Some(Page::Application(ShardPage::Procedures(page))), .. }) => {
            page.iter().map(|(_, version)| version.value.clone()).collect()
        }
        Part::Own(_) | Part::Log(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use quorate_core::log::Position;
    use quorate_core::{
        Address, ClientId, ClockTime, Epoch, Key, ReplicaId, ReplicaIndex, ShardId, TransactionId, View,
    };
    use quorate_granola::entry::{Vote, Voted};
    use quorate_granola::message::Request;
    use quorate_granola::{Class, Place};
    use quorate_log::Entry as LogEntry;
    use quorate_serializable_shard::{Deploy, Operation, Remove, Version};

    use super::super::workers::{no_threads, take_until_ready};
    use super::*;

    const ID: TransactionId = TransactionId { client: ClientId(7), sequence: 1, attempt: 0 };

    fn code(length: usize) -> Value {
        Value::from(vec![1; length])
    }

    fn deploy(code: Value) -> Value {
        Operation::Deploy(Deploy { name: "p".to_owned(), version: 1, code }).encode()
    }

    fn request(operation: Value) -> ProtocolMessage {
        let (participants, class) = (vec![ShardId(1)], Class::Independent);
        let (high, first) = (ClockTime::from_micros(1), ClockTime::from_micros(1));
        let request = Request { transaction: ID, participants, operation, class, high, first };
        ProtocolMessage::Granola(Part::Own(Granola::Request(request)))
    }

    fn entries(operations: impl IntoIterator<Item = Option<Value>>) -> Vec<LogEntry<Item<Shards>>> {
        let entry = |operation| {
            let voted = Voted {
                transaction: ID,
                class: Class::Independent,
                participants: vec![ShardId(1)],
                operation,
                vote: Vote::Commit,
                proposed: ClockTime::from_micros(1),
                first: ClockTime::from_micros(1),
            };
            let body = Body::Voted(Arc::new(voted));
            let entry = Entry { ceiling: ClockTime::from_micros(1), finals: Vec::new(), body };
            LogEntry { view: View(0), payload: Item::Own(entry) }
        };
        operations.into_iter().map(entry).collect()
    }

    fn envelope(message: ProtocolMessage) -> Envelope {
        let to = Address::Replica(ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) });
        Envelope { from: Address::Client(ID.client), to, epoch: Epoch::FIRST, message }
    }

    fn loader(load: fn(&[u8])) -> Loader {
        let means = Means { is_loaded: |_| false, load };
        Loader { means, ..Loader::new(TurnWaker::default()) }
    }

    #[test]
    fn code_is_found_in_whatever_brings_it() {
        let remove = Operation::Remove(Remove { name: "p".to_owned(), version: 1 }).encode();
        let of_log = |message| ProtocolMessage::Granola(Part::Log(message));
        let appended = || entries([Some(deploy(code(8))), None, Some(remove.clone()), Some(deploy(code(9)))]);
        let view = View(0);
        let prepare = Log::Prepare {
            view,
            after: Position::START,
            entries: appended(),
            stable: Position::START,
            beat: 1,
            clock: None,
        };
        let fetched = Log::Fetched { view, after: Position::START, entries: appended() };
        let transferred = |page| {
            let state = Some(Page::Application(page));
            of_log(Log::FromState { view, base: Position::START, base_view: view, page: 0, state })
        };
        let place = Place { timestamp: ClockTime::from_micros(1), transaction: ID };
        let page = vec![(Key::from("p"), Version { place, value: code(8) })];
        let table = [
            (request(deploy(code(8))), vec![8]),
            (request(remove.clone()), vec![]),
            (of_log(prepare), vec![8, 9]),
            (of_log(fetched), vec![8, 9]),
            (transferred(ShardPage::Procedures(page.clone())), vec![8]),
            (transferred(ShardPage::Keys { entries: page, written: vec![], retained_from: None }), vec![]),
            (of_log(Log::FetchState { view, base: Position::START, page: 0 }), vec![]),
        ];
        for (message, expected) in table {
            let lengths: Vec<usize> = code_in(&message).iter().map(|code| code.len()).collect();
            assert_eq!(lengths, expected, "{message:?}");
        }
    }

    #[test]
    fn a_message_waits_until_its_code_is_loaded_unless_it_is_short_or_loaded_already() {
        let mut loader = loader(|_| thread::sleep(Duration::from_millis(20)));
        let long = || envelope(request(deploy(code(LONG))));
        let short = envelope(request(deploy(code(LONG - 1))));
        assert_eq!(loader.keep(short.clone()), Some(short));
        assert!(loader.is_idle() && loader.take_ready().is_empty());
        assert_eq!(loader.keep(long()), None);
        assert!(!loader.is_idle());
        assert_eq!(take_until_ready(|| loader.take_ready()), [long()]);
        assert!(loader.is_idle());
        loader.means.is_loaded = |_| true;
        assert_eq!(loader.keep(long()), Some(long()));
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut loader = loader(|_| thread::sleep(Duration::from_millis(50)));
        let long = || envelope(request(deploy(code(LONG))));
        for _ in 0..WAITING_MAX {
            assert_eq!(loader.keep(long()), None);
        }
        assert_eq!(loader.keep(long()), Some(long()));
        let taken: usize = std::iter::from_fn(|| {
            (!loader.is_idle()).then(|| take_until_ready(|| loader.take_ready()).len())
        })
        .sum();
        assert_eq!(taken, WAITING_MAX);
        assert_eq!(loader.keep(long()), None);
        loader.close();
    }

    #[test]
    fn without_a_thread_a_message_does_not_wait() {
        let mut loader = loader(|_| {});
        loader.workers.spawn = no_threads;
        let long = envelope(request(deploy(code(LONG))));
        assert_eq!(loader.keep(long.clone()), Some(long));
        assert!(loader.is_idle());
    }
}
