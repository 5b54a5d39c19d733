//! Properties of a log on a disk that works, decays, tears and fails.

mod append;
mod crash;
mod decay;
mod failure;
mod fixture;
mod identity;
mod journal;
mod scrubbing;
mod shortage;
mod sync;
mod truncate;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use quorate_core::{ReplicaId, ReplicaIndex, ShardId};

use super::{Log, LogError, LogIdentity, LogOptions, Recovery};

const IDENTITY: LogIdentity =
    LogIdentity { cluster: 0xc1, replica: ReplicaId { shard: ShardId(7), index: ReplicaIndex(2) } };

/// Segments with room for a few small records.
const SMALL: LogOptions = LogOptions { segment_bytes_first: 1024 + 256, segment_bytes_max: 1024 + 256 };

/// A directory that goes away with the test.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("quorate-log-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // Memory, where there is such a place: thousands of syncs of a real disk would take minutes.
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let path = parent.join(name);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    /// The place of the log: not created yet.
    fn log(&self) -> PathBuf {
        self.0.join("log")
    }

    fn segment(&self, number: u32) -> PathBuf {
        self.log().join(format!("{number:010}.log"))
    }

    fn create(&self) -> Log {
        Log::create(&self.log(), IDENTITY, SMALL).unwrap()
    }

    fn open(&self) -> Result<(Log, Vec<Bytes>), LogError> {
        let (log, records) = Log::open(&self.log(), IDENTITY, SMALL)?;
        Ok((log, records.collect::<Result<_, _>>()?))
    }

    /// The records of the log, which is closed again.
    fn records(&self) -> Result<Vec<Bytes>, LogError> {
        self.open().map(|(_, records)| records)
    }

    fn recovery(&self) -> Recovery {
        self.open().unwrap().0.recovery().clone()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A leftover in the temporary directory harms nobody.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// The names and contents of the segments of a log.
type Files = Vec<(PathBuf, Vec<u8>)>;

fn files(directory: &Path) -> Files {
    let mut files: Files = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .map(|path| (PathBuf::from(path.file_name().unwrap()), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

/// A directory whose log consists of these segments.
fn with_files(files: &[(PathBuf, Vec<u8>)]) -> Directory {
    let directory = Directory::new();
    fs::create_dir_all(directory.log()).unwrap();
    for (name, bytes) in files {
        fs::write(directory.log().join(name), bytes).unwrap();
    }
    directory
}

/// The record with a number; records differ in length.
fn record(number: usize) -> Vec<u8> {
    format!("record {number} {}", "x".repeat(number * 7 % 40)).into_bytes()
}

fn append<R: AsRef<[u8]>>(log: &mut Log, records: impl IntoIterator<Item = R>) {
    for record in records {
        log.append(record.as_ref());
    }
}
