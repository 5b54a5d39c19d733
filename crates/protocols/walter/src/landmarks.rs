//! The messages by which a host follows a transaction, and those that people read.

use quorate_core::caption::Captioned;
use quorate_core::landmark::{End, FewKeys, Landmark, few};

use crate::histories::Update;
use crate::message::{Ending, Message};

/// The landmark that the arrival of a message is. A transaction is asked for at its local site alone.
pub(crate) fn received(message: &Message) -> Option<Landmark> {
    match message {
        Message::Commit { transaction, updates, .. } => {
            (!updates.is_empty()).then_some(Landmark::Asked(*transaction))
        }
        _ => None,
    }
}

/// The landmark that a message is which a replica sends.
pub(crate) fn sent(message: &Message) -> Option<Landmark> {
    match message {
        Message::CommitReply { transaction, ending, .. } => {
            let end = match ending {
                Ending::Committed { is_slow: false, .. } => End::Committed,
                Ending::Committed { is_slow: true, .. } => End::CommittedSlowly,
                Ending::Aborted => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        Message::NotLeading { transaction: Some(transaction), .. } | Message::TooOld { transaction, .. } => {
            Some(Landmark::Passed(*transaction))
        }
        _ => None,
    }
}

/// The first keys that the transaction of a message writes.
pub(crate) fn keys_written(message: &Message) -> FewKeys {
    match message {
        Message::Commit { updates, .. } => few(updates.iter().filter_map(|update| match update {
            Update::Write { key, .. } => Some(key),
            Update::Add { set, .. } => Some(set),
            _ => None,
        })),
        _ => FewKeys::default(),
    }
}

impl Captioned for Message {}
