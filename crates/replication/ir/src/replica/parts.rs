//! Messages in parts: what is said in a view change and is too large for one frame.
//!
//! The sender cuts such a message once, and keeps the cut for as long as it may be asked for it. The parts of one cut are a
//! *series*, whose number no other cut has: not one for another view, nor one of another life of the sender, nor one of the
//! same record a moment later. So parts that are put together always are those of one message.
//!
//! ```text
//!   sender     the first parts, unasked     the first of all has all that is no entry, and the outline: what the last parts hold
//!   receiver   those next, please           one for each that has arrived, but none of an outline that it holds itself
//!   receiver   those again, please          when nothing arrives any more
//! ```
//!
//! State is asked for in pages, each behind the last key of the one before.
//!
//! So a few parts are under way at any time, however many there are, and a loss costs as much as what was lost. The parts that an outline tells
//! of are not cut: they are read from the record when they are asked for. Nothing that they hold changes meanwhile, and nothing is
//! collected.

use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use quorate_core::Key;

use crate::Operations;
use crate::message::{Message, Part, PartRange};
use crate::record::{CursorRange, Outline, Record, RecordPage, Scope, Stretch};

/// So many bytes are under way at once, in parts of the usual size; with smaller ones as many as [`PARTS_UNDER_WAY`] allows.
const BYTES_UNDER_WAY_MAX: usize = 32 * 1024 * 1024;

/// At least and at most so many parts are under way at once. The fewest are sent unasked: of a view that is given up soon
/// nothing else is on its way, so views that fail do not fill a slow link.
const PARTS_UNDER_WAY: RangeInclusive<u32> = 8..=64;

/// So many pages of state are sent at once, after the first.
pub(super) const STATE_PAGES_AT_ONCE: usize = 8;

/// How many parts of roughly so many bytes each are under way at once. The same at the sender and the receiver.
pub(super) fn window(page_bytes_max: usize) -> u32 {
    let parts = u32::try_from(BYTES_UNDER_WAY_MAX / page_bytes_max.max(1)).unwrap_or(u32::MAX);
    parts.clamp(*PARTS_UNDER_WAY.start(), *PARTS_UNDER_WAY.end())
}

/// A slow network: so long may a record be on its way before its loss is suspected.
const BYTES_PER_SECOND_MIN: f64 = 16e6;

/// How long those of so many parts may be on their way that are under way at once.
pub(super) fn transfer_time(parts: usize, page_bytes_max: usize) -> Duration {
    let parts = parts.saturating_sub(1).min(window(page_bytes_max) as usize);
    Duration::from_secs_f64(parts as f64 * page_bytes_max as f64 / BYTES_PER_SECOND_MIN)
}

/// The content of one part of a message beside what all of them say.
#[derive(Debug)]
enum Content<O: Operations> {
    /// Entries.
    Page(RecordPage<O>),
    /// The entries that have ended in a part of the record.
    Stretch(CursorRange),
}

/// A page of state, and its last key if there are more.
pub(super) type StatePage<S> = (S, Option<Key>);

/// A message in parts, as its sender keeps it.
#[derive(Debug)]
pub(super) struct Cut<O: Operations> {
    series: u64,
    /// How many parts are under way at once.
    window: u32,
    /// The message without the content of any part.
    message: Message<O>,
    outline: Outline,
    scope: Scope,
    contents: Vec<Content<O>>,
    /// The first page of state.
    state: Option<StatePage<O::State>>,
    is_whole: bool,
}

impl<O: Operations> Cut<O> {
    /// Divides a message into these pages, at least one, and those of the outline. A message that fits into one needs no series.
    pub(super) fn new(
        message: Message<O>,
        pages: Vec<RecordPage<O>>,
        state: Option<StatePage<O::State>>,
        (outline, scope): (Outline, Scope),
        window: u32,
        series: impl FnOnce() -> u64,
    ) -> Self {
        assert!(!pages.is_empty(), "the first part is not one of the outline");
        let stretches = outline.stretches.iter().map(|stretch| Content::Stretch(stretch.range));
        let contents: Vec<_> = pages.into_iter().map(Content::Page).chain(stretches).collect();
        let is_whole = contents.len() == 1 && state.as_ref().is_none_or(|(_, to)| to.is_none());
        let series = if is_whole { Part::WHOLE.series } else { series() };
        Cut { series, window, message, outline, scope, contents, state, is_whole }
    }

