//! Sites, nodes, keyspaces, shards: who holds what, and which shard a key belongs to.

mod change;
mod placing;
mod sites;
mod speculation;
mod timestamping;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::changes::Retention;
use crate::comparison::Comparison;
use crate::id::{Epoch, KeyspaceId, NodeId, ReplicaId, ReplicaIndex, ShardId, SiteId};
use crate::members::Succession;
use crate::quorum::GroupSize;
use crate::transaction::KeyRange;
pub use change::{Change, ChangeError};
pub use placing::{MoveError, Moves, Placing};
pub use sites::{Join, JoinError, Removal, RemovalError, Settled, Settlement, SiteChanges};
pub use speculation::{Decisions, Grants, Speculation, SpeculationError, SpeculationVariant};
pub use timestamping::{SerialOrder, Timestamping, TimestampingError};

/// The guarantee that a keyspace gives, which decides the protocol that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isolation {
    /// Strict serializability, by TAPIR.
    Strict,
    /// Serializability in the order of sessions, by Granola: one-round transactions.
    Serializable,
    /// Parallel snapshot isolation, by Walter: nobody waits for another site.
    ParallelSnapshot,
    /// Snapshot isolation, by STR: transactions of a node go on from what has committed there.
    Snapshot,
}

impl Isolation {
    /// Every isolation that this version can run.
    pub const ALL: [Isolation; 4] =
        [Isolation::Strict, Isolation::Serializable, Isolation::Snapshot, Isolation::ParallelSnapshot];

    /// The row of this isolation in the one table of them: a new isolation is described here, and nowhere else.
    const fn row(self) -> Row {
        match self {
            Isolation::Strict => Row {
                name: "strict",
                protocol: "TAPIR",
                promises: "strict serializability: one serial order, which agrees with real time",
                waits_for: "one round trip to a fast quorum of each shard",
            },
            Isolation::Serializable => Row {
                name: "serializable",
                protocol: "Granola",
                promises: "serializability: one serial order, which agrees with that of each session",
                waits_for: "a stable entry in the log of each shard, and one exchange of votes",
            },
            Isolation::ParallelSnapshot => Row {
                name: "parallel-snapshot",
                protocol: "Walter",
                promises: "parallel snapshot isolation: snapshots of the nearest site, causes before effects, no write that another one has not seen",
                waits_for: "a stable entry in the log of the nearest site; and for the preferred sites of keys that belong to others",
            },
            Isolation::Snapshot => Row {
                name: "snapshot",
                protocol: "STR",
                promises: "snapshot isolation: one snapshot for each transaction, and no write that another one has not seen",
                waits_for: "the replicas of each shard that it writes to; the next transaction of the node does not",
            },
        }
    }

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// The protocol that keeps the promise.
    pub const fn protocol(self) -> &'static str {
        self.row().protocol
    }

    /// The promise, in a few words.
    pub const fn promises(self) -> &'static str {
        self.row().promises
    }

    /// The wait of a commit, in a few words.
    pub const fn waits_for(self) -> &'static str {
        self.row().waits_for
    }

    /// True if each of its groups of replicas stands in one site, and every site has some: such a group is a *local site*. The groups of
    /// others are spread over the sites.
    pub const fn stands_in_sites(self) -> bool {
        matches!(self, Isolation::ParallelSnapshot)
    }

    /// True if transactions run at nodes, each of which has a machine for them in a [home](Keyspace::homes).
    pub const fn has_homes(self) -> bool {
        matches!(self, Isolation::Snapshot)
    }

    /// True if its groups may have an even number of replicas, when its own protocol runs it: they stand on logs, and the paper of that protocol uses six (ADR 0050).
    pub const fn takes_even_groups(self) -> bool {
        matches!(self, Isolation::Snapshot)
    }

    /// All of them, each with its promise and what a commit waits for, in a sentence for the help of an option.
    pub fn described() -> String {
        let each = Isolation::ALL.map(|isolation| {
            let Row { name, promises, waits_for, .. } = isolation.row();
            format!("`{name}` is {promises}; a commit waits for {waits_for}")
        });
        each.join(". ")
    }
}

