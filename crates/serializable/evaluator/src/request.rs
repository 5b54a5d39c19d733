//! Requests to the procedure and its answers: the bytes between a door and a shard.

use quorate_redis_commands::bytes::{Reader, put_bytes, put_number};
use quorate_redis_commands::{Malformed, Mark, Reply};

/// The first byte of requests: a shard refuses those of another version.
const VERSION: u8 = 1;

/// Scripts and commands that are one transaction at one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Where what commands draw at random begins.
    pub seed: u64,
    /// The clock of the door, of a request that is answered from a snapshot; else zero. As in [`quorate_redis_commands::Request`].
    pub clock: u64,
    /// The slot beside which the shard keeps texts: one that lies there, the same for all doors.
    pub home: u16,
    /// The watched keys, each with its mark of then: unless all have it still, nothing is done.
    pub watched: Vec<(&'a [u8], Mark)>,
    /// The scripts and commands, in their order.
    pub items: Vec<Item<'a>>,
}

/// A part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    /// A command with its arguments.
    Command(Vec<&'a [u8]>),
    /// A script.
    Script {
        /// Its text.
        text: Text<'a>,
        /// True if commands that write are refused.
        is_read_only: bool,
        /// Its keys: it may touch those of their slots, and no others.
        keys: Vec<&'a [u8]>,
        /// Its other arguments.
        arguments: Vec<&'a [u8]>,
    },
}

/// How a request tells the text of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// All of it, and the shard is to keep it.
    Keep(&'a [u8]),
    /// Its digest, as [`sha1::hex`](crate::sha1::hex) writes it: the shard may have kept it.
    Kept(&'a [u8]),
}

/// The result of a request that was not given up.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A watched key has changed. Nothing was done.
    Changed,
    /// Whether something that it reads is there, an entry in the log tells: ask without a clock. As in [`quorate_redis_commands::Answer`].
    Later,
    /// It is done.
    Done {
        /// The reply of each part.
        replies: Vec<Reply>,
        /// The keys of commands that scripts have called and that may have written, as many as are remembered: clients may wait for them.
        wrote: Vec<Vec<u8>>,
        /// The lines that scripts log, each with its level.
        logged: Vec<(u8, Vec<u8>)>,
    },
}

fn put_words(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    put_number(bytes, words.len() as u64);
    words.iter().for_each(|word| put_bytes(bytes, word));
}

fn words<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a [u8]>, Malformed> {
    let count = reader.count()?;
    (0..count).map(|_| reader.bytes()).collect()
}

impl<'a> Request<'a> {
    /// The request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.seed.to_be_bytes());
        bytes.extend_from_slice(&self.clock.to_be_bytes());
        bytes.extend_from_slice(&self.home.to_be_bytes());
        put_number(&mut bytes, self.watched.len() as u64);
        for (key, mark) in &self.watched {
            put_bytes(&mut bytes, key);
            bytes.extend_from_slice(&mark.to_be_bytes());
        }
        put_number(&mut bytes, self.items.len() as u64);
        for item in &self.items {
            match item {
                Item::Command(words) => {
                    bytes.push(0);
                    put_words(&mut bytes, words);
                }
                Item::Script { text, is_read_only, keys, arguments } => {
                    let (kind, text) = match text {
                        Text::Whole(text) => (1, text),
                        Text::Keep(text) => (3, text),
                        Text::Kept(digest) => (5, digest),
                    };
                    bytes.push(kind + u8::from(*is_read_only));
                    put_bytes(&mut bytes, text);
                    put_words(&mut bytes, keys);
                    put_words(&mut bytes, arguments);
                }
            }
        }
        bytes
    }

    /// Reads a request.
    ///
    /// # Errors
    /// These bytes are none of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.byte()? != VERSION {
            return Err(Malformed);
        }
        let (seed, clock) = (reader.u64()?, reader.u64()?);
        let home = u16::from_be_bytes(reader.fixed()?);
        let mut watched = Vec::new();
        for _ in 0..reader.count()? {
            watched.push((reader.bytes()?, reader.u64()?));
        }
        let mut items = Vec::new();
        for _ in 0..reader.count()? {
            items.push(match reader.byte()? {
                0 => match words(&mut reader)? {
                    words if words.is_empty() => return Err(Malformed),
                    words => Item::Command(words),
                },
                kind @ 1..=6 => Item::Script {
                    text: match (kind, reader.bytes()?) {
                        (1 | 2, text) => Text::Whole(text),
                        (3 | 4, text) => Text::Keep(text),
                        (_, digest) => Text::Kept(digest),
                    },
                    is_read_only: kind % 2 == 0,
                    keys: words(&mut reader)?,
                    arguments: words(&mut reader)?,
                },
                _ => return Err(Malformed),
            });
        }
        if reader.is_empty() { Ok(Request { seed, clock, home, watched, items }) } else { Err(Malformed) }
    }
}

impl Answer {
    /// The answer as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Answer::Done { replies, wrote, logged } = self else {
            return vec![if *self == Answer::Changed { 0 } else { 2 }];
        };
        let mut bytes = vec![1];
        put_number(&mut bytes, replies.len() as u64);
        replies.iter().for_each(|reply| reply.encode(&mut bytes));
        put_number(&mut bytes, wrote.len() as u64);
        wrote.iter().for_each(|key| put_bytes(&mut bytes, key));
        put_number(&mut bytes, logged.len() as u64);
        for (level, line) in logged {
            bytes.push(*level);
            put_bytes(&mut bytes, line);
        }
        bytes
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// These bytes are none.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let answer = match reader.byte()? {
            0 => Answer::Changed,
            2 => Answer::Later,
            1 => {
                let count = reader.count()?;
                let replies = (0..count).map(|_| Reply::decode(&mut reader, 0)).collect::<Result<_, _>>()?;
                let wrote = words(&mut reader)?.into_iter().map(<[u8]>::to_vec).collect();
                let count = reader.count()?;
                let line = |_| Ok((reader.byte()?, reader.bytes()?.to_vec()));
                let logged = (0..count).map(line).collect::<Result<_, Malformed>>()?;
                Answer::Done { replies, wrote, logged }
            }
            _ => return Err(Malformed),
        };
        if reader.is_empty() { Ok(answer) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_come_back_and_parts_of_them_are_refused() {
        let script = |text, is_read_only| Item::Script {
            text,
            is_read_only,
            keys: vec![b"k", b""],
            arguments: vec![b"a"],
        };
        let mut items = vec![Item::Command(vec![b"GET", b"k"])];
        for text in [Text::Whole(b"return 1"), Text::Keep(b"return 2"), Text::Kept(b"0a1b")] {
            items.extend([script(text, true), script(text, false)]);
        }
        let request = Request { seed: 7, clock: 8, home: 9, watched: vec![(b"w", 9)], items };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Ok(request));
        for length in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..length]), Err(Malformed));
        }
        let done = Answer::Done {
            replies: vec![Reply::OK, Reply::Null],
            wrote: vec![b"k".to_vec()],
            logged: vec![(3, b"line".to_vec())],
        };
        for answer in [Answer::Changed, Answer::Later, done] {
            let bytes = answer.encode();
            assert_eq!(Answer::decode(&bytes), Ok(answer));
            for length in 0..bytes.len() {
                assert_eq!(Answer::decode(&bytes[..length]), Err(Malformed));
            }
        }
        assert_eq!(Answer::decode(&[3]), Err(Malformed));
    }
}