    /// True if nothing else belongs to it but its first part.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// True if more of the state can be asked for under this series.
    pub(super) fn has_state(&self, series: u64) -> bool {
        self.series == series && self.state.as_ref().is_some_and(|(_, to)| to.is_some())
    }

    /// How many parts there are.
    pub(super) fn len(&self) -> usize {
        self.contents.len()
    }

    /// One part.
    fn part(&self, index: usize, record: &Record<O>) -> Message<O> {
        let content = match &self.contents[index] {
            Content::Page(page) => page.clone(),
            Content::Stretch(range) => record.stretch(*range, self.scope, self.outline.floor),
        };
        let is_first = index == 0;
        let told = if is_first { self.outline.clone() } else { Outline::default() };
        let this = Part { series: self.series, index: index as u32, count: self.contents.len() as u32 };
        let mut message = self.message.clone();
        match &mut message {
            Message::DoViewChange { part, page, outline, lineage, supplement, .. } => {
                (*part, *page, *outline) = (this, content, told);
                if !is_first {
                    (*lineage, *supplement) = Default::default();
                }
            }
            Message::StartView { part, page, outline, supplement, state, state_to, .. } => {
                (*part, *page, *outline) = (this, content, told);
                if is_first {
                    (*state, *state_to) =
                        self.state.clone().map_or((None, None), |(state, to)| (Some(state), to));
                } else {
                    *supplement = O::Supplement::default();
                }
            }
            other => unreachable!("{other:?} is never in parts"),
        }
        message
    }

    /// The parts that are sent unasked.
    pub(super) fn unasked(&self, record: &Record<O>) -> Vec<Message<O>> {
        let count = unasked(self.contents.len() as u32, &self.outline);
        (0..count as usize).map(|index| self.part(index, record)).collect()
    }

    /// The part that is repeated until the receiver is heard of: from it the receiver knows what it misses.
    pub(super) fn first(&self, record: &Record<O>) -> Message<O> {
        self.part(0, record)
    }

    /// The parts that a receiver misses of this series, each once, however often it was named, and not more than may be under way.
    pub(super) fn missing(&self, series: u64, ranges: &[PartRange], record: &Record<O>) -> Vec<Message<O>> {
        let (mut selected, mut next) = (Vec::new(), 0);
        let ranges = if series == self.series { ranges } else { &[] };
        for range in ranges {
            let from = (range.first as usize).max(next);
            next = (range.last as usize).saturating_add(1).min(self.contents.len()).max(next);
            selected.extend(from..next);
        }
        let selected = selected.into_iter().take(self.window as usize);
        selected.map(|index| self.part(index, record)).collect()
    }
}

/// How many parts of so many are sent unasked.
fn unasked(count: u32, outline: &Outline) -> u32 {
    count.saturating_sub(outline.stretches.len() as u32).clamp(1, *PARTS_UNDER_WAY.start())
}

/// The parts of a message as they arrive.
#[derive(Debug)]
pub(super) struct Collected<O: Operations> {
    series: u64,
    count: u32,
    /// How many parts are under way at once.
    window: u32,
    parts: BTreeMap<u32, RecordPage<O>>,
    states: States<O::State>,
    /// Once the first part is here: the parts from here on have not been asked for. Without it nothing is known of the others.
    asked: Option<u32>,
    /// Parts that hold what the receiver has, and which part of the record that is.
    kept: BTreeMap<u32, CursorRange>,
}

/// The state that a message comes with, as it arrives.
#[derive(Debug)]
struct States<S> {
    /// The first pages.
    pages: Vec<S>,
    /// The last key of these, if there are more.
    to: Option<Key>,
    /// How many there were when more were asked for.
    asked: usize,
    /// Pages that have overtaken others, by the key that they stand behind.
    early: BTreeMap<Key, StatePage<S>>,
}

impl<S> States<S> {
    fn new(first: Option<StatePage<S>>) -> Self {
        let (pages, to) = first.map_or((Vec::new(), None), |(state, to)| (vec![state], to));
        States { pages, to, asked: 0, early: BTreeMap::new() }
    }
}