/// The description of an isolation.
struct Row {
    name: &'static str,
    protocol: &'static str,
    promises: &'static str,
    waits_for: &'static str,
}

/// A name that is no value of an option.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} \"{given}\" does not exist; choose one of: {choices}")]
pub struct UnknownName {
    /// The option that was being named.
    pub what: &'static str,
    /// The name that was written.
    pub given: String,
    /// The names that could have been written.
    pub choices: String,
}

crate::names!(Isolation, "isolation");

/// The failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Acknowledged means on the disks of a majority: survives the loss of power everywhere at once.
    #[default]
    Sync,
    /// Acknowledged means in the memory of a majority: survives f failures at a time, not all at once.
    Memory,
}

impl Durability {
    /// Every choice.
    pub const ALL: [Durability; 2] = [Durability::Sync, Durability::Memory];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Durability::Sync => "sync",
            Durability::Memory => "memory",
        }
    }
}

crate::names!(Durability, "durability");

/// One shard and where its replicas are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The shard.
    pub id: ShardId,
    /// The node of each member of its group, ascending by replica index.
    pub replicas: Vec<NodeId>,
    /// How the members have changed; none if they are those that the group was created with, counted from zero.
    pub change: Option<Change>,
}

impl Shard {
    /// A shard whose group is new: a replica on each of these nodes, counted from zero.
    pub fn new(id: ShardId, replicas: Vec<NodeId>) -> Self {
        Shard { id, replicas, change: None }
    }

    /// The number of replicas.
    ///
    /// # Panics
    /// If there is no replica, or more than [`GroupSize::MAX`]; keyspaces are checked when they are created, also that their
    /// groups may have so many: see [`Keyspace::group_of`].
    pub fn group_size(&self) -> GroupSize {
        GroupSize::on_log(self.replicas.len()).expect("shards are created with a valid group size")
    }

    /// The members of the group, and those before them.
    ///
    /// # Panics
    /// As [`Shard::group_size`].
    pub fn succession(&self) -> Succession {
        self.change.as_ref().map_or_else(|| self.group_size().into(), |change| change.succession)
    }

    /// True if the members that are left without those on such nodes are no majority.
    pub fn needs_some_of(&self, nodes: impl Fn(NodeId) -> bool) -> bool {
        self.replicas.iter().filter(|node| nodes(**node)).count() * 2 > self.replicas.len()
    }

    /// The members, each with its node, ascending by index.
    pub fn members(&self) -> impl Iterator<Item = (ReplicaIndex, NodeId)> + '_ {
        let index = |position: usize| match &self.change {
            Some(change) => change.succession.present.members.at(position),
            None => ReplicaIndex(position as u8),
        };
        self.replicas.iter().enumerate().map(move |(position, node)| (index(position), *node))
    }

    /// Those who were members before the last change, each with its node, ascending by index.
    pub fn previous(&self) -> impl Iterator<Item = (ReplicaIndex, NodeId)> + '_ {
        let members = |change: &Change| change.succession.previous.map(|tenure| tenure.members);
        let nodes = self.change.iter().flat_map(|change| &change.previous);
        let indices = self.change.iter().filter_map(members).flat_map(|members| members.as_slice().to_vec());
        indices.zip(nodes.copied())
    }

    /// Where a member is, or one that was before the last change.
    pub fn node_of(&self, replica: ReplicaIndex) -> Option<NodeId> {
        self.members().chain(self.previous()).find(|(index, _)| *index == replica).map(|(_, node)| node)
    }

    /// The replicas, in order of their index.
    pub fn replica_ids(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        self.members().map(|(index, _)| ReplicaId { shard: self.id, index })
    }
}

