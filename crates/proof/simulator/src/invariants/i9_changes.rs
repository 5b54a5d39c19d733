//! I9: consumers of changes are told what has committed: each transaction once, in the order of timestamps, by whichever replicas, and nothing that comes later lies
//! below what was resolved.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::changes::Change;
use quorate_core::hosted::StoredVersion;
use quorate_core::{ReplicaId, ShardId, Timestamp};

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};
use crate::consumers::Stretch;

/// A stretch that a consumer was told, as a replica tells it at the end.
#[derive(Clone, Debug)]
pub struct Retold {
    /// The replica.
    pub by: ReplicaId,
    /// The stretch, as far as the replica has come.
    pub stretch: Stretch,
}

/// Consumers were told the changes that have committed, and no others. `written` are the transactions of which clients know that they have, with
/// the shards at which each has written, and whether two of one client may have one timestamp; `stored` are the versions that replicas of shards hold.
pub fn changes_are_told_once(
    told: &[Stretch],
    retold: &[Retold],
    (written, may_share): (&BTreeMap<Timestamp, BTreeSet<ShardId>>, bool),
    stored: &[(ShardId, Vec<StoredVersion>)],
) -> Finding {
    let mut broken = Vec::new();
    let mut note = |anomaly: &str, explain: String| {
        if broken.len() < BROKEN_MAX {
            broken.push(Broken::new(Invariant::Changes, anomaly, explain));
        }
    };
    for stretch in told {
        let is_wrong = |first, second| if may_share { first > second } else { first >= second };
        for pair in stretch.changes.windows(2).filter(|pair| is_wrong(pair[0].timestamp, pair[1].timestamp)) {
            let [first, second] = [pair[0].timestamp, pair[1].timestamp];
            note("out-of-order", format!("{:?}: {second} was told after {first}", stretch.shard));
        }
        let is_of = |shard: &ShardId| Some(*shard) == stretch.shard;
        for (timestamp, shards) in written.iter().filter(|(timestamp, _)| stretch.spans(**timestamp)) {
            if shards.iter().any(is_of) && find(stretch, *timestamp).is_empty() {
                note("missed", format!("{:?}: {timestamp} has committed, and was not told", stretch.shard));
            }
        }
        let versions = stored.iter().filter(|(shard, _)| is_of(shard)).flat_map(|(_, held)| held);
        for (key, timestamp, value) in versions {
            let is_inside = stretch.spans(*timestamp);
            // The last of those that have this timestamp has left it.
            let mut writes = find(stretch, *timestamp).iter().flat_map(|change| &change.writes);
            let write = writes.rfind(|write| write.key == *key);
            if is_inside && write.is_none_or(|write| write.value != *value) {
                let explain = format!(
                    "{:?}: {key:?} holds {value:?} since {timestamp}, and {write:?} was told",
                    stretch.shard
                );
                note("missed", explain);
            }
        }
    }
    for Retold { by, stretch } in retold {
        let same = |told: &&Stretch| {
            told.shard == stretch.shard && told.from == stretch.from && told.to.includes(&stretch.to)
        };
        for first in told.iter().filter(same) {
            let before = first.changes.iter().filter(|change| stretch.to.has_passed(change.timestamp));
            if let Some(explain) = difference(before, &stretch.changes) {
                note("told-differently", format!("{by} from {} on: {explain}", stretch.from));
            }
        }
    }
    finding(broken)
}

/// The changes of a timestamp.
fn find(stretch: &Stretch, timestamp: Timestamp) -> &[Change] {
    let from = stretch.changes.partition_point(|change| change.timestamp < timestamp);
    let to = stretch.changes.partition_point(|change| change.timestamp <= timestamp);
    stretch.changes.get(from..to).unwrap_or_default()
}

