//! How keys are named.

use bytes::BufMut;
use quorate_core::{Key, counter};

/// The key with this number of a workload over numbered keys: `k` and ten digits, so that names sort like numbers.
pub fn numbered(number: u64) -> Key {
    let mut name = Vec::with_capacity(11);
    name.put_u8(b'k');
    put_digits(&mut name, number, 10);
    Key::from(name.as_slice())
}

/// The key in a slot of a generation of the [`lists`](crate::lists) workload: its type, six digits and three digits.
/// The keys of one generation and type are neighbours.
pub fn slotted(kind: u8, generation: u64, slot: u64) -> Key {
    let mut name = Vec::with_capacity(12);
    name.put_u8(kind);
    put_digits(&mut name, generation, 6);
    name.put_u8(b'-');
    put_digits(&mut name, slot, 3);
    Key::from(name.as_slice())
}

/// The element of a counting set with this number, so that elements sort like numbers.
pub(crate) fn element(number: i64) -> Key {
    Key::from(format!("{:016x}", number.cast_unsigned()))
}

/// The number of the value of a counter in a history. No other element has it.
pub(crate) const VALUE: i64 = 0;

/// The number of an element; none if no workload has named it. The name of an object goes on with its owner.
pub(crate) fn number_of(element: &Key) -> Option<i64> {
    if element == counter::VALUE {
        return Some(VALUE);
    }
    let (digits, owner) = std::str::from_utf8(element).ok()?.split_at_checked(16)?;
    if !owner.is_empty() && !owner.starts_with(OWNED) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok().map(u64::cast_signed)
}

/// The separator of the number of an object and its owner.
pub(crate) const OWNED: char = '@';

/// The key as a history spells it; a counter after a mark.
pub fn in_history(key: &Key) -> quorate_checker::Key {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    quorate_checker::Key::from(
        counter::name_of(key).map_or_else(|| text(key), |name| format!("{COUNTER}{}", text(name))),
    )
}

/// The names of counters begin with it in a history.
pub const COUNTER: char = '#';

fn put_digits(name: &mut Vec<u8>, number: u64, width: u32) {
    let mut divisor = 10u64.pow(width - 1);
    while number / divisor >= 10 {
        divisor *= 10;
    }
    while divisor > 0 {
        name.put_u8(b'0' + (number / divisor % 10) as u8);
        divisor /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_a_table() {
        assert_eq!(numbered(0), "k0000000000");
        assert_eq!(numbered(1_234_567), "k0001234567");
        assert_eq!(numbered(98_765_432_109), "k98765432109");
        assert_eq!(slotted(b'l', 12, 7), "l000012-007");
    }

    #[test]
    fn elements_are_named_by_their_numbers() {
        for number in [0, 7, 1 << 40, i64::MAX] {
            assert_eq!(number_of(&element(number)), Some(number));
        }
        assert!(element(9) < element(10));
        let others = ["x", "zzzzzzzzzzzzzzzz", "0000000000000007x"];
        assert_eq!(others.map(|other| number_of(&other.into())), [None; 3]);
        assert_eq!(number_of(&"0000000000000007@u3".into()), Some(7));
    }

    #[test]
    fn names_sort_like_numbers() {
        let names: Vec<Key> = [0, 9, 10, 99, 1_000, 999_999].map(numbered).to_vec();
        assert!(names.is_sorted());
    }
}
