//! Lines of readers, one reader after the other, and at random beside a look at every line.

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
fn the_heels_of_a_commit_are_left_to_the_next_in_line() {
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
fn a_client_that_has_gone_loses_its_place() {
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
    assert_eq!(looked_at(&mut replica, remembered), 1, "the last from elsewhere is forgotten within the gap");
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
                    let own = turns.lines.get(key).and_then(|line| line.turn.map(|turn| turn.transaction));
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
