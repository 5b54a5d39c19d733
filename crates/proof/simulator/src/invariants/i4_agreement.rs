//! I4: replicas agree. No transaction has two outcomes, ever, neither at replicas nor in what clients were told; and after
//! a last view change, when nothing is under way, all replicas of a shard hold the same versions.

use std::collections::BTreeMap;
use std::fmt::Debug;

use quorate_core::command::Outcome;
use quorate_core::verify::{Compared, Odd, judge};
use quorate_core::{ReplicaId, Timestamp, TransactionId};

use quorate_core::hosted::StoredVersion;

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// No two replicas, of whatever shard, know different outcomes of one transaction, and none knows another than its client
/// was told.
pub fn outcomes_agree(
    told: &[(TransactionId, Outcome)],
    known: &[(ReplicaId, Vec<(TransactionId, Outcome)>)],
) -> Finding {
    let told = told.iter().map(|(transaction, outcome)| (*transaction, (None, *outcome)));
    let mut first: BTreeMap<TransactionId, (Option<ReplicaId>, Outcome)> = told.collect();
    let mut broken = Vec::new();
    for (replica, outcomes) in known {
        for (transaction, outcome) in outcomes {
            let (other, earlier) = first.entry(*transaction).or_insert((Some(*replica), *outcome));
            if earlier != outcome && broken.len() < BROKEN_MAX {
                let witness = other.map_or("to its client".to_owned(), |other| format!("at {other}"));
                let explain = format!("{transaction} is {earlier:?} {witness} and {outcome:?} at {replica}");
                broken.push(Broken::new(Invariant::Agreement, "two-outcomes", explain));
            }
        }
    }
    finding(broken)
}

/// The versions of a replica, ascending by key and timestamp, that must be alike at all replicas, wherever versions below `floor` may
/// have been collected: those that are not below, and of each key the newest below unless it is a deletion.
pub fn above_floor(versions: Vec<StoredVersion>, floor: Timestamp) -> Vec<StoredVersion> {
    let mut kept: Vec<StoredVersion> = Vec::with_capacity(versions.len());
    for version in versions {
        let is_below = |(key, timestamp, _): &StoredVersion| *key == version.0 && *timestamp < floor;
        if version.1 < floor && kept.last().is_some_and(is_below) {
            kept.pop();
        }
        kept.push(version);
    }
    kept.retain(|(_, timestamp, value)| *timestamp >= floor || value.is_some());
    kept
}

/// No replica has run anything below what it touches: another order than that of the others, or than what it has answered before.
pub fn everything_is_in_order(disordered: Option<ReplicaId>) -> Finding {
    let told = disordered.map(|replica| {
        let explain = format!("{replica} has run, read or undone something below what stood there already");
        Broken::new(Invariant::Agreement, "out-of-order", explain)
    });
    finding(told.into_iter().collect())
}

/// All replicas of a shard hold the same versions.
pub fn replicas_agree_on_data(stored: &[(ReplicaId, Vec<StoredVersion>)]) -> Finding {
    let mut broken = Vec::new();
    for pair in stored.windows(2) {
        let [(one, ours), (other, theirs)] = pair else { continue };
        if one.shard != other.shard || ours == theirs || broken.len() >= BROKEN_MAX {
            continue;
        }
        let explain = match (missing(ours, theirs), missing(theirs, ours)) {
            (Some(version), _) => format!("{one} holds {}, and {other} does not", describe(version)),
            (None, Some(version)) => format!("{other} holds {}, and {one} does not", describe(version)),
            (None, None) => format!("{one} and {other} hold the same versions a different number of times"),
        };
        broken.push(Broken::new(Invariant::Agreement, "diverged", explain));
    }
    finding(broken)
}

