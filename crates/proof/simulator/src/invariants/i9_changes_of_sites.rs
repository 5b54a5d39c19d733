//! I9, of keyspaces whose sites number their transactions: consumers are told what has committed at any site, each transaction once, those of each site in the order of their numbers, and
//! each after all that it has seen. Nothing that was told is given up, if no more sites are lost than the keyspace survives.

use std::collections::{BTreeMap, BTreeSet};

use quorate_core::changes::{Change, Position};
use quorate_core::hosted::StoredVersion;
use quorate_core::{ShardId, Timestamp};

use super::i9_changes::Retold;
use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};
use crate::consumers::Stretch;

/// Consumers were told the changes that have committed, and no others. `written` are the transactions of which clients know that they have; `stored` the versions that replicas hold; `ends` the
/// last transaction that is kept of each site that was taken out, and whether more sites are lost than the keyspace survives.
pub fn changes_of_sites_are_told_once(
    told: &[Stretch],
    retold: &[Retold],
    written: &BTreeMap<Timestamp, BTreeSet<ShardId>>,
    stored: &[(ShardId, Vec<StoredVersion>)],
    (ends, may_be_lost): (&BTreeMap<u64, u64>, bool),
) -> Finding {
    let mut broken = Vec::new();
    let mut note = |anomaly: &str, explain: String| {
        if broken.len() < BROKEN_MAX {
            broken.push(Broken::new(Invariant::Changes, anomaly, explain));
        }
    };
    let is_kept = |name: Timestamp| ends.get(&name.client.0).is_none_or(|last| name.micros <= *last);
    for stretch in told {
        for explain in disorder(stretch) {
            note("out-of-order", explain);
        }
        let by_name: BTreeMap<Timestamp, &Change> =
            stretch.changes.iter().map(|change| (change.timestamp, change)).collect();
        for name in written.keys().filter(|name| stretch.spans(**name) && is_kept(**name)) {
            if !by_name.contains_key(name) {
                note("missed", format!("{name} has committed, and was not told"));
            }
        }
        for name in by_name.keys().filter(|name| !is_kept(**name) && !may_be_lost) {
            note("given-up", format!("{name} was told, and was given up with its site"));
        }
        let held = stored.iter().flat_map(|(_, held)| held);
        for (key, name, value) in held.filter(|(_, name, _)| stretch.spans(*name) && is_kept(*name)) {
            let written = by_name.get(name).map(|change| &change.writes);
            let write = written.and_then(|writes| writes.iter().find(|write| write.key == *key));
            if write.is_none_or(|write| write.value != *value) {
                note("missed", format!("{key:?} holds {value:?} since {name}, and {write:?} was told"));
            }
        }
    }
    for Retold { by, stretch } in retold {
        for first in told.iter().filter(|told| told.from == stretch.from && told.to.includes(&stretch.to)) {
            if let Some(explain) = difference(first, stretch) {
                note("told-differently", format!("{by} from {} on: {explain}", stretch.from));
            }
        }
    }
    finding(broken)
}

/// The changes of a stretch that come too late: after a later one of their site, or after one that has seen them.
fn disorder(stretch: &Stretch) -> Vec<String> {
    let mut found = Vec::new();
    // From the end: of each site the first transaction that is told later.
    let mut later: BTreeMap<u64, u64> = BTreeMap::new();
    for (at, change) in stretch.changes.iter().enumerate().rev() {
        let name = change.timestamp;
        if let Some(next) = later.get(&name.client.0).filter(|next| **next <= name.micros) {
            found.push(format!("{next} of site {} was told after {name}", name.client.0));
        }
        for (site, seqno) in &later {
            let cause = Timestamp { micros: *seqno, client: quorate_core::ClientId(*site) };
            if stretch.causes.get(at).is_some_and(|causes| has_seen(causes, cause)) {
                found.push(format!("{cause} was told after {name}, which has seen it"));
            }
        }
        let first = later.entry(name.client.0).or_insert(name.micros);
        *first = name.micros.min(*first);
    }
    found
}

fn has_seen(causes: &Position, name: Timestamp) -> bool {
    causes.has_passed(name)
}

