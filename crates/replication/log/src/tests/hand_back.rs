//! The first member of a group leads it again once it has kept up for long enough.

use std::time::Duration;

use super::{TIMING, World};

/// A view change, when nothing goes wrong.
const MOMENT: Duration = Duration::from_millis(100);

fn leader(world: &World) -> Option<usize> {
    (0..world.processes.len()).find(|index| world.replica(*index).is_leading())
}

/// A group that is not led by its first member, which takes part again.
fn led_by_another(replicas: usize) -> World {
    let mut world = World::calm(replicas);
    world.pass(TIMING.silence);
    world.give_way(0);
    world.pass(MOMENT);
    assert_eq!(leader(&world), Some(1));
    world
}

/// How long it takes until the first member leads again.
fn until_handed_back(world: &mut World) -> Duration {
    let since = world.now;
    while leader(world) != Some(0) {
        world.tick();
        assert!(world.now - since < 60_000_000, "the first member does not come to lead");
    }
    Duration::from_micros(world.now - since)
}

#[test]
fn the_first_member_leads_again_once_it_has_kept_up_for_long_enough() {
    for replicas in [3, 5] {
        let mut world = led_by_another(replicas);
        world.pass(TIMING.hand_back - 3 * MOMENT);
        assert_eq!(leader(&world), Some(1), "it has not kept up for long enough");
        let view = world.replica(1).view();
        assert!(until_handed_back(&mut world) < 5 * MOMENT, "without waiting for silence or a lease");
        world.pass(5 * TIMING.hand_back);
        assert_eq!((leader(&world), world.replica(1).view().0 - view.0), (Some(0), replicas as u64 - 1));
    }
}

#[test]
fn a_first_member_that_falls_silent_has_to_keep_up_anew() {
    let mut world = led_by_another(3);
    world.pass(TIMING.hand_back - 3 * MOMENT);
    world.isolate(0);
    world.pass(2 * TIMING.silence);
    world.cut.clear();
    assert!(until_handed_back(&mut world) > TIMING.hand_back - MOMENT);
}

#[test]
fn a_leader_hands_back_to_no_member_that_holds_less_than_was_stable_a_beat_ago() {
    let mut world = led_by_another(3);
    // Its answers come, but its disk is so slow that they are often older than a beat.
    let sync_rate = std::mem::replace(&mut world.processes[0].sync_rate, 0.0);
    let until = world.now + 3 * TIMING.hand_back.as_micros() as u64;
    for beat in 0.. {
        if world.now >= until {
            break;
        }
        let payload = world.appended;
        assert!(world.step(1, |replica, _| replica.append(payload)).flatten().is_some());
        world.appended += 1;
        if beat % 3 == 0 {
            world.sync(0);
        }
        world.pass(TIMING.beat);
    }
    assert_eq!(leader(&world), Some(1));
    world.processes[0].sync_rate = sync_rate;
    assert!(until_handed_back(&mut world) > TIMING.hand_back - MOMENT);
}

#[test]
fn a_leader_hands_nothing_back_while_a_view_change_would_lack_others() {
    let mut world = led_by_another(5);
    world.pass(TIMING.hand_back - Duration::from_millis(150));
    (2..5).for_each(|index| world.crash(index));
    // It is due by now, and the leader has not given up yet.
    world.pass(Duration::from_millis(130));
    assert!(world.replica(1).is_leading());
}

#[test]
fn a_leader_becomes_more_patient_with_a_first_member_that_fails_again_and_again() {
    let mut world = led_by_another(3);
    let mut took = Vec::new();
    for _ in 0..3 {
        took.push(until_handed_back(&mut world));
        world.pass(MOMENT);
        world.give_way(0);
        world.pass(MOMENT);
    }
    for (round, took) in took.iter().enumerate() {
        let patience = TIMING.hand_back * 2_u32.pow(round as u32);
        assert!(patience - 2 * MOMENT < *took && *took < patience + 2 * MOMENT, "{round}: {took:?}");
    }
    // It stays for long, so whatever it failed of is over.
    until_handed_back(&mut world);
    world.pass(80 * TIMING.hand_back);
    world.give_way(0);
    world.pass(MOMENT);
    assert!(until_handed_back(&mut world) < 2 * TIMING.hand_back);
}

#[test]
fn a_leader_hands_back_to_no_member_whose_clock_is_off() {
    let mut world = led_by_another(3);
    world.processes[0].clock_error = 3_600_000_000;
    world.pass(2 * TIMING.hand_back);
    assert_eq!(leader(&world), Some(1));
    world.processes[0].clock_error = 0;
    assert!(until_handed_back(&mut world) < 5 * MOMENT);
}
