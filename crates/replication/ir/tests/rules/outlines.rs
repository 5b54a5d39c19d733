//! Ended operations are told by an outline: only what the receiver lacks is asked for, and the rest it keeps.

use super::*;

/// A leader of view 1 that has decided what `decided` says and was handed a tail with this outline.
fn leads_with(decided: &[(u64, u64)], last_normal: u64, stretches: &[(u64, u64)]) -> Member {
    let mut leader = Member::new(1);
    for (sequence, time) in decided {
        leader.decides(*sequence, *time);
    }
    let stretches = stretches.iter().map(|(sequence, time)| stretch_of(*sequence, *time)).collect::<Vec<_>>();
    let part = Part { series: 7, index: 0, count: 1 + stretches.len() as u32 };
    let outline = Outline { floor: at(0), stretches };
    leader.replica.on_do_view_change(
        ReplicaIndex(0),
        View(1),
        Some(View(last_normal)),
        vec![View(last_normal)],
        part,
        RecordPage::default(),
        outline,
        0,
        at(0),
        at(0),
        &BTreeMap::new(),
        &mut leader.desk,
    );
    leader
}

/// The stretch of a record with one decision in it.
fn stretch_of(sequence: u64, time: u64) -> Stretch {
    let mut other = Member::with_small_parts(0);
    other.decides(sequence, time);
    other.decides(1_000, 1_000);
    other.joins(1, 1);
    let outlined = other.desk.sent.iter().find_map(|(_, message)| match message {
        Message::DoViewChange { outline, .. } => outline.stretches.first().copied(),
        _ => None,
    });
    outlined.expect("what has ended last is spelled out, and the rest outlined")
}

#[test]
fn what_a_leader_holds_itself_is_not_handed_over() {
    let leader = leads_with(&[(1, 50), (2, 60)], 0, &[(1, 50), (2, 60)]);
    assert!(leader.is_normal_in(1), "it has everything already");
    let leader = leads_with(&[(1, 50)], 0, &[(1, 50), (2, 60)]);
    assert!(!leader.is_normal_in(1));
    let asked = leader.desk.sent.iter().find_map(|(_, message)| match message {
        Message::PartsMissing { view: View(1), series: 7, missing } => Some(missing.clone()),
        _ => None,
    });
    assert_eq!(asked, Some(vec![PartRange { first: 2, last: 2 }]), "the one that it lacks");
    let leader = leads_with(&[(1, 51)], 0, &[(1, 50)]);
    assert!(!leader.is_normal_in(1), "the same transaction at another time is not the same");
}

#[test]
fn a_receiver_keeps_what_the_leader_holds_too_and_it_is_no_news_any_more() {
    let mut joiner = Member::new(2);
    joiner.decides(1, 50);
    joiner.decides(2, 60);
    let outline = Outline { floor: at(0), stretches: vec![stretch_of(1, 50), stretch_of(3, 70)] };
    let part = |index| Part { series: 7, index, count: 3 };
    let (view, since, page) = (View(1), Some(View(0)), RecordPage::default());
    joiner.replica.on_start_view(view, since, part(0), page, outline, 0, None, None, &mut joiner.desk);
    assert!(!joiner.is_normal_in(1), "it lacks the third");
    let entries = OperationEntries {
        inconsistent: Some(InconsistentEntry { operation: Decided { at: 70, last: 70 }, executed: true }),
        consensus: Vec::new(),
    };
    let page = RecordPage { entries: vec![(transaction(3), entries)] };
    joiner.replica.on_start_view(
        view,
        since,
        part(2),
        page,
        Outline::default(),
        0,
        None,
        None,
        &mut joiner.desk,
    );
    assert!(joiner.is_normal_in(1));
    let tail = |member: &Member| -> Vec<u64> {
        member.replica.record().tail().entries.iter().map(|(id, _)| id.sequence).collect()
    };
    assert_eq!(tail(&joiner), [2], "the others may not have it");
    let restarted = joiner.restarted();
    assert_eq!(tail(&restarted), [2]);
    assert_eq!(restarted.replica.record().all_inconsistent().len(), 3);
}

