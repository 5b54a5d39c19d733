//! Who may lead, and for how long nobody else can.

use std::time::Duration;

use quorate_core::View;

use super::{TIMING, World};
use crate::message::Offer;
use crate::{Message, Status};

const MOMENT: Duration = Duration::from_millis(30);

fn wish(view: u64) -> Message<u64> {
    Message::StartViewChange { view: View(view), entered: false }
}

/// What a replica with nothing in its log says when it has entered a view.
fn offer(view: u64) -> Message<u64> {
    Message::DoViewChange { view: View(view), offer: Offer::default() }
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

#[test]
fn a_confirmation_is_of_what_was_said_after_it_was_asked_for() {
    let mut world = World::calm(3);
    let number = world.step(0, |replica, _| replica.confirm()).flatten().expect("it leads");
    assert!(world.replica(0).has_confirmed(number - 1) && !world.replica(0).has_confirmed(number));
    world.pass(MOMENT);
    assert!(world.replica(0).has_confirmed(number));
}
