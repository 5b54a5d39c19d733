//! Random schedules: messages are lost, repeated and overtake each other, replicas crash between any two durable steps and
//! lose their disks, links break, disks are slow, logs are shortened, time passes faster here than there.

use super::{Habits, World};
use crate::Rules;

pub(super) fn run(seed: u64, rules: Rules, habits: Habits) -> World {
    run_of(if seed.is_multiple_of(3) { 5 } else { 3 }, seed, rules, habits)
}

fn run_of(replicas: usize, seed: u64, rules: Rules, habits: Habits) -> World {
    let mut world = World::with_rules(replicas, seed, rules, habits);
    for _ in 0..6_000 {
        world.tick();
        world.use_it();
        world.disturb();
    }
    world.heal();
    world
}

const CASES: u64 = 150;

#[test]
fn what_is_stable_stays_and_groups_recover() {
    let (mut stable, mut restored, mut transferred) = (0, 0, 0);
    for seed in 1..=CASES {
        let world = run(seed, Rules::SOUND, Habits::COMMON);
        stable += world.stable.len() as u64;
        restored += world.restored as u64;
        transferred += world.transferred as u64;
    }
    assert!(stable > 100 * CASES, "{stable} entries became stable in {CASES} runs");
    assert!(restored > 5 * CASES, "{restored} restarts from a snapshot in {CASES} runs");
    assert!(transferred > CASES, "{transferred} times somebody was given a state in {CASES} runs");
}

#[test]
fn groups_of_even_size_lose_nothing_and_go_on() {
    for seed in 1..=60 {
        let replicas = [4, 6, 2][seed as usize % 3];
        let world = run_of(replicas, seed, Rules::SOUND, Habits::COMMON);
        assert!(world.stable.len() > 20, "{} entries of {replicas} became stable", world.stable.len());
    }
}

#[test]
fn haste_does_no_harm() {
    for seed in 1..=50 {
        run(seed, Rules::SOUND, Habits::HASTY);
    }
}

/// Its messages would be forgotten with the rest, and it would begin anew in the same view.
#[test]
fn a_leader_says_nothing_before_its_disk_knows_that_the_group_has_begun() {
    let mut world = World::with_rules(3, 1, Rules::SOUND, Habits::COMMON);
    world.flying.clear();
    world.step(0, |replica, _| replica.append(0));
    assert!(world.flying.is_empty(), "it has not synced");
    world.sync(0);
    assert!(!world.flying.is_empty());
    world.flying.clear();
    world.step(0, |replica, _| replica.append(1));
    assert!(!world.flying.is_empty(), "from then on backups need not wait for its disk");
}
