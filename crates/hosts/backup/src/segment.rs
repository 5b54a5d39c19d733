//! Segments: entries of one shard, in blocks.
//!
//! ```text
//!   header, 64 bytes: magic (16), format (2), encrypted 1|0 (2), zero (4), backup (16), shard (4), number (4), salt (16)
//!   block:  kind 1 (1), plain length (4), stored length (4), checksum (16), stored bytes       as many as there are
//!   end:    kind 2, as a block whose bytes are: entries (8), bytes of the entries (8), sum of their hashes (16)
//! ```
//!
//! Numbers are little-endian. The checksum of a block is that of the header, of its position among the blocks, of its kind and lengths, and of the stored bytes: so a block that was
//! damaged, left out, repeated, moved, or taken from another segment or backup is found without a key. Stored bytes are entries one after the
//! other, compressed with zstd, and then sealed if the backup is encrypted. Nothing comes after the end.

use std::io::Read;

use quorate::CutEntry;
use quorate_core::verify::Checksum;
use quorate_core::{Key, Value};

use crate::cipher::Cipher;
use crate::error::{Error, Result};

/// The greatest format that is known here.
pub const FORMAT: u16 = 1;

const MAGIC: [u8; 16] = *b"quorate backup\0\n";
const HEADER_BYTES: usize = 64;
const BLOCK_HEADER_BYTES: usize = 25;
const DATA: u8 = 1;
const END: u8 = 2;

/// A block is closed once it has so many bytes.
const BLOCK_BYTES: usize = 1024 * 1024;

/// No block is longer: an entry has a key, a name and a value at most.
const PLAIN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Levels above cost more time than disks and networks take.
const COMPRESSION_LEVEL: i32 = 1;

/// Which segment it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The backup, a random number.
    pub backup: [u8; 16],
    /// The shard.
    pub shard: u32,
    /// Its number among the segments of the shard, from zero.
    pub number: u32,
}

/// The content of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    /// How many entries.
    pub entries: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
    /// The sum of their hashes: the same in whatever order they come.
    pub sum: Checksum,
}

impl Content {
    /// Adds an entry.
    pub fn add(&mut self, entry: &CutEntry) {
        let encoded = Encoded::of(entry);
        let parts = encoded.parts();
        self.entries += 1;
        self.bytes += (parts[2].len() + parts[3].len() + parts[4].len()) as u64;
        self.sum = self.sum.plus(Checksum::of(&parts));
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Content) -> Content {
        Content {
            entries: self.entries + other.entries,
            bytes: self.bytes + other.bytes,
            sum: self.sum.plus(other.sum),
        }
    }
}

/// An entry as it is written: a kind, the lengths of two parts, and these.
struct Encoded<'a> {
    kind: [u8; 1],
    lengths: [u8; 8],
    first: &'a [u8],
    /// A number at the beginning of the second part, if it has one.
    number: ([u8; 8], usize),
    second: &'a [u8],
}

const VALUE: u8 = 0;
const COUNT: u8 = 1;
const COUNTER: u8 = 2;
const PROCEDURE: u8 = 3;

impl<'a> Encoded<'a> {
    fn of(entry: &'a CutEntry) -> Self {
        let none = ([0; 8], 0);
        let (kind, first, number, second): (u8, &[u8], _, &[u8]) = match entry {
            CutEntry::Value { key, value } => (VALUE, key, none, value),
            CutEntry::Count { set, element, count } => (COUNT, set, (count.to_le_bytes(), 8), element),
            CutEntry::Counter { counter, value } => (COUNTER, counter, (value.to_le_bytes(), 8), &[]),
            CutEntry::Procedure { name, version, code } => {
                let mut number = [0; 8];
                number[..4].copy_from_slice(&version.to_le_bytes());
                (PROCEDURE, name.as_bytes(), (number, 4), code)
            }
        };
        let mut lengths = [0; 8];
        lengths[..4].copy_from_slice(&(first.len() as u32).to_le_bytes());
        lengths[4..].copy_from_slice(&((number.1 + second.len()) as u32).to_le_bytes());
        Encoded { kind: [kind], lengths, first, number, second }
    }

