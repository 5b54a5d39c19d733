//! The values that are drawn at random, and how (sections 2.1.6 and 4.3.2).

use alloc::string::String;
use alloc::vec::Vec;

/// Where random numbers come from.
pub trait Source {
    /// The next 64 random bits.
    fn next_u64(&mut self) -> u64;
}

impl<F: FnMut() -> u64> Source for F {
    fn next_u64(&mut self) -> u64 {
        self()
    }
}

/// A number between both, which are included.
pub fn between(random: &mut dyn Source, low: u32, high: u32) -> u32 {
    let count = u64::from(high - low) + 1;
    low + ((u128::from(random.next_u64()) * u128::from(count)) >> 64) as u32
}

/// True in so many of a hundred cases.
pub fn percent(random: &mut dyn Source, percent: u32) -> bool {
    between(random, 1, 100) <= percent
}

/// The constants of a run that make the favourites of a non-uniform distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constants {
    /// For last names.
    pub last_name: u32,
    /// For numbers of customers.
    pub customer: u32,
    /// For numbers of items.
    pub item: u32,
}

impl Constants {
    /// Draws those of the population.
    pub fn of_population(random: &mut dyn Source) -> Self {
        Constants {
            last_name: between(random, 0, 255),
            customer: between(random, 0, 1_023),
            item: between(random, 0, 8_191),
        }
    }

    /// Draws those of a run over a population: its last names are neither too near nor too far (section
    /// 2.1.6.1).
    pub fn of_run(random: &mut dyn Source, population: &Constants) -> Self {
        loop {
            let drawn = Constants::of_population(random);
            let distance = drawn.last_name.abs_diff(population.last_name);
            if (65..=119).contains(&distance) && distance != 96 && distance != 112 {
                return drawn;
            }
        }
    }
}

/// A number between both, some of which are drawn far more often: `NURand(A, x, y)` with the constant `C`.
pub fn non_uniform(random: &mut dyn Source, a: u32, c: u32, low: u32, high: u32) -> u32 {
    let spread = between(random, 0, a) | between(random, low, high);
    (spread + c) % (high - low + 1) + low
}

/// The syllables of last names.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// The last name of a number below a thousand: a syllable for each digit.
pub fn last_name(number: u32) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10].map(|digit| SYLLABLES[digit as usize]).concat()
}

/// Letters and digits.
pub fn text(random: &mut dyn Source, shortest: u32, longest: u32) -> Vec<u8> {
    const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    drawn_from(random, LETTERS, (shortest, longest))
}

/// Digits.
pub fn digits(random: &mut dyn Source, length: u32) -> Vec<u8> {
    drawn_from(random, b"0123456789", (length, length))
}

fn drawn_from(random: &mut dyn Source, letters: &[u8], (shortest, longest): (u32, u32)) -> Vec<u8> {
    let length = between(random, shortest, longest);
    (0..length).map(|_| letters[between(random, 0, letters.len() as u32 - 1) as usize]).collect()
}

/// The mark in the text of an original item or stock.
pub const ORIGINAL: &[u8] = b"ORIGINAL";

/// A text of 26 to 50 letters, a tenth of which are original.
pub fn maybe_original(random: &mut dyn Source) -> Vec<u8> {
    let mut data = text(random, 26, 50);
    if percent(random, 10) {
        let at = between(random, 0, (data.len() - ORIGINAL.len()) as u32) as usize;
        data[at..at + ORIGINAL.len()].copy_from_slice(ORIGINAL);
    }
    data
}

/// True if a text is marked as original.
pub fn is_original(data: &[u8]) -> bool {
    data.windows(ORIGINAL.len()).any(|part| part == ORIGINAL)
}

/// A zip code: four digits, and the same five for all.
pub fn zip(random: &mut dyn Source) -> Vec<u8> {
    let mut zip = digits(random, 4);
    zip.extend_from_slice(b"11111");
    zip
}
