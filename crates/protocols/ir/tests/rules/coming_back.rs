//! Coming back after a restart, with a record or without.

use super::*;

#[test]
fn a_restart_comes_back_in_no_view_that_was_left() {
    let mut member = Member::new(0);
    member.joins(1, 5);
    let group = GroupSize::new(3).unwrap();
    let mut replica = Replica::initialise(group, ReplicaIndex(0), Duration::from_secs(1), 1 << 20);
    let mut ledger = Ledger::default();
    for fact in member.desk.facts {
        replica.restore(fact, &mut ledger);
    }
    replica.finish_restore();
    assert_eq!((replica.status(), replica.view()), (Status::ViewChanging, View(5)));
}

#[test]
fn a_restart_from_a_shortened_log_is_as_complete_as_it_was() {
    let group = GroupSize::new(3).unwrap();
    let mut replica = Replica::initialise(group, ReplicaIndex(0), Duration::from_secs(1), 1 << 20);
    let (view, lineage) = (View(3), vec![View(2), View(3)]);
    let begun = Fact::SnapshotBegun { view, lineage: lineage.clone(), floor: at(5), complete: at(10) };
    replica.restore(begun, &mut Ledger::default());
    replica.finish_restore();
    assert_eq!((replica.view(), replica.floor(), replica.complete()), (view, at(5), at(10)));
    assert_eq!(replica.record().lineage(), lineage);
}

/// It may have answered in any view up to the greatest, and does not know yet which that is.
#[test]
fn a_replica_without_its_record_enters_no_view_because_one_other_is_in_it() {
    let mut member = Member::lost(1, 3);
    member.replica.on_higher_view(self::member(ReplicaIndex(0)), View(4), &mut member.desk);
    member.joins(0, 4);
    member.is_handed(Contribution::new(0, 4));
    let page = RecordPage::default();
    member.is_started(Start { view: 4, since: None, page, floor: None, state: None });
    assert_eq!((member.replica.status(), member.replica.view()), (Status::Recovering, View(0)));
}

fn tells(member: &mut Member, from: u8, nonce: u64, view: u64, lost: bool) {
    member.replica.on_view_query_reply(ReplicaIndex(from), nonce, View(view), lost, &mut member.desk);
}

#[test]
fn a_replica_without_its_record_comes_back_above_every_view_that_a_majority_tells() {
    let mut member = Member::lost(0, 5);
    tells(&mut member, 1, 1, 7, false);
    tells(&mut member, 2, 1, 3, false);
    tells(&mut member, 3, 9, 8, false);
    assert_eq!(member.replica.view(), View(0), "one has answered another query");
    tells(&mut member, 3, 1, 4, false);
    assert_eq!(member.replica.view(), View(8));
}

#[test]
fn a_replica_that_lost_its_record_too_is_no_witness() {
    let mut member = Member::lost(0, 5);
    for (from, lost) in [(1, false), (2, false), (3, true)] {
        tells(&mut member, from, 1, 3, lost);
    }
    assert_eq!(member.replica.view(), View(0));
    assert!(member.desk.lost.is_empty(), "two of five are not too many");
    tells(&mut member, 4, 1, 3, true);
    assert_eq!(member.desk.lost, [3]);
}

#[test]
fn who_had_lost_its_record_when_it_was_asked_before_may_have_it_back() {
    let mut member = Member::lost(0, 5);
    tells(&mut member, 1, 1, 3, true);
    tells(&mut member, 2, 1, 3, false);
    member.replica.on_view_change_timeout(&mut member.desk);
    tells(&mut member, 3, 1, 3, true);
    assert!(member.desk.lost.is_empty(), "never were three of five without their records at once");
    tells(&mut member, 1, 1, 3, false);
    tells(&mut member, 4, 1, 3, false);
    assert_eq!(member.replica.view(), View(4), "a view that was told once counts on");
}
