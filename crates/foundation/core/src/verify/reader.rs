//! How all that a shard holds at one point is read, page by page: which replica is asked, and when that comes to nothing.
//!
//! The point is the same for all replicas, and the first that has come to it gives the first page. The pages behind that are asked of the same replica: it has set aside
//! what it held at the point, and another one may have set aside more, or read it in another order.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::{Point, Progress, Request, Stored};
use crate::id::ReplicaIndex;
use crate::time::Instant;

/// For so long one replica is waited for before another one is asked, where any of them may be the first to come to the point.
const TURN: Duration = Duration::from_secs(3);

/// How replicas come to a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All alike, as a floor rises everywhere: another one is not asked earlier.
    Together,
    /// Each by itself: another one may be there.
    Alone,
}

/// Reads what a shard holds at a point.
#[derive(Clone, Debug)]
pub struct Reader {
    operator: u64,
    point: Point,
    arrival: Arrival,
    /// How long a page may take.
    patience: Duration,
    /// The replica that is asked comes first.
    members: VecDeque<ReplicaIndex>,
    page: u64,
    /// Since when the page was asked for, and since when of this replica.
    since: Option<(Instant, Instant)>,
    /// Why there is no page yet.
    reason: String,
}

/// The result of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// The next page.
    Page {
        /// Its items, in the order in which the replica holds them.
        items: Vec<Stored>,
        /// True if nothing comes behind it.
        is_last: bool,
    },
    /// None yet: ask again in a while.
    Pause,
    /// The shard cannot be read at this point, or not any more. Pages that were read are of no use without the rest.
    Lost {
        /// Why, for people.
        reason: String,
    },
}

impl Reader {
    /// A reader that asks these members, the first of them first. `operator` is a number that no other reader has.
    pub fn new(
        operator: u64,
        point: Point,
        arrival: Arrival,
        patience: Duration,
        members: impl IntoIterator<Item = ReplicaIndex>,
    ) -> Self {
        let members = members.into_iter().collect();
        let reason = "none of its replicas is connected".to_owned();
        Reader { operator, point, arrival, patience, members, page: 0, since: None, reason }
    }

    /// The next request, and the replica that it is for; none if there is no replica.
    pub fn next(&self) -> Option<(ReplicaIndex, Request)> {
        let Reader { operator, point, page, .. } = *self;
        let request = Request { operator, point: Some(point), path: Bytes::new(), page: Some(page) };
        Some((*self.members.front()?, request))
    }

