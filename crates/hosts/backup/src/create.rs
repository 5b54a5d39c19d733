//! Taking a backup.
//!
//! ```text
//!   mark ──► names of chunks that are there ──► cut ──► segments with the chunks that are not ──► manifest ──► mark goes
//! ```
//!
//! A backup that leans on a folder says so by its mark before it looks whether the folder is being deleted; a deletion says so by a mark before it looks which backups lean on the
//! folder. So of both that happen at one time at least one sees the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate::{CutEntry, CutReader, Database};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::archive::{Archive, name_in, put};
use crate::cipher::{ALGORITHM, Cipher};
use crate::error::{Error, Result};
use crate::known::{Candidates, Known, Source};
use crate::listing::{DELETING, MANIFEST, Mark, UNFINISHED, mark_name, marked};
use crate::manifest::{
    Encryption, FORMAT, File, KeyspaceManifest, Leaned, Manifest, checksum_text, segment_name,
};
use crate::segment::{Place, Used};
use crate::verify::check_files;
use crate::writer::{Page, Reused, SEGMENT_BYTES, Segment, Surroundings, Written, fill_random, write_shard};

/// Pages that wait for the archive, for each shard.
const PAGES_WAITING: usize = 4;

/// How often a new instant is chosen if one is lost: a replica that is read may stop.
const TRIES: u32 = 3;

/// How a backup is taken.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Encrypts it.
    pub cipher: Option<Cipher>,
    /// How long to wait for shards to come to the instant.
    pub patience: Duration,
    /// Reads no more bytes a second than this, of all shards together.
    pub bytes_per_second: Option<u64>,
    /// Uses chunks of the newest backup of the keyspace.
    pub incremental: bool,
    /// Becomes true when the backup is to be given up: what is written by then is kept.
    pub stop: Option<watch::Receiver<bool>>,
}

/// How far a backup or a restoration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many entries.
    pub entries: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
}

/// A backup that was taken.
#[derive(Clone, Debug)]
pub struct Taken {
    /// The folder in the archive.
    pub folder: String,
    /// Its manifest.
    pub manifest: Manifest,
    /// Remarks for people: what could not be used, and why.
    pub notes: Vec<String>,
}

/// Takes a backup of a keyspace into a new folder of an archive. `progress` is told how far it is.
///
/// # Errors
/// The keyspace cannot be read at one instant, or the archive not written to. No backup is left behind then; segments that are whole are kept for the next
/// one, which [`Error::Unfinished`] tells.
pub async fn create(
    db: &Database,
    keyspace: &str,
    archive: &Arc<dyn Archive>,
    options: &CreateOptions,
    mut progress: impl FnMut(Progress),
) -> Result<Taken> {
    // A name that is none is found before anything is written.
    db.keyspace(keyspace).await?;
    let mut run = Run::begin(archive, keyspace, options.cipher.clone(), options.incremental).await?;
    let mut tries = 1;
    let taken = loop {
        match take(db, keyspace, &mut run, options, &mut progress).await {
            Err(Error::Cluster(quorate::Error::CutLost { .. })) if tries < TRIES => tries += 1,
            taken => break taken,
        }
    };
    match taken {
        Ok(manifest) => Ok(Taken { folder: run.folder, manifest, notes: run.notes }),
        Err(error) => Err(run.give_up(error).await),
    }
}

/// Takes a backup at one instant.
async fn take(
    db: &Database,
    keyspace: &str,
    run: &mut Run,
    options: &CreateOptions,
    progress: &mut impl FnMut(Progress),
) -> Result<Manifest> {
    let cut = db.cut(keyspace, options.patience).await?;
    let shards = cut.shards().into_iter().map(|shard| (shard.0, cut.reader(shard))).collect();
    let written = write_shards(run, shards, options, progress).await?;
    run.finish(KeyspaceManifest::of(cut.definition()), cut.instant_micros(), written).await
}

/// Gives the entries of a shard, page by page.
pub(crate) trait Pages: Send + 'static {
    /// The next entries; none once all were given.
    fn next(&mut self) -> impl Future<Output = quorate::Result<Option<Vec<CutEntry>>>> + Send;
}

impl Pages for CutReader {
    fn next(&mut self) -> impl Future<Output = quorate::Result<Option<Vec<CutEntry>>>> + Send {
        CutReader::next(self)
    }
}

