//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-granola` writes what happens into the scripts; read the difference before you commit it.
//!
//! Beside the commands of every [`quorate_testscripts::stage`] there are
//!
//! | command | meaning |
//! |---|---|
//! | `cluster [shards=S] [replicas=N] [lag=SECONDS] [locking=always\|never] [hub=SHARD]` | first; floors stay so far behind the clock |
//! | `run c1 7 1 put a x, 2 append b y` | a client executes these operations at these shards, as its transaction 7 |
//! | `read c1 8 1 get a, 2 get b` | the same, for operations that only read |
//! | `agree c1 9 1 swap a x y, 2 put b z` | the same, for operations on which the shards have to agree |
//! | `ask FROM TO c1.7 1,2 HIGH put a x` | a request that nobody has sent comes to a replica, above a timestamp |
//! | `vote FROM TO c1.7 1,2 COMMIT MICROS` | a vote that nobody has given |
//! | `declare-lost WHO SHARD` | an operator tells a replica that a shard is lost for good |
//! | `inquire c2 c1.7 1,2 MICROS` | a client asks what has become of a transaction, which was not sent before |
//! | `recall c2 c1.7 1,2 MICROS` | the same, and for all that it has answered |
//! | `observe c1 MICROS` | a client hears from another that this timestamp was seen |
//! | `learn WHO` | a client or a replica learns who the replicas of all groups are |
//! | `show WHO`, `waiting WHO`, `reads WHO` | what a replica holds; how many requests wait there; how often it has executed reads |

pub(crate) mod describe;
pub(crate) mod world;

use quorate_granola::{Plant, Rules};
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
const PLANTED: [(&str, Plant, &str); 24] = [
    ("06_a_read_outlives_its_leader", Plant::CeilingForgotten, "  c2.1 COMMITTED at 509002: 1 nothing"),
    ("39_executions_need_not_ascend", Plant::LatestExecuted, "  c3.1 COMMITTED at 9002: 1 y"),
    ("40_proposed_after_what_is_let_go", Plant::ProposedFirst, "  c3.1 COMMITTED at 9002: 1 y, 2 nothing"),
    ("41_refusals_are_logged", Plant::RefusalsNotLogged, "  c2.1 COMMITTED at 1000101: 1 x, 2 nothing"),
    ("07_the_client_dies_before_it_could_ask_all", Plant::NoTombstones, "  c1.1 conflict"),
    ("42_what_lacks_votes_is_locked", Plant::IncompleteNotLocked, "  c2.1 COMMITTED at 102: 1 x, 3 nothing"),
    ("43_locks_end_with_what_is_refused", Plant::LocksKept, "  c3.1 COMMITTED at 103: 1 nothing"),
    (
        "08_the_next_leader_asks_for_votes",
        Plant::VotesDiscarded,
        "  c1.1 COMMITTED at 101: 1 nothing, 2 nothing",
    ),
    (
        "09_what_was_read_raises_what_is_proposed",
        Plant::ReadsRaiseNothing,
        "  c2.1 COMMITTED at 9002: 1 nothing",
    ),
    ("36_told_once_it_is_logged", Plant::ToldUnlogged, "  c3.1 COMMITTED at 101: 1 nothing"),
    ("46_a_timestamp_is_handed_on", Plant::ObservedIgnored, "  c2.2 COMMITTED at 9002: 2 nothing"),
    (
        "47_not_independent",
        Plant::DecisionsNotCompared,
        "  c1.2 DISAGREEMENT: 1 x at 102, 2 refused (y) at 102",
    ),
    ("10_requests_overtake_each_other", Plant::LatestOnly, "  c1.1 COMMITTED at 1000101: 1 y"),
    ("11_backups_execute_in_the_order_of_timestamps", Plant::ArrivalOrder, "  a = x,y @102"),
    ("45_what_was_never_logged", Plant::SinglesKept, "  d = z @101"),
    ("12_a_snapshot_has_one_timestamp", Plant::UnequalReadsTaken, "  c2.2 COMMITTED at 500103: 1 x, 2 x"),
    ("13_what_is_not_stable_yet_is_waited_for", Plant::QueuedOnceStable, "  c2.2 COMMITTED at 9001: 1 new"),
    ("14_proposals_ascend", Plant::ProposalsDescend, "  c2.1 COMMITTED at 9003: 1 x"),
    ("15_a_leader_that_is_deposed_is_rewound", Plant::NotRewound, "  a = x,x @101"),
    ("16_a_session_is_ordered", Plant::SessionForgotten, "  c1.2 COMMITTED at 9002: 1 nothing"),
    ("44_a_leader_takes_over_what_is_agreed", Plant::NothingLocked, "1/r1 leads v1 and locks, floor 0"),
    ("48_a_shard_is_lost", Plant::LostVotesCount, "  c2.1 conflict"),
    (
        "68_what_clients_say_that_they_have_seen",
        Plant::SeenAdopted,
        "  c2.1 has SEEN what is 895949900 µs ahead",
    ),
    (
        "75_what_asks_for_its_place_runs_late",
        Plant::LateRefused,
        "  c2.1 COMMITTED at 102: 1 nothing, 2 nothing",
    ),
];

/// A script that goes the same way when its rule is broken would guard nothing.
#[test]
fn scripts_go_another_way_with_a_planted_bug() {
    for (script, plant, line) in PLANTED {
        scripts().assert_parts(script, line, world(Rules::SOUND), world(Rules::planted(plant)), plant.id());
    }
}
