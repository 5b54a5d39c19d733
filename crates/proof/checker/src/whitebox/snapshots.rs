//! The timestamp sweep for snapshot isolation: a transaction reads at one timestamp (`rs`) and commits at a
//! later one (`fc`, or `ts` where there is no `fc`).
//!
//! A read sees exactly the versions committed at or below the snapshot, and of two writers of a key one
//! committed at or below the snapshot of the other.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::dependencies::Fate;
use crate::explain::Words;
use crate::history::{History, Session, Timestamp, Txn, TxnId};
use crate::level::Level;
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox::replay::{Replay, Sight};
use crate::whitebox::{self, spell};

pub(super) struct BySnapshot<'a>(pub(super) &'a History);

/// The snapshot timestamp of a transaction.
pub(super) fn snapshot(history: &History, txn: &Txn) -> Option<Timestamp> {
    history.facts(txn)?.rs
}

/// The timestamp at which the writes of a transaction become visible to all.
pub(super) fn commit(history: &History, txn: &Txn) -> Option<Timestamp> {
    history.facts(txn).and_then(|facts| facts.fc).or(txn.ts)
}

impl Sight for BySnapshot<'_> {
    const KIND: AnomalyKind = AnomalyKind::SnapshotViolation;

    fn sees(&self, reader: TxnId, writer: TxnId) -> bool {
        commit(self.0, self.0.txn(writer)) <= snapshot(self.0, self.0.txn(reader))
    }

    fn snapshot(&self, reader: TxnId) -> String {
        format!("whose snapshot is {}", self.spell(snapshot(self.0, self.0.txn(reader))))
    }

    fn commit(&self, writer: TxnId) -> String {
        format!("and committed at {}", self.spell(commit(self.0, self.0.txn(writer))))
    }

    fn nothing_else(&self) -> &'static str {
        "the snapshot holds nothing else"
    }
}

impl BySnapshot<'_> {
    fn spell(&self, ts: Option<Timestamp>) -> String {
        ts.map(spell).unwrap_or_default()
    }
}

/// Checks that snapshot and commit timestamps satisfy a level of the snapshot-isolation family.
///
/// The verdict is unknown if a committed transaction has no snapshot timestamp, if one that writes has no
/// commit timestamp, and at levels of other families.
pub fn check_snapshots(history: &History, level: Level) -> Report {
    let fates = whitebox::fates(history);
    let mut anomalies = Anomalies::default();
    let reason = judge(history, &fates, level, &mut anomalies);
    whitebox::report("snapshots", history, &fates, anomalies, reason)
}

/// Adds what is wrong with the committed transactions; returns a reason if the question stays open.
pub(super) fn judge(
    history: &History,
    fates: &[Fate],
    level: Level,
    anomalies: &mut Anomalies,
) -> Option<String> {
    if !matches!(level, Level::Si | Level::SessionSi | Level::StrongSi) {
        return Some(format!("{} {level}.", whitebox::NOT_OF_THE_FAMILY));
    }
    let missing =
        whitebox::missing_fact(history, fates, "a snapshot timestamp", |txn| snapshot(history, txn));
    let missing = missing.or_else(|| {
        whitebox::missing_fact(history, fates, "a commit timestamp", |txn| {
            (!whitebox::is_update(history, txn) || commit(history, txn).is_some()).then_some(())
        })
    });
    if missing.is_some() {
        return missing;
    }
    let sight = BySnapshot(history);
    let replay = Replay::new(history, fates, |txn| commit(history, history.txn(txn)));
    check_own(history, fates, &sight, anomalies);
    check_overlaps(history, &replay, &sight, anomalies);
    if level != Level::Si {
        check_order(history, fates, level, anomalies);
    }
    replay.reads(fates, &sight, anomalies)
}

/// A writer commits after its own snapshot.
fn check_own(history: &History, fates: &[Fate], sight: &BySnapshot<'_>, anomalies: &mut Anomalies) {
    for (id, _) in whitebox::effective(history, fates).filter(|(_, txn)| whitebox::is_update(history, txn)) {
        if sight.sees(id, id) {
            anomalies.add(history, AnomalyKind::SnapshotViolation, &[id], || {
                let (txn, place) = (Words::new(history).txn(id), sight.snapshot(id));
                format!("{txn}, {place}, wrote {}, which is not later.", sight.commit(id))
            });
        }
    }
}

/// Of two writers of a key the later one has the earlier one in its snapshot. Versions come in the order of
/// their commits, so each needs to be compared with the next one only.
fn check_overlaps(history: &History, replay: &Replay<'_>, sight: &BySnapshot<'_>, anomalies: &mut Anomalies) {
    let words = Words::new(history);
    for (key, one, next) in replay.successors().filter(|&(_, one, next)| !sight.sees(next, one)) {
        anomalies.add(history, AnomalyKind::SnapshotViolation, &[one, next], || {
            let (key, place) = (history.key(key), sight.snapshot(next));
            let (one_words, next_words) = (words.txn(one), words.txn(next));
            format!(
                "{one_words} wrote {key} {}; {next_words}, {place}, wrote it too, so the two overlap.",
                sight.commit(one)
            )
        });
    }
}

/// Nobody's snapshot is older than what completed before in its session, or at all.
fn check_order(history: &History, fates: &[Fate], level: Level, anomalies: &mut Anomalies) {
    let mut reached: HashMap<Option<Session>, (Timestamp, TxnId), FixedState> = HashMap::default();
    for (id, is_invocation) in timeline(history, fates) {
        let txn = history.txn(id);
        let group = (level == Level::SessionSi).then_some(txn.session);
        let Some(rs) = snapshot(history, txn) else { continue };
        if !is_invocation {
            let place =
                (if whitebox::is_update(history, txn) { commit(history, txn) } else { None }).unwrap_or(rs);
            let latest = reached.entry(group).or_insert((place, id));
            if place > latest.0 {
                *latest = (place, id);
            }
        } else if let Some(&(place, before)) = reached.get(&group).filter(|&&(place, _)| place > rs) {
            anomalies.add(history, AnomalyKind::SnapshotViolation, &[before, id], || {
                let words = Words::new(history);
                format!(
                    "{} completed, and had reached {}, before {} was invoked, whose snapshot is {}.",
                    words.txn(before),
                    spell(place),
                    words.txn(id),
                    spell(rs)
                )
            });
        }
    }
}

/// Invocations of effective transactions (true) and completions of committed ones (false), in the order of the
/// history.
pub(super) fn timeline(history: &History, fates: &[Fate]) -> Vec<(TxnId, bool)> {
    let mut events: Vec<(u32, TxnId, bool)> = Vec::new();
    for (id, txn) in whitebox::effective(history, fates) {
        events.push((txn.invoke, id, true));
        events.extend(txn.known_completion().map(|completion| (completion, id, false)));
    }
    events.sort_unstable();
    events.into_iter().map(|(_, id, is_invocation)| (id, is_invocation)).collect()
}
