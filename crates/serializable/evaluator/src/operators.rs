//! Operators between values: numbers, and the order of numbers and strings.

use crate::machine::Machine;
use crate::syntax::Binary;
use crate::values::Value;
use crate::{Halt, numbers};

impl Machine<'_, '_> {
    /// A number, or digits.
    pub(crate) fn number(&self, value: &Value) -> Result<f64, Halt> {
        let number = match value {
            Value::Number(number) => Some(*number),
            Value::String(string) => numbers::of_string(string)?,
            _ => None,
        };
        number.ok_or(Halt::Unfit("a number is missing"))
    }

    pub(crate) fn binary(&mut self, operator: Binary, left: &Value, right: &Value) -> Result<Value, Halt> {
        match operator {
            Binary::Equal => return Ok(Value::Boolean(left.equals(right))),
            Binary::Unequal => return Ok(Value::Boolean(!left.equals(right))),
            Binary::Less => return self.is_less(left, right).map(Value::Boolean),
            Binary::Greater => return self.is_less(right, left).map(Value::Boolean),
            Binary::LessOrEqual => return self.is_at_most(left, right).map(Value::Boolean),
            Binary::GreaterOrEqual => return self.is_at_most(right, left).map(Value::Boolean),
            _ => {}
        }
        let (left, right) = (self.number(left)?, self.number(right)?);
        Ok(Value::Number(match operator {
            Binary::Add => left + right,
            Binary::Subtract => left - right,
            Binary::Multiply => left * right,
            Binary::Divide => left / right,
            Binary::Modulo => left - (left / right).floor() * right,
            _ => power(left, right)?,
        }))
    }

    pub(crate) fn is_less(&mut self, left: &Value, right: &Value) -> Result<bool, Halt> {
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => Ok(left < right),
            (Value::String(left), Value::String(right)) => {
                self.spend(left.len().min(right.len()) as u64 / 64)?;
                Ok(left < right)
            }
            _ => Err(Halt::Unfit("what has no order is compared")),
        }
    }

    fn is_at_most(&mut self, left: &Value, right: &Value) -> Result<bool, Halt> {
        match (left, right) {
            (Value::Number(left), Value::Number(right)) => Ok(left <= right),
            (Value::String(_), Value::String(_)) => self.is_less(right, left).map(|is_less| !is_less),
            _ => Err(Halt::Unfit("what has no order is compared")),
        }
    }
}

/// A power that is exact: of whole numbers, as long as no bit is lost. The powers of others depend on the library of C.
pub(crate) fn power(base: f64, exponent: f64) -> Result<f64, Halt> {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    const INEXACT: Halt = Halt::Unfit("a power is not exact");
    if base.trunc() != base || exponent.trunc() != exponent || !(0.0..=64.0).contains(&exponent) {
        return Err(INEXACT);
    }
    let power = (0..exponent as u32).try_fold(1.0, |power, _| {
        let power: f64 = power * base;
        (power.abs() <= EXACT_MAX || base == 2.0).then_some(power)
    });
    power.ok_or(INEXACT)
}
