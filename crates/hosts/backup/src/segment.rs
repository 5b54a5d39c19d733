//! Segments: entries of one shard, in blocks.
//!
//! ```text
//!   header, 64 bytes: magic (16), format (2), encrypted 1|0 (2), zero (4), backup (16), shard (4), number (4), salt (16)
//!   block:  kind 1 (1), plain length (4), stored length (4), checksum (16), stored bytes       as many as there are
//!   end:    kind 2, as a block
//!     of format 1, whose bytes are: entries (8), bytes of the entries (8), sum of their hashes (16)
//!     of format 2, whose bytes are, for each block before: name (32), stored length (4); behind it the position of the end in the segment (8), and the number of blocks before it (8)
//! ```
//!
//! Numbers are little-endian. The checksum of a block is that of the header, of its position among the blocks, of its kind and lengths, and of the stored bytes: so a block that was
//! damaged, left out, repeated, moved, or taken from another segment or backup is found without a key. Stored bytes are entries one after the
//! other, compressed with zstd, and then sealed if the backup is encrypted. Nothing comes after the end.
//!
//! In format 1 a block is a mebibyte of entries; in format 2 it is a [chunk](crate::chunk), and a backup may use some chunks of a segment and not others. Segments of format 1 are read,
//! and not written any more.

use std::io::Read;

use quorate::CutEntry;
use quorate_core::verify::Checksum;
use quorate_core::{Key, Value};

use crate::chunk::{Chunk, ChunkName, NAME_BYTES, Names};
use crate::cipher::Cipher;
use crate::error::{Error, Result};

/// The format that is written, and the greatest that is known here.
pub const FORMAT: u16 = 2;

/// The format without chunks.
pub(crate) const FORMAT_OF_BLOCKS: u16 = 1;

const MAGIC: [u8; 16] = *b"quorate backup\0\n";
pub(crate) const HEADER_BYTES: usize = 64;
const BLOCK_HEADER_BYTES: usize = 25;
/// The position of the end and the number of chunks, behind the end, from format 2 on.
const TRAILER_BYTES: usize = 16;
const DATA: u8 = 1;
const END: u8 = 2;

/// A segment has no more chunks: their names fit into its end.
pub(crate) const CHUNKS_MAX: u64 = 64 * 1024;

/// No block is longer: an entry has a key, a name and a value at most.
const PLAIN_BYTES_MAX: usize = 4 * 1024 * 1024;

/// No end of a segment is longer: a block, and what stands behind it.
const END_BYTES_MAX: u64 = 8 * 1024 * 1024;

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

/// Appends an entry as it is written, and tells its content.
pub(crate) fn encode(entry: &CutEntry, to: &mut Vec<u8>) -> Content {
    let mut content = Content::default();
    content.add(entry);
    for part in Encoded::of(entry).parts() {
        to.extend_from_slice(part);
    }
    content
}

/// Writes a segment into memory, chunk by chunk.
pub struct SegmentWriter {
    header: [u8; HEADER_BYTES],
    salt: [u8; 16],
    cipher: Option<Cipher>,
    compressor: zstd::bulk::Compressor<'static>,
    /// The names and stored lengths of the chunks so far.
    index: Vec<u8>,
    chunks: u64,
    bytes: u64,
}

impl std::fmt::Debug for SegmentWriter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SegmentWriter").field("chunks", &self.chunks).finish_non_exhaustive()
    }
}