/// A keyspace: a name, a guarantee, and the shards that its keys map to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyspace {
    /// The keyspace.
    pub id: KeyspaceId,
    /// Its name, unique in the cluster.
    pub name: String,
    /// The isolation that its transactions are promised.
    pub isolation: Isolation,
    /// The failures that its acknowledged writes survive.
    pub durability: Durability,
    /// Its shards; a key belongs to the one at [`shard_position`].
    pub shards: Vec<Shard>,
    /// Which membership this is: `shards` as they are since the last change of who the replicas are.
    pub epoch: Epoch,
    /// How far clocks are apart at most, if its owner states that: no clock ever shows so much less than another one, or
    /// itself, has shown before. Transactions are reported only once all clocks have passed their timestamps, so
    /// that timestamps follow real time.
    pub clock_bound: Option<Duration>,
    /// The comparison system that runs it in place of its isolation's protocol, if it is there to be measured.
    pub comparison: Option<Comparison>,
    /// The sites that were taken out of it, where its groups stand in sites: see [`SiteChanges`].
    pub removals: Vec<Removal>,
    /// The sites that joined it, where its groups stand in sites. They are the last of its shards.
    pub joins: Vec<Join>,
    /// The homes of its nodes, where transactions run at nodes: groups of machines without keys, each in one site (ADR 0050).
    pub homes: Vec<Shard>,
    /// How transactions speculate, where they run at nodes; none elsewhere.
    pub speculation: Option<Speculation>,
    /// The options of timestamps, where the isolation is strict and they are not the default.
    pub timestamping: Option<Timestamping>,
    /// The application whose native procedures its shards can call, where shards run procedures. Every node that hosts a replica is linked with it.
    pub application: Option<String>,
    /// How much its replicas retain for consumers of changes, where they tell any and that is not the default.
    pub retention: Option<Retention>,
    /// True if its values may have lifetimes: each of them has an envelope then, see [`crate::expiry`].
    pub expiring: bool,
}

/// The longest name of an application, in bytes.
pub const APPLICATION_NAME_BYTES_MAX: usize = 64;

/// No clock bound is greater: every transaction would take as long.
pub const CLOCK_BOUND_MAX: Duration = Duration::from_secs(1);

impl Keyspace {
    /// A keyspace of these shards and nothing beside them, in its first epoch.
    pub fn new(
        id: KeyspaceId,
        name: impl Into<String>,
        isolation: Isolation,
        durability: Durability,
        shards: Vec<Shard>,
    ) -> Self {
        Keyspace {
            id,
            name: name.into(),
            isolation,
            durability,
            shards,
            epoch: Epoch::FIRST,
            clock_bound: None,
            comparison: None,
            removals: Vec::new(),
            joins: Vec::new(),
            homes: Vec::new(),
            speculation: None,
            timestamping: None,
            application: None,
            retention: None,
            expiring: false,
        }
    }

    /// True if its replicas tell consumers what has committed (see [`crate::changes`]): those of systems that are there to be compared with do not.
    pub fn tells_changes(&self) -> bool {
        self.comparison.is_none()
    }

    /// Every group of replicas: the shards, and what the system that runs the keyspace has beside them.
    pub fn groups(&self) -> impl Iterator<Item = &Shard> {
        let service = self.comparison.as_ref().and_then(|comparison| comparison.service.as_ref());
        self.shards.iter().chain(service).chain(&self.homes)
    }

    /// True if a group is a home.
    pub fn is_home(&self, group: ShardId) -> bool {
        self.homes.iter().any(|home| home.id == group)
    }

    /// As [`Keyspace::groups`], to be changed.
    pub fn groups_mut(&mut self) -> impl Iterator<Item = &mut Shard> {
        let service = self.comparison.as_mut().and_then(|comparison| comparison.service.as_mut());
        self.shards.iter_mut().chain(service).chain(&mut self.homes)
    }

    /// How its sites have changed.
    pub fn site_changes(&self) -> SiteChanges {
        SiteChanges::new(self.removals.clone(), self.joins.clone())
    }

    /// The keyspace with these changes of its sites.
    #[must_use]
    pub fn with_site_changes(self, changes: SiteChanges) -> Self {
        let (removals, joins) = changes.into_lists();
        Keyspace { removals, joins, ..self }
    }

