//! The cross-check of both views: the version order that the servers tell against the one that the lists show.

use crate::dependencies::Fate;
use crate::explain::Words;
use crate::history::{Action, History, KeyId, KeyType, ListRef, Seen, TxnId, Value};
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox;
use crate::whitebox::snapshots::commit;

/// Checks that of any two transactions whose appends follow one another in the longest list that a committed
/// transaction read, the first one has the lower commit timestamp (`fc`, or `ts` where there is no `fc`); and
/// that of two commits of one site the first one has the lower `site_seq`.
///
/// Reads play no part beyond that one list per key, so that a mistake in how reads are replayed cannot hide a
/// wrong order. The verdict is unknown if no fact orders two writers that follow one another.
pub fn cross_check(history: &History) -> Report {
    let fates = whitebox::fates(history);
    let mut anomalies = Anomalies::default();
    let mut reason = None;
    for (key, list) in longest_lists(history, &fates) {
        let writers = writers(history, &fates, key, list);
        for pair in writers.windows(2).filter(|pair| pair[0] != pair[1]) {
            let (one, next) = (pair[0], pair[1]);
            let words = Words::new(history);
            match precedes(history, one, next) {
                Some(true) => {}
                Some(false) => anomalies.add(history, AnomalyKind::TimestampViolation, &[one, next], || {
                    let (one, next, key) = (words.txn(one), words.txn(next), history.key(key));
                    format!("{one} stands before {next} in the list of {key}, but committed later.")
                }),
                None => {
                    let (one, next) = (words.txn(one), words.txn(next));
                    reason.get_or_insert_with(|| format!("Nothing orders the commits of {one} and {next}."));
                }
            }
        }
    }
    whitebox::report("cross-check", history, &fates, anomalies, reason)
}

/// Per key the longest list that a committed transaction read.
fn longest_lists<'a>(history: &'a History, fates: &[Fate]) -> Vec<(KeyId, &'a [Value])> {
    let mut longest: Vec<&[Value]> = vec![&[]; history.key_count()];
    for (txn, _) in history.txns().iter().zip(fates).filter(|(_, fate)| **fate == Fate::Committed) {
        for op in history.ops(txn) {
            if let Action::Read(Seen::List(list)) = op.action {
                longer(&mut longest[op.key.index()], history, op.key, list);
            }
        }
    }
    let keys = (0..).map(KeyId).zip(longest);
    keys.filter(|&(key, _)| history.key_type(key) == Some(KeyType::List)).collect()
}

fn longer<'a>(longest: &mut &'a [Value], history: &'a History, key: KeyId, list: ListRef) {
    let list = history.list(key, list);
    if list.len() > longest.len() {
        *longest = list;
    }
}

/// The committed writers of the elements of a list.
fn writers(history: &History, fates: &[Fate], key: KeyId, list: &[Value]) -> Vec<TxnId> {
    let mut of_value: Vec<(Value, TxnId)> = whitebox::effective(history, fates)
        .flat_map(|(id, txn)| {
            let ops = history.ops(txn).iter().filter(move |op| op.key == key);
            ops.filter_map(move |op| Some((op.action.written()?, id)))
        })
        .collect();
    of_value.sort_unstable();
    let find = |value: &Value| of_value.binary_search_by_key(value, |&(value, _)| value).ok();
    list.iter().filter_map(find).map(|at| of_value[at].1).collect()
}

/// Whether one transaction committed before another, as far as the servers say.
fn precedes(history: &History, one: TxnId, other: TxnId) -> Option<bool> {
    let (one, other) = (history.txn(one), history.txn(other));
    if let (Some(one), Some(other)) = (commit(history, one), commit(history, other)) {
        return Some(one < other);
    }
    let (one_facts, other_facts) = (history.facts(one)?, history.facts(other)?);
    let (one_seq, other_seq) = (one_facts.site_seq?, other_facts.site_seq?);
    if one.site == other.site {
        return Some(one_seq < other_seq);
    }
    // At another site: the later one has the earlier one in its snapshot.
    let site = one.site?;
    let snapshot = other_facts.vts.as_ref()?;
    Some(snapshot.iter().any(|&(of, commits)| of == site && one_seq <= commits))
}
