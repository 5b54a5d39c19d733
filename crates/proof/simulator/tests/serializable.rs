//! Serializable keyspaces, as they are simulated.

use quorate_simulator::{Faults, Options, Report, SystemKind, run};

/// The invariants that do not hold, in a form that a person can act on.
fn violations(options: &Options) -> Vec<String> {
    told(&run(options, |_| true))
}

fn told(report: &Report) -> Vec<String> {
    let describe = |violation: &quorate_simulator::Violation| {
        format!("quorate {}: {} {}", violation.repeat, violation.invariant, violation.explain)
    };
    report.violations.iter().map(describe).collect()
}

#[test]
fn the_rules_hold_without_faults() {
    let options = Options { system: SystemKind::SERIALIZABLE, faults: Faults::None, ..Options::new(1..=10) };
    assert_eq!(violations(&options), [""; 0]);
}

/// In a quarter of the seeds consumers follow what commits.
#[test]
fn consumers_of_changes_are_told_what_has_committed() {
    let options = Options { system: SystemKind::SERIALIZABLE, repeat_every: 0, ..Options::new(100..=120) };
    let report = run(&options, |_| true);
    assert_eq!(told(&report), [""; 0]);
    let changes = &report.happened["changes told to consumers"];
    assert!(changes.seeds >= 3 && changes.times > 200, "{changes:?}");
}

/// Of two shards that have as much as they may, neither may refuse what the other waits for.
#[test]
fn shards_that_refuse_new_work_end_what_they_have_begun() {
    let faults = "low-marks".parse().expect("there is such a fault");
    let options = Options { system: SystemKind::SERIALIZABLE, faults, ..Options::new(1..=10) };
    assert_eq!(violations(&options), [""; 0]);
}

/// A shard that still runs and was declared lost says how a transaction has ended that the leader of another shard has dropped, before the next leader knows that.
#[test]
fn a_shard_that_was_declared_lost_ends_nothing_any_more() {
    let options = Options {
        system: SystemKind::SERIALIZABLE,
        faults: Faults::Swarm,
        repeat_every: 0,
        ..Options::new(129..=129)
    };
    assert_eq!(violations(&options), [""; 0]);
}

/// The others go on without a shard that is lost for good: everything ends, and what one of them had agreed on is kept.
#[test]
fn a_shard_that_is_lost_is_declared_so_and_the_others_go_on() {
    let faults = "shard-loss,node-crashes,partitions".parse().expect("there are such faults");
    let options =
        Options { system: SystemKind::SERIALIZABLE, faults, repeat_every: 0, ..Options::new(1..=24) };
    let report = run(&options, |_| true);
    assert_eq!(told(&report), [""; 0]);
    let expected = [
        "all other shards knew that one is lost",
        "an operator that declared a loss vanished",
        "shards were declared lost while they ran",
    ];
    let has_happened = |what: &&str| report.happened.get(*what).is_some_and(|happened| happened.times > 0);
    assert!(expected.iter().all(has_happened), "{:?}", report.happened.keys());
}

#[test]
fn the_rules_survive_all_faults() {
    let options = Options { system: SystemKind::SERIALIZABLE, ..Options::new(14..=43) };
    let report = run(&options, |_| true);
    assert_eq!(told(&report), [""; 0]);
    let expected = [
        "alarm that shards had decided differently",
        "backups taken",
        "backups that lost their instant",
        "batch of one shard",
        "batch refused",
        "batch that breaks a promise",
        "batch that reads",
        "call of no procedure refused",
        "changes told to consumers",
        "client was told that a node is busy",
        "coordinated batch",
        "deployed procedure called",
        "independent batch of several shards",
        "lease asked for",
        "lease without a timestamp refused",
        "procedure deployed",
        "procedure removed",
        "replicas of a shard compared",
        "session moved",
        "several keys were read at once",
        "shard began to lock",
        "shard went back to timestamps",
        "transaction of TPC-C",
    ];
    // Few seeds have these.
    let rare = [
        "client was told that it has not the right",
        "messages denied for want of a right",
        "messages of clients that none says",
        "messages passed over for want of a right",
        "messages passed over by nodes that stop",
        "nodes stopped with nothing under way",
        "messages taken without their hints",
        "all other shards knew that one is lost",
        "an operator found its epoch defined",
        "an operator that changed replicas vanished",
        "an operator vanished after it had sent the next epoch",
        "an operator was overtaken by another",
        "epochs were defined",
        "operators changed replicas at the same time",
        "the next epoch, or its members, had to be waited for",
        "an operator that declared a loss vanished",
        "shards were declared lost while they ran",
        "all replicas served again after an accepted loss",
        "an operator had to wait for a replica that may know more",
        "an operator that accepted a loss vanished",
        "an operator vanished between two replicas that were to go on asleep",
        "replicas went on asleep",
    ];
    let common = report.happened.keys().filter(|name| !rare.contains(&name.as_str()));
    assert_eq!(common.collect::<Vec<_>>(), expected);
    let has_happened = |name: &&str| report.happened.get(*name).is_some_and(|happened| happened.times > 0);
    assert!(expected.iter().all(has_happened), "{:?}", report.happened);
}
