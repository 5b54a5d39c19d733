//! The consumer of one shard.
//!
//! It reads stretch after stretch, and knows nothing but the position where the next one begins. It asks one replica as long as that one
//! brings it on. A replica that is silent, cannot answer, retains too little or stays where it is, because it is cut off from its group,
//! is left for the next one. Only once a full turn through the group has found nobody that retains what is wanted, and somebody that says
//! so, the consumer is too late.
//!
//! A consumer of a `parallel-snapshot` keyspace is the same: its group are the replicas of all sites.

use std::collections::BTreeMap;
use std::time::Duration;

use super::position::site_of;
use super::{Answer, Change, Page, Position, Request};
use crate::id::ReplicaId;
use crate::key::Key;
use crate::time::Instant;
use crate::transaction::KeyRange;

/// For so long a replica may stay where it is before another one is asked.
const STAY_MAX: Duration = Duration::from_secs(3);

/// So many turns through the group may find replicas that are silent, beside one that retains too little.
const TURNS_MAX: usize = 3;

/// The progress of a consumer by one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next stretch. Another request may follow at once unless it is the last.
    Page(Page<Position>),
    /// The answer was of no use: the consumer is to ask again after a pause.
    Pause,
    /// No replica retains what is wanted: they do from this position on.
    TooOld(Position),
}

/// The consumer of one shard.
#[derive(Clone, Debug)]
pub struct Follower {
    keys: KeyRange,
    /// Where the next stretch begins; none until a replica has said where.
    position: Option<Position>,
    /// The replicas in the order in which they are asked.
    members: Vec<ReplicaId>,
    /// Which of them is asked.
    turn: usize,
    /// How many were left since one has brought the consumer on.
    left: usize,
    /// The least that any of those retains, of those that have said so.
    retained_from: Option<Position>,
    /// When the consumer has come on last.
    moved: Instant,
    /// When a replica has said last that it knows no more, where that is no sign of trouble; none if none has.
    idle: Option<Instant>,
    /// The last reason why a replica was left.
    reason: String,
}

impl Follower {
    /// A consumer of some keys that begins at a position, or wherever a replica says if there is none. Members are asked in their
    /// order.
    pub fn new(position: Option<Position>, keys: KeyRange, members: Vec<ReplicaId>, now: Instant) -> Self {
        Follower {
            keys,
            position,
            members,
            turn: 0,
            left: 0,
            retained_from: None,
            moved: now,
            idle: None,
            reason: String::new(),
        }
    }

    /// The first position that was not read: none if it has not begun.
    pub fn position(&self) -> Option<&Position> {
        self.position.as_ref()
    }

    /// When a replica has said last that it knows no more, of a keyspace in which nothing happens as long as nobody writes. Where positions are timestamps they go on all the same, and a
    /// replica that stays where it is has no majority.
    pub fn idle(&self) -> Option<Instant> {
        self.idle
    }

    /// Why the last replica that was left was left; empty if none was.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// The replicas of the group are these from now on. If they are the same in another order, nothing changes.
    pub fn change_members(&mut self, members: Vec<ReplicaId>) {
        let is_same =
            members.len() == self.members.len() && members.iter().all(|member| self.members.contains(member));
        if !is_same {
            (self.members, self.turn, self.left) = (members, 0, 0);
            self.retained_from = None;
        }
    }

    /// The replica that is to be asked next, and the question; none if the group has no members.
    pub fn next(&self) -> Option<(ReplicaId, Request<Position>)> {
        let replica = *self.members.get(self.turn)?;
        let request = Request { from: self.position.clone(), keys: self.keys.clone(), bytes_max: u64::MAX };
        Some((replica, request))
    }

