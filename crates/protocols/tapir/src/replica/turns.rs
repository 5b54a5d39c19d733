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
mod tests {
    use quorate_core::{Random, Write};

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

    fn writes(key: &Key) -> Transaction {
        let writes = vec![Write { key: key.clone(), value: None }];
        Transaction { writes, ..Transaction::default() }
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
            self.turns.note_change(&writes(&key()));
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

    /// The outcome was told while this replica was away, say: then it is known elsewhere, and clients that read again ask there.
    #[test]
    fn a_writer_whose_outcome_does_not_come_is_not_waited_for() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1) && replica.reads(100, 2));
        assert!(replica.answered(499).is_empty());
        assert_eq!(replica.turns.wakes_at(), Some(at(0) + HELD_MAX));
        assert_eq!(replica.answered(500), [1, 2], "all of them: it is nobody's turn");
        assert!(replica.turns.is_empty() && replica.turns.wakes_at().is_none());
        assert!(!replica.reads(600, 3), "no more than the first is it waited for");
        // Another writer is.
        replica.prepares(700, 9);
        assert!(replica.reads(701, 3) && replica.answered(1_199).is_empty());
        replica.pending = false;
        assert!(replica.answered(1_199).is_empty(), "a line that is free leaves a gap as ever");
        assert_eq!(replica.answered(1_210), [3]);
        // And how long others took is forgotten.
        replica.pending = true;
        assert!(replica.reads(1_300, 4) && replica.answered(1_799).is_empty());
        assert_eq!(replica.answered(1_800), [4]);
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
        assert_eq!(replica.turns.wakes_at(), Some(at(100) + HEELS));
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
        let until = replica.turns.wakes_at().expect("2 may not prepare at all");
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
        replica.prepares(1_499, 9);
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

    /// For each client, the time until which it is its turn, if it prepares after so many milliseconds and writes nothing.
    fn limits(turns_took: &[u64]) -> Vec<Duration> {
        let mut replica = Fixture::new();
        replica.pending = true;
        for client in 0..=turns_took.len() as u64 {
            assert!(replica.reads(0, client));
        }
        replica.pending = false;
        assert!(replica.answered(0).is_empty());
        let (mut now, mut limits) = (10, Vec::new());
        for (client, took) in turns_took.iter().enumerate() {
            let client = client as u64;
            assert_eq!(replica.answered(now), [client]);
            limits.push(replica.turns.wakes_at().expect("another waits") - at(now));
            now += took;
            if at(now) < at(now - took) + limits[limits.len() - 1] {
                replica.turns.on_prepare(transaction(client), &key(), false, at(now));
            }
        }
        limits
    }

    #[test]
    fn a_turn_may_take_four_times_as_long_as_the_last_ones_within_bounds() {
        let micros = |limits: Vec<Duration>| limits.iter().map(Duration::as_micros).collect::<Vec<_>>();
        assert_eq!(micros(limits(&[8, 8, 8, 8])), [300_000, 266_500, 237_187, 211_539]);
        assert_eq!(*limits(&[0; 40]).last().unwrap(), TURN_MIN);
        let with_slow_ones: Vec<u64> = [0; 40].into_iter().chain([5, 5, 5]).collect();
        let grown = limits(&with_slow_ones);
        assert_eq!(micros(grown[40..].to_vec())[0], 5_000);
        // Turns that nobody used have taken time, too: an eighth of it counts, and seven of what was usual.
        let last = micros(grown[40..].to_vec());
        assert!(last[1] == 5_000 && (5_700..5_900).contains(&last[2]), "{last:?}");
        assert_eq!(micros(limits(&[300, 300, 0])), [300_000, 300_000, 300_000], "none takes longer");
    }

    #[test]
    fn a_gap_is_as_long_as_an_outcome_takes_while_writers_come_from_elsewhere() {
        const TOOK: u64 = 20;
        /// After a writer from elsewhere at 0, and turns from `start` on that all lead to writes: when the last ended.
        fn after_a_streak(start: u64) -> (Fixture, u64) {
            let mut replica = Fixture::new();
            replica.pending = true;
            assert!(replica.reads(0, 99));
            replica.prepares(0, 98);
            replica.turns.lines.values_mut().for_each(|line| line.held_since = Some(at(start)));
            for client in 1..=20 {
                assert!(replica.reads(start, client));
            }
            replica.pending = false;
            assert!(replica.answered(start).is_empty());
            let mut now = start + 10;
            for client in 1..=u64::from(STREAK_MAX) {
                assert_eq!(replica.answered(now), [client]);
                replica.prepares(now + 1, client);
                assert!(replica.answered(now + 1).is_empty());
                now += 1 + TOOK;
                replica.pending = false;
            }
            (replica, now)
        }
        let next = u64::from(STREAK_MAX) + 1;
        let (mut replica, ended) = after_a_streak(3_000);
        assert!(replica.answered(ended).is_empty());
        assert_eq!(replica.turns.wakes_at(), Some(at(ended + TOOK)));
        assert!(replica.answered(ended + TOOK - 1).is_empty());
        assert_eq!(replica.answered(ended + TOOK), [next]);
        replica.prepares(ended + TOOK, next);
        assert!(replica.answered(ended + TOOK).is_empty());
        replica.pending = false;
        assert_eq!(replica.answered(ended + 3 * TOOK), [next + 1], "another streak begins");

        let remembered = ELSEWHERE_REMEMBERED.as_millis() as u64;
        // A writer from elsewhere ends a streak.
        let (mut replica, ended) = after_a_streak(3_000);
        replica.prepares(ended, 97);
        replica.pending = false;
        assert!(replica.answered(ended + TOOK).is_empty(), "another may be on its heels");
        assert_eq!(replica.answered(ended + TOOK + 10), [next]);
        replica.prepares(ended + TOOK + 10, next);
        replica.pending = false;
        assert_eq!(replica.answered(ended + 2 * TOOK + 10), [next + 1], "the streak is a short one");

        let (mut replica, ended) = after_a_streak(remembered);
        assert_eq!(replica.answered(ended), [next], "no writer has come from elsewhere for long");

        let (mut replica, ended) = after_a_streak(remembered - 10 - 8 * (1 + TOOK) - 5);
        assert!(ended < remembered && replica.answered(ended).is_empty());
        let looked_at =
            |replica: &mut Fixture, now| replica.turns.take(|_| false, at(now), Duration::from_secs(2)).len();
        assert_eq!(looked_at(&mut replica, remembered - 1), 0);
        assert_eq!(
            looked_at(&mut replica, remembered),
            1,
            "the last from elsewhere is forgotten within the gap"
        );
    }

    /// Reads of further keys, and further reads of a key, are answered at once.
    #[test]
    fn there_are_so_many_lines_and_each_is_so_long() {
        let mut turns = Turns::default();
        let from = Address::Client(ClientId(1));
        let mut joins = |name: String, client: u64, now| {
            let waits = turns.join(from, transaction(client), &Key::from(name), true, at(now));
            (waits, turns.waiting, turns.len())
        };
        for client in 1..=WAITING_MAX as u64 {
            assert_eq!(joins("long".to_owned(), client, 0), (true, client as usize, 1));
        }
        assert_eq!(joins("long".to_owned(), 0, 0), (false, WAITING_MAX, 1));
        assert_eq!(joins("long".to_owned(), 5, 0), (true, WAITING_MAX, 1), "it waits already");
        for line in 2..=LINES_MAX {
            assert_eq!(joins(format!("k{line}"), 1, 0), (true, WAITING_MAX + line - 1, line));
        }
        let all = WAITING_MAX + LINES_MAX - 1;
        assert_eq!(joins("one more".to_owned(), 1, 0), (false, all, LINES_MAX));
        assert_eq!(joins("k9".to_owned(), 2, 0), (true, all + 1, LINES_MAX));
        assert!(!turns.is_empty());
        turns.clear();
        assert_eq!((turns.is_empty(), turns.len()), (true, 0));
    }

    #[test]
    fn a_key_stays_contended_for_a_while_after_it_was_used() {
        let remembered = REMEMBERED.as_millis() as u64;
        /// A line of which the last read was answered at 110.
        fn used() -> Fixture {
            let mut replica = Fixture::new();
            replica.pending = true;
            assert!(replica.reads(0, 1));
            replica.pending = false;
            assert!(replica.answered(100).is_empty());
            assert_eq!(replica.answered(110), [1]);
            replica
        }
        assert!(used().reads(110 + remembered - 1, 2));
        assert!(!used().reads(110 + remembered, 2));
        let mut replica = used();
        replica.prepares(500, 9);
        assert!(replica.answered(700).is_empty(), "somebody is about to write it");
        replica.pending = false;
        assert!(replica.reads(700 + remembered - 1, 2));
        let mut replica = used();
        replica.turns.on_prepare(transaction(1), &key(), false, at(200));
        assert!(replica.reads(200 + remembered - 1, 2), "a prepare that only reads uses it too");
    }

    #[test]
    fn a_line_is_kept_while_somebody_waits_and_as_long_as_others_may_come() {
        let kept = ELSEWHERE_REMEMBERED.as_millis() as u64;
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        replica.turns.sweep(at(60_000));
        assert_eq!(replica.turns.len(), 1);
        replica.prepares(60_000, 9);
        assert!(replica.reads(60_000, 1));
        replica.pending = false;
        assert!(replica.answered(60_000).is_empty());
        assert_eq!(replica.answered(60_010), [1]);
        replica.turns.sweep(at(60_010 + kept - 1));
        assert_eq!(replica.turns.len(), 1);
        replica.turns.sweep(at(60_010 + kept));
        assert_eq!(replica.turns.len(), 0);
    }

    /// It may have missed when the write ended, between two looks at the line.
    #[test]
    fn the_heels_begin_when_a_read_finds_the_key_free() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        replica.pending = false;
        assert!(replica.reads(50, 2));
        assert!(replica.answered(55).is_empty());
        assert_eq!(replica.turns.wakes_at(), Some(at(60)));
        assert_eq!(replica.answered(60), [1]);
    }

    #[test]
    fn only_writes_of_keys_with_a_line_are_looked_at() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        assert!(replica.answered(0).is_empty());
        replica.turns.note_change(&writes(&Key::from("other")));
        assert!(replica.turns.stirred.is_empty());
        replica.turns.on_prepare(transaction(9), &Key::from("other"), true, at(0));
        assert!(replica.turns.stirred.is_empty() && replica.turns.len() == 1);
    }

    /// Joins, prepares, outcomes and sweeps at random: who is answered and when the next is, is what it would be if every
    /// line were looked at every time.
    #[test]
    fn lines_that_nothing_has_happened_to_need_not_be_looked_at() {
        let mut answered = 0;
        for seed in 0..50 {
            let mut random = Random::new(seed);
            let keys: Vec<Key> = (0..6).map(|key| Key::from(format!("k{key}"))).collect();
            let mut pending = vec![false; keys.len()];
            let [mut turns, mut naive] = [Turns::default(), Turns::default()];
            let mut now = 0;
            for _ in 0..3_000 {
                now += [0, 1, 7, 60, 1_500][random.index(5)] * random.below(3);
                let (which, client) = (random.index(keys.len()), random.below(20));
                let (key, id) = (&keys[which], transaction(client));
                let from = Address::Client(ClientId(client));
                match random.below(8) {
                    0..=2 => {
                        let waits = turns.join(from, id, key, pending[which], at(now));
                        assert_eq!(naive.join(from, id, key, pending[which], at(now)), waits);
                    }
                    3..=4 => {
                        let own =
                            turns.lines.get(key).and_then(|line| line.turn.map(|turn| turn.transaction));
                        let (id, writes) = (own.unwrap_or(id), random.chance(0.8));
                        turns.on_prepare(id, key, writes, at(now));
                        naive.on_prepare(id, key, writes, at(now));
                    }
                    5..=6 => {
                        pending[which] = !pending[which];
                        turns.note_change(&writes(key));
                    }
                    _ => [&mut turns, &mut naive].into_iter().for_each(|turns| turns.sweep(at(now))),
                }
                if naive.is_empty() {
                    continue;
                }
                let is_pending = |key: &Key| pending[keys.iter().position(|known| known == key).unwrap()];
                let patience = Duration::from_secs(2);
                naive.stirred.extend(naive.lines.keys().cloned());
                let expected = naive.take(is_pending, at(now), patience);
                for (_, line) in naive.lines.iter_mut().filter(|(key, _)| is_pending(key)) {
                    line.used_at = at(now);
                }
                answered += expected.len();
                assert_eq!(turns.take(is_pending, at(now), patience), expected, "seed {seed}");
                let lines = naive.lines.values().filter(|line| !line.waiting.is_empty());
                assert_eq!(turns.wakes_at(), lines.filter_map(|line| line.answers_at(at(now))).min());
                let state = |turns: &Turns| {
                    let mut lines = turns.lines.clone();
                    lines.values_mut().for_each(|line| line.used_at = line.last_used(turns.attended_at));
                    (format!("{lines:?}"), turns.waiting)
                };
                assert_eq!(state(&turns), state(&naive), "seed {seed}");
            }
        }
        assert!(answered > 1_000, "{answered}");
    }

    /// Turns that all lead to writes, one after the other from this client on; gives when the last has ended, after 20 ms each.
    fn take_turns(replica: &mut Fixture, begin: u64, clients: std::ops::Range<u64>) -> u64 {
        let mut now = begin;
        for client in clients {
            assert_eq!(replica.answered(now), [client], "at {now}");
            replica.prepares(now + 1, client);
            assert!(replica.answered(now + 1).is_empty());
            now += 21;
            replica.pending = false;
        }
        now
    }

    /// A line of many, after a writer from elsewhere at 0 whose outcome has come at 3,000.
    fn contended() -> Fixture {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 99));
        replica.prepares(0, 98);
        replica.turns.lines.values_mut().for_each(|line| line.held_since = Some(at(3_000)));
        for client in 1..=60 {
            assert!(replica.reads(3_000, client));
        }
        replica.pending = false;
        assert!(replica.answered(3_000).is_empty());
        replica
    }

    #[test]
    fn a_gap_is_left_after_so_many_turns_in_a_row_and_not_after_fewer() {
        let most = u64::from(STREAK_MAX);
        let mut replica = contended();
        let ended = take_turns(&mut replica, 3_010, 1..most);
        assert_eq!(replica.answered(ended), [most], "that is one less");
        let mut replica = contended();
        let ended = take_turns(&mut replica, 3_010, 1..most + 1);
        assert!(replica.answered(ended).is_empty());
        // Another's write begins a new count, on which a full streak follows.
        let mut replica = contended();
        let ended = take_turns(&mut replica, 3_010, 1..most);
        replica.prepares(ended, 97);
        assert!(replica.answered(ended).is_empty());
        replica.pending = false;
        assert!(replica.answered(ended + 20).is_empty(), "another may be on its heels");
        let ended = take_turns(&mut replica, ended + 30, most..2 * most - 1);
        assert_eq!(replica.answered(ended), [2 * most - 1], "of that count it is one less again");
    }

    #[test]
    fn no_writes_but_those_of_the_one_whose_turn_it_is_count_as_its_own() {
        for other in [0, 50] {
            let mut replica = contended();
            assert_eq!(replica.answered(3_010), [1]);
            // One with a lesser or a greater name comes from elsewhere, and the turn goes on.
            replica.prepares(3_011, other);
            assert!(replica.answered(3_012).is_empty());
            replica.pending = false;
            assert!(replica.answered(3_020).is_empty());
            assert!(replica.answered(3_030).is_empty(), "it is still the turn of 1");
            replica.prepares(3_040, 1);
            assert!(replica.answered(3_041).is_empty());
            replica.pending = false;
            assert_eq!(replica.answered(3_060), [2], "the last write was one of the line: no heels");
        }
    }

    #[test]
    fn a_prepare_that_writes_nothing_is_no_writer() {
        let mut replica = contended();
        // Neither by another, when the next is due, …
        replica.turns.on_prepare(transaction(97), &key(), false, at(3_005));
        assert_eq!(replica.answered(3_010), [1]);
        // … nor by the one whose turn it is.
        replica.prepares(3_011, 1);
        assert!(replica.answered(3_011).is_empty());
        replica.pending = false;
        assert_eq!(replica.answered(3_030), [2]);
        replica.turns.on_prepare(transaction(2), &key(), false, at(3_031));
        assert_eq!(replica.answered(3_031), [3], "the line goes on at once");
        let line = replica.turns.lines.values().next().unwrap();
        assert_eq!((line.streak, line.own_writer), (1, Some(transaction(1))));
    }

    #[test]
    fn a_line_that_is_free_is_not_used_because_others_are_looked_at() {
        let (remembered, other) = (REMEMBERED.as_millis() as u64, Key::from("other"));
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1));
        replica.pending = false;
        assert!(replica.answered(100).is_empty());
        assert_eq!(replica.answered(110), [1]);
        let from = Address::Client(ClientId(5));
        assert!(replica.turns.join(from, transaction(5), &other, true, at(1_900)));
        let pending = |key: &Key| *key == other;
        assert!(replica.turns.take(pending, at(1_900), Duration::from_secs(2)).is_empty());
        assert!(!replica.reads(110 + remembered, 2), "nobody has used it since 110");
        // One that somebody was about to write when it was looked at is in use.
        assert!(replica.turns.join(from, transaction(6), &other, false, at(1_899 + remembered)));
    }

    #[test]
    fn a_turn_that_is_over_by_a_prepare_counts_as_long_as_it_took() {
        // Turns that end at once make the next ones short; one that has lasted lengthens them again.
        let last = |turns: &[u64]| *limits(turns).last().unwrap();
        let short = vec![0; 40];
        let then = |took: u64| last(&[short.as_slice(), &[took, 0]].concat());
        assert_eq!(then(0), TURN_MIN);
        assert!(then(4) >= TURN_MIN && then(4) < Duration::from_millis(6));
        assert_eq!(limits(&[300, 0])[1], TURN_MAX);
        assert_eq!(limits(&[75, 0]), [TURN_MAX, TURN_MAX], "four times what is usual, which stays as it is");
        assert_eq!(limits(&[35, 0])[1], Duration::from_millis(280));
    }

    #[test]
    fn a_reader_that_asks_again_keeps_its_place_and_does_not_wait_twice() {
        let mut replica = Fixture::new();
        replica.pending = true;
        assert!(replica.reads(0, 1) && replica.reads(0, 2) && replica.reads(50, 1));
        assert_eq!(replica.turns.waiting, 2);
        replica.pending = false;
        assert!(replica.answered(100).is_empty());
        assert_eq!(replica.answered(110), [1]);
        assert_eq!(replica.turns.waiting, 1);
        assert_eq!(replica.answered(110 + TURN_MAX.as_millis() as u64), [2]);
        assert!(replica.turns.is_empty());
    }

    #[test]
    fn one_that_has_not_asked_again_within_its_patience_is_passed_over() {
        for (now, answered) in [(2_000, vec![1]), (2_001, vec![])] {
            let mut replica = Fixture::new();
            replica.pending = true;
            assert!(replica.reads(0, 1));
            replica.prepares(1_900, 9);
            replica.pending = false;
            assert!(replica.answered(1_980).is_empty());
            assert_eq!(replica.answered(now), answered, "at {now}");
        }
    }

    #[test]
    fn one_client_reads_in_the_order_in_which_it_has_asked() {
        let mut replica = Fixture::new();
        let mut id = transaction(1);
        for sequence in [3, 1, 2] {
            id.sequence = sequence;
            assert!(replica.turns.join(Address::Client(ClientId(1)), id, &key(), true, at(0)));
        }
        assert!(replica.turns.take(|_| false, at(0), Duration::from_secs(9)).is_empty());
        let mut now = HEELS.as_millis() as u64;
        for sequence in [3, 1, 2] {
            let told = replica.turns.take(|_| false, at(now), Duration::from_secs(9));
            assert_eq!(told.iter().map(|answer| answer.transaction.sequence).collect::<Vec<_>>(), [sequence]);
            now += TURN_MAX.as_millis() as u64;
        }
    }
}
