//! The replay per site for parallel snapshot isolation: a commit is a place (`site`, `site_seq`) in the
//! sequence of its site, and a snapshot says how many commits of each site it holds (`vts`).
//!
//! | level | what is asserted |
//! |---|---|
//! | `psi` | reads see exactly what their snapshot holds; a snapshot holds what its members saw; of two writers of a key one saw the other |
//! | `session-psi` | and a session's snapshot holds what the session did before |
//! | `walter-psi` | and a snapshot holds what completed at its site before, the snapshots of one site form a chain, and nobody sees what was invoked after he completed |

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::dependencies::Fate;
use crate::explain::Words;
use crate::history::{History, Session, Site, Txn, TxnId};
use crate::level::Level;
use crate::report::{Anomalies, AnomalyKind, Report};
use crate::whitebox::replay::{Replay, Sight};
use crate::whitebox::snapshots::timeline;
use crate::whitebox::{self};

/// Checks that snapshot vectors and commit sequences satisfy a level of the parallel-snapshot family.
///
/// The verdict is unknown if a committed transaction has no vector, if one that writes has no site or no place
/// in its sequence, and at levels of other families.
pub fn check_vectors(history: &History, level: Level) -> Report {
    let fates = whitebox::fates(history);
    let mut anomalies = Anomalies::default();
    let reason = judge(history, &fates, level, &mut anomalies);
    whitebox::report("vectors", history, &fates, anomalies, reason)
}

fn judge(history: &History, fates: &[Fate], level: Level, anomalies: &mut Anomalies) -> Option<String> {
    if !matches!(level, Level::Psi | Level::SessionPsi | Level::WalterPsi) {
        return Some(format!("{} {level}.", whitebox::NOT_OF_THE_FAMILY));
    }
    let vector = |txn: &Txn| history.facts(txn).and_then(|facts| facts.vts.as_ref()).map(|_| ());
    let place = |txn: &Txn| {
        let is_placed =
            history.facts(txn).is_some_and(|facts| facts.site_seq.is_some()) && txn.site.is_some();
        (is_placed || !whitebox::is_update(history, txn)).then_some(())
    };
    let missing = whitebox::missing_fact(history, fates, "a snapshot vector", vector)
        .or_else(|| whitebox::missing_fact(history, fates, "a place in the sequence of its site", place));
    if missing.is_some() {
        return missing;
    }
    if level == Level::WalterPsi
        && let Some(reason) = whitebox::missing_fact(history, fates, "a site", |txn| txn.site)
    {
        return Some(reason);
    }
    let vectors = Vectors::new(history, fates);
    let mut judge = Judge { history, fates, vectors: &vectors, anomalies };
    judge.places();
    judge.causality();
    let replay = Replay::new(history, fates, |txn| vectors.rank(txn));
    judge.conflicts(&replay);
    match level {
        Level::SessionPsi => judge.order(|txn| Group::Session(txn.session)),
        Level::WalterPsi => {
            judge.order(|txn| Group::Site(txn.site));
            judge.chains();
            judge.futures();
        }
        _ => {}
    }
    replay.reads(fates, &vectors, anomalies)
}

/// A commit in the sequence of its site, with what the commits up to it have in common.
struct Commit {
    site_seq: u64,
    txn: TxnId,
    /// The join of the snapshots of the commits up to this one.
    saw: Vec<u64>,
    /// The one of them that was invoked last.
    latest: TxnId,
}

struct Vectors<'a> {
    history: &'a History,
    /// Per transaction its snapshot, one entry per site; empty for those that do not count.
    snapshots: Vec<Vec<u64>>,
    /// Per transaction that committed an update, its site and place.
    places: Vec<Option<(Site, u64)>>,
    /// Per site its commits in sequence.
    commits: Vec<Vec<Commit>>,
}

impl<'a> Vectors<'a> {
    fn new(history: &'a History, fates: &[Fate]) -> Self {
        let mut vectors = Vectors {
            history,
            snapshots: vec![Vec::new(); history.txn_count()],
            places: vec![None; history.txn_count()],
            commits: (0..history.site_count()).map(|_| Vec::new()).collect(),
        };
        let mut order: Vec<(Site, u64, TxnId)> = Vec::new();
        for (id, txn) in whitebox::effective(history, fates) {
            let Some(facts) = history.facts(txn) else { continue };
            let mut snapshot = vec![0; history.site_count()];
            for &(site, commits) in facts.vts.iter().flatten() {
                snapshot[site.0 as usize] = commits;
            }
            vectors.snapshots[id.index()] = snapshot;
            if let (Some(site), Some(site_seq), true) =
                (txn.site, facts.site_seq, whitebox::is_update(history, txn))
            {
                vectors.places[id.index()] = Some((site, site_seq));
                order.push((site, site_seq, id));
            }
        }
        order.sort_unstable();
        for (site, site_seq, txn) in order {
            let of_site = &mut vectors.commits[site.0 as usize];
            let mut saw = vectors.snapshots[txn.index()].clone();
            let mut latest = txn;
            if let Some(before) = of_site.last() {
                join(&mut saw, &before.saw);
                latest = latest.max(before.latest);
            }
            of_site.push(Commit { site_seq, txn, saw, latest });
        }
        vectors
    }

