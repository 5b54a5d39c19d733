//! Numbers with a mantissa of 64 bits, as `INCRBYFLOAT` adds them.
//!
//! Redis adds with the `long double` of its C compiler, which is the extended format of x87 on the machines that most run it on, and prints 17 digits
//! behind the point. Its output shows the format: `0.1 + 0.2` is `0.3` there, and would not be with the 64 bits of `f64`. So the format is
//! calculated here, in integers, the same on every processor.

use std::cmp::Ordering;

/// A number `mantissa × 2^exponent`, or infinite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongDouble {
    is_negative: bool,
    /// Its highest bit is set, unless the number is zero.
    mantissa: u64,
    exponent: i32,
    is_infinite: bool,
}

/// Exponents of the extended format end here.
const EXPONENT_MAX: i32 = 16_383;

/// The longest text of a number, in bytes.
const TEXT_BYTES_MAX: usize = 5 * 1024;

impl LongDouble {
    /// Reads a number as `strtold` does, without space around it: decimal, or infinite.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        if text.is_empty() || text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(LongDouble { is_negative, mantissa: 0, exponent: 0, is_infinite: true });
        }
        let (mut digits, mut power, mut has_point, mut has_digits) =
            (Natural::default(), 0_i64, false, false);
        let mut rest = text;
        while let [byte, behind @ ..] = rest {
            match byte {
                b'0'..=b'9' => {
                    digits.multiply_and_add(10, u32::from(byte - b'0'));
                    has_digits = true;
                    power -= i64::from(has_point);
                }
                b'.' if !has_point => has_point = true,
                _ => break,
            }
            rest = behind;
        }
        if !has_digits {
            return None;
        }
        if let [b'e' | b'E', behind @ ..] = rest {
            let exponent: i64 = std::str::from_utf8(behind).ok()?.parse().ok()?;
            power = power.checked_add(exponent)?;
            rest = b"";
        }
        if !rest.is_empty() {
            return None;
        }
        Self::of_decimal(is_negative, digits, power)
    }

    /// `digits × 10^power`; none if that is out of range.
    fn of_decimal(is_negative: bool, mut digits: Natural, power: i64) -> Option<Self> {
        const POWER_MAX: i64 = 10_000;
        if digits.bits() == 0 {
            return Some(LongDouble { is_negative, mantissa: 0, exponent: 0, is_infinite: false });
        }
        if !(-POWER_MAX..=POWER_MAX).contains(&power) {
            return None;
        }
        let (mut shift, mut has_rest) = (0, false);
        if power >= 0 {
            (0..power).for_each(|_| digits.multiply_and_add(10, 0));
        } else {
            // As many bits are left as rounding looks at: a power of ten has less than four each.
            shift = (power.unsigned_abs() * 4 + 70) as usize;
            digits.shift_left(shift);
            (0..-power).for_each(|_| has_rest |= digits.divide(10) != 0);
        }
        let (mantissa, exponent) = digits.round(has_rest);
        let exponent = exponent - shift as i32;
        let is_in_range = (-EXPONENT_MAX..=EXPONENT_MAX).contains(&(exponent + 63));
        is_in_range.then_some(LongDouble { is_negative, mantissa, exponent, is_infinite: false })
    }

    /// The sum, rounded to the nearest number; none if it is not finite.
    pub(crate) fn add(self, other: Self) -> Option<Self> {
        if self.is_infinite || other.is_infinite {
            return None;
        }
        let (greater, lesser) = match (self.mantissa, other.mantissa) {
            (_, 0) => (self, other),
            (0, _) => (other, self),
            _ if (self.exponent, self.mantissa) >= (other.exponent, other.mantissa) => (self, other),
            _ => (other, self),
        };
        let distance = (greater.exponent - lesser.exponent).unsigned_abs();
        let high = u128::from(greater.mantissa) << 62;
        let mut low = u128::from(lesser.mantissa) << 62;
        if lesser.mantissa != 0 {
            let moved = low.checked_shr(distance).unwrap_or(0);
            // The bits that are moved out only say on which side of a half the sum lies.
            let has_rest = moved.checked_shl(distance) != Some(low);
            low = moved | u128::from(has_rest);
        }
        let sum = if greater.is_negative == lesser.is_negative { high + low } else { high - low };
        let mut whole = Natural::of(sum);
        if whole.bits() == 0 {
            return Some(LongDouble { is_negative: false, mantissa: 0, exponent: 0, is_infinite: false });
        }
        let (mantissa, exponent) = whole.round(false);
        let exponent = exponent + greater.exponent - 62;
        let is_finite = exponent + 63 <= EXPONENT_MAX;
        let sum = LongDouble { is_negative: greater.is_negative, mantissa, exponent, is_infinite: false };
        is_finite.then_some(sum)
    }

    /// With up to 17 digits behind the point, and no zeros at the end.
    pub(crate) fn print(self) -> String {
        const DIGITS: usize = 17;
        let mut scaled = Natural::of(u128::from(self.mantissa));
        (0..DIGITS).for_each(|_| scaled.multiply_and_add(10, 0));
        if self.exponent >= 0 {
            scaled.shift_left(self.exponent.unsigned_abs() as usize);
        } else {
            scaled.shift_right(self.exponent.unsigned_abs() as usize);
        }
        let mut text = scaled.digits();
        while text.len() <= DIGITS {
            text.insert(0, '0');
        }
        let fraction = text.split_off(text.len() - DIGITS);
        let fraction = fraction.trim_end_matches('0');
        if !fraction.is_empty() {
            text.push('.');
            text.push_str(fraction);
        }
        if self.is_negative && text != "0" { format!("-{text}") } else { text }
    }
}

