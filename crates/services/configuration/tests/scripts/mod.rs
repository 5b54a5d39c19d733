//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-configuration` writes what happens into the scripts; read the difference before you commit it.
//!
//! Beside the commands of every [`quorate_testscripts::stage`] there are
//!
//! | command | meaning |
//! |---|---|
//! | `cluster coordinators`, `cluster subscribers` | first: three replicas, and what clients are |
//! | `begin c1 7`, `get c1 7 a`, `put c1 7 a x`, `commit c1 7` | what a coordinator is told; its transactions are numbered |
//! | `watch c1 1 a z`, `write c1 7 a x` | what a subscriber is told; watches and writes are numbered |
//! | `learn c1` | a client learns who the replicas are |
//! | `show 0/r0` | what a replica holds |
//! | `alone replica`, `alone coordinator`, `alone subscriber` | first: one machine, and everything that each step leads to; its commands are listed in `alone` |

mod alone;
mod describe;
mod world;

use quorate_configuration::{Plant, Rules};
use quorate_testscripts::Scripts;
use world::World;

fn scripts() -> Scripts {
    Scripts::of(env!("CARGO_MANIFEST_DIR"))
}

/// A world whose machines follow these rules.
fn world(rules: Rules) -> impl FnMut(&str) -> Vec<String> {
    let mut world = World::new(rules);
    move |line| world.command(line)
}

#[test]
fn scripts_tell_what_happens() {
    scripts().assert_tell_what_happens(|| world(Rules::SOUND));
}

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in [
        ("01_a_write_is_asked_for_again", Plant::RepeatedAfterFailOver, "  c1.3 COMMITTED @3"),
        ("02_a_copy_goes_on", Plant::WatchGap, "  watch 1: loaded @5"),
    ] {
        scripts().assert_parts(script, line, world(Rules::SOUND), world(Rules::planted(plant)), script);
    }
}