/// The leader tells what has ended since the view began as news: no base holds it. It may lie between what the receiver keeps of the base.
#[test]
fn news_that_lie_in_a_stretch_that_a_receiver_keeps_stay_news() {
    let mut joiner = Member::new(2);
    joiner.decides(1, 50);
    joiner.decides(3, 70);
    let (first, last) = (stretch_of(1, 50), stretch_of(3, 70));
    let range = CursorRange { first: first.range.first, last: last.range.last };
    let kept = Stretch { range, ended: first.ended.plus(last.ended) };
    let outline = Outline { floor: at(0), stretches: vec![kept] };
    let part = Part { series: 7, index: 0, count: 2 };
    let (view, since, page) = (View(1), Some(View(0)), decision(2, 60, false));
    joiner.replica.on_start_view(view, since, part, page, outline, 0, None, None, &mut joiner.desk);
    assert!(joiner.is_normal_in(1), "it holds what is outlined");
    assert_eq!(joiner.runs(2), 1);
    let tail = |member: &Member| -> Vec<u64> {
        member.replica.record().tail().entries.iter().map(|(id, _)| id.sequence).collect()
    };
    assert_eq!(tail(&joiner), [2], "others that were there from the start have to be told in the next view");
    assert_eq!(tail(&joiner.restarted()), [2]);
}

#[test]
fn what_may_still_be_read_for_another_replica_is_not_collected() {
    let mut member = Member::with_small_parts(0);
    member.decides(1, 5);
    member.decides(2, 6);
    member.joins(1, 1);
    member.collects(10);
    assert_eq!(member.replica.record().len(), 2, "the leader may ask for it");
    member.is_started(Start {
        view: 1,
        since: Some(0),
        page: RecordPage::default(),
        floor: None,
        state: None,
    });
    assert!(member.is_normal_in(1));
    while member.replica.collect(usize::MAX) {}
    assert_eq!(member.replica.record().len(), 0);
}

/// Nobody asks for them again, and the next view change would hand them over as if others lacked them.
#[test]
fn what_was_base_of_an_earlier_view_is_no_tail_of_a_later_one() {
    let mut joiner = Member::new(2);
    let page = decision(1, 50, true);
    joiner.is_started(Start { view: 1, since: Some(0), page, floor: None, state: None });
    joiner.decides(2, 900);
    let outline = Outline { floor: at(0), stretches: vec![stretch_of(2, 900)] };
    let part = Part { series: 7, index: 0, count: 2 };
    let (view, since, page) = (View(2), Some(View(1)), RecordPage::default());
    joiner.replica.on_start_view(view, since, part, page, outline, 0, None, None, &mut joiner.desk);
    assert!(joiner.is_normal_in(2));
    assert!(joiner.replica.record().tail().is_empty());
    assert_eq!(joiner.replica.record().all_inconsistent().len(), 2);
}

#[test]
fn parts_are_given_to_the_leader_of_the_view_that_they_were_cut_for() {
    let mut member = Member::with_small_parts(0);
    for sequence in 1..=3 {
        member.proposes(sequence, 1, 50);
    }
    member.joins(1, 1);
    let parts: Vec<Part> = member
        .desk
        .sent
        .iter()
        .filter_map(|(_, message)| match message {
            Message::DoViewChange { part, .. } => Some(*part),
            _ => None,
        })
        .collect();
    let Part { series, count, .. } = parts[0];
    assert_eq!((count, parts.len()), (3, 3), "few parts are sent unasked");
    let mut asks = |from, view, series, first, last| -> Vec<u32> {
        member.desk.sent.clear();
        let missing = [PartRange { first, last }];
        member.replica.on_parts_missing(ReplicaIndex(from), View(view), series, &missing, &mut member.desk);
        let index = |(_, message): &(Address, Message<Times>)| match message {
            Message::DoViewChange { part, .. } => Some(part.index),
            _ => None,
        };
        member.desk.sent.iter().filter_map(index).collect()
    };
    assert_eq!(asks(1, 1, series, 1, 2), [1, 2]);
    assert_eq!(asks(1, 1, series, 2, 9), [2], "there are no others");
    assert!(asks(1, 0, series, 1, 2).is_empty() && asks(1, 2, series, 1, 2).is_empty(), "another view");
    assert!(asks(2, 1, series, 1, 2).is_empty(), "it does not lead");
    assert!(asks(1, 1, series + 1, 1, 2).is_empty(), "another message");
}

/// Repeated in every part it would be most of what is sent, where parts are small and many.
#[test]
fn what_travels_beside_the_record_is_in_the_first_part() {
    let mut member = Member::with_small_parts(0);
    member.desk.ledger.promise = 77;
    for sequence in 1..=3 {
        member.proposes(sequence, 1, 50);
    }
    member.joins(1, 1);
    let handed_over = |(_, message): &(Address, Message<Times>)| match message {
        Message::DoViewChange { lineage, part, supplement, .. } => {
            Some((part.index, lineage.clone(), *supplement))
        }
        _ => None,
    };
    let parts: Vec<_> = member.desk.sent.iter().filter_map(handed_over).collect();
    assert_eq!(parts, [(0, vec![View(0)], 77), (1, vec![], 0), (2, vec![], 0)]);
}

