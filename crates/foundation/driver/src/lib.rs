//! The driver of a machine: carries its effects out in durability order and keeps its timers.
//!
//! Servers, clients and the simulator host their machines with this one [`Driver`]. A [`Carrier`] has what
//! differs between them: sockets or a virtual network, a log on files or on a simulated disk, and crashes.
//!
//! # Durability order
//! The position of the last appended record is the *mark* of every ordered effect that the machine emits after it: of an
//! [`Effect::Send`], an [`Effect::Emit`], an [`Effect::Truncate`] and the notice of durability itself. Ordered effects stand
//! in one [queue](Queue), which is in mark order because marks only grow. At the end of each step, and when the log reports
//! a durable position, the front of the queue leaves as far as its marks are durable. An [`Effect::SendUnordered`] leaves
//! within its step. Where there is no log (durability `memory`, or a machine that persists nothing) every mark is durable
//! from the start, and no effect outlasts its step in the queue.
//!
//! ```text
//!   outbox:  persist A, send 1, persist B, send 2, send-unordered 3
//!   leaves:  3 at once; 1 once A is durable; 2 once B is durable
//! ```
//!
//! # Truncation
//! An [`Effect::Anchor`] notes where the log stands, and an [`Effect::Truncate`] waits in the same queue: when it comes to
//! the front, everything persisted before it is durable and the records before the anchor may go.
//!
//! # Notices
//! A machine is given [`Input::Persisted`] after the effects that became free with the same record have left. The step that
//! answers a notice ends before the next notice is given.
//!
//! # Crashes
//! A simulated machine may crash between any two effects. Its carrier then says that it [has ended](Carrier::has_ended), and
//! no further effect of the machine leaves. The host drops the driver, and with it every effect that was held.

mod carrier;
mod queue;
mod timers;

use std::collections::VecDeque;

use quorate_core::machine::{EffectOf, InputOf, OutboxOf, PersistToken};
use quorate_core::{Address, ClockTime, Context, Effect, Epoch, Input, Instant, Machine, Random};

pub use carrier::{Alarm, Carrier, Kept};
pub use queue::{Mark, Queue};
pub use timers::{Setting, Timers};

/// Both kinds of time, read together.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// The monotonic instant.
    pub now: Instant,
    /// The physical clock.
    pub clock: ClockTime,
}

/// An effect that waits until a mark is durable.
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
    /// The end of the log when the machine set its latest anchor.
    anchor: Option<Kept>,
    /// Ordered effects, in outbox order.
    queue: Queue<Held<M>>,
    /// Durability notices that the machine has not been given yet.
    notices: VecDeque<PersistToken>,
}

impl<M: Machine> Driver<M> {
    /// Hosts a machine. Give it [`Input::Start`] next. `random` is the machine's, for back-off and choice.
    pub fn new(machine: M, random: Random) -> Self {
        Driver {
            machine,
            outbox: OutboxOf::<M>::new(),
            timers: Timers::new(),
            random,
            anchor: None,
            queue: Queue::new(),
            notices: VecDeque::new(),
        }
    }

    /// Ends the machine, with every effect that is held. Returns its generator, for the next incarnation, and the events of which the host has
    /// not heard, for judges.
    pub fn end(self) -> (Random, Vec<M::Event>) {
        let event = |held| match held {
            Held::Emit(event) => Some(event),
            _ => None,
        };
        (self.random, self.queue.into_held().filter_map(event).collect())
    }

    /// The machine, to be looked at.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// How many effects wait for the log.
    pub fn held_len(&self) -> usize {
        self.queue.len()
    }

    /// How far the log has been appended to, and how far it is known to be durable.
    pub fn marks(&self) -> (Mark, Mark) {
        self.queue.marks()
    }

