//! The replicas that may lead, and for how long no other can.

use std::time::Duration;

use quorate_core::{ReplicaIndex, View};

use super::{Flying, TIMING, World};
use crate::message::Offer;
use crate::{Message, Rules, Status};

const MOMENT: Duration = Duration::from_millis(30);

fn wish(view: u64) -> Message<u64> {
    Message::StartViewChange { view: View(view), entered: false }
}

/// The offer of a replica with nothing in its log when it has entered a view.
fn offer(view: u64) -> Message<u64> {
    Message::DoViewChange { view: View(view), offer: Offer::default(), clock: None }
}

#[test]
fn a_replica_that_hears_nothing_does_not_disturb_the_others() {
    let mut world = World::calm(3);
    world.isolate(2);
    world.pass(10 * TIMING.lease);
    world.cut.clear();
    world.pass(MOMENT);
    for index in 0..3 {
        assert_eq!((world.replica(index).view(), world.replica(index).status()), (View(0), Status::Normal));
    }
    assert!(world.replica(0).is_leading());
}

#[test]
fn nobody_goes_on_while_a_promise_binds() {
    for message in [wish(1), offer(1)] {
        let mut world = World::calm(3);
        world.tell(1, 2, message.clone());
        assert_eq!(world.replica(1).view(), View(0), "{message:?}");
        world.isolate(0);
        world.pass(TIMING.lease + TIMING.silence);
        world.tell(1, 2, message.clone());
        world.pass(MOMENT);
        assert!(world.replica(1).view() > View(0), "{message:?}");
    }
}

/// Wishes come late, and a leader may have wished for a later view before it came to lead this one.
#[test]
fn a_leader_ends_its_leases_by_leaving_its_view_and_not_by_a_wish() {
    for entered in [false, true] {
        let mut world = World::calm(3);
        world.tell(1, 0, Message::StartViewChange { view: View(1), entered });
        world.tell(1, 2, wish(1));
        assert_eq!(world.replica(1).view() > View(0), entered);
    }
}

#[test]
fn a_restart_does_not_end_a_promise() {
    let mut world = World::calm(3);
    world.crash(1);
    world.isolate(0);
    world.restart(1);
    world.tell(1, 2, wish(1));
    assert_eq!(world.replica(1).view(), View(0));
}

#[test]
fn a_leader_that_restarts_gives_its_leases_up_and_leads_anew() {
    let mut world = World::calm(3);
    world.crash(0);
    world.restart(0);
    world.pass(MOMENT);
    assert!(world.replica(0).is_leading(), "sooner than its leases would have ended");
    assert_eq!(world.replica(0).view(), View(3));
}

#[test]
fn a_leader_whose_node_is_about_to_stop_gives_way_at_once_to_a_replica_that_takes_part() {
    let mut world = World::calm(3);
    world.give_way(1);
    assert_eq!(world.replica(1).view(), View(0), "it leads nothing");
    world.isolate(1);
    world.pass(2 * TIMING.silence);
    assert!(world.replica(0).is_leading());
    world.give_way(0);
    world.pass(TIMING.lease);
    assert!(
        world.replica(2).is_leading(),
        "the first in turn does not answer, and silence begins after a lease"
    );
    world.isolate(0);
    world.pass(TIMING.lease);
    world.give_way(2);
    assert!(world.replica(2).is_leading(), "nobody else could");
}

#[test]
fn a_leader_follows_who_cannot_come_back_and_begins_its_leases_anew() {
    let mut world = World::calm(3);
    world.isolate(2);
    world.pass(TIMING.lease + TIMING.silence);
    world.tell(2, 1, wish(1));
    assert_eq!((world.replica(2).view(), world.replica(2).status()), (View(1), Status::ViewChanging));
    assert!(world.replica(0).lease_until().is_some());
    world.cut.clear();
    while world.replica(0).view() == View(0) || !world.replica(0).is_leading() {
        world.tick();
    }
    assert!(world.replica(0).lease_until().is_none(), "nobody has promised anything in this view");
    world.pass(MOMENT);
    assert!(world.replica(0).lease_until().is_some());
    for index in 0..3 {
        assert_eq!((world.replica(index).view(), world.replica(index).status()), (View(3), Status::Normal));
    }
}

/// Two that lead views of their own would take the others from each other for ever.
#[test]
fn a_leader_gives_its_view_some_time() {
    let mut world = World::calm(3);
    let entered = Message::StartViewChange { view: View(1), entered: true };
    world.tell(0, 1, entered.clone());
    assert!(world.replica(0).is_leading(), "it has just begun");
    world.pass(TIMING.silence);
    world.tell(0, 1, entered);
    assert_eq!((world.replica(0).view(), world.replica(0).status()), (View(3), Status::ViewChanging));
}

/// A group of five, of whom the last hears nobody any more and waits for view 1 to begin.
fn on_the_way() -> World {
    let mut world = World::calm(5);
    world.isolate(4);
    world.pass(TIMING.lease + TIMING.silence);
    world.tell(4, 1, wish(1));
    world.tell(4, 2, wish(1));
    assert_eq!((world.replica(4).view(), world.replica(4).status()), (View(1), Status::ViewChanging));
    world
}

