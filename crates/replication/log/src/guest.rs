//! A participant that has no part of the log, and speaks with those that have.

use std::convert::Infallible;
use std::marker::PhantomData;

use quorate_core::hosted::HostedCoordinator;
use quorate_core::log::LogMachine;
use quorate_core::machine::{Context, Effect, Input, InputOf, Machine, OutboxOf};
use quorate_core::seen::Seen;
use quorate_core::{Address, Epoch, ShardId, TransactionId};

use crate::Part;
use crate::member::MessageOf;

/// A machine, such as a coordinator, that says what the machines on a log say to each other. Its driver drives members as
/// well, so it speaks in their messages.
pub struct Guest<C: Machine, M> {
    machine: C,
    /// The messages of the machine in one step.
    said: OutboxOf<C>,
    speaks_with: PhantomData<M>,
}

impl<C: Machine, M> Guest<C, M> {
    /// The machine.
    pub fn machine(&self) -> &C {
        &self.machine
    }
}

impl<C, M> Machine for Guest<C, M>
where
    C: Machine<Message = M::Message, Record = Infallible>,
    M: LogMachine,
{
    type Message = MessageOf<M>;
    type Timer = C::Timer;
    type Record = Infallible;
    type Command = C::Command;
    type Event = C::Event;
    type Config = C::Config;

    fn restore(config: Self::Config, records: impl IntoIterator<Item = Infallible>) -> Self {
        Guest { machine: C::restore(config, records), said: OutboxOf::<C>::new(), speaks_with: PhantomData }
    }

    fn epoch(&self, to: Address) -> Epoch {
        self.machine.epoch(to)
    }

    fn step(&mut self, context: &mut Context<'_>, input: InputOf<Self>, outbox: &mut OutboxOf<Self>) {
        let input = match input {
            Input::Start => Input::Start,
            Input::Message { from, epoch, message: Part::Own(message) } => {
                Input::Message { from, epoch, message }
            }
            Input::Message { message: Part::Log(_), .. } => {
                return outbox.ignored("replicas of a log have nothing to say to others");
            }
            Input::Timer(timer) => Input::Timer(timer),
            Input::Persisted(token) => Input::Persisted(token),
            Input::Command(command) => Input::Command(command),
        };
        self.machine.step(context, input, &mut self.said);
        for reason in self.said.take_ignored() {
            outbox.ignored(reason);
        }
        for effect in self.said.drain() {
            match effect {
                Effect::Send { to, message } => outbox.send(to, Part::Own(message)),
                Effect::SendUnordered { to, message } => outbox.send_unordered(to, Part::Own(message)),
                Effect::SetTimer { timer, after } => outbox.set_timer(timer, after),
                Effect::CancelTimer(timer) => outbox.cancel_timer(timer),
                Effect::Emit(event) => outbox.emit(event),
                Effect::Persist { record, .. } => match record {},
                // A machine without records has none to give up.
                Effect::Anchor => outbox.anchor(),
                Effect::Truncate => outbox.truncate(),
            }
        }
    }
}

impl<C, M> HostedCoordinator for Guest<C, M>
where
    C: HostedCoordinator + Machine<Message = M::Message, Record = Infallible>,
    M: LogMachine,
{
    fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    fn seen(&self) -> Seen {
        self.machine.seen()
    }

    fn home_of(&self, transaction: TransactionId) -> Option<ShardId> {
        self.machine.home_of(transaction)
    }
}
