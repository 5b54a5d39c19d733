//! Going on with other members, as one replica sees it.

use quorate_core::{Epoch, Members, Succession, Tenure};

use super::*;

/// Three replicas are followed by others, from epoch 1 on.
fn followed_by(members: &[u8]) -> Succession {
    let tenure = |since, members: &[u8]| {
        let members = Members::new(members.iter().copied().map(ReplicaIndex).collect::<Vec<_>>()).unwrap();
        Tenure { since: Epoch(since), members }
    };
    Succession { previous: Some(tenure(0, &[0, 1, 2])), present: tenure(1, members) }
}

/// A view of epoch 1.
fn second(within: u64) -> u64 {
    View::first_of(Epoch(1)).0 + within
}

/// One of the first three, which has just learned of the change.
fn leaving(index: u8, members: &[u8]) -> Member {
    let mut member = Member::new(index);
    member.replica.enter_epoch(followed_by(members), &mut member.desk);
    member
}

/// A new member.
fn new_member(index: u8, members: &[u8]) -> Member {
    let succession = followed_by(members);
    let replica = Replica::initialise(succession, ReplicaIndex(index), Duration::from_secs(1), 1 << 20);
    let mut member = Member { replica, desk: Desk::default() };
    member.replica.start(&mut member.desk);
    member
}

/// Which others are sent something, each once.
fn told(member: &Member, is_kind: impl Fn(&Message<Times>) -> bool) -> Vec<u8> {
    let mut told = BTreeSet::new();
    for (to, message) in &member.desk.sent {
        if let (Address::Replica(replica), true) = (to, is_kind(message)) {
            told.insert(replica.index.0);
        }
    }
    told.into_iter().collect()
}

fn is_start(message: &Message<Times>) -> bool {
    matches!(message, Message::StartView { .. })
}

fn is_change(message: &Message<Times>) -> bool {
    matches!(message, Message::StartViewChange { .. })
}

fn start(view: u64) -> Start {
    Start { view, since: Some(0), page: RecordPage::default(), floor: None, state: None }
}

#[test]
fn a_change_of_members_makes_everybody_of_both_groups_silent() {
    let member = leaving(1, &[3, 4, 5]);
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(second(0))));
    assert_eq!(member.desk.facts, [Fact::ViewEntered(View(second(0)))]);
    assert_eq!(told(&member, is_change), [0, 2, 3, 4, 5]);
    assert_eq!(told(&member, |message| matches!(message, Message::DoViewChange { .. })), [0]);
    let member = new_member(4, &[3, 4, 5]);
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(second(0))));
    assert_eq!(told(&member, is_change), [0, 1, 2, 3, 5]);
}

#[test]
fn the_first_view_of_an_epoch_needs_a_majority_of_both_groups() {
    let hears = |others: &[u8]| {
        let mut member = leaving(0, &[3, 4, 5]);
        for other in others {
            member.is_handed(Contribution::new(*other, second(0)));
        }
        member.desk.normal.clear();
        told(&member, is_start)
    };
    for too_few in [&[1, 2, 3][..], &[3, 4, 5], &[1, 2], &[4, 5]] {
        assert!(hears(too_few).is_empty(), "{too_few:?} are not enough");
    }
    assert_eq!(hears(&[1, 3, 4]), [3, 4], "members are told, and nobody else");
    assert_eq!(hears(&[2, 5, 4]), [4, 5]);
}

/// Members may serve without it; until enough of them have what they were sent nobody else could give it to them.
#[test]
fn a_replica_that_is_no_member_waits_until_enough_members_have_the_record() {
    let mut member = leaving(0, &[3, 4, 5]);
    for other in [1, 3, 4] {
        member.is_handed(Contribution::new(other, second(0)));
    }
    assert_eq!(member.replica.status(), Status::ViewChanging, "it serves nobody");
    assert!(member.desk.normal.is_empty() && member.desk.timer.is_some());
    member.desk.sent.clear();
    member.desk.timer = None;
    member.replica.on_view_change_timeout(&mut member.desk);
    assert_eq!(told(&member, |_| true), [3, 4, 5]);
    assert!(member.desk.sent.iter().all(|(_, message)| is_change(message)));
    assert_eq!(member.desk.timer, Some(250));
    let arrives = |member: &mut Member, from| member.replica.on_arrived(ReplicaIndex(from), &mut member.desk);
    arrives(&mut member, 3);
    arrives(&mut member, 3);
    arrives(&mut member, 1);
    assert!(!member.desk.is_retired, "one member has said so, and one that is none");
    member.desk.sent.clear();
    member.replica.on_view_change_timeout(&mut member.desk);
    assert_eq!(told(&member, |_| true), [4, 5], "one has it");
    arrives(&mut member, 5);
    assert_eq!((member.replica.status(), member.desk.is_retired), (Status::Retired, true));
    assert_eq!(member.desk.timer, None);
    // A member that it has led asks once more.
    member.desk.sent.clear();
    member.is_handed(Contribution::new(4, second(0)));
    assert_eq!(told(&member, is_start), [4]);
    member.desk.sent.clear();
    member.joins(4, second(1));
    member.is_handed(Contribution::new(4, second(1)));
    assert!(member.desk.sent.is_empty() && member.replica.view() == View(second(0)), "it takes part no more");
}

