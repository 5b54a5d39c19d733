//! Dumps of keys, which clients keep and bring back.

use quorate_core::Random;
use quorate_procedure::Memory;
use quorate_redis_commands::Reply;

use super::commands::{NOW, ask, assert_whole, carry_out, draw_words, keys_of};
use crate::Target;

pub(super) const TARGET: Target = Target {
    name: "dumps",
    what: "`RESTORE`: a dump whose checksum is right is refused, or is a key that is whole and dumps alike",
    draw,
    run,
};

/// The checksum at the end of a dump, written a second time: what is bent gets the right one, or nothing of it would be read.
fn checksum(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let hash = (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ hash >> 32
}

/// The dump of a key, without its checksum.
fn draw(random: &mut Random) -> Vec<u8> {
    let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
    // Few commands fail, but some do.
    for at in 0..20 {
        let words = draw_words(random);
        carry_out(&mut memory, at, &words);
    }
    let keys = keys_of(&mut memory);
    if keys.is_empty() {
        return Vec::new();
    }
    let key = &keys[random.index(keys.len())];
    match ask(&mut memory, &[b"dump", key]) {
        Reply::Bulk(dump) => dump[..dump.len().saturating_sub(8)].to_vec(),
        // It has expired.
        _ => Vec::new(),
    }
}

fn run(input: &[u8]) {
    let mut memory = Memory { timestamp: Some(NOW), ..Memory::default() };
    let dump = [input, &checksum(input).to_be_bytes()].concat();
    match ask(&mut memory, &[b"restore", b"k", b"0", &dump]) {
        Reply::Error(_) => assert!(memory.pairs.is_empty(), "a dump was refused, and has left something"),
        reply => {
            assert_eq!(reply, Reply::OK);
            assert_whole(&mut memory);
        }
    }
    // A dump with any other checksum is none.
    let wrong = [input, &(checksum(input) ^ 1).to_be_bytes()].concat();
    assert!(ask(&mut memory, &[b"restore", b"other", b"0", &wrong]).is_error());
}
