//! The registers of a HyperLogLog, and the string that Redis keeps them in.
//!
//! The string begins with `HYLL`, a byte that tells how the registers follow, three of zeros, and eight of a count that may be remembered. The registers have six bits each, the lowest first; or they are
//! told as runs, as long as that is short:
//!
//! ```text
//!   00nnnnnn             n + 1 registers of zero
//!   01nnnnnn nnnnnnnn    n + 1 registers of zero
//!   1vvvvvnn             n + 1 registers of v + 1
//! ```
//!
//! The count follows from how many registers hold each number: O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, section 4.

use super::hash::hash;

/// A register is chosen by so many bits of a hash,
const INDEX_BITS: u32 = 14;

/// of these.
const COUNT: usize = 1 << INDEX_BITS;

/// The other bits of a hash: a register holds one more at most.
const REST_BITS: u32 = 64 - INDEX_BITS;

/// A register has so many bits in a string.
const REGISTER_BITS: usize = 6;

const HEADER_BYTES: usize = 16;

/// The longest string, in bytes: that in which all registers are written out.
pub(super) const BYTES_MAX: usize = HEADER_BYTES + COUNT * REGISTER_BITS / 8;

/// Runs are told in no longer strings, in bytes,
const RUNS_BYTES_MAX: usize = 3_000;

/// and of no greater numbers.
const RUN_VALUE_MAX: u8 = 32;

const MAGIC: &[u8; 4] = b"HYLL";

/// The ways in which registers are written.
mod form {
    pub(super) const DENSE: u8 = 0;
    pub(super) const RUNS: u8 = 1;
}

/// The place of the highest byte of the count, whose highest bit says that none is remembered.
const COUNT_TOP: usize = 15;
const NOT_REMEMBERED: u8 = 0x80;

/// Why a string holds no registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is another string.
    Other,
    /// It was one.
    Damaged,
}

/// The registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    values: Vec<u8>,
    /// They have been written out once, and stay so.
    is_dense: bool,
}

impl Default for Registers {
    fn default() -> Self {
        Registers { values: vec![0; COUNT], is_dense: false }
    }
}

/// The count that is remembered in a string, whose beginning has been checked.
pub(super) fn remembered(bytes: &[u8]) -> Option<u64> {
    let count: [u8; 8] = bytes.get(8..HEADER_BYTES)?.try_into().ok()?;
    (bytes[COUNT_TOP] & NOT_REMEMBERED == 0).then(|| u64::from_le_bytes(count))
}

impl Registers {
    /// Adds an element; true if a register has changed.
    pub(super) fn add(&mut self, element: &[u8]) -> bool {
        let hash = hash(element);
        let at = hash as usize & (COUNT - 1);
        let rest = hash >> INDEX_BITS | 1 << REST_BITS;
        let value = rest.trailing_zeros() as u8 + 1;
        let is_greater = value > self.values[at];
        if is_greater {
            self.values[at] = value;
        }
        is_greater
    }

    /// Adds the elements of others.
    pub(super) fn merge(&mut self, other: &Registers) {
        for (value, other) in self.values.iter_mut().zip(&other.values) {
            *value = (*value).max(*other);
        }
        self.is_dense |= other.is_dense;
    }

    /// Reads a string.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        let (header, body) = bytes.split_at_checked(HEADER_BYTES).ok_or(Fault::Other)?;
        match header[4] {
            _ if header[..4] != *MAGIC => Err(Fault::Other),
            form::DENSE if bytes.len() == BYTES_MAX => Ok(Registers { values: dense(body), is_dense: true }),
            form::RUNS => Ok(Registers { values: runs(body).ok_or(Fault::Damaged)?, is_dense: false }),
            _ => Err(Fault::Other),
        }
    }

    /// The string. A count is not remembered in it.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[COUNT_TOP] = NOT_REMEMBERED;
        if !self.is_dense && self.values.iter().all(|value| *value <= RUN_VALUE_MAX) {
            bytes[4] = form::RUNS;
            self.write_runs(&mut bytes);
            if bytes.len() <= RUNS_BYTES_MAX {
                return bytes;
            }
            bytes.truncate(HEADER_BYTES);
        }
        bytes[4] = form::DENSE;
        // Four registers fill three bytes.
        for four in self.values.chunks_exact(4) {
            let bits = four.iter().rev().fold(0, |bits, value| bits << REGISTER_BITS | u32::from(*value));
            bytes.extend_from_slice(&bits.to_le_bytes()[..3]);
        }
        bytes
    }

    fn write_runs(&self, bytes: &mut Vec<u8>) {
        const SHORT_MAX: usize = 64;
        const VALUES_MAX: usize = 4;
        for run in self.values.chunk_by(|one, other| one == other) {
            match run[0].checked_sub(1) {
                None if run.len() <= SHORT_MAX => bytes.push(run.len() as u8 - 1),
                None => bytes.extend_from_slice(&(0x4000 | (run.len() as u16 - 1)).to_be_bytes()),
                Some(value) => bytes
                    .extend(run.chunks(VALUES_MAX).map(|part| 0x80 | value << 2 | (part.len() as u8 - 1))),
            }
        }
    }

    /// How many different elements were added, about.
    pub(super) fn count(&self) -> u64 {
        /// Half of the reciprocal of the logarithm of two.
        const ALPHA: f64 = 0.721_347_520_444_481_7;
        let of = COUNT as f64;
        let mut holding = [0_u32; 64];
        for value in &self.values {
            holding[usize::from(*value & 63)] += 1;
        }
        let full = holding[REST_BITS as usize + 1];
        let mut sum = of * tau((of - f64::from(full)) / of);
        for value in (1..=REST_BITS as usize).rev() {
            sum = (sum + f64::from(holding[value])) * 0.5;
        }
        sum += of * sigma(f64::from(holding[0]) / of);
        (ALPHA * of * of / sum).round() as u64
    }
}

