//! How a view change goes on as time passes, and where the others are told of it.

use quorate_core::bound::reasons;

use super::*;

/// A quarter of the time that a view change may take at first, in milliseconds.
const ATTEMPT: Option<u64> = Some(250);

/// The kinds of message that matter here, with their receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    StartViewChange(u8, u64),
    HandsOver(u8, u64),
    HigherView(u8, u64),
    Starts(u8, u64),
    Other(u8),
}
use Said::*;

impl Member {
    /// Its words since it was last asked.
    fn says(&mut self) -> Vec<Said> {
        let said = |(to, message): (Address, Message<Times>)| {
            let Address::Replica(ReplicaId { index: ReplicaIndex(to), .. }) = to else {
                panic!("{message:?} goes to no replica")
            };
            match message {
                Message::StartViewChange { view } => StartViewChange(to, view.0),
                Message::DoViewChange { view, .. } => HandsOver(to, view.0),
                Message::HigherView { view } => HigherView(to, view.0),
                Message::StartView { view, .. } => Starts(to, view.0),
                _ => Other(to),
            }
        };
        self.desk.sent.drain(..).map(said).collect()
    }

    fn waits_in_vain(&mut self) {
        self.replica.on_view_change_timeout(&mut self.desk);
    }

    /// How often it waits in vain before it tries the next view, and for how long it waits each time.
    fn gives_up_after(&mut self) -> (usize, Option<u64>) {
        let (view, wait) = (self.replica.view(), self.desk.timer);
        for waits in 1..1_000 {
            assert_eq!(self.desk.timer, wait, "it waits equally long each time");
            self.waits_in_vain();
            if self.replica.view() != view {
                return (waits, wait);
            }
        }
        panic!("it waits for {view} for ever");
    }
}

#[test]
fn a_replica_that_changes_views_falls_silent_durably_and_says_so_to_all() {
    let mut member = Member::new(0);
    member.joins(2, 1);
    assert_eq!(member.desk.facts, [Fact::ViewEntered(View(1))]);
    assert_eq!((&member.desk.changing[..], &member.desk.normal[..]), (&[View(1)][..], &[][..]));
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(1)));
    assert_eq!(member.says(), [StartViewChange(1, 1), StartViewChange(2, 1), HandsOver(1, 1)]);
    assert_eq!(member.desk.timer, ATTEMPT);
    // Both are repeated, because either may be lost.
    for _ in 0..3 {
        member.desk.timer = None;
        member.waits_in_vain();
        assert_eq!(member.says(), [StartViewChange(1, 1), StartViewChange(2, 1), HandsOver(1, 1)]);
        assert_eq!((member.desk.timer, member.replica.view()), (ATTEMPT, View(1)));
    }
    member.waits_in_vain();
    assert_eq!(member.says(), [StartViewChange(1, 2), StartViewChange(2, 2), HandsOver(2, 2)]);
    assert_eq!(member.desk.facts, [Fact::ViewEntered(View(1)), Fact::ViewEntered(View(2))]);
}

/// It would drag the others from view to view.
#[test]
fn views_that_come_to_nothing_are_waited_for_ever_longer() {
    let mut member = Member::new(0);
    member.joins(2, 1);
    let waited: Vec<(usize, Option<u64>)> = (0..9).map(|_| member.gives_up_after()).collect();
    let expected = [
        (4, 250),
        (4, 500),
        (4, 1_000),
        // Then no longer, because others may hear it at any time, but more often.
        (4, 2_000),
        (8, 2_000),
        (16, 2_000),
        (32, 2_000),
        (32, 2_000),
        (32, 2_000),
    ];
    assert_eq!(waited, expected.map(|(waits, millis)| (waits, Some(millis))));
    assert_eq!(member.replica.view(), View(10), "one view after the other");
}

/// A replica that has given up six views in vain, and waits for the next one as often as for any.
fn tired() -> Member {
    let mut member = Member::new(0);
    member.joins(2, 1);
    for _ in 0..6 {
        member.gives_up_after();
    }
    member.says();
    member
}

/// Where it is large and the network slow its repetitions would wait for each other.
#[test]
fn what_a_replica_knows_is_repeated_ever_more_seldom() {
    let mut member = tired();
    let view = member.replica.view().0;
    let mut repeated = Vec::new();
    for wait in 1..32 {
        member.waits_in_vain();
        let said = member.says();
        assert_eq!(
            said[..2],
            [StartViewChange(1, view), StartViewChange(2, view)],
            "short, and never seldom"
        );
        repeated.extend((said[2..] == [HandsOver(1, view)]).then_some(wait));
    }
    assert_eq!((repeated.as_slice(), member.replica.view().0), ([1, 2, 3, 4, 8, 16].as_slice(), view));
}

