//! Random schedules: messages are lost, repeated and overtake each other, replicas crash between any two durable steps,
//! links break, disks are slow, time passes faster here than there.

use super::World;

fn run(seed: u64) -> usize {
    let replicas = if seed.is_multiple_of(3) { 5 } else { 3 };
    let mut world = World::new(replicas, seed);
    for _ in 0..6_000 {
        world.tick();
        world.use_it();
        world.disturb();
    }
    world.heal();
    world.stable.len()
}

const CASES: u64 = 100;

#[test]
fn what_is_stable_stays_and_groups_recover() {
    let stable: usize = (1..=CASES).map(run).sum();
    assert!(stable as u64 > 100 * CASES, "{stable} entries became stable in {CASES} runs");
}
