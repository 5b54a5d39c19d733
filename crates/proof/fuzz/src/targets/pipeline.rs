//! Requests in the protocol of Redis, as they come over a connection.

use bytes::BytesMut;
use quorate_core::Random;
use quorate_redis::codec::{Limits, Parser};

use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "pipeline",
    what: "requests of the Redis protocol: alike in any pieces, and alike when they are written and read again",
    draw,
    run,
};

/// Small, so that inputs reach them.
const LIMITS: Limits = Limits { bulk_bytes_max: 5_000, arguments_max: 100, request_bytes_max: 20_000 };

/// A request as a client writes it.
pub(super) fn encode(words: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The requests in some bytes that come in pieces of these sizes, and what is wrong with the rest.
pub(super) fn decode(bytes: &[u8], limits: Limits, sizes: &[usize]) -> (Vec<Vec<Vec<u8>>>, Option<String>) {
    let (mut parser, mut input, mut requests) = (Parser::new(limits), BytesMut::new(), Vec::new());
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    loop {
        let size = sizes.next().map_or(rest.len(), |size| (*size).max(1)).min(rest.len());
        let (piece, behind) = rest.split_at(size);
        input.extend_from_slice(piece);
        rest = behind;
        loop {
            match parser.next(&mut input) {
                Ok(Some(request)) => requests.push(request.iter().map(|word| word.to_vec()).collect()),
                Ok(None) => break,
                Err(invalid) => return (requests, Some(invalid.0)),
            }
        }
        assert!(parser.kept() <= limits.request_bytes_max, "a request that has not ended keeps too much");
        if rest.is_empty() {
            return (requests, None);
        }
    }
}

fn draw(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.between(1, 6) {
        match random.below(8) {
            0 => bytes.extend_from_slice(b"set \"a\\x00\\n b\" 'c\\'d' e\r\n"),
            1 => bytes.extend_from_slice(b"PING\n"),
            2 => bytes.extend_from_slice(b"\r\n*0\r\n*-1\r\n"),
            _ => {
                let word = |random: &mut Random| {
                    let length = [0, 1, 3, 20, 64, 4_999, 5_000, 5_001][random.index(8)];
                    vec![random.next_u64() as u8; length]
                };
                let words: Vec<_> = (0..random.between(1, 5)).map(|_| word(random)).collect();
                bytes.extend(encode(&words));
            }
        }
    }
    bytes
}

fn run(input: &[u8]) {
    let whole = decode(input, LIMITS, &[]);
    // The input decides the pieces as well, so that it alone repeats a run.
    let sizes: Vec<usize> = input.iter().rev().take(8).map(|byte| usize::from(byte % 19)).collect();
    for sizes in [&sizes[..], &[1]] {
        assert_eq!(whole, decode(input, LIMITS, sizes), "in pieces of {sizes:?}");
    }
    let written: Vec<u8> = whole.0.iter().flat_map(|words| encode(words)).collect();
    // The words of a line have a bound of their own.
    assert_eq!((whole.0, None), decode(&written, Limits::default(), &[]), "written and read again");
}
