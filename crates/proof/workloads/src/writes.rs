//! `writes`: write one key, and read nothing.
//!
//! They show what a commit costs by itself: one request where a protocol needs no reads before it. A client that stands somewhere writes keys that are
//! at home there.

use std::ops::Range;

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::social::Place;
use crate::zipf::Distribution;

/// The next transaction: a write of one key.
pub fn draw(keys: &Distribution, place: &Place, random: &mut Random) -> Plan {
    Plan { kind: "write", operations: vec![Operation::Put(place.draw_key(keys, random))] }
}

/// A transaction that writes the keys with these numbers: what is there before a measurement begins.
pub fn population(numbers: Range<u64>) -> Plan {
    Plan { kind: "populate", operations: numbers.map(|number| Operation::Put(numbered(number))).collect() }
}
