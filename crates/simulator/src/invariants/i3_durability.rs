//! I3: what was acknowledged is there at the end, once.

use std::collections::BTreeMap;

use quorate_checker::{Key, Observed};

use super::{BROKEN_MAX, Broken, Finding, Invariant, finding};

/// Every acknowledged append is in its list at the end exactly once.
pub fn acknowledged_appends_survive(
    acknowledged: &[(Key, i64)],
    audited: &BTreeMap<Key, Observed>,
) -> Finding {
    let nothing = Observed::Null;
    let mut broken = Vec::new();
    for (key, element) in acknowledged {
        let times = match audited.get(key).unwrap_or(&nothing) {
            Observed::List(list) => list.iter().filter(|found| *found == element).count(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_and_repeated_appends_are_found() {
        let acknowledged: Vec<(Key, i64)> =
            vec![("a".into(), 1), ("a".into(), 2), ("b".into(), 3), ("c".into(), 4)];
        let audited = BTreeMap::from([
            ("a".into(), Observed::List(vec![2, 1, 2])),
            ("b".into(), Observed::Null),
            ("c".into(), Observed::List(vec![4])),
        ]);
        let Finding::Broken(broken) = acknowledged_appends_survive(&acknowledged, &audited) else { panic!() };
        let kinds: Vec<&str> = broken.iter().map(|broken| broken.anomaly.as_str()).collect();
        assert_eq!(kinds, ["repeated-append", "lost-append"]);
        assert_eq!(acknowledged_appends_survive(&acknowledged[3..], &audited), Finding::Holds);
    }
}
