//! The bytes that a simulated disk loses, and those that it never does.

use std::collections::BTreeSet;

use quorate_core::{ReplicaIndex, ShardId};

use super::*;

fn replica(index: u8) -> ReplicaId {
    ReplicaId { shard: ShardId(1), index: ReplicaIndex(index) }
}

fn opened(seed: u64) -> Disk {
    let mut disk = Disk::new(7, replica(0), Random::new(seed));
    assert_eq!(disk.open().unwrap(), [""; 0]);
    disk
}

fn record(number: usize) -> Bytes {
    format!("record {number} {}", "x".repeat(number * 13 % 90)).into()
}

fn append(disk: &mut Disk, numbers: std::ops::Range<usize>) {
    for number in numbers {
        disk.append(record(number));
    }
    disk.write().unwrap();
}

/// Syncs everything that was appended.
fn sync(disk: &mut Disk) {
    assert!(disk.begin_sync());
    assert_eq!(Kept::At(disk.end_sync().unwrap()), disk.end());
}

#[test]
fn a_sync_covers_what_was_appended_before_it_began() {
    let mut disk = opened(1);
    assert!(!disk.begin_sync());
    append(&mut disk, 0..1);
    let first = disk.end();
    assert!(disk.begin_sync());
    append(&mut disk, 1..2);
    assert!(!disk.begin_sync(), "one at a time");
    assert_eq!(Kept::At(disk.end_sync().unwrap()), first);
    assert_ne!(disk.end(), first);
    sync(&mut disk);
    assert!(!disk.begin_sync(), "everything is durable");
}

#[test]
fn decay_is_found_while_the_disk_is_used_and_nothing_else_is() {
    let mut found = 0;
    for seed in 0..100 {
        for decay in [Decay::BitRot, Decay::Misdirected] {
            let mut disk = opened(seed);
            for batch in 0..20 {
                append(&mut disk, batch * 10..batch * 10 + 10);
                sync(&mut disk);
            }
            append(&mut disk, 200..210);
            disk.scrub().unwrap();
            if !disk.decay(decay) {
                continue;
            }
            let scrubbed = disk.scrub();
            disk.crash(Crash::Process);
            // Bytes that do not matter to the one do not matter to the other: padding, and what no record reaches.
            assert_eq!(scrubbed.is_err(), disk.open().is_err(), "{scrubbed:?}");
            found += u32::from(scrubbed.is_err());
        }
    }
    assert!(found > 100, "{found}");
}

#[test]
fn a_loss_of_power_keeps_the_durable_and_at_most_a_prefix_of_the_rest() {
    let mut lengths = BTreeSet::new();
    for seed in 0..200 {
        let mut disk = opened(seed);
        append(&mut disk, 0..20);
        sync(&mut disk);
        append(&mut disk, 20..40);
        assert!(disk.is_dirty());
        disk.crash(Crash::Power);
        let records = disk.open().unwrap();
        assert_eq!(records, (0..records.len()).map(record).collect::<Vec<_>>());
        lengths.insert(records.len());
        append(&mut disk, records.len()..records.len() + 5);
        sync(&mut disk);
    }
    assert!(lengths.first() == Some(&20) && lengths.last() == Some(&40) && lengths.len() > 3, "{lengths:?}");
}

#[test]
fn a_process_that_dies_loses_only_what_it_had_not_written() {
    let mut disk = opened(3);
    append(&mut disk, 0..5);
    disk.append(record(5));
    disk.crash(Crash::Process);
    assert_eq!(disk.open().unwrap().len(), 5);
}

#[test]
fn memory_and_a_wiped_disk_hold_nothing_after_a_crash() {
    let mut disk = opened(1);
    append(&mut disk, 0..5);
    sync(&mut disk);
    disk.crash(Crash::Power);
    disk.wipe();
    assert_eq!(disk.open().unwrap(), [""; 0]);
    let mut memory = Disk::memory();
    assert_eq!(memory.append(record(0)), Kept::Now);
    assert!(!memory.begin_sync(), "it is as good as durable");
    memory.crash(Crash::Process);
    assert_eq!(memory.open().unwrap(), [""; 0]);
}

