//! Messages in parts: what is said in a view change and is too large for one frame.
//!
//! The sender cuts such a message once, and keeps the cut for as long as it may be asked for it. The parts of one cut are a
//! *series*, whose number no other cut has: not one for another view, nor one of another life of the sender, nor one of the
//! same record a moment later. So parts that are put together always are those of one message. The receiver keeps what has
//! arrived, in whatever order, and asks for what has not; what was lost is sent again, and only that. Time and traffic
//! are those of the message and of its losses, however many parts it has.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Operations;
use crate::message::{Message, Part, PartRange};
use crate::record::RecordPage;

/// So many gaps are named at once; those that come after them are asked for once they are filled.
const GAPS_ASKED_MAX: usize = 4_096;

/// A slow network: so long may a record be on its way before its loss is suspected.
const BYTES_PER_SECOND_MIN: f64 = 16e6;

/// How long `bytes` may be on their way.
pub(super) fn transfer_time(bytes: usize) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND_MIN)
}

/// A message in parts, as its sender keeps it.
#[derive(Debug)]
pub(super) struct Cut<O: Operations> {
    series: u64,
    parts: Vec<Message<O>>,
}

impl<O: Operations> Cut<O> {
    /// Makes a message of each page. What fits into one needs no series.
    pub(super) fn new<T>(
        pages: Vec<T>,
        series: impl FnOnce() -> u64,
        message: impl Fn(Part, T) -> Message<O>,
    ) -> Self {
        let count = pages.len() as u32;
        let series = if count > 1 { series() } else { Part::WHOLE.series };
        let part = |index| Part { series, index: index as u32, count };
        let parts = pages.into_iter().enumerate().map(|(index, page)| message(part(index), page)).collect();
        Cut { series, parts }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.parts.len() == 1
    }

    /// Everything, for the first time.
    pub(super) fn all(&self) -> &[Message<O>] {
        &self.parts
    }

    /// The part that is repeated until the receiver is heard of: from it the receiver knows what it misses.
    pub(super) fn first(&self) -> &Message<O> {
        &self.parts[0]
    }

    /// The parts that somebody misses of this series, each once, however often it was named.
    pub(super) fn missing(&self, series: u64, ranges: &[PartRange]) -> Vec<&Message<O>> {
        let (mut selected, mut next) = (Vec::new(), 0);
        let ranges = if series == self.series { ranges } else { &[] };
        for range in ranges {
            let from = (range.first as usize).max(next);
            next = (range.last as usize).saturating_add(1).min(self.parts.len()).max(next);
            selected.extend(self.parts.get(from..next).into_iter().flatten());
        }
        selected
    }
}

/// The parts of a message as they arrive.
#[derive(Debug)]
pub(super) struct Collected<O: Operations> {
    series: u64,
    count: u32,
    parts: BTreeMap<u32, (RecordPage<O>, Option<O::State>)>,
}

/// What came in all parts of a message together.
#[derive(Debug)]
pub(in crate::replica) struct Received<O: Operations> {
    pub(in crate::replica) pages: Vec<RecordPage<O>>,
    pub(in crate::replica) states: Vec<O::State>,
}

impl<O: Operations> Default for Received<O> {
    fn default() -> Self {
        Received { pages: Vec::new(), states: Vec::new() }
    }
}

impl<O: Operations> Collected<O> {
    pub(super) fn new(part: Part) -> Self {
        Collected { series: part.series, count: part.count, parts: BTreeMap::new() }
    }

    pub(super) fn belongs(&self, part: Part) -> bool {
        self.series == part.series && self.count == part.count
    }

    pub(super) fn series(&self) -> u64 {
        self.series
    }

    /// Adds a part. False if it is no news: it was repeated, and nothing has become of what is missing.
    pub(super) fn add(&mut self, part: Part, page: RecordPage<O>, state: Option<O::State>) -> bool {
        let is_new = part.index < self.count && !self.parts.contains_key(&part.index);
        if is_new {
            self.parts.insert(part.index, (page, state));
        }
        is_new
    }

    pub(super) fn is_complete(&self) -> bool {
        self.parts.len() == self.count as usize
    }

