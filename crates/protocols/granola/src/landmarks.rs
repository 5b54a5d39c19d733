//! The messages by which a host follows a transaction, and those that people read.

use quorate_core::ShardId;
use quorate_core::caption::{Caption, Captioned};
use quorate_core::command::Class;
use quorate_core::landmark::{End, Landmark};

use crate::application::Answer;
use crate::entry::Outcome;
use crate::message::{Message, Reply};

/// The landmark that the arrival of a message is at a replica of this shard.
pub(crate) fn received(message: &Message, own: ShardId) -> Option<Landmark> {
    let Message::Request(request) = message else { return None };
    let counts = request.class != Class::ReadOnly && request.participants.first() == Some(&own);
    counts.then_some(Landmark::Asked(request.transaction))
}

/// The landmark that a message is which a replica sends.
pub(crate) fn sent(message: &Message) -> Option<Landmark> {
    match message {
        Message::Reply { transaction, reply: Reply::Ended(outcome) } => {
            let end = match outcome {
                Outcome::Committed { answer: Answer::Done(_), .. } => End::Committed,
                Outcome::Committed { .. } | Outcome::Aborted(_) | Outcome::Conflict => End::Aborted,
            };
            Some(Landmark::Ended(*transaction, end))
        }
        Message::Reply { transaction, .. } | Message::NotLeading { transaction, .. } => {
            Some(Landmark::Passed(*transaction))
        }
        _ => None,
    }
}

impl Captioned for Message {
    fn caption(&self) -> Option<Caption> {
        let Message::Reply { reply: Reply::Ended(outcome), .. } = self else {
            return Some(Caption::of(self));
        };
        let ending = match outcome {
            Outcome::Committed { answer: Answer::Done(_), .. } => "done",
            Outcome::Committed { answer: Answer::Refused(_), .. } | Outcome::Aborted(_) => "refused",
            Outcome::Conflict => "conflict",
        };
        Some(Caption::new("REPLY", ending))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{ClockTime, TransactionId, Value};

    use super::*;
    use crate::message::Request;

    const ID: TransactionId = TransactionId { client: quorate_core::ClientId(7), sequence: 1, attempt: 0 };

    fn ended(outcome: Outcome) -> Message {
        Message::Reply { transaction: ID, reply: Reply::Ended(outcome) }
    }

    fn done(answer: Answer) -> Outcome {
        Outcome::Committed { timestamp: ClockTime::default(), answer }
    }

    #[test]
    fn a_request_is_a_landmark_at_its_first_shard_alone_and_only_if_it_writes() {
        let request = |class| {
            Message::Request(Request {
                transaction: ID,
                participants: vec![ShardId(2), ShardId(3)],
                operation: Value::new(),
                class,
                high: ClockTime::default(),
                first: ClockTime::default(),
            })
        };
        assert_eq!(received(&request(Class::Independent), ShardId(2)), Some(Landmark::Asked(ID)));
        assert_eq!(received(&request(Class::Independent), ShardId(3)), None);
        assert_eq!(received(&request(Class::ReadOnly), ShardId(2)), None);
    }

    #[test]
    fn an_ending_is_told_in_a_word() {
        let table = [
            (done(Answer::Done(Value::new())), End::Committed, "done"),
            (done(Answer::Refused(Value::new())), End::Aborted, "refused"),
            (Outcome::Conflict, End::Aborted, "conflict"),
        ];
        for (outcome, end, word) in table {
            let message = ended(outcome);
            assert_eq!(sent(&message), Some(Landmark::Ended(ID, end)), "{word}");
            assert_eq!(message.caption(), Some(Caption::new("REPLY", word)));
        }
        assert_eq!(Message::AskFloor.caption(), Some(Caption::new("ASK-FLOOR", "")));
    }
}
