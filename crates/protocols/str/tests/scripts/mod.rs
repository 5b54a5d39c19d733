//! Runs every script in `testscripts` and compares what happens with what is written there.
//!
//! A script is a sequence of blocks: commands, a line `---`, and what they led to. `QUORATE_BLESS=1 cargo test -p
//! quorate-str` writes what happens into the scripts; read the difference before you commit it. The scripts `01` to `19` are those of the rules S1
//! to S19.
//!
//! Beside the commands of every [`quorate_testscripts::stage`] there are
//!
//! | command | meaning |
//! |---|---|
//! | `cluster A=1,2,3 B=2 … [sessions=ordered] [lag=MILLISECONDS] [home=shared] [logs=told] [grants=none|leader]` | first; the nodes of the replicas `A/r0`, `A/r1`, … of each shard; keys `a…` belong to the shard `A`; the machine of the first node is `N1/r0`, in a home of its own, or `N1` is the home of all nodes; every replica has been granted snapshots once, unless leaders alone are, or nobody is to be; what logs say is left out, unless it is told |
//! | `initially a=x b=y` | this has been written long ago, by `c19` |
//! | `quietly COMMAND` | nothing is told of what it leads to |
//! | `fail 2`, `revive 2` | kills all machines on a node; brings them back with their logs |
//! | `begin c1 7 [after 6]`, `get c1 7 a b`, `scan c1 7 a`, `put c1 7 a x`, `delete c1 7 a`, `commit c1 7 [shown]`, `abort c1 7`, `resolve c1 7 N1` | a client's commands; the clients `c1`, `c11`, `c12` are at the first node, `c2` and `c21` at the second; a scan is of all keys of a shard from this one on |
//! | `read c1 7 a b` | a read-only transaction |
//! | `observe c1 MICROS` | a client has seen this timestamp elsewhere |
//! | `show WHO` | what a replica holds |

pub(crate) mod describe;
pub(crate) mod world;

use quorate_str::{Plant, Rules};
use quorate_testscripts::{Scripts, run};
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

/// An anomaly, as a script tells it.
struct Anomaly {
    script: &'static str,
    plant: Plant,
    /// All of these lines are told.
    told: &'static [&'static str],
    /// None of these is.
    untold: &'static [&'static str],
}

impl Anomaly {
    const fn of(script: &'static str, plant: Plant, told: &'static [&'static str]) -> Self {
        Anomaly { script, plant, told, untold: &[] }
    }

    const fn without(self, untold: &'static [&'static str]) -> Self {
        Anomaly { untold, ..self }
    }

    fn is_told_under(&self, rules: Rules) -> bool {
        let text = run(&scripts().text(self.script), world(rules));
        let tells = |line: &&str| text.lines().any(|told| told == *line);
        self.told.iter().all(tells) && !self.untold.iter().any(tells)
    }
}

