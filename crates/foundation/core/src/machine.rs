//! Machines, what goes into them and what comes out.
//!
//! ```text
//!            message, timer, durability notice, command
//!                               │
//!                               ▼
//!    context (now, clock, random) → Machine::step → outbox: send, set timer, persist, emit, in this order
//! ```
//!
//! A machine owns its state and nothing else. The effects that it wants it writes into the [`Outbox`]; the driver that
//! called it carries the effects out, *in outbox order*.
//!
//! # Durability order
//! An [`Effect::Send`] or [`Effect::Emit`] leaves only once every [`Effect::Persist`] that the same machine emitted
//! before it, in this or any earlier step, is durable. So a reply never reveals what a crash could still take back, and
//! a machine never waits for its disk. [`Effect::SendUnordered`] is exempt, for messages that stay safe if the machine
//! forgets what they reveal; each use says why.
//!
//! # Recovery is construction
//! [`Machine::restore`] rebuilds a machine from its durable records; the first boot is a restore from none. A crash may
//! fall between any two effects.
//!
//! # Truncation
//! Records would pile up for ever, so a machine may write down what it knows a second time, in fewer records, and then
//! give up the older ones:
//!
//! ```text
//!   anchor, persist page 1, persist page 2, …, persist end, truncate
//! ```
//!
//! An [`Effect::Anchor`] marks the place of the record that is persisted next; an [`Effect::Truncate`] says that the
//! records from the latest anchor on suffice. Other records may be persisted in between, over as many steps as it takes:
//! nothing is given up before everything that was persisted before the Truncate is durable.

use std::time::Duration;

use crate::id::{Address, Epoch};
use crate::random::Random;
use crate::replay::SnapshotPart;
use crate::time::{ClockTime, Instant};

/// A participant of a protocol as a deterministic state machine.
pub trait Machine: Sized {
    /// A message between the participants of this protocol.
    type Message;
    /// A timer that this machine asks to be woken for. Setting a timer that is set already moves it.
    type Timer: Clone + Ord;
    /// A record that this machine keeps across a crash.
    type Record;
    /// A command of its host.
    type Command;
    /// An event for its host.
    type Event;
    /// The configuration that it is built from beside its records: its identity, its group, its time-outs.
    type Config: Clone;

    /// Builds the machine from what it had made durable, in the order in which it emitted it.
    ///
    /// If it has ever truncated, its log begins anywhere up to the anchor of its last truncation: storage gives up
    /// old records when it suits it, and a crash may come before that. Of the log it is given the records that count ([`crate::replay::Extent`]), one after the other.
    ///
    /// Effects that a rebuilt machine wants are emitted when it is given [`Input::Start`].
    fn restore(config: Self::Config, records: impl IntoIterator<Item = Self::Record>) -> Self;

    /// The part that a record has in a snapshot that shortens the log. All records of one alternative have the same, so that a host need not decode each to know it.
    /// The default is for machines that never shorten theirs.
    fn snapshot_part(config: &Self::Config, record: &Self::Record) -> Option<SnapshotPart> {
        let (_, _) = (config, record);
        None
    }

    /// The membership under which this machine speaks to `to`. The driver of the machine writes it on each message, as
    /// it is when the message is emitted. The default is for protocols whose membership never changes.
    fn epoch(&self, to: Address) -> Epoch {
        let _ = to;
        Epoch::FIRST
    }

    /// Takes one input, changes state and appends effects to `outbox`.
    fn step(&mut self, context: &mut Context<'_>, input: InputOf<Self>, outbox: &mut OutboxOf<Self>);
}

/// The input type of a machine.
pub type InputOf<M> = Input<<M as Machine>::Message, <M as Machine>::Timer, <M as Machine>::Command>;

/// The outbox type of a machine.
pub type OutboxOf<M> =
    Outbox<<M as Machine>::Message, <M as Machine>::Timer, <M as Machine>::Record, <M as Machine>::Event>;

/// The effect type of a machine.
pub type EffectOf<M> =
    Effect<<M as Machine>::Message, <M as Machine>::Timer, <M as Machine>::Record, <M as Machine>::Event>;

/// The world in one step, as far as a machine may know it.
#[derive(Debug)]
pub struct Context<'a> {
    /// The monotonic instant: drives timers and time-outs.
    pub now: Instant,
    /// The physical clock: forms timestamps; may be wrong, may jump, may stand still.
    pub clock: ClockTime,
    /// Seeded randomness, for back-off and choice.
    pub random: &'a mut Random,
}