/// The content of all parts of a message together.
#[derive(Debug)]
pub(in crate::replica) struct Received<O: Operations> {
    pub(in crate::replica) pages: Vec<RecordPage<O>>,
    pub(in crate::replica) states: Vec<O::State>,
    /// The parts of its own record that the receiver keeps, because the sender holds the same.
    pub(in crate::replica) kept: Vec<CursorRange>,
}

impl<O: Operations> Default for Received<O> {
    fn default() -> Self {
        Received { pages: Vec::new(), states: Vec::new(), kept: Vec::new() }
    }
}

impl<O: Operations> Collected<O> {
    pub(super) fn new(part: Part, window: u32) -> Self {
        let (parts, kept) = (BTreeMap::new(), BTreeMap::new());
        let (series, count) = (part.series, part.count);
        Collected { series, count, window, parts, states: States::new(None), asked: None, kept }
    }

    pub(super) fn belongs(&self, part: Part) -> bool {
        self.series == part.series && self.count == part.count
    }

    pub(super) fn series(&self) -> u64 {
        self.series
    }

    /// Adds a part. False if it is no news: it was repeated, and nothing has become of what is missing. Of those that the outline tells of, those
    /// that `is_held` says are held here are not missing.
    pub(super) fn add(
        &mut self,
        part: Part,
        page: RecordPage<O>,
        state: Option<StatePage<O::State>>,
        outline: &Outline,
        is_held: impl Fn(&Stretch) -> bool,
    ) -> bool {
        let is_known = self.parts.contains_key(&part.index) || self.kept.contains_key(&part.index);
        let is_new = part.index < self.count && !is_known;
        if !is_new {
            return false;
        }
        self.parts.insert(part.index, page);
        if part.index == 0 {
            self.states = States::new(state);
            self.asked = Some(unasked(self.count, outline));
            let first = self.count.saturating_sub(outline.stretches.len() as u32).max(1);
            let outlined = (first..self.count).zip(&outline.stretches);
            let held =
                outlined.filter(|(index, stretch)| !self.parts.contains_key(index) && is_held(stretch));
            self.kept = held.map(|(index, stretch)| (index, stretch.range)).collect();
        }
        assert!(
            self.parts.len() + self.kept.len() <= self.count as usize,
            "{} parts have arrived and {} are held, of {}",
            self.parts.len(),
            self.kept.len(),
            self.count
        );
        true
    }

    /// True if the first part has arrived, which has all that is no entry.
    pub(super) fn has_first(&self) -> bool {
        self.parts.contains_key(&0)
    }

    pub(super) fn is_complete(&self) -> bool {
        self.has_parts() && self.states.to.is_none()
    }

    fn has_parts(&self) -> bool {
        self.has_first() && self.parts.len() + self.kept.len() == self.count as usize
    }

    /// The key behind which the state is to be asked for, if some of it is missing. From now on that is under way.
    pub(super) fn ask_for_state(&mut self) -> Option<Key> {
        self.states.asked = self.states.pages.len();
        self.states.to.clone()
    }

    /// True if all pages that were asked for have arrived, and there are more.
    pub(super) fn has_state_asked_for(&self) -> bool {
        self.states.to.is_some() && self.states.pages.len() >= self.states.asked + STATE_PAGES_AT_ONCE
    }

    /// Adds a page of state. False if it is known, or so far beyond what is known that it was not asked for.
    pub(super) fn add_state(&mut self, after: Key, state: O::State, to: Option<Key>) -> bool {
        let States { pages, to: known, early, .. } = &mut self.states;
        let is_wanted = known.as_ref().is_some_and(|known| after >= *known) && !early.contains_key(&after);
        let has_an_end = to.as_ref().is_none_or(|to| *to > after);
        if !is_wanted || !has_an_end || early.len() >= 2 * STATE_PAGES_AT_ONCE {
            return false;
        }
        early.insert(after, (state, to));
        while let Some((state, to)) = known.as_ref().and_then(|after| early.remove(after)) {
            pages.push(state);
            *known = to;
        }
        assert!(
            known.as_ref().is_none_or(|known| !early.contains_key(known)),
            "the page behind {known:?} waits for itself"
        );
        true
    }

