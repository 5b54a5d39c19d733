//! The axioms of the levels between serializability and causal consistency, one function each.
//!
//! An abstract execution (Cerone, Bernardi, Gotsman, CONCUR 2015) is a set of transactions with an
//! arbitration order AR, which is total, and a visibility relation VIS ⊆ AR. The search builds it transaction
//! after transaction in arbitration order, so each axiom here speaks of the *next* transaction, which comes
//! last, and of the set of earlier ones that it is to see. That loses nothing: an axiom about a pair of
//! transactions is asked when the later one of the two is placed.
//!
//! | level | axioms |
//! |---|---|
//! | si | INT, EXT, [`prefix`], [`no_conflict`] |
//! | session-si | and [`session`] |
//! | strong-si | and [`real_time`] |
//! | psi | INT, EXT, [`trans_vis`], [`no_conflict`] |
//! | session-psi | and [`session`] |
//! | walter-psi | those of psi, and [`site_real_time`], [`site_chain`], [`no_future`] |
//! | causal | INT, EXT, [`trans_vis`], [`session`] |

use crate::history::History;
use crate::level::Level;

use super::members::Member;
use super::{Set, contains, each, replay};

/// The part of an execution that is placed already.
pub(super) struct Execution<'a> {
    pub(super) history: &'a History,
    pub(super) members: Vec<Member<'a>>,
    /// AR: the placed members.
    pub(super) order: Vec<usize>,
    /// VIS: per placed member whom it sees.
    pub(super) visible: Vec<Set>,
}

/// The next transaction and whom it is to see.
#[derive(Clone, Copy)]
pub(super) struct Next {
    pub(super) member: usize,
    pub(super) visible: Set,
}

/// Whether an axiom holds for the next transaction.
pub(super) type Axiom = fn(&Execution<'_>, Next) -> bool;

/// The axioms of a level. INT and EXT come last because they cost most.
pub(super) fn of_level(level: Level) -> Option<&'static [Axiom]> {
    Some(match level {
        Level::Si => &[no_conflict, prefix, int_and_ext],
        Level::SessionSi => &[session, no_conflict, prefix, int_and_ext],
        Level::StrongSi => &[real_time, no_conflict, prefix, int_and_ext],
        Level::Psi => &[no_conflict, trans_vis, int_and_ext],
        Level::SessionPsi => &[session, no_conflict, trans_vis, int_and_ext],
        Level::WalterPsi => &[site_real_time, no_future, no_conflict, trans_vis, site_chain, int_and_ext],
        Level::Causal => &[session, trans_vis, int_and_ext],
        _ => return None,
    })
}

/// INT and EXT (Cerone et al., figure 1): reads return what the own operations and those of the visible
/// transactions, in arbitration order, explain.
pub(super) fn int_and_ext(execution: &Execution<'_>, next: Next) -> bool {
    let seen = execution.order.iter().filter(|&&at| contains(next.visible, at));
    let ops = seen.map(|&at| execution.members[at].ops);
    replay::explains(execution.history, ops, execution.members[next.member].ops)
}

/// SESSION (Cerone et al.): SO ⊆ VIS, where a session's transaction is before another one if it completed
/// before the other was invoked.
fn session(execution: &Execution<'_>, next: Next) -> bool {
    sees_all(execution, next, |one, next| one.txn.session == next.txn.session && one.completed_before(next))
}

/// HISTORY, strong-si: RT ⊆ VIS, so that real time holds in the snapshot and, as VIS ⊆ AR, in the commit order.
fn real_time(execution: &Execution<'_>, next: Next) -> bool {
    sees_all(execution, next, |one, next| one.completed_before(next))
}

/// NOCONFLICT (Cerone et al.): of two writers of one object one sees the other. Updates of counting sets do
/// not conflict (Walter paper, section 3.3).
pub(super) fn no_conflict(execution: &Execution<'_>, next: Next) -> bool {
    let writes = execution.members[next.member].writes;
    let mut writers = execution.order.iter().filter(|&&at| execution.members[at].writes & writes != 0);
    writers.all(|&at| contains(next.visible, at))
}

/// PREFIX (Cerone et al.): AR ; VIS ⊆ VIS, so that a snapshot is a prefix of the commit order.
pub(super) fn prefix(execution: &Execution<'_>, next: Next) -> bool {
    let is_visible = |&&at: &&usize| contains(next.visible, at);
    execution.order.iter().skip_while(is_visible).all(|&at| !contains(next.visible, at))
}

/// TRANSVIS (Cerone et al.): VIS ; VIS ⊆ VIS, so that whom a visible transaction saw is visible. The Walter
/// paper calls it commit causality across sites (PSI property 3).
fn trans_vis(execution: &Execution<'_>, next: Next) -> bool {
    each(next.visible).all(|at| execution.visible[at] & !next.visible == 0)
}

/// HISTORY, walter-psi: what completed at the site before T began is in T's snapshot. Walter paper, PSI
/// property 1 (site snapshot read).
fn site_real_time(execution: &Execution<'_>, next: Next) -> bool {
    sees_all(execution, next, |one, next| one.txn.site == next.txn.site && one.completed_before(next))
}

/// HISTORY, walter-psi: snapshots of one site form a chain. Walter paper, figure 4: a snapshot is a prefix of
/// the log of the site.
fn site_chain(execution: &Execution<'_>, next: Next) -> bool {
    let site = execution.members[next.member].txn.site;
    let mut placed = execution.order.iter().filter(|&&at| execution.members[at].txn.site == site);
    placed.all(|&at| {
        let common = execution.visible[at] & next.visible;
        common == execution.visible[at] || common == next.visible
    })
}

/// HISTORY, walter-psi: nobody reads what was invoked after it completed.
fn no_future(execution: &Execution<'_>, next: Next) -> bool {
    let member = &execution.members[next.member];
    each(next.visible).all(|at| !member.completed_before(&execution.members[at]))
}

/// Whether the next transaction sees each one that must be before it. One that is not placed yet is not seen.
fn sees_all(
    execution: &Execution<'_>,
    next: Next,
    is_before: impl Fn(&Member<'_>, &Member<'_>) -> bool,
) -> bool {
    let member = &execution.members[next.member];
    let mut others = (0..execution.members.len()).filter(|&at| at != next.member);
    others.all(|at| contains(next.visible, at) || !is_before(&execution.members[at], member))
}
