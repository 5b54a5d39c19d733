//! Crashes, also of the power: everything that was not synced may be there, or not, or in part, in any order.
//!
//! Acknowledged records are always there, the recovered ones are always a prefix of the appended ones, and a log that only
//! crashed is never refused.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::super::Position;
use super::*;

/// The unit in which a disk writes or does not. Smaller than real ones, so that more is torn.
const PAGE_BYTES: usize = 32;

/// The files on the disk if of the writes since `synced` only some pages made it. New files are there in any case, because
/// they are synced when they are created, but blank.
fn torn(synced: &Files, written: &Files, mut survives: impl FnMut() -> bool) -> Files {
    let mut files = written.clone();
    for (name, bytes) in &mut files {
        let old = synced.iter().find(|(known, _)| known == name).map(|(_, bytes)| bytes);
        let pages = bytes.chunks_mut(PAGE_BYTES).enumerate();
        for (number, page) in pages {
            let offset = number * PAGE_BYTES;
            let before = match old {
                Some(old) => &old[offset..offset + page.len()],
                // A new segment is durable with its header before anything is written to it.
                None if offset < 1024 => continue,
                None => &[0; PAGE_BYTES][..page.len()],
            };
            if page != before && !survives() {
                page.copy_from_slice(before);
            }
        }
    }
    files
}

/// The files that a truncation has made durable: the word that the log begins with its first segment, and that those before
/// it are gone.
fn truncate_files(synced: &mut Files, written: &Files) {
    let (name, bytes) = &written[0];
    synced.retain(|(known, _)| known >= name);
    if let Some((_, known)) = synced.first_mut().filter(|(known, _)| known == name) {
        known[..1024].copy_from_slice(&bytes[..1024]);
    }
}

/// A step of one life of a replica between two crashes.
#[derive(Clone, Debug)]
enum Step {
    Append(usize),
    Write,
    Sync,
    /// Gives up the records before one of those that are durable, by its share of them in percent.
    Truncate(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop_oneof![1..40usize, 1..400usize].prop_map(Step::Append),
        2 => Just(Step::Write),
        1 => Just(Step::Sync),
        1 => (0..=100usize).prop_map(Step::Truncate),
    ]
}

fn cases(default: u32) -> Config {
    let factor =
        std::env::var("QUORATE_FUZZ_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1);
    Config { cases: default.saturating_mul(factor), failure_persistence: None, ..Config::default() }
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn acknowledged_records_survive_any_number_of_torn_crashes(
        lives in vec((vec(step(), 0..30), any::<u64>(), 0..=10u64), 1..5),
    ) {
        let mut directory = Directory::new();
        drop(directory.create());
        // The records that the log holds, with the position after each of them.
        let mut kept: Vec<(Position, Bytes)> = Vec::new();
        let mut number = 0u32;
        for (steps, seed, survival) in lives {
            let (mut log, _) = directory.open().unwrap();
            let mut synced = files(&directory.log());
            let mut acknowledged = kept.len();
            // The first record that is needed.
            let mut needed = 0;
            for step in steps {
                match step {
                    Step::Append(length) => {
                        number += 1;
                        let record: Bytes = number.to_le_bytes().repeat(length.div_ceil(4)).into();
                        kept.push((log.append(&record), record));
                    }
                    Step::Write => drop(log.write().unwrap()),
                    Step::Sync => {
                        log.sync().unwrap();
                        synced = files(&directory.log());
                        acknowledged = kept.len();
                    }
                    Step::Truncate(percent) => {
                        let up_to = acknowledged * percent / 100;
                        let Some((position, _)) = up_to.checked_sub(1).map(|last| &kept[last]) else { continue };
                        if let Some(truncation) = log.truncate(*position) {
                            truncation.run().unwrap();
                            truncate_files(&mut synced, &files(&directory.log()));
                            needed = needed.max(up_to);
                        }
                    }
                }
            }
            drop(log);
            let mut random = quorate_core::Random::new(seed);
            let crashed = torn(&synced, &files(&directory.log()), || random.below(10) < survival);
            directory = with_files(&crashed);
            let recovered = directory.records();
            prop_assert!(recovered.is_ok(), "a crash is no corruption: {:?}", recovered);
            let recovered = recovered.unwrap();
            let first = recovered.first().map_or(needed, |first| {
                kept.iter().position(|(_, record)| record == first).expect("a record that was appended")
            });
            prop_assert!(first <= needed, "{first} is the first record, and {needed} is needed");
            kept.drain(..first);
            let count = recovered.len();
            prop_assert!(count >= acknowledged - first, "{count} of {acknowledged} - {first} are there");
            kept.truncate(count);
            prop_assert_eq!(recovered, kept.iter().map(|(_, record)| record.clone()).collect::<Vec<_>>());
        }
    }
}

/// A kill of the process loses nothing that was written, synced or not.
#[test]
fn a_killed_process_loses_only_what_it_had_not_written() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"synced");
    log.sync().unwrap();
    log.append(b"written");
    drop(log.write().unwrap());
    log.append(b"only appended");
    drop(log);
    assert_eq!(directory.records().unwrap(), ["synced", "written"]);
}