    /// A replica has answered a request.
    pub fn on_answer(
        &mut self,
        request: &Request<Position>,
        answer: Answer<Position>,
        now: Instant,
    ) -> Outcome {
        if request.from != self.position || request.keys != self.keys {
            return Outcome::Pause;
        }
        match answer {
            Answer::Page(page) => self.on_page(page, now),
            Answer::TooOld { retained_from } => {
                self.retained_from = Some(match self.retained_from.take() {
                    Some(known) => known.meet(&retained_from),
                    None => retained_from,
                });
                self.leave("it retains too little", now)
            }
            Answer::Unable { reason } => self.leave(&reason, now),
        }
    }

    /// The replica that was asked has not answered.
    pub fn on_silence(&mut self, now: Instant) -> Outcome {
        self.leave("it does not answer", now)
    }

    fn on_page(&mut self, page: Page<Position>, now: Instant) -> Outcome {
        if let Err(wrong) = validate(&page, self.position.as_ref(), &self.keys) {
            return self.leave(wrong, now);
        }
        if self.position.as_ref() == Some(&page.to) {
            if matches!(page.to, Position::Sites(_)) {
                self.idle = Some(now);
            }
            if now - self.moved >= STAY_MAX {
                return self.leave("it stays where it is", now);
            }
            return Outcome::Pause;
        }
        self.position = Some(page.to.clone());
        (self.moved, self.left, self.retained_from) = (now, 0, None);
        Outcome::Page(page)
    }

    /// Another replica is asked from now on.
    fn leave(&mut self, reason: &str, now: Instant) -> Outcome {
        reason.clone_into(&mut self.reason);
        self.left += 1;
        self.moved = now;
        self.turn = (self.turn + 1) % self.members.len().max(1);
        match self.retained_from.take_if(|_| self.left >= TURNS_MAX * self.members.len()) {
            Some(retained_from) => {
                self.left = 0;
                Outcome::TooOld(retained_from)
            }
            None => Outcome::Pause,
        }
    }
}

/// Looks whether a page is an answer to the question.
fn validate(page: &Page<Position>, position: Option<&Position>, keys: &KeyRange) -> Result<(), &'static str> {
    if !page.to.includes(&page.from) || position.is_some_and(|position| *position != page.from) {
        return Err("it answers another question");
    }
    // Two transactions of one client may have the same timestamp where the isolation gives them names beside it.
    let may_share = matches!(page.to, Position::Timestamp(_));
    let mut lasts = BTreeMap::new();
    for change in &page.changes {
        let is_inside = page.to.has_passed(change.timestamp) && !page.from.has_passed(change.timestamp);
        let site = if may_share { None } else { site_of(change.timestamp) };
        let last = lasts.insert(site, change.timestamp);
        let follows =
            last.is_none_or(|last| last < change.timestamp || (may_share && last == change.timestamp));
        if !is_inside || !follows {
            return Err("its changes are in no order");
        }
        validate_change(change, keys)?;
    }
    Ok(())
}

