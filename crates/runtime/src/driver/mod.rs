//! Hosts one machine: steps it, keeps its timers and carries its effects out in durability order.
//!
//! # Durability order
//! The position of the last appended record is the *mark* of everything that the machine emits after it. An
//! [`Effect::Send`] or [`Effect::Emit`] whose mark is not durable waits in a queue, and because marks only grow the
//! queue is in mark order: when the log reports a durable position, whatever lies at its front with a mark up to there
//! leaves, in outbox order. Where there is no log (durability `memory`, or a machine that persists nothing) every mark
//! is durable from the start and the queue stays empty.
//!
//! ```text
//!   outbox:  persist A, send 1, persist B, send 2, send-unordered 3
//!   leaves:  3 at once; 1 once A is durable; 2 once B is durable
//! ```
//!
//! # Truncation
//! An [`Effect::Anchor`] notes where the log stands, and an [`Effect::Truncate`] waits in the same queue: when it comes to
//! the front, everything persisted before it is durable and the records before the anchor may go.

mod timers;

use std::collections::VecDeque;

use quorate_core::machine::{EffectOf, InputOf, OutboxOf, PersistToken};
use quorate_core::{Address, Context, Effect, Epoch, Input, Instant, Machine, Random};

use crate::clock::Time;
use timers::Timers;

/// How far a log has come: grows with every record that is appended to it. Zero is before the first record.
pub type Mark = u64;

/// What became of a record that was handed over for keeping, or of the last one that was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing is waited for: there is no log.
    Now,
    /// It is durable once the log reports this mark to [`Driver::on_durable`].
    At(Mark),
}

/// Carries a machine's effects into the world: routes messages, tells events, keeps records.
///
/// Called from within [`Driver::step`] and its siblings; it must not wait.
pub trait Carrier<M: Machine> {
    /// Sends a message under a membership, as well as the network does. A message that cannot be sent is dropped:
    /// machines repeat.
    fn send(&mut self, to: Address, epoch: Epoch, message: M::Message);

    /// Tells the host what the machine has to say.
    fn emit(&mut self, event: M::Event);

    /// Appends a record to the machine's log, if it has one.
    fn persist(&mut self, record: M::Record) -> Kept;

    /// Where the machine's log ends, if it has one: the mark of its last record, also of one from before a restart.
    fn log_end(&self) -> Kept {
        Kept::Now
    }

    /// The records up to this mark are not needed any more. Giving them up may take as long as it likes.
    fn truncate(&mut self, up_to: Mark) {
        unreachable!("a machine without a log has no records up to {up_to}");
    }
}

/// Something that waits until a mark is durable.
enum Held<M: Machine> {
    Send { to: Address, epoch: Epoch, message: M::Message },
    Emit(M::Event),
    Notify(PersistToken),
    Truncate { up_to: Mark },
}

/// A machine and what stands between it and the world.
pub struct Driver<M: Machine> {
    machine: M,
    outbox: OutboxOf<M>,
    timers: Timers<M::Timer>,
    random: Random,
    /// The mark of the last record that was appended.
    appended: Mark,
    /// Every record up to this mark is durable.
    durable: Mark,
    /// The end of the log when the machine set its latest anchor.
    anchor: Option<Kept>,
    /// What waits for marks above `durable`, in outbox order.
    held: VecDeque<(Mark, Held<M>)>,
    /// Durability notices that the machine has not been given yet.
    notices: VecDeque<PersistToken>,
}

impl<M: Machine> Driver<M> {
    /// Hosts a machine. Give it [`Input::Start`] next. `seed` feeds the machine's randomness, for back-off and choice.
    pub fn new(machine: M, seed: u64) -> Self {
        Driver {
            machine,
            outbox: OutboxOf::<M>::new(),
            timers: Timers::new(),
            random: Random::new(seed),
            appended: 0,
            durable: 0,
            anchor: None,
            held: VecDeque::new(),
            notices: VecDeque::new(),
        }
    }

    /// The machine, to be looked at.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// How many effects wait for the log.
    pub fn held_len(&self) -> usize {
        self.held.len()
    }

    /// How far the log has been appended to, and how far it is known to be durable.
    pub fn marks(&self) -> (Mark, Mark) {
        (self.appended, self.durable)
    }

