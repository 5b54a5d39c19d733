//! Values of options that need more than the standard parsers.

use std::ops::RangeInclusive;

/// Reads `A..B`, both ends included, or one number.
pub(crate) fn inclusive_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| format!("\"{text}\" is not a number"));
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last.strip_prefix('=').unwrap_or(last))?),
        None => (number(text)?, number(text)?),
    };
    if first > last {
        return Err(format!("{first}..{last} is empty: both ends belong to it, the smaller one first"));
    }
    Ok(first..=last)
}

/// Reads a number of at least one.
pub(crate) fn positive(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("it must be a whole number of at least 1".to_owned()),
    }
}

/// Reads the exponent of a Zipf distribution; zero is uniform.
pub(crate) fn exponent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(exponent) if (0.0..=10.0).contains(&exponent) => Ok(exponent),
        _ => Err("it must be a number between 0 (uniform) and 10".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_range_belong_to_it() {
        assert_eq!(inclusive_range("1..2000"), Ok(1..=2000));
        assert_eq!(inclusive_range("7"), Ok(7..=7));
        assert_eq!(inclusive_range("3..3"), Ok(3..=3));
        assert_eq!(inclusive_range("3..=5"), Ok(3..=5));
        for text in ["", "a", "1..", "..2", "5..4", "1...3", "-1..2"] {
            assert!(inclusive_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        assert_eq!(positive("3"), Ok(3));
        assert!(positive("0").is_err() && positive("-1").is_err() && positive("x").is_err());
        assert_eq!(exponent("0.6"), Ok(0.6));
        assert!(exponent("-1").is_err() && exponent("nan").is_err() && exponent("11").is_err());
    }
}
