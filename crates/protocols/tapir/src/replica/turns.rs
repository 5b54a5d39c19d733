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
//! forgotten costs aborts. Whoever waits holds nothing, and turns are bounded, so that nobody waits for ever.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use quorate_core::{Address, ClientId, Instant, Key, TransactionId};

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

/// No turn takes longer.
const TURN_MAX: Duration = Duration::from_millis(300);

/// Every turn may take so long.
const TURN_MIN: Duration = Duration::from_millis(5);

/// The lines of a replica.
#[derive(Debug, Default)]
pub(super) struct Turns {
    lines: BTreeMap<Key, Line>,
    waiting: usize,
}

#[derive(Debug)]
struct Line {
    waiting: VecDeque<Waiter>,
    /// Who may prepare next.
    turn: Option<Turn>,
    /// Whose turn it was last. Clients take turns too, so that one with many reads does not keep the others waiting.
    last_client: Option<ClientId>,
    /// How long turns usually take.
    usual: Duration,
    /// Since when nobody is about to write the key here, as far as is known.
    free_since: Option<Instant>,
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
    used_at: Instant,
}

#[derive(Debug)]
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

    /// When the next in the line may have its turn.
    fn next_turn_at(&self, now: Instant) -> Option<Instant> {
        let free_since = self.free_since?;
        let contended_elsewhere = self.elsewhere_at.is_some_and(|at| now - at < ELSEWHERE_REMEMBERED);
        let pause = if !self.last_was_own {
            HEELS
        } else if self.streak >= STREAK_MAX && contended_elsewhere {
            self.outcome_took
        } else {
            Duration::ZERO
        };
        let free_at = free_since + pause;
        Some(self.turn.map_or(free_at, |turn| turn.until.max(free_at)))
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
        let is_contended = self.lines.get(key).is_some_and(|line| now - line.used_at < REMEMBERED);
        if !is_pending && !is_contended {
            return false;
        }
        if !self.lines.contains_key(key) && self.lines.len() >= LINES_MAX {
            return false;
        }
        let line = self.lines.entry(key.clone()).or_insert_with(|| Line::new(now));
        line.used_at = now;
        if !is_pending && line.free_since.is_none() {
            line.free_since = Some(now);
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
        true
    }

    /// A transaction that has read `key` prepares here for the first time.
    pub(super) fn on_prepare(&mut self, transaction: TransactionId, key: &Key, writes: bool, now: Instant) {
        let Some(line) = self.lines.get_mut(key) else { return };
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
        line.free_since = None;
    }

    /// Answers those whose turn it is; `is_pending` tells whether somebody is about to write a key.
    pub(super) fn take(
        &mut self,
        is_pending: impl Fn(&Key) -> bool,
        now: Instant,
        patience: Duration,
    ) -> Vec<Answer> {
        let mut answers = Vec::new();
        for (key, line) in &mut self.lines {
            if is_pending(key) {
                line.free_since = None;
                line.used_at = now;
                continue;
            }
            if line.free_since.is_none() {
                line.free_since = Some(now);
                line.outcome_took = now - line.prepared_at;
            }
            if line.next_turn_at(now).is_none_or(|at| at > now) {
                continue;
            }
            if let Some(turn) = line.turn.take() {
                line.usual = (line.usual * 7 + (now - turn.began)) / 8;
            }
            let waiting = line.waiting.len();
            line.waiting.retain(|waiter| now - waiter.asked_at <= patience);
            let next = line.take_next();
            self.waiting -= waiting - line.waiting.len();
            let Some(Waiter { from, transaction, .. }) = next else { continue };
            if line.streak >= STREAK_MAX {
                line.streak = 0;
            }
            line.used_at = now;
            let limit = (line.usual * 4).clamp(TURN_MIN, TURN_MAX);
            line.turn = Some(Turn { transaction, began: now, until: now + limit });
            answers.push(Answer { to: from, transaction, key: key.clone() });
        }
        answers
    }

    /// When to look again if nothing else happens.
    pub(super) fn wakes_at(&self, now: Instant) -> Option<Instant> {
        let lines = self.lines.values().filter(|line| !line.waiting.is_empty());
        lines.filter_map(|line| line.next_turn_at(now)).min()
    }

    /// Forgets lines that nobody uses.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.lines.retain(|_, line| !line.waiting.is_empty() || now - line.used_at < ELSEWHERE_REMEMBERED);
    }

    /// Forgets everything: who waits will ask again.
    pub(super) fn clear(&mut self) {
        *self = Turns::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    fn transaction(client: u64) -> TransactionId {
        TransactionId { client: ClientId(client), sequence: 1, attempt: 0 }
    }

    fn key() -> Key {
        Key::from("k")
    }

    struct Fixture {
        turns: Turns,
        /// True while somebody is about to write the key.
        pending: bool,
    }

    impl Fixture {
        fn new() -> Self {
            Fixture { turns: Turns::default(), pending: false }
        }

        /// True if the read waits.
        fn reads(&mut self, now: u64, client: u64) -> bool {
            let from = Address::Client(ClientId(client));
            self.turns.join(from, transaction(client), &key(), self.pending, at(now))
        }

        /// A writer prepares.
        fn prepares(&mut self, now: u64, client: u64) {
            self.turns.on_prepare(transaction(client), &key(), true, at(now));
            self.pending = true;
        }

        /// The clients that are answered.
        fn answered(&mut self, now: u64) -> Vec<u64> {
            let pending = self.pending;
            let answers = self.turns.take(|_| pending, at(now), Duration::from_secs(2));
            answers.iter().map(|answer| answer.transaction.client.0).collect()
        }
    }

    #[test]
    fn reads_of_a_key_that_nobody_writes_do_not_wait() {
        let mut replica = Fixture::new();
        assert!(!replica.reads(0, 1) && !replica.reads(0, 2));
        assert!(replica.turns.is_empty());
    }

    #[test]
    fn one_read_is_answered_after_each_outcome() {
        let mut replica = Fixture::new();
        replica.pending = true;
        for client in [1, 2, 3] {
            assert!(replica.reads(0, client));
        }
        assert!(replica.answered(50).is_empty(), "the writer is still pending");
        replica.pending = false;
        assert!(replica.answered(100).is_empty(), "another prepare may be on the heels of the commit");
        assert_eq!(replica.turns.wakes_at(at(100)), Some(at(100) + HEELS));
        assert_eq!(replica.answered(110), [1]);
        assert!(replica.answered(112).is_empty(), "it is the turn of 1");
        replica.prepares(113, 1);
        assert!(replica.answered(200).is_empty());
        replica.pending = false;
        assert_eq!(replica.answered(280), [2], "within a line nobody need be waited for");
    }

    #[test]
    fn the_heels_of_a_commit_are_left_to_whoever_follows() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        replica.pending = false;
        assert!(replica.answered(100).is_empty());
        replica.prepares(104, 9);
        assert!(replica.answered(110).is_empty());
        replica.pending = false;
        assert!(replica.answered(300).is_empty());
        assert_eq!(replica.answered(310), [1]);
    }

    #[test]
    fn a_turn_ends_with_a_prepare_that_writes_nothing_or_after_a_while() {
        let mut replica = Fixture::new();
        replica.pending = true;
        for client in [1, 2, 3] {
            assert!(replica.reads(0, client));
        }
        replica.pending = false;
        assert!(replica.answered(100).is_empty());
        assert_eq!(replica.answered(110), [1]);
        replica.turns.on_prepare(transaction(1), &key(), false, at(112));
        assert_eq!(replica.answered(112), [2]);
        let until = replica.turns.wakes_at(at(112)).expect("2 may not prepare at all");
        assert!(until <= at(112) + TURN_MAX);
        assert_eq!(replica.answered(112 + TURN_MAX.as_millis() as u64), [3]);
    }

    #[test]
    fn a_line_leaves_a_gap_if_others_write_too() {
        let clients = 2 * u64::from(STREAK_MAX);
        let rounds = |elsewhere: bool| {
            let mut replica = Fixture::new();
            replica.pending = true;
            for client in 1..=clients {
                assert!(replica.reads(0, client));
            }
            if elsewhere {
                replica.prepares(0, 99);
            }
            let (mut now, mut gaps) = (100, 0);
            for client in 1..=clients {
                replica.pending = false;
                let outcome_at = now;
                while replica.answered(now).is_empty() {
                    now += 1;
                }
                gaps += u64::from(now - outcome_at > HEELS.as_millis() as u64);
                replica.prepares(now + 1, client);
                now += 101;
            }
            gaps
        };
        assert_eq!(rounds(true), 1, "one after each streak");
        assert_eq!(rounds(false), 0);
    }

    #[test]
    fn whoever_has_gone_loses_the_place() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1) && replica.reads(0, 2));
        assert!(replica.reads(1_500, 2), "2 asks again");
        replica.pending = false;
        assert!(replica.answered(3_000).is_empty());
        assert_eq!(replica.answered(3_010), [2]);
        assert!(replica.turns.is_empty());
    }

    #[test]
    fn a_client_with_many_reads_does_not_keep_others_waiting() {
        let mut replica = Fixture::new();
        replica.pending = true;
        for sequence in 0..100 {
            let greedy = TransactionId { sequence, ..transaction(1) };
            replica.turns.join(Address::Client(ClientId(1)), greedy, &key(), true, at(0));
        }
        assert!(replica.reads(0, 2) && replica.reads(0, 3));
        replica.pending = false;
        let mut answered = replica.answered(100);
        for now in 101..1_600 {
            answered.extend(replica.answered(now));
        }
        assert_eq!(answered[..4], [1, 2, 1, 3]);
    }

    #[test]
    fn a_key_is_forgotten_when_nobody_uses_it() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        replica.pending = false;
        assert!(replica.answered(100).is_empty());
        assert_eq!(replica.answered(110), [1]);
        assert!(replica.reads(1_000, 2), "it was contended a moment ago");
        assert_eq!(replica.answered(1_000), [2]);
        replica.turns.sweep(at(10_000));
        assert!(!replica.reads(10_000, 3));
        assert!(replica.turns.lines.is_empty());
    }
}
