//! Speculative snapshot isolation: SPSI-1 to SPSI-4 of the STR paper, section 5.
//!
//! An execution has the final commits in arbitration order, as for snapshot isolation, and for every
//! transaction T one snapshot S(T) = P(T) ∪ L(T): P(T) is a prefix of the final commits, and L(T) holds local
//! commits of T's own node. Those that did not become final are known by their `spec` lines, or by the local
//! commit timestamps of their servers.
//!
//! | | what it says here | where |
//! |---|---|---|
//! | SI | the committed part is SI with P(T) as snapshot; a `spec` line of a transaction that commits shows the same reads | [`commits_fit`] |
//! | SPSI-1 | if T does not commit: what local- or final-committed at T's node before T began is in S(T), unless it aborts | [`own_node_first`] |
//! | SPSI-1 | if T commits: of those, what was final before T began is in P(T), and what wrote a key that T touches; the others may be in L(T) | [`own_node_final_first`] |
//! | SPSI-1 | observed reads of aborted transactions, and those of `spec` lines, return what S(T) explains; so do those of final commits, also if S(T) held local commits that aborted | `Views::reads_fit` |
//! | SPSI-2 | NOCONFLICT among final commits | [`axioms::no_conflict`] |
//! | SPSI-1 | S(T) holds no transaction that was invoked after T had ended and wrote a key that T read, and if T does not commit, no local commit that was and aborts | [`is_impossible_read`], `Views::may_see` |
//! | SPSI-1 | S(T) holds what its members read from, and their snapshots as far as these became final | `Views::is_closed` |
//! | SPSI-3 | of two members of S(T) that write one key, one is in the snapshot of the other | `Views::without_conflict` |
//! | SPSI-4 | a final commit reads from final commits only, and what it flow-depends on commits | [`flows_from_commits`] |

use std::cell::Cell;

use crate::history::{Action, History, Op, Outcome, Seen, Site, Txn};

use super::axioms::{self, Execution, Next};
use super::members::{Fate, Member};
use super::search::subsets;
use super::{Set, VISIBILITY_TXNS_MAX, contains, each, replay, single};

/// Looks for an execution; none if there are too many transactions, or one of them has no site.
pub(super) fn exists(history: &History, fates: &[Fate]) -> Option<bool> {
    if history.txn_count() > VISIBILITY_TXNS_MAX || history.txns().iter().any(|txn| txn.site.is_none()) {
        return None;
    }
    // Aborted transactions are members too: others may have seen them.
    let members: Vec<Member<'_>> =
        history.txns().iter().zip(fates).map(|(txn, fate)| Member::new(history, txn, *fate)).collect();
    let may_commit = (0..fates.len()).filter(|&at| fates[at] != Fate::Aborted);
    let may_commit = may_commit.fold(0, |set, at| set | single(at));
    let viewers = (0..fates.len()).filter(|&at| fates[at] != Fate::Committed && has_view(&members[at]));
    let viewed_sites = viewers.map(|at| members[at].txn.site).collect();
    let visible = vec![0; members.len()];
    let execution = Execution { history, members, order: Vec::new(), visible };
    let mut search = Search { execution, may_commit, viewed_sites, steps: Cell::new(0) };
    let exists = search.extends(0);
    (search.steps.get() <= STEPS_MAX).then_some(exists)
}

/// Whether somebody saw what the transaction read although it did not commit.
fn has_view(member: &Member<'_>) -> bool {
    let is_known = |op: &Op| matches!(op.action, Action::Read(seen) if seen != Seen::Nothing);
    member.txn.speculation.is_some() || member.ops.iter().any(is_known)
}

/// Whether the history shows that a transaction committed locally: by a `spec` line, by its server's local
/// commit timestamp, or because it was acknowledged and then lost.
fn committed_locally(history: &History, txn: &Txn) -> bool {
    let has_timestamp = history.facts(txn).is_some_and(|facts| facts.lc.is_some());
    txn.speculation.is_some() || has_timestamp || txn.outcome == Outcome::Committed
}

/// All that is known of a transaction's reads: those of its outcome and those of its `spec` line.
fn known_reads<'a>(history: &'a History, member: &Member<'a>) -> impl Iterator<Item = &'a Op> {
    let shown = member.txn.speculation.iter().flat_map(|shown| history.speculated_ops(shown));
    member.ops.iter().chain(shown).filter(|op| matches!(op.action, Action::Read(_)))
}

/// Whether a transaction read a value of a list or register that another one wrote.
fn read_from(history: &History, reader: &Member<'_>, writer: &Member<'_>) -> bool {
    known_reads(history, reader).any(|read| {
        let mut written =
            writer.ops.iter().filter(|op| op.key == read.key).filter_map(|op| op.action.written());
        match read.action {
            Action::Read(Seen::Register(value)) => written.any(|written| written == value),
            Action::Read(Seen::List(list)) => {
                written.any(|written| history.list(read.key, list).contains(&written))
            }
            _ => false,
        }
    })
}

