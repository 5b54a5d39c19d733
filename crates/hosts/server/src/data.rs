//! The data directory of a node: whose it is, and which replicas it holds.
//!
//! ```text
//!   identity.toml                   cluster, node, a random incarnation, by explicit initialisation; the journal, the protocol version in force
//!   lives.toml                      how often the node was started on it, and a tag of each start
//!   peers.toml                      the latest lives of the other nodes, as far as they were heard of
//!   fenced.toml                     why the directory must not be used any more; absent unless peers have said so
//!   nodes.toml                      the sites and nodes of the cluster, as they were when this node knew last
//!   users.toml                      users, roles and tokens as the configuration service had them last; absent until there are some
//!   token                           the token of the node since it was started, by which its doors and its operator are known
//!   lock                            locked while a server uses the directory
//!   journal/, journal-1/            what was written to several logs of an event loop at once, until it is durable in each
//!   inventory/shard-7-r1.toml       a replica that has to be here
//!   keyspaces/keyspace-3.toml       who the replicas of a keyspace are, if that has changed since it was created
//!   replicas/shard-7-r1/
//!     replica.toml                  the mark: this replica has been created here, and how it begins without records
//!     log/                          its log; absent for durability `memory`
//! ```
//!
//! How a replica begins, by its mark and the inventory, says [`quorate_core::inventory`]. In short: a replica begins empty once;
//! one that has to be here and is not does not begin at all, before an operator acts.
//!
//! If more replicas of a group have lost their records than it survives, rejoining never ends. An operator can accept the
//! loss: the mark notes when, and the replica goes on as if it had slept since its creation.
//!
//! | file | role |
//! |---|---|
//! | `access` | users, roles and tokens, and the token of the node |
//! | `journal` | how the journal of the logs is opened |
//! | `replicas` | marks, the inventory, how replicas are made ready |
//! | `lives` | the lives of this node and of its peers |
//! | `memberships` | who the replicas of keyspaces are |
//! | `version` | the protocol version in force |

mod access;
mod attics;
mod journal;
mod lives;
mod memberships;
mod replicas;
#[cfg(target_os = "linux")]
mod staging;
mod version;

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use quorate_core::changes::Retention;
use quorate_core::comparison::Rival;
use quorate_core::hosted::{Boot, Seat, Shards};
use quorate_core::lives::{Incarnation, TooManyLives};
use quorate_core::topology::{
    Durability, Isolation, Keyspace, Node, SerialOrder, Shard, Speculation, Timestamping, Topology,
    UnknownName,
};
use quorate_core::{Epoch, GroupSize, Groups, KeyspaceId, NodeId, ReplicaId, ShardId, SiteId};
use quorate_wire::catalogue::SYSTEM_KEYSPACE_ID;
use quorate_wire::{ProtocolVersion, Window, event_loop_of};
use serde::{Deserialize, Serialize};

use crate::config::system_keyspace;
use crate::node::event_loop_of_keyspace;
pub(crate) use attics::{Attics, MemoryShare, ReplicaAttic};
use journal::JournalText;
pub(crate) use memberships::Known;
use memberships::Reliance;
#[cfg(test)]
use replicas::Prepared;

/// The version of the layout of a data directory that this program reads and writes. In the first one the catalogue was a
/// keyspace of TAPIR.
const FORMAT: u32 = 2;

/// The format of the identity of a directory with a journal. Programs that know nothing of journals would take what only the journal holds for
/// never written, and refuse such a directory.
const FORMAT_WITH_JOURNAL: u32 = 3;

/// The format of an identity that names a protocol version. From there on the version says which programs can use the directory, but for its journals.
const FORMAT_WITH_VERSION: u32 = 4;

