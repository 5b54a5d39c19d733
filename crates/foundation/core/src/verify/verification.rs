//! The part of a replica that is compared: it waits for a point, and walks.

use std::time::Duration;

use super::reading::{PAGE_ITEMS_MAX, Pages};
use super::{Answer, Digest, Digester, Point, Progress, Request};
use crate::time::Instant;

/// A request that was not repeated for so long is forgotten, and whatever is held back for it let go.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// So long another operator is kept waiting after the last request of the one that is served.
const RESERVED_FOR: Duration = Duration::from_secs(3);

/// Bytes that are looked at in one turn.
const BYTES_PER_TURN: u64 = 256 * 1024;

/// How much of what a replica holds is looked at, and told, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// So many items are looked at in one turn. Never zero.
    pub turn_items: u64,
    /// The most items of a page. Never zero, nor above [`PAGE_ITEMS_MAX`].
    pub page_items: usize,
}

impl Pace {
    /// The pace of servers: about a millisecond of work in one turn.
    pub const DEFAULT: Pace = Pace { turn_items: 512, page_items: PAGE_ITEMS_MAX };
}

/// The knowledge of a replica of the request that it serves; `W` is how far it has walked.
#[derive(Debug)]
pub struct Verification<W> {
    pace: Pace,
    current: Option<Current<W>>,
}

#[derive(Debug)]
struct Current<W> {
    request: Request,
    point: Point,
    began: Instant,
    asked_at: Instant,
    state: State<W>,
    /// True if the operator was told what it wanted to know.
    is_told: bool,
}

#[derive(Debug)]
enum State<W> {
    Waiting,
    Walking(W, Digester),
    Reading(W, Digester, Pages),
    Done(Digest),
    Passed,
}

impl<W> Verification<W> {
    /// Serves nobody yet.
    pub fn new(pace: Pace) -> Self {
        assert!(pace.turn_items > 0 && pace.page_items > 0, "{pace:?} gets nowhere");
        assert!(pace.page_items <= PAGE_ITEMS_MAX, "{pace:?} has pages that nobody can read");
        Verification { pace, current: None }
    }

    /// Between two turns of a walk, and between two looks whether a point is reached.
    pub const PAUSE: Duration = Duration::from_millis(1);

    /// For so long a floor is held for one that reads: then it has passed, and the operator is told.
    pub const HELD_MAX: Duration = Duration::from_secs(3_600);

    /// An operator asks. True if that is something new: then the replica is to look whether it has reached the point.
    pub fn on_request(&mut self, request: &Request, now: Instant) -> bool {
        let Some(point) = request.point else { return false };
        if let Some(current) = &mut self.current {
            if current.request.is_same(request) {
                current.asked_at = now;
                if let (State::Reading(_, _, pages), Some(page)) = (&mut current.state, request.page) {
                    pages.release(page);
                }
                current.is_told = current.is_told_by(request);
                return false;
            }
            let is_other = current.request.operator != request.operator;
            if is_other && !current.is_told && now.saturating_since(current.asked_at) < RESERVED_FOR {
                return false;
            }
        }
        // The pages before it were those of a state that is not known here any more.
        if request.is_later_page() {
            return false;
        }
        self.current = Some(Current {
            request: request.clone(),
            point,
            began: now,
            asked_at: now,
            state: State::Waiting,
            is_told: false,
        });
        true
    }

    /// The point that is waited for.
    pub fn awaited(&self) -> Option<Point> {
        self.current
            .as_ref()
            .filter(|current| matches!(current.state, State::Waiting))
            .map(|current| current.point)
    }

    /// True if an operator wants items at the point that is waited for, and no digest.
    pub fn awaits_reading(&self) -> bool {
        let wants =
            |current: &Current<W>| matches!(current.state, State::Waiting) && current.request.page.is_some();
        self.current.as_ref().is_some_and(wants)
    }

    /// The point at which something is still to be read, now or once it is reached.
    pub fn held(&self) -> Option<Point> {
        self.current.as_ref().filter(|current| current.is_under_way()).map(|current| current.point)
    }

    /// The point that is waited for is reached: the walk begins.
    pub fn reach(&mut self, walk: W) {
        if let Some(current) = &mut self.current {
            assert!(matches!(current.state, State::Waiting), "a point is reached once");
            current.state = match current.request.page {
                None => State::Walking(walk, Digester::new(&current.request.path)),
                Some(_) => State::Reading(walk, Digester::reading(), Pages::new(self.pace.page_items)),
            };
        }
    }

    /// The state at the point is not known any more.
    pub fn pass(&mut self) {
        if let Some(current) = self.current.as_mut().filter(|current| current.is_under_way()) {
            current.state = State::Passed;
        }
    }

