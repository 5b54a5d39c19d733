//! Replies of commands, before it is known which version of the Redis protocol the client speaks.

use std::borrow::Cow;

use crate::Malformed;
use crate::bytes::{Reader, put_bytes, put_number};

/// A reply. Some differ between versions 2 and 3 of the protocol; the code that writes them knows which one the client speaks.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// A line of text: `OK`.
    Simple(Cow<'static, str>),
    /// An error, which begins with its code: `ERR …`.
    Error(String),
    /// A number.
    Integer(i64),
    /// True or false, which no command replies, and scripts may; one or zero in version 2.
    Boolean(bool),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Text that is meant for people; bytes in version 2.
    Verbatim(Vec<u8>),
    /// Nothing.
    Null,
    /// No array; in version 3 nothing.
    NullArray,
    /// A number with a fraction; bytes in version 2.
    Double(f64),
    /// The same, printed without an exponent.
    Decimal(f64),
    /// Replies in their order.
    Array(Vec<Reply>),
    /// Replies without an order; an array in version 2.
    Set(Vec<Reply>),
    /// Keys and values; an array of both in turn in version 2.
    Map(Vec<(Reply, Reply)>),
    /// Arrays of two; an array of both in turn in version 2.
    Pairs(Vec<(Reply, Reply)>),
    /// Keys and values; an array of arrays of two in version 2.
    Table(Vec<(Reply, Reply)>),
}

/// How deep replies lie in each other at most.
const DEPTH_MAX: usize = 8;

impl Reply {
    /// `OK`.
    pub const OK: Reply = Reply::Simple(Cow::Borrowed("OK"));

    /// An error.
    pub fn error(text: impl Into<String>) -> Self {
        Reply::Error(text.into())
    }

    /// Bytes.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Reply::Bulk(bytes.as_ref().to_vec())
    }

    /// Bytes, or nothing.
    pub fn bulk_or_null(bytes: Option<Vec<u8>>) -> Self {
        bytes.map_or(Reply::Null, Reply::Bulk)
    }

    /// A count.
    pub fn count(count: usize) -> Self {
        Reply::Integer(count as i64)
    }

    /// One for true, zero for false.
    pub fn flag(flag: bool) -> Self {
        Reply::Integer(i64::from(flag))
    }

    /// Byte strings in their order.
    pub fn bulks(strings: impl IntoIterator<Item = Vec<u8>>) -> Self {
        Reply::Array(strings.into_iter().map(Reply::Bulk).collect())
    }

    /// True if it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// The lines of `HELP`: each subcommand with its arguments, and a sentence about it.
    pub(crate) fn help(command: &str, subcommands: &[(&str, &str)]) -> Self {
        let mut lines = vec![format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")];
        for (subcommand, sentence) in subcommands.iter().chain(&[("HELP", "These lines.")]) {
            lines.extend([(*subcommand).to_owned(), format!("    {sentence}")]);
        }
        Reply::Array(lines.into_iter().map(|line| Reply::Simple(line.into())).collect())
    }

    /// Writes it behind other bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let list = |bytes: &mut Vec<u8>, kind, replies: &[Reply]| {
            bytes.push(kind);
            put_number(bytes, replies.len() as u64);
            replies.iter().for_each(|reply| reply.encode(bytes));
        };
        let pairs = |bytes: &mut Vec<u8>, kind, pairs: &[(Reply, Reply)]| {
            bytes.push(kind);
            put_number(bytes, pairs.len() as u64);
            for (key, value) in pairs {
                key.encode(bytes);
                value.encode(bytes);
            }
        };
        let string = |bytes: &mut Vec<u8>, kind, string: &[u8]| {
            bytes.push(kind);
            put_bytes(bytes, string);
        };
        match self {
            Reply::Simple(text) => string(bytes, 0, text.as_bytes()),
            Reply::Error(text) => string(bytes, 1, text.as_bytes()),
            Reply::Integer(number) => {
                bytes.push(2);
                bytes.extend_from_slice(&number.to_be_bytes());
            }
            Reply::Boolean(flag) => bytes.extend_from_slice(&[12, u8::from(*flag)]),
            Reply::Bulk(text) => string(bytes, 3, text),
            Reply::Verbatim(text) => string(bytes, 4, text),
            Reply::Null => bytes.push(5),
            Reply::NullArray => bytes.push(6),
            Reply::Double(number) => {
                bytes.push(7);
                bytes.extend_from_slice(&number.to_bits().to_be_bytes());
            }
            Reply::Decimal(number) => {
                bytes.push(13);
                bytes.extend_from_slice(&number.to_bits().to_be_bytes());
            }
            Reply::Array(replies) => list(bytes, 8, replies),
            Reply::Set(replies) => list(bytes, 9, replies),
            Reply::Map(map) => pairs(bytes, 10, map),
            Reply::Pairs(of) => pairs(bytes, 11, of),
            Reply::Table(of) => pairs(bytes, 14, of),
        }
    }

    /// Reads one that lies this deep in others.
    ///
    /// # Errors
    /// There is none, or it lies too deep.
    pub fn decode(reader: &mut Reader<'_>, depth: usize) -> Result<Reply, Malformed> {
        if depth > DEPTH_MAX {
            return Err(Malformed);
        }
        let text =
            |reader: &mut Reader<'_>| String::from_utf8(reader.bytes()?.to_vec()).map_err(|_| Malformed);
        let list = |reader: &mut Reader<'_>| {
            let count = reader.count()?;
            (0..count).map(|_| Reply::decode(reader, depth + 1)).collect::<Result<Vec<_>, _>>()
        };
        let pairs = |reader: &mut Reader<'_>| {
            let count = reader.count()?;
            let pair = |_| Ok((Reply::decode(reader, depth + 1)?, Reply::decode(reader, depth + 1)?));
            (0..count).map(pair).collect::<Result<Vec<_>, _>>()
        };
        Ok(match reader.byte()? {
            0 => Reply::Simple(match text(reader)? {
                ok if ok == "OK" => Cow::Borrowed("OK"),
                other => Cow::Owned(other),
            }),
            1 => Reply::Error(text(reader)?),
            2 => Reply::Integer(i64::from_be_bytes(reader.fixed()?)),
            3 => Reply::Bulk(reader.bytes()?.to_vec()),
            4 => Reply::Verbatim(reader.bytes()?.to_vec()),
            5 => Reply::Null,
            6 => Reply::NullArray,
            7 => Reply::Double(f64::from_bits(reader.u64()?)),
            8 => Reply::Array(list(reader)?),
            9 => Reply::Set(list(reader)?),
            10 => Reply::Map(pairs(reader)?),
            11 => Reply::Pairs(pairs(reader)?),
            12 => match reader.byte()? {
                0 => Reply::Boolean(false),
                1 => Reply::Boolean(true),
                _ => return Err(Malformed),
            },
            13 => Reply::Decimal(f64::from_bits(reader.u64()?)),
            14 => Reply::Table(pairs(reader)?),
            _ => return Err(Malformed),
        })
    }
}

