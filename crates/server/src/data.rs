//! The data directory of a node: whose it is, and which replicas it holds.
//!
//! ```text
//!   identity.toml                   cluster, node, a random incarnation; written once, by explicit initialisation
//!   nodes.toml                      the sites and nodes of the cluster, as they were when this node knew last
//!   lock                            locked while a server uses the directory
//!   keyspaces/keyspace-3.toml       who the replicas of a keyspace are, if that has changed since it was created
//!   replicas/shard-7-r1/
//!     replica.toml                  the marker: this replica has been created here, and how it begins without records
//!     log/                          its log; absent for durability `memory`
//! ```
//!
//! # Why markers
//! A replica may begin empty exactly once in its life, when its group is created. Later, beginning empty would mean to
//! forget votes that others rely on, so it must learn everything from its group instead. The marker makes that "once"
//! durable: it is on disk before the replica says its first word. A replica that is found
//!
//! | marker | log | durability | begins |
//! |---|---|---|---|
//! | no | – | any | empty, as part of its new group; leftovers of a log are from before its first word and are removed |
//! | initialise | there | sync | from its log, which may still be empty |
//! | initialise | gone | sync | by rejoining; the marker says so first |
//! | rejoin | there | sync | from its log, or by rejoining if that is not complete |
//! | any | – | memory | by rejoining |
//!
//! If more replicas of a group have lost their records than it survives, rejoining never ends. An operator can accept the
//! loss: the marker notes when, and the replica goes on as if it had slept since its creation.

mod memberships;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use quorate_core::comparison::Rival;
use quorate_core::topology::{Durability, Isolation, Keyspace, Node, Shard, Topology, UnknownName};
use quorate_core::{Epoch, GroupSize, Groups, KeyspaceId, NodeId, ReplicaId, ReplicaIndex, ShardId, SiteId};
use quorate_tapir::KeyspaceShards;
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;
use serde::{Deserialize, Serialize};

use crate::config::system_keyspace;
pub(crate) use memberships::Known;

/// The version of the layout of a data directory that this program reads and writes. In the first one the catalogue was a
/// keyspace of TAPIR.
const FORMAT: u32 = 2;

/// How a server deals with a data directory that is not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initialise {
    /// The directory must be there: a mistyped path or an unmounted disk is no reason to begin anew.
    #[default]
    No,
    /// Create it: the cluster is new, or at least this node has never been part of it.
    New,
    /// Create it: this node has been part of the cluster and has lost its disk. Its replicas learn everything from
    /// their groups before they count again.
    Replace,
}

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// It is not there.
    #[error(
        "there is no data directory at {path}: if this node is new, start it once with --initialise; if it has lost \
         its disk, with --initialise=replace; otherwise check the path and whether the disk is mounted",
        path = path.display()
    )]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// It is there already.
    #[error("the data directory {path} exists already: start without --initialise", path = path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// It belongs to somebody else.
    #[error(
        "the data directory {path} belongs to {found_node} of cluster {found_cluster}, not to {node} of cluster \
         {cluster}: check `data_directory`, `node` and `cluster.id`",
        path = path.display()
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Whose it is.
        found_node: NodeId,
        /// In which cluster.
        found_cluster: u64,
        /// Who wants it.
        node: NodeId,
        /// In which cluster.
        cluster: u64,
    },
    /// It was written by a later version.
    #[error(
        "{path} is in format {found}, and this program knows format {FORMAT}: it was written by a later version, \
         which has to be used",
        path = path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It was written by a version that kept the catalogue in another way.
    #[error(
        "{path} is in format {found}, from before the configuration service, and this program cannot take over its \
         catalogue: export what is needed with the version that wrote it, and create the cluster anew",
        path = path.display()
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// Another server uses it.
    #[error("another server uses the data directory {path}", path = path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A file in it is not what it should be.
    #[error("{path} is damaged: {reason}; restore it from a backup, or replace this node with --initialise=replace", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct IdentityFile {
    format: u32,
    cluster: u64,
    node: u16,
    incarnation: u64,
    replaced: bool,
}