#[test]
fn a_leader_that_can_be_reached_again_is_told_at_once() {
    let leader = |member: &Member| (member.replica.view().0 % 3) as u8;
    for is_told_that_it_has_started in [false, true] {
        let mut member = tired();
        let (view, from) = (member.replica.view().0, leader(&member));
        let speaks = |member: &mut Member, from: u8| {
            if is_told_that_it_has_started {
                let from = crate::desk::member(ReplicaIndex(from));
                member.replica.on_higher_view(from, View(view), &mut member.desk);
            } else {
                member.joins(from, view);
            }
        };
        speaks(&mut member, from);
        assert_eq!(member.says(), [], "it has not waited yet");
        let mut member = tired();
        member.waits_in_vain();
        member.says();
        speaks(&mut member, 3 - from);
        assert_eq!(member.says(), [], "this one does not lead");
        speaks(&mut member, from);
        assert_eq!(member.says(), [HandsOver(from, view)]);
        speaks(&mut member, from);
        assert_eq!(member.says(), [], "it has been there all the time");
    }
}

#[test]
fn a_leader_says_that_it_has_started_to_a_replica_that_still_waits() {
    let mut leader = Member::new(1);
    leader.joins(0, 1);
    leader.says();
    leader.joins(0, 1);
    assert_eq!(leader.says(), [], "it waits itself");
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1));
    leader.says();
    leader.joins(2, 1);
    assert_eq!(leader.says(), [HigherView(2, 1)]);
}

#[test]
fn a_view_that_begins_ends_the_waiting() {
    let mut member = Member::new(0);
    member.joins(2, 1);
    for _ in 0..5 {
        member.gives_up_after();
    }
    let view = member.replica.view().0;
    member.is_started(Start { view, since: Some(0), page: RecordPage::default(), floor: None, state: None });
    assert!(member.is_normal_in(view));
    assert_eq!((member.desk.timer, member.desk.normal.as_slice()), (None, [View(view)].as_slice()));
    // The next view change begins as the first did.
    member.joins(2, view + 1);
    assert_eq!(member.gives_up_after(), (4, ATTEMPT));
}

#[test]
fn a_replica_that_is_heard_again_makes_the_next_views_be_tried_soon() {
    let often = |member: &mut Member| member.gives_up_after().0;
    assert_eq!(often(&mut tired()), 32);
    let mut member = tired();
    let view = member.replica.view().0;
    member.joins(1, view);
    assert_eq!(member.gives_up_after(), (4, Some(2_000)), "it is back");
    // One that has been there all the time has not helped.
    for expected in [8, 16, 32] {
        let view = member.replica.view().0;
        member.joins(1, view);
        assert_eq!(often(&mut member), expected);
    }
    // Nor is it back at once if it is silent for one view only.
    assert_eq!(often(&mut member), 32);
    let view = member.replica.view().0;
    member.joins(1, view);
    assert_eq!(often(&mut member), 4);
    // Something that was on its way for some views says nothing about now.
    let mut member = tired();
    let earlier = member.replica.view().0 - 1;
    member.joins(1, earlier);
    member.is_handed(Contribution::new(2, earlier));
    assert_eq!(often(&mut member), 32);
    // Its record is as good as its word.
    let mut member = tired();
    let view = member.replica.view().0;
    member.is_handed(Contribution::new(2, view));
    assert_eq!(often(&mut member), 4);
}

