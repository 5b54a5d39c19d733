//! The processor of a node: one event loop, which serves what happens to its machines in turns.
//!
//! ```text
//!   arrives      ─ inbox ─┐                     ┌ depart one after the other ┐
//!   timer, sync, command ─┴─ turn begins ─ input costs ─ machines step ─ output costs ─ turn ends
//! ```
//!
//! While a turn lasts, what happens waits in the inbox. A turn that does not follow upon another begins with being woken. A
//! second processor of each node stands for the thread that has disks synced: it needs a core to tell the event loop. A
//! processor whose work costs nothing has no turns: everything happens to its machines at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::Instant;

use super::costs::{Batching, Costs};

/// A processor keeps a core that others wait for, turn after turn, for so long. (As the scheduler of Linux does by default on
/// two cores.)
const SLICE: Duration = Duration::from_micros(2_800);

/// The processor of a node.
pub(super) struct Processor<E> {
    /// The costs of work; none if it costs nothing.
    pub(super) costs: Option<Arc<Costs>>,
    /// The additional cost of each input.
    pub(super) drag: Duration,
    /// The events that are not served yet.
    inbox: VecDeque<E>,
    /// The events that the present turn serves.
    serving: Vec<E>,
    state: State,
    /// The work that machines have made for the processor in this turn beside their inputs, in nanoseconds.
    pub(super) owed_ns: f64,
    /// Which cores it runs on; none if it has one of its own.
    pub(super) cores: Option<usize>,
    /// Since when it has the core that it has.
    pub(super) runs_since: Instant,
    /// How long it has worked.
    pub(super) worked: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// There is something to do and no core to do it.
    Waiting,
    Busy,
}

/// Cores that several processors share, as processes on one machine do.
#[derive(Debug)]
pub(super) struct Cores {
    idle: usize,
    waiting: VecDeque<usize>,
}

impl<E> Default for Processor<E> {
    fn default() -> Self {
        Processor {
            costs: None,
            drag: Duration::ZERO,
            inbox: VecDeque::new(),
            serving: Vec::new(),
            state: State::Idle,
            owed_ns: 0.0,
            cores: None,
            runs_since: Instant::START,
            worked: Duration::ZERO,
        }
    }
}

impl<E> Processor<E> {
    /// True if what happens has to wait for its turn.
    pub(super) fn takes_turns(&self) -> bool {
        self.costs.is_some() || !self.drag.is_zero() || self.state != State::Idle
    }

    /// True if what its machines say departs when the processor has written it.
    pub(super) fn writes(&self) -> bool {
        self.costs.is_some()
    }

    /// Adds what has happened; true if a turn is to begin for it.
    pub(super) fn add(&mut self, event: E) -> bool {
        self.inbox.push_back(event);
        self.state == State::Idle
    }

    /// Begins a turn, which serves the oldest that has happened, or all of it.
    pub(super) fn begin_turn(&mut self) {
        assert!(self.state != State::Busy && self.serving.is_empty(), "one turn at a time");
        self.state = State::Busy;
        let batches = self.costs.as_ref().is_some_and(|costs| costs.batching == Batching::Turns);
        let taken = if batches { self.inbox.len() } else { self.inbox.len().min(1) };
        self.serving.extend(self.inbox.drain(..taken));
    }

    /// The events that the present turn serves.
    pub(super) fn serving(&self) -> &[E] {
        &self.serving
    }

    /// Takes the events that the turn serves, when the time for it has passed.
    pub(super) fn take_serving(&mut self) -> Vec<E> {
        std::mem::take(&mut self.serving)
    }

    /// Ends the turn; true if the next one is to begin.
    pub(super) fn end_turn(&mut self) -> bool {
        self.state = State::Idle;
        !self.inbox.is_empty()
    }

    /// True if it has had its core for as long as one gets it while others wait.
    pub(super) fn is_to_yield(&self, now: Instant) -> bool {
        now - self.runs_since >= SLICE
    }

    fn wait(&mut self) {
        self.state = State::Waiting;
    }
}

impl Cores {
    /// So many, and nobody uses them.
    pub(super) fn new(cores: usize) -> Self {
        assert!(cores > 0, "somebody has to work");
        Cores { idle: cores, waiting: VecDeque::new() }
    }

    /// Takes a core for a processor; false if there is none, and it waits for one.
    pub(super) fn take<E>(&mut self, node: usize, processor: &mut Processor<E>) -> bool {
        if self.idle == 0 {
            processor.wait();
            self.waiting.push_back(node);
            return false;
        }
        self.idle -= 1;
        true
    }

    /// Gives a core back, and returns the processor that waits for one the longest.
    pub(super) fn give_back(&mut self) -> Option<usize> {
        self.idle += 1;
        self.waiting.pop_front()
    }
}
