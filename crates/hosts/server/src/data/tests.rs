//! A data directory belongs to one node, and a replica begins empty once.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use std::collections::BTreeMap;

use quorate_core::topology::{
    Decisions, Durability, Grants, Isolation, Keyspace, SerialOrder, Shard, Speculation, SpeculationVariant,
    Timestamping,
};
use quorate_core::{Epoch, GroupSize, KeyspaceId, NodeId, ReplicaIndex, ShardId};
use quorate_storage::Whereabouts;

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
    fs::write(&identity, "format = 6\nshape = \"unknown\"\n").unwrap();
    assert!(matches!(open(&fixture.path(), Initialise::No), Err(DataError::Newer { found: 6, .. })));
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
    fs::create_dir_all(fixture.replica_file("log")).unwrap();
    fs::write(fixture.replica_file("log/leftover"), b"").unwrap();
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Initialise);
    assert!(!fixture.replica_file("log/leftover").exists());
}

#[test]
fn a_crash_between_mark_and_inventory_is_made_good() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    let entry = fixture.path().join("inventory/shard-0-r1.toml");
    fs::remove_file(&entry).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Initialise);
    assert!(entry.exists());
}

/// Prepares the replica, which is refused; says why.
fn refusal(data: &DataDirectory) -> String {
    let create = |_: &Path| -> Result<(), DataError> { unreachable!("no log is created for it") };
    data.prepare_replica(&placement(Durability::Sync), true, create).unwrap_err().to_string()
}

#[test]
fn a_replica_that_has_to_be_here_does_not_begin_empty() {
    type Damage = (&'static str, fn(&Fixture));
    let damages: [Damage; 4] = [
        ("is missing", |fixture| fs::remove_dir_all(fixture.path().join("replicas")).unwrap()),
        ("is missing", |fixture| fs::remove_dir_all(fixture.replica_file("")).unwrap()),
        ("is missing", |fixture| fs::remove_file(fixture.replica_file("replica.toml")).unwrap()),
        ("is damaged", |fixture| fs::write(fixture.replica_file("replica.toml"), "form").unwrap()),
    ];
    for (complaint, damage) in damages {
        let fixture = Fixture::new();
        prepare(&open(&fixture.path(), Initialise::New).unwrap(), Durability::Sync, true);
        damage(&fixture);
        let data = open(&fixture.path(), Initialise::No).unwrap();
        assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)], "the inventory knows it");
        let error = refusal(&data);
        let names_it = error.contains("shard-0-r1") && error.contains(complaint);
        assert!(names_it && error.contains("--rejoin"), "{error}");
        drop(data);
        let data = open(&fixture.path(), Initialise::Rejoin).unwrap();
        assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin, "an operator has given it up");
        drop(data);
        let data = open(&fixture.path(), Initialise::No).unwrap();
        assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin, "it has not come back yet");
    }
}

#[test]
fn a_replica_of_another_data_directory_is_refused_and_kept() {
    let (fixture, other) = (Fixture::new(), Fixture::new());
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    let elsewhere = DataDirectory::open(&other.path(), CLUSTER, NODE, Initialise::New, 100).unwrap();
    prepare(&elsewhere, Durability::Sync, true);
    fs::remove_dir_all(fixture.path().join("replicas")).unwrap();
    fs::rename(other.path().join("replicas"), fixture.path().join("replicas")).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
    let error = refusal(&data);
    assert!(error.contains("0000000000000064") && error.contains("put it back"), "{error}");
    assert_eq!(data.foreign_replicas().unwrap().len(), 1);
    drop(data);
    let data = open(&fixture.path(), Initialise::Rejoin).unwrap();
    assert_eq!(prepare(&data, Durability::Sync, true).boot, Boot::Rejoin);
    assert!(fixture.path().join("replicas/shard-0-r1.aside-1/replica.toml").exists());
    assert_eq!(data.foreign_replicas().unwrap().len(), 0);
}

#[test]
fn a_replica_in_memory_that_is_missing_learns_everything() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Memory, true);
    fs::remove_dir_all(fixture.replica_file("")).unwrap();
    assert_eq!(prepare(&data, Durability::Memory, true), begins(Boot::Rejoin, None));
}