/// A backup that is being taken.
#[derive(Debug)]
pub(crate) struct Run {
    archive: Arc<dyn Archive>,
    /// The folder.
    pub(crate) folder: String,
    id: [u8; 16],
    cipher: Option<Cipher>,
    known: Arc<Known>,
    /// The length of a segment.
    segment_bytes: u64,
    /// The segments that were written for an instant that was lost, and their bytes.
    written: (u64, u64),
    next_number: BTreeMap<u32, u32>,
    /// Remarks for people.
    pub(crate) notes: Vec<String>,
}

impl Run {
    /// Begins a backup: finds the chunks that it can use, and leaves its mark.
    pub(crate) async fn begin(
        archive: &Arc<dyn Archive>,
        keyspace: &str,
        cipher: Option<Cipher>,
        is_incremental: bool,
    ) -> Result<Run> {
        archive.prepare().await?;
        let mut id = [0; 16];
        fill_random(&mut id)?;
        let digits = Manifest::name_id(id);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let folder = format!("{keyspace}-{}-{}", crate::time::compact(now.as_micros() as u64), &digits[..6]);
        let key_check = cipher.as_ref().map(Cipher::check).transpose()?;
        let candidates = Candidates::find(archive, keyspace, key_check.as_ref(), is_incremental).await?;
        let mark = Mark {
            quorate_backup: FORMAT,
            id: digits,
            keyspace: keyspace.to_owned(),
            key_check,
            leans_on: candidates.folders.clone(),
        };
        let mark =
            serde_json::to_vec(&mark).map_err(|error| Error::Unsuitable(format!("no mark: {error}")))?;
        let mut run = Run {
            archive: Arc::clone(archive),
            folder,
            id,
            cipher,
            known: Arc::default(),
            segment_bytes: SEGMENT_BYTES,
            written: (0, 0),
            next_number: BTreeMap::new(),
            notes: Vec::new(),
        };
        if is_incremental && !candidates.has_base {
            run.notes.push(format!(
                "{} has no backup of {keyspace:?} that this one could lean on: it is a full one",
                archive.location()
            ));
        }
        let marking = put(&**archive, &mark_name(UNFINISHED, &run.folder), Bytes::from(mark)).await;
        let loaded = match marking {
            Ok(()) => candidates.load(archive, run.cipher.as_ref()).await,
            Err(error) => Err(error),
        };
        match loaded {
            Ok((known, notes)) => {
                run.known = Arc::new(known);
                run.notes.extend(notes);
                Ok(run)
            }
            Err(error) => Err(run.give_up(error).await),
        }
    }

    /// The surroundings of the writer of a shard, and the place of its first segment.
    fn writer_of(&self, shard: u32) -> (Surroundings, Place) {
        let around = Surroundings {
            archive: Arc::clone(&self.archive),
            folder: self.folder.clone(),
            cipher: self.cipher.clone(),
            known: Arc::clone(&self.known),
            segment_bytes: self.segment_bytes,
            runtime: Handle::current(),
        };
        let number = self.next_number.get(&shard).copied().unwrap_or(0);
        (around, Place { backup: self.id, shard, number })
    }

    /// Notes what was written for an instant that came to nothing: a further one uses it.
    fn keep(&mut self, shards: Vec<Written>) {
        let mut known = std::mem::take(&mut self.known);
        for Segment { shard, number, bytes, index, .. } in shards.into_iter().flat_map(|shard| shard.segments)
        {
            self.next_number.insert(shard, number + 1);
            self.written = (self.written.0 + 1, self.written.1 + bytes);
            // Writers have ended, so nobody else holds it.
            if let Some(known) = Arc::get_mut(&mut known) {
                known.add(Source { from: None, shard, number, bytes }, index);
            }
        }
        self.known = known;
    }

    /// Writes the manifest, once everything that it names is there.
    pub(crate) async fn finish(
        &mut self,
        keyspace: KeyspaceManifest,
        instant_us: u64,
        shards: Vec<Written>,
    ) -> Result<Manifest> {
        let finished = self.finish_with(keyspace, instant_us, &shards).await;
        if finished.is_err() {
            self.keep(shards);
        }
        finished
    }

