//! Chunks that an archive holds already.
//!
//! A backup uses chunks of the newest backup of its keyspace, if it is an incremental one, and in any case those of backups that were interrupted. Segments end with the names of
//! their chunks, so a few reads tell what a segment holds.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::archive::{Archive, name_in};
use crate::chunk::ChunkName;
use crate::cipher::Cipher;
use crate::error::{Error, Result};
use crate::listing::{DELETING, Mark, State, UNFINISHED, is_backup, list, marked, unfinished_mark};
use crate::manifest::{FORMAT, Leaned, Manifest, number_of, segment_of};
use crate::segment::{HEADER_BYTES, Place, end_of, read_index};

/// So many bytes of the end of a segment are read first: most lists of names lie within.
const TAIL_BYTES: u64 = 512 * 1024;

/// Segments whose ends are read at a time.
const SEGMENTS_AT_ONCE: usize = 8;

/// A segment with chunks that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    /// The folder that it lies in; none if that is the folder of the backup itself.
    pub(crate) from: Option<Leaned>,
    pub(crate) shard: u32,
    pub(crate) number: u32,
    /// Its length.
    pub(crate) bytes: u64,
}

/// A chunk that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The segment, by its place among the sources.
    pub(crate) source: u32,
    /// Its position in the segment.
    pub(crate) position: u32,
    /// The bytes that it takes there.
    pub(crate) stored: u32,
}

/// The chunks that can be used.
#[derive(Debug, Default)]
pub(crate) struct Known {
    sources: Vec<Source>,
    chunks: BTreeMap<u32, HashMap<ChunkName, Held>>,
}

impl Known {
    /// Adds the chunks of a segment. Of two with one name the first is used.
    pub(crate) fn add(&mut self, source: Source, index: Vec<(ChunkName, u32)>) {
        let number = self.sources.len() as u32;
        let chunks = self.chunks.entry(source.shard).or_default();
        for (position, (name, stored)) in (0..).zip(index) {
            chunks.entry(name).or_insert(Held { source: number, position, stored });
        }
        self.sources.push(source);
    }

    /// A chunk of a shard, by its name.
    pub(crate) fn chunk(&self, shard: u32, name: &ChunkName) -> Option<Held> {
        self.chunks.get(&shard)?.get(name).copied()
    }

    /// A segment.
    pub(crate) fn source(&self, number: u32) -> Option<&Source> {
        self.sources.get(number as usize)
    }
}

/// The folders that a backup may use chunks of.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Candidates {
    /// The folders, in the order in which chunks are looked for in them.
    pub(crate) folders: Vec<Leaned>,
    /// The lengths of the segments that are known to belong to them, by folder and name; none of a folder whose backup was interrupted.
    segments: BTreeMap<(String, String), u64>,
    interrupted: BTreeSet<String>,
    /// True if there is a backup that this one may lean on.
    pub(crate) has_base: bool,
}

impl Candidates {
    /// The folders that a backup of this keyspace may use, under this key.
    pub(crate) async fn find(
        archive: &Arc<dyn Archive>,
        keyspace: &str,
        key_check: Option<&String>,
        is_incremental: bool,
    ) -> Result<Self> {
        let mut candidates = Candidates::default();
        if is_incremental {
            candidates.add_base(archive, keyspace, key_check).await?;
        }
        for folder in marked(&**archive, UNFINISHED).await? {
            // A mark that is gone by now is that of a backup that has just been finished.
            let Some(mark) = unfinished_mark(&**archive, &folder).await? else { continue };
            let is_like_this = mark.quorate_backup == FORMAT && mark.keyspace == keyspace;
            let is_readable = mark.key_check.as_ref() == key_check && number_of(&mark.id).is_some();
            // A mark may have stayed beside a manifest.
            if is_like_this && is_readable && !is_backup(&**archive, &folder).await? {
                let Mark { id, .. } = mark;
                candidates.interrupted.insert(folder.clone());
                candidates.push(Leaned { folder, id });
            }
        }
        Ok(candidates)
    }

    /// Adds the newest backup, with what it leans on.
    async fn add_base(
        &mut self,
        archive: &Arc<dyn Archive>,
        keyspace: &str,
        key_check: Option<&String>,
    ) -> Result<()> {
        let fits = |manifest: &Manifest| {
            let known = manifest.encryption.as_ref().map(|encryption| &encryption.key_check);
            manifest.has_chunks() && manifest.keyspace.name == keyspace && known == key_check
        };
        let mut base: Option<(String, Manifest)> = None;
        for found in list(archive).await? {
            if let State::Whole(manifest) = found.state
                && fits(&manifest)
                && base.as_ref().is_none_or(|(_, known)| known.instant_us <= manifest.instant_us)
            {
                base = Some((found.folder, manifest));
            }
        }
        let Some((folder, manifest)) = base else { return Ok(()) };
        self.has_base = true;
        for file in &manifest.files {
            let from = file.from.clone().unwrap_or_else(|| folder.clone());
            self.segments.insert((from, file.name.clone()), file.bytes);
        }
        self.push(Leaned { folder, id: manifest.id.clone() });
        manifest.leans_on.into_iter().for_each(|leaned| self.push(leaned));
        Ok(())
    }

