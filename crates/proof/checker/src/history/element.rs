//! Elements of counting sets: a history spells them as numbers or as text.
//!
//! Both are numbers within the checker. A number stands for itself; text is numbered in the order of first appearances, from below all numbers
//! that may be written. Objects of JSON have text alone for names, so text that spells a number, as JSON writes it, is that number.

use std::fmt;

use super::intern::NameTable;
use super::{VALUE_BOUND, Value};

/// The number that a spelling stands for by itself.
fn number(spelling: &str) -> Option<Value> {
    let value: Value = spelling.parse().ok()?;
    (value.unsigned_abs() < VALUE_BOUND.unsigned_abs() && value.to_string() == spelling).then_some(value)
}

/// The element that stands for the text with this number.
fn text(id: u32) -> Value {
    Value::MIN + Value::from(id)
}

/// The number of the text that an element stands for.
fn text_id(element: Value) -> Option<u32> {
    let id = (element < -VALUE_BOUND).then(|| u32::try_from(element - Value::MIN).ok());
    id.flatten()
}

impl NameTable {
    /// The element that is spelled so.
    pub(crate) fn element(&mut self, spelling: &str) -> Value {
        number(spelling).unwrap_or_else(|| text(self.intern(spelling)))
    }

    /// The same element in another table.
    pub(crate) fn element_of(&mut self, names: &NameTable, element: Value) -> Value {
        match text_id(element).filter(|id| (*id as usize) < names.len()) {
            Some(id) => text(self.intern(names.name(id))),
            None => element,
        }
    }

    /// An element as the history spells it.
    pub(crate) fn spelled(&self, element: Value) -> Spelled<'_> {
        match text_id(element).filter(|id| (*id as usize) < self.len()) {
            Some(id) => Spelled::Text(self.name(id)),
            None => Spelled::Number(element),
        }
    }
}

/// An element as a history spells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelled<'a> {
    /// A number.
    Number(Value),
    /// Text.
    Text(&'a str),
}

impl fmt::Display for Spelled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spelled::Number(number) => write!(f, "{number}"),
            Spelled::Text(text) => write!(f, "{text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_spells_a_number_is_that_number() {
        let mut names = NameTable::default();
        for (spelling, element) in [("0", 0), ("-7", -7), ("9007199254740991", VALUE_BOUND - 1)] {
            assert_eq!(names.element(spelling), element);
            assert_eq!(names.spelled(element), Spelled::Number(element));
        }
        assert_eq!(names.len(), 0);
        // No tool writes these for numbers that it keeps exact.
        for spelling in ["", "ada", "07", "+7", "7.0", "-0", "9007199254740992", "-9223372036854775808"] {
            let element = names.element(spelling);
            assert!(element < -VALUE_BOUND, "{spelling}");
            assert_eq!(names.element(spelling), element);
            assert_eq!(names.spelled(element), Spelled::Text(spelling));
        }
        assert_eq!(names.len(), 8);
    }

    #[test]
    fn an_element_keeps_its_spelling_in_another_table() {
        let (mut one, mut other) = (NameTable::default(), NameTable::default());
        let elements = ["ada", "bob", "7"].map(|spelling| one.element(spelling));
        other.element("bob");
        let moved = elements.map(|element| other.element_of(&one, element));
        let spelled = moved.map(|element| other.spelled(element).to_string());
        assert_eq!(spelled, ["ada", "bob", "7"]);
    }
}
