//! The name of a message, as its protocol calls it, and what of its content tells the course of a transaction.

use std::fmt::{self, Write};

use quorate_granola::message::{Message as Granola, Reply};
use quorate_granola::{Answer, Outcome};
use quorate_ir::{Message as Ir, Operations};
use quorate_log::Part;
use quorate_tapir::{Message as TapirMessage, Tapir};
use quorate_wire::ProtocolMessage;

/// The longest detail, in characters.
const DETAIL_MAX: usize = 40;

/// The name of a message, and a detail, which may be empty; none of one that is about no transaction.
pub(super) fn describe(message: &ProtocolMessage) -> Option<(String, String)> {
    let named = |name: &str, detail: String| (name.to_owned(), detail);
    Some(match message {
        // A client measures the way to replicas whenever it likes.
        ProtocolMessage::Tapir(TapirMessage::ClockProbe { .. } | TapirMessage::ClockProbeReply { .. }) => {
            return None;
        }
        ProtocolMessage::Tapir(TapirMessage::Ir(operation)) => match operation {
            Ir::ProposeConsensus { .. } => named("PREPARE", String::new()),
            Ir::ConsensusReply { verdict, .. } => named("VOTE", first_word(verdict).to_uppercase()),
            Ir::FinalizeConsensus { verdict, .. } => named("FINALIZE", first_word(verdict).to_uppercase()),
            Ir::ProposeInconsistent { operation, .. } if Tapir::leaves_state(operation) => {
                named("COMMIT", String::new())
            }
            Ir::ProposeInconsistent { .. } => named("ABORT", String::new()),
            Ir::InconsistentReply { .. } => named("RECORDED", String::new()),
            other => (name_of(other), String::new()),
        },
        ProtocolMessage::Tapir(TapirMessage::CommitPrepared { .. }) => named("COMMIT", String::new()),
        ProtocolMessage::Tapir(TapirMessage::Read { key, .. }) => named("READ", shown(key)),
        ProtocolMessage::Granola(Part::Own(Granola::Reply { reply: Reply::Ended(outcome), .. })) => {
            let ending = match outcome {
                Outcome::Committed { answer: Answer::Done(_), .. } => "done",
                Outcome::Committed { answer: Answer::Refused(_), .. } | Outcome::Aborted(_) => "refused",
                Outcome::Conflict => "conflict",
            };
            named("REPLY", ending.to_owned())
        }
        other => (name_of(other), String::new()),
    })
}

/// A key as text, cut if it is long.
fn shown(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(&key[..key.len().min(DETAIL_MAX)]).into_owned();
    if key.len() > DETAIL_MAX { text + "…" } else { text }
}

/// The name of a variant, as papers write names of messages: that of the innermost one which is not merely wrapped in another.
fn name_of(message: &impl fmt::Debug) -> String {
    const WRAPPERS: [&str; 9] =
        ["Tapir", "Baseline", "Configuration", "QwStore", "Granola", "Walter", "Str", "Own", "Ir"];
    let mut words = Words::default();
    // An error only says that enough was written.
    let _ = write!(words, "{message:?}");
    let name = words.0.iter().find(|word| !WRAPPERS.contains(&word.as_str()));
    let mut capitals = String::new();
    for (at, character) in name.map_or("", String::as_str).char_indices() {
        if at > 0 && character.is_uppercase() {
            capitals.push('-');
        }
        capitals.extend(character.to_uppercase());
    }
    capitals
}

fn first_word(value: &impl fmt::Debug) -> String {
    let mut words = Words::default();
    // As above.
    let _ = write!(words, "{value:?}");
    words.0.into_iter().next().unwrap_or_default()
}

/// Takes the first words of a text, and refuses the rest: messages may hold megabytes.
#[derive(Default)]
struct Words(Vec<String>, bool);

impl Words {
    const MAX: usize = 5;
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            if character.is_alphanumeric() {
                if !std::mem::replace(&mut self.1, true) {
                    self.0.push(String::new());
                }
                if let Some(word) = self.0.last_mut() {
                    word.push(character);
                }
            } else {
                self.1 = false;
                if self.0.len() >= Words::MAX {
                    return Err(fmt::Error);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::{Key, Timestamp, TransactionId, Value, View};
    use quorate_ir::OperationId;
    use quorate_tapir::message::{Decision, Vote};

    use super::*;

    fn words(message: impl Into<ProtocolMessage>) -> (String, String) {
        describe(&message.into()).unwrap()
    }

    #[test]
    fn messages_have_the_names_of_their_papers() {
        let (id, transaction) = (OperationId::default(), TransactionId::default());
        let pair = |name: &str, detail: &str| (name.to_owned(), detail.to_owned());
        let vote = |verdict| Ir::ConsensusReply { id, view: View::default(), verdict, finalized: false };
        assert_eq!(words(TapirMessage::Ir(vote(Vote::Ok))), pair("VOTE", "OK"));
        assert_eq!(words(TapirMessage::Ir(vote(Vote::Retry(Timestamp::ZERO)))), pair("VOTE", "RETRY"));
        let abort = Ir::ProposeInconsistent { id, operation: Decision::Abort { last: Timestamp::ZERO } };
        assert_eq!(words(TapirMessage::Ir(abort)), pair("ABORT", ""));
        let key = Key::from("alice");
        assert_eq!(words(TapirMessage::Read { transaction, key: key.clone() }), pair("READ", "alice"));
        let value = Some(Value::from(vec![b'x'; 1 << 20]));
        let reply = TapirMessage::ReadReply { transaction, key, version: Timestamp::ZERO, value };
        assert_eq!(words(reply), pair("READ-REPLY", ""));
        let asked = Part::Own(Granola::AskFloor);
        assert_eq!(words(ProtocolMessage::Granola(asked)), pair("ASK-FLOOR", ""));
    }

    #[test]
    fn long_keys_are_cut() {
        assert_eq!(shown(b"k"), "k");
        assert_eq!(shown(&[b'k'; 100]).chars().count(), DETAIL_MAX + 1);
    }
}