/// A natural number of any length, in groups of 32 bits, the lowest first.
#[derive(Clone, Debug, Default)]
struct Natural {
    groups: Vec<u32>,
}

impl Natural {
    fn of(number: u128) -> Self {
        let mut natural = Natural { groups: (0..4).map(|at| (number >> (32 * at)) as u32).collect() };
        natural.trim();
        natural
    }

    fn trim(&mut self) {
        while self.groups.last() == Some(&0) {
            self.groups.pop();
        }
    }

    fn bits(&self) -> usize {
        self.groups.last().map_or(0, |last| self.groups.len() * 32 - last.leading_zeros() as usize)
    }

    fn bit(&self, at: usize) -> bool {
        self.groups.get(at / 32).is_some_and(|group| group >> (at % 32) & 1 == 1)
    }

    fn multiply_and_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for group in &mut self.groups {
            let product = u64::from(*group) * u64::from(factor) + carry;
            *group = product as u32;
            carry = product >> 32;
        }
        if carry > 0 {
            self.groups.push(carry as u32);
        }
    }

    /// Divides, and gives the rest.
    fn divide(&mut self, divisor: u32) -> u32 {
        let mut rest = 0;
        for group in self.groups.iter_mut().rev() {
            let whole = u64::from(rest) << 32 | u64::from(*group);
            *group = (whole / u64::from(divisor)) as u32;
            rest = (whole % u64::from(divisor)) as u32;
        }
        self.trim();
        rest
    }

    fn shift_left(&mut self, bits: usize) {
        self.multiply_and_add(1 << (bits % 32), 0);
        if !self.groups.is_empty() {
            self.groups.splice(0..0, std::iter::repeat_n(0, bits / 32));
        }
    }

    /// Divides by a power of two, and rounds to the nearest number, a half to the even one.
    fn shift_right(&mut self, bits: usize) {
        if bits == 0 {
            return;
        }
        let half = self.bit(bits - 1);
        let has_rest = (0..bits - 1).any(|at| self.bit(at));
        self.groups.drain(..(bits / 32).min(self.groups.len()));
        for _ in 0..bits % 32 {
            self.divide(2);
        }
        self.trim();
        if half && (has_rest || self.bit(0)) {
            if self.groups.is_empty() {
                self.groups.push(0);
            }
            self.multiply_and_add(1, 1);
        }
    }

    /// The nearest number of 64 bits times a power of two. `has_rest`: there is a little more.
    fn round(&mut self, has_rest: bool) -> (u64, i32) {
        let bits = self.bits();
        match bits.cmp(&64) {
            Ordering::Less => self.shift_left(64 - bits),
            Ordering::Equal => {}
            Ordering::Greater => {
                if has_rest && !self.bit(0) {
                    // The lowest bit lies below all that rounding looks at, so that it can stand for the rest.
                    self.groups[0] |= 1;
                }
                self.shift_right(bits - 64);
            }
        }
        let mut exponent = bits as i32 - 64;
        if self.bits() > 64 {
            self.shift_right(1);
            exponent += 1;
        }
        let group = |at: usize| u64::from(self.groups.get(at).copied().unwrap_or(0));
        (group(1) << 32 | group(0), exponent)
    }

    fn digits(mut self) -> String {
        let mut digits = Vec::new();
        while self.bits() > 0 {
            digits.push(b'0' + self.divide(10) as u8);
        }
        digits.iter().rev().map(|digit| char::from(*digit)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(one: &str, other: &str) -> String {
        let parse = |text: &str| LongDouble::parse(text.as_bytes()).unwrap();
        parse(one).add(parse(other)).unwrap().print()
    }

    #[test]
    fn sums_are_those_of_the_extended_format() {
        // As Redis 7.0 on x86-64 replies.
        for (one, other, total) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "1.1", "4.1"),
            ("1000.1", "0", "1000.09999999999999998"),
            ("1", "-1", "0"),
            ("-0", "0", "0"),
            ("-1.5", "0.25", "-1.25"),
            ("1e20", "1", "100000000000000000000"),
            ("123456789012345678901234567890", "0", "123456789012345678899921813504"),
            ("1e-20", "0", "0"),
        ] {
            assert_eq!(sum(one, other), total, "{one} + {other}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in ["", " 1", "1 ", "a", "1e", ".", "1.2.3", "nan", "--1", "1e99999"] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
        }
        for text in ["1", "+1", "-.5", "5.", "1E3", "inf", "-Infinity"] {
            assert!(LongDouble::parse(text.as_bytes()).is_some(), "{text:?}");
        }
    }
}