    /// The shards that it was created with. Keys belong to these, whatever has joined since.
    pub fn founders(&self) -> &[Shard] {
        &self.shards[..self.shards.len() - self.joins.len()]
    }

    /// The shards that clients may use: those that were not taken out with their sites, and do not still join.
    pub fn shards_that_serve(&self) -> impl Iterator<Item = &Shard> {
        let changes = self.site_changes();
        self.shards.iter().filter(move |shard| changes.serves(shard.id))
    }

    /// How far its definition has come. Of two the greater one is the later.
    pub fn version(&self) -> (Epoch, [usize; 4]) {
        (self.epoch, self.site_changes().version())
    }

    /// The shard that holds `key`.
    pub fn shard_of(&self, key: &[u8]) -> &Shard {
        let founders = self.founders();
        &founders[shard_position(key, founders.len())]
    }

    /// The shards that may hold keys of a range, in order: all of them, or the one that holds every key of the range
    /// because they share a tag in braces.
    pub fn shards_of_range(&self, range: &KeyRange) -> &[Shard] {
        let founders = self.founders();
        match tag_of(range) {
            Some(tag) => {
                let position = shard_position(tag, founders.len());
                &founders[position..=position]
            }
            None => founders,
        }
    }
}

/// The most shards a keyspace can have.
pub const SHARDS_MAX: usize = 4096;

/// The longest keyspace name, in bytes.
pub const KEYSPACE_NAME_BYTES_MAX: usize = 64;

/// Which of `shards` shards holds `key`.
///
/// Only a documented part of the key counts: what stands between the first `{` and the next `}` if that is not empty,
/// else the whole key. So keys that share a tag, like `{alice}/profile` and `{alice}/posts`, share a shard. The position
/// is `crc32(part) * shards / 2^32` with the CRC-32 of zlib, which any client in any language can compute.
pub fn shard_position(key: &[u8], shards: usize) -> usize {
    ((u64::from(crc32fast::hash(container_of(key))) * shards as u64) >> 32) as usize
}

/// The part of a key that decides its place: what stands between the first `{` and the next `}` if that is not empty, else the whole key. Where
/// objects lie in containers, it is the container's name.
pub fn container_of(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|&byte| byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|&byte| byte == b'}') {
        Some(length) if length > 0 => &rest[..length],
        _ => key,
    }
}

/// The common beginning of the keys of a range, up to the end of a tag in braces, if they all have one.
pub(crate) fn tag_of(range: &KeyRange) -> Option<&[u8]> {
    let from = range.from.as_slice();
    let open = from.iter().position(|&byte| byte == b'{')?;
    let length = from[open + 1..].iter().position(|&byte| byte == b'}').filter(|length| *length > 0)?;
    let tag = &from[..=open + 1 + length];
    // All keys that begin like this lie before what has the next byte in place of the brace.
    let mut after = tag.to_vec();
    *after.last_mut()? += 1;
    (range.to.as_ref()?.as_slice() <= after.as_slice()).then_some(tag)
}

/// A server process and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The node.
    pub id: NodeId,
    /// The site that it stands in.
    pub site: SiteId,
    /// Where it listens, as `host:port`. Empty if it was forgotten: its number is not given to another.
    pub address: String,
}

impl Node {
    /// True if it is no node of the cluster any more.
    pub fn is_forgotten(&self) -> bool {
        self.address.is_empty()
    }
}

/// The sites and nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The names of the sites, by site id.
    pub sites: Vec<String>,
    /// The nodes, by node id.
    pub nodes: Vec<Node>,
}

impl Topology {
    /// Places `shards` shards of `replicas` replicas each: a shard's replicas go to different sites as far as there are
    /// enough, and shards start at different nodes so that the load spreads.
    ///
    /// # Errors
    /// The number of replicas is not a [`GroupSize`], or there are fewer nodes than replicas.
    pub fn place(
        &self,
        shards: usize,
        replicas: usize,
        first: ShardId,
        sites: &[SiteId],
    ) -> Result<Vec<Shard>, PlacementError> {
        GroupSize::new(replicas)?;
        self.spread(shards, replicas, first, sites)
    }