/// A cut of the file at every byte of what was not synced.
#[test]
fn an_unsynced_tail_may_be_cut_anywhere() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(b"synced");
    log.sync().unwrap();
    let synced_length = 1024 + 24;
    append(&mut log, (0..4).map(record));
    drop(log.write().unwrap());
    drop(log);
    let files = files(&directory.log());
    assert_eq!(files.len(), 1);
    let all: Vec<_> = std::iter::once(b"synced".to_vec()).chain((0..4).map(record)).collect();
    let mut counts = Vec::new();
    for length in synced_length..files[0].1.len() {
        let mut cut = files.clone();
        cut[0].1.truncate(length);
        let records = with_files(&cut).records().unwrap();
        assert_eq!(records, all[..records.len()]);
        counts.push(records.len());
    }
    assert!(counts.is_sorted());
    assert_eq!((counts[0], counts[counts.len() - 1]), (1, 5));
}

/// A stale record beyond the cut must not come back once new ones have grown up to it.
#[test]
fn what_is_cut_off_stays_away() {
    let directory = Directory::new();
    let mut log = directory.create();
    for record in ["first one", "stale two", "stale ten"] {
        log.append(record.as_bytes());
    }
    drop(log.write().unwrap());
    drop(log);
    let mut files = files(&directory.log());
    // The page with the second record did not make it.
    files[0].1[1024 + 32..1024 + 64].fill(0);
    let directory = with_files(&files);
    let (mut log, records) = directory.open().unwrap();
    assert_eq!(records, ["first one"]);
    assert_eq!(log.recovery().torn_bytes, 64 - 7);
    log.append(b"new   two");
    log.sync().unwrap();
    drop(log);
    assert_eq!(directory.records().unwrap(), ["first one", "new   two"]);
    assert_eq!(directory.recovery(), Recovery { records: 2, torn_bytes: 0 });
}

/// A crash between the last write to a full segment and the creation of the next.
#[test]
fn a_seal_without_a_following_segment_is_taken_back() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(&[1; 150]);
    log.sync().unwrap();
    log.append(&[2; 150]);
    drop(log.write().unwrap());
    drop(log);
    let mut files = files(&directory.log());
    assert_eq!(files.len(), 2);
    files.pop();
    let directory = with_files(&files);
    let (mut log, records) = directory.open().unwrap();
    assert_eq!(records, [vec![1; 150]]);
    log.append(&[3; 150]);
    log.sync().unwrap();
    drop(log);
    assert_eq!(directory.records().unwrap(), [vec![1; 150], vec![3; 150]]);
}

/// A segment that was created ahead of time and never used.
#[test]
fn an_unused_segment_is_dropped() {
    let directory = Directory::new();
    let mut log = directory.create();
    log.append(&[1; 150]);
    let mut unsynced = log.write().unwrap().unwrap();
    unsynced.prepare.take().expect("the segment is more than half full").run().unwrap();
    unsynced.sync().unwrap();
    drop((log, unsynced));
    assert_eq!(files(&directory.log()).len(), 2);
    assert_eq!(directory.records().unwrap(), [vec![1; 150]]);
    assert_eq!(files(&directory.log()).len(), 1);
}