/// Whether somebody's known reads may show that a transaction was there.
fn is_noticed(execution: &Execution<'_>, writer: usize) -> bool {
    let (history, members) = (execution.history, &execution.members);
    let updates = |key| {
        let mut ops = members[writer].ops.iter();
        ops.any(|op| op.key == key && matches!(op.action, Action::Add(_) | Action::Remove(_)))
    };
    let mut others = members.iter().enumerate().filter(|(other, _)| *other != writer);
    others.any(|(_, other)| {
        read_from(history, other, &members[writer])
            || known_reads(history, other)
                .any(|read| read.action != Action::Read(Seen::Nothing) && updates(read.key))
    })
}

/// After so many steps the oracle has no answer: orders, prefixes and local commits multiply.
const STEPS_MAX: u64 = 1_000_000;

/// Takes a step; true if there were too many.
fn has_spent(steps: &Cell<u64>) -> bool {
    steps.set(steps.get() + 1);
    steps.get() > STEPS_MAX
}

struct Search<'a> {
    execution: Execution<'a>,
    may_commit: Set,
    /// The sites where somebody saw what a transaction read that may not commit.
    viewed_sites: Vec<Option<Site>>,
    /// The partial executions and snapshots that were looked at.
    steps: Cell<u64>,
}

impl Search<'_> {
    /// Whether the final commits can be completed after the placed ones.
    fn extends(&mut self, placed: Set) -> bool {
        if has_spent(&self.steps) {
            return false;
        }
        let rest = self.may_commit & !placed;
        let is_complete = each(rest).all(|at| self.execution.members[at].is_optional);
        let is_explained = |search: &Self| {
            search
                .viewed_sites
                .iter()
                .all(|&site| Views::exist(&search.execution, placed, site, &search.steps))
        };
        if is_complete && flows_from_commits(&self.execution, placed) && is_explained(self) {
            return true;
        }
        each(rest).any(|member| {
            let prefixes = prefixes(&self.execution.order);
            let nexts = prefixes.into_iter().rev().map(|visible| Next { member, visible });
            let fitting = nexts.filter(|next| commits_fit(&self.execution, *next));
            // Which one it was matters only to transactions that saw its local commit.
            let site = self.execution.members[member].txn.site;
            let tried: Vec<Next> =
                fitting.take(if self.viewed_sites.contains(&site) { usize::MAX } else { 1 }).collect();
            tried.into_iter().any(|next| {
                self.execution.order.push(member);
                self.execution.visible[member] = next.visible;
                let extends = self.extends(placed | single(member));
                self.execution.order.pop();
                extends
            })
        })
    }
}

/// The prefixes of an order as sets, shorter ones first.
fn prefixes(order: &[usize]) -> Vec<Set> {
    let mut prefixes = vec![0];
    for (length, &at) in order.iter().enumerate() {
        prefixes.push(prefixes[length] | single(at));
    }
    prefixes
}

/// The committed part is SI, each node's own commits are seen, and the speculative result was the final one.
fn commits_fit(execution: &Execution<'_>, next: Next) -> bool {
    let members = &execution.members;
    let next_member = &members[next.member];
    let own_node_is_seen = execution.order.iter().all(|&at| {
        let is_seen = contains(next.visible, at) || !own_node_final_first(&members[at], next_member);
        // It commits after those that are placed, so none of them may have had to see it.
        is_seen && !own_node_final_first(next_member, &members[at])
    });
    let visible = execution.order.iter().filter(|&&at| contains(next.visible, at));
    let visible = visible.map(|&at| members[at].ops);
    let speculated = next_member.txn.speculation.map(|shown| execution.history.speculated_ops(&shown));
    own_node_is_seen
        && axioms::no_conflict(execution, next)
        && axioms::int_and_ext(execution, next)
        && !each(next.visible).any(|at| is_impossible_read(execution.history, next_member, &members[at]))
        && speculated.is_none_or(|ops| replay::explains(execution.history, visible, ops))
}

/// SPSI-1: `one`, if it commits, must be in the prefix of `other`, if that commits too: it was final at the same
/// node before the other one began, as far as clients saw, or it was shown there by then, and the other one touches
/// a key that it wrote.
fn own_node_final_first(one: &Member<'_>, other: &Member<'_>) -> bool {
    let began = other.txn.invoke;
    let was_final = one.txn.outcome == Outcome::Committed && one.txn.completion.is_some_and(|ok| ok < began);
    let was_shown = one.txn.speculation.is_some_and(|speculation| speculation.index < began);
    let is_update = |op: &&Op| !matches!(op.action, Action::Read(_));
    let touches = |key| other.ops.iter().any(|op| op.key == key && op.is_certain());
    let is_touched = || one.ops.iter().filter(is_update).any(|op| touches(op.key));
    one.txn.site == other.txn.site && (was_final || was_shown && is_touched())
}

