//! Appending, segments and reading back.

use std::fs;

use super::super::format::{RECORD_HEADER_BYTES, RECORDS_OFFSET, SEGMENT_BYTES_MIN};
use super::*;

#[test]
fn records_are_read_back_in_order_over_many_segments() {
    let directory = Directory::new();
    let mut log = directory.create();
    let mut last = log.durable();
    for number in 0..40 {
        let position = log.append(&record(number));
        assert!(position > last, "positions grow");
        last = position;
        if number % 7 == 0 {
            assert_eq!(log.sync().unwrap(), position);
            assert_eq!(log.durable(), position);
        }
    }
    log.sync().unwrap();
    drop(log);
    let expected: Vec<_> = (0..40).map(record).collect();
    let (mut log, records) = directory.open().unwrap();
    assert_eq!(records, expected);
    assert_eq!(log.recovery(), &Recovery { records: 40, torn_bytes: 0 });
    assert_eq!(log.durable(), last, "what was recovered is durable");
    assert!(files(&directory.log()).len() > 5);

    assert!(log.append(b"after a restart") > last);
    log.sync().unwrap();
    drop(log);
    let records = directory.records().unwrap();
    assert_eq!(records.len(), 41);
    assert_eq!(records[40], "after a restart");
}

#[test]
fn one_write_may_fill_several_segments() {
    let directory = Directory::new();
    let mut log = directory.create();
    append(&mut log, (0..100).map(record));
    assert!(log.unwritten_bytes() > 2_000);
    let unsynced = log.write().unwrap().unwrap();
    assert_eq!(log.unwritten_bytes(), 0);
    assert!(unsynced.segments.len() > 5, "every segment that was filled has to be synced");
    assert!(log.write().unwrap().is_none(), "there is nothing left to write");
    drop((log, unsynced));
    assert_eq!(directory.records().unwrap(), (0..100).map(record).collect::<Vec<_>>());
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let directory = Directory::new();
    let mut log = directory.create();
    let large = vec![7; 100_000];
    log.append(b"before");
    log.append(&large);
    log.append(b"after");
    log.sync().unwrap();
    drop(log);
    let expected = [b"before".to_vec(), large, b"after".to_vec()];
    assert_eq!(directory.records().unwrap(), expected);
    assert!(fs::metadata(directory.segment(2)).unwrap().len() > 100_000);
}

#[test]
fn contents_of_every_length_are_kept() {
    let directory = Directory::new();
    let mut log = directory.create();
    // Up to what fills a segment to the last byte, and beyond.
    let lengths = 1..300;
    append(&mut log, lengths.clone().map(|length| vec![length as u8; length]));
    log.sync().unwrap();
    drop(log);
    let expected: Vec<_> = lengths.map(|length| vec![length as u8; length]).collect();
    assert_eq!(directory.records().unwrap(), expected);
}

#[test]
fn contents_that_look_like_blanks_and_seals_are_kept() {
    let directory = Directory::new();
    let mut log = directory.create();
    let contents = [vec![0; 1], vec![0; 64], vec![0xff; 16], vec![0; 200], vec![0xff; 200]];
    append(&mut log, contents.clone());
    log.sync().unwrap();
    drop(log);
    assert_eq!(directory.records().unwrap(), contents);
}

#[test]
#[should_panic(expected = "never empty")]
fn an_empty_record_is_a_mistake() {
    Directory::new().create().append(b"");
}

#[test]
fn segments_grow_up_to_their_greatest_size() {
    let options = LogOptions { segment_bytes_first: 4_000, segment_bytes_max: 10_000 };
    let sizes = [1, 2, 3, 4, 40].map(|number| options.segment_bytes(number));
    assert_eq!(sizes, [4_000, 8_000, 10_000, 10_000, 10_000]);
    let tiny = LogOptions { segment_bytes_first: 0, segment_bytes_max: 0 };
    assert_eq!(u64::from(tiny.segment_bytes(1)), SEGMENT_BYTES_MIN);
}

#[test]
fn segments_are_preallocated() {
    let directory = Directory::new();
    let options = LogOptions { segment_bytes_first: 1 << 20, segment_bytes_max: 1 << 20 };
    drop(Log::create(&directory.log(), IDENTITY, options).unwrap());
    assert_eq!(fs::metadata(directory.segment(1)).unwrap().len(), 1 << 20);
}

/// A test fixture does so, or somebody who archives logs.
#[test]
fn the_blank_end_of_a_segment_may_be_trimmed() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"one");
    log.close().unwrap();
    let (name, mut bytes) = files(&directory.log()).remove(0);
    let length = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let whole = bytes.len();
    bytes.truncate(length);
    let trimmed = with_files(&[(name, bytes)]);
    assert_eq!(trimmed.records().unwrap(), ["one"]);
    assert_eq!(files(&trimmed.log())[0].1.len(), whole, "it is preallocated again");
}

/// Sealed segments, and the records of all, are read through windows.
#[test]
fn records_are_read_wherever_a_window_cuts_them_off() {
    let window = super::super::window::WINDOW_BYTES as usize;
    // So many bytes of a first record let the next one begin where the first window ends.
    let whole = window - RECORDS_OFFSET as usize - RECORD_HEADER_BYTES;
    for first in [whole - 16, whole - 8, whole, whole + 8, whole / 2, 1] {
        let directory = Directory::new();
        let options = LogOptions { segment_bytes_first: 1 << 20, segment_bytes_max: 1 << 20 };
        let mut log = Log::create(&directory.log(), IDENTITY, options).unwrap();
        let lengths = [first, 10, 3 * window, 5, window, 70_000, 300_000, 1, window - 1, 20];
        let expected: Vec<Vec<u8>> =
            lengths.iter().zip(1..).map(|(length, byte)| vec![byte; *length]).collect();
        append(&mut log, &expected);
        log.sync().unwrap();
        assert!(files(&directory.log()).len() >= 2, "a segment is sealed");
        drop(log);
        let (log, records) = directory.open().unwrap();
        assert!(records == expected, "{first}");
        assert_eq!(log.recovery(), &Recovery { records: 10, torn_bytes: 0 });
    }
}
