//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-tapir` writes what happens into the scripts; read the difference before you commit it.
//!
//! | command | meaning |
//! |---|---|
//! | `cluster shards=S replicas=N [bound=MICROS] [snapshot=RECORDS] [retry=MICROS] [published] [serializable] [together]` | first; keys `a…` go to shard 1 and keys `b…` to shard 2, if there is one |
//! | `clock WHO MICROS` | sets the physical clock of a client (`c1`) or replica (`1/r0`) |
//! | `begin c1 7`, `get c1 7 a`, `put c1 7 a x`, `scan c1 7 a z`, `commit c1 7`, `abort c1 7`, `resolve c1 c2.7` | a client's commands |
//! | `read c1 7 a b`, `read-at c1 7 MICROS a`, `read-stale c1 7 MICROS a`, `read-now c1 7 a` | read-only transactions: strict, at a timestamp, stale within a bound, at the clock's time |
//! | `scan-strict c1 7 a z [LIMIT]`, `scan-at c1 7 MICROS a z`, `scan-stale c1 7 MICROS a z`, `scan-now c1 7 a z` | read-only transactions that read a range |
//! | `deliver` | delivers messages, and what they lead to, until none is left |
//! | `deliver N` | delivers the next N messages |
//! | `hold WHO`, `release WHO` | keeps messages to WHO back from now on; lets them go |
//! | `hold FROM TO`, `release FROM TO` | the same for one link |
//! | `cut FROM TO`, `mend FROM TO` | loses what FROM sends to TO from now on; no longer |
//! | `reverse WHO` | lets the messages to WHO that are on their way or held back overtake each other |
//! | `drop WHO` | loses the messages to WHO that are on their way or held back |
//! | `repeat WHO` | delivers every message that WHO ever received once more |
//! | `advance MILLISECONDS` | lets time pass; timers fire |
//! | `crash WHO`, `restart WHO`, `lose WHO` | kills; brings back with its disk; brings back without |
//! | `define 1 r0 r1 r3` | defines the next epoch, in which these are the replicas of shard 1 |
//! | `go-on WHO` | tells a replica or client of the latest epoch; a replica that does not exist is created to join |
//! | `unreachable c1 1/r0`, `reachable c1 1/r0` | tells a client that its connection to a replica is broken; is up again |
//! | `show WHO` | what a replica holds |

mod describe;
mod world;

use quorate_tapir::{Plant, Rules};
use quorate_testscripts::{Scripts, tells};
use world::World;

fn scripts() -> Scripts {
    Scripts::of(env!("CARGO_MANIFEST_DIR"))
}

/// A world whose machines follow these rules.
fn world(rules: Rules) -> impl FnMut(&str) -> Vec<String> {
    let mut world = World::new(rules);
    move |line| world.command(line)
}

/// Carries out commands, one a line, and gives what happened.
pub(crate) fn play(commands: &str) -> Vec<String> {
    let mut world = World::new(Rules::EXCLUSIVE);
    commands
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .flat_map(|line| world.command(line))
        .collect()
}

#[test]
fn scripts_tell_what_happens() {
    scripts().assert_tell_what_happens(|| world(Rules::EXCLUSIVE));
}

