//! Disks without room: the log makes do with little, gives up clearly, and is opened again when there is room.

use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use super::super::directory::LogFile;
use super::super::files::LogHandle;
use super::super::{Directory as Place, Files, Shortage};
use super::*;

/// A directory of the file system with room for so many bytes more.
#[derive(Clone, Debug)]
struct Scarce {
    files: Files,
    room: Rc<Cell<u64>>,
}

#[derive(Debug)]
struct ScarceFile {
    file: LogHandle,
    room: Rc<Cell<u64>>,
}

impl Scarce {
    fn in_directory(directory: &Directory) -> Scarce {
        Scarce { files: Files::at(&directory.log()), room: Rc::new(Cell::new(u64::MAX)) }
    }

    fn file(&self, file: LogHandle) -> ScarceFile {
        ScarceFile { file, room: Rc::clone(&self.room) }
    }
}

impl Place for Scarce {
    type File = ScarceFile;
    type Lock = fs::File;

    fn path(&self) -> &Path {
        self.files.path()
    }

    fn create(&self) -> io::Result<()> {
        self.files.create()
    }

    fn lock(&self) -> io::Result<Option<fs::File>> {
        self.files.lock()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.files.list()
    }

    fn create_file(&self, name: &str) -> io::Result<ScarceFile> {
        Ok(self.file(self.files.create_file(name)?))
    }

    fn open_file(&self, name: &str) -> io::Result<ScarceFile> {
        Ok(self.file(self.files.open_file(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.files.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let length = self.files.open_file(name)?.length()?;
        self.room.set(self.room.get().saturating_add(length));
        self.files.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.files.sync()
    }
}

impl LogFile for ScarceFile {
    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    fn read_at(&self, offset: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
        self.file.read_at(offset, bytes_max)
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let growth = (offset + bytes.len() as u64).saturating_sub(self.length()?);
        let left = self.room.get().checked_sub(growth).ok_or(ErrorKind::StorageFull)?;
        self.room.set(left);
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        LogFile::sync(&self.file)
    }
}

const LARGE: LogOptions = LogOptions { segment_bytes_first: 4 * 1024, segment_bytes_max: 64 * 1024 };

fn records(scarce: &Scarce) -> Vec<Vec<u8>> {
    let (_, records) = Log::open_in(scarce, IDENTITY, LARGE).unwrap();
    records.map(|record| record.unwrap().to_vec()).collect()
}

/// Appends and syncs records until the log gives up; gives why, and how many are durable.
fn fill(log: &mut Log<Scarce>, first: u8) -> (LogError, u8) {
    for number in first.. {
        log.append(&[number; 700]);
        if let Err(error) = log.sync() {
            return (error, number);
        }
    }
    unreachable!("the disk is never full");
}

#[test]
fn without_room_for_a_whole_segment_a_log_goes_on_in_a_small_one() {
    let directory = Directory::new();
    let scarce = Scarce::in_directory(&directory);
    drop(Log::create_in(&scarce, IDENTITY, LARGE, 1).unwrap());
    let (mut log, _) = Log::open_in(&scarce, IDENTITY, LARGE).unwrap();
    // The second one would have 8 KiB, and the third 16 KiB.
    scarce.room.set(3 * 4 * 1024 + 100);
    let (error, durable) = fill(&mut log, 1);
    assert_eq!(error.shortage(), Some(Shortage::Space), "{error}");
    assert_eq!(scarce.room.get(), 100, "three small segments, and nothing is left of the fourth");
    assert!(durable > 12, "{durable}");
    drop(log);
    let found = records(&scarce);
    assert_eq!(found, (1..durable).map(|number| vec![number; 700]).collect::<Vec<_>>());
}

#[test]
fn a_log_that_ran_short_of_room_is_opened_again_and_has_what_was_durable() {
    let directory = Directory::new();
    let scarce = Scarce::in_directory(&directory);
    drop(Log::create_in(&scarce, IDENTITY, LARGE, 1).unwrap());
    let (mut log, _) = Log::open_in(&scarce, IDENTITY, LARGE).unwrap();
    let opening = log.opening();
    scarce.room.set(0);
    let (_, durable) = fill(&mut log, 1);
    log.append(b"more");
    let error = log.write().unwrap_err();
    assert!(matches!(error, LogError::Failed { .. }), "{error}");
    assert_eq!(error.shortage(), Some(Shortage::Space), "the first failure counts");
    drop(log);
    // Without room it can still be opened, and serve what needs no new segment.
    assert_eq!(records(&scarce).len(), usize::from(durable) - 1);
    scarce.room.set(u64::MAX);
    let (mut log, _) = Log::open_in(&scarce, IDENTITY, LARGE).unwrap();
    assert_ne!(log.opening(), opening, "reports of the two cannot be confused");
    for number in durable..durable + 20 {
        log.append(&[number; 700]);
        log.sync().unwrap();
    }
    drop(log);
    assert_eq!(records(&scarce).len(), usize::from(durable) + 19);
}