    /// The parts to ask for because another has arrived: as many as may be under way besides those that were asked for.
    pub(super) fn next(&mut self) -> Vec<PartRange> {
        let Some(asked) = self.asked else { return Vec::new() };
        let window = self.window_now();
        let under_way = self.missing_in(0..asked).take(window).count();
        let next: Vec<u32> = self.missing_in(asked..self.count).take(window - under_way).collect();
        self.asked = next.last().map_or(self.asked, |last| Some(last + 1));
        assert!(self.asked >= Some(asked), "{asked} parts had been asked for, and {:?} are", self.asked);
        ranges(next)
    }

    /// The parts that were asked for and have not arrived; not more than may be under way.
    pub(super) fn missing(&self) -> Vec<PartRange> {
        let asked = self.asked.unwrap_or(1);
        ranges(self.missing_in(0..asked).take(self.window_now()))
    }

    /// How many parts may be under way by now: few at first, and as many again as have arrived.
    fn window_now(&self) -> usize {
        let least = *PARTS_UNDER_WAY.start() as usize;
        (2 * self.parts.len()).max(least).min(self.window as usize)
    }

    fn missing_in(&self, parts: Range<u32>) -> impl Iterator<Item = u32> + '_ {
        parts.filter(|index| !self.parts.contains_key(index) && !self.kept.contains_key(index))
    }

    pub(super) fn into_received(self) -> Received<O> {
        assert!(
            self.is_complete(),
            "{} of {} parts are taken for the whole",
            self.parts.len() + self.kept.len(),
            self.count
        );
        Received {
            pages: self.parts.into_values().filter(|page| !page.is_empty()).collect(),
            states: self.states.pages,
            kept: self.kept.into_values().collect(),
        }
    }
}

