//! The journal of a data directory: starts that are interrupted, files that are put back, and what operators are told.

use std::fs;
use std::path::Path;

use quorate_core::topology::Durability;
use quorate_core::{NodeId, ReplicaId, ReplicaIndex, ShardId};
use quorate_storage::{Journal, Log, LogIdentity, LogOptions};

use super::{DataDirectory, DataError, Initialise, Placement};
use crate::config::system_keyspace;
use crate::node::Logs;

const CLUSTER: u64 = 7;
const NODE: NodeId = NodeId(1);

fn open(path: &Path, initialise: Initialise, incarnation: u64) -> Result<DataDirectory, DataError> {
    DataDirectory::open(path, CLUSTER, NODE, initialise, incarnation)
}

fn identity(replica: ReplicaId) -> LogIdentity {
    LogIdentity { cluster: CLUSTER, replica }
}

const OTHER: ReplicaId = ReplicaId { shard: ShardId(50), index: ReplicaIndex(0) };

fn system_replica(data: &DataDirectory) -> ReplicaId {
    let placement =
        Placement::on_node(&system_keyspace(vec![NodeId(0), NODE, NodeId(2)], Durability::Sync), NODE)
            .remove(0);
    let create = |path: &Path| {
        Log::create_unsynced(path, identity(placement.replica), LogOptions::default()).unwrap();
        Ok::<_, DataError>(())
    };
    data.prepare_replica(&placement, true, create).unwrap();
    placement.replica
}

fn log_of(data: &DataDirectory, replica: ReplicaId) -> std::path::PathBuf {
    data.replica_directory(replica).join("log")
}

/// Two logs with a record that only the journal makes durable.
fn acknowledge(data: &DataDirectory, mut journal: Journal) -> ReplicaId {
    let replica = system_replica(data);
    Log::create(&log_of(data, OTHER), identity(OTHER), LogOptions::default()).unwrap().close().unwrap();
    let mut logs = [replica, OTHER].map(|replica| {
        Log::open(&log_of(data, replica), identity(replica), LogOptions::default()).unwrap().0
    });
    let batch = logs.iter_mut().map(|log| {
        log.append(b"one");
        log.write_later().unwrap().unwrap()
    });
    let committed = journal.commit(batch.collect());
    assert_eq!(committed.together.len(), 2);
    assert_eq!(logs[0].durable(), logs[0].end());
    replica
}

fn records(data: &DataDirectory, replica: ReplicaId) -> Vec<Vec<u8>> {
    let (_, records) = Log::open(&log_of(data, replica), identity(replica), LogOptions::default()).unwrap();
    records.map(|record| record.unwrap().to_vec()).collect()
}

#[test]
fn an_identity_that_cannot_be_written_for_some_starts_does_no_harm() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    drop(open(&path, Initialise::New, 99).unwrap().open_journals(1).unwrap());
    // Stands for a full disk, or for a power cut at that moment.
    fs::create_dir(path.join("identity.new")).unwrap();
    for _ in 0..2 {
        let error = open(&path, Initialise::No, 99).unwrap().open_journals(1).unwrap_err();
        assert!(matches!(error, DataError::Io { .. }), "{error}");
    }
    fs::remove_dir(path.join("identity.new")).unwrap();
    let opened = open(&path, Initialise::No, 99).unwrap().open_journals(1);
    assert!(opened.is_ok(), "{}", opened.unwrap_err());
}

