//! The steps of machines, numbered, and crashes at chosen ones.
//!
//! Everything that others could notice, now or after a crash, is a step: a message leaves, a record is appended, written, or
//! durable. Between two steps of a machine a crash makes no difference to anybody, so a simulation that lets it crash at each of
//! its steps has tried all its crashes. An execution is the same up to its first crash, and so are the numbers of its steps.

use std::collections::VecDeque;

use quorate_core::Instant;

use super::disk::Crash;

/// A moment of a machine's work at which it may crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A message is about to leave, and would not.
    BeforeSend,
    /// A message has left, and nothing that follows it has.
    AfterSend,
    /// A record is about to be appended, and would be lost.
    BeforeAppend,
    /// Records have been written, and a sync of them is about to begin.
    BeforeSync,
    /// Records are durable, and nothing that waits for that has left.
    AfterSync,
}

impl Step {
    /// True if a crash at this step is the same to everybody as one at `earlier`, the step before it: nothing has happened
    /// in between.
    pub fn repeats(&self, earlier: &Step) -> bool {
        let follows =
            earlier.number + 1 == self.number && earlier.at == self.at && earlier.party == self.party;
        follows && earlier.moment == Moment::AfterSend && self.moment == Moment::BeforeSend
    }
}

impl Moment {
    /// The moment in words, before what it is about.
    pub const fn words(self) -> &'static str {
        match self {
            Moment::BeforeSend => "before sending",
            Moment::AfterSend => "after sending",
            Moment::BeforeAppend => "before appending",
            Moment::BeforeSync => "before syncing",
            Moment::AfterSync => "after syncing",
        }
    }

    /// True if it is about a message, and false if it is about the disk.
    pub const fn is_send(self) -> bool {
        matches!(self, Moment::BeforeSend | Moment::AfterSend)
    }
}

/// A machine in the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A server, by its number.
    Server(usize),
    /// A client, by its number.
    Client(usize),
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number: how many steps all machines took before it.
    pub number: u64,
    /// When it is taken.
    pub at: Instant,
    /// The machine that takes it.
    pub party: Party,
    /// The kind of the moment.
    pub moment: Moment,
    /// The message or record that is sent or kept, in a word.
    pub what: String,
    /// True if it is about a message of a coordinator, be it a client or a backup coordinator.
    pub coordinates: bool,
}

/// The counter of the steps of a world.
#[derive(Debug, Default)]
pub struct Steps {
    taken: u64,
    /// The steps at which a machine crashes, ascending, and how.
    crashes: VecDeque<(u64, Crash)>,
    /// The steps that were taken, if somebody wants to know.
    noted: Option<Vec<Step>>,
}

impl Steps {
    /// Counts, lets a machine crash that takes one of these steps, and notes the steps on demand.
    pub fn new(crashes: impl IntoIterator<Item = (u64, Crash)>, notes: bool) -> Self {
        let crashes: VecDeque<_> = crashes.into_iter().collect();
        assert!(crashes.iter().is_sorted_by(|one, other| one.0 < other.0), "crashes ascend");
        Steps { taken: 0, crashes, noted: notes.then(Vec::new) }
    }

    /// The steps that were noted.
    pub fn into_noted(self) -> Vec<Step> {
        self.noted.unwrap_or_default()
    }

    /// The crashes that are still to come.
    pub fn crashes_left(&self) -> usize {
        self.crashes.len()
    }

    /// A machine takes a step; gives the crash that it meets there, if it does. `describe` says what the step is about, and
    /// whether a coordinator says that.
    pub(super) fn reach(
        &mut self,
        at: Instant,
        party: Party,
        moment: Moment,
        describe: impl FnOnce() -> (String, bool),
    ) -> Option<Crash> {
        let number = self.taken;
        self.taken += 1;
        if let Some(noted) = &mut self.noted {
            let (what, coordinates) = describe();
            noted.push(Step { number, at, party, moment, what, coordinates });
        }
        match self.crashes.front() {
            Some((step, crash)) if *step == number => {
                let crash = *crash;
                self.crashes.pop_front();
                Some(crash)
            }
            _ => None,
        }
    }
}
