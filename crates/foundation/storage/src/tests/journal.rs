//! Many logs, made durable by one sync. The effects of crashes on them are tried in the simulator, on its disks.

mod away;
mod failing;
mod many;
mod mistaken;
mod short;

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::mpsc;

use super::super::journal::{Committed, Journal, JournalId, JournalOptions, Replayed, Whereabouts};
use super::super::{Files as LogFiles, Syncer, Unsynced};
use super::*;

const CLUSTER: u64 = IDENTITY.cluster;

/// A segment has room for a few records of writes.
const JOURNAL: JournalOptions =
    JournalOptions { log: LogOptions { segment_bytes_first: 4096, segment_bytes_max: 4096 }, logs_min: 2 };

/// The directory of a node, and what the node knows of its journal.
struct Node {
    directory: Directory,
    journal: Cell<JournalId>,
    /// A replica that the node has given up.
    given_up: Cell<Option<ReplicaId>>,
}

impl Node {
    fn new() -> Node {
        let journal = Cell::new(JournalId { incarnation: 5, opened: 0 });
        Node { directory: Directory::new(), journal, given_up: Cell::new(None) }
    }

    fn journal(&self) -> PathBuf {
        self.directory.0.join("journal")
    }

    fn log_of(&self, shard: u32) -> PathBuf {
        self.directory.0.join(format!("shard-{shard}"))
    }

    fn identity(shard: u32) -> LogIdentity {
        LogIdentity { cluster: CLUSTER, replica: ReplicaId { shard: ShardId(shard), index: ReplicaIndex(0) } }
    }

    fn create_logs(&self) -> [Log; 2] {
        [1, 2].map(|shard| {
            Log::create(&self.log_of(shard), Node::identity(shard), LogOptions::default()).unwrap()
        })
    }

    /// A journal as servers have it.
    fn create_for_syncer(&self) -> Journal {
        let options = JournalOptions::default();
        Journal::create_in(&LogFiles::at(&self.journal()), CLUSTER, options, 5).unwrap()
    }

    fn create(&self) -> Journal {
        Journal::create_in(&LogFiles::at(&self.journal()), CLUSTER, JOURNAL, 5).unwrap()
    }

    fn open(&self) -> Result<(Journal, Replayed), LogError> {
        let place = |replica: ReplicaId| match self.given_up.get() == Some(replica) {
            true => Whereabouts::GivenUp,
            false => Whereabouts::Here(LogFiles::at(&self.log_of(replica.shard.0))),
        };
        let opened =
            Journal::open_in(&LogFiles::at(&self.journal()), CLUSTER, JOURNAL, self.journal.get(), place)?;
        self.journal.set(opened.0.id());
        Ok(opened)
    }

    /// The work that is done when the journal is opened.
    fn replayed(&self) -> Replayed {
        self.open().unwrap().1
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
    assert_eq!(node.replayed(), Replayed { writes: 2, let_go: 0, kept: 0 });
    for shard in [1, 2] {
        assert_eq!(node.records(shard).unwrap(), ["one"]);
    }
    assert_eq!(node.replayed(), Replayed::default(), "that has settled it");
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
    assert_eq!(node.replayed(), Replayed { writes: written, let_go: 0, kept: 0 });
}

#[test]
fn a_journal_that_is_settled_gives_up_its_segments_and_writes_nothing_again() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    for _ in 0..100 {
        drop(commit(&mut journal, &mut logs, &[b'x'; 100]));
        if journal.is_long() {
            journal.settle().unwrap();
        }
    }
    journal.settle().unwrap();
    assert!(journal.is_settled());
    assert!(files(&node.journal()).len() <= 2, "the first segments are gone");
    drop((journal, logs));
    assert_eq!(node.replayed(), Replayed::default());
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
    let journal = node.create_for_syncer();
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
    syncer.settle(Node::identity(1).replica, logs[0].incarnation()).unwrap();
    drop((logs, syncer));
    assert_eq!(node.replayed(), Replayed::default());
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
    journal.settle().unwrap();
    assert!(!is_blank(2));
    logs.into_iter().for_each(|log| log.close().unwrap());
    drop(journal);
    assert_eq!(node.records(1).unwrap(), ["one", "one", "one", "two"]);
    assert_eq!(node.records(2).unwrap(), ["one", "one", "one"]);
}

#[test]
fn another_journal_and_an_older_copy_are_refused() {
    let node = Node::new();
    drop(node.create());
    drop(node.open().unwrap());
    let copy = files(&node.journal());
    drop(node.open().unwrap());
    let known = node.journal.get();
    assert_eq!(known, JournalId { incarnation: 5, opened: 2 });
    // Crashes between opening it and noting that.
    for _ in 0..3 {
        node.journal.set(JournalId { opened: 1, ..known });
        drop(node.open().unwrap());
    }
    assert_eq!(node.journal.get().opened, 2);
    drop(node.open().unwrap());
    assert_eq!(node.journal.get().opened, 3);
    for other in [
        JournalId { incarnation: 6, ..known },
        JournalId { opened: 1, ..known },
        JournalId { opened: 4, ..known },
    ] {
        node.journal.set(other);
        assert!(matches!(node.open(), Err(LogError::ForeignJournal { .. })), "{other:?}");
    }
    for (name, bytes) in copy {
        fs::write(node.journal().join(name), bytes).unwrap();
    }
    node.journal.set(JournalId { opened: 3, ..known });
    assert!(matches!(node.open(), Err(LogError::ForeignJournal { .. })));
}

#[test]
fn little_is_left_to_be_settled_when_files_are_synced_slowly() {
    let node = Node::new();
    let (mut journal, mut logs) = (node.create(), node.create_logs());
    drop(commit(&mut journal, &mut logs, b"first"));
    let settling = journal.begin_settling().unwrap();
    let mut alone = 0;
    for _ in 0..100 {
        let committed = commit(&mut journal, &mut logs, &[b'x'; 100]);
        committed.alone.iter().for_each(|unsynced| unsynced.sync().unwrap());
        alone += committed.alone.len();
    }
    assert!(files(&node.journal()).len() <= 4, "two segments' worth, and what was there");
    assert!(alone > 100, "{alone} were synced for themselves");
    let settled = settling.run();
    journal.end_settling(settled).into_iter().for_each(|truncation| truncation.run().unwrap());
    journal.settle().unwrap();
    assert_eq!(commit(&mut journal, &mut logs, b"again").together.len(), 2);
}