#[test]
fn a_directory_without_an_inventory_gets_one_once() {
    let fixture = Fixture::new();
    prepare(&open(&fixture.path(), Initialise::New).unwrap(), Durability::Sync, true);
    fs::remove_dir_all(fixture.path().join("inventory")).unwrap();
    let error = open(&fixture.path(), Initialise::No).unwrap().replicas().unwrap_err();
    assert!(error.to_string().contains("inventory"), "{error}");
    // As earlier versions have left it.
    let identity = fixture.path().join("identity.toml");
    let text = fs::read_to_string(&identity).unwrap().replace("inventory = true\n", "");
    fs::write(&identity, text).unwrap();
    drop(open(&fixture.path(), Initialise::No).unwrap());
    fs::remove_dir_all(fixture.path().join("replicas")).unwrap();
    let data = open(&fixture.path(), Initialise::No).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
}

#[test]
fn a_mark_stays_as_it_was_written_whatever_becomes_of_the_group() {
    let fixture = Fixture::new();
    let first = system_keyspace((0..5).map(NodeId).collect(), Durability::Sync);
    let node = NodeId(3);
    let open = || DataDirectory::open(&fixture.path(), CLUSTER, node, initialise(&fixture), 99).unwrap();
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    let placement = Placement::on_node(&first, node).remove(0);
    open().prepare_replica(&placement, true, create).unwrap();
    let mark = fixture.path().join("replicas/shard-0-r3/replica.toml");
    let written = fs::read_to_string(&mark).unwrap();
    // Two restarts after each change: to three nodes, and to seven.
    for nodes in [vec![0, 1, 3], vec![0, 1, 3, 4, 5, 6, 7]] {
        let next = moved(&first, &nodes);
        open().note_memberships(0, first.id, &Known::of(&next)).unwrap();
        for _ in 0..2 {
            let data = open();
            let found = data.replicas().unwrap().remove(0);
            assert_eq!((found.replica.index, found.founders.replicas()), (ReplicaIndex(3), 5));
            assert_eq!(found.group, next.shards[0]);
            data.prepare_replica(&found, true, create).unwrap();
            assert_eq!(fs::read_to_string(&mark).unwrap(), written);
        }
    }
}

#[test]
fn a_mark_that_an_earlier_version_has_rewritten_after_a_change_is_read() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    for file in ["replicas/shard-0-r1/replica.toml", "inventory/shard-0-r1.toml"] {
        let path = fixture.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("nodes = [0, 1, 2]", "nodes = [1]")).unwrap();
    }
    let first = system_keyspace(vec![NodeId(0), NODE, NodeId(2)], Durability::Sync);
    data.note_memberships(0, first.id, &Known::of(&moved(&first, &[1]))).unwrap();
    let found = data.replicas().unwrap().remove(0);
    assert_eq!((found.replica.index, found.founders.replicas()), (ReplicaIndex(1), 3));
}

/// As a server would be told for this directory.
fn initialise(fixture: &Fixture) -> Initialise {
    if fixture.path().exists() { Initialise::No } else { Initialise::New }
}

#[test]
fn every_start_is_a_life_and_a_fenced_directory_is_not_used_again() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let lives: Vec<_> = (1..=3).map(|tag| data.begin_life(tag).unwrap()).collect();
    assert_eq!(lives.iter().map(|life| life.number).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(lives[2].tags, [3, 2, 1]);
    let mut peers = data.peers().unwrap();
    assert_eq!(peers.iter().count(), 0);
    peers.hear(NodeId(2), &lives[1]).unwrap();
    data.note_peers(&peers).unwrap();
    assert_eq!(data.peers().unwrap(), peers);
    data.fence("node2 says so").unwrap();
    drop(data);
    let error = open(&fixture.path(), Initialise::No).unwrap_err().to_string();
    assert!(error.contains("node2 says so") && error.contains("--initialise=replace"), "{error}");
}

