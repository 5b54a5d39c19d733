//! Many logs, made durable by one sync. What crashes do to them is tried in the simulator, on its disks.

use std::path::PathBuf;
use std::sync::mpsc;

use super::super::journal::{Committed, Journal, Replayed};
use super::super::{Files as LogFiles, Syncer, Unsynced};
use super::*;

const CLUSTER: u64 = IDENTITY.cluster;

/// A segment has room for a few records of writes.
const JOURNAL: LogOptions = LogOptions { segment_bytes_first: 4096, segment_bytes_max: 4096 };

/// The directory of a node.
struct Node(Directory);

impl Node {
    fn new() -> Node {
        Node(Directory::new())
    }

    fn journal(&self) -> PathBuf {
        self.0.0.join("journal")
    }

    fn log_of(&self, shard: u32) -> PathBuf {
        self.0.0.join(format!("shard-{shard}"))
    }

    fn identity(shard: u32) -> LogIdentity {
        LogIdentity { cluster: CLUSTER, replica: ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) } }
    }

    fn create_logs(&self) -> [Log; 2] {
        [1, 2].map(|shard| {
            Log::create(&self.log_of(shard), Node::identity(shard), LogOptions::default()).unwrap()
        })
    }

    fn create(&self) -> Journal {
        Journal::create_in(&LogFiles::at(&self.journal()), CLUSTER, JOURNAL, 5).unwrap()
    }

    fn open(&self) -> Result<(Journal, Replayed), LogError> {
        let place = |replica: ReplicaId| LogFiles::at(&self.log_of(replica.shard.0));
        Journal::open_in(&LogFiles::at(&self.journal()), CLUSTER, JOURNAL, place)
    }

    fn records(&self, shard: u32) -> Result<Vec<Bytes>, LogError> {
        let (_, records) = Log::open(&self.log_of(shard), Node::identity(shard), LogOptions::default())?;
        records.collect()
    }

    /// Takes back what was written to the files of a log, as a loss of power may.
    fn lose(&self, shard: u32, segment: u32) {
        let path = self.log_of(shard).join(format!("{segment:010}.log"));
        let mut bytes = fs::read(&path).unwrap();
        bytes[1024..].fill(0);
        fs::write(&path, bytes).unwrap();
    }
}

/// Appends a record to each log, and writes it.
fn write(logs: &mut [Log], record: &[u8]) -> Vec<Unsynced> {
    let write = |log: &mut Log| {
        log.append(record);
        log.write_later().unwrap().unwrap()
    };
    logs.iter_mut().map(write).collect()
}

fn commit(journal: &mut Journal, logs: &mut [Log], record: &[u8]) -> Committed {
    journal.prepare().unwrap();
    let committed = journal.commit(write(logs, record));
    journal.prepare().unwrap();
    committed
}

#[test]
fn one_sync_serves_several_logs_and_what_their_files_lose_is_written_again() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    let Committed { together, alone } = commit(&mut journal, &mut logs, b"one");
    assert_eq!((together.len(), alone.len()), (2, 0));
    assert!(logs.iter().all(|log| log.durable() == log.end()));
    drop((journal, logs, together));
    [1, 2].into_iter().for_each(|shard| node.lose(shard, 1));
    assert_eq!(node.open().unwrap().1, Replayed { writes: 2, passed_over: 0 });
    for shard in [1, 2] {
        assert_eq!(node.records(shard).unwrap(), ["one"]);
    }
    assert_eq!(node.open().unwrap().1, Replayed::default(), "that has settled it");
}

#[test]
fn one_log_much_and_what_follows_a_gap_are_synced_for_themselves() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    let Committed { together, alone } = journal.commit(write(&mut logs[..1], b"one"));
    assert_eq!((together.len(), alone.len()), (0, 1), "there is one");
    alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
    let Committed { together, alone } = journal.commit(write(&mut logs, &[1; 20_000]));
    assert_eq!((together.len(), alone.len()), (0, 2), "that is much");
    // None of that is synced, but it is written.
    alone.into_iter().for_each(|mut unsynced| unsynced.write().unwrap());
    let Committed { together, alone } = journal.commit(write(&mut logs, b"after"));
    assert_eq!((together.len(), alone.len()), (0, 2), "the gap is not in the journal");
}

#[test]
fn what_is_written_while_files_are_synced_stays() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    drop(commit(&mut journal, &mut logs, b"before"));
    let settling = journal.begin_settling().unwrap();
    assert!(journal.begin_settling().is_none(), "one at a time");
    let mut written = 0;
    // Over several segments of the journal.
    for _ in 0..40 {
        let Committed { together, alone } = commit(&mut journal, &mut logs, &[b'x'; 100]);
        alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
        written += together.len() as u64;
    }
    assert!(written > 40, "{written} found room");
    let settled = settling.run();
    journal.end_settling(settled).into_iter().for_each(|truncation| truncation.run().unwrap());
    drop((journal, logs));
    assert_eq!(node.open().unwrap().1, Replayed { writes: written, passed_over: 0 });
}

