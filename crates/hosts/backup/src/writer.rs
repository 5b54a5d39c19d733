//! Writes what one shard gives: the chunks that the archive does not hold yet, into segments.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use quorate::CutEntry;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::archive::{Archive, Writing, name_in};
use crate::chunk::{Chunk, ChunkName, Chunker, Names};
use crate::cipher::Cipher;
use crate::error::{Error, Result};
use crate::known::{Held, Known};
use crate::manifest::segment_name;
use crate::segment::{CHUNKS_MAX, Content, Place, SegmentWriter, Used};

/// A further segment is begun once one has so many bytes: that much an interruption loses of each shard.
pub(crate) const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;

/// So many bytes are handed to the archive at a time.
const WRITE_BYTES: usize = 1024 * 1024;

/// A message to the writer of a shard. A channel that closes without one of the latter two says that nobody wants the backup any more.
#[derive(Debug)]
pub(crate) enum Page {
    /// The next entries.
    Entries(Vec<CutEntry>),
    /// There are no more.
    End,
    /// The backup comes to nothing: chunks that are whole are kept for the next one.
    Halt,
}

/// A segment that was written.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) shard: u32,
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    /// The names and stored lengths of its chunks.
    pub(crate) index: Vec<(ChunkName, u32)>,
    /// The content of these chunks.
    pub(crate) content: Content,
}

/// The chunks that a backup uses of a segment that was there before.
#[derive(Debug, Default)]
pub(crate) struct Reused {
    positions: Vec<u32>,
    /// The content of these chunks.
    pub(crate) content: Content,
    /// The bytes that they take.
    pub(crate) bytes: u64,
}

impl Reused {
    /// The positions of the chunks.
    pub(crate) fn used(&self) -> Used {
        Used::of(self.positions.clone())
    }
}

/// The segments that were written of a shard, and the chunks that were used.
#[derive(Debug, Default)]
pub(crate) struct Written {
    pub(crate) segments: Vec<Segment>,
    /// By the number of the source.
    pub(crate) reused: BTreeMap<u32, Reused>,
    /// Why it is not the whole shard.
    pub(crate) failure: Option<Error>,
}

/// The surroundings of the writer of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    pub(crate) archive: Arc<dyn Archive>,
    /// The folder of the backup.
    pub(crate) folder: String,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) known: Arc<Known>,
    /// A further segment is begun once one has so many bytes.
    pub(crate) segment_bytes: u64,
    /// Carries out what the archive does.
    pub(crate) runtime: Handle,
}

/// Writes a shard.
#[derive(Debug)]
struct ShardWriter {
    around: Surroundings,
    names: Names,
    chunker: Chunker,
    place: Place,
    open: Option<Open>,
    used: HashSet<ChunkName>,
    written: Written,
}

/// A segment that is being written.
#[derive(Debug)]
struct Open {
    writing: Box<dyn Writing>,
    writer: SegmentWriter,
    pending: Vec<u8>,
    index: Vec<(ChunkName, u32)>,
    content: Content,
}

/// Writes what a shard gives, until it gives no more, on a thread that may block. `place` is that of the first segment.
pub(crate) fn write_shard(around: Surroundings, place: Place, mut pages: mpsc::Receiver<Page>) -> Written {
    let names = Names::new(around.cipher.as_ref());
    let mut writer = ShardWriter {
        chunker: Chunker::new(names.clone()),
        names,
        around,
        place,
        open: None,
        used: HashSet::new(),
        written: Written::default(),
    };
    if let Err(error) = writer.write(&mut pages) {
        writer.give_up();
        writer.written.failure = Some(error);
    }
    writer.written
}

impl ShardWriter {
    fn write(&mut self, pages: &mut mpsc::Receiver<Page>) -> Result<()> {
        loop {
            match pages.blocking_recv() {
                Some(Page::Entries(entries)) => {
                    for entry in &entries {
                        if let Some(chunk) = self.chunker.add(entry) {
                            self.add(&chunk)?;
                        }
                    }
                }
                Some(Page::End) => {
                    if let Some(chunk) = self.chunker.finish() {
                        self.add(&chunk)?;
                    }
                    return self.end();
                }
                Some(Page::Halt) => {
                    self.end()?;
                    return Err(Error::Interrupted);
                }
                None => {
                    // The runtime may be gone as well, so the archive is not asked for anything.
                    self.open = None;
                    return Err(Error::Interrupted);
                }
            }
        }
    }

    /// Uses a chunk that is there, or writes it.
    fn add(&mut self, chunk: &Chunk) -> Result<()> {
        let name = self.names.name(self.place.shard, &chunk.plain);
        let held = self.around.known.chunk(self.place.shard, &name);
        // A chunk that comes twice counts twice, so it is there twice.
        let is_first = self.used.insert(name);
        if let Some(Held { source, position, stored }) = held
            && is_first
        {
            let reused = self.written.reused.entry(source).or_default();
            reused.positions.push(position);
            reused.content = reused.content.plus(chunk.content);
            reused.bytes += u64::from(stored);
            return Ok(());
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        let open = self.open.insert(open);
        let block = open.writer.add(name, chunk)?;
        open.index.push((name, block.len() as u32));
        open.content = open.content.plus(chunk.content);
        open.pending.extend_from_slice(&block);
        if open.pending.len() >= WRITE_BYTES {
            let bytes = Bytes::from(std::mem::take(&mut open.pending));
            self.around.runtime.block_on(open.writing.write(bytes))?;
        }
        let (chunks, bytes) = open.writer.size();
        if bytes >= self.around.segment_bytes || chunks >= CHUNKS_MAX { self.end() } else { Ok(()) }
    }

    fn begin(&mut self) -> Result<Open> {
        let Place { shard, number, .. } = self.place;
        let mut salt = [0; 16];
        fill_random(&mut salt)?;
        let (writer, header) = SegmentWriter::new(self.place, salt, self.around.cipher.clone())?;
        let name = name_in(&self.around.folder, &segment_name(shard, number));
        let writing = self.around.runtime.block_on(self.around.archive.write(&name))?;
        Ok(Open { writing, writer, pending: header, index: Vec::new(), content: Content::default() })
    }

    /// Ends the segment that is open, if one is.
    fn end(&mut self) -> Result<()> {
        let Some(Open { mut writing, writer, mut pending, index, content }) = self.open.take() else {
            return Ok(());
        };
        pending.extend(writer.finish()?);
        let runtime = &self.around.runtime;
        if let Err(error) = runtime.block_on(writing.write(pending.into())) {
            // The first error says more than a second one would.
            let _ = runtime.block_on(writing.abandon());
            return Err(error);
        }
        let bytes = runtime.block_on(writing.finish())?;
        let Place { shard, number, .. } = self.place;
        self.written.segments.push(Segment { shard, number, bytes, index, content });
        self.place.number += 1;
        Ok(())
    }

    /// Leaves nothing of the segment that is open.
    fn give_up(&mut self) {
        if let Some(open) = self.open.take() {
            // The error that has led here says more than a second one would.
            let _ = self.around.runtime.block_on(open.writing.abandon());
        }
    }
}

/// Random bytes.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| Error::Unsuitable(format!("this machine gives no random numbers: {error}")))
}
