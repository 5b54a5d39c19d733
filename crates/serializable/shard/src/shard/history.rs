//! The writes that a shard retains for consumers of changes, in the serial order (ADR 0079).
//!
//! ```text
//!   ── let go ──┬──── settled, in chunks ────┬── may be undone ──►  places
//!            horizon                      settled
//! ```
//!
//! A write is noted when it runs, at its place. A leader runs ahead of its log and may be rewound, so what is not settled is kept apart. Settled writes never
//! change: they lie in chunks that frozen states share.
//!
//! Which writes belong to a state follows from the settled ones alone: those at the latest timestamps, by the time between them and by their bytes. So all replicas
//! retain the same of the same log, and what one gives to another is what that one would have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use quorate_core::changes::{Answer, Change, PAGE_BYTES, PAGE_WRITES, Page, Request, Retention, successor};
use quorate_core::{ClientId, ClockTime, Key, Timestamp, Value, Write};
use quorate_granola::Place;

use super::versions::Writes;

/// A chunk has so many transactions.
const CHUNK: usize = 256;

/// The writes of a transaction at its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The place.
    pub place: Place,
    /// The writes, ascending by key; at least one.
    pub writes: Vec<Write>,
}

impl Written {
    /// About how many bytes it takes in memory.
    fn bytes(&self) -> usize {
        const OVERHEAD: usize = 96;
        let of = |write: &Write| OVERHEAD + write.key.len() + write.value.as_ref().map_or(0, |it| it.len());
        self.writes.iter().map(of).sum()
    }

    /// Its position: two transactions of one client may have the same.
    fn position(&self) -> Timestamp {
        Timestamp { micros: self.place.timestamp.as_micros(), client: self.place.transaction.client }
    }
}

/// The first position of a timestamp.
fn position_of(timestamp: ClockTime) -> Timestamp {
    Timestamp { micros: timestamp.as_micros(), client: ClientId(0) }
}

/// The writes that are retained.
#[derive(Clone, Debug)]
pub(crate) struct History {
    retention: Retention,
    /// Everything that was written at this timestamp or above is there; none if it is not known from where on.
    horizon: Option<ClockTime>,
    /// The settled ones, in their order, but for the first few of the first chunk, which were let go.
    settled: VecDeque<Arc<Vec<Written>>>,
    skipped: usize,
    /// The bytes of those.
    bytes: usize,
    /// Those that may be undone.
    open: BTreeMap<Place, Written>,
}

impl Default for History {
    fn default() -> Self {
        History {
            retention: Retention::default(),
            horizon: Some(ClockTime::default()),
            settled: VecDeque::new(),
            skipped: 0,
            bytes: 0,
            open: BTreeMap::new(),
        }
    }
}

impl History {
    /// So much is retained from now on.
    pub(crate) fn set_retention(&mut self, retention: Retention) {
        self.retention = retention;
    }

    /// The bytes of what is retained and settled.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Everything that was written at this timestamp or above is there; none if it is not known from where on.
    pub(crate) fn horizon(&self) -> Option<ClockTime> {
        self.horizon
    }

    /// A transaction has written at its place. It makes no difference how often that is said.
    pub(crate) fn note(&mut self, place: Place, writes: &Writes) {
        if writes.is_empty() {
            return;
        }
        // What comes later stands above what a state from a replica without a history has led to.
        self.horizon.get_or_insert(place.timestamp);
        let write = |(key, value): (&Key, &Option<Value>)| Write {
            // A key may share the memory of the message that it came in, and is retained for long.
            key: Key::copy_from_slice(key),
            value: value.clone(),
        };
        self.open.insert(place, Written { place, writes: writes.iter().map(write).collect() });
    }

    /// What was written at this place and above is undone.
    pub(crate) fn rewind(&mut self, to: Place) {
        drop(self.open.split_off(&to));
    }

    /// Nothing below a place changes any more, or nothing at all.
    pub(crate) fn settle(&mut self, below: Option<Place>) {
        let open = match below {
            Some(below) => self.open.split_off(&below),
            None => BTreeMap::new(),
        };
        for (_, written) in std::mem::replace(&mut self.open, open) {
            self.add(written);
        }
        self.let_go();
    }

