//! Taking a backup.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quorate::{Cut, CutEntry, Database};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cipher::{ALGORITHM, Cipher};
use crate::directory::{MANIFEST, PartFile, sync};
use crate::error::{Error, Result};
use crate::manifest::{Encryption, FORMAT, File, KeyspaceManifest, Manifest, checksum_text, segment_name};
use crate::segment::{Place, SegmentWriter};

/// A further segment is begun once the entries of one have so many bytes.
const SEGMENT_BYTES: u64 = 256 * 1024 * 1024;

/// Pages that wait for the disk, for each shard.
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
}

/// How far a backup or a restoration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many entries.
    pub entries: u64,
    /// How many bytes their keys and values have.
    pub bytes: u64,
}

/// Takes a backup of a keyspace into a new folder in this one, and gives that and its manifest. `progress` is told how far it is.
///
/// # Errors
/// The keyspace cannot be read at one instant, or the folder not written to. Nothing is left behind then.
pub async fn create(
    db: &Database,
    keyspace: &str,
    folder: &Path,
    options: &CreateOptions,
    mut progress: impl FnMut(Progress),
) -> Result<(PathBuf, Manifest)> {
    let mut tries = 1;
    loop {
        let cut = db.cut(keyspace, options.patience).await?;
        match take(&cut, folder, options, &mut progress).await {
            Err(Error::Cluster(quorate::Error::CutLost { .. })) if tries < TRIES => tries += 1,
            taken => return taken,
        }
    }
}

async fn take(
    cut: &Cut,
    parent: &Path,
    options: &CreateOptions,
    progress: &mut impl FnMut(Progress),
) -> Result<(PathBuf, Manifest)> {
    let mut backup = [0; 16];
    fill_random(&mut backup)?;
    let id = Manifest::name_id(backup);
    let definition = cut.definition();
    let name = format!("{}-{}-{}", definition.name, crate::time::compact(cut.instant_micros()), &id[..6]);
    std::fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
    let folder = parent.join(name);
    std::fs::create_dir(&folder).map_err(Error::file("create", &folder))?;
    let unfinished = Unfinished(Some(folder.clone()));
    let files = write_shards(cut, &folder, backup, options, progress).await?;
    let manifest = finish(cut, &folder, &id, options, files)?;
    unfinished.keep();
    Ok((folder, manifest))
}

/// The folder of a backup that is removed unless it is finished, also if the program that takes it stops halfway.
struct Unfinished(Option<PathBuf>);

impl Unfinished {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            // The files that are left are no backup. If they cannot be removed, `list` shows it as interrupted.
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

fn fill_random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes)
        .map_err(|error| Error::Unsuitable(format!("this machine gives no random numbers: {error}")))
}

fn finish(cut: &Cut, folder: &Path, id: &str, options: &CreateOptions, files: Vec<File>) -> Result<Manifest> {
    let encryption = match &options.cipher {
        None => None,
        Some(cipher) => Some(Encryption { algorithm: ALGORITHM.to_owned(), key_check: cipher.check()? }),
    };
    let mut manifest = Manifest {
        quorate_backup: FORMAT,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        id: id.to_owned(),
        keyspace: KeyspaceManifest::of(cut.definition()),
        instant_us: cut.instant_micros(),
        instant: crate::rfc3339(cut.instant_micros()),
        encryption,
        entries: files.iter().map(|file| file.entries).sum(),
        bytes: files.iter().map(|file| file.content_bytes).sum(),
        files,
        checksum: String::new(),
    };
    let text = manifest.to_json()?;
    let mut file = PartFile::create(folder, MANIFEST)?;
    file.write(text.as_bytes())?;
    // The segments have their names durably before the manifest vouches for them.
    sync(folder)?;
    file.finish()?;
    sync(folder)?;
    if let Some(parent) = folder.parent() {
        sync(parent)?;
    }
    manifest = Manifest::from_json(&text)?;
    Ok(manifest)
}