#[test]
fn lives_that_cannot_be_read_are_told_of() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    for text in ["format = 2\nnumber = 7\ntags = []\n", "format = 2\nnumber = 1\ntags = [\"life\"]\n"] {
        fs::write(fixture.path().join("lives.toml"), text).unwrap();
        let error = data.begin_life(1).unwrap_err();
        assert!(
            matches!(error, DataError::Damaged { .. }) && error.to_string().contains("lives.toml"),
            "{error}"
        );
    }
    let last = quorate_core::lives::LIFE_MAX;
    let text = format!("format = 2\nnumber = {last}\ntags = [\"0000000000000001\"]\n");
    fs::write(fixture.path().join("lives.toml"), text).unwrap();
    assert!(matches!(data.begin_life(1), Err(DataError::Lives { .. })));
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
    data.note_memberships(0, first.id, &Known::of(&second)).unwrap();
    assert_eq!(data.memberships(first.id).unwrap(), Some(Known::of(&second)));
    let found = data.replicas().unwrap().remove(0);
    assert_eq!((found.replica.index, found.founders.replicas()), (ReplicaIndex(1), 3));
    assert_eq!((&found.group, &found.memberships), (&second.shards[0], &second.memberships()));
    data.forget_memberships(0, first.id).unwrap();
    data.forget_memberships(0, first.id).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement(Durability::Sync)]);
}

/// One event loop hears of a change later than another, and lets go of the keyspace at another time.
#[test]
fn memberships_are_noted_for_all_event_loops_that_rely_on_them() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let first = system_keyspace(vec![NodeId(0), NODE, NodeId(2)], Durability::Sync);
    let second = moved(&first, &[1, 2, 4]);
    let third = moved(&second, &[1, 2, 4, 7, 0]);
    assert_eq!(data.rely_on_memberships(2, first.id).unwrap(), None);
    data.note_memberships(0, first.id, &Known::of(&third)).unwrap();
    data.note_memberships(1, first.id, &Known::of(&second)).unwrap();
    assert_eq!(data.memberships(first.id).unwrap(), Some(Known::of(&third)), "the latest counts");
    assert_eq!(data.rely_on_memberships(3, first.id).unwrap(), Some(Known::of(&third)));
    for event_loop in [0, 1] {
        data.forget_memberships(event_loop, first.id).unwrap();
        assert_eq!(data.memberships(first.id).unwrap(), Some(Known::of(&third)), "{event_loop}");
    }
    data.forget_memberships(3, first.id).unwrap();
    assert_eq!(data.memberships(first.id).unwrap(), None);
    data.note_memberships(1, first.id, &Known::of(&second)).unwrap();
    assert_eq!(data.memberships(first.id).unwrap(), Some(Known::of(&second)), "it begins anew");
}

#[test]
fn a_marker_of_a_later_membership_than_is_written_down_is_refused() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let first = system_keyspace(vec![NodeId(0), NodeId(2), NodeId(3)], Durability::Sync);
    let second = moved(&first, &[0, 2, 1]);
    data.note_memberships(0, first.id, &Known::of(&second)).unwrap();
    let placement = Placement::on_node(&second, NODE).remove(0);
    assert_eq!((placement.replica.index, placement.memberships.epoch), (ReplicaIndex(3), Epoch(1)));
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    data.prepare_replica(&placement, true, create).unwrap();
    assert_eq!(data.replicas().unwrap(), [placement]);
    data.forget_memberships(0, first.id).unwrap();
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

/// A keyspace in memory whose nodes have homes: three of a site share one, and this node has one of its own.
fn snapshot_keyspace() -> Keyspace {
    let group = |id, nodes: &[u16]| Shard::new(ShardId(id), nodes.iter().copied().map(NodeId).collect());
    Keyspace {
        id: KeyspaceId(5),
        name: "shop".to_owned(),
        isolation: Isolation::Snapshot,
        // The last one of an even group has an index that no group of so many nodes would have if it were odd.
        shards: vec![group(7, &[0, 1, 2]), group(8, &[0, 3, 4, 1])],
        homes: vec![group(9, &[0, 3, 4]), group(10, &[1]), group(11, &[2])],
        speculation: Some(Speculation {
            variant: SpeculationVariant::StrExternal,
            orders_sessions: true,
            decisions: Decisions::AcrossSites,
            grants: Grants::Leader,
            chain_max: Some(3),
            untuned: true,
        }),
        ..system_keyspace(Vec::new(), Durability::Memory)
    }
}

