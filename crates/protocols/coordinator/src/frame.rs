//! The frame that makes a machine of a coordinator: messages of replicas, commands, attention, and the one timer.

use std::fmt::Debug;
use std::time::Duration;

use quorate_core::command::{Committed, Event, Failure};
use quorate_core::machine::{Context, Input, Outbox};
use quorate_core::{Address, Epoch, Instant, Key, ReplicaId, ShardId, TransactionId};

use crate::{Buffer, Transactions};

/// The one timer of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CoordinatorTimer {
    /// Some transaction wants attention.
    Attention,
}

/// The outbox of a coordinator.
pub type Out<C> = Outbox<
    <C as Coordinates>::Message,
    CoordinatorTimer,
    std::convert::Infallible,
    <C as Coordinates>::Event,
>;

/// The coordinator of a protocol, of which [`coordinator!`](crate::coordinator) makes a machine.
pub trait Coordinates: Sized {
    /// The messages between coordinators and replicas.
    type Message: Clone + Debug;
    /// The commands of its client: [`Command`](quorate_core::command::Command), unless another coordinator stands before it.
    type Command: Debug;
    /// The events for its client: [`Event`], unless another coordinator stands before it.
    type Event: Debug;
    /// From what it is built.
    type Config;
    /// The state of a transaction.
    type Open;

    /// A coordinator that knows no keyspace.
    fn new(config: Self::Config) -> Self;

    /// Under which membership it speaks with the replicas of a shard.
    fn epoch_of(&self, shard: ShardId) -> Epoch;

    /// The transactions that it has not forgotten.
    fn transactions(&self) -> &Transactions<Self::Open>;

    /// The same, to be changed.
    fn transactions_mut(&mut self) -> &mut Transactions<Self::Open>;

    /// True if a message counts that a replica says under this membership. Of a later one the client is told.
    fn is_current(&mut self, from: ReplicaId, epoch: Epoch, outbox: &mut Out<Self>) -> bool;

    /// A replica has said something.
    fn on_message(
        &mut self,
        from: ReplicaId,
        message: Self::Message,
        context: &mut Context<'_>,
        outbox: &mut Out<Self>,
    );

