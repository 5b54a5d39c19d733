//! Messages in words that people read: the name that the protocol gives to a message, and the part of its content that tells the course of a
//! transaction. Traces of clients consist of them.

use std::fmt::{self, Debug, Write};

/// The longest key in a detail, in bytes.
pub const DETAIL_MAX: usize = 40;

/// A message in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caption {
    /// Its name in its protocol, for example `PREPARE`.
    pub name: String,
    /// The part of its content that tells the course of a transaction: a vote, a key; often nothing.
    pub detail: String,
}

/// A message that people can be told of.
pub trait Captioned: Debug {
    /// The message in words; none if it is about no transaction. By default the name of its variant.
    fn caption(&self) -> Option<Caption> {
        Some(Caption::of(self))
    }
}

impl Caption {
    /// A name and a detail.
    pub fn new(name: &str, detail: impl Into<String>) -> Self {
        Caption { name: name.to_owned(), detail: detail.into() }
    }

    /// The name of a variant, as papers write names of messages, and no detail.
    pub fn of(message: &(impl Debug + ?Sized)) -> Self {
        let mut name = String::new();
        for (at, character) in variant(message).char_indices() {
            if at > 0 && character.is_uppercase() {
                name.push('-');
            }
            name.extend(character.to_uppercase());
        }
        Caption { name, detail: String::new() }
    }
}

/// A key as text, cut if it is long.
pub fn shown(key: &[u8]) -> String {
    let text = String::from_utf8_lossy(&key[..key.len().min(DETAIL_MAX)]).into_owned();
    if key.len() > DETAIL_MAX { text + "…" } else { text }
}

/// The name of a variant.
pub fn variant(value: &(impl Debug + ?Sized)) -> String {
    let mut word = Word::default();
    // An error only says that the name is complete.
    let _ = write!(word, "{value:?}");
    word.0
}

/// Takes the first word of a text, and refuses the rest: messages may hold megabytes.
#[derive(Default)]
struct Word(String);

impl Write for Word {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character.is_alphanumeric() {
                true => self.0.push(character),
                false if self.0.is_empty() => {}
                false => return Err(fmt::Error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[expect(dead_code, reason = "only its name is read")]
    enum Message {
        AskFloor,
        ReadReply { value: Vec<u8> },
    }

    impl Captioned for Message {}

    #[test]
    fn a_message_has_the_name_that_papers_would_write() {
        assert_eq!(Message::AskFloor.caption(), Some(Caption::new("ASK-FLOOR", "")));
        assert_eq!(
            Message::ReadReply { value: vec![7; 1 << 20] }.caption(),
            Some(Caption::new("READ-REPLY", ""))
        );
    }

    #[test]
    fn a_long_key_is_cut() {
        assert_eq!(shown(b"k"), "k");
        assert_eq!(shown(&[b'k'; 100]).chars().count(), DETAIL_MAX + 1);
    }
}