    fn parts(&self) -> [&[u8]; 5] {
        [&self.kind, &self.lengths, self.first, &self.number.0[..self.number.1], self.second]
    }
}

/// Writes a segment into memory, block by block.
#[derive(Debug)]
pub struct SegmentWriter {
    header: [u8; HEADER_BYTES],
    salt: [u8; 16],
    cipher: Option<Cipher>,
    blocks: u64,
    open: Vec<u8>,
    content: Content,
}

impl SegmentWriter {
    /// A segment, and the bytes that it begins with. The salt is random, and new for each segment.
    pub fn new(place: Place, salt: [u8; 16], cipher: Option<Cipher>) -> (Self, Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        header[..16].copy_from_slice(&MAGIC);
        header[16..18].copy_from_slice(&FORMAT.to_le_bytes());
        header[18] = u8::from(cipher.is_some());
        header[24..40].copy_from_slice(&place.backup);
        header[40..44].copy_from_slice(&place.shard.to_le_bytes());
        header[44..48].copy_from_slice(&place.number.to_le_bytes());
        header[48..].copy_from_slice(&salt);
        let open = Vec::with_capacity(BLOCK_BYTES);
        let writer = SegmentWriter { header, salt, cipher, blocks: 0, open, content: Content::default() };
        (writer, header.to_vec())
    }

    /// Adds an entry, and gives the bytes that are to be written, if a block is full.
    ///
    /// # Errors
    /// Compression or encryption fails.
    pub fn add(&mut self, entry: &CutEntry) -> Result<Option<Vec<u8>>> {
        for part in Encoded::of(entry).parts() {
            self.open.extend_from_slice(part);
        }
        self.content.add(entry);
        if self.open.len() < BLOCK_BYTES {
            return Ok(None);
        }
        self.close_block().map(Some)
    }

    /// The content that was added.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Ends the segment, and gives the bytes that it ends with.
    ///
    /// # Errors
    /// Compression or encryption fails.
    pub fn finish(mut self) -> Result<(Vec<u8>, Content)> {
        let mut bytes = match self.open.is_empty() {
            true => Vec::new(),
            false => self.close_block()?,
        };
        let Content { entries, bytes: length, sum } = self.content;
        let end = [entries, length, sum.low, sum.high].map(u64::to_le_bytes).concat();
        bytes.extend(self.block(END, &end)?);
        Ok((bytes, self.content))
    }

    fn close_block(&mut self) -> Result<Vec<u8>> {
        let plain = std::mem::take(&mut self.open);
        let block = self.block(DATA, &plain)?;
        self.open = plain;
        self.open.clear();
        Ok(block)
    }

    fn block(&mut self, kind: u8, plain: &[u8]) -> Result<Vec<u8>> {
        let compressed = zstd::bulk::compress(plain, COMPRESSION_LEVEL)
            .map_err(|error| Error::Unsuitable(format!("a block cannot be compressed: {error}")))?;
        let position = self.blocks;
        self.blocks += 1;
        let length = (plain.len() as u32).to_le_bytes();
        let bound = bound(&self.header, position, kind, length);
        let stored = match &self.cipher {
            None => compressed,
            Some(cipher) => cipher.seal(&nonce(self.salt, position), &bound, &compressed)?,
        };
        let stored_length = (stored.len() as u32).to_le_bytes();
        let checksum = Checksum::of(&[&bound, &stored_length, &stored]);
        let mut block = Vec::with_capacity(BLOCK_HEADER_BYTES + stored.len());
        block.push(kind);
        block.extend(length);
        block.extend(stored_length);
        block.extend(checksum.low.to_le_bytes());
        block.extend(checksum.high.to_le_bytes());
        block.extend(stored);
        Ok(block)
    }
}