    /// Walks on for one turn. `advance` looks at some items, and says whether there were any. True if the replica is to be woken after [`Verification::PAUSE`].
    pub fn walk(&mut self, now: Instant, mut advance: impl FnMut(&mut W, &mut Digester) -> bool) -> bool {
        let turn_items = self.pace.turn_items;
        let Some(current) = &mut self.current else { return false };
        if now.saturating_since(current.asked_at) >= FORGOTTEN_AFTER {
            self.current = None;
            return false;
        }
        if current.request.page.is_some() && now.saturating_since(current.began) >= Self::HELD_MAX {
            current.state = State::Passed;
        }
        match &mut current.state {
            State::Walking(walk, digester) => {
                if !take_turn(walk, digester, turn_items, &mut advance) {
                    let digester = std::mem::replace(digester, Digester::new(&[]));
                    current.state = State::Done(digester.finish());
                }
            }
            State::Reading(walk, digester, pages) if pages.has_room() => {
                let has_more = take_turn(walk, digester, turn_items, &mut advance);
                pages.fill(digester);
                if !has_more {
                    pages.end();
                }
            }
            State::Reading(..) | State::Waiting | State::Done(_) | State::Passed => {}
        }
        // Items that were read are kept until they are fetched, or nobody asks any more.
        current.is_under_way() || matches!(current.state, State::Reading(..))
    }

    /// The answer to a request, by a replica that is so far.
    pub fn answer(&self, request: &Request, at: Point) -> Answer {
        let progress = match &self.current {
            _ if request.point.is_none() => Progress::Idle,
            Some(current) if current.request.is_same(request) => match &current.state {
                State::Waiting => Progress::Waiting,
                State::Walking(_, digester) => Progress::Walking { items: digester.seen().items },
                State::Reading(_, digester, pages) => {
                    match request.page.and_then(|number| pages.page(number)) {
                        Some((items, is_last)) => Progress::Page { items: items.to_vec(), is_last },
                        None => Progress::Walking { items: digester.seen().items },
                    }
                }
                State::Done(digest) => Progress::Done { digest: digest.clone() },
                State::Passed => Progress::Passed,
            },
            _ if request.is_later_page() => Progress::Passed,
            _ => Progress::Busy,
        };
        Answer { at: Some(at), progress }
    }
}

impl<W> Current<W> {
    fn is_under_way(&self) -> bool {
        match &self.state {
            State::Waiting | State::Walking(..) => true,
            State::Reading(_, _, pages) => !pages.is_whole(),
            State::Done(_) | State::Passed => false,
        }
    }

    /// True if the answer to a request is all that the operator wanted to know.
    fn is_told_by(&self, request: &Request) -> bool {
        match &self.state {
            State::Reading(_, _, pages) => {
                request.page.and_then(|number| pages.page(number)).is_some_and(|(_, is_last)| is_last)
            }
            _ => !self.is_under_way(),
        }
    }
}

