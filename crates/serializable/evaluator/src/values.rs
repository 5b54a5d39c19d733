//! Values of scripts, and tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Halt;
use crate::natives::{Library, Native};

/// A value. Tables, functions and cells are named by their numbers in the run that they belong to.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Nil,
    Boolean(bool),
    Number(f64),
    String(Arc<[u8]>),
    Table(usize),
    Function(usize),
    Native(Native),
    Library(Library),
    /// In a register alone: the variable lives in this cell.
    Cell(usize),
    /// The function that goes from match to match.
    Matches(usize),
    /// That which goes through a list.
    IpairsStep,
}

impl Value {
    pub(crate) fn string(bytes: impl AsRef<[u8]>) -> Self {
        Value::String(bytes.as_ref().into())
    }

    /// True if a condition holds.
    pub(crate) fn is_true(&self) -> bool {
        !matches!(self, Value::Nil | Value::Boolean(false))
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil)
    }

    /// As `type` names it.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Boolean(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Table(_) | Value::Library(_) => "table",
            Value::Function(_)
            | Value::Native(_)
            | Value::Matches(_)
            | Value::IpairsStep
            | Value::Cell(_) => "function",
        }
    }

    /// True if both are the same.
    pub(crate) fn equals(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Nil, Value::Nil) | (Value::IpairsStep, Value::IpairsStep) => true,
            (Value::Boolean(one), Value::Boolean(other)) => one == other,
            (Value::Number(one), Value::Number(other)) => one == other,
            (Value::String(one), Value::String(other)) => one == other,
            (Value::Table(one), Value::Table(other))
            | (Value::Function(one), Value::Function(other))
            | (Value::Matches(one), Value::Matches(other)) => one == other,
            (Value::Native(one), Value::Native(other)) => one == other,
            (Value::Library(one), Value::Library(other)) => one == other,
            _ => false,
        }
    }
}

/// The key of a field that is no string and no element of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Other {
    Boolean(bool),
    /// The bits of a number that is not zero with a sign.
    Number(u64),
    Table(usize),
    Function(usize),
}

/// A table: a list from 1 on, and fields.
///
/// The order in which Lua goes through fields depends on how it keeps them, and so does the length of a list with gaps. Neither is asked for here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    list: Vec<Value>,
    /// How many elements of the list are nil; the last one is not.
    gaps: usize,
    strings: BTreeMap<Arc<[u8]>, Value>,
    others: BTreeMap<Other, Value>,
    /// True once it has had a field, or a gap in the list: its order is that of Lua's hash table since.
    is_mixed: bool,
}

const UNORDERED: Halt = Halt::Unfit("the order of a table is asked for");

impl Table {
    pub(crate) fn of_list(list: Vec<Value>) -> Self {
        let mut table = Table::default();
        table.gaps = list.iter().filter(|value| value.is_nil()).count();
        table.is_mixed = table.gaps > 0;
        table.list = list;
        table.trim();
        table
    }

    /// Takes nils from the end of the list.
    fn trim(&mut self) {
        while self.list.last().is_some_and(Value::is_nil) {
            self.list.pop();
            self.gaps -= 1;
        }
    }

    /// The element at a position, counted from 1.
    pub(crate) fn at(&self, position: usize) -> Value {
        position.checked_sub(1).and_then(|at| self.list.get(at)).cloned().unwrap_or(Value::Nil)
    }

    pub(crate) fn named(&self, name: &[u8]) -> Value {
        self.strings.get(name).cloned().unwrap_or(Value::Nil)
    }

    pub(crate) fn get(&self, key: &Value) -> Value {
        match key {
            Value::String(name) => self.named(name),
            Value::Number(number) => match position(*number) {
                Some(at) if at <= self.list.len() => self.at(at),
                _ => self.other(&Other::Number(bits(*number))),
            },
            key => other(key).map_or(Value::Nil, |key| self.other(&key)),
        }
    }

    fn other(&self, key: &Other) -> Value {
        self.others.get(key).cloned().unwrap_or(Value::Nil)
    }

    /// Sets a field, or an element of the list; nil removes it. True if there is one more.
    ///
    /// # Errors
    /// This cannot be a key.
    pub(crate) fn set(&mut self, key: &Value, value: Value) -> Result<bool, Halt> {
        match key {
            Value::String(name) => {
                // Even a nil takes a place in Lua's table.
                self.is_mixed = true;
                if value.is_nil() {
                    self.strings.remove(name);
                    return Ok(false);
                }
                Ok(self.strings.insert(Arc::clone(name), value).is_none())
            }
            Value::Number(number) => match position(*number) {
                Some(at) if at <= self.list.len() => {
                    self.set_in_list(at, value);
                    Ok(false)
                }
                Some(at) if at == self.list.len() + 1 => Ok(self.append(value)),
                _ if number.is_nan() => Err(Halt::Unfit("a table is indexed with what is no number")),
                _ => Ok(self.set_other(Other::Number(bits(*number)), value)),
            },
            key => match other(key) {
                Some(key) => Ok(self.set_other(key, value)),
                None => Err(Halt::Unfit("a table is indexed with nil, or with what shards do not know")),
            },
        }
    }

