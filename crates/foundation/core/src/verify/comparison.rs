//! The operator's part: the point that replicas are asked for, and the conclusions from their answers.
//!
//! The point is the furthest that any replica has reached: the others come to it. On a log that grows, the furthest has passed it
//! by the time that it is asked; then the next point lies ahead, by twice what the log grew between two choices. If
//! it does not grow on, so that nobody reaches it, the point is once more where the furthest stands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;

use super::{Answer, Checksum, Digest, Point, Progress, Request};
use crate::id::ReplicaIndex;
use crate::log::Position;
use crate::time::Instant;

/// A log that has not grown for so long is taken to stand still.
const STILL_AFTER: Duration = Duration::from_millis(500);

/// After so long without an answer a replica is left out.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// A comparison of the replicas of one shard.
#[derive(Debug)]
pub struct Comparison {
    operator: u64,
    path: Bytes,
    /// No point is chosen below this.
    not_below: u64,
    patience: Duration,
    began: Instant,
    point: Option<Point>,
    members: BTreeMap<ReplicaIndex, Member>,
    /// The furthest that any replica is known to be, and since when.
    furthest: Option<(Point, Instant)>,
}

#[derive(Debug, Default)]
struct Member {
    answer: Option<Answer>,
    answered: Option<Instant>,
    /// Why it does not answer.
    failure: Option<String>,
}

/// The digest of a replica, or why that is not known.
pub type Held = Result<Digest, String>;

/// The result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Where the replicas were compared; none if none of them could be.
    pub point: Option<Point>,
    /// The digest of each.
    pub held: BTreeMap<ReplicaIndex, Held>,
}

impl Comparison {
    /// A comparison of these replicas, of the items with this path. `not_below` is a clock time in microseconds below which no floor
    /// is chosen; `patience` bounds how long is waited for replicas that do not come to the point, or walk no further.
    pub fn new(
        operator: u64,
        replicas: impl IntoIterator<Item = ReplicaIndex>,
        path: Bytes,
        not_below: u64,
        patience: Duration,
        now: Instant,
    ) -> Self {
        let members = replicas.into_iter().map(|index| (index, Member::default())).collect();
        Comparison { operator, path, not_below, patience, began: now, point: None, members, furthest: None }
    }

    /// The next request to each replica.
    pub fn request(&self) -> Request {
        Request { operator: self.operator, point: self.point, path: self.path.clone(), page: None }
    }

    /// How many items the slowest replica that walks has looked at.
    pub fn items(&self) -> u64 {
        let walked = self.members.values().filter_map(|member| match &member.answer.as_ref()?.progress {
            Progress::Walking { items } => Some(*items),
            Progress::Done { digest } => Some(digest.items),
            _ => None,
        });
        walked.min().unwrap_or(0)
    }

    /// A replica has answered a request.
    pub fn on_answer(&mut self, from: ReplicaIndex, request: &Request, answer: Answer, now: Instant) {
        if *request != self.request() {
            return;
        }
        let Some(member) = self.members.get_mut(&from) else { return };
        if let Some(at) = answer.at
            && self.furthest.is_none_or(|(known, _)| known < at)
        {
            self.furthest = Some((at, now));
        }
        member.answer = Some(answer);
        member.answered = Some(now);
        member.failure = None;
    }

    /// A replica could not be asked.
    pub fn on_failure(&mut self, from: ReplicaIndex, reason: String) {
        if let Some(member) = self.members.get_mut(&from) {
            member.failure = Some(reason);
        }
    }

    /// Everybody has been asked once more: chooses a point if one is needed, or gives what has come of it.
    pub fn advance(&mut self, now: Instant) -> Option<Compared> {
        let has_time = now.saturating_since(self.began) < self.patience;
        let is_silent = |member: &Member| {
            let last = member.answered.unwrap_or(self.began);
            member.failure.is_some() && now.saturating_since(last) >= SILENT_AFTER
        };
        let is_left_out = |member: &Member| {
            let unable = matches!(member.answer, Some(Answer { progress: Progress::Unable { .. }, .. }));
            unable || is_silent(member)
        };
        let present: Vec<&Member> = self.members.values().filter(|member| !is_left_out(member)).collect();
        if present.is_empty() || !has_time && self.point.is_none() {
            return Some(self.end());
        }
        let progress = |member: &&Member| member.answer.as_ref().map(|answer| answer.progress.clone());
        if self.point.is_none() {
            if present.iter().any(|member| member.answer.is_none()) {
                return None;
            }
            self.choose(0);
            return None;
        }
        let passed = present.iter().any(|member| progress(member) == Some(Progress::Passed));
        let waiting = present.iter().all(|member| progress(member) == Some(Progress::Waiting));
        let is_still = self.furthest.is_some_and(|(_, since)| now.saturating_since(since) >= STILL_AFTER);
        if passed && has_time {
            let grown = match (self.furthest, self.point) {
                (Some((Point::Position(at), _)), Some(Point::Position(asked))) => {
                    at.0.saturating_sub(asked.0)
                }
                _ => 0,
            };
            self.choose(2 * grown);
            return None;
        }
        if waiting && is_still && has_time && matches!(self.point, Some(Point::Position(_))) {
            self.choose(0);
            return None;
        }
        // A walk takes as long as it takes; what is waited for beside it does not.
        let is_walking =
            present.iter().any(|member| matches!(progress(member), Some(Progress::Walking { .. })));
        let is_done = present.iter().all(|member| matches!(progress(member), Some(Progress::Done { .. })));
        (is_done || !has_time && !is_walking).then(|| self.end())
    }