/// The format of an identity that names further journals, and the greatest that this program reads. Programs that know of one only would not look for what the others hold.
const FORMAT_WITH_JOURNALS: u32 = 5;

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
    /// The directory must be there. Replicas that are missing in it do not come back: they learn everything from their groups
    /// before they count again.
    Rejoin,
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
        /// The node that it belongs to.
        found_node: NodeId,
        /// In which cluster.
        found_cluster: u64,
        /// The node that wants it.
        node: NodeId,
        /// In which cluster.
        cluster: u64,
    },
    /// It was written by a later version.
    #[error(
        "{path} is in format {found}, and this program knows format {FORMAT_WITH_JOURNALS}: it was written by a later version, \
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
    /// A protocol version is in force that this program does not know yet.
    #[error(
        "{path} belongs to a cluster in which protocol version {found} is in force, and this program knows {known}: start a later program; \
         an upgrade that was finished cannot be taken back",
        path = path.display()
    )]
    NewerProtocol {
        /// The directory.
        path: PathBuf,
        /// The version in force.
        found: ProtocolVersion,
        /// The versions that this program knows.
        known: Window,
    },
    /// A protocol version is in force that this program knows no longer.
    #[error(
        "{path} belongs to a cluster in which protocol version {found} is in force, and this program knows {known}: start an earlier program, \
         finish the upgrade to a later version (`quorate cluster upgrade-finish`), and start this one then",
        path = path.display()
    )]
    OlderProtocol {
        /// The directory.
        path: PathBuf,
        /// The version in force.
        found: ProtocolVersion,
        /// The versions that this program knows.
        known: Window,
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
        /// The damage.
        reason: String,
    },
    /// Its peers know of a later state of this node.
    #[error(
        "the data directory {path} must not be used any more: {reason}. If there is a newer copy of the disk, bring that back; \
         otherwise empty the directory and start the node once with --initialise=replace, so that its replicas learn \
         everything from their groups (at most f nodes of 2f + 1 at a time)",
        path = path.display()
    )]
    Fenced {
        /// The directory.
        path: PathBuf,
        /// The reason: what its peers know.
        reason: String,
    },
    /// A replica has to be here, and is not.
    #[error(
        "{path} is missing, or the mark replica.toml in it, and this node holds a replica there: if it began empty, it would \
         forget what others rely on. Stop the node and put the directory back; if it is lost for good, start the node \
         once with --rejoin, and the replica learns everything from its group (at most f replicas of 2f + 1 at a time)",
        path = path.display()
    )]
    ReplicaMissing {
        /// Its directory.
        path: PathBuf,
    },
    /// A replica belongs to another data directory.
    #[error(
        "{path} was written by {owner} on the data directory {incarnation}, which is not this one ({own}): put it back where it \
         belongs, and the directories of this node here; what is lost for good learns everything from its group if the \
         node is started once with --rejoin",
        path = path.display()
    )]
    ForeignReplica {
        /// The mark.
        path: PathBuf,
        /// The node that it belongs to.
        owner: NodeId,
        /// On which data directory.
        incarnation: String,
        /// This data directory.
        own: Incarnation,
    },
    /// The mark of a replica is not what it should be.
    #[error(
        "{path} is damaged: {reason}; restore it, or start the node once with --rejoin, and the replica learns everything from \
         its group (at most f replicas of 2f + 1 at a time)",
        path = path.display()
    )]
    DamagedMark {
        /// The mark.
        path: PathBuf,
        /// The damage.
        reason: String,
    },
    /// The node was started too often.
    #[error("{path}: {source}; replace the node with --initialise=replace", path = path.display())]
    Lives {
        /// The file.
        path: PathBuf,
        /// Why there is no life after the last one.
        source: TooManyLives,
    },
    /// The journal of its logs cannot be used.
    #[error("the journal of the logs cannot be used: {source}. {advice}", advice = journal::advice(path, source))]
    Journal {
        /// The data directory.
        path: PathBuf,
        /// The error of the journal.
        source: quorate_storage::LogError,
    },
    /// There is a journal that the identity does not name: the identity is an older one.
    #[error(
        "{path} holds what logs have acknowledged and may lack, and the identity.toml beside it names no journal: bring back the \
         identity.toml that was written last, or put the journal back where it belongs; remove nothing",
        path = path.display()
    )]
    UnnamedJournal {
        /// The directory of the journal.
        path: PathBuf,
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
    /// True once the inventory names every replica. Directories of earlier versions have none.
    #[serde(default)]
    inventory: bool,
    /// The protocol version in force, once there was one after the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol_version: Option<u32>,
    /// Which journal belongs here. Directories of earlier versions have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    journal: Option<JournalText>,
    /// Those of the event loops beside the first one, in order; also of event loops that the node has no more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    further_journals: Vec<JournalText>,
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
    /// How its transactions speculate, if that is not as the isolation has it.
    pub(crate) speculation: Option<Speculation>,
    /// The options of its timestamps, if they are not the default.
    pub(crate) timestamping: Option<Timestamping>,
    /// The application that its shards can call, if the keyspace names one.
    pub(crate) application: Option<String>,
    /// How much it retains for consumers of changes, if the keyspace says so.
    pub(crate) retention: Option<Retention>,
    /// The failures that acknowledged writes survive.
    pub(crate) durability: Durability,
    /// Its group, and on which nodes that is.
    pub(crate) group: Shard,
    /// How many replicas its group had when it was created, and in which membership that was.
    pub(crate) founders: GroupSize,
    pub(crate) created_in: Epoch,
    /// The groups of the keyspace that had another size then.
    pub(crate) apart: BTreeMap<ShardId, GroupSize>,
    /// All shards that the keyspace was created with, if it is known which they are.
    pub(crate) shards: Option<Shards>,
    /// The shards that have joined it since, in this order.
    pub(crate) joined: Vec<ShardId>,
    /// The replicas of all of them.
    pub(crate) memberships: Groups,
}

