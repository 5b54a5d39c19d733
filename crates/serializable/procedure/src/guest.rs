//! The inside of a sandbox: what [`export!`](crate::export) compiles a procedure against.
//!
//! The host is asked through imported functions. None of them gives an error: if the store stops a call, the
//! host ends the call there and then, and nothing of the guest runs any more. `docs/procedures.md` has the
//! interface byte by byte.

mod raw;

use alloc::vec::Vec;
use core::fmt::Write;
use core::panic::PanicInfo;

pub use raw::Bump;

use crate::{Answer, Direction, Footprint, Pair, Procedure, Stop, Store};

/// The result of `call` for work that is done.
const DONE: i32 = 0;

/// The result of `call` for a refusal.
const REFUSED: i32 = 1;

/// The result of `footprint` for any key.
const EVERYTHING: i32 = 0;

/// The result of `footprint` for the keys and ranges that it has named.
const KEYS: i32 = 1;

/// The answer to a scan is expected to fit into this many bytes; a longer one costs a second call of the
/// host.
const SCAN_BYTES_EXPECTED: usize = 2048;

/// A value is expected to fit into this many bytes; a longer one costs a second call of the host.
const VALUE_BYTES_EXPECTED: usize = 256;

/// The store outside.
struct Outside;

impl Store for Outside {
    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        Ok(raw::get(key, VALUE_BYTES_EXPECTED))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Stop> {
        raw::put(key, value);
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), Stop> {
        raw::delete(key);
        Ok(())
    }

    fn scan(
        &mut self,
        from: &[u8],
        to: &[u8],
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Pair>, Stop> {
        let descending = direction == Direction::Descending;
        let bytes = raw::scan(from, to, limit, descending, SCAN_BYTES_EXPECTED);
        let mut rest = &bytes[..];
        let mut pairs = Vec::new();
        while let Some((pair, after)) = pair(rest) {
            pairs.push(pair);
            rest = after;
        }
        Ok(pairs)
    }
}

/// The first pair of an answer to a scan, and the rest.
fn pair(bytes: &[u8]) -> Option<(Pair, &[u8])> {
    let (key, rest) = bytes.split_first_chunk()?;
    let (value, rest) = rest.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
    let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*value) as usize)?;
    Some(((key.to_vec(), value.to_vec()), rest))
}

/// Runs a procedure, as the exported function `call` does.
pub fn call(procedure: &impl Procedure, arguments_length: usize) -> i32 {
    let arguments = raw::arguments(arguments_length);
    match procedure.call(&mut Outside, &arguments) {
        Ok(Answer::Done(bytes)) => {
            raw::answer(&bytes);
            DONE
        }
        Ok(Answer::Refused(bytes)) => {
            raw::answer(&bytes);
            REFUSED
        }
        // The host has not stopped it, or nothing would run here.
        Err(_) => raw::fail(b"the procedure has stopped itself"),
    }
}

/// Names what a call may touch, as the exported function `footprint` does.
pub fn footprint(procedure: &impl Procedure, arguments_length: usize) -> i32 {
    let arguments = raw::arguments(arguments_length);
    match procedure.footprint(&arguments) {
        Footprint::Everything => EVERYTHING,
        Footprint::Keys { keys, ranges } => {
            keys.iter().for_each(|key| raw::footprint_key(key));
            ranges.iter().for_each(|(from, to)| raw::footprint_range(from, to));
            KEYS
        }
    }
}

/// Ends a call that has panicked, and says why.
pub fn panicked(info: &PanicInfo<'_>) -> ! {
    let mut text = Text { bytes: [0; 256], length: 0 };
    // Text that does not fit is cut off, and that is no reason not to say the rest.
    let _ = write!(text, "{info}");
    raw::fail(&text.bytes[..text.length])
}

/// Text in a place of its own: the memory may be what has run out.
struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = &mut self.bytes[self.length..];
        let fitting = text.len().min(room.len());
        room[..fitting].copy_from_slice(&text.as_bytes()[..fitting]);
        self.length += fitting;
        if fitting == text.len() { Ok(()) } else { Err(core::fmt::Error) }
    }
}