    fn add(&mut self, written: Written) {
        self.bytes += written.bytes();
        match self.settled.back_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => Arc::make_mut(chunk).push(written),
            None => self.settled.push_back(Arc::new(vec![written])),
        }
    }

    /// Lets go what is retained for too long, or is too much.
    fn let_go(&mut self) {
        let Some(last) = self.settled.back().and_then(|chunk| chunk.last()) else { return };
        let micros = last.place.timestamp.as_micros();
        let kept = ClockTime::from_micros(micros.saturating_sub(self.retention.time.as_micros() as u64));
        while let Some(first) = self.first() {
            let timestamp = first.place.timestamp;
            // Transactions that have one timestamp are let go together.
            let is_begun = self.horizon.is_some_and(|horizon| timestamp < horizon);
            if timestamp >= kept && self.bytes as u64 <= self.retention.bytes && !is_begun {
                break;
            }
            self.horizon = self.horizon.max(Some(after(timestamp)));
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        self.bytes -= self.first().map_or(0, Written::bytes);
        self.skipped += 1;
        if self.settled.front().is_some_and(|chunk| chunk.len() <= self.skipped) {
            self.settled.pop_front();
            self.skipped = 0;
        }
    }

    fn first(&self) -> Option<&Written> {
        self.settled.front().and_then(|chunk| chunk.get(self.skipped))
    }

    /// The settled part and what is open below a place, as they are in a state to which nothing at the place or above belongs.
    pub(crate) fn freeze(&self, below: Option<Place>) -> Frozen {
        let open = match below {
            Some(below) => self.open.range(..below),
            None => self.open.range(..),
        };
        let mut history = History {
            retention: self.retention,
            horizon: self.horizon,
            settled: self.settled.clone(),
            skipped: self.skipped,
            bytes: self.bytes,
            open: BTreeMap::new(),
        };
        open.for_each(|(_, written)| history.add(written.clone()));
        history.let_go();
        Frozen { history, is_begun: false }
    }

    /// Takes over a page of the history of a state.
    pub(crate) fn restore(&mut self, retained_from: ClockTime, page: Vec<Written>) {
        self.horizon = Some(retained_from);
        page.into_iter().for_each(|written| self.add(written));
    }

    /// The state that is taken over comes from a replica that knows no history, unless a page says otherwise.
    pub(crate) fn forget(&mut self) {
        *self = History { horizon: None, retention: self.retention, ..History::default() };
    }

    /// The answer to a consumer, where everything below `certain` has run and nothing will be undone or come there any more.
    pub(crate) fn answer(&self, request: &Request, certain: ClockTime) -> Answer {
        let Some(horizon) = self.horizon else {
            return Answer::unable(
                "its state comes from an earlier program: it retains what is written next",
            );
        };
        let from = request.from.unwrap_or_else(|| position_of(certain.max(horizon)));
        if from < position_of(horizon) {
            return Answer::TooOld { retained_from: position_of(horizon) };
        }
        // Another replica may be further than this one, which then knows nothing.
        let to = position_of(certain).max(from);
        let (mut changes, mut bytes, mut looked_at) = (Vec::new(), 0, 0);
        let mut last = None;
        for written in self.from(from).take_while(|written| written.position() < to) {
            let position = written.position();
            let is_full = bytes >= request.bytes_max.min(PAGE_BYTES) || looked_at >= PAGE_WRITES;
            if let Some(last) = last.filter(|last| is_full && *last < position) {
                return Answer::Page(Page { from, to: successor(last), changes, is_last: false });
            }
            last = Some(position);
            looked_at += written.writes.len();
            let wanted = written.writes.iter().filter(|write| request.keys.contains(&write.key));
            let writes: Vec<Write> = wanted.cloned().collect();
            if !writes.is_empty() {
                let change = Change::of_writes(position, writes);
                bytes += change.bytes();
                changes.push(change);
            }
        }
        Answer::Page(Page { from, to, changes, is_last: true })
    }

    /// What was written from a position on.
    fn from(&self, position: Timestamp) -> impl Iterator<Item = &Written> {
        let is_before = |written: &Written| written.position() < position;
        let chunk = self.settled.partition_point(|chunk| chunk.last().is_some_and(is_before));
        let settled = self.settled.range(chunk..).flat_map(|chunk| chunk.iter());
        settled.chain(self.open.values()).skip_while(move |written| written.position() < position)
    }
}

/// The timestamp above another.
fn after(timestamp: ClockTime) -> ClockTime {
    ClockTime::from_micros(timestamp.as_micros().saturating_add(1))
}

/// The history of a state, page by page.
#[derive(Debug)]
pub(crate) struct Frozen {
    history: History,
    is_begun: bool,
}

