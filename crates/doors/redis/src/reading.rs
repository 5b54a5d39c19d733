//! `XREAD` and `XREADGROUP` with `BLOCK`: clients that wait until a stream has an entry.
//!
//! The command that runs at shards does not wait. It is tried at once, and again where a question that only reads is answered: of `XREAD` the command itself, of
//! `XREADGROUP` whether the group has something to read. `$` stands for the last id when the command came, so it is replaced before.

use std::time::Duration;

use bytes::Bytes;
use quorate_redis_commands::{LAST, Reply, UNREAD, find, timeout_position};

use crate::blocking::{KEYS_MAX, Waits, too_many_keys};
use crate::plan::Asked;

/// A command that waits for entries, with its words.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    asked: Asked,
    keys: Vec<Bytes>,
    /// The position of the first key. The ids stand behind the keys.
    first: usize,
    timeout: Option<Duration>,
}

impl Reading {
    /// The command if it is to wait. The command itself complains of its words.
    ///
    /// # Errors
    /// The reply that says that it waits for too many keys.
    pub(crate) fn find(asked: &Asked) -> Result<Option<Self>, Reply> {
        let Some(at) = timeout_position(&asked.words) else { return Ok(None) };
        let millis = std::str::from_utf8(&asked.words[at]).ok().and_then(|word| word.parse::<u64>().ok());
        let positions = asked.command.key_positions(&asked.words);
        let (Some(millis), Some(first)) = (millis, positions.first().copied()) else { return Ok(None) };
        if positions.len() > KEYS_MAX {
            return Err(too_many_keys());
        }
        let keys = positions.iter().map(|at| asked.words[*at].clone()).collect();
        let timeout = (millis > 0).then(|| Duration::from_millis(millis));
        Ok(Some(Reading { asked: asked.clone(), keys, first, timeout }))
    }

    fn is_of_group(&self) -> bool {
        self.asked.command.writes()
    }

    /// The positions of the ids that are to be replaced by the last ones, and a question for each.
    pub(crate) fn last_ids(&self) -> Vec<(usize, Asked)> {
        let Some(command) = find(LAST.as_bytes()).filter(|_| !self.is_of_group()) else { return Vec::new() };
        let ids = self.first + self.keys.len();
        let of = |(at, key): (usize, &Bytes)| {
            let words = vec![Bytes::from_static(LAST.as_bytes()), key.clone()];
            (self.asked.words[ids + at] == "$").then_some((ids + at, Asked { command, words }))
        };
        self.keys.iter().enumerate().filter_map(of).collect()
    }

    /// Replaces an id by the last one.
    pub(crate) fn set_id(&mut self, at: usize, id: Vec<u8>) {
        self.asked.words[at] = Bytes::from(id);
    }

    /// The words of the command under a name, for one of its keys.
    fn words_of(&self, name: &Bytes, at: usize) -> Vec<Bytes> {
        let options = &self.asked.words[1..self.first];
        let id = &self.asked.words[self.first + self.keys.len() + at];
        std::iter::once(name).chain(options).chain([&self.keys[at], id]).cloned().collect()
    }
}

impl Waits for Reading {
    fn keys(&self) -> &[Bytes] {
        &self.keys
    }

    fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    fn asked(&self) -> &Asked {
        &self.asked
    }

    fn question(&self, at: usize) -> Option<Asked> {
        if !self.is_of_group() {
            return Some(self.asked_of(at));
        }
        let words = self.words_of(&Bytes::from_static(UNREAD.as_bytes()), at);
        Some(Asked { command: find(UNREAD.as_bytes())?, words })
    }

    /// A key of another type is passed over by `XREAD`; `XREADGROUP` is told that its group is gone.
    fn is_yes(&self, answer: &Reply) -> bool {
        matches!(answer, Reply::Table(_) | Reply::Integer(1))
    }

    fn asked_of(&self, at: usize) -> Asked {
        Asked { command: self.asked.command, words: self.words_of(&self.asked.words[0], at) }
    }

    fn reply(&self, reply: Reply) -> Option<Reply> {
        Some(reply).filter(|reply| *reply != Reply::NullArray)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Bytes> {
        text.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    fn read(text: &str) -> Option<Reading> {
        let words = words(text);
        Reading::find(&Asked { command: find(&words[0]).unwrap(), words }).unwrap()
    }

    #[test]
    fn a_reader_asks_for_each_of_its_keys() {
        let mut reading = read("XREAD COUNT 2 BLOCK 5 STREAMS a b 1-0 $").unwrap();
        assert_eq!((reading.keys(), reading.timeout()), (&words("a b")[..], Some(Duration::from_millis(5))));
        let asked: Vec<_> = reading.last_ids().into_iter().map(|(at, asked)| (at, asked.words)).collect();
        assert_eq!(asked, [(9, words("\0last b"))]);
        reading.set_id(9, b"7-1".to_vec());
        assert!(reading.last_ids().is_empty());
        assert_eq!(reading.asked().words, words("XREAD COUNT 2 BLOCK 5 STREAMS a b 1-0 7-1"));
        assert_eq!(reading.asked_of(1).words, words("XREAD COUNT 2 BLOCK 5 STREAMS b 7-1"));
        assert_eq!(reading.question(0).unwrap().words, words("XREAD COUNT 2 BLOCK 5 STREAMS a 1-0"));
        assert!(reading.is_yes(&Reply::Table(Vec::new())) && !reading.is_yes(&Reply::NullArray));
        assert_eq!((reading.reply(Reply::NullArray), reading.reply(Reply::OK)), (None, Some(Reply::OK)));
    }

    #[test]
    fn a_reader_of_a_group_asks_whether_there_is_something_to_read() {
        let reading = read("xreadgroup group g c block 0 streams a b > >").unwrap();
        assert_eq!((reading.timeout(), reading.last_ids().len()), (None, 0));
        assert_eq!(reading.question(1).unwrap().words, words("\0unread group g c block 0 streams b >"));
        assert!(!reading.question(1).unwrap().command.writes());
        assert!(reading.is_yes(&Reply::Integer(1)) && !reading.is_yes(&Reply::Integer(0)));
    }

    #[test]
    fn a_reader_without_a_time_out_does_not_wait() {
        for text in [
            "xread streams a 0",
            "xread block x streams a 0",
            "xread block 1 streams a",
            "get block",
            "xread block -1 streams a 0",
        ] {
            assert!(read(text).is_none(), "{text}");
        }
        let many = format!("xread block 1 streams {}", vec!["k"; 2 * (KEYS_MAX + 1)].join(" "));
        let words = words(&many);
        let asked = Asked { command: find(b"xread").unwrap(), words };
        assert!(matches!(Reading::find(&asked), Err(Reply::Error(error)) if error.contains("unsupported")));
    }
}
