//! The functions that scripts call by name, as far as they come to the same on every machine.
//!
//! A function that would raise an error gives up instead: the interpreter of the door knows the words.

mod json;
mod mathematics;
mod redis;
mod strings;
mod tables;

use crate::Halt;
use crate::machine::Machine;
use crate::natives::Native;
use crate::numbers;
use crate::values::Value;

pub use mathematics::Random;
pub(crate) use strings::Matches;

pub(crate) type Values = Result<Vec<Value>, Halt>;

/// The errors of Lua itself, whichever.
const WRONG: Halt = Halt::Unfit("a function gets arguments that it does not take");

/// The argument at this position, counted from zero; nil behind the last.
fn argument(arguments: &[Value], at: usize) -> &Value {
    arguments.get(at).unwrap_or(&Value::Nil)
}

/// A table that an argument has to be.
fn table(arguments: &[Value], at: usize) -> Result<usize, Halt> {
    match argument(arguments, at) {
        Value::Table(table) => Ok(*table),
        _ => Err(WRONG),
    }
}

impl Machine<'_, '_> {
    /// A whole number that an argument has to be: C cuts others, or rounds them.
    fn integer(&self, arguments: &[Value], at: usize) -> Result<i64, Halt> {
        let number = self.number(argument(arguments, at))?;
        if number.trunc() == number && number.abs() < 2_147_483_648.0 {
            Ok(number as i64)
        } else {
            Err(WRONG)
        }
    }

    /// The same, or another one where nothing is given.
    fn integer_or(&self, arguments: &[Value], at: usize, otherwise: i64) -> Result<i64, Halt> {
        if argument(arguments, at).is_nil() { Ok(otherwise) } else { self.integer(arguments, at) }
    }

    /// A string that an argument has to be, or a number as one.
    fn text(&self, arguments: &[Value], at: usize) -> Result<std::sync::Arc<[u8]>, Halt> {
        match argument(arguments, at) {
            Value::String(string) => Ok(std::sync::Arc::clone(string)),
            Value::Number(number) => Ok(numbers::text(*number)?.into_bytes().into()),
            _ => Err(WRONG),
        }
    }

    /// Calls a function of a library.
    pub(crate) fn call_native(&mut self, native: Native, arguments: Vec<Value>) -> Values {
        match native {
            Native::Assert if argument(&arguments, 0).is_true() => Ok(arguments),
            Native::Assert => Err(Halt::Unfit("an assertion fails")),
            Native::ProtectedCall => {
                let mut arguments = arguments;
                if arguments.is_empty() {
                    return Err(WRONG);
                }
                let callee = arguments.remove(0);
                // Any error ends the run.
                let mut values = self.call(&callee, arguments)?;
                values.insert(0, Value::Boolean(true));
                Ok(values)
            }
            Native::Select => self.select(arguments),
            native => self.call_plain(native, &arguments),
        }
    }

    fn call_plain(&mut self, native: Native, arguments: &[Value]) -> Values {
        Ok(vec![match native {
            Native::Type if !arguments.is_empty() => self.string(arguments[0].type_name())?,
            Native::ToString if !arguments.is_empty() => self.string_of(&arguments[0])?,
            Native::ToNumber if !arguments.is_empty() => self.number_of(arguments)?,
            Native::RawEqual if arguments.len() >= 2 => Value::Boolean(arguments[0].equals(&arguments[1])),
            Native::RawGet => self.tables[table(arguments, 0)?].get(argument(arguments, 1)),
            Native::RawSet => {
                let target = table(arguments, 0)?;
                self.set(target, argument(arguments, 1), argument(arguments, 2).clone())?;
                Value::Table(target)
            }
            Native::Ipairs => {
                return Ok(vec![Value::IpairsStep, Value::Table(table(arguments, 0)?), Value::Number(0.0)]);
            }
            Native::Pairs => {
                return Ok(vec![Value::Native(Native::Next), Value::Table(table(arguments, 0)?), Value::Nil]);
            }
            Native::Next => {
                let next = self.tables[table(arguments, 0)?].next(argument(arguments, 1))?;
                return Ok(next.map_or_else(|| vec![Value::Nil], |(key, value)| vec![key, value]));
            }
            Native::Unpack => return self.unpack(arguments),
            native => return self.call_library(native, arguments),
        }])
    }

    fn call_library(&mut self, native: Native, arguments: &[Value]) -> Values {
        match native {
            Native::And
            | Native::Or
            | Native::ExclusiveOr
            | Native::Complement
            | Native::ToBit
            | Native::ShiftLeft
            | Native::ShiftRight
            | Native::ShiftArithmetic => Ok(vec![self.bits(native, arguments)?]),
            Native::Absolute
            | Native::Ceiling
            | Native::Floor
            | Native::Remainder
            | Native::Maximum
            | Native::Minimum
            | Native::Parts
            | Native::Power
            | Native::Random
            | Native::RandomSeed
            | Native::SquareRoot => self.mathematics(native, arguments),
            Native::Encode | Native::Decode => self.json(native, arguments),
            Native::Call
            | Native::TryCall
            | Native::ErrorReply
            | Native::StatusReply
            | Native::Digest
            | Native::Log
            | Native::ReplicateCommands => self.redis(native, arguments),
            Native::Byte
            | Native::Char
            | Native::Find
            | Native::Format
            | Native::EachMatch
            | Native::Replace
            | Native::Length
            | Native::Lower
            | Native::Match
            | Native::Repeat
            | Native::Reverse
            | Native::Part
            | Native::Upper => self.strings(native, arguments),
            Native::Concatenate | Native::Count | Native::Insert | Native::Remove | Native::Sort => {
                self.list_function(native, arguments)
            }
            _ => Err(WRONG),
        }
    }

    fn select(&mut self, mut arguments: Vec<Value>) -> Values {
        let count = arguments.len() as i64;
        if let Some(Value::String(sign)) = arguments.first()
            && sign.first() == Some(&b'#')
        {
            return Ok(vec![Value::Number((count - 1) as f64)]);
        }
        let from = self.integer(&arguments, 0)?;
        let from = if from < 0 { count + from } else { from.min(count) };
        if from < 1 {
            return Err(WRONG);
        }
        Ok(arguments.split_off(from as usize))
    }

    fn unpack(&mut self, arguments: &[Value]) -> Values {
        let from = table(arguments, 0)?;
        let first = self.integer_or(arguments, 1, 1)?;
        let last = match argument(arguments, 2) {
            Value::Nil => self.tables[from].length()? as i64,
            _ => self.integer(arguments, 2)?,
        };
        self.spend(u64::try_from(last.saturating_sub(first)).unwrap_or(0))?;
        Ok((first..=last).map(|at| self.tables[from].get(&Value::Number(at as f64))).collect())
    }

    fn string_of(&mut self, value: &Value) -> Result<Value, Halt> {
        match value {
            Value::Nil => self.string("nil"),
            Value::Boolean(flag) => self.string(flag.to_string()),
            Value::Number(number) => self.string(numbers::text(*number)?),
            Value::String(_) => Ok(value.clone()),
            _ => Err(Halt::Unfit("the address of a table or a function is printed")),
        }
    }

    fn number_of(&mut self, arguments: &[Value]) -> Result<Value, Halt> {
        if self.integer_or(arguments, 1, 10)? != 10 {
            return Err(Halt::Unfit("a number with another base is read"));
        }
        let number = match &arguments[0] {
            Value::Number(number) => Some(*number),
            Value::String(string) => numbers::of_string(string)?,
            _ => None,
        };
        Ok(number.map_or(Value::Nil, Value::Number))
    }
}
