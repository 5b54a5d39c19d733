//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-baselines` writes what happens into the scripts; read the difference before you commit it.
//!
//! Beside the commands of every [`quorate_testscripts::stage`] there are
//!
//! | command | meaning |
//! |---|---|
//! | `cluster SYSTEM [shards=S] [replicas=N] [bound=MICROS]` | first; keys `a…` go to shard 1 and keys `b…` to shard 2, if there is one. The timestamp server is `t`, the dedicated coordinator `d` |
//! | `begin c1 7`, `get c1 7 a`, `put c1 7 a x`, `delete c1 7 a`, `scan c1 7 a z [LIMIT]`, `commit c1 7`, `abort c1 7`, `resolve c1 c2.7`, `resolve-at c1 c2.7 MICROS` | a client's commands; `7/2` is the attempt after the second |
//! | `read c1 7 a b`, `read-at c1 7 MICROS a`, `read-stale c1 7 MICROS a`, `read-now c1 7 a`, `scan-strict c1 7 a z`, `scan-at c1 7 MICROS a z LIMIT` | read-only transactions |
//! | `learn WHO` | a client or a replica learns who the replicas of all groups are |
//! | `unreachable c1 1/r0`, `reachable c1 1/r0` | tells a client that its connection to a replica is broken; is up again |
//! | `show WHO`, `locks WHO`, `waiting WHO` | what a replica holds; how many transactions have read locks there; how many requests wait |

mod describe;
pub(crate) mod world;

use quorate_baselines::{Plant, Rules};
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
const PLANTED: [(&str, Plant, &str); 20] = [
    ("11_leader_fails_before_stable", Plant::VoteBeforeStable, "  c1.1 COMMITTED at 100c1"),
    ("17_refusal_is_durable", Plant::RefusalNotDurable, "  prepared c2.1 at 100c2"),
    ("04_conflict", Plant::PreparedOverlooked, "  c2.1 CONFLICT"),
    ("05_write_skew", Plant::ReadsNotHeld, "  c2.1 CONFLICT"),
    ("20_lease", Plant::LeaseNotChecked, "  c1.2 got a = old"),
    ("22_forgetting", Plant::ForgottenTooEarly, "  b2 = y @100c1"),
    ("13_client_dies_before_all_prepared", Plant::PrepareAfterOutcome, "  prepared c1.1 at 100c1"),
    ("12_client_dies_after_prepare", Plant::NoRecovery, "  a1 = x @100c1"),
    ("12_client_dies_after_prepare", Plant::AbortsAlone, "  a1 = x @100c1"),
    ("31_a_younger_one_is_wounded", Plant::ReadLocksOverlooked, "1/r0 → c2: WOUNDED c2.1"),
    ("35_locks_end_with_their_view", Plant::LostLocksCount, "  c1.1 CONFLICT"),
    ("46_snapshots_hold_what_was_reported", Plant::CommitReportedAtOnce, "  c1.2 COMMITTED at 40100c1"),
    ("43_snapshots_wait_for_what_is_prepared", Plant::SnapshotOverlooksPrepared, "  c2.2 got a1 = nothing"),
    ("42_snapshots", Plant::SnapshotNotPromised, "  a1 = z @15001c1"),
    ("44_promises_outlive_leaders", Plant::CeilingNotDurable, "  c2.2 got a = x"),
    ("62_busy", Plant::HoldsOverlooked, "  c2.1 CONFLICT"),
    ("61_alone", Plant::UnstableOverlooked, "  c2.1 CONFLICT"),
    ("65_participant_fails", Plant::SilenceRefuses, "  c1.1 COMMITTED at 100c1"),
    ("71_participants_are_replaced", Plant::GroupsForgotten, "  c1.1 aborted"),
    ("06_phantom", Plant::UnvalidatedAbsence, "  c1.1 CONFLICT"),
];

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in PLANTED {
        scripts().assert_parts(script, line, world(Rules::SOUND), world(Rules::planted(plant)), plant.id());
    }
}
