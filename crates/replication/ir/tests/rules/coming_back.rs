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
    let lives = BTreeMap::from([(ReplicaIndex(2), 4)]);
    let (floor, complete, supplement) = (at(5), at(10), 7);
    let begun = Fact::SnapshotBegun { view, lineage: lineage.clone(), floor, complete, lives, supplement };
    let mut ledger = Ledger::default();
    replica.restore(begun, &mut ledger);
    replica.finish_restore();
    assert_eq!((replica.view(), replica.floor(), replica.complete()), (view, at(5), at(10)));
    assert_eq!(ledger.promise, 7, "what it would have handed over");
    assert_eq!(replica.record().lineage(), lineage);
    let mut member = Member { replica, desk: Desk::default() };
    member.is_asked_by(2, 0);
    assert_eq!(member.tells_life(), 4);
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

impl Member {
    fn is_asked_by(&mut self, from: u8, life: u64) {
        self.replica.on_view_query(ReplicaIndex(from), 1, life, &mut self.desk);
    }

    /// The life in its last answer.
    fn tells_life(&self) -> u64 {
        match self.desk.sent.last() {
            Some((_, Message::ViewQueryReply { life, .. })) => *life,
            other => panic!("{other:?}"),
        }
    }

    /// The nonce and the life of what it has asked last.
    fn asks(&self) -> (u64, u64) {
        match self.desk.sent.last() {
            Some((_, Message::ViewQuery { nonce, life })) => (*nonce, *life),
            other => panic!("{other:?}"),
        }
    }

    fn is_told(&mut self, from: u8, nonce: u64, answer: Told) {
        let (from, Told { view, lost, life }) = (ReplicaIndex(from), answer);
        self.replica.on_view_query_reply(from, nonce, View(view), lost, life, &mut self.desk);
    }

    /// It is in its first life after the one in which it lost its record, and all others know.
    fn coming_back(index: u8, replicas: usize) -> Self {
        let mut member = Member::lost(index, replicas);
        let (nonce, _) = member.asks();
        for other in (0..replicas as u8).filter(|other| *other != index) {
            member.is_told(other, nonce, Told { view: 0, lost: false, life: 0 });
        }
        member
    }
}

/// The answer of another replica.
#[derive(Clone, Copy)]
struct Told {
    view: u64,
    lost: bool,
    life: u64,
}

/// It has noted the first life after one that ended.
fn is_in(view: u64) -> Told {
    Told { view, lost: false, life: 1 }
}

/// It has lost its record as well.
fn lost_too() -> Told {
    Told { view: 3, lost: true, life: 0 }
}

#[test]
fn a_replica_without_its_record_comes_back_above_every_view_that_a_majority_tells() {
    let mut member = Member::coming_back(0, 5);
    let (nonce, life) = member.asks();
    assert_eq!(life, 1);
    member.is_told(1, nonce, is_in(7));
    member.is_told(2, nonce, is_in(3));
    member.is_told(3, nonce + 9, is_in(8));
    assert_eq!(member.replica.view(), View(0), "one has answered another query");
    member.is_told(3, nonce, Told { life: 0, ..is_in(8) });
    assert_eq!(member.replica.view(), View(0), "one has not noted the life");
    member.is_told(3, nonce, is_in(4));
    assert_eq!(member.replica.view(), View(8));
}

#[test]
fn a_replica_that_lost_its_record_too_is_no_witness() {
    let mut member = Member::coming_back(0, 5);
    let (nonce, _) = member.asks();
    for from in [1, 2] {
        member.is_told(from, nonce, is_in(3));
    }
    member.is_told(3, nonce, Told { life: 1, ..lost_too() });
    assert_eq!(member.replica.view(), View(0));
    assert!(member.desk.lost.is_empty(), "two of five are not too many");
    member.is_told(4, nonce, lost_too());
    assert_eq!(member.desk.lost, [3]);
    member.is_asked_by(1, 6);
    assert_eq!(member.tells_life(), 0, "and it notes nothing");
}

#[test]
fn who_had_lost_its_record_when_it_was_asked_before_may_have_it_back() {
    let mut member = Member::coming_back(0, 5);
    let (nonce, _) = member.asks();
    member.is_told(1, nonce, lost_too());
    member.is_told(2, nonce, is_in(3));
    member.replica.on_view_change_timeout(&mut member.desk);
    member.is_told(3, nonce, lost_too());
    assert!(member.desk.lost.is_empty(), "never were three of five without their records at once");
    member.is_told(1, nonce, is_in(3));
    member.is_told(4, nonce, is_in(3));
    assert_eq!(member.replica.view(), View(4), "a view that was told once counts on");
}

#[test]
fn a_life_comes_after_every_one_that_a_majority_knows_and_is_written_down() {
    let mut member = Member::lost(0, 5);
    let (nonce, life) = member.asks();
    assert_eq!(life, 0, "it cannot know");
    for (from, life) in [(1, 2), (2, 4), (3, 0)] {
        assert!(member.desk.facts.is_empty());
        member.is_told(from, nonce, Told { life, ..is_in(0) });
    }
    let (next, life) = member.asks();
    assert!(life == 5 && next != nonce, "what was answered before it was known does not count");
    let noted = |life| Fact::LifeNoted { replica: ReplicaIndex(0), life };
    assert_eq!(member.desk.facts, [noted(5)]);
    // Somebody whom it had not heard knows of a later one, which it did not come to.
    for (from, life) in [(1, 5), (2, 5), (4, 7)] {
        member.is_told(from, next, Told { life, ..is_in(3) });
    }
    assert_eq!((member.asks().1, member.replica.view()), (8, View(0)));
    assert_eq!(member.desk.facts, [noted(5), noted(8)]);
}

