//! The events by which an operator hears of a clock that is off.

use super::{LIMITS, World, calm};
use crate::LogEvent;

/// The events about the clock of a replica; they are forgotten here.
fn told(world: &mut World, index: usize) -> Vec<Option<i64>> {
    let events = std::mem::take(&mut world.events).into_iter();
    let of_clock = |(of, event)| match event {
        LogEvent::Clock { error_micros } if of == index => Some(error_micros),
        _ => None,
    };
    events.filter_map(of_clock).collect()
}

#[test]
fn a_clock_that_is_off_is_told_once_and_once_that_it_is_right_again() {
    let mut world = calm(LIMITS);
    assert_eq!(told(&mut world, 0), []);
    // The leader hears of the clocks of all; those of the others are right.
    world.processes[0].clock_ahead = 60_000_000;
    world.pass(500);
    let [Some(error)] = told(&mut world, 0)[..] else { panic!("it is told") };
    assert!((59_000_000..=61_000_000).contains(&error), "{error}");
    world.pass(500);
    assert_eq!(told(&mut world, 0), [], "that is known");
    world.processes[0].clock_ahead = 0;
    world.pass(500);
    assert_eq!(told(&mut world, 0), [None]);
}
