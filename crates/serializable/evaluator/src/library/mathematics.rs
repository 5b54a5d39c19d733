//! `math` and `bit`: what IEEE 754 defines to the last bit. Sines, logarithms and their like depend on the C library.

use super::{Values, WRONG, argument};
use crate::Halt;
use crate::machine::Machine;
use crate::natives::Native;
use crate::numbers::truncate;
use crate::operators::power;
use crate::values::Value;

/// The generator of Redis, POSIX' `lrand48`, which every script begins anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Random(u64);

impl Default for Random {
    fn default() -> Self {
        Random::new(0)
    }
}

impl Random {
    /// One that begins with this.
    pub fn new(seed: u32) -> Self {
        Random(u64::from(seed) << 16 | 0x330e)
    }

    /// A number of 31 bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & 0xffff_ffff_ffff;
        self.0 >> 17
    }
}

impl Machine<'_, '_> {
    pub(super) fn mathematics(&mut self, native: Native, arguments: &[Value]) -> Values {
        if native == Native::Random {
            return self.random(arguments);
        }
        let first = self.number(argument(arguments, 0))?;
        let number = match native {
            Native::Absolute => first.abs(),
            Native::Ceiling => first.ceil(),
            Native::Floor => first.floor(),
            Native::SquareRoot => first.sqrt(),
            Native::Remainder => first % self.number(argument(arguments, 1))?,
            Native::Power => power(first, self.number(argument(arguments, 1))?)?,
            Native::Parts if first.is_finite() => {
                return Ok(vec![Value::Number(first.trunc()), Value::Number(first - first.trunc())]);
            }
            Native::Maximum | Native::Minimum => {
                let mut found = first;
                for other in &arguments[1..] {
                    let other = self.number(other)?;
                    if if native == Native::Maximum { other > found } else { other < found } {
                        found = other;
                    }
                }
                found
            }
            Native::RandomSeed => {
                self.random = Random::new(truncate(first) as u32);
                return Ok(Vec::new());
            }
            _ => return Err(WRONG),
        };
        Ok(vec![Value::Number(number)])
    }

    fn random(&mut self, arguments: &[Value]) -> Values {
        const MAX: u64 = i32::MAX as u64;
        let part = (self.random.draw() % MAX) as f64 / MAX as f64;
        let bound = |at| self.number(argument(arguments, at)).map(|number| truncate(number) as f64);
        let (least, most) = match arguments.len() {
            0 => return Ok(vec![Value::Number(part)]),
            1 => (1.0, bound(0)?),
            2 => (bound(0)?, bound(1)?),
            _ => return Err(WRONG),
        };
        if least > most {
            return Err(WRONG);
        }
        Ok(vec![Value::Number((part * (most - least + 1.0)).floor() + least)])
    }

    pub(super) fn bits(&mut self, native: Native, arguments: &[Value]) -> Result<Value, Halt> {
        // Rounded, modulo 2³², as the library `bit` takes numbers.
        let bits = |at: usize| -> Result<u32, Halt> {
            let number = self.number(argument(arguments, at))?;
            Ok(number.round_ties_even().rem_euclid(4_294_967_296.0) as u32)
        };
        let first = bits(0)?;
        let fold =
            |of: fn(u32, u32) -> u32| (1..arguments.len()).try_fold(first, |all, at| Ok(of(all, bits(at)?)));
        let result = match native {
            Native::ToBit => first,
            Native::Complement => !first,
            Native::And => fold(|one, other| one & other)?,
            Native::Or => fold(|one, other| one | other)?,
            Native::ExclusiveOr => fold(|one, other| one ^ other)?,
            Native::ShiftLeft => first << (bits(1)? & 31),
            Native::ShiftRight => first >> (bits(1)? & 31),
            Native::ShiftArithmetic => (first as i32 >> (bits(1)? & 31)) as u32,
            _ => return Err(WRONG),
        };
        Ok(Value::Number(f64::from(result as i32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_redis() {
        let mut random = Random::default();
        let mut below = |most: f64| (random.draw() % 0x7fff_ffff) as f64 / f64::from(i32::MAX) * most;
        assert_eq!((below(100.0).floor() as i64 + 1, below(100.0).floor() as i64 + 1), (18, 75));
        assert_eq!(format!("{:.8}", below(1.0)), "0.09637166");
    }
}
