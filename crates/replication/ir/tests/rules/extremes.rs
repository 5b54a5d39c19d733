//! Numbers at the ends of their ranges, said by a replica: none is taken over, each is dropped with a reason, and the replica
//! restarts from what it has kept.

use quorate_ir::CursorRange;

use super::*;

const EXTREMES: [u64; 4] = [u64::MAX, i64::MAX as u64, u32::MAX as u64, i32::MAX as u64];

/// A replica that hears one number in every place that a message has for it.
fn hears(member: &mut Member, number: u64) {
    let Member { replica, desk } = member;
    let (view, peer) = (View(number), ReplicaIndex(1));
    let lives = || BTreeMap::from([(ReplicaIndex(2), number)]);
    let page = RecordPage::default;
    let place = |micros| (Timestamp { micros, ..Timestamp::ZERO }, transaction(number));
    let range = CursorRange { first: place(0), last: place(number) };
    let stretches = vec![Stretch { range, ended: Default::default() }; 3];
    let outline =
        || Outline { floor: Timestamp { micros: number, ..Timestamp::ZERO }, stretches: stretches.clone() };
    replica.on_higher_view(super::member(peer), view, desk);
    replica.on_higher_view(CLIENT, view, desk);
    replica.on_start_view_change(peer, view, desk);
    for (view, last, lives) in [
        (view, Some(View(0)), BTreeMap::new()),
        (View(3), Some(view), BTreeMap::new()),
        (View(3), None, lives()),
    ] {
        let lineage = last.into_iter().collect();
        let (floor, complete) = (Timestamp::ZERO, Timestamp::ZERO);
        replica.on_do_view_change(
            peer,
            view,
            last,
            lineage,
            Part::WHOLE,
            page(),
            outline(),
            0,
            floor,
            complete,
            &lives,
            desk,
        );
    }
    replica.on_start_view(view, None, Part::WHOLE, page(), outline(), 0, None, None, desk);
    let part = Part { series: number, index: number as u32, count: number as u32 };
    replica.on_start_view(View(1), Some(view), part, page(), outline(), 0, None, None, desk);
    replica.on_parts_missing(
        peer,
        View(1),
        number,
        &[PartRange { first: number as u32, last: number as u32 }],
        desk,
    );
    replica.on_view_query(peer, number, number, desk);
    replica.on_view_query_reply(peer, number, view, false, number, desk);
}

fn restarted(desk: Desk) -> Member {
    let group = GroupSize::new(3).unwrap();
    let mut replica = Replica::initialise(group, ReplicaIndex(0), Duration::from_secs(1), 1 << 20);
    let mut ledger = Ledger::default();
    for fact in desk.facts {
        replica.restore(fact, &mut ledger);
    }
    replica.finish_restore();
    let mut member = Member { replica, desk: Desk { ledger, ..Desk::default() } };
    member.replica.start(&mut member.desk);
    member
}

#[test]
fn a_replica_takes_over_no_number_at_the_end_of_its_range() {
    for number in EXTREMES {
        let mut member = Member::new(0);
        hears(&mut member, number);
        assert!(member.replica.view() < View(10), "{number}: {}", member.replica.view());
        assert!(member.desk.ignored.contains(&"view too far ahead"), "{number}: {:?}", member.desk.ignored);
        assert!(member.desk.ignored.contains(&"life too far ahead"), "{number}: {:?}", member.desk.ignored);
        let restarted = restarted(member.desk);
        assert_eq!(restarted.replica.status(), Status::ViewChanging);
        assert!(restarted.replica.view() < View(10));
    }
}

#[test]
fn a_replica_without_its_record_takes_over_no_number_at_the_end_of_its_range() {
    for number in EXTREMES {
        let mut member = Member::lost(0, 3);
        hears(&mut member, number);
        for peer in [1, 2].map(ReplicaIndex) {
            let nonce = member.desk.nonces;
            member.replica.on_view_query_reply(peer, nonce, View(number), false, 0, &mut member.desk);
            member.replica.on_view_query_reply(peer, nonce, View(0), false, number, &mut member.desk);
        }
        assert!(member.replica.view() < View(10), "{number}: {}", member.replica.view());
    }
}

/// As logs hold it that were written before numbers from outside had a bound.
#[test]
fn a_replica_whose_records_name_the_last_view_starts_and_stays_silent() {
    let mut desk = Desk::default();
    desk.facts.push(Fact::ViewEntered(View(u64::MAX)));
    let mut member = restarted(desk);
    assert!(!member.replica.view().is_sound(member.replica.since()), "its host refuses it");
    assert_eq!(member.desk.ignored, ["no view of the epoch is left"]);
    for _ in 0..100 {
        member.replica.on_view_change_timeout(&mut member.desk);
    }
    assert_eq!(member.replica.view(), View(u64::MAX));
}

#[test]
fn a_replica_believes_a_view_that_others_may_have_come_to_in_half_a_year() {
    let mut member = Member::new(0);
    member.replica.on_start_view_change(ReplicaIndex(1), View(1 << 24), &mut member.desk);
    assert_eq!((member.replica.view(), member.replica.status()), (View(1 << 24), Status::ViewChanging));
}