/// Registers of six bits.
fn dense(body: &[u8]) -> Vec<u8> {
    let mut values = Vec::with_capacity(COUNT);
    for three in body.chunks_exact(3) {
        let bits = u32::from_le_bytes([three[0], three[1], three[2], 0]);
        values.extend((0..4).map(|at| (bits >> (at * REGISTER_BITS) & 63) as u8));
    }
    values
}

/// Registers that are told as runs; none if these are not as many as there are registers.
fn runs(body: &[u8]) -> Option<Vec<u8>> {
    let (mut values, mut rest) = (Vec::with_capacity(COUNT), body);
    while let [first, behind @ ..] = rest {
        let (value, count);
        (value, count, rest) = match first >> 6 {
            0 => (0, usize::from(first & 63) + 1, behind),
            1 => {
                let (second, behind) = behind.split_first()?;
                (0, (usize::from(first & 63) << 8 | usize::from(*second)) + 1, behind)
            }
            _ => ((first >> 2 & 31) + 1, usize::from(first & 3) + 1, behind),
        };
        if values.len() + count > COUNT {
            return None;
        }
        values.resize(values.len() + count, value);
    }
    (values.len() == COUNT).then_some(values)
}

/// The weight of the registers that hold nothing, by their part of all.
fn sigma(part: f64) -> f64 {
    if part == 1.0 {
        return f64::INFINITY;
    }
    let (mut power, mut weight, mut sum) = (part, 1.0, part);
    loop {
        power *= power;
        let before = sum;
        sum += power * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

/// The weight of the registers that are full, by the part of all others.
fn tau(part: f64) -> f64 {
    if part == 0.0 || part == 1.0 {
        return 0.0;
    }
    let (mut root, mut weight, mut sum) = (part, 1.0, 1.0 - part);
    loop {
        root = root.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - root) * (1.0 - root) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u32) -> Registers {
        let mut registers = Registers::default();
        for number in 0..count {
            registers.add(number.to_string().as_bytes());
        }
        registers
    }

    #[test]
    fn strings_come_back_short_or_long() {
        for (count, is_short) in [(0, true), (5, true), (500, true), (100_000, false)] {
            let registers = of(count);
            let bytes = registers.encode();
            assert_eq!(bytes.len() < BYTES_MAX, is_short, "{count}");
            let decoded = Registers::decode(&bytes).unwrap();
            assert_eq!(decoded.values, registers.values, "{count}");
            assert_eq!((decoded.is_dense, remembered(&bytes)), (!is_short, None));
        }
        assert_eq!(
            Registers::default().encode()[4..],
            [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80][..], &[0x7f, 0xff]].concat()
        );
        let written_out = Registers { is_dense: true, ..of(5) };
        assert_eq!(Registers::decode(&written_out.encode()), Ok(written_out));
    }

    #[test]
    fn greater_numbers_than_runs_can_tell_are_written_out() {
        let mut registers = of(3);
        registers.values[77] = RUN_VALUE_MAX + 1;
        let bytes = registers.encode();
        assert_eq!(bytes.len(), BYTES_MAX);
        assert_eq!(Registers::decode(&bytes).unwrap().values, registers.values);
    }

    #[test]
    fn counts_are_near_and_unions_are_those_of_all_elements() {
        for count in [0_u32, 1, 10, 1_000, 10_000, 200_000] {
            let counted = of(count).count();
            let error = (counted as f64 - f64::from(count)).abs();
            assert!(error <= f64::from(count) * 0.03, "{counted} of {count}");
        }
        let (mut one, other) = (of(100), of(1_000));
        one.merge(&other);
        assert_eq!(one.values, other.values);
        assert!(!one.add(b"7"), "it was there");
    }

    #[test]
    fn a_string_without_registers_is_refused() {
        let bytes = of(5).encode();
        for (damaged, fault) in [
            (b"HYLL".to_vec(), Fault::Other),
            ([b"XYLL", &bytes[4..]].concat(), Fault::Other),
            ([b"HYLL\x02", &bytes[5..]].concat(), Fault::Other),
            ([b"HYLL\x00", &bytes[5..]].concat(), Fault::Other),
            (bytes[..bytes.len() - 1].to_vec(), Fault::Damaged),
            ([&bytes[..], &[0]].concat(), Fault::Damaged),
        ] {
            assert_eq!(Registers::decode(&damaged), Err(fault), "{damaged:?}");
        }
    }
}
