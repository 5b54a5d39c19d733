//! The results of increments and appends, and comparisons of numbers, for shards and for clients that carry out batches themselves.

use quorate_core::Value;
use quorate_core::transaction::VALUE_BYTES_MAX;

use crate::answer::StepFault;

/// The number that an increment leads to. A key that is absent counts as zero.
///
/// # Errors
/// The value is no number in decimal digits, or the sum does not fit into 64 bits.
pub fn incremented(value: Option<&[u8]>, by: i64) -> Result<i64, StepFault> {
    number(value).ok_or(StepFault::NotANumber)?.checked_add(by).ok_or(StepFault::Overflow)
}

/// True if a value is a number in decimal digits that is not less than this one. A key that is absent counts as zero.
pub fn is_at_least(value: Option<&[u8]>, least: i64) -> bool {
    number(value).is_some_and(|number| number >= least)
}

fn number(value: Option<&[u8]>) -> Option<i64> {
    value.map_or(Some(0), |value| std::str::from_utf8(value).ok()?.parse().ok())
}

/// The value that an append leads to. A key that is absent counts as empty.
///
/// # Errors
/// It would be longer than a value may be.
pub fn appended(value: Option<&[u8]>, more: &[u8]) -> Result<Value, StepFault> {
    let value = value.unwrap_or_default();
    if value.len() + more.len() > VALUE_BYTES_MAX {
        return Err(StepFault::TooLong);
    }
    Ok(Value::from([value, more].concat()))
}
