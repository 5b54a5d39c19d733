//! How writes stand in records of the journal, and in the files beside it that keep the writes of a log which cannot be written to.
//!
//! ```text
//!   writes   shard (4) index (1) incarnation (8) segment (4) offset (4) length (4) bytes …   once more for each write
//!   file     magic (8) writes CRC-32 of all before (4)
//!   name     shard (4) index (1) incarnation (8) number (8)
//! ```

use std::io::ErrorKind;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_core::{ReplicaId, ReplicaIndex, ShardId};

use crate::LogError;
use crate::directory::{Directory, LogFile};
use crate::error::SYNC;
use crate::log::{Shared, Write};

const EXTENSION: &str = "kept";
const EXTENSION_NEW: &str = "new";

/// Never the beginning of a text, and damaged by whatever converts line ends.
const MAGIC: [u8; 8] = *b"\x89QKEP\r\n\x1a";

/// The length of a file's name in the journal: shard, index, incarnation, number.
pub(super) const NAME_BYTES: usize = 4 + 1 + 8 + 8;

/// The length of a write's header, before its bytes: shard, index, incarnation, segment, offset, length.
pub(super) const WRITE_HEADER_BYTES: usize = 4 + 1 + 8 + 4 + 4 + 4;

/// A log, told from all others of the same replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Whose {
    pub(super) replica: ReplicaId,
    pub(super) incarnation: u64,
}

impl Whose {
    pub(super) fn of<D: Directory>(log: &Shared<D>) -> Whose {
        Whose { replica: log.identity.replica, incarnation: log.incarnation }
    }
}

/// Bytes that belong to a place in a segment, which is named by its number.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) bytes: Bytes,
}

fn put_whose(out: &mut BytesMut, Whose { replica, incarnation }: Whose) {
    out.put_u32_le(replica.shard.0);
    out.put_u8(replica.index.0);
    out.put_u64_le(incarnation);
}

/// There have to be as many bytes as that takes.
fn take_whose(from: &mut Bytes) -> Whose {
    let shard = ShardId(from.get_u32_le());
    let replica = ReplicaId { shard, index: ReplicaIndex(from.get_u8()) };
    Whose { replica, incarnation: from.get_u64_le() }
}

/// Adds a write.
pub(super) fn put_write(out: &mut BytesMut, whose: Whose, segment: u32, offset: u32, bytes: &[u8]) {
    put_whose(out, whose);
    out.put_u32_le(segment);
    out.put_u32_le(offset);
    out.put_u32_le(bytes.len() as u32);
    out.put_slice(bytes);
}

/// Adds writes to a log that is in use.
pub(super) fn put_writes<'a, D: Directory + 'a>(
    out: &mut BytesMut,
    log: &Shared<D>,
    writes: impl IntoIterator<Item = &'a Write<D>>,
) {
    for Write { segment, offset, bytes } in writes {
        put_write(out, Whose::of(log), segment.header.number, *offset, bytes);
    }
}

/// Reads a write; none if there is none any more, or what is there is none.
pub(super) fn take_write(from: &mut Bytes) -> Option<(Whose, Place)> {
    if from.len() < WRITE_HEADER_BYTES {
        return None;
    }
    let whose = take_whose(from);
    let (segment, offset, length) = (from.get_u32_le(), from.get_u32_le(), from.get_u32_le() as usize);
    let bytes = (length <= from.len()).then(|| from.split_to(length))?;
    Some((whose, Place { segment, offset, bytes }))
}

/// Reads all writes; none if something there is none.
pub(super) fn take_writes(mut from: Bytes) -> Option<Vec<(Whose, Place)>> {
    let mut writes = Vec::new();
    while !from.is_empty() {
        writes.push(take_write(&mut from)?);
    }
    Some(writes)
}

/// The name of a file that keeps writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeptName {
    pub(super) whose: Whose,
    /// Tells it from others of the same log.
    pub(super) number: u64,
}

/// Adds the name of a file.
pub(super) fn put_name(out: &mut BytesMut, KeptName { whose, number }: KeptName) {
    put_whose(out, whose);
    out.put_u64_le(number);
}

