//! Numbers and their digits, as C reads and prints them.

use crate::Halt;

/// A number as it stands in a script.
pub(crate) fn literal(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return hexadecimal(digits);
    }
    decimal(text)
}

fn hexadecimal(digits: &str) -> Option<f64> {
    // More digits than a double has: C rounds them, or takes the greatest number, depending on where they stand.
    const DIGITS_MAX: usize = 13;
    let is_plain = !digits.is_empty()
        && digits.len() <= DIGITS_MAX
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_plain { u64::from_str_radix(digits, 16).ok().map(|number| number as f64) } else { None }
}

/// Digits with a point, an exponent and a sign, as far as each is there.
fn decimal(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain =
        unsigned.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if is_plain && unsigned.bytes().any(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// A string as a number; none if it is none.
///
/// # Errors
/// It may be one to some C libraries, and none to others.
pub(crate) fn of_string(text: &[u8]) -> Result<Option<f64>, Halt> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let Ok(text) = std::str::from_utf8(text) else { return Ok(None) };
    let text = text.trim_matches(|character: char| u8::try_from(character).is_ok_and(|byte| is_space(&byte)));
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let begins =
        |prefix: &str| unsigned.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix));
    // A string of C ends at its first zero.
    if text.contains('\0') || begins("0x") || begins("inf") || begins("nan") {
        return Err(Halt::Unfit("a string may be a number in hexadecimal digits, infinite, or none"));
    }
    Ok(decimal(text))
}

/// The number as `printf("%.{digits}g")` prints it.
///
/// # Errors
/// It is not a number: platforms disagree on its sign.
pub(crate) fn general(number: f64, digits: usize) -> Result<String, Halt> {
    if number.is_nan() {
        return Err(Halt::Unfit("what is no number is printed"));
    }
    if number.is_infinite() {
        return Ok(if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() });
    }
    let digits = digits.max(1);
    let scientific = format!("{number:.precision$e}", precision = digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..digits as i32).contains(&exponent) {
        let places = (digits as i32 - 1 - exponent).max(0) as usize;
        return Ok(trim_zeros(&format!("{number:.places$}")).to_owned());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Ok(format!("{}e{sign}{:02}", trim_zeros(mantissa), exponent.abs()))
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

/// The number as a string of Lua.
///
/// # Errors
/// It is not a number.
pub(crate) fn text(number: f64) -> Result<String, Halt> {
    if number == 0.0 && number.is_sign_negative() {
        return Err(Halt::Unfit("a negative zero is printed"));
    }
    // Whole numbers of up to 14 digits are printed as they are.
    if number.abs() < 1e14 && number.trunc() == number {
        return Ok((number as i64).to_string());
    }
    general(number, 14)
}

/// The whole part of a number, as the C of a 64-bit machine converts it.
pub(crate) fn truncate(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_c_prints_them() {
        for (number, expected) in [
            (0.0, "0"),
            (1e15, "1e+15"),
            (99_999_999_999_999.0, "99999999999999"),
            (1e14, "1e+14"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.33333333333333"),
            (-2.5e-7, "-2.5e-07"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(text(number), Ok(expected.to_owned()));
        }
        assert!(text(f64::NAN).is_err(), "its sign depends on the machine");
        assert!(text(-0.0).is_err(), "constants of Lua are zero or its negative, whichever came first");
    }

    #[test]
    fn strings_are_numbers_where_every_c_library_says_so() {
        for (text, expected) in [
            ("10", Some(10.0)),
            (" -1.5e2\n", Some(-150.0)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("", None),
            ("+", None),
            ("1 2", None),
            ("1e", None),
            ("ten", None),
            ("--1", None),
        ] {
            assert_eq!(of_string(text.as_bytes()), Ok(expected), "{text:?}");
        }
        for text in ["0x10", "-inf", "NaN"] {
            assert!(of_string(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(literal(b"0xff"), Some(255.0));
        assert_eq!(literal(b"3..2"), None);
    }
}