    /// When the next timer is due, if any is set.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Gives the machine one input and carries out its effects.
    pub fn step(&mut self, time: Time, input: InputOf<M>, carrier: &mut impl Carrier<M>) {
        self.step_once(time, input, carrier);
        self.give_notices(time, carrier);
    }

    /// Gives the machine every timer that is due.
    pub fn fire_timers(&mut self, time: Time, carrier: &mut impl Carrier<M>) {
        while let Some(timer) = self.timers.take_due(time.now) {
            self.step(time, Input::Timer(timer), carrier);
        }
    }

    /// The log reports that every record up to `mark` is durable: lets go what waited for it.
    pub fn on_durable(&mut self, time: Time, mark: Mark, carrier: &mut impl Carrier<M>) {
        assert!(mark <= self.appended, "a record is durable before it was appended");
        self.durable = self.durable.max(mark);
        while self.held.front().is_some_and(|(mark, _)| *mark <= self.durable) {
            match self.held.pop_front() {
                Some((_, Held::Send { to, epoch, message })) => carrier.send(to, epoch, message),
                Some((_, Held::Emit(event))) => carrier.emit(event),
                Some((_, Held::Notify(token))) => self.notices.push_back(token),
                Some((_, Held::Truncate { up_to })) => carrier.truncate(up_to),
                None => break,
            }
        }
        self.give_notices(time, carrier);
    }

    fn step_once(&mut self, time: Time, input: InputOf<M>, carrier: &mut impl Carrier<M>) {
        let mut context = Context { now: time.now, clock: time.clock, random: &mut self.random };
        self.machine.step(&mut context, input, &mut self.outbox);
        for reason in self.outbox.take_ignored() {
            tracing::debug!(reason, "what a replica was told is dropped");
        }
        if self.outbox.is_empty() {
            return;
        }
        // The outbox is lent to the loop so that its capacity is used again.
        let mut outbox = std::mem::take(&mut self.outbox);
        for effect in outbox.drain() {
            self.carry_out(time.now, effect, carrier);
        }
        self.outbox = outbox;
    }

    fn give_notices(&mut self, time: Time, carrier: &mut impl Carrier<M>) {
        while let Some(token) = self.notices.pop_front() {
            self.step_once(time, Input::Persisted(token), carrier);
        }
    }

    fn carry_out(&mut self, now: Instant, effect: EffectOf<M>, carrier: &mut impl Carrier<M>) {
        match effect {
            Effect::Send { to, message } if self.is_durable() => {
                carrier.send(to, self.machine.epoch(to), message);
            }
            Effect::Send { to, message } => {
                self.hold(Held::Send { to, epoch: self.machine.epoch(to), message });
            }
            Effect::SendUnordered { to, message } => carrier.send(to, self.machine.epoch(to), message),
            Effect::SetTimer { timer, after } => self.timers.set(timer, now + after),
            Effect::CancelTimer(timer) => self.timers.cancel(&timer),
            Effect::Emit(event) if self.is_durable() => carrier.emit(event),
            Effect::Emit(event) => self.hold(Held::Emit(event)),
            Effect::Persist { record, notify } => {
                if let Kept::At(mark) = carrier.persist(record) {
                    assert!(mark > self.appended, "marks of a log grow");
                    self.appended = mark;
                }
                match notify {
                    Some(token) if self.is_durable() => self.notices.push_back(token),
                    Some(token) => self.hold(Held::Notify(token)),
                    None => {}
                }
            }
            Effect::Anchor => self.anchor = Some(carrier.log_end()),
            Effect::Truncate => match self.anchor.take() {
                Some(Kept::At(up_to)) if self.is_durable() => carrier.truncate(up_to),
                Some(Kept::At(up_to)) => self.hold(Held::Truncate { up_to }),
                Some(Kept::Now) => {}
                None => panic!("a machine truncates at an anchor"),
            },
        }
    }

    fn is_durable(&self) -> bool {
        self.durable >= self.appended
    }

    fn hold(&mut self, effect: Held<M>) {
        self.held.push_back((self.appended, effect));
    }
}

#[cfg(test)]
mod tests;
