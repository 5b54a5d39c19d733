//! What an increment and an append lead to, for shards and for clients that take these steps themselves.

use quorate_core::Value;
use quorate_core::transaction::VALUE_BYTES_MAX;

use crate::answer::StepFault;

/// The number that an increment leads to. A key that is absent counts as zero.
///
/// # Errors
/// The value is no number in decimal digits, or the sum does not fit into 64 bits.
pub fn incremented(value: Option<&[u8]>, by: i64) -> Result<i64, StepFault> {
    let number = value.map_or(Some(0), |value| std::str::from_utf8(value).ok()?.parse().ok());
    let number: i64 = number.ok_or(StepFault::NotANumber)?;
    number.checked_add(by).ok_or(StepFault::Overflow)
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
