//! The seeded generator that machines and the simulator draw from.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014), written out here because the trace of a seed must stay the same for ever:
//! an upgrade of a library must not change which execution a seed in a bug report names.

/// A small, fast generator; the same seed gives the same numbers on every platform and in every version.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator whose numbers are all derived from `seed`.
    pub const fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// One of many generators that a seed names, whose numbers are independent of those of every other name. So a new draw
    /// takes a name of its own and changes no older one.
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a (Fowler, Noll and Vo), like the generator, must stay the same for ever.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Random::new(Random::new(seed).next_u64() ^ hash).fork()
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must be positive.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number lies below zero");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into a collection of `len` elements, which must not be empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number between `low` and `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with the given probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// A generator for another purpose, whose numbers are independent of what this one gives from here on.
    pub fn fork(&mut self) -> Random {
        Random::new(self.next_u64())
    }

    /// Puts the elements into a random order.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.index(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_the_same_numbers_for_ever() {
        let mut random = Random::new(42);
        let numbers = [random.next_u64(), random.next_u64(), random.next_u64()];
        assert_eq!(numbers, [13679457532755275413, 2949826092126892291, 5139283748462763858]);
    }

    #[test]
    fn streams_of_a_seed_are_the_same_for_ever_and_differ_by_name_and_seed() {
        let first = |seed, name| Random::stream(seed, name).next_u64();
        assert_eq!(first(42, "trades"), first(42, "trades"));
        assert_ne!(first(42, "trades"), first(42, "costs"));
        assert_ne!(first(42, "trades"), first(43, "trades"));
        assert_eq!(first(42, "trades"), 3215124557744942229);
        // A coin of each: what one stream says is no hint at what another does.
        let agree = (0..10_000)
            .filter(|seed| Random::stream(*seed, "a").chance(0.5) == Random::stream(*seed, "b").chance(0.5));
        assert!((4_800..5_200).contains(&agree.count()));
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        let mut random = Random::new(7);
        for _ in 0..1_000 {
            assert!(random.below(3) < 3);
            assert!((5..=9).contains(&random.between(5, 9)));
            assert!((0.0..1.0).contains(&random.unit()));
        }
    }
}
