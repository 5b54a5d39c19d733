//! Bends bytes: changes, inserts, removes, doubles and moves some of them, and puts words in that codecs look for.

use quorate_core::Random;

/// Words that mean something to one codec or another, and the numbers at which they turn.
const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"*1\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*-1\r\n",
    b"\"",
    b"'",
    b"\\",
    b"\\x",
    b"\\u0000",
    b"\\ud800",
    b"%",
    b"%00",
    b"%2f",
    b"&",
    b"?",
    b"=",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"1e999",
    b"-0",
    b"0",
    b"-1",
    b"1",
    b"255",
    b"65536",
    b"2147483648",
    b"4294967296",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"inf",
    b"nan",
    b"\0",
    b"\0\0\0\0\0\0\0\0",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xdc\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
];

/// An input is bent in so many places at most.
const PLACES_MAX: u64 = 5;

/// No input gets longer than this by being bent, in bytes.
const BYTES_MAX: usize = 256 * 1024;

pub(crate) fn bend(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..random.between(1, PLACES_MAX) {
        if bytes.is_empty() || bytes.len() > BYTES_MAX {
            return;
        }
        let (at, byte) = (random.index(bytes.len()), random.next_u64() as u8);
        let end = (at + 1 + random.index(16)).min(bytes.len());
        match random.below(9) {
            0 => bytes[at] = byte,
            1 => bytes[at] ^= 1 << (byte % 8),
            2 => bytes[at] = bytes[at].wrapping_add(if byte % 2 == 0 { 1 } else { 255 }),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let piece = bytes[at..end].to_vec();
                let to = random.index(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let word = WORDS[random.index(WORDS.len())];
                bytes.splice(at..at, word.iter().copied());
            }
            6 => {
                let word = WORDS[random.index(WORDS.len())];
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
            7 => {
                let times = 1 + random.index(64);
                let piece = bytes[at..end].repeat(times);
                bytes.splice(at..at, piece);
            }
            _ => bytes.truncate(at),
        }
    }
}
