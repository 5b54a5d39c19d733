//! The clocks of a group, as its members know them from each other.
//!
//! Nothing that is about safety depends on clocks, but timestamps follow them: a leader whose clock is hours ahead would drag the
//! timestamps of its group with it, and they never come back. So members tell each other what their clocks read, and a
//! group goes by what a majority of its clocks has reached:
//!
//! ```text
//!    readings, of 5:     ·────·──────●───────────·───────────────────────────────·────►  time
//!                                    │
//!                   the (f + 1)-th greatest is the *clock of the majority*: f + 1 clocks read that, or more
//! ```
//!
//! With at most f wrong clocks it lies between two right ones. Readings are kept as their distance to this replica's monotonic
//! time, which goes on between two of them. A reading is as old as its message was on its way, so the clock of the majority is
//! rather behind than ahead.
//!
//! A clock is *off* if f + 1 of the others are all on one side of it, further away than the bound. That of the member in the
//! middle never is, so a group whose clocks all differ still has a leader; and clocks that are not known make no clock off.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::{ClockTime, Instant, ReplicaIndex};

use crate::Membership;

/// The clocks of the others, as one member knows them.
#[derive(Debug, Default)]
pub struct Clocks {
    heard: BTreeMap<ReplicaIndex, Heard>,
    /// The lead of the clock of the majority when f + 1 clocks were known last.
    majority: Option<i128>,
}

#[derive(Clone, Copy, Debug)]
struct Heard {
    /// The word of the leader that was answered with this.
    beat: u64,
    /// When.
    at: Instant,
    /// How far the clock is ahead of the monotonic time here, in microseconds; none of a member that says nothing of its clock, as those
    /// of earlier versions.
    lead: Option<i128>,
}

/// How far a reading is ahead of the monotonic time, in microseconds.
fn lead(reading: ClockTime, now: Instant) -> i128 {
    i128::from(reading.as_micros()) - i128::from(now.as_nanos() / 1_000)
}

impl Clocks {
    /// A member says what its clock reads, if it is of a version that does. A message that answers an earlier beat than the member has
    /// answered already comes late, and is passed over.
    pub fn note(&mut self, from: ReplicaIndex, beat: u64, reading: Option<ClockTime>, now: Instant) {
        let lead = reading.map(|reading| lead(reading, now));
        if self.heard.get(&from).is_none_or(|heard| heard.beat <= beat) {
            self.heard.insert(from, Heard { beat, at: now, lead });
        }
    }

    /// Forgets what was heard: a clock may have been set right since.
    pub fn forget(&mut self) {
        *self = Clocks::default();
    }

    /// Compares this replica's own reading with what is known of the others in a membership. Members that say nothing of their clocks are
    /// taken to agree with it. A reading that is older than `age_max` does not count: its member may have been cut off since, and was
    /// not heard to say that its clock was set right. Else two members whose clocks were off one after the other would be a majority.
    pub fn compare(
        &self,
        membership: &Membership,
        me: ReplicaIndex,
        own: ClockTime,
        now: Instant,
        age_max: Duration,
    ) -> Comparison {
        let own = lead(own, now);
        let others = membership.members().iter().filter(|member| **member != me);
        let fresh = |member: &ReplicaIndex| self.heard.get(member).filter(|heard| now - heard.at <= age_max);
        let heard = others.filter_map(|member| Some((*member, fresh(member)?.lead.unwrap_or(own))));
        let mut leads: Vec<(ReplicaIndex, i128)> = heard.collect();
        assert!(leads.len() <= membership.members().len(), "{leads:?} are clocks of {membership:?}");
        leads.push((me, own));
        leads.sort_by_key(|lead| std::cmp::Reverse(lead.1));
        Comparison { leads, own, enough: membership.group().majority(), now }
    }

    /// The own clock, but no further from the clock of the majority than the bound. While fewer than f + 1 clocks are known, the majority
    /// is taken to go on as it did when they were; none if they never were.
    pub fn bounded(&mut self, compared: &Comparison, bound: Duration) -> Option<ClockTime> {
        let majority = compared.majority_lead().or(self.majority)?;
        self.majority = Some(majority);
        let bound = i128::try_from(bound.as_micros()).unwrap_or(i128::MAX / 2);
        Some(compared.reading(compared.own.clamp(majority - bound, majority + bound)))
    }
}

/// The clocks of a group at one instant, as far as one member knows.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Each known clock with its lead, its own among them; the greatest lead first.
    leads: Vec<(ReplicaIndex, i128)>,
    own: i128,
    enough: usize,
    now: Instant,
}

impl Comparison {
    /// The greatest reading that f + 1 clocks have reached, at least; none if fewer are known.
    pub fn majority(&self) -> Option<ClockTime> {
        self.majority_lead().map(|lead| self.reading(lead))
    }

