//! A log is created once, by intent, and opened by whom it belongs to.

use std::fs;

use super::super::format::Header;
use super::*;

#[test]
fn an_existing_log_is_not_created_again() {
    let directory = Directory::new();
    drop(directory.create());
    let error = Log::create(&directory.log(), IDENTITY, SMALL).unwrap_err();
    assert!(matches!(error, LogError::Exists { .. }));
    assert!(error.to_string().contains("holds a log already"), "{error}");
    assert!(Log::exists(&directory.log()).unwrap());
}

#[test]
fn a_missing_log_is_not_created_silently() {
    let directory = Directory::new();
    for _ in 0..2 {
        let error = directory.open().unwrap_err();
        assert!(matches!(error, LogError::Missing { .. }));
        let text = error.to_string();
        assert!(text.contains("initialise") && text.contains("rejoin"), "{text}");
        assert!(!Log::exists(&directory.log()).unwrap());
        // An empty directory is no log either.
        fs::create_dir_all(directory.log()).unwrap();
    }
}

/// A crash during the creation of a segment leaves this behind.
#[test]
fn a_half_created_segment_is_no_log() {
    let directory = Directory::new();
    fs::create_dir_all(directory.log()).unwrap();
    fs::write(directory.segment(1).with_extension("new"), b"half").unwrap();
    assert!(matches!(directory.open().unwrap_err(), LogError::Missing { .. }));
    drop(directory.create());
    assert_eq!(directory.records().unwrap(), [""; 0]);
}

#[test]
fn a_log_is_open_once() {
    let directory = Directory::new();
    let log = directory.create();
    let error = directory.open().unwrap_err();
    assert!(
        matches!(error, LogError::InUse { .. }) && error.to_string().contains("must not run twice"),
        "{error}"
    );
    drop(log);
    assert!(directory.open().is_ok());
}

#[test]
fn foreign_logs_are_refused() {
    let directory = Directory::new();
    drop(directory.create());
    let open = |identity| Log::open(&directory.log(), identity, SMALL).map(|_| ()).unwrap_err().to_string();
    let text = open(LogIdentity { cluster: 0xc2, ..IDENTITY });
    assert!(text.contains("belongs to cluster c1, not to cluster c2"), "{text}");
    let replica = ReplicaId { shard: ShardId(7), index: ReplicaIndex(1) };
    let text = open(LogIdentity { replica, ..IDENTITY });
    assert!(text.contains("belongs to replica shard7/r2, not to replica shard7/r1"), "{text}");
    let replica = ReplicaId { shard: ShardId(8), index: ReplicaIndex(2) };
    assert!(open(LogIdentity { replica, ..IDENTITY }).contains("not to replica shard8/r2"));
}

#[test]
fn a_newer_format_is_refused_before_anything_else_is_read() {
    let directory = Directory::new();
    drop(directory.create());
    let (name, mut bytes) = files(&directory.log()).remove(0);
    bytes[8] = 2;
    // The rest of the header may mean anything in format 2.
    bytes[12..64].fill(0xee);
    let newer = with_files(&[(name, bytes)]);
    let error = newer.open().unwrap_err();
    assert!(matches!(error, LogError::NewerFormat { found: 2, .. }));
    let text = error.to_string();
    assert!(text.contains("format 2") && text.contains("reads formats up to 1"), "{text}");
}

#[test]
fn a_file_that_is_no_segment_is_refused() {
    let directory = with_files(&[("0000000001.log".into(), b"somebody's diary, not at all short".repeat(9))]);
    let error = directory.open().unwrap_err();
    assert!(matches!(error, LogError::NotALog { .. }));
    assert!(error.to_string().contains("rejoins from the other replicas"), "{error}");
}

#[test]
fn other_files_in_the_directory_are_left_alone() {
    let directory = Directory::new();
    drop(directory.create());
    for name in ["notes.log", "1.log", "0000000002.txt", "00000000002.log"] {
        fs::write(directory.log().join(name), b"mine").unwrap();
    }
    assert!(directory.records().unwrap().is_empty());
    assert_eq!(fs::read(directory.log().join("notes.log")).unwrap(), b"mine");
}

/// Two lives of the same replica must not be mixed, as by a careless restore.
#[test]
fn segments_of_another_incarnation_are_refused() {
    let build = || {
        let directory = Directory::new();
        let mut log = directory.create();
        append(&mut log, (0..20).map(record));
        log.close().unwrap();
        files(&directory.log())
    };
    let (one, other) = (build(), build());
    let incarnation = |files: &[(PathBuf, Vec<u8>)]| Header::decode(&files[0].1).unwrap().incarnation;
    assert_ne!(incarnation(&one), incarnation(&other));
    let mut mixed = one.clone();
    mixed[1] = other[1].clone();
    assert!(matches!(with_files(&mixed).open().unwrap_err(), LogError::ForeignIncarnation { .. }));
}

#[test]
fn a_segment_under_another_name_is_refused() {
    let directory = Directory::new();
    let mut log = directory.create();
    append(&mut log, (0..20).map(record));
    log.close().unwrap();
    let mut files = files(&directory.log());
    files[1].1 = files[2].1.clone();
    let error = with_files(&files).open().unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset: 32, .. }), "{error}");
}

/// A record that an earlier log left on the same blocks of the disk is none, although it stands at the right position.
#[test]
fn records_of_another_incarnation_are_not_taken() {
    let build = |records: &[&str]| {
        let directory = Directory::new();
        let mut log = directory.create();
        append(&mut log, records);
        log.close().unwrap();
        files(&directory.log())
    };
    let mut files = build(&["this life"]);
    let earlier = build(&["last life", "a promise"]);
    files[0].1[1024 + 32..].copy_from_slice(&earlier[0].1[1024 + 32..]);
    assert_eq!(with_files(&files).records().unwrap(), ["this life"]);
}