    fn push(&mut self, leaned: Leaned) {
        if !self.folders.contains(&leaned) {
            self.folders.push(leaned);
        }
    }

    /// Leaves out what is being deleted, and reads which chunks the rest has. A segment that cannot be used is told in words.
    pub(crate) async fn load(
        &self,
        archive: &Arc<dyn Archive>,
        cipher: Option<&Cipher>,
    ) -> Result<(Known, Vec<String>)> {
        let deleting = marked(&**archive, DELETING).await?;
        let mut sources = Vec::new();
        for leaned in self.folders.iter().filter(|leaned| !deleting.contains(&leaned.folder)) {
            for object in archive.list(&leaned.folder).await? {
                let Some((shard, number)) = segment_of(&object.name) else { continue };
                let expected = self.segments.get(&(leaned.folder.clone(), object.name.clone()));
                let is_usable = match expected {
                    Some(bytes) => *bytes == object.bytes,
                    None => self.interrupted.contains(&leaned.folder),
                };
                if is_usable {
                    let from = Some(leaned.clone());
                    sources.push(Source { from, shard, number, bytes: object.bytes });
                }
            }
        }
        read_all(archive, sources, cipher).await
    }
}

/// Reads which chunks these segments have.
async fn read_all(
    archive: &Arc<dyn Archive>,
    sources: Vec<Source>,
    cipher: Option<&Cipher>,
) -> Result<(Known, Vec<String>)> {
    let (permits, mut reads) = (Arc::new(Semaphore::new(SEGMENTS_AT_ONCE)), JoinSet::new());
    for (at, source) in sources.iter().cloned().enumerate() {
        let (archive, permits, cipher) = (Arc::clone(archive), Arc::clone(&permits), cipher.cloned());
        reads.spawn(async move {
            let _permit = permits.acquire_owned().await;
            (at, read_source(&*archive, &source, cipher.as_ref()).await)
        });
    }
    let mut indexes = BTreeMap::new();
    while let Some(read) = reads.join_next().await {
        let (at, index) =
            read.map_err(|error| Error::Unsuitable(format!("a segment is not read any more: {error}")))?;
        indexes.insert(at, index);
    }
    let (mut known, mut notes) = (Known::default(), Vec::new());
    for (source, index) in sources.into_iter().zip(indexes.into_values()) {
        match index {
            Ok(index) => known.add(source, index),
            // It is written anew, so this backup does not depend on it.
            Err(error @ (Error::Damaged { .. } | Error::WrongKey | Error::NewerFormat { .. })) => {
                notes.push(error.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok((known, notes))
}

/// The names and stored lengths of the chunks of a segment.
async fn read_source(
    archive: &dyn Archive,
    source: &Source,
    cipher: Option<&Cipher>,
) -> Result<Vec<(ChunkName, u32)>> {
    let Source { from, shard, number, bytes } = source;
    let folder = from.as_ref().map_or("", |leaned| leaned.folder.as_str());
    let name = name_in(folder, &crate::manifest::segment_name(*shard, *number));
    let backup = from.as_ref().and_then(|leaned| number_of(&leaned.id)).unwrap_or_default();
    let damaged = |reason: &str| Error::damaged(&name, reason);
    let read = async |from: u64, bytes: u64| {
        let read: Option<Bytes> = archive.read(&name, from, bytes).await?;
        read.ok_or_else(|| damaged("it is missing"))
    };
    if *bytes < HEADER_BYTES as u64 {
        return Err(damaged("it ends within its header"));
    }
    let header = read(0, HEADER_BYTES as u64).await?;
    let header = header[..].try_into().map_err(|_| damaged("it ends within its header"))?;
    let first = bytes.saturating_sub(TAIL_BYTES);
    let tail = read(first, TAIL_BYTES).await?;
    let Some((offset, chunks)) = end_of(&tail, *bytes) else {
        return Err(damaged("it does not say where its end is"));
    };
    let end = match offset.checked_sub(first) {
        Some(at) => tail.slice((at as usize).min(tail.len())..),
        None => read(offset, bytes - offset).await?,
    };
    let place = Place { backup, shard: *shard, number: *number };
    read_index(&name, header, &end, chunks, place, cipher)
}
