//! Reads of contended keys take turns.
//!
//! A transaction that reads a key while another is about to write it will be aborted: what it has read is overwritten
//! when it prepares. So a READ-IN-TURN of such a key joins a line and is answered when the outcome is known here; and then
//! only the first of the line is, because each is likely to write what it has read, as the one before did. Its turn ends
//! with its prepare, which either shows the next write to wait for or shows that there is none, or after a while.
//!
//! Each replica has a line of its own, for the clients that are nearest to it. A line hands on within itself at once,
//! which is the fastest way through many transactions on one key: no message crosses an ocean between an outcome and the
//! next read. It leaves a gap now and then if writers come from elsewhere too. Another line does not use the gap between a
//! commit that it hears of and the prepare that follows on its heels: it waits for a moment first.
//!
//! All of this only chooses when a read is answered, which is safe at any time. Nothing here is recorded; a line that is
//! forgotten costs aborts. A read that waits holds nothing, and turns are bounded, and so is how long the outcome of one writer is waited
//! for, so that nobody waits for ever.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use quorate_core::{Address, ClientId, Instant, Key, Transaction, TransactionId};

use super::schedule::Schedule;

/// So many keys have lines at once; reads of further ones are answered at once.
const LINES_MAX: usize = 1_024;

/// A line may be so long; further reads are answered at once.
const WAITING_MAX: usize = 1_024;

/// A line that nobody waits in is remembered for so long after the last writer: the key stays contended.
const REMEMBERED: Duration = Duration::from_secs(2);

/// After so many turns one after the other a line leaves a gap for writers from elsewhere.
const STREAK_MAX: u32 = 8;

/// Writers from elsewhere count as long as one was seen within this time.
const ELSEWHERE_REMEMBERED: Duration = Duration::from_secs(5);

/// A prepare that follows a commit from elsewhere arrives within this time, if there is one.
const HEELS: Duration = Duration::from_millis(10);

/// A line waits no longer for the outcome of a writer. It may have been told to the others while this replica was away: then it comes
/// here only when the transaction is recovered, and a reader had rather find out elsewhere.
const HELD_MAX: Duration = Duration::from_millis(500);

/// No turn takes longer.
const TURN_MAX: Duration = Duration::from_millis(300);

/// Every turn may take so long.
const TURN_MIN: Duration = Duration::from_millis(5);

/// The lines of a replica.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: BTreeMap<Key, Line>,
    waiting: usize,
    /// When turns were last handed out.
    attended_at: Instant,
    /// The keys of lines that something has happened to since then.
    stirred: BTreeSet<Key>,
    /// When something happens to a line by itself.
    coming: Schedule,
    /// When the next in each line in which somebody waits may have its turn.
    next_turns: Schedule,
}

#[derive(Clone, Debug)]
struct Line {
    waiting: VecDeque<Waiter>,
    /// The transaction that may prepare next.
    turn: Option<Turn>,
    /// The client whose turn it was last. Clients take turns too, so that one with many reads does not keep the others waiting.
    last_client: Option<ClientId>,
    /// How long turns usually take.
    usual: Duration,
    /// Since when nobody is about to write the key here, as far as is known.
    free_since: Option<Instant>,
    /// Since when somebody is, if nobody else has prepared to write it since.
    held_since: Option<Instant>,
    /// The last writer whose turn it was here.
    own_writer: Option<TransactionId>,
    /// True if the last one that held the key had its turn here.
    last_was_own: bool,
    /// When the last writer prepared.
    prepared_at: Instant,
    /// How long the last writer took from its prepare to its outcome.
    outcome_took: Duration,
    /// Turns in a row that led to writes.
    streak: u32,
    elsewhere_at: Option<Instant>,
    /// When it was last used, by somebody other than a writer that has prepared and not ended.
    used_at: Instant,
}

#[derive(Clone, Debug)]
struct Waiter {
    from: Address,
    transaction: TransactionId,
    /// When its coordinator last said that it waits.
    asked_at: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    transaction: TransactionId,
    began: Instant,
    until: Instant,
}

impl Line {
    fn new(now: Instant) -> Self {
        Line {
            waiting: VecDeque::new(),
            turn: None,
            last_client: None,
            usual: TURN_MAX / 4,
            free_since: None,
            held_since: None,
            own_writer: None,
            last_was_own: false,
            prepared_at: now,
            outcome_took: Duration::ZERO,
            streak: 0,
            elsewhere_at: None,
            used_at: now,
        }
    }