#[test]
fn the_journal_waits_while_a_replica_of_another_directory_stands_in_the_place() {
    let root = tempfile::tempdir().unwrap();
    let paths = ["old", "new"].map(|name| root.path().join(name));
    let old = open(&paths[0], Initialise::New, 98).unwrap();
    let replica = system_replica(&old);
    let data = open(&paths[1], Initialise::Replace, 99).unwrap();
    assert_eq!(acknowledge(&data, data.open_journals(1).unwrap().remove(0)), replica);
    // The replica of the disk that the node had before is put here by mistake, which is refused, and the right one comes back.
    let (own, aside) = (data.replica_directory(replica), root.path().join("aside"));
    fs::rename(&own, &aside).unwrap();
    fs::rename(old.replica_directory(replica), &own).unwrap();
    drop(data);
    let data = open(&paths[1], Initialise::No, 99).unwrap();
    drop(data.open_journals(1).unwrap());
    assert_eq!(data.foreign_replicas().unwrap().len(), 1, "it is refused");
    fs::remove_dir_all(&own).unwrap();
    fs::rename(&aside, &own).unwrap();
    drop(data);
    let data = open(&paths[1], Initialise::No, 99).unwrap();
    drop(data.open_journals(1).unwrap());
    assert_eq!(records(&data, replica), [b"one"], "what was acknowledged is lost");
}

/// An upgrade: nothing was ever in a journal, so the advice must not be to give replicas up.
#[test]
fn a_journal_that_cannot_be_created_is_no_reason_to_give_replicas_up() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let data = open(&path, Initialise::New, 99).unwrap();
    system_replica(&data);
    // `Journal::create` fails: the new segment cannot be named.
    let error = DataError::Journal {
        path: path.clone(),
        source: quorate_storage::LogError::Io {
            action: "preallocate",
            path: path.join("journal"),
            source: std::io::Error::from_raw_os_error(28),
        },
    };
    assert!(!error.to_string().contains("--rejoin"), "{error}");
}

/// The threads of a node that is just ending hold the journal a little longer than the directory.
#[test]
fn a_journal_in_use_is_no_reason_to_give_replicas_up() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let data = open(&path, Initialise::New, 99).unwrap();
    let held = data.open_journals(1).unwrap();
    drop(data);
    let error = open(&path, Initialise::No, 99).unwrap().open_journals(1).unwrap_err();
    drop(held);
    assert!(!error.to_string().contains("--rejoin"), "{error}");
}

#[test]
fn a_journal_that_an_older_identity_does_not_name_is_not_removed() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let data = open(&path, Initialise::New, 99).unwrap();
    let identity = path.join("identity.toml");
    let older = fs::read(&identity).unwrap();
    let replica = acknowledge(&data, data.open_journals(1).unwrap().remove(0));
    let latest = fs::read(&identity).unwrap();
    drop(data);
    fs::write(&identity, &older).unwrap();
    let data = open(&path, Initialise::No, 99).unwrap();
    let error = data.open_journals(1).unwrap_err();
    assert!(matches!(error, DataError::UnnamedJournal { .. }), "{error}");
    drop(data);
    fs::write(&identity, latest).unwrap();
    let data = open(&path, Initialise::No, 99).unwrap();
    drop(data.open_journals(1).unwrap());
    assert_eq!(records(&data, replica), [b"one"]);
    drop(data);
    // Nothing is needed of it any more.
    fs::write(&identity, older).unwrap();
    let data = open(&path, Initialise::No, 99).unwrap();
    assert!(data.open_journals(1).is_ok());
}

#[test]
fn a_journal_of_another_node_is_set_aside_when_all_replicas_are_given_up() {
    let root = tempfile::tempdir().unwrap();
    let paths = ["own", "other"].map(|name| root.path().join(name));
    drop(open(&paths[0], Initialise::New, 98).unwrap().open_journals(1).unwrap());
    let other = open(&paths[1], Initialise::New, 99).unwrap();
    let replica = acknowledge(&other, other.open_journals(1).unwrap().remove(0));
    // The journals of two nodes were exchanged by mistake.
    let [own_journal, other_journal] = paths.each_ref().map(|path| path.join("journal"));
    fs::remove_dir_all(&own_journal).unwrap();
    fs::rename(&other_journal, &own_journal).unwrap();
    drop(open(&paths[0], Initialise::Rejoin, 98).unwrap().open_journals(1).unwrap());
    let aside = fs::read_dir(&paths[0])
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_stem().is_some_and(|stem| stem == "journal") && path.extension().is_some());
    fs::rename(aside.unwrap(), other_journal).unwrap();
    drop(other.open_journals(1).unwrap());
    assert_eq!(records(&other, replica), [b"one"]);
}

