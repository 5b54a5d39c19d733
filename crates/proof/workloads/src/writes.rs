//! `writes`: write one key, and read nothing.
//!
//! They show what a commit costs by itself: one request where a protocol needs no reads before it. A client that stands somewhere writes keys that are
//! at home there.

use quorate_core::Random;

use crate::operation::{Operation, Plan};
use crate::social::Place;
use crate::zipf::Distribution;

/// The next transaction: a write of one key.
pub fn draw(keys: &Distribution, place: &Place, random: &mut Random) -> Plan {
    Plan { kind: "write", operations: vec![Operation::Put(place.draw_key(keys, random))] }
}