#[test]
fn groups_of_other_sizes_are_known_again_without_the_catalogue() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let keyspace = snapshot_keyspace();
    let placements = Placement::on_node(&keyspace, NODE);
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    for placement in &placements {
        data.prepare_replica(placement, true, create).unwrap();
    }
    let sizes = |placement: &Placement| {
        let founding = placement.founding_groups();
        [7, 8, 9, 10, 11].map(|group| founding.members(ShardId(group)).size().replicas())
    };
    let found = data.replicas().unwrap();
    assert_eq!(found.len(), 3);
    for (found, placement) in found.iter().zip(&placements) {
        assert_eq!(sizes(found), [3, 4, 3, 1, 1], "{}", found.replica);
        assert_eq!(sizes(found), sizes(placement));
        assert_eq!((found.speculation, found.shards), (keyspace.speculation, placement.shards));
        assert_eq!(found.memberships, found.founding_groups(), "nothing has changed since");
        assert_eq!((found.is_home(), found.keeps_log()), (placement.is_home(), placement.keeps_log()));
    }
    let homes: Vec<bool> = found.iter().map(Placement::is_home).collect();
    assert_eq!(homes, [false, false, true]);
}

#[test]
fn the_options_of_a_keyspace_are_known_again_without_the_catalogue() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let group = |id| Shard::new(ShardId(id), vec![NODE]);
    let strict = Keyspace {
        id: KeyspaceId(5),
        timestamping: Some(Timestamping {
            order: SerialOrder::Timestamps,
            retry_ahead: Duration::from_micros(2_500),
        }),
        ..Keyspace::new(KeyspaceId(5), "counts", Isolation::Strict, Durability::Sync, vec![group(7)])
    };
    let serializable = Keyspace {
        application: Some("bank".to_owned()),
        ..Keyspace::new(KeyspaceId(6), "accounts", Isolation::Serializable, Durability::Sync, vec![group(8)])
    };
    let create =
        |path: &Path| fs::write(path.join("segment"), b"").map_err(|source| super::io_error(path, source));
    for keyspace in [&strict, &serializable] {
        let placement = &Placement::on_node(keyspace, NODE)[0];
        data.prepare_replica(placement, true, create).unwrap();
    }
    let found = data.replicas().unwrap();
    let options: Vec<_> = found.iter().map(|found| (found.timestamping, found.application.clone())).collect();
    assert_eq!(options, [(strict.timestamping, None), (None, serializable.application)]);
}

#[test]
fn a_home_of_one_is_on_disk_whatever_the_keyspace_says() {
    let keyspace = snapshot_keyspace();
    let kept = |node| {
        let placements = Placement::on_node(&keyspace, NodeId(node)).into_iter();
        placements.filter(Placement::keeps_log).map(|placement| placement.replica.shard.0).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2, 3].map(kept), [vec![], vec![10], vec![11], vec![]]);
    // Elsewhere memory is memory, whatever the size of a group.
    let small = system_keyspace(vec![NODE], Durability::Memory);
    let placement = Placement::on_node(&small, NODE).remove(0);
    assert!(placement.founders == GroupSize::ONE && !placement.keeps_log() && !placement.has_neighbours());
}