impl SegmentWriter {
    /// A segment, and the bytes that it begins with. The salt is random, and new for each segment.
    ///
    /// # Errors
    /// There is no memory to compress in.
    pub fn new(place: Place, salt: [u8; 16], cipher: Option<Cipher>) -> Result<(Self, Vec<u8>)> {
        let header = header(FORMAT, place, salt, cipher.is_some());
        let compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL).map_err(incompressible)?;
        let bytes = HEADER_BYTES as u64;
        let writer = SegmentWriter { header, salt, cipher, compressor, index: Vec::new(), chunks: 0, bytes };
        Ok((writer, header.to_vec()))
    }

    /// Adds a chunk, and gives the bytes that are to be written.
    ///
    /// # Errors
    /// Compression or encryption fails.
    pub(crate) fn add(&mut self, name: ChunkName, chunk: &Chunk) -> Result<Vec<u8>> {
        let block = self.block(DATA, self.chunks, &chunk.plain)?;
        self.index.extend_from_slice(&name.0);
        self.index.extend_from_slice(&(block.len() as u32).to_le_bytes());
        self.chunks += 1;
        self.bytes += block.len() as u64;
        Ok(block)
    }

    /// How many chunks there are, and how long the segment is so far.
    pub fn size(&self) -> (u64, u64) {
        (self.chunks, self.bytes)
    }

    /// Ends the segment, and gives the bytes that it ends with.
    ///
    /// # Errors
    /// Compression or encryption fails.
    pub fn finish(mut self) -> Result<Vec<u8>> {
        let index = std::mem::take(&mut self.index);
        let mut end = self.block(END, self.chunks, &index)?;
        end.extend(self.bytes.to_le_bytes());
        end.extend(self.chunks.to_le_bytes());
        Ok(end)
    }

    fn block(&mut self, kind: u8, position: u64, plain: &[u8]) -> Result<Vec<u8>> {
        let compressed = self.compressor.compress(plain).map_err(incompressible)?;
        write_block(&self.header, self.salt, self.cipher.as_ref(), (kind, position), plain.len(), compressed)
    }
}

fn incompressible(error: std::io::Error) -> Error {
    Error::Unsuitable(format!("a block cannot be compressed: {error}"))
}

fn header(format: u16, place: Place, salt: [u8; 16], is_encrypted: bool) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..16].copy_from_slice(&MAGIC);
    header[16..18].copy_from_slice(&format.to_le_bytes());
    header[18] = u8::from(is_encrypted);
    header[24..40].copy_from_slice(&place.backup);
    header[40..44].copy_from_slice(&place.shard.to_le_bytes());
    header[44..48].copy_from_slice(&place.number.to_le_bytes());
    header[48..].copy_from_slice(&salt);
    header
}