/// The place of a block, with its kind and length.
fn bound(header: &[u8; HEADER_BYTES], position: u64, kind: u8, length: [u8; 4]) -> Vec<u8> {
    [&header[..], &position.to_le_bytes(), &[kind], &length].concat()
}

fn nonce(salt: [u8; 16], position: u64) -> [u8; 24] {
    let mut nonce = [0; 24];
    nonce[..16].copy_from_slice(&salt);
    nonce[16..].copy_from_slice(&position.to_le_bytes());
    nonce
}

/// Reads a segment, and gives nothing that was not checked.
#[derive(Debug)]
pub struct SegmentReader<R> {
    /// Its name, for messages.
    file: String,
    source: R,
    header: [u8; HEADER_BYTES],
    cipher: Option<Cipher>,
    blocks: u64,
    content: Content,
    is_over: bool,
}

impl<R: Read> SegmentReader<R> {
    /// Begins to read a segment, which must be this one.
    ///
    /// # Errors
    /// It is no segment, one of a later format, or another one; or the key is missing.
    pub fn new(file: &str, mut source: R, place: Place, cipher: Option<&Cipher>) -> Result<Self> {
        let mut header = [0; HEADER_BYTES];
        read(&mut source, &mut header, file, "its header")?;
        if header[..16] != MAGIC {
            return Err(Error::damaged(file, "it does not begin as a segment of a backup does"));
        }
        let format = u16::from_le_bytes([header[16], header[17]]);
        if format > FORMAT {
            return Err(Error::NewerFormat { found: format.into(), known: FORMAT.into() });
        }
        let number =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        if header[24..40] != place.backup {
            return Err(Error::damaged(file, "it belongs to another backup"));
        }
        if (number(40), number(44)) != (place.shard, place.number) {
            return Err(Error::damaged(
                file,
                format!(
                    "it is segment {} of shard {}, and stands in the place of segment {} of shard {}",
                    number(44),
                    number(40),
                    place.number,
                    place.shard
                ),
            ));
        }
        let cipher = match (header[18], cipher) {
            (0, _) => None,
            (1, Some(cipher)) => Some(cipher.clone()),
            (1, None) => return Err(Error::KeyNeeded),
            _ => return Err(Error::damaged(file, "its header is not as it was written")),
        };
        let (file, content) = (file.to_owned(), Content::default());
        Ok(SegmentReader { file, source, header, cipher, blocks: 0, content, is_over: false })
    }

    /// The entries of the next block; none after the last, once it is certain that all were there.
    ///
    /// # Errors
    /// The block is not as it was written.
    pub fn next_block(&mut self) -> Result<Option<Vec<CutEntry>>> {
        if self.is_over {
            return Ok(None);
        }
        let (kind, plain) = self.block()?;
        let position = self.blocks;
        self.blocks += 1;
        match kind {
            DATA => {
                let entries = self.entries_of(&plain, position)?;
                entries.iter().for_each(|entry| self.content.add(entry));
                Ok(Some(entries))
            }
            END => {
                let Content { entries, bytes, sum } = self.content;
                let expected = [entries, bytes, sum.low, sum.high].map(u64::to_le_bytes).concat();
                if plain != expected {
                    return Err(self.damaged("it does not end with what it holds"));
                }
                let mut rest = [0];
                let length = self.source.read(&mut rest).map_err(|error| self.damaged(error.to_string()))?;
                if length > 0 {
                    return Err(self.damaged("something stands behind its end"));
                }
                self.is_over = true;
                Ok(None)
            }
            _ => Err(self.damaged(format!("block {position} is of an unknown kind"))),
        }
    }

    /// The content that was read so far; all of it once there are no more blocks.
    pub fn content(&self) -> Content {
        self.content
    }

    fn damaged(&self, reason: impl Into<String>) -> Error {
        Error::damaged(&self.file, reason)
    }

