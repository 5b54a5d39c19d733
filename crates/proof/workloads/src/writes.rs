//! `writes`: write one key, and read nothing.
//!
//! They show what a commit costs by itself: one request where a protocol needs no reads before it.

use quorate_core::Random;

use crate::key::numbered;
use crate::operation::{Operation, Plan};
use crate::zipf::Distribution;

/// The next transaction: a write of one key.
pub fn draw(keys: &Distribution, random: &mut Random) -> Plan {
    Plan { kind: "write", operations: vec![Operation::Put(numbered(keys.draw(random)))] }
}