    fn of(&self, txn: TxnId) -> &[u64] {
        &self.snapshots[txn.index()]
    }

    /// Grows along causality: a reader that saw a commit has a greater sum in its snapshot than that commit had.
    fn rank(&self, txn: TxnId) -> (u64, Option<(Site, u64)>) {
        (self.of(txn).iter().sum(), self.places[txn.index()])
    }

    /// The commits of a site that a snapshot holds.
    fn held(&self, snapshot: &[u64], site: usize) -> &[Commit] {
        let commits = &self.commits[site];
        &commits[..commits.partition_point(|commit| commit.site_seq <= snapshot[site])]
    }

    fn spell(&self, snapshot: &[u64]) -> String {
        let sites = (0..).map(Site).zip(snapshot).filter(|&(_, &commits)| commits > 0);
        let sites: Vec<String> =
            sites.map(|(site, commits)| format!("{}: {commits}", self.history.site_name(site))).collect();
        format!("{{{}}}", sites.join(", "))
    }
}

impl Sight for Vectors<'_> {
    const KIND: AnomalyKind = AnomalyKind::SnapshotViolation;

    fn sees(&self, reader: TxnId, writer: TxnId) -> bool {
        let snapshot = self.of(reader);
        self.places[writer.index()].is_some_and(|(site, site_seq)| site_seq <= snapshot[site.0 as usize])
    }

    fn snapshot(&self, reader: TxnId) -> String {
        format!("whose snapshot is {}", self.spell(self.of(reader)))
    }

    fn commit(&self, writer: TxnId) -> String {
        match self.places[writer.index()] {
            Some((site, site_seq)) => {
                format!("as commit {site_seq} of site {}", self.history.site_name(site))
            }
            None => "nowhere".to_string(),
        }
    }

    fn nothing_else(&self) -> &'static str {
        "the snapshot holds nothing else"
    }
}

/// A group of transactions of which a snapshot must hold all earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Group {
    Session(Session),
    Site(Option<Site>),
}

struct Judge<'a> {
    history: &'a History,
    fates: &'a [Fate],
    vectors: &'a Vectors<'a>,
    anomalies: &'a mut Anomalies,
}