    /// Takes out the first of another client than the last, or of the same if there is no other.
    fn take_next(&mut self) -> Option<Waiter> {
        let other = |waiter: &Waiter| Some(waiter.transaction.client) != self.last_client;
        let next = self.waiting.iter().position(other).unwrap_or(0);
        let next = self.waiting.remove(next)?;
        self.last_client = Some(next.transaction.client);
        Some(next)
    }

    /// True if the line has had many turns, and leaves a gap after each outcome for writers from elsewhere.
    fn leaves_gaps(&self, now: Instant) -> bool {
        let contended_elsewhere = self.elsewhere_at.is_some_and(|at| now - at < ELSEWHERE_REMEMBERED);
        self.streak >= STREAK_MAX && contended_elsewhere
    }

    /// When the next in the line may have its turn.
    fn next_turn_at(&self, now: Instant) -> Option<Instant> {
        let free_since = self.free_since?;
        let pause = if !self.last_was_own {
            HEELS
        } else if self.leaves_gaps(now) {
            self.outcome_took
        } else {
            Duration::ZERO
        };
        let free_at = free_since + pause;
        Some(self.turn.map_or(free_at, |turn| turn.until.max(free_at)))
    }

    /// When somebody in the line may be answered although nothing else happens.
    fn answers_at(&self, now: Instant) -> Option<Instant> {
        let stuck_at = self.held_since.map(|since| since + HELD_MAX);
        self.next_turn_at(now).or(stuck_at).filter(|_| !self.waiting.is_empty())
    }

    /// When something happens to it by itself: a turn is over or begins, or no gaps are left any more, or it is stuck.
    fn changes_at(&self, now: Instant) -> Option<Instant> {
        if self.waiting.is_empty() && self.turn.is_none() {
            return None;
        }
        if self.free_since.is_none() {
            return self.answers_at(now);
        }
        let gapless_at =
            self.elsewhere_at.filter(|_| self.leaves_gaps(now)).map(|at| at + ELSEWHERE_REMEMBERED);
        self.next_turn_at(now).map(|turn_at| gapless_at.map_or(turn_at, |at| at.min(turn_at)))
    }

    /// When it was last used, if turns were last handed out at `attended_at`. A key that somebody was about to write then is
    /// in use.
    fn last_used(&self, attended_at: Instant) -> Instant {
        if self.free_since.is_none() { self.used_at.max(attended_at) } else { self.used_at }
    }

    /// True if the outcome of a writer has not come for so long that nobody waits for it any more.
    fn is_stuck(&self, now: Instant) -> bool {
        self.held_since.is_some_and(|since| now - since >= HELD_MAX)
    }

    /// Takes out those that have their turn; `is_pending` tells whether somebody is about to write the key.
    fn hand_out(&mut self, is_pending: bool, now: Instant, patience: Duration) -> Vec<Waiter> {
        if is_pending {
            self.free_since = None;
            self.held_since.get_or_insert(now);
            if self.is_stuck(now) {
                return self.waiting.drain(..).collect();
            }
            return Vec::new();
        }
        self.held_since = None;
        self.next_turn(now, patience).into_iter().collect()
    }

    /// Takes out the next, if it may have its turn, of a key that nobody is about to write.
    fn next_turn(&mut self, now: Instant, patience: Duration) -> Option<Waiter> {
        if self.free_since.is_none() {
            self.free_since = Some(now);
            self.outcome_took = now - self.prepared_at;
        }
        if self.next_turn_at(now).is_none_or(|at| at > now) {
            return None;
        }
        if let Some(turn) = self.turn.take() {
            self.usual = (self.usual * 7 + (now - turn.began)) / 8;
        }
        self.waiting.retain(|waiter| now - waiter.asked_at <= patience);
        let next = self.take_next()?;
        if self.streak >= STREAK_MAX {
            self.streak = 0;
        }
        self.used_at = now;
        let limit = (self.usual * 4).clamp(TURN_MIN, TURN_MAX);
        self.turn = Some(Turn { transaction: next.transaction, began: now, until: now + limit });
        Some(next)
    }
}

/// A read that is to be answered now.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) to: Address,
    pub(super) transaction: TransactionId,
    pub(super) key: Key,
}