    /// Chooses a point: the furthest, or so many positions ahead of it.
    fn choose(&mut self, ahead: u64) {
        let Some((furthest, _)) = self.furthest else { return };
        self.point = match furthest {
            Point::Position(at) => Some(Point::Position(Position(at.0.saturating_add(ahead)))),
            Point::Below(floor) if floor.micros < self.not_below => None,
            Point::Below(floor) => Some(Point::Below(floor)),
        };
        for member in self.members.values_mut() {
            if !matches!(member.answer, Some(Answer { progress: Progress::Unable { .. }, .. })) {
                member.answer = None;
            }
        }
    }

    fn end(&self) -> Compared {
        let held = |member: &Member| {
            if let Some(failure) = &member.failure {
                return Err(failure.clone());
            }
            let Some(answer) = &member.answer else { return Err("it does not answer".to_owned()) };
            let (at, point) = (answer.at, self.point);
            match &answer.progress {
                Progress::Done { digest } => Ok(digest.clone()),
                Progress::Unable { reason } => Err(reason.clone()),
                Progress::Busy => Err("another operator verifies it: try again later".to_owned()),
                Progress::Passed => {
                    Err("its log grows too fast to be met: try again with less load".to_owned())
                }
                Progress::Page { .. } => {
                    Err("it answers with items, and was asked for their digest".to_owned())
                }
                Progress::Walking { items } => {
                    Err(format!("it has looked at {items} items, and not come to an end"))
                }
                Progress::Idle | Progress::Waiting => Err(match (at, point) {
                    (Some(at), Some(point)) => format!("it is at {at}, and has not come to {point}"),
                    (Some(at), None) => format!("it is at {at}, and what was written last lies above"),
                    (None, _) => "it has nothing that could be compared".to_owned(),
                }),
            }
        };
        let held = self.members.iter().map(|(index, member)| (*index, held(member)));
        Compared { point: self.point, held: held.collect() }
    }
}

/// Which replicas differ from the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Odd {
    /// All that could be compared hold the same.
    None,
    /// These differ from a majority of those that were compared, which hold the same.
    These(BTreeSet<ReplicaIndex>),
    /// No majority holds the same.
    Tie,
}