#[derive(Serialize, Deserialize)]
struct MarkerFile {
    format: u32,
    keyspace: u32,
    keyspace_name: String,
    isolation: String,
    /// The comparison system that runs the keyspace in place of its isolation's protocol, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    baseline: Option<String>,
    durability: String,
    shard: u32,
    index: u8,
    /// The nodes of its group when it was created, ascending by index.
    nodes: Vec<u16>,
    /// The first shard of the keyspace, and how many there are. Directories of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shards: Option<[u32; 2]>,
    /// In which membership it was created.
    #[serde(default)]
    epoch: u32,
    boot: Boot,
    /// When operators have accepted that records were lost, in seconds since 1970.
    #[serde(default)]
    accepted_losses: Vec<u64>,
}

/// What a replica does of which there are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Boot {
    /// Its group is being created: it begins empty.
    Initialise,
    /// Its group exists, so records are missing: it learns everything from the others before it answers anybody.
    Rejoin,
}

/// A replica that is, or is to be, hosted here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The replica.
    pub(crate) replica: ReplicaId,
    /// The keyspace that its shard belongs to.
    pub(crate) keyspace: KeyspaceId,
    /// The name of that keyspace.
    pub(crate) keyspace_name: String,
    /// The guarantee that the keyspace gives.
    pub(crate) isolation: Isolation,
    /// The comparison system that runs it in place of that isolation's protocol, if one does.
    pub(crate) comparison: Option<Rival>,
    /// What acknowledged writes survive.
    pub(crate) durability: Durability,
    /// Its group, and on which nodes that is.
    pub(crate) group: Shard,
    /// How many replicas its group had when it was created, and in which membership that was.
    pub(crate) founders: GroupSize,
    pub(crate) created_in: Epoch,
    /// All shards of that keyspace, if it is known which they are.
    pub(crate) shards: Option<KeyspaceShards>,
    /// Who the replicas of all of them are.
    pub(crate) memberships: Groups,
}

impl Placement {
    /// What runs the keyspace.
    pub(crate) fn protocol(&self) -> Protocol {
        match (self.keyspace, self.comparison, self.isolation) {
            (SYSTEM_KEYSPACE_ID, ..) => Protocol::Configuration,
            (_, Some(rival), _) => Protocol::Comparison(rival),
            (_, None, Isolation::Strict) => Protocol::Tapir,
            (_, None, Isolation::Serializable) => Protocol::Granola,
        }
    }

    /// The replicas of a keyspace that a node is to host.
    pub(crate) fn on_node(keyspace: &Keyspace, node: NodeId) -> Vec<Placement> {
        let memberships = keyspace.memberships();
        let on_shard = |shard: &Shard| {
            let (index, _) = shard.members().find(|(_, host)| *host == node)?;
            Some(Placement {
                replica: ReplicaId { shard: shard.id, index },
                keyspace: keyspace.id,
                keyspace_name: keyspace.name.clone(),
                isolation: keyspace.isolation,
                comparison: keyspace.comparison.as_ref().map(|comparison| comparison.rival),
                durability: keyspace.durability,
                group: shard.clone(),
                founders: shard.group_size(),
                created_in: shard.succession().present.since,
                shards: shards_of(keyspace),
                memberships: memberships.clone(),
            })
        };
        keyspace.groups().filter_map(on_shard).collect()
    }

    /// True if the replica is a member of its group, as far as is known here.
    pub(crate) fn is_member(&self) -> bool {
        self.group.succession().present.members.contains(self.replica.index)
    }

    /// Takes note of who the replicas are now.
    pub(crate) fn set_known(&mut self, known: &Known) {
        self.memberships = known.memberships.clone();
        if let Some(group) = known.changed.get(&self.replica.shard) {
            self.group = group.clone();
        }
    }
}

/// What runs the replicas of a keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tapir,
    Granola,
    /// The configuration service.
    Configuration,
    /// A comparison system.
    Comparison(Rival),
}

impl Protocol {
    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tapir => "tapir",
            Protocol::Granola => "granola",
            Protocol::Configuration => "configuration",
            Protocol::Comparison(rival) => rival.name(),
        }
    }
}

/// The shards of a keyspace, as far as their ids follow each other.
fn shards_of(keyspace: &Keyspace) -> Option<KeyspaceShards> {
    let first = keyspace.shards.first()?.id;
    let follow = keyspace.shards.iter().zip(first.0..).all(|(shard, id)| shard.id.0 == id);
    follow.then_some(KeyspaceShards { first, count: keyspace.shards.len() as u32 })
}

/// How a replica that was prepared by [`DataDirectory::prepare_replica`] begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// What it does without records.
    pub(crate) boot: Boot,
    /// Where its log is to be opened; none for durability `memory`.
    pub(crate) log: Option<PathBuf>,
    /// When operators have accepted that records were lost, in seconds since 1970.
    pub(crate) accepted_losses: Vec<u64>,
}

