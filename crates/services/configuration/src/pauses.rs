//! How long a question waits for its answer before it is asked again.
//!
//! The first pause is a guess at the round trip, and the guess may be too low. Only the last few questions of one kind are remembered, so at an
//! even pace each would be dropped before its answer comes, without end. Therefore each pause is twice as long as the one before, up to a
//! bound, and what is remembered reaches back further than the way is long.
//!
//! A share of each pause is drawn: clients that have lost one leader do not ask the next one all at the same instant.

use std::time::Duration;

use quorate_core::Random;

/// A pause is doubled so often at most.
const DOUBLINGS_MAX: u32 = 3;

/// By this share of itself a pause is longer at most, by chance.
const JITTER_MAX: f64 = 0.25;

/// The pauses of one question that is asked until it is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pauses {
    doublings: u32,
}

impl Pauses {
    /// There was no answer in time: the next pause is longer.
    pub(crate) fn lengthen(&mut self) {
        self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
    }

    /// The pause after a question that is asked now, if the first one is to be this long or a little longer.
    pub(crate) fn draw(self, first: Duration, random: &mut Random) -> Duration {
        let shortest = first * 2_u32.pow(self.doublings);
        shortest + shortest.mul_f64(JITTER_MAX * random.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_are_never_shorter_than_they_should_be() {
        let first = Duration::from_millis(100);
        let mut random = Random::new(7);
        let mut pauses = Pauses::default();
        for shortest in [100, 200, 400, 800, 800, 800].map(Duration::from_millis) {
            let drawn: Vec<Duration> = (0..200).map(|_| pauses.draw(first, &mut random)).collect();
            let within = shortest..=shortest.mul_f64(1.25);
            assert!(drawn.iter().all(|pause| within.contains(pause)), "{shortest:?}");
            // They are spread over the whole share.
            assert!(drawn.iter().any(|pause| *pause < shortest.mul_f64(1.05)), "{shortest:?}");
            assert!(drawn.iter().any(|pause| *pause > shortest.mul_f64(1.2)), "{shortest:?}");
            pauses.lengthen();
        }
    }
}
