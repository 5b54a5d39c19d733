//! Deadlines: which timestamp lets a prepare arrive everywhere before its time.
//!
//! A replica that holds a prepare until its own clock reaches the proposed timestamp, and takes prepares in timestamp
//! order, decides conflicts like every other replica that does: the fast path survives contention. (The paper's "waits
//! at the participant replicas", section 6; Tiga, SOSP 2025.) For that the timestamp has to lie ahead of the clocks of
//! all replicas by the time at which the prepare arrives there.
//!
//! A probe measures just that: the clock of the replica when it arrives, less the clock of the coordinator when
//! it left. The difference contains the delay, the skew of both clocks and the queues in between, and none of the
//! three needs to be known. Estimates are only about time: whatever they are, votes stay exclusive and transactions
//! strict.

use std::time::Duration;

use quorate_core::hash::FixedMap;
use quorate_core::{ClockTime, GroupSize, Instant, Members, ReplicaId, ShardId};

use super::replicas;

/// A replica is probed this often as long as something is prepared there.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);

/// So many recent probes count: what is older may be from before a change of clocks or routes.
const PROBES_REMEMBERED: usize = 16;

/// No deadline lies further ahead: delays that long pass, and replicas would not wait for it. A reader at a clock
/// bound relies on timestamps that no clock but a wrong one has yet to reach when their transaction has committed.
const AHEAD_MAX: Duration = Duration::from_millis(400);

/// The slow path costs messages: it has to be sooner by at least this part of its time.
const SOONER_BY: u32 = 16;

/// The knowledge of the coordinator of when its messages arrive.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    links: FixedMap<ReplicaId, Link>,
}

/// The measurements of one replica.
#[derive(Debug, Default)]
struct Link {
    probed_at: Option<Instant>,
    /// How far the clock of the replica was ahead of the sender's when a probe arrived, in microseconds: the latest at
    /// `arrivals - 1` modulo the length.
    ahead: [i64; PROBES_REMEMBERED],
    arrivals: usize,
    round_trip: Duration,
}

impl Link {
    /// The median of the recent probes. A prepare that is later than that is voted on as it arrives, and mostly in the
    /// same order all the same; a greater share of them in time would cost every transaction that jitter.
    fn ahead_micros(&self) -> Option<i64> {
        let known = self.arrivals.min(PROBES_REMEMBERED);
        let mut sorted = self.ahead;
        let sorted = &mut sorted[..known];
        sorted.sort_unstable();
        sorted.get(known.checked_sub(1)? / 2).copied()
    }
}

/// The estimate for one or several shards together.
struct Estimate {
    /// By how much a timestamp must be ahead to reach a quorum of each shard before its time.
    ahead_needed: i64,
    /// The round trip to the farthest replica that the quorum needs.
    round_trip: Duration,
}

impl Deadlines {
    /// True if a probe should be sent along; notes that it is.
    pub(super) fn begin_probe(&mut self, replica: ReplicaId, now: Instant) -> bool {
        let link = self.links.entry(replica).or_default();
        let due = link.probed_at.is_none_or(|probed_at| now - probed_at >= PROBE_INTERVAL);
        if due {
            link.probed_at = Some(now);
        }
        due
    }

    /// A probe has been answered.
    pub(super) fn on_answer(&mut self, from: ReplicaId, sent: ClockTime, arrived: ClockTime, now: Instant) {
        let Some(link) = self.links.get_mut(&from) else { return };
        let Some(probed_at) = link.probed_at else { return };
        link.ahead[link.arrivals % PROBES_REMEMBERED] =
            (arrived.as_micros() as i64).saturating_sub(sent.as_micros() as i64);
        link.arrivals += 1;
        link.round_trip = now - probed_at;
    }

    /// None if there is a shard of which too little is known.
    fn estimate(
        &self,
        shards: impl Iterator<Item = (ShardId, Members)>,
        is_expected: impl Fn(ReplicaId) -> bool,
        quorum: fn(GroupSize) -> usize,
    ) -> Option<Estimate> {
        let mut all = None::<Estimate>;
        for (shard, group) in shards {
            let mut known: Vec<(i64, Duration)> = replicas(shard, group)
                .filter(|replica| is_expected(*replica))
                .filter_map(|replica| self.links.get(&replica))
                .filter_map(|link| Some((link.ahead_micros()?, link.round_trip)))
                .collect();
            if known.len() < group.majority() {
                return None;
            }
            known.sort_unstable();
            let plausible = plausible_ahead(&known);
            for (micros, round_trip) in known.into_iter().take(quorum(group.size())) {
                let micros = micros.min(plausible);
                let so_far = all.get_or_insert(Estimate { ahead_needed: micros, round_trip });
                so_far.ahead_needed = so_far.ahead_needed.max(micros);
                so_far.round_trip = so_far.round_trip.max(round_trip);
            }
        }
        all
    }