/// Ascending numbers as ranges.
fn ranges(parts: impl IntoIterator<Item = u32>) -> Vec<PartRange> {
    let mut ranges: Vec<PartRange> = Vec::new();
    for index in parts {
        match ranges.last_mut() {
            Some(range) if range.last + 1 == index => range.last = index,
            _ => ranges.push(PartRange { first: index, last: index }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use quorate_core::{Timestamp, TransactionId, View};

    use super::*;
    use crate::tests::Words;

    fn part(series: u64, index: u32, count: u32) -> Part {
        Part { series, index, count }
    }

    fn range(first: u32, last: u32) -> PartRange {
        PartRange { first, last }
    }

    fn message() -> Message<Words> {
        Message::StartView {
            view: View(1),
            since: None,
            part: Part::WHOLE,
            page: RecordPage::default(),
            outline: Outline::default(),
            supplement: (),
            floor: None,
            state: None,
            state_to: None,
        }
    }

    /// An outline of so many stretches.
    fn outline(stretches: u64) -> Outline {
        let cursor = |micros| (Timestamp { micros, ..Timestamp::ZERO }, TransactionId::default());
        let range = |at| CursorRange { first: cursor(at), last: cursor(at) };
        let stretch = |at| Stretch { range: range(at), ended: Default::default() };
        Outline { floor: Timestamp::ZERO, stretches: (0..stretches).map(stretch).collect() }
    }

    fn cut(pages: usize, stretches: u64) -> Cut<Words> {
        let pages = (0..pages).map(|_| RecordPage::default()).collect();
        Cut::new(message(), pages, None, (outline(stretches), Scope::Tail), 8, || 7)
    }

    /// The parts of a message of so many, the last `stretches` of which are told of by its outline, and of these those `held`.
    fn collected(count: u32, stretches: u64, held: &[u64], arrived: &[u32]) -> Collected<Words> {
        let mut collected = Collected::new(part(7, 0, count), 8);
        let outline = outline(stretches);
        for &index in arrived {
            collected.add(part(7, index, count), RecordPage::default(), None, &outline, |stretch| {
                held.contains(&stretch.range.first.0.micros)
            });
        }
        collected
    }

    fn indices(messages: &[Message<Words>]) -> Vec<u32> {
        let index = |message: &Message<Words>| match message {
            Message::StartView { part, outline, .. } => {
                assert!(part.index == 0 || outline.stretches.is_empty(), "the first part has the outline");
                part.index
            }
            other => unreachable!("{other:?}"),
        };
        messages.iter().map(index).collect()
    }

    #[test]
    fn small_parts_are_more_at_once() {
        assert_eq!([1, 1 << 20, 4 << 20, 1 << 30, 0].map(window), [64, 32, 8, 8, 64]);
    }

    #[test]
    fn a_few_parts_are_sent_unasked_and_none_of_the_outline() {
        let record = Record::default();
        assert_eq!(indices(&cut(3, 0).unasked(&record)), [0, 1, 2]);
        assert_eq!(indices(&cut(1, 20).unasked(&record)), [0]);
        assert_eq!(indices(&cut(20, 20).unasked(&record)), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(indices(&[cut(20, 20).first(&record)]), [0]);
    }

    #[test]
    fn a_part_that_arrives_has_the_next_asked_for() {
        let mut parts = collected(12, 0, &[], &[1]);
        assert_eq!(parts.next(), [], "without the first part nothing is known of the others");
        assert_eq!(parts.missing(), [range(0, 0)]);
        let outline = outline(0);
        let mut arrives =
            |index| parts.add(part(7, index, 12), RecordPage::default(), None, &outline, |_| false);
        assert!(arrives(0));
        assert_eq!(parts.next(), [range(8, 9)], "eight are under way");
        assert_eq!(parts.next(), []);
        assert_eq!(parts.missing(), [range(2, 9)], "those that were asked for");
        assert!(parts.add(part(7, 5, 12), RecordPage::default(), None, &outline, |_| false));
        assert_eq!(parts.next(), [range(10, 10)]);
        assert_eq!(parts.missing(), [range(2, 4), range(6, 10)]);
    }

    #[test]
    fn as_many_again_are_asked_for_as_have_arrived() {
        let pages = (0..100).map(|_| RecordPage::default()).collect();
        let cut = Cut::new(message(), pages, None, (outline(0), Scope::Tail), 64, || 7);
        assert_eq!(indices(&cut.unasked(&Record::default())).len(), 8, "however many may be under way");
        let mut parts = Collected::<Words>::new(part(7, 0, 100), 64);
        let mut under_way = Vec::new();
        for index in 0..50 {
            let page = RecordPage::default();
            assert!(parts.add(part(7, index, 100), page, None, &Outline::default(), |_| false));
            parts.next();
            under_way.push(parts.missing().iter().map(|range| range.last + 1 - range.first).sum::<u32>());
        }
        assert_eq!(under_way[..6], [8, 8, 8, 8, 10, 12]);
        assert_eq!(under_way[30..34], [62, 64, 64, 64]);
    }

    #[test]
    fn what_the_receiver_holds_is_never_asked_for() {
        let mut parts = collected(6, 4, &[0, 2], &[0]);
        assert_eq!(parts.next(), [range(3, 3), range(5, 5)]);
        assert_eq!(parts.missing(), [range(1, 1), range(3, 3), range(5, 5)]);
        for index in [1, 3, 5] {
            assert!(!parts.is_complete());
            assert!(
                parts.add(part(7, index, 6), RecordPage::default(), None, &Outline::default(), |_| false)
            );
        }
        assert!(parts.is_complete());
        assert!(
            !parts.add(part(7, 2, 6), RecordPage::default(), None, &Outline::default(), |_| true),
            "held"
        );
        assert_eq!(parts.into_received().kept.len(), 2);
        assert!(collected(3, 2, &[0, 1], &[0]).is_complete());
        assert!(!collected(3, 2, &[0, 1], &[1, 2]).is_complete(), "the first part counts always");
        let sent = collected(3, 2, &[0, 1], &[2, 0]);
        assert!(sent.is_complete() && sent.into_received().kept.len() == 1, "one of them has arrived");
    }

    #[test]
    fn state_arrives_page_by_page_and_each_once() {
        let key = Key::from;
        let mut parts = Collected::<Words>::new(part(7, 0, 1), 8);
        let (page, state) = (RecordPage::default(), Some(((), Some(key("c")))));
        assert!(parts.add(part(7, 0, 1), page, state, &Outline::default(), |_| false));
        assert!(!parts.is_complete() && parts.ask_for_state() == Some(key("c")));
        assert!(!parts.add_state(key("b"), (), None), "it is known");
        assert!(!parts.add_state(key("c"), (), Some(key("c"))), "it would have no end");
        assert!(parts.add_state(key("f"), (), Some(key("g"))), "it has overtaken the next");
        assert!(!parts.add_state(key("f"), (), Some(key("g"))), "it was repeated");
        assert!(parts.add_state(key("c"), (), Some(key("f"))));
        assert!(!parts.is_complete() && parts.ask_for_state() == Some(key("g")));
        for (after, to) in
            ["g", "h", "i", "j", "k", "l", "m", "n", "o"].windows(2).map(|pair| (pair[0], pair[1]))
        {
            assert!(!parts.has_state_asked_for());
            assert!(parts.add_state(key(after), (), Some(key(to))));
        }
        assert!(parts.has_state_asked_for(), "eight have arrived");
        assert_eq!(parts.ask_for_state(), Some(key("o")));
        assert!(!parts.has_state_asked_for());
        for number in 0..2 * STATE_PAGES_AT_ONCE {
            assert!(parts.add_state(Key::from(format!("p{number:02}")), (), None));
        }
        assert!(!parts.add_state(key("q"), (), None), "that many were not asked for");
        assert!(!parts.is_complete());
        parts.states.early.clear();
        assert!(parts.add_state(key("o"), (), None));
        assert!(!parts.add_state(key("o"), (), None), "nothing is missing any more");
        assert!(parts.is_complete() && parts.into_received().states.len() == 12);
        let pages = vec![RecordPage::default()];
        let state = Some(((), Some(key("c"))));
        let cut = Cut::<Words>::new(message(), pages, state, (Outline::default(), Scope::Tail), 8, || 7);
        assert!(!cut.is_whole() && cut.has_state(7) && !cut.has_state(8) && !cut.has_state(6));
        let pages = vec![RecordPage::default()];
        let cut =
            Cut::<Words>::new(message(), pages, Some(((), None)), (Outline::default(), Scope::Tail), 8, || 7);
        assert!(cut.is_whole() && !cut.has_state(0));
    }

    #[test]
    fn whatever_a_count_claims_little_is_asked_for() {
        let mut parts = collected(u32::MAX, 0, &[], &[0, 3]);
        assert_eq!(parts.next(), [range(8, 9)]);
        let mut parts = collected(3, 100, &[], &[0]);
        assert_eq!(parts.next(), [range(1, 2)], "an outline of more parts than there are");
        let mut parts = collected(3, 100, &[0], &[0]);
        assert_eq!(parts.next(), [range(2, 2)], "the first part is never one of the outline");
    }

    #[test]
    fn a_part_counts_once_and_only_within_its_series() {
        let mut parts = collected(3, 0, &[], &[0, 2]);
        let mut arrives = |index, count| {
            parts.add(part(7, index, count), RecordPage::default(), None, &Outline::default(), |_| false)
        };
        assert!(!arrives(2, 3), "it was repeated");
        assert!(!arrives(3, 3), "there is no such part");
        assert!(!parts.is_complete() && parts.parts.len() == 2);
        assert!(!parts.belongs(part(8, 1, 3)) && !parts.belongs(part(6, 1, 3)));
        assert!(!parts.belongs(part(7, 1, 4)) && !parts.belongs(part(7, 1, 2)));
        assert!(parts.add(part(7, 1, 3), RecordPage::default(), None, &Outline::default(), |_| false));
        assert!(parts.is_complete());
    }

    #[test]
    fn what_is_asked_for_is_sent_once() {
        let record = Record::default();
        let sent = |series, ranges: &[PartRange]| indices(&cut(3, 9).missing(series, ranges, &record));
        assert_eq!(sent(7, &[range(0, 0), range(2, 3)]), [0, 2, 3]);
        assert_eq!(sent(7, &[range(2, 3), range(1, 3), range(2, 4)]), [2, 3, 4]);
        assert_eq!(sent(7, &[range(12, 15), range(u32::MAX, 0)]), [] as [u32; 0]);
        assert_eq!(sent(7, &[range(0, u32::MAX)]).len(), 8, "a few at once");
        assert_eq!(sent(8, &[range(0, 4)]), [] as [u32; 0], "of another series there is nothing here");
    }

    #[test]
    fn what_fits_into_one_part_needs_no_series() {
        let contents = vec![RecordPage::default()];
        let drawn = || unreachable!("it is not drawn");
        let whole = Cut::<Words>::new(message(), contents, None, (Outline::default(), Scope::Tail), 8, drawn);
        assert!(whole.is_whole() && !cut(2, 0).is_whole() && !cut(1, 1).is_whole());
        let first = whole.first(&Record::default());
        assert!(matches!(first, Message::StartView { part: Part::WHOLE, .. }), "{first:?}");
    }
}
