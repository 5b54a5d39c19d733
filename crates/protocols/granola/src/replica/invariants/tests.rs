//! One replica that is sound, and each way to break a property of it; and logs of shards that contradict each other.

mod broken;

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_core::{ClockTime, Instant, TransactionId, View};

use super::super::reads::Reading;
use super::*;

const AT: ClockTime = ClockTime::from_micros(7);
const PLACE: Place = Place { timestamp: AT, transaction: ID };
const ID: TransactionId = TransactionId { client: quorate_core::ClientId(1), sequence: 1, attempt: 0 };

/// One way to break a property of a leader.
type Break = fn(&mut Leader);

fn check(leader: &Leader) {
    the_queue_is_what_writes(leader);
    what_lacks_votes_is_known(leader);
    locks_are_for_locking_mode(leader);
    what_only_reads_waits_once(leader);
    what_waits_is_counted_by_client(leader);
}

#[test]
fn what_does_not_fit_together_is_noticed() {
    let broken: [(&str, Break); 8] = [
        ("a caller that nothing waits for", |leader| {
            assert!(leader.callers.insert(ID.client, 1).is_none());
        }),
        ("a place that nothing has", |leader| assert!(leader.queue.insert(PLACE))),
        ("something coordinated that is not there", |leader| leader.coordinated = 1),
        ("votes that nothing lacks", |leader| assert!(leader.undecided.insert(PLACE))),
        ("locks without locking", |leader| assert!(leader.dated.insert(PLACE))),
        ("force without locking", |leader| leader.is_forced = true),
        ("a read that nothing unblocks", |leader| {
            let reading = Reading { operation: Default::default(), high: None, since: Instant::START };
            leader.reads.begin(ID, AT, reading, Some(ID));
        }),
        ("a read that nothing waits for", |leader| assert!(leader.undated.insert((AT, ID)))),
    ];
    check(&Leader::new(View(0), AT));
    for (what, breaks) in broken {
        let mut leader = Leader::new(View(0), AT);
        breaks(&mut leader);
        assert!(catch_unwind(AssertUnwindSafe(|| check(&leader))).is_err(), "{what}");
    }
}

fn voted(shard_vote: Vote, proposed: u64) -> Entry {
    voted_by(vec![ShardId(1), ShardId(2)], shard_vote, proposed)
}

fn voted_by(participants: Vec<ShardId>, shard_vote: Vote, proposed: u64) -> Entry {
    let voted = Voted {
        transaction: ID,
        class: Class::Coordinated,
        participants,
        operation: None,
        vote: shard_vote,
        proposed: ClockTime::from_micros(proposed),
        first: ClockTime::from_micros(1),
    };
    entry(Body::Voted(Arc::new(voted)), Vec::new())
}

fn entry(body: Body, finals: Vec<Final>) -> Entry {
    Entry { ceiling: ClockTime::default(), finals, body }
}

fn ended(ending: Ending) -> Entry {
    entry(Body::Nothing, vec![Final { transaction: ID, ending }])
}

fn commit(micros: u64) -> Entry {
    ended(Ending::Commit(ClockTime::from_micros(micros)))
}

/// Entries, each of a shard, and the properties that they violate.
type Row = (&'static str, Vec<(u32, Entry)>, &'static [&'static str]);

#[test]
fn shards_that_contradict_each_other_are_noticed() {
    let (yes, no) = (Vote::Commit, Vote::Conflict);
    let both = |one, other| vec![(1, voted(Vote::Commit, one)), (2, voted(Vote::Commit, other))];
    let alone = |proposed| voted_by(vec![ShardId(1)], Vote::Commit, proposed);
    let and = |mut before: Vec<(u32, Entry)>, after: &[(u32, Entry)]| {
        before.extend(after.to_vec());
        before
    };
    let table: [Row; 12] = [
        ("all is well", and(both(3, 5), &[(1, commit(5)), (2, commit(5))]), &[]),
        ("it ends at two timestamps", and(both(5, 5), &[(1, commit(5)), (2, commit(6))]), &["GRA1", "GRA3"]),
        ("it ends in one only", and(both(5, 5), &[(1, commit(5)), (2, ended(Ending::Conflict))]), &["GRA1"]),
        ("a vote is not there", vec![(1, voted(yes.clone(), 5)), (1, commit(5))], &["GRA2"]),
        (
            "a vote is against it",
            vec![(1, voted(yes.clone(), 5)), (2, voted(no, 5)), (1, commit(5))],
            &["GRA2"],
        ),
        ("it ends below a proposal", and(both(3, 5), &[(1, commit(3))]), &["GRA3"]),
        ("it ends above all of them", and(both(3, 5), &[(1, commit(6))]), &["GRA3"]),
        (
            "a shard is lost",
            vec![(1, voted(yes.clone(), 5)), (1, entry(Body::Lost(ShardId(2)), Vec::new())), (1, commit(7))],
            &[],
        ),
        ("proposals go back", vec![(1, voted(yes.clone(), 5)), (1, voted(yes.clone(), 4))], &["GRA4"]),
        ("those of others may be lower", vec![(1, voted(yes.clone(), 5)), (2, voted(yes.clone(), 4))], &[]),
        ("one that no other votes on passes", vec![(1, voted(yes.clone(), 5)), (1, alone(4))], &[]),
        (
            "and nothing passes because of it",
            vec![(1, voted(yes.clone(), 6)), (1, alone(4)), (1, voted(yes, 5))],
            &["GRA4"],
        ),
    ];
    for (what, entries, expected) in table {
        let (mut witness, mut found) = (Witness::default(), Vec::new());
        for (shard, entry) in &entries {
            witness.see(ShardId(*shard), entry, &mut found);
        }
        let properties: Vec<_> = found.iter().map(|violation| violation.property).collect();
        assert_eq!(properties, expected, "{what}: {found:?}");
    }
}

/// With the end of its log went the proposals there.
#[test]
fn a_shard_that_goes_on_with_what_is_left_of_its_log_may_propose_below() {
    for (anew, expected) in [(ShardId(1), None), (ShardId(2), Some("GRA4"))] {
        let (mut witness, mut found) = (Witness::default(), Vec::new());
        witness.see(ShardId(1), &voted(Vote::Commit, 5), &mut found);
        witness.begin_anew(anew);
        witness.see(ShardId(1), &voted(Vote::Commit, 4), &mut found);
        assert_eq!(found.first().map(|violation| violation.property), expected, "{anew}");
    }
}