#[test]
fn a_replica_that_lags_behind_is_told_where_the_others_are() {
    let mut member = Member::new(0);
    member.joins(1, 5);
    member.says();
    member.joins(2, 4);
    assert_eq!(member.says(), [StartViewChange(2, 5)], "where it wants to go");
    member.is_handed(Contribution::new(2, 4));
    assert_eq!(member.says(), [StartViewChange(2, 5)]);
    member.joins(2, 5);
    assert_eq!(member.says(), [], "it is there");
    member.is_started(Start {
        view: 5,
        since: Some(0),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    member.says();
    member.joins(2, 4);
    assert_eq!(member.says(), [HigherView(2, 5)], "where it serves");
    member.is_handed(Contribution::new(2, 4));
    assert_eq!(member.says(), [HigherView(2, 5)]);
    member.joins(2, 5);
    assert_eq!((member.says(), member.is_normal_in(5)), (vec![], true));
    member.joins(2, 6);
    assert_eq!((member.replica.view(), member.replica.status()), (View(6), Status::ViewChanging));
}

#[test]
fn a_restart_goes_on_to_the_next_view_that_another_leads() {
    for (index, view) in [(0, 1), (1, 2), (2, 1)] {
        let mut member = Member::new(index);
        member.replica.restore(Fact::Initialised, &mut member.desk.ledger);
        member.replica.finish_restore();
        member.replica.start(&mut member.desk);
        assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(view)));
        assert_eq!(member.desk.facts, [Fact::ViewEntered(View(view))]);
    }
    // One that is alone leads at once.
    let mut alone = Member::of(0, 1);
    alone.replica.finish_restore();
    alone.replica.start(&mut alone.desk);
    assert!(alone.is_normal_in(1) && alone.desk.sent.is_empty());
    // And a group that is new has nothing to change.
    let mut first = Member::new(0);
    first.replica.start(&mut first.desk);
    assert!(first.is_normal_in(0) && first.desk.sent.is_empty());
    assert_eq!((first.desk.normal.as_slice(), first.desk.facts.len()), ([View(0)].as_slice(), 0));
}

#[test]
fn a_replica_that_misses_operations_changes_views_if_it_serves() {
    let mut member = Member::new(1);
    member.replica.become_current(&mut member.desk);
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(2)));
    member.replica.become_current(&mut member.desk);
    assert_eq!(member.replica.view(), View(2), "it is about to");
}

#[test]
fn nothing_is_taken_from_replicas_and_for_views_that_cannot_be() {
    let is_unmoved = |member: &mut Member, reason: Option<&str>| {
        assert!(member.is_normal_in(0) && member.desk.sent.is_empty());
        assert_eq!(member.desk.ignored.pop(), reason);
    };
    let mut member = Member::new(1);
    member.joins(0, u64::from(u32::MAX));
    is_unmoved(&mut member, Some(reasons::VIEW));
    member.is_handed(Contribution::new(0, u64::from(u32::MAX)));
    is_unmoved(&mut member, Some(reasons::VIEW));
    member.is_started(Start {
        view: u64::from(u32::MAX),
        since: Some(0),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    is_unmoved(&mut member, Some(reasons::VIEW));
    member.is_handed(Contribution { last_normal: Some(2), ..Contribution::new(0, 1) });
    is_unmoved(&mut member, Some("last view above the next"));
    let lives = BTreeMap::from([(ReplicaIndex(0), u64::MAX)]);
    member.is_handed(Contribution { lives, ..Contribution::new(0, 1) });
    is_unmoved(&mut member, Some(reasons::LIFE));
    // It is none of three, or says so itself.
    for stranger in [3, 1] {
        member.is_handed(Contribution::new(stranger, 1));
        is_unmoved(&mut member, None);
    }
}

#[test]
fn only_the_leader_of_a_view_starts_it_and_only_the_receiver_that_asks_is_told_again() {
    // Replica 2 does not lead view 1, whatever it is handed.
    let mut member = Member::new(2);
    member.is_handed(Contribution::new(0, 1));
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(1)));
    // Replica 1 does: with one other it is a majority.
    let mut leader = Member::new(1);
    leader.is_handed(Contribution::new(0, 1));
    assert!(leader.is_normal_in(1));
    assert_eq!(leader.says()[2..], [Starts(0, 1)], "the third is told when it asks");
    assert!(matches!(leader.desk.facts.last(), Some(Fact::ViewInstalled { view: View(1), .. })));
    leader.is_handed(Contribution::new(2, 1));
    assert_eq!(leader.says(), [Starts(2, 1)]);
    leader.is_handed(Contribution::new(0, 1));
    assert_eq!(leader.says(), [Starts(0, 1)], "it was lost");
    // One answer for each question, and not for each of its parts.
    let part = Part { index: 1, count: 2, ..Part::WHOLE };
    let (page, outline, lives) = (RecordPage::default(), Outline::default(), BTreeMap::new());
    let (view, from) = (View(1), ReplicaIndex(2));
    let Member { replica, desk } = &mut leader;
    replica.on_do_view_change(
        from,
        view,
        Some(View(0)),
        vec![View(0)],
        part,
        page,
        outline,
        0,
        at(0),
        at(0),
        &lives,
        desk,
    );
    assert_eq!(leader.says(), []);
}

