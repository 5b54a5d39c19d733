//! `PFADD`, `PFCOUNT`, `PFMERGE`: how many different elements there are, about, in 12 kilobytes at most.
//!
//! The value is a string in the format of Redis, so that each can read what the other has written. A count is never remembered in it, because `PFCOUNT` only reads.

mod hash;
mod registers;

use registers::{Fault, Registers};

use crate::database::Database;
use crate::layout::{Header, Kind};
use crate::reply::{Fail, Replied, Reply, fail, text};
use crate::strings::encoding;

impl From<Fault> for Fail {
    fn from(fault: Fault) -> Self {
        Fail::Error(
            match fault {
                Fault::Other => "WRONGTYPE Key is not a valid HyperLogLog string value.",
                Fault::Damaged => "INVALIDOBJ Corrupted HLL object detected",
            }
            .to_owned(),
        )
    }
}

/// The bytes of the string of a key that is there.
fn bytes_of(database: &mut Database<'_>, key: &[u8], header: &Header) -> Result<Vec<u8>, Fail> {
    if header.kind() != Kind::String {
        return fail(text::WRONG_TYPE);
    }
    // Longer ones are none, and need not be read.
    database.substring(key, header, 0, registers::BYTES_MAX + 1)
}

/// Writes registers to a key, which keeps its expiry.
fn save(
    database: &mut Database<'_>,
    key: &[u8],
    before: Option<&Header>,
    registers: &Registers,
) -> Result<(), Fail> {
    let expiry = before.and_then(|before| before.expiry);
    database.set_encoded(key, before, &registers.encode(), (expiry, encoding::RAW))
}

pub(crate) fn pfadd(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let key = arguments[1];
    let before = database.find_to_write(key)?;
    let mut registers = match &before {
        Some(header) => Registers::decode(&bytes_of(database, key, header)?)?,
        None => Registers::default(),
    };
    let mut has_changed = before.is_none();
    for element in &arguments[2..] {
        has_changed |= registers.add(element);
    }
    if has_changed {
        save(database, key, before.as_ref(), &registers)?;
    }
    Ok(Reply::flag(has_changed))
}

/// The registers of keys together. One that is not there has none.
fn union(database: &mut Database<'_>, keys: &[&[u8]]) -> Result<Registers, Fail> {
    let mut union = Registers::default();
    for key in keys {
        if let Some(header) = database.find(key)? {
            union.merge(&Registers::decode(&bytes_of(database, key, &header)?)?);
        }
    }
    Ok(union)
}

pub(crate) fn pfcount(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    if let [_, key] = arguments
        && let Some(header) = database.find(key)?
    {
        let bytes = bytes_of(database, key, &header)?;
        let registers = Registers::decode(&bytes)?;
        // A Redis may have remembered it in what was copied from there.
        let count = registers::remembered(&bytes).unwrap_or_else(|| registers.count());
        return Ok(Reply::Integer(count as i64));
    }
    Ok(Reply::Integer(union(database, &arguments[1..])?.count() as i64))
}

pub(crate) fn pfmerge(database: &mut Database<'_>, arguments: &[&[u8]]) -> Replied {
    let merged = union(database, &arguments[1..])?;
    let before = database.find_to_write(arguments[1])?;
    save(database, arguments[1], before.as_ref(), &merged)?;
    Ok(Reply::OK)
}