#[test]
fn a_journal_that_is_settled_gives_up_its_segments_and_writes_nothing_again() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    for _ in 0..100 {
        drop(commit(&mut journal, &mut logs, &[b'x'; 100]));
        if journal.is_long() {
            assert!(journal.settle().unwrap());
        }
    }
    assert!(journal.settle().unwrap() && journal.is_settled());
    assert!(files(&node.journal()).len() <= 2, "the first segments are gone");
    drop((journal, logs));
    assert_eq!(node.open().unwrap().1, Replayed::default());
}

#[test]
fn writes_to_a_log_that_is_gone_or_another_one_are_passed_over() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    drop(commit(&mut journal, &mut logs, b"one"));
    drop((journal, logs));
    [1, 2].into_iter().for_each(|shard| fs::remove_dir_all(node.log_of(shard)).unwrap());
    let other = Log::create(&node.log_of(2), Node::identity(2), LogOptions::default()).unwrap();
    other.close().unwrap();
    assert_eq!(node.open().unwrap().1, Replayed { writes: 0, passed_over: 2 });
    assert_eq!(node.records(2).unwrap(), [""; 0]);
}

#[test]
fn a_segment_that_is_missing_is_missed() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    logs.iter_mut().for_each(|log| {
        log.append(&[7; 60_000]);
        log.sync().unwrap();
        log.append(&[8; 20_000]);
        log.sync().unwrap();
    });
    drop(commit(&mut journal, &mut logs, b"one"));
    drop((journal, logs));
    fs::remove_file(node.log_of(1).join("0000000002.log")).unwrap();
    // Nothing in the first segment tells of the second: its last record was written when nothing was durable.
    assert_eq!(node.open().unwrap().1, Replayed { writes: 1, passed_over: 1 });
    assert!(matches!(node.records(1), Err(LogError::MissingSegment { .. })));
    assert_eq!(node.records(2).unwrap().len(), 3);
}

#[test]
fn a_journal_is_created_by_an_explicit_act_and_a_damaged_one_is_refused() {
    let node = Node::new();
    assert!(matches!(node.open(), Err(LogError::Missing { .. })));
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    for _ in 0..3 {
        drop(commit(&mut journal, &mut logs, b"one"));
    }
    drop(journal);
    let again = Journal::create_in(&LogFiles::at(&node.journal()), CLUSTER, JOURNAL, 6);
    assert!(matches!(again, Err(LogError::Exists { .. })));
    let path = node.journal().join("0000000001.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[1100] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(matches!(node.open(), Err(LogError::Corrupt { .. })));
}

#[test]
fn the_syncer_reports_several_logs_together_and_settles_when_asked_and_when_it_ends() {
    const ROUNDS: usize = 200;
    let node = Node::new();
    let mut logs = node.create_logs();
    let (journal, _) =
        Journal::open(&node.journal(), CLUSTER, true, |replica| node.log_of(replica.shard.0)).unwrap();
    let (reports, news) = mpsc::channel();
    let syncer =
        Syncer::start_with(Some(journal), move |together| reports.send(together.len()).unwrap()).unwrap();
    let mut reported = 0;
    for round in 1..=ROUNDS {
        write(&mut logs, b"record").into_iter().for_each(|unsynced| syncer.submit(unsynced));
        while reported < 2 * round {
            reported += news.recv().unwrap();
        }
        assert!(logs.iter().all(|log| log.durable() == log.end()));
    }
    assert!(syncer.settle(Node::identity(1).replica));
    drop((logs, syncer));
    assert_eq!(node.open().unwrap().1, Replayed::default());
    for shard in [1, 2] {
        assert_eq!(node.records(shard).unwrap().len(), ROUNDS);
    }
}

#[test]
fn what_the_journal_holds_goes_to_the_files_later_and_together() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    for _ in 0..3 {
        assert_eq!(commit(&mut journal, &mut logs, b"one").together.len(), 2);
    }
    let is_blank = |shard| {
        let (_, bytes) = files(&node.log_of(shard)).remove(0);
        bytes[1024..].iter().all(|byte| *byte == 0)
    };
    assert!(is_blank(1) && is_blank(2));
    // That is not taken for decay.
    assert_eq!(super::super::scrub(&logs[0]).unwrap(), 0);
    // Nothing is left out before what is synced for itself.
    let Committed { alone, .. } = journal.commit(write(&mut logs[..1], b"two"));
    alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
    assert!(super::super::scrub(&logs[0]).unwrap() > 0 && is_blank(2));
    assert!(journal.settle().unwrap() && !is_blank(2));
    logs.into_iter().for_each(|log| log.close().unwrap());
    drop(journal);
    assert_eq!(node.records(1).unwrap(), ["one", "one", "one", "two"]);
    assert_eq!(node.records(2).unwrap(), ["one", "one", "one"]);
}
