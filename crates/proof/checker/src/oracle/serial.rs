//! The serializable family: the committed transactions can run one after another so that every read returns
//! what it did return. The session and strict levels fix the order of some pairs.

use crate::history::History;
use crate::level::Level;

use super::members::{Fate, Member, members};
use super::{Set, TXNS_MAX, each, replay, single};

/// Looks for a serial order; none if there are too many transactions.
pub(super) fn exists(history: &History, level: Level, fates: &[Fate]) -> Option<bool> {
    let members = members(history, fates);
    if members.len() > TXNS_MAX {
        return None;
    }
    let all = (0..members.len()).fold(0, |all, at| all | single(at));
    Some(Search { history, level, members, order: Vec::new() }.extends(all))
}

struct Search<'a> {
    history: &'a History,
    level: Level,
    members: Vec<Member<'a>>,
    order: Vec<usize>,
}

impl Search<'_> {
    /// Whether the transactions that are not done yet can run after those that are.
    fn extends(&mut self, rest: Set) -> bool {
        each(rest).all(|at| self.members[at].is_optional)
            || each(rest).any(|next| {
                let is_free = each(rest).all(|at| !self.must_precede(at, next));
                is_free && self.reads_fit(next) && {
                    self.order.push(next);
                    let extends = self.extends(rest & !single(next));
                    self.order.pop();
                    extends
                }
            })
    }

    /// HISTORY: strict-serializable keeps real time, session-serializable the order of each session.
    fn must_precede(&self, one: usize, other: usize) -> bool {
        let (one, other) = (&self.members[one], &self.members[other]);
        one.completed_before(other)
            && match self.level {
                Level::StrictSerializable => true,
                Level::SessionSerializable => one.txn.session == other.txn.session,
                _ => false,
            }
    }

    fn reads_fit(&self, next: usize) -> bool {
        let before = self.order.iter().map(|&at| self.members[at].ops);
        replay::explains(self.history, before, self.members[next].ops)
    }
}