    /// The client wants something.
    fn on_command(&mut self, command: Self::Command, context: &mut Context<'_>, outbox: &mut Out<Self>);

    /// Looks after one transaction; gives when to look again.
    fn attend(
        &mut self,
        id: TransactionId,
        context: &mut Context<'_>,
        outbox: &mut Out<Self>,
    ) -> Option<Instant>;

    /// Looks after all else that waits.
    fn attend_others(&mut self, _context: &mut Context<'_>, _outbox: &mut Out<Self>) {}

    /// When something else than a transaction wants attention.
    fn others_wake_at(&self) -> Option<Instant> {
        None
    }
}

/// A wake-up that finds nothing to do must not spin.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// Takes one input.
pub fn step<C: Coordinates>(
    coordinator: &mut C,
    context: &mut Context<'_>,
    input: Input<C::Message, CoordinatorTimer, C::Command>,
    outbox: &mut Out<C>,
) {
    match input {
        Input::Start | Input::Persisted(_) => {}
        Input::Message { from: Address::Replica(replica), epoch, message } => {
            if coordinator.is_current(replica, epoch, outbox) {
                coordinator.on_message(replica, message, context, outbox);
            } else {
                outbox.ignored("another membership than the coordinator's");
            }
        }
        Input::Message { from: Address::Client(_), .. } => outbox.ignored("a client has nothing to say here"),
        Input::Timer(CoordinatorTimer::Attention) => on_attention_timeout(coordinator, context, outbox),
        Input::Command(command) => coordinator.on_command(command, context, outbox),
    }
    let others = coordinator.others_wake_at();
    if let Some(after) = coordinator.transactions_mut().set_timer(others, context.now) {
        outbox.set_timer(CoordinatorTimer::Attention, after);
    }
}

fn on_attention_timeout<C: Coordinates>(coordinator: &mut C, context: &mut Context<'_>, outbox: &mut Out<C>) {
    coordinator.transactions_mut().on_timer();
    coordinator.attend_others(context, outbox);
    while let Some(id) = coordinator.transactions_mut().pop_due(context.now) {
        if let Some(next) = coordinator.attend(id, context, outbox) {
            coordinator.transactions_mut().wake_at(id, next.max(context.now + PAUSE_MIN));
        }
    }
}

/// Tells the client that a transaction is over.
pub fn finish<M, T, R>(
    outbox: &mut Outbox<M, T, R, Event>,
    transaction: TransactionId,
    result: Result<Committed, Failure>,
) {
    outbox.emit(Event::Finished { transaction, result });
}

/// Tells the client of keys that a transaction has read or written already. Gives the others, of which somebody has to be asked.
pub fn tell_known<M, T, R>(
    outbox: &mut Outbox<M, T, R, Event>,
    transaction: TransactionId,
    buffer: &Buffer,
    keys: Vec<Key>,
) -> Vec<Key> {
    let mut unknown = Vec::new();
    for key in keys {
        match buffer.value(&key) {
            Some(value) => outbox.emit(Event::Got { transaction, key, value }),
            None => unknown.push(key),
        }
    }
    unknown
}

/// The answers that the client of a transaction still waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// True once the client has been told how it ended, or that nobody knows.
    pub answered: bool,
    /// True if the client asks for the outcome, after it had been told that nobody knows.
    pub resolve_wanted: bool,
}

impl Wants {
    /// The client has waited long enough for a transaction that these take part in, and may have committed.
    pub fn give_up<M, T, R>(
        &mut self,
        transaction: TransactionId,
        participants: Vec<ShardId>,
        outbox: &mut Outbox<M, T, R, Event>,
    ) {
        if std::mem::take(&mut self.resolve_wanted) {
            outbox.emit(Event::Resolved { transaction, outcome: None });
        }
        if !std::mem::replace(&mut self.answered, true) {
            finish(outbox, transaction, Err(Failure::Unknown { participants }));
        }
    }
}

/// Makes a machine of a type that [`Coordinates`], which keeps nothing durable. Clients can host it, unless it is `coordinator!(inner Type)`
/// before which another coordinator stands.
#[macro_export]
macro_rules! coordinator {
    ($coordinator:ty) => {
        $crate::coordinator!(inner $coordinator);

        impl ::quorate_core::hosted::HostedCoordinator for $coordinator {
            fn is_idle(&self) -> bool {
                $crate::Coordinates::transactions(self).is_empty()
            }
        }
    };
    (inner $coordinator:ty) => {
        impl ::quorate_core::Machine for $coordinator {
            type Message = <Self as $crate::Coordinates>::Message;
            type Timer = $crate::CoordinatorTimer;
            type Record = ::std::convert::Infallible;
            type Command = <Self as $crate::Coordinates>::Command;
            type Event = <Self as $crate::Coordinates>::Event;
            type Config = <Self as $crate::Coordinates>::Config;

            fn restore(config: Self::Config, _: impl IntoIterator<Item = Self::Record>) -> Self {
                <Self as $crate::Coordinates>::new(config)
            }

            fn epoch(&self, to: ::quorate_core::Address) -> ::quorate_core::Epoch {
                match to {
                    ::quorate_core::Address::Replica(replica) => {
                        $crate::Coordinates::epoch_of(self, replica.shard)
                    }
                    ::quorate_core::Address::Client(_) => ::quorate_core::Epoch::FIRST,
                }
            }

            fn step(
                &mut self,
                context: &mut ::quorate_core::Context<'_>,
                input: ::quorate_core::machine::InputOf<Self>,
                outbox: &mut ::quorate_core::machine::OutboxOf<Self>,
            ) {
                $crate::frame::step(self, context, input, outbox);
            }
        }
    };
}