    /// The gaps between the parts that have arrived, ascending; not more than are asked for at once.
    pub(super) fn missing(&self) -> Vec<PartRange> {
        let mut next = 0;
        let ends = self.parts.keys().copied().chain([self.count]);
        let gaps = ends.filter_map(|end| {
            let first = std::mem::replace(&mut next, end.saturating_add(1));
            (first < end).then(|| PartRange { first, last: end - 1 })
        });
        gaps.take(GAPS_ASKED_MAX).collect()
    }

    pub(super) fn into_received(self) -> Received<O> {
        let (pages, states): (Vec<_>, Vec<_>) = self.parts.into_values().unzip();
        Received {
            pages: pages.into_iter().filter(|page| !page.is_empty()).collect(),
            states: states.into_iter().flatten().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::View;

    use super::*;
    use crate::tests::Words;

    /// A series of queries, whose nonces tell which is which.
    fn cut(parts: u64) -> Cut<Words> {
        let message = |part: Part, nonce| {
            assert_eq!(u64::from(part.index), nonce);
            Message::ViewQuery { nonce, life: 0 }
        };
        Cut::new((0..parts).collect(), || 7, message)
    }

    fn range(first: u32, last: u32) -> PartRange {
        PartRange { first, last }
    }

    fn collected(count: u32, arrived: &[u32]) -> Collected<Words> {
        let mut collected = Collected::new(Part { series: 7, index: 0, count });
        for &index in arrived {
            collected.add(Part { series: 7, index, count }, RecordPage::default(), None);
        }
        collected
    }

    #[test]
    fn what_has_not_arrived_is_asked_for() {
        let missing = |count, arrived: &[u32]| collected(count, arrived).missing();
        assert_eq!(missing(5, &[]), [range(0, 4)]);
        assert_eq!(missing(5, &[0]), [range(1, 4)]);
        assert_eq!(missing(5, &[4, 1]), [range(0, 0), range(2, 3)]);
        assert_eq!(missing(5, &[0, 1, 2, 3, 4]), []);
        assert_eq!(missing(u32::MAX, &[3]), [range(0, 2), range(4, u32::MAX - 1)], "whatever a count claims");
        let every_other: Vec<u32> = (0..20_000).step_by(2).collect();
        assert_eq!(missing(20_000, &every_other).len(), GAPS_ASKED_MAX);
    }

    #[test]
    fn a_part_counts_once_and_only_within_its_series() {
        let mut parts = collected(3, &[0, 2]);
        let part = |series, index, count| Part { series, index, count };
        assert!(!parts.add(part(7, 2, 3), RecordPage::default(), None), "it was repeated");
        assert!(!parts.add(part(7, 3, 3), RecordPage::default(), None), "there is no such part");
        assert!(!parts.is_complete() && parts.parts.len() == 2);
        assert!(!parts.belongs(part(8, 1, 3)) && !parts.belongs(part(7, 1, 4)));
        assert!(parts.add(part(7, 1, 3), RecordPage::default(), None));
        assert!(parts.is_complete());
    }

    #[test]
    fn what_is_asked_for_is_sent_once() {
        let sent = |series, ranges: &[PartRange]| -> Vec<u64> {
            let cut = cut(5);
            let nonce = |message: &&Message<Words>| match message {
                Message::ViewQuery { nonce, .. } => *nonce,
                _ => unreachable!("these are queries"),
            };
            cut.missing(series, ranges).iter().map(nonce).collect()
        };
        assert_eq!(sent(7, &[range(0, 0), range(2, 3)]), [0, 2, 3]);
        assert_eq!(sent(7, &[range(2, 3), range(1, 3), range(2, u32::MAX), range(0, 9)]), [2, 3, 4]);
        assert_eq!(sent(7, &[range(5, 9), range(u32::MAX, 0)]), [] as [u64; 0]);
        assert_eq!(sent(8, &[range(0, 4)]), [] as [u64; 0], "of another series there is nothing here");
    }

    #[test]
    fn what_fits_into_one_part_needs_no_series() {
        let whole = Cut::<Words>::new(
            vec![View(1)],
            || unreachable!("it is not drawn"),
            |part, view| {
                assert_eq!(part, Part::WHOLE);
                Message::HigherView { view }
            },
        );
        assert!(whole.is_whole() && !cut(2).is_whole());
    }
}
