//! Arguments that are numbers and words.

use crate::layout::STRING_BYTES_MAX;
use crate::reply::{Fail, fail, text};

/// Reads a decimal number as Redis does: no space, no `+`, no zeros in front.
pub(crate) fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    let is_canonical = match digits {
        [b'0'] => bytes.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !is_canonical {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Reads a number with a fraction as `strtod` does, without space around it.
pub(crate) fn float(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number: f64 = text.parse().ok()?;
    let is_infinity = text.trim_start_matches(['+', '-']).to_ascii_lowercase().starts_with("inf");
    if number.is_nan() || number.is_infinite() && !is_infinity { None } else { Some(number) }
}

/// A number that an argument has to be.
pub(crate) fn integer_argument(bytes: &[u8]) -> Result<i64, Fail> {
    integer(bytes).map_or_else(|| fail(text::NOT_INTEGER), Ok)
}

/// A number with a fraction that an argument has to be.
pub(crate) fn float_argument(bytes: &[u8]) -> Result<f64, Fail> {
    float(bytes).map_or_else(|| fail(text::NOT_FLOAT), Ok)
}

/// A number that is not negative.
pub(crate) fn positive_argument(bytes: &[u8]) -> Result<usize, Fail> {
    match integer(bytes) {
        Some(number) => usize::try_from(number).or_else(|_| fail(text::POSITIVE)),
        None => fail(text::POSITIVE),
    }
}

/// True if an argument is this word, in letters of either case.
pub(crate) fn is_word(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// A number as `printf("%.17g")` prints it.
pub fn print_double(number: f64) -> String {
    const DIGITS: i32 = 17;
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let scientific = format!("{number:.16e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..DIGITS).contains(&exponent) {
        let fixed = format!("{number:.places$}", places = (DIGITS - 1 - exponent).max(0) as usize);
        return trim_zeros(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs())
}

/// A number with up to 17 digits behind the point, and no exponent.
pub fn print_decimal(number: f64) -> String {
    let text = format!("{number:.17}");
    let text = trim_zeros(&text);
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The bounds of a part that an argument gives with negative numbers counted from the end: the first, and the first behind it.
pub(crate) fn bounds(start: i64, end: i64, length: usize) -> (usize, usize) {
    let length = length as i64;
    let from_end = |at: i64| if at < 0 { length.saturating_add(at).max(0) } else { at };
    let (start, end) = (from_end(start), if end < 0 { length.saturating_add(end) } else { end });
    if start > end || start >= length || end < 0 {
        return (0, 0);
    }
    (start as usize, end.min(length - 1) as usize + 1)
}

/// An offset of bits within what a string may hold.
pub(crate) fn bit_offset(bytes: &[u8], width: Option<u32>) -> Result<usize, Fail> {
    const INVALID: &str = "ERR bit offset is not an integer or out of range";
    let (digits, factor) = match (bytes.strip_prefix(b"#"), width) {
        (Some(digits), Some(width)) => (digits, i64::from(width)),
        _ => (bytes, 1),
    };
    let offset = integer(digits).and_then(|number| number.checked_mul(factor));
    match offset.and_then(|offset| usize::try_from(offset).ok()) {
        Some(offset) if offset >> 3 < STRING_BYTES_MAX => Ok(offset),
        _ => fail(INVALID),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_one_way() {
        for (text, number) in [("0", 0), ("-1", -1), ("9223372036854775807", i64::MAX)] {
            assert_eq!(integer(text.as_bytes()), Some(number));
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "1.0", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn floats_are_printed_as_c_does() {
        for (number, text) in [
            (3.0, "3"),
            (3.1, "3.1000000000000001"),
            (1e21, "1e+21"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.0001, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (-0.0, "-0"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(print_double(number), text);
        }
        for (number, text) in
            [(13.361_389_338_970_184, "13.36138933897018433"), (1e20, "100000000000000000000"), (-0.0, "0")]
        {
            assert_eq!(print_decimal(number), text);
        }
        assert_eq!(float(b"1e400"), None);
        assert_eq!(float(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(float(b"nan"), None);
    }

    #[test]
    fn bounds_count_from_either_end() {
        for ((start, end), expected) in [
            ((0, -1), (0, 5)),
            ((-3, -2), (2, 4)),
            ((3, 1), (0, 0)),
            ((-100, 1), (0, 2)),
            ((5, 9), (0, 0)),
            ((0, -100), (0, 0)),
        ] {
            assert_eq!(bounds(start, end, 5), expected, "{start} {end}");
        }
    }
}
