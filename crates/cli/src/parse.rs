//! Values of options that need more than the standard parsers.

use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Reads one of the names of a choice. Completion, hints and the tips for a misspelt one know them from clap then.
pub(crate) fn one_of<T>(names: impl IntoIterator<Item = &'static str>) -> impl TypedValueParser<Value = T>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static> + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

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

/// One of so many equal shares of a list, such as the second of four. By default all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    which: usize,
    shares: usize,
}

impl Default for Share {
    fn default() -> Self {
        Share { which: 1, shares: 1 }
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<usize>().ok();
        match text.split_once('/').map(|(which, shares)| (number(which), number(shares))) {
            Some((Some(which), Some(shares))) if (1..=shares).contains(&which) => Ok(Share { which, shares }),
            _ => Err("write which share it is of how many, like 2/4".to_owned()),
        }
    }
}

impl Share {
    /// The items of the share: every N-th one, so that shares are alike.
    pub(crate) fn of<T>(self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        items.skip(self.which - 1).step_by(self.shares)
    }
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

/// The units of durations, the greatest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads a duration: a whole number and its unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| factor);
    match (number.parse::<u64>(), factor) {
        (Ok(number), Some(factor)) if number.checked_mul(*factor).is_some() => {
            Ok(Duration::from_millis(number * factor))
        }
        _ => Err("write a whole number and its unit, like 7d, 24h, 90m, 30s or 500ms".to_owned()),
    }
}

/// Writes a duration as [`duration`] reads it, up to a millisecond.
pub(crate) fn to_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fits = |(name, factor): &(&str, u64)| {
        // A day is said as 24 hours.
        (*name != "d" || millis > *factor) && millis.is_multiple_of(*factor)
    };
    let (name, factor) = UNITS.iter().find(|unit| fits(unit)).unwrap_or(&UNITS[4]);
    format!("{}{name}", millis / factor)
}

/// Reads the version of a procedure.
pub(crate) fn version(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(version) if version > 0 => Ok(version),
        _ => Err(format!("versions are whole numbers from 1 to {}", u32::MAX)),
    }
}

/// Bytes that are given as one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

/// Reads bytes, two hexadecimal digits each.
pub(crate) fn hex(text: &str) -> Result<Bytes, String> {
    let wrong = || "write two hexadecimal digits for each byte, like 0aff".to_owned();
    if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return Err(wrong());
    }
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
    (0..text.len()).step_by(2).map(byte).collect::<Result<_, _>>().map(Bytes)
}

/// Writes bytes as [`hex`] reads them.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads where to listen: an address, a name with a port, or a port alone, which is one of this machine for itself.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    let wrong = |reason: &dyn std::fmt::Display| {
        format!("{reason}: write HOST:PORT, like 127.0.0.1:7400 or localhost:7400, or a port alone")
    };
    let found: Vec<SocketAddr> = text.to_socket_addrs().map_err(|error| wrong(&error))?.collect();
    // Clients that are told a number are told the shorter one.
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| wrong(&"the name has no address"))
}

/// Reads `FROM..TO`, a range of keys; without TO it goes to the end.
pub(crate) fn key_range(text: &str) -> Result<(String, String), String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO, or FROM.. for everything from there")?;
    if !to.is_empty() && from >= to {
        return Err(format!("{from}..{to} is empty: the smaller key comes first"));
    }
    Ok((from.to_owned(), to.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_disjoint_and_together_everything() {
        let share = |text: &str| text.parse::<Share>().map(|share| share.of(0..7).collect::<Vec<_>>());
        assert_eq!(share("1/3"), Ok(vec![0, 3, 6]));
        assert_eq!(share("2/3"), Ok(vec![1, 4]));
        assert_eq!(share("3/3"), Ok(vec![2, 5]));
        assert_eq!(Share::default().of(0..7).count(), 7);
        for wrong in ["0/3", "4/3", "3", "a/b", "1/0"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, millis) in
            [("24h", 86_400_000), ("2d", 172_800_000), ("90s", 90_000), ("0s", 0), ("250ms", 250)]
        {
            let read = duration(text).unwrap();
            assert_eq!(read, Duration::from_millis(millis));
            assert_eq!(duration(&to_duration(read)), Ok(read), "{text}");
        }
        assert_eq!(to_duration(Duration::from_secs(86_400)), "24h");
        for wrong in ["", "5", "h", "1.5h", "-1s", "1w", "99999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

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
    fn bytes_are_read_and_written() {
        assert_eq!(hex("00ffA0"), Ok(Bytes(vec![0, 255, 160])));
        assert_eq!(hex(""), Ok(Bytes(Vec::new())));
        assert_eq!(to_hex(&[0, 255, 160]), "00ffa0");
        for text in ["0", "0g", "+1", "é", "0x00"] {
            assert!(hex(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_numbers_names_or_ports() {
        let read = |text| address(text).map(|address| address.to_string());
        for text in ["127.0.0.1:7400", "[::1]:7400", "0.0.0.0:0"] {
            assert_eq!(read(text), Ok(text.to_owned()));
        }
        assert_eq!(read("6390"), Ok("127.0.0.1:6390".to_owned()));
        let local = address("localhost:6390").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 6390, "{local}");
        for wrong in ["", "localhost", "127.0.0.1", "127.0.0.1:70000", "70000", "-1", ":"] {
            assert!(read(wrong).is_err_and(|told| told.contains("HOST:PORT")), "{wrong}");
        }
    }

    #[test]
    fn ranges_of_keys_ascend() {
        assert_eq!(key_range("a..b"), Ok(("a".to_owned(), "b".to_owned())));
        assert_eq!(key_range("a.."), Ok(("a".to_owned(), String::new())));
        for text in ["a", "b..a", "a..a", ""] {
            assert!(key_range(text).is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_stay_within_their_bounds() {
        assert_eq!(version("1"), Ok(1));
        assert!(version("0").is_err() && version("4294967296").is_err() && version("v1").is_err());
        assert_eq!(positive("3"), Ok(3));
        assert!(positive("0").is_err() && positive("-1").is_err() && positive("x").is_err());
        assert_eq!(exponent("0.6"), Ok(0.6));
        assert!(exponent("-1").is_err() && exponent("nan").is_err() && exponent("11").is_err());
    }
}
