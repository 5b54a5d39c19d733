//! Values of scripts.

use std::sync::Arc;

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
    /// The null of JSON.
    Null,
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
            Value::Null => "userdata",
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
            (Value::Nil, Value::Nil)
            | (Value::Null, Value::Null)
            | (Value::IpairsStep, Value::IpairsStep) => true,
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
