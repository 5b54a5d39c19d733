//! Replicas that are killed while they join, in groups that go on meanwhile, and whose hosts hear of definitions by themselves.

use quorate_core::ReplicaIndex;
use quorate_core::machine::Input;

use super::{LIMITS, World, calm};
use crate::replica::Boot;
use crate::{LogCommand, LogEvent, Membership, Part, Rules, Status};

/// A group of three among seven that changes often. A replica that joins is killed often, and may lose its disk.
pub(in crate::tests) fn run(seed: u64, rules: Rules) -> World {
    let mut world = World::with_limits(3, seed, LIMITS, rules);
    world.hosts_watch = true;
    world = world.with_spares(4);
    for _ in 0..6_000 {
        world.tick();
        world.use_it();
        let any = world.random.index(world.processes.len());
        let member = &world.processes[any].member;
        let joins = member.as_ref().is_some_and(|member| member.replica().status() == Status::Recovering);
        let is_up = member.is_some();
        if is_up && world.random.chance(if joins { 0.02 } else { 0.001 }) {
            world.crash(any);
        } else if !is_up && world.may_run(any) && world.random.chance(0.02) {
            if world.random.chance(0.3) && world.may_lose() {
                world.lose(any);
            }
            world.restart(any);
        }
        if world.random.chance(0.005) {
            world.learn(any);
        }
        if world.random.chance(0.004) {
            world.change_group();
        }
    }
    world.heal();
    world
}

#[test]
fn a_replica_that_is_killed_while_it_joins_arrives_or_is_handed_over() {
    for seed in 1..=100 {
        run(seed, Rules::SOUND);
    }
}

/// A group of the first three that are calm, and a fourth whose host knows that it is to be a member from the first epoch on.
fn with_a_newcomer() -> World {
    let mut world = calm(LIMITS);
    world.hosts_watch = true;
    for value in 0..20 {
        world.ask(0, super::list::Ask::Append(7 * value + 1));
        world.pass(1);
    }
    define(&mut world, &[0, 1, 3]);
    world = world.with_spares(1);
    assert_eq!(status(&world, 3), Status::Recovering);
    world
}

fn define(world: &mut World, members: &[u8]) -> Membership {
    let defined = world.define(members.iter().copied().map(ReplicaIndex).collect());
    assert!(world.defined.contains(&defined));
    defined
}

fn tell(world: &mut World, index: usize, membership: &Membership) {
    world.processes[index].known = Some(membership.clone());
    world.step(index, Input::Command(Part::Log(LogCommand::ChangeGroup(membership.clone()))));
}

fn status(world: &World, index: usize) -> Status {
    world.processes[index].member.as_ref().expect("it is up").replica().status()
}

fn is_handed_over(world: &World, index: usize) -> bool {
    world.events.contains(&(index, LogEvent::HandedOver))
}

/// Kills the newcomer, lets the group go on to other members, and starts the newcomer again.
fn kill_and_go_on(world: &mut World, members: &[u8], tells_newcomer: bool) {
    world.crash(3);
    let earlier = world.defined.first().cloned();
    for membership in earlier.into_iter().chain([define(world, members)]) {
        for index in 0..3 {
            tell(world, index, &membership);
        }
        world.pass(300);
    }
    if tells_newcomer {
        let latest = world.latest().clone();
        world.processes[3].known = Some(latest);
    }
}

#[test]
fn a_newcomer_whose_group_has_gone_on_without_it_is_handed_over() {
    for (tells_newcomer, boot) in [(true, Boot::Join), (false, Boot::Join), (true, Boot::Recover)] {
        let mut world = with_a_newcomer();
        kill_and_go_on(&mut world, &[0, 1, 2], tells_newcomer);
        world.boot(3, boot);
        world.pass(300);
        assert_eq!(status(&world, 3), Status::Retired, "{boot:?}, and the host knows: {tells_newcomer}");
        assert!(is_handed_over(&world, 3), "{boot:?}, and the host knows: {tells_newcomer}");
    }
}

#[test]
fn a_newcomer_whose_group_has_gone_on_with_it_arrives() {
    for tells_newcomer in [true, false] {
        let mut world = with_a_newcomer();
        kill_and_go_on(&mut world, &[0, 2, 3], tells_newcomer);
        world.boot(3, Boot::Join);
        world.pass(300);
        assert_eq!(status(&world, 3), Status::Normal, "the host knows: {tells_newcomer}");
    }
}

#[test]
fn a_newcomer_waits_for_the_epoch_that_its_host_knows() {
    let mut world = with_a_newcomer();
    // The group goes on to an epoch before that, and without it.
    let before =
        Membership::new(quorate_core::Epoch(1), [0, 1, 2].map(ReplicaIndex).to_vec()).expect("a group");
    let to_come =
        Membership::new(quorate_core::Epoch(2), [0, 1, 3].map(ReplicaIndex).to_vec()).expect("a group");
    world.defined = vec![before.clone(), to_come.clone()];
    tell(&mut world, 3, &to_come);
    tell(&mut world, 0, &before);
    world.pass(300);
    assert_eq!((world.latest().epoch(), status(&world, 3)), (before.epoch(), Status::Recovering));
    tell(&mut world, 0, &to_come);
    world.pass(300);
    assert_eq!((world.latest().epoch(), status(&world, 3)), (to_come.epoch(), Status::Normal));
}
