//! Counters that never fall below zero, in keyspaces that have counting sets.
//!
//! To clients a counter is a counting set of one element, whose count is its value. Its name begins with a mark, so that a counter, a set and a key of one
//! name are three things.

use crate::Key;
use crate::transaction::LimitExceeded;

/// The names of counters begin with this byte, and those of other sets do not.
const MARK: u8 = 0;

/// The element of a counter that clients change and read: its count is the value of the counter.
pub const VALUE: &[u8] = b"value";

/// The set that is the counter of this name.
pub fn set_of(counter: &[u8]) -> Key {
    let mut name = Vec::with_capacity(1 + counter.len());
    name.push(MARK);
    name.extend_from_slice(counter);
    Key::from(name.as_slice())
}

/// True if a set of this name is a counter.
pub fn is_counter(set: &[u8]) -> bool {
    set.first() == Some(&MARK)
}

/// The name of a counter, of which this is the set; none if it is no counter.
pub fn name_of(set: &[u8]) -> Option<&[u8]> {
    set.split_first().filter(|(mark, _)| **mark == MARK).map(|(_, name)| name)
}

/// Checks the name of a set that a client uses, and the element if it names one: of counters it changes and reads the value alone.
///
/// # Errors
/// The set is a counter, and the element is another one.
pub fn validate_element(set: &[u8], element: Option<&[u8]>) -> Result<(), LimitExceeded> {
    match is_counter(set) && element.is_some_and(|element| element != VALUE) {
        true => Err(LimitExceeded::CounterName),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::container_of;

    #[test]
    fn a_counter_lies_in_the_container_that_its_name_has_in_braces() {
        let set = set_of(b"{shop}/stock");
        assert!(is_counter(&set) && !is_counter(b"{shop}/stock") && !is_counter(b""));
        assert_eq!(name_of(&set), Some(b"{shop}/stock".as_slice()));
        assert_eq!(name_of(b"{shop}/stock"), None);
        assert_eq!(container_of(&set), b"shop");
    }

    #[test]
    fn clients_see_only_the_value_of_a_counter() {
        let set = set_of(b"stock");
        for (set, element, expected) in [
            (set.as_slice(), Some(VALUE), true),
            (&set, None, true),
            (&set, Some(b"x"), false),
            (b"stock", Some(b"x"), true),
        ] {
            assert_eq!(validate_element(set, element).is_ok(), expected, "{set:?} {element:?}");
        }
    }
}
