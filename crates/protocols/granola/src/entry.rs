//! The entries of the log of a shard, and the pages of the state that it leads to.

use std::sync::Arc;

use quorate_core::{ClockTime, ShardId, TransactionId, Value};

use crate::application::Answer;
use crate::place::Place;
use quorate_core::command::Class;

/// An entry of the log of a shard.
///
/// *Proposals ascend along the log.* So a replica that has applied an entry knows everything that will ever be executed up
/// to its proposal, but for the timestamps of transactions that take part elsewhere and are not final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Nothing is proposed at or below by a later leader, so this one may execute and read up to here.
    pub ceiling: ClockTime,
    /// Where transactions have ended that were voted for in earlier entries and take part elsewhere, too: that rides along
    /// (section 5.1).
    pub finals: Vec<Final>,
    /// The subject of the entry.
    pub body: Body,
}

/// The subject of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// This shard proposes a timestamp for a transaction, or refuses it. Where no other takes part, it is its timestamp.
    Voted(Arc<Voted>),
    /// Requests that were first sent before `floor` are refused from here on, and what has ended before `forgotten` is
    /// forgotten, which is never above the floor of any shard that took part in it.
    Floor {
        /// Nothing is accepted below.
        floor: ClockTime,
        /// Nothing is known below.
        forgotten: ClockTime,
    },
    /// A shard is lost for good (section 5.4): a transaction of it is refused from here on, and nobody waits for its votes that
    /// are not known yet.
    Lost(ShardId),
    /// Nothing but the bounds and what rides along.
    Nothing,
}

/// How a shard votes on a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vote {
    /// It executes it.
    Commit,
    /// Its application refuses it, for this reason, so nobody executes it. Only what is coordinated is voted against like this.
    Abort(Value),
    /// It does not, and nobody does: the client may try again under another name.
    Conflict,
}

/// A vote, with what has to be known to follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voted {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its class: what its participants have to agree on; never [`Class::ReadOnly`].
    pub class: Class,
    /// Every shard that takes part in it, sorted.
    pub participants: Vec<ShardId>,
    /// Its operation here; none, if it is not executed.
    pub operation: Option<Value>,
    /// The vote.
    pub vote: Vote,
    /// Its timestamp is at least this.
    pub proposed: ClockTime,
    /// When the client sent it first, by its own clock: a transaction below the floors is forgotten.
    pub first: ClockTime,
}

/// Where a transaction has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// The transaction.
    pub transaction: TransactionId,
    /// Its ending.
    pub ending: Ending,
}

/// The ending of a transaction, as its participants have to agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is executed at this timestamp.
    Commit(ClockTime),
    /// It is executed nowhere, because the application has refused it at one of its shards.
    Abort(Refusal),
    /// It is executed nowhere: the client may try again under another name.
    Conflict,
}

/// Why nobody executes a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The shard whose application has refused it.
    pub shard: ShardId,
    /// The reason that it gave.
    pub reason: Value,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was executed at this timestamp, with this answer here.
    Committed {
        /// The timestamp.
        timestamp: ClockTime,
        /// The answer.
        answer: Answer,
    },
    /// It was and will be executed nowhere, because the application has refused it at one of its shards.
    Aborted(Refusal),
    /// It was and will be executed nowhere: the client may try again under another name.
    Conflict,
}

/// A transaction that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its outcome.
    pub outcome: Outcome,
    /// Every shard that takes part in it, sorted.
    pub participants: Vec<ShardId>,
    /// When the client sent it first.
    pub first: ClockTime,
}

/// A transaction that is accepted and not executed, as far as the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The vote: to commit.
    pub voted: Arc<Voted>,
    /// Where it stands: at its timestamp if that is final, else at what was proposed.
    pub place: Place,
    /// True if it stays there.
    pub is_final: bool,
}

/// A part of the state that the entries up to some position have led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Page<P> {
    /// Of the application.
    Application(P),
    /// The transactions that are accepted and not executed.
    Pending(Vec<Pending>),
    /// The transactions that have ended.
    Ended(Vec<(TransactionId, Ended)>),
    /// The rest.
    Bounds {
        /// Nothing is proposed at or below.
        ceiling: ClockTime,
        /// Nothing is accepted below.
        floor: ClockTime,
        /// Nothing is known below.
        forgotten: ClockTime,
        /// The shards that are lost for good, sorted.
        lost: Vec<ShardId>,
    },
}

impl Entry {
    /// Roughly how many bytes it takes, rather more than less: the entries of one message are chosen by it.
    pub fn bytes(&self) -> usize {
        const FIXED: usize = 64;
        const FINAL: usize = 32;
        let body = match &self.body {
            Body::Voted(voted) => {
                let reason = match &voted.vote {
                    Vote::Abort(reason) => reason.len(),
                    Vote::Commit | Vote::Conflict => 0,
                };
                let operation = voted.operation.as_ref().map_or(0, |operation| operation.len());
                4 * voted.participants.len() + operation + reason
            }
            Body::Floor { .. } | Body::Lost(_) | Body::Nothing => 0,
        };
        let reasons = self.finals.iter().map(|ending| match &ending.ending {
            Ending::Abort(refusal) => refusal.reason.len(),
            Ending::Commit(_) | Ending::Conflict => 0,
        });
        FIXED + FINAL * self.finals.len() + reasons.sum::<usize>() + body
    }
}
