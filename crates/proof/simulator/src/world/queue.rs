//! The events to come, in a total order.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use quorate_core::Instant;

/// Events ordered by time, and those of one instant by the order in which they were scheduled.
///
/// The heap holds small entries; the events themselves rest in slots that are used again.
#[derive(Debug)]
pub struct EventQueue<E> {
    heap: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    slots: Vec<Option<E>>,
    free: Vec<u32>,
    scheduled: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        EventQueue { heap: BinaryHeap::new(), slots: Vec::new(), free: Vec::new(), scheduled: 0 }
    }
}

impl<E> EventQueue<E> {
    /// Schedules an event.
    pub fn push(&mut self, at: Instant, event: E) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                (self.slots.len() - 1) as u32
            }
        };
        self.slots[slot as usize] = Some(event);
        self.heap.push(Reverse((at, self.scheduled, slot)));
        self.scheduled += 1;
    }

    /// When the next event happens.
    pub fn next_at(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, _, _))| *at)
    }

    /// Takes the next event out.
    pub fn pop(&mut self) -> Option<(Instant, E)> {
        let Reverse((at, _, slot)) = self.heap.pop()?;
        self.free.push(slot);
        self.slots[slot as usize].take().map(|event| (at, event))
    }

    /// How many events are scheduled.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// True if nothing will ever happen.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_of_scheduling() {
        let mut queue = EventQueue::default();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (3, 'b')] {
            queue.push(Instant::from_nanos(at), event);
        }
        assert_eq!(queue.next_at(), Some(Instant::from_nanos(1)));
        let mut order = String::new();
        while let Some((_, event)) = queue.pop() {
            order.push(event);
            if event == 'a' {
                queue.push(Instant::from_nanos(5), 'e');
            }
        }
        assert_eq!(order, "abcde");
        assert!(queue.is_empty());
        assert_eq!(queue.len(), 0);
    }
}
