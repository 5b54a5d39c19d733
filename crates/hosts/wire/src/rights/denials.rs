//! The end of what a client waits for, once a node has [denied](crate::Packet::Denied) a message of it.
//!
//! The right may have been taken away while the transaction was under way, so that some replicas have taken what others deny. A client that has asked for a commit of something
//! that it writes knows nothing of the outcome by that: others settle the transaction, as one of a client that is no more.

use quorate_core::command::{Event, Failure, Milestone, NotExecuted, NotReached};
use quorate_core::{ShardId, TransactionId};
use quorate_log::Part;

use crate::protocols::ProtocolMessage;

/// The thing that a client waits to hear of a transaction, a message of which is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// Its reads, or how it ends.
    End,
    /// The result of one that runs in one round.
    Result,
    /// The outcome of one that a client asks about.
    Outcome,
    /// Nothing, or how far it has come.
    Milestones,
}

impl Awaited {
    /// The message that has the coordinator of the transaction give it up, as one that no replica of the shard takes. None for a question for an outcome: that
    /// it is denied says nothing of the outcome. A coordinator of another protocol passes the message over.
    pub fn giving_up(self, transaction: TransactionId, shard: ShardId) -> Option<ProtocolMessage> {
        let reply = quorate_granola::Reply::Lost { shard };
        let message = quorate_granola::Message::Reply { transaction, reply };
        (self != Awaited::Outcome).then_some(ProtocolMessage::Granola(Part::Own(message)))
    }

    /// The events, in place of those of the coordinator, that end what waits.
    pub fn events(self, transaction: TransactionId) -> Vec<Event> {
        match self {
            Awaited::End => vec![Event::Finished { transaction, result: Err(Failure::Aborted) }],
            Awaited::Result => {
                vec![Event::Executed { transaction, result: Err(NotExecuted::Failed(Failure::Aborted)) }]
            }
            Awaited::Outcome => vec![Event::Resolved { transaction, outcome: None }],
            Awaited::Milestones => {
                let not_reached = || Err(NotReached::Missing(Vec::new()));
                let ends = |milestone| Event::Milestone { transaction, milestone, result: not_reached() };
                Milestone::ALL.into_iter().map(ends).collect()
            }
        }
    }
}
