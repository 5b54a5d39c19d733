//! Which keys are popular.
//!
//! Zipf: the key of rank k is drawn with a probability proportional to 1 / k^s. Sampling is by rejection-inversion
//! (W. Hörmann, G. Derflinger: Rejection-inversion to generate variates from monotone discrete distributions, 1996):
//! invert the integral of the hat function x^-s, round to the next rank, reject the little that lies outside. It is
//! exact, needs no table and about one iteration for any number of keys and any exponent.

use quorate_core::Random;

/// How popularity is spread over keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// Every key is equally popular.
    Uniform,
    /// The key of rank k has a weight of 1 / k^exponent; the exponent is positive.
    Zipf(f64),
}

/// Draws the numbers 0 up to a bound with a given popularity; the smallest are the most popular.
#[derive(Clone, Debug)]
pub struct Distribution {
    count: u64,
    zipf: Option<Zipf>,
}

impl Distribution {
    /// Numbers below `count`, which must be positive.
    pub fn new(count: u64, popularity: Popularity) -> Self {
        assert!(count > 0, "a workload needs at least one key");
        let zipf = match popularity {
            Popularity::Zipf(exponent) if exponent > 0.0 => Some(Zipf::new(count, exponent)),
            _ => None,
        };
        Distribution { count, zipf }
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// One of the numbers.
    pub fn draw(&self, random: &mut Random) -> u64 {
        match &self.zipf {
            Some(zipf) => zipf.draw(random) - 1,
            None => random.below(self.count),
        }
    }

    /// So many different numbers, in the order in which they were drawn. There must be that many.
    pub fn draw_distinct(&self, random: &mut Random, wanted: usize) -> Vec<u64> {
        assert!(wanted as u64 <= self.count, "cannot choose {wanted} different keys out of {}", self.count);
        let mut drawn = Vec::with_capacity(wanted);
        while drawn.len() < wanted {
            let mut number = self.draw(random);
            // A popular number that was drawn before gives way to the next, so that a steep distribution over few
            // numbers cannot keep this loop going.
            while drawn.contains(&number) {
                number = (number + 1) % self.count;
            }
            drawn.push(number);
        }
        drawn
    }
}

#[derive(Clone, Debug)]
struct Zipf {
    count: u64,
    exponent: f64,
    /// The integral of the hat function up to one and a half, less the weight of the first rank.
    integral_first: f64,
    /// The integral of the hat function up to the last rank and a half.
    integral_last: f64,
    /// Ranks that inversion misses by no more than this need no further test.
    accept: f64,
}

impl Zipf {
    fn new(count: u64, exponent: f64) -> Self {
        let mut zipf = Zipf { count, exponent, integral_first: 0.0, integral_last: 0.0, accept: 0.0 };
        zipf.integral_first = zipf.integral(1.5) - 1.0;
        zipf.integral_last = zipf.integral(count as f64 + 0.5);
        zipf.accept = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.weight(2.0));
        zipf
    }

    /// A rank from one to the count.
    fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.integral_last + random.unit() * (self.integral_first - self.integral_last);
            let point = self.inverse(area);
            let rank = (point + 0.5).clamp(1.0, self.count as f64).floor();
            if rank - point <= self.accept || area >= self.integral(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of t^-exponent, shifted so that it is zero at one: ln x if the exponent is one.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let power = (1.0 - self.exponent) * log;
        if power.abs() < 1e-8 { log * (1.0 + power / 2.0) } else { log * power.exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        let log =
            if scaled.abs() < 1e-8 { area * (1.0 - scaled / 2.0) } else { area * scaled.ln_1p() / scaled };
        log.exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws and compares each rank's share with its exact probability.
    fn assert_follows(count: u64, exponent: f64) {
        const DRAWS: usize = 200_000;
        let distribution = Distribution::new(count, Popularity::Zipf(exponent));
        let mut random = Random::new(count ^ exponent.to_bits());
        let mut seen = vec![0usize; count as usize];
        for _ in 0..DRAWS {
            seen[distribution.draw(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=count).map(|rank| (rank as f64).powf(-exponent)).sum();
        for (at, seen) in seen.iter().enumerate() {
            let expected = DRAWS as f64 * ((at + 1) as f64).powf(-exponent) / total;
            let deviation = (*seen as f64 - expected).abs();
            assert!(deviation < 5.0 * expected.sqrt() + 5.0, "rank {at} of {count}: {seen}, not {expected}");
        }
    }

    #[test]
    fn shares_are_those_of_zipfs_law() {
        for exponent in [0.2, 0.6, 0.99, 1.0, 1.4, 3.0] {
            for count in [1, 2, 10, 100] {
                assert_follows(count, exponent);
            }
        }
    }

    #[test]
    fn a_million_keys_have_a_hot_head_and_a_long_tail() {
        let distribution = Distribution::new(1_000_000, Popularity::Zipf(0.6));
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..100_000).map(|_| distribution.draw(&mut random)).collect();
        assert!(drawn.iter().all(|number| *number < 1_000_000));
        let head = drawn.iter().filter(|number| **number < 10_000).count() as f64 / 100_000.0;
        assert!((head - 0.156).abs() < 0.01, "1% of the keys get {head} of the draws, not about 15.6%");
    }

    #[test]
    fn distinct_numbers_are_distinct_even_when_one_takes_nearly_all() {
        let distribution = Distribution::new(5, Popularity::Zipf(20.0));
        let mut random = Random::new(3);
        let mut drawn = distribution.draw_distinct(&mut random, 5);
        drawn.sort_unstable();
        assert_eq!(drawn, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn uniform_reaches_every_number() {
        let distribution = Distribution::new(7, Popularity::Uniform);
        let mut random = Random::new(3);
        let drawn: std::collections::BTreeSet<u64> =
            (0..200).map(|_| distribution.draw(&mut random)).collect();
        assert_eq!(drawn.len(), 7);
    }
}
