//! What a client tells the coordinator of serializable keyspaces, and what it is told: all that any coordinator understands, and
//! transactions that run in one round because the client knows beforehand what they do.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_core::command::{Command as Common, Event as Told, Failure};
use quorate_core::{ClockTime, KeyspaceId, ShardId, Timestamp, TransactionId, Value};
use quorate_granola::Class;

/// What the client wants.
#[derive(Clone, Debug)]
pub enum Command {
    /// What every coordinator may be asked for.
    Common(Common),
    /// Execute a transaction in one round. Answered by [`Event::Executed`].
    Execute {
        /// Its name. The previous attempt of the same transaction must have ended, and not as unknown.
        transaction: TransactionId,
        /// The keyspace of all shards that take part in it.
        keyspace: KeyspaceId,
        /// What it does at each of them, in the encoding of whatever runs there.
        parts: BTreeMap<ShardId, Value>,
        /// What they have to agree on. Whoever says [`Class::Independent`] vouches for it that no shard refuses its part while another
        /// does not.
        class: Class,
        /// What the clock showed when the client named it: it is not sent as if that had been earlier.
        not_before: ClockTime,
        /// By when the client wants an answer, whatever it is.
        patience: Duration,
    },
    /// Find out what became of such a transaction, and what it has answered. Where it has not been heard of by then, it is executed
    /// nowhere. Answered by [`Event::Executed`].
    Recall {
        /// The transaction.
        transaction: TransactionId,
        /// Every shard that took part in it, sorted.
        participants: Vec<ShardId>,
        /// As in [`Command::Execute`].
        not_before: ClockTime,
        /// By when the client wants an answer.
        patience: Duration,
    },
    /// Another client has seen this timestamp: whatever this one executes from here on comes after what that one has seen. Answered by
    /// nothing.
    Observe {
        /// The timestamp.
        timestamp: ClockTime,
    },
}

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What every coordinator tells.
    Common(Told),
    /// A one-round transaction is over, as far as the client is concerned.
    Executed {
        /// The transaction.
        transaction: TransactionId,
        /// What it has come to.
        result: Result<Executed, NotExecuted>,
    },
}

/// A one-round transaction that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Where it stands in the serial order.
    pub timestamp: Timestamp,
    /// What each shard has answered, in the encoding of whatever runs there.
    pub answers: BTreeMap<ShardId, Value>,
}

/// Why a one-round transaction was not, or perhaps was not, executed; or why it is not known what it has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotExecuted {
    /// It has failed as any transaction may. After [`Failure::Unknown`], [`Command::Recall`] tells more.
    Failed(Failure),
    /// A shard refuses its part. It has changed nothing anywhere, and will not.
    Refused {
        /// The shard; the first one, if all have refused their parts.
        shard: ShardId,
        /// Why, in the encoding of whatever runs there.
        reason: Value,
    },
    /// It has no parts, or a part for a shard that is none of its keyspace's. Surely not executed.
    NoSuchShard(Option<ShardId>),
    /// It was executed, and what some shards have answered could not be found out.
    AnswersLost {
        /// Where it stands in the serial order.
        timestamp: Timestamp,
        /// The shards.
        missing: Vec<ShardId>,
    },
    /// It was sent so long ago that nobody knows any more what has become of it.
    Forgotten,
}

impl From<Common> for Command {
    fn from(command: Common) -> Self {
        Command::Common(command)
    }
}

impl From<Told> for Event {
    fn from(event: Told) -> Self {
        Event::Common(event)
    }
}

/// What every coordinator tells; else gives back the event.
impl TryFrom<Event> for Told {
    type Error = Event;

    fn try_from(event: Event) -> Result<Told, Event> {
        match event {
            Event::Common(event) => Ok(event),
            Event::Executed { .. } => Err(event),
        }
    }
}

impl From<Failure> for NotExecuted {
    fn from(failure: Failure) -> Self {
        NotExecuted::Failed(failure)
    }
}
