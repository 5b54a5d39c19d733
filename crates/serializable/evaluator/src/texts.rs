//! Texts that a shard keeps, so that a call names them by their digests.
//!
//! They are records of the shard, so every replica has the same ones, whatever has become of it since:
//!
//! ```text
//!   s{slot}         → the index: the digests and lengths of texts, the one that was kept first in front
//!   s{slot} digest  → a text
//! ```
//!
//! The slot is one of those that lie at the shard; doors choose the same. They lie beside the records of keys, which are not enumerated with them. A text that is not kept,
//! or not any more, is asked for.

use quorate_procedure::{Stop, Store};
use quorate_redis_commands::bytes::{Reader, put_bytes, put_number};
use quorate_redis_commands::routing_key;

use crate::sha1;

/// A shard keeps so many texts in each slot that doors choose,
const KEPT_MAX: usize = 64;

/// of so many bytes together.
const KEPT_BYTES_MAX: usize = 512 * 1024;

/// The record of the index, and the beginning of the others.
fn index_record(slot: u16) -> Vec<u8> {
    let mut record = routing_key(slot);
    record[0] = b's';
    record
}

fn text_record(slot: u16, digest: &[u8]) -> Vec<u8> {
    [index_record(slot).as_slice(), digest].concat()
}

/// The records of the index and of these texts.
pub(crate) fn records(slot: u16) -> (Vec<u8>, Vec<u8>) {
    let from = index_record(slot);
    let mut to = from.clone();
    to.push(u8::MAX);
    (from, to)
}

/// The text of this digest, if it is kept.
pub(crate) fn find(store: &mut dyn Store, slot: u16, digest: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
    store.get(&text_record(slot, digest))
}

/// Keeps a text, in place of those that were kept first where there is no room.
pub(crate) fn keep(store: &mut dyn Store, slot: u16, text: &[u8]) -> Result<(), Stop> {
    let digest = sha1::hex(text).into_bytes();
    if text.len() > KEPT_BYTES_MAX || find(store, slot, &digest)?.is_some() {
        return Ok(());
    }
    let index = store.get(&index_record(slot))?.unwrap_or_default();
    let mut kept = read_index(&index).ok_or(Stop::Failed)?;
    kept.push((digest.clone(), text.len()));
    let mut bytes: usize = kept.iter().map(|(_, length)| length).sum();
    while kept.len() > KEPT_MAX || bytes > KEPT_BYTES_MAX {
        let (oldest, length) = kept.remove(0);
        bytes -= length;
        store.delete(&text_record(slot, &oldest))?;
    }
    store.put(&text_record(slot, &digest), text)?;
    let mut index = Vec::new();
    for (digest, length) in &kept {
        put_bytes(&mut index, digest);
        put_number(&mut index, *length as u64);
    }
    store.put(&index_record(slot), &index)
}

fn read_index(bytes: &[u8]) -> Option<Vec<(Vec<u8>, usize)>> {
    let mut reader = Reader::new(bytes);
    let mut kept = Vec::new();
    while !reader.is_empty() {
        let digest = reader.bytes().ok()?.to_vec();
        kept.push((digest, usize::try_from(reader.number().ok()?).ok()?));
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use quorate_procedure::Memory;

    use super::*;

    #[test]
    fn texts_that_were_kept_first_make_room() {
        let mut store = Memory::default();
        let text = |number: usize| format!("return {number}").into_bytes();
        let digest = |number| sha1::hex(&text(number)).into_bytes();
        for number in 0..KEPT_MAX + 3 {
            keep(&mut store, 7, &text(number)).unwrap();
            keep(&mut store, 7, &text(number)).unwrap();
        }
        assert_eq!(store.pairs.len(), KEPT_MAX + 1, "with the index");
        for number in 0..KEPT_MAX + 3 {
            let found = find(&mut store, 7, &digest(number)).unwrap();
            assert_eq!(found, (number >= 3).then(|| text(number)), "{number}");
            assert_eq!(find(&mut store, 8, &digest(number)), Ok(None), "another slot keeps others");
        }
        // A long one takes the place of several.
        keep(&mut store, 7, &vec![b' '; KEPT_BYTES_MAX]).unwrap();
        assert_eq!(store.pairs.len(), 2);
        keep(&mut store, 7, &vec![b'\n'; KEPT_BYTES_MAX + 1]).unwrap();
        assert_eq!(store.pairs.len(), 2, "a longer one is not kept");
        let (from, to) = records(7);
        assert!(store.pairs.keys().all(|record| from <= *record && *record < to));
    }
}
