//! The replicas of a data directory: their marks, the inventory that says which have to be here, and how they are made ready.
//!
//! A mark is written once. The founding of the replica stays in it as it was, however its group changes later; only
//! how the replica begins without records may change. The inventory says the same of the founding, outside `replicas`, so that a
//! replica whose directory is gone is missed.
//!
//! Order of writing, for one that begins empty: log, mark, inventory, first word. A crash in between leaves one without a mark,
//! of which nobody has heard, or one that is not in the inventory, which is entered when it is made ready again. A
//! replica that is removed leaves the inventory first, and then its directory goes under another name, as a whole.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_core::changes::Retention;
use quorate_core::hosted::{Boot, Shards};
use quorate_core::inventory::{Begin, Found, Mark, Missing, decide_begin};
use quorate_core::topology::{Decisions, Grants, Isolation, Shard, Speculation, Timestamping, UnknownName};
use quorate_core::{Epoch, GroupSize, Groups, KeyspaceId, NodeId, ReplicaId, ReplicaIndex, ShardId};
use serde::{Deserialize, Serialize};

use super::{
    DataDirectory, DataError, FORMAT, Placement, create_all, exists, io_error, read, remove_all, remove_file,
    rename_durably, write_durably,
};

/// How a mark says how its replica begins.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Boot", rename_all = "lowercase")]
enum BootText {
    Initialise,
    Rejoin,
}

/// How a replica that was prepared by [`DataDirectory::prepare_replica`] begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// How it begins without records.
    pub(crate) boot: Boot,
    /// Where its log is to be opened; none for durability `memory`.
    pub(crate) log: Option<PathBuf>,
    /// When operators have accepted that records were lost, in seconds since 1970.
    pub(crate) accepted_losses: Vec<u64>,
}

