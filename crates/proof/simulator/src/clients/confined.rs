//! Sessions that are confined to the clients of some slots while the rest of the system stays broken, and the sessions that have work left.

use super::{Clients, Session};
use crate::cluster::Cluster;
use crate::system::System;

impl Clients {
    /// The places whose clients have sessions.
    pub fn slots_in_use(&self) -> Vec<usize> {
        let has_sessions = |slot: &usize| self.sessions.iter().any(|session| session.slot == *slot);
        (0..self.slots.len()).filter(has_sessions).collect()
    }

    /// How many transactions of indexes, or of values that expire, a client has to run one after the other.
    pub fn indexing_in_a_row(&self) -> u64 {
        self.indexing.left().max(self.expiring.left()).div_ceil(self.slots.len().max(1) as u64)
    }

    /// From now on only the clients in these places begin transactions, so many in all.
    pub fn confine<S: System>(&mut self, slots: Vec<usize>, transactions: u64, cluster: &mut Cluster<S>) {
        self.confined = Some((slots, self.tally.begun + transactions));
        for session in 0..self.sessions.len() {
            self.wake_for_next(session, cluster);
        }
    }

    /// Everybody may begin transactions again.
    pub fn release<S: System>(&mut self, cluster: &mut Cluster<S>) {
        self.confined = None;
        for session in 0..self.sessions.len() {
            self.wake_for_next(session, cluster);
        }
    }

    /// The work still under way at the clients in these places, in words.
    pub fn unfinished_at<S: System>(&self, slots: &[usize], cluster: &Cluster<S>) -> Vec<String> {
        let sessions = || self.sessions.iter().filter(|session| slots.contains(&session.slot));
        let mut left = in_words(sessions());
        if left.is_empty() && (self.want_more(cluster) || !sessions().all(Session::is_idle)) {
            left.push("sessions have not begun all their transactions".to_owned());
        }
        left
    }

    /// The work still under way, in words.
    pub fn unfinished(&self) -> Vec<String> {
        let mut left = in_words(self.sessions.iter());
        left.extend(self.beside.unfinished());
        left.extend(self.indexing.unfinished());
        left.extend(self.expiring.unfinished());
        left
    }
}

/// Attempts that are under way, in words.
fn in_words<'a>(sessions: impl Iterator<Item = &'a Session>) -> Vec<String> {
    let attempts = sessions.flat_map(|session| session.attempt.iter().chain(&session.shown));
    attempts
        .map(|attempt| {
            let state = if attempt.commit_asked { "wants to commit" } else { "is reading" };
            format!("transaction {} ({}) {state}", attempt.id, attempt.execution.plan().kind)
        })
        .collect()
}
