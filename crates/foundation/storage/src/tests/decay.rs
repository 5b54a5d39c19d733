//! Disks that lose or change what had been durable: noticed, always, and never repaired by forgetting.

use super::*;

/// A log over several segments that was closed, so that all of it is known to be durable, and its records.
fn closed() -> (Files, Vec<Vec<u8>>) {
    let directory = Directory::new();
    let mut log = directory.create();
    let records: Vec<_> = (0..12).map(record).collect();
    for (number, record) in records.iter().enumerate() {
        log.append(record);
        if number % 3 == 0 {
            log.sync().unwrap();
        }
    }
    log.close().unwrap();
    let files = files(&directory.log());
    assert!(files.len() >= 3);
    (files, records)
}

/// Either everything is there or the log is refused.
fn assert_all_or_refused(files: &[(PathBuf, Vec<u8>)], records: &[Vec<u8>], what: &str) -> bool {
    match with_files(files).records() {
        Ok(found) => {
            assert_eq!(found, records, "{what}: something durable was forgotten");
            true
        }
        Err(
            LogError::Corrupt { .. }
            | LogError::NotALog { .. }
            | LogError::NewerFormat { .. }
            | LogError::MissingSegment { .. },
        ) => false,
        Err(error) => panic!("{what}: {error}"),
    }
}

#[test]
fn a_flip_of_any_byte_is_harmless_or_noticed() {
    let (files, records) = closed();
    let (mut harmless, mut noticed) = (0, 0);
    for (at, (name, bytes)) in files.iter().enumerate() {
        for offset in 0..bytes.len() {
            for mask in [0x01, 0xff] {
                let mut flipped = files.clone();
                flipped[at].1[offset] ^= mask;
                let what = format!("byte {offset} of {}", name.display());
                match assert_all_or_refused(&flipped, &records, &what) {
                    true => harmless += 1,
                    false => noticed += 1,
                }
            }
        }
    }
    let record_bytes: usize = records.iter().map(|record| record.len()).sum();
    assert!(noticed >= 2 * record_bytes, "every byte of a record counts: {noticed}, {harmless}");
}

#[test]
fn a_cut_anywhere_is_harmless_or_noticed() {
    let (files, records) = closed();
    for (at, (name, bytes)) in files.iter().enumerate() {
        for length in 0..bytes.len() {
            let mut cut = files.clone();
            cut[at].1.truncate(length);
            assert_all_or_refused(&cut, &records, &format!("{} at {length}", name.display()));
        }
    }
}

#[test]
fn a_blanked_sector_is_harmless_or_noticed() {
    let (files, records) = closed();
    for (at, (name, bytes)) in files.iter().enumerate() {
        for offset in (0..bytes.len()).step_by(64) {
            let mut blanked = files.clone();
            let end = (offset + 64).min(bytes.len());
            blanked[at].1[offset..end].fill(0);
            assert_all_or_refused(&blanked, &records, &format!("{offset} of {}", name.display()));
        }
    }
}

#[test]
fn a_missing_segment_is_noticed() {
    let (files, _) = closed();
    for at in 0..files.len() {
        let mut missing = files.clone();
        missing.remove(at);
        let error = with_files(&missing).open().unwrap_err();
        let expected = format!("{:010}.log is missing", at + 1);
        assert!(error.to_string().contains(&expected), "{error}");
    }
}

/// A disk that answers a read of one place with what stands at another, whose CRC is right.
#[test]
fn a_misdirected_record_is_noticed() {
    let directory = Directory::new();
    let mut log = directory.create();
    append(&mut log, ["same length a", "same length b", "same length c"]);
    log.close().unwrap();
    let mut files = files(&directory.log());
    let bytes = &mut files[0].1;
    bytes.copy_within(1024..1024 + 32, 1024 + 32);
    let error = with_files(&files).open().unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset: 1056, .. }), "{error}");
}

#[test]
fn the_error_says_where_and_what_to_do() {
    let (mut files, _) = closed();
    files[1].1[1030] ^= 1;
    let directory = with_files(&files);
    let text = directory.open().unwrap_err().to_string();
    assert!(text.contains("0000000002.log is corrupt at byte 1024"), "{text}");
    assert!(text.contains(&format!("remove {}", directory.log().display())), "{text}");
    assert!(text.contains("rejoins") && text.contains("restore"), "{text}");
    // Nothing was changed, so a copy for an investigation is still possible.
    assert_eq!(super::files(&directory.log()), files);
}

/// Without a mark, records themselves testify for what was durable before them.
#[test]
fn later_records_testify_for_earlier_ones() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"acknowledged");
    log.sync().unwrap();
    log.append(b"written after the acknowledgement");
    drop(log.write().unwrap());
    drop(log);
    let mut files = files(&directory.log());
    files[0].1[1024 + 20] ^= 1;
    let error = with_files(&files).open().unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset: 1024, .. }), "{error}");
}

/// The same across segments.
#[test]
fn records_of_later_segments_testify_too() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"acknowledged");
    log.sync().unwrap();
    append(&mut log, (0..20).map(record));
    drop(log.write().unwrap());
    drop(log);
    let mut files = files(&directory.log());
    // The first segment is blank now, with all that testified in it.
    files[0].1[1024..].fill(0);
    let error = with_files(&files).open().unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset: 1024, .. }), "{error}");
}
