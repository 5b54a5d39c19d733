//! The answers of the record about floors.

use super::*;

fn record(entries: &[(u64, u32, u64, bool)]) -> Record<Times> {
    let mut record = Record::default();
    for (sequence, number, micros, verdict) in entries {
        record.record_consensus(transaction(*sequence), vote(*number, *micros, *verdict, State::Tentative));
    }
    record
}

#[test]
fn what_can_still_take_effect_is_open_and_what_has_run_is_executed() {
    let mut record = record(&[(1, 1, 5, true), (2, 1, 6, false)]);
    record.record_inconsistent(transaction(3), Decided { at: 7, last: 7 }, false);
    record.record_inconsistent(transaction(4), Decided { at: 8, last: 8 }, true);
    record.record_inconsistent(transaction(5), Decided { at: NOTHING, last: NOTHING }, true);
    let summary = record.summary((at(0), transaction(0)), (at(10), transaction(0)), 100);
    let sequences = |cursors: &[(Timestamp, TransactionId)]| {
        cursors.iter().map(|(_, id)| id.sequence).collect::<Vec<_>>()
    };
    assert_eq!(sequences(&summary.open), [1, 3]);
    assert_eq!(sequences(&summary.executed), [4]);
}

#[test]
fn a_transaction_stands_where_it_can_take_effect_first() {
    let record = record(&[(1, 1, 5, true), (1, 2, 20, true), (2, 1, 5, false), (2, 2, 20, true)]);
    let open = |below| {
        let summary = record.summary((at(0), transaction(0)), (at(below), transaction(0)), 100);
        summary.open.iter().map(|(_, id)| id.sequence).collect::<Vec<_>>()
    };
    assert_eq!((open(10), open(30)), (vec![1], vec![1, 2]));
}

#[test]
fn a_decision_is_kept_until_the_floor_has_passed_its_last_proposal() {
    let mut record = Record::<Times>::default();
    record.record_inconsistent(transaction(1), Decided { at: 5, last: 20 }, true);
    record.collect(None, at(10), 100);
    assert!(record.is_live(transaction(1), at(10)), "a late proposal must not be taken for a new one");
    record.collect(None, at(21), 100);
    assert!(!record.holds(transaction(1)));
}

#[test]
fn a_decision_that_has_not_run_is_not_collected() {
    let mut record = Record::<Times>::default();
    record.record_inconsistent(transaction(1), Decided { at: 5, last: 5 }, false);
    record.collect(None, at(10), 100);
    assert!(record.holds(transaction(1)));
    record.mark_executed(transaction(1));
    record.collect(None, at(10), 100);
    assert!(!record.holds(transaction(1)));
}

#[test]
fn a_vote_tells_something_below_the_floor_and_a_refusal_nothing() {
    let record = record(&[(1, 1, 5, true), (2, 1, 5, false), (3, 1, 15, false)]);
    let live = |sequence| record.is_live(transaction(sequence), at(10));
    assert_eq!((live(1), live(2), live(3)), (true, false, true));
}

#[test]
fn state_takes_the_place_of_what_lies_below_its_floor_as_a_whole() {
    let mut record = record(&[(1, 1, 5, true), (2, 1, 5, true), (2, 2, 20, true)]);
    record.forget_below(at(10));
    assert!(!record.holds(transaction(1)) && record.holds(transaction(2)));
}

/// A later prepare has taken the place of one that the base of the view holds, and may have been made final elsewhere.
#[test]
fn of_two_votes_on_a_transaction_a_view_drops_the_one_that_came_after_its_base() {
    let mut member = Member::new(2);
    let page = votes(1, vec![vote(1, 50, true, State::Finalized(Ballot(0)))]);
    member.is_started(Start { view: 1, since: Some(0), page, floor: None, state: None });
    member.proposes(1, 2, 60);
    assert_eq!((member.verdict(1, 1), member.verdict(1, 2)), (Some(true), Some(true)));
    let page = RecordPage::default();
    member.is_started(Start { view: 4, since: Some(1), page, floor: None, state: None });
    assert!(member.is_normal_in(4));
    assert_eq!((member.verdict(1, 1), member.verdict(1, 2)), (Some(true), None));
}

/// Else the same prepare could get another vote.
#[test]
fn a_transaction_with_a_vote_above_the_floor_is_kept_whatever_lies_below() {
    let mut member = Member::new(0);
    member.proposes(1, 1, 5);
    member.finalizes(1, false, 0, 1);
    member.proposes(1, 2, 15);
    member.proposes(2, 1, 6);
    member.finalizes(2, false, 0, 1);
    member.collects(10);
    assert_eq!((member.verdict(1, 1), member.verdict(1, 2)), (Some(false), Some(true)));
    assert_eq!(member.verdict(2, 1), None, "a verdict against what lies below says no more than the floor");
}

/// Of two proposals one may take effect still.
#[test]
fn a_transaction_is_settled_only_if_none_of_its_proposals_can_take_effect_below_the_floor() {
    let mut member = Member::new(0);
    member.proposes(1, 1, 5);
    member.proposes(1, 2, 6);
    let id = operation(1, 2);
    member.replica.on_finalize_consensus(CLIENT, id, false, View(0), Ballot(0), &mut member.desk);
    member.replica.complete_below(at(10), &mut member.desk);
    member.replica.raise_floor(at(10), &mut member.desk);
    assert!(!member.replica.is_settled(transaction(1), at(5)), "the first can");
    member.finalizes(1, false, 0, 0);
    assert!(member.replica.is_settled(transaction(1), at(5)));
    assert!(
        !member.replica.is_settled(transaction(2), at(10))
            && member.replica.is_settled(transaction(2), at(9))
    );
}

#[test]
fn a_replica_says_whether_more_is_left_to_be_collected() {
    let mut member = Member::new(0);
    assert!(!member.replica.collect(9), "there is no floor");
    for sequence in 1..=3 {
        member.decides(sequence, sequence);
    }
    member.replica.complete_below(at(10), &mut member.desk);
    member.replica.raise_floor(at(10), &mut member.desk);
    assert_eq!([2, 2, 2].map(|max| member.replica.collect(max)), [true, false, false]);
    assert_eq!(member.replica.record().len(), 0);
}

#[test]
fn a_snapshot_is_ready_once_nothing_from_before_is_open_and_little_is_remembered() {
    let mut member = Member::new(0);
    member.decides(1, 10);
    member.decides(2, 20);
    member.proposes(3, 1, 30);
    member.replica.begin_snapshot(&mut member.desk);
    assert!(!member.replica.is_snapshot_ready(9, usize::MAX), "a vote is open");
    member.decides(3, 30);
    let bytes = member.replica.record().older_bytes();
    member.decides(4, 40);
    let is_ready = |count, bytes| member.replica.is_snapshot_ready(count, bytes);
    assert!(is_ready(3, bytes) && !is_ready(2, bytes) && !is_ready(3, bytes - 1));
}

/// A snapshot that was carried over to the end has nothing left behind it.
#[test]
fn nothing_is_left_behind_the_end_of_what_is_older() {
    let record = record(&[(1, 1, 10, true), (2, 1, 20, true)]);
    let place = |sequence: u64| (at(10 * sequence), transaction(sequence));
    for (after, to) in [(2, 1), (2, 2)] {
        assert_eq!(record.older_ended(Some(place(after)), place(to), 9), (vec![], None));
    }
}
