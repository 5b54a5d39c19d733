//! Logs that are read twice, and logs that cannot be.

use quorate_core::{ReplicaIndex, ShardId};
use quorate_tapir::Record;

use super::*;

const REPLICA: ReplicaId = ReplicaId { shard: ShardId(1), index: ReplicaIndex(0) };

/// The log of a replica, in a directory that goes with it.
struct Kept {
    directory: tempfile::TempDir,
    logs: Logs,
}

impl Kept {
    fn with(records: &[Record]) -> Self {
        let kept = Kept {
            directory: tempfile::tempdir().unwrap(),
            logs: Logs::start(7, TurnWaker::default()).unwrap(),
        };
        kept.logs.create(kept.directory.path(), REPLICA).unwrap();
        let (mut log, _) = kept.open(Epoch(2));
        log.set_epoch(Epoch(2));
        records.iter().for_each(|record| _ = log.append(record));
        log.close().unwrap();
        kept
    }

    fn open(&self, epoch: Epoch) -> (ReplicaLog, Contents) {
        self.logs.open(self.directory.path(), REPLICA, epoch).unwrap()
    }
}

fn records() -> Vec<Record> {
    vec![Record::Initialised, Record::ViewEntered { view: View(1) }, Record::ViewEntered { view: View(2) }]
}

#[test]
fn a_log_is_read_as_often_as_it_is_asked_for() {
    let kept = Kept::with(&records());
    let (log, contents) = kept.open(Epoch(2));
    assert!(!contents.is_empty());
    assert_eq!(contents.extent::<Record>(|_| None).unwrap(), Extent::default());
    for _ in 0..2 {
        let mut reading = contents.read::<Record>();
        assert_eq!(reading.by_ref().collect::<Vec<_>>(), records());
        reading.end().unwrap();
    }
    drop(log);
    let empty = Kept::with(&[]);
    assert!(empty.open(Epoch(2)).1.is_empty());
}

#[test]
fn a_record_from_a_later_membership_ends_the_reading_and_says_so() {
    let kept = Kept::with(&records());
    let (log, contents) = kept.open(Epoch(1));
    let refused = contents.extent::<Record>(|_| None).unwrap_err();
    assert!(
        matches!(refused, LogError::Epoch { number: 0, written: Epoch(2), epoch: Epoch(1) }),
        "{refused}"
    );
    let mut reading = contents.read::<Record>();
    assert_eq!((reading.next(), reading.next()), (None, None));
    reading.end().unwrap_err();
    drop(log);
}

#[test]
fn a_record_that_is_not_understood_ends_the_reading_and_is_named() {
    let kept = Kept::with(&records());
    let identity = LogIdentity { cluster: 7, replica: REPLICA };
    let (mut log, _) = Log::open(kept.directory.path(), identity, LogOptions::default()).unwrap();
    log.append(b"\xff");
    log.close().unwrap();
    let (log, contents) = kept.open(Epoch(2));
    let mut reading = contents.read::<Record>();
    assert_eq!(reading.by_ref().count(), 3);
    let refused = reading.end().unwrap_err();
    assert!(matches!(refused, LogError::Record { number: 3, .. }), "{refused}");
    drop(log);
}