    /// As [`Topology::place`], for a number of replicas that was checked.
    fn spread(
        &self,
        shards: usize,
        replicas: usize,
        first: ShardId,
        sites: &[SiteId],
    ) -> Result<Vec<Shard>, PlacementError> {
        if shards == 0 || shards > SHARDS_MAX {
            return Err(PlacementError::Shards { shards });
        }
        let by_site: Vec<Vec<NodeId>> = sites
            .iter()
            .map(|site| self.live_nodes().filter(|node| node.site == *site).map(|node| node.id).collect())
            .filter(|nodes: &Vec<NodeId>| !nodes.is_empty())
            .collect();
        let available: usize = by_site.iter().map(Vec::len).sum();
        if available < replicas {
            return Err(PlacementError::Nodes { replicas, nodes: available });
        }
        let mut placed = Vec::with_capacity(shards);
        for shard in 0..shards {
            let mut chosen = Vec::with_capacity(replicas);
            let mut round = 0;
            while chosen.len() < replicas {
                for nodes in &by_site {
                    if round < nodes.len() && chosen.len() < replicas {
                        chosen.push(nodes[(shard + round) % nodes.len()]);
                    }
                }
                round += 1;
            }
            placed.push(Shard::new(ShardId(first.0 + shard as u32), chosen));
        }
        Ok(placed)
    }

    /// Places the groups of a keyspace: those that stand in sites, so many in each of the sites; others, so many in all.
    ///
    /// # Errors
    /// As [`Topology::place`]; each site of groups that stand in sites has to have as many nodes as a group has replicas. Where groups may be of any size, an
    /// even one is as good.
    pub fn place_for(
        &self,
        isolation: Isolation,
        shards: usize,
        replicas: usize,
        first: ShardId,
        sites: &[SiteId],
    ) -> Result<Vec<Shard>, PlacementError> {
        if isolation.takes_even_groups() {
            GroupSize::on_log(replicas)?;
            return self.spread(shards, replicas, first, sites);
        }
        if !isolation.stands_in_sites() {
            return self.place(shards, replicas, first, sites);
        }
        let count = shards * sites.len();
        if shards == 0 || count > SHARDS_MAX {
            return Err(PlacementError::Shards { shards: count });
        }
        let mut placed = Vec::with_capacity(count);
        for site in sites {
            let next = ShardId(first.0 + placed.len() as u32);
            placed.extend(self.place(shards, replicas, next, &[*site])?);
        }
        Ok(placed)
    }

    /// Groups of machines for these nodes. Three nodes share a home, of one site or of as many, so that its decisions survive one of them;
    /// a node that is left over has a home of its own.
    ///
    /// # Errors
    /// Decisions are to stand across sites, and the nodes are in fewer than three.
    pub fn homes(
        &self,
        first: ShardId,
        decisions: Decisions,
        has_machine: impl Fn(NodeId) -> bool,
    ) -> Result<Vec<Shard>, PlacementError> {
        let of_site = |site: usize| -> Vec<NodeId> {
            let here = |node: &&Node| usize::from(node.site.0) == site && has_machine(node.id);
            self.nodes.iter().filter(here).map(|node| node.id).collect()
        };
        let nodes: Vec<Vec<NodeId>> = (0..self.sites.len()).map(of_site).collect();
        let homes = match decisions {
            Decisions::Site => homes_in_sites(&nodes),
            Decisions::AcrossSites => homes_across_sites(nodes)?,
        };
        Ok(homes.into_iter().zip(first.0..).map(|(nodes, id)| Shard::new(ShardId(id), nodes)).collect())
    }
}