impl Placement {
    /// The protocol that runs the keyspace.
    pub(crate) fn protocol(&self) -> Protocol {
        match (self.keyspace, self.comparison, self.isolation) {
            (SYSTEM_KEYSPACE_ID, ..) => Protocol::Configuration,
            (_, Some(rival), _) => Protocol::Comparison(rival),
            (_, None, Isolation::Strict) => Protocol::Tapir,
            (_, None, Isolation::Serializable) => Protocol::Granola,
            (_, None, Isolation::ParallelSnapshot) => Protocol::Walter,
            (_, None, Isolation::Snapshot) => Protocol::Str,
        }
    }

    /// The serial order of the keyspace, where that is strict.
    pub(crate) fn order(&self) -> Option<SerialOrder> {
        let is_strict = self.protocol() == Protocol::Tapir;
        is_strict.then(|| self.timestamping.unwrap_or_default().order)
    }

    /// The seat of the replica, as far as its host knows of it before its records are read.
    pub(crate) fn seat(&self) -> Seat {
        Seat {
            replica: self.replica,
            groups: self.memberships.clone(),
            shards: self.shards,
            joined: self.joined.clone(),
            boot: Boot::Rejoin,
            attic: None,
        }
    }

    /// The replicas of a keyspace that a node is to host.
    pub(crate) fn on_node(keyspace: &Keyspace, node: NodeId) -> Vec<Placement> {
        let memberships = keyspace.memberships();
        let on_shard = |shard: &Shard| {
            let (index, _) = shard.members().find(|(_, host)| *host == node)?;
            let founders = shard.group_size();
            let sizes = keyspace.groups().map(|group| (group.id, group.group_size()));
            Some(Placement {
                replica: ReplicaId { shard: shard.id, index },
                keyspace: keyspace.id,
                keyspace_name: keyspace.name.clone(),
                isolation: keyspace.isolation,
                comparison: keyspace.comparison.as_ref().map(|comparison| comparison.rival),
                speculation: keyspace.speculation,
                timestamping: keyspace.timestamping,
                application: keyspace.application.clone(),
                retention: keyspace.retention,
                durability: keyspace.durability,
                group: shard.clone(),
                founders,
                apart: Groups::new(founders).with_apart(sizes).apart,
                created_in: shard.succession().present.since,
                shards: shards_of(keyspace),
                joined: keyspace.joins.iter().map(|join| join.shard).collect(),
                memberships: memberships.clone(),
            })
        };
        keyspace.groups().filter_map(on_shard).collect()
    }

    /// True if its replicas tell consumers what has committed.
    pub(crate) fn tells_changes(&self) -> bool {
        let is_founder = self.shards.is_none_or(|shards| shards.contains(self.replica.shard));
        let is_shard = is_founder || self.joined.contains(&self.replica.shard);
        self.comparison.is_none() && is_shard
    }

    /// The groups of the keyspace as they were when the replica was created.
    pub(crate) fn founding_groups(&self) -> Groups {
        Groups { apart: self.apart.clone(), ..Groups::new(self.founders) }
    }

    /// True if it is the machine of a node, in a home.
    pub(crate) fn is_home(&self) -> bool {
        self.has_neighbours() && self.shards.is_some_and(|shards| !shards.contains(self.replica.shard))
    }