/// An input of a machine.
#[derive(Clone, Debug)]
pub enum Input<Message, Timer, Command> {
    /// Given once, first, after every construction.
    Start,
    /// A message has arrived. The network may lose, repeat and reorder messages, and deliver them minutes later.
    Message {
        /// The sender.
        from: Address,
        /// Under which membership it was sent.
        epoch: Epoch,
        /// The message itself.
        message: Message,
    },
    /// A timer that the machine had set has fired.
    Timer(Timer),
    /// The record that was persisted with this token is durable now.
    Persisted(PersistToken),
    /// The host wants something done.
    Command(Command),
}

/// Names a persisted record whose durability the machine wants to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PersistToken(pub u64);

/// An effect of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<Message, Timer, Record, Event> {
    /// Send once everything persisted before is durable.
    Send {
        /// The receiver.
        to: Address,
        /// The message.
        message: Message,
    },
    /// Send at once: safe even if this machine forgets what the message reveals.
    SendUnordered {
        /// The receiver.
        to: Address,
        /// The message.
        message: Message,
    },
    /// Give [`Input::Timer`] after this long; replaces an earlier deadline of the same timer.
    SetTimer {
        /// Which timer.
        timer: Timer,
        /// From now on.
        after: Duration,
    },
    /// Forget a timer; it is no mistake if it is not set.
    CancelTimer(Timer),
    /// Make a record durable, after those that were persisted before it.
    Persist {
        /// The record to keep.
        record: Record,
        /// Give [`Input::Persisted`] with this token once the record is durable.
        notify: Option<PersistToken>,
    },
    /// Tell the host something, once everything persisted before is durable.
    Emit(Event),
    /// Mark the place of the record that is persisted next, for one [`Effect::Truncate`]. Replaces an earlier mark.
    Anchor,
    /// Give up the records before the latest [`Effect::Anchor`], once everything persisted before this is durable.
    /// Storage may do so later, or only in part.
    Truncate,
}

/// Collects the effects of one or more steps, in order. The driver owns it and uses it again.
#[derive(Debug)]
pub struct Outbox<Message, Timer, Record, Event> {
    effects: Vec<Effect<Message, Timer, Record, Event>>,
    ignored: Vec<&'static str>,
}

impl<Message, Timer, Record, Event> Default for Outbox<Message, Timer, Record, Event> {
    fn default() -> Self {
        Outbox { effects: Vec::new(), ignored: Vec::new() }
    }
}

impl<Message, Timer, Record, Event> Outbox<Message, Timer, Record, Event> {
    /// An empty outbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a message once everything persisted before is durable.
    pub fn send(&mut self, to: impl Into<Address>, message: Message) {
        self.effects.push(Effect::Send { to: to.into(), message });
    }

    /// Sends a message at once. The caller states why this is safe.
    pub fn send_unordered(&mut self, to: impl Into<Address>, message: Message) {
        self.effects.push(Effect::SendUnordered { to: to.into(), message });
    }

    /// Sets or moves a timer.
    pub fn set_timer(&mut self, timer: Timer, after: Duration) {
        self.effects.push(Effect::SetTimer { timer, after });
    }

    /// Forgets a timer.
    pub fn cancel_timer(&mut self, timer: Timer) {
        self.effects.push(Effect::CancelTimer(timer));
    }

    /// Makes a record durable.
    pub fn persist(&mut self, record: Record) {
        self.effects.push(Effect::Persist { record, notify: None });
    }

    /// Makes a record durable and asks to be told.
    pub fn persist_and_notify(&mut self, record: Record, token: PersistToken) {
        self.effects.push(Effect::Persist { record, notify: Some(token) });
    }

    /// Tells the host something.
    pub fn emit(&mut self, event: Event) {
        self.effects.push(Effect::Emit(event));
    }

    /// Says why an input is dropped, for readers of traces and for counts of refusals. No effect: nothing follows from it.
    pub fn ignored(&mut self, reason: &'static str) {
        self.ignored.push(reason);
    }

    /// Takes out why inputs were dropped.
    pub fn take_ignored(&mut self) -> Vec<&'static str> {
        std::mem::take(&mut self.ignored)
    }

    /// Marks the place of the record that is persisted next, for a later [`Outbox::truncate`].
    pub fn anchor(&mut self) {
        self.effects.push(Effect::Anchor);
    }

    /// Gives up the records before the latest [`Outbox::anchor`]: those after it suffice.
    pub fn truncate(&mut self) {
        self.effects.push(Effect::Truncate);
    }

    /// Takes the effects out, in order, and leaves the outbox empty with its capacity. Reasons why inputs were dropped that nobody has
    /// [taken](Outbox::take_ignored) are forgotten.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Effect<Message, Timer, Record, Event>> {
        self.ignored.clear();
        self.effects.drain(..)
    }

    /// The effects so far, in order.
    pub fn effects(&self) -> &[Effect<Message, Timer, Record, Event>] {
        &self.effects
    }

    /// True if there is no effect.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }
}