/// A command cannot be carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fail {
    /// It replies this error, and has changed nothing.
    Error(String),
    /// The store stops it.
    Stop(quorate_procedure::Stop),
}

impl From<quorate_procedure::Stop> for Fail {
    fn from(stop: quorate_procedure::Stop) -> Self {
        Fail::Stop(stop)
    }
}

/// A record makes no sense: an interactive transaction has read what never was at one time, and cannot commit.
impl From<Malformed> for Fail {
    fn from(_: Malformed) -> Self {
        Fail::Stop(quorate_procedure::Stop::Failed)
    }
}

/// The result of a command.
pub(crate) type Replied = Result<Reply, Fail>;

/// An error reply.
pub(crate) fn fail<T>(text: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Error(text.into()))
}

/// The error texts of Redis that several commands reply.
pub(crate) mod text {
    pub(crate) const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
    pub(crate) const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
    pub(crate) const NOT_FLOAT: &str = "ERR value is not a valid float";
    pub(crate) const SYNTAX: &str = "ERR syntax error";
    pub(crate) const NO_SUCH_KEY: &str = "ERR no such key";
    pub(crate) const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    pub(crate) const OVERFLOW: &str = "ERR increment or decrement would overflow";
    pub(crate) const INDEX: &str = "ERR index out of range";
    pub(crate) const OUT_OF_RANGE: &str = "ERR value is out of range";
    pub(crate) const POSITIVE: &str = "ERR value is out of range, must be positive";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_come_back() {
        let one = || Reply::Integer(-1);
        let replies = [
            Reply::OK,
            Reply::error("ERR no"),
            one(),
            Reply::bulk("a\r\nb"),
            Reply::Verbatim(b"text".to_vec()),
            Reply::Null,
            Reply::NullArray,
            Reply::Boolean(true),
            Reply::Double(1.5),
            Reply::Decimal(-0.25),
            Reply::Array(vec![one(), Reply::Array(vec![])]),
            Reply::Set(vec![one()]),
            Reply::Map(vec![(one(), Reply::Null)]),
            Reply::Pairs(vec![(one(), one())]),
            Reply::Table(vec![(one(), Reply::Null)]),
        ];
        for reply in replies {
            let mut bytes = Vec::new();
            reply.encode(&mut bytes);
            let mut reader = Reader::new(&bytes);
            assert_eq!(Reply::decode(&mut reader, 0), Ok(reply));
            assert!(reader.is_empty());
            for length in 0..bytes.len() {
                assert!(Reply::decode(&mut Reader::new(&bytes[..length]), 0).is_err());
            }
        }
        let nested: Vec<u8> = [8, 1].repeat(1_000);
        assert_eq!(Reply::decode(&mut Reader::new(&nested), 0), Err(Malformed));
    }
}
