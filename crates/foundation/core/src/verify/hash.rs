//! The hash of digests: XXH64, as its specification has it. Fixed for ever, because replicas of different versions compare.

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// The XXH64 of parts that follow each other, with a seed.
pub(super) fn xxh64(seed: u64, parts: &[&[u8]]) -> u64 {
    let mut lanes = [
        seed.wrapping_add(PRIMES[0]).wrapping_add(PRIMES[1]),
        seed.wrapping_add(PRIMES[1]),
        seed,
        seed.wrapping_sub(PRIMES[0]),
    ];
    let length: usize = parts.iter().map(|part| part.len()).sum();
    // Stripes of 32 bytes; what a part leaves begins the next stripe.
    let (mut stripe, mut filled) = ([0_u8; 32], 0);
    for part in parts {
        let mut rest = *part;
        if filled > 0 {
            let taken = rest.len().min(32 - filled);
            stripe[filled..filled + taken].copy_from_slice(&rest[..taken]);
            (filled, rest) = (filled + taken, &rest[taken..]);
            if filled < 32 {
                continue;
            }
            take_stripe(&mut lanes, &stripe);
        }
        let whole = rest.chunks_exact(32);
        let left = whole.remainder();
        whole.for_each(|whole| take_stripe(&mut lanes, whole));
        stripe[..left.len()].copy_from_slice(left);
        filled = left.len();
    }
    let mut hash = if length >= 32 {
        let [a, b, c, d] = lanes;
        let sum = a.rotate_left(1).wrapping_add(b.rotate_left(7));
        let sum = sum.wrapping_add(c.rotate_left(12)).wrapping_add(d.rotate_left(18));
        lanes
            .iter()
            .fold(sum, |hash, lane| (hash ^ round(0, *lane)).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]))
    } else {
        seed.wrapping_add(PRIMES[4])
    };
    hash = hash.wrapping_add(length as u64);
    let mut rest = &stripe[..filled];
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
        rest = after;
    }
    if let Some((word, after)) = rest.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*word)).wrapping_mul(PRIMES[0]);
        hash = hash.rotate_left(23).wrapping_mul(PRIMES[1]).wrapping_add(PRIMES[2]);
        rest = after;
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIMES[4]);
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 32)
}

fn round(lane: u64, input: u64) -> u64 {
    lane.wrapping_add(input.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
}

fn take_stripe(lanes: &mut [u64; 4], stripe: &[u8]) {
    for (lane, word) in lanes.iter_mut().zip(stripe.chunks_exact(8)) {
        *lane = round(*lane, u64::from_le_bytes(word.try_into().expect("a chunk has eight bytes")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sanity buffer of the reference implementation, and what it says of its beginnings.
    #[test]
    fn the_hash_is_that_of_the_reference_implementation() {
        let mut generator: u64 = 2_654_435_761;
        let buffer: Vec<u8> = (0..222)
            .map(|_| {
                let byte = (generator >> 56) as u8;
                generator = generator.wrapping_mul(11_400_714_785_074_694_797);
                byte
            })
            .collect();
        let seed = 2_654_435_761;
        let table = [
            (0, 0, 0xef46_db37_51d8_e999),
            (0, seed, 0xac75_fda2_929b_17ef),
            (1, 0, 0xe934_a84a_db05_2768),
            (1, seed, 0x5014_6076_43a9_b4c3),
            (4, 0, 0x9136_a0dc_a574_57ee),
            (14, 0, 0x8282_dcc4_994e_35c8),
            (14, seed, 0xc3bd_6bf6_3deb_6df0),
            (222, 0, 0xb641_ae8c_b691_c174),
            (222, seed, 0x20cb_8ab7_ae10_c14a),
        ];
        for (length, seed, expected) in table {
            assert_eq!(xxh64(seed, &[&buffer[..length]]), expected, "{length} bytes, seed {seed}");
        }
        assert_eq!(xxh64(0, &[b"abc"]), 0x44bc_2cf5_ad77_0999);
    }

    #[test]
    fn parts_are_hashed_as_what_they_make_together() {
        let bytes: Vec<u8> = (0..100).collect();
        let whole = xxh64(7, &[&bytes]);
        for at in 0..=bytes.len() {
            let (one, other) = bytes.split_at(at);
            assert_eq!(xxh64(7, &[one, other]), whole, "divided at {at}");
            let (middle, last) = other.split_at(other.len() / 2);
            assert_eq!(xxh64(7, &[one, middle, &[], last]), whole, "divided at {at} and further on");
        }
    }
}