/// Its replicas keep no logs, so the journal has never held anything.
#[test]
fn a_node_without_logs_needs_no_journal() {
    for (durability, is_served) in [(Durability::Memory, true), (Durability::Sync, false)] {
        let root = tempfile::tempdir().unwrap();
        let data = open(&root.path().join("node"), Initialise::New, 99).unwrap();
        drop(data.open_journals(1).unwrap());
        let nodes = vec![NodeId(0), NODE, NodeId(2)];
        let placement = Placement::on_node(&system_keyspace(nodes, durability), NODE).remove(0);
        data.prepare_replica(&placement, true, |_| Ok::<_, DataError>(())).unwrap();
        fs::remove_dir_all(data.path().join("journal")).unwrap();
        for _ in 0..2 {
            assert_eq!(data.open_journals(1).is_ok(), is_served, "{durability:?}");
        }
    }
}

/// The replica lived on another event loop when it wrote, and its journal is that of one which the node has no more.
#[test]
fn every_journal_is_read_whatever_the_number_of_event_loops() {
    for (before, written, after) in [(2, 1, 1), (3, 2, 1), (1, 0, 3), (3, 1, 2), (2, 0, 2)] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("node");
        let data = open(&path, Initialise::New, 99).unwrap();
        let replica = acknowledge(&data, data.open_journals(before).unwrap().remove(written));
        drop(data);
        let data = open(&path, Initialise::No, 99).unwrap();
        let journals = data.open_journals(after).unwrap();
        assert_eq!(journals.len(), usize::from(before.max(after)), "{before} {written} {after}");
        assert_eq!(records(&data, replica), [b"one"], "{before} {written} {after}");
        assert_eq!(records(&data, OTHER), [b"one"], "{before} {written} {after}");
    }
}

/// The journal in which records of a log that is away were written keeps them, also if the log is back when its replica lives elsewhere.
#[test]
fn what_a_journal_keeps_is_given_to_a_log_that_is_opened_on_another_event_loop() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let data = open(&path, Initialise::New, 99).unwrap();
    let replica = acknowledge(&data, data.open_journals(2).unwrap().remove(1));
    let (own, aside) = (data.replica_directory(replica), root.path().join("aside"));
    fs::rename(&own, &aside).unwrap();
    drop(data);
    let data = open(&path, Initialise::No, 99).unwrap();
    let wakers = [quorate_runtime::transport::TurnWaker::default()];
    let logs = Logs::start_all(CLUSTER, data.open_journals(1).unwrap(), &wakers).unwrap().remove(0);
    fs::rename(&aside, &own).unwrap();
    logs.settle(&log_of(&data, replica), replica).unwrap();
    assert_eq!(records(&data, replica), [b"one"], "what was acknowledged is lost");
}

/// Programs that know of one journal only would take what the others hold for never written.
#[test]
fn a_directory_with_several_journals_is_refused_by_earlier_programs() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    let format = || {
        let text = fs::read_to_string(path.join("identity.toml")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("format = ")).unwrap().to_owned()
    };
    drop(open(&path, Initialise::New, 99).unwrap().open_journals(1).unwrap());
    assert_eq!(format(), "3");
    drop(open(&path, Initialise::No, 99).unwrap().open_journals(2).unwrap());
    assert_eq!(format(), "5");
    drop(open(&path, Initialise::No, 99).unwrap().open_journals(1).unwrap());
    assert_eq!(format(), "5", "the second journal is still there");
}

/// A crash between the creation of a journal and its entry in the identity.
#[test]
fn a_further_journal_that_was_not_named_yet_is_made_anew() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("node");
    drop(open(&path, Initialise::New, 99).unwrap().open_journals(1).unwrap());
    let before = fs::read(path.join("identity.toml")).unwrap();
    drop(open(&path, Initialise::No, 99).unwrap().open_journals(2).unwrap());
    fs::write(path.join("identity.toml"), before).unwrap();
    assert_eq!(open(&path, Initialise::No, 99).unwrap().open_journals(2).unwrap().len(), 2);
}
