//! The machines of one-round transactions in the world of the simulator.
//!
//! They are those that servers and clients run; only their bytes are not carried, but counted: nothing is damaged here.

use std::marker::PhantomData;

use bytes::BytesMut;
use quorate_core::{Epoch, Machine, Random, Value};
use quorate_granola::{Body, Class, Command, Coordinator, Entry, Message, Replica, Vote};
use quorate_log::member::{Item, ItemOf, MessageOf};
use quorate_log::{Guest, Member, Part};
use quorate_serializable_shard::{Library, ShardWith};
use quorate_simulator::world::costs::{Operation, Work};
use quorate_simulator::world::trace::TraceHash;
use quorate_simulator::world::{Envelope, Protocol};

use super::rounds::Transaction;

/// An application: how long its operations take, and its transactions.
pub trait Application: Clone + std::fmt::Debug + 'static {
    /// The procedures that are linked with the servers.
    type Library: Library;

    /// How long a server takes to run an operation, in nanoseconds.
    fn nanoseconds(operation: &Value) -> usize;

    /// The next transaction of a session.
    fn draw(&mut self, session: usize, random: &mut Random) -> Transaction;

    /// The transactions that run before anything is measured, one after the other: they write all that has to be there.
    fn population(&self) -> Vec<Transaction> {
        Vec::new()
    }
}

/// The machines that run it.
#[derive(Clone, Debug)]
pub struct OneRound<A>(PhantomData<A>);

type Own<A> = Replica<ShardWith<<A as Application>::Library>>;

/// A server.
pub type Server<A> = Member<Own<A>>;
/// A client.
pub type Client<A> = Guest<Coordinator, Own<A>>;
/// Their messages.
pub type Said<A> = MessageOf<Own<A>>;

/// The bytes of a message beside its content.
const ENVELOPE_BYTES: usize = 48;

impl<A: Application> Protocol for OneRound<A> {
    type Message = Said<A>;
    type Server = Server<A>;
    type Client = Client<A>;
    type Witness = ();
    type Later = ();

    fn name(message: &Said<A>) -> String {
        match message {
            Part::Log(_) => "log".to_owned(),
            Part::Own(_) => "own".to_owned(),
        }
    }

    fn coordinates(message: &Said<A>) -> bool {
        matches!(message, Part::Own(Message::Request(_)))
    }

    fn digest(message: &Said<A>, hash: &mut TraceHash) {
        hash.fold(bytes_of::<A>(message) as u64);
    }

    fn carry(envelope: Envelope<Said<A>>) -> Envelope<Said<A>> {
        envelope
    }

    fn damage(_: &Envelope<Said<A>>, _: &mut Random) {}

    fn size(envelope: &Envelope<Said<A>>) -> usize {
        bytes_of::<A>(&envelope.message)
    }

    fn work(receiver: Option<&Server<A>>, message: &Said<A>) -> Work {
        match message {
            Part::Own(Message::Request(request)) => {
                let is_shared = request.participants.len() > 1;
                let is_locking = receiver.is_some_and(|server| server.machine().is_locking());
                let holds_locks =
                    receiver.is_some_and(|server| server.machine().application().prepared().next().is_some());
                let operation = match request.class {
                    Class::ReadOnly => Operation::Read,
                    Class::Coordinated if is_shared => Operation::Prepare,
                    Class::Independent if is_shared && is_locking => Operation::Prepare,
                    Class::Independent | Class::Coordinated if holds_locks => Operation::Command,
                    Class::Independent | Class::Coordinated => Operation::Commit,
                };
                Work::new(operation, A::nanoseconds(&request.operation))
            }
            Part::Own(_) | Part::Log(quorate_log::Message::PrepareOk { .. }) => {
                Work::new(Operation::Control, 0)
            }
            Part::Log(quorate_log::Message::Prepare { entries, .. }) => {
                match entries.iter().map(|entry| nanoseconds_of::<A>(&entry.payload)).sum() {
                    0 => Work::new(Operation::Control, 0),
                    nanoseconds => Work::new(Operation::Commit, nanoseconds),
                }
            }
            Part::Log(_) => Work::new(Operation::Control, 0),
        }
    }

    fn command_work(_: &Command) -> Work {
        Work::new(Operation::Command, 0)
    }

    fn encode_record(_: Epoch, _: &<Server<A> as Machine>::Record, out: &mut BytesMut) {
        // Nothing is kept on a disk: it is in the memory of a majority.
        out.extend_from_slice(&[0]);
    }

    fn decode_record(_: &[u8]) -> <Server<A> as Machine>::Record {
        unreachable!("nothing restarts here")
    }
}

/// A backup runs the operations that were voted for.
fn nanoseconds_of<A: Application>(item: &ItemOf<Own<A>>) -> usize {
    match item {
        Item::Own(Entry { body: Body::Voted(voted), .. }) if voted.vote == Vote::Commit => {
            voted.operation.as_ref().map_or(0, A::nanoseconds)
        }
        Item::Own(_) | Item::NextGroup(_) => 0,
    }
}

/// Roughly how many bytes it takes.
fn bytes_of<A: Application>(message: &Said<A>) -> usize {
    let about = match message {
        Part::Own(Message::Request(request)) => request.operation.len() + 4 * request.participants.len(),
        Part::Own(Message::Begin(begin)) => begin.parts.values().map(|part| part.len() + 8).sum(),
        Part::Own(_) => 16,
        Part::Log(quorate_log::Message::Prepare { entries, .. }) => {
            let bytes = |item: &ItemOf<Own<A>>| match item {
                Item::Own(entry) => entry.bytes(),
                Item::NextGroup(_) => 64,
            };
            entries.iter().map(|entry| bytes(&entry.payload)).sum()
        }
        Part::Log(_) => 16,
    };
    ENVELOPE_BYTES + about
}
