//! The work of a scrubber on a log that is used.

use super::super::scrub::{Scrubber, scrub};
use super::*;

/// A log with records in several segments, all durable.
fn filled(directory: &Directory) -> Log {
    let mut log = directory.create();
    for number in 0..6 {
        log.append(&[number + 1; 100]);
        log.sync().unwrap();
    }
    log
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 1;
    // In place: the log has the file open.
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
}

#[test]
fn a_scrubber_reads_what_is_durable_and_finds_nothing_wrong() {
    let directory = Directory::new();
    let mut log = filled(&directory);
    let bytes = scrub(&log).unwrap();
    assert!(bytes > 600, "{bytes}");
    // A record that was only written does not concern it: it may be torn.
    log.append(&[9; 50]);
    let _unsynced = log.write().unwrap();
    flip(&directory.segment(log.end().segment()), log.end().offset() as usize - 30);
    scrub(&log).unwrap();
}

#[test]
fn every_flipped_bit_of_a_record_is_found_with_its_place() {
    for (segment, offset) in
        [(1, 1024), (1, 1024 + 5), (1, 1024 + 20), (1, 1024 + 115), (2, 1024 + 60), (3, 40)]
    {
        let directory = Directory::new();
        let log = filled(&directory);
        assert!(log.durable().segment() >= 3);
        flip(&directory.segment(segment), offset);
        let error = scrub(&log).unwrap_err().to_string();
        let file = format!("{segment:010}.log is corrupt at byte");
        assert!(error.contains(&file) && error.contains("remove"), "{segment} {offset}: {error}");
    }
}

#[test]
fn a_seal_that_decays_is_found() {
    let directory = Directory::new();
    let log = filled(&directory);
    // Two records of 120 bytes each, and the seal.
    flip(&directory.segment(1), 1024 + 240 + 4);
    assert!(scrub(&log).unwrap_err().to_string().contains("at byte 1264"));
}

#[test]
fn a_segment_that_is_gone_is_found_unless_it_was_given_up() {
    let directory = Directory::new();
    let mut log = filled(&directory);
    fs::remove_file(directory.segment(2)).unwrap();
    assert!(matches!(scrub(&log).unwrap_err(), LogError::MissingSegment { .. }));
    let truncation = log.truncate(log.durable()).expect("more than one segment");
    let mut scrubber = Scrubber::new(&log);
    truncation.run().unwrap();
    while !scrubber.step().unwrap().unwrap().is_complete {}
}

#[test]
fn a_scrubber_goes_on_across_a_truncation_and_ends_with_its_log() {
    let directory = Directory::new();
    let mut log = filled(&directory);
    let mut scrubber = Scrubber::new(&log);
    assert!(!scrubber.step().unwrap().unwrap().is_complete);
    log.truncate(log.durable()).unwrap().run().unwrap();
    while !scrubber.step().unwrap().unwrap().is_complete {}
    drop(log);
    assert!(scrubber.step().is_none());
}

#[test]
fn records_longer_than_a_window_are_read_whole() {
    let directory = Directory::new();
    let mut log = directory.create();
    for number in 1..4 {
        log.append(&vec![number; 300 * 1024 + usize::from(number)]);
        log.append(&vec![number; 100 * 1024]);
        log.append(&vec![number; 200 * 1024]);
        log.sync().unwrap();
    }
    scrub(&log).unwrap();
    let last = log.durable().segment();
    flip(&directory.segment(last), 1024 + 100);
    scrub(&log).unwrap_err();
}