#[test]
fn a_start_of_a_view_is_taken_in_that_view_or_before_it() {
    let start = |view| Start { view, since: Some(0), page: RecordPage::default(), floor: None, state: None };
    let mut member = Member::new(0);
    member.is_started(start(4));
    assert!(member.is_normal_in(4));
    let view_facts: Vec<&Fact<Times>> =
        member.desk.facts.iter().filter(|fact| !matches!(fact, Fact::ViewPage { .. })).collect();
    assert!(
        matches!(view_facts[..], [Fact::ViewEntered(View(4)), Fact::ViewInstalled { view: View(4), .. }]),
        "the view is left durably before the next is taken part in: {view_facts:?}"
    );
    member.is_started(start(3));
    assert!(member.is_normal_in(4), "that is over");
    member.joins(1, 6);
    member.is_started(start(5));
    assert_eq!((member.replica.status(), member.replica.view()), (Status::ViewChanging, View(6)));
    member.is_started(start(6));
    assert!(member.is_normal_in(6));
}

/// It is there, and busy with what it has been sent.
#[test]
fn a_leader_that_asks_for_parts_is_given_its_time() {
    for (asked, waits) in [(1, 4), (9, 1)] {
        let mut member = Member::with_small_parts(0);
        for sequence in 1..=3 {
            member.proposes(sequence, 1, 50);
        }
        member.joins(1, 1);
        let series = member.desk.sent.iter().find_map(|(_, message)| match message {
            Message::DoViewChange { part, .. } => Some(part.series),
            _ => None,
        });
        for _ in 0..3 {
            member.waits_in_vain();
        }
        let missing = [PartRange { first: asked, last: asked }];
        let Member { replica, desk } = &mut member;
        replica.on_parts_missing(ReplicaIndex(1), View(1), series.unwrap(), &missing, desk);
        let view = member.replica.view();
        let waited = (1..100).find(|_| {
            member.waits_in_vain();
            member.replica.view() > view
        });
        assert_eq!(waited, Some(waits), "it asks for part {asked} of three");
    }
}

/// The number of a series names one message of one view.
#[test]
fn parts_are_sent_again_in_the_view_in_which_they_were_handed_over() {
    let mut member = Member::with_small_parts(0);
    for sequence in 1..=3 {
        member.proposes(sequence, 1, 50);
    }
    member.joins(1, 1);
    let series = member.desk.sent.iter().find_map(|(_, message)| match message {
        Message::DoViewChange { part, .. } => Some(part.series),
        _ => None,
    });
    for (view, sent) in [(4, 0), (1, 1)] {
        member.desk.sent.clear();
        let missing = [PartRange { first: 1, last: 1 }];
        let Member { replica, desk } = &mut member;
        replica.on_parts_missing(ReplicaIndex(1), View(view), series.unwrap(), &missing, desk);
        assert_eq!(member.desk.sent.len(), sent, "in view {view}");
    }
}

/// A record in two parts is on its way, one in a single part has arrived.
#[test]
fn a_leader_gives_a_record_in_parts_its_time() {
    for (count, waits) in [(1, 1), (2, 4), (3, 4)] {
        let mut leader = Member::of(1, 5);
        leader.joins(0, 1);
        for _ in 0..3 {
            leader.waits_in_vain();
        }
        let part = Part { series: u64::from(count > 1), index: 0, count };
        let (page, outline, lives) = (RecordPage::default(), Outline::default(), BTreeMap::new());
        let (from, view, zero) = (ReplicaIndex(2), View(1), at(0));
        let Member { replica, desk } = &mut leader;
        replica.on_do_view_change(
            from,
            view,
            Some(View(0)),
            vec![View(0)],
            part,
            page,
            outline,
            0,
            zero,
            zero,
            &lives,
            desk,
        );
        let waited = (1..100).find(|_| {
            leader.waits_in_vain();
            leader.replica.view() > View(1)
        });
        assert_eq!(waited, Some(waits), "of {count} parts");
    }
}

/// The word of others on it may be late, and would make it let nothing count that it says itself.
#[test]
fn a_replica_is_told_of_the_lives_of_others_and_not_of_its_own() {
    let mut leader = Member::new(1);
    let lives = BTreeMap::from([(ReplicaIndex(1), 3), (ReplicaIndex(2), 4)]);
    leader.is_handed(Contribution { lives, ..Contribution::new(0, 1) });
    let noted: Vec<(u8, u64)> = leader
        .desk
        .facts
        .iter()
        .filter_map(|fact| match fact {
            Fact::LifeNoted { replica, life } => Some((replica.0, *life)),
            _ => None,
        })
        .collect();
    assert_eq!(noted, [(2, 4)]);
}