    /// True if it has to know which other machines of its keyspace run on this node.
    pub(crate) fn has_neighbours(&self) -> bool {
        self.comparison.is_none() && self.isolation.has_homes()
    }

    /// The event loop of its node, among so many, on which the replica lives.
    pub(crate) fn event_loop(&self, event_loops: u16) -> u16 {
        match self.has_neighbours() {
            // They rely on messages that are lost only with one of them.
            true => event_loop_of_keyspace(self.keyspace, event_loops),
            false => event_loop_of(self.replica.shard, event_loops),
        }
    }

    /// True if it keeps a log on disk. A home of one does so in any case: nobody else keeps its decisions.
    pub(crate) fn keeps_log(&self) -> bool {
        self.durability == Durability::Sync || self.is_home() && self.founders == GroupSize::ONE
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

/// The protocol that the replicas of a keyspace run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tapir,
    Granola,
    Walter,
    /// STR, on replicated logs.
    Str,
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
            Protocol::Walter => "walter",
            Protocol::Str => "str",
            Protocol::Configuration => "configuration",
            Protocol::Comparison(rival) => rival.name(),
        }
    }
}

/// The shards that a keyspace was created with, as far as their ids follow each other.
fn shards_of(keyspace: &Keyspace) -> Option<Shards> {
    let founders = keyspace.founders();
    let first = founders.first()?.id;
    let follow = founders.iter().zip(first.0..).all(|(shard, id)| shard.id.0 == id);
    follow.then_some(Shards { first, count: founders.len() as u32 })
}

/// The data directory of this node, locked.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    node: NodeId,
    incarnation: Incarnation,
    replaced: bool,
    /// True if an operator has said that replicas which are missing do not come back.
    gives_up_missing: bool,
    /// Which event loops rely on what is noted of keyspaces.
    relied_on: Mutex<BTreeMap<KeyspaceId, Reliance>>,
    /// Where replicas keep values that do not fit into memory; none if everything stays in memory.
    attics: Option<Attics>,
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
            (false, Initialise::No | Initialise::Rejoin) => {
                return Err(DataError::Missing { path: path.to_owned() });
            }
            (true, Initialise::New | Initialise::Replace) => {
                return Err(DataError::Exists { path: path.to_owned() });
            }
            (false, _) => create_all(path)?,
            (true, _) => {}
        }
        let lock = lock(path)?;
        if !is_there {
            create_all(&path.join("inventory"))?;
            let replaced = initialise == Initialise::Replace;
            let file = IdentityFile {
                format: FORMAT,
                cluster,
                node: node.0,
                incarnation,
                replaced,
                inventory: true,
                protocol_version: None,
                journal: None,
                further_journals: Vec::new(),
            };
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
        let data = DataDirectory {
            path: path.to_owned(),
            node,
            incarnation: Incarnation(found.incarnation),
            replaced: found.replaced,
            gives_up_missing: initialise == Initialise::Rejoin,
            relied_on: Mutex::default(),
            attics: None,
            _lock: lock,
        };
        data.refuse_if_fenced()?;
        data.refuse_unknown_version(&found)?;
        // A directory without it is one of which all replicas are missing, which is told of each.
        create_all(&path.join("replicas"))?;
        if !found.inventory {
            data.take_inventory()?;
            write_durably(&identity, &IdentityFile { inventory: true, ..found })?;
        }
        Ok(data)
    }

    /// The same directory, where replicas may take so many bytes of memory together and keep further values in files; 0: all stays in memory.
    pub(crate) fn with_memory(mut self, memory_bytes: u64) -> Result<Self, DataError> {
        self.attics = match memory_bytes {
            0 => {
                Attics::remove_left(&self.path)?;
                None
            }
            bytes => Some(Attics::open(&self.path, bytes)?),
        };
        Ok(self)
    }

    /// Where replicas keep values that do not fit into memory, if they do.
    pub(crate) fn attics(&self) -> Option<&Attics> {
        self.attics.as_ref()
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

/// The field that every file here begins with.
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
    match format {
        ..FORMAT => return Err(DataError::Older { path: path.to_owned(), found: format }),
        FORMAT..=FORMAT_WITH_JOURNALS => {}
        _ => return Err(DataError::Newer { path: path.to_owned(), found: format }),
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
mod journal_tests;
#[cfg(test)]
mod tests;
