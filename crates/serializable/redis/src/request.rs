//! Requests to the procedure and its answers: the bytes between a door and a shard.

use crate::Malformed;
use crate::bytes::{Reader, put_bytes, put_number};
use crate::reply::Reply;

/// The first byte of requests: a shard refuses those of another version.
const VERSION: u8 = 1;

/// Commands that are one transaction, as far as they concern one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Where what is drawn at random begins: commands draw from nothing else, so that all replicas draw the same.
    pub seed: u64,
    /// The clock of the door, in microseconds since the Unix epoch, of a request that is answered from a snapshot; else zero. A snapshot is as old as what its
    /// shard has executed last, and time stands still there while nothing is written.
    pub clock: u64,
    /// The watched keys, each with its mark of then: unless all have it still, nothing is done.
    pub watched: Vec<(&'a [u8], Mark)>,
    /// The commands, each with its name and its arguments.
    pub commands: Vec<Vec<&'a [u8]>>,
}

/// Tells what a key holds from what it has held at other times.
pub type Mark = u64;

/// The result of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A watched key has changed. Nothing was done.
    Changed,
    /// Something that it reads has expired by the clock of the door, and not by the timestamp of the snapshot: whether it is there, an entry in the log tells. Ask
    /// without a clock.
    Later,
    /// The reply of each command.
    Replies(Vec<Reply>),
}

impl<'a> Request<'a> {
    /// The request as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.seed.to_be_bytes());
        bytes.extend_from_slice(&self.clock.to_be_bytes());
        put_number(&mut bytes, self.watched.len() as u64);
        for (key, mark) in &self.watched {
            put_bytes(&mut bytes, key);
            bytes.extend_from_slice(&mark.to_be_bytes());
        }
        put_number(&mut bytes, self.commands.len() as u64);
        for command in &self.commands {
            put_number(&mut bytes, command.len() as u64);
            command.iter().for_each(|argument| put_bytes(&mut bytes, argument));
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
        let mut watched = Vec::new();
        for _ in 0..reader.count()? {
            watched.push((reader.bytes()?, reader.u64()?));
        }
        let mut commands = Vec::new();
        for _ in 0..reader.count()? {
            let count = reader.count()?;
            let command = (0..count).map(|_| reader.bytes()).collect::<Result<Vec<_>, _>>()?;
            if command.is_empty() {
                return Err(Malformed);
            }
            commands.push(command);
        }
        if reader.is_empty() { Ok(Request { seed, clock, watched, commands }) } else { Err(Malformed) }
    }
}

impl Answer {
    /// The answer as bytes.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Answer::Changed => vec![0],
            Answer::Later => vec![2],
            Answer::Replies(replies) => {
                let mut bytes = vec![1];
                put_number(&mut bytes, replies.len() as u64);
                replies.iter().for_each(|reply| reply.encode(&mut bytes));
                bytes
            }
        }
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
                Answer::Replies(replies)
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
        let request = Request {
            seed: 7,
            clock: 8,
            watched: vec![(b"w", 9)],
            commands: vec![vec![b"SET", b"k", b""], vec![b"GET", b"k"]],
        };
        let bytes = request.encode();
        assert_eq!(Request::decode(&bytes), Ok(request));
        for length in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..length]), Err(Malformed));
        }
        for answer in [Answer::Changed, Answer::Later, Answer::Replies(vec![Reply::OK, Reply::Null])] {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
        assert_eq!(Answer::decode(&[]), Err(Malformed));
    }
}
