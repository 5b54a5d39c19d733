//! Disks that run short or fail while the journal holds something.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::super::super::{Directory as LogDirectory, LogFile};
use super::*;

/// The faults of a disk.
#[derive(Debug, Default)]
struct Faults {
    /// No file can be created.
    is_full: AtomicBool,
    /// Syncs say EIO, and what was written is read all the same.
    fails_to_sync: AtomicBool,
}

#[derive(Clone, Debug)]
struct Faulty(LogFiles, Arc<Faults>);

#[derive(Debug)]
struct FaultyFile(<LogFiles as LogDirectory>::File, Arc<Faults>);

impl LogDirectory for Faulty {
    type File = FaultyFile;
    type Lock = <LogFiles as LogDirectory>::Lock;

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn create(&self) -> io::Result<()> {
        self.0.create()
    }

    fn lock(&self) -> io::Result<Option<Self::Lock>> {
        self.0.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn create_file(&self, name: &str) -> io::Result<FaultyFile> {
        if self.1.is_full.load(Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(28));
        }
        Ok(FaultyFile(self.0.create_file(name)?, Arc::clone(&self.1)))
    }

    fn open_file(&self, name: &str) -> io::Result<FaultyFile> {
        Ok(FaultyFile(self.0.open_file(name)?, Arc::clone(&self.1)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl LogFile for FaultyFile {
    fn length(&self) -> io::Result<u64> {
        self.0.length()
    }

    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.0.read_at(offset, bytes_max)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.1.fails_to_sync.load(Ordering::SeqCst) {
            true => Err(io::Error::from_raw_os_error(5)),
            false => self.0.sync(),
        }
    }
}

const SMALL: LogOptions = LogOptions { segment_bytes_first: 4096, segment_bytes_max: 4096 };

/// The record of the journal cannot be synced, and is read by the next process all the same, as Linux does as long as the page is in memory.
/// Meanwhile a log has found no room for its next segment, and comes back in the same process once there is room.
#[test]
fn a_log_that_comes_back_after_the_journal_has_failed_keeps_what_it_acknowledges() {
    let node = Node::new();
    let faults: [Arc<Faults>; 3] = std::array::from_fn(|_| Arc::default());
    let directory = |at: usize| {
        let path = if at == 0 { node.journal() } else { node.log_of(at as u32) };
        Faulty(LogFiles::at(&path), Arc::clone(&faults[at]))
    };
    let mut journal = Journal::create_in(&directory(0), CLUSTER, JOURNAL, 5).unwrap();
    let mut logs = [1, 2]
        .map(|at| Log::create_in(&directory(at), Node::identity(at as u32), SMALL, 90 + at as u64).unwrap());
    journal.prepare().unwrap();
    let batch = logs.iter_mut().map(|log| {
        log.append(b"one");
        log.write_later().unwrap().unwrap()
    });
    let batch = batch.collect();
    let begun = journal.begin(batch);
    // The event loop goes on while the record is being synced, and finds no room.
    faults[1].is_full.store(true, Ordering::SeqCst);
    logs[0].append(&[7; 4096]);
    let error = logs[0].write_later().unwrap_err();
    assert!(error.shortage().is_some(), "so the replica comes back by itself: {error}");
    faults[0].fails_to_sync.store(true, Ordering::SeqCst);
    let Committed { together, alone } = journal.end(begun);
    assert_eq!((together.len(), alone.len()), (0, 2));
    let synced: Vec<bool> = alone.iter().map(|unsynced| unsynced.sync().is_ok()).collect();
    assert_eq!(synced, [false, true]);
    drop(alone);
    // There is room again. The server settles the journal, and opens the log.
    faults[1].is_full.store(false, Ordering::SeqCst);
    let [first, second] = logs;
    drop(first);
    journal.release(Node::identity(1).replica, 91).unwrap();
    let (mut log, records) = Log::open_in(&directory(1), Node::identity(1), SMALL).unwrap();
    assert_eq!(records.collect::<Result<Vec<_>, _>>().unwrap(), ["one"]);
    log.append(b"two");
    log.sync().unwrap();
    drop((log, journal, second));
    node.replayed();
    assert_eq!(node.records(1).unwrap(), ["one", "two"], "what was acknowledged is lost");
}

/// Another process holds the log for a moment, as one that is just ending does.
#[test]
fn a_log_that_was_in_use_for_a_moment_comes_back_by_itself() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    let [first, second] = logs;
    let incarnation = first.incarnation();
    drop((journal, second));
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed.kept, 1, "it is in use");
    let refused = journal.release(Node::identity(1).replica, incarnation).unwrap_err();
    assert!(matches!(refused, LogError::InUse { .. }), "so the replica comes back by itself: {refused}");
    drop(first);
    let released = journal.release(Node::identity(1).replica, incarnation);
    assert!(released.is_ok(), "{}", released.unwrap_err());
    drop(journal);
    assert_eq!(node.records(1).unwrap(), ["one"]);
    // Nothing is kept any more, and nothing is missed.
    let (mut journal, replayed) = node.open().unwrap();
    assert_eq!(replayed, Replayed::default());
    assert!(journal.release(Node::identity(1).replica, incarnation).is_ok());
}
