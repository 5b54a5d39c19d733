//! A log that an earlier version wrote stays readable for ever.
//!
//! The files are written once, by `write_the_fixture_of_format_1`, and never again: if this version cannot read them,
//! this version is wrong.

use super::*;

const RECORDS: [&[u8]; 5] = [b"initialised", b"voted", b"\0\0\0\0\0\0\0\0", b"decided", b"executed"];

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/log-format-1")
}

#[test]
fn format_1_stays_readable() {
    let directory = with_files(&files(&fixture()));
    assert_eq!(directory.records().unwrap(), RECORDS);
    let (mut log, _) = directory.open().unwrap();
    log.append(b"written by this version");
    log.close().unwrap();
    assert_eq!(directory.records().unwrap().len(), RECORDS.len() + 1);
}

#[test]
fn the_fixture_is_small_and_spans_segments() {
    let files = files(&fixture());
    assert_eq!(files.len(), 2);
    assert!(files.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() < 8 * 1024);
}

#[test]
#[ignore = "writes the fixture; only for whoever introduces a new format"]
fn write_the_fixture_of_format_1() {
    let options = LogOptions { segment_bytes_first: 1024 + 96, segment_bytes_max: 1024 + 96 };
    let mut log = Log::create(&fixture(), IDENTITY, options).unwrap();
    for record in RECORDS {
        log.append(record);
        log.sync().unwrap();
    }
    log.close().unwrap();
    fs::remove_file(fixture().join("lock")).unwrap();
}
