//! Giving up what is not needed any more, and crashes in the middle of that.

use std::fs;
use std::sync::mpsc;

use super::super::format::BEGINNING_OFFSET;
use super::super::{Position, Syncer};
use super::*;

/// A synced log over several segments, and the position before each of its records.
fn long_log(directory: &Directory) -> (Log, Vec<Position>) {
    let mut log = directory.create();
    let mut positions = Vec::new();
    for number in 0..30 {
        positions.push(log.end());
        log.append(&record(number));
    }
    log.sync().unwrap();
    assert!(log.end().segment() >= 5);
    (log, positions)
}

fn numbers(directory: &Directory) -> Vec<u32> {
    let name = |(name, _): (PathBuf, Vec<u8>)| name.file_stem().unwrap().to_str().unwrap().parse().unwrap();
    files(&directory.log()).into_iter().map(name).collect()
}

/// The found records must be the end of the log, from this record or an earlier one on.
fn assert_from(found: &[Bytes], needed: usize) -> usize {
    let all: Vec<_> = (0..30).map(record).collect();
    let first = all.len() - found.len();
    assert_eq!(found, &all[first..]);
    assert!(first <= needed, "record {first} is the first that is left, and {needed} is needed");
    first
}

#[test]
fn whole_segments_before_a_position_go() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    let last = log.end().segment();
    for (needed, position) in positions.iter().enumerate() {
        if let Some(truncation) = log.truncate(*position) {
            truncation.run().unwrap();
        }
        assert_eq!(numbers(&directory), (position.segment()..=last).collect::<Vec<_>>());
        assert!(log.truncate(*position).is_none(), "there is nothing left to give up");
        let copy = with_files(&files(&directory.log()));
        let first = assert_from(&copy.records().unwrap(), needed);
        assert!(positions[needed].segment() - positions[first].segment() <= 1);
    }
}

#[test]
fn a_truncated_log_goes_on_and_is_truncated_again() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    log.truncate(positions[20]).unwrap().run().unwrap();
    log.append(b"one more");
    log.close().unwrap();
    let (mut log, found) = directory.open().unwrap();
    assert_eq!(found.last().unwrap(), "one more");
    assert_from(&found[..found.len() - 1], 20);
    assert!(log.truncate(positions[20]).is_none(), "it is known where the log begins");
    let before = log.end();
    append(&mut log, (30..60).map(record));
    log.sync().unwrap();
    log.truncate(before).unwrap().run().unwrap();
    drop(log);
    let found = directory.records().unwrap();
    assert!(found.ends_with(&(30..60).map(|number| record(number).into()).collect::<Vec<Bytes>>()));
    assert!(found.len() < 36, "{}", found.len());
}

#[test]
#[should_panic(expected = "durable before the rest goes")]
fn what_stays_must_be_durable() {
    let directory = Directory::new();
    let (mut log, _) = long_log(&directory);
    append(&mut log, (0..30).map(record));
    drop(log.write().unwrap());
    drop(log.truncate(log.end()));
}

/// The beginning is durable before anything is removed; after that, a disk may forget names in any order.
#[test]
fn a_crash_may_leave_any_of_the_segments_that_are_not_needed() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    let before = files(&directory.log());
    log.truncate(positions[20]).unwrap().run().unwrap();
    drop(log);
    let after = files(&directory.log());
    let unneeded = before.len() - after.len();
    assert!(unneeded >= 3);
    for left in 0..1u32 << unneeded {
        let remains = |at: &usize| left >> at & 1 == 1;
        let mut crashed: Files = (0..unneeded).filter(remains).map(|at| before[at].clone()).collect();
        crashed.extend(after.iter().cloned());
        let directory = with_files(&crashed);
        assert_from(&directory.records().unwrap(), 20);
        assert_eq!(files(&directory.log()).len(), after.len(), "what is not needed is removed");
    }
    // The beginning did not reach the disk: then nothing was removed.
    assert_eq!(assert_from(&with_files(&before).records().unwrap(), 20), 0);
}

/// The same at every point at which the process itself may die.
#[test]
fn a_truncation_that_was_not_completed_is_completed_later() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    drop(log.truncate(positions[15]));
    drop(log);
    assert_eq!(directory.records().unwrap().len(), 30, "nothing was noted, and nothing removed");
    let (mut log, _) = directory.open().unwrap();
    log.truncate(positions[15]).unwrap().run().unwrap();
    assert_from(&with_files(&files(&directory.log())).records().unwrap(), 15);
}

#[test]
fn a_missing_segment_after_the_beginning_is_noticed() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    log.truncate(positions[12]).unwrap().run().unwrap();
    log.close().unwrap();
    let files = files(&directory.log());
    for at in 0..files.len() {
        let mut missing = files.clone();
        let (name, _) = missing.remove(at);
        let error = with_files(&missing).open().unwrap_err();
        assert!(matches!(error, LogError::MissingSegment { .. }), "without {}: {error}", name.display());
    }
}

/// A log whose beginning has decayed is refused: segments may be missing.
#[test]
fn a_flip_in_the_beginning_is_noticed() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    log.truncate(positions[12]).unwrap().run().unwrap();
    log.close().unwrap();
    let files = files(&directory.log());
    for offset in 0..16 {
        let mut flipped = files.clone();
        flipped[0].1[BEGINNING_OFFSET as usize + offset] ^= 0x10;
        let error = with_files(&flipped).open().unwrap_err();
        assert!(matches!(error, LogError::MissingSegment { .. }), "{error}");
    }
}

/// A file that belongs to another log is no leftover, and nothing is removed because of it.
#[test]
fn a_foreign_beginning_removes_nothing() {
    let (ours, theirs) = (Directory::new(), Directory::new());
    drop(long_log(&ours));
    let (mut log, positions) = long_log(&theirs);
    log.truncate(positions[29]).unwrap().run().unwrap();
    drop(log);
    let mut mixed = files(&ours.log());
    let (name, bytes) = files(&theirs.log()).remove(0);
    mixed.retain(|(known, _)| *known < name);
    mixed.push((name, bytes));
    let directory = with_files(&mixed);
    assert!(matches!(directory.open().unwrap_err(), LogError::ForeignIncarnation { .. }));
    assert_eq!(files(&directory.log()), mixed);
}

#[test]
fn a_log_that_has_failed_is_not_truncated() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    let truncation = log.truncate(positions[20]).unwrap();
    fs::remove_dir_all(directory.log()).unwrap();
    assert!(truncation.run().is_err());
    log.append(b"too late");
    assert!(matches!(log.write().unwrap_err(), LogError::Failed { .. }));
}

#[test]
fn the_syncer_truncates_beside_its_work() {
    let directory = Directory::new();
    let (mut log, positions) = long_log(&directory);
    let (reports, news) = mpsc::channel();
    let syncer = Syncer::start(move |report| drop(reports.send(report))).unwrap();
    syncer.truncate(log.truncate(positions[20]).unwrap());
    let end = log.append(b"meanwhile");
    syncer.submit(log.write().unwrap().unwrap());
    assert_eq!(news.recv().unwrap().result.unwrap(), end);
    drop((syncer, log));
    assert_eq!(numbers(&directory)[0], positions[20].segment());
    assert_eq!(directory.records().unwrap().last().unwrap(), "meanwhile");
}