impl Turns {
    /// True if nobody waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many keys have a line.
    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A read joins the line of its key, if there is one or should be one; false if it is to be answered at once.
    pub(super) fn join(
        &mut self,
        from: Address,
        transaction: TransactionId,
        key: &Key,
        is_pending: bool,
        now: Instant,
    ) -> bool {
        let is_used = |line: &Line| now - line.last_used(self.attended_at) < REMEMBERED;
        let is_contended = self.lines.get(key).is_some_and(is_used);
        if !is_pending && !is_contended {
            return false;
        }
        if !self.lines.contains_key(key) && self.lines.len() >= LINES_MAX {
            return false;
        }
        self.stirred.insert(key.clone());
        let line = self.lines.entry(key.clone()).or_insert_with(|| Line::new(now));
        line.used_at = now;
        if !is_pending && line.free_since.is_none() {
            line.free_since = Some(now);
        }
        if is_pending {
            line.held_since.get_or_insert(now);
            if line.is_stuck(now) {
                return false;
            }
        }
        if let Some(waiter) = line.waiting.iter_mut().find(|waiter| waiter.transaction == transaction) {
            waiter.asked_at = now;
            return true;
        }
        if line.waiting.len() >= WAITING_MAX {
            return false;
        }
        line.waiting.push_back(Waiter { from, transaction, asked_at: now });
        self.waiting += 1;
        assert!(line.waiting.len() <= WAITING_MAX, "{} reads of {key:?} wait", line.waiting.len());
        assert!(self.lines.len() <= LINES_MAX, "{} keys have lines", self.lines.len());
        true
    }

    /// A transaction that has read `key` prepares here for the first time.
    pub(super) fn on_prepare(&mut self, transaction: TransactionId, key: &Key, writes: bool, now: Instant) {
        let Some(line) = self.lines.get_mut(key) else { return };
        self.stirred.insert(key.clone());
        line.used_at = now;
        let own = line.turn.is_some_and(|turn| turn.transaction == transaction);
        if let Some(turn) = line.turn.filter(|_| own) {
            line.usual = (line.usual * 7 + (now - turn.began)) / 8;
            line.turn = None;
        }
        if !writes {
            return;
        }
        line.prepared_at = now;
        if own {
            line.own_writer = Some(transaction);
            line.streak += 1;
        } else {
            line.elsewhere_at = Some(now);
            line.streak = 0;
        }
        line.last_was_own = own;
        (line.free_since, line.held_since) = (None, Some(now));
    }

    /// A transaction is about to write these keys, or no longer is.
    pub(super) fn note_change(&mut self, transaction: &Transaction) {
        for write in &transaction.writes {
            if self.lines.contains_key(&write.key) {
                self.stirred.insert(write.key.clone());
            }
        }
    }

    /// Answers the readers whose turn it is; `is_pending` tells whether a transaction is about to write a key.
    pub(super) fn take(
        &mut self,
        is_pending: impl Fn(&Key) -> bool,
        now: Instant,
        patience: Duration,
    ) -> Vec<Answer> {
        while let Some(key) = self.coming.pop_due(now) {
            self.stirred.insert(key);
        }
        let mut answers = Vec::new();
        for key in std::mem::take(&mut self.stirred) {
            // It may have been forgotten.
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.used_at = line.last_used(self.attended_at);
            let waiting = line.waiting.len();
            let next = line.hand_out(is_pending(&key), now, patience);
            let gone = waiting - line.waiting.len();
            assert!(self.waiting >= gone, "{gone} reads wait no longer, of {}", self.waiting);
            self.waiting -= gone;
            self.coming.set(&key, line.changes_at(now));
            self.next_turns.set(&key, line.answers_at(now));
            let answer =
                |Waiter { from, transaction, .. }| Answer { to: from, transaction, key: key.clone() };
            answers.extend(next.into_iter().map(answer));
        }
        self.attended_at = now;
        answers
    }

    /// When to look again if nothing else happens, once turns have been handed out.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        self.next_turns.first()
    }

    /// Forgets lines that nobody uses.
    pub(super) fn sweep(&mut self, now: Instant) {
        let attended_at = self.attended_at;
        let is_used = |line: &Line| now - line.last_used(attended_at) < ELSEWHERE_REMEMBERED;
        self.lines.retain(|_, line| !line.waiting.is_empty() || is_used(line));
        assert!(
            self.waiting == 0 || !self.lines.is_empty(),
            "{} reads wait, and no key has a line",
            self.waiting
        );
    }

    /// Forgets everything: who waits will ask again.
    pub(super) fn clear(&mut self) {
        *self = Turns::default();
    }
}

#[cfg(test)]
mod tests;