    /// The replica has answered the last request, or has not within a while.
    pub fn on_answer(&mut self, answer: Option<Progress>, now: Instant) -> Read {
        let (began, turn_began) = *self.since.get_or_insert((now, now));
        // No other replica has what this one has set aside.
        let is_fixed = self.page > 0;
        let mut turns_away = !is_fixed;
        let reason = match answer {
            Some(Progress::Page { items, is_last }) => {
                self.page += 1;
                self.since = None;
                return Read::Page { items, is_last };
            }
            Some(Progress::Walking { .. }) => {
                turns_away = false;
                None
            }
            Some(Progress::Waiting) => {
                turns_away &= self.arrival == Arrival::Alone && now.saturating_since(turn_began) >= TURN;
                Some("it has not come to the instant: is a replica of it away, or a clock behind?".to_owned())
            }
            Some(Progress::Busy) => Some("another operator reads or compares it".to_owned()),
            Some(Progress::Idle | Progress::Done { .. }) => {
                Some("its node does not know how to be read: is its version older than this one?".to_owned())
            }
            Some(Progress::Passed) => {
                let reason = "what it held at the instant is not known any more".to_owned();
                if is_fixed {
                    return Read::Lost { reason };
                }
                Some(reason)
            }
            Some(Progress::Unable { reason }) => Some(reason),
            None => Some("its node does not answer".to_owned()),
        };
        self.reason = reason.unwrap_or_else(|| std::mem::take(&mut self.reason));
        if now.saturating_since(began) >= self.patience {
            return Read::Lost { reason: self.reason.clone() };
        }
        if turns_away && !self.members.is_empty() {
            self.members.rotate_left(1);
            self.since = Some((began, now));
        }
        Read::Pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp::Timestamp;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn reader(arrival: Arrival) -> Reader {
        let members = [2, 0, 1].map(ReplicaIndex);
        Reader::new(7, Point::Below(Timestamp::ZERO), arrival, PATIENCE, members)
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    fn asked(reader: &Reader) -> (u8, u64) {
        let (replica, request) = reader.next().expect("there are members");
        assert_eq!((request.operator, request.point), (7, Some(Point::Below(Timestamp::ZERO))));
        (replica.0, request.page.expect("a page is wanted"))
    }

    fn page(is_last: bool) -> Progress {
        Progress::Page { items: Vec::new(), is_last }
    }

    #[test]
    fn pages_are_asked_for_one_after_the_other_of_the_replica_that_gave_the_first() {
        let mut reader = reader(Arrival::Together);
        assert_eq!(asked(&reader), (2, 0));
        assert_eq!(reader.on_answer(None, at(1)), Read::Pause);
        assert_eq!(asked(&reader), (0, 0), "the next one is asked");
        assert_eq!(reader.on_answer(Some(page(false)), at(2)), Read::Page { items: vec![], is_last: false });
        assert_eq!(asked(&reader), (0, 1));
        for silence in [None, Some(Progress::Busy), Some(Progress::Walking { items: 3 })] {
            assert_eq!(reader.on_answer(silence, at(3)), Read::Pause);
            assert_eq!(asked(&reader), (0, 1), "no other one has what it has set aside");
        }
        assert_eq!(reader.on_answer(Some(page(true)), at(4)), Read::Page { items: vec![], is_last: true });
    }

    #[test]
    fn a_replica_that_waits_is_left_only_where_another_one_may_be_there() {
        for (arrival, left) in [(Arrival::Together, 2), (Arrival::Alone, 0)] {
            let mut reader = reader(arrival);
            for seconds in 0..3 {
                assert_eq!(reader.on_answer(Some(Progress::Waiting), at(seconds)), Read::Pause);
                assert_eq!(asked(&reader), (2, 0));
            }
            assert_eq!(reader.on_answer(Some(Progress::Waiting), at(3)), Read::Pause);
            assert_eq!(asked(&reader), (left, 0), "{arrival:?}");
            assert_eq!(reader.on_answer(Some(Progress::Waiting), at(5)), Read::Pause);
            assert_eq!(asked(&reader), (left, 0), "its turn has begun later");
        }
    }

    #[test]
    fn what_has_passed_is_lost_once_a_page_was_read_and_looked_for_elsewhere_before() {
        let mut reader = reader(Arrival::Alone);
        assert_eq!(reader.on_answer(Some(Progress::Passed), at(0)), Read::Pause);
        assert_eq!(asked(&reader), (0, 0));
        reader.on_answer(Some(page(false)), at(1));
        let lost = reader.on_answer(Some(Progress::Passed), at(2));
        assert!(matches!(&lost, Read::Lost { reason } if reason.contains("not known any more")), "{lost:?}");
    }

    #[test]
    fn patience_ends_with_the_reason_and_begins_anew_with_each_page() {
        let mut reader = reader(Arrival::Together);
        reader.on_answer(Some(Progress::Waiting), at(0));
        assert!(matches!(reader.on_answer(Some(page(false)), at(70)), Read::Page { .. }));
        assert_eq!(
            reader.on_answer(Some(Progress::Unable { reason: "why".to_owned() }), at(71)),
            Read::Pause
        );
        assert_eq!(reader.on_answer(Some(Progress::Walking { items: 1 }), at(130)), Read::Pause);
        let lost = reader.on_answer(Some(Progress::Walking { items: 2 }), at(131));
        assert_eq!(lost, Read::Lost { reason: "why".to_owned() });
        let mut nobody = Reader::new(7, Point::Below(Timestamp::ZERO), Arrival::Alone, PATIENCE, []);
        assert_eq!(nobody.next(), None);
        assert_eq!(nobody.on_answer(None, at(0)), Read::Pause);
        let lost = nobody.on_answer(None, at(60));
        assert!(matches!(&lost, Read::Lost { .. }), "{lost:?}");
    }
}