#[test]
fn groups_of_other_sizes_are_written_down_with_a_change() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    let first = snapshot_keyspace();
    let moves = BTreeMap::from([(ShardId(9), [0, 3, 6].map(NodeId).to_vec())]);
    let second = first.next_epoch(&moves).unwrap();
    let known = Known::of(&second);
    data.note_memberships(0, first.id, &known).unwrap();
    let read = data.memberships(first.id).unwrap().unwrap();
    assert_eq!((&read, read.memberships.members(ShardId(10)).size()), (&known, GroupSize::ONE));
    assert_eq!(read.memberships.members(ShardId(8)).size().replicas(), 4);
    let mut overlaid = first.clone();
    read.overlay(&mut overlaid);
    assert_eq!(overlaid, second, "homes are groups as all others are");
    // A file of an earlier version lists no such groups.
    let path = fixture.path().join("keyspaces/keyspace-5.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("apart = "), "{text}");
    let older: Vec<&str> = text.lines().filter(|line| !line.starts_with("apart")).collect();
    fs::write(&path, older.join("\n")).unwrap();
    let read = data.memberships(first.id).unwrap().unwrap();
    assert_eq!((read.memberships.apart.len(), read.memberships.epoch), (0, Epoch(1)));
    // A number that is no size of a group is damage.
    fs::write(&path, text.replace("[10, 1]", "[10, 0]").replace("10,\n        1,", "10,\n        0,"))
        .unwrap();
    assert!(matches!(data.memberships(first.id), Err(DataError::Damaged { .. })));
}

#[test]
fn a_directory_gets_one_journal_and_is_refused_without_it() {
    let fixture = Fixture::new();
    let path = fixture.path();
    let journal = path.join("journal");
    let data = open(&path, Initialise::New).unwrap();
    drop(data.open_journals(1).unwrap());
    assert!(fs::read_to_string(path.join("identity.toml")).unwrap().contains("format = 3"));
    drop(data.open_journals(1).unwrap());
    drop(data);
    fs::remove_dir_all(&journal).unwrap();
    let data = open(&path, Initialise::No).unwrap();
    let error = data.open_journals(1).unwrap_err();
    assert!(matches!(error, DataError::Journal { .. }) && error.to_string().contains("--rejoin"), "{error}");
    prepare(&data, Durability::Sync, true);
    drop(data);
    // Replicas that may lack something do not begin.
    assert!(open(&path, Initialise::Rejoin).unwrap().open_journals(1).is_err());
    fs::remove_dir_all(path.join("replicas")).unwrap();
    let data = open(&path, Initialise::Rejoin).unwrap();
    drop(data.open_journals(1).unwrap());
    drop(data);
    drop(open(&path, Initialise::No).unwrap().open_journals(1).unwrap());
}

#[test]
fn a_journal_that_was_put_in_place_of_the_own_one_is_refused() {
    let fixtures = [Fixture::new(), Fixture::new()];
    for fixture in &fixtures {
        drop(open(&fixture.path(), Initialise::New).unwrap().open_journals(1).unwrap());
    }
    let [own, other] = fixtures.each_ref().map(|fixture| fixture.path().join("journal"));
    fs::remove_dir_all(&own).unwrap();
    fs::rename(other, &own).unwrap();
    let error = open(&fixtures[0].path(), Initialise::No).unwrap().open_journals(1).unwrap_err();
    assert!(error.to_string().contains("another node"), "{error}");
}

#[test]
fn the_journal_waits_for_the_log_of_a_replica_until_it_was_given_up() {
    let fixture = Fixture::new();
    let data = open(&fixture.path(), Initialise::New).unwrap();
    prepare(&data, Durability::Sync, true);
    let replica = data.replicas().unwrap().remove(0).replica;
    let log = data.replica_directory(replica).join("log");
    assert!(log.ends_with("log"));
    // Away, and missed.
    let (directory, aside) = (data.replica_directory(replica), fixture.path().join("aside"));
    fs::rename(&directory, &aside).unwrap();
    assert_eq!(data.log_for_journal(replica), Whereabouts::Here(log.clone()));
    fs::rename(&aside, &directory).unwrap();
    // Not in the inventory, because a crash has come before it was removed as a whole.
    fs::remove_file(data.entry(replica)).unwrap();
    assert_eq!(data.log_for_journal(replica), Whereabouts::Here(log.clone()));
    data.remove_replica(replica).unwrap();
    assert_eq!(
        data.log_for_journal(replica),
        Whereabouts::Here(log),
        "an inventory without replicas may be away"
    );
    fs::write(fixture.path().join("inventory/shard-99-r0.toml"), "").unwrap();
    assert_eq!(data.log_for_journal(replica), Whereabouts::GivenUp);
}