/// Judges what replicas hold.
pub fn judge(held: &BTreeMap<ReplicaIndex, Held>) -> Odd {
    let known: Vec<(ReplicaIndex, &Digest)> =
        held.iter().filter_map(|(index, held)| Some((*index, held.as_ref().ok()?))).collect();
    let mut sides: BTreeMap<(u64, Checksum), Vec<ReplicaIndex>> = BTreeMap::new();
    for (index, digest) in &known {
        sides.entry((digest.items, digest.checksum())).or_default().push(*index);
    }
    if sides.len() <= 1 {
        return Odd::None;
    }
    match sides.values().find(|side| side.len() * 2 > known.len()) {
        Some(most) => {
            Odd::These(known.iter().map(|(index, _)| *index).filter(|index| !most.contains(index)).collect())
        }
        None => Odd::Tie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::Item;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn position(position: u64) -> Point {
        Point::Position(Position(position))
    }

    fn below(micros: u64) -> Point {
        Point::Below(crate::Timestamp { micros, ..crate::Timestamp::ZERO })
    }

    fn comparison(not_below: u64) -> Comparison {
        Comparison::new(9, (0..3).map(ReplicaIndex), Bytes::new(), not_below, PATIENCE, at(0))
    }

    fn digest(value: &str) -> Digest {
        let mut digester = crate::verify::Digester::new(&[]);
        digester.add(Item { space: Item::DATA, key: b"k", stamps: &[1], value: Some(value.as_bytes()) });
        digester.finish()
    }

    fn tell(comparison: &mut Comparison, now: u64, answers: [(Point, Progress); 3]) -> Option<Compared> {
        let request = comparison.request();
        for (index, (reached, progress)) in (0..).zip(answers) {
            let answer = Answer { at: Some(reached), progress };
            comparison.on_answer(ReplicaIndex(index), &request, answer, at(now));
        }
        comparison.advance(at(now))
    }

    fn done(value: &str) -> Progress {
        Progress::Done { digest: digest(value) }
    }

    #[test]
    fn a_log_that_stands_still_is_compared_where_it_stands() {
        let mut comparison = comparison(0);
        assert_eq!(comparison.request().point, None);
        let idle = [7, 5, 7].map(|at| (position(at), Progress::Idle));
        assert_eq!(tell(&mut comparison, 1, idle), None);
        assert_eq!(comparison.request().point, Some(position(7)));
        let compared = tell(&mut comparison, 2, [(); 3].map(|()| (position(7), done("x")))).unwrap();
        assert_eq!((compared.point, judge(&compared.held)), (Some(position(7)), Odd::None));
    }

    #[test]
    fn a_log_that_grows_is_met_ahead_of_where_it_is_and_where_it_stands_once_it_stops() {
        let mut comparison = comparison(0);
        tell(&mut comparison, 1, [10, 10, 10].map(|at| (position(at), Progress::Idle)));
        let passed = [
            (position(30), Progress::Passed),
            (position(28), Progress::Passed),
            (position(9), Progress::Waiting),
        ];
        assert_eq!(tell(&mut comparison, 2, passed), None);
        assert_eq!(comparison.request().point, Some(position(30 + 2 * 20)));
        let waiting = || [(); 3].map(|()| (position(35), Progress::Waiting));
        assert_eq!(tell(&mut comparison, 3, waiting()), None);
        assert_eq!(comparison.request().point, Some(position(70)), "it grows on");
        assert_eq!(tell(&mut comparison, 600, waiting()), None);
        assert_eq!(comparison.request().point, Some(position(35)), "it stands still");
    }

    #[test]
    fn a_floor_is_waited_for_that_lies_above_what_was_written_last() {
        let mut comparison = comparison(100);
        tell(&mut comparison, 1, [90, 80, 90].map(|at| (below(at), Progress::Idle)));
        assert_eq!(comparison.request().point, None);
        tell(&mut comparison, 2, [90, 80, 120].map(|at| (below(at), Progress::Idle)));
        assert_eq!(comparison.request().point, Some(below(120)));
        let waits = [(below(120), done("x")), (below(90), Progress::Waiting), (below(120), done("x"))];
        assert_eq!(tell(&mut comparison, 3, waits.clone()), None, "one has not come to it");
        let compared = tell(&mut comparison, 30_000, waits).unwrap();
        assert!(compared.held[&ReplicaIndex(1)].as_ref().unwrap_err().contains("floor 90"), "{compared:?}");
    }

    #[test]
    fn a_replica_that_cannot_be_asked_is_left_out_and_said_so() {
        let mut comparison = comparison(0);
        let request = comparison.request();
        for index in 0..2 {
            let answer = Answer { at: Some(position(3)), progress: Progress::Idle };
            comparison.on_answer(ReplicaIndex(index), &request, answer, at(1));
        }
        comparison.on_failure(ReplicaIndex(2), "node 3 does not answer".to_owned());
        assert_eq!(comparison.advance(at(1)), None, "it may answer yet");
        assert_eq!(comparison.advance(at(3_500)), None);
        assert_eq!(comparison.request().point, Some(position(3)));
        let request = comparison.request();
        for index in 0..2 {
            let answer = Answer { at: Some(position(3)), progress: done("x") };
            comparison.on_answer(ReplicaIndex(index), &request, answer, at(3_501));
        }
        comparison.on_failure(ReplicaIndex(2), "node 3 does not answer".to_owned());
        let compared = comparison.advance(at(3_501)).unwrap();
        assert_eq!(compared.held[&ReplicaIndex(2)], Err("node 3 does not answer".to_owned()));
        assert_eq!(judge(&compared.held), Odd::None);
    }

    #[test]
    fn the_odd_one_out_is_named_and_a_tie_is_called_one() {
        let held = |values: &[&str]| {
            (0..)
                .map(ReplicaIndex)
                .zip(values.iter().map(|value| Ok(digest(value))))
                .collect::<BTreeMap<_, Held>>()
        };
        assert_eq!(judge(&held(&["x", "x", "x"])), Odd::None);
        assert_eq!(judge(&held(&["x", "y", "x"])), Odd::These([ReplicaIndex(1)].into()));
        assert_eq!(judge(&held(&["x", "y"])), Odd::Tie);
        assert_eq!(judge(&held(&["x", "y", "z"])), Odd::Tie);
        let five = judge(&held(&["x", "y", "x", "z", "x"]));
        assert_eq!(five, Odd::These([ReplicaIndex(1), ReplicaIndex(3)].into()));
        let mut with_unknown = held(&["x", "y", "x"]);
        with_unknown.insert(ReplicaIndex(0), Err("gone".to_owned()));
        assert_eq!(judge(&with_unknown), Odd::Tie);
    }
}
