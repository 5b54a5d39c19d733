//! Crashes at every step of small clusters: the rules survive them, and known mistakes do not.

use quorate_simulator::crash_points::{
    Case, Configuration, CrashPointReport, CrashPointViolation, execute, run_task, tasks,
};
use quorate_simulator::world::steps::Party;
use quorate_tapir::Plant;

fn configuration(name: &str) -> Configuration {
    Configuration::named(name).expect("it exists")
}

fn calm(name: &str) -> Case {
    Case { configuration: configuration(name), plant: None, crashes: Vec::new() }
}

/// The first case of a configuration that a plant breaks.
fn first_violation(name: &str, plant: Plant) -> Option<CrashPointViolation> {
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
    let mut said = std::collections::BTreeSet::new();
    for configuration in Configuration::ALL {
        let executed = execute(&calm(configuration.name), true, None);
        assert_eq!(executed.broken().count(), 0);
        let report = &executed.report;
        assert!(report.aborted >= 2 && report.committed >= 10, "{report:?}");
        assert!(report.retried >= 1 || configuration.lacks_node, "{report:?}");
        said.extend(
            executed.steps.into_iter().map(|step| (matches!(step.party, Party::Client(_)), step.what)),
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
    for (is_client, names) in [(true, &of_clients[..]), (false, &of_servers[..])] {
        for name in names {
            assert!(said.contains(&(is_client, (*name).to_owned())), "{name} is a step in no configuration");
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
    let table = [(Plant::NoRecovery, "one-shard", "I6")];
    for (plant, name, invariant) in table {
        let caught = first_violation(name, plant).unwrap_or_else(|| panic!("{} is not caught", plant.id()));
        assert_eq!(caught.invariant, invariant, "{}: {}", plant.id(), caught.explain);
        assert!(caught.repeat.ends_with(&format!("--plant {}", plant.id())));
    }
}
