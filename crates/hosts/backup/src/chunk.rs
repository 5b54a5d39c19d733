//! Chunks: stretches of the entries of a shard that are the same again where nothing has changed.
//!
//! A shard gives its entries in the order of their keys. Before which of them a chunk begins depends on the entry alone, on the hash of its key and on
//! its length, and not on what came before: so a change moves no boundary but its own, and the chunks around it are those of the backup before, bit by bit. Only
//! the least and the greatest length of a chunk look at what came before, which is forgotten a few chunks later.
//!
//! A chunk is named by the SHA-256 of its bytes and its shard; where there is a key, by the HMAC with a key that is derived from it, so that names tell nobody what is in
//! a chunk. The shard belongs to the name because each shard of some keyspaces holds the same procedures, which a restoration counts as often.

use quorate::CutEntry;
use quorate_core::verify::Checksum;
use ring::{digest, hmac};

use crate::cipher::Cipher;
use crate::segment::{Content, encode};

/// A chunk has so many bytes on average, or a little more: small enough that scattered changes leave most chunks alone, large enough that names are little beside them.
const BYTES_AIMED: u64 = 6 * 1024;

/// A chunk is ended by an entry alone once it has so many bytes.
const BYTES_MIN: usize = 2 * 1024;

/// A chunk is ended in any case once it has so many bytes.
const BYTES_MAX: usize = 64 * 1024;

/// The bytes of a name.
pub(crate) const NAME_BYTES: usize = 32;

/// The name of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkName(pub(crate) [u8; NAME_BYTES]);

/// Names chunks, and says where they begin.
#[derive(Clone)]
pub(crate) struct Names {
    key: Option<hmac::Key>,
    salt: [u8; NAME_BYTES],
}

impl std::fmt::Debug for Names {
    /// Nothing of the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Names")
    }
}

impl Names {
    /// The names that chunks have under a key, or without one.
    pub(crate) fn new(cipher: Option<&Cipher>) -> Self {
        let derived = |label| cipher.map_or([0; NAME_BYTES], |cipher| cipher.derive(label));
        let key = cipher.map(|_| hmac::Key::new(hmac::HMAC_SHA256, &derived(b"names of chunks")));
        Names { key, salt: derived(b"boundaries of chunks") }
    }

    /// The name of a chunk of a shard.
    pub(crate) fn name(&self, shard: u32, plain: &[u8]) -> ChunkName {
        let mut name = [0; NAME_BYTES];
        match &self.key {
            None => {
                let mut context = digest::Context::new(&digest::SHA256);
                context.update(&shard.to_le_bytes());
                context.update(plain);
                name.copy_from_slice(context.finish().as_ref());
            }
            Some(key) => {
                let mut context = hmac::Context::with_key(key);
                context.update(&shard.to_le_bytes());
                context.update(plain);
                name.copy_from_slice(context.sign().as_ref());
            }
        }
        ChunkName(name)
    }

    /// True if a chunk begins with an entry of this key and length, as every so-many-th byte would have it.
    fn begins(&self, entry: &CutEntry, bytes: usize) -> bool {
        let (kind, first, second): (u8, &[u8], &[u8]) = match entry {
            CutEntry::Value { key, .. } => (0, key, &[]),
            CutEntry::Count { set, element, .. } => (1, set, element),
            CutEntry::Counter { counter, .. } => (2, counter, &[]),
            CutEntry::Procedure { name, .. } => (3, name.as_bytes(), &[]),
        };
        let hash = Checksum::of(&[&self.salt, &[kind], &(first.len() as u32).to_le_bytes(), first, second]);
        hash.low % BYTES_AIMED < bytes as u64
    }
}

/// A chunk that is whole.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its entries, one after the other.
    pub(crate) plain: Vec<u8>,
    /// The content of its entries.
    pub(crate) content: Content,
}

/// Divides the entries of a shard into chunks.
#[derive(Debug)]
pub(crate) struct Chunker {
    names: Names,
    open: Vec<u8>,
    content: Content,
    entry: Vec<u8>,
}

impl Chunker {
    pub(crate) fn new(names: Names) -> Self {
        Chunker { names, open: Vec::new(), content: Content::default(), entry: Vec::new() }
    }

    /// Adds an entry, and gives the chunk that ends before it, if one does.
    pub(crate) fn add(&mut self, entry: &CutEntry) -> Option<Chunk> {
        self.entry.clear();
        let content = encode(entry, &mut self.entry);
        let is_over = self.open.len() >= BYTES_MAX
            || self.open.len() >= BYTES_MIN && self.names.begins(entry, self.entry.len());
        let whole = if is_over { self.finish() } else { None };
        self.open.extend_from_slice(&self.entry);
        self.content = self.content.plus(content);
        whole
    }