/// The data directory of this node, locked.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    replaced: bool,
    _lock: File,
}

impl DataDirectory {
    /// Opens the directory of a node, or creates it if that is what is asked for.
    pub(crate) fn open(
        path: &Path,
        cluster: u64,
        node: NodeId,
        initialise: Initialise,
        incarnation: u64,
    ) -> Result<Self, DataError> {
        let identity = path.join("identity.toml");
        let is_there = exists(&identity)?;
        match (is_there, initialise) {
            (false, Initialise::No) => return Err(DataError::Missing { path: path.to_owned() }),
            (true, Initialise::New | Initialise::Replace) => {
                return Err(DataError::Exists { path: path.to_owned() });
            }
            (false, _) => create_all(path)?,
            (true, Initialise::No) => {}
        }
        let lock = lock(path)?;
        if !is_there {
            create_all(&path.join("replicas"))?;
            let replaced = initialise == Initialise::Replace;
            let file = IdentityFile { format: FORMAT, cluster, node: node.0, incarnation, replaced };
            write_durably(&identity, &file)?;
        }
        let found: IdentityFile = read(&identity)?;
        if found.cluster != cluster || found.node != node.0 {
            let (found_node, found_cluster) = (NodeId(found.node), found.cluster);
            return Err(DataError::Foreign {
                path: path.to_owned(),
                found_node,
                found_cluster,
                node,
                cluster,
            });
        }
        Ok(DataDirectory { path: path.to_owned(), replaced: found.replaced, _lock: lock })
    }

