//! Groups of which more replicas have lost their disks than they survive.

use quorate_core::{ReplicaIndex, View};

use super::list::Ask;
use super::{LIMITS, Record, World, calm};
use crate::replica::Boot;
use crate::{Fact, LogEvent, Membership, Status};

/// A replica stops, and starts with these records in place of its own.
fn start_with(world: &mut World, index: usize, records: Vec<Record>) {
    world.crash(index);
    let process = &mut world.processes[index];
    process.records = records;
    (process.durable, process.anchor) = (process.records.len(), 0);
    process.truncations.clear();
    world.boot(index, Boot::Recover);
}

fn losses(world: &World, index: usize) -> Vec<usize> {
    let of_index = world.events.iter().filter(|(of, _)| *of == index);
    let lost = |event: &LogEvent| match event {
        LogEvent::Lost { lost } => Some(*lost),
        _ => None,
    };
    of_index.filter_map(|(_, event)| lost(event)).collect()
}

fn status(world: &World, index: usize) -> Status {
    world.processes[index].member.as_ref().expect("it is up").replica().status()
}

fn next_life(world: &World, index: usize) -> Option<u64> {
    world.processes[index].member.as_ref().expect("it is up").replica().next_life()
}

fn values(world: &World, index: usize) -> usize {
    world.processes[index].member.as_ref().expect("it is up").machine().values().len()
}

#[test]
fn who_has_lost_its_disk_says_so_if_too_many_have() {
    let mut world = calm(LIMITS);
    start_with(&mut world, 1, Vec::new());
    world.pass(100);
    assert_eq!((status(&world, 1), losses(&world, 1)), (Status::Normal, vec![]), "the others help it");
    world.crash(0);
    start_with(&mut world, 1, Vec::new());
    start_with(&mut world, 2, Vec::new());
    world.pass(100);
    for index in [1, 2] {
        assert_eq!((status(&world, index), losses(&world, index)), (Status::Recovering, vec![2]));
    }
    // The one that was merely down is enough for neither.
    world.restart(0);
    world.pass(100);
    assert_eq!(status(&world, 1), Status::Recovering);
}

#[test]
fn a_sleeper_goes_on_with_what_a_survivor_knows() {
    let mut world = calm(LIMITS);
    for value in 0..20 {
        world.ask(0, Ask::Append(7 * value + 1));
        world.pass(1);
    }
    world.pass(50);
    // Not the one that has led.
    world.crash(0);
    start_with(&mut world, 0, Vec::new());
    start_with(&mut world, 1, Vec::new());
    world.pass(100);
    assert_eq!(status(&world, 1), Status::Recovering, "one survivor helps nobody");
    let life = next_life(&world, 1).expect("it has heard of the others");
    let membership = Membership::first(world.memberships[0].group());
    let sleeper = Fact::asleep_since_creation(membership, ReplicaIndex(1), (View(1_000), life));
    let sleeper = sleeper.expect("a view follows");
    start_with(&mut world, 1, sleeper);
    world.pass(400);
    for index in 0..3 {
        assert_eq!((status(&world, index), values(&world, index)), (Status::Normal, 20), "{index}");
        let view = world.processes[index].member.as_ref().expect("it is up").replica().view();
        assert!(view > View(1_000), "{index}: in no view of an earlier life");
    }
}

/// The survivor has noted an earlier life of it, and would take what it offers for a word from before.
#[test]
fn a_sleeper_that_had_lost_its_disk_before_goes_on_in_a_later_life() {
    let mut world = calm(LIMITS);
    world.ask(0, Ask::Append(8));
    world.pass(50);
    start_with(&mut world, 1, Vec::new());
    world.pass(100);
    assert_eq!((status(&world, 1), next_life(&world, 1)), (Status::Normal, None), "it has come back");
    world.crash(2);
    start_with(&mut world, 0, Vec::new());
    start_with(&mut world, 1, Vec::new());
    world.pass(100);
    assert_eq!(next_life(&world, 1), None, "the survivor is down, and may know more");
    world.restart(2);
    world.pass(100);
    assert_eq!((next_life(&world, 0), next_life(&world, 1)), (Some(1), Some(2)));
    let membership = Membership::first(world.memberships[0].group());
    let sleeper = Fact::asleep_since_creation(membership, ReplicaIndex(1), (View(1_000), 2));
    start_with(&mut world, 1, sleeper.expect("a view follows"));
    world.pass(400);
    for index in 0..3 {
        assert_eq!((status(&world, index), values(&world, index)), (Status::Normal, 1), "{index}");
    }
}