#[test]
fn a_crash_while_coming_back_does_not_end_it_nor_repeat_a_life() {
    let group = GroupSize::new(3).unwrap();
    let mut replica = Replica::lost(group, ReplicaIndex(0), Duration::from_secs(1), 1 << 20);
    replica.restore(Fact::LifeNoted { replica: ReplicaIndex(0), life: 6 }, &mut Ledger::default());
    replica.finish_restore();
    let mut member = Member { replica, desk: Desk::default() };
    member.replica.start(&mut member.desk);
    assert_eq!(member.replica.status(), Status::Recovering);
    let (nonce, _) = member.asks();
    for from in [1, 2] {
        member.is_told(from, nonce, Told { life: 0, ..is_in(0) });
    }
    assert_eq!(member.asks().1, 7);
}

/// Replica 1 of five leads view 6. Replica 0 may have handed over what follows before it lost its record.
fn leads_with(contribution: Contribution) -> Member {
    let mut leader = Member::of(1, 5);
    leader.is_handed(Contribution { from: 0, ..contribution });
    leader.is_handed(Contribution { lives: [(ReplicaIndex(0), 1)].into(), ..Contribution::new(2, 6) });
    leader
}

#[test]
fn what_was_handed_over_in_an_earlier_life_does_not_count_if_one_of_a_majority_knows() {
    let mut leader = leads_with(Contribution::new(0, 6));
    assert!(!leader.is_normal_in(6));
    leader.is_handed(Contribution::new(0, 6));
    assert!(!leader.is_normal_in(6), "nor if it comes later");
    let lives = BTreeMap::from([(ReplicaIndex(0), 1)]);
    leader.is_handed(Contribution { lives: lives.clone(), ..Contribution::new(0, 6) });
    assert!(leader.is_normal_in(6));
    assert!(leads_with(Contribution { lives, ..Contribution::new(0, 6) }).is_normal_in(6));
}

#[test]
fn a_life_that_was_noted_binds_after_a_restart_and_is_handed_on() {
    let mut member = Member::new(1);
    member.is_asked_by(0, 3);
    assert_eq!(member.tells_life(), 3);
    member.is_asked_by(0, 2);
    assert_eq!(member.tells_life(), 3, "an earlier one is over");
    let mut again = Member::new(1);
    for fact in member.desk.facts {
        again.replica.restore(fact, &mut Ledger::default());
    }
    again.replica.finish_restore();
    again.replica.start(&mut again.desk);
    let told = again.desk.sent.iter().find_map(|(_, message)| match message {
        Message::DoViewChange { lives, .. } => Some(lives.clone()),
        _ => None,
    });
    assert_eq!(told, Some(BTreeMap::from([(ReplicaIndex(0), 3)])));
}

/// That was said before its life was noted, or while it had another one.
#[test]
fn an_answer_to_an_earlier_question_does_not_count() {
    let mut member = Member::coming_back(0, 3);
    let (nonce, _) = member.asks();
    for from in [1, 2] {
        member.is_told(from, nonce - 1, is_in(7));
    }
    assert_eq!((member.replica.status(), member.replica.view()), (Status::Recovering, View(0)));
    for from in [1, 2] {
        member.is_told(from, nonce, is_in(3));
    }
    assert_eq!(member.replica.view(), View(4), "and not that which was told before");
}

/// An operator has it go on asleep once too many have lost their records: survivors drop what it hands over in a life that is over.
#[test]
fn a_replica_without_its_record_says_which_life_follows_once_all_have_told() {
    let mut member = Member::lost(1, 5);
    let (nonce, _) = member.asks();
    for (other, answer) in [(0, Told { life: 4, ..is_in(3) }), (2, lost_too()), (3, lost_too())] {
        member.is_told(other, nonce, answer);
        assert_eq!(member.replica.next_life(), None, "another one may know more");
    }
    member.is_told(4, nonce, lost_too());
    assert_eq!(member.replica.next_life(), Some(5));
    member.replica.on_view_change_timeout(&mut member.desk);
    assert_eq!(member.replica.next_life(), Some(5), "a question that is repeated forgets no answer");
    assert_eq!(Member::new(1).replica.next_life(), None, "it has lost nothing");
}

/// The others have noted that it comes back, and may have lost their records since.
#[test]
fn a_replica_that_was_let_come_back_says_that_another_life_follows() {
    let mut member = Member::coming_back(1, 3);
    let (nonce, life) = member.asks();
    assert_eq!((life, member.replica.next_life()), (1, Some(2)));
    for other in [0, 2] {
        member.is_told(other, nonce, is_in(3));
    }
    assert_eq!((member.replica.status(), member.replica.next_life()), (Status::Recovering, Some(2)));
}
