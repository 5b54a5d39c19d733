//! The hash of elements: MurmurHash64A, of Austin Appleby, with the seed of Redis. Other hashes would count as well, and not the same.

const SEED: u64 = 0xadc8_3b19;
const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
const SHIFT: u32 = 47;

/// The hash of an element.
pub(super) fn hash(element: &[u8]) -> u64 {
    let mut hash = SEED ^ (element.len() as u64).wrapping_mul(FACTOR);
    let mut words = element.chunks_exact(8);
    for word in &mut words {
        let mut mixed = number(word).wrapping_mul(FACTOR);
        mixed = (mixed ^ mixed >> SHIFT).wrapping_mul(FACTOR);
        hash = (hash ^ mixed).wrapping_mul(FACTOR);
    }
    if !words.remainder().is_empty() {
        hash = (hash ^ number(words.remainder())).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

/// Up to eight bytes as a number, the lowest first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
