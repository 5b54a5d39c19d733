//! The output that people see: tables and diagrams on standard output, progress on standard error.

#[macro_use]
mod standard;
mod command;
pub(crate) mod help;
mod patience;
mod progress;
pub(crate) mod sequence;
mod table;
mod tips;

pub(crate) use command::WithCommand;
pub(crate) use patience::say_if_slow;
pub(crate) use progress::Progress;
pub(crate) use standard::{Piped, failure, print, tell, write};
pub(crate) use table::{Align, Table, terminal_columns};
pub(crate) use tips::harmless;

/// A number with its thousands apart: `1 234 567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A duration in microseconds in the unit that suits it.
pub(crate) fn micros(micros: u64) -> String {
    match micros {
        0..=9_999 => format!("{micros} µs"),
        10_000..=9_999_999 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// Prints one JSON object, the whole standard output of a command with `--json`.
pub(crate) fn print_json(value: &impl serde::Serialize) -> Result<(), crate::exit::Failure> {
    let text = serde_json::to_string(value).map_err(crate::exit::Failure::failed)?;
    outln!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1 000");
        assert_eq!(thousands(1_234_567), "1 234 567");
        assert_eq!(micros(340), "340 µs");
        assert_eq!(micros(101_250), "101.2 ms");
        assert_eq!(micros(12_000_000), "12.0 s");
    }
}