/// Lets each node lead as many groups as any other of those that hold them, as far as that goes: the first replica of a new group leads it.
/// Of nodes that lead as few, the one leads that was placed first.
pub fn spread_leaders(groups: &mut [Shard]) {
    let mut leads: BTreeMap<NodeId, usize> = BTreeMap::new();
    for group in groups {
        let led = |node: &NodeId| leads.get(node).copied().unwrap_or(0);
        let first = (0..group.replicas.len()).min_by_key(|position| led(&group.replicas[*position]));
        if let Some(first) = first {
            group.replicas.rotate_left(first);
            *leads.entry(group.replicas[0]).or_default() += 1;
        }
    }
}

/// So many nodes share a home.
const HOME_NODES: usize = 3;

/// The nodes of each home, given those of each site: each home is in one.
fn homes_in_sites(nodes: &[Vec<NodeId>]) -> Vec<Vec<NodeId>> {
    let of_site = |nodes: &Vec<NodeId>| {
        let (together, left) = nodes.split_at(nodes.len() / HOME_NODES * HOME_NODES);
        let homes = together.chunks(HOME_NODES).chain(left.chunks(1)).map(<[NodeId]>::to_vec);
        homes.collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of_site).collect()
}

/// The nodes of each home, given those of each site: each home is in three.
fn homes_across_sites(mut left: Vec<Vec<NodeId>>) -> Result<Vec<Vec<NodeId>>, PlacementError> {
    left.retain(|nodes| !nodes.is_empty());
    if left.len() < HOME_NODES {
        return Err(PlacementError::HomesAcrossSites { sites: left.len() });
    }
    let mut homes: Vec<Vec<NodeId>> = Vec::new();
    while left.len() >= HOME_NODES {
        // The sites that have most nodes left: so fewest are left over.
        left.sort_by_key(|nodes| (Reverse(nodes.len()), nodes[0]));
        homes.push(left[..HOME_NODES].iter_mut().map(|nodes| nodes.remove(0)).collect());
        left.retain(|nodes| !nodes.is_empty());
    }
    homes.extend(left.into_iter().flatten().map(|node| vec![node]));
    Ok(homes)
}