    /// When the next timer is due, if any is set. Timers that the host schedules itself are not among them.
    pub fn next_deadline(&mut self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// True unless the timer was set again since this setting, or cancelled, or has fired.
    pub fn is_set(&self, timer: &M::Timer, setting: Setting) -> bool {
        self.timers.is_set(timer, setting)
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

    /// Gives the machine a timer that its host has scheduled itself, unless this setting is stale.
    pub fn fire_timer(
        &mut self,
        time: Time,
        timer: M::Timer,
        setting: Setting,
        carrier: &mut impl Carrier<M>,
    ) {
        if self.timers.is_set(&timer, setting) {
            self.timers.cancel(&timer);
            self.step(time, Input::Timer(timer), carrier);
        }
    }

    /// The log reports that every record up to `mark` is durable: lets go what waited for it.
    pub fn on_durable(&mut self, time: Time, mark: Mark, carrier: &mut impl Carrier<M>) {
        self.queue.on_durable(mark);
        self.release(carrier);
        self.give_notices(time, carrier);
    }

    fn step_once(&mut self, time: Time, input: InputOf<M>, carrier: &mut impl Carrier<M>) {
        let mut context = Context { now: time.now, clock: time.clock, random: &mut self.random };
        self.machine.step(&mut context, input, &mut self.outbox);
        for reason in self.outbox.take_ignored() {
            carrier.ignored(reason);
        }
        if self.outbox.is_empty() {
            return;
        }
        // The outbox is lent to the loop so that its capacity is used again.
        let mut outbox = std::mem::take(&mut self.outbox);
        for effect in outbox.drain() {
            if carrier.has_ended() {
                break;
            }
            self.carry_out(time.now, effect, carrier);
        }
        self.outbox = outbox;
        self.release(carrier);
    }

    fn give_notices(&mut self, time: Time, carrier: &mut impl Carrier<M>) {
        while !carrier.has_ended()
            && let Some(token) = self.notices.pop_front()
        {
            self.step_once(time, Input::Persisted(token), carrier);
        }
    }

    /// Carries out an effect, or queues it if it is ordered.
    fn carry_out(&mut self, now: Instant, effect: EffectOf<M>, carrier: &mut impl Carrier<M>) {
        match effect {
            Effect::Send { to, message } => {
                self.queue.push(Held::Send { to, epoch: self.machine.epoch(to), message });
            }
            Effect::SendUnordered { to, message } => carrier.send(to, self.machine.epoch(to), message),
            Effect::SetTimer { timer, after } => {
                let setting = self.timers.next_setting();
                match carrier.schedule(&timer, setting, after) {
                    Alarm::Driver => self.timers.set(timer, setting, now + after),
                    Alarm::Host => self.timers.set_elsewhere(timer, setting),
                }
            }
            Effect::CancelTimer(timer) => self.timers.cancel(&timer),
            Effect::Emit(event) => self.queue.push(Held::Emit(event)),
            Effect::Persist { record, notify } => {
                if let Kept::At(mark) = carrier.persist(&self.machine, record) {
                    self.queue.on_appended(mark);
                }
                if let Some(token) = notify {
                    self.queue.push(Held::Notify(token));
                }
            }
            Effect::Anchor => self.anchor = Some(carrier.log_end()),
            Effect::Truncate => match self.anchor.take() {
                Some(Kept::At(up_to)) => self.queue.push(Held::Truncate { up_to }),
                Some(Kept::Now) => {}
                None => panic!("a machine truncates at an anchor"),
            },
        }
    }

    /// Lets go every effect whose mark is durable.
    fn release(&mut self, carrier: &mut impl Carrier<M>) {
        while !carrier.has_ended()
            && let Some(held) = self.queue.pop_durable()
        {
            match held {
                Held::Send { to, epoch, message } => carrier.send(to, epoch, message),
                Held::Emit(event) => carrier.emit(event),
                Held::Notify(token) => self.notices.push_back(token),
                Held::Truncate { up_to } => carrier.truncate(up_to),
            }
        }
    }
}

#[cfg(test)]
mod tests;