/// The contents of replicas that an operator has compared are the same.
pub fn digests_agree(compared: &Compared) -> Finding {
    if judge(&compared.held) == Odd::None {
        return Finding::Holds;
    }
    let held = compared.held.iter().map(|(index, held)| match held {
        Ok(digest) => format!("{index} {} items, {}", digest.items, digest.checksum()),
        Err(reason) => format!("{index} {reason}"),
    });
    let point = compared.point.map_or("nowhere".to_owned(), |point| point.to_string());
    let explain = format!("replicas compared at {point} differ: {}", held.collect::<Vec<_>>().join("; "));
    finding(vec![Broken::new(Invariant::Agreement, "digests-differ", explain)])
}

fn missing<'a, T: PartialEq + Debug>(ours: &'a [T], theirs: &[T]) -> Option<&'a T> {
    ours.iter().find(|version| !theirs.contains(version))
}

fn describe((key, timestamp, value): &StoredVersion) -> String {
    let length = value.as_ref().map_or(0, |value| value.len());
    format!("{key:?} at {timestamp} ({length} bytes)")
}

#[cfg(test)]
mod tests {
    use quorate_core::{Key, Value};

    use super::*;
    use quorate_core::{ClientId, ReplicaIndex, ShardId};

    fn replica(shard: u32, index: u8) -> ReplicaId {
        ReplicaId { shard: ShardId(shard), index: ReplicaIndex(index) }
    }

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    #[test]
    fn two_outcomes_of_one_transaction_are_found_across_shards() {
        let transaction = |sequence| TransactionId { client: ClientId(1), sequence, attempt: 0 };
        let committed = Outcome::Committed(at(5));
        let known = [
            (replica(1, 0), vec![(transaction(1), committed), (transaction(2), Outcome::Aborted)]),
            (replica(1, 1), vec![(transaction(1), committed)]),
            (replica(2, 0), vec![(transaction(2), Outcome::Committed(at(6)))]),
        ];
        assert_eq!(outcomes_agree(&[], &known[..2]), Finding::Holds);
        assert_eq!(outcomes_agree(&[(transaction(1), committed)], &known[..2]), Finding::Holds);
        let Finding::Broken(broken) = outcomes_agree(&[], &known) else { panic!() };
        assert!(broken.len() == 1 && broken[0].explain.contains("c1.2.0"));
        let told = [(transaction(1), Outcome::Committed(at(4)))];
        let Finding::Broken(broken) = outcomes_agree(&told, &known[..1]) else { panic!() };
        assert!(broken[0].explain.contains("to its client"), "{}", broken[0].explain);
    }

    #[test]
    fn one_replica_out_of_order_is_enough() {
        assert_eq!(everything_is_in_order(None), Finding::Holds);
        let Finding::Broken(broken) = everything_is_in_order(Some(replica(1, 2))) else { panic!() };
        assert_eq!(broken[0].anomaly, "out-of-order");
    }

    #[test]
    fn collected_versions_are_not_compared() {
        let version = |key: &'static str, micros, lives: bool| {
            (Key::from(key), at(micros), lives.then(|| Value::from_static(b"x")))
        };
        let whole = vec![
            version("a", 1, true),
            version("a", 2, true),
            version("a", 7, true),
            version("b", 1, true),
            version("b", 2, false),
            version("c", 3, true),
        ];
        let collected = vec![version("a", 2, true), version("a", 7, true), version("c", 3, true)];
        assert_eq!(above_floor(whole, at(5)), collected);
        assert_eq!(above_floor(collected.clone(), at(5)), collected);
    }

    #[test]
    fn replicas_of_one_shard_are_compared_and_those_of_others_are_not() {
        let version = |micros| (Key::from("k"), at(micros), None);
        let stored = [
            (replica(1, 0), vec![version(1), version(2)]),
            (replica(1, 1), vec![version(1)]),
            (replica(2, 0), vec![]),
        ];
        let Finding::Broken(broken) = replicas_agree_on_data(&stored) else { panic!() };
        assert_eq!(broken.len(), 1);
        assert!(broken[0].explain.starts_with("shard1/r0 holds"), "{}", broken[0].explain);
        assert_eq!(replicas_agree_on_data(&stored[1..]), Finding::Holds);
    }
}