/// A script under a planted bug, and a line that is there either with the bug or without it, but not both.
const PLANTED: [(&str, Plant, &str); 32] = [
    ("68_late_prepare_slips_below", Plant::PublishedRules, "  c1.1 COMMITTED at 10c1, fast path, 0 retries"),
    (
        "69_reads_keep_writers_above",
        Plant::ForgetCommittedReads,
        "  c1.1 COMMITTED at 100c1, fast path, 0 retries",
    ),
    (
        "70_read_below_a_pending_write",
        Plant::SmallestPendingWrite,
        "  c1.1 COMMITTED at 100c1, fast path, 0 retries",
    ),
    ("53_view_change_settles_fast_commits_first", Plant::DoubtsFastCommits, "  prepared c1.1 at 100c1"),
    ("60_late_finalize_changes_nothing", Plant::LateFinalizeOverwrites, "  c2.1 CONFLICT"),
    ("71_lost_replica_does_not_count", Plant::CountsLostReplicas, "1/r2 normal in v2"),
    ("54_silent_while_changing_views", Plant::AnswersWhileChanging, "1/r1 → c1: c1.1#1 OK in v2"),
    (
        "55_finalize_is_confirmed_again",
        Plant::ConfirmsOnce,
        "  c1.1 COMMITTED at 100c1, slow path, 0 retries",
    ),
    ("56_late_prepare_displaces_nothing", Plant::OlderPrepareDisplaces, "  prepared c1.1 at 301c1"),
    ("57_recovery_keeps_what_may_have_committed", Plant::RecoveryPicksVotes, "  a = x @100c1"),
    ("07_commit_overtakes_prepare", Plant::PrepareAfterOutcome, "  prepared c1.1 at 100c1"),
    ("58_holds_outlive_view_changes", Plant::SyncDropsPrepares, "  c2.1 CONFLICT"),
    ("08_client_dies_after_prepare", Plant::NoRecovery, "  a1 = x @100c1"),
    ("15_scan_and_phantom", Plant::UnvalidatedAbsence, "  c2.1 CONFLICT"),
    ("62_votes_of_two_views", Plant::MixedViews, "  c1.1 COMMITTED at 100c1, slow path, 0 retries"),
    ("04_conflict_abstain", Plant::AbstainIsSuccess, "  c2.1 CONFLICT"),
    ("61_a_laggard_is_told", Plant::LaggardsUntold, "  c1.1 COMMITTED at 100c1, slow path, 0 retries"),
    ("36_commit_wait", Plant::CommitReportedAtOnce, "  c1.4 UNKNOWN, participants [shard1]"),
    ("71_lost_replica_does_not_count", Plant::EmptyDiskBeginsAnew, "1/r1 normal in v0"),
    (
        "73_a_majority_is_no_fast_quorum",
        Plant::MajoritiesAreFast,
        "  c2.1 COMMITTED at 100c2, fast path, 0 retries",
    ),
    ("63_commit_waits_for_a_majority", Plant::CommitOnArrival, "  c2.1 CONFLICT"),
    (
        "64_promises_survive_view_changes",
        Plant::ForgottenPromises,
        "  c1.3 COMMITTED at 100c1, slow path, 0 retries",
    ),
    ("23_no_write_where_a_reader_has_read", Plant::WriteAtPromise, "1/r1 → c1: c1.1#1 OK in v0"),
    ("47_a_deletion_that_was_missed", Plant::CollectedDeletionUnseen, "  c2.2 got a1 = nothing"),
    ("75_two_look_for_a_floor", Plant::FloorBelowAnother, "1/r1 leaves for v2"),
    (
        "67_a_range_stays_as_it_was_scanned",
        Plant::RangeNotPromised,
        "  c2.1 COMMITTED at 300c2, fast path, 0 retries",
    ),
    ("86_a_restart_in_the_middle_of_a_change", Plant::EpochForgotten, "1/r0 normal in e1v1"),
    ("83_a_change_keeps_what_has_committed", Plant::HandsOverFromTooFew, "  a = x @100c1"),
    ("84_a_new_replica_waits_for_the_record", Plant::ServesEmpty, "  a = x @100c1"),
    (
        "87_what_readers_were_promised_is_handed_over",
        Plant::PromisesStayBehind,
        "  c2.1 COMMITTED at 400c2, fast path, 0 retries",
    ),
    ("89_nobody_is_counted_whose_group_was_passed_over", Plant::EpochDefinedEarly, "1/r3 normal in e2v1"),
    ("93_abort_waits_for_a_majority", Plant::AbortOnArrival, "1/r3 → c2: c2.1#1 ABSTAIN in v0"),
];

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in PLANTED {
        scripts().assert_parts(
            script,
            line,
            world(Rules::EXCLUSIVE),
            world(Rules::planted(plant)),
            plant.id(),
        );
    }
}

/// The transactions that the serializable variant commits at once, and the strict rules do not.
#[test]
fn the_serializable_variant_commits_what_the_strict_rules_do_not() {
    let table = [
        (
            "80_serializable_reads_the_past",
            "  c1.1 COMMITTED at 100c1, fast path, 0 retries",
            "  c1.1 CONFLICT",
        ),
        (
            "81_serializable_writes_the_past",
            "  c2.1 COMMITTED at 100c2, fast path, 0 retries",
            "  c2.1 COMMITTED at 501c2, fast path, 1 retries",
        ),
    ];
    for (script, serializable, strict) in table {
        let text = scripts().text(script);
        let tells = |text: &str, line| tells(text, world(Rules::EXCLUSIVE), line);
        assert!(tells(&text, serializable) && !tells(&text, strict), "{script}");
        let text = text.replacen("replicas=3 serializable", "replicas=3", 1);
        assert!(tells(&text, strict) && !tells(&text, serializable), "{script} under strict rules");
    }
}
