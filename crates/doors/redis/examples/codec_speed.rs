//! The cost of reading requests: the parser of the door, and the crate `redis-protocol`.
//!
//!     cargo run --release -p quorate-redis --example codec_speed

use std::time::Instant;

use bytes::BytesMut;
use quorate_redis::codec::{Limits, Parser};

fn request(words: usize, size: usize) -> Vec<u8> {
    let mut bytes = format!("*{words}\r\n").into_bytes();
    for _ in 0..words {
        bytes.extend_from_slice(format!("${size}\r\n{}\r\n", "x".repeat(size)).as_bytes());
    }
    bytes
}

/// Feeds bytes in pieces, and counts requests.
fn feed(bytes: &[u8], piece: usize, mut next: impl FnMut(&mut BytesMut) -> bool) -> usize {
    let (mut input, mut count) = (BytesMut::new(), 0);
    for piece in bytes.chunks(piece) {
        input.extend_from_slice(piece);
        while next(&mut input) {
            count += 1;
        }
    }
    count
}

fn ours(bytes: &[u8], piece: usize) -> usize {
    let mut parser = Parser::new(Limits::default());
    feed(bytes, piece, |input| matches!(parser.next(input), Ok(Some(_))))
}

fn theirs(bytes: &[u8], piece: usize) -> usize {
    feed(bytes, piece, |input| matches!(redis_protocol::resp2::decode::decode_bytes_mut(input), Ok(Some(_))))
}

/// Parses what comes in pieces of a length; gives how many requests there were.
type Codec = fn(&[u8], usize) -> usize;

fn main() {
    let measures = [
        ("100,000 requests of 3 words, 64 KiB at a time", request(3, 10).repeat(100_000), 64 * 1024),
        ("a request of 100,000 words, 16 KiB at a time", request(100_000, 10), 16 * 1024),
    ];
    for (what, bytes, piece) in measures {
        println!("{what}");
        let sides: [(&str, Codec); 2] = [("ours", ours), ("redis-protocol", theirs)];
        for (name, side) in sides {
            let began = Instant::now();
            let count = side(&bytes, piece);
            let took = began.elapsed();
            println!("  {name}: {count} requests in {took:?}, {:?} each", took / count.max(1) as u32);
        }
    }
    let mut inline = BytesMut::from("PING\r\n");
    println!("inline: {:?}", redis_protocol::resp2::decode::decode_bytes_mut(&mut inline));
    let mut hostile = BytesMut::from("*1000000000\r\n");
    println!("a billion words: {:?}", redis_protocol::resp2::decode::decode_bytes_mut(&mut hostile));
}