    /// True if this node had been part of its cluster before the directory was created.
    pub(crate) fn is_replacement(&self) -> bool {
        self.replaced
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Which node of which cluster a directory belongs to; none if it is not there.
    pub(crate) fn owner(path: &Path) -> Result<Option<(u64, NodeId)>, DataError> {
        let identity = path.join("identity.toml");
        if !exists(&identity)? {
            return Ok(None);
        }
        let IdentityFile { cluster, node, .. } = read(&identity)?;
        Ok(Some((cluster, NodeId(node))))
    }

    /// Notes the sites and nodes of the cluster, and where the catalogue is.
    pub(crate) fn remember(&self, topology: &Topology, system: &Keyspace) -> Result<(), DataError> {
        write_durably(&self.path.join("nodes.toml"), &NodesFile::new(topology, system))
    }

    /// The sites and nodes that were noted last in a directory, and where the catalogue is; none if none were.
    pub(crate) fn remembered(path: &Path) -> Result<Option<(Topology, Keyspace)>, DataError> {
        let nodes = path.join("nodes.toml");
        match exists(&nodes)? {
            true => read::<NodesFile>(&nodes)?.restore(&nodes).map(Some),
            false => Ok(None),
        }
    }

    /// The replicas that have been created here.
    pub(crate) fn replicas(&self) -> Result<Vec<Placement>, DataError> {
        let directory = self.path.join("replicas");
        let mut placements = Vec::new();
        let mut known = BTreeMap::new();
        for entry in fs::read_dir(&directory).map_err(|source| io_error(&directory, source))? {
            let marker = entry.map_err(|source| io_error(&directory, source))?.path().join("replica.toml");
            if exists(&marker)? {
                let mut placement = read::<MarkerFile>(&marker)?.placement(&marker)?;
                let keyspace = placement.keyspace;
                if let Entry::Vacant(vacant) = known.entry(keyspace) {
                    vacant.insert(self.memberships(keyspace)?);
                }
                if let Some(Some(known)) = known.get(&keyspace) {
                    placement.set_known(known);
                }
                let created_in = placement.created_in;
                if placement.memberships.epoch < created_in {
                    let reason =
                        format!("it was created in {created_in}, and nothing beside it tells of that");
                    return Err(DataError::Damaged { path: marker, reason });
                }
                placements.push(placement);
            }
        }
        placements.sort_by_key(|placement| placement.replica);
        Ok(placements)
    }

    /// Gets a replica ready to be built, by the table above. `group_is_new` says how one without a marker begins, and
    /// `create_log` creates an empty log in the directory that it is given.
    pub(crate) fn prepare_replica<E: From<DataError>>(
        &self,
        placement: &Placement,
        group_is_new: bool,
        create_log: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Prepared, E> {
        let directory = self.replica_directory(placement.replica);
        let (marker, log) = (directory.join("replica.toml"), directory.join("log"));
        let (has_marker, has_log) = (exists(&marker)?, exists(&log)?);
        let known = if has_marker { Some(read::<MarkerFile>(&marker)?) } else { None };
        let wants_log = placement.durability == Durability::Sync;
        let boot = match &known {
            Some(known) if wants_log && has_log => known.boot,
            Some(_) => Boot::Rejoin,
            None if group_is_new => Boot::Initialise,
            None => Boot::Rejoin,
        };
        let accepted_losses = known.map(|known| known.accepted_losses).unwrap_or_default();
        create_all(&directory)?;
        if boot == Boot::Rejoin {
            // First of all: once an empty log is there it must not pass for one that was never used.
            write_durably(&marker, &MarkerFile::new(placement, boot, &accepted_losses))?;
        }
        if wants_log && !(has_marker && has_log) {
            let new = directory.join("log.new");
            remove_all(&new)?;
            remove_all(&log)?;
            create_all(&new)?;
            create_log(&new)?;
            rename_durably(&new, &log)?;
        }
        if boot == Boot::Initialise {
            // Last of all: without a marker whatever is here is thrown away.
            write_durably(&marker, &MarkerFile::new(placement, boot, &accepted_losses))?;
        }
        Ok(Prepared { boot, log: wants_log.then_some(log), accepted_losses })
    }

    /// Notes that an operator has accepted that this replica has lost its records, and removes what is left of them.
    pub(crate) fn accept_loss(&self, placement: &Placement, unix_seconds: u64) -> Result<(), DataError> {
        let directory = self.replica_directory(placement.replica);
        let marker = directory.join("replica.toml");
        let mut accepted_losses = read::<MarkerFile>(&marker)?.accepted_losses;
        accepted_losses.push(unix_seconds);
        write_durably(&marker, &MarkerFile::new(placement, Boot::Rejoin, &accepted_losses))?;
        remove_all(&directory.join("log"))
    }

    /// Forgets a replica whose keyspace has been dropped.
    pub(crate) fn remove_replica(&self, replica: ReplicaId) -> Result<(), DataError> {
        remove_all(&self.replica_directory(replica))
    }

    fn replica_directory(&self, replica: ReplicaId) -> PathBuf {
        self.path.join("replicas").join(format!("shard-{}-r{}", replica.shard.0, replica.index.0))
    }
}

impl MarkerFile {
    fn new(placement: &Placement, boot: Boot, accepted_losses: &[u64]) -> Self {
        MarkerFile {
            format: FORMAT,
            keyspace: placement.keyspace.0,
            keyspace_name: placement.keyspace_name.clone(),
            isolation: placement.isolation.name().to_owned(),
            baseline: placement.comparison.map(|rival| rival.name().to_owned()),
            durability: placement.durability.name().to_owned(),
            shard: placement.replica.shard.0,
            index: placement.replica.index.0,
            nodes: placement.group.replicas.iter().map(|node| node.0).collect(),
            shards: placement.shards.map(|shards| [shards.first.0, shards.count]),
            epoch: placement.created_in.0,
            boot,
            accepted_losses: accepted_losses.to_vec(),
        }
    }

    /// The replica, as it was created.
    fn placement(self, path: &Path) -> Result<Placement, DataError> {
        let damaged = |reason: String| DataError::Damaged { path: path.to_owned(), reason };
        let unknown = |error: UnknownName| damaged(error.to_string());
        let founders = GroupSize::new(self.nodes.len()).map_err(|error| damaged(error.to_string()))?;
        let created_in = Epoch(self.epoch);
        if created_in == Epoch::FIRST && usize::from(self.index) >= self.nodes.len() {
            return Err(damaged(format!("replica {} of {} nodes", self.index, self.nodes.len())));
        }
        let shard = ShardId(self.shard);
        Ok(Placement {
            replica: ReplicaId { shard, index: ReplicaIndex(self.index) },
            keyspace: KeyspaceId(self.keyspace),
            keyspace_name: self.keyspace_name,
            isolation: self.isolation.parse().map_err(unknown)?,
            comparison: self.baseline.map(|name| name.parse()).transpose().map_err(unknown)?,
            durability: self.durability.parse().map_err(unknown)?,
            group: Shard::new(shard, self.nodes.into_iter().map(NodeId).collect()),
            founders,
            shards: self.shards.map(|[first, count]| KeyspaceShards { first: ShardId(first), count }),
            memberships: Groups::new(founders),
            created_in,
        })
    }
}

/// The sites and nodes, and the nodes that hold the catalogue.
#[derive(Serialize, Deserialize)]
struct NodesFile {
    format: u32,
    sites: Vec<String>,
    /// The site of each node, and where it is found.
    nodes: Vec<(u16, String)>,
    system: Vec<u16>,
    durability: String,
}

impl NodesFile {
    fn new(topology: &Topology, system: &Keyspace) -> Self {
        NodesFile {
            format: FORMAT,
            sites: topology.sites.clone(),
            nodes: topology.nodes.iter().map(|node| (node.site.0, node.address.clone())).collect(),
            system: system.shards[0].replicas.iter().map(|node| node.0).collect(),
            durability: system.durability.name().to_owned(),
        }
    }

    fn restore(self, path: &Path) -> Result<(Topology, Keyspace), DataError> {
        let damaged = |reason: String| DataError::Damaged { path: path.to_owned(), reason };
        let NodesFile { sites, nodes, system, durability, .. } = self;
        if let Some((site, _)) = nodes.iter().find(|(site, _)| usize::from(*site) >= sites.len()) {
            return Err(damaged(format!("a node in site {site} of {}", sites.len())));
        }
        let known = |node: &u16| usize::from(*node) < nodes.len();
        if GroupSize::new(system.len()).is_err() || !system.iter().all(known) {
            return Err(damaged(format!("the catalogue on the nodes {system:?} of {}", nodes.len())));
        }
        let durability = durability.parse().map_err(|error: UnknownName| damaged(error.to_string()))?;
        let node = |((site, address), id)| Node { id: NodeId(id), site: SiteId(site), address };
        let topology = Topology { nodes: nodes.into_iter().zip(0..).map(node).collect(), sites };
        Ok((topology, system_keyspace(system.into_iter().map(NodeId).collect(), durability)))
    }
}

/// What every file here begins with.
#[derive(Deserialize)]
struct FormatOnly {
    format: u32,
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<T, DataError> {
    let text = fs::read_to_string(path).map_err(|source| io_error(path, source))?;
    let damaged = |error: toml::de::Error| DataError::Damaged {
        path: path.to_owned(),
        reason: error.to_string().trim_end().to_owned(),
    };
    let FormatOnly { format } = toml::from_str(&text).map_err(damaged)?;
    match format.cmp(&FORMAT) {
        Ordering::Greater => return Err(DataError::Newer { path: path.to_owned(), found: format }),
        Ordering::Less => return Err(DataError::Older { path: path.to_owned(), found: format }),
        Ordering::Equal => {}
    }
    toml::from_str(&text).map_err(damaged)
}

/// Replaces a file as a whole: after a crash it is either the old one or the new one.
fn write_durably(path: &Path, contents: &impl Serialize) -> Result<(), DataError> {
    let text = toml::to_string(contents)
        .map_err(|error| DataError::Damaged { path: path.to_owned(), reason: error.to_string() })?;
    let temporary = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()
    };
    write().map_err(|source| io_error(path, source))?;
    rename_durably(&temporary, path)
}

fn rename_durably(from: &Path, to: &Path) -> Result<(), DataError> {
    fs::rename(from, to).and_then(|()| sync_parent(to)).map_err(|source| io_error(to, source))
}

/// Removes a directory with all that is in it, if it is there.
fn remove_all(path: &Path) -> Result<(), DataError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

/// Removes a file, if it is there.
fn remove_file(path: &Path) -> Result<(), DataError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error(path, error)),
        _ => Ok(()),
    }
}

fn exists(path: &Path) -> Result<bool, DataError> {
    path.try_exists().map_err(|source| io_error(path, source))
}

/// Creates a directory and those above it, durably.
fn create_all(path: &Path) -> Result<(), DataError> {
    let create = || -> io::Result<()> {
        fs::create_dir_all(path)?;
        sync_parent(path)
    };
    create().map_err(|source| io_error(path, source))
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn lock(path: &Path) -> Result<File, DataError> {
    let file = path.join("lock");
    let lock = File::create(&file).map_err(|source| io_error(&file, source))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DataError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io_error(&file, source)),
    }
}

fn io_error(path: &Path, source: io::Error) -> DataError {
    DataError::Io { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