    /// The clock of the majority, if f + 1 clocks agree on it within a bound, so that others may be told.
    pub fn agreed(&self, bound: Duration) -> Option<ClockTime> {
        let majority = self.majority_lead()?;
        let agree = self.leads.iter().filter(|(_, lead)| distance(*lead, majority) <= bound.as_micros());
        (agree.count() >= self.enough).then(|| self.reading(majority))
    }

    /// By how many microseconds the own clock is ahead of that of the majority, negative if it is behind, if it is off.
    pub fn own_error(&self, bound: Duration) -> Option<i64> {
        self.is_off(self.own, bound).then(|| clamped(self.own - self.majority_lead().unwrap_or(self.own)))
    }

    /// The members whose clocks are known and not off.
    pub fn sound(&self, bound: Duration) -> impl Iterator<Item = ReplicaIndex> + '_ {
        let sound = self.leads.iter().filter(move |(_, lead)| !self.is_off(*lead, bound));
        sound.map(|(member, _)| *member)
    }

    fn majority_lead(&self) -> Option<i128> {
        self.leads.get(self.enough - 1).map(|(_, lead)| *lead)
    }

    fn is_off(&self, lead: i128, bound: Duration) -> bool {
        let far = |other: &&(ReplicaIndex, i128)| distance(other.1, lead) > bound.as_micros();
        let ahead = self.leads.iter().filter(far).filter(|(_, other)| *other > lead).count();
        let behind = self.leads.iter().filter(far).filter(|(_, other)| *other < lead).count();
        ahead.max(behind) >= self.enough
    }

    fn reading(&self, lead: i128) -> ClockTime {
        let micros = lead + i128::from(self.now.as_nanos() / 1_000);
        ClockTime::from_micros(u64::try_from(micros.max(0)).unwrap_or(u64::MAX))
    }
}

/// By how many microseconds one reading is ahead of another, negative if it is behind.
pub(crate) fn difference(one: ClockTime, other: ClockTime) -> i64 {
    clamped(i128::from(one.as_micros()) - i128::from(other.as_micros()))
}

fn distance(one: i128, other: i128) -> u128 {
    one.abs_diff(other)
}

