//! Whose directory it is, and that a replica begins empty once.

use std::fs;
use std::path::{Path, PathBuf};

use std::collections::BTreeMap;

use quorate_core::topology::{Durability, Keyspace};
use quorate_core::{Epoch, NodeId, ReplicaIndex};

use super::{Boot, DataDirectory, DataError, Initialise, Known, Placement, Prepared};
use crate::config::system_keyspace;

const CLUSTER: u64 = 7;
const NODE: NodeId = NodeId(1);

fn open(path: &Path, initialise: Initialise) -> Result<DataDirectory, DataError> {
    DataDirectory::open(path, CLUSTER, NODE, initialise, 99)
}

fn placement(durability: Durability) -> Placement {
    Placement::on_node(&system_keyspace(vec![NodeId(0), NODE, NodeId(2)], durability), NODE).remove(0)
}

/// Prepares the replica as a server does, with a log that is one file.
fn prepare(data: &DataDirectory, durability: Durability, group_is_new: bool) -> Prepared {
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    data.prepare_replica(&placement(durability), group_is_new, create).unwrap()
}

/// A replica whose loss was never accepted.
fn begins(boot: Boot, log: Option<PathBuf>) -> Prepared {
    Prepared { boot, log, accepted_losses: Vec::new() }
}

struct Fixture {
    root: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        Fixture { root: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("node")
    }

    fn replica_file(&self, name: &str) -> PathBuf {
        self.path().join("replicas/shard-0-r1").join(name)
    }
}

#[test]
fn a_missing_directory_is_not_created_unless_asked() {
    let fixture = Fixture::new();
    let error = open(&fixture.path(), Initialise::No).unwrap_err();
    assert!(matches!(error, DataError::Missing { .. }));
    assert!(error.to_string().contains("--initialise"), "{error}");
    assert!(!fixture.path().exists());
    assert!(!open(&fixture.path(), Initialise::New).unwrap().is_replacement());
    assert!(!open(&fixture.path(), Initialise::No).unwrap().is_replacement());
}

#[test]
fn an_existing_directory_is_not_initialised_again() {
    let fixture = Fixture::new();
    drop(open(&fixture.path(), Initialise::Replace).unwrap());
    for initialise in [Initialise::New, Initialise::Replace] {
        assert!(matches!(open(&fixture.path(), initialise), Err(DataError::Exists { .. })));
    }
    assert!(open(&fixture.path(), Initialise::No).unwrap().is_replacement());
}

#[test]
fn a_foreign_directory_is_refused() {
    let fixture = Fixture::new();
    drop(open(&fixture.path(), Initialise::New).unwrap());
    for (cluster, node) in [(8, NODE), (CLUSTER, NodeId(2))] {
        let error = DataDirectory::open(&fixture.path(), cluster, node, Initialise::No, 99).unwrap_err();
        assert!(matches!(error, DataError::Foreign { .. }), "{error}");
    }
}

#[test]
fn a_directory_in_use_is_refused() {
    let fixture = Fixture::new();
    let _first = open(&fixture.path(), Initialise::New).unwrap();
    assert!(matches!(open(&fixture.path(), Initialise::No), Err(DataError::InUse { .. })));
}

#[test]
fn a_newer_or_damaged_identity_is_refused() {
    let fixture = Fixture::new();
    drop(open(&fixture.path(), Initialise::New).unwrap());
    let identity = fixture.path().join("identity.toml");
    fs::write(&identity, "format = 1\nshape = \"unknown\"\n").unwrap();
    let error = open(&fixture.path(), Initialise::No).unwrap_err();
    assert!(
        matches!(error, DataError::Older { found: 1, .. }) && error.to_string().contains("anew"),
        "{error}"
    );
    fs::write(&identity, "format = 3\nshape = \"unknown\"\n").unwrap();
    assert!(matches!(open(&fixture.path(), Initialise::No), Err(DataError::Newer { found: 3, .. })));
    fs::write(&identity, "form").unwrap();
    assert!(matches!(open(&fixture.path(), Initialise::No), Err(DataError::Damaged { .. })));
}

#[test]
fn a_replica_begins_empty_once_and_then_from_its_log() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    assert_eq!(data.replicas().unwrap(), []);
    for _ in 0..2 {
        let prepared = prepare(&data, Durability::Sync, true);
        assert_eq!(prepared, begins(Boot::Initialise, Some(fixture.replica_file("log"))));
        assert!(fixture.replica_file("log/segment").exists());
        assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
    }
}

#[test]
fn a_replica_that_has_lost_its_log_rejoins_even_if_it_crashes_again() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    fs::remove_dir_all(fixture.replica_file("log")).unwrap();
    for _ in 0..2 {
        assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin);
        assert!(fixture.replica_file("log/segment").exists());
    }
}