    /// True if two round trips to a majority of each shard are expected to take less time than one to a fast quorum.
    pub(super) fn slow_path_is_sooner(
        &self,
        shards: impl Iterator<Item = (ShardId, Members)>,
        is_expected: impl Fn(ReplicaId) -> bool,
    ) -> bool {
        let (mut slow, mut fast) = (Duration::ZERO, Duration::ZERO);
        for (shard, group) in shards {
            let mut round_trips: Vec<Duration> = replicas(shard, group)
                .filter(|replica| is_expected(*replica))
                .filter_map(|replica| self.links.get(&replica).filter(|link| link.arrivals > 0))
                .map(|link| link.round_trip)
                .collect();
            round_trips.sort_unstable();
            let to = |quorum: usize| quorum.checked_sub(1).and_then(|last| round_trips.get(last));
            let (Some(majority), Some(farthest)) = (to(group.majority()), to(group.fast_quorum())) else {
                return false;
            };
            (slow, fast) = (slow.max(*majority * 2), fast.max(*farthest));
        }
        assert!(fast >= slow / 2, "a fast quorum is {fast:?} away, and a majority {:?}", slow / 2);
        slow + slow / SOONER_BY < fast
    }

    /// True if a round trip to these shards takes so long that conflicts there are worth waiting for.
    pub(super) fn is_far(
        &self,
        shards: impl Iterator<Item = (ShardId, Members)>,
        is_expected: impl Fn(ReplicaId) -> bool,
        far: Duration,
    ) -> bool {
        far == Duration::ZERO
            || self
                .estimate(shards, is_expected, GroupSize::fast_quorum)
                .is_some_and(|estimate| estimate.round_trip >= far)
    }

    /// The time that the clock of the coordinator would have to show for a timestamp taken from it now to be a good deadline in
    /// every shard: one that a quorum gets to know before its time. Where a round trip takes less than `far`, or
    /// too little is known, nothing is to be gained. Never less than what it shows: when a transaction began is taken for
    /// a bound of its timestamp by a client that asks for its outcome later.
    pub(super) fn clock(
        &self,
        clock: ClockTime,
        shards: impl Iterator<Item = (ShardId, Members)>,
        is_expected: impl Fn(ReplicaId) -> bool,
        quorum: fn(GroupSize) -> usize,
        far: Duration,
    ) -> ClockTime {
        let deadline = match self.estimate(shards, is_expected, quorum) {
            Some(estimate)
                if estimate.round_trip >= far && estimate.ahead_needed <= AHEAD_MAX.as_micros() as i64 =>
            {
                ClockTime::from_micros(clock.as_micros().saturating_add_signed(estimate.ahead_needed.max(0)))
            }
            _ => clock,
        };
        assert!(
            clock <= deadline && deadline <= clock.saturating_add(AHEAD_MAX),
            "the clock shows {clock:?}, and the deadline is {deadline:?}"
        );
        deadline
    }
}

/// How far ahead the clock of a replica can be without being wrong. Of most replicas, half at least are right, and no
/// message takes longer one way than the longest round trip. A replica whose clock is farther ahead votes on prepares as they
/// arrive; to wait until it is time there would cost everybody as much as that clock is wrong.
fn plausible_ahead(sorted: &[(i64, Duration)]) -> i64 {
    let median = sorted[(sorted.len() - 1) / 2].0;
    let longest = sorted.iter().map(|(_, round_trip)| *round_trip).max().unwrap_or_default();
    median.saturating_add(longest.as_micros() as i64)
}

#[cfg(test)]
mod tests {
    use quorate_core::ReplicaIndex;

    use super::*;

    const SHARD: ShardId = ShardId(1);
    const FAR: Duration = Duration::from_millis(5);

    fn group(replicas: usize) -> GroupSize {
        GroupSize::new(replicas).expect("it is odd")
    }

    fn replica(index: u8) -> ReplicaId {
        ReplicaId { shard: SHARD, index: ReplicaIndex(index) }
    }

    fn at(milliseconds: u64) -> Instant {
        Instant::START + Duration::from_millis(milliseconds)
    }

    /// Each replica answers a probe after `round_trip` milliseconds, with a clock that is so far ahead of ours.
    fn measured(ahead: &[i64], round_trip: u64) -> Deadlines {
        let mut deadlines = Deadlines::default();
        for (index, ahead) in ahead.iter().enumerate() {
            let replica = replica(index as u8);
            assert!(deadlines.begin_probe(replica, at(0)));
            let (sent, arrived) = (ClockTime::from_micros(2_000_000), (2_000_000 + ahead) as u64);
            deadlines.on_answer(replica, sent, ClockTime::from_micros(arrived), at(round_trip));
        }
        deadlines
    }