fn validate_change(change: &Change, keys: &KeyRange) -> Result<(), &'static str> {
    const WRONG: &str = "it tells of keys that were not asked for, or of one twice";
    let mut previous: Option<&Key> = None;
    for write in &change.writes {
        if previous.is_some_and(|previous| *previous >= write.key) || !keys.contains(&write.key) {
            return Err(WRONG);
        }
        previous = Some(&write.key);
    }
    let names = |at: usize| (&change.additions[at].object, &change.additions[at].element);
    for (at, added) in change.additions.iter().enumerate() {
        if (at > 0 && names(at - 1) >= names(at)) || !keys.contains(&added.object) || added.by == 0 {
            return Err(WRONG);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::Addition;
    use crate::id::{ClientId, ReplicaIndex, ShardId};
    use crate::timestamp::Timestamp;
    use crate::transaction::Write;

    fn timestamp(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(0) }
    }

    fn at(micros: u64) -> Position {
        timestamp(micros).into()
    }

    fn replica(index: u8) -> ReplicaId {
        ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
    }

    fn second(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn follower(position: Option<u64>) -> Follower {
        let keys = KeyRange { from: Key::default(), to: None };
        let members = [2, 0, 1].map(replica).to_vec();
        Follower::new(position.map(at), keys, members, Instant::START)
    }

    fn change(micros: u64) -> Change {
        Change::of_writes(timestamp(micros), vec![Write { key: Key::from("k"), value: None }])
    }

    fn page(from: u64, to: u64, changes: &[u64]) -> Page<Position> {
        let changes = changes.iter().copied().map(change).collect();
        Page { from: at(from), to: at(to), changes, is_last: true }
    }

    fn answer(follower: &mut Follower, answer: Answer<Position>, seconds: u64) -> Outcome {
        let (_, request) = follower.next().unwrap();
        follower.on_answer(&request, answer, second(seconds))
    }

    fn asked(follower: &Follower) -> u8 {
        follower.next().unwrap().0.index.0
    }

    #[test]
    fn stretches_follow_each_other_and_an_answer_counts_once() {
        let mut follower = follower(None);
        let (replica, first) = follower.next().unwrap();
        assert_eq!((replica.index, &first.from), (ReplicaIndex(2), &None));
        let begins = Answer::Page(page(5, 5, &[]));
        assert_eq!(follower.on_answer(&first, begins.clone(), second(0)), Outcome::Page(page(5, 5, &[])));
        assert_eq!(
            follower.on_answer(&first, begins, second(0)),
            Outcome::Pause,
            "it is an answer once more"
        );
        let (_, request) = follower.next().unwrap();
        assert_eq!(request.from, Some(at(5)));
        let next = Answer::Page(page(5, 9, &[5, 8]));
        assert_eq!(follower.on_answer(&request, next.clone(), second(0)), Outcome::Page(page(5, 9, &[5, 8])));
        assert_eq!(follower.on_answer(&request, next, second(0)), Outcome::Pause);
        assert_eq!(follower.position(), Some(&at(9)));
    }

    #[test]
    fn a_page_that_is_no_answer_is_not_believed() {
        let wrong =
            [page(6, 9, &[]), page(5, 4, &[]), page(5, 9, &[9]), page(5, 9, &[4]), page(5, 9, &[8, 7])];
        for page in wrong {
            let mut follower = follower(Some(5));
            assert_eq!(answer(&mut follower, Answer::Page(page.clone()), 0), Outcome::Pause, "{page:?}");
            assert_eq!(
                (follower.position(), asked(&follower)),
                (Some(&at(5)), 0),
                "another replica is asked"
            );
        }
        let mut follower =
            Follower { keys: KeyRange { from: Key::from("l"), to: None }, ..follower(Some(5)) };
        assert_eq!(answer(&mut follower, Answer::Page(page(5, 9, &[6])), 0), Outcome::Pause);
        assert_eq!(follower.reason(), "it tells of keys that were not asked for, or of one twice");
    }

    #[test]
    fn a_replica_that_stays_where_it_is_is_left_after_a_while() {
        let mut follower = follower(Some(5));
        for seconds in 0..3 {
            assert_eq!(answer(&mut follower, Answer::Page(page(5, 5, &[])), seconds), Outcome::Pause);
            assert_eq!(asked(&follower), 2);
        }
        assert_eq!(answer(&mut follower, Answer::Page(page(5, 5, &[])), 3), Outcome::Pause);
        assert_eq!(asked(&follower), 0);
    }

    #[test]
    fn a_consumer_is_too_late_only_once_no_replica_retains_enough() {
        let mut follower = follower(Some(5));
        let too_old = |from| Answer::TooOld { retained_from: at(from) };
        assert_eq!(answer(&mut follower, too_old(9), 0), Outcome::Pause);
        let retained = answer(&mut follower, Answer::Page(page(5, 7, &[6])), 0);
        assert_eq!(retained, Outcome::Page(page(5, 7, &[6])), "another one retains more");
        for _ in 0..TURNS_MAX * 3 - 1 {
            assert_eq!(answer(&mut follower, too_old(9), 0), Outcome::Pause);
        }
        assert_eq!(answer(&mut follower, too_old(8), 0), Outcome::TooOld(at(8)));
        // Nobody has said that it retains too little: all may be back soon.
        for _ in 0..100 {
            assert_eq!(follower.on_silence(second(0)), Outcome::Pause);
        }
    }

    #[test]
    fn other_members_are_asked_from_their_first_on() {
        let mut follower = follower(Some(5));
        follower.on_silence(second(0));
        follower.change_members([1, 2, 0].map(replica).to_vec());
        assert_eq!(asked(&follower), 0, "they are the same");
        follower.change_members(vec![replica(7)]);
        assert_eq!(asked(&follower), 7);
        follower.change_members(Vec::new());
        assert_eq!(follower.next(), None);
        assert_eq!(follower.on_silence(second(0)), Outcome::Pause);
    }

    fn of_site(site: u64, seqno: u64) -> Change {
        let named = Timestamp { micros: seqno, client: ClientId(site + 1) };
        Change { timestamp: named, ..change(0) }
    }

    #[test]
    fn what_sites_tell_is_in_the_order_of_each() {
        let position = |numbers: &[u64]| Position::of_sites(numbers.to_vec());
        let told = |from: &[u64], to: &[u64], changes: Vec<Change>| {
            let page = Page { from: position(from), to: position(to), changes, is_last: true };
            let mut follower = Follower { position: Some(position(&[1, 1])), ..follower(None) };
            answer(&mut follower, Answer::Page(page.clone()), 0) == Outcome::Page(page)
        };
        let right = || vec![of_site(1, 2), of_site(0, 2), of_site(1, 3), of_site(0, 4)];
        assert!(told(&[1, 1], &[4, 3], right()), "not all of them need be told");
        assert!(!told(&[1], &[4, 3], right()), "it begins elsewhere");
        assert!(!told(&[1, 1], &[4, 2], right()), "one lies behind the end");
        assert!(!told(&[1, 1], &[4, 3], vec![of_site(0, 1)]), "one lies before the beginning");
        assert!(!told(&[1, 1], &[4, 3], vec![of_site(0, 3), of_site(1, 2), of_site(0, 2)]));
        assert!(!told(&[1, 1], &[4, 3], vec![of_site(0, 3), of_site(1, 2), of_site(0, 3)]));
        assert!(!told(&[1, 1], &[4], vec![]), "it goes back at one site");
    }

    #[test]
    fn a_keyspace_in_which_nothing_happens_is_idle_and_a_floor_that_does_not_rise_is_not() {
        let mut follower = follower(Some(5));
        answer(&mut follower, Answer::Page(page(5, 5, &[])), 1);
        assert_eq!(follower.idle(), None);
        let position = Position::of_sites(vec![1]);
        let mut follower = Follower { position: Some(position.clone()), ..follower };
        let nothing = Page { from: position.clone(), to: position, changes: vec![], is_last: true };
        assert_eq!(answer(&mut follower, Answer::Page(nothing), 2), Outcome::Pause);
        assert_eq!(follower.idle(), Some(second(2)));
        follower.on_silence(second(3));
        assert_eq!(follower.idle(), Some(second(2)));
    }

    #[test]
    fn additions_are_those_that_were_asked_for_each_once() {
        let added = |object: &str, element: Option<&str>, by| Addition {
            object: Key::from(object),
            element: element.map(Key::from),
            by,
        };
        let keys = KeyRange { from: Key::from("b"), to: Some(Key::from("d")) };
        let is_right = |additions| validate_change(&Change { additions, ..Change::default() }, &keys).is_ok();
        assert!(is_right(vec![added("b", None, 1), added("b", Some("x"), -1), added("c", Some("x"), 2)]));
        assert!(!is_right(vec![added("b", Some("x"), 1), added("b", Some("x"), 1)]));
        assert!(!is_right(vec![added("d", None, 1)]) && !is_right(vec![added("c", None, 0)]));
    }
}