/// The first difference between what was told and what is told now.
fn difference<'a>(told: impl Iterator<Item = &'a Change>, now: &[Change]) -> Option<String> {
    let mut now = now.iter();
    for told in told {
        match now.next() {
            Some(change) if change == told => {}
            other => return Some(format!("{told:?} was told, and now it is {other:?}")),
        }
    }
    now.next().map(|change| format!("{change:?} is told now, and was not then"))
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Key, Value, Write};

    use super::*;

    const SHARD: ShardId = ShardId(1);

    fn at(micros: u64) -> Timestamp {
        Timestamp { micros, client: ClientId(1) }
    }

    fn stretch(to: u64, timestamps: &[u64]) -> Stretch {
        let write =
            |micros: &u64| Write { key: Key::from("k"), value: Some(Value::from(micros.to_string())) };
        let change = |micros: &u64| Change::of_writes(at(*micros), vec![write(micros)]);
        let changes = timestamps.iter().map(change).collect();
        Stretch { to: at(to).into(), changes, ..Stretch::begin(Some(SHARD), at(10).into()) }
    }

    fn version(micros: u64, value: &'static str) -> (ShardId, Vec<StoredVersion>) {
        (SHARD, vec![(Key::from("k"), at(micros), Some(Value::from(value)))])
    }

    fn judge(
        told: Stretch,
        retold: &[Stretch],
        written: &[u64],
        stored: &[(ShardId, Vec<StoredVersion>)],
    ) -> Vec<String> {
        judge_of(told, retold, (written, false), stored)
    }

    fn judge_of(
        told: Stretch,
        retold: &[Stretch],
        (written, may_share): (&[u64], bool),
        stored: &[(ShardId, Vec<StoredVersion>)],
    ) -> Vec<String> {
        let by = ReplicaId { shard: SHARD, index: Default::default() };
        let retold: Vec<_> = retold.iter().cloned().map(|stretch| Retold { by, stretch }).collect();
        let written = written.iter().map(|micros| (at(*micros), [SHARD].into())).collect();
        match changes_are_told_once(&[told], &retold, (&written, may_share), stored) {
            Finding::Broken(broken) => broken.into_iter().map(|broken| broken.anomaly).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn what_was_told_as_it_has_committed_is_right() {
        let told = stretch(50, &[10, 20, 30]);
        let retold = [told.clone(), stretch(25, &[10, 20])];
        let stored = [version(30, "30"), version(50, "later"), version(9, "earlier")];
        assert_eq!(judge(told, &retold, &[9, 10, 20, 30, 50], &stored), [""; 0]);
    }

    #[test]
    fn where_timestamps_are_shared_the_last_of_them_leaves_its_version() {
        let mut told = stretch(50, &[10, 30, 30]);
        told.changes[1].writes[0].value = Some(Value::from("first"));
        let judge = |told: &Stretch, stored| {
            judge_of(told.clone(), std::slice::from_ref(told), (&[30], true), &[stored])
        };
        assert_eq!(judge(&told, version(30, "30")), [""; 0]);
        assert_eq!(judge(&told, version(30, "first")), ["missed"]);
        assert_eq!(judge_of(stretch(50, &[30, 10]), &[], (&[], true), &[]), ["out-of-order"]);
    }

    #[test]
    fn what_is_missing_or_told_twice_or_differently_is_found() {
        let told = || stretch(50, &[10, 30]);
        assert_eq!(judge(told(), &[], &[20], &[]), ["missed"], "a transaction");
        assert_eq!(judge(told(), &[], &[], &[version(20, "20")]), ["missed"], "a version");
        assert_eq!(judge(told(), &[], &[], &[version(30, "other")]), ["missed"], "its value");
        assert_eq!(judge(stretch(50, &[10, 30, 30]), &[], &[], &[]), ["out-of-order"]);
        assert_eq!(judge(stretch(50, &[30, 10]), &[], &[], &[]), ["out-of-order"]);
        for now in [stretch(50, &[10, 20, 30]), stretch(50, &[10]), stretch(40, &[10, 30, 35])] {
            assert_eq!(judge(told(), &[now], &[], &[]), ["told-differently"]);
        }
    }
}