impl Frozen {
    /// The next writes of about so many bytes, and from where on everything is there; none once all were given, but for a first page.
    pub(crate) fn next_page(&mut self, bytes_max: usize) -> Option<(ClockTime, Vec<Written>)> {
        let horizon = self.history.horizon?;
        let (mut page, mut bytes) = (Vec::new(), 0);
        while bytes < bytes_max
            && let Some(written) = self.history.first().cloned()
        {
            bytes += written.bytes();
            page.push(written);
            self.history.drop_first();
        }
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        (is_first || !page.is_empty()).then_some((horizon, page))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use quorate_core::{KeyRange, TransactionId};

    use super::*;

    fn place(micros: u64) -> Place {
        let transaction = TransactionId { client: ClientId(1), sequence: micros, attempt: 0 };
        Place { timestamp: ClockTime::from_micros(micros), transaction }
    }

    fn at(micros: u64) -> ClockTime {
        ClockTime::from_micros(micros)
    }

    fn position(micros: u64) -> Timestamp {
        position_of(at(micros))
    }

    fn retaining(micros: u64, bytes: u64) -> History {
        let mut history = History::default();
        history.set_retention(Retention { time: Duration::from_micros(micros), bytes });
        history
    }

    fn write(history: &mut History, place: Place, keys: &[&'static str]) {
        let value = Some(Value::from(place.timestamp.as_micros().to_string()));
        history.note(place, &keys.iter().map(|key| (Key::from(*key), value.clone())).collect());
    }

    fn page(history: &History, from: u64, certain: u64) -> Page {
        match history.answer(&Request::all(Some(position(from))), at(certain)) {
            Answer::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    fn told(page: &Page) -> Vec<u64> {
        page.changes.iter().map(|change| change.timestamp.micros).collect()
    }

    fn pages(history: &History, below: Option<Place>) -> Vec<(ClockTime, Vec<Written>)> {
        let mut frozen = history.freeze(below);
        std::iter::from_fn(|| frozen.next_page(500)).collect()
    }

    #[test]
    fn what_is_certain_is_told_in_the_serial_order_whenever_it_has_run() {
        let mut history = History::default();
        // A leader that locks runs what stands above first.
        for micros in [10, 30, 20, 40] {
            write(&mut history, place(micros), &["a"]);
        }
        history.settle(Some(place(30)));
        let told_of = page(&history, 0, 40);
        assert_eq!((told(&told_of), told_of.to), (vec![10, 20, 30], position(40)));
        assert_eq!(told_of.changes[1].writes[0].value, Some(Value::from("20")), "though it is overwritten");
        assert_eq!(told(&page(&history, 20, 40)), [20, 30], "it begins at the position itself");
        let behind = page(&history, 50, 40);
        assert_eq!((behind.to, behind.changes), (position(50), vec![]), "others are further");
        let Answer::Page(now) = history.answer(&Request::all(None), at(35)) else { panic!() };
        assert_eq!((now.from, now.to, now.changes), (position(35), position(35), vec![]));
    }

    #[test]
    fn what_is_undone_is_not_told() {
        let mut history = History::default();
        for micros in [10, 20, 30] {
            write(&mut history, place(micros), &["a"]);
        }
        history.rewind(place(20));
        write(&mut history, place(25), &["b"]);
        assert_eq!(told(&page(&history, 0, 100)), [10, 25]);
    }

    #[test]
    fn only_the_keys_that_are_wanted_are_told() {
        let mut history = History::default();
        write(&mut history, place(10), &["a", "b"]);
        write(&mut history, place(20), &["c"]);
        let keys = KeyRange { from: Key::from("b"), to: Some(Key::from("c")) };
        let request = Request { keys, ..Request::all(Some(position(0))) };
        let Answer::Page(page) = history.answer(&request, at(30)) else { panic!() };
        assert_eq!((told(&page), page.changes[0].writes.len(), page.to), (vec![10], 1, position(30)));
    }

    #[test]
    fn what_is_let_go_is_bounded_by_time_and_by_bytes() {
        let written = |micros, bytes| {
            let mut history = retaining(micros, bytes);
            (1..=9).for_each(|number| write(&mut history, place(number * 10), &["a"]));
            history.settle(None);
            history
        };
        let each = written(1_000, u64::MAX).bytes() as u64 / 9;
        for (micros, bytes, horizon) in [
            (1_000, u64::MAX, 0),
            (35, u64::MAX, 51),
            (1_000, 2 * each, 71),
            (0, u64::MAX, 81),
            (1_000, 0, 91),
        ] {
            let history = written(micros, bytes);
            assert_eq!(history.horizon(), Some(at(horizon)), "{micros} {bytes}");
            assert!(matches!(
                history.answer(&Request::all(Some(position(horizon))), at(100)),
                Answer::Page(_)
            ));
            if horizon > 0 {
                let too_old = Answer::TooOld { retained_from: position(horizon) };
                assert_eq!(history.answer(&Request::all(Some(position(horizon - 1))), at(100)), too_old);
            }
        }
    }

    #[test]
    fn transactions_of_one_timestamp_are_told_in_one_page_and_let_go_together() {
        let of = |client, sequence| Place {
            timestamp: at(10),
            transaction: TransactionId { client: ClientId(client), sequence, attempt: 0 },
        };
        let mut history = retaining(1_000, u64::MAX);
        for place in [of(1, 1), of(1, 2), of(2, 1), place(20)] {
            write(&mut history, place, &["a"]);
        }
        history.settle(None);
        let request = Request { bytes_max: 1, ..Request::all(Some(position(0))) };
        let Answer::Page(first) = history.answer(&request, at(30)) else { panic!() };
        assert_eq!((first.changes.len(), first.is_last), (2, false), "those of one client and timestamp");
        let request = Request { from: Some(first.to), ..request };
        let Answer::Page(second) = history.answer(&request, at(30)) else { panic!() };
        assert_eq!((second.from, second.changes.len()), (first.to, 1));
        let each = history.bytes() as u64 / 4;
        history.set_retention(Retention { bytes: 3 * each, ..history.retention });
        history.settle(None);
        assert_eq!((history.horizon(), told(&page(&history, 11, 30))), (Some(at(11)), vec![20]));
    }

    #[test]
    fn pages_follow_each_other_and_end_between_transactions() {
        let mut history = History::default();
        let large = Some(Value::from(vec![b'x'; 10_000]));
        for micros in 1..=200 {
            let writes = [("a", &large), ("b", &large)];
            history.note(place(micros), &writes.map(|(key, value)| (Key::from(key), value.clone())).into());
            history.settle(Some(place(micros / 2)));
        }
        let (mut request, mut found, mut pages) = (Request::all(Some(position(0))), Vec::new(), 0);
        loop {
            let Answer::Page(page) = history.answer(&request, at(1_000)) else { panic!() };
            assert_eq!(Some(page.from), request.from);
            assert!(page.changes.iter().all(|change| change.writes.len() == 2), "none is divided");
            found.extend(told(&page));
            pages += 1;
            if page.is_last {
                break;
            }
            request.from = Some(page.to);
        }
        assert_eq!(found, (1..=200).collect::<Vec<u64>>());
        assert!(pages > 3, "{pages} pages");
    }

    #[test]
    fn a_history_that_comes_from_nowhere_begins_with_the_next_write() {
        let mut history = History::default();
        history.forget();
        assert!(matches!(history.answer(&Request::all(None), at(10)), Answer::Unable { .. }));
        assert_eq!(history.freeze(None).next_page(100), None, "it says nothing to others either");
        write(&mut history, place(20), &["a"]);
        let too_old = Answer::TooOld { retained_from: position(20) };
        assert_eq!(history.answer(&Request::all(Some(position(19))), at(30)), too_old);
        assert_eq!(told(&page(&history, 20, 30)), [20]);
    }

    proptest! {
        /// One that settles sooner, one that is restored from pages half way, and one that has all at once hold the same in the end.
        #[test]
        fn what_is_retained_follows_from_what_was_written(
            steps in proptest::collection::vec((1u64..30, 1usize..4), 1..600),
            micros in 1u64..3_000,
            each in 1u64..200,
            half in 0usize..600,
        ) {
            let new = || retaining(micros, each * 110);
            let (mut at_once, mut in_steps, mut restored) = (new(), new(), new());
            let (mut now, keys) = (0, ["a", "b", "c"]);
            for (number, (pause, count)) in steps.into_iter().enumerate() {
                now += pause;
                let at = place(now);
                for history in [&mut at_once, &mut in_steps, &mut restored] {
                    write(history, at, &keys[..count]);
                }
                in_steps.settle(None);
                if number == half {
                    let given = pages(&restored, None);
                    prop_assert_eq!(&given, &pages(&in_steps, None));
                    restored = new();
                    restored.forget();
                    given.into_iter().for_each(|(horizon, page)| restored.restore(horizon, page));
                }
            }
            let below = Some(place(now));
            // What runs ahead of a place leaves no mark in what is frozen below it.
            let (mut ahead, mut exact) = (at_once.clone(), at_once.clone());
            exact.rewind(place(now));
            write(&mut ahead, place(now + 5_000), &["a"]);
            prop_assert_eq!(pages(&ahead, below), pages(&exact, None));
            at_once.settle(None);
            prop_assert_eq!(pages(&at_once, None), pages(&in_steps, None));
            prop_assert_eq!(pages(&restored, None), pages(&in_steps, None));
            prop_assert_eq!(at_once.bytes(), in_steps.bytes());
        }
    }
}
