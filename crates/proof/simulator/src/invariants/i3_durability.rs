//! I3: what was acknowledged is there at the end, once.

use std::collections::BTreeMap;

use quorate_checker::{Key, Observed};
use quorate_core::{ReplicaId, ShardId, Timestamp, Value};

use quorate_core::hosted::StoredVersion;

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// A put that a client was told is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcknowledgedPut {
    /// The key.
    pub key: quorate_core::Key,
    /// The value that was put last by the transaction.
    pub value: Value,
    /// Its version is not earlier than this.
    pub not_before: Timestamp,
}

/// Every acknowledged append is in its list at the end exactly once, and so is every element in its set that one transaction has added.
pub fn acknowledged_appends_survive(
    acknowledged: &[(Key, i64)],
    audited: &BTreeMap<Key, Observed>,
) -> Finding {
    let nothing = Observed::Null;
    let mut broken = Vec::new();
    for (key, element) in acknowledged {
        let times = match audited.get(key).unwrap_or(&nothing) {
            Observed::List(list) => list.iter().filter(|found| *found == element).count() as i64,
            Observed::Set(counts) => counts.get(element).copied().unwrap_or(0),
            _ => 0,
        };
        if times != 1 && broken.len() < BROKEN_MAX {
            let anomaly = if times == 0 { "lost-append" } else { "repeated-append" };
            let explain =
                format!("{element} was appended to {key} and acknowledged, and is there {times} times");
            broken.push(Broken::new(Invariant::Durability, anomaly, explain));
        }
    }
    finding(broken)
}

/// Every replica that should holds the value of every acknowledged put, or one with a later timestamp.
pub fn acknowledged_puts_survive(
    acknowledged: &[AcknowledgedPut],
    stored: &[(ReplicaId, Vec<StoredVersion>)],
    shard_of: impl Fn(&[u8]) -> ShardId,
) -> Finding {
    let mut broken = Vec::new();
    for (replica, versions) in stored {
        // Versions ascend, so the newest of each key is what is left.
        let newest: BTreeMap<_, _> =
            versions.iter().map(|(key, timestamp, value)| (key, (*timestamp, value))).collect();
        for AcknowledgedPut { key, value, not_before } in acknowledged {
            if shard_of(key) != replica.shard || broken.len() >= BROKEN_MAX {
                continue;
            }
            let found = newest.get(key);
            let survives = found.is_some_and(|(timestamp, found)| {
                timestamp > not_before || (timestamp == not_before && found.as_ref() == Some(value))
            });
            if !survives {
                let at = found
                    .map_or("nothing".to_owned(), |(timestamp, _)| format!("what was put at {timestamp}"));
                let explain = format!(
                    "{} bytes were put to {key:?} at {not_before} and acknowledged, and {replica} holds {at}",
                    value.len()
                );
                broken.push(Broken::new(Invariant::Durability, "lost-put", explain));
            }
        }
    }
    finding(broken)
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, ReplicaIndex};

    use super::*;

    #[test]
    fn a_put_is_lost_unless_it_or_a_later_one_is_there() {
        let at = |micros| Timestamp { micros, client: ClientId(1) };
        let replica = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };
        let version = |key: &'static str, micros, value: &'static str| {
            (quorate_core::Key::from(key), at(micros), Some(Value::from_static(value.as_bytes())))
        };
        let stored = [(replica, vec![version("a", 1, "x"), version("a", 5, "y"), version("b", 3, "z")])];
        let lost = |key: &'static str, micros, value: &'static str| {
            let value = Value::from_static(value.as_bytes());
            let put = AcknowledgedPut { key: quorate_core::Key::from(key), value, not_before: at(micros) };
            acknowledged_puts_survive(&[put], &stored, |key| ShardId(u32::from(key != b"elsewhere")))
                != Finding::Holds
        };
        assert!(!lost("a", 4, "x"), "it was overwritten");
        assert!(!lost("a", 5, "y"));
        assert!(lost("a", 5, "x"), "another value has its timestamp");
        assert!(lost("b", 4, "z") && lost("c", 1, "z"));
        assert!(!lost("elsewhere", 1, "z"), "other replicas hold it");
    }

    #[test]
    fn lost_and_repeated_appends_are_found() {
        let acknowledged: Vec<(Key, i64)> =
            vec![("a".into(), 1), ("a".into(), 2), ("b".into(), 3), ("c".into(), 4)];
        let audited = BTreeMap::from([
            ("a".into(), Observed::List(vec![2, 1, 2])),
            ("b".into(), Observed::Null),
            ("c".into(), Observed::List(vec![4])),
            ("s".into(), Observed::Set(BTreeMap::from([(5, 1), (6, 2)]))),
        ]);
        let Finding::Broken(broken) = acknowledged_appends_survive(&acknowledged, &audited) else { panic!() };
        let kinds: Vec<&str> = broken.iter().map(|broken| broken.anomaly.as_str()).collect();
        assert_eq!(kinds, ["repeated-append", "lost-append"]);
        assert_eq!(acknowledged_appends_survive(&acknowledged[3..], &audited), Finding::Holds);
        assert_eq!(acknowledged_appends_survive(&[("s".into(), 5)], &audited), Finding::Holds);
        let Finding::Broken(broken) = acknowledged_appends_survive(&[("s".into(), 6)], &audited) else {
            panic!()
        };
        assert_eq!(broken[0].anomaly, "repeated-append");
    }
}