/// One that the others do not hear, or that does not hear them, may wish for another view every time.
#[test]
fn a_view_that_is_being_changed_to_is_given_its_time() {
    let mut world = on_the_way();
    let has_left_for = |view: u64| Message::StartViewChange { view: View(view), entered: true };
    let wishes_for = |world: &mut World, wished: u64| {
        world.has_said(
            4,
            |said| matches!(said, Message::StartViewChange { view, .. } if *view == View(wished)),
        )
    };
    world.cut.clear();
    world.tell(4, 1, has_left_for(3));
    assert!(!wishes_for(&mut world, 3), "neither it nor enough of the others will lead that view");
    world.tell(4, 3, has_left_for(3));
    assert!(wishes_for(&mut world, 3), "its leader has left this view");
    assert_eq!(world.replica(4).view(), View(3), "and so many go on with it");
}

/// Replicas that do not work may want views that they lead themselves, one after the other.
#[test]
fn a_view_that_few_want_passes_over_none() {
    for (want_it_before, want_it_later, expected) in [(&[2][..], &[3][..], 2), (&[2, 3], &[], 6)] {
        let mut world = on_the_way();
        want_it_before.iter().for_each(|other| world.tell(4, *other, wish(6)));
        // It waits for the leader of the first view, repeats what it has said, and tries another.
        world.pass(5 * TIMING.silence);
        want_it_later.iter().for_each(|other| world.tell(4, *other, wish(6)));
        assert_eq!(world.replica(4).view(), View(expected), "{want_it_before:?}");
    }
}

#[test]
fn a_confirmation_is_of_what_was_said_after_it_was_asked_for() {
    let mut world = World::calm(3);
    let number = world.step(0, |replica, _| replica.confirm()).flatten().expect("it leads");
    assert!(world.replica(0).has_confirmed(number - 1) && !world.replica(0).has_confirmed(number));
    world.pass(MOMENT);
    assert!(world.replica(0).has_confirmed(number));
}

/// The others hear it, so they would wait for it for ever.
#[test]
fn a_leader_that_hears_nobody_lets_another_lead() {
    let mut world = World::calm(3);
    world.cut.extend([(ReplicaIndex(1), ReplicaIndex(0)), (ReplicaIndex(2), ReplicaIndex(0))]);
    world.pass(20 * TIMING.silence);
    assert!(!world.replica(0).is_leading());
    let leader = (1..3).find(|index| world.replica(*index).is_leading()).expect("another leads");
    assert_eq!(world.replica(leader).status(), Status::Normal);
}

/// The other one that works waits for the leader of a later view, which does not. Seed 3889 of the serializable simulation found that.
#[test]
fn a_leader_that_hears_of_other_views_only_follows_to_one() {
    let mut world = World::calm(3);
    world.isolate(0);
    for _ in 0..20 {
        world.pass(TIMING.silence);
        world.tell(0, 2, wish(4));
        world.tell(0, 2, Message::EpochStarted);
    }
    assert!(!world.replica(0).is_leading());
    assert_eq!(world.replica(0).view(), View(4), "both want to");
}

/// A replica that has lost its disk needs the leader to come back.
#[test]
fn a_leader_that_hears_of_lost_disks_only_goes_on_leading() {
    let mut world = World::calm(3);
    world.isolate(0);
    for nonce in 0..20 {
        world.pass(TIMING.silence);
        world.tell(0, 2, Message::WhichLife { nonce });
    }
    assert!(world.replica(0).is_leading());
}

#[test]
fn a_leader_whose_disk_stands_still_lets_another_lead() {
    let mut world = World::calm(3);
    world.processes[0].sync_rate = 0.0;
    world.step(0, |replica, step| {
        replica.append(7);
        replica.flush(step);
    });
    world.pass(20 * TIMING.silence);
    assert!(!world.replica(0).is_leading());
    assert!((1..3).any(|index| world.replica(index).is_leading()));
    assert_eq!(world.stable, [7], "the others had it on disk");
}

/// A leader that has nothing to write does not wait for its disk.
#[test]
fn a_leader_with_nothing_to_do_goes_on_leading() {
    let mut world = World::calm(3);
    world.processes[0].sync_rate = 0.0;
    world.isolate(2);
    world.pass(20 * TIMING.silence);
    assert!(world.replica(0).is_leading());
}

#[test]
fn a_lease_counts_from_when_the_leader_spoke() {
    outlast_with_a_late_answer(Rules::SOUND);
}

/// An answer from before the leader was cut off comes when the promises that it tells of have nearly ended.
pub(super) fn outlast_with_a_late_answer(rules: Rules) {
    let mut world = World::calm_with(3, rules);
    let is_answer =
        |flying: &Flying| flying.to == ReplicaIndex(0) && matches!(flying.message, Message::PrepareOk { .. });
    let answer = loop {
        world.tick();
        if let Some(at) = world.flying.iter().position(is_answer) {
            break world.flying.swap_remove(at);
        }
    };
    world.flying.clear();
    world.isolate(0);
    world.pass(TIMING.lease - Duration::from_millis(10));
    world.tell(0, usize::from(answer.from.0), answer.message);
    for _ in 0..2 * TIMING.lease.as_millis() {
        world.pass(Duration::from_millis(1));
        for index in 1..3 {
            world.step(index, |replica, step| {
                replica.append(1);
                replica.flush(step);
            });
        }
    }
    assert!(!world.stable.is_empty(), "another leads");
}
