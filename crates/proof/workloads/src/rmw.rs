//! `rmw`: read one key and write it (TAPIR paper, section 7.3).

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::zipf::Distribution;

/// The next transaction: a read-modify-write of one key.
pub fn draw(keys: &Distribution, random: &mut Random) -> Plan {
    Plan { kind: "rmw", operations: vec![Operation::Update(numbered(keys.draw(random)))] }
}
