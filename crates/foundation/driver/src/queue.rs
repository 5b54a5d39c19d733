//! The queue of ordered effects: each waits until the records before it are durable.

use std::collections::VecDeque;

/// How far a log has come: grows with every record that is appended to it. Zero is before the first record.
pub type Mark = u64;

/// Elements in the order in which they came, each with the mark of the last record before it.
#[derive(Debug)]
pub struct Queue<T> {
    /// The mark of the last record that was appended.
    appended: Mark,
    /// Every record up to this mark is durable.
    durable: Mark,
    /// Marks ascend.
    held: VecDeque<(Mark, T)>,
}

impl<T> Queue<T> {
    /// An empty queue, before the first record.
    pub fn new() -> Self {
        Queue { appended: 0, durable: 0, held: VecDeque::new() }
    }

    /// How many elements are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// True if no element is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How far the log has been appended to, and how far it is known to be durable.
    pub fn marks(&self) -> (Mark, Mark) {
        (self.appended, self.durable)
    }

    /// A record was appended: elements that are pushed from here on wait for it.
    pub fn on_appended(&mut self, mark: Mark) {
        assert!(mark > self.appended, "marks of a log grow");
        self.appended = mark;
    }

    /// Every record up to `mark` is durable.
    pub fn on_durable(&mut self, mark: Mark) {
        assert!(mark <= self.appended, "a record is durable before it was appended");
        self.durable = self.durable.max(mark);
    }

    /// Adds an element behind every other.
    pub fn push(&mut self, element: T) {
        self.held.push_back((self.appended, element));
    }

    /// Takes the front element, if its mark is durable.
    pub fn pop_durable(&mut self) -> Option<T> {
        let durable = self.durable;
        self.held.pop_front_if(|(mark, _)| *mark <= durable).map(|(_, element)| element)
    }

    /// The elements that are held.
    pub fn into_held(self) -> impl Iterator<Item = T> {
        self.held.into_iter().map(|(_, element)| element)
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self::new()
    }
}