#[test]
fn a_crash_before_the_marker_leaves_nothing_that_counts() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    fs::remove_file(fixture.replica_file("replica.toml")).unwrap();
    fs::write(fixture.replica_file("log/leftover"), b"").unwrap();
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Initialise);
    assert!(!fixture.replica_file("log/leftover").exists());
}

#[test]
fn a_crash_while_a_log_is_created_leaves_no_half_of_it() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let crash = |path: &Path| {
        fs::write(path.join("half"), b"").unwrap();
        Err(DataError::Missing { path: path.to_owned() })
    };
    assert!(data.prepare_replica(&placement(Durability::Sync), false, crash).is_err());
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin, "its group was not new");
    assert!(!fixture.replica_file("log/half").exists());
}

#[test]
fn memory_is_forgotten_at_every_restart() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    assert_eq!(prepare(&data, Durability::Memory, true), begins(Boot::Initialise, None));
    assert_eq!(prepare(&data, Durability::Memory, true), begins(Boot::Rejoin, None));
}

#[test]
fn a_replica_of_a_group_that_is_not_new_rejoins() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::Replace).unwrap();
    assert_eq!(prepare(&data, Durability::Sync, false).boot, Boot::Rejoin);
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin, "the marker stays");
}

#[test]
fn a_removed_replica_is_forgotten() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    data.remove_replica(placement(Durability::Sync).replica).unwrap();
    assert_eq!(data.replicas().unwrap(), []);
    data.remove_replica(placement(Durability::Sync).replica).unwrap();
}

#[test]
fn an_accepted_loss_is_remembered_and_leaves_nothing_else() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    for seconds in [100, 200] {
        data.accept_loss(&placement(Durability::Sync), seconds).unwrap();
        assert!(!fixture.replica_file("log").exists());
    }
    // Also when the log is lost once more.
    for _ in 0..2 {
        let prepared = prepare(&data, Durability::Sync, true);
        assert_eq!((prepared.boot, prepared.accepted_losses), (Boot::Rejoin, vec![100, 200]));
        fs::remove_dir_all(fixture.replica_file("log")).unwrap();
    }
}

/// The keyspace of the fixture once its replicas are on these nodes.
fn moved(keyspace: &Keyspace, nodes: &[u16]) -> Keyspace {
    let nodes = nodes.iter().copied().map(NodeId).collect();
    keyspace.next_epoch(&BTreeMap::from([(keyspace.shards[0].id, nodes)])).unwrap()
}

#[test]
fn who_the_replicas_are_is_written_down_and_read_back() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    let first = system_keyspace(vec![NodeId(0), NODE, NodeId(2)], Durability::Sync);
    assert_eq!(data.memberships(first.id).unwrap(), None);
    let second = moved(&moved(&first, &[1, 2, 4]), &[1, 2, 4, 7, 0]);
    data.note_memberships(first.id, &Known::of(&second)).unwrap();
    assert_eq!(data.memberships(first.id).unwrap(), Some(Known::of(&second)));
    let found = data.replicas().unwrap().remove(0);
    assert_eq!((found.replica.index, found.founders.replicas()), (ReplicaIndex(1), 3));
    assert_eq!((&found.group, &found.memberships), (&second.shards[0], &second.memberships()));
    data.forget_memberships(first.id).unwrap();
    data.forget_memberships(first.id).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
}

#[test]
fn a_marker_of_a_later_membership_than_is_written_down_is_refused() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let first = system_keyspace(vec![NodeId(0), NodeId(2), NodeId(3)], Durability::Sync);
    let second = moved(&first, &[0, 2, 1]);
    data.note_memberships(first.id, &Known::of(&second)).unwrap();
    let placement = Placement::on_node(&second, NODE).remove(0);
    assert_eq!((placement.replica.index, placement.memberships.epoch), (ReplicaIndex(3), Epoch(1)));
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    data.prepare_replica(&placement, true, create).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement]);
    data.forget_memberships(first.id).unwrap();
    let error = data.replicas().unwrap_err();
    assert!(
        matches!(error, DataError::Damaged { .. }) && error.to_string().contains("created in e1"),
        "{error}"
    );
}

#[test]
fn who_is_a_member_is_what_was_heard_last() {
    let mut placement = placement(Durability::Sync);
    assert!(placement.is_member());
    let first = system_keyspace(vec![NodeId(0), NODE, NodeId(2)], Durability::Sync);
    placement.set_known(&Known::of(&moved(&first, &[0, 1, 4])));
    assert!(placement.is_member());
    let without = moved(&first, &[0, 2, 4]);
    placement.set_known(&Known::of(&without));
    assert!(!placement.is_member(), "it was one before");
    // Its node is back, and a new replica on it.
    placement.set_known(&Known::of(&moved(&without, &[0, 1, 4])));
    assert!(!placement.is_member());
}
