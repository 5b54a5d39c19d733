//! The port behind which hosts differ: how messages, events and records of a machine go out into its world.

use std::time::Duration;

use quorate_core::{Address, Epoch, Machine};

use crate::queue::Mark;
use crate::timers::Setting;

/// When a record is durable that was handed over for keeping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// At once: there is no log.
    Now,
    /// Once the log reports this mark to [`Driver::on_durable`](crate::Driver::on_durable).
    At(Mark),
}

/// The clock that rings when a timer is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// The driver's: the host asks for [`Driver::next_deadline`](crate::Driver::next_deadline) and calls
    /// [`Driver::fire_timers`](crate::Driver::fire_timers).
    Driver,
    /// The host's own queue of events: the host calls [`Driver::fire_timer`](crate::Driver::fire_timer) with this setting.
    Host,
}

/// Carries a machine's effects into the world: routes messages, tells events, keeps records.
///
/// Called from within [`Driver::step`](crate::Driver::step) and its siblings; it must not wait.
pub trait Carrier<M: Machine> {
    /// Sends a message under a membership, as well as the network does. A message that cannot be sent is dropped:
    /// machines repeat.
    fn send(&mut self, to: Address, epoch: Epoch, message: M::Message);

    /// Tells the host what the machine has to say.
    fn emit(&mut self, event: M::Event);

    /// Appends a record to the log of `machine`, if it has one.
    fn persist(&mut self, machine: &M, record: M::Record) -> Kept;

    /// The machine has dropped an input, for this reason.
    fn ignored(&mut self, reason: &'static str);

    /// Where the machine's log ends, if it has one: the mark of its last record, also of one from before a restart.
    fn log_end(&self) -> Kept {
        Kept::Now
    }

    /// The records up to this mark are not needed any more. Giving them up may take as long as it likes.
    fn truncate(&mut self, up_to: Mark) {
        unreachable!("a machine without a log has no records up to {up_to}");
    }

    /// The machine sets a timer, to fire after this long by its own monotonic time. A host that keeps one queue of all
    /// events schedules it there.
    fn schedule(&mut self, timer: &M::Timer, setting: Setting, after: Duration) -> Alarm {
        let _ = (timer, setting, after);
        Alarm::Driver
    }

    /// True once the machine has crashed within an effect of its own. Nothing leaves any more.
    fn has_ended(&self) -> bool {
        false
    }
}
