//! A walk over what is held below a timestamp, to compare replicas whose points are floors.

use quorate_core::verify::{Digester, Point, Verification};
use quorate_core::{Key, Timestamp};

use crate::versions::Versions;

/// So many keys are looked at between two looks whether a turn has lasted long enough.
const KEYS_AT_ONCE: usize = 32;

/// How far a walk has come. Versions written and overwritten meanwhile lie above the timestamp, and do not matter; versions
/// that are collected must not.
#[derive(Debug)]
pub struct WalkBelow {
    below: Timestamp,
    after: Option<Key>,
}

impl WalkBelow {
    /// Looks at some keys. False if there were none.
    pub fn advance(&mut self, versions: &Versions, digester: &mut Digester) -> bool {
        match versions.digest_below(self.below, self.after.as_ref(), KEYS_AT_ONCE, digester) {
            Some(last) => {
                self.after = Some(last);
                true
            }
            None => false,
        }
    }

    /// Begins a walk if the floor that is waited for is reached, at a replica that holds everything below its floor; or notes that
    /// it has collected what was the newest below. `collected` is the greatest floor below which it may have collected anything.
    pub fn begin(verification: &mut Verification<WalkBelow>, collected: Timestamp, floor: Timestamp) {
        match verification.held() {
            None => {}
            Some(Point::Below(below))
                if collected <= below && floor >= below && verification.awaited().is_some() =>
            {
                verification.reach(WalkBelow { below, after: None });
            }
            // Its time is still to come, or it is under way.
            Some(Point::Below(below)) if collected <= below => {}
            // It is too late, or no point of this protocol.
            Some(_) => verification.pass(),
        }
    }

    /// Below what floor versions may be collected while a request is served.
    pub fn collectable(verification: &Verification<WalkBelow>, floor: Timestamp) -> Timestamp {
        match verification.held() {
            Some(Point::Below(below)) => floor.min(below),
            Some(Point::Position(_)) | None => floor,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use quorate_core::verify::{Item, Pace, Progress, Request};
    use quorate_core::{ClientId, Instant, Value};

    use super::*;

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(0) }
    }

    fn request(below: u64) -> Request {
        Request { operator: 1, point: Some(Point::Below(at(below))), path: Default::default(), page: None }
    }

    #[test]
    fn a_walk_begins_at_the_floor_and_sees_nothing_of_what_goes_on_above_it() {
        let mut versions = Versions::new();
        let key = |number: usize| Key::from(format!("{number:04}"));
        for number in 0..2_000 {
            versions.install(&key(number), at(5), Some(Value::from_static(b"old")));
        }
        let mut verification = Verification::new(Pace::DEFAULT);
        verification.on_request(&request(10), Instant::START);
        WalkBelow::begin(&mut verification, versions.collected(), at(9));
        assert_eq!(verification.awaited(), Some(Point::Below(at(10))));
        WalkBelow::begin(&mut verification, versions.collected(), at(12));
        assert_eq!(verification.awaited(), None, "a later floor will do");
        let mut turns = 1;
        while verification.walk(Instant::START, |walk, digester| walk.advance(&versions, digester)) {
            // Everything is overwritten, and collected as far as it may be.
            for number in 0..2_000 {
                versions.install(
                    &key(number),
                    at(11 + turns),
                    (number % 2 == 0).then(|| Value::from_static(b"new")),
                );
            }
            while versions.collect(WalkBelow::collectable(&verification, at(20)), 100) {}
            WalkBelow::begin(&mut verification, versions.collected(), at(20));
            turns += 1;
        }
        assert!(turns > 2, "it took more than one turn");
        let Progress::Done { digest } = verification.answer(&request(10), Point::Below(at(20))).progress
        else {
            panic!()
        };
        let mut expected = Digester::new(&[]);
        for number in 0..2_000 {
            let (key, stamps) = (key(number), [5, 0]);
            expected.add(Item { space: Item::DATA, key: &key, stamps: &stamps, value: Some(b"old") });
        }
        assert!(digest.agrees_with(&expected.finish()));
        assert_eq!(WalkBelow::collectable(&verification, at(20)), at(20), "nothing is held back any more");
    }

    #[test]
    fn a_replica_that_has_collected_what_was_the_newest_says_so() {
        let mut versions = Versions::new();
        versions.collect(at(11), 1);
        let mut verification = Verification::new(Pace::DEFAULT);
        verification.on_request(&request(10), Instant::START);
        WalkBelow::begin(&mut verification, versions.collected(), at(11));
        let answer = verification.answer(&request(10), Point::Below(at(11)));
        assert_eq!(answer.progress, Progress::Passed);
        // The same if it is given the state of another while it walks.
        verification.on_request(&request(12), Instant::START + Duration::from_secs(1));
        WalkBelow::begin(&mut verification, versions.collected(), at(12));
        versions.forget_below(at(13));
        WalkBelow::begin(&mut verification, versions.collected(), at(13));
        assert_eq!(verification.answer(&request(12), Point::Below(at(13))).progress, Progress::Passed);
    }
}