    async fn finish_with(
        &self,
        keyspace: KeyspaceManifest,
        instant_us: u64,
        shards: &[Written],
    ) -> Result<Manifest> {
        let encryption = match &self.cipher {
            None => None,
            Some(cipher) => {
                Some(Encryption { algorithm: ALGORITHM.to_owned(), key_check: cipher.check()?, seal: None })
            }
        };
        let (files, leans_on) = self.files_of(shards)?;
        let manifest = Manifest {
            quorate_backup: FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            id: Manifest::name_id(self.id),
            keyspace,
            instant_us,
            instant: crate::rfc3339(instant_us),
            encryption,
            entries: files.iter().map(|file| file.entries).sum(),
            bytes: files.iter().map(|file| file.content_bytes).sum(),
            leans_on,
            files,
            checksum: String::new(),
        };
        let text = manifest.to_json(self.cipher.as_ref())?;
        let manifest = Manifest::from_json(&text)?;
        // Somebody may have deleted a folder all the same, with other tools.
        check_files(&*self.archive, &self.folder, &manifest).await?;
        let deleting = marked(&*self.archive, DELETING).await?;
        let leaned = manifest.leans_on.iter().map(|leaned| &leaned.folder);
        if let Some(folder) = leaned.chain([&self.folder]).find(|folder| deleting.contains(*folder)) {
            return Err(Error::Unsuitable(format!("{folder} was deleted meanwhile: take the backup again")));
        }
        put(&*self.archive, &name_in(&self.folder, MANIFEST), Bytes::from(text)).await?;
        // A mark that stays beside a manifest means nothing, so the backup is whole in any case.
        let _ = self.archive.delete(&mark_name(UNFINISHED, &self.folder)).await;
        Ok(manifest)
    }

    /// The files of a manifest, and the folders that these lie in beside its own.
    fn files_of(&self, shards: &[Written]) -> Result<(Vec<File>, Vec<Leaned>)> {
        let (mut files, mut leans_on) = (Vec::new(), std::collections::BTreeSet::new());
        for shard in shards {
            files.extend(shard.segments.iter().map(own_file));
            for (source, reused) in &shard.reused {
                let source = self.known.source(*source);
                let source =
                    source.ok_or_else(|| Error::Unsuitable("a chunk is of no segment".to_owned()))?;
                leans_on.extend(source.from.clone());
                files.push(reused_file(source, reused));
            }
        }
        files.sort_by(|one, other| {
            (&one.from, one.shard, one.number).cmp(&(&other.from, other.shard, other.number))
        });
        Ok((files, leans_on.into_iter().collect()))
    }

    /// Leaves nothing but segments that are whole, and gives the error that tells so.
    pub(crate) async fn give_up(&self, error: Error) -> Error {
        let (files, bytes) = self.written;
        if files > 0 {
            return Error::Unfinished { source: Box::new(error), folder: self.folder.clone(), files, bytes };
        }
        // If the archive cannot be reached any more, a mark without a folder is left, which `list` shows.
        let _ = self.archive.delete(&mark_name(UNFINISHED, &self.folder)).await;
        error
    }
}

fn own_file(segment: &Segment) -> File {
    let Segment { shard, number, bytes, index, content } = segment;
    let all = (0..).zip(index).map(|(position, _)| position).collect();
    File {
        name: segment_name(*shard, *number),
        from: None,
        shard: *shard,
        number: *number,
        bytes: *bytes,
        chunks: Some(Used::of(all).to_string()),
        chunk_bytes: Some(index.iter().map(|(_, stored)| u64::from(*stored)).sum()),
        entries: content.entries,
        content_bytes: content.bytes,
        content: checksum_text(content.sum),
    }
}

fn reused_file(source: &Source, reused: &Reused) -> File {
    File {
        name: segment_name(source.shard, source.number),
        from: source.from.as_ref().map(|leaned| leaned.folder.clone()),
        shard: source.shard,
        number: source.number,
        bytes: source.bytes,
        chunks: Some(reused.used().to_string()),
        chunk_bytes: Some(reused.bytes),
        entries: reused.content.entries,
        content_bytes: reused.content.bytes,
        content: checksum_text(reused.content.sum),
    }
}

