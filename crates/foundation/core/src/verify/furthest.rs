//! A position by which a replica has all that was acknowledged before it was asked for.
//!
//! An entry is acknowledged once a majority has it in its log, and is applied later, by most replicas when they hear that it is committed: one that has restarted has applied less than it had. So a majority is
//! asked how far its *logs* are. One of it has the entry, whichever replicas are away, and a replica that has applied as much as the longest of these logs has applied the entry.
//!
//! The longest log may end with entries that a view change takes away, so that nobody comes to their position before others are appended. Then a reader waits in vain, and asks again.

use bytes::Bytes;

use super::{Answer, Point, Request};
use crate::log::Position;

/// Asks the replicas of a group, one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Furthest {
    members: usize,
    answers: usize,
    position: Position,
}

impl Furthest {
    /// Nobody of this many members has answered.
    pub fn new(members: usize) -> Self {
        Furthest { members, answers: 0, position: Position::START }
    }

    /// The request to each member.
    pub fn request() -> Request {
        Request { operator: 0, point: None, path: Bytes::new(), page: Some(0) }
    }

    /// One of them has answered. A replica that has lost its log does not say where it is, and does not count.
    pub fn note(&mut self, answer: &Answer) {
        if let Some(Point::Position(position)) = answer.at {
            self.answers += 1;
            assert!(self.answers <= self.members, "each of {} members is asked once", self.members);
            self.position = self.position.max(position);
        }
    }

    /// The position; none if too few have answered to be sure.
    pub fn position(&self) -> Option<Position> {
        (2 * self.answers > self.members).then_some(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    fn at(position: u64) -> Answer {
        let at = Some(Point::Position(Position(position)));
        Answer { at, ..Answer::unable("nothing was asked for") }
    }

    #[test]
    fn the_longest_log_of_a_majority_has_all_that_was_acknowledged() {
        let mut furthest = Furthest::new(3);
        furthest.note(&at(7));
        assert_eq!(furthest.position(), None, "the others may have acknowledged more");
        furthest.note(&Answer::unable("it has lost its log"));
        assert_eq!(furthest.position(), None);
        furthest.note(&at(5));
        assert_eq!(furthest.position(), Some(Position(7)));
        furthest.note(&at(9));
        assert_eq!(furthest.position(), Some(Position(9)));
    }

    #[test]
    fn groups_of_any_size_need_more_than_half() {
        for (members, needed) in [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)] {
            let mut furthest = Furthest::new(members);
            let answers = (1..=members).find(|_| {
                furthest.note(&at(1));
                furthest.position().is_some()
            });
            assert_eq!(answers, Some(needed), "of {members}");
        }
        let mut furthest = Furthest::new(1);
        furthest.note(&Answer { at: Some(Point::Below(Timestamp::ZERO)), ..Answer::unable("no log") });
        assert_eq!(furthest.position(), None, "a floor is no position");
    }
}