    /// The last chunk; none if nothing is open.
    pub(crate) fn finish(&mut self) -> Option<Chunk> {
        if self.open.is_empty() {
            return None;
        }
        let plain = self.open.clone();
        self.open.clear();
        Some(Chunk { plain, content: std::mem::take(&mut self.content) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use quorate_core::{Key, Value};

    use super::*;

    fn value(number: usize, bytes: usize, seed: u8) -> CutEntry {
        let value = vec![seed; bytes];
        CutEntry::Value { key: Key::from(format!("key{number:06}").as_str()), value: Value::from(value) }
    }

    fn chunks(entries: &[CutEntry], cipher: Option<&Cipher>) -> Vec<Chunk> {
        let mut chunker = Chunker::new(Names::new(cipher));
        let mut chunks: Vec<Chunk> = entries.iter().filter_map(|entry| chunker.add(entry)).collect();
        chunks.extend(chunker.finish());
        chunks
    }

    fn names(chunks: &[Chunk], shard: u32) -> BTreeSet<ChunkName> {
        let names = Names::new(None);
        chunks.iter().map(|chunk| names.name(shard, &chunk.plain)).collect()
    }

    #[test]
    fn chunks_hold_all_entries_in_order_and_have_lengths_within_bounds() {
        let entries: Vec<CutEntry> = (0..20_000).map(|number| value(number, number % 300, 1)).collect();
        let chunks = chunks(&entries, None);
        let mut whole = Vec::new();
        for entry in &entries {
            let _ = encode(entry, &mut whole);
        }
        assert_eq!(chunks.iter().flat_map(|chunk| chunk.plain.clone()).collect::<Vec<u8>>(), whole);
        assert_eq!(chunks.iter().map(|chunk| chunk.content.entries).sum::<u64>(), 20_000);
        let (last, before) = chunks.split_last().unwrap();
        assert!(!last.plain.is_empty());
        assert!(before.iter().all(|chunk| (BYTES_MIN..BYTES_MAX + 400).contains(&chunk.plain.len())));
        let mean = whole.len() / chunks.len();
        assert!((6_000..11_000).contains(&mean), "{mean}");
    }

    #[test]
    fn an_entry_larger_than_a_chunk_is_one_and_so_is_a_stretch_without_a_boundary() {
        let large: Vec<CutEntry> = (0..3).map(|number| value(number, 200_000, 1)).collect();
        assert_eq!(chunks(&large, None).len(), 3);
        assert!(chunks(&[], None).is_empty());
    }

    #[test]
    fn a_change_changes_the_chunks_around_it_alone() {
        let before: Vec<CutEntry> = (0..20_000).map(|number| value(number, 100, 1)).collect();
        let known = names(&chunks(&before, None), 0);
        for change in [
            (|entries: &mut Vec<CutEntry>| entries[7_000] = value(7_000, 100, 2)) as fn(&mut Vec<CutEntry>),
            |entries| entries[7_000] = value(7_000, 5_000, 2),
            |entries| drop(entries.remove(7_000)),
            |entries| entries.insert(7_000, value(900_000, 100, 1)),
            |entries| drop(entries.drain(..3)),
        ] {
            let mut after = before.clone();
            change(&mut after);
            let now = names(&chunks(&after, None), 0);
            let new = now.difference(&known).count();
            assert!((1..=4).contains(&new), "{new} new of {}", now.len());
        }
    }

    #[test]
    fn a_key_and_a_shard_give_chunks_other_names_and_a_key_other_boundaries() {
        let entries: Vec<CutEntry> = (0..2_000).map(|number| value(number, 100, 1)).collect();
        let (plain, cipher) = (chunks(&entries, None), Cipher::new([7; 32]));
        let lengths = |chunks: &[Chunk]| chunks.iter().map(|chunk| chunk.plain.len()).collect::<Vec<_>>();
        assert_ne!(lengths(&plain), lengths(&chunks(&entries, Some(&cipher))));
        assert!(names(&plain, 0).is_disjoint(&names(&plain, 1)));
        let named = |cipher: Option<&Cipher>| Names::new(cipher).name(0, b"x");
        let other = Cipher::new([8; 32]);
        assert_eq!(named(Some(&cipher)), named(Some(&Cipher::new([7; 32]))));
        assert_eq!(BTreeSet::from([named(None), named(Some(&cipher)), named(Some(&other))]).len(), 3);
    }
}