/// A block of this kind at this position, of bytes that were compressed.
fn write_block(
    header: &[u8; HEADER_BYTES],
    salt: [u8; 16],
    cipher: Option<&Cipher>,
    (kind, position): (u8, u64),
    plain_length: usize,
    compressed: Vec<u8>,
) -> Result<Vec<u8>> {
    let length = (plain_length as u32).to_le_bytes();
    let bound = bound(header, position, kind, length);
    let stored = match cipher {
        None => compressed,
        Some(cipher) => cipher.seal(&nonce(salt, position), &bound, &compressed)?,
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

/// The header of a segment that was checked, and the cipher that its blocks are opened with.
#[derive(Debug)]
struct Opener {
    /// The name of the segment, for messages.
    file: String,
    header: [u8; HEADER_BYTES],
    cipher: Option<Cipher>,
}

/// A block as it is stored.
struct Block {
    kind: u8,
    plain_length: usize,
    bound: Vec<u8>,
    stored: Vec<u8>,
}

impl Opener {
    fn new(
        file: &str,
        header: [u8; HEADER_BYTES],
        place: Place,
        expected: u16,
        cipher: Option<&Cipher>,
    ) -> Result<Self> {
        if header[..16] != MAGIC {
            return Err(Error::damaged(file, "it does not begin as a segment of a backup does"));
        }
        let format = u16::from_le_bytes([header[16], header[17]]);
        if format > FORMAT {
            return Err(Error::NewerFormat { found: format.into(), known: FORMAT.into() });
        }
        if format != expected {
            return Err(Error::damaged(
                file,
                format!("it has format {format}, and its backup has format {expected}"),
            ));
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
            (0, None) => None,
            (1, Some(cipher)) => Some(cipher.clone()),
            (1, None) => return Err(Error::KeyNeeded),
            // Anybody could have written it.
            (0, Some(_)) => return Err(Error::damaged(file, "it is not encrypted, and its backup is")),
            _ => return Err(Error::damaged(file, "its header is not as it was written")),
        };
        Ok(Opener { file: file.to_owned(), header, cipher })
    }

    fn damaged(&self, reason: impl Into<String>) -> Error {
        Error::damaged(&self.file, reason)
    }

    /// Reads the block at a position, and compares it with its checksum.
    fn read(&self, source: &mut impl Read, position: u64) -> Result<Block> {
        let what = format!("block {position}");
        let mut head = [0; BLOCK_HEADER_BYTES];
        read(source, &mut head, &self.file, &what)?;
        let number = |at: usize| [head[at], head[at + 1], head[at + 2], head[at + 3]];
        let (kind, length) = (head[0], number(1));
        let plain_length = u32::from_le_bytes(length) as usize;
        let stored_length = u32::from_le_bytes(number(5)) as usize;
        // Before memory is taken for it. Bytes that do not compress grow a little.
        if plain_length > PLAIN_BYTES_MAX || stored_length > PLAIN_BYTES_MAX + PLAIN_BYTES_MAX / 8 {
            return Err(self.damaged(format!("{what} has impossible lengths")));
        }
        let mut stored = vec![0; stored_length];
        read(source, &mut stored, &self.file, &what)?;
        let bound = bound(&self.header, position, kind, length);
        let checksum = Checksum::of(&[&bound, &number(5), &stored]);
        if head[9..] != [checksum.low, checksum.high].map(u64::to_le_bytes).concat() {
            return Err(self.damaged(format!("the checksum of {what} does not fit")));
        }
        Ok(Block { kind, plain_length, bound, stored })
    }

    /// The bytes of a block, decrypted and decompressed.
    fn open(&self, block: Block, position: u64) -> Result<Vec<u8>> {
        let Block { plain_length, bound, stored, .. } = block;
        let compressed = match &self.cipher {
            None => stored,
            Some(cipher) => {
                let mut salt = [0; 16];
                salt.copy_from_slice(&self.header[48..]);
                cipher.open(&nonce(salt, position), &bound, &stored).ok_or(Error::WrongKey)?
            }
        };
        let plain = zstd::bulk::decompress(&compressed, plain_length)
            .map_err(|error| self.damaged(format!("block {position} cannot be decompressed ({error})")))?;
        if plain.len() != plain_length {
            let length = plain.len();
            return Err(
                self.damaged(format!("block {position} has {length} bytes in place of {plain_length}"))
            );
        }
        Ok(plain)
    }
}

/// The chunks of a segment that a backup uses, as stretches of their positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used(Vec<(u32, u32)>);

impl Used {
    /// Those at these positions, which may come in any order.
    pub(crate) fn of(mut positions: Vec<u32>) -> Self {
        positions.sort_unstable();
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        for position in positions {
            match stretches.last_mut() {
                Some((_, last)) if position <= last.saturating_add(1) => *last = position,
                _ => stretches.push((position, position)),
            }
        }
        Used(stretches)
    }

    /// Reads stretches as a manifest has them: `0-7,9`; none if they are not ascending, apart from each other, and within a segment.
    pub fn parse(text: &str) -> Option<Self> {
        let mut stretches = Vec::new();
        let mut least = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |digits: &str| {
                let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
                digits.parse::<u32>().ok().filter(|_| is_number)
            };
            let (first, last) = (number(first)?, number(last)?);
            if first < least || last < first || u64::from(last) >= CHUNKS_MAX {
                return None;
            }
            stretches.push((first, last));
            least = last + 2;
        }
        Some(Used(stretches))
    }

    fn has(&self, position: u64) -> bool {
        let before = self.0.partition_point(|(first, _)| u64::from(*first) <= position);
        before > 0 && position <= u64::from(self.0[before - 1].1)
    }

    fn last(&self) -> Option<u64> {
        self.0.last().map(|(_, last)| u64::from(*last))
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match first == last {
                true => write!(formatter, "{comma}{first}")?,
                false => write!(formatter, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Reads a segment, and gives nothing that was not checked.
#[derive(Debug)]
pub struct SegmentReader<R> {
    opener: Opener,
    source: R,
    /// The chunks that are wanted; in format 1 all blocks are.
    used: Option<Used>,
    names: Names,
    /// The names of the chunks that were given, by position, and the stored lengths of all.
    given: Vec<(Option<ChunkName>, u32)>,
    shard: u32,
    blocks: u64,
    bytes: u64,
    content: Content,
    is_over: bool,
}

impl<R: Read> SegmentReader<R> {
    /// Begins to read a segment of format 1, which must be this one.
    ///
    /// # Errors
    /// It is no segment, one of a later format, or another one; or the key is missing.
    pub fn of_blocks(file: &str, source: R, place: Place, cipher: Option<&Cipher>) -> Result<Self> {
        SegmentReader::new(file, source, place, None, cipher)
    }

    /// Begins to read these chunks of a segment of format 2, which must be this one.
    ///
    /// # Errors
    /// As [`SegmentReader::of_blocks`].
    pub fn of_chunks(
        file: &str,
        source: R,
        place: Place,
        used: Used,
        cipher: Option<&Cipher>,
    ) -> Result<Self> {
        SegmentReader::new(file, source, place, Some(used), cipher)
    }

    fn new(
        file: &str,
        mut source: R,
        place: Place,
        used: Option<Used>,
        cipher: Option<&Cipher>,
    ) -> Result<Self> {
        let mut header = [0; HEADER_BYTES];
        read(&mut source, &mut header, file, "its header")?;
        let format = if used.is_some() { FORMAT } else { FORMAT_OF_BLOCKS };
        let opener = Opener::new(file, header, place, format, cipher)?;
        let names = Names::new(opener.cipher.as_ref());
        Ok(SegmentReader {
            opener,
            source,
            used,
            names,
            given: Vec::new(),
            shard: place.shard,
            blocks: 0,
            bytes: HEADER_BYTES as u64,
            content: Content::default(),
            is_over: false,
        })
    }

    /// The entries of the next block that is wanted; none after the last, once it is certain that all were there.
    ///
    /// # Errors
    /// A block is not as it was written.
    pub fn next_block(&mut self) -> Result<Option<Vec<CutEntry>>> {
        while !self.is_over {
            let position = self.blocks;
            let block = self.opener.read(&mut self.source, position)?;
            let stored = BLOCK_HEADER_BYTES + block.stored.len();
            self.blocks += 1;
            match block.kind {
                DATA if self.used.as_ref().is_none_or(|used| used.has(position)) => {
                    let plain = self.opener.open(block, position)?;
                    let entries = self.entries_of(&plain, position)?;
                    entries.iter().for_each(|entry| self.content.add(entry));
                    if self.used.is_some() {
                        let name = self.names.name(self.shard, &plain);
                        self.given.push((Some(name), stored as u32));
                    }
                    self.bytes += stored as u64;
                    return Ok(Some(entries));
                }
                DATA => {
                    self.given.push((None, stored as u32));
                    self.bytes += stored as u64;
                }
                END => self.on_end(block, position)?,
                _ => return Err(self.damaged(format!("block {position} is of an unknown kind"))),
            }
        }
        Ok(None)
    }

    /// Compares the end of the segment with what came before, and looks that nothing follows.
    fn on_end(&mut self, block: Block, position: u64) -> Result<()> {
        let plain = self.opener.open(block, position)?;
        match &self.used {
            None => {
                let Content { entries, bytes, sum } = self.content;
                if plain != [entries, bytes, sum.low, sum.high].map(u64::to_le_bytes).concat() {
                    return Err(self.damaged("it does not end with what it holds"));
                }
            }
            Some(used) => {
                let index = index_of(&plain).ok_or_else(|| self.damaged("its end is no list of chunks"))?;
                let is_same =
                    |((name, stored), (given, length)): (&(ChunkName, u32), &(Option<ChunkName>, u32))| {
                        stored == length && given.is_none_or(|given| given == *name)
                    };
                if index.len() != self.given.len() || !index.iter().zip(&self.given).all(is_same) {
                    return Err(self.damaged("it does not end with the names of its chunks"));
                }
                if used.last().is_some_and(|last| last >= position) {
                    return Err(self.damaged("it has fewer chunks than the backup uses"));
                }
                let mut trailer = [0; TRAILER_BYTES];
                read(&mut self.source, &mut trailer, &self.opener.file, "its end")?;
                if trailer[..] != [self.bytes, position].map(u64::to_le_bytes).concat() {
                    return Err(self.damaged("it does not say where its end is"));
                }
            }
        }
        let mut rest = [0];
        let length = self.source.read(&mut rest).map_err(|error| self.damaged(error.to_string()))?;
        if length > 0 {
            return Err(self.damaged("something stands behind its end"));
        }
        self.is_over = true;
        Ok(())
    }

    /// The content that was read so far; all of it once there are no more blocks.
    pub fn content(&self) -> Content {
        self.content
    }

    fn damaged(&self, reason: impl Into<String>) -> Error {
        self.opener.damaged(reason)
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

/// The names and stored lengths of the chunks of a segment; none if these are no such list.
fn index_of(plain: &[u8]) -> Option<Vec<(ChunkName, u32)>> {
    let (rows, rest) = plain.as_chunks::<{ NAME_BYTES + 4 }>();
    let row = |row: &[u8; NAME_BYTES + 4]| {
        let (name, stored) = row.split_first_chunk::<NAME_BYTES>()?;
        Some((ChunkName(*name), u32::from_le_bytes(stored.try_into().ok()?)))
    };
    rest.is_empty().then(|| rows.iter().map(row).collect::<Option<_>>())?
}

/// Where the end of a segment lies, by its last bytes: its position, and the number of chunks before it; none if there are too few bytes, or the segment cannot be so long.
pub(crate) fn end_of(tail: &[u8], segment_bytes: u64) -> Option<(u64, u64)> {
    let (_, trailer) = tail.split_last_chunk::<TRAILER_BYTES>()?;
    let (offset, chunks) = trailer.split_first_chunk::<8>()?;
    let (offset, chunks) = (u64::from_le_bytes(*offset), u64::from_le_bytes(chunks.try_into().ok()?));
    let end_bytes = segment_bytes.checked_sub(offset)?;
    let is_possible = offset >= HEADER_BYTES as u64 && end_bytes <= END_BYTES_MAX && chunks <= CHUNKS_MAX;
    is_possible.then_some((offset, chunks))
}

/// The names and stored lengths of the chunks of a segment, by its header and its end, without what lies between.
///
/// # Errors
/// It is another segment, or not as it was written.
pub(crate) fn read_index(
    file: &str,
    header: [u8; HEADER_BYTES],
    mut end: &[u8],
    chunks: u64,
    place: Place,
    cipher: Option<&Cipher>,
) -> Result<Vec<(ChunkName, u32)>> {
    let opener = Opener::new(file, header, place, FORMAT, cipher)?;
    let block = opener.read(&mut end, chunks)?;
    if block.kind != END || end.len() != TRAILER_BYTES {
        return Err(opener.damaged("it does not end with the names of its chunks"));
    }
    let plain = opener.open(block, chunks)?;
    let index = index_of(&plain).filter(|index| index.len() as u64 == chunks);
    index.ok_or_else(|| opener.damaged("it does not end with the names of its chunks"))
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
