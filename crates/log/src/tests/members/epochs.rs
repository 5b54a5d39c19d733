//! Going on with other replicas.

use quorate_core::machine::Input;
use quorate_core::{Epoch, ReplicaIndex};

use super::list::Ask;
use super::{LIMITS, World, calm};
use crate::{LogCommand, LogEvent, Part, Status};

fn change(world: &mut World, leader: usize, members: &[u8]) {
    let members = members.iter().copied().map(ReplicaIndex).collect();
    world.step(leader, Input::Command(Part::Log(LogCommand::ChangeGroup(members))));
}

fn status(world: &World, index: usize) -> Status {
    world.processes[index].member.as_ref().expect("it is up").replica().status()
}

/// The first three of seven lead, and a list of so many values stands.
fn group(length: u64) -> World {
    let mut world = calm(LIMITS).with_spares(4);
    for value in 0..length {
        world.ask(0, Ask::Append(7 * value + 1));
        world.pass(1);
    }
    world.pass(50);
    assert_eq!(world.list.len() as u64, length);
    world
}

fn has_told(world: &World, index: usize, event: LogEvent) -> bool {
    world.events.contains(&(index, event))
}

#[test]
fn a_group_goes_on_with_others_and_hands_over() {
    // So long that the others are given the state, and so short that they are given entries.
    for length in [2, 200] {
        let mut world = group(length);
        change(&mut world, 0, &[3, 4, 5]);
        world.pass(200);
        for old in 0..3 {
            assert_eq!(status(&world, old), Status::Retired);
            assert!(has_told(&world, old, LogEvent::HandedOver));
        }
        world.ask(3, Ask::AppendMany(100_003, 3));
        world.pass(50);
        for new in 3..6 {
            let values = world.processes[new].member.as_ref().map(|member| member.machine().values().len());
            assert_eq!(values, Some(length as usize + 3));
        }
        assert_eq!(status(&world, 6), Status::Recovering, "it waits");
    }
}

#[test]
fn nobody_is_stopped_before_enough_have_gone_on() {
    let mut world = group(20);
    for index in [3, 4] {
        world.crash(index);
    }
    change(&mut world, 0, &[3, 4, 5]);
    world.pass(300);
    let handed_over = |world: &World| (0..3).any(|old| has_told(world, old, LogEvent::HandedOver));
    assert!(!handed_over(&world), "one of three has gone on");
    // Who has retired still knows what the others need, also after a restart.
    for old in 0..3 {
        world.crash(old);
    }
    world.restart(1);
    assert_eq!(status(&world, 1), Status::Retired);
    world.restart(4);
    world.pass(300);
    assert_eq!(status(&world, 4), Status::Normal);
    assert!(handed_over(&world));
}

#[test]
fn nothing_follows_the_entry_that_ends_an_epoch() {
    let mut world = group(3);
    for other in [1, 2] {
        world.crash(other);
    }
    change(&mut world, 0, &[0, 1, 2, 3, 4]);
    world.ask(0, Ask::Append(100));
    change(&mut world, 0, &[0, 1, 2]);
    world.pass(20);
    let last = world.processes[0].member.as_ref().map(|member| member.replica().last().0);
    assert_eq!(last, Some(4));
    assert!(has_told(&world, 0, LogEvent::Refused { leader: ReplicaIndex(0) }));
}

#[test]
fn who_has_no_disk_and_no_part_in_the_group_retires() {
    let mut world = group(3);
    change(&mut world, 0, &[0, 1, 3]);
    world.pass(200);
    world.crash(2);
    world.processes[2].records.clear();
    (world.processes[2].durable, world.processes[2].has_lost) = (0, true);
    world.restart(2);
    assert_eq!(status(&world, 2), Status::Retired);
    change(&mut world, 0, &[0, 1, 2]);
    world.pass(500);
    assert_eq!(status(&world, 2), Status::Normal, "it has come back as one that has lost its disk");
    let epoch = world.processes[2].member.as_ref().map(|member| member.replica().membership().epoch());
    assert_eq!(epoch, Some(Epoch(2)));
}

#[test]
fn groups_that_cannot_be_are_refused() {
    for members in [&[][..], &[0, 1], &[0, 1, 1]] {
        let mut world = group(1);
        change(&mut world, 0, members);
        assert!(has_told(&world, 0, LogEvent::Refused { leader: ReplicaIndex(0) }), "{members:?}");
    }
}

#[test]
fn a_group_can_become_one_and_grow_again() {
    let mut world = group(5);
    change(&mut world, 0, &[2]);
    world.pass(100);
    assert_eq!(world.processes[2].member.as_ref().map(|member| member.leading().is_some()), Some(true));
    world.ask(2, Ask::ReadByLease(1));
    world.ask(2, Ask::ReadByConfirmation(2));
    world.pass(10);
    assert_eq!(world.read, 2);
    change(&mut world, 2, &[0, 5, 6]);
    world.pass(300);
    assert!([0, 5, 6].iter().all(|index| status(&world, *index) == Status::Normal));
}