/// Each plant, and the anomaly that it leads to.
const ANOMALIES: [Anomaly; 23] = [
    // The update is lost.
    Anomaly::of(
        "01_above_its_snapshot",
        Plant::SnapshotIgnored,
        &["  c1.1 COMMITTED @1", "  c2.1 got b = old"],
    ),
    // Two concurrent writers of a key are final.
    Anomaly::of(
        "02_a_blind_write_depends_on_what_it_overwrites",
        Plant::BlindWritesIndependent,
        &["  c1.1 COMMITTED @5002", "  c11.1 COMMITTED @5002"],
    ),
    // A snapshot holds one half of a transaction.
    Anomaly::of(
        "03_a_reader_that_waits_is_noted",
        Plant::WaitingReadersUnnoted,
        &["  c1.1 got a = nothing", "  c1.1 got b = new"],
    ),
    Anomaly::of(
        "04_a_holder_forgets_its_readers",
        Plant::ReadersForgotten,
        &["  c2.1 got a = nothing", "  c2.1 got b = new", "  c2.1 COMMITTED @5001"],
    ),
    Anomaly::of(
        "20_a_holder_is_granted_again",
        Plant::ReadersForgotten,
        &["  c2.1 got b = new", "  c2.1 COMMITTED @5001"],
    ),
    Anomaly::of(
        "21_a_leader_forgets_its_readers",
        Plant::ReadersForgotten,
        &["  c1.1 got b = new", "  c1.1 COMMITTED @5001"],
    ),
    // A snapshot holds a local commit, and what has read from one that conflicts with it.
    Anomaly::of(
        "05_safe_up_to_a_grant",
        Plant::SafeWithoutVote,
        &["  c21.1 got a = second", "  c11.1 got c = first", "  c11.1 got b = third", "  c1.1 CONFLICT"],
    ),
    Anomaly::of(
        "06_a_replica_that_lags",
        Plant::LaggingReplicaServes,
        &["  c2.1 got b = new", "  c2.1 got a = nothing"],
    ),
    // A session does not see its own commit.
    Anomaly::of("07_a_session_sees_its_commits", Plant::SessionIgnored, &["  c1.2 got a = nothing"]),
    // A final transaction has read from one that has aborted.
    Anomaly::of(
        "08_a_reader_waits_for_what_it_has_read",
        Plant::ReadOnlyAtOnce,
        &["  c11.1 got a = x", "  c11.1 COMMITTED @1003", "  c1.1 CONFLICT"],
    ),
    Anomaly::of(
        "09_a_reader_of_nothing",
        Plant::CacheReadersUnnoted,
        &["  c1.1 got b = nothing", "  c1.1 got a = new"],
    ),
    Anomaly::of(
        "10_figure_2",
        Plant::ConflictsMixed,
        &["  c3.1 got e = E2", "  c11.1 got a = A1", "  c11.1 got b = B3", "  c1.1 CONFLICT"],
    ),
    // Nobody can write the key any more.
    Anomaly::of(
        "12_an_abort_overtakes_its_prepare",
        Plant::OrphansKept,
        &["  A/r0 holds keys for c1.1", "  1 wait at A/r0"],
    ),
    // A key that was there seems to have been deleted.
    Anomaly::of("13_a_snapshot_below_the_floor", Plant::FloorIgnored, &["  c1.1 got a = nothing"]),
    // The program does not hear that it computes with what never was.
    Anomaly::of("14_a_program_that_is_doomed", Plant::DoomedUntold, &["  c1.1 CONFLICT"])
        .without(&["  c11.1 CONFLICT"]),
    Anomaly::of("15_figure_1a", Plant::ForeignSpeculation, &["  c3.1 got c = 1", "  c3.1 got b = 1"]),
    Anomaly::of("15_figure_1b", Plant::ForeignSpeculation, &["  c3.1 got a = 4", "  c3.1 got b = 5"]),
    Anomaly::of(
        "16_all_of_a_local_commit",
        Plant::CacheEmpty,
        &["  c11.1 got a = new", "  c11.1 got b = nothing"],
    ),
    // The later snapshot lacks what the earlier one holds.
    Anomaly::of(
        "17_a_reader_below_what_it_has_read",
        Plant::StaleDependentsKept,
        &["  c2.1 got a = nothing", "  c2.1 COMMITTED @5001", "  c11.1 got a = x", "  c11.1 COMMITTED @1003"],
    ),
    Anomaly::of(
        "18_final_after_what_it_depends_on",
        Plant::DependenciesIgnored,
        &["  c11.1 got a = x", "  c1.1 CONFLICT"],
    )
    .without(&["  c11.1 CONFLICT"]),
    Anomaly::of(
        "19_a_local_commit_that_was_missed",
        Plant::MissedLocally,
        &["  c1.1 COMMITTED @5002", "  c11.1 got a = nothing"],
    ),
    // A snapshot holds one half of a transaction.
    Anomaly::of(
        "25_a_vote_under_an_earlier_view",
        Plant::EarlierVotesCount,
        &["  c3.1 got a = nothing", "  c3.1 got b = x", "  c3.1 COMMITTED @2000201"],
    ),
    // One half of a commit is lost.
    Anomaly::of(
        "24_a_deposed_leader_vouches_for_nothing",
        Plant::DeposedVouch,
        &["  c4.2 COMMITTED @1501002", "  B/r0 holds b = x @1501002"],
    )
    .without(&["  A/r1 holds a = x @1501002"]),
];

#[test]
fn planted_bugs_lead_to_anomalies() {
    let mut wrong = Vec::new();
    for anomaly in &ANOMALIES {
        if anomaly.is_told_under(Rules::SOUND) {
            wrong.push(format!("{} tells an anomaly", anomaly.script));
        }
        if !anomaly.is_told_under(Rules::planted(anomaly.plant)) {
            wrong.push(format!("{} is not caught by {}", anomaly.plant.id(), anomaly.script));
            println!("{}", run(&scripts().text(anomaly.script), world(Rules::planted(anomaly.plant))));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Tests beside the code play these, and seeds with consumers of changes, with backups, with indexes and with values that expire: no script has any.
const WITHOUT_SCRIPT: [Plant; 10] = [
    Plant::PendingPassedOver,
    Plant::ConsumersUnnoted,
    Plant::BackupsUnnoted,
    Plant::BackupsDoNotWait,
    Plant::IndexListOverlooked,
    Plant::IndexListChangedBeside,
    Plant::DeletionsUntold,
    Plant::ExpiryUnwritten,
    Plant::ExpiredSnapshot,
    Plant::SweptUnread,
];

#[test]
fn every_plant_is_played() {
    for plant in Plant::ALL.into_iter().filter(|plant| !WITHOUT_SCRIPT.contains(plant)) {
        assert!(ANOMALIES.iter().any(|anomaly| anomaly.plant == plant), "{} is not played", plant.id());
    }
}
