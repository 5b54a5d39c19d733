//! The client's side of the Redis protocol, written for these tests alone.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    NullArray,
    Simple(String),
    Error(String),
    Integer(i64),
    Boolean(bool),
    Double(String),
    Bulk(Vec<u8>),
    Verbatim(Vec<u8>),
    Array(Vec<Value>),
    Set(Vec<Value>),
    Map(Vec<(Value, Value)>),
    Push(Vec<Value>),
}

impl std::fmt::Display for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Bulk(bytes) => write!(formatter, "{:?}", String::from_utf8_lossy(bytes)),
            Value::Array(values) | Value::Set(values) | Value::Push(values) => {
                formatter.write_str(match self {
                    Value::Set(_) => "~[",
                    Value::Push(_) => ">[",
                    _ => "[",
                })?;
                for value in values {
                    write!(formatter, "{value}, ")?;
                }
                formatter.write_str("]")
            }
            other => write!(formatter, "{other:?}"),
        }
    }
}

/// A command as bytes.
pub(crate) fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// A client.
pub(crate) struct Client {
    pub(crate) stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// Sends commands at once, and gives the reply of each.
    pub(crate) fn pipeline(&mut self, commands: &[Vec<Vec<u8>>]) -> Vec<Value> {
        self.send(&commands.iter().flat_map(|words| encode(words)).collect::<Vec<_>>());
        commands.iter().map(|_| self.receive()).collect()
    }

    /// Sends a command of words without spaces.
    pub(crate) fn ask(&mut self, line: &str) -> Value {
        let words: Vec<Vec<u8>> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        self.pipeline(&[words]).remove(0)
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8_lossy(&line).into_owned()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes.truncate(length);
        bytes
    }

    pub(crate) fn receive(&mut self) -> Value {
        let line = self.line();
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<usize>().unwrap();
        match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(rest.parse().unwrap()),
            "," => Value::Double(rest.to_owned()),
            "#" => Value::Boolean(rest == "t"),
            "_" => Value::Null,
            "$" if rest == "-1" => Value::Null,
            "*" if rest == "-1" => Value::NullArray,
            "$" => Value::Bulk(self.bytes(count())),
            "=" => Value::Verbatim(self.bytes(count())),
            ">" => Value::Push((0..count()).map(|_| self.receive()).collect()),
            "*" => Value::Array((0..count()).map(|_| self.receive()).collect()),
            "~" => Value::Set((0..count()).map(|_| self.receive()).collect()),
            "%" => Value::Map((0..count()).map(|_| (self.receive(), self.receive())).collect()),
            other => panic!("a reply begins with {other:?}: {line:?}"),
        }
    }
}