/// Reads all names; none if something there is none.
pub(super) fn take_names(mut from: Bytes) -> Option<Vec<KeptName>> {
    let mut names = Vec::with_capacity(from.len() / NAME_BYTES);
    while !from.is_empty() {
        if from.len() < NAME_BYTES {
            return None;
        }
        let whose = take_whose(&mut from);
        names.push(KeptName { whose, number: from.get_u64_le() });
    }
    Some(names)
}

impl KeptName {
    pub(super) fn text(&self) -> String {
        let Whose { replica, incarnation } = self.whose;
        let (shard, index) = (replica.shard.0, replica.index.0);
        format!("shard-{shard}-r{index}-{incarnation:016x}-{}.{EXTENSION}", self.number)
    }

    fn parse(name: &str) -> Option<KeptName> {
        let mut parts = name.strip_suffix(EXTENSION)?.strip_suffix('.')?.strip_prefix("shard-")?.split('-');
        let shard = ShardId(parts.next()?.parse().ok()?);
        let index = ReplicaIndex(parts.next()?.strip_prefix('r')?.parse().ok()?);
        let incarnation = u64::from_str_radix(parts.next()?, 16).ok()?;
        let whose = Whose { replica: ReplicaId { shard, index }, incarnation };
        let kept = KeptName { whose, number: parts.next()?.parse().ok()? };
        (kept.text() == name).then_some(kept)
    }
}

/// The files that keep writes, ascending.
pub(super) fn list(directory: &impl Directory) -> Result<Vec<KeptName>, LogError> {
    let names = directory.list().map_err(LogError::io("list", directory.path()))?;
    let mut kept: Vec<KeptName> = names.iter().filter_map(|name| KeptName::parse(name)).collect();
    kept.sort_unstable();
    Ok(kept)
}

/// Keeps writes in a file, durably. It appears under its name once it is whole.
pub(super) fn keep(directory: &impl Directory, name: KeptName, writes: &[u8]) -> Result<(), LogError> {
    let text = name.text();
    let text_new = format!("{text}.{EXTENSION_NEW}");
    let path_new = directory.path().join(&text_new);
    let mut contents = BytesMut::with_capacity(MAGIC.len() + writes.len() + 4);
    contents.put_slice(&MAGIC);
    contents.put_slice(writes);
    contents.put_u32_le(crc32fast::hash(&contents));
    let file = directory.create_file(&text_new).map_err(LogError::io("create", &path_new))?;
    if let Err(error) = file.write_all_at(&contents, 0).and_then(|()| file.sync()) {
        // It may hold the room that is missing. If it cannot be removed, it is never read.
        let _ = directory.remove(&text_new);
        return Err(LogError::io("write to", &path_new)(error));
    }
    directory.rename(&text_new, &text).map_err(LogError::io("rename", &path_new))?;
    directory.sync().map_err(LogError::io(SYNC, directory.path()))
}

/// Reads the writes that a file keeps.
pub(super) fn read(directory: &impl Directory, name: KeptName) -> Result<Vec<Place>, LogError> {
    let file = directory.path().join(name.text());
    let lost = |what| LogError::LostKept { file: file.clone(), what };
    let damaged = || lost("damaged");
    let contents = directory.open_file(&name.text()).and_then(|opened| opened.read_at(0, u64::MAX));
    let mut contents = match contents {
        Ok(contents) => Bytes::from(contents),
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(lost("gone")),
        Err(error) => return Err(LogError::io("read", &file)(error)),
    };
    let crc = contents.len().checked_sub(4).map(|at| contents.split_off(at)).ok_or_else(damaged)?;
    if crc[..] != crc32fast::hash(&contents).to_le_bytes() || contents.get(..MAGIC.len()) != Some(&MAGIC[..])
    {
        return Err(damaged());
    }
    let writes = take_writes(contents.split_off(MAGIC.len())).ok_or_else(damaged)?;
    Ok(writes.into_iter().filter(|(whose, _)| *whose == name.whose).map(|(_, place)| place).collect())
}

/// Removes files that no log needs any more. If that fails, what they keep is done once more when the journal is opened next.
pub(super) fn remove(directory: &impl Directory, names: &[KeptName]) -> Result<(), LogError> {
    for name in names {
        let file = directory.path().join(name.text());
        match directory.remove(&name.text()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(LogError::io("remove", &file)(error));
            }
            _ => {}
        }
    }
    directory.sync().map_err(LogError::io(SYNC, directory.path()))
}