/// SPSI-1: `one`, if it commits, must be in the snapshot of `other`, which does not: it was local- or
/// final-committed at the same node before the other one began, as far as clients saw.
fn own_node_first(one: &Txn, other: &Txn) -> bool {
    let spec = one.speculation.map(|speculation| speculation.index);
    let ok = one.completion.filter(|_| one.outcome == Outcome::Committed);
    one.site == other.site && spec.into_iter().chain(ok).any(|index| index < other.invoke)
}

/// The line with which a transaction had read all that it read: its `spec` line, if it has one.
fn ended(txn: &Txn) -> Option<u32> {
    txn.speculation.map(|speculation| speculation.index).or(txn.known_completion())
}

/// Whether a transaction was invoked after another one had read all that it read.
fn began_later(reader: &Txn, other: &Txn) -> bool {
    ended(reader).is_some_and(|end| other.invoke > end)
}

/// SPSI-1: a transaction reads nothing of a transaction that was invoked after it had ended. With
/// skewed clocks such a transaction may stand below the snapshot nevertheless, if it wrote none of the keys that were
/// read.
fn is_impossible_read(history: &History, reader: &Member<'_>, other: &Member<'_>) -> bool {
    let is_written = |key| other.ops.iter().any(|op| op.key == key && !matches!(op.action, Action::Read(_)));
    let shown = reader.txn.speculation.map_or(&[][..], |shown| history.speculated_ops(&shown));
    let reads_it = |ops: &[Op]| {
        ops.iter().enumerate().any(|(at, read)| {
            let is_known = matches!(read.action, Action::Read(seen) if seen != Seen::Nothing);
            // A register returns what the transaction itself has written, whatever others write.
            let is_own = |op: &Op| op.key == read.key && matches!(op.action, Action::Write(_));
            is_known && is_written(read.key) && !ops[..at].iter().any(is_own)
        })
    };
    began_later(reader.txn, other.txn) && (reads_it(shown) || reads_it(reader.ops))
}

/// SPSI-4: a transaction that was invoked after a speculative commit of its session, and before the outcome
/// of that one, commits only if that one does.
fn flows_from_commits(execution: &Execution<'_>, commits: Set) -> bool {
    let depends = |txn: &Txn, other: &Txn| {
        let is_shown = other.speculation.is_some_and(|speculation| speculation.index < txn.invoke);
        let is_settled = other.known_completion().is_some_and(|outcome| outcome < txn.invoke);
        txn.session == other.session && is_shown && !is_settled
    };
    let members = &execution.members;
    each(commits).all(|at| {
        let mut others = (0..members.len()).filter(|&other| other != at);
        others.all(|other| contains(commits, other) || !depends(members[at].txn, members[other].txn))
    })
}

/// The snapshots at one node, found in an order in which its transactions may have committed locally.
struct Views<'a, 'h> {
    execution: &'a Execution<'h>,
    steps: &'a Cell<u64>,
    commits: Set,
    /// The transactions of the node.
    mates: Set,
    /// The commits that snapshots may hold. A local one that did not become final, and of which no read tells,
    /// can be left out of every snapshot: nobody must see it.
    noticed: Set,
    /// Per transaction S(T); only P(T) for final commits whose local commit is not placed yet.
    snapshots: Vec<Set>,
}

impl<'a, 'h> Views<'a, 'h> {
    /// Whether there are snapshots that explain what was seen at a site.
    fn exist(execution: &'a Execution<'h>, commits: Set, site: Option<Site>, steps: &'a Cell<u64>) -> bool {
        let mates = (0..execution.members.len()).filter(|&at| execution.members[at].txn.site == site);
        let mates = mates.fold(0, |mates, at| mates | single(at));
        let may_be_seen = |at: usize| {
            let is_local = committed_locally(execution.history, execution.members[at].txn);
            contains(commits, at) || is_local && is_noticed(execution, at)
        };
        let noticed = each(mates).filter(|&at| may_be_seen(at));
        let noticed = noticed.fold(0, |noticed, at| noticed | single(at));
        let of_commit = |at| if contains(commits, at) { execution.visible[at] } else { 0 };
        let snapshots = (0..execution.members.len()).map(of_commit).collect();
        Views { execution, commits, mates, noticed, snapshots, steps }.extends(0)
    }

