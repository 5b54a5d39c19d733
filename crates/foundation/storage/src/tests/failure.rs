//! Disks that refuse: the log is finished, and nothing is acknowledged any more.

use std::fs::OpenOptions;
use std::sync::mpsc;

use super::super::segment::Segment;
use super::super::{Report, Syncer};
use super::*;

/// Replaces the file under a log by a device that is always full and cannot be synced.
fn break_disk(log: &mut Log) {
    let device = OpenOptions::new().write(true).open("/dev/full").unwrap();
    log.replace_segment(|old| Segment::around(device.into(), &old.path, old.header));
}

#[test]
fn after_a_failed_write_nothing_is_written() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"one");
    break_disk(&mut log);
    let error = log.write().unwrap_err();
    assert!(error.to_string().contains("cannot write to"), "{error}");
    log.append(b"two");
    let error = log.write().unwrap_err();
    assert!(
        matches!(error, LogError::Failed { .. }) && error.to_string().contains("repair the disk"),
        "{error}"
    );
    assert!(matches!(log.sync().unwrap_err(), LogError::Failed { .. }));
    drop(log);
    assert!(directory.records().unwrap().is_empty());
}

#[test]
fn a_failed_sync_is_never_a_success_later() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"one");
    let mut first = log.write().unwrap().unwrap();
    log.append(b"two");
    let second = log.write().unwrap().unwrap();
    break_disk(&mut log);
    first.segments = second.segments.iter().map(|_| log.current_segment()).collect();
    let before = log.durable();

    let (reports, news) = mpsc::channel();
    let syncer = Syncer::start(move |report| reports.send(report).unwrap()).unwrap();
    syncer.submit(first);
    let Report { replica, result, .. } = news.recv().unwrap();
    assert_eq!(replica, IDENTITY.replica);
    assert!(result.unwrap_err().to_string().contains("cannot sync"));
    syncer.submit(second);
    assert!(matches!(news.recv().unwrap().result.unwrap_err(), LogError::Failed { .. }));
    assert_eq!(log.durable(), before);
    assert!(matches!(log.write().unwrap_err(), LogError::Failed { .. }));
}

#[test]
fn a_log_that_cannot_go_on_says_so() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(&[1; 150]);
    log.sync().unwrap();
    std::fs::remove_dir_all(directory.log()).unwrap();
    log.append(&[2; 150]);
    let error = log.write().unwrap_err();
    assert!(
        error.to_string().contains("cannot create") && error.to_string().contains("0000000002"),
        "{error}"
    );
    assert!(matches!(log.write().unwrap_err(), LogError::Failed { .. }));
}