/// It would only drag on those that fetch the record from that member.
#[test]
fn a_replica_that_is_no_member_tries_no_other_view_while_a_member_says_that_it_has_arrived() {
    let mut member = leaving(1, &[3, 4, 5]);
    for _ in 0..100 {
        member.replica.on_view_change_timeout(&mut member.desk);
        member.replica.on_arrived(ReplicaIndex(3), &mut member.desk);
    }
    assert_eq!(member.replica.view(), View(second(0)));
    // Nobody else may have the record if that member is gone.
    let mut waits = 0;
    while member.replica.view() == View(second(0)) {
        member.replica.on_view_change_timeout(&mut member.desk);
        waits += 1;
    }
    assert_eq!((waits, member.replica.view()), (4, View(second(1))));
}

#[test]
fn a_member_that_has_arrived_ends_what_those_before_want_to_go_on_with() {
    let mut member = new_member(3, &[3, 4, 5]);
    member.is_started(start(second(0)));
    assert!(member.is_normal_in(second(0)));
    for (from, is_over) in [(0, true), (4, false)] {
        member.desk.sent.clear();
        member.joins(from, second(0));
        member.is_handed(Contribution::new(from, second(0)));
        let arrived = told(&member, |message| matches!(message, Message::Arrived));
        assert_eq!(!arrived.is_empty(), is_over, "{from}");
    }
}

#[test]
fn members_that_have_arrived_pass_over_the_turns_of_those_before() {
    let mut member = new_member(3, &[3, 4, 5]);
    member.is_started(start(second(0)));
    member.desk.sent.clear();
    member.replica.become_current(&mut member.desk);
    assert_eq!(
        member.replica.view(),
        View(second(4)),
        "the first others that lead are gone, and then it leads itself"
    );
    assert_eq!(told(&member, |_| true), [4, 5]);
    // A view that one of them was to lead is passed over as well.
    member.joins(4, second(6));
    assert_eq!(member.replica.view(), View(second(9)));
    // One that has not arrived needs them.
    let mut member = new_member(3, &[3, 4, 5]);
    member.joins(4, second(6));
    assert_eq!(member.replica.view(), View(second(6)));
}

#[test]
fn a_view_of_the_members_needs_none_of_those_before() {
    let mut member = new_member(4, &[3, 4, 5]);
    member.is_started(start(second(0)));
    let lineage = Contribution { last_normal: Some(second(0)), ..Contribution::new(5, second(4)) };
    member.is_handed(lineage);
    assert!(member.is_normal_in(second(4)));
}

#[test]
fn a_replica_that_is_in_neither_group_retires() {
    let mut member = Member::new(0);
    let mut succession = followed_by(&[3, 4, 5]);
    succession.previous = Some(Tenure { since: Epoch(0), members: succession.present.members });
    member.replica.enter_epoch(succession, &mut member.desk);
    assert_eq!((member.replica.status(), member.desk.is_retired), (Status::Retired, true));
    assert!(member.desk.sent.is_empty());
}

/// Those before the members may be gone, and would be followed by nobody.
#[test]
fn a_member_without_its_record_comes_back_in_a_view_that_a_member_leads() {
    let lost = Replica::lost(followed_by(&[3, 4, 5]), ReplicaIndex(3), Duration::from_secs(1), 1 << 20);
    let mut member = Member { replica: lost, desk: Desk::default() };
    member.replica.start(&mut member.desk);
    for life in [0, 1] {
        let nonce = member.desk.sent.iter().rev().find_map(|(_, message)| match message {
            Message::ViewQuery { nonce, life: asked } if *asked == life => Some(*nonce),
            _ => None,
        });
        let nonce = nonce.expect("it asks where the others are");
        for from in [4, 5] {
            let (from, view) = (ReplicaIndex(from), View(second(0)));
            member.replica.on_view_query_reply(from, nonce, view, false, life, &mut member.desk);
        }
    }
    assert_eq!(member.replica.view(), View(second(4)), "it does not lead one itself either");
}

/// They tell of views and lives of a group that is no more.
#[test]
fn answers_to_what_was_asked_before_a_change_do_not_count_after_it() {
    let mut member = Member::lost(0, 3);
    let asked = |member: &Member| {
        member.desk.sent.iter().rev().find_map(|(_, message)| match message {
            Message::ViewQuery { nonce, life } => Some((*nonce, *life)),
            _ => None,
        })
    };
    let before = asked(&member).expect("it asks where the others are");
    member.replica.enter_epoch(followed_by(&[0, 1, 3]), &mut member.desk);
    let after = asked(&member).expect("it asks anew");
    assert!(before.0 != after.0, "another question");
    assert_eq!(told(&member, |message| matches!(message, Message::ViewQuery { .. })), [1, 2, 3]);
    for from in [1, 3] {
        member.replica.on_view_query_reply(ReplicaIndex(from), before.0, View(0), false, 0, &mut member.desk);
    }
    assert_eq!(asked(&member), Some(after));
}

/// Operations agreed on before the change may be with those before alone.
#[test]
fn a_replica_without_its_record_asks_those_before_the_change_too() {
    let group = followed_by(&[2, 3, 4]);
    let replica = Replica::lost(group, ReplicaIndex(2), Duration::from_secs(1), 1 << 20);
    let mut member = Member { replica, desk: Desk::default() };
    member.replica.start(&mut member.desk);
    assert!(!member.replica.has_arrived());
    assert_eq!(told(&member, |message| matches!(message, Message::ViewQuery { .. })), [0, 1, 3, 4]);
}