    fn block(&mut self) -> Result<(u8, Vec<u8>)> {
        let (position, file) = (self.blocks, self.file.clone());
        let what = format!("block {position}");
        let mut head = [0; BLOCK_HEADER_BYTES];
        read(&mut self.source, &mut head, &file, &what)?;
        let number = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let (kind, length) = (head[0], number(1));
        let plain_length = u32::from_le_bytes(length) as usize;
        let stored_length = u32::from_le_bytes(number(5)) as usize;
        // Before memory is taken for it. Bytes that do not compress grow a little.
        if plain_length > PLAIN_BYTES_MAX || stored_length > PLAIN_BYTES_MAX + PLAIN_BYTES_MAX / 8 {
            return Err(self.damaged(format!("{what} has impossible lengths")));
        }
        let mut stored = vec![0; stored_length];
        read(&mut self.source, &mut stored, &file, &what)?;
        let bound = bound(&self.header, position, kind, length);
        let checksum = Checksum::of(&[&bound, &number(5), &stored]);
        if head[9..] != [checksum.low, checksum.high].map(u64::to_le_bytes).concat() {
            return Err(self.damaged(format!("the checksum of {what} does not fit")));
        }
        let compressed = match &self.cipher {
            None => stored,
            Some(cipher) => {
                let salt = &self.header[48..];
                let mut nonce = [0; 24];
                nonce[..16].copy_from_slice(salt);
                nonce[16..].copy_from_slice(&position.to_le_bytes());
                cipher.open(&nonce, &bound, &stored).ok_or(Error::WrongKey)?
            }
        };
        let plain = zstd::bulk::decompress(&compressed, plain_length)
            .map_err(|error| self.damaged(format!("{what} cannot be decompressed ({error})")))?;
        if plain.len() != plain_length {
            return Err(self.damaged(format!("{what} has {} bytes in place of {plain_length}", plain.len())));
        }
        Ok((kind, plain))
    }

    fn entries_of(&self, plain: &[u8], position: u64) -> Result<Vec<CutEntry>> {
        let (mut entries, mut rest) = (Vec::new(), plain);
        while !rest.is_empty() {
            let (entry, left) = decode(rest)
                .ok_or_else(|| self.damaged(format!("block {position} holds something that is no entry")))?;
            entries.push(entry);
            rest = left;
        }
        Ok(entries)
    }
}

/// Reads exactly so many bytes.
fn read(source: &mut impl Read, bytes: &mut [u8], file: &str, what: &str) -> Result<()> {
    source.read_exact(bytes).map_err(|error| match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::damaged(file, format!("it ends within {what}")),
        _ => Error::damaged(file, format!("{what} cannot be read ({error})")),
    })
}

/// The first entry of bytes, and the rest of them; none if that is no entry.
fn decode(bytes: &[u8]) -> Option<(CutEntry, &[u8])> {
    let (kind, bytes) = bytes.split_first()?;
    let (first, bytes) = bytes.split_first_chunk::<4>()?;
    let (second, bytes) = bytes.split_first_chunk::<4>()?;
    let (first, bytes) = bytes.split_at_checked(u32::from_le_bytes(*first) as usize)?;
    let (second, bytes) = bytes.split_at_checked(u32::from_le_bytes(*second) as usize)?;
    let entry = match *kind {
        VALUE => CutEntry::Value { key: Key::from(first), value: Value::copy_from_slice(second) },
        COUNT => {
            let (count, element) = second.split_first_chunk::<8>()?;
            let count = i64::from_le_bytes(*count);
            CutEntry::Count { set: Key::from(first), element: Key::from(element), count }
        }
        COUNTER => {
            let value = i64::from_le_bytes(second.try_into().ok()?);
            CutEntry::Counter { counter: Key::from(first), value }
        }
        PROCEDURE => {
            let (version, code) = second.split_first_chunk::<4>()?;
            let name = std::str::from_utf8(first).ok()?.to_owned();
            let version = u32::from_le_bytes(*version);
            CutEntry::Procedure { name, version, code: Value::copy_from_slice(code) }
        }
        _ => return None,
    };
    Some((entry, bytes))
}

#[cfg(test)]
mod tests;