    #[test]
    fn of_the_clocks_that_are_known_the_earlier_half_is_right_at_least() {
        let ms = Duration::from_millis;
        let known = [(1, ms(10)), (2, ms(30)), (100, ms(20)), (200, ms(10))];
        let expected = [1 + 10_000, 1 + 30_000, 2 + 30_000, 2 + 30_000];
        for (count, expected) in (1..).zip(expected) {
            assert_eq!(plausible_ahead(&known[..count]), expected, "{count}");
        }
    }

    /// How far ahead of our clock a timestamp is chosen if these replicas are silent.
    fn ahead(deadlines: &Deadlines, group: GroupSize, silent: &[u8]) -> i64 {
        ahead_for(deadlines, group, silent, GroupSize::fast_quorum)
    }

    fn ahead_for(
        deadlines: &Deadlines,
        group: GroupSize,
        silent: &[u8],
        quorum: fn(GroupSize) -> usize,
    ) -> i64 {
        let clock = ClockTime::from_micros(1_000_000);
        let expected = |replica: ReplicaId| !silent.contains(&replica.index.0);
        let deadline = deadlines.clock(clock, [(SHARD, group.into())].into_iter(), expected, quorum, FAR);
        deadline.as_micros() as i64 - 1_000_000
    }

    #[test]
    fn the_deadline_waits_for_the_fast_quorum_and_for_no_more() {
        let deadlines = measured(&[600, 55_000, 83_000], 166);
        assert_eq!(ahead(&deadlines, group(3), &[]), 83_000);
        assert_eq!(ahead(&deadlines, group(3), &[2]), 55_000, "the farthest is down");
        assert_eq!(ahead(&deadlines, group(3), &[1, 2]), 0, "no majority is known");
        let deadlines = measured(&[600, 40_000, 55_000, 83_000, 900_000], 166);
        assert_eq!(ahead(&deadlines, group(5), &[]), 83_000, "one of five is not needed");
    }

    #[test]
    fn a_read_need_not_reach_as_many() {
        let deadlines = measured(&[600, 55_000, 83_000], 166);
        assert_eq!(ahead_for(&deadlines, group(3), &[], GroupSize::snapshot_quorum), 55_000);
    }

    #[test]
    fn the_skew_of_a_clock_is_measured_with_the_delay() {
        let deadlines = measured(&[-40_000, 15_000, 43_000], 166);
        assert_eq!(ahead(&deadlines, group(3), &[]), 43_000, "this clock is 40 ms ahead");
        let deadlines = measured(&[-700_000, -645_000, -617_000], 166);
        assert_eq!(ahead(&deadlines, group(3), &[]), 0, "a clock that is 0.7 s ahead is not turned back");
    }

    #[test]
    fn one_clock_that_is_far_ahead_delays_nobody() {
        let deadlines = measured(&[3_000, 3_100, 283_000], 6);
        assert_eq!(ahead(&deadlines, group(3), &[]), 9_100);
        let deadlines = measured(&[3_000, 283_000, 283_000], 6);
        assert_eq!(ahead(&deadlines, group(3), &[]), 283_000, "most are ahead of this clock");
        let deadlines = measured(&[3_000, 3_100, 3_200, 283_000, 290_000], 6);
        assert_eq!(ahead(&deadlines, group(5), &[]), 9_200);
    }

    #[test]
    fn a_delay_that_replicas_would_not_wait_for_gives_no_deadline() {
        assert_eq!(ahead(&measured(&[600, 400_000, 400_000], 800), group(3), &[]), 400_000);
        assert_eq!(ahead(&measured(&[600, 400_000, 400_001], 800), group(3), &[]), 0);
    }

    #[test]
    fn near_replicas_get_no_deadline() {
        assert_eq!(ahead(&measured(&[80, 90, 70], 1), group(3), &[]), 0);
    }

    #[test]
    fn two_short_round_trips_may_be_sooner_than_a_long_one() {
        let is_sooner = |round_trips: &[u64], silent: &[u8]| {
            let mut deadlines = Deadlines::default();
            for (index, round_trip) in round_trips.iter().enumerate() {
                let replica = replica(index as u8);
                assert!(deadlines.begin_probe(replica, at(0)));
                deadlines.on_answer(replica, ClockTime::default(), ClockTime::default(), at(*round_trip));
            }
            let expected = |replica: ReplicaId| !silent.contains(&replica.index.0);
            deadlines.slow_path_is_sooner([(SHARD, group(round_trips.len()).into())].into_iter(), expected)
        };
        assert!(is_sooner(&[111, 1, 262], &[]), "from Europe");
        assert!(!is_sooner(&[1, 111, 166], &[]), "from the United States");
        assert!(!is_sooner(&[166, 262, 11], &[]), "from Asia");
        assert!(!is_sooner(&[100, 100, 205], &[]), "it would hardly be sooner, and costs more");
        assert!(is_sooner(&[1, 1, 1, 100, 100], &[]), "a majority is near");
        assert!(!is_sooner(&[1, 1, 262], &[2]), "nobody far away is waited for");
        assert!(!Deadlines::default().slow_path_is_sooner([(SHARD, group(3).into())].into_iter(), |_| true));
    }

