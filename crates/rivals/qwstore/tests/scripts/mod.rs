//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-qwstore` writes what happens into the scripts; read the difference before you commit it.
//!
//! | command | meaning |
//! |---|---|
//! | `cluster [shards=S] [replicas=N] [floor=MILLISECONDS] [snapshot=RECORDS] [in-turn]` | first; keys `a…` go to shard 1 and keys `b…` to shard 2, if there is one |
//! | `clock WHO MICROS` | what the physical clock of a client (`c1`) or replica (`1/r0`) has shown at the start |
//! | `begin c1 7`, `get c1 7 a`, `put c1 7 a x`, `delete c1 7 a`, `scan c1 7 a z [LIMIT]`, `commit c1 7`, `abort c1 7`, `resolve c1 7` | a client's commands |
//! | `read c1 7 a b`, `read-at c1 7 MICROS a`, `scan-strict c1 7 a z` | everything is read at once |
//! | `deliver` | delivers messages, and what they lead to, until none is left |
//! | `hold WHO`, `hold FROM TO`, `release …` | keeps messages back from now on; lets them go |
//! | `cut FROM TO`, `mend FROM TO` | loses what FROM sends to TO from now on; no longer |
//! | `drop WHO` | loses the messages to WHO that are on their way or held back |
//! | `repeat WHO` | delivers every message that WHO ever received once more |
//! | `advance MILLISECONDS`, `quietly MILLISECONDS` | lets time pass; timers fire; without telling |
//! | `crash WHO`, `restart WHO`, `lose WHO` | kills; brings back with its disk; with an empty one |
//! | `unreachable c1 1/r0`, `reachable c1 1/r0` | tells a client that its connection to a replica is broken; is up again |
//! | `show WHO` | what a replica holds |

pub(crate) mod describe;
mod world;

use quorate_qwstore::{Plant, Rules};
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

/// A script under a planted bug, and a line that is there either with the bug or without it, but not both.
const PLANTED: [(&str, Plant, &str); 5] = [
    ("01_a_put_goes_to_all_replicas", Plant::OneReplicaSuffices, "  c1.1 COMMITTED, not before 100c1"),
    ("08_a_late_put_is_put_anew", Plant::LatePutsTaken, "  c2.1 COMMITTED, not before 6900100c2, 1 put anew"),
    ("07_what_few_hold_spreads", Plant::NobodyCompares, "  a = x @100c1"),
    ("20_a_put_comes_before_the_leader_refuses", Plant::ComparesOnce, "1/r0 → 1/r4: TAKE c1#0 a=x at 100c1"),
    ("10_lost_disk_rejoins", Plant::EmptyDiskBeginsAnew, "1/r1 → 1/r0: which life is this?"),
];

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in PLANTED {
        scripts().assert_parts(script, line, world(Rules::SOUND), world(Rules::planted(plant)), plant.id());
    }
}