/// Why shards cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Not an odd number of replicas.
    #[error(transparent)]
    GroupSize(#[from] crate::quorum::InvalidGroupSize),
    /// No shards, or too many.
    #[error("a keyspace has between 1 and {max} shards, not {shards}", max = SHARDS_MAX)]
    Shards {
        /// How many were asked for.
        shards: usize,
    },
    /// Fewer nodes than replicas.
    #[error("{replicas} replicas need {replicas} nodes in the chosen sites, and there are {nodes}")]
    Nodes {
        /// How many replicas were asked for.
        replicas: usize,
        /// How many nodes there are.
        nodes: usize,
    },
    /// Fewer sites than a home across sites has nodes.
    #[error(
        "decisions that stand across sites need nodes of the keyspace in 3 sites, and they are in {sites}: leave out across-sites, or choose more sites"
    )]
    HomesAcrossSites {
        /// In how many sites the nodes are.
        sites: usize,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Key;
    use crate::comparison::System;

    fn topology(nodes_per_site: &[usize]) -> Topology {
        let mut topology = Topology::default();
        for (site, nodes) in nodes_per_site.iter().enumerate() {
            topology.sites.push(format!("site{site}"));
            for _ in 0..*nodes {
                let id = NodeId(topology.nodes.len() as u16);
                topology.nodes.push(Node { id, site: SiteId(site as u16), address: "here:1".to_owned() });
            }
        }
        topology
    }

    #[test]
    fn a_tag_in_braces_decides_the_shard() {
        assert_eq!(shard_position(b"{alice}/posts", 64), shard_position(b"alice", 64));
        assert_eq!(container_of(b"{}x"), b"{}x");
        assert_eq!(container_of(b"a{b"), b"a{b");
        assert_eq!(container_of(b"a{b}{c}"), b"b");
    }

    #[test]
    fn a_range_within_a_tag_has_one_shard() {
        let mut keyspace = Keyspace::new(KeyspaceId(1), "", Isolation::Strict, Durability::Sync, Vec::new());
        keyspace.shards = (0..16).map(|id| Shard::new(ShardId(id), Vec::new())).collect();
        let shards = |from: &'static str, to: Option<&'static str>| {
            let range = KeyRange { from: Key::from(from), to: to.map(Key::from) };
            keyspace.shards_of_range(&range).iter().map(|shard| shard.id).collect::<Vec<_>>()
        };
        let alone = [keyspace.shard_of(b"{alice}/posts").id];
        assert_eq!(shards("{alice}", Some("{alice~")), alone, "up to the first key without the tag");
        assert_eq!(shards("{alice}/a", Some("{alice}/z")), alone);
        assert_eq!(
            shards("x{alice}", Some("x{alice}9")),
            alone,
            "what stands before the tag does not matter"
        );
        let everywhere = [("{alice}", None), ("{alice}", Some("{alice~0")), ("{alice}", Some("{bob}"))];
        for (from, to) in everywhere.into_iter().chain([("{}a", Some("{}b")), ("{alice", Some("{alice~"))]) {
            assert_eq!(shards(from, to).len(), 16, "{from} to {to:?}");
        }
    }

    #[test]
    fn a_timestamp_server_is_a_group_that_holds_no_keys() {
        let shard = |id| Shard::new(ShardId(id), vec![NodeId(0)]);
        let comparison = Comparison { rival: System::TxnOcc.into(), service: Some(shard(9)) };
        let keyspace = Keyspace {
            comparison: Some(comparison),
            ..Keyspace::new(KeyspaceId(1), "", Isolation::Strict, Durability::Sync, vec![shard(7), shard(8)])
        };
        assert_eq!(keyspace.groups().map(|group| group.id.0).collect::<Vec<_>>(), [7, 8, 9]);
        let holders = (0..100u8).map(|key| keyspace.shard_of(&[key]).id.0).collect::<BTreeSet<_>>();
        assert_eq!(holders, BTreeSet::from([7, 8]));
    }

    #[test]
    fn placement_is_pinned_for_ever() {
        let keys = ["alice", "bob", "carol", "dave"];
        assert_eq!(keys.map(|key| shard_position(key.as_bytes(), 16)), [2, 15, 6, 9]);
    }

    #[test]
    fn replicas_of_a_shard_stand_in_different_sites() {
        let topology = topology(&[2, 2, 2]);
        let sites = [SiteId(0), SiteId(1), SiteId(2)];
        let shards = topology.place(2, 3, ShardId(1), &sites).unwrap();
        assert_eq!(shards[0].replicas, [NodeId(0), NodeId(2), NodeId(4)]);
        assert_eq!(shards[1].replicas, [NodeId(1), NodeId(3), NodeId(5)]);
        let shards = topology.place(1, 5, ShardId(1), &sites).unwrap();
        assert_eq!(shards[0].replicas, [NodeId(0), NodeId(2), NodeId(4), NodeId(1), NodeId(3)]);
    }

    #[test]
    fn nodes_lead_as_many_groups_each() {
        for (nodes_per_site, shards, most) in
            [(vec![1, 1, 1], 12, 4), (vec![2, 2, 2], 12, 2), (vec![2, 1, 1], 8, 2)]
        {
            let topology = topology(&nodes_per_site);
            let mut groups =
                topology.place(shards, 3, ShardId(1), &[SiteId(0), SiteId(1), SiteId(2)]).unwrap();
            let placed = groups.clone();
            spread_leaders(&mut groups);
            assert_eq!(groups[0], placed[0], "one shard is led where it was placed first");
            let mut leads: BTreeMap<NodeId, usize> = BTreeMap::new();
            for (group, before) in groups.iter().zip(&placed) {
                *leads.entry(group.replicas[0]).or_default() += 1;
                let nodes = |shard: &Shard| shard.replicas.iter().copied().collect::<BTreeSet<_>>();
                assert_eq!(nodes(group), nodes(before));
            }
            assert_eq!(leads.len(), topology.nodes.len());
            assert!(leads.values().all(|leads| *leads <= most), "{leads:?}");
        }
    }

    #[test]
    fn local_sites_stand_in_their_sites() {
        let topology = topology(&[3, 3, 1]);
        let place = |shards, replicas, sites: &[u16]| {
            let sites: Vec<SiteId> = sites.iter().copied().map(SiteId).collect();
            topology.place_for(Isolation::ParallelSnapshot, shards, replicas, ShardId(4), &sites)
        };
        let placed = place(2, 3, &[0, 1]).unwrap();
        let of_site = |site: u16| {
            topology.nodes.iter().filter(move |node| node.site == SiteId(site)).map(|node| node.id)
        };
        for (shard, site) in placed.iter().zip([0, 0, 1, 1]) {
            assert_eq!(shard.replicas.iter().copied().collect::<BTreeSet<_>>(), of_site(site).collect());
        }
        assert_eq!(placed.iter().map(|shard| shard.id.0).collect::<Vec<_>>(), [4, 5, 6, 7]);
        assert_eq!(place(1, 3, &[0, 2]), Err(PlacementError::Nodes { replicas: 3, nodes: 1 }));
        assert_eq!(place(0, 1, &[0]), Err(PlacementError::Shards { shards: 0 }));
    }

    #[test]
    fn three_nodes_of_a_site_share_a_home() {
        let homes = |nodes_per_site: &[usize], without: u16| {
            let topology = topology(nodes_per_site);
            let homes = topology.homes(ShardId(7), Decisions::Site, |node| node != NodeId(without)).unwrap();
            let nodes = |home: &Shard| home.replicas.iter().map(|node| node.0).collect::<Vec<_>>();
            assert!(homes.iter().zip(7..).all(|(home, id)| home.id == ShardId(id)), "{homes:?}");
            homes.iter().map(nodes).collect::<Vec<_>>()
        };
        assert_eq!(homes(&[3, 1], 9), [vec![0, 1, 2], vec![3]]);
        assert_eq!(homes(&[5], 9), [vec![0, 1, 2], vec![3], vec![4]], "two would not survive one of them");
        assert_eq!(
            homes(&[3, 1], 1),
            [vec![0], vec![2], vec![3]],
            "a node without a machine is none of them"
        );
    }

    #[test]
    fn a_home_across_sites_has_a_node_of_each() {
        let homes = |nodes_per_site: &[usize]| {
            let homes = topology(nodes_per_site).homes(ShardId(7), Decisions::AcrossSites, |_| true);
            let nodes = |home: &Shard| home.replicas.iter().map(|node| node.0).collect::<Vec<_>>();
            homes.map(|homes| homes.iter().map(nodes).collect::<Vec<_>>())
        };
        assert_eq!(homes(&[1, 1, 1]), Ok(vec![vec![0, 1, 2]]));
        assert_eq!(homes(&[2, 2, 2]), Ok(vec![vec![0, 2, 4], vec![1, 3, 5]]));
        assert_eq!(homes(&[1, 2, 2, 1]), Ok(vec![vec![1, 3, 0], vec![2, 4, 5]]), "none is left over");
        assert_eq!(homes(&[3, 1, 1]), Ok(vec![vec![0, 3, 4], vec![1], vec![2]]));
        assert_eq!(homes(&[3, 3]), Err(PlacementError::HomesAcrossSites { sites: 2 }));
        assert_eq!(homes(&[3]), Err(PlacementError::HomesAcrossSites { sites: 1 }));
    }

    #[test]
    fn impossible_placements_are_refused() {
        let topology = topology(&[1, 1]);
        let sites = [SiteId(0), SiteId(1)];
        let error = topology.place(1, 3, ShardId(1), &sites).unwrap_err();
        assert_eq!(error, PlacementError::Nodes { replicas: 3, nodes: 2 });
        assert!(matches!(topology.place(1, 2, ShardId(1), &sites), Err(PlacementError::GroupSize(_))));
        assert!(matches!(topology.place(0, 1, ShardId(1), &sites), Err(PlacementError::Shards { .. })));
    }
}