/// How a replica was founded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Founding {
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
    /// The first shard that the keyspace was created with, and how many there were. Directories of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shards: Option<[u32; 2]>,
    /// The shards that had joined it when the replica was created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    joined: Vec<u32>,
    /// In which membership it was created.
    #[serde(default)]
    epoch: u32,
    /// The groups of the keyspace that had another size than its own then, each with that size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    apart: Vec<[u32; 2]>,
    /// How transactions speculate, if the keyspace says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    speculation: Option<SpeculationText>,
    /// The options of timestamps, if the keyspace says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamping: Option<TimestampingText>,
    /// The application that its shards can call, if the keyspace names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    application: Option<String>,
    /// How much it retains for consumers of changes, if the keyspace says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retention: Option<RetentionText>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RetentionText {
    time_us: u64,
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct TimestampingText {
    order: String,
    #[serde(default)]
    retry_ahead_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SpeculationText {
    variant: String,
    #[serde(default)]
    orders_sessions: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chain_max: Option<u8>,
    #[serde(default)]
    untuned: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    decisions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grants: Option<String>,
}

/// A replica that has to be here.
#[derive(Serialize, Deserialize)]
struct InventoryFile {
    format: u32,
    #[serde(flatten)]
    founding: Founding,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MarkFile {
    format: u32,
    #[serde(flatten)]
    founding: Founding,
    /// The node and the data directory that have written it. Those of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    incarnation: Option<String>,
    #[serde(with = "BootText")]
    boot: Boot,
    /// When operators have accepted that records were lost, in seconds since 1970.
    #[serde(default)]
    accepted_losses: Vec<u64>,
}

impl DataDirectory {
    /// The replicas that have to be here, whether they are or not.
    pub(crate) fn replicas(&self) -> Result<Vec<Placement>, DataError> {
        let mut foundings = BTreeMap::new();
        for path in self.inventory_entries()? {
            let file: InventoryFile = read(&path)?;
            foundings.insert(file.founding.replica(), (path, file.founding));
        }
        for directory in self.replica_directories()? {
            let mark = directory.join("replica.toml");
            match self.mark(&mark) {
                Ok(Some(file)) => _ = foundings.insert(file.founding.replica(), (mark, file.founding)),
                // Before the mark there is nothing. Replicas that belong elsewhere are told apart by `foreign_replicas`.
                Ok(None) | Err(DataError::ForeignReplica { .. }) => {}
                Err(error) => {
                    let is_known = |replica: &ReplicaId| self.replica_directory(*replica) == directory;
                    if !foundings.keys().any(is_known) {
                        return Err(error);
                    }
                }
            }
        }
        let mut placements = Vec::with_capacity(foundings.len());
        let mut known = BTreeMap::new();
        for (path, founding) in foundings.into_values() {
            let mut placement = founding.placement(&path)?;
            if let Entry::Vacant(vacant) = known.entry(placement.keyspace) {
                vacant.insert(self.memberships(placement.keyspace)?);
            }
            if let Some(Some(known)) = known.get(&placement.keyspace) {
                placement.set_known(known);
            }
            let created_in = placement.created_in;
            if placement.memberships.epoch < created_in {
                let reason = format!("it was created in {created_in}, and nothing beside it tells of that");
                return Err(DataError::Damaged { path, reason });
            }
            placements.push(placement);
        }
        Ok(placements)
    }

    /// Replicas in this directory that another one has lost.
    pub(crate) fn foreign_replicas(&self) -> Result<Vec<DataError>, DataError> {
        let mut foreign = Vec::new();
        for directory in self.replica_directories()? {
            if let Err(error @ DataError::ForeignReplica { .. }) = self.mark(&directory.join("replica.toml"))
            {
                foreign.push(error);
            }
        }
        Ok(foreign)
    }

    /// Gets a replica ready to be built. `group_is_new` says how one begins of which nothing is known here, and `create_log` creates
    /// an empty log in the directory that it is given.
    pub(crate) fn prepare_replica<E: From<DataError>>(
        &self,
        placement: &Placement,
        group_is_new: bool,
        create_log: impl FnOnce(&Path) -> Result<(), E>,
    ) -> Result<Prepared, E> {
        let replica = placement.replica;
        let directory = self.replica_directory(replica);
        let (mark, log, entry) = (directory.join("replica.toml"), directory.join("log"), self.entry(replica));
        let founding = if exists(&entry)? { Some(read::<InventoryFile>(&entry)?.founding) } else { None };
        let is_in_inventory = founding.is_some();
        let keeps_log = placement.keeps_log();
        let known = self.mark(&mark);
        let mark_is = match &known {
            Ok(None) => Mark::None,
            Ok(Some(file)) => Mark::Own { rejoins: file.boot == Boot::Rejoin },
            Err(DataError::ForeignReplica { .. }) => Mark::Foreign,
            Err(DataError::DamagedMark { .. }) => Mark::Damaged,
            Err(_) => return Err(known.expect_err("it was looked at").into()),
        };
        let found = Found { is_in_inventory, mark: mark_is, has_log: exists(&log)?, keeps_log };
        let begin = decide_begin(found, group_is_new, self.gives_up_missing);
        let known = match (begin, known) {
            (Begin::Refused(Missing::Directory), _) => {
                return Err(DataError::ReplicaMissing { path: directory }.into());
            }
            (Begin::Refused(_), Err(error)) => return Err(error.into()),
            (_, Err(_)) => {
                self.set_aside(&directory)?;
                None
            }
            (_, Ok(known)) => known,
        };
        let (boot, keeps) = match begin {
            Begin::Empty => (Boot::Initialise, false),
            Begin::Log { rejoins: false } => (Boot::Initialise, true),
            Begin::Log { rejoins: true } => (Boot::Rejoin, true),
            Begin::Rejoin | Begin::Refused(_) => (Boot::Rejoin, false),
        };
        let accepted_losses = known.as_ref().map(|known| known.accepted_losses.clone()).unwrap_or_default();
        let founding = known.as_ref().map(|known| known.founding.clone()).or(founding);
        let file = MarkFile {
            format: FORMAT,
            founding: founding.unwrap_or_else(|| Founding::of(placement)),
            node: Some(self.node.0),
            incarnation: Some(self.incarnation.to_string()),
            boot,
            accepted_losses: accepted_losses.clone(),
        };
        let is_marked = known.as_ref() == Some(&file);
        if !is_marked {
            create_all(&directory)?;
        }
        if boot == Boot::Rejoin && !is_marked {
            // First of all: once an empty log is there it must not pass for one that was never used.
            write_durably(&mark, &file)?;
        }
        if keeps_log && !keeps {
            let new = directory.join("log.new");
            remove_all(&new)?;
            remove_all(&log)?;
            create_all(&new)?;
            create_log(&new)?;
            rename_durably(&new, &log)?;
        }
        if boot == Boot::Initialise && !is_marked {
            // Last of all: without a mark whatever is here is thrown away.
            write_durably(&mark, &file)?;
        }
        if !is_in_inventory {
            write_durably(&entry, &InventoryFile { format: FORMAT, founding: file.founding })?;
        }
        Ok(Prepared { boot, log: keeps_log.then_some(log), accepted_losses })
    }

    /// The mark of a replica that begins empty, and its entry in the inventory, as texts: for many that are written at once.
    #[cfg(target_os = "linux")]
    pub(super) fn texts_of_new(&self, placement: &Placement) -> Result<[(PathBuf, String); 2], DataError> {
        let mark = MarkFile {
            format: FORMAT,
            founding: Founding::of(placement),
            node: Some(self.node.0),
            incarnation: Some(self.incarnation.to_string()),
            boot: Boot::Initialise,
            accepted_losses: Vec::new(),
        };
        let entry = InventoryFile { format: FORMAT, founding: Founding::of(placement) };
        let replica = placement.replica;
        let (at, entry_at) = (self.replica_directory(replica).join("replica.toml"), self.entry(replica));
        let damaged = |path: &Path, error: toml::ser::Error| DataError::Damaged {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mark = toml::to_string(&mark).map_err(|error| damaged(&at, error))?;
        let entry = toml::to_string(&entry).map_err(|error| damaged(&entry_at, error))?;
        Ok([(at, mark), (entry_at, entry)])
    }

    /// True if a replica is here, or has to be.
    #[cfg(target_os = "linux")]
    pub(super) fn is_known(&self, replica: ReplicaId) -> Result<bool, DataError> {
        Ok(exists(&self.replica_directory(replica).join("replica.toml"))? || exists(&self.entry(replica))?)
    }

    /// Notes that an operator has accepted that this replica has lost its records, and removes what is left of them.
    pub(crate) fn accept_loss(&self, placement: &Placement, unix_seconds: u64) -> Result<(), DataError> {
        let directory = self.replica_directory(placement.replica);
        let mark = directory.join("replica.toml");
        let mut file: MarkFile = read(&mark)?;
        file.boot = Boot::Rejoin;
        file.accepted_losses.push(unix_seconds);
        write_durably(&mark, &file)?;
        remove_all(&directory.join("log"))
    }

    /// Forgets a replica: its keyspace was dropped, or its group has gone on without it.
    pub(crate) fn remove_replica(&self, replica: ReplicaId) -> Result<(), DataError> {
        let directory = self.replica_directory(replica);
        let removed = directory.with_extension(REMOVED);
        remove_file(&self.entry(replica))?;
        remove_all(&removed)?;
        if exists(&directory)? {
            rename_durably(&directory, &removed)?;
        }
        remove_all(&removed)
    }

    /// Enters every replica of a directory that has no inventory yet.
    pub(super) fn take_inventory(&self) -> Result<(), DataError> {
        create_all(&self.path().join("inventory"))?;
        for directory in self.replica_directories()? {
            if let Some(MarkFile { founding, .. }) = self.mark(&directory.join("replica.toml"))? {
                let entry = self.entry(founding.replica());
                write_durably(&entry, &InventoryFile { format: FORMAT, founding })?;
            }
        }
        Ok(())
    }

    /// The mark of a replica, if there is one.
    pub(super) fn mark(&self, path: &Path) -> Result<Option<MarkFile>, DataError> {
        if !exists(path)? {
            return Ok(None);
        }
        let file: MarkFile = read(path).map_err(|error| match error {
            DataError::Damaged { path, reason } => DataError::DamagedMark { path, reason },
            other => other,
        })?;
        match &file.incarnation {
            Some(incarnation) if *incarnation != self.incarnation.to_string() => {
                Err(DataError::ForeignReplica {
                    path: path.to_owned(),
                    owner: file.node.map_or(self.node, NodeId),
                    incarnation: incarnation.clone(),
                    own: self.incarnation,
                })
            }
            _ => Ok(Some(file)),
        }
    }

    /// Keeps a directory that stands in the place of a replica, for an operator to look at.
    pub(super) fn set_aside(&self, directory: &Path) -> Result<(), DataError> {
        let aside = (1..).map(|number| directory.with_extension(format!("{ASIDE}{number}")));
        for aside in aside {
            if !exists(&aside)? {
                tracing::warn!(directory = %directory.display(), aside = %aside.display(), "set aside");
                return rename_durably(directory, &aside);
            }
        }
        unreachable!("numbers do not end")
    }

    /// The files of the inventory, one for each replica.
    pub(super) fn inventory_entries(&self) -> Result<Vec<PathBuf>, DataError> {
        entries(&self.path().join("inventory"), |path| path.extension().is_some_and(|it| it == "toml"))
    }

    /// The directories of replicas, without those that are being removed or were set aside.
    pub(super) fn replica_directories(&self) -> Result<Vec<PathBuf>, DataError> {
        entries(&self.path().join("replicas"), |path| path.extension().is_none())
    }

    pub(super) fn replica_directory(&self, replica: ReplicaId) -> PathBuf {
        self.path().join("replicas").join(name(replica))
    }

    pub(super) fn entry(&self, replica: ReplicaId) -> PathBuf {
        self.path().join("inventory").join(format!("{}.toml", name(replica)))
    }
}

/// The extension of the directory of a replica that is to be removed, until it is, and that of one that was set aside.
const REMOVED: &str = "removed";
const ASIDE: &str = "aside-";

/// The name of what belongs to a replica.
pub(super) fn name(replica: ReplicaId) -> String {
    format!("shard-{}-r{}", replica.shard.0, replica.index.0)
}

/// The wanted entries of a directory, in the order of names.
fn entries(directory: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, DataError> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).map_err(|source| io_error(directory, source))? {
        let path = entry.map_err(|source| io_error(directory, source))?.path();
        if is_wanted(&path) {
            paths.push(path);
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

impl Founding {
    fn of(placement: &Placement) -> Self {
        Founding {
            keyspace: placement.keyspace.0,
            keyspace_name: placement.keyspace_name.clone(),
            isolation: placement.isolation.name().to_owned(),
            baseline: placement.comparison.map(|rival| rival.name().to_owned()),
            durability: placement.durability.name().to_owned(),
            shard: placement.replica.shard.0,
            index: placement.replica.index.0,
            nodes: placement.group.replicas.iter().map(|node| node.0).collect(),
            shards: placement.shards.map(|shards| [shards.first.0, shards.count]),
            joined: placement.joined.iter().map(|shard| shard.0).collect(),
            epoch: placement.created_in.0,
            speculation: placement.speculation.map(|speculation| SpeculationText {
                variant: speculation.variant.name().to_owned(),
                orders_sessions: speculation.orders_sessions,
                chain_max: speculation.chain_max,
                untuned: speculation.untuned,
                decisions: (speculation.decisions != Decisions::default())
                    .then(|| speculation.decisions.name().to_owned()),
                grants: (speculation.grants != Grants::default())
                    .then(|| speculation.grants.name().to_owned()),
            }),
            timestamping: placement.timestamping.map(|timestamping| TimestampingText {
                order: timestamping.order.name().to_owned(),
                retry_ahead_us: timestamping.retry_ahead.as_micros() as u64,
            }),
            application: placement.application.clone(),
            retention: placement.retention.map(|retention| RetentionText {
                time_us: retention.time.as_micros() as u64,
                bytes: retention.bytes,
            }),
            apart: placement.apart.iter().map(|(shard, size)| [shard.0, size.replicas() as u32]).collect(),
        }
    }

    fn replica(&self) -> ReplicaId {
        ReplicaId { shard: ShardId(self.shard), index: ReplicaIndex(self.index) }
    }

    /// The replica, as it was created.
    fn placement(self, path: &Path) -> Result<Placement, DataError> {
        let damaged = |reason: String| DataError::Damaged { path: path.to_owned(), reason };
        let unknown = |error: UnknownName| damaged(error.to_string());
        let created_in = Epoch(self.epoch);
        let listed = self.nodes.len();
        // Earlier versions wrote the present group into the mark of a founder, at every start. Where that has become smaller,
        // the index of the founder says how large the group was at least.
        let isolation: Isolation = self.isolation.parse().map_err(unknown)?;
        let takes_even_groups = isolation.takes_even_groups() && self.baseline.is_none();
        let founders = match created_in {
            _ if takes_even_groups => GroupSize::on_log(listed),
            Epoch::FIRST => GroupSize::new(listed.max((usize::from(self.index) + 1) | 1)),
            _ => GroupSize::new(listed),
        };
        let founders = founders.map_err(|error| damaged(error.to_string()))?;
        let apart = self.apart.iter().map(|[shard, size]| {
            let size = GroupSize::on_log(*size as usize).map_err(|error| damaged(error.to_string()))?;
            Ok((ShardId(*shard), size))
        });
        let apart = apart.collect::<Result<BTreeMap<_, _>, DataError>>()?;
        let speculation = self.speculation.as_ref().map(|text| {
            let SpeculationText { variant, orders_sessions, chain_max, untuned, decisions, grants } = text;
            let variant = variant.parse().map_err(unknown)?;
            let speculation = Speculation {
                variant,
                orders_sessions: *orders_sessions,
                chain_max: *chain_max,
                untuned: *untuned,
                decisions: decisions
                    .as_deref()
                    .map_or(Ok(Decisions::default()), str::parse)
                    .map_err(unknown)?,
                grants: grants.as_deref().map_or(Ok(Grants::default()), str::parse).map_err(unknown)?,
            };
            speculation.validate().map_err(|error| damaged(error.to_string()))?;
            Ok::<_, DataError>(speculation)
        });
        let speculation = speculation.transpose()?;
        let timestamping = self.timestamping.as_ref().map(|TimestampingText { order, retry_ahead_us }| {
            let order = order.parse().map_err(unknown)?;
            Ok::<_, DataError>(Timestamping { order, retry_ahead: Duration::from_micros(*retry_ahead_us) })
        });
        let timestamping = timestamping.transpose()?;
        let retention = self.retention.map(|RetentionText { time_us, bytes }| {
            let time = Duration::from_micros(time_us);
            let retention = Retention { time, bytes };
            retention
                .is_possible()
                .then_some(retention)
                .ok_or_else(|| damaged("it retains too much".to_owned()))
        });
        let retention = retention.transpose()?;
        let replica = self.replica();
        Ok(Placement {
            replica,
            keyspace: KeyspaceId(self.keyspace),
            keyspace_name: self.keyspace_name,
            isolation,
            comparison: self.baseline.map(|name| name.parse()).transpose().map_err(unknown)?,
            speculation,
            timestamping,
            application: self.application,
            retention,
            durability: self.durability.parse().map_err(unknown)?,
            group: Shard::new(replica.shard, self.nodes.into_iter().map(NodeId).collect()),
            founders,
            shards: self.shards.map(|[first, count]| Shards { first: ShardId(first), count }),
            joined: self.joined.into_iter().map(ShardId).collect(),
            memberships: Groups { apart: apart.clone(), ..Groups::new(founders) },
            apart,
            created_in,
        })
    }
}
