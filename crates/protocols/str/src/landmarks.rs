//! The messages by which a host follows a transaction, and those that people read.

use quorate_core::caption::Captioned;
use quorate_core::landmark::{End, FewKeys, Landmark, few};

use crate::message::{Ending, Message};

/// The landmark that the arrival of a message is. A transaction is asked for at its home alone.
pub(crate) fn received(message: &Message) -> Option<Landmark> {
    match message {
        Message::Commit { transaction, writes, .. } => {
            (!writes.is_empty()).then_some(Landmark::Asked(*transaction))
        }
        _ => None,
    }
}

/// The landmark that a message is which a replica sends.
pub(crate) fn sent(message: &Message) -> Option<Landmark> {
    match message {
        Message::CommitReply { transaction, ending } => {
            let end = match ending {
                Ending::Committed { .. } => End::Committed,
                Ending::Aborted(_) => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        Message::Doomed { transaction, .. } => Some(Landmark::Ended(*transaction, End::Aborted)),
        Message::NotLeading { transaction: Some(transaction), .. }
        | Message::OtherPeriod { transaction, .. } => Some(Landmark::Passed(*transaction)),
        _ => None,
    }
}

/// The first keys that the transaction of a message writes.
pub(crate) fn keys_written(message: &Message) -> FewKeys {
    match message {
        Message::Commit { writes, .. } => few(writes.iter().map(|write| &write.key)),
        _ => FewKeys::default(),
    }
}

impl Captioned for Message {}
