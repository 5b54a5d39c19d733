//! `rmw`: read one key and write it (TAPIR paper, section 7.3).

use quorate_core::Random;

use crate::operation::{Operation, Plan};
use crate::social::Place;
use crate::zipf::Distribution;

/// The next transaction: a read-modify-write of one key.
pub fn draw(keys: &Distribution, place: &Place, random: &mut Random) -> Plan {
    Plan { kind: "rmw", operations: vec![Operation::Update(place.draw_key(keys, random))] }
}
