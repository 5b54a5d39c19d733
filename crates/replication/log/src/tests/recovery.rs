//! Coming back without a disk.

use std::time::Duration;

use quorate_core::View;

use super::{TIMING, World};
use crate::message::Offer;
use crate::replica::Boot;
use crate::{Message, Rules, Status};

const MOMENT: Duration = Duration::from_millis(60);

/// A possible message of an earlier life of a replica, with nothing in its log.
fn stale_offer() -> Message<u64> {
    Message::DoViewChange { view: View(1), offer: Offer::default(), clock: None }
}

fn append(world: &mut World, leader: usize) {
    for payload in 0..3 {
        let position = world.step(leader, |replica, _| replica.append(payload)).flatten();
        assert!(position.is_some(), "it leads");
    }
}

/// "Recovering Shared Objects Without Stable Storage" (Michael et al., 2017) shows what the published recovery loses here.
#[test]
fn an_offer_of_an_earlier_life_does_not_count() {
    lose_with_a_late_offer(Rules::SOUND);
}

pub(super) fn lose_with_a_late_offer(rules: Rules) {
    for restarts in [false, true] {
        let mut world = World::calm_with(3, rules);
        world.crash(2);
        world.lose(2);
        world.pass(MOMENT);
        assert_eq!(world.replica(2).status(), Status::Normal, "it has come back");
        world.isolate(1);
        append(&mut world, 0);
        world.pass(MOMENT);
        assert_eq!(world.stable.len(), 3, "two of three hold it");
        if restarts {
            world.crash(1);
            world.restart(1);
        }
        world.pass(TIMING.lease + TIMING.silence);
        world.tell(1, 2, stale_offer());
        world.sync(1);
        assert_eq!((world.replica(1).view(), world.replica(1).status()), (View(1), Status::ViewChanging));
        world.cut.clear();
        world.pass(2 * TIMING.lease);
        assert!((0..3).all(|index| world.replica(index).stable().0 == 3));
    }
}

#[test]
fn a_life_is_counted_from_what_a_majority_knows() {
    let mut world = World::calm(3);
    world.crash(2);
    world.isolate(2);
    world.lose(2);
    let answer = |nonce| Message::KnownLife { nonce, life: 4 };
    let is_new_life = |message: &Message<u64>| matches!(message, Message::NewLife { life: 5 });
    let nonce = world.nonces;
    world.cut.clear();
    world.tell(2, 0, answer(nonce));
    world.tell(2, 1, answer(nonce + 1));
    assert!(!world.has_said(2, is_new_life), "one has answered, and one another question");
    world.tell(2, 1, answer(nonce));
    assert!(world.has_said(2, is_new_life));
}

#[test]
fn a_crash_while_coming_back_makes_nobody_a_new_member() {
    let mut world = World::calm(3);
    world.crash(2);
    world.isolate(2);
    world.lose(2);
    let nonce = world.nonces;
    for from in [0, 1] {
        world.tell(2, from, Message::KnownLife { nonce, life: 0 });
    }
    world.sync(2);
    world.crash(2);
    world.boot(2, Boot::Initialise);
    assert_eq!(world.replica(2).status(), Status::Recovering, "it has written down that it has a life");
}

#[test]
fn who_is_coming_back_is_no_witness() {
    let mut world = World::calm(3);
    world.crash(2);
    world.isolate(2);
    world.lose(2);
    world.cut.clear();
    world.tell(2, 1, Message::WhichLife { nonce: 7 });
    world.tell(2, 1, Message::NewLife { life: 1 });
    let is_witness =
        |message: &Message<u64>| matches!(message, Message::KnownLife { .. } | Message::LifeNoted { .. });
    assert!(!world.has_said(2, is_witness));
}