/// How much was read so far, and how much may be.
#[derive(Debug)]
struct Told {
    began: Instant,
    bytes_per_second: Option<u64>,
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl Told {
    /// Counts entries, and tells before when no more are to be read.
    fn count(&self, entries: &[CutEntry]) -> Option<Instant> {
        self.entries.fetch_add(entries.len() as u64, Ordering::Relaxed);
        let bytes: u64 = entries.iter().map(bytes_of).sum();
        let bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let due = |limit: u64| self.began + Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
        self.bytes_per_second.map(due)
    }

    fn progress(&self) -> Progress {
        let [entries, bytes] = [&self.entries, &self.bytes].map(|count| count.load(Ordering::Relaxed));
        Progress { entries, bytes }
    }
}

/// Reads all shards at once, because one that is not asked lets go of the instant. If one of them fails, the others end where they are.
pub(crate) async fn write_shards<P: Pages>(
    run: &mut Run,
    shards: Vec<(u32, P)>,
    options: &CreateOptions,
    progress: &mut impl FnMut(Progress),
) -> Result<Vec<Written>> {
    let told = Arc::new(Told {
        began: Instant::now(),
        bytes_per_second: options.bytes_per_second,
        entries: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    });
    let (halt, halted) = watch::channel(false);
    let mut writers: JoinSet<Result<Written>> = JoinSet::new();
    for (shard, pages) in shards {
        writers.spawn(carry(run.writer_of(shard), pages, halted.clone(), Arc::clone(&told)));
    }
    let mut stop = std::pin::pin!(is_stopped(options.stop.clone()));
    let (mut all, mut failure) = (Vec::new(), None);
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            joined = writers.join_next() => match joined {
                None => break,
                Some(joined) => {
                    let stopped = |error| Error::Unsuitable(format!("the reader of a shard has stopped: {error}"));
                    match joined.map_err(stopped).and_then(|written| written) {
                        Ok(mut written) => {
                            note(&mut failure, written.failure.take());
                            all.push(written);
                        }
                        Err(error) => note(&mut failure, Some(error)),
                    }
                    if failure.is_some() {
                        halt.send_replace(true);
                    }
                }
            },
            () = &mut stop, if failure.is_none() => {
                failure = Some(Error::Interrupted);
                halt.send_replace(true);
            }
            _ = ticks.tick() => progress(told.progress()),
        }
    }
    match failure {
        None => Ok(all),
        Some(error) => {
            run.keep(all);
            Err(error)
        }
    }
}

/// Carries the entries of a shard from its reader to its writer.
async fn carry<P: Pages>(
    (around, place): (Surroundings, Place),
    pages: P,
    halted: watch::Receiver<bool>,
    told: Arc<Told>,
) -> Result<Written> {
    let (sender, receiver) = mpsc::channel(PAGES_WAITING);
    let writer = tokio::task::spawn_blocking(move || write_shard(around, place, receiver));
    let fed = feed(pages, &sender, halted, |entries| told.count(entries)).await;
    drop(sender);
    let stopped = |error| Error::Unsuitable(format!("the writer of a shard has stopped: {error}"));
    let mut written = writer.await.map_err(stopped)?;
    // A writer that has failed is why nothing more was taken; one that was halted was told to end by its reader.
    written.failure = match (written.failure, fed) {
        (Some(Error::Interrupted) | None, Err(error)) => Some(error),
        (failure, _) => failure,
    };
    Ok(written)
}

/// Keeps the first error; that others end because of it is none.
fn note(failure: &mut Option<Error>, error: Option<Error>) {
    let is_first = matches!(failure, None | Some(Error::Interrupted));
    if let Some(error) = error.filter(|_| is_first) {
        *failure = Some(error);
    }
}

/// Ends when a backup is to be given up.
async fn is_stopped(stop: Option<watch::Receiver<bool>>) {
    if let Some(mut stop) = stop
        && stop.wait_for(|stop| *stop).await.is_ok()
    {
        return;
    }
    // Nobody can want it any more.
    std::future::pending().await
}

/// Hands the pages of a shard to its writer, each not before its time, until there are no more or all are to end.
async fn feed<P: Pages>(
    mut pages: P,
    writer: &mpsc::Sender<Page>,
    mut halted: watch::Receiver<bool>,
    mut due: impl FnMut(&[CutEntry]) -> Option<Instant>,
) -> Result<()> {
    let feeding = async {
        loop {
            let Some(entries) = pages.next().await? else { return Ok(Page::End) };
            let due = due(&entries);
            if writer.send(Page::Entries(entries)).await.is_err() {
                // The writer has failed, and says why.
                return Ok(Page::End);
            }
            if let Some(due) = due {
                tokio::time::sleep_until(due).await;
            }
        }
    };
    let ended = tokio::select! {
        ended = feeding => ended,
        _ = halted.wait_for(|halted| *halted) => Err(Error::Interrupted),
    };
    match ended {
        Ok(last) => {
            // As above.
            let _ = writer.send(last).await;
            Ok(())
        }
        Err(error) => {
            let _ = writer.send(Page::Halt).await;
            Err(error)
        }
    }
}

/// The bytes of an entry's keys and values.
pub(crate) fn bytes_of(entry: &CutEntry) -> u64 {
    let bytes = match entry {
        CutEntry::Value { key, value } => key.len() + value.len(),
        CutEntry::Count { set, element, .. } => set.len() + element.len() + 8,
        CutEntry::Counter { counter, .. } => counter.len() + 8,
        CutEntry::Procedure { name, code, .. } => name.len() + code.len() + 4,
    };
    bytes as u64
}

#[cfg(test)]
pub(crate) mod tests;