    #[test]
    fn what_is_far_is_measured_unless_everything_is() {
        let is_far = |deadlines: &Deadlines, far| {
            deadlines.is_far([(SHARD, group(3).into())].into_iter(), |_| true, far)
        };
        assert!(is_far(&measured(&[1, 2, 3], 6), FAR) && !is_far(&measured(&[1, 2, 3], 4), FAR));
        assert!(!is_far(&Deadlines::default(), FAR) && is_far(&Deadlines::default(), Duration::ZERO));
    }

    #[test]
    fn late_probes_do_not_count_until_they_are_many() {
        let mut deadlines = Deadlines::default();
        let mut probe = |round: u64, delay: u64| {
            for index in 0..3 {
                assert!(deadlines.begin_probe(replica(index), at(round * 100)));
                assert!(!deadlines.begin_probe(replica(index), at(round * 100 + 99)));
                let arrived = ClockTime::from_micros(delay);
                deadlines.on_answer(replica(index), ClockTime::default(), arrived, at(round * 100 + 50));
            }
            ahead(&deadlines, group(3), &[])
        };
        for round in 0..16 {
            assert_eq!(probe(round, 20_000), 20_000);
        }
        for round in 16..24 {
            assert_eq!(probe(round, 90_000), 20_000);
        }
        assert_eq!(probe(24, 90_000), 90_000, "the route has changed");
    }

    #[test]
    fn a_quorum_is_as_far_as_the_farthest_replica_that_it_needs() {
        // Each replica answers after so many milliseconds.
        let answered = |round_trips: &[u64]| {
            let mut deadlines = Deadlines::default();
            for (index, round_trip) in round_trips.iter().enumerate() {
                let (sent, index) = (ClockTime::from_micros(2_000_000), index as u8);
                assert!(deadlines.begin_probe(replica(index), at(0)));
                deadlines.on_answer(replica(index), sent, sent, at(*round_trip));
            }
            deadlines
        };
        let is_far = |round_trips: &[u64]| {
            let shard = [(SHARD, group(3).into())].into_iter();
            answered(round_trips).is_far(shard, |_| true, FAR)
        };
        assert!(is_far(&[1, 1, 5]) && is_far(&[5, 1, 1]) && is_far(&[1, 9, 1]));
        assert!(!is_far(&[4, 4, 4]) && !is_far(&[9]));
    }

    #[test]
    fn a_replica_that_was_only_asked_is_at_no_distance_that_is_known() {
        let mut deadlines = Deadlines::default();
        let sent = ClockTime::from_micros(2_000_000);
        for (index, round_trip) in [(0, 1), (1, 261)] {
            assert!(deadlines.begin_probe(replica(index), at(0)));
            deadlines.on_answer(replica(index), sent, sent, at(round_trip));
        }
        let is_sooner = |deadlines: &Deadlines| {
            deadlines.slow_path_is_sooner([(SHARD, group(3).into())].into_iter(), |_| true)
        };
        assert!(deadlines.begin_probe(replica(2), at(0)));
        assert!(!is_sooner(&deadlines), "nobody knows how far the third is");
        deadlines.on_answer(replica(2), sent, sent, at(1));
        assert!(is_sooner(&deadlines));
    }

    #[test]
    fn a_deadline_is_of_use_from_the_distance_on_that_counts_as_far() {
        let far = FAR.as_millis() as u64;
        for (round_trip, expected) in [(far - 1, 0), (far, 600), (far + 1, 600)] {
            assert_eq!(
                ahead(&measured(&[600, 600, 600], round_trip), group(3), &[]),
                expected,
                "{round_trip}"
            );
        }
    }

    #[test]
    fn it_is_the_nearest_that_a_quorum_needs_whatever_their_order() {
        for clocks in [[600, 55_000, 83_000], [83_000, 600, 55_000], [55_000, 83_000, 600]] {
            let deadlines = measured(&clocks, 166);
            assert_eq!(ahead_for(&deadlines, group(3), &[], GroupSize::majority), 55_000, "{clocks:?}");
        }
    }
}