/// Reads all shards at once, because one that is not asked lets go of the instant.
async fn write_shards(
    cut: &Cut,
    folder: &Path,
    backup: [u8; 16],
    options: &CreateOptions,
    progress: &mut impl FnMut(Progress),
) -> Result<Vec<File>> {
    let told = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let began = Instant::now();
    let mut shards: JoinSet<Result<Vec<File>>> = JoinSet::new();
    for shard in cut.shards() {
        let (sender, receiver) = mpsc::channel(PAGES_WAITING);
        let (folder, cipher) = (folder.to_owned(), options.cipher.clone());
        let writer = tokio::task::spawn_blocking(move || {
            write_segments(receiver, &folder, Place { backup, shard: shard.0, number: 0 }, cipher.as_ref())
        });
        let (mut reader, told, limit) = (cut.reader(shard), Arc::clone(&told), options.bytes_per_second);
        shards.spawn(async move {
            while let Some(entries) = reader.next().await? {
                let bytes: u64 = entries.iter().map(bytes_of).sum();
                told[0].fetch_add(entries.len() as u64, Ordering::Relaxed);
                let bytes = told[1].fetch_add(bytes, Ordering::Relaxed) + bytes;
                if sender.send(entries).await.is_err() {
                    // The writer has failed, and says why.
                    break;
                }
                if let Some(limit) = limit {
                    let due = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
                    tokio::time::sleep_until(began + due).await;
                }
            }
            drop(sender);
            writer
                .await
                .map_err(|error| Error::Unsuitable(format!("the writer of a shard has stopped: {error}")))?
        });
    }
    let mut files = Vec::new();
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            joined = shards.join_next() => match joined {
                None => break,
                Some(Ok(written)) => files.extend(written?),
                Some(Err(error)) => {
                    return Err(Error::Unsuitable(format!("the reader of a shard has stopped: {error}")));
                }
            },
            _ = ticks.tick() => {
                let [entries, bytes] = [0, 1].map(|at: usize| told[at].load(Ordering::Relaxed));
                progress(Progress { entries, bytes });
            }
        }
    }
    files.sort_by_key(|file| (file.shard, file.number));
    Ok(files)
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

/// Writes what one shard gives, until it gives no more.
fn write_segments(
    mut pages: mpsc::Receiver<Vec<CutEntry>>,
    folder: &Path,
    mut place: Place,
    cipher: Option<&Cipher>,
) -> Result<Vec<File>> {
    let mut files = Vec::new();
    let mut open: Option<(PartFile, SegmentWriter)> = None;
    while let Some(entries) = pages.blocking_recv() {
        for entry in &entries {
            let (file, writer) = match &mut open {
                Some(open) => open,
                none => none.insert(begin(folder, place, cipher)?),
            };
            if let Some(block) = writer.add(entry)? {
                file.write(&block)?;
            }
            if writer.content().bytes >= SEGMENT_BYTES
                && let Some(whole) = open.take()
            {
                files.push(end(whole, place)?);
                place.number += 1;
            }
        }
    }
    let last = match open {
        Some(open) => Some(open),
        // A shard that holds nothing has one segment all the same, which says so.
        None if files.is_empty() => Some(begin(folder, place, cipher)?),
        None => None,
    };
    if let Some(whole) = last {
        files.push(end(whole, place)?);
    }
    Ok(files)
}

fn begin(folder: &Path, place: Place, cipher: Option<&Cipher>) -> Result<(PartFile, SegmentWriter)> {
    let mut salt = [0; 16];
    fill_random(&mut salt)?;
    let (writer, header) = SegmentWriter::new(place, salt, cipher.cloned());
    let mut file = PartFile::create(folder, &segment_name(place.shard, place.number))?;
    file.write(&header)?;
    Ok((file, writer))
}

fn end((mut file, writer): (PartFile, SegmentWriter), place: Place) -> Result<File> {
    let (bytes, content) = writer.finish()?;
    file.write(&bytes)?;
    Ok(File {
        name: segment_name(place.shard, place.number),
        shard: place.shard,
        number: place.number,
        bytes: file.finish()?,
        entries: content.entries,
        content_bytes: content.bytes,
        content: checksum_text(content.sum),
    })
}

#[cfg(test)]
mod tests {
    use quorate_core::{Key, Value};

    use super::*;

    #[test]
    fn a_shard_that_gives_nothing_has_a_segment_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { backup: [1; 16], shard: 2, number: 0 };
        let (sender, receiver) = mpsc::channel(1);
        drop(sender);
        let files = write_segments(receiver, folder.path(), place, None).unwrap();
        assert_eq!(files.len(), 1);
        assert_eq!((files[0].entries, files[0].name.as_str()), (0, "shard-2-00000.segment"));
    }

    #[test]
    fn what_a_shard_gives_in_several_pages_is_one_segment() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place { backup: [1; 16], shard: 2, number: 0 };
        let (sender, receiver) = mpsc::channel(2);
        for key in ["a", "b"] {
            let value = Value::from_static(b"x");
            sender.blocking_send(vec![CutEntry::Value { key: Key::from(key), value }]).unwrap();
        }
        drop(sender);
        let files = write_segments(receiver, folder.path(), place, None).unwrap();
        assert_eq!((files.len(), files[0].entries), (1, 2));
    }

    #[test]
    fn what_one_counts_of_an_entry_is_what_a_segment_counts() {
        let key = |text: &str| Key::from(text);
        let entries = [
            CutEntry::Value { key: key("a"), value: Value::from_static(b"12") },
            CutEntry::Count { set: key("s"), element: key("e"), count: 3 },
            CutEntry::Counter { counter: key("c"), value: 1 },
            CutEntry::Procedure { name: "p".to_owned(), version: 1, code: Value::from_static(b"x") },
        ];
        for entry in &entries {
            let mut content = crate::segment::Content::default();
            content.add(entry);
            assert_eq!(content.bytes, bytes_of(entry), "{entry:?}");
        }
    }
}