#[test]
fn a_truncation_gives_up_segments_and_nothing_after_the_anchor() {
    let mut disk = opened(5);
    append(&mut disk, 0..200);
    sync(&mut disk);
    let Kept::At(anchor) = disk.end() else { panic!("a disk has a log") };
    append(&mut disk, 200..210);
    sync(&mut disk);
    disk.truncate(anchor).unwrap();
    disk.crash(Crash::Power);
    let records = disk.open().unwrap();
    assert!((10..150).contains(&records.len()), "{}", records.len());
    assert_eq!(records, (210 - records.len()..210).map(record).collect::<Vec<_>>());
}

/// A bit or a sector that is known to be wrong: the log is refused, or the change was harmless.
#[test]
fn decay_is_refused_or_harmless() {
    for decay in [Decay::BitRot, Decay::Misdirected] {
        let mut refused = 0;
        for seed in 0..200 {
            let mut disk = opened(seed);
            for batch in 0..10 {
                append(&mut disk, batch * 10..batch * 10 + 10);
                sync(&mut disk);
            }
            let struck = disk.decay(decay);
            disk.crash(Crash::Power);
            match disk.open() {
                Ok(records) => assert_eq!(records.len(), 100),
                Err(error) => {
                    assert!(struck, "{error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 100, "{decay:?}: {refused}");
    }
}

#[test]
fn nothing_decays_that_is_not_known_to_be_durable() {
    let mut disk = opened(1);
    assert!(!disk.decay(Decay::BitRot));
    append(&mut disk, 0..1);
    assert!(!disk.decay(Decay::BitRot));
    sync(&mut disk);
    disk.crash(Crash::Power);
    assert_eq!(disk.open().unwrap().len(), 1);
}

/// The operating system shows what it could not write; recovery must not take that for written.
#[test]
fn what_a_failed_sync_has_dropped_is_written_again() {
    for seed in 0..200 {
        let mut disk = opened(seed);
        append(&mut disk, 0..30);
        sync(&mut disk);
        append(&mut disk, 30..60);
        disk.set_condition(Condition::FailsToSync);
        assert!(disk.begin_sync());
        let error = disk.end_sync().unwrap_err();
        assert!(error.to_string().contains("cannot sync"), "{error}");
        assert!(matches!(disk.write().unwrap_err(), LogError::Failed { .. }), "never a success later");
        disk.crash(Crash::Process);
        assert_eq!(disk.open().unwrap().len(), 60, "the cache shows everything");
        disk.crash(Crash::Power);
        assert_eq!(disk.open().unwrap().len(), 60, "and what was recovered is durable");
    }
}

#[test]
fn a_disk_that_fails_or_is_full_finishes_the_log_and_works_again_later() {
    for condition in [Condition::Fails, Condition::Full] {
        let mut disk = opened(4);
        append(&mut disk, 0..5);
        sync(&mut disk);
        disk.set_condition(condition);
        (5..200).for_each(|number| _ = disk.append(record(number)));
        assert!(disk.write().is_err(), "{condition:?}");
        disk.crash(Crash::Process);
        assert!(condition == Condition::Full || disk.open().is_err());
        disk.set_condition(Condition::Works);
        let records = disk.open().unwrap();
        assert!(records.len() >= 5);
    }
}

#[test]
fn the_disk_of_another_replica_is_refused_and_unchanged() {
    let (mut ours, mut theirs) = (opened(1), Disk::new(7, replica(1), Random::new(2)));
    theirs.open().unwrap();
    append(&mut theirs, 0..5);
    sync(&mut theirs);
    let error = ours.open_wrong(&theirs).unwrap().unwrap_err();
    assert!(matches!(error, LogError::ForeignReplica { .. }), "{error}");
    theirs.crash(Crash::Process);
    assert_eq!(theirs.open().unwrap().len(), 5);
    append(&mut ours, 0..1);
}

#[test]
fn what_is_put_on_a_disk_while_nobody_uses_it_is_there_even_after_a_loss_of_power() {
    let mut disk = Disk::new(7, replica(0), Random::new(1));
    disk.fill((0..2).map(record)).expect("it works");
    disk.crash(Crash::Power);
    assert_eq!(disk.open().expect("it works"), [record(0), record(1)]);
    disk.crash(Crash::Process);
    disk.set_condition(Condition::Fails);
    assert!(disk.fill([record(2)].into_iter()).is_err());
    assert!(Disk::memory().fill([record(2)].into_iter()).is_ok(), "nothing is kept there");
}
