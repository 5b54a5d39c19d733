//! A read that waits for locks is executed about once for each lock that stands in its way, however much else happens meanwhile.

use quorate_granola::Rules;

use crate::scripts::world::World;

const READS: usize = 50;
const MESSAGES: usize = 50;

/// A shard that has locked `a` for a transaction that lacks the vote of another shard, and is asked to read `a` so often by clients that
/// have seen all that it has executed.
fn crowded() -> World {
    let mut world = World::new(Rules::SOUND);
    let begin = ["cluster shards=2", "run c1 1 1 put a old", "deliver", "hold 2/r0 1/r0"];
    let lock = ["agree c1 2 1 swap a old new, 2 put b x", "deliver"];
    begin.iter().chain(&lock).for_each(|line| drop(world.command(line)));
    for client in 0..READS {
        world.command(&format!("observe c{} 20000", 100 + client));
        world.command(&format!("read c{} 1 1 get a", 100 + client));
    }
    // The ceiling rises, and the clock comes to what they have seen.
    ["deliver", "advance 25"].iter().for_each(|line| drop(world.command(line)));
    world
}

#[test]
fn a_read_that_has_met_a_lock_is_executed_once_that_is_given_back() {
    let mut world = crowded();
    let before = world.reads("1/r0");
    assert!((READS..=2 * READS).contains(&before), "{READS} reads were executed {before} times");
    for message in 0..MESSAGES {
        world.command(&format!("run c2 {} 1 put d {message}", 1 + message));
        world.command("deliver");
    }
    assert_eq!(world.reads("1/r0") - before, 0, "nothing has given a lock back");
    world.command("release 2/r0 1/r0");
    let told = world.command("deliver");
    let answered = told.iter().filter(|line| line.contains("COMMITTED at 20000: 1 new")).count();
    assert_eq!(answered, READS, "{told:?}");
    assert_eq!(world.reads("1/r0") - before, READS);
}