impl Judge<'_> {
    fn add(&mut self, txns: &[TxnId], why: impl FnOnce(&Words<'_>) -> String) {
        let words = Words::new(self.history);
        self.anomalies.add(self.history, AnomalyKind::SnapshotViolation, txns, || why(&words));
    }

    /// No two commits of a site share a place, and none is in its own snapshot.
    fn places(&mut self) {
        let vectors = self.vectors;
        for (site, commits) in (0..).map(Site).zip(&vectors.commits) {
            let name = self.history.site_name(site);
            for pair in commits.windows(2).filter(|pair| pair[0].site_seq == pair[1].site_seq) {
                let (one, other) = (pair[0].txn, pair[1].txn);
                self.add(&[one, other], |words| {
                    let (one, other) = (words.txn(one), words.txn(other));
                    format!("{one} and {other} are both commit {} of site {name}.", pair[0].site_seq)
                });
            }
            for commit in commits.iter().filter(|commit| vectors.sees(commit.txn, commit.txn)) {
                self.add(&[commit.txn], |words| {
                    let (txn, place) = (words.txn(commit.txn), vectors.snapshot(commit.txn));
                    format!("{txn}, {place}, is itself commit {} of site {name}.", commit.site_seq)
                });
            }
        }
    }

    /// A snapshot holds what its members saw.
    fn causality(&mut self) {
        let vectors = self.vectors;
        for (reader, _) in whitebox::effective(self.history, self.fates) {
            let snapshot = vectors.of(reader);
            for site in 0..snapshot.len() {
                let held = vectors.held(snapshot, site);
                if held.last().is_none_or(|last| holds(snapshot, &last.saw)) {
                    continue;
                }
                let Some(member) = held.iter().find(|member| !holds(snapshot, vectors.of(member.txn))) else {
                    continue;
                };
                self.add(&[member.txn, reader], |words| {
                    let (member_words, reader_words) = (words.txn(member.txn), words.txn(reader));
                    format!(
                        "{reader_words}, {}, sees {member_words}, {}, but not all that it saw.",
                        vectors.snapshot(reader),
                        vectors.snapshot(member.txn)
                    )
                });
            }
        }
    }

    /// Of two writers of a key one saw the other. Versions come in an order that agrees with causality, so each
    /// needs to be compared with the next one only.
    fn conflicts(&mut self, replay: &Replay<'_>) {
        let vectors = self.vectors;
        for (key, one, next) in replay.successors().filter(|&(_, one, next)| !vectors.sees(next, one)) {
            let key = self.history.key(key);
            self.add(&[one, next], |words| {
                let (one, next) = (words.txn(one), words.txn(next));
                format!("{one} and {next} both wrote {key}, and neither is in the other's snapshot.")
            });
        }
    }

    /// A snapshot holds what completed before in its group, and what that saw.
    fn order(&mut self, group: impl Fn(&Txn) -> Group) {
        let vectors = self.vectors;
        let mut reached: HashMap<Group, Vec<u64>, FixedState> = HashMap::default();
        let mut completed: HashMap<Group, Vec<TxnId>, FixedState> = HashMap::default();
        let after = |txn: TxnId| {
            let mut after = vectors.of(txn).to_vec();
            if let Some((site, site_seq)) = vectors.places[txn.index()] {
                let entry = &mut after[site.0 as usize];
                *entry = site_seq.max(*entry);
            }
            after
        };
        for (id, is_invocation) in timeline(self.history, self.fates) {
            let group = group(self.history.txn(id));
            if !is_invocation {
                let after = after(id);
                completed.entry(group).or_default().push(id);
                join(reached.entry(group).or_insert_with(|| vec![0; after.len()]), &after);
                continue;
            }
            if reached.get(&group).is_none_or(|reached| holds(vectors.of(id), reached)) {
                continue;
            }
            let before = completed.get(&group).into_iter().flatten();
            let Some(&missed) = before.into_iter().find(|&&before| !holds(vectors.of(id), &after(before)))
            else {
                continue;
            };
            let place = match group {
                Group::Session(session) => format!("session {}", self.history.session_name(session)),
                Group::Site(site) => {
                    format!("site {}", site.map_or("", |site| self.history.site_name(site)))
                }
            };
            self.add(&[missed, id], |words| {
                let (missed_words, txn) = (words.txn(missed), words.txn(id));
                format!(
                    "In {place}, {missed_words}, {}, completed before {txn} was invoked, {}, which does not hold it.",
                    vectors.snapshot(missed),
                    vectors.snapshot(id)
                )
            });
        }
    }

    /// Of two snapshots of one site one holds the other.
    fn chains(&mut self) {
        let vectors = self.vectors;
        let mut txns: Vec<(Option<Site>, u64, TxnId)> = whitebox::effective(self.history, self.fates)
            .map(|(id, txn)| (txn.site, vectors.of(id).iter().sum(), id))
            .collect();
        txns.sort_unstable();
        for pair in txns.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
            let (one, other) = (pair[0].2, pair[1].2);
            if !holds(vectors.of(other), vectors.of(one)) {
                self.add(&[one, other], |words| {
                    let (one_words, other_words) = (words.txn(one), words.txn(other));
                    let (one, other) = (vectors.snapshot(one), vectors.snapshot(other));
                    format!(
                        "{one_words}, {one}, and {other_words}, {other}, ran at one site, and neither snapshot holds \
                         the other."
                    )
                });
            }
        }
    }

    /// Nobody sees what was invoked after he completed.
    fn futures(&mut self) {
        let vectors = self.vectors;
        for (reader, txn) in whitebox::effective(self.history, self.fates) {
            let Some(end) = txn.known_completion() else { continue };
            for site in 0..vectors.commits.len() {
                let latest = vectors.held(vectors.of(reader), site).last().map(|last| last.latest);
                if let Some(future) = latest.filter(|&latest| self.history.txn(latest).invoke > end) {
                    self.add(&[reader, future], |words| {
                        let (reader_words, future) = (words.txn(reader), words.txn(future));
                        let place = vectors.snapshot(reader);
                        format!(
                            "{reader_words}, {place}, sees {future}, which was invoked after it completed."
                        )
                    });
                }
            }
        }
    }
}

/// Whether a snapshot holds at least what another one does.
fn holds(snapshot: &[u64], other: &[u64]) -> bool {
    snapshot.iter().zip(other).all(|(one, other)| one >= other)
}

fn join(snapshot: &mut [u64], other: &[u64]) {
    snapshot.iter_mut().zip(other).for_each(|(one, other)| *one = (*one).max(*other));
}