fn clamped(micros: i128) -> i64 {
    micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

#[cfg(test)]
mod tests {

    use quorate_core::GroupSize;

    use super::*;

    const BOUND: Duration = Duration::from_secs(5);
    const AGE_MAX: Duration = Duration::from_secs(60);
    const HOURS: i64 = 7_200;
    const NOON: u64 = 1_800_000_000_000_000;

    fn reading(seconds: i64) -> ClockTime {
        ClockTime::from_micros(NOON.saturating_add_signed(seconds * 1_000_000))
    }

    fn at(seconds: u64) -> Instant {
        Instant::START + Duration::from_secs(seconds)
    }

    /// The own clock and those of the others by their errors in seconds; a dot for one that is not known.
    fn compare(own: i64, others: &str) -> Comparison {
        let mut clocks = Clocks::default();
        let others: Vec<&str> = others.split_whitespace().collect();
        for (place, error) in others.iter().enumerate().filter(|(_, error)| **error != ".") {
            clocks.note(ReplicaIndex(place as u8 + 1), 1, Some(reading(error.parse().unwrap())), at(1));
        }
        let membership = Membership::first(GroupSize::new(others.len() + 1).unwrap());
        clocks.compare(&membership, ReplicaIndex(0), reading(own), at(1), AGE_MAX)
    }

    #[test]
    fn a_majority_has_reached_what_it_says_and_the_own_clock_is_bounded_by_it() {
        for (own, others, majority, bounded) in [
            (7, "", Some(7), Some(7)),
            (0, "0 0", Some(0), Some(0)),
            (3, "1 2", Some(2), Some(3)),
            // Ahead, also for a moment, and behind.
            (HOURS, "1 -1", Some(1), Some(6)),
            (-HOURS, "1 -1", Some(-1), Some(-6)),
            // Of the others, one; of two clocks the one that is behind counts, and of one no more than it says.
            (0, "7200 1", Some(1), Some(0)),
            (0, "7200 .", Some(0), Some(0)),
            (HOURS, "0 .", Some(0), Some(5)),
            (HOURS, ". .", None, None),
            (HOURS, "0 0 . .", Some(0), Some(5)),
            (HOURS, "7200 0 1 2", Some(2), Some(7)),
            (HOURS, "0 . . .", None, None),
        ] {
            let compared = compare(own, others);
            assert_eq!(compared.majority(), majority.map(reading), "{own} beside {others}");
            let own_bounded = Clocks::default().bounded(&compared, BOUND);
            assert_eq!(own_bounded, bounded.map(reading), "{own} beside {others}");
        }
    }

    #[test]
    fn a_clock_is_off_if_enough_others_are_all_on_one_side_of_it() {
        for (own, others, error, sound) in [
            (0, "", None, "0"),
            (HOURS, "0 1", Some(HOURS - 1), "2 1"),
            (-HOURS, "0 1", Some(-HOURS), "2 1"),
            (0, "7200 1", None, "2 0"),
            (6, "0 0", Some(6), "1 2"),
            (5, "0 0", None, "0 1 2"),
            // All differ: that in the middle leads.
            (0, "7200 -7200", None, "0"),
            // A clock that is not known makes no clock off.
            (HOURS, "0 .", None, "0 1"),
            (HOURS, "0 0 . .", None, "0 1 2"),
            (HOURS, "0 0 0 .", Some(HOURS), "1 2 3"),
        ] {
            let compared = compare(own, others);
            let micros = error.map(|error| error * 1_000_000);
            assert_eq!(compared.own_error(BOUND), micros, "{own} beside {others}");
            let members: Vec<String> = compared.sound(BOUND).map(|member| member.0.to_string()).collect();
            assert_eq!(members.join(" "), sound, "{own} beside {others}");
        }
    }

    #[test]
    fn others_are_told_only_what_a_majority_agrees_on() {
        assert_eq!(compare(HOURS, "0 1").agreed(BOUND), Some(reading(1)));
        assert_eq!(compare(0, "7200 -7200").agreed(BOUND), None);
        assert_eq!(
            compare(0, "-7200 .").agreed(BOUND),
            None,
            "two clocks differ, and nobody knows which is right"
        );
        assert_eq!(compare(0, "1 .").agreed(BOUND), Some(reading(0)));
    }

    #[test]
    fn time_goes_on_between_two_readings_and_a_later_one_counts() {
        let membership = Membership::first(GroupSize::new(3).unwrap());
        let mut clocks = Clocks::default();
        clocks.note(ReplicaIndex(1), 1, Some(reading(0)), at(1));
        clocks.note(ReplicaIndex(2), 2, Some(ClockTime::from_micros(u64::MAX)), at(1));
        let compared = |clocks: &Clocks, own| {
            clocks.compare(&membership, ReplicaIndex(0), reading(own), at(61), AGE_MAX)
        };
        assert_eq!(compared(&clocks, HOURS).majority(), Some(reading(HOURS)));
        assert_eq!(compared(&clocks, 0).majority(), Some(reading(60)));
        clocks.note(ReplicaIndex(2), 1, Some(reading(60)), at(61));
        assert_eq!(compared(&clocks, HOURS).majority(), Some(reading(HOURS)), "that has come late");
        clocks.note(ReplicaIndex(2), 3, Some(reading(60)), at(61));
        let known = compared(&clocks, HOURS);
        assert_eq!(clocks.bounded(&known, BOUND), Some(reading(65)));
        clocks.forget();
        let known = compared(&clocks, HOURS);
        assert_eq!(clocks.bounded(&known, BOUND), None);
    }

    #[test]
    fn a_reading_counts_no_longer_than_it_is_fresh_and_the_majority_goes_on_as_before() {
        let membership = Membership::first(GroupSize::new(3).unwrap());
        let mut clocks = Clocks::default();
        let compared = |clocks: &Clocks, own: i64, seconds: u64| {
            let now = at(1 + seconds);
            let own = reading(own + seconds as i64);
            clocks.compare(&membership, ReplicaIndex(0), own, now, AGE_MAX)
        };
        clocks.note(ReplicaIndex(1), 1, Some(reading(HOURS)), at(1));
        clocks.note(ReplicaIndex(2), 1, Some(reading(0)), at(1));
        let first = compared(&clocks, 0, 0);
        assert_eq!(clocks.bounded(&first, BOUND), Some(reading(0)));
        clocks.note(ReplicaIndex(2), 2, Some(reading(HOURS + 61)), at(62));
        // The first was off and may be right by now; the second is off.
        let later = compared(&clocks, 0, 61);
        assert_eq!(later.majority(), Some(reading(61)));
        assert_eq!(clocks.bounded(&later, BOUND), Some(reading(61)));
        // Neither is heard any more, and the own clock leaps.
        let alone = compared(&clocks, HOURS, 200);
        assert_eq!(alone.majority(), None);
        assert_eq!(clocks.bounded(&alone, BOUND), Some(reading(205)));
    }

    #[test]
    fn a_member_that_says_nothing_of_its_clock_is_taken_to_agree() {
        let membership = Membership::first(GroupSize::new(3).unwrap());
        let mut clocks = Clocks::default();
        clocks.note(ReplicaIndex(1), 1, None, at(1));
        let compared = clocks.compare(&membership, ReplicaIndex(0), reading(HOURS), at(1), AGE_MAX);
        assert_eq!(clocks.bounded(&compared, BOUND), Some(reading(HOURS)));
        assert_eq!(compared.own_error(BOUND), None);
    }
}