/// Looks at items for one turn; false if there are no more.
fn take_turn<W>(
    walk: &mut W,
    digester: &mut Digester,
    turn_items: u64,
    advance: &mut impl FnMut(&mut W, &mut Digester) -> bool,
) -> bool {
    let before = digester.seen();
    let has_room = |digester: &Digester| {
        let seen = digester.seen();
        seen.items - before.items < turn_items && seen.bytes - before.bytes < BYTES_PER_TURN
    };
    while has_room(digester) {
        if !advance(walk, digester) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Position;
    use crate::verify::Item;

    fn point(position: u64) -> Point {
        Point::Position(Position(position))
    }

    fn request(operator: u64, position: u64) -> Request {
        Request { operator, point: Some(point(position)), path: bytes::Bytes::new(), page: None }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    /// Numbers as items, ten at a time.
    fn ten(left: &mut u64, digester: &mut Digester) -> bool {
        let count = 10.min(*left);
        for _ in 0..count {
            *left -= 1;
            let key = left.to_le_bytes();
            digester.add(Item { space: Item::DATA, key: &key, stamps: &[1], value: None });
        }
        count > 0
    }

    #[test]
    fn a_replica_waits_walks_a_bounded_number_of_items_per_turn_and_keeps_what_it_found() {
        let mut verification = Verification::<u64>::new(Pace::DEFAULT);
        assert!(verification.on_request(&request(1, 5), at(0)));
        assert_eq!(verification.awaited(), Some(point(5)));
        assert_eq!(verification.answer(&request(1, 5), point(3)).progress, Progress::Waiting);
        verification.reach(1_200);
        assert!(verification.walk(at(0), ten));
        let Progress::Walking { items } = verification.answer(&request(1, 5), point(6)).progress else {
            panic!()
        };
        assert_eq!(items, 520);
        assert!(verification.walk(at(0), ten));
        assert!(!verification.walk(at(0), ten), "there is no more");
        let Progress::Done { digest } = verification.answer(&request(1, 5), point(6)).progress else {
            panic!()
        };
        assert_eq!((digest.items, verification.held()), (1_200, None));
        assert!(!verification.on_request(&request(1, 5), at(1)), "it is done already");
        assert!(
            verification.on_request(&request(2, 9), at(1)),
            "the operator was told, and another's turn comes"
        );
    }

    #[test]
    fn another_operator_waits_its_turn_and_one_that_is_gone_is_forgotten() {
        let mut verification = Verification::<u64>::new(Pace::DEFAULT);
        assert!(verification.on_request(&request(1, 5), at(0)));
        assert!(!verification.on_request(&request(2, 9), at(2)));
        assert_eq!(verification.answer(&request(2, 9), point(3)).progress, Progress::Busy);
        assert!(verification.on_request(&request(1, 7), at(2)), "an operator may choose another point");
        assert!(verification.on_request(&request(2, 9), at(5)), "the other is silent");
        assert!(verification.walk(at(6), ten), "it is still waited for");
        assert!(!verification.walk(at(15), ten));
        assert_eq!(verification.held(), None, "nobody asks any more");
    }

    #[test]
    fn a_replica_that_is_asked_how_far_it_is_does_nothing_else() {
        let mut verification = Verification::<u64>::new(Pace::DEFAULT);
        let where_are_you = Request { operator: 1, point: None, path: bytes::Bytes::new(), page: None };
        assert!(!verification.on_request(&where_are_you, at(0)));
        let answer = verification.answer(&where_are_you, point(3));
        assert_eq!(answer, Answer { at: Some(point(3)), progress: Progress::Idle });
        verification.on_request(&request(1, 2), at(0));
        verification.pass();
        assert_eq!(verification.answer(&request(1, 2), point(3)).progress, Progress::Passed);
    }

    fn reading(operator: u64, page: u64) -> Request {
        Request { page: Some(page), ..request(operator, 5) }
    }

    #[test]
    fn a_replica_that_is_read_holds_its_point_until_everything_is_read_and_keeps_pages_until_they_are_fetched()
     {
        let mut verification = Verification::<u64>::new(Pace::DEFAULT);
        assert!(verification.on_request(&reading(1, 0), at(0)));
        assert!(verification.awaits_reading());
        verification.reach(1_000);
        assert!(!verification.awaits_reading());
        assert!(verification.walk(at(0), ten));
        assert_eq!(verification.held(), Some(point(5)));
        let Progress::Walking { items: 520 } = verification.answer(&reading(1, 0), point(6)).progress else {
            panic!()
        };
        assert!(verification.walk(at(0), ten), "pages wait");
        assert_eq!(verification.held(), None, "nothing is left to be read at the point");
        assert!(!verification.on_request(&reading(2, 0), at(1)), "the operator has not been told");
        assert!(!verification.on_request(&reading(1, 0), at(1)));
        let Progress::Page { items, is_last: true } = verification.answer(&reading(1, 0), point(6)).progress
        else {
            panic!()
        };
        assert_eq!(items.len(), 1_000);
        assert_eq!(items[0].key, 999_u64.to_le_bytes()[..]);
        assert!(verification.on_request(&reading(2, 0), at(1)), "now it has");
    }

    #[test]
    fn a_page_that_follows_others_is_of_their_state_or_is_not_told() {
        let mut verification = Verification::<u64>::new(Pace { turn_items: 1, page_items: 1 });
        let first = verification.on_request(&reading(1, 1), at(0));
        let passed = Progress::Passed;
        assert_eq!((first, verification.held()), (false, None), "a replica that has restarted");
        assert_eq!(verification.answer(&reading(1, 1), point(9)).progress, passed);
        verification.on_request(&reading(2, 0), at(0));
        assert!(!verification.on_request(&reading(1, 1), at(5)), "another operator was served meanwhile");
        assert_eq!(verification.answer(&reading(1, 1), point(9)).progress, passed);
        assert_eq!(verification.answer(&reading(2, 0), point(3)).progress, Progress::Waiting);
        assert_eq!(verification.answer(&reading(3, 0), point(3)).progress, Progress::Busy);
    }

    #[test]
    fn a_floor_is_held_no_longer_than_the_bound_for_one_that_reads() {
        let mut verification = Verification::<u64>::new(Pace::DEFAULT);
        verification.on_request(&reading(1, 0), at(0));
        let bound = Verification::<u64>::HELD_MAX.as_secs();
        for second in (0..bound).step_by(9) {
            assert!(!verification.on_request(&reading(1, 0), at(second)));
            assert!(verification.walk(at(second), ten), "second {second}");
        }
        verification.on_request(&reading(1, 0), at(bound));
        assert!(!verification.walk(at(bound), ten));
        assert_eq!(verification.held(), None);
        assert_eq!(verification.answer(&reading(1, 0), point(6)).progress, Progress::Passed);
    }
}