/// The first difference between what was told and what a replica tells of the same stretch: their order may be another one.
fn difference(told: &Stretch, again: &Stretch) -> Option<String> {
    let by_name = |stretch: &Stretch| -> BTreeMap<Timestamp, Change> {
        let inside = stretch.changes.iter().filter(|change| again.to.has_passed(change.timestamp));
        inside.map(|change| (change.timestamp, change.clone())).collect()
    };
    let (told, again) = (by_name(told), by_name(again));
    let names: BTreeSet<&Timestamp> = told.keys().chain(again.keys()).collect();
    let mut differ = names.into_iter().filter(|name| told.get(name) != again.get(name));
    differ.next().map(|name| format!("{:?} was told, and now it is {:?}", told.get(name), again.get(name)))
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClientId, Key, ReplicaId, Value, Write};

    use super::*;

    fn name(site: u64, seqno: u64) -> Timestamp {
        Timestamp { micros: seqno, client: ClientId(site + 1) }
    }

    fn position(numbers: &[u64]) -> Position {
        Position::of_sites(numbers.to_vec())
    }

    fn value(name: Timestamp) -> Option<Value> {
        Some(Value::from(name.to_string()))
    }

    /// A stretch with these transactions, each with what it has seen.
    fn stretch(to: &[u64], transactions: &[(u64, u64, &[u64])]) -> Stretch {
        let change = |(site, seqno, _): &(u64, u64, &[u64])| {
            let name = name(*site, *seqno);
            Change::of_writes(name, vec![Write { key: Key::from("k"), value: value(name) }])
        };
        Stretch {
            to: position(to),
            changes: transactions.iter().map(change).collect(),
            causes: transactions.iter().map(|(.., seen)| position(seen)).collect(),
            ..Stretch::begin(None, position(&[1]))
        }
    }

    fn right() -> Stretch {
        stretch(&[3, 2], &[(0, 2, &[1]), (1, 1, &[2]), (1, 2, &[2, 1]), (0, 3, &[2, 1])])
    }

    fn judge(
        told: Stretch,
        retold: &[Stretch],
        written: &[(u64, u64)],
        stored: &[(u64, u64)],
        (ends, may_be_lost): (&[(u64, u64)], bool),
    ) -> Vec<String> {
        let by = ReplicaId::default();
        let retold: Vec<_> = retold.iter().cloned().map(|stretch| Retold { by, stretch }).collect();
        let written = written.iter().map(|(site, seqno)| (name(*site, *seqno), BTreeSet::new())).collect();
        let held =
            |(site, seqno): &(u64, u64)| (Key::from("k"), name(*site, *seqno), value(name(*site, *seqno)));
        let stored = [(ShardId(1), stored.iter().map(held).collect())];
        let ends = ends.iter().map(|(site, last)| (site + 1, *last)).collect();
        match changes_of_sites_are_told_once(&[told], &retold, &written, &stored, (&ends, may_be_lost)) {
            Finding::Broken(broken) => broken.into_iter().map(|broken| broken.anomaly).collect(),
            _ => Vec::new(),
        }
    }

    const NONE: (&[(u64, u64)], bool) = (&[], false);

    #[test]
    fn what_was_told_with_its_causes_before_it_is_right() {
        let another_order = stretch(&[3, 1], &[(0, 2, &[1]), (1, 1, &[1]), (0, 3, &[2, 1])]);
        let written = [(0, 1), (0, 3), (1, 2), (1, 3)];
        assert_eq!(judge(right(), &[another_order], &written, &[(1, 2), (2, 9)], NONE), [""; 0]);
    }

    #[test]
    fn what_is_missing_or_told_twice_or_before_its_causes_is_found() {
        let told = |transactions: &[(u64, u64, &[u64])]| stretch(&[3, 2], transactions);
        assert_eq!(judge(told(&[(0, 2, &[])]), &[], &[(1, 1)], &[], NONE), ["missed"], "a transaction");
        assert_eq!(judge(told(&[(0, 2, &[])]), &[], &[], &[(1, 1)], NONE), ["missed"], "a version");
        let twice = told(&[(0, 2, &[]), (0, 2, &[])]);
        assert_eq!(judge(twice, &[], &[], &[], NONE), ["out-of-order"]);
        let turned = told(&[(0, 3, &[]), (1, 1, &[]), (0, 2, &[])]);
        assert_eq!(judge(turned, &[], &[], &[], NONE), ["out-of-order"]);
        let effect_first = told(&[(1, 1, &[2]), (0, 2, &[])]);
        assert_eq!(judge(effect_first, &[], &[], &[], NONE), ["out-of-order"]);
        let mut differently = right();
        differently.changes[1].writes[0].value = None;
        assert_eq!(judge(right(), &[differently], &[], &[], NONE), ["told-differently"]);
        assert_eq!(judge(right(), &[told(&[(0, 2, &[])])], &[], &[], NONE), ["told-differently"]);
    }

    #[test]
    fn nothing_that_was_told_is_given_up_unless_too_many_sites_are_lost() {
        assert_eq!(judge(right(), &[], &[(1, 2)], &[], (&[(1, 1)], false)), ["given-up"]);
        assert_eq!(judge(right(), &[], &[(1, 2)], &[], (&[(1, 2)], false)), [""; 0]);
        assert_eq!(judge(right(), &[], &[(1, 2)], &[], (&[(1, 1)], true)), [""; 0]);
        let untold = stretch(&[3, 2], &[(0, 2, &[1]), (1, 1, &[2])]);
        assert_eq!(judge(untold, &[], &[(1, 2)], &[], (&[(1, 1)], false)), [""; 0], "it was given up");
    }
}
