//! Leaders whose clocks are off.

use std::time::Duration;

use quorate_core::{ReplicaIndex, View};

use super::World;
use crate::{Rules, Status};

const HOURS: i64 = 2 * 3_600 * 1_000_000;

/// A group of three or five in which the first leads, and the clocks of some are ahead by so many microseconds from now on.
fn with_errors(replicas: usize, rules: Rules, errors: &[(usize, i64)]) -> World {
    let mut world = World::calm_with(replicas, rules);
    world.pass(Duration::from_millis(100));
    assert!(world.replica(0).is_leading());
    for (index, error) in errors {
        world.processes[*index].clock_error = *error;
    }
    world
}

fn leader(world: &World) -> Option<usize> {
    (0..world.processes.len()).find(|index| world.replica(*index).is_leading())
}

#[test]
fn a_leader_whose_clock_is_off_hands_over_to_the_next_whose_clock_is_not() {
    hand_over(Rules::SOUND);
}

/// Two of five have clocks that are off, and one of them leads.
pub(super) fn hand_over(rules: Rules) {
    for error in [HOURS, -HOURS / 2] {
        let mut world = with_errors(5, rules, &[(0, error), (1, error)]);
        // Two beats and a view change, and no silence of 80 ms or lease of 150.
        world.pass(Duration::from_millis(75));
        assert_eq!(leader(&world), Some(2), "{error}");
        assert_eq!(world.replica(2).view(), View(2));
        world.pass(Duration::from_millis(60));
        assert!((0..5).all(|index| world.replica(index).status() == Status::Normal));
        for index in 0..5 {
            let off = world.replica(index).clock_error_micros();
            assert_eq!(
                off.is_some(),
                index < 2,
                "replica {index} learns from the leader whether it is off: {off:?}"
            );
        }
    }
}

#[test]
fn a_group_hears_no_more_of_a_clock_that_is_right_again() {
    let mut world = with_errors(3, Rules::SOUND, &[(0, HOURS)]);
    world.pass(Duration::from_millis(200));
    let (led_by, view) = (leader(&world), world.replica(1).view());
    assert_eq!(led_by, Some(1));
    assert!(world.replica(0).clock_error_micros().is_some_and(|error| (error - HOURS).abs() < 50_000));
    world.processes[0].clock_error = 0;
    world.pass(Duration::from_millis(200));
    assert_eq!(world.replica(0).clock_error_micros(), None);
    assert_eq!((leader(&world), world.replica(1).view()), (led_by, view));
}

#[test]
fn a_replica_goes_by_no_reading_of_an_earlier_view() {
    let mut world = with_errors(3, Rules::SOUND, &[(0, HOURS)]);
    world.pass(Duration::from_millis(200));
    assert_eq!(leader(&world), Some(1));
    // A reading from while a clock was off for a moment must not count with one that is off later.
    assert_eq!(world.group_clock(0), None);
}

#[test]
fn a_leader_whose_clock_is_off_leads_on_if_no_sound_clock_is_heard() {
    // All three differ, and the one in the middle does not answer: of the two that are heard nobody knows which is off.
    let mut world = with_errors(3, Rules::SOUND, &[]);
    world.isolate(1);
    world.pass(Duration::from_millis(100));
    (world.processes[0].clock_error, world.processes[2].clock_error) = (HOURS, -HOURS);
    world.pass(Duration::from_millis(100));
    assert_eq!(leader(&world), Some(0));
    assert_eq!(world.replica(0).clock_error_micros(), None);
}

/// A group goes by its majority while the clock of its leader is hours ahead, and while it is hours behind.
pub(super) fn go_by_the_majority(rules: Rules) {
    let mut world = with_errors(3, rules, &[(0, HOURS)]);
    let group_clock = |world: &mut World| world.group_clock(0).map(|clock| clock.as_micros());
    // At once: the others have said before what their clocks read.
    let bound = world.habits.timing.clock_error_max.as_micros() as u64;
    let limit = world.clock(1) + bound;
    assert!(group_clock(&mut world).is_some_and(|clock| clock <= limit && clock + 10_000 > limit));
    world.processes[0].clock_error = -HOURS;
    let least = world.clock(1) - bound - 10_000;
    assert!(group_clock(&mut world).is_some_and(|clock| clock >= least));
}

#[test]
fn a_group_goes_by_its_majority_while_one_clock_is_hours_off() {
    go_by_the_majority(Rules::SOUND);
}

#[test]
fn a_leader_that_has_heard_nobody_in_this_life_knows_no_clock_of_its_group() {
    let mut world = World::calm(3);
    world.pass(Duration::from_millis(100));
    for index in [1, 2] {
        world.crash(index);
    }
    world.crash(0);
    world.restart(0);
    assert_eq!(world.group_clock(0), None);
    world.restart(1);
    world.pass(Duration::from_millis(400));
    let led_by = leader(&world).expect("two of three are up");
    assert!(world.group_clock(led_by).is_some());
    assert_eq!(world.replica(led_by).leader(world.replica(led_by).view()), ReplicaIndex(led_by as u8));
}