/// A replica of three that is handed the votes on transactions 1 and 2 in two parts, in the order `arriving`.
fn leads_after(arriving: [u32; 2]) -> Member {
    let mut leader = Member::with_small_parts(1);
    for index in arriving {
        let (lineage, supplement) = if index == 0 { (vec![View(0)], 77) } else { (Vec::new(), 0) };
        leader.replica.on_do_view_change(
            ReplicaIndex(0),
            View(1),
            Some(View(0)),
            lineage,
            Part { series: 7, index, count: 2 },
            votes(u64::from(index) + 1, vec![vote(1, 50, true, State::Tentative)]),
            Outline::default(),
            supplement,
            at(0),
            at(0),
            &BTreeMap::new(),
            &mut leader.desk,
        );
    }
    leader
}

#[test]
fn parts_arrive_in_any_order() {
    for arriving in [[0, 1], [1, 0]] {
        let mut leader = leads_after(arriving);
        assert!(leader.is_normal_in(1));
        assert_eq!(leader.desk.ledger.promise, 77);
        // The follower shares the base, and so is sent what has come since.
        let since = |(_, message): &(Address, Message<Times>)| match message {
            Message::StartView { since, part, supplement, .. } => Some((*since, part.index, *supplement)),
            _ => None,
        };
        let begun: Vec<_> = leader.desk.sent.iter().filter_map(since).collect();
        assert_eq!(begun, [(Some(View(0)), 0, 77), (Some(View(0)), 1, 0)]);
        let mut follower = Member::with_small_parts(0);
        let mut parts: Vec<_> = leader.desk.sent.drain(..).map(|(_, message)| message).collect();
        if arriving[0] == 1 {
            parts.reverse();
        }
        for message in parts {
            if let Message::StartView { view, since, part, page, outline, supplement, floor, .. } = message {
                let desk = &mut follower.desk;
                follower
                    .replica
                    .on_start_view(view, since, part, page, outline, supplement, floor, None, desk);
            }
        }
        assert!(follower.is_normal_in(1));
        assert_eq!(follower.desk.ledger.promise, 77, "whichever part came last");
    }
}

/// It cannot be told from the first part how much it shares, and will repeat it.
#[test]
fn a_view_begins_without_a_word_to_a_replica_whose_first_part_is_on_its_way() {
    let mut leader = Member::with_small_parts(1);
    let mut hears = |from, series, index, count| {
        let (lineage, supplement) = if index == 0 { (vec![View(0)], 77) } else { (Vec::new(), 0) };
        leader.replica.on_do_view_change(
            ReplicaIndex(from),
            View(1),
            Some(View(0)),
            lineage,
            Part { series, index, count },
            RecordPage::default(),
            Outline::default(),
            supplement,
            at(0),
            at(0),
            &BTreeMap::new(),
            &mut leader.desk,
        );
        let begun = |(to, message): &(Address, Message<Times>)| {
            let index = match to {
                Address::Replica(to) => to.index.0,
                other => unreachable!("{other:?} is told to begin"),
            };
            matches!(message, Message::StartView { .. }).then_some(index)
        };
        leader.desk.sent.drain(..).filter_map(|sent| begun(&sent)).collect::<Vec<_>>()
    };
    assert_eq!(hears(0, 7, 1, 2), []);
    assert_eq!(hears(2, 8, 0, 1), [2], "two suffice");
    assert_eq!(hears(0, 7, 0, 2), [0]);
}

#[test]
fn more_state_is_asked_for_once_when_the_first_page_has_come() {
    let mut member = Member::new(2);
    let mut arrives = |index: u32| {
        let part = Part { series: 7, index, count: 3 };
        let state = (index == 0).then(|| (BTreeSet::from([1]), Some(Key::from("k"))));
        let (view, page, outline) = (View(1), RecordPage::default(), Outline::default());
        member.desk.sent.clear();
        member.replica.on_start_view(
            view,
            None,
            part,
            page,
            outline,
            0,
            Some(at(5)),
            state,
            &mut member.desk,
        );
        let asked = member.desk.sent.iter().filter(|(_, said)| matches!(said, Message::StateWanted { .. }));
        asked.count()
    };
    assert_eq!([1, 0, 0, 2].map(&mut arrives), [0, 1, 0, 0]);
}
