//! Going on with other replicas.

use quorate_core::log::Position;
use quorate_core::machine::Input;
use quorate_core::{Epoch, ReplicaIndex, View};

use super::list::Ask;
use super::{LIMITS, World, calm, id};
use crate::entries::Shape;
use crate::{LogCommand, LogEvent, Message, Part, Status};

fn change(world: &mut World, leader: usize, members: &[u8]) {
    let defined = world.define(members.iter().copied().map(ReplicaIndex).collect());
    world.step(leader, Input::Command(Part::Log(LogCommand::ChangeGroup(defined))));
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

/// A group of the first three, whose leader has just been told to go on with these.
fn group_going_on_with(length: u64, members: &[u8]) -> World {
    let mut world = group(length);
    change(&mut world, 0, members);
    world
}

fn has_told(world: &World, index: usize, event: LogEvent) -> bool {
    world.events.contains(&(index, event))
}

#[test]
fn a_group_goes_on_with_others_and_hands_over() {
    // So long that the others are given the state, and so short that they are given entries.
    for length in [2, 200] {
        let mut world = group_going_on_with(length, &[3, 4, 5]);
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
        assert_eq!(status(&world, 6), Status::Retired, "its host knows of no epoch of which it is a member");
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
    // A retired replica still knows what the others need, also after a restart.
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
    // Then the group goes on to what is wanted next.
    world.restart(1);
    world.restart(2);
    world.pass(500);
    assert_eq!(
        world.memberships.iter().map(|members| members.group().replicas()).collect::<Vec<_>>(),
        [3, 5, 3]
    );
    assert_eq!(status(&world, 3), Status::Retired);
}

#[test]
fn whoever_comes_to_lead_sees_to_a_change() {
    let mut world = group(3);
    change(&mut world, 1, &[0, 1, 3]);
    world.pass(100);
    assert_eq!(world.latest().epoch(), Epoch::FIRST, "the leader has not been told");
    world.crash(0);
    world.pass(500);
    assert_eq!((world.latest().epoch(), status(&world, 3)), (Epoch(1), Status::Normal));
}

#[test]
fn who_was_away_while_everybody_was_replaced_asks_those_whom_its_host_knows() {
    for is_late in [false, true] {
        let mut world = group(3);
        let away = 2;
        if is_late {
            let others = [0, 1, 3].map(ReplicaIndex);
            world.cut.extend(others.map(|other| (ReplicaIndex(away as u8), other)));
        } else {
            world.crash(away);
        }
        change(&mut world, 0, &[0, 1, 3]);
        world.pass(200);
        if is_late {
            // It has retired, and nobody hears that it asks who has gone on.
            assert_eq!(status(&world, away), Status::Retired);
            world.sync(away);
            world.crash(away);
            world.cut.clear();
        }
        change(&mut world, 0, &[4, 5, 6]);
        world.pass(300);
        for gone in [0, 1, 3] {
            world.crash(gone);
        }
        // Its host has not heard of that at first.
        let latest = world.memberships.pop().expect("there are three");
        world.restart(away);
        world.memberships.push(latest.clone());
        world.pass(500);
        assert!(!has_told(&world, away, LogEvent::HandedOver), "it knows nobody who is still there");
        world.step(away, Input::Command(Part::Log(LogCommand::ChangeGroup(latest))));
        world.pass(300);
        assert_eq!(status(&world, away), Status::Retired);
        assert!(has_told(&world, away, LogEvent::HandedOver));
    }
}

#[test]
fn what_a_host_knows_at_the_start_is_wanted_as_well() {
    let mut world = group_going_on_with(3, &[3, 4, 5]);
    world.crash(3);
    world.pass(200);
    // One member of the new group waits still, and leads once it has arrived.
    for index in [4, 5] {
        world.sync(index);
        world.crash(index);
    }
    let next = world.define([3, 4, 6].map(ReplicaIndex).to_vec());
    world.memberships.push(next.clone());
    world.restart(3);
    world.memberships.pop();
    world.restart(4);
    world.pass(1_000);
    assert_eq!(
        (world.latest(), status(&world, 3), status(&world, 6)),
        (&next, Status::Normal, Status::Normal)
    );
}

#[test]
fn what_the_group_has_gone_on_from_is_wanted_no_more() {
    let mut world = group(3);
    let (late, _) = (world.define(vec![ReplicaIndex(0)]), change(&mut world, 0, &[0, 1, 3]));
    world.pass(200);
    assert_eq!(world.latest().epoch(), Epoch(2), "epochs may be passed over");
    for index in [0, 1, 3] {
        world.step(index, Input::Command(Part::Log(LogCommand::ChangeGroup(late.clone()))));
    }
    world.pass(200);
    assert_eq!(world.latest().epoch(), Epoch(2));
}

#[test]
fn who_retires_without_what_the_others_go_on_with_may_be_stopped_at_once() {
    let mut world = group(3);
    for other in [0, 1].map(ReplicaIndex) {
        world.cut.extend([(other, ReplicaIndex(2)), (ReplicaIndex(2), other)]);
    }
    world.ask(0, Ask::Append(100_003));
    world.crash(3);
    world.crash(4);
    world.pass(50);
    change(&mut world, 0, &[0, 3, 4]);
    world.pass(50);
    world.cut.clear();
    world.pass(500);
    assert_eq!([1, 2].map(|index| status(&world, index)), [Status::Retired; 2]);
    assert!(has_told(&world, 2, LogEvent::HandedOver), "nobody could have anything from it");
    assert!(!has_told(&world, 1, LogEvent::HandedOver), "the others may still need it");
}

#[test]
fn who_has_no_disk_and_no_part_in_the_group_retires() {
    let mut world = group_going_on_with(3, &[0, 1, 3]);
    world.pass(200);
    world.crash(2);
    world.processes[2].records.clear();
    (world.processes[2].durable, world.processes[2].has_lost) = (0, true);
    world.restart(2);
    assert_eq!(status(&world, 2), Status::Recovering, "its group may still need it");
    world.pass(200);
    assert_eq!(status(&world, 2), Status::Retired);
    assert!(has_told(&world, 2, LogEvent::HandedOver));
    change(&mut world, 0, &[0, 1, 2]);
    world.pass(500);
    assert_eq!(status(&world, 2), Status::Normal, "it has come back as one that has lost its disk");
    let epoch = world.processes[2].member.as_ref().map(|member| member.replica().membership().epoch());
    assert_eq!(epoch, Some(Epoch(2)));
}

#[test]
fn a_group_can_become_one_and_grow_again() {
    let mut world = group_going_on_with(5, &[2]);
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

#[test]
fn who_arrives_asks_those_as_well_who_speak_last() {
    let mut world = group(20);
    let late = 6;
    let others = (0..late).map(ReplicaIndex);
    world.cut.extend(others.flat_map(|other| [(ReplicaIndex(late), other), (other, ReplicaIndex(late))]));
    change(&mut world, 0, &[0, 3, 4, 5, late]);
    world.pass(300);
    let membership = world.latest().clone();
    // Three tell where the group is, always in this order. Only one of them hears anything: first the last, then the first.
    for hears in [ReplicaIndex(4), ReplicaIndex(0)] {
        let is_heard = |cut: &(ReplicaIndex, ReplicaIndex)| *cut == (ReplicaIndex(late), hears);
        world.cut.retain(|cut| !is_heard(cut));
        let asks = |message: &_| matches!(message, Part::Log(Message::Fetch { .. }));
        let is_asked =
            |world: &World| world.flying.iter().any(|flying| flying.to == hears && asks(&flying.message));
        for _ in 0..100 {
            for from in [0, 3, 4].map(ReplicaIndex) {
                let shape = Shape::forgotten(Position(21), View::default());
                let message = Part::Log(Message::EpochBegun { membership: membership.clone(), shape });
                let epoch = membership.epoch();
                world.step(usize::from(late), Input::Message { from: id(from).into(), epoch, message });
            }
            if is_asked(&world) {
                break;
            }
            world.pass(50);
        }
        assert!(is_asked(&world), "{hears} is never asked");
        world.cut.push((ReplicaIndex(late), hears));
    }
}
