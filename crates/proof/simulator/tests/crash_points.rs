//! Crashes at every step of small clusters: the rules survive them, and known mistakes do not.

use std::collections::BTreeSet;

use quorate_simulator::crash_points::{
    Case, Configuration, CrashPointReport, CrashPointViolation, execute, misplaced, run_task, tasks,
};
use quorate_simulator::world::steps::Party;
use quorate_simulator::{Planted, SystemKind};
use quorate_tapir::Plant;

fn configuration(name: &str) -> Configuration {
    Configuration::named(name).expect("it exists")
}

fn calm(name: &str) -> Case {
    Case { configuration: configuration(name), plant: None, crashes: Vec::new() }
}

/// The first case of a configuration that a plant breaks.
fn first_violation(name: &str, plant: &Planted) -> Option<CrashPointViolation> {
    let tasks = tasks(configuration(name), Some(plant));
    tasks.iter().find_map(|task| run_task(task).violations.into_iter().next())
}

/// `cargo xtask check simulation` goes through all configurations, for which it has the time.
#[test]
fn a_small_cluster_survives_a_crash_at_every_step() {
    let mut report = CrashPointReport::default();
    for task in tasks(configuration("one-shard"), None) {
        report.add(configuration("one-shard"), run_task(&task));
    }
    assert_eq!(report.violations, []);
    let of = &report.configurations[0];
    assert!(of.client_cases > 100 && of.server_cases > 100 && of.pair_cases > 100, "{of:?}");
    assert!(of.client_held_max_ms > 100.0, "what a client leaves behind is held until a time-out runs out");
}

/// Crashes between steps that are never taken would prove nothing.
#[test]
fn scripts_reach_what_a_protocol_consists_of() {
    let mut said = BTreeSet::new();
    for configuration in Configuration::ALL {
        let executed = execute(&calm(configuration.name), true, None);
        assert_eq!(executed.broken().count(), 0, "{}", configuration.name);
        let report = &executed.report;
        assert!(report.aborted >= 2 && report.committed >= 10, "{}: {report:?}", configuration.name);
        let retries = configuration.system == SystemKind::STRICT && !configuration.lacks_node;
        assert!(report.retried >= 1 || !retries, "{report:?}");
        said.extend(
            executed
                .steps
                .into_iter()
                .map(|step| (configuration.system, matches!(step.party, Party::Client(_)), step.what)),
        );
    }
    let of_clients = [
        "CommitPrepared",
        "FinalizeConsensus",
        "FinalizeInconsistent",
        "ProposeConsensus",
        "ProposeInconsistent",
        "QuorumRead",
        "QuorumScan",
        "Read",
    ];
    let of_servers = [
        "CompleteReply",
        "Confirm",
        "ConsensusReply",
        "Decided",
        "FloorRaised",
        "GatherReply",
        "HeldReads",
        "Initialised",
        "VoteFinalized",
        "Voted",
    ];
    let of_sites = ["CommitReply", "Prepare", "Progress", "Propagate", "ReadReply", "Release", "Vote"];
    for (system, is_client, names) in [
        (SystemKind::STRICT, true, &of_clients[..]),
        (SystemKind::STRICT, false, &of_servers[..]),
        (SystemKind::SERIALIZABLE, true, &["Request"]),
        (SystemKind::SERIALIZABLE, false, &["Reply", "Vote"]),
        (SystemKind::PARALLEL_SNAPSHOT, true, &["Commit", "Read"]),
        (SystemKind::PARALLEL_SNAPSHOT, false, &of_sites[..]),
    ] {
        for name in names {
            let is_said = said.contains(&(system, is_client, (*name).to_owned()));
            assert!(is_said, "{name} is a step in no configuration of {system}: {said:?}");
        }
    }
}

#[test]
fn a_case_names_one_execution() {
    let case: Case = "two-shards:90-stays-away".parse().unwrap();
    let hash = |case: &Case| execute(case, false, None).report.trace_hash;
    assert_eq!(hash(&case), hash(&case));
    assert_ne!(hash(&case), hash(&calm("two-shards")));
}

#[test]
fn plants_are_caught_by_crashes() {
    let table = [
        (SystemKind::STRICT.planted(Plant::NoRecovery), "one-shard", "I6"),
        (SystemKind::PARALLEL_SNAPSHOT.planted(quorate_walter::Plant::AbortsNotLogged), "local-sites", "I1"),
    ];
    for (plant, name, invariant) in table {
        let caught = first_violation(name, &plant).unwrap_or_else(|| panic!("{} is not caught", plant.id));
        assert_eq!(caught.invariant, invariant, "{}: {}", plant.id, caught.explain);
        assert!(caught.repeat.ends_with(&format!("--plant {}", plant.id)));
    }
}

#[test]
fn a_case_is_refused_that_crashes_nobody_or_somebody_in_the_way_of_others() {
    for (text, reason) in [
        ("one-shard:9999999-restarts", "no step 9999999"),
        ("one-shard:50-restarts", "client 0 takes step 50"),
        ("local-sites", ""),
    ] {
        let case: Case = text.parse().unwrap();
        let misplaced = misplaced(&case);
        assert_eq!(misplaced.is_some(), !reason.is_empty(), "{misplaced:?}");
        assert!(misplaced.unwrap_or_default().contains(reason), "{text}");
    }
}