    /// Whether the local commits can be completed after the placed ones.
    fn extends(&mut self, placed: Set) -> bool {
        if has_spent(self.steps) {
            return false;
        }
        let rest = self.mates & !placed;
        let is_open = |at| !contains(self.commits, at) && has_view(&self.execution.members[at]);
        if !each(rest).any(is_open) {
            return true;
        }
        let is_needed = |at: &usize| is_open(*at) || contains(self.noticed, *at);
        let rest: Vec<usize> = each(rest).filter(is_needed).collect();
        rest.into_iter().any(|member| {
            let before = self.snapshots[member];
            let extends = self.candidates(member, placed).into_iter().any(|snapshot| {
                self.snapshots[member] = snapshot;
                self.extends(placed | single(member))
            });
            self.snapshots[member] = before;
            extends
        })
    }

    /// The snapshots that a transaction can have had after these local commits.
    fn candidates(&self, member: usize, placed: Set) -> Vec<Set> {
        let is_commit = contains(self.commits, member);
        let prefixes = if is_commit { vec![self.snapshots[member]] } else { prefixes(&self.execution.order) };
        let members = &self.execution.members;
        // Commits that a final commit, or one without known reads, held beside its prefix only order conflicts; they must
        // not show in its reads.
        let reads_matter = !is_commit && has_view(&members[member]);
        let must_be_seen = |at: usize| !is_commit && contains(self.commits, at);
        let matters =
            |at: usize| reads_matter || must_be_seen(at) || members[at].writes & members[member].writes != 0;
        let readable = each(placed & self.noticed).filter(|&at| self.may_see(member, at) && matters(at));
        let readable = readable.fold(0, |set, at| set | single(at));
        let mut candidates: Vec<Set> = Vec::new();
        for prefix in prefixes {
            candidates.extend(subsets(readable & !prefix).into_iter().map(|local| prefix | local));
        }
        let is_impossible =
            |at: usize| is_impossible_read(self.execution.history, &members[member], &members[at]);
        candidates.retain(|&snapshot| {
            (is_commit || !each(snapshot).any(is_impossible))
                && snapshot & self.mates & !placed == 0
                && (is_commit || self.sees_own_node(member, snapshot))
                && self.without_conflict(snapshot)
                && (is_commit || self.is_closed(snapshot))
                && self.reads_fit(member, snapshot)
        });
        candidates
    }

    /// A local commit that aborts can be seen by transactions that were invoked before it had aborted, and had not
    /// ended when it was invoked.
    fn may_see(&self, member: usize, seen: usize) -> bool {
        let (txn, seen_txn) = (self.execution.members[member].txn, self.execution.members[seen].txn);
        let had_heard = seen_txn.outcome == Outcome::Aborted && !seen_txn.elsewhere;
        let had_aborted = had_heard && seen_txn.completion < Some(txn.invoke);
        contains(self.commits, seen) || !began_later(txn, seen_txn) && !had_aborted
    }

    /// SPSI-1 for a transaction that did not commit.
    fn sees_own_node(&self, member: usize, snapshot: Set) -> bool {
        let members = &self.execution.members;
        let mut missed = each(self.commits & !snapshot);
        missed.all(|at| !own_node_first(members[at].txn, members[member].txn))
    }

    /// Section 5, last paragraph: the snapshot is one of a history of the transactions that the node knew. So
    /// it holds what its members read from, and those in their snapshots that did not abort.
    fn is_closed(&self, snapshot: Set) -> bool {
        let members = &self.execution.members;
        each(snapshot).all(|at| {
            let missed = (0..members.len()).filter(|&other| other != at && !contains(snapshot, other));
            self.snapshots[at] & self.commits & !snapshot == 0
                && !missed
                    .into_iter()
                    .any(|other| read_from(self.execution.history, &members[at], &members[other]))
        })
    }

    /// SPSI-3: no two members of the snapshot are concurrent and write one key.
    fn without_conflict(&self, snapshot: Set) -> bool {
        let members = &self.execution.members;
        each(snapshot).all(|one| {
            let mut later = each(snapshot).filter(|&other| other > one);
            later.all(|other| {
                members[one].writes & members[other].writes == 0
                    || contains(self.snapshots[one], other)
                    || contains(self.snapshots[other], one)
            })
        })
    }

    /// SPSI-1: what was read is what the snapshot explains; its members run one after another, each after
    /// those that it saw.
    fn reads_fit(&self, member: usize, snapshot: Set) -> bool {
        let (mut order, mut rest) = (Vec::new(), snapshot);
        while let Some(first) = each(rest).find(|&at| self.snapshots[at] & rest == 0) {
            order.push(first);
            rest &= !single(first);
        }
        assert!(rest == 0, "the placed transactions saw only earlier ones");
        let (history, member) = (self.execution.history, &self.execution.members[member]);
        let visible = order.iter().map(|&at| self.execution.members[at].ops);
        let speculated = member.txn.speculation.map(|shown| history.speculated_ops(&shown));
        speculated.is_none_or(|ops| replay::explains(history, visible.clone(), ops))
            && replay::explains(history, visible, member.ops)
    }
}