    fn set_in_list(&mut self, at: usize, value: Value) {
        let (was_nil, is_nil) = (self.list[at - 1].is_nil(), value.is_nil());
        self.gaps = self.gaps + usize::from(is_nil) - usize::from(was_nil);
        self.list[at - 1] = value;
        self.trim();
        self.is_mixed |= self.gaps > 0;
    }

    fn append(&mut self, value: Value) -> bool {
        if value.is_nil() {
            self.is_mixed = true;
            return false;
        }
        self.list.push(value);
        // Elements behind it that came before.
        while !self.others.is_empty() {
            let next = Other::Number(bits((self.list.len() + 1) as f64));
            let Some(value) = self.others.remove(&next) else { break };
            self.list.push(value);
        }
        true
    }

    fn set_other(&mut self, key: Other, value: Value) -> bool {
        self.is_mixed = true;
        if value.is_nil() {
            self.others.remove(&key);
            return false;
        }
        self.others.insert(key, value).is_none()
    }

    /// The length of the list.
    ///
    /// # Errors
    /// It has gaps: then it may be one of several.
    pub(crate) fn length(&self) -> Result<usize, Halt> {
        let has_more = || {
            self.others
                .keys()
                .any(|key| matches!(key, Other::Number(bits) if position(f64::from_bits(*bits)).is_some()))
        };
        if self.gaps > 0 || has_more() {
            Err(Halt::Unfit("the length of a list with gaps is asked for"))
        } else {
            Ok(self.list.len())
        }
    }

    /// The key and the value behind a key, where nil is before the first; none behind the last.
    ///
    /// # Errors
    /// Only Lua's own table knows the order.
    pub(crate) fn next(&self, key: &Value) -> Result<Option<(Value, Value)>, Halt> {
        if self.list.is_empty() && self.strings.len() + self.others.len() <= 1 {
            let Some((first, value)) = self.only_field() else { return Ok(None) };
            return match key {
                Value::Nil => Ok(Some((first, value))),
                key if key.equals(&first) => Ok(None),
                _ => Err(UNORDERED),
            };
        }
        if self.is_mixed {
            return Err(UNORDERED);
        }
        let behind = match key {
            Value::Nil => 1,
            Value::Number(number) => match position(*number) {
                Some(at) if at <= self.list.len() => at + 1,
                _ => return Err(UNORDERED),
            },
            _ => return Err(UNORDERED),
        };
        Ok(self.list.get(behind - 1).map(|value| (Value::Number(behind as f64), value.clone())))
    }

    fn only_field(&self) -> Option<(Value, Value)> {
        if let Some((name, value)) = self.strings.first_key_value() {
            return Some((Value::String(Arc::clone(name)), value.clone()));
        }
        let (key, value) = self.others.first_key_value()?;
        let key = match *key {
            Other::Boolean(flag) => Value::Boolean(flag),
            Other::Number(bits) => Value::Number(f64::from_bits(bits)),
            Other::Table(number) => Value::Table(number),
            Other::Function(number) => Value::Function(number),
        };
        Some((key, value.clone()))
    }

    /// The list, to be sorted or changed as a whole.
    ///
    /// # Errors
    /// It has gaps.
    pub(crate) fn list_mut(&mut self) -> Result<&mut Vec<Value>, Halt> {
        self.length()?;
        Ok(&mut self.list)
    }
}

/// The position in a list that a number stands for, if it can be one.
fn position(number: f64) -> Option<usize> {
    /// No list is longer.
    const POSITION_MAX: f64 = 1e9;
    (number >= 1.0 && number <= POSITION_MAX && number.trunc() == number).then_some(number as usize)
}

fn bits(number: f64) -> u64 {
    // Zero is the same key with either sign.
    (number + 0.0).to_bits()
}

fn other(key: &Value) -> Option<Other> {
    match key {
        Value::Boolean(flag) => Some(Other::Boolean(*flag)),
        Value::Table(number) => Some(Other::Table(*number)),
        Value::Function(number) => Some(Other::Function(*number)),
        _ => None,
    }
}
