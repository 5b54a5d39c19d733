//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-walter` writes what happens into the scripts; read the difference before you commit it.
//!
//! Beside the commands of every [`quorate_testscripts::stage`] there are
//!
//! | command | meaning |
//! |---|---|
//! | `cluster [sites=S] [replicas=N] [batches=B] [survives=F] [lease=MILLISECONDS] [lag=MILLISECONDS] [moves=WRITES]` | first; keys `a…` have their preferred site at the first, keys `b…` at the second, and so on; the client `c1` is at the first site, `c2` at the second |
//! | `begin c1 7 [MILLISECONDS]`, `get c1 7 a`, `put c1 7 a x`, `delete c1 7 a`, `scan c1 7 a z [LIMIT]`, `commit c1 7`, `abort c1 7`, `resolve c1 c2.7 SITE` | a client's commands; `7/2` is the attempt after the second |
//! | `add c1 7 a x`, `remove c1 7 a x`, `count c1 7 a x`, `elements c1 7 a [LIMIT]`, `backwards c1 7 a [LIMIT]` | the same of counting sets |
//! | `gain c1 7 a 5`, `take c1 7 a 3`, `value c1 7 a` | the same of counters that do not fall below zero |
//! | `mark c1 7 a` | a key is read, and whether it is in flight |
//! | `get c1 7 a b` | the same of several keys at once |
//! | `name c1 7 a b`, `unname c1 7 a b`, `members c1 7 a [LIMIT]`, `newest c1 7 a [LIMIT]` | the key `b` is added to a set, or taken out; the set is read with the keys that are in it, from either end |
//! | `locate c1 7 a`, `place c1 7 a SITE [at SITES]`, `destroy c1 7 a` | where a container is, to move it, and to destroy it; each key is one |
//! | `await c1 7 s0.3 durable [MILLISECONDS]` | a client waits until its transaction, which has committed as `s0.3`, is `durable` or `visible` |
//! | `read c1 7 a b` | a read-only transaction |
//! | `after c1 7 6` | a transaction comes after another one of its client |
//! | `catch c1 7 3 0 1` | a client is told that another one has seen the first three transactions of the first site and the first of the third |
//! | `moves c1 2` | a client finds that another site is nearer |
//! | `remove SITE`, `join SITE [REPLACED]`, `settle`, `answer WHO` | the configuration service: an operator takes a site out, or lets one join; what was proposed last is settled; a replica that has asked hears how the sites have changed |
//! | `show WHO` | what a replica holds |

pub(crate) mod describe;
pub(crate) mod world;

use quorate_testscripts::Scripts;
use quorate_walter::{Plant, Rules};
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
const PLANTED: [(&str, Plant, &str); 28] = [
    ("77_a_counter_does_not_fall_below_zero", Plant::SharesIgnored, "  c1.3 BELOW ZERO"),
    ("78_a_share_comes_after_the_snapshot", Plant::SharesTooEarly, "  c2.1 CONFLICT"),
    ("74_a_lock_vouches_for_what_it_locks", Plant::OtherLocksVouch, "  c1.1 CONFLICT"),
    ("72_commits_are_pipelined", Plant::EarlierIgnored, "  c1.4 got b2 = nothing"),
    ("34_a_successor_waits", Plant::BarrierIgnored, "1/r0 → c1: c1.1 committed as s0.1 at ⟨0 1⟩"),
    ("36_a_lost_site_is_heard_no_more", Plant::LostSiteHeard, "1/r0 has committed ⟨⟩, received ⟨⟩, floor ⟨⟩"),
    ("35_a_lease_ends", Plant::LeaseIgnored, "1/r0 has committed ⟨2⟩, received ⟨2⟩, floor ⟨⟩"),
    ("35_a_lease_ends", Plant::LeaseNotCheckedAgain, "  c1.4 COMMITTED as 4@1"),
    ("33_a_site_is_removed", Plant::AbandonedAwaited, "  c3.3 HISTORY ABANDONED"),
    ("32_a_container_that_is_on_its_way", Plant::MovesUnsettled, "2/r0 → c2: c2.1 committed as s1.1 at ⟨2⟩"),
    ("10_locks_outlive_leaders", Plant::LockNotLogged, "  c2.1 CONFLICT"),
    ("11_an_abort_leaves_no_gap", Plant::NumberBeforeVotes, "  c1.2 COMMITTED as 1@1"),
    (
        "23_an_effect_waits_for_its_cause",
        Plant::AdvancesByOne,
        "3/r0 has committed ⟨⟩, received ⟨1 1⟩, floor ⟨⟩",
    ),
    ("13_lost_batches", Plant::NothingPropagatedAgain, "2/r0 has committed ⟨1⟩, received ⟨1⟩, floor ⟨⟩"),
    ("08_a_user_changes_site", Plant::SessionForgotten, "  c1.2 got a1 = nothing"),
    ("61_a_session_catches_up", Plant::SessionForgotten, "  c2.1 COMMITTED as 1@0"),
    ("66_a_slow_commit_does_not_starve", Plant::StarvationIgnored, "  c1.2 CONFLICT"),
    ("60_claims_are_refuted", Plant::ClaimsBelieved, "  c2.1 has SEEN what s0 never had"),
    ("14_a_snapshot_that_is_too_old", Plant::SnapshotsKept, "  c1.1 TOO OLD"),
    ("22_what_was_received_counts", Plant::RemoteWritesIgnored, "  c2.1 CONFLICT"),
    ("03_slow_commit", Plant::LocksIgnored, "  c2.1 CONFLICT"),
    ("09_lease", Plant::LeaseNotChecked, "  c1.2 got a = old"),
    ("16_refusals_are_final", Plant::AbortsNotLogged, "  c2.1 aborted"),
    (
        "26_a_set_is_durable_at_its_preferred_site",
        Plant::DurableWhenReceived,
        "3/r0 has committed ⟨⟩, received ⟨0 1⟩, floor ⟨⟩",
    ),
    ("48_a_change_counts_once", Plant::OwnChangesCountTwice, "  c3.3 counts a4[e] = 1"),
    ("49_a_copy_that_is_stale", Plant::StaleCopyMerged, "  c2.2 counts a1[e] = 1"),
    (
        "50_a_copy_waits_for_the_snapshot",
        Plant::CopyReadEarly,
        "1/r0 → c3: c3.1 reads the copy nothing, with 0",
    ),
    ("12_causes_before_effects", Plant::EffectsFirst, "3/r0 has committed ⟨⟩, received ⟨⟩, floor ⟨⟩"),
];

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in PLANTED {
        scripts().assert_parts(script, line, world(Rules::SOUND), world(Rules::planted(plant)), plant.id());
    }
}
